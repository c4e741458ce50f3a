// SPDX-License-Identifier: Apache-2.0
// What the parts of the interpreter share: instructions, the program of a stage, memory with its
// shadow, and threads. A register is a Cell; a vector value is as many consecutive cells as it has
// lanes, so no instruction knows of lanes. Constants live in the frame too, at negative numbers.
#ifndef HEALD_IR_INTERP_MACHINE_H
#define HEALD_IR_INTERP_MACHINE_H

#include "ir/interp.h"
#include "ir/scalar.h"

typedef union Cell {
    int64_t i; // bool and integers, in the range of their type
    double d;  // f64
    float f;   // f32, f16, bf16
} Cell;

typedef enum Op {
#define OP(NAME) OP_##NAME,
#include "ir/interp_ops.def"
#undef OP
    OP_COUNT
} Op;

typedef struct Ins {
    uint16_t op, aux;
    int32_t a, b, c, d, e;
} Ins;

enum { MAX_RANK = 8, MAX_FRAME = 1 << 20 };
typedef enum Segment { SEG_FIXED, SEG_BLOCK, SEG_THREAD, SEG_COUNT } Segment;

// Who owns an element of a buffer `over` a mapping: entry[start[e]] .. entry[end[e]] for the
// row-major element number e of the mapping's shape, workers ascending.
typedef struct Owner {
    int32_t worker;
    int32_t slot, all; // among the worker's tasks; among those of all workers
} Owner;
typedef struct OwnerTable {
    const Mapping *map;
    int64_t nelem;
    int64_t shape[MAX_RANK], stride[MAX_RANK]; // of the mapping; row-major
    Owner *first;                              // of each element; worker -1: nobody owns it
    int64_t *start, *end;
    Owner *entry;
    bool shared; // some element has several owners
} OwnerTable;

enum { MARK_WRITTEN = 1, MARK_COPYING = 2 }; // of a unit of memory

// State of an mbarrier, kept in shared memory as its element.
typedef struct Mbarrier {
    int64_t arrivals, pending; // a phase wants; still to come in this one
    int64_t bytes;             // announced minus arrived
    int64_t phase;             // number of completed phases
    uint32_t *clock;           // what those who arrived knew, when races are checked
    int64_t *seen; // for each thread of the block: 2 + the last phase that it waited for; 0: none
} Mbarrier;

typedef struct Shadow Shadow; // what the race detector remembers of one unit of memory

// A buffer as a stage sees it.
typedef struct Mem {
    const Buffer *buf;
    DType type;
    int rank, size_bytes;
    int64_t extent[MAX_RANK], stride[MAX_RANK]; // stride: in elements, unless `layout`
    int64_t nelem;                              // of storage
    Segment segment;
    uintptr_t data;       // offset in the segment's data; an address for SEG_FIXED
    uintptr_t mark;       // the same for its marks, one a unit
    bool tracked;         // has marks
    bool slow;            // not every access is: check extents, check the mark, go
    int unit_bytes;       // of a mark: the smallest element of the buffers that share the storage
    const Layout *layout; // other than strided
    const int32_t *table; // of the layout: element for the row-major number of an index, or NULL
    const OwnerTable *owners;
    bool by_lane;   // owners are lanes, and all slots belong to the thread
    int32_t worker; // register of the worker, unless by_lane; of this buffer alone, as the next
    int32_t made;   // register that counts its ALLOCs
    Shadow *shadow; // SEG_FIXED, when races are checked: of each unit
} Mem;

// Memory that outlives a stage: parameters and workspace.
typedef struct Store {
    void *data;
    uint8_t *mark;
    int64_t nelem;
    int size_bytes;
    Shadow *shadow;
} Store;

typedef struct RefPlace {
    int mem;
    int32_t index, length; // registers: one for each axis, consecutive
} RefPlace;

typedef struct Call {
    const Intrinsic *intr;
    int nargs, role;
    int32_t dst;
    DType *arg_type;
    int32_t *arg;      // register of each value argument
    RefPlace *place;   // of each REF argument
    const char **text; // of each STRING argument, else NULL
} Call;

typedef struct ScalarOp {
    bool is_intrinsic;
    uint16_t kind; // NodeKind or IntrinsicId
    DType type;    // of the result
    int nargs;
    DType arg_type[SCALAR_MAX_OPERANDS];
} ScalarOp;

typedef struct Role {
    Node *cond;
    int parent;     // -1: the block
    int entry;      // code that computes whether the thread is a member
    int32_t result; // into this register
    Loc loc;
} Role;

typedef struct Program {
    const Stage *stage;
    VEC(Ins) code;
    VEC(Loc) loc; // of each instruction
    VEC(Cell) constants;
    VEC(Mem) mems;
    VEC(Call) calls;
    VEC(ScalarOp) scalars;
    VEC(Role) roles;
    VEC(Sym) messages; // of CHECKs
    int nreg;
    int64_t thread_bytes, thread_marks; // local memory of a thread
    int64_t block_bytes, block_marks;   // shared or core-local memory
    bool whole_grid;                    // a grid barrier is used: all blocks live
} Program;

// How a thread left the machine, or a call went. OUT_BLOCKED: it waits, or others have their turn.
typedef enum Outcome { OUT_NEXT, OUT_BLOCKED, OUT_FAILED, OUT_DONE } Outcome;

typedef enum Wait {
    WAIT_NOTHING,
    WAIT_BARRIER,
    WAIT_NAMED,
    WAIT_WARP,
    WAIT_GRID,
    WAIT_MBARRIER,
    WAIT_END
} Wait;

typedef struct Run Run;
typedef struct Block Block;
typedef struct Thread Thread;

// Threads that meet: at a barrier of a role or block, a named barrier, a warp's exchange, or the
// whole grid.
typedef struct Meeting {
    int arrived, wanted;
    const Thread
        *first; // who came first; all must come to the same instruction, but for named barriers
} Meeting;

// An asynchronous copy under way.
typedef struct Copy {
    struct Copy *next;
    Thread *owner;
    int pc; // of the call that started it
    const Mem *dst, *src;
    int64_t nelem, part, cap, cap_bytes; // part: those that come from the source
    int64_t *dst_element, *src_element;
    void *snapshot;  // the source as it was
    Mbarrier *bar;   // bulk: completes bytes here
    int64_t group;   // cp_async: 0 until committed
    uint32_t *clock; // of the owner at the start, for bulk copies when races are checked
} Copy;

typedef struct CopyList {
    Copy *first, **last;
} CopyList;

struct Thread {
    Cell *r;
    int pc; // of the instruction that waits or failed
    Wait wait;
    Block *block;
    int index; // in the block
    int live;  // among the threads that live together
    uintptr_t data[SEG_COUNT], mark[SEG_COUNT];
    bool *member;     // of each role
    Meeting *meeting; // it waits in
    Mbarrier *bar;    // it waits for
    int64_t parity;
    RefPlace place;               // of bar, for messages
    CopyList copies;              // its cp_async copies, oldest first
    int64_t committed, completed; // groups of them
    uint32_t *clock; // vector clock, one entry for each live thread; NULL: races are not checked
    uint32_t *fence_clock; // the clock at its last fence
    uint32_t *seen_clock;  // what its atomics saw, to be joined at the next fence
    const struct Foreign *foreign, *seen_foreign; // the same of blocks that ran before
    uint32_t proxy_fence;                         // own clock at the last fence_async
};

enum { NAMED_BARRIERS = 16, WARP = 32 };

struct Block {
    int64_t number;
    void *data;
    uint8_t *mark;
    Shadow *shadow; // of its units
    int *leader,
        *size; // of the block, then of each role: first member (-1: none), number of members
    Thread *thread;
    Meeting *role; // the block's, then each role's
    Meeting *warp;
    Meeting named[NAMED_BARRIERS];
};

struct Run {
    Arena arena;
    jmp_buf nomem;
    const Kernel *kernel;
    void *const *data;
    const int64_t *dims;
    const InterpOptions *options;
    Diag *diag;
    Map stores; // Buffer -> Store
    Map owners; // Mapping -> OwnerTable
    const Program *program;
    Block *blocks;
    Thread *threads;
    int nblock, nthread; // live blocks; threads of each
    int64_t grid[KERNEL_MAX_GRID];
    int64_t fuel; // steps until the next look at the limits
    int64_t steps_left, max_steps;
    Meeting all;           // threads at a grid barrier
    CopyList bulk;         // under way
    Copy *spare;           // records to use again
    struct Tracker *races; // NULL: not checked
};

// interp_compile.c. NULL with diagnostics.
Program *interp_compile(Run *run, const Stage *stage);
const OwnerTable *interp_owners(Run *run, const Mapping *map, Loc loc);

// interp_constant.c: a pure scalar expression in which `var` has a value; false if it is not that.
bool interp_evaluate(const Node *n, const Var *var, Scalar value, Scalar *out);

// interp_exec.c: runs a thread until it waits, ends or fails.
Outcome interp_exec(Run *run, Thread *t);

// interp_memory.c. An access of one element by the slow way: element number in the storage, or -1
// with diagnostics.
typedef enum Access {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_ATOMIC,
    ACCESS_START_COPY,
    ACCESS_START_BULK
} Access;
int64_t memory_locate(Run *run, Thread *t, const Mem *m, const int64_t *index, Access access);
// Reads or writes an element of a buffer `over` a mapping as `worker` holds it, or, without, as the
// core that owns all lanes does.
bool memory_over(Run *run, Thread *t, const Mem *m, const int64_t *index, bool has_worker,
                 int64_t worker, bool write, Cell *value);
// Do workers that share an element agree on it? Called where all threads of the block have arrived
// or ended.
bool memory_replicas_agree(Run *run, const Block *block);
void memory_error(Run *run, const Thread *t, const Mem *m, const int64_t *index, const char *what);
Cell memory_get(DType type, const void *p);
void memory_put(DType type, void *p, Cell v);
static inline void *memory_at(const Thread *t, const Mem *m, int64_t element)
{
    return (void *)(t->data[m->segment] + m->data + (uintptr_t)(element * m->size_bytes));
}
static inline uint8_t *memory_mark(const Thread *t, const Mem *m, int64_t unit)
{
    return (uint8_t *)(t->mark[m->segment] + m->mark + (uintptr_t)unit);
}

// interp_intrinsics.c
Outcome interp_call(Run *run, Thread *t, const Call *call);

// interp_fragment.c: what a warp does together with fragments. The last lane to come does it.
Outcome call_mma(Run *run, Thread *t, const Call *call);
Outcome call_matrices(Run *run, Thread *t, const Call *call);
Outcome call_matrix_rows(Run *run, Thread *t, const Call *call);

// interp_sync.c: who waits for whom.
void sync_create(Run *run); // for the live blocks of a stage
void sync_start(Run *run);  // before blocks start
bool sync_finish(Run *run); // after they ended
bool sync_advance(
    Run *run); // nobody can go on: completes a copy, or reports the threads stuck and gives false
// The thread arrives. OUT_NEXT for the last one: the others then wait no more, and go on after
// their instruction.
Outcome sync_meet(Run *run, Thread *t, Meeting *m, Wait wait);
bool mbarrier_passed(const Thread *t);
Outcome mbarrier_arrive(Run *run, Thread *t, Mbarrier *bar);
Outcome mbarrier_wait(Run *run, Thread *t, Mbarrier *bar, int64_t parity);
void mbarrier_settle(Mbarrier *bar); // completes the phase if nothing is missing

// interp_copy.c: copies that complete late.
// Of the first `part` elements; the others of dst become 0.
bool copy_start(Run *run, Thread *t, const RefPlace *dst, const RefPlace *src, int64_t part,
                Mbarrier *bar, Copy **out);
bool copy_finish(Run *run, Copy *copy);
void copy_push(CopyList *list, Copy *copy);
Copy *copy_pop(CopyList *list);

// interp_race.c: happens-before by vector clocks.
typedef struct Tracker Tracker;
void race_create(Run *run);
void race_next_stage(Run *run);
void race_threads(Run *run); // clocks for the live threads of a stage
void race_start(Run *run);   // other blocks start
Shadow *race_shadow(Run *run, int64_t nunit);
// False with diagnostics if the access races with one before; otherwise it is remembered.
bool race_check(Run *run, Thread *t, const Mem *m, const int64_t *index, int64_t unit, int nunit,
                Access access);
void race_copied(Run *run, const Copy *c); // the copy's owner has waited: it counts as written now
void race_atomic(Run *run, Thread *t, const Mem *m, int64_t element);
void race_fence(Run *run, Thread *t);
void race_fence_async(Thread *t);
void race_meet(Run *run, const Meeting *m); // all threads in it know what each knows
void race_join(Run *run, uint32_t *into, const uint32_t *from);
void race_reset(Run *run, uint32_t **clock); // knows nothing; made if NULL
void race_release(Run *run, Thread *t,
                  uint32_t *clock); // who acquires the clock knows what t knows
void race_snapshot(Run *run, Thread *t, uint32_t **clock);
void race_acquire(Run *run, Thread *t, const uint32_t *clock);

// interp_run.c
Loc interp_loc(const Run *run, const Thread *t);
void interp_error(Run *run, const Thread *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void interp_where(Run *run, const Thread *t); // a note

static inline Scalar scalar_from(DType type, Cell c)
{
    Scalar s = {.type = type};
    if (type == DT_F64) s.v.f = c.d;
    else if (dtype_is_float(type)) s.v.f = (double)c.f;
    else s.v.i = c.i;
    return s;
}
static inline Cell scalar_cell(const Scalar *s)
{
    Cell c = {0};
    if (s->type == DT_F64) c.d = s->v.f;
    else if (dtype_is_float(s->type)) c.f = (float)s->v.f;
    else c.i = s->v.i;
    return c;
}

#endif

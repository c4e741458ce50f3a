// SPDX-License-Identifier: Apache-2.0
// The compiler from a stage's body to a Program: statements (interp_compile.c), expressions
// (interp_expr.c), task mappings (interp_tasks.c) and the placing of buffers (interp_place.c).
#ifndef HEALD_IR_INTERP_COMPILE_H
#define HEALD_IR_INTERP_COMPILE_H

#include "ir/interp_machine.h"

enum { NO_REG = INT32_MIN, MAX_DEPTH = 1000 };

// The innermost loop that BREAK and CONTINUE mean: jumps whose targets are not known yet.
typedef struct Exits {
    struct Exits *outer;
    VEC(int) breaks, continues;
} Exits;

typedef struct Compiler {
    Run *run;
    Arena *a;
    const Stage *stage;
    Program *p;
    Map vars;      // Var -> register + 1
    Map defines;   // Var -> Node: what a DEFINE gave it
    Map mems;      // Buffer -> number in p->mems + 1
    Map constants; // bits -> number + 1
    Map units;     // Buffer that others alias -> smallest element among them, in bytes
    int top;       // registers in use
    int role;      // the enclosing ROLE, -1: the block
    int32_t lane;  // register of VAR_LANE, NO_REG outside lane loops
    bool pure; // the condition of a role: only the thread and what is the same for all may be read
    Exits *exits;
    bool failed;
} Compiler;

int compile_emit(Compiler *c, Loc loc, Op op, Ins ins); // the instruction's number
#define EMIT(c, loc, op, ...) compile_emit((c), (loc), OP_##op, (Ins){__VA_ARGS__})
int32_t compile_reg(Compiler *c, int n); // n consecutive new registers
int32_t compile_const(Compiler *c, Cell v);
int32_t compile_own_reg(Compiler *c); // a register that nothing else uses, 0 at first
static inline int32_t compile_int(Compiler *c, int64_t v)
{
    return compile_const(c, (Cell){.i = v});
}
static inline int compile_here(const Compiler *c)
{
    return c->p->code.n;
}
void compile_patch(Compiler *c, int ins, int target); // of a jump
void compile_error(Compiler *c, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// All lanes of n, in consecutive registers: in dst, or wherever they are when dst is NO_REG.
int32_t compile_expr(Compiler *c, Node *n, int32_t dst);
void compile_stmt(Compiler *c, Node *n);
void compile_tasks(Compiler *c, Node *mapfor);
void compile_bind(Compiler *c, Var *v, int32_t reg);
// The end of a loop: its BREAKs and CONTINUEs get their targets, and the loop around it is the
// innermost again.
void compile_exits(Compiler *c, Exits *exits, int break_target, int continue_target);
// n values in consecutive registers.
int32_t compile_pack(Compiler *c, Loc loc, int n, const int32_t *index);
// A jump, to be patched, that is taken when the index is outside the buffer.
int compile_guard(Compiler *c, Loc loc, int mem, const int32_t *index);
// An access, with a and aux set, of a buffer `over` a mapping.
void compile_over(Compiler *c, Loc loc, Op op, Ins ins, const Mem *m, const int32_t *index);

int compile_mem(Compiler *c, const Buffer *b,
                Loc loc);              // number of the buffer, -1 with a diagnostic
void compile_place_stage(Compiler *c); // parameters, workspace, shared and core-local memory
int compile_place_local(Compiler *c, const Buffer *b); // at its ALLOC
const Buffer *compile_root(const Buffer *b); // whose storage it shares, itself if nobody's
int compile_element_bytes(const Buffer *b);

#endif

// SPDX-License-Identifier: Apache-2.0
// Each thing that the interpreter reports, at the line that is wrong.
#include "interp_build.h"

#include "ir/interp.h"

static Build build;

static Build *start(TargetKind kind, int64_t grid, int64_t block)
{
    build_start(&build, kind, grid, block);
    build.options.check_races = true;
    return &build;
}

static void notes(Build *k, const char *text, int line)
{
    for (int i = 0; i < k->diag.messages.n; i++) {
        const Message *m = &k->diag.messages.at[i];
        if (m->severity == SEV_NOTE && strstr(m->text, text) &&
            (!line || sources_place(&k->sources, m->loc).line == line))
            return;
    }
    build_show(k);
    fail_msg("no note ...%s... at line %d", text, line);
}

static Node *effect(Build *k, IntrinsicId id, Loc loc)
{
    return build_node(k, loc, N_EVAL, 1, (Node *[]){build_intrinsic(k, loc, id, DT_NONE, 0, NULL)});
}

static void missing_barrier(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    int64_t y[4];
    Buffer *by = OUTPUT("y", y, DT_I64, 4), *s = SHARED("s", DT_I64, 4);
    Node *write = STORE(s, THREAD, THREAD);
    int line = __LINE__ + 1;
    Node *value = LOAD(s, SUB(INT(3), THREAD));
    build_fails(k, SEQ(write, SEQ(), STORE(by, value, THREAD)), line, "never written: 's'[3]");
    build_end(k);
}

static void shared_race(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    int64_t y[4];
    Buffer *by = OUTPUT("y", y, DT_I64, 4), *s = SHARED("s", DT_I64, 4);
    // Between reads and writes a barrier is missing. The last thread to arrive goes on first.
    int line = __LINE__ + 1;
    Node *value = LOAD(s, SUB(INT(3), THREAD));
    Node *again = STORE(s, INT(7), THREAD);
    build_fails(k, SEQ(STORE(s, THREAD, THREAD), BARRIER, STORE(by, value, THREAD), again), line,
                "race: read of what another thread writes: 's'[3]");
    notes(k, "written here by thread 3 of block 0", line + 1);
    build_end(k);
    k = start(TARGET_CUDA, 1, 4);
    by = OUTPUT("y", y, DT_I64, 4), s = SHARED("s", DT_I64, 4);
    line = __LINE__ + 1;
    again = STORE(s, INT(7), MOD(ADD(THREAD, INT(3)), INT(4)));
    build_fails(k,
                SEQ(STORE(s, THREAD, THREAD), BARRIER, STORE(by, LOAD(s, THREAD), THREAD), again),
                line, "race: write to what another thread reads: 's'[3]");
    notes(k, "read here by thread 3 of block 0", 0);
    build_end(k);
}

static void global_race(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 3, 1);
    int64_t y[2];
    Buffer *by = OUTPUT("y", y, DT_I64, 2);
    int line = __LINE__ + 1;
    Node *write = STORE(by, BLOCK_X, DIV(BLOCK_X, INT(2)));
    build_fails(k, write, line, "race: write to what another thread writes: 'y'[0]");
    notes(k, "written here by thread 0 of another block", line);
    build_end(k);
}

static void copy_before_wait(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 1);
    float x[4] = {1, 2, 3, 4}, y[1];
    Buffer *bx = INPUT("x", x, DT_F32, 4), *by = OUTPUT("y", y, DT_F32, 1),
           *s = SHARED("s", DT_F32, 4);
    Node *copy = DO(CP_ASYNC, REF(s, SPAN(INT(0), INT(4))), REF(bx, SPAN(INT(0), INT(4))));
    int line = __LINE__ + 1;
    Node *value = LOAD(s, INT(2));
    build_fails(
        k,
        SEQ(copy, effect(k, INTR_CP_COMMIT, HERE), DO(CP_WAIT, INT(1)), STORE(by, value, INT(0))),
        line, "read of an asynchronous copy's destination before waiting for it: 's'[2]");
    build_end(k);
}

// Each thread has waited for its own copies only, and no barrier follows.
static void copy_of_another_thread(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 2);
    float x[2] = {1, 2}, y[2];
    Buffer *bx = INPUT("x", x, DT_F32, 2), *by = OUTPUT("y", y, DT_F32, 2),
           *s = SHARED("s", DT_F32, 2);
    Node *copy = DO(CP_ASYNC, REF(s, THREAD), REF(bx, THREAD));
    Node *flip = SUB(INT(1), THREAD), *wait = DO(CP_WAIT, INT(0));
    Node *turn = IF(EQ(THREAD, INT(1)), SEQ(copy, effect(k, INTR_CP_COMMIT, HERE), wait));
    int line = __LINE__ + 1;
    Node *value = LOAD(s, flip);
    Node *read = IF(EQ(THREAD, INT(0)), STORE(by, value, THREAD));
    Var *i = VARIABLE("i");
    Node *late = LOOP(i, INT(0), INT(100000), SEQ()); // lets the other thread have its turn
    build_fails(k, SEQ(IF(EQ(THREAD, INT(0)), late), turn, read), line,
                "race: read of what another thread writes: 's'[1]");
    build_end(k);
}

// The barrier of a role does not order the rest of the block.
static void barrier_of_a_role(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    int64_t y[4];
    Buffer *by = OUTPUT("y", y, DT_I64, 4), *s = SHARED("s", DT_I64, 4);
    Node *first = SEQ(STORE(s, THREAD, THREAD), BARRIER,
                      STORE(by, LOAD(s, OP(BXOR, THREAD, INT(1))), THREAD));
    int line = __LINE__ + 1;
    Node *value = LOAD(s, INT(0));
    build_fails(
        k, SEQ(ROLE(LT(THREAD, INT(2)), first), ROLE(LT(INT(1), THREAD), STORE(by, value, THREAD))),
        line, "race: read of what another thread writes: 's'[0]");
    build_end(k);
}

static void copy_source_overwritten(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 1);
    float x[4] = {1, 2, 3, 4};
    Buffer *bx = OUTPUT("x", x, DT_F32, 4), *s = SHARED("s", DT_F32, 4);
    int line = __LINE__ + 1;
    Node *copy = DO(CP_ASYNC, REF(s, SPAN(INT(0), INT(4))), REF(bx, SPAN(INT(0), INT(4))));
    build_fails(
        k,
        SEQ(copy, effect(k, INTR_CP_COMMIT, HERE), STORE(bx, F32(9), INT(1)), DO(CP_WAIT, INT(0))),
        line, "overwritten before the copy completed");
    build_end(k);
}

static void wrong_phase(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 1);
    Buffer *bar = MBARRIERS("bar", 1, 1);
    Node *arrive = DO(ARRIVE, REF(bar, INT(0))), *first = DO(WAIT, REF(bar, INT(0)), INT(0));
    int line = __LINE__ + 1;
    Node *second = DO(WAIT, REF(bar, INT(0)), INT(0));
    build_fails(k, SEQ(arrive, first, second), line,
                "mbarrier phase error: the thread has already waited for phase 0");
    build_end(k);
}

static void too_many_arrivals(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 1);
    Buffer *bar = MBARRIERS("bar", 1, 1);
    Node *expect = DO(EXPECT, REF(bar, INT(0)), INT(16));
    int line = __LINE__ + 1;
    Node *arrive = DO(ARRIVE, REF(bar, INT(0)));
    build_fails(k, SEQ(expect, arrive), line, "mbarrier phase error: all 1 arrivals");
    build_end(k);
}

static void divergent_barrier(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    int line = __LINE__ + 1;
    Node *barrier = BARRIER;
    build_fails(k, IF(LT(THREAD, INT(2)), barrier), line,
                "divergent barrier: 2 of 4 threads have come");
    build_end(k);
    k = start(TARGET_CUDA, 1, 4);
    Node *one = BARRIER;
    line = __LINE__ + 1;
    Node *other = BARRIER;
    build_fails(k, IF_ELSE(LT(THREAD, INT(2)), one, other), line,
                "divergent barrier: threads that must meet");
    build_end(k);
}

static void divergent_shuffle(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 32);
    Var *v = VARIABLE("v");
    int line = __LINE__ + 1;
    Node *value = INTRIN(SHUFFLE, DT_I64, THREAD, INT(0));
    build_fails(k, SEQ(DECLARE(v, INT(0)), IF(LT(THREAD, INT(7)), SET(v, value)), BARRIER), line,
                "divergent exchange of a warp: 7 of 32");
    notes(k, "thread 7 waits here", 0);
    build_end(k);
}

// Each role waits for the other to arrive first.
static void deadlock(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 64);
    Buffer *a = MBARRIERS("a", 1, 32), *b = MBARRIERS("b", 1, 32);
    int line = __LINE__ + 1;
    Node *first = DO(WAIT, REF(a, INT(0)), INT(0));
    Node *second = DO(WAIT, REF(b, INT(0)), INT(0));
    Node *body =
        SEQ(ROLE(LT(THREAD, INT(32)), SEQ(first, DO(ARRIVE, REF(b, INT(0))))),
            ROLE(EQ(DIV(THREAD, INT(32)), INT(1)), SEQ(second, DO(ARRIVE, REF(a, INT(0))))));
    build_fails(k, body, line, "deadlock: no thread can go on");
    notes(k, "32 threads, the first block 0 thread 0, wait here for parity 0 of 'a'", line);
    notes(k, "32 threads, the first block 0 thread 32, wait here for parity 0 of 'b'", line + 1);
    build_end(k);
}

static void out_of_bounds(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    float x[4] = {0}, y[5];
    Buffer *bx = INPUT("x", x, DT_F32, 4), *by = OUTPUT("y", y, DT_F32, 5);
    Var *i = VARIABLE("i");
    int line = __LINE__ + 1;
    Node *value = LOAD(bx, V(i));
    build_fails(k, LOOP(i, INT(0), INT(5), STORE(by, value, V(i))), line,
                "read out of bounds: 'x'[4]");
    notes(k, "in global memory, with extents [4]", 0);
    notes(k, "in stage 'main', block (0, 0, 0)", 0);
    build_end(k);
    k = start(TARGET_CPU, 1, 1);
    by = OUTPUT("y", y, DT_F32, 1, 5);
    line = __LINE__ + 1;
    Node *write = STORE(by, F32(0), INT(0), INT(-1));
    build_fails(k, write, line, "write out of bounds: 'y'[0, -1]");
    build_end(k);
}

static void unwritten(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    float y[1];
    Buffer *by = OUTPUT("y", y, DT_F32, 1), *s = LOCAL("s", DT_F32, 3);
    Var *i = VARIABLE("i");
    int line = __LINE__ + 1;
    Node *value = LOAD(s, INT(1));
    Node *write = IF(EQ(V(i), INT(0)), STORE(s, F32(1), INT(1)));
    // Each pass makes the buffer new.
    build_fails(k, LOOP(i, INT(0), INT(2), SEQ(ALLOC(s, NULL), write, STORE(by, value, INT(0)))),
                line, "never written: 's'[1]");
    build_end(k);
}

static void unwritten_workspace(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    float y[1];
    Buffer *by = OUTPUT("y", y, DT_F32, 1),
           *w = build_buffer(k, HERE, "w", SPACE_WORKSPACE, DT_F32, 1, (int64_t[]){2});
    VEC_PUSH(&k->arena, &k->kernel->workspace, w);
    int line = __LINE__ + 1;
    Node *value = LOAD(w, INT(1));
    build_fails(k, SEQ(STORE(w, F32(0), INT(0)), STORE(by, value, INT(0))), line,
                "never written: 'w'[1]");
    build_end(k);
}

static void not_owned(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    Buffer *acc = LOCAL("acc", DT_F32, 8);
    acc->over = COMPOSE(SPATIAL(4), REPEAT(2));
    acc->over_worker = THREAD;
    int line = __LINE__ + 1;
    Node *write = STORE(acc, F32(1), ADD(THREAD, INT(1)));
    build_fails(k, SEQ(ALLOC(acc, NULL), write), line, "does not own: 'acc'[3]");
    notes(k, "worker 2", 0);
    build_end(k);
}

static void replicas_disagree(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 1, 4);
    const char *why;
    Buffer *row = LOCAL("row", DT_I64, 2, 1);
    row->over = mapping_project(&k->arena, SPATIAL(2, 2), (bool[]){false, true}, &why);
    row->over_worker = THREAD;
    int line = __LINE__ + 1;
    Node *barrier = BARRIER;
    build_fails(k, SEQ(ALLOC(row, NULL), STORE(row, THREAD, DIV(THREAD, INT(2)), INT(0)), barrier),
                line, "threads that share an element hold different values: 'row'[0, 0]");
    build_end(k);
}

static void missing_proxy_fence(void **state)
{
    (void)state;
    for (int fenced = 0; fenced < 2; fenced++) {
        Build *k = start(TARGET_CUDA, 1, 1);
        float x[4] = {0};
        Buffer *bx = INPUT("x", x, DT_F32, 4), *s = SHARED("s", DT_F32, 4),
               *bar = MBARRIERS("bar", 1, 1);
        Var *i = VARIABLE("i");
        Node *to = REF(s, SPAN(INT(0), INT(4))), *from = REF(bx, SPAN(INT(0), INT(4)));
        int line = __LINE__ + 1;
        Node *copy = DO(BULK_LOAD, to, from, REF(bar, INT(0)));
        Node *clear = LOOP(i, INT(0), INT(4), STORE(s, F32(0), V(i)));
        Node *fence = fenced ? effect(k, INTR_FENCE_ASYNC, HERE) : SEQ();
        Node *body = SEQ(clear, fence, DO(EXPECT, REF(bar, INT(0)), INT(16)), copy,
                         DO(WAIT, REF(bar, INT(0)), INT(0)));
        if (fenced) build_passes(k, body);
        else build_fails(k, body, line, "missing fence_async");
        build_end(k);
    }
}

static void missing_fence(void **state)
{
    (void)state;
    Build *k = start(TARGET_CUDA, 2, 1);
    int64_t x[2] = {0}, flag[1] = {0}, y[1];
    Buffer *bx = OUTPUT("x", x, DT_I64, 2), *bf = OUTPUT("flag", flag, DT_I64, 1),
           *by = OUTPUT("y", y, DT_I64, 1);
    Var *seen = VARIABLE("seen");
    int line = __LINE__ + 1;
    Node *value = LOAD(bx, INT(0));
    build_fails(k,
                SEQ(STORE(bx, INT(1), BLOCK_X),
                    DEFINE(seen, INTRIN(ATOMIC_ADD, DT_I64, REF(bf, INT(0)), INT(1))),
                    IF(EQ(V(seen), INT(1)), STORE(by, value, INT(0)))),
                line, "race: read of what another thread writes: 'x'[0]");
    build_end(k);
}

static void step_limit(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    k->options.max_steps = 1000;
    int line = __LINE__ + 1;
    Node *forever = WHILE(node_int(&k->arena, HERE, DT_BOOL, 1), SEQ());
    build_fails(k, forever, line, "gave up after 1000 steps");
    build_end(k);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

static void cancelled(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    k->options.cancelled = always;
    int line = __LINE__ + 1;
    Node *forever = WHILE(node_int(&k->arena, HERE, DT_BOOL, 1), SEQ());
    build_fails(k, forever, line, "cancelled");
    build_end(k);
}

static void failed_check(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    int line = __LINE__ + 1;
    Node *check = OP(CHECK, LT(INT(2), INT(1)));
    check->u.sym = "two is less than one";
    build_fails(k, check, line, "check failed: two is less than one");
    build_end(k);
}

static void failed_requirement(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    Requirement q = {.cond = LT(INT(2), INT(1)), .message = "small", .loc = HERE};
    VEC_PUSH(&k->arena, &k->kernel->requirements, q);
    build_fails(k, SEQ(), __LINE__ - 2, "requirement not met: small");
    build_end(k);
}

static void nested_too_deeply(void **state)
{
    (void)state;
    Build *k = start(TARGET_CPU, 1, 1);
    Node *n = INT(1);
    for (int i = 0; i < 100000; i++) n = ADD(n, INT(1));
    build_fails(k, OP(EVAL, n), __LINE__ - 1, "nested too deeply");
    build_end(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_barrier),
        cmocka_unit_test(shared_race),
        cmocka_unit_test(global_race),
        cmocka_unit_test(copy_before_wait),
        cmocka_unit_test(copy_source_overwritten),
        cmocka_unit_test(copy_of_another_thread),
        cmocka_unit_test(barrier_of_a_role),
        cmocka_unit_test(wrong_phase),
        cmocka_unit_test(too_many_arrivals),
        cmocka_unit_test(divergent_barrier),
        cmocka_unit_test(divergent_shuffle),
        cmocka_unit_test(deadlock),
        cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(unwritten),
        cmocka_unit_test(unwritten_workspace),
        cmocka_unit_test(not_owned),
        cmocka_unit_test(replicas_disagree),
        cmocka_unit_test(missing_proxy_fence),
        cmocka_unit_test(missing_fence),
        cmocka_unit_test(step_limit),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(failed_check),
        cmocka_unit_test(failed_requirement),
        cmocka_unit_test(nested_too_deeply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

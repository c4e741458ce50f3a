// SPDX-License-Identifier: Apache-2.0
// Stages, their launch, and memory.
#include "lang/eval.h"

enum { LOCAL_BYTES = 1 << 20 };

// Names that the stage has defined so far, as what they stand for: the host does not know them.
static Node *without_names(Eval *e, const Stmts *stage, Node *x)
{
    Map values = {0};
    for (int i = 0; stage && i < stage->list.n; i++) {
        Node *s = stage->list.at[i];
        if (s->kind == N_DEFINE)
            map_put(e->arena, &values, s->u.var, node_subst(e->arena, s->kid[0], &values));
    }
    return node_subst(e->arena, x, &values);
}

static bool launch_axis(Eval *e, const Stmts *stage, Node *tuple, int max, Node **at, int *n)
{
    Value v;
    if (!eval_list(e, REST(tuple), NREST(tuple), &v)) return false;
    if (v.u.tuple.n > max) return eval_fail(e, tuple->loc, "at most %d extents here", max);
    *n = v.u.tuple.n;
    for (int i = 0; i < *n; i++) {
        if (!eval_index(e, tuple->loc, v.u.tuple.at[i], &at[i])) return false;
        at[i] = without_names(e, stage, at[i]);
    }
    return true;
}

bool eval_launch(Eval *e, Node *n)
{
    if (!e->stage) return eval_fail(e, n->loc, "launch stands inside a stage here");
    Stmts *saved = e->out;
    e->out = NULL; // sizes of the launch are computed by the host
    Node *grid = KID(n, LAUNCH, grid), *block = KID(n, LAUNCH, block),
         *cluster = KID(n, LAUNCH, cluster), *at[KERNEL_MAX_GRID];
    int k;
    bool ok =
        !grid || launch_axis(e, saved, grid, KERNEL_MAX_GRID, e->stage->grid, &e->stage->ngrid);
    if (ok && block) {
        Value total = value_int(1);
        ok = launch_axis(e, saved, block, KERNEL_MAX_GRID, at, &k);
        for (int i = 0; ok && i < k; i++)
            ok = eval_binary(e, n->loc, N_MUL, total, value_expr(at[i]), &total);
        int64_t threads = 0;
        ok = ok && eval_int(e, n->loc, total, "the number of threads of a block", &threads);
        if (ok && (threads < 1 || threads > e->kernel->target.max_threads))
            ok = eval_fail(e, n->loc, "a block of %lld threads; the device allows 1 to %d",
                           (long long)threads, e->kernel->target.max_threads);
        e->stage->block = ok ? node_i64(e->arena, threads) : NULL;
        for (int i = 0; ok && i < k; i++) // thread.x, thread.y, thread.z
            e->block_dims[i] = at[i]->u.i;
        e->nblock_dims = k;
    }
    if (ok && cluster) ok = launch_axis(e, saved, cluster, 1, &e->stage->cluster, &k);
    e->out = saved;
    return ok;
}

bool eval_stage(Eval *e, Node *n)
{
    Stmts *body = NEW(e->arena, Stmts), *saved = e->out;
    e->stage = NEW(e->arena, Stage);
    e->stage->name = n->u.sym;
    e->nblock_dims = 0;
    e->out = body;
    bool ok = eval_stmts(e, KID(n, STAGE, body));
    e->returning = false; // ends this stage only
    e->stage->body = eval_end(e, body, saved, n->loc);
    // A stage without statements is no launch, but a kernel has one stage at least.
    bool only = e->kernel->stages.n == 1 && e->kernel->stages.at[0]->body->nkid == 0;
    if (body->list.n && only) e->kernel->stages.n = 0;
    if (body->list.n || !e->kernel->stages.n) VEC_PUSH(e->arena, &e->kernel->stages, e->stage);
    e->stage = NULL;
    return ok;
}

static bool owner(Eval *e, Node *n, Buffer *b)
{
    Value over;
    if (!eval_expr(e, n, &over)) return false;
    if (over.kind != V_TASKS)
        return eval_fail(e, n->loc, "over names a mapping and its worker, as in map(thread)");
    b->over = over.u.tasks.map;
    b->over_worker = over.u.tasks.worker;
    if (b->over->rank != b->rank)
        return eval_fail(e, n->loc, "'%s' has %d axes, the mapping %d", b->name, b->rank,
                         b->over->rank);
    for (int i = 0; i < b->rank; i++)
        if (b->extent[i]->kind != N_INT || b->extent[i]->u.i != b->over->shape[i])
            return eval_fail(e, n->loc, "axis %d of '%s' and of the mapping differ in extent", i,
                             b->name);
    return true;
}

// What does not fit into registers lies on the stack of a thread.
static int64_t stack_bytes(const Kernel *k, const Buffer *b)
{
    int64_t n = 1;
    bool whole = b->space == SPACE_LOCAL && !b->alias && (k->target.kind == TARGET_CPU || !b->over);
    for (int i = 0; whole && i < b->rank; i++) n *= b->extent[i]->u.i;
    return whole ? dtype_bytes(b->type, n) : 0;
}

static bool memory_size(Eval *e, Node *n, const Buffer *b)
{
    int64_t size = 1;
    for (int i = 0; i < b->rank; i++) {
        if (b->extent[i]->kind != N_INT)
            return b->space == SPACE_WORKSPACE ||
                   eval_fail(e, n->loc, "axis %d of '%s' must be known at compile time", i,
                             b->name);
        if (b->extent[i]->u.i < 0 || !mul_i64(size, b->extent[i]->u.i, &size) ||
            size > INT64_C(1) << 40)
            return eval_fail(e, n->loc, "'%s' is too large", b->name);
    }
    bool owned = KID(n, MEMORY, over) && e->kernel->target.kind != TARGET_CPU;
    if (!owned && stack_bytes(e->kernel, b) > LOCAL_BYTES)
        return eval_fail(e, n->loc, "'%s' is too large for local memory: at most %d bytes", b->name,
                         LOCAL_BYTES);
    return true;
}

// The most that is live at once within n, beside `around`; LOCAL_BYTES + 1 with a diagnostic.
static int64_t stack_need(Eval *e, const Node *n, int64_t around)
{
    int64_t live = around, most = around;
    for (uint32_t i = 0; i < n->nkid && most <= LOCAL_BYTES; i++) {
        const Node *k = n->kid[i];
        if (!k) continue;
        if (k->kind == N_ALLOC) {
            live += stack_bytes(e->kernel, k->u.buf);
            if (live > LOCAL_BYTES)
                eval_fail(e, k->loc, "local memory up to '%s' is more than the %d bytes for all",
                          k->u.buf->name, LOCAL_BYTES);
            most = max_i64(most, live);
        } else if (node_info[k->kind].class == CLASS_S)
            most = max_i64(most, stack_need(e, k, live));
    }
    return most;
}

bool memory_fits(Eval *e, const Stage *s)
{
    const Target *t = &e->kernel->target;
    int64_t shared = stage_shared_bytes(s);
    if (t->kind == TARGET_CUDA && shared > t->shared_bytes)
        return eval_fail(e, e->kernel->loc,
                         "%lld bytes of shared memory in stage '%s'; a block of %s has %lld",
                         (long long)shared, s->name, t->arch, (long long)t->shared_bytes);
    return stack_need(e, s->body, 0) <= LOCAL_BYTES;
}

// The declared element type and extents.
static Buffer *declared(Eval *e, Node *n)
{
    Node *type = KID(n, MEMORY, type), *extent[EVAL_MAX_RANK + 1];
    Value t, dims;
    if (!type || !eval_dtype(e, type, &t) || !eval_list(e, REST(type), NREST(type), &dims))
        return NULL;
    int rank = dims.u.tuple.n;
    if (rank > EVAL_MAX_RANK) {
        eval_fail(e, n->loc, "'%s' has %d axes; at most %d", n->u.sym, rank, EVAL_MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++)
        if (!eval_index(e, n->loc, dims.u.tuple.at[i], &extent[i])) return NULL;
    if (t.u.dtype.lanes > 1) // a vector element: one more axis
        extent[rank++] = node_i64(e->arena, t.u.dtype.lanes);
    bool barrier = t.u.dtype.mbarrier;
    Buffer *b = kernel_buffer(e->kernel, n->u.sym, (Space)n->sub,
                              barrier ? DT_NONE : t.u.dtype.type, rank, extent);
    b->loc = n->loc;
    b->is_mbarrier = barrier;
    b->arrivals = t.u.dtype.arrivals;
    return memory_size(e, n, b) ? b : NULL;
}

// The name of a layout function such as column_major stands for it over the declared extents.
static bool layout(Eval *e, Node *n, Buffer *b)
{
    Value v, at = value_tuple(e->arena, b->rank, NULL);
    if (!eval_expr(e, n, &v)) return false;
    for (int i = 0; i < b->rank; i++) {
        if (b->extent[i]->kind != N_INT)
            return eval_fail(e, n->loc,
                             "'%s' has a layout, so axis %d must be known at compile time", b->name,
                             i);
        at.u.tuple.at[i] = value_int(b->extent[i]->u.i);
    }
    if (v.kind == V_FUNCTION) {
        Node *call = node_new(e->arena, N_CALL, n->loc, 1 + b->rank);
        call->kid[0] = n;
        for (int i = 0; i < b->rank; i++)
            call->kid[1 + i] = node_int(e->arena, n->loc, DT_NONE, at.u.tuple.at[i].u.i);
        Sym name = v.u.str;
        if (!builtin_exists(name))
            return eval_fail(e, n->loc, "'%s' is no function that makes layouts", name);
        if (!builtin_call(e, call, name, &v)) return false;
    }
    if (v.kind != V_LAYOUT || v.u.layout->rank != b->rank)
        return eval_fail(e, n->loc, "the layout of '%s' must be a layout of %d axes", b->name,
                         b->rank);
    for (int i = 0; i < b->rank; i++)
        if (v.u.layout->shape[i] != b->extent[i]->u.i)
            return eval_fail(e, n->loc, "axis %d of '%s' and of its layout differ in extent", i,
                             b->name);
    b->layout = v.u.layout;
    return true;
}

static bool alignment(Eval *e, Node *n, Buffer *b)
{
    Value v;
    if (!eval_expr(e, n, &v) || !eval_int(e, n->loc, v, "an alignment", &b->align_bytes))
        return false;
    int64_t a = b->align_bytes;
    return (a >= 1 && a <= 4096 && !(a & (a - 1))) ||
           eval_fail(e, n->loc, "an alignment is a power of two up to 4096, not %lld",
                     (long long)a);
}

static bool alias(Eval *e, Node *n, Buffer *b)
{
    Env *other = n->kind == N_NAME ? env_find(e->env, n->u.sym) : NULL;
    if (!other || other->value.kind != V_MEMORY)
        return eval_fail(e, n->loc, "alias names a buffer declared before");
    b->alias = other->value.u.mem;
    return b->alias->space == b->space ||
           eval_fail(e, n->loc, "'%s' is %s memory, '%s' is %s", b->name, space_name[b->space],
                     b->alias->name, space_name[b->alias->space]);
}

// Where the buffer lives: in the kernel, in the stage, or from here to the end of the block.
static bool place(Eval *e, Node *n, Buffer *b)
{
    Node *init = KID(n, MEMORY, init);
    if (init && b->space != SPACE_LOCAL)
        return eval_fail(e, n->loc, "only local memory has an initial value");
    if (b->space == SPACE_WORKSPACE) VEC_PUSH(e->arena, &e->kernel->workspace, b);
    else if (b->space != SPACE_LOCAL) VEC_PUSH(e->arena, &e->stage->memory, b);
    else {
        Value v;
        Node *a = node_new(e->arena, N_ALLOC, n->loc, 1);
        a->u.buf = b;
        if (init && (!eval_scalar(e, init, &v) || !eval_node_as(e, n->loc, v, b->type, &a->kid[0])))
            return false;
        eval_emit(e, a);
    }
    eval_bind(e, n->u.sym, (Value){.kind = V_MEMORY, .u.mem = b});
    return true;
}

bool eval_memory(Eval *e, Node *n)
{
    Node *when = KID(n, MEMORY, when);
    if (when) {
        Value v;
        if (!eval_scalar(e, when, &v)) return false;
        if (v.kind == V_BOOL && !v.u.i) return true;
    }
    Space space = (Space)n->sub;
    if (space != SPACE_WORKSPACE && !e->stage)
        return eval_fail(e, n->loc, "%s memory is declared inside a stage", space_name[space]);
    Buffer *b = declared(e, n);
    return b && (!KID(n, MEMORY, layout) || layout(e, KID(n, MEMORY, layout), b)) &&
           (!KID(n, MEMORY, align) || alignment(e, KID(n, MEMORY, align), b)) &&
           (!KID(n, MEMORY, over) || owner(e, KID(n, MEMORY, over), b)) &&
           (!KID(n, MEMORY, alias) || alias(e, KID(n, MEMORY, alias), b)) && place(e, n, b);
}

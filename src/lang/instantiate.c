// SPDX-License-Identifier: Apache-2.0
// Entry points of the partial evaluator: leaves and ops of a group, templates on them, their
// schedule space.
#include "lang/eval.h"

#include <stdio.h>
#include <string.h>

Instance *instance_new(Arena *a, const Library *l, const Target *target, Diag *d)
{
    Instance *in = NEW(a, Instance);
    in->arena = a;
    in->library = l;
    in->diag = d;
    in->kernel = NEW(a, Kernel);
    in->kernel->arena = a;
    in->kernel->target = *target;
    in->eval = NEW(a, Eval);
    *in->eval = (Eval){.in = in,
                       .arena = a,
                       .lib = l,
                       .diag = d,
                       .kernel = in->kernel,
                       .max_steps = EVAL_MAX_STEPS};
    return in;
}

Value instance_dim(Instance *in, const char *name, int64_t lo, int64_t hi, int64_t divisor)
{
    Var *v = kernel_var(in->kernel, name, DT_I64, false);
    v->builtin = VAR_DIM;
    v->lo = lo;
    v->hi = hi;
    v->divisor = divisor > 0 ? divisor : 1;
    VEC_PUSH(in->arena, &in->kernel->dims, v);
    return value_expr(node_var(in->arena, 0, v));
}

static Tensor *tensor_new(Instance *in, const char *name, DType type, int rank, const Value *dims)
{
    Tensor *t = NEW(in->arena, Tensor);
    t->name = intern(in->library->names, name);
    t->type = type;
    t->rank = rank;
    t->dims = NEW_ARRAY(in->arena, Value, rank);
    if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof(Value));
    return t;
}

static Buffer *global(Instance *in, const char *name, DType type, int rank, const Value *dims)
{
    Node *extent[EVAL_MAX_RANK];
    ASSERT(rank <= EVAL_MAX_RANK);
    for (int i = 0; i < rank; i++)
        extent[i] = dims[i].kind == V_INT ? node_i64(in->arena, dims[i].u.i) : dims[i].u.expr;
    Buffer *b = kernel_buffer(in->kernel, name, SPACE_GLOBAL, type, rank, extent);
    b->param = in->kernel->params.n;
    VEC_PUSH(in->arena, &in->kernel->params, b);
    return b;
}

Tensor *instance_input(Instance *in, const char *name, DType type, int rank, const Value *dims)
{
    Tensor *t = tensor_new(in, name, type, rank, dims);
    t->buf = global(in, name, type, rank, dims);
    return t;
}

Buffer *instance_output(Instance *in, const char *name, DType type, int rank, const Value *dims)
{
    Buffer *b = global(in, name, type, rank, dims);
    b->output = true;
    return b;
}

Tensor *instance_memory(Instance *in, Buffer *b, int rank, const Value *dims)
{
    Tensor *t = tensor_new(in, b->name, (DType)b->type, rank, dims);
    t->buf = b;
    return t;
}

Tensor *instance_hole(Instance *in, const char *name, DType type, int rank, const Value *dims)
{
    Tensor *t = tensor_new(in, name, type, rank, dims);
    t->is_hole = true;
    return t;
}

enum { MAX_STAGE_DEPTH = 8 };
enum { MAX_RUN_EXTENTS = 4 };

// Says in a note which op was applied to what.
static void note_application(Instance *in, Loc loc, const Node *op, int narg, const Value *args)
{
    Buf b;
    buf_init(&b, in->arena);
    for (int i = 0; i < narg; i++) {
        buf_puts(&b, i ? ", " : "");
        if (args[i].kind == V_TENSOR) tensor_describe(args[i].u.tensor, &b);
        else value_print(&args[i], &b);
    }
    diag_note(in->diag, loc ? loc : op->loc, "in %s(%s)", op->u.sym, buf_text(&b));
}

static bool has_requirement(const Node *n)
{
    if (n->kind == N_REQUIRE) return true;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && has_requirement(n->kid[i])) return true;
    return false;
}

// What an op's body requires, also in arms whose condition is known. It is checked here, where the
// op is applied, and not where elements are computed.
static bool check_requirements(Eval *e, Node *n)
{
    Value c;
    bool ok = true;
    if (n->kind == N_SEQ) {
        Env *env = e->env;
        for (int i = 0; ok && i < NREST(n); i++) ok = check_requirements(e, REST(n)[i]);
        e->env = env;
    } else if (n->kind == N_REQUIRE) ok = eval_require(e, n);
    else if (n->kind == N_LET && KID(n, LET, pattern)->kind != N_INDEX) ok = eval_stmt(e, n);
    else if (n->kind == N_IF && has_requirement(n)) {
        if (!eval_scalar(e, KID(n, IF, cond), &c)) return false;
        Node *arm = c.kind != V_BOOL ? NULL : c.u.i ? KID(n, IF, then) : KID(n, IF, other);
        ok = !arm || check_requirements(e, arm);
    }
    return ok;
}

// Extents that only the run decides, `count <= bound` in results' types, in order of appearance.
// Each becomes a further result, a number.
static int run_extents(Node *results, Sym *names)
{
    int n = 0;
    for (int i = 0; i < NREST(results); i++) {
        Node *type = KID(REST(results)[i], PARAM, type);
        for (int k = 0; k < NREST(type); k++) {
            Sym name = run_extent(REST(type)[k]);
            bool known = !name || n == MAX_RUN_EXTENTS;
            for (int j = 0; j < n && !known; j++) known = names[j] == name;
            if (!known) names[n++] = name;
        }
    }
    return n;
}

static bool mark_run_extents(Eval *e, Node *type, Tensor *t, int first, int n, const Sym *names)
{
    for (int k = 0; k < NREST(type); k++) {
        Sym name = run_extent(REST(type)[k]);
        Value before;
        if (!name) continue;
        if (!result_extents(e, type, k, &before)) return false;
        if (!t->counted) {
            t->counted = NEW_ARRAY(e->arena, int, t->rank);
            for (int i = 0; i < t->rank; i++) t->counted[i] = -1;
        }
        for (int j = 0; j < n; j++)
            if (names[j] == name) t->counted[before.u.tuple.n] = first + j;
    }
    return true;
}

OpInst *op_apply(Instance *in, Loc loc, const Node *op, int narg, const Value *args,
                 const Map *attrs)
{
    Eval *e = in->eval;
    Env *env = e->env;
    Node *decl = (Node *)op, *results = KID(decl, OP, results);
    OpInst *inst = NEW(in->arena, OpInst);
    Sym counts[MAX_RUN_EXTENTS];
    int nresult = NREST(results), ncount = run_extents(results, counts);
    inst->decl = op;
    inst->nresult = nresult + ncount;
    inst->results = NEW_ARRAY(in->arena, Tensor *, inst->nresult);
    e->env = NULL;
    Loc at = loc ? loc : op->loc;
    bool ok = bind_params(e, at, decl, NULL, KID(decl, OP, params), narg, args) &&
              bind_attrs(e, at, decl, KID(decl, OP, attrs), attrs);
    Env *bound = e->env;
    ok = ok && check_requirements(e, KID(decl, OP, body));
    e->env = bound;
    for (int i = 0; ok && i < inst->nresult; i++) {
        Node *p = i < nresult ? REST(results)[i] : NULL;
        DType type = DT_I64;
        int rank = 0;
        Value dims[EVAL_MAX_RANK];
        ok = !p || bind_result_type(e, p, &type, &rank, dims);
        if (ok) {
            Tensor *t = tensor_new(in, p ? p->u.sym : counts[i - nresult], type, rank, dims);
            t->producer = inst;
            t->output = i;
            ok = !p || mark_run_extents(e, KID(p, PARAM, type), t, nresult, ncount, counts);
            inst->results[i] = t;
        }
    }
    inst->env = bound;
    e->env = env;
    if (!ok) note_application(in, loc, op, narg, args);
    return ok ? inst : NULL;
}

const Value *op_attribute(const OpInst *op, Sym name)
{
    for (const Env *e = op->env; e; e = e->next)
        if (e->name == name) return &e->value;
    return NULL;
}

// Nothing of memory, and no variable that a statement would define.
static bool from_dims(const Node *n)
{
    if (n->kind == N_LOAD || n->kind == N_LOAD_ELSE || n->kind == N_REF) return false;
    if (n->kind == N_INTRIN && !strchr(n->u.intr->flags, 'P')) return false;
    if (n->kind == N_VARREF && n->u.var->builtin != VAR_DIM) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && !from_dims(n->kid[i])) return false;
    return true;
}

bool instance_element(Instance *in, Tensor *t, const int64_t *index, Value *out)
{
    Eval *e = in->eval;
    Diag quiet, *d = e->diag;
    Value at[EVAL_MAX_RANK];
    int nrequirement = in->kernel->requirements.n;
    for (int i = 0; i < t->rank; i++) at[i] = value_int(index[i]);
    diag_init(&quiet, in->arena, in->library->sources);
    e->diag = in->diag = &quiet;
    bool ok = tensor_load(e, 0, t, t->rank, at, out) && !e->broken;
    e->diag = in->diag = d;
    e->broken = false;
    if (ok && out->kind == V_EXPR && out->u.expr->kind == N_INT)
        *out = out->u.expr->type == DT_BOOL ? value_bool(out->u.expr->u.i != 0)
                                            : value_int(out->u.expr->u.i);
    else if (ok && out->kind == V_EXPR && out->u.expr->kind == N_FLOAT)
        *out = value_float(out->u.expr->u.f);
    ok = ok && (value_is_known(out) || (out->kind == V_EXPR && from_dims(out->u.expr)));
    if (!ok) in->kernel->requirements.n = nrequirement;
    return ok;
}

// Whether a body, or a fn that it calls for its effect, has stages of its own.
static bool has_stages(Eval *e, const Node *n, int depth)
{
    if (!n || depth > MAX_STAGE_DEPTH) return false;
    if (n->kind == N_STAGE) return true;
    if (n->kind == N_EVAL && n->kid[0]->kind == N_CALL && n->kid[0]->kid[0]->kind == N_NAME) {
        const Node *fn = map_get(&e->lib->fns, n->kid[0]->kid[0]->u.sym);
        return fn && has_stages(e, fn->kid[KID_FN_body], depth + 1);
    }
    if (n->kind != N_SEQ && n->kind != N_BLOCK && n->kind != N_IF) return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (has_stages(e, n->kid[i], depth)) return true;
    return false;
}

static Stmts *open_stage(Eval *e, const char *name)
{
    e->stage = NEW(e->arena, Stage);
    e->stage->name = eval_sym(e, name);
    e->nblock_dims = 0;
    return e->out = NEW(e->arena, Stmts);
}

static void close_stage(Eval *e, Stmts *body, Loc loc)
{
    e->stage->body = eval_end(e, body, NULL, loc);
    VEC_PUSH(e->arena, &e->kernel->stages, e->stage);
    e->stage = NULL;
}

// The head of a body: what the signature of its results may use. Runs it, or the rest.
static bool run_part(Eval *e, Node *body, bool head)
{
    bool in_head = true, ok = true;
    for (int i = 0; ok && i < NREST(body) && !e->returning; i++) {
        Node *s = REST(body)[i];
        in_head = in_head && (s->kind == N_TUNE || s->kind == N_LET || s->kind == N_REQUIRE);
        if (in_head == head) ok = eval_stmt(e, s);
    }
    return ok;
}

// Results of a kernel or serial op as tensors that can be stored, checked against what the caller
// will receive.
static bool bind_results(Eval *e, Loc loc, Node *results, const Epilogue *ep, int nresult)
{
    Sym counts[MAX_RUN_EXTENTS];
    int ncount = run_extents(results, counts), nreal = NREST(results);
    if (nreal + ncount != nresult)
        return eval_fail(e, loc, "there are %d results, %d are wanted", nreal + ncount, nresult);
    for (int i = nreal; i < nresult; i++) {
        Tensor *t = tensor_new(e->in, counts[i - nreal], DT_I64, 0, NULL);
        t->epilogue = NEW(e->arena, Epilogue);
        *t->epilogue = ep[i];
        eval_bind(e, t->name, (Value){.kind = V_TENSOR, .u.tensor = t});
    }
    for (int i = 0; i < nreal; i++) {
        Node *p = REST(results)[i];
        Value dims[EVAL_MAX_RANK];
        DType type;
        int rank;
        Stmts *stage = e->out; // extents are the host's to compute: no names of the stage
        e->out = NULL;
        bool ok = bind_result_type(e, p, &type, &rank, dims);
        e->out = stage;
        if (!ok) return false;
        Tensor *t = tensor_new(e->in, p->u.sym, type, rank, dims);
        t->epilogue = NEW(e->arena, Epilogue);
        *t->epilogue = ep[i];
        const Tensor *place = ep[i].hole ? ep[i].hole : ep[i].place ? ep[i].place[0] : NULL;
        int have = place ? place->rank : ep[i].memory[0]->rank;
        if (have != rank)
            return eval_fail(e, p->loc, "result '%s' has rank %d, the caller's memory %d", p->u.sym,
                             rank, have);
        for (int k = 0; k < rank; k++) {
            Value want = place ? place->dims[k] : value_expr(ep[i].memory[0]->extent[k]);
            if (want.kind == V_INT && dims[k].kind == V_INT && want.u.i != dims[k].u.i)
                return eval_fail(e, p->loc,
                                 "axis %d of result '%s' has extent %lld, the caller's memory %lld",
                                 k, p->u.sym, (long long)dims[k].u.i, (long long)want.u.i);
            Value same = value_bool(true);
            if (!value_equal(&want, &dims[k]) &&
                !eval_binary(e, p->loc, N_EQ, want, dims[k], &same))
                return false;
            if (!eval_demand(e, p->loc, same, "a result has not the extents of its memory"))
                return false;
        }
        if (!rows_find(e, p->loc, t)) return false;
        eval_bind(e, p->u.sym, (Value){.kind = V_TENSOR, .u.tensor = t});
    }
    return true;
}

// What a kernel or serial op is instantiated on.
typedef struct Instantiation {
    Node *decl, *generics, *params, *attrs, *results, *body;
    int narg;
    const Value *args;
    const Map *given;
} Instantiation;

static Instantiation of_kernel(const Node *kernel, int narg, const Value *args, const Map *attrs)
{
    Node *d = (Node *)kernel;
    return (Instantiation){d,
                           KID(d, KERNEL, generics),
                           KID(d, KERNEL, params),
                           KID(d, KERNEL, attrs),
                           KID(d, KERNEL, results),
                           KID(d, KERNEL, body),
                           narg,
                           args,
                           attrs};
}

static bool bind_all(Eval *e, const Instantiation *s)
{
    return bind_params(e, s->decl->loc, s->decl, s->generics, s->params, s->narg, s->args) &&
           bind_attrs(e, s->decl->loc, s->decl, s->attrs, s->given);
}

// Epilogues that need whole rows, of results for which the kernel did not say when they are
// complete.
static bool finish_rows(Eval *e, Loc loc, Node *results)
{
    for (int i = 0; i < NREST(results); i++) {
        Env *b = env_find(e->env, REST(results)[i]->u.sym);
        Tensor *t = b && b->value.kind == V_TENSOR ? b->value.u.tensor : NULL;
        if (!t || !t->of_rows || t->rows_done) continue;
        if (e->in->rows_at_hand)
            return eval_fail(e, loc, "no block of '%s' has whole rows", e->kernel->template_name);
        if (!rows_stage(e, loc, t)) return false;
    }
    return true;
}

static bool instantiate(Eval *e, const Instantiation *s, const Epilogue *ep, int nresult)
{
    Kernel *k = e->kernel;
    Env *env = e->env;
    Loc loc = s->decl->loc;
    e->broken = false;
    e->shared.n = 0;
    e->env = NULL;
    k->template_name = s->decl->u.sym;
    k->loc = loc;
    if (!k->name) k->name = s->decl->u.sym;
    bool ok = bind_all(e, s);
    Stmts *stmts = ok && !has_stages(e, s->body, 0) ? open_stage(e, "main") : NULL;
    ok = ok && run_part(e, s->body, true) && bind_results(e, loc, s->results, ep, nresult) &&
         run_part(e, s->body, false);
    if (stmts) close_stage(e, stmts, s->body->loc);
    // What only the whole kernel shows: an operation that a type lacks, memory used out of its
    // scope.
    ok = ok && finish_rows(e, loc, s->results);
    for (int i = 0; ok && i < k->stages.n; i++) ok = memory_fits(e, k->stages.at[i]);
    ok = ok && kernel_verify(k, e->diag);
    e->env = env;
    e->out = NULL;
    e->stage = NULL;
    e->returning = false;
    if (!ok) note_application(e->in, loc, s->decl, s->narg, s->args);
    return ok;
}

bool instance_kernel(Instance *in, const Node *kernel, int narg, const Value *args,
                     const Map *attrs, const Epilogue *results, int nresult, const Choices *choices)
{
    Instantiation s = of_kernel(kernel, narg, args, attrs);
    in->eval->choices = choices;
    return instantiate(in->eval, &s, results, nresult);
}

bool instance_serial(Instance *in, const Node *op, int narg, const Value *args, const Map *attrs,
                     Buffer *const *outputs, int noutput)
{
    Node *d = (Node *)op;
    Instantiation s = {d,
                       NULL,
                       KID(d, OP, params),
                       KID(d, OP, attrs),
                       KID(d, OP, results),
                       KID(d, OP, body),
                       narg,
                       args,
                       attrs};
    Epilogue *ep = NEW_ARRAY(in->arena, Epilogue, noutput);
    for (int i = 0; i < noutput; i++)
        ep[i] = (Epilogue){.memory = (Buffer **)&outputs[i], .noutput = 1};
    return instantiate(in->eval, &s, ep, noutput);
}

// Looks at a template for these arguments without making it: its head is run between the two.
typedef struct Look {
    Env *env;
    int next_id, nrequirement;
} Look;

static bool look_open(Instance *in, const Instantiation *s, const Choices *choices, Look *look)
{
    Eval *e = in->eval;
    *look = (Look){e->env, in->kernel->next_id, in->kernel->requirements.n};
    e->env = NULL;
    e->choices = choices;
    bool ok = bind_all(e, s);
    if (ok && !has_stages(e, s->body, 0)) open_stage(e, "main");
    return ok && run_part(e, s->body, true);
}

static bool look_close(Instance *in, const Instantiation *s, const Look *look, bool ok)
{
    Eval *e = in->eval;
    if (!ok) note_application(in, s->decl->loc, s->decl, s->narg, s->args);
    e->env = look->env;
    e->out = NULL;
    e->stage = NULL;
    in->kernel->next_id = look->next_id; // nothing of this was kept
    in->kernel->requirements.n = look->nrequirement;
    return ok;
}

bool kernel_results(Instance *in, const Node *kernel, int narg, const Value *args, const Map *attrs,
                    const Choices *choices, Tensor ***results, int *n)
{
    Instantiation s = of_kernel(kernel, narg, args, attrs);
    Look look;
    bool ok = look_open(in, &s, choices, &look);
    *n = NREST(s.results);
    *results = NEW_ARRAY(in->arena, Tensor *, *n);
    for (int i = 0; ok && i < *n; i++) {
        Node *p = REST(s.results)[i];
        Value dims[EVAL_MAX_RANK];
        DType type;
        int rank;
        ok = bind_result_type(in->eval, p, &type, &rank, dims);
        if (ok) (*results)[i] = instance_hole(in, p->u.sym, type, rank, dims);
    }
    return look_close(in, &s, &look, ok);
}

bool kernel_preferences(Instance *in, const Node *kernel, int narg, const Value *args,
                        const Map *attrs, const Choices *choices, Preference **out, int *n)
{
    Instantiation s = of_kernel(kernel, narg, args, attrs);
    Look look;
    bool ok = look_open(in, &s, choices, &look);
    Node *lists[] = {s.params, s.results};
    *n = 0;
    *out = NEW_ARRAY(in->arena, Preference, NREST(s.params) + NREST(s.results));
    for (int l = 0; l < 2; l++)
        for (int i = 0; ok && i < NREST(lists[l]); i++) {
            if (!KID(REST(lists[l])[i], PARAM, prefer)) continue;
            Preference *p = &(*out)[*n];
            p->param = i;
            p->is_result = l == 1;
            ok = eval_preference(in->eval, REST(lists[l])[i], p);
            *n += ok;
        }
    return look_close(in, &s, &look, ok);
}

// Alternatives of one entry up to a level, without repeats.
static bool alternatives(Eval *e, Node *choice, int level, Value *out)
{
    VEC(Value) list = {0};
    for (int l = 0; l <= level && l < 3; l++) {
        Value v;
        Node *tuple = choice->kid[l];
        if (!tuple) continue;
        if (!eval_list(e, REST(tuple), NREST(tuple), &v)) return false;
        for (int i = 0; i < v.u.tuple.n; i++) {
            bool seen = false;
            for (int k = 0; k < list.n; k++)
                seen = seen || value_equal(&list.at[k], &v.u.tuple.at[i]);
            if (!seen) VEC_PUSH(e->arena, &list, v.u.tuple.at[i]);
            if (l == 0) break; // the default alone is level 0; others beside it belong to level 1
        }
    }
    *out = value_tuple(e->arena, list.n, list.at);
    return true;
}

bool kernel_choices(Instance *in, const Node *kernel, int level, Choices **out, int *n)
{
    Eval *e = in->eval;
    Node *body = KID((Node *)kernel, KERNEL, body);
    VEC(Node *) entry = {0};
    VEC(Value) values = {0};
    enum { MAX_SPACE = 1 << 20 };
    int64_t total = 1;
    for (int i = 0; i < NREST(body); i++)
        for (int k = 0; REST(body)[i]->kind == N_TUNE && k < NREST(REST(body)[i]); k++) {
            Node *c = REST(REST(body)[i])[k];
            Value v;
            if (!alternatives(e, c, level, &v)) return false;
            if (v.u.tuple.n == 0)
                return eval_fail(e, c->loc, "tune entry '%s' has no default", c->u.sym);
            total *= v.u.tuple.n;
            if (total > MAX_SPACE)
                return eval_fail(e, c->loc, "the schedule space has more than %d points",
                                 MAX_SPACE);
            VEC_PUSH(in->arena, &entry, c);
            VEC_PUSH(in->arena, &values, v);
        }
    *n = (int)total;
    *out = NEW_ARRAY(in->arena, Choices, total);
    for (int64_t p = 0; p < total; p++) {
        Choices *c = &(*out)[p];
        c->n = entry.n;
        c->name = NEW_ARRAY(in->arena, Sym, entry.n);
        c->value = NEW_ARRAY(in->arena, Value, entry.n);
        int64_t rest = p;
        for (int i = entry.n - 1; i >= 0; i--) {
            c->name[i] = entry.at[i]->u.sym;
            c->value[i] = values.at[i].u.tuple.at[rest % values.at[i].u.tuple.n];
            rest /= values.at[i].u.tuple.n;
        }
    }
    return true;
}

void choices_print(const Choices *c, Buf *out)
{
    for (int i = 0; c && i < c->n; i++) {
        buf_printf(out, "%s%s = ", i ? ", " : "", c->name[i]);
        value_print(&c->value[i], out);
    }
}

bool instance_evaluate(Instance *in, Node *expr, int n, const Sym *names, const Value *values,
                       Value *out)
{
    Eval *e = in->eval;
    Env *env = e->env;
    for (int i = 0; i < n; i++) eval_bind(e, names[i], values[i]);
    bool ok = eval_scalar(e, expr, out);
    e->env = env;
    return ok;
}

Value evaluate_expression(Arena *a, const Library *l, const Target *target, const Node *expr,
                          Diag *d)
{
    Instance *in = instance_new(a, l, target, d);
    Value v;
    return eval_expr(in->eval, (Node *)expr, &v) ? v : value_none();
}

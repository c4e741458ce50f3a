// SPDX-License-Identifier: Apache-2.0
// A signature is bound in two rounds: names that stand alone in a type get their extents first,
// what is computed from them is then evaluated with these names known.
#include "judge/script.h"

#include <string.h>

enum { NVARIADIC = 2 };

// ---- binding a signature

typedef struct Script {
    Arena *arena;
    const Library *library;
    const Target *target;
    const Node *decl;
    const Node *op; // decl is made for it, or NULL
    const ScriptOptions *options;
    Diag *diag;
    Map value; // Sym -> Value *: extents, packs, types and attributes
    VEC(Sym) dims, packs;
    int next; // dimension among those without a given extent
    ScriptKernel *out;
} Script;

static void bind(Script *s, Sym name, Value v)
{
    map_put(s->arena, &s->value, name, arena_copy(s->arena, &v, sizeof v));
}

static Value evaluate(Script *s, Node *n)
{
    Instance *in = instance_new(s->arena, s->library, s->target, s->diag);
    Sym *names = NEW_ARRAY(s->arena, Sym, s->value.n);
    Value *values = NEW_ARRAY(s->arena, Value, s->value.n), out = value_none();
    for (int i = 0; i < s->value.n; i++) {
        names[i] = s->value.entry[i].key;
        values[i] = *(Value *)s->value.entry[i].value;
    }
    return instance_evaluate(in, n, s->value.n, names, values, &out) ? out : value_none();
}

static bool is_call_of(const Node *n, const char *name)
{
    return n->kind == N_CALL && n->nkid == 2 && n->kid[0]->kind == N_NAME &&
           !strcmp(n->kid[0]->u.sym, name);
}

// The name that a dimension of a type binds, or NULL: m, s..., [static m].
static Sym bound_name(const Node *dim, bool *pack)
{
    *pack = dim->kind == N_SPREAD;
    if (*pack) dim = dim->kid[0];
    if (is_call_of(dim, "static")) dim = dim->kid[1];
    return dim->kind == N_NAME ? dim->u.sym : NULL;
}

static Value default_pack(Script *s, bool alone)
{
    const ScriptExtents *e = &s->options->extents;
    Value at[SCRIPT_MAX_RANK];
    int rank = alone ? e->rank_alone : e->rank_beside;
    for (int i = 0; i < rank; i++) at[i] = value_int(e->extent[i % e->n]);
    return value_tuple(s->arena, rank, at);
}

static bool bind_dim(Script *s, Node *dim, bool alone)
{
    bool pack;
    Sym name = bound_name(dim, &pack);
    if (!name || map_has(&s->value, name) || map_has(&s->library->constants, name)) return true;
    const Value *given = map_get(&s->options->shape, name);
    const ScriptExtents *e = &s->options->extents;
    Value v = given ? *given : pack ? default_pack(s, alone) : value_int(e->extent[s->next % e->n]);
    if (!given && !pack) s->next++;
    if (pack && v.kind == V_INT) v = value_tuple(s->arena, 1, &v);
    if (!pack && v.kind == V_TUPLE) {
        diag_error(s->diag, dim->loc, "'%s' is one dimension, not a pack", name);
        return false;
    }
    bind(s, name, v);
    if (pack) VEC_PUSH(s->arena, &s->packs, name);
    else VEC_PUSH(s->arena, &s->dims, name);
    return true;
}

// The element type of a parameter: a type, or a name whose type is chosen here.
static bool bind_type(Script *s, const Node *type)
{
    const Node *x = type->kid[KID_TYPE_dtype];
    if (!x || x->kind != N_NAME || dtype_from_name(x->u.sym) != DT_NONE ||
        map_has(&s->value, x->u.sym)) {
        return true;
    }
    const Value *given = map_get(&s->options->types, x->u.sym);
    Value v = given ? *given : value_dtype(DT_F32);
    if (!given && x->u.sym[0] == 'I') v = value_dtype(DT_I64);
    if (!given && x->u.sym[0] == 'B') v = value_dtype(DT_BOOL);
    Node *generics = s->decl->kid[KID_KERNEL_generics];
    for (int i = 0; generics && !given && i < NREST(generics); i++) {
        Node *g = REST(generics)[i], *first = KID(g, GENERIC, types)->kid[0];
        if (g->u.sym != x->u.sym) continue;
        if (first->kind == N_TYPE) first = KID(first, TYPE, dtype);
        DType t = first->kind == N_NAME ? dtype_from_name(first->u.sym) : DT_NONE;
        if (t != DT_NONE) v = value_dtype(t);
    }
    bind(s, x->u.sym, v);
    return true;
}

static bool bind_names(Script *s)
{
    Node *params = s->decl->kid[KID_KERNEL_params];
    for (int i = 0; i < NREST(params); i++) {
        Node *type = KID(REST(params)[i], PARAM, type);
        if (!type) {
            diag_error(s->diag, REST(params)[i]->loc, "a type is needed here");
            return false;
        }
        if (!bind_type(s, type)) return false;
        for (int k = 0; k < NREST(type); k++)
            if (!bind_dim(s, REST(type)[k], NREST(type) == 1)) return false;
    }
    return true;
}

static void list_names(Script *s, Buf *out)
{
    for (int i = 0; i < s->dims.n; i++)
        buf_printf(out, "%s%s", out->size ? ", " : "", s->dims.at[i]);
    for (int i = 0; i < s->packs.n; i++)
        buf_printf(out, "%s%s...", out->size ? ", " : "", s->packs.at[i]);
}

// Every name of --shape, --dynamic and --type must mean something.
static bool all_known(Script *s, const Map *given, const char *what)
{
    for (int i = 0; i < given->n; i++) {
        Sym name = given->entry[i].key;
        if (map_has(&s->value, name)) continue;
        Buf known;
        buf_init(&known, s->arena);
        list_names(s, &known);
        diag_error(s->diag, s->decl->loc, "'%s' has no %s '%s'; its dimensions are %s",
                   s->decl->u.sym, what, name, known.size ? buf_text(&known) : "fixed");
        return false;
    }
    return true;
}

static void bind_given_attributes(Script *s)
{
    Node *attrs = s->decl->kid[KID_KERNEL_attrs];
    for (int i = 0; i < NREST(attrs); i++) {
        const Value *given = map_get(&s->options->attrs, REST(attrs)[i]->u.sym);
        if (given) bind(s, REST(attrs)[i]->u.sym, *given);
    }
}

// Defaults may be computed from dimensions.
static bool bind_default_attributes(Script *s)
{
    Node *attrs = s->decl->kid[KID_KERNEL_attrs];
    for (int i = 0; i < NREST(attrs); i++) {
        Node *p = REST(attrs)[i];
        if (!KID(p, PARAM, default) || map_has(&s->value, p->u.sym)) continue;
        Value v = evaluate(s, KID(p, PARAM, default));
        if (v.kind == V_NONE) return false;
        bind(s, p->u.sym, v);
    }
    return true;
}

// ---- instantiating

// The value of a dimension for the kernel: known, or a variable for an open one.
static Value kernel_dim(Script *s, Instance *in, Sym name, int64_t extent, int axis)
{
    if (!map_has(&s->options->open, name)) return value_int(extent);
    const char *text = axis < 0 ? name : arena_printf(s->arena, "%s%d", name, axis);
    for (int i = 0; i < in->kernel->dims.n; i++)
        if (!strcmp(in->kernel->dims.at[i]->name, text))
            return value_expr(node_var(s->arena, 0, in->kernel->dims.at[i]));
    return instance_dim(in, text, 0, ((int64_t)1 << SCRIPT_EXTENT_LOG2) - 1, 1);
}

static bool add_dim(Script *s, ScriptParam *p, Value *dims, Loc loc, Value concrete, Value v)
{
    if (concrete.kind != V_INT || concrete.u.i < 0 || p->rank == SCRIPT_MAX_RANK) {
        diag_error(s->diag, loc, "this is no extent of a tensor");
        return false;
    }
    p->dims[p->rank] = concrete.u.i;
    dims[p->rank++] = v;
    return true;
}

static bool param_dims(Script *s, Instance *in, Node *type, ScriptParam *p, Value *dims)
{
    for (int i = 0; i < NREST(type); i++) {
        Node *dim = REST(type)[i];
        bool pack;
        Sym name = bound_name(dim, &pack);
        const Value *known = name ? map_get(&s->value, name) : NULL;
        Node *x = pack ? KID(dim, SPREAD, pack) : is_call_of(dim, "static") ? dim->kid[1] : dim;
        Value v = known ? *known : evaluate(s, x);
        if (v.kind == V_NONE) return false;
        int n = v.kind == V_TUPLE ? v.u.tuple.n : 1;
        for (int k = 0; k < n; k++) {
            Value e = v.kind == V_TUPLE ? v.u.tuple.at[k] : v;
            Value d = known && e.kind == V_INT ? kernel_dim(s, in, name, e.u.i, pack ? k : -1) : e;
            if (!add_dim(s, p, dims, dim->loc, e, d)) return false;
        }
    }
    return true;
}

static Tensor *make_input(Script *s, Instance *in, Node *param, const char *name)
{
    Node *type = KID(param, PARAM, type);
    ScriptParam *p = &s->out->param[s->out->nparam];
    Value dims[SCRIPT_MAX_RANK], t = evaluate(s, KID(type, TYPE, dtype));
    *p = (ScriptParam){.name = intern(s->library->names, name)};
    if (t.kind != V_DTYPE) {
        if (t.kind != V_NONE)
            diag_error(s->diag, type->loc, "a type is needed here, found %s",
                       value_kind_name(t.kind));
        return NULL;
    }
    p->type = t.u.dtype.type;
    if (!param_dims(s, in, type, p, dims)) return NULL;
    s->out->nparam++;
    return instance_input(in, name, p->type, p->rank, dims);
}

static bool make_inputs(Script *s, Instance *in, Value *args)
{
    Node *params = s->decl->kid[KID_KERNEL_params];
    for (int i = 0; i < NREST(params); i++) {
        Node *param = REST(params)[i];
        s->out->arg[i] = -1;
        args[i] = value_none();
        if ((param->sub & PARAM_OPTIONAL) && s->options->omit_optional) continue;
        bool variadic = param->sub & PARAM_VARIADIC;
        s->out->arg[i] = variadic ? -2 : s->out->nparam;
        Value at[NVARIADIC];
        for (int k = 0; k < (variadic ? NVARIADIC : 1); k++) {
            const char *name =
                variadic ? arena_printf(s->arena, "%s%d", param->u.sym, k) : param->u.sym;
            Tensor *t = make_input(s, in, param, name);
            if (!t) return false;
            at[k] = (Value){.kind = V_TENSOR, .u.tensor = t};
        }
        args[i] = variadic ? value_tuple(s->arena, NVARIADIC, at) : at[0];
    }
    return true;
}

static const Node *implemented_op(const Script *s)
{
    const Node *clauses = s->decl->kid[KID_KERNEL_clauses];
    for (uint32_t i = 0; i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i], *args = c->kid[KID_CLAUSE_args];
        if (!strcmp(c->u.sym, "implements") && args->nkid)
            return map_get(&s->library->ops, args->kid[0]->u.sym);
    }
    return NULL;
}

// The concrete extent of a result's dimension: known, or evaluated with the open dimensions put in.
static int64_t concrete(const ScriptKernel *k, const Value *v)
{
    return v->kind == V_INT ? v->u.i : node_eval_dims(v->u.expr, k->kernel, k->dims);
}

// The kernel's own dimensions, by the names they came from.
static void fill_dims(Script *s)
{
    Kernel *k = s->out->kernel;
    s->out->dims = NEW_ARRAY(s->arena, int64_t, k->dims.n);
    for (int i = 0; i < k->dims.n; i++)
        for (int p = 0; p < s->out->nparam; p++)
            for (int axis = 0; axis < s->out->param[p].rank; axis++) {
                const Node *e = k->params.at[p]->extent[axis];
                if (e->kind == N_VARREF && e->u.var == k->dims.at[i])
                    s->out->dims[i] = s->out->param[p].dims[axis];
            }
}

static ScriptParam *add_param(Script *s, const Tensor *t, const char *name)
{
    ScriptParam *p = &s->out->param[s->out->nparam++];
    *p = (ScriptParam){.name = intern(s->library->names, name), .type = t->type, .rank = t->rank};
    for (int k = 0; k < t->rank; k++) p->dims[k] = concrete(s->out, &t->dims[k]);
    return p;
}

// The layouts that the kernel prefers, as further inputs.
static bool grant_preferences(Script *s, Instance *in, Value *args)
{
    Preference *preferred;
    int n;
    ScriptKernel *k = s->out;
    // While the template is looked at, `require x.packed` must hold.
    Node *params = s->decl->kid[KID_KERNEL_params];
    for (int i = 0; i < k->narg; i++)
        if (args[i].kind == V_TENSOR && KID(REST(params)[i], PARAM, prefer))
            args[i].u.tensor->packed = args[i].u.tensor;
    if (!kernel_preferences(in, s->decl, k->narg, args, &s->options->attrs, &k->choices, &preferred,
                            &n))
        return false;
    for (int i = 0; i < n; i++) {
        if (preferred[i].is_result) continue;
        Value *arg = &args[preferred[i].param];
        if (arg->kind != V_TENSOR) continue;
        OpInst *op = op_apply(in, s->decl->loc, preferred[i].op, 1, arg, &preferred[i].attrs);
        if (!op) return false;
        const char *name = arena_printf(s->arena, "%s_packed", arg->u.tensor->name);
        const Tensor *t = op->results[0];
        ScriptParam *p = add_param(s, t, name);
        p->pack = arena_copy(s->arena, &preferred[i], sizeof preferred[i]);
        p->packed_from = k->arg[preferred[i].param];
        arg->u.tensor->packed = instance_input(in, name, t->type, t->rank, t->dims);
    }
    return true;
}

static Epilogue *make_outputs(Script *s, Instance *in, int narg, const Value *args, int *n)
{
    Tensor **results;
    if (!kernel_results(in, s->decl, narg, args, &s->options->attrs, &s->out->choices, &results, n))
        return NULL;
    Epilogue *ep = NEW_ARRAY(s->arena, Epilogue, *n);
    for (int i = 0; i < *n; i++) {
        const Tensor *t = results[i];
        add_param(s, t, t->name)->output = true;
        Buffer **memory = NEW(s->arena, Buffer *);
        *memory = instance_output(in, t->name, t->type, t->rank, t->dims);
        ep[i] = (Epilogue){.memory = memory, .noutput = 1};
    }
    return ep;
}

static void describe(Script *s)
{
    Buf b;
    buf_init(&b, s->arena);
    for (int pass = 0; pass < 2; pass++) {
        int n = pass ? s->packs.n : s->dims.n;
        for (int i = 0; i < n; i++) {
            Sym name = pass ? s->packs.at[i] : s->dims.at[i];
            const Value *v = map_get(&s->value, name);
            buf_printf(&b, "%s%s = ", b.size ? ", " : "", name);
            int rank = v->kind == V_TUPLE ? v->u.tuple.n : 1;
            if (rank == 0) buf_puts(&b, "()");
            for (int k = 0; k < rank; k++)
                buf_printf(&b, "%s%lld", k ? "x" : "",
                           (long long)(v->kind == V_TUPLE ? v->u.tuple.at[k].u.i : v->u.i));
            if (map_has(&s->options->open, name)) buf_puts(&b, " (dynamic)");
        }
    }
    const Node *results = s->decl->kid[KID_KERNEL_results];
    if (s->op && results->nkid > 1)
        buf_printf(&b, "%sresult %s", b.size ? ", " : "", results->kid[s->options->result]->u.sym);
    s->out->extents = buf_text(&b);
}

// All entries with their values: the given ones, otherwise the defaults.
static bool complete_choices(Script *s, Instance *in, Choices *out)
{
    Choices *all;
    int n;
    if (!kernel_choices(in, s->decl, 0, &all, &n)) return false;
    *out = all[0];
    const Choices *given = &s->options->choices;
    for (int i = 0; i < given->n; i++) {
        int at = 0;
        while (at < out->n && out->name[at] != given->name[i]) at++;
        if (at == out->n) {
            diag_error(s->diag, s->decl->loc, "'%s' has no tune entry '%s'", s->decl->u.sym,
                       given->name[i]);
            return false;
        }
        out->value[at] = given->value[i];
    }
    return true;
}

// A kernel `on cuda(sm_90a)` is made for that architecture, whatever is at hand; one `on cuda` for
// the GPU that is wanted.
static bool choose_target(Script *s, const Target *host, Target *out)
{
    const Node *clauses = s->decl->kid[KID_KERNEL_clauses];
    *out = *host;
    for (uint32_t i = 0; i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i], *args = c->kid[KID_CLAUSE_args];
        if (strcmp(c->u.sym, "on") || !args->nkid || strcmp(args->kid[0]->u.sym, "cuda")) continue;
        const char *arch = args->nkid > 1 ? args->kid[1]->u.sym : "sm_80";
        if (args->nkid == 1 && host->kind == TARGET_CUDA) continue;
        if (target_cuda(out, arch)) continue;
        diag_error(s->diag, c->loc, "architecture %s is not known", arch);
        return false;
    }
    return true;
}

static const Map *attributes_of(Script *s, const Node *decl, Node *attrs)
{
    if (decl == s->decl) return &s->options->attrs;
    Map *known = NEW(s->arena, Map);
    for (int i = 0; i < NREST(attrs); i++) {
        Value *v = map_get(&s->options->attrs, REST(attrs)[i]->u.sym);
        if (v) map_put(s->arena, known, REST(attrs)[i]->u.sym, v);
    }
    return known;
}

static Kernel *op_kernel(Script *s, Instance *in, const Node *op, int narg, const Value *args,
                         const Map *attrs, int result);

static bool instantiate_op(Script *s, Instance *in, const Value *args)
{
    int narg = s->out->narg, result = s->options->result;
    const Map *attrs = &s->options->attrs;
    OpInst *inst = op_apply(in, s->op->loc, s->op, narg, args, attrs);
    if (!inst || result >= inst->nresult) return false;
    const Tensor *t = inst->results[result];
    add_param(s, t, t->name)->output = true;
    return op_kernel(s, in, s->op, narg, args, attrs, result) && kernel_verify(in->kernel, s->diag);
}

static bool instantiate(Script *s)
{
    Node *params = s->decl->kid[KID_KERNEL_params], *results = s->decl->kid[KID_KERNEL_results];
    int narg = NREST(params), nresult;
    ScriptKernel *out = s->out;
    Instance *in = instance_new(s->arena, s->library, s->target, s->diag);
    Value *args = NEW_ARRAY(s->arena, Value, narg);
    out->kernel = in->kernel;
    out->narg = narg;
    out->arg = NEW_ARRAY(s->arena, int, narg);
    out->param = NEW_ARRAY(s->arena, ScriptParam, (NVARIADIC + 1) * narg + NREST(results));
    out->op = s->op ? s->op : implemented_op(s);
    describe(s);
    if (!make_inputs(s, in, args)) return false;
    out->ninput = out->nparam;
    fill_dims(s);
    if (s->op) return instantiate_op(s, in, args);
    if (!complete_choices(s, in, &out->choices) ||
        (!s->options->plain && !grant_preferences(s, in, args)))
        return false;
    Epilogue *ep = make_outputs(s, in, narg, args, &nresult);
    return ep &&
           instance_kernel(in, s->decl, narg, args, &s->options->attrs, ep, nresult,
                           &out->choices) &&
           kernel_verify(in->kernel, s->diag);
}

// The signature of an op as that of a kernel.
static const Node *as_kernel(Arena *a, const Node *op)
{
    Node *k = node_new(a, N_KERNEL, op->loc, 6);
    k->u.sym = op->u.sym;
    k->kid[KID_KERNEL_generics] = node_new(a, N_TUPLE, op->loc, 0);
    k->kid[KID_KERNEL_params] = op->kid[KID_OP_params];
    k->kid[KID_KERNEL_attrs] = op->kid[KID_OP_attrs];
    k->kid[KID_KERNEL_results] = op->kid[KID_OP_results];
    k->kid[KID_KERNEL_clauses] = node_new(a, N_TUPLE, op->loc, 0);
    k->kid[KID_KERNEL_body] = op->kid[KID_OP_body];
    return k;
}

ScriptKernel *script_instantiate(Arena *a, const Library *l, const Target *host, const Node *decl,
                                 const ScriptOptions *o, Diag *d)
{
    Target *target = NEW(a, Target);
    const Node *op = decl->kind == N_OP ? decl : NULL;
    if (op) decl = as_kernel(a, op);
    Script s = {.arena = a,
                .library = l,
                .target = target,
                .decl = decl,
                .op = op,
                .options = o,
                .diag = d,
                .out = NEW(a, ScriptKernel)};
    s.out->decl = decl;
    int before = d->nerror;
    bind_given_attributes(&s);
    bool ok = choose_target(&s, host, target) && bind_names(&s) && bind_default_attributes(&s) &&
              all_known(&s, &o->shape, "dimension") && all_known(&s, &o->open, "dimension") &&
              all_known(&s, &o->types, "type") && instantiate(&s);
    if (!ok && d->nerror == before) diag_error(d, decl->loc, "cannot be instantiated");
    if (!ok && s.out->extents) diag_note(d, decl->loc, "with %s", s.out->extents);
    return ok ? s.out : NULL;
}

// ---- what it should compute

static DType widened(DType t, bool as_f64)
{
    return as_f64 && dtype_is_float(t) ? DT_F64 : t;
}

// The op applied to args, computed element by element; result -1: all, of a serial op.
static Kernel *op_kernel(Script *s, Instance *in, const Node *op, int narg, const Value *args,
                         const Map *attrs, int result)
{
    OpInst *inst = op_apply(in, op->loc, op, narg, args, attrs);
    if (!inst) return NULL;
    Buffer **memory = NEW_ARRAY(s->arena, Buffer *, inst->nresult);
    for (int i = 0; i < inst->nresult; i++) {
        const Tensor *t = inst->results[i];
        if (result < 0 || i == result)
            memory[i] = instance_output(in, t->name, t->type, t->rank, t->dims);
    }
    if (result < 0) {
        return instance_serial(in, op, narg, args, attrs, memory, inst->nresult) ? in->kernel
                                                                                 : NULL;
    }
    const Node *copy = map_get(&s->library->kernels, intern(s->library->names, "copy"));
    if (!copy) {
        diag_error(s->diag, op->loc, "the template 'copy' is missing");
        return NULL;
    }
    Value x = {.kind = V_TENSOR, .u.tensor = inst->results[result]};
    Epilogue ep = {.memory = &memory[result], .noutput = 1};
    return instance_kernel(in, copy, 1, &x, NULL, &ep, 1, NULL) ? in->kernel : NULL;
}

static Value input_like(Instance *in, const ScriptParam *p, bool as_f64)
{
    Value dims[SCRIPT_MAX_RANK];
    for (int i = 0; i < p->rank; i++) dims[i] = value_int(p->dims[i]);
    Tensor *t = instance_input(in, p->name, widened(p->type, as_f64), p->rank, dims);
    return (Value){.kind = V_TENSOR, .u.tensor = t};
}

Kernel *script_meaning(const ScriptKernel *k, Arena *a, const Library *l, const Target *host,
                       const ScriptOptions *o, int result, bool as_f64, Diag *d)
{
    Script s = {.arena = a, .library = l, .decl = k->decl, .options = o, .diag = d};
    Instance *in = instance_new(a, l, host, d);
    Value *args = NEW_ARRAY(a, Value, k->narg), *inputs = NEW_ARRAY(a, Value, k->ninput);
    for (int i = 0; i < k->ninput; i++) inputs[i] = input_like(in, &k->param[i], as_f64);
    for (int i = 0, next = 0; i < k->narg; i++) {
        if (k->arg[i] == -1) continue;
        args[i] = k->arg[i] >= 0 ? inputs[next] : value_tuple(a, k->ninput - next, inputs + next);
        next = k->arg[i] >= 0 ? next + 1 : k->ninput;
    }
    const Map *attrs = attributes_of(&s, k->op, k->op->kid[KID_OP_attrs]);
    return op_kernel(&s, in, k->op, k->narg, args, attrs, k->op->sub == OP_SERIAL ? -1 : result);
}

Kernel *script_packing(const ScriptKernel *k, int param, Arena *a, const Library *l,
                       const Target *host, Diag *d)
{
    Script s = {.arena = a, .library = l, .decl = k->decl, .diag = d};
    Instance *in = instance_new(a, l, host, d);
    const ScriptParam *p = &k->param[param];
    Value x = input_like(in, &k->param[p->packed_from], false);
    return op_kernel(&s, in, p->pack->op, 1, &x, &p->pack->attrs, 0);
}

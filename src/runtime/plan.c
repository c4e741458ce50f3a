// SPDX-License-Identifier: Apache-2.0
// Making, checking and printing plans.
#include "runtime/plan.h"

#include "base/util.h"

static const char *const step_name[STEP_KIND_COUNT] = {
#define STEP(ID, name) name,
#include "runtime/plan_steps.def"
#undef STEP
};
static const char *const value_name[] = {"const", "input", "output", "temp", "view"};

Plan *plan_new(Arena *a)
{
    Plan *p = NEW(a, Plan);
    p->arena = a;
    return p;
}

static const char *keep(Plan *p, const char *s)
{
    return s ? arena_strdup(p->arena, s) : NULL;
}

static const ShapeExpr *keep_shape(Plan *p, int n, const ShapeExpr *e)
{
    ShapeExpr *copy = NEW_ARRAY(p->arena, ShapeExpr, n);
    for (int i = 0; i < n; i++) copy[i] = shape_copy(p->arena, e[i]);
    return copy;
}

int plan_dim(Plan *p, const char *name, int input, int axis)
{
    PlanDim d = {keep(p, name), input, axis};
    VEC_PUSH(p->arena, &p->dims, d);
    return p->dims.n - 1;
}

void plan_require(Plan *p, ShapeExpr cond, const char *message)
{
    PlanRequirement r = {shape_copy(p->arena, cond), keep(p, message)};
    VEC_PUSH(p->arena, &p->requirements, r);
}

// Adds v with its name and shape copied.
static int add_value(Plan *p, PlanValue v)
{
    v.name = keep(p, v.name);
    v.dims = keep_shape(p, v.rank, v.dims);
    VEC_PUSH(p->arena, &p->values, v);
    return p->values.n - 1;
}

int plan_const(Plan *p, const char *name, heald_tensor *t)
{
    ShapeExpr dims[HEALD_MAX_RANK];
    for (int i = 0; i < t->rank; i++) dims[i] = shape_const(p->arena, t->dims[i]);
    return add_value(p, (PlanValue){.kind = VALUE_CONST,
                                    .name = name,
                                    .dtype = t->dtype,
                                    .rank = t->rank,
                                    .dims = dims,
                                    .constant = t,
                                    .base = -1});
}

int plan_input(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims)
{
    int v = add_value(p, (PlanValue){VALUE_INPUT, name, dtype, rank, dims, .base = -1});
    VEC_PUSH(p->arena, &p->inputs, v);
    return v;
}

int plan_output(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims)
{
    int v = add_value(p, (PlanValue){VALUE_OUTPUT, name, dtype, rank, dims, .base = -1});
    VEC_PUSH(p->arena, &p->outputs, v);
    return v;
}

int plan_temp(Plan *p, const char *name, DType dtype, int rank, const ShapeExpr *dims, int alias)
{
    return add_value(p, (PlanValue){VALUE_TEMP, name, dtype, rank, dims, .base = alias});
}

int plan_view(Plan *p, const char *name, int base, ShapeExpr offset, DType dtype, int rank,
              const ShapeExpr *dims)
{
    return add_value(p, (PlanValue){.kind = VALUE_VIEW,
                                    .name = name,
                                    .dtype = dtype,
                                    .rank = rank,
                                    .dims = dims,
                                    .base = base,
                                    .offset = shape_copy(p->arena, offset)});
}

static void add_step(Plan *p, PlanStep s)
{
    s.name = keep(p, s.name);
    s.value = arena_copy(p->arena, s.value, (size_t)s.nvalue * sizeof *s.value);
    VEC_PUSH(p->arena, &p->steps, s);
}

void plan_launch(Plan *p, const char *name, const RuntimeKernel *k, const int *values,
                 const ShapeExpr *dims)
{
    add_step(p, (PlanStep){STEP_LAUNCH, name ? name : k->name, values, k->nparam, k,
                           keep_shape(p, k->ndim, dims)});
}

void plan_copy(Plan *p, const char *name, int from, int to)
{
    add_step(p, (PlanStep){.kind = STEP_COPY,
                           .name = name ? name : "copy",
                           .value = (int[]){from, to},
                           .nvalue = 2});
}

static bool shapes_valid(const ShapeExpr *e, int n, int ndim)
{
    for (int i = 0; i < n; i++) {
        if (!shape_valid(e[i], ndim)) return false;
    }
    return true;
}

// NULL, or what is wrong with value i.
static const char *value_problem(const Plan *p, int i)
{
    const PlanValue *v = &p->values.at[i];
    if ((unsigned)v->kind > VALUE_VIEW) return "has an unknown kind";
    if (v->dtype <= DT_NONE || v->dtype >= DT_COUNT) return "has an unknown type";
    if (v->rank < 0 || v->rank > HEALD_MAX_RANK) return "has an impossible rank";
    if (!shapes_valid(v->dims, v->rank, p->dims.n)) return "has a malformed shape";
    if (v->kind == VALUE_CONST) {
        if (!v->constant) return "is a constant without a tensor";
        if (v->constant->dtype != v->dtype || v->constant->rank != v->rank) {
            return "is not like its tensor";
        }
    }
    if (v->base >= i || v->base < -1) return "stands before the value whose memory it uses";
    if (v->kind == VALUE_VIEW) {
        if (v->base < 0) return "is a view of nothing";
        if (!shape_valid(v->offset, p->dims.n)) return "has a malformed offset";
    } else if (v->base >= 0 &&
               (v->kind != VALUE_TEMP || p->values.at[v->base].kind != VALUE_TEMP)) {
        return "takes over memory that is not temporary";
    }
    return NULL;
}

static const char *kernel_problem(const RuntimeKernel *k)
{
    if (!shapes_valid(k->workspace_bytes, k->nworkspace, k->ndim)) return "a malformed workspace";
    for (int i = 0; i < k->nrequirement; i++) {
        if (!shape_valid(k->require[i].cond, k->ndim)) return "a malformed requirement";
    }
    for (int i = 0; i < k->nstage; i++) {
        const RuntimeStage *st = &k->stage[i];
        if (st->ngrid < 0 || st->ngrid > STAGE_MAX_GRID) return "an impossible grid";
        if (!shapes_valid(st->grid, st->ngrid, k->ndim)) return "a malformed grid";
        if (st->scratch_bytes < 0) return "negative scratch memory";
    }
    return NULL;
}

static const char *verify_LAUNCH(const Plan *p, const PlanStep *s)
{
    if (!s->kernel) return "no kernel";
    if (s->nvalue != s->kernel->nparam) return "not the kernel's number of parameters";
    if (!shapes_valid(s->dims, s->kernel->ndim, p->dims.n)) return "a malformed dimension";
    return kernel_problem(s->kernel);
}

static const char *verify_COPY(const Plan *p, const PlanStep *s)
{
    UNUSED(p);
    return s->nvalue == 2 ? NULL : "not two values";
}

static const char *(*const verify_step[STEP_KIND_COUNT])(const Plan *, const PlanStep *) = {
#define STEP(ID, name) verify_##ID,
#include "runtime/plan_steps.def"
#undef STEP
};

static const char *step_problem(const Plan *p, const PlanStep *s)
{
    if ((unsigned)s->kind >= STEP_KIND_COUNT) return "an unknown kind";
    for (int i = 0; i < s->nvalue; i++) {
        if (s->value[i] < 0 || s->value[i] >= p->values.n) return "a value that does not exist";
    }
    return verify_step[s->kind](p, s);
}

// Whether `list` holds all values of this kind, each once.
static bool list_valid(const Plan *p, const int *list, int n, PlanValueKind kind)
{
    int nkind = 0;
    for (int i = 0; i < p->values.n; i++) nkind += p->values.at[i].kind == kind;
    for (int i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= p->values.n || p->values.at[list[i]].kind != kind) {
            return false;
        }
        for (int k = 0; k < i; k++) {
            if (list[k] == list[i]) return false;
        }
    }
    return n == nkind;
}

static bool dim_valid(const Plan *p, PlanDim d)
{
    if (d.input < 0 || d.input >= p->inputs.n || d.axis < 0) return false;
    const PlanValue *v = &p->values.at[p->inputs.at[d.input]];
    return d.axis < v->rank + (dtype_is_float(v->dtype) ? 0 : PLAN_MAX_ELEMENTS);
}

heald_status plan_verify(const Plan *p, Error *e)
{
    for (int i = 0; i < p->values.n; i++) {
        const char *why = value_problem(p, i);
        if (why) return error_set(e, HEALD_FORMAT, "value %d of the plan %s", i, why);
    }
    if (!list_valid(p, p->inputs.at, p->inputs.n, VALUE_INPUT) ||
        !list_valid(p, p->outputs.at, p->outputs.n, VALUE_OUTPUT)) {
        return error_set(e, HEALD_FORMAT, "the plan's lists of inputs and outputs are wrong");
    }
    for (int i = 0; i < p->dims.n; i++) {
        if (dim_valid(p, p->dims.at[i])) continue;
        return error_set(e, HEALD_FORMAT, "dimension %d of the plan is of no input", i);
    }
    for (int i = 0; i < p->requirements.n; i++) {
        if (!p->requirements.at[i].message || !shape_valid(p->requirements.at[i].cond, p->dims.n))
            return error_set(e, HEALD_FORMAT, "requirement %d of the plan is malformed", i);
    }
    for (int i = 0; i < p->steps.n; i++) {
        const char *why = step_problem(p, &p->steps.at[i]);
        if (why) return error_set(e, HEALD_FORMAT, "step %d of the plan has %s", i, why);
    }
    return HEALD_OK;
}

static void print_shape(const PlanValue *v, const char *const *names, Buf *out)
{
    buf_printf(out, "%s[", dtypes[v->dtype].name);
    for (int i = 0; i < v->rank; i++) {
        if (i) buf_puts(out, ", ");
        shape_print(v->dims[i], names, out);
    }
    buf_puts(out, "]");
}

static void print_value(const Plan *p, int i, const char *const *names, Buf *out)
{
    const PlanValue *v = &p->values.at[i];
    buf_printf(out, "%%%d = %s ", i, value_name[v->kind]);
    print_shape(v, names, out);
    if (v->kind == VALUE_VIEW) {
        buf_printf(out, " of %%%d from ", v->base);
        shape_print(v->offset, names, out);
    } else if (v->base >= 0) {
        buf_printf(out, " in place of %%%d", v->base);
    }
    if (v->name) buf_printf(out, "  \"%s\"", v->name);
    buf_putc(out, '\n');
}

static void print_step(const PlanStep *s, const char *const *names, Buf *out)
{
    buf_puts(out, step_name[s->kind]);
    if (s->kernel) {
        buf_printf(out, " %s<", s->kernel->name);
        for (int i = 0; i < s->kernel->ndim; i++) {
            if (i) buf_puts(out, ", ");
            shape_print(s->dims[i], names, out);
        }
        buf_putc(out, '>');
    }
    buf_putc(out, '(');
    for (int i = 0; i < s->nvalue; i++) buf_printf(out, "%s%%%d", i ? ", " : "", s->value[i]);
    buf_printf(out, ")  \"%s\"\n", s->name);
}

void plan_print(const Plan *p, Buf *out)
{
    const char **names = NEW_ARRAY(out->arena, const char *, p->dims.n);
    for (int i = 0; i < p->dims.n; i++) {
        PlanDim d = p->dims.at[i];
        names[i] = d.name ? d.name : arena_printf(out->arena, "d%d", i);
        int rank = p->values.at[p->inputs.at[d.input]].rank;
        buf_printf(out, "dim %s = %s %d of input %d\n", names[i],
                   d.axis < rank ? "axis" : "element", d.axis < rank ? d.axis : d.axis - rank,
                   d.input);
    }
    for (int i = 0; i < p->requirements.n; i++) {
        buf_puts(out, "require ");
        shape_print(p->requirements.at[i].cond, names, out);
        buf_printf(out, "  \"%s\"\n", p->requirements.at[i].message);
    }
    for (int i = 0; i < p->values.n; i++) print_value(p, i, names, out);
    for (int i = 0; i < p->steps.n; i++) print_step(&p->steps.at[i], names, out);
}

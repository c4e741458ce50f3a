// SPDX-License-Identifier: Apache-2.0
// Builtin functions that make task mappings and layouts.
#include "lang/builtins.h"

#include <string.h>

// Arguments [from, to) as known integers; a single tuple stands for its elements.
static bool want_ints(Eval *e, const Args *a, int from, int to, int64_t *out, int *n)
{
    const Value *at = a->at + from;
    *n = to - from;
    if (*n == 1 && at[0].kind == V_TUPLE) {
        *n = at[0].u.tuple.n;
        at = at[0].u.tuple.at;
    }
    if (*n < 1 || *n > MAPPING_MAX_RANK)
        return eval_fail(e, a->loc, "'%s' takes 1 to %d extents, not %d", a->name, MAPPING_MAX_RANK,
                         *n);
    for (int i = 0; i < *n; i++)
        if (!eval_int(e, a->loc, at[i], "an extent", &out[i])) return false;
    return true;
}

static bool want_order(Eval *e, const Args *a, int rank, int *order, bool *given)
{
    const Value *v = args_named(a, "ranks");
    *given = v != NULL;
    if (!v) return true;
    if (v->kind != V_TUPLE || v->u.tuple.n != rank)
        return eval_fail(e, a->loc, "ranks needs one number for each of %d axes", rank);
    for (int i = 0; i < rank; i++) {
        int64_t r;
        if (!eval_int(e, a->loc, v->u.tuple.at[i], "a rank", &r)) return false;
        order[i] = (int)(r < 0 || r > MAPPING_MAX_RANK ? MAPPING_MAX_RANK : r);
    }
    return true;
}

static bool give_map(Eval *e, const Args *a, const Mapping *m, const char *why, Value *out)
{
    *out = (Value){.kind = V_MAPPING, .loc = a->loc, .u.map = m};
    return m || eval_fail(e, a->loc, "%s: %s", a->name, why);
}

static bool give_layout(Eval *e, const Args *a, const Layout *l, const char *why, Value *out)
{
    *out = (Value){.kind = V_LAYOUT, .loc = a->loc, .u.layout = l};
    return l || eval_fail(e, a->loc, "%s: %s", a->name, why ? why : "the sizes do not fit");
}

static bool all_known(const Args *a, int n)
{
    for (int i = 0; i < n; i++) {
        if (a->at[i].kind == V_TUPLE) {
            for (int k = 0; k < a->at[i].u.tuple.n; k++)
                if (a->at[i].u.tuple.at[k].kind != V_INT) return false;
        } else if (a->at[i].kind != V_INT) return false;
    }
    return true;
}

static bool shape_map(Eval *e, const Args *a, bool spatial, bool columns, Value *out)
{
    int64_t d[MAPPING_MAX_RANK];
    int order[MAPPING_MAX_RANK], n;
    bool ordered;
    const char *why = NULL;
    if (!spatial && !all_known(a, a->n)) {
        *out =
            a->n == 1 && a->at[0].kind == V_TUPLE ? a->at[0] : value_tuple(e->arena, a->n, a->at);
        return true;
    }
    if (!want_ints(e, a, 0, a->n, d, &n) || !want_order(e, a, n, order, &ordered)) return false;
    for (int i = 0; columns && i < n; i++) order[i] = n - 1 - i;
    const int *o = ordered || columns ? order : NULL;
    const Mapping *m = spatial ? mapping_spatial(e->arena, n, d, o, &why)
                               : mapping_repeat(e->arena, n, d, o, NULL, &why);
    return give_map(e, a, m, why, out);
}

bool f_spatial(Eval *e, const Args *a, Value *out)
{
    return shape_map(e, a, true, false, out);
}
bool f_col_spatial(Eval *e, const Args *a, Value *out)
{
    return shape_map(e, a, true, true, out);
}
bool f_repeat(Eval *e, const Args *a, Value *out)
{
    return shape_map(e, a, false, false, out);
}
bool f_col_repeat(Eval *e, const Args *a, Value *out)
{
    return shape_map(e, a, false, true, out);
}

static bool auto_mapping(Eval *e, const Args *a, bool predicated, Value *out)
{
    int64_t d[MAPPING_MAX_RANK], workers, used;
    int order[MAPPING_MAX_RANK], n;
    bool ordered;
    const char *why = NULL;
    const Value *w = args_named(a, "workers");
    if (!w && a->after < a->n) w = &a->at[a->after];
    if (!w) return eval_fail(e, a->loc, "%s(d...; workers) needs the number of workers", a->name);
    if (!eval_int(e, a->loc, *w, "the number of workers", &workers) ||
        !want_ints(e, a, 0, a->after < a->n ? a->after : a->n, d, &n) ||
        !want_order(e, a, n, order, &ordered))
        return false;
    const int *o = ordered ? order : NULL;
    const Mapping *m = predicated ? mapping_auto_predicated(e->arena, n, d, workers, o, &used, &why)
                                  : mapping_auto(e->arena, n, d, workers, o, &why);
    return give_map(e, a, m, why, out);
}

bool f_auto_map(Eval *e, const Args *a, Value *out)
{
    return auto_mapping(e, a, false, out);
}
bool f_predicated_auto_map(Eval *e, const Args *a, Value *out)
{
    return auto_mapping(e, a, true, out);
}

bool f_project(Eval *e, const Args *a, Value *out)
{
    int64_t axis[MAPPING_MAX_RANK];
    int n;
    bool fixed[MAPPING_MAX_RANK] = {false};
    const char *why = NULL;
    if (a->at[0].kind != V_MAPPING)
        return eval_fail(e, a->loc, "project(m, axes...) needs a mapping");
    if (!want_ints(e, a, 1, a->n, axis, &n)) return false;
    for (int i = 0; i < n; i++) {
        if (axis[i] < 0 || axis[i] >= a->at[0].u.map->rank)
            return eval_fail(e, a->loc, "axis %lld of a mapping of rank %d", (long long)axis[i],
                             a->at[0].u.map->rank);
        fixed[axis[i]] = true;
    }
    return give_map(e, a, mapping_project(e->arena, a->at[0].u.map, fixed, &why), why, out);
}

bool f_tasks(Eval *e, const Args *a, Value *out)
{
    Value m;
    Node *w;
    if (!eval_expr(e, KID(a->call, CALL, callee), &m) || !eval_index(e, a->loc, a->at[0], &w))
        return false;
    bool lane = w->kind == N_VARREF && w->u.var->builtin == VAR_LANE;
    Var *l = e->stage ? e->stage->builtin[VAR_LANE] : NULL;
    if (!lane && !e->nlane && l && node_uses_var(w, l))
        return eval_fail(e, a->loc, "a worker is a lane itself: no arithmetic on it");
    *out = (Value){.kind = V_TASKS, .loc = a->loc};
    out->u.tasks.map = m.u.map;
    out->u.tasks.worker = w;
    return true;
}

static bool simple_layout(Eval *e, const Args *a,
                          const Layout *(*make)(Arena *, int, const int64_t *, const char **),
                          Value *out)
{
    int64_t d[MAPPING_MAX_RANK];
    int n;
    const char *why = NULL;
    return want_ints(e, a, 0, a->n, d, &n) &&
           give_layout(e, a, make(e->arena, n, d, &why), why, out);
}

bool f_row_major(Eval *e, const Args *a, Value *out)
{
    return simple_layout(e, a, layout_row_major, out);
}
bool f_column_major(Eval *e, const Args *a, Value *out)
{
    return simple_layout(e, a, layout_column_major, out);
}
bool f_local_layout(Eval *e, const Args *a, Value *out)
{
    return simple_layout(e, a, layout_local, out);
}

bool f_strided(Eval *e, const Args *a, Value *out)
{
    int64_t d[MAPPING_MAX_RANK], s[MAPPING_MAX_RANK];
    int n, k, split = a->after < a->n ? a->after : 1;
    const char *why = NULL;
    const Value *strides = args_named(a, "strides");
    Args named = {.loc = a->loc, .name = a->name, .at = (Value *)strides, .n = 1};
    if (!strides && a->n <= split)
        return eval_fail(e, a->loc, "strided(d...; strides) needs the strides");
    if (!want_ints(e, a, 0, strides ? a->n : split, d, &n) ||
        !(strides ? want_ints(e, &named, 0, 1, s, &k) : want_ints(e, a, split, a->n, s, &k)))
        return false;
    if (n != k) return eval_fail(e, a->loc, "strided needs one stride for each extent");
    return give_layout(e, a, layout_strided(e->arena, n, d, s, &why), why, out);
}

static bool want_layout(Eval *e, const Args *a, const Layout **l)
{
    *l = a->at[0].u.layout;
    return a->at[0].kind == V_LAYOUT || eval_fail(e, a->loc, "'%s' needs a layout, found %s",
                                                  a->name, value_kind_name(a->at[0].kind));
}

bool f_swizzle(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    static const char *const keys[] = {"dim", "by", "log_step"};
    int64_t v[3] = {-1, -1, 0};
    const char *why = NULL;
    if (!want_layout(e, a, &l)) return false;
    for (int i = 0; i < 3; i++) {
        const Value *x = i + 1 < a->n ? &a->at[i + 1] : args_named(a, keys[i]);
        if (x && !eval_int(e, a->loc, *x, keys[i], &v[i])) return false;
        if (v[i] < -1 || v[i] > 62)
            return eval_fail(e, a->loc, "%s of a swizzle is out of range", keys[i]);
    }
    if (v[0] < 0) return eval_fail(e, a->loc, "swizzle needs dim");
    return give_layout(e, a, layout_swizzle(e->arena, l, (int)v[0], (int)v[1], (int)v[2], &why),
                       why, out);
}

bool f_permute(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    int64_t p[MAPPING_MAX_RANK];
    int perm[MAPPING_MAX_RANK], n;
    const char *why = NULL;
    if (!want_layout(e, a, &l) || !want_ints(e, a, 1, 2, p, &n)) return false;
    if (n != l->rank) return eval_fail(e, a->loc, "permute needs %d axes", l->rank);
    for (int i = 0; i < n; i++)
        perm[i] = (int)(p[i] < 0 || p[i] > MAPPING_MAX_RANK ? MAPPING_MAX_RANK : p[i]);
    return give_layout(e, a, layout_permute(e->arena, l, perm, &why), why, out);
}

bool f_reshape(Eval *e, const Args *a, Value *out)
{
    const Layout *l;
    int64_t d[MAPPING_MAX_RANK];
    int n;
    const char *why = NULL;
    return want_layout(e, a, &l) && want_ints(e, a, 1, a->n, d, &n) &&
           give_layout(e, a, layout_reshape(e->arena, l, n, d, &why), why, out);
}

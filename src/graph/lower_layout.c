// SPDX-License-Identifier: Apache-2.0
// What templates prefer, and how they get it: a constant packed once, an activation as it lies, or
// laid out anew in a step of its own. Who wants the same of the same value shares it.
#include "graph/lower.h"

#include "ir/size.h"

void packing_add(Arena *a, Packings *p, GraphNode *n)
{
    intptr_t last = (intptr_t)map_get(&p->last, n->input[0]);
    for (intptr_t i = last; i; i = p->list.at[i - 1].before)
        if (p->list.at[i - 1].node == n) return;
    VEC_PUSH(a, &p->list, ((Packing){n, last}));
    map_put(a, &p->last, n->input[0], (void *)(intptr_t)p->list.n);
}

static GraphValue *shared_packing(Lower *l, GraphValue *v, const Preference *p)
{
    const Packing *list = l->packings->list.at;
    for (intptr_t i = (intptr_t)map_get(&l->packings->last, v); i; i = list[i - 1].before)
        if (packed_is(list[i - 1].node->output[0], p)) return list[i - 1].node->output[0];
    GraphValue *out = packed_value(l->g, v, p);
    if (out) packing_add(l->g->arena, l->packings, out->producer);
    return out;
}

static bool is_input(const Group *p, const GraphValue *v)
{
    for (int i = 0; v && i < p->inputs.n; i++)
        if (p->inputs.at[i] == v) return true;
    return false;
}

// The value of the anchor's parameter, where a layout may be asked for it.
static GraphValue *preferred_value(const Lower *l, const Preference *p, const Value *args)
{
    const GraphNode *n = l->group->anchor;
    GraphValue *v = !p->is_result && p->param < n->ninput ? n->input[p->param] : NULL;
    return is_input(l->group, v) && args[p->param].kind == V_TENSOR ? v : NULL;
}

// While a template's head is looked at, whatever it may prefer is so.
static bool preferences(Lower *l, const Node *kernel, int narg, const Value *args,
                        Preference **list, int *count)
{
    const GraphNode *n = l->group->anchor;
    Value *as_wished = arena_copy(l->arena, args, (size_t)narg * sizeof *args);
    for (int i = 0; i < n->ninput && i < narg; i++) {
        if (!is_input(l->group, n->input[i]) || args[i].kind != V_TENSOR) continue;
        Tensor *t = arena_copy(l->arena, args[i].u.tensor, sizeof *t);
        as_wished[i].u.tensor = t->packed = t;
    }
    const Map *attrs = kernel_attrs(&l->sizes, &n->attrs);
    return kernel_preferences(l->in, kernel, narg, as_wished, attrs, NULL, list, count);
}

bool lower_grant(Lower *l, const Node *kernel, int narg, Value *args)
{
    Preference *list;
    int count;
    if (!preferences(l, kernel, narg, args, &list, &count)) return false;
    for (int i = 0; i < count; i++) {
        GraphValue *v = preferred_value(l, &list[i], args), *packed;
        if (!v) continue;
        // A tensor of its own, since another parameter may be the same value.
        Value *arg = &args[list[i].param];
        Tensor *t = arg->u.tensor = arena_copy(l->arena, arg->u.tensor, sizeof *t);
        const KernelValue *have = lower_value(l, v);
        if (have->packed && packed_is(have->packed, &list[i])) {
            t->packed = have->memory;
            continue;
        }
        if (!graph_value_fixed(v) && !l->group->granted) continue;
        packed = shared_packing(l, v, &list[i]);
        if (!packed) continue;
        const Value *dims = kernel_sizes(&l->sizes, packed->rank, packed->dims);
        const char *name = lower_name(l, "p", l->packed.n);
        t->packed = instance_input(l->in, name, packed->type, packed->rank, dims);
        t->packed->align_bytes = t->packed->buf->align_bytes = lower_align(l, packed);
        VEC_PUSH(l->arena, &l->packed, packed);
    }
    return true;
}

// ---- what would be preferred

static void add_wish(Lower *l, GraphValue *v, const Preference *p, Wishes *out)
{
    Arena *a = l->g->arena;
    Wish w = {.value = v, .layout = *p};
    w.layout.attrs = attrs_copy(a, &p->attrs);
    if (p->worth.kind == V_INT) w.worth = p->worth.u.i;
    else if (p->worth.kind == V_EXPR && !size_hint(p->worth.u.expr, &w.worth)) w.worth = 0;
    VEC_PUSH(a, out, w);
}

static bool look_at(Lower *l, const Node *kernel, Wishes *out)
{
    const GraphNode *n = l->group->anchor;
    Value *args;
    Preference *list;
    int count;
    if (!lower_begin(l)) return false;
    int narg = lower_args(l, n, &args);
    l->in->guess = false;
    if (!preferences(l, kernel, narg, args, &list, &count)) return false;
    for (int i = 0; i < count; i++) {
        GraphValue *v =
            list[i].is_result ? n->output[list[i].param] : preferred_value(l, &list[i], args);
        if (v && !graph_value_fixed(v)) add_wish(l, v, &list[i], out);
    }
    return true;
}

void group_wishes(Graph *g, Group *p, const Target *t, Wishes *out)
{
    Arena scratch = {.nomem = g->arena->nomem};
    Packings none = {0};
    Diag quiet;
    const Node **list;
    Lower l = {.g = g, .group = p, .target = t, .packings = &none};
    int n = group_templates(g, p->anchor, t, &scratch, &list);
    bool found = false;
    for (int i = 0; i < n && !found; i++) {
        lower_open(&l, &scratch);
        diag_init(&quiet, l.arena, g->library->sources);
        l.diag = &quiet;
        found = look_at(&l, list[i], out);
        arena_free(l.arena);
    }
    arena_free(&scratch);
}

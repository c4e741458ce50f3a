// SPDX-License-Identifier: Apache-2.0
// Which activations lie in which layout. A template may prefer layouts of what it reads and
// computes; then what the group of the template stores lies so, and whoever prefers the same reads
// it without a step between. All wishes are granted at first; what costs more bytes at the borders
// than it is worth is taken back, group by group and region by region.
#include "graph/private.h"

enum { AS_IT_LIES = -1, EITHER_WAY = -2 }; // beside indices of layouts

typedef enum GroupKind {
    PLAIN,   // reads and computes everything as it lies
    WISHING, // its template prefers layouts
    COPYING  // takes elements in any order: lies as its neighbours do
} GroupKind;

// How a group would have one of its inputs or outputs.
typedef struct Port {
    GraphValue *value;
    int layout;  // where granted
    bool wished; // by the template for itself; otherwise it follows
} Port;

typedef struct Member {
    Group *group;
    GroupKind kind;
    bool on; // granted
    VEC(Port) reads;
    VEC(Port) writes;
    int64_t worth;
    int64_t cost; // where it was taken back: of the borders that went
    int others;   // groups that were taken back with it; worth and cost are of all
} Member;

typedef VEC(int) Indices;

// One way in which groups read a value, as things stand.
typedef struct Want {
    int layout;
    int count;        // of groups that want it so
    int region;       // whose members among them are known; -1: of none
    bool stepped;     // a step was looked for
    GraphValue *made; // by the step, for all that want it so; NULL: there is none
} Want;
typedef VEC(Want) Wants;

typedef struct Layouts {
    Graph *g;
    Arena *arena;
    const Target *target;
    Member *member;
    int n, nvalue;
    VEC(Preference) layouts;
    int *maker;          // by value id: of members; -1: none
    Indices *readers;    // by value id
    Wants *wants;        // by value id
    GraphValue **packed; // by value id: how it would be stored; NULL: it cannot be
    int *packed_layout;
    bool *plain;    // by value id: it must lie as it is
    Indices queue;  // members to look at once more
    bool *queued;   // by member
    int *region;    // by member: that it was found in; -1: none
    int *region_of; // by value id: the last of which a member reads or computes it; -1: none
} Layouts;

// ---- what groups would like

static int index_of(Layouts *l, const Preference *p)
{
    for (int i = 0; i < l->layouts.n; i++)
        if (l->layouts.at[i].op == p->op && attrs_equal(&l->layouts.at[i].attrs, &p->attrs))
            return i;
    VEC_PUSH(l->arena, &l->layouts, *p);
    return l->layouts.n - 1;
}

static int64_t bytes_of(const GraphValue *v)
{
    int64_t n = graph_value_nelem(v); // sizes at hand may be ones that the graph forbids
    return n < 0 ? 0 : dtype_bytes(v->type, n);
}

static const Wish *wish_for(const Wishes *w, const GraphValue *v, bool result)
{
    for (int i = 0; i < w->n; i++)
        if (w->at[i].value == v && w->at[i].layout.is_result == result) return &w->at[i];
    return NULL;
}

static bool reads_directly(const GraphNode *n, const GraphValue *v)
{
    for (int i = 0; i < n->ninput; i++)
        if (n->input[i] == v) return true;
    return false;
}

// What is read beside the anchor's operands, and everything stored, follows the anchor's result.
static void make_wishing(Layouts *l, Member *m)
{
    const Group *p = m->group;
    const GraphNode *anchor = p->anchor;
    Wishes wishes = {0};
    if (anchor->noutput != 1 || p->once || anchor->op->class == OPCLASS_SERIAL) return;
    group_wishes(l->g, m->group, l->target, &wishes);
    bool empty = false; // nothing to lay out
    for (int i = 0; i < wishes.n; i++) empty = empty || !bytes_of(wishes.at[i].value);
    if (!wishes.n || empty) return;
    m->kind = WISHING;
    m->on = true;
    const Wish *result = wish_for(&wishes, anchor->output[0], true);
    int follow = result ? index_of(l, &result->layout) : AS_IT_LIES;
    for (int i = 0; i < p->inputs.n; i++) {
        GraphValue *v = p->inputs.at[i];
        const Wish *w = wish_for(&wishes, v, false);
        bool follows = !reads_directly(anchor, v) && graph_same_dims(v, anchor->output[0]);
        Port port = {v, w ? index_of(l, &w->layout) : follows ? follow : AS_IT_LIES, w != NULL};
        VEC_PUSH(l->arena, &m->reads, port);
    }
    for (int i = 0; i < p->outputs.n; i++) {
        bool follows = !p->moved && graph_same_dims(p->outputs.at[i], anchor->output[0]);
        Port port = {p->outputs.at[i], follows ? follow : AS_IT_LIES, follows && result};
        VEC_PUSH(l->arena, &m->writes, port);
    }
    for (int i = 0; i < wishes.n; i++) m->worth += wishes.at[i].worth;
}

static bool is_copying(const Layouts *l, const Group *p)
{
    const Node **list;
    OpClass class = p->anchor->op->class;
    return (class == OPCLASS_POINTWISE || class == OPCLASS_MAP) && p->outputs.n == 1 && !p->once &&
           p->anchor->noutput == 1 && !group_templates(l->g, p->anchor, l->target, l->arena, &list);
}

// The layout of the first operand that lies in one; operands of another rank are read as they lie.
static void make_copying(Layouts *l, Member *m)
{
    const Group *p = m->group;
    GraphValue *out = p->outputs.at[0];
    int layout = AS_IT_LIES;
    for (int i = 0; layout < 0 && i < p->inputs.n; i++) {
        GraphValue *v = p->inputs.at[i];
        if (v->rank == out->rank && l->packed[v->id]) layout = l->packed_layout[v->id];
    }
    if (layout < 0) return;
    m->kind = COPYING;
    m->on = true;
    for (int i = 0; i < p->inputs.n; i++) {
        GraphValue *v = p->inputs.at[i];
        bool alike = v->rank == out->rank && graph_value_nelem(v) * 4 > graph_value_nelem(out);
        VEC_PUSH(l->arena, &m->reads, ((Port){v, alike ? layout : EITHER_WAY, false}));
    }
    VEC_PUSH(l->arena, &m->writes, ((Port){out, layout, false}));
}

static void make_plain(Layouts *l, Member *m)
{
    const Group *p = m->group;
    for (int i = 0; i < p->inputs.n; i++)
        VEC_PUSH(l->arena, &m->reads, ((Port){p->inputs.at[i], AS_IT_LIES, false}));
    for (int i = 0; i < p->outputs.n; i++)
        VEC_PUSH(l->arena, &m->writes, ((Port){p->outputs.at[i], AS_IT_LIES, false}));
}

// ---- what can be stored otherwise

// Outputs of the graph, what a view shows and what programs read lie as they are.
static void find_plain(Layouts *l, const Groups *groups)
{
    bool *inside = NEW_ARRAY(l->arena, bool, l->g->nodes.n);
    for (int i = 0; i < groups->n; i++) {
        const Group *p = groups->at[i];
        const GraphNodes *lists[] = {&p->prologue, &p->epilogue};
        inside[p->anchor->id] = true;
        for (int k = 0; k < 2; k++)
            for (int q = 0; q < lists[k]->n; q++) inside[lists[k]->at[q]->id] = true;
        for (int k = 0; p->anchor->op->class == OPCLASS_SERIAL && k < p->inputs.n; k++)
            l->plain[p->inputs.at[k]->id] = true;
    }
    for (int i = 0; i < l->nvalue; i++) {
        const GraphValue *v = l->g->values.at[i];
        l->plain[i] = l->plain[i] || v->is_output || !v->producer;
        for (int k = 0; k < v->readers.n; k++)
            l->plain[i] = l->plain[i] || !inside[v->readers.at[k]->id];
    }
}

// Whether what it wishes can be: to read something in a layout, or to store it so.
static bool has_wish(const Layouts *l, const Member *m)
{
    for (int i = 0; i < m->reads.n; i++)
        if (m->reads.at[i].wished) return true;
    for (int i = 0; i < m->writes.n; i++)
        if (l->packed[m->writes.at[i].value->id]) return true;
    return false;
}

static void find_packed(Layouts *l, const Member *m)
{
    for (int i = 0; i < m->writes.n; i++) {
        GraphValue *v = m->writes.at[i].value;
        int layout = m->writes.at[i].layout;
        if (layout < 0 || l->plain[v->id] || graph_value_fixed(v)) continue;
        GraphValue *packed = packed_value(l->g, v, &l->layouts.at[layout]);
        if (!packed || !packed_suffices(l->g, v, packed)) continue;
        l->packed[v->id] = packed;
        l->packed_layout[v->id] = layout;
    }
}

// ---- what it costs

static int layout_at(const Member *m, const Port *p)
{
    return m->on ? p->layout : p->layout == EITHER_WAY ? EITHER_WAY : AS_IT_LIES;
}

static const Port *port_of(const Member *m, const GraphValue *v, bool writes)
{
    const Port *at = writes ? m->writes.at : m->reads.at;
    int n = writes ? m->writes.n : m->reads.n;
    for (int i = 0; i < n; i++)
        if (at[i].value == v) return &at[i];
    return NULL;
}

// The layout in which v lies as things stand.
static int home(const Layouts *l, const GraphValue *v)
{
    if (l->maker[v->id] < 0 || !l->packed[v->id]) return AS_IT_LIES;
    const Member *m = &l->member[l->maker[v->id]];
    return layout_at(m, port_of(m, v, true));
}

static Want *want_of(Layouts *l, const GraphValue *v, int layout)
{
    Wants *w = &l->wants[v->id];
    for (int i = 0; i < w->n; i++)
        if (w->at[i].layout == layout) return &w->at[i];
    VEC_PUSH(l->arena, w, ((Want){.layout = layout, .region = -1}));
    return &VEC_LAST(w);
}

static void count_wants(Layouts *l, const Member *m, int by)
{
    for (int i = 0; i < m->reads.n; i++) {
        int wants = layout_at(m, &m->reads.at[i]);
        if (wants != EITHER_WAY) want_of(l, m->reads.at[i].value, wants)->count += by;
    }
}

static void switch_on(Layouts *l, Member *m, bool on)
{
    count_wants(l, m, -1);
    m->on = on;
    count_wants(l, m, 1);
}

// Bytes that move, or are read and written out of order, because not everyone has v as it lies.
static int64_t border(const Layouts *l, const GraphValue *v)
{
    int at = home(l, v), n = 0;
    if (l->maker[v->id] >= 0) {
        const Member *m = &l->member[l->maker[v->id]];
        int wants = layout_at(m, port_of(m, v, true));
        n += wants != at && wants != EITHER_WAY;
    }
    for (int i = 0; i < l->wants[v->id].n; i++) {
        const Want *w = &l->wants[v->id].at[i];
        n += w->count > 0 && w->layout != at;
    }
    return 2 * bytes_of(v) * n;
}

static int64_t borders(const Layouts *l, const Member *m)
{
    int64_t sum = 0;
    for (int i = 0; i < m->reads.n; i++) sum += border(l, m->reads.at[i].value);
    for (int i = 0; i < m->writes.n; i++) sum += border(l, m->writes.at[i].value);
    return sum;
}

static void look_again(Layouts *l, int m)
{
    if (m < 0 || l->queued[m] || !l->member[m].on) return;
    l->queued[m] = true;
    VEC_PUSH(l->arena, &l->queue, m);
}

// After a group is taken back: those for whom that changes what their own would cost. Who reads a
// value cares whether another wants it so, who computes it whether anyone does.
static void look_around(Layouts *l, const Member *m)
{
    for (int i = 0; i < m->reads.n + m->writes.n; i++) {
        bool reads = i < m->reads.n;
        const Port *p = reads ? &m->reads.at[i] : &m->writes.at[i - m->reads.n];
        if (p->layout < 0) continue;
        int id = p->value->id;
        if (reads && want_of(l, p->value, p->layout)->count > 1 &&
            want_of(l, p->value, AS_IT_LIES)->count > 2)
            continue;
        look_again(l, l->maker[id]);
        for (int k = 0; k < l->readers[id].n; k++) look_again(l, l->readers[id].at[k]);
    }
}

// Takes back what does not pay for itself, until all that is left does.
static void take_back(Layouts *l)
{
    for (int i = 0; i < l->n; i++) look_again(l, i);
    for (int i = 0; i < l->queue.n; i++) {
        Member *m = &l->member[l->queue.at[i]];
        l->queued[l->queue.at[i]] = false;
        int64_t with = borders(l, m);
        switch_on(l, m, false);
        m->cost = with - borders(l, m);
        if (m->cost >= m->worth) look_around(l, m);
        else switch_on(l, m, true);
    }
}

typedef struct Region {
    Indices members;
    VEC(const GraphValue *) values; // that they read or compute
} Region;

// Members that are granted and have a value in the same layout, from `first` on.
static void collect_region(Layouts *l, int first, Region *r)
{
    r->members.n = r->values.n = 0;
    VEC_PUSH(l->arena, &r->members, first);
    l->region[first] = first;
    for (int i = 0; i < r->members.n; i++) {
        const Member *at = &l->member[r->members.at[i]];
        for (int k = 0; k < at->reads.n + at->writes.n; k++) {
            const Port *p = k < at->reads.n ? &at->reads.at[k] : &at->writes.at[k - at->reads.n];
            int id = p->value->id;
            if (l->region_of[id] != first) VEC_PUSH(l->arena, &r->values, p->value);
            l->region_of[id] = first;
            if (p->layout < 0) continue;
            Want *w = want_of(l, p->value, p->layout);
            if (w->region == first) continue;
            w->region = first;
            for (int n = -1; n < l->readers[id].n; n++) {
                int q = n < 0 ? l->maker[id] : l->readers[id].at[n];
                if (q < 0 || l->region[q] >= 0 || !l->member[q].on) continue;
                if (port_of(&l->member[q], p->value, n < 0)->layout != p->layout) continue;
                l->region[q] = first;
                VEC_PUSH(l->arena, &r->members, q);
            }
        }
    }
}

static int64_t region_borders(const Layouts *l, const Region *r)
{
    int64_t sum = 0;
    for (int i = 0; i < r->values.n; i++) sum += border(l, r->values.at[i]);
    return sum;
}

// All of a region of members at once: each border alone may look as if the next were worse.
static void take_back_regions(Layouts *l)
{
    Region r = {0};
    for (int i = 0; i < l->n; i++) {
        if (!l->member[i].on || l->region[i] >= 0) continue;
        collect_region(l, i, &r);
        int64_t worth = 0, cost = region_borders(l, &r);
        for (int k = 0; k < r.members.n; k++) worth += l->member[r.members.at[k]].worth;
        for (int k = 0; k < r.members.n; k++) switch_on(l, &l->member[r.members.at[k]], false);
        cost -= region_borders(l, &r);
        for (int k = 0; k < r.members.n; k++) {
            Member *m = &l->member[r.members.at[k]];
            if (worth > cost) {
                switch_on(l, m, true);
                continue;
            }
            m->worth = worth;
            m->cost = cost;
            m->others = r.members.n - 1;
        }
    }
}

// ---- what comes of it

static void say(Layouts *l, Member *m, const char *text)
{
    VEC_PUSH(l->g->arena, &m->group->layouts, text);
}

static const char *named(const Layouts *l, int layout)
{
    GraphNode n = {.op = op_info(l->g->ops, l->layouts.at[layout].op)};
    n.attrs = l->layouts.at[layout].attrs;
    return packed_name(l->g->arena, &n);
}

GraphValue *group_memory(const Group *p, int i)
{
    GraphValue *v = p->inputs.at[i], *m = i < p->memory.n ? p->memory.at[i] : NULL;
    return m ? m : v->stored ? v->stored : v;
}

// The value that a step makes of v for those who want another layout than it lies in. NULL: it can
// be no more than a further operand of the template.
static GraphValue *step(Layouts *l, GraphValue *v, int layout)
{
    Want *w = want_of(l, v, layout);
    if (w->stepped) return w->made;
    w->stepped = true;
    w->made = layout == AS_IT_LIES ? unpacked_value(l->g, v, v->stored)
                                   : packed_value(l->g, v, &l->layouts.at[layout]);
    if (layout != AS_IT_LIES && w->made && !packed_suffices(l->g, v, w->made)) w->made = NULL;
    return w->made;
}

static void settle_read(Layouts *l, Member *m, const Port *p)
{
    Arena *a = l->g->arena;
    GraphValue *v = p->value, *made = NULL;
    int at = home(l, v), wants = layout_at(m, p);
    bool anew = m->kind != COPYING && wants != EITHER_WAY && wants != at;
    long long bytes = (long long)bytes_of(v);
    if (anew) made = step(l, v, wants);
    VEC_PUSH(a, &m->group->memory, made);
    if (anew && (made || p->wished))
        say(l, m,
            arena_printf(a, "%s is laid out as %s for it, %lld bytes", v->name,
                         wants < 0 ? "it is" : named(l, wants), bytes));
    else if (at >= 0) say(l, m, arena_printf(a, "%s lies in %s", v->name, named(l, at)));
    else if (p->wished && !m->on)
        say(l, m,
            arena_printf(a, "%s as it lies: %s would save %lld bytes and cost %lld%s", v->name,
                         named(l, p->layout), (long long)m->worth, (long long)m->cost,
                         m->others ? arena_printf(a, ", with %d other group%s", m->others,
                                                  m->others > 1 ? "s" : "")
                                   : ""));
}

static void explain_write(Layouts *l, Member *m, const Port *p)
{
    int at = home(l, p->value);
    if (p->layout < 0 || !m->on) return;
    if (at >= 0)
        say(l, m, arena_printf(l->g->arena, "%s is stored in %s", p->value->name, named(l, at)));
    else
        say(l, m,
            arena_printf(l->g->arena, "%s is stored as it is: %s", p->value->name,
                         l->plain[p->value->id] ? "others need it so"
                                                : "its extents do not fit the layout"));
}

static void settle(Layouts *l)
{
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->member[i].writes.n; k++) {
            GraphValue *v = l->member[i].writes.at[k].value;
            if (home(l, v) >= 0) v->stored = l->packed[v->id];
        }
    for (int i = 0; i < l->n; i++) {
        Member *m = &l->member[i];
        m->group->granted = m->on && m->kind == WISHING;
        for (int k = 0; k < m->reads.n; k++) settle_read(l, m, &m->reads.at[k]);
        for (int k = 0; k < m->writes.n; k++) explain_write(l, m, &m->writes.at[k]);
    }
}

static void open_layouts(Layouts *l)
{
    int n = l->nvalue = l->g->values.n;
    l->member = NEW_ARRAY(l->arena, Member, l->n);
    l->queued = NEW_ARRAY(l->arena, bool, l->n);
    l->region = NEW_ARRAY(l->arena, int, l->n);
    for (int i = 0; i < l->n; i++) l->region[i] = -1;
    l->maker = NEW_ARRAY(l->arena, int, n);
    l->readers = NEW_ARRAY(l->arena, Indices, n);
    l->wants = NEW_ARRAY(l->arena, Wants, n);
    l->region_of = NEW_ARRAY(l->arena, int, n);
    l->packed = NEW_ARRAY(l->arena, GraphValue *, n);
    l->packed_layout = NEW_ARRAY(l->arena, int, n);
    l->plain = NEW_ARRAY(l->arena, bool, n);
    for (int i = 0; i < n; i++) l->maker[i] = l->region_of[i] = -1;
}

void graph_layouts(Graph *g, Arena *a, const Groups *groups, const Target *t, bool off)
{
    Arena scratch = {.nomem = a->nomem};
    for (int i = 0; i < g->values.n; i++) g->values.at[i]->stored = NULL;
    if (off) return;
    Layouts l = {.g = g, .arena = &scratch, .target = t, .n = groups->n};
    open_layouts(&l);
    find_plain(&l, groups);
    bool any = false;
    for (int i = 0; i < l.n; i++) {
        Member *m = &l.member[i];
        m->group = groups->at[i];
        if (!m->group->once) make_wishing(&l, m);
        if (m->kind == PLAIN && is_copying(&l, m->group)) make_copying(&l, m);
        if (m->kind == PLAIN) make_plain(&l, m);
        else find_packed(&l, m);
        if (m->kind == WISHING && !has_wish(&l, m)) m->on = false;
        any = any || m->on;
        for (int k = 0; k < m->reads.n; k++)
            VEC_PUSH(&scratch, &l.readers[m->reads.at[k].value->id], i);
        for (int k = 0; k < m->writes.n; k++) l.maker[m->writes.at[k].value->id] = i;
    }
    if (any) {
        for (int i = 0; i < l.n; i++) count_wants(&l, &l.member[i], 1);
        take_back(&l);
        take_back_regions(&l);
        settle(&l);
    }
    arena_free(&scratch);
}

// SPDX-License-Identifier: Apache-2.0
// Fusion groups once they are made: the order in which they run, and how they print.
#include "graph/private.h"

// A group, or a view outside of groups, on the way to its place.
typedef struct Open {
    Group *group;
    const GraphNode *view;
    int next; // which of the values it reads is looked at next
} Open;

Groups groups_in_order(const Graph *g, const Groups *groups, Group *const *group_of, Arena *a)
{
    Groups out = {0};
    bool *seen = NEW_ARRAY(a, bool, g->nodes.n); // views
    VEC(Open) open = {0};
    for (int i = 0; i < groups->n; i++) {
        if (!groups->at[i]->id) VEC_PUSH(a, &open, ((Open){groups->at[i], NULL, 0}));
        while (open.n) {
            Open *e = &VEC_LAST(&open);
            Group *p = e->group;
            if (p) p->id = -1;
            if (e->next == (p ? p->inputs.n : e->view->ninput)) {
                if (p) VEC_PUSH(a, &out, p);
                if (p) p->id = out.n;
                open.n--;
                continue;
            }
            const GraphValue *v = p ? p->inputs.at[e->next] : e->view->input[e->next];
            const GraphNode *n = v ? v->producer : NULL;
            Group *q = n ? group_of[n->id] : NULL;
            e->next++;
            if (!n || (q ? q->id != 0 : seen[n->id])) continue;
            seen[n->id] = true;
            VEC_PUSH(a, &open, ((Open){q, n, 0}));
        }
    }
    return out;
}

static void print_nodes(const char *what, const GraphNodes *list, Buf *out)
{
    for (int i = 0; i < list->n; i++)
        buf_printf(out, "%s%s %s", i ? ", " : what, list->at[i]->op->decl->u.sym,
                   list->at[i]->name);
}

void groups_print(const Groups *g, Buf *out)
{
    for (int i = 0; i < g->n; i++) {
        const Group *p = g->at[i];
        buf_printf(out, "group %d: %s %s", p->id, p->anchor->op->decl->u.sym, p->anchor->name);
        print_nodes("; after ", &p->prologue, out);
        print_nodes("; then ", &p->epilogue, out);
        if (p->by_rows) buf_puts(out, " (a block has whole rows)");
        buf_printf(out, "; by %s", p->kernel ? p->kernel->u.sym : "its meaning");
        for (int k = 0; k < p->after.n; k++) {
            const GraphNode *n = p->after.at[k].node;
            buf_printf(out, "; not %s %s: %s", n->op->decl->u.sym, n->name, p->after.at[k].why);
        }
        buf_putc(out, '\n');
    }
}

// SPDX-License-Identifier: Apache-2.0
// What rewriting by rules is made of: matching a pattern (rules_match.c), asking its conditions
// (rules_when.c), building its result (rules_build.c), and the order in which all that happens
// (rules.c).
#ifndef HEALD_GRAPH_RULES_H
#define HEALD_GRAPH_RULES_H

#include "graph/private.h"

enum { RULE_MAX_BINDING = 64, RULE_MAX_ROOT = 4, RULE_MAX_CHOICE = 64 };
enum { NODE_REMOVED = -1 }; // as the id of a node that is in the graph no more

typedef struct Binding {
    Sym name;
    GraphValue *value; // a tensor; NULL: absent
    const Value *attr; // or an attribute's value
    const Map *attrs;  // or all attributes of a node
} Binding;

typedef struct Match {
    Graph *g;
    const Rewriting *how;
    Diag *diag;
    Arena *scratch; // of one try
    Arena *order;   // of `ahead`
    const Node *rule;
    Binding binding[RULE_MAX_BINDING];
    int nbinding;
    GraphNode *root[RULE_MAX_ROOT];
    GraphValue *value[RULE_MAX_ROOT]; // of each root: what the result replaces
    int nroot;
    GraphNodes nodes; // all that matched, roots among them
    // The ways taken where there are several; matching starts again with the next ones on failure.
    struct {
        int at, of;
    } choice[RULE_MAX_CHOICE];
    int nchoice, next_choice;
    DType type;         // of numbers in the result: the first root's
    GraphNodes ahead;   // see rules.c
    int most;           // rewrites until rules count as without end
    const Node *native; // an op of the result for which the target must have a template, or NULL
} Match;

// Readers of `old` read `now` from here on, and outputs are that.
void graph_replace(Graph *g, GraphValue *old, GraphValue *now);

// ---- patterns

// Patterns of the roots: one, or the elements of a tuple.
int rule_roots(const Node *rule, Node *const **out);
// A pattern without `.k` after it; *k: the result of its node that is meant, 0 without.
Node *pattern_node(Node *pattern, int *k);
// Whether the rule applies at node n as its first root: the bindings and nodes are then in *m.
bool rule_match(Match *m, GraphNode *n);
Binding *match_find(Match *m, Sym name);
// False: the name stands for another tensor, or there are too many.
bool match_bind_value(Match *m, Sym name, GraphValue *v);
bool match_constant(const GraphValue *v, double *out); // of one element
// The name of an argument `name?`, which also matches an input that was left out; NULL if it is
// none.
Sym pattern_optional(const Node *n);
// The pack in `...a`, which stands for all attributes, or NULL.
Sym pattern_all_attributes(const Node *n);

// ---- conditions

bool match_holds(Match *m, Node *when);
// Whether a condition says stays(): what matches may have other readers, for whom it stays.
bool rule_leaves(const Node *when);
bool match_evaluate(Match *m, Node *n, Value *out); // names stand for what they are bound to

// ---- results

// Nodes for the result, in front of the first root, and the values for the roots. False with
// diagnostics.
bool match_build(Match *m, GraphValue **out);

#endif

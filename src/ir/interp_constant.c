// SPDX-License-Identifier: Apache-2.0
// Values of pure scalar expressions, without a machine.
#include "ir/interp_machine.h"

enum { MAX_DEPTH = 1000 };

static bool evaluate(const Node *n, const Var *var, Scalar value, Scalar *out, int depth)
{
    Scalar x[SCALAR_MAX_OPERANDS];
    if (depth > MAX_DEPTH || n->lanes > 1) return false;
    if (scalar_of(n, out)) return true;
    if (n->kind == N_VARREF && var && n->u.var == var) {
        *out = value;
        return true;
    }
    if (n->kind == N_SELECT || n->kind == N_LAND || n->kind == N_LOR) {
        if (!evaluate(n->kid[0], var, value, &x[0], depth + 1) || x[0].type != DT_BOOL)
            return false;
        bool first = x[0].v.i != 0;
        if (n->kind == N_SELECT) return evaluate(n->kid[first ? 1 : 2], var, value, out, depth + 1);
        *out = x[0];
        return first == (n->kind == N_LOR) || evaluate(n->kid[1], var, value, out, depth + 1);
    }
    bool is_intrinsic = n->kind == N_INTRIN;
    if (!n->nkid || n->nkid > SCALAR_MAX_OPERANDS || node_info[n->kind].payload == PAYLOAD_BUF)
        return false;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (!n->kid[i] || !evaluate(n->kid[i], var, value, &x[i], depth + 1)) return false;
    return is_intrinsic ? scalar_intrinsic(intrinsic_id(n->u.intr), x, out)
                        : scalar_apply((NodeKind)n->kind, (DType)n->type, x, out);
}

bool interp_evaluate(const Node *n, const Var *var, Scalar value, Scalar *out)
{
    return evaluate(n, var, value, out, 0);
}

bool interp_constant(Arena *a, const Node *n, Node **out)
{
    Scalar s;
    if (!evaluate(n, NULL, (Scalar){0}, &s, 0)) return false;
    *out = scalar_node(a, n->loc, &s);
    return true;
}

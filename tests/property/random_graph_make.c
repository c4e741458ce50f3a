// SPDX-License-Identifier: Apache-2.0
// Random graphs: an operator is taken from the library, operands from what is there already or made
// anew so that they fit its declared types, attributes at random; what the operator then refuses is
// dropped. So an operator that is added to the library is covered without a line here.
#include "random_graph.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ELEMENTS = 3000, MAX_WORK = 400000, TRIES = 40 };

uint64_t rg_next(RgRandom *r) // splitmix64
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int rg_below(RgRandom *r, int n)
{
    return (int)(rg_next(r) % (uint64_t)n);
}

int rg_between(RgRandom *r, int lo, int hi)
{
    return lo + rg_below(r, hi - lo + 1);
}

bool rg_chance(RgRandom *r, int percent)
{
    return rg_below(r, 100) < percent;
}

// What an input of some op should hold, where numbers around 0 say little.
typedef struct Hint {
    const char *op, *param; // NULL: any
    char fill;
} Hint;

static const Hint hints[] = {
    // op                param       fill
    {"log",              NULL,       'p'},
    {"sqrt",             NULL,       'p'},
    {"acosh",            NULL,       'p'},
    {"asin",             NULL,       'u'},
    {"acos",             NULL,       'u'},
    {"atanh",            NULL,       'u'},
    {"pow",              "b",        'z'},
    {"reduce_log_sum",   NULL,       'p'},
    {NULL,               "variance", 'p'},
    {NULL,               "scale",    'p'},
    {NULL,               "y_scale",  'p'},
    {"reverse_sequence", "lengths",  'i'},
    {NULL,               "lens",     'i'},
    {"gather",           "at",       'n'}, // indices: from the end where negative
    {"gather_elements",  "at",       'n'},
};

typedef struct Maker {
    RandomGraph *g;
    RgRandom random;
    int64_t extents[4]; // most extents are taken from these
    DType main;
    bool special; // inputs hold NaN and infinities
    const Node *op;
    DType first; // the first operand's type: what a number beside it has
    int first_value;
    // Names of the op's types that are bound by the operands so far.
    Sym dim_name[16];
    int64_t dim[16];
    int ndim;
    Sym pack_name[8];
    int64_t pack[8][RG_MAX_RANK];
    int pack_rank[8], npack;
    Sym type_name[8];
    DType type[8];
    int ntype;
} Maker;

// ---- what is bound

static int find_sym(const Sym *list, int n, Sym s)
{
    for (int i = 0; i < n; i++)
        if (list[i] == s) return i;
    return -1;
}

static DType any_type(Maker *m)
{
    static const DType often[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_I32, DT_I64, DT_U8, DT_I8,
                                  DT_BOOL, DT_F32, DT_I64};
    return rg_chance(&m->random, 65) ? m->main : often[rg_below(&m->random, (int)COUNT(often))];
}

static bool letter_admits(Sym s, DType t)
{
    return s[0] == 'T' || (s[0] == 'F' && dtype_is_float(t)) || (s[0] == 'I' && dtype_is_int(t)) ||
           (s[0] == 'B' && t == DT_BOOL);
}

static bool is_letter(Sym s)
{
    return strchr("TFIB", s[0]) && (!s[1] || (s[1] >= '0' && s[1] <= '9' && !s[2]));
}

static const Node *param_type(const Node *p)
{
    return p->kid[KID_PARAM_type];
}

// The element type that a parameter wants; DT_NONE where it is free. *letter: the name to bind.
static DType wanted_type(Maker *m, const Node *p, Sym *letter)
{
    const Node *x = param_type(p)->kid[KID_TYPE_dtype];
    *letter = NULL;
    if (!x || x->kind != N_NAME) return DT_NONE;
    if (!is_letter(x->u.sym)) return dtype_from_name(x->u.sym);
    *letter = x->u.sym;
    int at = find_sym(m->type_name, m->ntype, x->u.sym);
    return at < 0 ? DT_NONE : m->type[at];
}

static void bind_type(Maker *m, Sym letter, DType t)
{
    if (!letter || find_sym(m->type_name, m->ntype, letter) >= 0 || m->ntype == 8) return;
    m->type_name[m->ntype] = letter;
    m->type[m->ntype++] = t;
}

static void bind_dim(Maker *m, Sym s, int64_t n)
{
    if (m->ndim == 16) return;
    m->dim_name[m->ndim] = s;
    m->dim[m->ndim++] = n;
}

static void bind_pack(Maker *m, Sym s, int rank, const int64_t *dims)
{
    if (m->npack == 8) return;
    m->pack_name[m->npack] = s;
    m->pack_rank[m->npack] = rank;
    memcpy(m->pack[m->npack++], dims, (size_t)rank * sizeof *dims);
}

// The name of a dimension or pack of a type; NULL for an expression.
static Sym dim_sym(const Node *d, bool *pack)
{
    *pack = d->kind == N_SPREAD;
    if (*pack) d = d->kid[KID_SPREAD_pack];
    return d->kind == N_NAME ? d->u.sym : NULL;
}

// Binds what a parameter's type names to a value's extents. False where they surely do not fit.
static bool bind_value(Maker *m, const Node *p, const RgValue *v)
{
    Sym letter;
    DType want = wanted_type(m, p, &letter);
    if (want != DT_NONE && want != v->type) return false;
    if (letter && !letter_admits(letter, v->type)) return false;
    bind_type(m, letter, v->type);
    const Node *type = param_type(p);
    if (type->sub == TYPE_TENSORS) return true;
    int n = NREST(type), axis = 0;
    for (int i = 0; i < n; i++) {
        bool pack;
        Sym s = dim_sym(REST(type)[i], &pack);
        int left = v->rank - axis - (n - 1 - i);
        if (left < (pack ? 0 : 1)) return false;
        if (!pack) {
            int at = s ? find_sym(m->dim_name, m->ndim, s) : -1;
            if (at >= 0 && m->dim[at] != v->dims[axis]) return false;
            if (s && at < 0) bind_dim(m, s, v->dims[axis]);
            axis++;
            continue;
        }
        int at = s ? find_sym(m->pack_name, m->npack, s) : -1;
        if (at >= 0) {
            if (m->pack_rank[at] > left ||
                memcmp(m->pack[at], v->dims + axis, (size_t)m->pack_rank[at] * sizeof *v->dims))
                return false;
            left = m->pack_rank[at];
        } else if (s) {
            bind_pack(m, s, left, v->dims + axis);
        }
        axis += left;
    }
    return axis == v->rank;
}

// ---- new operands

static int64_t any_extent(Maker *m)
{
    static const int64_t others[] = {1, 2, 3, 4, 5, 7, 8, 17, 33};
    if (rg_chance(&m->random, 75)) return m->extents[rg_below(&m->random, 4)];
    return others[rg_below(&m->random, (int)COUNT(others))];
}

// An extent for a name that is not bound: a few names are known to be tied to others.
static int64_t fresh_dim(Maker *m, Sym s)
{
    int c = find_sym(m->dim_name, m->ndim, intern(m->g->world->library.names, "c"));
    if (c >= 0 && m->dim[c] > 0 && !strcmp(s, "cw")) return m->dim[c];
    if (c >= 0 && m->dim[c] > 0 && !strcmp(s, "cg")) {
        int64_t part = rg_chance(&m->random, 50) ? 1 : rg_between(&m->random, 1, (int)min_i64(m->dim[c], 8));
        return m->dim[c] % part ? m->dim[c] : m->dim[c] / part;
    }
    if (m->ndim && rg_chance(&m->random, 40)) return m->dim[rg_below(&m->random, m->ndim)];
    return any_extent(m);
}

// dims broadcast with, or against, those of an earlier pack.
static int like_pack(Maker *m, int from, int64_t *dims)
{
    int rank = m->pack_rank[from], drop = 0;
    if (rank && rg_chance(&m->random, 40)) drop = rg_between(&m->random, 0, rank);
    for (int k = drop; k < rank; k++) {
        int64_t d = m->pack[from][k];
        dims[k - drop] = rg_chance(&m->random, 20) ? 1 : d == 1 && rg_chance(&m->random, 40) ? any_extent(m) : d;
    }
    return rank - drop;
}

static int fresh_pack(Maker *m, Sym s, int fixed, int64_t *dims)
{
    int rank = 0, spatial = find_sym(m->pack_name, m->npack, intern(m->g->world->library.names, "d"));
    if (s && !strcmp(s, "k") && spatial >= 0) {
        rank = m->pack_rank[spatial];
        for (int k = 0; k < rank; k++) dims[k] = rg_between(&m->random, 1, 3);
        return rank;
    }
    if (m->npack && rg_chance(&m->random, 80)) return like_pack(m, rg_below(&m->random, m->npack), dims);
    int most = fixed >= 2 ? 2 : 4 - fixed;
    rank = fixed >= 2 ? rg_between(&m->random, fixed > 2 ? 0 : rg_below(&m->random, 2), most)
                      : rg_between(&m->random, rg_chance(&m->random, 85), most);
    for (int k = 0; k < rank; k++) dims[k] = any_extent(m);
    return rank;
}

static int64_t elements(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return n;
}

static char fill_of(Maker *m, const Node *p, DType t)
{
    for (size_t i = 0; i < COUNT(hints); i++) {
        const Hint *h = &hints[i];
        if ((!h->op || !strcmp(h->op, m->op->u.sym)) && (!h->param || !strcmp(h->param, p->u.sym)))
            return h->fill;
    }
    const Node *x = param_type(p)->kid[KID_TYPE_dtype];
    if (x && x->kind == N_NAME && x->u.sym[0] == 'I' && is_letter(x->u.sym)) return 'i';
    return m->special && (dtype_is_float(t) || rg_chance(&m->random, 30)) ? 's' : 'x';
}

static int add_value(RandomGraph *g, RgValue v)
{
    VEC_PUSH(g->arena, &g->values, v);
    return g->values.n - 1;
}

// How far an index may go: the least extent of the first operand.
static int64_t index_bound(Maker *m)
{
    int64_t least = 100;
    const RgValue *v = m->first_value >= 0 ? &m->g->values.at[m->first_value] : NULL;
    for (int k = 0; v && k < v->rank; k++) least = min_i64(least, v->dims[k]);
    return least;
}

static bool fresh_value(Maker *m, const Node *p, int *out)
{
    RgValue v = {.node = -1};
    Sym letter;
    const Node *type = param_type(p);
    v.type = wanted_type(m, p, &letter);
    for (int i = 0; v.type == DT_NONE; i++) {
        DType t = any_type(m);
        if (i == 30) t = letter && letter[0] == 'B' ? DT_BOOL : letter && letter[0] == 'I' ? DT_I64 : DT_F32;
        if (!letter || letter_admits(letter, t)) v.type = t;
    }
    int n = NREST(type);
    for (int i = 0; i < n; i++) {
        bool pack;
        Sym s = dim_sym(REST(type)[i], &pack);
        if (!pack) {
            int at = s ? find_sym(m->dim_name, m->ndim, s) : -1;
            if (v.rank == RG_MAX_RANK) return false;
            v.dims[v.rank++] = at >= 0 ? m->dim[at] : s ? fresh_dim(m, s) : any_extent(m);
            if (s && at < 0) bind_dim(m, s, v.dims[v.rank - 1]);
            continue;
        }
        int64_t dims[RG_MAX_RANK];
        int at = s ? find_sym(m->pack_name, m->npack, s) : -1;
        int rank = at >= 0 ? m->pack_rank[at] : fresh_pack(m, s, n - 1, dims);
        if (v.rank + rank > 6) return false;
        memcpy(v.dims + v.rank, at >= 0 ? m->pack[at] : dims, (size_t)rank * sizeof *dims);
        if (at < 0 && s && type->sub != TYPE_TENSORS) bind_pack(m, s, rank, dims);
        v.rank += rank;
    }
    bind_type(m, letter, v.type);
    if (elements(v.rank, v.dims) > MAX_ELEMENTS / 2) return false;
    char fill = fill_of(m, p, v.type);
    if (fill == 'n' || fill == 'i') {
        int64_t bound = index_bound(m);
        if (bound < 1) return false;
        if (dtypes[v.type].class == DC_UINT) fill = 'i';
        v.name = arena_printf(m->g->arena, "%c%lld_%d", fill, (long long)bound, m->g->values.n);
    } else {
        v.name = arena_printf(m->g->arena, "%c%d", fill, m->g->values.n);
    }
    v.constant = rg_chance(&m->random, 25);
    if (v.rank == 0 && fill == 'x' && v.type == m->first && rg_chance(&m->random, 50)) {
        static const double numbers[] = {0, 1, 2, 0.5, 3, -1, 0.25, 100, 1e-3};
        v.literal = v.constant = true;
        v.number = numbers[rg_below(&m->random, (int)COUNT(numbers))];
        if (!dtype_is_float(v.type)) v.number = (double)(int)v.number;
        if (dtypes[v.type].class != DC_INT && v.number < 0 && !dtype_is_float(v.type)) v.number = 1;
        if (v.type == DT_BOOL) v.literal = false;
    }
    *out = add_value(m->g, v);
    return true;
}

static bool is_read(const RandomGraph *g, int value)
{
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i].ninput; k++)
            if (g->nodes.at[i].input[k] == value) return true;
    return false;
}

// A value that is there already, rather one that nobody reads yet.
static bool present_value(Maker *m, const Node *p, int *out)
{
    if (!m->g->values.n) return false;
    Maker before = *m;
    for (int i = 0; i < 12; i++) {
        int at = rg_below(&m->random, m->g->values.n);
        if (rg_chance(&m->random, 50)) at = m->g->values.n - 1 - rg_below(&m->random, (int)min_i64(m->g->values.n, 4));
        const RgValue *v = &m->g->values.at[at];
        if (v->literal || (i < 6 && (v->node < 0 || is_read(m->g, at)))) continue;
        if (bind_value(m, p, v)) {
            *out = at;
            return true;
        }
        RgRandom random = m->random;
        *m = before;
        m->random = random;
    }
    return false;
}

static bool operand(Maker *m, const Node *p, bool first, int *out)
{
    char fill = fill_of(m, p, DT_NONE);
    bool index = fill == 'n' || fill == 'i';
    if (!index && rg_chance(&m->random, first ? 85 : 45) && present_value(m, p, out)) return true;
    return fresh_value(m, p, out);
}

// ---- nodes

// An operand more of a variadic parameter: like the first, perhaps with another extent.
static bool another(Maker *m, const Node *p, int first, int *out)
{
    const RgValue f = m->g->values.at[first];
    if (rg_chance(&m->random, 50)) {
        for (int i = 0; i < 8; i++) {
            int at = rg_below(&m->random, m->g->values.n);
            const RgValue *v = &m->g->values.at[at];
            if (v->type != f.type || v->rank != f.rank || v->literal) continue;
            *out = at;
            return true;
        }
    }
    RgValue v = f;
    v.node = -1;
    v.literal = false;
    v.constant = rg_chance(&m->random, 25);
    if (v.rank && rg_chance(&m->random, 50)) {
        int axis = rg_below(&m->random, v.rank);
        v.dims[axis] = rg_chance(&m->random, 40) ? 1 : any_extent(m);
    }
    if (elements(v.rank, v.dims) > MAX_ELEMENTS / 2) return false;
    v.name = arena_printf(m->g->arena, "%c%d", fill_of(m, p, v.type), m->g->values.n);
    *out = add_value(m->g, v);
    return true;
}

static bool operands(Maker *m, RgNode *n)
{
    Node *params = KID((Node *)m->op, OP, params);
    m->ndim = m->npack = m->ntype = n->ninput = 0;
    m->first = DT_NONE;
    m->first_value = -1;
    for (int i = 0; i < NREST(params); i++) {
        const Node *p = REST(params)[i];
        int at = -1;
        bool skip = (p->sub & PARAM_OPTIONAL) && rg_chance(&m->random, 45);
        if (!skip && !operand(m, p, i == 0, &at)) return false;
        n->input[n->ninput++] = at;
        if (i == 0 && at >= 0) m->first = m->g->values.at[at].type;
        if (i == 0) m->first_value = at;
        int more = (p->sub & PARAM_VARIADIC) ? rg_below(&m->random, 4) : 0;
        for (int k = 0; k < more && n->ninput < RG_MAX_INPUT; k++) {
            int next;
            if (!another(m, p, at, &next)) return false;
            n->input[n->ninput++] = next;
        }
    }
    while (n->ninput && n->input[n->ninput - 1] < 0) n->ninput--;
    return true;
}

static bool attributes(Maker *m, RgNode *n)
{
    Node *attrs = KID((Node *)m->op, OP, attrs);
    int rank = n->ninput && n->input[0] >= 0 ? m->g->values.at[n->input[0]].rank : 2;
    RgContext c = {.g = m->g, .random = &m->random, .op = m->op, .node = n};
    c.list = rg_between(&m->random, 1, (int)max_i64(rank, 1));
    c.parts = rg_between(&m->random, 1, 4);
    for (int i = 0; i < NREST(attrs); i++) {
        const Node *a = REST(attrs)[i];
        bool has_default = a->kid[KID_PARAM_default] != NULL;
        if (has_default && rg_chance(&m->random, 40)) continue;
        if (!rg_attribute(&c, a, &n->attrs) && !has_default) return false;
    }
    n->noutput = NREST(KID((Node *)m->op, OP, results));
    if (n->noutput > c.parts && n->noutput >= RG_MAX_OUTPUT) n->noutput = c.parts;
    return n->noutput > 0 && n->noutput <= RG_MAX_OUTPUT;
}

// Results of the op for its operands, or false.
static bool infer(RandomGraph *g, const RgNode *n, RgValue *result)
{
    RgWorld *w = g->world;
    Arena scratch = {0};
    Diag quiet;
    diag_init(&quiet, &scratch, &w->sources);
    Instance *in = instance_new(&scratch, &w->library, &w->target, &quiet);
    Tensor *tensor[RG_MAX_INPUT] = {0};
    for (int i = 0; i < n->ninput; i++) {
        if (n->input[i] < 0) continue;
        const RgValue *v = &g->values.at[n->input[i]];
        Value dims[RG_MAX_RANK];
        for (int k = 0; k < v->rank; k++) dims[k] = value_int(v->dims[k]);
        tensor[i] = instance_input(in, v->literal ? "number" : v->name, v->type, v->rank, dims);
    }
    Node *params = KID((Node *)n->op, OP, params);
    int nparam = NREST(params);
    Value args[RG_MAX_INPUT + 1], list[RG_MAX_INPUT];
    int narg = 0, count = 0;
    for (int i = 0; i < n->ninput; i++) {
        Value v = tensor[i] ? (Value){.kind = V_TENSOR, .u.tensor = tensor[i]} : value_none();
        if (i < nparam && !(REST(params)[i]->sub & PARAM_VARIADIC)) args[narg++] = v;
        else list[count++] = v;
    }
    if (nparam && (REST(params)[nparam - 1]->sub & PARAM_VARIADIC)) {
        while (narg < nparam - 1) args[narg++] = value_none();
        args[narg++] = value_tuple(&scratch, count, list);
    }
    OpInst *op = op_apply(in, 0, n->op, narg, args, &n->attrs);
    bool ok = op && op->nresult >= n->noutput;
    for (int i = 0; ok && i < n->noutput; i++) {
        const Tensor *t = op->results[i];
        ok = t->rank <= RG_MAX_RANK;
        if (!ok) break;
        result[i].type = t->type;
        result[i].rank = t->rank;
        int64_t total = 1;
        for (int k = 0; ok && k < t->rank; k++) {
            ok = t->dims[k].kind == V_INT && t->dims[k].u.i >= 0 && t->dims[k].u.i <= MAX_ELEMENTS;
            result[i].dims[k] = t->dims[k].u.i;
            total *= ok ? t->dims[k].u.i : 1;
            ok = ok && total <= MAX_ELEMENTS;
        }
    }
    arena_free(&scratch);
    return ok;
}

bool rg_infer_node(RandomGraph *g, RgNode *n)
{
    RgValue result[RG_MAX_OUTPUT] = {0};
    if (!infer(g, n, result)) return false;
    for (int i = 0; i < n->noutput; i++) {
        RgValue *v = &g->values.at[n->output[i]];
        v->type = result[i].type;
        v->rank = result[i].rank;
        memcpy(v->dims, result[i].dims, sizeof v->dims);
    }
    return true;
}

bool rg_infer(RandomGraph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (g->values.at[g->nodes.at[i].output[0]].node == i && !rg_infer_node(g, &g->nodes.at[i])) return false;
    return true;
}

// A bound on what the interpreter has to do.
static bool too_much(const RandomGraph *g, const RgNode *n, const RgValue *result)
{
    const OpInfo *o = op_info(g->world->ops, n->op);
    if (o->class == OPCLASS_POINTWISE || o->class == OPCLASS_MAP) return false;
    int64_t most = 1, out = elements(result[0].rank, result[0].dims);
    for (int i = 0; i < n->ninput; i++) {
        if (n->input[i] < 0) continue;
        const RgValue *v = &g->values.at[n->input[i]];
        most = max_i64(most, elements(v->rank, v->dims));
    }
    return out * most > MAX_WORK;
}

// Whether the op's meaning can be instantiated: op_apply looks at types and shapes only.
static bool has_meaning(const RandomGraph *g, const RgNode *n, const RgValue *result)
{
    RgWorld *w = g->world;
    Arena scratch = {0};
    Diag quiet;
    diag_init(&quiet, &scratch, &w->sources);
    Graph *one = graph_new(&scratch, &w->library, w->ops, "one");
    GraphValue *in[RG_MAX_INPUT] = {0}, *out[RG_MAX_OUTPUT];
    Value dims[RG_MAX_RANK];
    for (int i = 0; i < n->ninput + n->noutput; i++) {
        int at = i < n->ninput ? n->input[i] : 0;
        const RgValue *v = i < n->ninput ? &g->values.at[max_i64(at, 0)] : &result[i - n->ninput];
        for (int k = 0; k < v->rank; k++) dims[k] = value_int(v->dims[k]);
        GraphValue *made = graph_value(one, "v", v->type, v->rank, dims);
        if (i >= n->ninput) out[i - n->ninput] = made;
        else if (at >= 0) in[i] = made;
    }
    int ninput = (int)max_i64(n->ninput, NREST(KID((Node *)n->op, OP, params)));
    GraphNode *node = graph_node(one, "n", "n", (OpBindings){0}, ninput, in, n->noutput, out);
    node->op = op_info(w->ops, n->op);
    node->attrs = n->attrs;
    bool ok = true;
    for (int i = 0; ok && i < (node->op->class == OPCLASS_SERIAL ? 1 : n->noutput); i++)
        ok = node_kernel(one, node, i, &scratch, &w->target, &quiet) != NULL;
    arena_free(&scratch);
    return ok;
}

static bool add_node(Maker *m, const Node *op)
{
    RandomGraph *g = m->g;
    m->op = op;
    RgNode n = {.op = op};
    RgValue result[RG_MAX_OUTPUT] = {0};
    int before = g->values.n;
    bool ok = operands(m, &n) && attributes(m, &n) && infer(g, &n, result) && !too_much(g, &n, result) &&
              has_meaning(g, &n, result);
    if (!ok) {
        g->values.n = before;
        return false;
    }
    for (int i = 0; i < n.noutput; i++) {
        result[i].node = g->nodes.n;
        result[i].result = i;
        result[i].name = arena_printf(g->arena, "v%d", g->values.n);
        n.output[i] = add_value(g, result[i]);
    }
    VEC_PUSH(g->arena, &g->nodes, n);
    return true;
}

// ---- graphs

static const Node *any_op(Maker *m)
{
    const Map *ops = &m->g->world->library.ops;
    for (int i = 0; i < 4; i++) {
        const Node *op = ops->entry[rg_below(&m->random, ops->n)].value;
        const OpInfo *o = op_info(m->g->world->ops, op);
        bool common = o->class == OPCLASS_POINTWISE || o->view || o->moves;
        if (common || rg_chance(&m->random, 50)) return op;
    }
    return ops->entry[rg_below(&m->random, ops->n)].value;
}

static void choose_outputs(Maker *m)
{
    RandomGraph *g = m->g;
    for (int i = 0; i < g->values.n; i++) {
        const RgValue *v = &g->values.at[i];
        bool out = v->node < 0 ? !v->literal && rg_chance(&m->random, 2)
                               : !is_read(g, i) || rg_chance(&m->random, 15);
        if (out) VEC_PUSH(g->arena, &g->outputs, i);
    }
}

RandomGraph *rg_make(RgWorld *w, Arena *a, uint64_t seed, int index)
{
    RandomGraph *g = NEW(a, RandomGraph);
    g->arena = a;
    g->world = w;
    g->name = arena_printf(a, "g_%llu_%d", (unsigned long long)seed, index);
    Maker m = {.g = g, .random = {seed * 1000003u + (uint64_t)index}};
    static const int64_t extents[] = {1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 16, 17, 33};
    static const DType types[] = {DT_F32, DT_F32, DT_F32, DT_F32, DT_F64, DT_F64,
                                  DT_F16, DT_BF16, DT_I32, DT_I64, DT_U8};
    for (int i = 0; i < 4; i++) m.extents[i] = extents[rg_below(&m.random, (int)COUNT(extents))];
    if (rg_chance(&m.random, 4)) m.extents[0] = 0;
    m.main = types[rg_below(&m.random, (int)COUNT(types))];
    m.special = rg_chance(&m.random, 15);
    int want = rg_chance(&m.random, 20) ? rg_between(&m.random, 8, 14) : rg_between(&m.random, 1, 7);
    for (int i = 0; i < 20 * want && g->nodes.n < want; i++) {
        const Node *op = any_op(&m);
        for (int k = 0; k < TRIES && !add_node(&m, op); k++) continue;
    }
    choose_outputs(&m);
    return g;
}

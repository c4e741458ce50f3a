// SPDX-License-Identifier: Apache-2.0
// Operands of random graphs: the types that an operator declares are matched against values that
// are there, and new inputs are made so that what its types name agrees.
#include "random_graph_make.h"

#include <stdio.h>
#include <string.h>

// What an input of some op should hold, where numbers around 0 say little.
typedef struct Hint {
    const char *op, *param; // NULL: any
    char fill;
} Hint;

// clang-format off
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
    {NULL,               "rois",     'r'}, // as many samples as they are large
    {NULL,               "variance", 'p'},
    {NULL,               "scale",    'p'},
    {NULL,               "y_scale",  'p'},
    {"reverse_sequence", "lengths",  'i'},
    {NULL,               "lens",     'i'},
    {"gather",           "at",       'n'}, // indices: from the end where negative
    {"gather_elements",  "at",       'n'},
};
// clang-format on

// ---- what is bound

static int find_sym(const Sym *list, int n, Sym s)
{
    for (int i = 0; i < n; i++)
        if (list[i] == s) return i;
    return -1;
}

static DType any_type(Maker *m)
{
    static const DType often[] = {DT_F32, DT_F64, DT_F16,  DT_BF16, DT_I32, DT_I64,
                                  DT_U8,  DT_I8,  DT_BOOL, DT_F32,  DT_I64};
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

bool maker_bind(Maker *m, const Node *p, const RgValue *v)
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
        int64_t part =
            rg_chance(&m->random, 50) ? 1 : rg_between(&m->random, 1, (int)min_i64(m->dim[c], 8));
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
        dims[k - drop] = rg_chance(&m->random, 20)             ? 1
                         : d == 1 && rg_chance(&m->random, 40) ? any_extent(m)
                                                               : d;
    }
    return rank - drop;
}

static int fresh_pack(Maker *m, Sym s, int fixed, int64_t *dims)
{
    int rank = 0,
        spatial = find_sym(m->pack_name, m->npack, intern(m->g->world->library.names, "d"));
    if (s && !strcmp(s, "k") && spatial >= 0) {
        rank = m->pack_rank[spatial];
        for (int k = 0; k < rank; k++) dims[k] = rg_between(&m->random, 1, 3);
        return rank;
    }
    if (m->npack && rg_chance(&m->random, 80))
        return like_pack(m, rg_below(&m->random, m->npack), dims);
    int most = fixed >= 2 ? 2 : 4 - fixed;
    rank = fixed >= 2 ? rg_between(&m->random, fixed > 2 ? 0 : rg_below(&m->random, 2), most)
                      : rg_between(&m->random, rg_chance(&m->random, 85), most);
    for (int k = 0; k < rank; k++) dims[k] = any_extent(m);
    return rank;
}

int64_t rg_elements(const RgValue *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dims[i];
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

int maker_value(RandomGraph *g, RgValue v)
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

bool maker_fresh(Maker *m, const Node *p, int *out)
{
    RgValue v = {.node = -1};
    Sym letter;
    const Node *type = param_type(p);
    v.type = wanted_type(m, p, &letter);
    for (int i = 0; v.type == DT_NONE; i++) {
        DType t = any_type(m);
        if (i == 30)
            t = letter && letter[0] == 'B' ? DT_BOOL : letter && letter[0] == 'I' ? DT_I64 : DT_F32;
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
    if (rg_elements(&v) > RG_MAX_ELEMENTS / 2) return false;
    char fill = fill_of(m, p, v.type);
    if (fill == 'n' || fill == 'i') {
        int64_t bound = index_bound(m);
        if (bound < 1) return false;
        if (dtypes[v.type].class == DC_UINT) fill = 'i';
        v.name = arena_printf(m->g->arena, "%c%lld_%d", fill, (long long)bound, m->g->values.n);
    } else {
        v.name = arena_printf(m->g->arena, "%c%d", fill, m->g->values.n);
    }
    v.constant = rg_chance(&m->random, m->constants);
    if (v.rank == 0 && fill == 'x' && v.type == m->first && rg_chance(&m->random, 50)) {
        static const double numbers[] = {0, 1, 2, 0.5, 3, -1, 0.25, 100, 1e-3};
        v.literal = v.constant = true;
        v.number = numbers[rg_below(&m->random, (int)COUNT(numbers))];
        if (!dtype_is_float(v.type)) v.number = (double)(int)v.number;
        if (dtypes[v.type].class != DC_INT && v.number < 0 && !dtype_is_float(v.type)) v.number = 1;
        if (v.type == DT_BOOL) v.literal = false;
    }
    *out = maker_value(m->g, v);
    return true;
}

bool rg_is_read(const RandomGraph *g, int value)
{
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i].ninput; k++)
            if (g->nodes.at[i].input[k] == value) return true;
    return false;
}

static bool like_first(const Maker *m, const RgValue *v)
{
    const RgValue *f = &m->g->values.at[m->first_value];
    return v->rank == f->rank && !memcmp(v->dims, f->dims, (size_t)v->rank * sizeof *v->dims);
}

// A value that is there already, rather one that nobody reads yet; beside a first operand, rather
// one of its shape.
static bool present_value(Maker *m, const Node *p, int *out)
{
    if (!m->g->values.n) return false;
    Maker before = *m;
    for (int i = 0; i < 12; i++) {
        int at = rg_below(&m->random, m->g->values.n);
        if (rg_chance(&m->random, 50))
            at = m->g->values.n - 1 - rg_below(&m->random, (int)min_i64(m->g->values.n, 4));
        const RgValue *v = &m->g->values.at[at];
        if (v->literal || (i < 6 && m->first_value < 0 && (v->node < 0 || rg_is_read(m->g, at))))
            continue;
        if (i < 8 && m->first_value >= 0 && !like_first(m, v)) continue; // diamonds
        if (maker_bind(m, p, v)) {
            *out = at;
            return true;
        }
        RgRandom random = m->random;
        *m = before;
        m->random = random;
    }
    return false;
}

bool maker_operand(Maker *m, const Node *p, bool first, int *out)
{
    char fill = fill_of(m, p, DT_NONE);
    bool index = fill == 'n' || fill == 'i' || fill == 'r';
    if (!index && rg_chance(&m->random, first ? 85 : 60) && present_value(m, p, out)) return true;
    return maker_fresh(m, p, out);
}

void maker_begin(Maker *m, const Node *op)
{
    m->op = op;
    m->ndim = m->npack = m->ntype = 0;
    m->first = DT_NONE;
    m->first_value = -1;
}

bool maker_another(Maker *m, const Node *p, int first, int *out)
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
    v.constant = rg_chance(&m->random, m->constants);
    if (v.rank && rg_chance(&m->random, 50)) {
        int axis = rg_below(&m->random, v.rank);
        v.dims[axis] = rg_chance(&m->random, 40) ? 1 : any_extent(m);
    }
    if (rg_elements(&v) > RG_MAX_ELEMENTS / 2) return false;
    v.name = arena_printf(m->g->arena, "%c%d", fill_of(m, p, v.type), m->g->values.n);
    *out = maker_value(m->g, v);
    return true;
}

// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a stage lie: global and workspace memory at fixed addresses, shared and
// core-local memory at offsets in the block's, local memory at offsets in the thread's. Buffers
// that share storage get the same offset.
#include "ir/interp_compile.h"

#include <string.h>

enum { MAX_ALIASES = 64, TABLE_LIMIT = 1 << 20, OWNER_LIMIT = 1 << 24 };

const Buffer *compile_root(const Buffer *b)
{
    for (int i = 0; b->alias && i < MAX_ALIASES; i++) b = b->alias;
    return b;
}

int compile_element_bytes(const Buffer *b)
{
    return b->is_mbarrier ? (int)sizeof(Mbarrier) : (int)dtype_size(b->type);
}

int compile_mem(Compiler *c, const Buffer *b, Loc loc)
{
    intptr_t number = (intptr_t)map_get(&c->mems, b);
    if (!number) compile_error(c, loc, "buffer '%s' does not exist here", b->name);
    return (int)number - 1;
}

// Element numbers of every index tuple, row-major, so that a layout costs one look-up.
static const int32_t *layout_table(Compiler *c, const Layout *l)
{
    int64_t n = 1, index[MAX_RANK] = {0};
    for (int i = 0; i < l->rank; i++)
        if (!mul_i64(n, l->shape[i], &n)) return NULL;
    if (n > TABLE_LIMIT || l->size > INT32_MAX) return NULL;
    int32_t *table = NEW_ARRAY(c->a, int32_t, n);
    for (int64_t e = 0; e < n; e++) {
        table[e] = (int32_t)layout_index(l, index);
        for (int i = l->rank - 1; i >= 0 && ++index[i] == l->shape[i]; i--) index[i] = 0;
    }
    return table;
}

static bool describe_layout(Compiler *c, const Buffer *b, Mem *m)
{
    const Layout *l = b->layout;
    bool fits = l->rank == m->rank;
    for (int i = 0; fits && i < l->rank; i++) fits = l->shape[i] == m->extent[i];
    if (!fits) {
        compile_error(c, b->loc, "the layout of '%s' has another shape than the buffer", b->name);
        return false;
    }
    m->nelem = l->size;
    if (l->kind == LAYOUT_STRIDED) {
        for (int i = 0; i < m->rank; i++) m->stride[i] = l->stride[i];
        return true;
    }
    m->layout = l;
    m->table = layout_table(c, l);
    m->slow = true;
    return true;
}

// Type, extents and order of elements; false with a diagnostic.
static bool describe(Compiler *c, const Buffer *b, Mem *m)
{
    *m = (Mem){.buf = b,
               .type = b->type,
               .rank = b->flat ? 1 : b->rank,
               .size_bytes = compile_element_bytes(b)};
    m->unit_bytes = m->size_bytes;
    m->worker = NO_REG;
    if (m->rank > MAX_RANK) {
        compile_error(c, b->loc, "'%s' has more than %d axes", b->name, MAX_RANK);
        return false;
    }
    int64_t n = 1;
    bool fits = true;
    for (int i = m->rank - 1; i >= 0; i--) {
        m->extent[i] = max_i64(node_eval_dims(b->extent[i], c->run->kernel, c->run->dims), 0);
        m->stride[i] = n;
        fits &= mul_i64(n, m->extent[i], &n);
    }
    if (!fits || n > INT64_MAX / 64) {
        compile_error(c, b->loc, "'%s' is too large", b->name);
        return false;
    }
    m->nelem = n;
    return b->layout && !b->flat && !b->over ? describe_layout(c, b, m) : true;
}

static int add(Compiler *c, Mem *m)
{
    if (c->p->mems.n >= UINT16_MAX) {
        compile_error(c, m->buf->loc, "a stage has more than %d buffers", UINT16_MAX);
        return -1;
    }
    intptr_t unit = (intptr_t)map_get(&c->units, compile_root(m->buf));
    if (unit && unit < m->unit_bytes) m->unit_bytes = (int)unit;
    if (m->unit_bytes != m->size_bytes) m->slow = true;
    if (c->run->races && (m->segment == SEG_BLOCK || m->shadow)) m->slow = true;
    VEC_PUSH(c->a, &c->p->mems, *m);
    map_put(c->a, &c->mems, m->buf, (void *)(intptr_t)c->p->mems.n);
    return c->p->mems.n - 1;
}

// Room for m in memory that ends at *bytes and *marks, or the room of the buffer whose storage it
// shares.
static bool reserve(Compiler *c, Mem *m, int64_t *bytes, int64_t *marks)
{
    const Buffer *root = compile_root(m->buf);
    int64_t size = m->nelem * m->size_bytes, unit = m->unit_bytes;
    intptr_t shared = (intptr_t)map_get(&c->units, root);
    if (shared) unit = shared;
    if (root != m->buf) {
        int of = compile_mem(c, root, m->buf->loc);
        if (of < 0) return false;
        const Mem *r = &c->p->mems.at[of];
        if (r->segment != m->segment || r->owners || m->owners || r->nelem * r->size_bytes < size) {
            compile_error(c, m->buf->loc, "'%s' does not fit into the storage of '%s'",
                          m->buf->name, root->name);
            return false;
        }
        m->data = r->data;
        m->mark = r->mark;
        return true;
    }
    m->data = (uintptr_t)*bytes;
    m->mark = (uintptr_t)*marks;
    int64_t end;
    if (!add_i64(*bytes, size, &end) || end > INT64_MAX / 64) {
        compile_error(c, m->buf->loc, "'%s' is too large", m->buf->name);
        return false;
    }
    *bytes = (end + 63) / 64 * 64;
    *marks += size / unit;
    return true;
}

static void place_block(Compiler *c, const Buffer *b)
{
    Mem m;
    if (!describe(c, b, &m)) return;
    m.segment = SEG_BLOCK;
    m.tracked = !b->is_mbarrier;
    if (reserve(c, &m, &c->p->block_bytes, &c->p->block_marks)) add(c, &m);
}

static void place_fixed(Compiler *c, const Buffer *b, uintptr_t data)
{
    Mem m;
    if (!describe(c, b, &m)) return;
    m.segment = SEG_FIXED;
    m.data = data;
    Store *s = map_get(&c->run->stores, compile_root(b));
    if (!s) {
        s = NEW(c->a, Store);
        map_put(c->a, &c->run->stores, compile_root(b), s);
        s->nelem = m.nelem;
        s->size_bytes = m.size_bytes;
        if (b->space == SPACE_WORKSPACE) {
            s->data = arena_alloc_array(c->a, (size_t)m.size_bytes, (size_t)m.nelem);
            s->mark = arena_alloc(c->a, (size_t)m.nelem);
        }
        if (c->run->races && (b->output || b->space == SPACE_WORKSPACE))
            s->shadow = race_shadow(c->run, m.nelem);
    }
    if (b->space == SPACE_WORKSPACE) {
        if (m.nelem > s->nelem || m.size_bytes != s->size_bytes) {
            compile_error(c, b->loc, "'%s' does not fit into the storage it shares", b->name);
            return;
        }
        m.data = (uintptr_t)s->data;
        m.mark = (uintptr_t)s->mark;
        m.tracked = true;
    }
    m.shadow = s->shadow;
    add(c, &m);
}

void compile_place_stage(Compiler *c)
{
    const Kernel *k = c->run->kernel;
    for (int i = 0; i < k->params.n; i++)
        place_fixed(c, k->params.at[i], (uintptr_t)c->run->data[i]);
    for (int i = 0; i < k->workspace.n && !c->failed; i++) place_fixed(c, k->workspace.at[i], 0);
    // Those that own their storage first: an alias may be declared before what it shares.
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c->stage->memory.n && !c->failed; i++) {
            Buffer *b = c->stage->memory.at[i];
            if (!b->alias == !pass) place_block(c, b);
        }
    }
}

static bool uses_lane(const Node *n)
{
    if (n->kind == N_VARREF) return n->u.var->builtin == VAR_LANE;
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i] && uses_lane(n->kid[i])) return true;
    return false;
}

int compile_place_local(Compiler *c, const Buffer *b)
{
    Mem m;
    intptr_t known = (intptr_t)map_get(&c->mems, b);
    if (known) return (int)known - 1; // a loop was copied: the same buffer at another time
    if (b->space != SPACE_LOCAL) {
        place_block(c, b);
        return c->failed ? -1 : compile_mem(c, b, b->loc);
    }
    if (!describe(c, b, &m)) return -1;
    m.segment = SEG_THREAD;
    m.tracked = true;
    if (b->over && !b->flat) {
        m.owners = interp_owners(c->run, b->over, b->loc);
        if (!m.owners || !b->over_worker || b->over->rank != m.rank) {
            if (m.owners)
                compile_error(c, b->loc, "'%s' does not fit the mapping that holds it", b->name);
            c->failed = true;
            return -1;
        }
        m.by_lane = uses_lane(b->over_worker);
        m.nelem = b->over->ntask * (m.by_lane ? b->over->nworker : 1);
    }
    return reserve(c, &m, &c->p->thread_bytes, &c->p->thread_marks) ? add(c, &m) : -1;
}

// ---- owners

static bool custom_task(void *user, const Mapping *m, int64_t w, int64_t *index)
{
    UNUSED(user);
    const Node *f = m->function;
    for (int i = 0; i < m->rank; i++) {
        const Node *part = f->kind == N_TUPLE ? f->kid[i] : f;
        Scalar worker = {.type = DT_I64, .v.i = w}, s;
        if (!interp_evaluate(part, m->worker_var->u.var, worker, &s)) return false;
        index[i] = s.v.i;
    }
    return true;
}

static bool element_of(const Mapping *m, int64_t w, int64_t task, int64_t *element)
{
    int64_t index[MAX_RANK];
    if (!mapping_task_with(m, w, task, index, custom_task, NULL)) return false;
    *element = 0;
    for (int i = 0; i < m->rank; i++) {
        if (index[i] < 0 || index[i] >= m->shape[i]) return false;
        *element = *element * m->shape[i] + index[i];
    }
    return true;
}

// Counting sort by element: workers come in ascending order of themselves.
static bool fill_owners(Run *run, const Mapping *m, OwnerTable *t)
{
    int64_t e;
    for (int64_t w = 0; w < m->nworker; w++) {
        for (int64_t task = 0; task < m->ntask; task++) {
            if (!element_of(m, w, task, &e)) return false;
            t->start[e + 1]++;
        }
    }
    for (e = 0; e < t->nelem; e++) t->start[e + 1] += t->start[e];
    int64_t *next = NEW_ARRAY(&run->arena, int64_t, t->nelem);
    memcpy(next, t->start, (size_t)t->nelem * sizeof *next);
    for (int64_t w = 0; w < m->nworker; w++) {
        for (int64_t task = 0; task < m->ntask; task++) {
            if (!element_of(m, w, task, &e)) return false;
            Owner *before = next[e] > t->start[e] ? &t->entry[next[e] - 1] : NULL;
            if (before && before->worker == w) continue; // the same task twice: one slot
            t->shared |= before != NULL;
            t->entry[next[e]++] =
                (Owner){(int32_t)w, (int32_t)task, (int32_t)(w * m->ntask + task)};
        }
    }
    for (e = 0; e < t->nelem; e++) {
        t->end[e] = next[e];
        t->first[e] = next[e] > t->start[e] ? t->entry[t->start[e]] : (Owner){-1, 0, 0};
    }
    return true;
}

const OwnerTable *interp_owners(Run *run, const Mapping *m, Loc loc)
{
    OwnerTable *t = map_get(&run->owners, m);
    if (t) return t;
    int64_t n = 1, entries;
    bool fits = mul_i64(m->nworker, m->ntask, &entries) && entries <= OWNER_LIMIT;
    int64_t stride[MAX_RANK];
    for (int i = m->rank - 1; i >= 0; i--) {
        stride[i] = n;
        fits &= mul_i64(n, m->shape[i], &n);
    }
    if (!fits || n > OWNER_LIMIT) {
        diag_error(run->diag, loc,
                   "a mapping with more than %d tasks cannot hold a buffer in the interpreter",
                   OWNER_LIMIT);
        return NULL;
    }
    t = NEW(&run->arena, OwnerTable);
    t->map = m;
    t->nelem = n;
    memcpy(t->shape, m->shape, (size_t)m->rank * sizeof *m->shape);
    memcpy(t->stride, stride, (size_t)m->rank * sizeof *stride);
    t->first = NEW_ARRAY(&run->arena, Owner, n);
    t->start = NEW_ARRAY(&run->arena, int64_t, n + 1);
    t->end = NEW_ARRAY(&run->arena, int64_t, n);
    t->entry = NEW_ARRAY(&run->arena, Owner, entries);
    if (!fill_owners(run, m, t)) {
        diag_error(run->diag, loc,
                   "the mapping that holds this buffer gives an index outside its shape");
        return NULL;
    }
    map_put(&run->arena, &run->owners, m, t);
    return t;
}

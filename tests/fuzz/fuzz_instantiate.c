// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of the language whose kernels, ops and graphs are instantiated on small
// tensors of the declared types. What succeeds is a well formed kernel; what fails has reported
// why.
#include "unit/instantiate_case.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

enum { ARENA_LIMIT = 256 << 20, MAX_STEPS = 50000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char helper[] =
    "kernel fuzz_copy(x: T[s...]) -> (y: T[s...]) { for i... in s... { y[i...] = x[i...]; } }";

typedef struct Fuzz {
    Arena *arena;
    Sources sources;
    Library lib;
    Node *copy; // NULL: the text has one of its own
} Fuzz;

static bool load(Fuzz *f, const char *name, const char *text, size_t size)
{
    Diag d;
    diag_init(&d, f->arena, &f->sources);
    Source *source = sources_add(&f->sources, name, text, size);
    Node *file = source ? parse_file(f->arena, f->lib.names, source, &d) : NULL;
    return file && library_add(&f->lib, file, &d);
}

// A type letter, a generic's first type, or a plain one.
static DType type_of(Eval *e, Node *type, Node *generics)
{
    Node *n = type ? KID(type, TYPE, dtype) : NULL;
    if (!n || n->kind != N_NAME) return DT_F32;
    DType t = dtype_from_name(n->u.sym);
    if (t != DT_NONE) return t;
    for (int i = 0; generics && i < NREST(generics); i++) {
        Node *g = REST(generics)[i], *types = KID(g, GENERIC, types);
        if (g->u.sym == n->u.sym && NREST(types) && REST(types)[0] != type)
            return type_of(e, REST(types)[0], NULL);
    }
    return n->u.sym[0] == 'I' ? DT_I64 : n->u.sym[0] == 'B' ? DT_BOOL : DT_F32;
}

// Extents by position: names get 4, 5, ... or are dynamic, packs two axes.
static int dims_of(Fuzz *f, Instance *in, Node *type, Value *dims, Map *names)
{
    int rank = 0;
    for (int i = 0; type && i < NREST(type) && rank < 6; i++) {
        Node *d = REST(type)[i];
        if (d->kind == N_SPREAD) {
            dims[rank++] = value_int(2);
            dims[rank++] = value_int(3);
            continue;
        }
        if (d->kind != N_NAME) {
            dims[rank++] = value_int(d->kind == N_INT && d->u.i > 0 && d->u.i < 100 ? d->u.i : 4);
            continue;
        }
        Value *known = map_get(names, d->u.sym);
        if (!known) {
            known = NEW(f->arena, Value);
            *known =
                (d->u.sym[0] & 3) ? value_int(4 + names->n) : instance_dim(in, d->u.sym, 1, 64, 1);
            map_put(f->arena, names, d->u.sym, known);
        }
        dims[rank++] = *known;
    }
    return rank;
}

static int inputs(Fuzz *f, Instance *in, Node *params, Node *generics, Value *args)
{
    Map names = {0};
    int n = 0;
    for (int i = 0; i < NREST(params) && n < 8; i++) {
        Node *p = REST(params)[i], *type = KID(p, PARAM, type);
        Value dims[8];
        DType t = type_of(in->eval, type, generics);
        int rank = dims_of(f, in, type, dims, &names);
        args[n++] =
            (Value){.kind = V_TENSOR, .u.tensor = instance_input(in, p->u.sym, t, rank, dims)};
    }
    return n;
}

static void check(Instance *in, bool ok, Diag *d, int before)
{
    ASSERT(ok == (d->nerror == before));
    if (!ok) return;
    Buf b;
    buf_init(&b, in->arena);
    bool good = kernel_verify(in->kernel, d);
    if (!good) diag_render(d, &b);
    if (!good) kernel_print(in->kernel, &b);
    if (!good) BUG("%s", buf_text(&b));
    kernel_print(in->kernel, &b);
}

static bool outputs(Fuzz *f, Instance *in, int n, Tensor **results, Epilogue *ep, Buffer **memory)
{
    for (int i = 0; i < n; i++) {
        memory[i] = instance_output(in, results[i]->name, results[i]->type, results[i]->rank,
                                    results[i]->dims);
        ep[i] = (Epilogue){.memory = &memory[i], .noutput = 1};
    }
    (void)f;
    return true;
}

static void kernel(Fuzz *f, Node *k, Diag *d)
{
    Target target = case_target(k);
    Instance *in = instance_new(f->arena, &f->lib, &target, d);
    in->eval->max_steps = MAX_STEPS;
    Value args[8];
    Node *params = KID(k, KERNEL, params);
    int narg = inputs(f, in, params, KID(k, KERNEL, generics), args), n, before = d->nerror;
    Tensor **results;
    bool ok = kernel_results(in, k, narg, args, NULL, NULL, &results, &n);
    ASSERT(ok == (d->nerror == before));
    if (!ok) return;
    Epilogue *ep = NEW_ARRAY(f->arena, Epilogue, n);
    Buffer **memory = NEW_ARRAY(f->arena, Buffer *, n);
    outputs(f, in, n, results, ep, memory);
    check(in, instance_kernel(in, k, narg, args, NULL, ep, n, NULL), d, before);
    Choices *choices;
    before = d->nerror;
    ok = kernel_choices(in, k, 2, &choices, &n);
    ASSERT(ok == (d->nerror == before));
}

static void op(Fuzz *f, Node *o, Diag *d)
{
    Target target = case_target(o);
    Instance *in = instance_new(f->arena, &f->lib, &target, d);
    in->eval->max_steps = MAX_STEPS;
    Value args[8];
    int narg = inputs(f, in, KID(o, OP, params), NULL, args), before = d->nerror;
    OpInst *inst = op_apply(in, 0, o, narg, args, NULL);
    ASSERT((inst != NULL) == (d->nerror == before));
    if (!inst || !inst->nresult) return;
    Epilogue *ep = NEW_ARRAY(f->arena, Epilogue, inst->nresult);
    Buffer **memory = NEW_ARRAY(f->arena, Buffer *, inst->nresult);
    if (o->sub == OP_SERIAL) {
        outputs(f, in, inst->nresult, inst->results, ep, memory);
        check(in, instance_serial(in, o, narg, args, NULL, memory, inst->nresult), d, before);
        return;
    }
    if (!f->copy) return;
    outputs(f, in, 1, inst->results, ep, memory);
    Value x = {.kind = V_TENSOR, .u.tensor = inst->results[0]};
    check(in, instance_kernel(in, f->copy, 1, &x, NULL, ep, 1, NULL), d, before);
}

static void graph(Fuzz *f, Node *g, Diag *d)
{
    Case c;
    int before = d->nerror;
    for (int i = 0; i < NREST(KID(g, GRAPH, params)); i++) {
        Node *type = KID(REST(KID(g, GRAPH, params))[i], PARAM, type);
        if (!type || NREST(type) > EVAL_MAX_RANK) return;
    }
    bool ok = case_run(&c, f->arena, &f->lib, d, g);
    check(c.in, ok, d, before);
}

static void run(Arena *a, const char *text, size_t size)
{
    Fuzz f = {.arena = a, .sources = {.arena = a}};
    library_init(&f.lib, a, interner_new(a), &f.sources);
    if (!load(&f, "helper", helper, sizeof helper - 1) || !load(&f, "fuzz.hd", text, size)) return;
    f.copy = map_get(&f.lib.kernels, intern(f.lib.names, "fuzz_copy"));
    Diag d;
    diag_init(&d, a, &f.sources);
    for (int i = 0; i < f.lib.kernels.n; i++) kernel(&f, f.lib.kernels.entry[i].value, &d);
    for (int i = 0; i < f.lib.ops.n; i++) op(&f, f.lib.ops.entry[i].value, &d);
    for (int i = 0; i < f.lib.graphs.n; i++) graph(&f, f.lib.graphs.entry[i].value, &d);
    Buf shown;
    buf_init(&shown, a);
    diag_render(&d, &shown);
}

static void run_within(Arena *a, const uint8_t *data, size_t size)
{
    jmp_buf nomem;
    a->nomem = &nomem;
    if (setjmp(nomem)) return;
    char *text = arena_alloc(a, size + 1);
    if (size) memcpy(text, data, size);
    run(a, text, size);
}

// ---- mutations that keep most texts parsing: whole words move

typedef struct Word {
    size_t at, size;
} Word;

static size_t word_size(const uint8_t *s, size_t left)
{
    size_t n = 1;
    bool name = isalnum(s[0]) || s[0] == '_', blank = isspace(s[0]);
    while (n < left && ((name && (isalnum(s[n]) || s[n] == '_')) || (blank && isspace(s[n])))) n++;
    return n;
}

static int words_of(const uint8_t *data, size_t size, Word *out, int max)
{
    int n = 0;
    for (size_t at = 0; at < size && n < max;) {
        size_t len = word_size(data + at, size - at);
        if (!isspace(data[at])) out[n++] = (Word){at, len};
        at += len;
    }
    return n;
}

// data[at, at + gone) becomes put[0, len), which may lie in data.
static size_t splice(uint8_t *data, size_t size, size_t max, Word gone, const uint8_t *put,
                     size_t len)
{
    static uint8_t copy[1 << 16];
    if (len > sizeof copy || size - gone.size + len > max) return size;
    memcpy(copy, put, len);
    memmove(data + gone.at + len, data + gone.at + gone.size, size - gone.at - gone.size);
    memcpy(data + gone.at, copy, len);
    return size - gone.size + len;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static const char *const words[] = {
        "0",       "1",       "-1",
        "2",       "64",      "()",
        "(1, 2)",  "i...",    "s",
        "a",       "c",       "n",
        "+",       "*",       "/",
        "%",       "**",      "<",
        "else 0",  "..",      ":+",
        "@",       "~",       "sum",
        "fold",    "for",     "unroll",
        "if",      "while",   "var",
        "let",     "local",   "true",
        "f32",     "i64",     "bool",
        "f32x4",   "lane",    "thread",
        "block.x", "break",   "[0]",
        "a[0]",    ".shape",  ".leaf",
        ".type",   ".value",  "rank",
        "spatial", "repeat",  "size",
        "ravel",   "unravel", "broadcast",
        "concat",  "acc",     "9223372036854775807",
        "1.5",     "\"x\"",   "0x7fffffff",
    };
    enum { MAX_WORDS = 4096 };
    static Word w[MAX_WORDS];
    int n = words_of(data, size, w, MAX_WORDS);
    srand(seed);
    if (n < 2 || rand() % 8 == 0) return LLVMFuzzerMutate(data, size, max);
    int i = rand() % n, j = rand() % n, run = rand() % 4 ? 1 : 1 + rand() % 12;
    int last = i + run - 1 < n ? i + run - 1 : n - 1, from = j + run - 1 < n ? j + run - 1 : n - 1;
    Word here = {w[i].at, w[last].at + w[last].size - w[i].at}, before = {w[i].at, 0};
    const char *word = words[(size_t)rand() % COUNT(words)];
    const uint8_t *other = data + w[j].at;
    size_t other_size = w[from].at + w[from].size - w[j].at;
    switch (rand() % 6) {
    case 0: return splice(data, size, max, here, (const uint8_t *)word, strlen(word));
    case 1: return splice(data, size, max, before, (const uint8_t *)word, strlen(word));
    case 2: return splice(data, size, max, here, other, other_size);
    case 3: return splice(data, size, max, before, other, other_size);
    case 4: return splice(data, size, max, here, (const uint8_t *)"", 0);
    default: return splice(data, size, max, w[i], other, w[j].size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena a = {.limit_bytes = ARENA_LIMIT};
    run_within(&a, data, size);
    arena_free(&a);
    return 0;
}

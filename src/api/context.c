// SPDX-License-Identifier: Apache-2.0
// Contexts: made, asked for their last error, destroyed; and what they open at first use.
#include "api/context.h"

#include "base/os.h"
#include "ir/interp_device.h"
#include "runtime/cuda.h"
#include "runtime/memory.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CACHE_BYTES_LOG2 = 32 };

// ---- calls

static void keep_message(heald_context *c, heald_status s)
{
    memory_free(c->message);
    c->message = NULL;
    if (s == HEALD_OK) return;
    const char *text = c->error.text;
    if (s == HEALD_DIAGNOSTIC && c->diag.messages.n && !setjmp(c->nomem)) {
        Buf b;
        buf_init(&b, &c->scratch);
        diag_render(&c->diag, &b);
        text = buf_text(&b);
    }
    size_t size = strlen(text);
    while (size && text[size - 1] == '\n') size--;
    c->message = memory_alloc(size + 1);
    if (!c->message) return;
    memcpy(c->message, text, size);
    c->message[size] = 0;
}

void context_leave(heald_context *c)
{
    if (c->device && c->device->ops->leave) c->device->ops->leave(c->device);
}

heald_status context_call(heald_context *c, ContextBody *body, void *user)
{
    heald_status s;
    jmp_buf *outer = c->arena.nomem;
    c->error = (Error){0};
    c->arena.nomem = c->scratch.nomem = &c->nomem;
    diag_init(&c->diag, &c->scratch, &c->sources);
    if (setjmp(c->nomem)) s = error_set(&c->error, HEALD_NO_MEMORY, "out of memory");
    else s = body(c, &c->scratch, user);
    context_leave(c);
    keep_message(c, s);
    c->diag = (Diag){0};
    arena_free(&c->scratch);
    c->arena.nomem = outer;
    return s;
}

static heald_status refuse_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    return error_set(&c->error, HEALD_INVALID_ARGUMENT, "%s", (const char *)user);
}

heald_status context_refuse(heald_context *c, const char *why)
{
    return c ? context_call(c, refuse_body, (void *)why) : HEALD_INVALID_ARGUMENT;
}

const char *heald_last_error(const heald_context *c)
{
    return c && c->message ? c->message : c && c->error.status ? c->error.text : "";
}

// ---- making one

static char *copy_text(Arena *a, const char *s)
{
    return s ? arena_strdup(a, s) : NULL;
}

static heald_status take_options(heald_context *c, const heald_context_options *o)
{
    if (o) {
        size_t size = o->struct_size;
        if (size < sizeof o->struct_size || size > 4096) {
            return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                             "context options: struct_size is %zu", size);
        }
        memcpy(&c->options, o, size < sizeof *o ? size : sizeof *o);
    }
    heald_context_options *mine = &c->options;
    mine->target = copy_text(&c->arena, mine->target);
    mine->cache_dir = copy_text(&c->arena, mine->cache_dir);
    mine->library_path = copy_text(&c->arena, mine->library_path);
    mine->precision = copy_text(&c->arena, mine->precision);
    if (mine->precision && !precision_from_name(mine->precision, &c->precision)) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                         "unknown precision '%s'; f32, tf32x3, tf32, bf16 and f16 are known",
                         mine->precision);
    }
    if (mine->threads < 0 || (mine->parallel_for && mine->threads == 0)) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "%d threads are not possible",
                         mine->threads);
    }
    if (mine->search_space < 0 || mine->search_space > 2) {
        return error_set(&c->error, HEALD_INVALID_ARGUMENT, "search space %d is not 0, 1 or 2",
                         mine->search_space);
    }
    if (mine->search_space > 0) {
        return error_set(&c->error, HEALD_UNSUPPORTED,
                         "search space %d: this version uses the default schedules only",
                         mine->search_space);
    }
    return HEALD_OK;
}

static heald_status open_gpu(heald_context *c)
{
    DeviceOptions d = {.ordinal = c->options.device, .stream = c->options.stream};
    return device_open(&device_cuda, &d, &c->device, &c->error);
}

// The GPU at hand says what it is.
static heald_status target_of_device(heald_context *c)
{
    heald_status s = open_gpu(c);
    if (s) return s;
    const CudaInfo *i = cuda_info(c->device);
    cuda_target(&c->arena, i->arch, &c->target);
    c->target.ncore = i->nmultiprocessor;
    c->target.shared_bytes = i->shared_bytes;
    c->target.l2_bytes = i->l2_bytes;
    return HEALD_OK;
}

// One that Heald has no row for is taken for the nearest before it, as a GPU at hand is.
static bool target_of_name(heald_context *c, const char *arch)
{
    char *end = NULL;
    if (target_cuda(&c->target, arch)) return true;
    long number = strncmp(arch, "sm_", 3) ? 0 : strtol(arch + 3, &end, 10);
    return number > 0 && number < 1000 && !*end && cuda_target(&c->arena, (int)number, &c->target);
}

// "cuda", "cuda:sm_80" for code that another machine runs, "interp", "interp:sm_80" for a GPU's
// code in the interpreter.
static heald_status choose_target(heald_context *c)
{
    const char *name = c->options.target ? c->options.target : "auto", *arch = strchr(name, ':');
    target_host(&c->host);
    if (c->options.threads > 0) c->host.ncore = c->options.threads;
    c->target = c->host;
    c->interpret = !strncmp(name, "interp", 6) && (!name[6] || name[6] == ':');
    if (!strcmp(name, "interp") || !strcmp(name, "cpu") || !strcmp(name, "auto")) return HEALD_OK;
    if (!strcmp(name, "cuda")) return target_of_device(c);
    bool gpu = arch && (c->interpret || !strncmp(name, "cuda:", 5));
    if (gpu && target_of_name(c, arch + 1)) return HEALD_OK;
    if (gpu)
        return error_set(&c->error, HEALD_UNSUPPORTED,
                         "target %s: an architecture that is not known", name);
    return error_set(&c->error, HEALD_INVALID_ARGUMENT,
                     "unknown target '%s'; auto, cpu, cuda and interp are known", name);
}

typedef struct Creation {
    int version;
    const heald_context_options *options;
} Creation;

static heald_status create_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    const Creation *creation = user;
    c->sources.arena = &c->arena;
    if (creation->version / 100 != HEALD_VERSION / 100) {
        return error_set(&c->error, HEALD_UNSUPPORTED,
                         "the program was made for version %d.%d of the library, this is %d.%d",
                         creation->version / 10000, creation->version / 100 % 100,
                         HEALD_VERSION_MAJOR, HEALD_VERSION_MINOR);
    }
    heald_status s = take_options(c, creation->options);
    if (!s) s = choose_target(c);
    if (s) return s;
    if (c->target.kind == TARGET_CUDA && atoi(c->target.arch + strlen("sm_")) >= 80)
        c->target.tf32 = precisions[c->precision].tf32;
    c->names = interner_new(&c->arena);
    library_init(&c->library, &c->arena, c->names, &c->sources);
    return ops_load(&c->library, c->options.library_path, &c->diag) ? HEALD_OK : HEALD_DIAGNOSTIC;
}

heald_status heald_context_create(int version, const heald_context_options *options,
                                  heald_context **out)
{
    if (!out) return HEALD_INVALID_ARGUMENT;
    *out = memory_alloc_zeroed(sizeof **out);
    if (!*out) return HEALD_NO_MEMORY;
    Creation creation = {version, options};
    return context_call(*out, create_body, &creation);
}

void heald_context_destroy(heald_context *c)
{
    if (!c) return;
    device_close(c->device);
    pool_destroy(c->pool);
    memory_free(c->message);
    arena_free(&c->scratch);
    arena_free(&c->arena);
    memory_free(c);
}

// ---- what is opened at first use

heald_status context_toolchain(heald_context *c)
{
    const char *why = NULL;
    if (c->toolchain.cc || toolchain_find(&c->arena, &c->host, &c->toolchain, &why))
        return HEALD_OK;
    return error_set(&c->error, HEALD_COMPILE, "%s", why);
}

const char *context_cache_dir(const heald_context *c, Arena *a)
{
    return c->options.cache_dir ? c->options.cache_dir : cache_default_dir(a);
}

heald_status context_cache(heald_context *c)
{
    if (c->cache) return HEALD_OK;
    int64_t limit = c->options.cache_limit_bytes;
    if (limit == 0) limit = (int64_t)1 << DEFAULT_CACHE_BYTES_LOG2;
    const char *why, *dir = context_cache_dir(c, &c->arena);
    c->cache = cache_open(&c->arena, dir, limit < 0 ? 0 : limit, &why);
    return c->cache ? HEALD_OK : error_set(&c->error, HEALD_IO, "the cache: %s", why);
}

Pool *context_pool(heald_context *c)
{
    if (!c->pool && !c->options.parallel_for) c->pool = pool_create(c->options.threads);
    return c->pool;
}

bool context_is_elsewhere(const heald_context *c)
{
    return c->target.kind == TARGET_CUDA && !c->interpret && !c->device;
}

heald_status context_device(heald_context *c)
{
    const heald_context_options *o = &c->options;
    Pool *pool = context_pool(c);
    if (c->device) return HEALD_OK;
    if (context_is_elsewhere(c)) return open_gpu(c);
    DeviceOptions d = {.nthread = o->threads,
                       .pool = pool,
                       .parallel_for = o->parallel_for,
                       .parallel_user = o->user};
    return device_open(c->interpret ? &device_interp : &device_cpu, &d, &c->device, &c->error);
}

OpTable *context_ops(heald_context *c)
{
    if (!c->ops) c->ops = op_table_new(&c->arena, &c->library);
    return c->ops;
}

static heald_status cuda_toolchain(heald_context *c)
{
    const char *why = NULL;
    if (!c->cuda) c->cuda = cuda_toolchain_find(&c->arena, &why);
    return c->cuda ? HEALD_OK : error_set(&c->error, HEALD_COMPILE, "%s", why);
}

static void point_to_texts(heald_context *c, Builder *out)
{
    for (int i = 0; i < c->sources.list.n; i++) // their tables of lines, before threads need them
        sources_place(&c->sources, c->sources.list.at[i]->base);
    out->lines = &c->sources;
    out->passes.traps = true;
}

heald_status context_builder(heald_context *c, Builder *out)
{
    *out = (Builder){.interpret = c->interpret};
    if (c->interpret) return HEALD_OK;
    if (c->options.debug) point_to_texts(c, out);
    bool cuda = c->target.kind == TARGET_CUDA;
    heald_status s = cuda ? cuda_toolchain(c) : context_toolchain(c);
    if (!s) s = context_cache(c);
    out->cuda = c->cuda;
    out->toolchain = &c->toolchain;
    out->cache = c->cache;
    return s;
}

// ---- texts

bool context_add_text(heald_context *c, const char *name, const char *text, size_t size,
                      Node **file)
{
    Source *s = sources_add(&c->sources, arena_strdup(&c->arena, name),
                            arena_strndup(&c->arena, text, size), size);
    if (!s) {
        diag_error(&c->diag, 0, "%s: more text than can be handled", name);
        return false;
    }
    Node *parsed = parse_file(&c->arena, c->names, s, &c->diag);
    if (file) *file = parsed;
    c->ops = NULL; // an index over the library as it was
    return parsed && library_add(&c->library, parsed, &c->diag);
}

typedef struct AddText {
    const char *name, *text;
} AddText;

static heald_status add_body(heald_context *c, Arena *scratch, void *user)
{
    UNUSED(scratch);
    const AddText *t = user;
    return context_add_text(c, t->name, t->text, strlen(t->text), NULL) ? HEALD_OK
                                                                        : HEALD_DIAGNOSTIC;
}

heald_status heald_library_add(heald_context *c, const char *name, const char *text)
{
    if (!c || !text) return context_refuse(c, "an argument is NULL");
    AddText t = {name ? name : "text", text};
    return context_call(c, add_body, &t);
}

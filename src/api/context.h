// SPDX-License-Identifier: Apache-2.0
// The inside of a context: everything that compiling and running need, opened when first used. The
// command line works on it too.
#ifndef HEALD_API_CONTEXT_H
#define HEALD_API_CONTEXT_H

#include "codegen/build.h"
#include "graph/precision.h"
#include "heald.h"
#include "lang/instantiate.h"
#include "ops/ops.h"
#include "runtime/launch.h"

struct heald_context {
    Arena arena; // what lives as long as the context
    Sources sources;
    Interner *names;
    Library library;               // the embedded texts, and what was added
    OpTable *ops;                  // made by context_ops
    Diag diag;                     // of the current call
    Error error;                   // of the current call
    char *message;                 // both as text, for heald_last_error; from memory_alloc
    heald_context_options options; // texts are copies
    Target target;
    Target host;    // where constants are folded: this machine's processor
    bool interpret; // no compiler: the interpreter runs kernels
    Precision precision;
    Toolchain toolchain;
    const CudaToolchain *cuda; // NULL until it is found
    Cache *cache;
    Pool *pool;
    Device *device;
    Arena scratch; // of the current call; empty outside
    jmp_buf nomem;
};

// Public functions are made of these. context_call runs body with a scratch arena that is freed
// after it, turns running out of memory into HEALD_NO_MEMORY, and keeps the messages of c->diag or
// c->error for heald_last_error. Must not be nested.
typedef heald_status ContextBody(heald_context *c, Arena *scratch, void *user);
heald_status context_call(heald_context *c, ContextBody *body, void *user);

// HEALD_INVALID_ARGUMENT, with `why` as the message of the context, which may be NULL.
heald_status context_refuse(heald_context *c, const char *why);

// After work on the context's device outside context_call: the thread's state is as before.
void context_leave(heald_context *c);

// What is opened at first use, inside context_call or with a nomem of the caller's. Status with the
// message in c->error.
heald_status context_toolchain(heald_context *c);
heald_status context_cache(heald_context *c);
heald_status context_device(heald_context *c); // c->device
Pool *context_pool(heald_context *c);          // NULL where the caller has threads, or none is left
// Whether code is made for a GPU named by its architecture, and no GPU has been asked for so far.
bool context_is_elsewhere(const heald_context *c);
OpTable *context_ops(heald_context *c);
// Toolchain and cache, or the interpreter.
heald_status context_builder(heald_context *c, Builder *out);

const char *context_cache_dir(const heald_context *c, Arena *a);

// Parses a text and adds its declarations to the library. name is what messages call it; both are
// copied. False with diagnostics. *file may be NULL.
bool context_add_text(heald_context *c, const char *name, const char *text, size_t size,
                      Node **file);

#endif

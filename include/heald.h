// SPDX-License-Identifier: Apache-2.0
// Heald, a deep-learning compiler: the public interface.
//
//     heald_context *ctx;
//     heald_model *model = NULL;
//     heald_tensor *input = NULL, *output = NULL;
//     heald_status s = heald_context_create(HEALD_VERSION, NULL, &ctx);
//     if (!s) s = heald_model_load_onnx(ctx, "model.onnx", &model);
//     if (!s) s = heald_tensor_read(ctx, "input.npy", &input);
//     if (!s) s = heald_model_run(model, &input, &output); // compiles at the first run
//     if (s) fprintf(stderr, "%s\n", heald_last_error(ctx));
//     else use(heald_tensor_data(output)); // row-major, of heald_tensor_dims(output)
//     heald_tensor_release(output);
//     heald_tensor_release(input);
//     heald_model_destroy(model);
//     heald_context_destroy(ctx);
//
// examples/c/ has whole programs: a model, a kernel in Heald's language, an operator by its name, a
// GPU's memory.
//
// Rules for every function below. A function that can fail returns a heald_status; out parameters
// come last and are NULL or 0 after a failure. Pointers that are passed in are borrowed for the
// call, unless the comment says otherwise. Options are structs whose first member is their size and
// whose zero means the default. A context and what is made from it belong to one thread at a time;
// tensors may be retained and released from any thread; compiled kernels never change and may be
// shared. The library prints nothing and never exits.
#ifndef HEALD_H
#define HEALD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HEALD_API __attribute__((visibility("default")))
#else
#define HEALD_API
#endif

// Version.

#define HEALD_VERSION_MAJOR 0
#define HEALD_VERSION_MINOR 1
#define HEALD_VERSION_PATCH 0
#define HEALD_VERSION \
    (HEALD_VERSION_MAJOR * 10000 + HEALD_VERSION_MINOR * 100 + HEALD_VERSION_PATCH)

HEALD_API int heald_version(void); // HEALD_VERSION of the library that is running

// Status.

// The numbers never change; new ones may be added.
typedef enum heald_status {
    HEALD_OK = 0,
    HEALD_INVALID_ARGUMENT = 1, // the call is wrong: a shape, a type, a NULL, an option
    HEALD_NO_MEMORY = 2,        // of the host or of a device
    HEALD_IO = 3,               // a file could not be read or written
    HEALD_DIAGNOSTIC = 4,       // a text or a model has errors: see the messages
    HEALD_UNSUPPORTED = 5,      // right, but beyond this version, device or machine
    HEALD_COMPILE = 6,          // the compiler for generated code is missing or failed
    HEALD_DEVICE = 7,           // a device or its driver failed
    HEALD_CANCELLED = 8,        // a callback asked to stop
    HEALD_CHECK_FAILED = 9,     // a requirement or check of a kernel does not hold for this input
    HEALD_FORMAT = 10,          // a file is damaged or not of the kind that it should be
    HEALD_NOT_FOUND = 11,       // no such name
    HEALD_INTERNAL = 12         // a mistake in Heald
} heald_status;

HEALD_API const char *heald_status_name(heald_status status); // "no memory"; never NULL

// Context: the operators and schedules, the target, the compiler, the cache, the worker threads.

typedef struct heald_context heald_context;

// Made by HEALD_CONTEXT_OPTIONS(.target = "cpu", .threads = 4).
typedef struct heald_context_options {
    size_t struct_size;
    // "auto" (NULL, as "cpu"), "cpu", "cuda": the GPU at hand, "cuda:sm_80": code for another,
    // "interp": the interpreter, slow and strict, "interp:sm_80": with the kernels of a GPU
    const char *target;
    int threads; // 0: one per core
    // schedules to choose from: 0, the defaults; this version has no other
    int search_space;
    const char *cache_dir;     // NULL: HEALD_CACHE_DIR, XDG_CACHE_HOME/heald or ~/.cache/heald
    int64_t cache_limit_bytes; // 0: 4 GiB; less: no limit
    const char *library_path;  // folders with .hd texts, separated by ':'; NULL: none
    // Called while kernels are compiled, perhaps from another thread. May be NULL.
    void (*progress)(void *user, int64_t done, int64_t total, const char *what);
    // Asked before each step of a model, on a GPU before many at once; not 0: stop with
    // HEALD_CANCELLED. May be NULL.
    int (*cancel)(void *user);
    // In place of own worker threads: calls fn(arg, begin, end, worker) so that the ranges cover
    // [0, ntask) once; `worker` is below `threads`, which must be set, and differs between calls
    // that run at the same time. May be NULL.
    void (*parallel_for)(void *user, int64_t ntask,
                         void (*fn)(void *arg, int64_t begin, int64_t end, int worker), void *arg);
    void *user; // handed to the callbacks
    int device; // which GPU, from 0, for the target "cuda"
    // A CUstream of that GPU, which all work is put in, in order; it outlives the context. NULL:
    // one of Heald's own. CUDA's default stream, which it writes as 0, is (void *)1 here, its
    // stream of each thread (void *)2.
    void *stream;
    // Not 0: generated code points to its places in the texts, for compilers' messages, debuggers
    // and profilers, and traps where an access outside of a tensor was proved impossible and is not
    int debug;
    // What the f32 values of models are computed in: "f32" or "tf32x3" (NULL); "tf32", where
    // the machine has such products; "bf16" or "f16": weights and activations are of that type,
    // sums and statistics stay f32, inputs and outputs of the model too
    const char *precision;
} heald_context_options;
#define HEALD_CONTEXT_OPTIONS(...) \
    ((heald_context_options){.struct_size = sizeof(heald_context_options), __VA_ARGS__})

// version: HEALD_VERSION; another one than the library's, up to the patch level, is
// HEALD_UNSUPPORTED. options may be NULL. *out is a context to ask for the error even after a
// failure, unless memory ran out; destroy it in any case.
HEALD_API heald_status heald_context_create(int version, const heald_context_options *options,
                                            heald_context **out);
// Everything made from it must be gone, tensors excepted. NULL is fine.
HEALD_API void heald_context_destroy(heald_context *ctx);

// What went wrong in the last call that took this context, as text for people: diagnostics with
// place and caret, one or more lines. "" after a success. Valid until the next call.
HEALD_API const char *heald_last_error(const heald_context *ctx);

// Another stream from now on, as in the options; its work comes after all that was put in the
// stream before. HEALD_UNSUPPORTED for other targets than "cuda".
HEALD_API heald_status heald_context_set_stream(heald_context *ctx, void *stream);
// Waits for all work of the context. Tells of faults and failed checks in what ran until now; after
// a fault, this and every later call that needs the GPU is HEALD_DEVICE.
HEALD_API heald_status heald_context_synchronise(heald_context *ctx);

// Adds the ops, kernels, functions and rules of a text in Heald's language; they may replace those
// of the library. name is what messages call the text.
HEALD_API heald_status heald_library_add(heald_context *ctx, const char *name, const char *text);

// Tensors.

// The numbers never change; new ones may be added.
typedef enum heald_dtype {
    HEALD_NONE = 0,
    HEALD_BOOL = 1, // one byte, 0 or 1
    HEALD_I8 = 2,
    HEALD_I16 = 3,
    HEALD_I32 = 4,
    HEALD_I64 = 5,
    HEALD_U8 = 6,
    HEALD_U16 = 7,
    HEALD_U32 = 8,
    HEALD_U64 = 9,
    HEALD_F16 = 10,
    HEALD_BF16 = 11,
    HEALD_F32 = 12,
    HEALD_F64 = 13,
    HEALD_F8E4M3FN = 14, // one byte each, as ONNX means them
    HEALD_F8E4M3FNUZ = 15,
    HEALD_F8E5M2 = 16,
    HEALD_F8E5M2FNUZ = 17,
    HEALD_F4E2M1 = 18, // one byte each too: its bits in the lower half
    HEALD_I4 = 19,     // numbers, one byte each, -8 to 7
    HEALD_U4 = 20,
    HEALD_I2 = 21,
    HEALD_U2 = 22
} heald_dtype;

HEALD_API const char *heald_dtype_name(heald_dtype dtype); // "f32"; "?" for what is none

enum { HEALD_MAX_RANK = 16 };

// A dense row-major array with a count of its owners. The handle never changes once made; the
// elements may.
typedef struct heald_tensor heald_tensor;

// Zeroed memory of the library, aligned to 64 bytes. An extent may be 0; rank 0 is one element.
HEALD_API heald_status heald_tensor_create(heald_dtype dtype, int rank, const int64_t *dims,
                                           heald_tensor **out);

// The caller's memory, aligned for its type. `release`, which may be NULL, is called once with
// `user` when the last owner and the last view are gone, perhaps from another thread; not at all if
// this function fails.
HEALD_API heald_status heald_tensor_from_memory(heald_dtype dtype, int rank, const int64_t *dims,
                                                void *data, void (*release)(void *user), void *user,
                                                heald_tensor **out);

// Another shape for part of the same memory, starting at element `offset` of `base`, which it keeps
// alive.
HEALD_API heald_status heald_tensor_view(heald_tensor *base, int64_t offset, int rank,
                                         const int64_t *dims, heald_tensor **out);

// The same two, in the memory where the kernels of the context run: of its GPU, where the target is
// "cuda", otherwise of the host. Not zeroed. `data` is an address of the GPU, such as a framework
// in the same process has; Heald works in the GPU's primary context. To be released before the
// context is destroyed.
HEALD_API heald_status heald_tensor_create_on_device(heald_context *ctx, heald_dtype dtype,
                                                     int rank, const int64_t *dims,
                                                     heald_tensor **out);
HEALD_API heald_status heald_tensor_from_device_memory(heald_context *ctx, heald_dtype dtype,
                                                       int rank, const int64_t *dims, void *data,
                                                       void (*release)(void *user), void *user,
                                                       heald_tensor **out);
// The elements of one to the other, of the same type and number, in the memory of the host or of
// the GPU. When it returns, `from` may be changed if it is the host's, and `to` has them if that
// is.
HEALD_API heald_status heald_tensor_copy(heald_context *ctx, const heald_tensor *from,
                                         heald_tensor *to);

HEALD_API heald_tensor *heald_tensor_retain(heald_tensor *t); // one more owner; returns t
HEALD_API void heald_tensor_release(heald_tensor *t);         // one owner less; NULL is fine

HEALD_API heald_dtype heald_tensor_dtype(const heald_tensor *t);
HEALD_API int heald_tensor_rank(const heald_tensor *t);
HEALD_API const int64_t *heald_tensor_dims(const heald_tensor *t); // (rank), lives as long as t
HEALD_API void *heald_tensor_data(const heald_tensor *t);
HEALD_API int heald_tensor_on_device(const heald_tensor *t); // 1: data is an address of a GPU
HEALD_API size_t heald_tensor_bytes(const heald_tensor *t);  // of all elements

// From a .npy, .npz (with one array) or .pb (ONNX TensorProto) file, by its name. Needs the context
// for messages only.
HEALD_API heald_status heald_tensor_read(heald_context *ctx, const char *path, heald_tensor **out);
HEALD_API heald_status heald_tensor_write_npy(heald_context *ctx, const char *path,
                                              const heald_tensor *t);

// Kernels: text in Heald's language, compiled for this machine.

typedef struct heald_kernel heald_kernel;

typedef struct heald_value_info {
    const char *name;
    heald_dtype dtype;
    int rank;                     // -1: not known before a model runs
    const int64_t *dims;          // (rank), -1: not known, or chosen by the caller
    const char *const *dim_names; // (rank), "batch"; NULL where an extent is known or has no name
} heald_value_info;               // lives as long as what it describes

// Made by HEALD_COMPILE_OPTIONS(.shape = "m=512,n=512,k=64"). What is not said gets its default.
typedef struct heald_compile_options {
    size_t struct_size;
    const char *kernel;  // its name, where the text has several
    const char *shape;   // extents of dimensions, "m=512,n=512", and packs, "s=3x4"; others are 1
    const char *dynamic; // dimensions that stay open, "m,n": what the tensors have when it is run
    const char *types;   // of type parameters, "T=f16"; otherwise the first that the kernel lists
    const char *const *attributes; // "NAME=VALUE" each, then NULL; values in the language
    const char *const *choices;    // of tune entries, likewise
} heald_compile_options;
#define HEALD_COMPILE_OPTIONS(...) \
    ((heald_compile_options){.struct_size = sizeof(heald_compile_options), __VA_ARGS__})

// Compiles one kernel of a text, or takes it from the cache. The text's declarations join the
// library of the context, which must outlive the kernel. name is what messages call the text.
HEALD_API heald_status heald_compile(heald_context *ctx, const char *name, const char *text,
                                     const heald_compile_options *options, heald_kernel **out);
HEALD_API void heald_kernel_destroy(heald_kernel *k); // NULL is fine

// Inputs come first, then outputs.
HEALD_API int heald_kernel_param_count(const heald_kernel *k);
HEALD_API int heald_kernel_input_count(const heald_kernel *k);
HEALD_API const heald_value_info *heald_kernel_param(const heald_kernel *k, int i); // NULL: no such

typedef enum heald_text {
    HEALD_TEXT_IR = 0,      // the kernel as instantiated
    HEALD_TEXT_LOWERED = 1, // after all passes
    HEALD_TEXT_SOURCE = 2   // what the compiler was given
} heald_text;
// Lives as long as the kernel; NULL where there is none, as for the interpreter.
HEALD_API const char *heald_kernel_text(const heald_kernel *k, heald_text which);

// Runs it on all parameters, outputs among them, of the right types and shapes, in the memory of
// the host or of the context's GPU; outputs in the host's are there when it returns. The context
// may be another one than it was compiled in, of the same target.
HEALD_API heald_status heald_kernel_run(heald_context *ctx, const heald_kernel *k,
                                        heald_tensor *const *params);

// Models.

typedef struct heald_model heald_model;

// Reads an ONNX model; external data is looked for beside the file. Operators that are not known
// are reported all at once. What is in memory must stay there as long as the model.
HEALD_API heald_status heald_model_load_onnx(heald_context *ctx, const char *path,
                                             heald_model **out);
HEALD_API heald_status heald_model_load_onnx_memory(heald_context *ctx, const char *name,
                                                    const void *data, size_t size,
                                                    heald_model **out);
// A `graph` of a text in Heald's language; graph may be NULL where there is only one. So any
// operator can be reached by its name and attributes:
//     graph g(x: f32[n, 10]) -> (y) { y = softmax(x, axis = 1); }
HEALD_API heald_status heald_model_load_text(heald_context *ctx, const char *name, const char *text,
                                             const char *graph, heald_model **out);
HEALD_API void heald_model_destroy(heald_model *m); // NULL is fine

HEALD_API int heald_model_input_count(const heald_model *m); // those that must be given
HEALD_API int heald_model_output_count(const heald_model *m);
HEALD_API const heald_value_info *heald_model_input(const heald_model *m, int i); // NULL: no such
HEALD_API const heald_value_info *heald_model_output(const heald_model *m, int i);

// Initializers of an ONNX model that are among its inputs too (before IR version 4 all are): the
// file has their values, so that nobody needs to give them. They are counted apart, and are none of
// the inputs above.
HEALD_API int heald_model_optional_count(const heald_model *m);
HEALD_API const heald_value_info *heald_model_optional(const heald_model *m, int i);
// From now on this tensor, which is retained, takes the place of the file's value; NULL: the file's
// again. With other optional inputs given than before, the next run compiles the model once more:
// what is given is an input as any, not folded or packed, and may be given anew without compiling.
HEALD_API heald_status heald_model_give(heald_model *m, int i, heald_tensor *t);

// Compiles the model, as the first run with these inputs would. Dimensions that the model leaves
// open stay open, so that other sizes need no other compilation; where it cannot do with that, it
// is compiled for these shapes. Where shapes inside the model depend on the elements of an input,
// it is compiled for these elements too; such an input is best in the host's memory. Where only a
// run tells how the model goes on, the rest is compiled by the first run. For a target such as
// "cuda:sm_80" no GPU is needed until then.
HEALD_API heald_status heald_model_prepare(heald_model *m, heald_tensor *const *inputs);

// Runs the model. inputs: one for each, in order. outputs: tensors of the caller of the right type
// and shape, which are written, or NULLs, which become tensors of the caller's, in the host's
// memory, after a success. Tensors may be in the memory of the host or of the context's GPU. Where
// outputs are the host's, they are there when it returns. Otherwise the work has only been put in
// the stream; what goes wrong in it is told by heald_context_synchronise or a later call.
HEALD_API heald_status heald_model_run(heald_model *m, heald_tensor *const *inputs,
                                       heald_tensor **outputs);

#ifdef __cplusplus
}
#endif

#endif

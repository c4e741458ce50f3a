// SPDX-License-Identifier: Apache-2.0
// Models of the command line and their inputs.
#include "cli/model_job.h"

#include "base/os.h"
#include "judge/data.h"
#include "judge/script.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tensor_text(Arena *a, const heald_tensor *t)
{
    char text[256];
    return arena_strdup(a, shape_format(text, sizeof text, t->dtype, t->rank, t->dims));
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && !strcmp(text + n - m, suffix);
}

int model_open(Cli *c, ModelJob *j)
{
    *j = (ModelJob){.cli = c, .path = c->operand[0]};
    if (path_is_dir(j->path)) j->path = path_join(&c->arena, j->path, "model.onnx");
    if (!cli_context(c)) return EXIT_ERROR;
    heald_status s;
    if (has_suffix(j->path, ".hd")) {
        char *text;
        size_t size;
        const char *why = file_read(&c->arena, j->path, &text, &size);
        if (why) return cli_error(c, "%s", why);
        s = heald_model_load_text(c->context, j->path, text, NULL, &j->model);
    } else {
        s = heald_model_load_onnx(c->context, j->path, &j->model);
    }
    if (s) return cli_context_error(c);
    j->ninput = heald_model_input_count(j->model);
    j->noptional = heald_model_optional_count(j->model);
    j->noutput = heald_model_output_count(j->model);
    j->input = NEW_ARRAY(&c->arena, heald_tensor *, j->ninput + j->noptional);
    j->output = NEW_ARRAY(&c->arena, heald_tensor *, j->noutput);
    j->source = NEW_ARRAY(&c->arena, const char *, j->ninput + j->noptional);
    return EXIT_DONE;
}

const heald_value_info *model_input_info(const ModelJob *j, int i)
{
    return i < j->ninput ? heald_model_input(j->model, i)
                         : heald_model_optional(j->model, i - j->ninput);
}

void model_drop_tensors(ModelJob *j)
{
    for (int i = 0; i < j->ninput + j->noptional; i++) {
        heald_tensor_release(j->input[i]);
        j->input[i] = NULL;
        if (i >= j->ninput) heald_model_give(j->model, i - j->ninput, NULL);
    }
    for (int i = 0; i < j->noutput; i++) {
        heald_tensor_release(j->output[i]);
        j->output[i] = NULL;
    }
}

void model_close(ModelJob *j)
{
    model_drop_tensors(j);
    heald_model_destroy(j->model);
}

// Optional inputs that were given take the place of the model's own.
static int give_optional(ModelJob *j)
{
    for (int i = 0; i < j->noptional; i++)
        if (heald_model_give(j->model, i, j->input[j->ninput + i]))
            return cli_context_error(j->cli);
    return EXIT_DONE;
}

int model_take_data(ModelJob *j, const char *dir, TestData *data)
{
    Cli *c = j->cli;
    if (!path_is_dir(dir)) return cli_error(c, "%s is no folder", dir);
    const char *why = test_data_read(&c->arena, dir, data);
    if (why) return cli_error(c, "%s", why);
    if (data->ninput < j->ninput || data->ninput > j->ninput + j->noptional ||
        data->noutput > j->noutput) {
        return cli_error(c, "%s has %d inputs and %d outputs, the model %d and %d", dir,
                         data->ninput, data->noutput, j->ninput, j->noutput);
    }
    int n = j->ninput + j->noptional;
    const HostTensor **given = NEW_ARRAY(&c->arena, const HostTensor *, n);
    why = test_data_place(&c->arena, data, j->model->graph, given);
    if (why) return cli_error(c, "%s: %s", dir, why);
    model_drop_tensors(j);
    for (int i = 0; i < n; i++) {
        const HostTensor *t = given[i];
        if (t && heald_tensor_from_memory((heald_dtype)t->dtype, t->rank, t->dims, (void *)t->data,
                                          NULL, NULL, &j->input[i]))
            return cli_error(c, "%s: input %d is no tensor", dir, i);
    }
    return give_optional(j);
}

// ---- pictures

static bool scale_numbers(Cli *c, OptionId id, double *out)
{
    const char *s = cli_text(c, id);
    for (int i = 0; s && i < 3; i++) {
        char *end;
        out[i] = strtod(s, &end);
        bool good = end != s && (*end == ',' || !*end) && (id != OPT_STD || out[i] != 0);
        if (!good || (*end && i == 2)) {
            cli_error(c, "--%s %s: one number, or three separated by ',', are needed",
                      option_info[id].name, cli_text(c, id));
            return false;
        }
        if (*end) s = end + 1;
    }
    return true;
}

static int take_picture(ModelJob *j, int i, const char *path)
{
    Cli *c = j->cli;
    ImageScale scale = {{0, 0, 0}, {1, 1, 1}};
    if (!scale_numbers(c, OPT_MEAN, scale.mean) || !scale_numbers(c, OPT_STD, scale.std))
        return EXIT_ERROR;
    const char *why = image_read(&c->arena, path, &j->picture);
    if (why) return cli_error(c, "%s", why);
    why = image_to_tensor(&c->arena, &j->picture, &scale, model_input_info(j, i), &j->input[i]);
    return why ? cli_error(c, "%s: %s", path, why) : EXIT_DONE;
}

// ---- files and random data

// Files know no types of fewer than 8 bits, nor which one the bytes of an f8 are of.
static int as_small(ModelJob *j, int i, const char *path)
{
    heald_tensor *from = j->input[i], *to;
    DType want = (DType)model_input_info(j, i)->dtype;
    bool bits = dtype_small_float(want) && from->dtype == DT_U8;
    bool few = !dtype_small_float(want) && dtypes[want].bits < 8 && dtypes[from->dtype].bits == 8 &&
               dtypes[from->dtype].class == dtypes[want].class;
    if (!bits && !few) return EXIT_DONE;
    if (heald_tensor_create((heald_dtype)want, from->rank, from->dims, &to))
        return cli_error(j->cli, "%s is too large", path);
    memcpy(to->data, from->data, (size_t)from->nelem);
    j->input[i] = to;
    int64_t bad = -1;
    for (int64_t k = 0; few && k < to->nelem && bad < 0; k++) {
        int64_t v = dtype_load_i64(from->dtype, (char *)from->data + k);
        dtype_store_i64(want, (char *)to->data + k, v);
        if (dtype_load_i64(want, (char *)to->data + k) != v) bad = k;
    }
    heald_tensor_release(from);
    return bad < 0 ? EXIT_DONE
                   : cli_error(j->cli, "%s: element %lld does not fit %s", path, (long long)bad,
                               dtypes[want].name);
}

static int take_file(ModelJob *j, const char *text)
{
    Cli *c = j->cli;
    const char *name, *path;
    if (!cli_pair(c, OPT_INPUT, text, &name, &path)) return EXIT_ERROR;
    Buf names;
    buf_init(&names, &c->arena);
    int i = 0;
    for (; i < j->ninput + j->noptional; i++) {
        const char *known = model_input_info(j, i)->name;
        if (!strcmp(known, name)) break;
        if (i < j->ninput) buf_printf(&names, "%s%s", i ? ", " : "", known);
    }
    if (i == j->ninput + j->noptional) {
        if (j->noptional)
            buf_printf(&names, "%s%d optional one%s", j->ninput ? " and " : "", j->noptional,
                       j->noptional > 1 ? "s" : "");
        return cli_error(c, "%s has no input '%s'; its inputs are: %s", j->path, name,
                         buf_text(&names));
    }
    heald_tensor_release(j->input[i]);
    j->input[i] = NULL;
    j->source[i] = path;
    if (has_suffix(path, ".png")) return take_picture(j, i, path);
    if (heald_tensor_read(c->context, path, &j->input[i])) return cli_context_error(c);
    return as_small(j, i, path);
}

// Whether axis `axis` of input i is open and counts what --batch counts: it is the first axis of
// the first input, or has its name.
static bool is_batch(const ModelJob *j, int i, int axis)
{
    const heald_value_info *first = heald_model_input(j->model, 0),
                           *v = heald_model_input(j->model, i);
    if (v->dims[axis] >= 0) return false;
    const char *name = first->rank > 0 ? first->dim_names[0] : NULL;
    return name ? v->dim_names[axis] && !strcmp(name, v->dim_names[axis])
                : axis == 0 && !v->dim_names[axis];
}

// The extent of an axis that the model leaves open: by name from --shape, otherwise 1.
static int64_t open_extent(ModelJob *j, const ScriptOptions *o, Interner *names, const char *name)
{
    const Value *v = name ? map_get(&o->shape, intern(names, name)) : NULL;
    if (v && v->kind == V_INT) return v->u.i;
    if (name)
        cli_verbose(j->cli, "dimension '%s' is taken as 1; --shape %s=N changes it", name, name);
    return 1;
}

static int take_random(ModelJob *j, int i, const ScriptOptions *o, Interner *names, Random *r)
{
    const heald_value_info *v = heald_model_input(j->model, i);
    Cli *c = j->cli;
    int64_t dims[HEALD_MAX_RANK];
    if (v->rank < 0)
        return cli_error(c, "input '%s' has no known rank: give it by --input", v->name);
    for (int k = 0; k < v->rank; k++)
        dims[k] = v->dims[k] >= 0                 ? v->dims[k]
                  : j->batch && is_batch(j, i, k) ? j->batch
                                                  : open_extent(j, o, names, v->dim_names[k]);
    if (heald_tensor_create(v->dtype, v->rank, dims, &j->input[i]))
        return cli_error(c, "input '%s' is too large", v->name);
    heald_tensor *t = j->input[i];
    random_fill(r, t->dtype, t->data, t->nelem, false);
    // Integers are often indices or masks: 0 and 1 are right for both.
    for (int64_t k = 0; dtype_is_int(t->dtype) && k < t->nelem; k++) {
        char *at = (char *)t->data + (size_t)k * dtype_size(t->dtype);
        dtype_store_i64(t->dtype, at, dtype_load_i64(t->dtype, at) & 1);
    }
    return EXIT_DONE;
}

static bool lists(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

// Every name of --shape must be one of the axes that the model leaves open.
static bool shape_names_known(ModelJob *j, const ScriptOptions *o)
{
    Arena *a = &j->cli->arena;
    VEC(const char *) open = {0};
    Buf text;
    buf_init(&text, a);
    for (int i = 0; i < j->ninput; i++) {
        const heald_value_info *v = heald_model_input(j->model, i);
        for (int k = 0; k < v->rank; k++) {
            const char *name = v->dims[k] < 0 ? v->dim_names[k] : NULL;
            if (!name || lists(open.at, open.n, name)) continue;
            buf_printf(&text, "%s%s", open.n ? ", " : "", name);
            VEC_PUSH(a, &open, name);
        }
    }
    for (int i = 0; i < o->shape.n; i++) {
        const char *name = o->shape.entry[i].key;
        const Value *v = o->shape.entry[i].value;
        if (!lists(open.at, open.n, name)) {
            cli_error(j->cli, "%s has no open dimension '%s'; those it has: %s", j->path, name,
                      open.n ? buf_text(&text) : "none");
            return false;
        }
        if (v->kind == V_INT) continue;
        cli_error(j->cli, "--shape: '%s' is one dimension, and needs one extent", name);
        return false;
    }
    return true;
}

int model_take_inputs(ModelJob *j)
{
    Cli *c = j->cli;
    int64_t seed;
    if (!cli_int(c, OPT_SEED, 0, INT64_MAX, &seed)) return EXIT_ERROR;
    Interner *names = interner_new(&c->arena);
    ScriptOptions o = {0};
    for (int i = 0; i < c->options.all[OPT_SHAPE].n; i++) {
        const char *why = script_parse_shape(&o, &c->arena, names, c->options.all[OPT_SHAPE].at[i]);
        if (why) return cli_error(c, "--shape: %s", why);
    }
    if (!shape_names_known(j, &o)) return EXIT_ERROR;
    for (int i = 0; i < c->options.all[OPT_INPUT].n; i++)
        if (take_file(j, c->options.all[OPT_INPUT].at[i])) return EXIT_ERROR;
    Random r = {(uint64_t)seed};
    for (int i = 0; i < j->ninput; i++)
        if (!j->input[i] && take_random(j, i, &o, names, &r)) return EXIT_ERROR;
    return give_optional(j);
}

// ---- precision

const char *model_precision_text(ModelJob *j)
{
    const Graph *g = model_current(j->model)->compiled->graph;
    const char *name = precisions[g->precision].name;
    if (precisions[g->precision].type == DT_F32)
        return arena_printf(&j->cli->arena, "precision %s", name);
    return arena_printf(&j->cli->arena, "precision %s in %d of %d nodes", name, g->nnarrow,
                        g->nnarrow + g->nwide);
}

static int64_t count_not_finite(const heald_tensor *t)
{
    int64_t n = 0;
    for (int64_t i = 0; dtype_is_float(t->dtype) && i < t->nelem; i++)
        n +=
            !isfinite(dtype_load_f64(t->dtype, (char *)t->data + (size_t)i * dtype_size(t->dtype)));
    return n;
}

void model_warn_precision(ModelJob *j)
{
    Cli *c = j->cli;
    const Graph *g = model_current(j->model)->compiled->graph;
    const char *name = precisions[g->precision].name;
    if (precisions[g->precision].type == DT_F32) return;
    if (g->beyond) {
        cli_warning(c,
                    "%lld elements of constants are beyond the range of %s and were taken as "
                    "its largest number, the first in '%s'",
                    (long long)g->beyond, name, cli_printable(c, g->beyond_name));
    }
    for (int i = 0; i < j->noutput; i++) {
        int64_t n = count_not_finite(j->output[i]);
        if (!n) continue;
        cli_warning(c, "output '%s' has %lld elements that are not finite; %s",
                    cli_printable(c, heald_model_output(j->model, i)->name), (long long)n,
                    g->precision == PRECISION_F16
                        ? "f16 ends at 65504: --precision bf16 has the range of f32"
                        : "--precision f32 tells whether that is for want of range");
    }
}

// SPDX-License-Identifier: Apache-2.0
// Bytes to structs, driven by onnx_fields.def. A message is walked twice: once to check and count
// its fields, once to fill lists of exactly that length. So memory is proportional to the file, and
// the second walk cannot fail on the wire.
#include "frontends/onnx_model.h"

#include "base/util.h"
#include "frontends/wire.h"

#include <limits.h>
#include <string.h>

#define MAX_FIELDS 32 // field numbers are below; the `has` mask relies on it

enum {
#define MESSAGE(M, NAME) M_##M,
#include "frontends/onnx_fields.def"
#undef MESSAGE
    M_COUNT,
    M_None = M_COUNT
};

typedef enum How { HOW_NONE, HOW_ONE, HOW_CHOICE, HOW_LIST, HOW_ELEMS } How;

typedef struct Reader {
    Arena *arena;
    OnnxSource *source;
    const char *error;
} Reader;

typedef struct Field Field;

// Stores one value of the field; `f` holds one value, never a packed list.
typedef bool StoreFn(Reader *r, const Field *field, const WireField *f, int depth, void *to);

// A scalar of the wire, or a message.
typedef struct Type {
    WireType wire;
    size_t item; // bytes of an item of a list; 0: the submessage's struct
    StoreFn *store;
} Type;

struct Field {
    const char *name;
    How how;
    const Type *type;
    size_t offset; // of the member in the message's struct
    int sub;
};

typedef ONNX_LIST(char) AnyList;

static StoreFn store_int32, store_int64, store_float, store_string, store_bytes, store_span,
    store_message;

// Bytes of a struct's member of each type.
enum {
    SIZE_INT32 = 4,
    SIZE_INT64 = 8,
    SIZE_FLOAT = 4,
    SIZE_DOUBLE = 8,
    SIZE_STRING = sizeof(OnnxString),
    SIZE_BYTES = sizeof(OnnxBytes),
    SIZE_SPAN = sizeof(OnnxSpan),
    SIZE_MESSAGE = sizeof(void *)
};

// clang-format off
//                 wire          in a list    store
static const Type
    type_INT32   = {WIRE_VARINT,  SIZE_INT32,  store_int32},
    type_INT64   = {WIRE_VARINT,  SIZE_INT64,  store_int64},
    type_FLOAT   = {WIRE_FIXED32, SIZE_FLOAT,  store_float},
    type_DOUBLE  = {WIRE_FIXED64, SIZE_DOUBLE, NULL},
    type_STRING  = {WIRE_BYTES,   SIZE_STRING, store_string},
    type_BYTES   = {WIRE_BYTES,   SIZE_BYTES,  store_bytes},
    type_SPAN    = {WIRE_BYTES,   SIZE_SPAN,   store_span},
    type_MESSAGE = {WIRE_BYTES,   0,           store_message};
// clang-format on

static const struct {
    const char *name;
    size_t size;
} messages[] = {
#define MESSAGE(M, NAME) {NAME, sizeof(Onnx##M)},
#include "frontends/onnx_fields.def"
#undef MESSAGE
};

static const Field fields[M_COUNT][MAX_FIELDS] = {
#define FIELD(M, NUMBER, NAME, HOW, TYPE, SUB) \
    [M_##M][NUMBER] = {#NAME, HOW_##HOW, &type_##TYPE, offsetof(Onnx##M, NAME), M_##SUB},
#include "frontends/onnx_fields.def"
#undef FIELD
};

static bool fail(Reader *r, int message, const WireField *f, const char *wrong)
{
    const char *name = f->number < MAX_FIELDS ? fields[message][f->number].name : NULL;
    const char *field = name        ? arena_printf(r->arena, ".%s", name)
                        : f->number ? arena_printf(r->arena, " field %u", (unsigned)f->number)
                                    : "";
    r->error =
        arena_printf(r->arena, "%s: byte %zu: %s %s%s", r->source->name,
                     (size_t)(f->start - r->source->data), wrong, messages[message].name, field);
    return false;
}

static bool store_int32(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    UNUSED(r), UNUSED(field), UNUSED(depth);
    uint32_t v = (uint32_t)f->value;
    memcpy(to, &v, sizeof v);
    return true;
}

static bool store_int64(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    UNUSED(r), UNUSED(field), UNUSED(depth);
    memcpy(to, &f->value, sizeof f->value);
    return true;
}

static bool store_float(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    return store_int32(r, field, f, depth, to);
}

static bool store_string(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    UNUSED(depth);
    if (f->size && memchr(f->data, 0, f->size)) {
        r->error = arena_printf(r->arena, "%s: byte %zu: zero byte in a name (%s)", r->source->name,
                                (size_t)(f->start - r->source->data), field->name);
        return false;
    }
    OnnxString s = f->size ? arena_strndup(r->arena, (const char *)f->data, f->size) : "";
    memcpy(to, &s, sizeof s);
    return true;
}

static bool store_bytes(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    UNUSED(field), UNUSED(depth);
    char *text = arena_alloc(r->arena, f->size + 1);
    if (f->size) memcpy(text, f->data, f->size);
    OnnxBytes b = {text, f->size};
    memcpy(to, &b, sizeof b);
    return true;
}

static bool store_span(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    UNUSED(r), UNUSED(field), UNUSED(depth);
    OnnxSpan s = {f->data, f->size};
    memcpy(to, &s, sizeof s);
    return true;
}

// First walk: wire types, numbers of values by field number, presence, and the rules for singular
// messages and oneofs.
static bool count_fields(Reader *r, int message, const WireField *whole, size_t *count,
                         uint32_t *has)
{
    uint32_t choice = 0;
    for (Wire w = wire_of(whole->data, whole->size); !wire_at_end(&w);) {
        WireField f;
        const char *wrong = wire_field(&w, &f);
        if (wrong) return fail(r, message, &f, wrong);
        if (f.number >= MAX_FIELDS || !fields[message][f.number].name) continue;
        const Field *field = &fields[message][f.number];
        size_t n = 1;
        if (field->how == HOW_LIST || field->how == HOW_ELEMS)
            wrong = wire_count(&f, field->type->wire, &n);
        else if (f.type != field->type->wire) wrong = "wrong wire type for";
        if (wrong) return fail(r, message, &f, wrong);
        if (field->type == &type_MESSAGE && field->how != HOW_LIST && count[f.number])
            return fail(r, message, &f, "second");
        if (field->how == HOW_CHOICE) choice |= 1u << f.number;
        if (choice & (choice - 1)) return fail(r, message, &f, "conflicting");
        count[f.number] += n;
        if (count[f.number] > INT_MAX && field->how == HOW_LIST)
            return fail(r, message, &f, "too many of");
        *has |= 1u << f.number;
    }
    return true;
}

static size_t item_size(const Field *field)
{
    return field->type->item ? field->type->item : messages[field->sub].size;
}

// Members start as zero bytes, strings as "", lists with room for what was counted and n = 0.
static void prepare(Reader *r, int message, const size_t *count, char *out)
{
    for (int number = 0; number < MAX_FIELDS; number++) {
        const Field *field = &fields[message][number];
        if (!field->name) continue;
        void *to = out + field->offset;
        if (field->how == HOW_ELEMS) {
            int64_t n = (int64_t)count[number];
            memcpy(to, &n, sizeof n);
        } else if (field->how == HOW_LIST && count[number]) {
            AnyList list = {arena_alloc_array(r->arena, item_size(field), count[number]), 0};
            memcpy(to, &list, sizeof list);
        } else if (field->type == &type_STRING && field->how != HOW_LIST) {
            OnnxString empty = "";
            memcpy(to, &empty, sizeof empty);
        } else if (field->type == &type_BYTES && field->how != HOW_LIST) {
            OnnxBytes empty = {"", 0};
            memcpy(to, &empty, sizeof empty);
        }
    }
}

static bool append(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    AnyList list;
    memcpy(&list, to, sizeof list);
    bool packed = f->type != field->type->wire;
    Wire w = wire_of(f->data, f->size);
    for (bool more = !packed || !wire_at_end(&w); more; more = packed && !wire_at_end(&w)) {
        WireField item = *f;
        if (packed) {
            const char *wrong = wire_value(&w, field->type->wire, &item.value);
            if (wrong) {
                r->error =
                    arena_printf(r->arena, "%s: byte %zu: %s the packed list %s", r->source->name,
                                 (size_t)(f->start - r->source->data), wrong, field->name);
                return false;
            }
        }
        if (!field->type->store(r, field, &item, depth,
                                list.at + (size_t)list.n * item_size(field)))
            return false;
        list.n++;
    }
    memcpy(to, &list, sizeof list);
    return true;
}

// IR versions 1 and 2 did not require AttributeProto.type: the field that is present tells it.
static void complete_attr(OnnxAttr *attr)
{
    static const struct {
        int field;
        OnnxAttrType type;
    } rows[] = {
        {ONNX_Attr_f, ONNX_ATTR_FLOAT},
        {ONNX_Attr_i, ONNX_ATTR_INT},
        {ONNX_Attr_s, ONNX_ATTR_STRING},
        {ONNX_Attr_t, ONNX_ATTR_TENSOR},
        {ONNX_Attr_g, ONNX_ATTR_GRAPH},
        {ONNX_Attr_floats, ONNX_ATTR_FLOATS},
        {ONNX_Attr_ints, ONNX_ATTR_INTS},
        {ONNX_Attr_strings, ONNX_ATTR_STRINGS},
        {ONNX_Attr_tensors, ONNX_ATTR_TENSORS},
        {ONNX_Attr_graphs, ONNX_ATTR_GRAPHS},
        {ONNX_Attr_tp, ONNX_ATTR_TYPE_PROTO},
        {ONNX_Attr_type_protos, ONNX_ATTR_TYPE_PROTOS},
        {ONNX_Attr_sparse_tensor, ONNX_ATTR_SPARSE_TENSOR},
        {ONNX_Attr_sparse_tensors, ONNX_ATTR_SPARSE_TENSORS},
    };
    for (size_t i = 0; i < COUNT(rows) && attr->type == ONNX_ATTR_UNDEFINED; i++) {
        if (attr->head.has >> rows[i].field & 1) attr->type = rows[i].type;
    }
}

// `whole` is the message as a field of its parent (or the file); out is zeroed.
static bool read_message(Reader *r, int message, const WireField *whole, int depth, void *out)
{
    if (depth > ONNX_MAX_DEPTH)
        return fail(r, message, &(WireField){.start = whole->start}, "too deeply nested");
    size_t count[MAX_FIELDS] = {0};
    OnnxHead *head = out;
    head->source = r->source;
    head->offset = whole->data ? (size_t)(whole->data - r->source->data) : 0;
    head->size = whole->size;
    if (!count_fields(r, message, whole, count, &head->has)) return false;
    prepare(r, message, count, out);
    for (Wire w = wire_of(whole->data, whole->size); !wire_at_end(&w);) {
        WireField f;
        const char *wrong = wire_field(&w, &f);
        ASSERT(!wrong);
        if (f.number >= MAX_FIELDS || !fields[message][f.number].name) continue;
        const Field *field = &fields[message][f.number];
        if (field->how == HOW_ELEMS) continue;
        void *to = (char *)out + field->offset;
        bool ok = field->how == HOW_LIST ? append(r, field, &f, depth, to)
                                         : field->type->store(r, field, &f, depth, to);
        if (!ok) return false;
    }
    if (message == M_Attr) complete_attr(out);
    return true;
}

static bool store_message(Reader *r, const Field *field, const WireField *f, int depth, void *to)
{
    if (field->how == HOW_LIST) return read_message(r, field->sub, f, depth + 1, to);
    void *out = arena_alloc(r->arena, messages[field->sub].size);
    memcpy(to, &out, sizeof out);
    return read_message(r, field->sub, f, depth + 1, out);
}

static const char *parse(Arena *a, const char *name, const uint8_t *data, size_t size, int message,
                         void *out)
{
    OnnxSource *source = NEW(a, OnnxSource);
    *source = (OnnxSource){.name = arena_strdup(a, name), .data = data, .size = size, .arena = a};
    Reader r = {a, source, NULL};
    WireField whole = {.start = data, .data = data, .size = size};
    return read_message(&r, message, &whole, 1, out) ? NULL : r.error;
}

const char *onnx_model_parse(Arena *a, const char *name, const uint8_t *data, size_t size,
                             OnnxModel **out)
{
    *out = NULL;
    if (!size) return arena_printf(a, "%s: the file is empty", name);
    OnnxModel *m = NEW(a, OnnxModel);
    const char *error = parse(a, name, data, size, M_Model, m);
    if (!error && !m->graph)
        error = arena_printf(a, "%s: no ModelProto.graph: not an ONNX model", name);
    if (!error) *out = m;
    return error;
}

const char *onnx_tensor_parse(Arena *a, const char *name, const uint8_t *data, size_t size,
                              OnnxTensor **out)
{
    *out = NULL;
    OnnxTensor *t = NEW(a, OnnxTensor);
    const char *error = parse(a, name, data, size, M_Tensor, t);
    if (!error) *out = t;
    return error;
}

const OnnxAttr *onnx_attr(const OnnxNode *node, const char *name)
{
    for (int i = 0; i < node->attribute.n; i++) {
        if (!strcmp(node->attribute.at[i].name, name)) return &node->attribute.at[i];
    }
    return NULL;
}

static const OnnxAttr *typed_attr(const OnnxNode *node, const char *name, OnnxAttrType type)
{
    const OnnxAttr *attr = onnx_attr(node, name);
    return attr && attr->type == (int32_t)type ? attr : NULL;
}

int64_t onnx_attr_int(const OnnxNode *node, const char *name, int64_t absent)
{
    const OnnxAttr *attr = typed_attr(node, name, ONNX_ATTR_INT);
    return attr ? attr->i : absent;
}

float onnx_attr_float(const OnnxNode *node, const char *name, float absent)
{
    const OnnxAttr *attr = typed_attr(node, name, ONNX_ATTR_FLOAT);
    return attr ? attr->f : absent;
}

const char *onnx_attr_string(const OnnxNode *node, const char *name, const char *absent)
{
    const OnnxAttr *attr = typed_attr(node, name, ONNX_ATTR_STRING);
    return attr ? attr->s.text : absent;
}

bool onnx_attr_ints(const OnnxNode *node, const char *name, const int64_t **at, int *n)
{
    const OnnxAttr *attr = typed_attr(node, name, ONNX_ATTR_INTS);
    if (attr) *at = attr->ints.at, *n = attr->ints.n;
    return attr;
}

bool onnx_attr_floats(const OnnxNode *node, const char *name, const float **at, int *n)
{
    const OnnxAttr *attr = typed_attr(node, name, ONNX_ATTR_FLOATS);
    if (attr) *at = attr->floats.at, *n = attr->floats.n;
    return attr;
}

bool onnx_same_domain(const char *a, const char *b)
{
    if (!strcmp(a, "ai.onnx")) a = "";
    if (!strcmp(b, "ai.onnx")) b = "";
    return !strcmp(a, b);
}

int64_t onnx_opset(const OnnxOpsets *imports, const char *domain)
{
    int64_t version = 0;
    for (int i = 0; i < imports->n; i++) {
        if (onnx_same_domain(imports->at[i].domain, domain))
            version = max_i64(version, imports->at[i].version);
    }
    return version;
}

const OnnxFunction *onnx_function(const OnnxModel *m, const OnnxNode *call)
{
    for (int i = 0; i < m->functions.n; i++) {
        const OnnxFunction *f = &m->functions.at[i];
        if (!strcmp(f->name, call->op_type) && onnx_same_domain(f->domain, call->domain) &&
            !strcmp(f->overload, call->overload))
            return f;
    }
    return NULL;
}

// A row of the table that does not match its struct member does not compile.
#define SIZE_ONE(TYPE) SIZE_##TYPE
#define SIZE_CHOICE(TYPE) SIZE_##TYPE
#define SIZE_LIST(TYPE) sizeof(AnyList)
#define SIZE_ELEMS(TYPE) sizeof(int64_t)
#define FIELD(M, NUMBER, NAME, HOW, TYPE, SUB)                                              \
    _Static_assert(NUMBER < MAX_FIELDS && sizeof(((Onnx##M *)0)->NAME) == SIZE_##HOW(TYPE), \
                   "onnx_fields.def: " #M "." #NAME);
#include "frontends/onnx_fields.def"
#undef FIELD

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a node of any operator, whose operands are constants and whose attributes are of any kind: it is
   computed, or refused with a reason. */
#include "base/diag.h"
#include "graph/ops/op.h"
#include "graph/run.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* A few bytes may ask for arrays of any size, which must be refused as they are where memory ends. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=128";
}

static const char *const operators[] = {
#define UNARY(name, ...)   #name,
#define BINARY(name, ...)  #name,
#define COMPARE(name, ...) #name,
#define LOGIC(name, ...)   #name,
#include "graph/ops/elementwise.def"
#define OP(name, ...)      #name,
#define EXTENTS(name, ...) #name,
#define MS(name, ...)      "com.microsoft." #name,
#define OWN(name, ...)     "tilewright." #name,
#include "graph/ops/ops.def"
};

static const char *const attributes[] = {"axis",
                                         "axes",
                                         "perm",
                                         "keepdims",
                                         "noop_with_empty_axes",
                                         "to",
                                         "value",
                                         "value_int",
                                         "value_ints",
                                         "value_float",
                                         "value_floats",
                                         "split",
                                         "num_outputs",
                                         "starts",
                                         "ends",
                                         "pads",
                                         "mode",
                                         "upper",
                                         "batch_dims",
                                         "reduction",
                                         "dtype",
                                         "k",
                                         "exclusive",
                                         "reverse",
                                         "largest",
                                         "select_last_index",
                                         "transA",
                                         "transB",
                                         "alpha",
                                         "beta",
                                         "epsilon",
                                         "num_groups",
                                         "p",
                                         "q_num_heads",
                                         "kv_num_heads",
                                         "scale",
                                         "softcap",
                                         "is_causal",
                                         "qk_matmul_output_mode",
                                         "num_heads",
                                         "rotary_embedding_dim",
                                         "interleaved",
                                         "do_rotary",
                                         "local_window_size",
                                         "rotary_interleaved",
                                         "K",
                                         "N",
                                         "bits",
                                         "block_size",
                                         "direction",
                                         "fmod",
                                         "allowzero",
                                         "start",
                                         "end",
                                         "min",
                                         "max",
                                         "approximate",
                                         "training_mode",
                                         "trans_a",
                                         "trans_b",
                                         "activation",
                                         "zero_rows",
                                         "causal",
                                         "smooth_softmax"};

static const char *const texts[] = {"constant", "reflect", "edge", "wrap", "add",      "mul",      "max",
                                    "min",      "none",    "tanh", "LEFT", "circular", "gelu_erf", ""};

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

static uint8_t next(bytes *b) {
    return b->at < b->end ? *b->at++ : 0;
}

/* Small numbers, mostly. */
static int64_t number(bytes *b) {
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, (int64_t)1 << 47, -1, 64, 4096};
    const uint8_t x = next(b);
    return x < 248 ? x % 31 - (x > 200 ? 15 : 0) : extremes[x - 248];
}

/* Up to this many elements have contents. A larger array gets an extent of 0. */
enum { MOST = 512 };

static const tw_array *fill(tw_graph *g, bytes *b, tw_array *a) {
    if (a->rank && (tw_array_elements(a) > MOST || tw_array_elements(a) < 0)) a->dims[next(b) % a->rank] = 0;
    if (tw_array_elements(a) < 0 || tw_array_elements(a) > MOST) a->rank = 0;
    const int64_t n = tw_array_elements(a), size = tw_array_bytes(a);
    if (size < 0) return a; /* Texts have no contents. */
    /* Its own allocation, so that reading beyond it is seen. */
    char *data = tw_arena_alloc(&g->arena, (size_t)size);
    for (int64_t i = 0; data && i < n; i++) {
        const int64_t x = number(b);
        if (tw_element_kind(a->type) != TW_KIND_other) tw_array_set_integers(a->type, data, i, 1, &x);
    }
    a->data = data;
    return a;
}

/* Makes an array, often of the type and nearly the extents of `like`, since most operands are. */
static const tw_array *array(tw_graph *g, bytes *b, const tw_array *like) {
    static const tw_element usual[] = {TW_E_f32, TW_E_i64, TW_E_i32, TW_E_bool, TW_E_u8, TW_E_f16, TW_E_u64, TW_E_f64};
    tw_array *a = tw_arena_alloc(&g->arena, sizeof *a);
    if (!a) return NULL;
    const uint8_t type = next(b), rank = next(b);
    if (like && type >= 100) {
        *a = *like;
        const uint8_t which = next(b);
        if (which < 160 && a->rank) a->dims[which % a->rank] = rank % 9;
        if (which >= 160 && which < 200 && a->rank) a->rank--;
        return fill(g, b, a);
    }
    a->type = type < 200 ? usual[type % 8] : (tw_element)(1 + type % (TW_ELEMENTS - 1));
    a->rank = rank < 200 ? rank % 5 : rank % (TW_ARRAY_RANK + 1);
    for (int i = 0; i < a->rank; i++) {
        const uint8_t x = next(b);
        a->dims[i] = x < 200 ? x % 5 : x < 250 ? x - 199 : (int64_t)1 << (x - 250) * 9;
    }
    return fill(g, b, a);
}

/* Nodes of operators whose operands seldom fit by chance. */
static const struct recipe {
    const char *op;
    struct {
        const char *name;
        int64_t value;
    } attributes[4];
    struct {
        tw_element type;
        int rank;
        int64_t dims[4];
    } operands[12];
} recipes[] = {
    {"GroupQueryAttention",
     {{"num_heads", 2}, {"kv_num_heads", 1}, {"do_rotary", 1}},
     {{TW_E_f32, 3, {2, 1, 8}},
      {TW_E_f32, 3, {2, 1, 4}},
      {TW_E_f32, 3, {2, 1, 4}},
      {TW_E_f32, 4, {2, 1, 3, 4}},
      {TW_E_f32, 4, {2, 1, 3, 4}},
      {TW_E_i32, 1, {2}},
      {TW_E_i32, 0, {0}},
      {TW_E_f32, 2, {8, 2}},
      {TW_E_f32, 2, {8, 2}},
      {TW_E_i64, 2, {2, 1}},
      {TW_E_f32, 4, {1, 2, 1, 8}}}},
    {"MatMulNBits",
     {{"K", 32}, {"N", 2}, {"block_size", 16}, {"bits", 4}},
     {{TW_E_f32, 2, {2, 32}},
      {TW_E_u8, 3, {2, 2, 8}},
      {TW_E_f32, 2, {2, 2}},
      {TW_E_u8, 2, {2, 1}},
      {TW_E_none, 0, {0}},
      {TW_E_f32, 1, {2}}}},
    {"RotaryEmbedding",
     {{"num_heads", 2}, {"interleaved", 0}},
     {{TW_E_f32, 3, {2, 2, 8}}, {TW_E_i64, 2, {2, 2}}, {TW_E_f32, 2, {8, 2}}, {TW_E_f32, 2, {8, 2}}}},
    {"RotaryEmbedding",
     {{"num_heads", 2}, {"interleaved", 1}},
     {{TW_E_f32, 3, {2, 2, 8}}, {TW_E_f32, 2, {8, 2}}, {TW_E_f32, 2, {8, 2}}, {TW_E_i64, 2, {2, 2}}}},
    {"Attention",
     {{"q_num_heads", 2}, {"kv_num_heads", 1}, {"is_causal", 1}, {"qk_matmul_output_mode", 2}},
     {{TW_E_f32, 3, {2, 3, 8}},
      {TW_E_f32, 3, {2, 2, 4}},
      {TW_E_f32, 3, {2, 2, 4}},
      {TW_E_f32, 2, {3, 5}},
      {TW_E_f32, 4, {2, 1, 3, 4}},
      {TW_E_f32, 4, {2, 1, 3, 4}},
      {TW_E_i64, 1, {2}}}},
    {"Product",
     {{"trans_b", 1}},
     {{TW_E_f32, 3, {2, 3, 4}},
      {TW_E_f32, 2, {5, 4}},
      {TW_E_f32, 1, {5}},
      {TW_E_f32, 3, {2, 3, 5}},
      {TW_E_f32, 3, {2, 3, 5}}}},
    {"ScatterElements", {{"axis", 0}}, {{TW_E_f32, 2, {3, 3}}, {TW_E_i64, 2, {2, 3}}, {TW_E_f32, 2, {2, 3}}}},
    {"ScatterND", {{NULL, 0}}, {{TW_E_u8, 2, {3, 3}}, {TW_E_i64, 2, {2, 1}}, {TW_E_u8, 2, {2, 3}}}},
    {"Pad", {{NULL, 0}}, {{TW_E_f32, 2, {3, 3}}, {TW_E_i64, 1, {4}}}},
};

/* Makes operand i of a recipe, now and then with other extents or another type. */
static const tw_array *operand_of(tw_graph *g, bytes *b, const struct recipe *r, int i) {
    tw_array *a = tw_arena_alloc(&g->arena, sizeof *a);
    const uint8_t change = next(b);
    if (!a || r->operands[i].type == TW_E_none) return NULL;
    a->type = r->operands[i].type;
    a->rank = r->operands[i].rank;
    memcpy(a->dims, r->operands[i].dims, sizeof r->operands[i].dims);
    if (change >= 230 && a->rank) a->dims[change % a->rank] = next(b) % 9;
    if (change >= 220 && change < 230) a->type = (tw_element)(1 + next(b) % (TW_ELEMENTS - 1));
    if (change >= 215 && change < 220) a->rank = next(b) % (TW_ARRAY_RANK + 1);
    return fill(g, b, a);
}

static void attribute(tw_graph *g, bytes *b, tw_attribute *a) {
    const uint8_t kind = next(b);
    a->name = attributes[next(b) % (sizeof attributes / sizeof *attributes)];
    a->kind = kind < 128   ? TW_ATTRIBUTE_INT
              : kind < 200 ? TW_ATTRIBUTE_ARRAY
              : kind < 230 ? TW_ATTRIBUTE_TEXT
                           : TW_ATTRIBUTE_REAL;
    a->text = "";
    if (a->kind == TW_ATTRIBUTE_INT) a->integer = number(b);
    if (a->kind == TW_ATTRIBUTE_REAL) a->real = (double)number(b) / 4;
    if (a->kind == TW_ATTRIBUTE_TEXT) a->text = texts[next(b) % (sizeof texts / sizeof *texts)];
    if (a->kind == TW_ATTRIBUTE_ARRAY) a->array = array(g, b, NULL);
}

/* Returns a recipe of an operator, which has up to two. NULL: there is none. */
static const struct recipe *recipe_of(const char *op, int which) {
    const struct recipe *found = NULL;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (!strcmp(recipes[i].op, op) && (!found || which % 2)) found = &recipes[i];
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int versions[] = {24, 11, 1, 18, 27, 13, 9, 8};
    static const char *const domains[] = {"com.microsoft", "tilewright"};
    enum { OPERANDS = 12, RESULTS = 4, ATTRIBUTES = 8 };
    bytes b = {data, data + size};
    tw_graph *g = tw_graph_new();
    if (!g) return 0;
    int in[OPERANDS], out[RESULTS];
    tw_attribute given[ATTRIBUTES] = {{0}};
    const char *name = operators[next(&b) % (sizeof operators / sizeof *operators)];
    const char *point = strrchr(name, '.');
    tw_node n = {.op = point ? point + 1 : name,
                 .domain = point ? domains[*name == 't'] : "",
                 .name = "",
                 .version = point ? 1 : versions[next(&b) % 8],
                 .in = in,
                 .out = out,
                 .attributes = given,
                 .n_attributes = next(&b) % ATTRIBUTES};
    const tw_op *op = tw_op_find(n.domain, n.op, n.version);
    if (op) {
        n.n_in = op->least + (op->most > op->least ? next(&b) % (op->most - op->least + 1) : 0);
        n.n_out = 1 + next(&b) % op->results;
    }
    n.n_in = n.n_in < OPERANDS ? n.n_in : OPERANDS;
    n.n_out = n.n_out < RESULTS ? n.n_out : RESULTS;
    for (int i = 0; i < n.n_attributes; i++) attribute(g, &b, &given[i]);
    const struct recipe *recipe = next(&b) < 192 ? recipe_of(n.op, next(&b)) : NULL;
    for (int i = 0; recipe && i < 4 && recipe->attributes[i].name && n.n_attributes < ATTRIBUTES; i++)
        given[n.n_attributes++] = (tw_attribute){
            .name = recipe->attributes[i].name, .kind = TW_ATTRIBUTE_INT, .integer = recipe->attributes[i].value};
    const tw_array *last = NULL;
    for (int i = 0; i < n.n_in; i++) {
        const tw_array *a = next(&b) > 250 ? NULL : recipe ? operand_of(g, &b, recipe, i) : array(g, &b, last);
        if (a) last = a;
        in[i] = a ? tw_graph_add_value(g, "operand") : -1;
        if (in[i] >= 0) tw_graph_set_content(g, in[i], a);
    }
    g->outputs = out;
    for (int i = 0; i < n.n_out; i++) out[i] = tw_graph_add_value(g, "result");
    g->n_outputs = n.n_out;
    tw_diag d = {0};
    tw_arena arena = {0};
    tw_array results[RESULTS];
    if (tw_graph_add_node(g, &n) >= 0 && !g->arena.failed) {
        tw_status st = tw_graph_resolve(g, "f", &d);
        if (st == TW_OK) st = tw_graph_run(g, NULL, &arena, results, &d);
        if (st != TW_OK && (!d.message[0] || d.status != st)) abort();
    }
    tw_arena_free(&arena);
    tw_graph_free(g);
    return 0;
}

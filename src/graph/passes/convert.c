/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/dtype.h"
#include "graph/passes/passes.h"
#include "graph/passes/stays.h"
#include "graph/rewrite.h"
#include "graph/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a constant of f32 becomes one of 16 bits where it is out of range. */
typedef enum bounds {
    LOOSE,  /* A quarter of the range: masks of -3.4e38 are added to what they hide, and must stay finite then. */
    STRICT, /* The range's end: it is compared with, or is a limit. */
    BOUNDS
} bounds;

enum { CAST_VERSION = 13 /* The operators' set whose casts know all types of 16 bits. */ };

typedef struct converter {
    tw_rewrite w;
    tw_element to;
    int version;         /* The version of casts. */
    int n;               /* Values that there were. */
    bool *real;          /* Of each of them: it was of type f32. */
    bool *output;        /* Of each of them: it is an output of the graph. */
    int *copies[BOUNDS]; /* Of each of them: the value that has it in 16 bits. 0: none so far. */
    int *whole;          /* Of each of them: the value that has it in f32, if its own is not. 0: none so far. */
    bool *stays;         /* Of each node: it computes in f32. */
} converter;

static float limit_of(tw_element to) {
    return to == TW_E_f16 ? 65504.0f : tw_bits_f32(0x7f7f0000u);
}

/* Converts n elements. *beyond: a finite one was out of range. */
static void narrow(tw_element to, const unsigned char *from, unsigned char *data, int64_t n, float bound,
                   bool *beyond) {
    enum { CHUNK = 1024 };
    const float limit = limit_of(to);
    float x[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        const size_t m = (size_t)(n - at < CHUNK ? n - at : CHUNK);
        memcpy(x, from + at * (int64_t)sizeof *x, m * sizeof *x);
        int any = 0; /* Almost never: most chunks are only looked at, many elements at once. */
        for (size_t i = 0; i < m; i++) any |= fabsf(x[i]) > limit;
        for (size_t i = 0; i < m && any; i++) {
            if (!(fabsf(x[i]) > limit) || isinf(x[i])) continue;
            x[i] = copysignf(bound, x[i]);
            *beyond = true;
        }
        tw_from_f32(to == TW_E_f16 ? TW_F16 : TW_BF16, x, data + 2 * at, m);
    }
}

static int narrow_constant(converter *c, int value, bounds b) {
    tw_graph *g = c->w.g;
    tw_array a = *g->values[value].content;
    const int64_t n = tw_array_elements(&a);
    const float limit = limit_of(c->to);
    bool beyond = false;
    void *data = malloc((size_t)(2 * n) + 1);
    if (!data || !tw_graph_own(g, data)) {
        c->w.st = TW_ERR_MEMORY;
        return -1;
    }
    narrow(c->to, a.data, data, n, b == STRICT ? limit : limit / 4, &beyond);
    a.type = c->to;
    a.data = data;
    const int made = tw_rewrite_borrow(&c->w, g->values[value].name, &a);
    if (made < 0) return -1;
    c->copies[b][value] = made;
    if (!beyond) c->copies[BOUNDS - 1 - b][value] = made;
    return made;
}

static int cast(converter *c, int value, tw_element to) {
    const tw_attribute type = {.name = "to", .kind = TW_ATTRIBUTE_INT, .integer = tw_element_onnx(to)};
    tw_node n = {.op = "Cast", .domain = "", .name = "", .version = c->version, .n_attributes = 1};
    n.attributes = tw_arena_alloc(&c->w.g->arena, sizeof type);
    if (!n.attributes) {
        c->w.st = TW_ERR_MEMORY;
        return -1;
    }
    *n.attributes = type;
    return tw_rewrite_make(&c->w, &n, &value, 1);
}

/* Returns the value that has another in 16 bits, or in f32. */
static int narrow_of(converter *c, int value, bounds b) {
    if (c->w.g->values[value].type == c->to) return value;
    if (c->copies[b][value]) return c->copies[b][value];
    if (c->w.g->values[value].content) return narrow_constant(c, value, b);
    const int made = cast(c, value, c->to);
    for (int i = 0; i < BOUNDS && made >= 0; i++) c->copies[i][value] = made;
    return made;
}

static int whole_of(converter *c, int value) {
    if (c->w.g->values[value].type == TW_E_f32) return value;
    if (!c->whole[value]) {
        const int made = cast(c, value, TW_E_f32);
        if (made < 0) return -1;
        c->whole[value] = made;
    }
    return c->whole[value];
}

static bounds bounds_of(const tw_node *n) {
    static const char *const ops[] = {"Clip", "Min",         "Max",     "Equal",
                                      "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i], n->op)) return STRICT;
    return LOOSE;
}

/* Makes a list of operands that are in f32 or in 16 bits, where they were in f32. */
static bool operands(converter *c, const tw_node *n, bool whole, int *in) {
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (in[i] < 0 || in[i] >= c->n || !c->real[in[i]]) continue;
        in[i] = whole ? whole_of(c, in[i]) : narrow_of(c, in[i], bounds_of(n));
        if (in[i] < 0) return false;
    }
    return true;
}

/* Gives a node attributes that say f16 or bf16 where they said f32. */
static bool narrow_attributes(converter *c, tw_node *n) {
    const bool casts = !strcmp(n->op, "Cast"), fills = !strcmp(n->op, "ConstantOfShape");
    tw_arena *arena = &c->w.g->arena;
    if (!casts && !fills) return true;
    tw_attribute *list = tw_arena_array(arena, (size_t)n->n_attributes + 1, sizeof *list);
    tw_array *value = tw_arena_alloc(arena, sizeof *value);
    unsigned char *data = tw_arena_alloc(arena, 16);
    bool beyond;
    if (!list || !value || !data) return false;
    if (n->n_attributes) memcpy(list, n->attributes, (size_t)n->n_attributes * sizeof *list);
    n->attributes = list;
    *value = (tw_array){.type = c->to, .rank = 1, .dims = {1}, .data = data};
    const tw_attribute made = {.name = "value", .kind = TW_ATTRIBUTE_ARRAY, .array = value};
    bool found = false;
    for (int i = 0; i < n->n_attributes; i++) {
        const bool to = casts && !strcmp(list[i].name, "to") && list[i].integer == tw_element_onnx(TW_E_f32);
        if (to) list[i].integer = tw_element_onnx(c->to);
        if (!fills || strcmp(list[i].name, "value") != 0) continue;
        found = true;
        if (list[i].array->type != TW_E_f32) continue;
        narrow(c->to, list[i].array->data, data, 1, limit_of(c->to) / 4, &beyond);
        list[i] = made;
    }
    if (fills && !found) list[n->n_attributes++] = made;
    return true;
}

/* Tries a node with operands of 16 bits. False: the operator does not take them, or makes something else of them. */
static bool try_narrow(converter *c, const tw_node *n, tw_call *found) {
    tw_arena scratch = {0};
    tw_diag why = {0};
    tw_call *call;
    const tw_status st = tw_step_of(&call, c->w.g, n, &scratch, &why);
    bool good = st == TW_OK;
    for (int i = 0; i < n->n_out && good; i++) {
        const int v = n->out[i];
        found->out[i] = call->out[i];
        if (v < 0) continue;
        const tw_element was = c->w.g->values[v].type, is = call->out[i].type;
        good = is == was || (was == TW_E_f32 && is == c->to);
    }
    if (st == TW_ERR_MEMORY) c->w.st = st;
    tw_arena_free(&scratch);
    return good;
}

/* Gives results of 16 bits their type. An output stays f32, and is made of another value. */
static void retype(converter *c, tw_node *n, const tw_call *call) {
    tw_graph *g = c->w.g;
    int outputs[TW_OP_OPERANDS], inner[TW_OP_OPERANDS], count = 0;
    for (int i = 0; i < n->n_out; i++) {
        const int v = n->out[i];
        if (v < 0 || g->values[v].type == call->out[i].type) continue;
        if (!c->output[v]) {
            g->values[v].type = call->out[i].type;
            continue;
        }
        const int made = tw_rewrite_value(&c->w, g->values[v].name, &call->out[i]);
        if (made < 0) return;
        outputs[count] = v;
        inner[count++] = n->out[i] = made;
        for (int b = 0; b < BOUNDS; b++) c->copies[b][v] = made;
    }
    tw_rewrite_put(&c->w, n);
    const tw_attribute type = {.name = "to", .kind = TW_ATTRIBUTE_INT, .integer = tw_element_onnx(TW_E_f32)};
    for (int i = 0; i < count; i++) {
        tw_node back = {.op = "Cast", .domain = "", .name = "", .version = c->version, .n_attributes = 1, .n_out = 1};
        back.attributes = tw_arena_alloc(&g->arena, sizeof type);
        back.out = tw_arena_array(&g->arena, 1, sizeof *back.out);
        if (!back.attributes || !back.out) {
            c->w.st = TW_ERR_MEMORY;
            return;
        }
        *back.attributes = type;
        *back.out = outputs[i];
        tw_rewrite_op(&c->w, &back, back.op);
        tw_rewrite_operands(&c->w, &back, &inner[i], 1);
        tw_rewrite_put(&c->w, &back);
    }
}

static void convert_node(converter *c, tw_node *n, bool stays, tw_call *call) {
    int in[TW_OP_OPERANDS];
    const tw_node was = *n;
    bool whole = stays;
    if (!whole) {
        if (!operands(c, n, false, in) || !narrow_attributes(c, n)) {
            c->w.st = c->w.st == TW_OK ? TW_ERR_MEMORY : c->w.st;
            return;
        }
        tw_rewrite_operands(&c->w, n, in, n->n_in);
        whole = c->w.st == TW_OK && !try_narrow(c, n, call);
    }
    if (!whole) {
        if (c->w.st == TW_OK) retype(c, n, call);
        return;
    }
    *n = was;
    if (!operands(c, n, true, in)) return;
    tw_rewrite_operands(&c->w, n, in, n->n_in);
    tw_rewrite_put(&c->w, n);
}

static tw_status convert(converter *c, tw_diag *diag) {
    tw_graph *g = c->w.g;
    bool changed = false;
    tw_call *call = malloc(sizeof *call);
    if (!call) c->w.st = TW_ERR_MEMORY;
    /* Casts of the graph's own set are found to be the same as those that it has. Older sets know no types of 16 bits,
       or no casts at all. */
    c->version = CAST_VERSION;
    for (int i = c->w.n_old - 1; i >= 0; i--)
        if (!*c->w.old[i].domain && c->w.old[i].version > CAST_VERSION) c->version = c->w.old[i].version;
    for (int i = 0; i < c->n; i++) c->real[i] = g->values[i].type == TW_E_f32;
    for (int i = 0; i < g->n_outputs; i++) c->output[g->outputs[i]] = true;
    for (tw_node *n; (n = tw_rewrite_next(&c->w));) convert_node(c, n, c->stays[c->w.at - 1], call);
    free(call);
    return tw_rewrite_end(&c->w, &changed, diag);
}

tw_status tw_graph_convert(tw_graph *g, tw_element to, tw_diag *diag) {
    const size_t n = (size_t)g->n_values + 1;
    converter c = {.to = to,
                   .n = g->n_values,
                   .real = calloc(n, sizeof(bool)),
                   .output = calloc(n, sizeof(bool)),
                   .copies = {calloc(n, sizeof(int)), calloc(n, sizeof(int))},
                   .whole = calloc(n, sizeof(int)),
                   .stays = calloc((size_t)g->n_nodes + 1, sizeof(bool))};
    const bool known = to == TW_E_f16 || to == TW_E_bf16;
    tw_status st = known ? TW_ERR_MEMORY : tw_fail(diag, TW_ERR_USAGE, "graphs are converted to f16 or bf16");
    if (known && c.real && c.output && c.copies[0] && c.copies[1] && c.whole && c.stays) {
        tw_find_stays(g, c.stays);
        if (tw_rewrite_begin(&c.w, g)) st = convert(&c, diag);
    }
    if (st == TW_ERR_MEMORY) tw_fail_memory(diag);
    free(c.real);
    free(c.output);
    free(c.copies[0]);
    free(c.copies[1]);
    free(c.whole);
    free(c.stays);
    return st;
}

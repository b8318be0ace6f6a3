/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/decoder.h"

#include "base/diag.h"
#include "graph/build.h"

/* Numbers of element types in the format. */
enum { ONNX_F32 = 1 };

/* Angles of a rope, as RotaryEmbedding wants them. */
typedef struct angles {
    int cosine, sine; /* f32 [sequence, dims / 2]. */
} angles;

typedef struct maker {
    tw_graph *g;
    const tw_model *m;
    int ids;       /* i64 [batch, sequence]: the tokens. */
    int length;    /* A scalar of i64: the length of the sequences. */
    int places;    /* i64 [sequence]: 0, 1, ... */
    int positions; /* i64 [batch, sequence]: the places of each sequence. */
    angles rope, rope_local;
} maker;

static int unary(maker *b, const char *op, int x) {
    return tw_graph_op(b->g, op, TW_OPERANDS(x), TW_NO_ATTRIBUTES);
}

static int binary(maker *b, const char *op, int x, int y) {
    return tw_graph_op(b->g, op, TW_OPERANDS(x, y), TW_NO_ATTRIBUTES);
}

static int as_f32(maker *b, int x) {
    return tw_graph_op(b->g, "Cast", TW_OPERANDS(x), TW_ATTRIBUTES(TW_INT("to", ONNX_F32)));
}

static int reshape(maker *b, int x, const int64_t *extents, int n) {
    return binary(b, "Reshape", x, tw_graph_integers(b->g, extents, n));
}

static int unsqueeze(maker *b, int x, int64_t axis) {
    return binary(b, "Unsqueeze", x, tw_graph_integers(b->g, &axis, 1));
}

static int transpose(maker *b, int x, const int64_t *order, int n) {
    int64_t *kept = tw_arena_array(&b->g->arena, (size_t)n, sizeof *kept);
    tw_array *list = tw_arena_alloc(&b->g->arena, sizeof *list);
    if (!kept || !list) return -1;
    for (int i = 0; i < n; i++) kept[i] = order[i];
    *list = (tw_array){.type = TW_E_i64, .rank = 1, .dims = {n}, .data = kept};
    const tw_attribute perm = {.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = list};
    return tw_graph_op(b->g, "Transpose", TW_OPERANDS(x), &perm, 1);
}

/* Adds a copy of a weight in f32, rows x columns. A vector has one dimension. */
static int copied(maker *b, const tw_weight *w) {
    float *data = tw_arena_array(&b->g->arena, (size_t)(w->rows * w->cols), sizeof *data);
    if (!data) return -1;
    for (int64_t r = 0; r < w->rows; r++) tw_weight_read(w, r, 0, w->cols, data + r * w->cols);
    return tw_graph_constant(b->g, &(tw_array){TW_E_f32, w->cols == 1 ? 1 : 2, {w->rows, w->cols}, data});
}

static int vector(maker *b, const tw_weight *w) {
    return copied(b, w);
}

/* Adds a matrix as a product's second operand, columns x rows. */
static int matrix(maker *b, const tw_weight *w) {
    const tw_element type = w->dtype == TW_F16 ? TW_E_f16 : w->dtype == TW_BF16 ? TW_E_bf16 : TW_E_f32;
    const bool by_rows = w->col_stride == 1 && w->row_stride == w->cols;
    const bool by_columns = w->row_stride == 1 && w->col_stride == w->rows;
    tw_array a = {type, 2, {w->rows, w->cols}, w->data};
    if (!w->data || w->plus != 0 || (!by_rows && !by_columns)) return transpose(b, copied(b, w), TW_INTEGERS(1, 0));
    if (!by_rows) a.dims[0] = w->cols, a.dims[1] = w->rows;
    int v = tw_graph_constant(b->g, &a);
    if (type != TW_E_f32) v = as_f32(b, v);
    return by_rows ? transpose(b, v, TW_INTEGERS(1, 0)) : v;
}

static int linear(maker *b, const tw_linear *l, int x) {
    const int y = binary(b, "MatMul", x, matrix(b, &l->weight));
    return l->bias.rows ? binary(b, "Add", y, vector(b, &l->bias)) : y;
}

/* Norms the last dimension. */
static int rms(maker *b, const tw_weight *w, int x) {
    return tw_graph_op(b->g, "RMSNormalization", TW_OPERANDS(x, vector(b, w)),
                       TW_ATTRIBUTES(TW_REAL("epsilon", b->m->norm_eps)));
}

/* A norm that the model lacks changes nothing. */
static int norm(maker *b, const tw_norm *n, int x) {
    if (!n->weight.rows) return x;
    if (b->m->norm == TW_NORM_RMS) return rms(b, &n->weight, x);
    const int gain = vector(b, &n->weight), bias = n->bias.rows ? vector(b, &n->bias) : -1;
    const tw_attribute eps = TW_REAL("epsilon", b->m->norm_eps);
    return bias < 0 ? tw_graph_op(b->g, "LayerNormalization", TW_OPERANDS(x, gain), &eps, 1)
                    : tw_graph_op(b->g, "LayerNormalization", TW_OPERANDS(x, gain, bias), &eps, 1);
}

static int activate(maker *b, int x) {
    switch (b->m->activation) {
    case TW_ACT_SILU:
        return binary(b, "Mul", x, unary(b, "Sigmoid", x));
    case TW_ACT_RELU:
        return unary(b, "Relu", x);
    case TW_ACT_GELU:
        return unary(b, "Gelu", x);
    case TW_ACT_GELU_TANH:
        break;
    }
    return tw_graph_op(b->g, "Gelu", TW_OPERANDS(x), TW_ATTRIBUTES(TW_TEXT("approximate", "tanh")));
}

/* cap * tanh(x / cap) */
static int capped(maker *b, double cap, int x) {
    const int c = tw_graph_real(b->g, cap);
    return binary(b, "Mul", unary(b, "Tanh", binary(b, "Div", x, c)), c);
}

/* ---- positions */

static int frequencies_constant(maker *b, const float *table, int64_t n) {
    return tw_graph_constant(b->g, &(tw_array){TW_E_f32, 1, {n}, table});
}

/* The frequencies of NTK scaling: 1 / base^(2i / dims), whose base grows with the length. */
static int frequencies_dynamic(maker *b, const tw_rope *r) {
    const double dims = (double)r->dims;
    float *powers = tw_arena_array(&b->g->arena, (size_t)r->dims / 2, sizeof *powers);
    if (!powers) return -1;
    for (int64_t i = 0; i < r->dims / 2; i++) powers[i] = (float)(2 * i) / (float)r->dims;
    int stretch = binary(b, "Mul", as_f32(b, b->length), tw_graph_real(b->g, r->factor / (double)r->original_max));
    stretch = binary(b, "Sub", stretch, tw_graph_real(b->g, r->factor - 1));
    /* Shorter sequences are not stretched. The root of a number below 0 would be none. */
    stretch = binary(b, "Max", stretch, tw_graph_real(b->g, 1));
    int base = binary(b, "Pow", stretch, tw_graph_real(b->g, dims / (dims - 2)));
    base = binary(b, "Mul", base, tw_graph_real(b->g, r->theta));
    return unary(b, "Reciprocal", binary(b, "Pow", base, frequencies_constant(b, powers, r->dims / 2)));
}

static int frequencies(maker *b, const tw_rope *r) {
    const int usual = frequencies_constant(b, r->inv_freq, r->dims / 2);
    if (!tw_rope_moves(r)) return usual;
    const int beyond = binary(b, "Greater", b->length, tw_graph_integer(b->g, r->original_max));
    const int other =
        r->kind == TW_ROPE_LONG ? frequencies_constant(b, r->long_inv_freq, r->dims / 2) : frequencies_dynamic(b, r);
    return tw_graph_op(b->g, "Where", TW_OPERANDS(beyond, other, usual), TW_NO_ATTRIBUTES);
}

static angles angles_of(maker *b, const tw_rope *r) {
    if (r->kind == TW_ROPE_NONE) return (angles){-1, -1};
    const int at = binary(b, "Mul", unsqueeze(b, as_f32(b, b->places), 1), unsqueeze(b, frequencies(b, r), 0));
    angles a = {unary(b, "Cos", at), unary(b, "Sin", at)};
    if (r->attention_factor != 1) {
        const int factor = tw_graph_real(b->g, (double)r->attention_factor);
        a = (angles){binary(b, "Mul", a.cosine, factor), binary(b, "Mul", a.sine, factor)};
    }
    return a;
}

static void begin(maker *b) {
    tw_graph *g = b->g;
    const tw_dim dims[] = {tw_dim_of_symbol(tw_graph_symbol(g, "batch")),
                           tw_dim_of_symbol(tw_graph_symbol(g, "sequence"))};
    const int zero = tw_graph_integer(g, 0), one = tw_graph_integer(g, 1);
    b->ids = tw_graph_input(g, "input_ids", TW_E_i64, 2, dims);
    const int shape = unary(b, "Shape", b->ids);
    b->length = binary(b, "Gather", shape, one);
    b->places = tw_graph_op(g, "Range", TW_OPERANDS(zero, b->length, one), TW_NO_ATTRIBUTES);
    b->positions = binary(b, "Expand", b->places, shape);
    b->rope = angles_of(b, &b->m->rope);
    b->rope_local = angles_of(b, &b->m->rope_local);
}

/* ---- layers */

/* Splits x into heads, norms and turns them: [batch, heads, sequence, head]. */
static int heads(maker *b, const tw_layer *l, int64_t number, int x, int64_t n, const tw_weight *head_norm) {
    const tw_model *m = b->m;
    if (head_norm && head_norm->rows && m->qk_norm_whole) x = rms(b, head_norm, x);
    x = reshape(b, x, TW_INTEGERS(0, 0, n, m->head_dim));
    if (head_norm && head_norm->rows && !m->qk_norm_whole) x = rms(b, head_norm, x);
    x = transpose(b, x, TW_INTEGERS(0, 2, 1, 3));
    const tw_rope *r = head_norm ? tw_model_rope(m, number) : NULL;
    if (!r || r->kind == TW_ROPE_NONE) return x;
    const angles *a = l->rope == TW_LAYER_ROPE_LOCAL ? &b->rope_local : &b->rope;
    return tw_graph_op(b->g, "RotaryEmbedding", TW_OPERANDS(x, a->cosine, a->sine, b->positions),
                       TW_ATTRIBUTES(TW_INT("rotary_embedding_dim", r->dims)));
}

/* True for the keys that a window lets a query see, [sequence, sequence]. Later keys count as seen. */
static int window_mask(maker *b, int64_t window) {
    const int distance = binary(b, "Sub", unsqueeze(b, b->places, 1), unsqueeze(b, b->places, 0));
    return binary(b, "Less", distance, tw_graph_integer(b->g, window));
}

static int attention(maker *b, const tw_layer *l, int64_t number, int x) {
    const tw_model *m = b->m;
    const int q = heads(b, l, number, linear(b, &l->q, x), m->n_heads, &l->q_norm);
    const int k = heads(b, l, number, linear(b, &l->k, x), m->n_kv_heads, &l->k_norm);
    const int v = heads(b, l, number, linear(b, &l->v, x), m->n_kv_heads, NULL);
    const tw_attribute attributes[] = {TW_INT("is_causal", 1), TW_REAL("scale", (double)m->attn_scale),
                                       TW_REAL("softcap", (double)m->attn_cap)};
    const int in[] = {q, k, v, l->window ? window_mask(b, l->window) : -1};
    int y = tw_graph_op(b->g, "Attention", in, l->window ? 4 : 3, attributes, 3);
    y = reshape(b, transpose(b, y, TW_INTEGERS(0, 2, 1, 3)), TW_INTEGERS(0, 0, m->n_heads * m->head_dim));
    return linear(b, &l->o, y);
}

static int feed_forward(maker *b, const tw_linear *gate, const tw_linear *up, const tw_linear *down, int x) {
    const int h = gate->weight.rows ? binary(b, "Mul", activate(b, linear(b, gate, x)), linear(b, up, x))
                                    : activate(b, linear(b, up, x));
    return linear(b, down, h);
}

static int mixture(maker *b, const tw_layer *l, int x) {
    const tw_model *m = b->m;
    const int last = tw_graph_integers(b->g, TW_INTEGERS(-1));
    const int scores = unary(b, "Softmax", binary(b, "MatMul", x, matrix(b, &l->router)));
    const int best = tw_graph_op_several(
        b->g, "TopK", TW_OPERANDS(scores, tw_graph_integers(b->g, &m->n_experts_used, 1)), TW_NO_ATTRIBUTES, 2);
    if (best < 0) return -1;
    const int which = best + 1, zero = tw_graph_real(b->g, 0);
    const int weights = m->renormalise_experts ? binary(b, "Div", best, binary(b, "ReduceSum", best, last)) : best;
    int y = -1;
    for (int64_t e = 0; e < m->n_experts; e++) {
        const tw_expert *x_e = &l->experts[e];
        const int chosen = binary(b, "Equal", which, tw_graph_integer(b->g, e));
        const int its = tw_graph_op(b->g, "Where", TW_OPERANDS(chosen, weights, zero), TW_NO_ATTRIBUTES);
        const int part =
            binary(b, "Mul", feed_forward(b, &x_e->gate, &x_e->up, &x_e->down, x), binary(b, "ReduceSum", its, last));
        y = y < 0 ? part : binary(b, "Add", y, part);
    }
    return y;
}

static int layer(maker *b, int64_t number, int x) {
    const tw_layer *l = &b->m->layers[number];
    const int attended = attention(b, l, number, norm(b, &l->attn_norm, x));
    x = binary(b, "Add", x, norm(b, &l->attn_post_norm, attended));
    const int read = norm(b, &l->mlp_norm, x);
    const int y = l->experts ? mixture(b, l, read) : feed_forward(b, &l->gate, &l->up, &l->down, read);
    return binary(b, "Add", x, norm(b, &l->mlp_post_norm, y));
}

static void make(maker *b) {
    const tw_model *m = b->m;
    begin(b);
    /* A matrix of the embedding has tokens as columns. */
    int table = transpose(b, matrix(b, &m->embed), TW_INTEGERS(1, 0));
    int x = binary(b, "Gather", table, b->ids);
    if (m->embed_scale != 1) x = binary(b, "Mul", x, tw_graph_real(b->g, (double)m->embed_scale));
    if (m->positions.rows) {
        table = transpose(b, matrix(b, &m->positions), TW_INTEGERS(1, 0));
        x = binary(b, "Add", x, binary(b, "Gather", table, b->places));
    }
    for (int64_t i = 0; i < m->n_layers; i++) x = layer(b, i, x);
    int logits = linear(b, &m->head, norm(b, &m->final_norm, x));
    if (m->logit_cap != 0) logits = capped(b, (double)m->logit_cap, logits);
    tw_graph_output(b->g, logits, "logits");
}

tw_status tw_graph_of_model(tw_graph **out, const tw_model *m, tw_diag *diag) {
    tw_graph *g = tw_graph_new();
    if (!g) return tw_fail_memory(diag);
    g->name = m->name;
    make(&(maker){.g = g, .m = m});
    if (g->arena.failed) {
        tw_graph_free(g);
        return tw_fail_memory(diag);
    }
    *out = g;
    return TW_OK;
}

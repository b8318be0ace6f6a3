/* SPDX-License-Identifier: Apache-2.0 */
/* Attention (https://onnx.ai/onnx/operators/onnx__Attention.html): operands Q, K, V, a mask, keys and values of the
   past, and how many of the keys count; results Y, keys and values of past and present, and a stage of the scores.
   zero_rows, an attribute of ours: a query that sees no key gets zeros, which exporters ask for by IsNaN. Operand 7, of
   ours, too, has a score for each head of Q, which adds to the sum of its chances and has no value. */
#include "graph/ops/elementwise.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

bool tw_heads_of(const tw_array *a, int64_t n, tw_heads *out) {
    const int64_t *d = a->dims;
    if (a->rank == 4) *out = (tw_heads){d[0], d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3]};
    if (a->rank == 4) return true;
    if (a->rank != 3 || n < 1 || n > d[2] || d[2] % n) return false;
    *out = (tw_heads){d[0], n, d[1], d[2] / n, d[1] * d[2], d[2] / n, d[2]};
    return true;
}

/* Finds an operand's heads, whose number must be n where the node says it. */
static bool heads_of(const tw_array *a, int64_t n, tw_heads *out) {
    return tw_heads_of(a, n, out) && (!n || n == out->heads);
}

typedef struct attention {
    tw_heads q, k, v;
    int64_t past, total; /* Keys of the past, and all. */
} attention;

static tw_status attention_of(const tw_call *c, attention *out) {
    const int64_t q_heads = tw_node_integer(c->node, "q_num_heads", 0),
                  kv_heads = tw_node_integer(c->node, "kv_num_heads", 0);
    const tw_array *mask = tw_call_in(c, 3), *past_k = tw_call_in(c, 4), *past_v = tw_call_in(c, 5);
    attention a = {.past = past_k && past_k->rank == 4 ? past_k->dims[2] : 0};
    bool fits =
        heads_of(c->in[0], q_heads, &a.q) && heads_of(c->in[1], kv_heads, &a.k) && heads_of(c->in[2], kv_heads, &a.v);
    fits = fits && a.q.batch == a.k.batch && a.k.batch == a.v.batch && a.k.length == a.v.length &&
           a.q.width == a.k.width && a.k.heads == a.v.heads && a.k.heads > 0 && a.q.heads % a.k.heads == 0;
    fits = fits && c->in[0]->type == c->in[1]->type && c->in[1]->type == c->in[2]->type && !past_k == !past_v;
    if (fits && past_k)
        fits = past_k->rank == 4 && past_v->rank == 4 && past_k->dims[0] == a.q.batch && past_v->dims[0] == a.q.batch &&
               past_k->dims[1] == a.k.heads && past_v->dims[1] == a.k.heads && past_v->dims[2] == a.past &&
               past_k->dims[3] == a.k.width && past_v->dims[3] == a.v.width;
    const tw_array *counts = tw_call_in(c, 6);
    if (fits && counts)
        fits = tw_element_kind(counts->type) == TW_KIND_integer && counts->rank == 1 && counts->dims[0] == a.q.batch;
    const tw_array *sinks = tw_call_in(c, 7);
    if (fits && sinks)
        fits = tw_element_kind(sinks->type) == TW_KIND_real && sinks->rank == 1 && sinks->dims[0] == a.q.heads;
    a.total = a.past + a.k.length;
    if (fits && mask) {
        /* A mask may lack the last keys, which nobody sees then. */
        tw_array scores = {.rank = 4, .dims = {a.q.batch, a.q.heads, a.q.length, a.total}}, of_mask = *mask, all;
        fits = mask->rank > 1 && mask->dims[mask->rank - 1] <= a.total;
        if (fits) of_mask.dims[mask->rank - 1] = a.total;
        fits = fits && tw_broadcast(&scores, &of_mask, &all) && all.rank == 4 &&
               !memcmp(all.dims, scores.dims, 4 * sizeof(int64_t));
        fits = fits && (mask->type == TW_E_bool || tw_element_kind(mask->type) == TW_KIND_real);
    }
    *out = a;
    return fits ? TW_OK : tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
}

tw_status tw_attention_op_shape(tw_call *c) {
    attention a;
    const tw_status st = attention_of(c, &a);
    if (st != TW_OK) return st;
    const tw_element t = c->in[0]->type;
    const bool flat = c->in[0]->rank == 3;
    if (tw_element_kind(t) != TW_KIND_real) return tw_call_refuse_type(c, t);
    c->out[0] = (tw_array){.type = t, .rank = 4, .dims = {a.q.batch, a.q.heads, a.q.length, a.v.width}};
    int64_t row;
    if (__builtin_mul_overflow(a.q.heads, a.v.width, &row))
        return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many elements");
    if (flat) c->out[0] = (tw_array){.type = t, .rank = 3, .dims = {a.q.batch, a.q.length, row}};
    c->out[1] = (tw_array){.type = t, .rank = 4, .dims = {a.k.batch, a.k.heads, a.total, a.k.width}};
    c->out[2] = (tw_array){.type = t, .rank = 4, .dims = {a.v.batch, a.v.heads, a.total, a.v.width}};
    c->out[3] = (tw_array){.type = t, .rank = 4, .dims = {a.q.batch, a.q.heads, a.q.length, a.total}};
    return TW_OK;
}

/* Makes [batch][head][past and present][width] of the past and the present. */
static double *all_of(const tw_call *c, const tw_array *present, const tw_heads *h, const tw_array *past,
                      int64_t n_past) {
    const int64_t total = n_past + h->length, rows = h->batch * h->heads;
    double *x = tw_arena_array(c->arena, (size_t)(rows * total * h->width) + 1, sizeof *x);
    for (int64_t r = 0; r < rows && x; r++) {
        double *to = &x[r * total * h->width];
        if (past) tw_array_get_reals(past, r * n_past * h->width, n_past * h->width, to);
        for (int64_t i = 0; i < h->length; i++)
            tw_array_get_reals(present, r / h->heads * h->of_batch + r % h->heads * h->of_head + i * h->of_row,
                               h->width, &to[(n_past + i) * h->width]);
    }
    return x;
}

/* What is added to scores: 0, -inf, or a mask's number. */
typedef struct bias {
    const tw_array *mask, *counts;
    tw_places places;
    tw_array scores;
    bool causal;
    int64_t past;
} bias;

static double bias_at(const bias *b, const int64_t index[TW_ARRAY_RANK]) {
    const int64_t key = index[3];
    if (b->causal && key > index[2] + b->past) return -INFINITY;
    if (b->counts && key >= tw_array_integer(b->counts, index[0])) return -INFINITY;
    if (!b->mask) return 0;
    if (key >= b->mask->dims[b->mask->rank - 1] && b->mask->dims[b->mask->rank - 1] != 1) return -INFINITY;
    const double x = tw_array_real(b->mask, tw_place(&b->places, &b->scores, index));
    return b->mask->type == TW_E_bool ? (x != 0 ? 0 : -INFINITY) : x;
}

/* sink: a score that has no chance of its own, or -infinity. zero: chances of what sees nothing are 0, and otherwise no
   numbers. */
static void softmax(double *s, int64_t n, double sink, bool zero) {
    double most = sink, sum = 0;
    for (int64_t i = 0; i < n; i++) most = s[i] > most ? s[i] : most;
    sum = sink == -INFINITY ? 0 : exp(sink - most);
    for (int64_t i = 0; i < n; i++) sum += s[i] = exp(s[i] - most);
    for (int64_t i = 0; i < n; i++) s[i] = zero && isnan(sum) ? 0 : s[i] / sum;
}

tw_status tw_attention_op_compute(tw_call *c) {
    attention a;
    attention_of(c, &a);
    const double scale = tw_node_real(c->node, "scale", 1 / sqrt((double)a.q.width)),
                 cap = tw_node_real(c->node, "softcap", 0);
    const int64_t mode = tw_node_integer(c->node, "qk_matmul_output_mode", 0), wide = a.v.width,
                  group = a.q.heads / a.k.heads;
    double *k = all_of(c, c->in[1], &a.k, tw_call_in(c, 4), a.past),
           *v = all_of(c, c->in[2], &a.v, tw_call_in(c, 5), a.past);
    double *q = tw_arena_array(c->arena, (size_t)a.q.width + 1, sizeof *q),
           *y = tw_arena_array(c->arena, (size_t)wide + 1, sizeof *y);
    double *s = tw_arena_array(c->arena, (size_t)a.total + 1, sizeof *s),
           *told = tw_arena_array(c->arena, (size_t)a.total + 1, sizeof *told);
    bias b = {.mask = tw_call_in(c, 3),
              .counts = tw_call_in(c, 6),
              .causal = tw_node_integer(c->node, "is_causal", 0),
              .past = a.past};
    b.scores = (tw_array){.rank = 4, .dims = {a.q.batch, a.q.heads, a.q.length, a.total}};
    const tw_array *sinks = tw_call_in(c, 7);
    if (!k || !v || !q || !y || !s || !told) return tw_fail_memory(c->diag);
    if (b.mask) tw_places_of(b.mask, &b.scores, &b.places);
    tw_heads out = {0};
    heads_of(&c->out[0], a.q.heads, &out);
    for (int64_t row = 0; row < a.q.batch * a.q.heads * a.q.length; row++) {
        const int64_t batch = row / a.q.length / a.q.heads, head = row / a.q.length % a.q.heads, i = row % a.q.length;
        const int64_t kv = batch * a.k.heads + head / group;
        tw_array_get_reals(c->in[0], batch * a.q.of_batch + head * a.q.of_head + i * a.q.of_row, a.q.width, q);
        for (int64_t j = 0; j < a.total; j++) {
            double sum = 0;
            for (int64_t e = 0; e < a.q.width; e++) sum += q[e] * k[(kv * a.total + j) * a.k.width + e];
            told[j] = s[j] = sum * scale;
            if (cap > 0) s[j] = tanh(s[j] / cap) * cap;
            if (mode == 1) told[j] = s[j];
            s[j] += bias_at(&b, (const int64_t[TW_ARRAY_RANK]){batch, head, i, j});
            if (mode == 2) told[j] = s[j];
        }
        softmax(s, a.total, sinks ? tw_array_real(sinks, head) : -INFINITY, tw_node_integer(c->node, "zero_rows", 0));
        if (c->n_out > 3)
            tw_array_set_reals(c->out[3].type, tw_call_out(c, 3), row * a.total, a.total, mode == 3 ? s : told);
        memset(y, 0, (size_t)wide * sizeof *y);
        for (int64_t j = 0; j < a.total; j++)
            for (int64_t e = 0; e < wide; e++) y[e] += s[j] * v[(kv * a.total + j) * wide + e];
        tw_array_set_reals(c->out[0].type, tw_call_out(c, 0),
                           batch * out.of_batch + head * out.of_head + i * out.of_row, wide, y);
    }
    if (c->n_out > 1) tw_array_set_reals(c->out[1].type, tw_call_out(c, 1), 0, tw_array_elements(&c->out[1]), k);
    if (c->n_out > 2) tw_array_set_reals(c->out[2].type, tw_call_out(c, 2), 0, tw_array_elements(&c->out[2]), v);
    return TW_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* GroupQueryAttention: query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache,
   position_ids, attention_bias, head_sink. Results: output, present_key, present_value.

   Sequence b has seqlens_k[b] + 1 keys after the call. Its new rows are the last of them, unless they are a prompt that
   is padded behind its end; what is computed for rows behind the end is not defined. Rows of the caches behind the new
   ones are 0. */
#include "graph/ops/elementwise.h"
#include "graph/ops/microsoft.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

typedef struct group_query {
    int64_t batch, rows, heads, kv_heads, width;
    int64_t past, present; /* Rows that the caches have. */
    int64_t total;         /* Keys of the longest sequence. */
    bool packed;           /* Keys and values are in the query's rows. */
} group_query;

static tw_status group_query_of(const tw_call *c, group_query *out) {
    const tw_array *q = c->in[0], *k = tw_call_in(c, 1), *v = tw_call_in(c, 2), *past_k = tw_call_in(c, 3),
                   *past_v = tw_call_in(c, 4), *places = tw_call_in(c, 9);
    group_query g = {.heads = tw_node_integer(c->node, "num_heads", 0),
                     .kv_heads = tw_node_integer(c->node, "kv_num_heads", 0),
                     .packed = !k};
    bool fits =
        q->rank == 3 && g.heads > 0 && g.heads <= INT32_MAX && g.kv_heads > 0 && g.heads % g.kv_heads == 0 && !k == !v;
    if (fits) {
        g.batch = q->dims[0];
        g.rows = q->dims[1];
        g.width = q->dims[2] / (g.packed ? g.heads + 2 * g.kv_heads : g.heads);
        fits = g.width > 0 && q->dims[2] == g.width * (g.packed ? g.heads + 2 * g.kv_heads : g.heads);
    }
    for (int i = 1; i < 3 && fits && !g.packed; i++)
        fits = c->in[i]->type == q->type && c->in[i]->rank == 3 && c->in[i]->dims[0] == g.batch &&
               c->in[i]->dims[1] == g.rows && c->in[i]->dims[2] == g.kv_heads * g.width;
    fits = fits && !past_k == !past_v;
    if (fits && past_k)
        fits = past_k->type == q->type && past_v->type == q->type && past_k->rank == 4 && past_v->rank == 4 &&
               past_k->dims[0] == g.batch && past_k->dims[1] == g.kv_heads && past_k->dims[3] == g.width &&
               !memcmp(past_k->dims, past_v->dims, 4 * sizeof(int64_t));
    fits = fits && c->in[5]->type == TW_E_i32 && tw_array_elements(c->in[5]) == g.batch && c->in[6]->type == TW_E_i32 &&
           tw_array_elements(c->in[6]) == 1;
    if (fits && places)
        fits = places->type == TW_E_i64 && places->rank == 2 && places->dims[0] == g.batch && places->dims[1] == g.rows;
    if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    if (!c->in[6]->data) return tw_call_fail(c, TW_ERR_USAGE, "extents depend on the content of operand 6");
    const int64_t total = g.total = tw_array_integer(c->in[6], 0);
    g.past = past_k ? past_k->dims[2] : 0;
    g.present = total > g.past ? total : g.past;
    if (total < 1 || total < g.rows)
        return tw_call_fail(c, TW_ERR_FORMAT, "total_sequence_length is %lld", (long long)total);
    *out = g;
    return TW_OK;
}

tw_status tw_group_query_shape(tw_call *c) {
    static const char *const others[] = {"qk_output", "sliding_window_cache"};
    group_query g;
    const tw_status st = group_query_of(c, &g);
    if (st != TW_OK) return st;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tw_node_integer(c->node, others[i], 0) > 0)
            return tw_call_fail(c, TW_ERR_UNSUPPORTED, "%s is not supported", others[i]);
    const tw_array *sinks = tw_call_in(c, 11), *bias = tw_call_in(c, 10);
    if (tw_node_integer(c->node, "local_window_size", -1) > 0 && !tw_node_integer(c->node, "causal", 1))
        return tw_call_fail(c, TW_ERR_UNSUPPORTED, "a window that is not causal is not supported");
    if (bias && (tw_element_kind(bias->type) != TW_KIND_real || bias->rank != 4 ||
                 (bias->dims[0] != 1 && bias->dims[0] != g.batch) || (bias->dims[1] != 1 && bias->dims[1] != g.heads) ||
                 bias->dims[2] != g.rows || bias->dims[3] < g.total))
        return tw_call_fail(c, TW_ERR_FORMAT, "attention_bias does not fit");
    if (sinks && (tw_element_kind(sinks->type) != TW_KIND_real || sinks->rank != 1 || sinks->dims[0] != g.heads))
        return tw_call_fail(c, TW_ERR_FORMAT, "head_sink does not fit");
    const tw_element t = c->in[0]->type;
    c->out[0] = (tw_array){.type = t, .rank = 3, .dims = {g.batch, g.rows, g.heads * g.width}};
    c->out[1] = (tw_array){.type = t, .rank = 4, .dims = {g.batch, g.kv_heads, g.present, g.width}};
    c->out[2] = c->out[1];
    if (tw_array_elements(&c->out[1]) < 0) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many elements");
    return tw_element_kind(t) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, t);
}

/* Turns a head's row by the angles of a position. */
static tw_status turn(const tw_call *c, int64_t position, int64_t width, double *x) {
    const tw_array *cosine = tw_call_in(c, 7), *sine = tw_call_in(c, 8);
    const bool interleaved = tw_node_integer(c->node, "rotary_interleaved", 0);
    if (!cosine || !sine || cosine->rank != 2 || 2 * cosine->dims[1] > width || sine->rank != 2 ||
        sine->dims[1] != cosine->dims[1])
        return tw_call_fail(c, TW_ERR_FORMAT, "there are no angles of its heads");
    if (position < 0 || position >= cosine->dims[0] || position >= sine->dims[0])
        return tw_call_fail(c, TW_ERR_FORMAT, "position %lld has no angles", (long long)position);
    tw_rotate_head(x, cosine->dims[1], interleaved, cosine, sine, position);
    return TW_OK;
}

/* Where a new row's part lies: of the query (0), the key (1) or the value (2). */
static void load(const tw_call *c, const group_query *g, int which, int64_t batch, int64_t row, int64_t head,
                 double *out) {
    const int64_t before = which == 0 ? 0 : which == 1 ? g->heads : g->heads + g->kv_heads;
    const tw_array *a = g->packed ? c->in[0] : c->in[which];
    const int64_t heads = g->packed ? g->heads + 2 * g->kv_heads : which ? g->kv_heads : g->heads;
    tw_array_get_reals(a, ((batch * g->rows + row) * heads + (g->packed ? before : 0) + head) * g->width, g->width,
                       out);
}

/* Returns the place of a sequence's first new row. */
static int64_t first_of(const tw_call *c, const group_query *g, int64_t batch) {
    const int64_t keys = tw_array_integer(c->in[5], batch) + 1;
    return keys >= g->rows ? keys - g->rows : 0; /* A prompt that is padded begins at 0. */
}

/* Fills the caches in doubles: [kv head][present][width] of a sequence. */
static tw_status fill(tw_call *c, const group_query *g, int64_t batch, double *k, double *v) {
    const bool rotates = tw_node_integer(c->node, "do_rotary", 0);
    const tw_array *places = tw_call_in(c, 9);
    const int64_t first = first_of(c, g, batch), known = first < g->past ? first : g->past;
    memset(k, 0, (size_t)(g->kv_heads * g->present * g->width) * sizeof *k);
    memset(v, 0, (size_t)(g->kv_heads * g->present * g->width) * sizeof *v);
    if (first + g->rows > g->total)
        return tw_call_fail(c, TW_ERR_FORMAT, "seqlens_k is more than total_sequence_length");
    for (int64_t head = 0; head < g->kv_heads; head++) {
        double *of_k = &k[head * g->present * g->width], *of_v = &v[head * g->present * g->width];
        const int64_t past = (batch * g->kv_heads + head) * g->past * g->width;
        if (known) tw_array_get_reals(c->in[3], past, known * g->width, of_k);
        if (known) tw_array_get_reals(c->in[4], past, known * g->width, of_v);
        for (int64_t i = 0; i < g->rows; i++) {
            load(c, g, 1, batch, i, head, &of_k[(first + i) * g->width]);
            load(c, g, 2, batch, i, head, &of_v[(first + i) * g->width]);
            const int64_t place = places ? tw_array_integer(places, batch * g->rows + i) : first + i;
            const tw_status st = rotates ? turn(c, place, g->width, &of_k[(first + i) * g->width]) : TW_OK;
            if (st != TW_OK) return st;
        }
    }
    return TW_OK;
}

static void attend(const tw_call *c, const group_query *g, int64_t batch, int64_t head, int64_t at, const double *q,
                   const double *k, const double *v, double *s, double *y) {
    const tw_array *bias = tw_call_in(c, 10);
    const int64_t window = tw_node_integer(c->node, "local_window_size", -1), wide = g->width;
    const tw_array *sinks = tw_call_in(c, 11);
    const double sink = sinks                                               ? tw_array_real(sinks, head)
                        : tw_node_integer(c->node, "smooth_softmax", 0) > 0 ? 0
                                                                            : -INFINITY;
    double scale = tw_node_real(c->node, "scale", 0), most = sink, sum = 0;
    const double cap = tw_node_real(c->node, "softcap", 0);
    const int64_t from = window > 0 && at + 1 > window ? at + 1 - window : 0;
    const int64_t last = tw_node_integer(c->node, "causal", 1) ? at : tw_array_integer(c->in[5], batch),
                  row = at - first_of(c, g, batch);
    if (scale == 0) scale = 1 / sqrt((double)wide);
    for (int64_t j = from; j <= last; j++) {
        s[j] = 0;
        for (int64_t e = 0; e < wide; e++) s[j] += q[e] * k[j * wide + e];
        s[j] *= scale;
        if (cap > 0) s[j] = tanh(s[j] / cap) * cap;
        if (bias) {
            const int64_t of_batch = bias->dims[0] > 1 ? batch : 0, of_head = bias->dims[1] > 1 ? head : 0;
            s[j] +=
                tw_array_real(bias, ((of_batch * bias->dims[1] + of_head) * bias->dims[2] + row) * bias->dims[3] + j);
        }
        most = s[j] > most ? s[j] : most;
    }
    sum = sink == -INFINITY ? 0 : exp(sink - most);
    for (int64_t j = from; j <= last; j++) sum += s[j] = exp(s[j] - most);
    memset(y, 0, (size_t)wide * sizeof *y);
    for (int64_t j = from; j <= last; j++)
        for (int64_t e = 0; e < wide; e++) y[e] += s[j] / sum * v[j * wide + e];
}

tw_status tw_group_query_compute(tw_call *c) {
    group_query g;
    group_query_of(c, &g);
    const bool rotates = tw_node_integer(c->node, "do_rotary", 0);
    const tw_array *places = tw_call_in(c, 9);
    const int64_t cache = g.kv_heads * g.present * g.width, of_head = g.present * g.width;
    double *k = tw_arena_array(c->arena, (size_t)cache + 1, sizeof *k),
           *v = tw_arena_array(c->arena, (size_t)cache + 1, sizeof *v);
    double *s = tw_arena_array(c->arena, (size_t)g.present + 1, sizeof *s),
           *q = tw_arena_array(c->arena, 2 * (size_t)g.width + 1, sizeof *q);
    if (!k || !v || !s || !q) return tw_fail_memory(c->diag);
    double *y = q + g.width;
    for (int64_t batch = 0; batch < g.batch; batch++) {
        const int64_t first = first_of(c, &g, batch);
        tw_status st = fill(c, &g, batch, k, v);
        for (int64_t at = 0; at < g.rows * g.heads && st == TW_OK; at++) {
            const int64_t row = at / g.heads, head = at % g.heads, kv = head / (g.heads / g.kv_heads);
            load(c, &g, 0, batch, row, head, q);
            if (rotates)
                st = turn(c, places ? tw_array_integer(places, batch * g.rows + row) : first + row, g.width, q);
            attend(c, &g, batch, head, first + row, q, &k[kv * of_head], &v[kv * of_head], s, y);
            tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), ((batch * g.rows + row) * g.heads + head) * g.width,
                               g.width, y);
        }
        if (st != TW_OK) return st;
        if (c->n_out > 1) tw_array_set_reals(c->out[1].type, tw_call_out(c, 1), batch * cache, cache, k);
        if (c->n_out > 2) tw_array_set_reals(c->out[2].type, tw_call_out(c, 2), batch * cache, cache, v);
    }
    return TW_OK;
}

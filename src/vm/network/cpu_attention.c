/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: for a block of queries, scores of all keys that any of them sees stay in the second-level cache, between
   the two products with keys and values, which are packed once for a task's queries. */
#include "base/divide.h"
#include "vm/network/cpu_parts.h"

#include <math.h>
#include <string.h>

enum {
    QUERIES = 48,            /* The most queries of a block. */
    FEW = 12,                /* The fewest, of long sequences. */
    SCORES_BYTES = 512 << 10 /* Of a block: a quarter of the cache. */
};
static const tw_panel_format floats = {TW_F32, 0};
static const tw_gemm_blocking usual;

static int64_t padded(int64_t n) {
    return tw_ceil_div(n, TW_PANEL_ROWS) * TW_PANEL_ROWS;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Rows of scores, and of results, are a line apart from multiples of 4 KiB. */
static int64_t stride_of(int64_t n) {
    return padded(n) + TW_PANEL_ROWS;
}

static int64_t block_of(const tw_program_attention *x, int64_t queries) {
    int64_t block = QUERIES;
    while (block > FEW && block * stride_of(x->keys) * (int64_t)sizeof(float) > SCORES_BYTES) block -= FEW;
    return least(block, queries);
}

size_t tw_cpu_attention_scratch(const tw_cpu_network *n, const tw_step *s, const tw_range_task *t) {
    const tw_program_attention *x = &s->of.attention;
    const int64_t block = block_of(x, t->to[TW_ATTENTION_QUERIES] - t->from[TW_ATTENTION_QUERIES]);
    size_t gemm = 0;
    /* The last block may have fewer rows, which are packed differently. */
    for (int64_t rows = 1; rows <= block; rows++)
        for (int i = 0; i < 2; i++) {
            const int64_t cols = i ? x->keys : x->head, out = i ? x->head_v : x->keys;
            const size_t one = n->k.gemm_scratch[TW_F32](floats, padded(out) / TW_PANEL_ROWS, cols, rows, usual);
            if (one > gemm) gemm = one;
        }
    return tw_cpu_lines((size_t)(padded(x->keys) / TW_PANEL_ROWS) * tw_panel_bytes(floats, x->head)) +
           tw_cpu_lines((size_t)(padded(x->head_v) / TW_PANEL_ROWS) * tw_panel_bytes(floats, x->keys)) +
           tw_cpu_lines((size_t)(block * stride_of(x->keys)) * 4) +
           tw_cpu_lines((size_t)(block * stride_of(x->head_v)) * 4) + tw_cpu_lines((size_t)(block * x->head) * 4) +
           tw_cpu_lines((size_t)x->keys * 4) + tw_cpu_lines((size_t)(x->head > x->head_v ? x->head : x->head_v) * 4) +
           tw_cpu_lines(gemm);
}

/* One head of one sequence. */
typedef struct head {
    const tw_cpu_network *n;
    const tw_step *s;
    const tw_program_attention *x;
    int64_t batch, head;
    float *keys, *values; /* In panels: rows of keys, and columns of values. */
    float *scores, *result, *query, *mask, *row;
    void *gemm;
} head;

/* The first element of row `row` of an operand's head. */
static int64_t place(const tw_view *v, int64_t batch, int64_t of_head, int64_t row) {
    return batch * v->strides[0] + of_head * v->strides[1] + row * v->strides[2];
}

static void pack_keys(const head *h, int64_t kv_head) {
    const tw_view *v = &h->s->in[1];
    const int64_t d = h->x->head, depth = tw_panel_cols(floats, d);
    memset(h->keys, 0, (size_t)(padded(h->x->keys) * depth) * sizeof(float));
    for (int64_t i = 0; i < h->x->keys; i++) {
        float *out = h->keys + i / TW_PANEL_ROWS * TW_PANEL_ROWS * depth + i % TW_PANEL_ROWS;
        tw_cpu_read(v->type, tw_cpu_at(h->n, v), place(v, h->batch, kv_head, i), v->strides[3], d, h->row);
        for (int64_t k = 0; k < d; k++) out[k * TW_PANEL_ROWS] = h->row[k];
    }
}

static void pack_values(const head *h, int64_t kv_head) {
    const tw_view *v = &h->s->in[2];
    const int64_t d = h->x->head_v, depth = tw_panel_cols(floats, h->x->keys);
    memset(h->values, 0, (size_t)(padded(d) * depth) * sizeof(float));
    for (int64_t i = 0; i < h->x->keys; i++) {
        tw_cpu_read(v->type, tw_cpu_at(h->n, v), place(v, h->batch, kv_head, i), v->strides[3], d, h->row);
        for (int64_t c = 0; c < d; c += TW_PANEL_ROWS)
            memcpy(h->values + (c * depth + i * TW_PANEL_ROWS), h->row + c,
                   (size_t)least(TW_PANEL_ROWS, d - c) * sizeof(float));
    }
}

/* Keys that query i sees. */
static int64_t seen_by(const tw_program_attention *x, int64_t i) {
    const int64_t n = i + x->keys - x->queries + 1;
    return !x->causal || n > x->keys ? x->keys : n < 0 ? 0 : n;
}

static const float *mask_of(const head *h, int64_t query) {
    const tw_view *v = h->s->n_in > 3 && h->s->in[3].buffer >= 0 ? &h->s->in[3] : NULL;
    if (!v) return NULL;
    tw_cpu_read(v->type, tw_cpu_at(h->n, v), place(v, h->batch, h->head, query), v->strides[3], h->x->keys, h->mask);
    return h->mask;
}

static void multiply(const head *h, const float *panels, int64_t out, int64_t cols, const float *x, int64_t ldx,
                     int64_t rows, float *y, int64_t ldy) {
    h->n->k.gemm[TW_F32](floats, panels, padded(out) / TW_PANEL_ROWS, cols, x, ldx, rows, y, ldy, usual, NULL, h->gemm);
}

/* Scores of queries first .. first + rows - 1 become weights, whose sums are returned: 0 where a query sees no key. */
static void soften(const head *h, int64_t first, int64_t rows, int64_t seen, float sums[QUERIES]) {
    const int64_t ld = stride_of(h->x->keys);
    const tw_view *v = &h->s->in[3];
    const float *mask = NULL;
    for (int64_t r = 0; r < rows; r++) {
        float *scores = h->scores + r * ld;
        const int64_t n = least(seen_by(h->x, first + r), seen);
        if (!r || (mask && v->strides[2])) mask = mask_of(h, first + r);
        for (int64_t i = 0; i < n && h->x->cap > 0; i++)
            scores[i] = (float)h->x->cap * tanhf(scores[i] * (float)(h->x->scale / h->x->cap));
        sums[r] = n ? h->n->k.soften(scores, h->x->cap > 0 ? 1 : (float)h->x->scale, mask, n) : 0;
        memset(scores + n, 0, (size_t)(h->x->keys - n) * sizeof *scores);
    }
}

static void run_block(const head *h, int64_t first, int64_t rows) {
    const tw_view *q = &h->s->in[0], *out = &h->s->out[0];
    const int64_t ld = stride_of(h->x->keys), ldo = stride_of(h->x->head_v), seen = seen_by(h->x, first + rows - 1);
    float sums[QUERIES];
    unsigned char *to = h->n->base[out->buffer] + out->offset;
    const unsigned char *from = tw_cpu_at(h->n, q);
    for (int64_t r = 0; r < rows; r++)
        tw_cpu_read(q->type, from, place(q, h->batch, h->head, first + r), q->strides[3], h->x->head,
                    h->query + r * h->x->head);
    if (seen) multiply(h, h->keys, seen, h->x->head, h->query, h->x->head, rows, h->scores, ld);
    soften(h, first, rows, seen, sums);
    if (seen) multiply(h, h->values, h->x->head_v, h->x->keys, h->scores, ld, rows, h->result, ldo);
    for (int64_t r = 0; r < rows; r++) {
        float *y = h->result + r * ldo;
        const float by = sums[r] != 0 ? 1 / sums[r] : 0;
        for (int64_t d = 0; d < h->x->head_v; d++) y[d] = by != 0 ? y[d] * by : 0;
        tw_cpu_write(out->type, to, place(out, h->batch, h->head, first + r), h->x->head_v, y);
    }
}

void tw_cpu_attention(const tw_cpu_network *n, const tw_step *s, const tw_range_task *t, tw_cpu_room room) {
    const tw_program_attention *x = &s->of.attention;
    const int64_t from = t->from[TW_ATTENTION_QUERIES], to = t->to[TW_ATTENTION_QUERIES],
                  group = x->heads / x->kv_heads;
    const int64_t block = block_of(x, to - from);
    head h = {.n = n, .s = s, .x = x};
    h.keys = tw_cpu_take(&room, (size_t)(padded(x->keys) / TW_PANEL_ROWS) * tw_panel_bytes(floats, x->head));
    h.values = tw_cpu_take(&room, (size_t)(padded(x->head_v) / TW_PANEL_ROWS) * tw_panel_bytes(floats, x->keys));
    h.scores = tw_cpu_take(&room, (size_t)(block * stride_of(x->keys)) * 4);
    h.result = tw_cpu_take(&room, (size_t)(block * stride_of(x->head_v)) * 4);
    h.query = tw_cpu_take(&room, (size_t)(block * x->head) * 4);
    h.mask = tw_cpu_take(&room, (size_t)x->keys * 4);
    h.row = tw_cpu_take(&room, (size_t)(x->head > x->head_v ? x->head : x->head_v) * 4);
    h.gemm = room.at;
    for (h.batch = t->from[TW_ATTENTION_BATCH]; h.batch < t->to[TW_ATTENTION_BATCH]; h.batch++) {
        int64_t packed = -1;
        for (h.head = t->from[TW_ATTENTION_HEADS]; h.head < t->to[TW_ATTENTION_HEADS]; h.head++) {
            if (h.head / group != packed) {
                packed = h.head / group;
                pack_keys(&h, packed);
                pack_values(&h, packed);
            }
            for (int64_t i = from; i < to; i += block) run_block(&h, i, least(block, to - i));
        }
    }
}

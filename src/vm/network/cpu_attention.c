/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: for a block of queries, scores of all keys that any of them sees stay in the second-level cache, between
   the two products with keys and values, which are packed once for a task's queries. */
#include "base/divide.h"
#include "vm/network/cpu_parts.h"

#include <math.h>
#include <string.h>

enum {
    QUERIES = 64,            /* The most queries of a block. */
    FEW = 16,                /* The fewest, of long sequences. */
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

/* Products of many queries are sums of products of bf16, where the processor has units for them. */
static bool is_split(const tw_cpu_network *n, const tw_range_task *t) {
    return n->k.split && t->to[TW_ATTENTION_QUERIES] - t->from[TW_ATTENTION_QUERIES] >= TW_SPLIT_ROWS;
}

/* Bytes of `rows` rows of keys, or columns of values, in panels. */
static size_t panel_bytes(const tw_cpu_network *n, bool split, int64_t rows, int64_t depth) {
    return split ? n->k.split->bytes(padded(rows), depth)
                 : (size_t)(padded(rows) / TW_PANEL_ROWS) * tw_panel_bytes(floats, depth);
}

/* Scratch memory of a product. */
static size_t product_scratch(const tw_cpu_network *n, bool split, int64_t rows, int64_t out, int64_t depth) {
    if (split) return n->k.split->scratch_bytes + n->k.split->bytes(rows, depth);
    return n->k.gemm_scratch[TW_F32](floats, padded(out) / TW_PANEL_ROWS, depth, rows, usual);
}

size_t tw_cpu_attention_scratch(const tw_cpu_network *n, const tw_step *s, const tw_range_task *t) {
    const tw_program_attention *x = &s->of.attention;
    const int64_t block = block_of(x, t->to[TW_ATTENTION_QUERIES] - t->from[TW_ATTENTION_QUERIES]);
    const bool split = is_split(n, t);
    size_t gemm = 0;
    /* The last block may have fewer rows, which are packed differently. */
    for (int64_t rows = 1; rows <= block; rows++)
        for (int i = 0; i < 2; i++) {
            const int64_t cols = i ? x->keys : x->head, out = i ? x->head_v : x->keys;
            const size_t one = product_scratch(n, split, rows, out, cols);
            if (one > gemm) gemm = one;
        }
    return tw_cpu_lines(panel_bytes(n, split, x->keys, x->head)) +
           tw_cpu_lines(panel_bytes(n, split, x->head_v, x->keys)) +
           tw_cpu_lines(tw_panel_bytes(floats, x->head > x->keys ? x->head : x->keys)) +
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
    bool split;
    unsigned char *keys, *values; /* In panels: rows of keys, and columns of values. */
    float *panel;                 /* Room for a panel of floats. */
    float *scores, *result, *query, *mask, *row;
    unsigned char *gemm;
} head;

/* The first element of row `row` of an operand's head. */
static int64_t place(const tw_view *v, int64_t batch, int64_t of_head, int64_t row) {
    return batch * v->strides[0] + of_head * v->strides[1] + row * v->strides[2];
}

/* Asks for rows of an operand's head. They lie too far apart for the processor to foresee them, and may be in another
   worker's cache. Rows whose elements are apart are not asked for. */
static void ask(const head *h, const tw_view *v, int64_t of_head, int64_t first, int64_t rows, bool to_write) {
    const int64_t size = tw_element_bits(v->type) / 8, bytes = size * v->dims[3];
    const char *from = (const char *)tw_cpu_at(h->n, v);
    for (int64_t r = 0; r < rows && v->strides[3] == 1; r++) {
        const char *row = from + size * place(v, h->batch, of_head, first + r);
        for (int64_t at = 0; at < bytes; at += 64)
            if (to_write)
                __builtin_prefetch(row + at, 1, 3);
            else
                __builtin_prefetch(row + at, 0, 2);
    }
}

/* Clears a panel if `rows` of it and `cols` columns do not fill it. */
static void clear_part(int64_t cols, int64_t rows, float *panel) {
    if (rows < TW_PANEL_ROWS || tw_panel_cols(floats, cols) > cols) memset(panel, 0, tw_panel_bytes(floats, cols));
}

/* Reads rows first .. of an operand's head into columns of a panel: [element][16]. Values of the same rows are packed
   next. */
static void keys_panel(const head *h, const tw_view *v, int64_t kv_head, int64_t first, float *out) {
    const int64_t d = h->x->head, rows = least(TW_PANEL_ROWS, h->x->keys - first),
                  next = least(TW_PANEL_ROWS, h->x->keys - first - rows);
    ask(h, v, kv_head, first + rows, next, false);
    ask(h, &h->s->in[2], kv_head, first, rows, false);
    clear_part(d, rows, out);
    for (int64_t r = 0; r < rows; r++) {
        tw_cpu_read(v->type, tw_cpu_at(h->n, v), place(v, h->batch, kv_head, first + r), v->strides[3], d, h->row);
        for (int64_t k = 0; k < d; k++) out[k * TW_PANEL_ROWS + r] = h->row[k];
    }
}

/* Reads elements first .. of all rows: [row][16]. */
static void values_panel(const head *h, const tw_view *v, int64_t kv_head, int64_t first, float *out) {
    const int64_t count = least(TW_PANEL_ROWS, h->x->head_v - first);
    clear_part(h->x->keys, count, out);
    for (int64_t i = 0; i < h->x->keys; i++)
        tw_cpu_read(v->type, tw_cpu_at(h->n, v), place(v, h->batch, kv_head, i) + first * v->strides[3], v->strides[3],
                    count, out + i * TW_PANEL_ROWS);
}

static void pack(const head *h, int64_t kv_head, bool keys) {
    const int64_t n = keys ? h->x->keys : h->x->head_v, depth = keys ? h->x->head : h->x->keys;
    const size_t bytes = panel_bytes(h->n, h->split, TW_PANEL_ROWS, depth);
    unsigned char *out = keys ? h->keys : h->values;
    for (int64_t i = 0; i < n; i += TW_PANEL_ROWS, out += bytes) {
        float *panel = h->split ? h->panel : (float *)(void *)out;
        if (keys)
            keys_panel(h, &h->s->in[1], kv_head, i, panel);
        else
            values_panel(h, &h->s->in[2], kv_head, i, panel);
        if (h->split) h->n->k.split->pack_w(panel, depth, out);
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

static void multiply(const head *h, const unsigned char *panels, int64_t out, int64_t cols, const float *x, int64_t ldx,
                     int64_t rows, float *y, int64_t ldy) {
    const int64_t n = padded(out) / TW_PANEL_ROWS;
    if (h->split) {
        unsigned char *packed = h->gemm + tw_cpu_lines(h->n->k.split->scratch_bytes);
        h->n->k.split->pack_x(x, ldx, rows, cols, true, packed);
        h->n->k.split->gemm(panels, n, cols, packed, rows, y, ldy, NULL, h->gemm);
        return;
    }
    h->n->k.gemm[TW_F32](floats, panels, n, cols, x, ldx, rows, y, ldy, usual, NULL, h->gemm);
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
    ask(h, out, h->head, first, rows, true);
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
    h.split = is_split(n, t);
    h.keys = tw_cpu_take(&room, panel_bytes(n, h.split, x->keys, x->head));
    h.values = tw_cpu_take(&room, panel_bytes(n, h.split, x->head_v, x->keys));
    h.panel = tw_cpu_take(&room, tw_panel_bytes(floats, x->head > x->keys ? x->head : x->keys));
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
                pack(&h, packed, true);
                pack(&h, packed, false);
            }
            for (int64_t i = from; i < to; i += block) run_block(&h, i, least(block, to - i));
        }
    }
}

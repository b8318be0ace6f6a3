/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding rotates heads by angles of their positions. TensorScatter writes rows to a cache.
   Cache, an operator of ours, makes a cache of what is past and what is new. */
#include "graph/ops/elementwise.h"
#include "graph/ops/move.h"
#include "graph/ops/reduce.h"

#include <string.h>

typedef struct rotation {
    tw_heads of;
    int64_t dims; /* Elements of a head that are rotated. */
} rotation;

static tw_status rotation_of(const tw_call *c, rotation *r) {
    const tw_array *x = c->in[0], *cosine = c->in[1], *places = tw_call_in(c, 3);
    const int64_t heads = tw_node_integer(c->node, "num_heads", 0);
    bool fits = tw_heads_of(x, heads, &r->of);
    if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    r->dims = tw_node_integer(c->node, "rotary_embedding_dim", 0);
    if (!r->dims) r->dims = r->of.width;
    fits = r->dims <= r->of.width && r->dims > 0 && r->dims % 2 == 0 && c->in[2]->rank == cosine->rank &&
           !memcmp(c->in[2]->dims, cosine->dims, sizeof(int64_t) * (size_t)cosine->rank);
    if (places)
        fits = fits && cosine->rank == 2 && cosine->dims[1] == r->dims / 2 && places->rank == 2 &&
               places->dims[0] == r->of.batch && places->dims[1] == r->of.length;
    else
        /* One batch of angles is that of all: exporters write it, though the standard has no such word. */
        fits = fits && cosine->rank == 3 && (cosine->dims[0] == r->of.batch || cosine->dims[0] == 1) &&
               cosine->dims[1] == r->of.length && cosine->dims[2] == r->dims / 2;
    return fits ? TW_OK : tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
}

tw_status tw_rotary_shape(tw_call *c) {
    rotation r;
    tw_same_shape(c);
    if (tw_element_kind(c->in[0]->type) != TW_KIND_real) return tw_call_refuse_type(c, c->in[0]->type);
    return rotation_of(c, &r);
}

void tw_rotate_head(double *head, int64_t half, bool interleaved, const tw_array *cosine, const tw_array *sine,
                    int64_t angles) {
    for (int64_t e = 0; e < half; e++) {
        double *first = &head[interleaved ? 2 * e : e], *second = &head[interleaved ? 2 * e + 1 : e + half];
        const double cs = tw_array_real(cosine, angles * half + e), sn = tw_array_real(sine, angles * half + e);
        const double a = *first, b = *second;
        *first = cs * a - sn * b;
        *second = sn * a + cs * b;
    }
}

tw_status tw_rotary_compute(tw_call *c) {
    const tw_array *places = tw_call_in(c, 3), *cosine = c->in[1], *sine = c->in[2];
    const bool interleaved = tw_node_integer(c->node, "interleaved", 0);
    rotation r;
    rotation_of(c, &r);
    const int64_t half = r.dims / 2, n = tw_array_elements(c->in[0]);
    double *x = tw_call_reals(c, c->in[0]);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t batch = 0; batch < r.of.batch; batch++)
        for (int64_t i = 0; i < r.of.length; i++) {
            int64_t row = (cosine->dims[0] == 1 ? 0 : batch) * r.of.length + i;
            if (places) row = tw_array_integer(places, batch * r.of.length + i);
            if (row < 0 || (places && row >= cosine->dims[0]))
                return tw_call_fail(c, TW_ERR_FORMAT, "position %lld has no angles", (long long)row);
            for (int64_t head = 0; head < r.of.heads; head++)
                tw_rotate_head(&x[batch * r.of.of_batch + head * r.of.of_head + i * r.of.of_row], half, interleaved,
                               cosine, sine, row);
        }
    tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), 0, n, x);
    return TW_OK;
}

tw_status tw_tensor_scatter_shape(tw_call *c) {
    const tw_array *cache = c->in[0], *update = c->in[1], *places = tw_call_in(c, 2);
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -2), cache->rank);
    bool fits = axis > 0 && update->rank == cache->rank && update->type == cache->type;
    for (int i = 0; i < cache->rank && fits; i++)
        fits = i == axis ? update->dims[i] <= cache->dims[i] : update->dims[i] == cache->dims[i];
    if (!fits || (places && (places->rank != 1 || places->dims[0] != cache->dims[0])))
        return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    tw_same_shape(c);
    return tw_call_whole_bytes(c, cache);
}

tw_status tw_tensor_scatter_compute(tw_call *c) {
    const tw_array *cache = c->in[0], *update = c->in[1], *places = tw_call_in(c, 2);
    const int axis = tw_axis(tw_node_integer(c->node, "axis", -2), cache->rank);
    const bool circular = !strcmp(tw_node_text(c->node, "mode", "linear"), "circular");
    const int64_t rows = cache->dims[axis], n = update->dims[axis], before = tw_extent(cache, 0, axis);
    const size_t row = (size_t)tw_extent(cache, axis + 1, cache->rank) * tw_element_bytes(cache);
    tw_same_compute(c);
    for (int64_t b = 0; b < before; b++) {
        const int64_t first = places ? tw_array_integer(places, b / (before / cache->dims[0])) : 0;
        for (int64_t i = 0; i < n; i++) {
            if (!circular && (first < 0 || first >= rows - i))
                return tw_call_fail(c, TW_ERR_FORMAT, "row %lld is not within the cache", (long long)first);
            const int64_t at = circular ? (first % rows + rows + i) % rows : first + i;
            if (row)
                memcpy((char *)tw_call_out(c, 0) + (size_t)(b * rows + at) * row,
                       (const char *)update->data + (size_t)(b * n + i) * row, row);
        }
    }
    return TW_OK;
}

/* Cache: new rows of heads, [batch][row][head * width] or [batch][head][row][width]; [batch or 1][place], the number of
   the new row that is at each place, below 0 at places before the first of them; the past, [batch][head][row][width].
   Places that have neither a new row nor one of the past are 0. */
tw_status tw_cache_shape(tw_call *c) {
    const tw_array *fresh = c->in[0], *rows = c->in[1], *past = tw_call_in(c, 2);
    tw_heads h;
    bool fits = tw_heads_of(fresh, tw_node_integer(c->node, "kv_num_heads", 0), &h) && rows->rank == 2 &&
                tw_element_kind(rows->type) == TW_KIND_integer && (rows->dims[0] == 1 || rows->dims[0] == h.batch);
    if (fits && past)
        fits = past->type == fresh->type && past->rank == 4 && past->dims[0] == h.batch && past->dims[1] == h.heads &&
               past->dims[2] <= rows->dims[1] && past->dims[3] == h.width;
    if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    c->out[0] = (tw_array){.type = fresh->type, .rank = 4, .dims = {h.batch, h.heads, rows->dims[1], h.width}};
    if (tw_array_elements(&c->out[0]) < 0) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many elements");
    return tw_call_whole_bytes(c, fresh);
}

tw_status tw_cache_compute(tw_call *c) {
    const tw_array *fresh = c->in[0], *rows = c->in[1], *past = tw_call_in(c, 2);
    const int64_t places = rows->dims[1], n_past = past ? past->dims[2] : 0;
    tw_heads h;
    tw_heads_of(fresh, tw_node_integer(c->node, "kv_num_heads", 0), &h);
    const size_t element = tw_element_bytes(fresh), row = (size_t)h.width * element;
    char *to = tw_call_out(c, 0);
    for (int64_t i = 0; row && i < h.batch * h.heads * places; i++, to += row) {
        const int64_t place = i % places, head = i / places % h.heads, batch = i / places / h.heads;
        const int64_t at = tw_array_integer(rows, (rows->dims[0] == 1 ? 0 : batch) * places + place);
        memset(to, 0, row);
        if (at >= 0 && at < h.length)
            memcpy(to,
                   (const char *)fresh->data +
                       (size_t)(batch * h.of_batch + head * h.of_head + at * h.of_row) * element,
                   row);
        else if (at < 0 && place < n_past)
            memcpy(to, (const char *)past->data + (size_t)((batch * h.heads + head) * n_past + place) * row, row);
    }
    return TW_OK;
}

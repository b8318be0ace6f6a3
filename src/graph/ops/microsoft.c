/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/microsoft.h"

#include "graph/ops/elementwise.h"
#include "graph/ops/reduce.h"

#include <math.h>
#include <string.h>

static bool is(const tw_call *c, const char *op) {
    return !strcmp(c->node->op, op);
}

/* ---- SkipLayerNormalization (input, skip, gamma, beta, bias), SkipSimplifiedLayerNormalization (input, skip, gamma,
   bias). The last result is the sum that is normed. */

tw_status tw_skip_norm_shape(tw_call *c) {
    const tw_array *a = c->in[0], *skip = c->in[1];
    const int64_t n = a->rank ? a->dims[a->rank - 1] : 0;
    tw_array all;
    bool fits = a->rank > 0 && tw_broadcast(a, skip, &all) && skip->rank <= a->rank;
    fits = fits && !memcmp(all.dims, a->dims, sizeof(int64_t) * (size_t)a->rank);
    for (int i = 2; i < c->n_in && fits; i++) fits = !c->in[i] || (c->in[i]->rank == 1 && c->in[i]->dims[0] == n);
    if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    tw_same_shape(c);
    c->out[1] = c->out[0];
    c->out[1].type = TW_E_f32;
    c->out[1].dims[a->rank - 1] = 1;
    c->out[2] = c->out[1];
    c->out[3] = c->out[0];
    return tw_element_kind(a->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, a->type);
}

tw_status tw_skip_norm_compute(tw_call *c) {
    const bool simple = is(c, "SkipSimplifiedLayerNormalization");
    const tw_array *a = c->in[0], *skip = c->in[1], *gamma = c->in[2];
    const tw_array *beta = simple ? NULL : tw_call_in(c, 3), *bias = tw_call_in(c, simple ? 3 : 4);
    const int64_t n = a->dims[a->rank - 1], all = tw_array_elements(a);
    const double eps = tw_node_real(c->node, "epsilon", 1e-12);
    int64_t index[TW_ARRAY_RANK] = {0};
    tw_places of_skip;
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    tw_places_of(skip, a, &of_skip);
    for (int64_t i = 0; i < all; i++, tw_index_next(a, index)) {
        x[i] += tw_array_real(skip, tw_place(&of_skip, a, index));
        if (bias) x[i] += tw_array_real(bias, i % n);
    }
    if (c->n_out > 3) tw_array_set_reals(a->type, tw_call_out(c, 3), 0, all, x);
    for (int64_t row = 0; n && row < all / n; row++) {
        double *r = &x[row * n];
        const tw_norm_of of = tw_norm_row(r, n, !simple, eps);
        for (int64_t i = 0; i < n; i++) r[i] = r[i] * tw_array_real(gamma, i) + (beta ? tw_array_real(beta, i) : 0);
        if (c->n_out > 1) tw_array_set_reals(TW_E_f32, tw_call_out(c, 1), row, 1, &of.mean);
        if (c->n_out > 2) tw_array_set_reals(TW_E_f32, tw_call_out(c, 2), row, 1, &of.inverse);
    }
    tw_array_set_reals(a->type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

/* ---- RotaryEmbedding (input, position_ids, cos_cache, sin_cache). One position is that of the first row. */

typedef struct rotation {
    tw_heads of;
    int64_t dims; /* Elements of a head that are rotated. */
} rotation;

static tw_status rotation_of(const tw_call *c, rotation *r) {
    const tw_array *x = c->in[0], *places = c->in[1], *cosine = c->in[2];
    int64_t heads = tw_node_integer(c->node, "num_heads", 0);
    r->dims = tw_node_integer(c->node, "rotary_embedding_dim", 0);
    bool fits = cosine->rank == 2 && c->in[3]->rank == 2 && cosine->dims[1] > 0;
    if (fits && x->rank == 3 && !heads) heads = x->dims[2] / (2 * cosine->dims[1]);
    if (!fits || !tw_heads_of(x, heads, &r->of)) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    if (!r->dims) r->dims = 2 * cosine->dims[1];
    fits = r->dims <= r->of.width && cosine->dims[1] == r->dims / 2 && c->in[3]->dims[1] == cosine->dims[1] &&
           c->in[3]->dims[0] == cosine->dims[0];
    fits = fits && (tw_array_elements(places) == 1 ||
                    (places->rank == 2 && places->dims[0] == x->dims[0] && places->dims[1] == r->of.length));
    return fits ? TW_OK : tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
}

tw_status tw_ms_rotary_shape(tw_call *c) {
    rotation r;
    tw_same_shape(c);
    if (tw_element_kind(c->in[0]->type) != TW_KIND_real) return tw_call_refuse_type(c, c->in[0]->type);
    return rotation_of(c, &r);
}

tw_status tw_ms_rotary_compute(tw_call *c) {
    const tw_array *places = c->in[1], *cosine = c->in[2], *sine = c->in[3];
    const bool interleaved = tw_node_integer(c->node, "interleaved", 0), one = tw_array_elements(places) == 1;
    rotation r;
    rotation_of(c, &r);
    const int64_t half = r.dims / 2, all = tw_array_elements(c->in[0]), rows = c->in[0]->dims[0] * r.of.length;
    double *x = tw_call_reals(c, c->in[0]);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t i = row % r.of.length, given = tw_array_integer(places, one ? 0 : row), past = one ? i : 0;
        if (given < 0 || given >= cosine->dims[0] - past)
            return tw_call_fail(c, TW_ERR_FORMAT, "row %lld has no angles", (long long)i);
        const int64_t place = given + past;
        for (int64_t head = 0; head < r.of.heads; head++)
            tw_rotate_head(&x[row / r.of.length * r.of.of_batch + head * r.of.of_head + i * r.of.of_row], half,
                           interleaved, cosine, sine, place);
    }
    tw_array_set_reals(c->out[0].type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

/* ---- MatMulNBits (A, B, scales, zero_points, g_idx, bias): B has unsigned integers of 2, 4 or 8 bits, [n][block of
   k][bytes of a block], the lowest bits first. */

typedef struct narrow {
    int64_t k, n, bits, block, blocks;
} narrow;

static narrow narrow_of(const tw_call *c) {
    narrow w = {tw_node_integer(c->node, "K", 0), tw_node_integer(c->node, "N", 0), tw_node_integer(c->node, "bits", 4),
                tw_node_integer(c->node, "block_size", 0), 0};
    enum { MOST = 1 << 30 }; /* Products of them do not overflow. */
    if (w.k < 1 || w.k > MOST || w.n < 1 || w.n > MOST || w.block < 1 || w.block > MOST) w.k = w.n = w.block = 0;
    w.blocks = w.block ? (w.k + w.block - 1) / w.block : 0;
    return w;
}

tw_status tw_matmul_nbits_shape(tw_call *c) {
    const tw_array *a = c->in[0], *b = c->in[1], *zeros = tw_call_in(c, 3), *bias = tw_call_in(c, 5);
    const narrow w = narrow_of(c);
    /* Blocks are powers of two, so that each begins with a byte. */
    bool fits = w.k > 0 && w.n > 0 && w.block >= 16 && !(w.block & (w.block - 1)) &&
                (w.bits == 2 || w.bits == 4 || w.bits == 8);
    fits = fits && a->rank > 0 && a->dims[a->rank - 1] == w.k && b->type == TW_E_u8 &&
           tw_array_elements(b) == w.n * w.blocks * (w.block * w.bits / 8) &&
           tw_array_elements(c->in[2]) == w.n * w.blocks;
    if (fits && zeros)
        fits = zeros->type == TW_E_u8 ? tw_array_elements(zeros) == w.n * ((w.blocks * w.bits + 7) / 8)
                                      : tw_array_elements(zeros) == w.n * w.blocks;
    if (fits && bias) fits = tw_array_elements(bias) == w.n;
    if (!fits) return tw_call_fail(c, TW_ERR_FORMAT, "operands do not fit");
    if (tw_call_in(c, 4)) return tw_call_fail(c, TW_ERR_UNSUPPORTED, "g_idx is not supported");
    tw_same_shape(c);
    c->out[0].dims[a->rank - 1] = w.n;
    return tw_element_kind(a->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, a->type);
}

/* Reads number i of a run of integers of so many bits. */
static int bits_at(const uint8_t *bytes, int64_t i, int64_t bits) {
    const int64_t at = i * bits;
    return bytes[at / 8] >> at % 8 & ((1 << bits) - 1);
}

tw_status tw_matmul_nbits_compute(tw_call *c) {
    const tw_array *a = c->in[0], *scales = c->in[2], *zeros = tw_call_in(c, 3), *bias = tw_call_in(c, 5);
    const narrow w = narrow_of(c);
    const int64_t rows = w.k ? tw_array_elements(a) / w.k : 0, row_bytes = w.blocks * (w.block * w.bits / 8);
    const int64_t zero_bytes = (w.blocks * w.bits + 7) / 8;
    const uint8_t *b = c->in[1]->data, *packed = zeros && zeros->type == TW_E_u8 ? zeros->data : NULL;
    double *x = tw_call_reals(c, a), *column = tw_arena_array(c->arena, (size_t)w.k, sizeof *column);
    if (!x || !column) return tw_fail_memory(c->diag);
    for (int64_t j = 0; j < w.n; j++) {
        for (int64_t i = 0; i < w.k; i++) {
            const int64_t block = i / w.block;
            double zero = 1 << (w.bits - 1);
            if (packed) zero = bits_at(packed + j * zero_bytes, block, w.bits);
            if (zeros && !packed) zero = tw_array_real(zeros, j * w.blocks + block);
            column[i] = (bits_at(b + j * row_bytes, i, w.bits) - zero) * tw_array_real(scales, j * w.blocks + block);
        }
        for (int64_t r = 0; r < rows; r++) {
            double sum = bias ? tw_array_real(bias, j) : 0;
            for (int64_t i = 0; i < w.k; i++) sum += x[r * w.k + i] * column[i];
            tw_array_set_reals(a->type, tw_call_out(c, 0), r * w.n + j, 1, &sum);
        }
    }
    return TW_OK;
}

/* ---- FastGelu (input, bias), BiasGelu (input, bias), Gelu (input), QuickGelu (input) */

tw_status tw_fast_gelu_shape(tw_call *c) {
    const tw_array *a = c->in[0], *bias = tw_call_in(c, 1);
    if (bias && (bias->rank != 1 || !a->rank || bias->dims[0] != a->dims[a->rank - 1]))
        return tw_call_fail(c, TW_ERR_FORMAT, "the bias does not fit");
    tw_same_shape(c);
    return tw_element_kind(a->type) == TW_KIND_real ? TW_OK : tw_call_refuse_type(c, a->type);
}

tw_status tw_fast_gelu_compute(tw_call *c) {
    const tw_array *a = c->in[0], *bias = tw_call_in(c, 1);
    const int64_t all = tw_array_elements(a), n = bias ? bias->dims[0] : 1;
    const double alpha = tw_node_real(c->node, "alpha", 1.702), root = 0.79788456080286535588; /* sqrt(2 / pi) */
    double *x = tw_call_reals(c, a);
    if (!x) return tw_fail_memory(c->diag);
    for (int64_t i = 0; i < all; i++) {
        const double y = x[i] + (bias ? tw_array_real(bias, i % n) : 0);
        x[i] = is(c, "FastGelu")    ? 0.5 * y * (1 + tanh(root * (y + 0.044715 * y * y * y)))
               : is(c, "QuickGelu") ? y / (1 + exp(-alpha * y))
                                    : 0.5 * y * (1 + erf(y * 0.70710678118654752440));
    }
    tw_array_set_reals(a->type, tw_call_out(c, 0), 0, all, x);
    return TW_OK;
}

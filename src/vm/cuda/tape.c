/* SPDX-License-Identifier: Apache-2.0 */
/* Packs weights in the order in which a worker's block takes them. */
#include "base/divide.h"
#include "base/dtype.h"
#include "model/quantize.h"
#include "vm/cuda/machine.h"

#include <string.h>

enum { QUARTER = 16 /* Bytes of a row of a piece that a lane takes. */ };

/* An instruction's rows, in the tape's order. */
typedef struct source {
    const tw_instr *in;
    const tw_model *m;
    const tw_weight *weight[TW_MAX_MATRICES], *bias[TW_MAX_MATRICES];
    const tw_buffer *buffer; /* The first matrix in the schedule. All matrices have its type. */
} source;

static source source_of(const tw_mega_program *p, const tw_model *m, const tw_instr *in, int64_t expert) {
    const tw_instr_matrices matrices = tw_instr_matrices_of(in);
    source src = {.in = in, .m = m, .buffer = &p->s->buffers[matrices.matrix[0]]};
    for (int i = 0; i < matrices.n; i++) {
        src.weight[i] = tw_weight_at(&p->weights, matrices.matrix[i], expert);
        if (matrices.bias[i] >= 0) src.bias[i] = tw_weight_at(&p->weights, matrices.bias[i], 0);
    }
    return src;
}

/* Finds the matrix, and the row in it, of a row of the tape. False: the tape's row is behind the last. */
static bool locate(const source *src, int64_t row, int *which, int64_t *at) {
    const int64_t *range = src->in->param;
    const tw_model *m = src->m;
    int64_t unit = row / TW_MEGA_ROWS, i = row;
    *which = 0;
    if (tw_mega_gated(src->in)) { /* Units alternate between gate and up. */
        *which = (int)(unit % 2);
        i = unit / 2 * TW_MEGA_ROWS + row % TW_MEGA_ROWS;
    }
    if (i >= range[TW_TO] - range[TW_FROM]) return false;
    *at = range[TW_FROM] + i;
    if (src->in->op != TW_INSTR_QKV) return true;
    tw_qkv_row q =
        tw_qkv_locate(*at, m->n_heads, m->n_kv_heads, m->head_dim, tw_model_norms_apart(m) ? 0 : m->rope.dims);
    *which = q.part;
    *at = q.head * m->head_dim + q.row;
    return true;
}

typedef struct packer {
    const tw_mega_plan *p;
    const tw_mega_format *f;
    tw_mega_shape shape;
    int64_t first; /* Number of the matrix's column with which the tape begins. */
    int64_t whole; /* Columns of the matrix. */
    unsigned char *stages;
    int stage_bytes;
    unsigned char *raw; /* A row as it is stored. */
    float *row;
    int8_t *q;     /* A row's integers. */
    float *scales; /* The scales of a row's groups. */
} packer;

/* A piece's place: where its stage begins, and its number in the stage. */
typedef struct spot {
    unsigned char *stage;
    int64_t piece;
} spot;

tw_mega_unit tw_mega_unit_of(const tw_mega_plan *p, const tw_mega_format *f, const tw_mega_shape *s, int64_t unit) {
    const int stages = s->run / p->tuning.blocks, n = f->units;
    const int64_t group = unit / s->group_units, first = group * s->group_units;
    const int64_t units = s->units - first < s->group_units ? s->units - first : s->group_units;
    const int64_t before = group * tw_ceil_div(s->group_units, n) * s->chunks * stages;
    return (tw_mega_unit){.first = before + (unit - first) / n * stages,
                          .chunk = tw_ceil_div(units, n) * stages,
                          .second = (int)(unit % s->group_units % n)};
}

/* Finds piece number `piece` of a row of the tape. It holds `depth` columns from piece * depth on. */
static spot find_piece(const packer *k, int64_t row, int64_t piece) {
    const tw_mega_shape *s = &k->shape;
    const int warps = k->p->tuning.warps, blocks = k->p->tuning.blocks;
    const tw_mega_unit u = tw_mega_unit_of(k->p, k->f, s, row / TW_MEGA_ROWS);
    const int64_t of_chunk = (int64_t)warps * s->run, chunk = piece / of_chunk, in_chunk = piece % of_chunk;
    const int64_t warp = in_chunk / s->run, in_run = in_chunk % s->run;
    const int64_t stage = u.first + chunk * u.chunk + in_run / blocks;
    return (spot){k->stages + stage * k->stage_bytes, warp * blocks + in_run % blocks};
}

/* Returns the address of the row in its piece. */
static unsigned char *place(const packer *k, int64_t row, int64_t piece) {
    spot at = find_piece(k, row, piece);
    return at.stage + at.piece * TW_MEGA_PIECE + row % TW_MEGA_ROWS * (TW_MEGA_PIECE / TW_MEGA_ROWS);
}

/* Returns the address of 16 bytes of a row of floats, number `at` of the four that the row has in a piece. */
static unsigned char *quarter(const packer *k, int64_t row, int64_t piece, int64_t at) {
    return place(k, row, piece) + tw_mega_quarter((int)(row % TW_MEGA_ROWS), (int)at) * QUARTER;
}

/* Packs a row of floats, each as a sum of two bf16. */
static void put_f32(const packer *k, int64_t row) {
    const int64_t columns = k->shape.columns;
    for (int64_t c = 0; c < columns; c += 4) {
        uint16_t high[4] = {0}, low[4] = {0};
        for (int64_t i = 0; i < 4 && c + i < columns; i++) {
            high[i] = tw_f32_to_bf16(k->row[c + i]);
            low[i] = tw_f32_to_bf16(k->row[c + i] - tw_bf16_to_f32(high[i]));
        }
        unsigned char *at = quarter(k, row, c / k->f->depth, c % k->f->depth / 4);
        memcpy(at, high, 8);
        memcpy(at + 8, low, 8);
    }
}

static void put_16(const packer *k, int64_t row) {
    const int64_t columns = k->shape.columns;
    for (int64_t c = 0; c < columns; c += QUARTER / 2) {
        const int64_t n = columns - c < QUARTER / 2 ? columns - c : QUARTER / 2;
        memcpy(quarter(k, row, c / k->f->depth, c % k->f->depth / (QUARTER / 2)), k->raw + 2 * c, (size_t)(2 * n));
    }
}

/* Returns 0 if the row is one of rows g of its pieces, and 1 if it is one of rows g + 8. */
static int second(const packer *k, int64_t row) {
    return (int)(row / TW_MEGA_ROWS % k->shape.group_units % 2);
}

/* Packs a row of integers. Lane t has columns 4 t to 4 t + 3 of run s. int8: row g has bytes 8 s to 8 s + 3, row g + 8
   the next four. int4: both rows have word s, a byte a column; row g has the lower nibbles, row g + 8 the upper
   ones. */
static void put_integers(const packer *k, int64_t row) {
    for (int64_t c = 0; c < k->shape.columns; c++) {
        const int i = (int)(c % k->f->depth), s = i / 16, t = i % 16 / 4;
        unsigned char *lane = place(k, row, c / k->f->depth) + 16 * t;
        if (k->f->dtype == TW_I8)
            lane[8 * s + 4 * second(k, row) + i % 4] = (unsigned char)k->q[c];
        else
            lane[4 * s + i % 4] |= (unsigned char)((k->q[c] & 15) << 4 * second(k, row));
    }
}

static unsigned char *behind_pieces(const packer *k, spot at) {
    return at.stage + k->p->tuning.warps * k->p->tuning.blocks * TW_MEGA_PIECE;
}

/* Stores the row's scale in each of its stages, including those behind the last column. */
static void put_row_scale(const packer *k, int64_t row) {
    const int64_t cell = 2 * (row % TW_MEGA_ROWS) + second(k, row);
    for (int64_t c = 0; c < k->shape.chunks * k->shape.chunk_columns; c += k->f->depth)
        memcpy(behind_pieces(k, find_piece(k, row, c / k->f->depth)) + 4 * cell, k->scales, 4);
}

/* Stores the scales of the row's groups. */
static void put_scales(const packer *k, int64_t row) {
    const tw_mega_format *f = k->f;
    for (int64_t c = 0; c < k->shape.columns; c += f->depth / f->sets) {
        spot at = find_piece(k, row, c / f->depth);
        unsigned char *to = behind_pieces(k, at);
        const int set = (int)(c % f->depth / (f->depth / f->sets)), blocks = k->p->tuning.blocks;
        const int64_t in_row = at.piece % blocks * f->sets + set;
        const int64_t cell = 2 * (row % TW_MEGA_ROWS * blocks * f->sets + in_row) + second(k, row);
        const float scale = k->scales[f->group ? c / f->group : 0];
        const uint16_t half = tw_f32_to_f16(scale);
        to += at.piece / blocks * blocks * f->scale_bytes;
        if (f->dtype == TW_I8)
            memcpy(to + 4 * cell, &scale, 4);
        else
            memcpy(to + 2 * cell, &half, 2);
    }
}

/* Packs row `from` of a weight as row `row` of the tape. `as` is the weight's matrix in the schedule. Where the matrix
   is quantised and the plan's format is floats, the tape holds the dequantised floats. */
static void pack_row(const packer *k, const tw_buffer *as, const tw_weight *w, int64_t from, int64_t row) {
    const bool quantised = as->dtype == TW_I8 || as->dtype == TW_I4, floats = k->f->dtype == TW_F32;
    if (!quantised && !floats) {
        tw_weight_read_raw(w, from, k->first, k->shape.columns, k->raw);
        put_16(k, row);
        return;
    }
    /* A row is quantised as a whole, whatever columns of it are on the tape. */
    tw_weight_read(w, from, 0, k->whole, k->row);
    if (quantised) tw_quantise_row(as->dtype, as->group, k->row, k->whole, k->q, k->scales);
    for (int64_t c = 0; c < k->whole && quantised && floats; c++)
        k->row[c] = (float)k->q[c] * k->scales[as->group ? c / as->group : 0];
    packer part = *k;
    part.row += k->first;
    part.q += k->first;
    part.scales += as->group ? k->first / as->group : 0;
    if (floats)
        put_f32(&part, row);
    else
        put_integers(&part, row);
    if (k->f->sets)
        put_scales(&part, row);
    else if (!floats)
        put_row_scale(&part, row);
}

/* Packs all rows of a source. `k` lacks its room. */
static bool pack(packer k, const source *src, tw_mega_strip *out) {
    tw_arena room = {0};
    if (src->in->op == TW_INSTR_PARTIAL) k.first = src->in->param[TW_PARTIAL_PART] * k.shape.columns;
    k.whole = src->buffer->shape[2];
    const size_t columns = (size_t)(k.whole > k.shape.columns ? k.whole : k.shape.columns);
    k.raw = tw_arena_array(&room, columns, 4);
    k.row = tw_arena_array(&room, columns, sizeof *k.row);
    k.q = tw_arena_array(&room, columns, sizeof *k.q);
    k.scales = tw_arena_array(&room, columns / 32 + 2, sizeof *k.scales);
    memset(out->stages, 0, (size_t)k.shape.stages * (size_t)k.stage_bytes);
    const bool ready = !room.failed;
    for (int64_t row = 0; row < (int64_t)k.shape.units * TW_MEGA_ROWS && ready; row++) {
        int which;
        int64_t at;
        out->bias[row] = 0;
        if (!locate(src, row, &which, &at)) continue;
        pack_row(&k, src->buffer, src->weight[which], at, row);
        if (!src->bias[which]) continue;
        tw_weight_read(src->bias[which], at, 0, 1, &out->bias[row]);
        out->has_bias = true;
    }
    tw_arena_free(&room);
    return ready;
}

bool tw_mega_pack(const tw_mega_program *p, const tw_model *m, const tw_instr *in, tw_mega_strip *out) {
    const source src = source_of(p, m, in, 0);
    const packer k = {.p = &p->plan,
                      .f = tw_mega_format_for(&p->plan, in->op),
                      .stages = out->stages,
                      .shape = tw_mega_shape_of(&p->plan, p->s, in),
                      .stage_bytes = tw_mega_stage_bytes(&p->plan, in->op)};
    return pack(k, &src, out);
}

bool tw_mega_pack_expert(const tw_mega_program *p, const tw_model *m, const tw_instr *in, int64_t expert,
                         tw_mega_strip *out) {
    const tw_mega_pool pool = tw_mega_pool_of(&p->plan, p->s, in);
    tw_instr all = *in;
    source src = source_of(p, m, &all, expert);
    all.param[TW_FROM] = 0;
    all.param[TW_TO] = src.buffer->shape[1];
    const packer k = {.p = &pool.plan,
                      .f = &pool.plan.body,
                      .stages = out->stages,
                      .shape = pool.shape,
                      .stage_bytes = pool.stage_bytes};
    return pack(k, &src, out);
}

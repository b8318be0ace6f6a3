/* SPDX-License-Identifier: Apache-2.0 */
/* Packs weights in the order in which a worker's block takes them. */
#include "base/dtype.h"
#include "model/quantize.h"
#include "vm/cuda/machine.h"

#include <stdlib.h>
#include <string.h>

/* An instruction's rows, in the tape's order. */
typedef struct source {
    const tw_instr *in;
    const tw_weight *weight[TW_MAX_MATRICES], *bias[TW_MAX_MATRICES];
    const tw_buffer *buffer;                    /* The first matrix in the schedule. The others have its type. */
    int64_t from, count;                        /* The matrices' first row, and the number of rows. */
    int64_t heads, kv_heads, head_dim, rotated; /* Only for qkv. */
    bool paired;                                /* Units alternate between weight[0] and weight[1]. */
} source;

static void describe(source *src, const tw_mega_program *p, const tw_model *m, const tw_instr *in) {
    const tw_instr_matrices matrices = tw_instr_matrices_of(in);
    *src = (source){.in = in, .from = in->param[TW_FROM], .count = in->param[TW_TO] - in->param[TW_FROM]};
    src->paired = in->op == TW_INSTR_FFN;
    src->buffer = &p->s->buffers[matrices.matrix[0]];
    for (int i = 0; i < matrices.n; i++) {
        src->weight[i] = tw_weight_at(&p->weights, matrices.matrix[i], 0);
        if (matrices.bias[i] >= 0) src->bias[i] = tw_weight_at(&p->weights, matrices.bias[i], 0);
    }
    if (in->op != TW_INSTR_QKV) return;
    src->heads = m->n_heads;
    src->kv_heads = m->n_kv_heads;
    src->head_dim = m->head_dim;
    src->rotated = m->rope.dims;
}

/* Finds the matrix, and the row in it, of a row of the tape. False: the tape's row is behind the last. */
static bool locate(const source *src, int64_t row, int *which, int64_t *at) {
    int64_t unit = row / TW_MEGA_ROWS, i = row;
    *which = 0;
    if (src->paired) {
        *which = (int)(unit % 2);
        i = unit / 2 * TW_MEGA_ROWS + row % TW_MEGA_ROWS;
    }
    if (i >= src->count) return false;
    *at = src->from + i;
    if (src->in->op != TW_INSTR_QKV) return true;
    tw_qkv_row q = tw_qkv_locate(*at, src->heads, src->kv_heads, src->head_dim, src->rotated);
    *which = q.part;
    *at = q.head * src->head_dim + q.row;
    return true;
}

typedef struct packer {
    const tw_mega_plan *p;
    const tw_mega_format *f;
    tw_mega_shape shape;
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

/* Finds the piece that has a unit's columns from piece * depth on. */
static spot find_piece(const packer *k, int64_t unit, int64_t piece) {
    const tw_mega_shape *s = &k->shape;
    const int warps = k->p->tuning.warps, blocks = k->p->tuning.blocks, stages = s->run / blocks, n = k->f->units;
    const int64_t group = unit / s->group_units, first = group * s->group_units;
    const int64_t units = s->units - first < s->group_units ? s->units - first : s->group_units;
    const int64_t of_chunk = (int64_t)warps * s->run, chunk = piece / of_chunk, in_chunk = piece % of_chunk;
    const int64_t warp = in_chunk / s->run, in_run = in_chunk % s->run;
    int64_t stage = group * ((s->group_units + n - 1) / n) * s->chunks * stages;
    stage += (chunk * ((units + n - 1) / n) + (unit - first) / n) * stages + in_run / blocks;
    return (spot){k->stages + stage * k->stage_bytes, warp * blocks + in_run % blocks};
}

/* Computes the address of row r of a piece. */
static unsigned char *place(const packer *k, int64_t unit, int64_t piece, int r) {
    spot at = find_piece(k, unit, piece);
    return at.stage + at.piece * TW_MEGA_PIECE + r * (TW_MEGA_PIECE / TW_MEGA_ROWS);
}

/* Splits a float into a sum of two bf16. */
static void split(float x, uint16_t *high, uint16_t *low) {
    *high = tw_f32_to_bf16(x);
    *low = tw_f32_to_bf16(x - tw_bf16_to_f32(*high));
}

static void put_f32(const packer *k, int64_t unit, int r) {
    const int64_t columns = k->shape.columns;
    for (int64_t c = 0; c < columns; c += 4) {
        uint16_t high[4] = {0}, low[4] = {0};
        for (int64_t i = 0; i < 4 && c + i < columns; i++) split(k->row[c + i], &high[i], &low[i]);
        unsigned char *at = place(k, unit, c / k->f->depth, r) + c % k->f->depth / 4 * 16;
        memcpy(at, high, 8);
        memcpy(at + 8, low, 8);
    }
}

static void put_16(const packer *k, int64_t unit, int r) {
    const int64_t columns = k->shape.columns;
    for (int64_t c = 0; c < columns; c += k->f->depth) {
        int64_t n = columns - c < k->f->depth ? columns - c : k->f->depth;
        memcpy(place(k, unit, c / k->f->depth, r), k->raw + 2 * c, (size_t)(2 * n));
    }
}

/* Returns 0 if a unit has rows g of its pieces, and 1 if it has rows g + 8. */
static int second(const packer *k, int64_t unit) {
    return (int)(unit % k->shape.group_units % 2);
}

/* Lane t has columns 4 t to 4 t + 3 of run s: row g's are bytes 8 s to 8 s + 3, row g + 8's the next four. */
static void put_i8(const packer *k, int64_t unit, int r) {
    for (int64_t c = 0; c < k->shape.columns; c++) {
        const int i = (int)(c % k->f->depth), s = i / 16, t = i % 16 / 4;
        unsigned char *lane = place(k, unit, c / k->f->depth, r) + 16 * t;
        lane[8 * s + 4 * second(k, unit) + i % 4] = (unsigned char)k->q[c];
    }
}

/* Run s of 16 columns is word s of a lane, each column a byte. Row g has lower nibbles, row g + 8 upper ones. */
static void put_i4(const packer *k, int64_t unit, int r) {
    for (int64_t c = 0; c < k->shape.columns; c++) {
        const int i = (int)(c % k->f->depth), s = i / 16, t = i % 16 / 4;
        unsigned char *lane = place(k, unit, c / k->f->depth, r) + 16 * t;
        lane[4 * s + i % 4] |= (unsigned char)((k->q[c] & 15) << 4 * second(k, unit));
    }
}

static unsigned char *behind_pieces(const packer *k, spot at) {
    return at.stage + k->p->tuning.warps * k->p->tuning.blocks * TW_MEGA_PIECE;
}

/* Stores the row's scale in each of its stages, including those behind the last column. */
static void put_row_scale(const packer *k, int64_t unit, int r) {
    for (int64_t c = 0; c < k->shape.chunks * k->shape.chunk_columns; c += k->f->depth)
        memcpy(behind_pieces(k, find_piece(k, unit, c / k->f->depth)) + 4 * (2 * r + second(k, unit)), k->scales, 4);
}

/* Stores the scales of the row's groups. */
static void put_scales(const packer *k, int64_t unit, int r) {
    const tw_mega_format *f = k->f;
    for (int64_t c = 0; c < k->shape.columns; c += f->depth / f->sets) {
        spot at = find_piece(k, unit, c / f->depth);
        unsigned char *to = behind_pieces(k, at);
        const int set = (int)(c % f->depth / (f->depth / f->sets)), blocks = k->p->tuning.blocks;
        const int64_t in_row = at.piece % blocks * f->sets + set;
        const int64_t cell = 2 * (r * blocks * f->sets + in_row) + second(k, unit);
        const float scale = k->scales[c / f->group];
        const uint16_t half = tw_f32_to_f16(scale);
        to += at.piece / blocks * blocks * f->scale_bytes;
        if (f->dtype == TW_I8)
            memcpy(to + 4 * cell, &scale, 4);
        else
            memcpy(to + 2 * cell, &half, 2);
    }
}

/* Packs a row of integers. If the plan's format is floats, the tape has the floats that the integers stand for. */
static void pack_quantised(const packer *k, const tw_buffer *as, int64_t row) {
    const int64_t unit = row / TW_MEGA_ROWS, columns = k->shape.columns;
    const int r = (int)(row % TW_MEGA_ROWS);
    tw_quantise_row(as->dtype, as->group, k->row, columns, k->q, k->scales);
    if (k->f->dtype == TW_F32) {
        for (int64_t c = 0; c < columns; c++) k->row[c] = (float)k->q[c] * k->scales[as->group ? c / as->group : 0];
        put_f32(k, unit, r);
        return;
    }
    if (k->f->dtype == TW_I8)
        put_i8(k, unit, r);
    else
        put_i4(k, unit, r);
    if (k->f->sets)
        put_scales(k, unit, r);
    else
        put_row_scale(k, unit, r);
}

/* Packs row `from` of a weight as row `row` of the tape. `as` is its matrix in the schedule. */
static void pack_row(const packer *k, const tw_buffer *as, const tw_weight *w, int64_t from, int64_t row) {
    const int64_t unit = row / TW_MEGA_ROWS;
    const int r = (int)(row % TW_MEGA_ROWS);
    const bool quantised = as->dtype == TW_I8 || as->dtype == TW_I4;
    if (quantised || k->f->dtype == TW_F32)
        tw_weight_read(w, from, 0, k->shape.columns, k->row);
    else
        tw_weight_read_raw(w, from, 0, k->shape.columns, k->raw);
    if (quantised)
        pack_quantised(k, as, row);
    else if (k->f->dtype == TW_F32)
        put_f32(k, unit, r);
    else
        put_16(k, unit, r);
}

static bool open_packer(packer *k) {
    const size_t columns = (size_t)k->shape.columns;
    k->raw = malloc(columns * 4);
    k->row = malloc(columns * 4);
    k->q = malloc(columns);
    k->scales = malloc((columns / 32 + 2) * 4);
    return k->raw && k->row && k->q && k->scales;
}

static void close_packer(packer *k) {
    free(k->raw);
    free(k->row);
    free(k->q);
    free(k->scales);
}

bool tw_mega_pack(const tw_mega_program *p, const tw_model *m, const tw_instr *in, tw_mega_strip *out) {
    source src;
    describe(&src, p, m, in);
    packer k = {.p = &p->plan,
                .f = tw_mega_format_for(&p->plan, in->op),
                .stages = out->stages,
                .shape = tw_mega_shape_of(&p->plan, p->s, in),
                .stage_bytes = tw_mega_stage_bytes(&p->plan, in->op)};
    memset(out->stages, 0, (size_t)k.shape.stages * (size_t)k.stage_bytes);
    const bool ready = open_packer(&k);
    for (int64_t row = 0; row < (int64_t)k.shape.units * TW_MEGA_ROWS && ready; row++) {
        int which;
        int64_t at;
        out->bias[row] = 0;
        if (!locate(&src, row, &which, &at)) continue;
        pack_row(&k, src.buffer, src.weight[which], at, row);
        if (!src.bias[which]) continue;
        tw_weight_read(src.bias[which], at, 0, 1, &out->bias[row]);
        out->has_bias = true;
    }
    close_packer(&k);
    return ready;
}

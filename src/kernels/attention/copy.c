/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of kernels by mma.sync, whose threads all copy, 16 bytes each (cp.async). A warp copies neighbouring lines of
   a box at once, and the warps of a block a pass of neighbouring lines. Rows behind a sequence's last one arrive as
   zeros.

   With pages each lane knows the rows of some lines that its warp copies, and asks others for those of its own pieces.
 */
#include "base/divide.h"
#include "kernels/attention/generate.h"
#include "kernels/parts/fragment.h"

enum { PIECE = 16 /* Bytes of a copy. */, LANES = 32 };

static int pieces_of(const tw_tile *t) {
    return t->width * t->es / PIECE; /* Of a line. */
}

static int lines_of_warp(const tw_tile *t) {
    return LANES / pieces_of(t);
}

static int lines_of_pass(const tw_attention_gen *g, const tw_tile *t) {
    return g->plan.warps * lines_of_warp(t);
}

static int passes_of(const tw_attention_gen *g, const tw_tile *t) {
    return (t->extent + lines_of_pass(g, t) - 1) / lines_of_pass(g, t);
}

/* The copies of a thread: its line of each pass. */
typedef struct lines {
    tw_val to;                            /* Where the piece of the first pass goes in the tile's first box. */
    tw_val line;                          /* The line of the first pass. */
    tw_val at[TW_ATTENTION_PASSES];       /* The addresses of the pieces of each pass (i64). */
    tw_val is_there[TW_ATTENTION_PASSES]; /* Whether there is such a row. TW_NONE: there is. */
} lines;

/* Issues the copies of a tile. A head's last box may be wider than the head. */
static void copy_lines(tw_attention_gen *g, const tw_tile *t, const lines *x) {
    tw_builder *b = g->b;
    const int pitch = t->width * t->es, pass = lines_of_pass(g, t), bytes = (int)g->p->head * t->es;
    tw_val whole = tw_i32(b, PIECE), nothing = tw_i32(b, 0);
    tw_val along = tw_mul_imm(b, tw_rem(b, g->lane, pieces_of(t)), PIECE);
    for (int j = 0; j < passes_of(g, t); j++)
        for (int k = 0; k < t->boxes; k++) {
            const tw_attrs how = {.bytes = PIECE, .offset = (k * t->lines + j * pass) * pitch, .cache = TW_CACHE_cg};
            tw_val size = x->is_there[j].id ? tw_select(b, x->is_there[j], whole, nothing) : TW_NONE;
            if ((k + 1) * pitch > bytes)
                size = tw_select(b, tw_lt(b, along, tw_i32(b, bytes - k * pitch)), size.id ? size : whole, nothing);
            tw_val from = tw_add_imm(b, x->at[j], (int64_t)k * pitch), is_line = TW_NONE;
            if ((j + 1) * pass > t->extent) is_line = tw_lt(b, x->line, tw_i32(b, t->extent - j * pass));
            if (is_line.id) tw_when(b, is_line);
            tw_cp_async(b, how, x->to, from, size);
        }
}

static lines lines_of(tw_attention_gen *g, const tw_tile *t, tw_val to) {
    tw_builder *b = g->b;
    tw_val of_warp = tw_div(b, g->lane, pieces_of(t)), piece = tw_rem(b, g->lane, pieces_of(t));
    lines x = {.line = tw_add(b, tw_mul_imm(b, g->warp, lines_of_warp(t)), of_warp)};
    x.to = tw_add(b, to, tw_tile_piece(b, t, x.line, piece));
    return x;
}

void tw_attention_copy_queries(tw_attention_gen *g, const tw_attention_tile *tile) {
    tw_builder *b = g->b;
    const tw_tile *t = &g->plan.q;
    lines x = lines_of(g, t, g->shared);
    tw_val from = tw_add(b, g->arg.q, tw_widen(b, tw_mul_imm(b, tw_rem(b, g->lane, pieces_of(t)), PIECE)));
    if (!g->p->ragged)
        from = tw_add(b, from, tw_mul_imm(b, tw_widen(b, tile->sequence), g->p->queries * g->p->ldq * t->es));
    for (int j = 0; j < passes_of(g, t); j++) {
        tw_val line = tw_add_imm(b, x.line, (int64_t)j * lines_of_pass(g, t));
        const tw_attention_row row = tw_attention_row_of(g, tile, line);
        tw_val offset = tw_add(b, tw_mul_imm(b, tw_widen(b, row.query), g->p->ldq * t->es),
                               tw_widen(b, tw_mul_imm(b, row.head, g->p->head * t->es)));
        x.at[j] = tw_add(b, from, offset);
        x.is_there[j] = tw_lt(b, row.query, tile->end);
    }
    copy_lines(g, t, &x);
}

/* Rows with which a lane's pages are looked up. */
static int rows_of_lane(const tw_attention_gen *g) {
    const tw_tile *t = &g->plan.k;
    return (passes_of(g, t) * lines_of_warp(t) + LANES - 1) / LANES;
}

tw_attention_source tw_attention_source_of(tw_attention_gen *g, const tw_attention_tile *tile) {
    tw_builder *b = g->b;
    const tw_attention_problem *p = g->p;
    const int es = g->plan.k.es;
    tw_val head = tw_div(b, tile->head, g->plan.heads / (int)p->kv_heads), row = tw_i64(b, 0);
    tw_attention_source s = {.tile = tile};
    if (p->capacity)
        row = tw_mul_imm(b, tw_widen(b, tw_add(b, tw_mul_imm(b, tile->sequence, p->kv_heads), head)), p->capacity);
    else if (p->ragged && !p->page)
        row = tw_widen(b, tile->base);
    else if (!p->page)
        row = tw_mul_imm(b, tw_widen(b, tile->sequence), p->keys);
    tw_val offset = tw_mul_imm(b, row, p->ldk * es);
    if (!p->capacity) offset = tw_add(b, offset, tw_widen(b, tw_mul_imm(b, head, p->head * es)));
    offset = tw_add(b, offset, tw_widen(b, tw_mul_imm(b, tw_rem(b, g->lane, pieces_of(&g->plan.k)), PIECE)));
    s.offset = offset;
    for (int i = 0; p->page && i < rows_of_lane(g); i++) s.rows[i] = tw_var_of(b, tw_i32(b, 0));
    return s;
}

/* Line n of those that a warp copies is line n % lines of pass n / lines. */
void tw_attention_look_up(tw_attention_gen *g, const tw_attention_source *s, tw_val block) {
    tw_builder *b = g->b;
    if (!g->p->page) return;
    const int warp = lines_of_warp(&g->plan.k), pass = lines_of_pass(g, &g->plan.k);
    tw_val first = tw_add(b, tw_mul_imm(b, block, g->c->columns), tw_mul_imm(b, g->warp, warp));
    tw_val own = tw_add(b, tw_mul_imm(b, tw_div(b, g->lane, warp), pass), tw_rem(b, g->lane, warp));
    tw_val last = tw_attention_last_key(g, s->tile);
    for (int i = 0; i < rows_of_lane(g); i++) {
        tw_val key = tw_add(b, first, tw_add_imm(b, own, (int64_t)i * (LANES / warp) * pass));
        tw_assign(b, s->rows[i], tw_attention_row_in_pool(g, s->tile, key, last));
    }
}

void tw_attention_copy_block(tw_attention_gen *g, const tw_attention_source *s, bool values, tw_val block, tw_val stage,
                             bool last) {
    tw_builder *b = g->b;
    const tw_tile *t = &g->plan.k; /* That of values is as wide and as long. */
    const int warp = lines_of_warp(t), pass = lines_of_pass(g, t);
    const int64_t row_bytes = g->p->ldk * t->es;
    tw_val from = tw_add(b, values ? g->arg.v : g->arg.k, s->offset), size = tw_i32(b, (int)row_bytes);
    lines x = lines_of(g, t, tw_add(b, tw_add_imm(b, g->shared, values ? g->values.first : g->keys.first), stage));
    tw_val row = tw_add(b, tw_mul_imm(b, block, g->c->columns), x.line);
    tw_val first = g->p->page ? TW_NONE : tw_op_emit(b, TW_OP_mad_wide_s32, row, size, from);
    tw_val of_warp = tw_div(b, g->lane, pieces_of(t));
    for (int j = 0; j < passes_of(g, t); j++) {
        if (g->p->page) {
            const int n = j * warp;
            tw_val lane = tw_add_imm(b, of_warp, n % LANES);
            tw_val in_pool = tw_shfl(b, TW_MODE_idx, s->rows[n / LANES], lane, tw_i32(b, -1));
            x.at[j] = tw_op_emit(b, TW_OP_mad_wide_s32, in_pool, size, from);
        } else {
            x.at[j] = tw_add_imm(b, first, j * pass * row_bytes);
        }
        if (last) x.is_there[j] = tw_lt(b, tw_add_imm(b, row, (int64_t)j * pass), s->tile->keys);
    }
    copy_lines(g, t, &x);
}

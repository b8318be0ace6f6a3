/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of C through boxes in shared memory. Each warp leaves the 16 rows that it has of every 64 in boxes of up to 64
   columns, and has the copy engine store them while it goes on. A warp has two boxes: one is filled while the other is
   read. No warp waits for another.

   The copy engine stores rows that are aligned to 16 bytes. Other rows are stored by the warp's lanes, each as many
   bytes as rows are aligned to: neighbouring lanes store neighbouring bytes, so that memory gets whole runs of them.
   Without boxes a store's pieces would be as small, and those of neighbouring columns would come from several
   instructions.

   A load behind a tile's products, or behind a box's store, would wait for memory where a tile has no other work. So
   what cells are combined with is loaded ahead, in patches of 16 rows of 16 columns: as many as there are registers for
   before the tile is multiplied, and others as sums are done with, whose registers they take. */
#include "kernels/gemm/epilogue.h"
#include "kernels/parts/convert.h"

enum {
    ROWS = 16,  /* Rows of a box. */
    BOXES = 2,  /* Boxes of a warp. */
    MATRIX = 8, /* Rows of a stmatrix, and sums that a thread has of a patch. */
    WIDE = TW_GEMM_PATCH,
    COUPLES = TW_GEMM_COUPLES
};

/* Returns the columns of a box: the most that divide a tile's columns. */
static int box_columns(int columns) {
    int width = TW_TILE_LINE / 2;
    while (width > ROWS && columns % width) width /= 2;
    return width;
}

static int box_bytes(int columns) {
    return ROWS * box_columns(columns) * 2;
}

int tw_gemm_boxed_bytes(const tw_gemm_config *c, bool gated) {
    return c->ml / c->ms * 4 * BOXES * box_bytes(tw_gemm_stored_columns(c, gated));
}

bool tw_gemm_boxes_sent(const tw_gemm_variant *v) {
    return v->vec_c >= 16;
}

tw_tensor_map tw_gemm_box_map(const tw_gemm_matrix *m, uint64_t address, int stored_columns, const tw_gemm_variant *v) {
    const int columns = box_columns(stored_columns);
    return (tw_tensor_map){.address = address,
                           .element = TW_TENSOR_U16,
                           .dims = v->sets      ? 4
                                   : v->batched ? 3
                                                : 2,
                           .extent = {m->columns, m->rows, m->count, m->sets},
                           .stride = {0, m->ld * 2, m->stride * 2, m->apart * 2},
                           .box = {columns, ROWS, 1, 1},
                           .swizzle = columns * 2};
}

static void wait_for_stores(tw_gemm_gen *g, int pending, bool read) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_do(b, TW_OP_bulk_wait, (tw_attrs){.count = pending, .read = read}, TW_NONE, TW_NONE);
}

void tw_gemm_boxed_end(tw_gemm_gen *g) {
    if (tw_gemm_boxes_sent(g->v)) wait_for_stores(g, 0, false);
}

/* Computes the swizzle of a line: its piece i of 16 bytes lies at i ^ swizzle. `line` is the bytes from the
   box to the line, of which each has `pieces`. */
static tw_val swizzle_of(tw_builder *b, tw_val line, int pieces) {
    return tw_rem(b, tw_div(b, line, 128), pieces);
}

/* The place of a lane's row of a stmatrix. */
typedef struct place {
    tw_val row;     /* Bytes from a box to the lane's row (i32). */
    tw_val piece;   /* The lane's piece within 16 columns: 0 or 1. */
    tw_val swizzle; /* swizzle_of the lane's row. */
} place;

/* A stmatrix stores four matrices of 8 by 8: the upper and the lower rows of eight columns, then those of the next
   eight. A lane names a row of one of them. */
static place place_of(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int pitch = box_columns(g->columns) * 2;
    tw_val row = tw_rem(b, g->lane, 2 * MATRIX), line = tw_mul_imm(b, row, pitch);
    return (place){.row = line, .piece = tw_shr(b, g->lane, 4), .swizzle = swizzle_of(b, line, pitch / 16)};
}

/* Returns the number of runs of two neighbouring cells. */
static int runs_of(const tw_gemm_gen *g) {
    return g->v->vec_c < 4 ? 2 : 1;
}

/* Finds run i of two neighbouring cells. The cells are one run, or two if rows are aligned to single elements. */
static tw_gemm_run run_of(const tw_gemm_gen *g, int cell, int i) {
    return (tw_gemm_run){.cells = {cell + i, cell + 1}, .n = runs_of(g) == 2 ? 1 : 2, .offset = g->y.of[cell + i] * 2};
}

static void fetch_couple(tw_gemm_gen *g, const tw_gemm_cells *of, int cell, tw_gemm_others *raw) {
    for (int i = 0; i < runs_of(g); i++) {
        tw_val inside;
        const tw_gemm_line l = tw_gemm_line_of(g, of, cell + i, &inside);
        tw_gemm_run r = run_of(g, cell, i);
        r.inside = tw_gemm_inside(g, of, cell + i, inside);
        tw_gemm_cells_fetch(g, &l, &r, &raw[i]);
    }
}

static void compute_couple(tw_gemm_gen *g, int cell, const tw_gemm_others *raw, tw_val *x) {
    tw_gemm_line l = {0};
    tw_gemm_line_norm(g, g->x.of[cell], &l);
    for (int i = 0; i < runs_of(g); i++) {
        tw_val y[TW_GEMM_RUN];
        tw_gemm_others others;
        const tw_gemm_run r = run_of(g, cell, i);
        tw_gemm_cells_widen(g, &r, &raw[i], &others);
        tw_gemm_cells_compute(g, &l, &r, &others, y);
        for (int k = 0; k < r.n; k++) x[i + k] = y[k];
    }
}

/* Fetches the next patch. A thread has four couples of it: in each half of its columns an upper and a lower row. */
static void fetch_patch(tw_gemm_gen *g, const tw_gemm_cells *of, tw_gemm_ahead *q) {
    tw_gemm_others(*raw)[2] = q->of[q->fetched].couple;
    for (int i = 0; i < COUPLES; i++) fetch_couple(g, of, q->fetched * MATRIX + 2 * i, raw[i]);
    q->fetched++;
}

/* Registers of a patch's operands. Couples of the same columns share a bias. */
static int registers_of_patch(const tw_gemm_gen *g) {
    const tw_gemm_epilogue *e = &g->v->epilogue;
    return COUPLES * (g->v->beta + e->mul + e->residual) + COUPLES / 2 * (e->bias + g->v->norm_residual);
}

/* Returns the number of blocks that share the registers of an SM, two at most: a third block hides no further latency.
   A persistent block has the SM to itself, unless the configuration says otherwise. */
static int blocks_of(const tw_gemm_gen *g) {
    const int held = g->c->persistent ? 1 : g->plan.blocks < 2 ? g->plan.blocks : 2;
    return g->c->blocks > held ? g->c->blocks : held;
}

/* Registers that a thread has beside its sums. */
static int registers_left(const tw_gemm_gen *g) {
    enum {
        MOST = 168,    /* Registers of a thread where two warpgroups and a producer share an SM. */
        QUARTER = 512, /* Registers that a quarter of an SM has for each lane. */
        UNIT = 8       /* Registers are allocated in multiples of it. */
    };
    const int warps = g->plan.threads / 32 * blocks_of(g);
    const int of_quarter = QUARTER / ((warps + 3) / 4) / UNIT * UNIT, all = of_quarter < MOST ? of_quarter : MOST;
    return (g->plan.consumer_registers ? g->plan.consumer_registers : all) - g->plan.accumulators - g->plan.partial;
}

/* Fetches patches until `most` are fetched. */
static void fetch_until(tw_gemm_gen *g, const tw_gemm_cells *of, int most) {
    while (g->ahead->fetched < g->ahead->all && g->ahead->fetched < most) fetch_patch(g, of, g->ahead);
}

/* Fetches patches behind the first `done`, as many as there are registers for. A patch that is done frees its
   registers. In a persistent block it does not: ptxas keeps the registers of sums for the next tile. */
static void fetch_ahead(tw_gemm_gen *g, const tw_gemm_cells *of, int done) {
    enum { OTHERS = 24 /* Registers of addresses and the like. */ };
    const tw_gemm_epilogue *e = &g->v->epilogue;
    const int rows = g->c->ms / TW_WGMMA_ROWS * 2, of_rows = (e->squares + e->means + 2 * g->v->norm_residual) * rows;
    const int most = box_columns(g->columns) / WIDE, left = registers_left(g) - OTHERS - of_rows,
              each = registers_of_patch(g);
    const int fit = each ? (left + (g->c->persistent ? 0 : MATRIX) * done) / each : most;
    fetch_until(g, of, done + (fit < 1 ? 1 : fit < most ? fit : most));
}

void tw_gemm_boxed_begin(tw_gemm_gen *g, tw_gemm_ahead *ahead) {
    enum {
        OTHERS = 40, /* Registers of the loop over stages. */
        TILES = 8,   /* Registers of the loop over tiles. */
        TERMS = 32,  /* Registers of the terms of a thread's elements of X. */
        NORM = 24    /* Registers of a residual's norm. */
    };
    const int rows = g->c->ms / TW_WGMMA_ROWS, each = registers_of_patch(g);
    const int others = OTHERS + (g->c->persistent ? TILES : 0) + (g->plan.splitters ? TERMS : 0) +
                       (g->v->norm_residual ? NORM : 0) + tw_gemm_sums_registers(g);
    g->ahead = ahead;
    ahead->fetched = 0;
    ahead->all = rows * g->columns / WIDE;
    /* With splits and streams another block may finish the sums. With groups and gates the cells are not known yet. */
    if (!each || g->c->kg > 1 || g->c->stream || g->v->grouped || g->v->epilogue.gated) return;
    const tw_gemm_cells of = tw_gemm_cells_of(g);
    fetch_until(g, &of, (registers_left(g) - others) / each);
}

/* Leaves a patch in the box, from a column of it on. */
static void put(tw_gemm_gen *g, int patch, const place *at, tw_val box, int column) {
    tw_builder *b = g->b;
    const tw_type pair = g->v->out == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    tw_val values[1 + COUPLES], x[2];
    for (int couple = 0; couple < COUPLES; couple++) {
        const int cell = patch * MATRIX + 2 * couple;
        compute_couple(g, cell, g->ahead->of[patch].couple[couple], x);
        tw_val rounded = tw_part_pair(b, pair, x[0], x[1]);
        values[1 + couple] = tw_bitcast(b, TW_T_i32, rounded);
        for (int i = 0; i < 2 && g->v->epilogue.squares; i++)
            tw_gemm_squares_add(g, cell + i, g->v->epilogue.means ? x[i] : tw_part_half(b, pair, rounded, i));
    }
    tw_val piece = tw_xor(b, tw_add_imm(b, at->piece, column / 8), at->swizzle);
    values[0] = tw_add(b, box, tw_add(b, at->row, tw_shl(b, piece, 4)));
    tw_emit(b, TW_OP_stmatrix, (tw_attrs){.vec = 4}, NULL, NULL, 0, values, 1 + COUPLES);
}

/* Stores a box from a warp's lanes instead of the copy engine: those of its cells that are within C, or within the
   group. A lane copies pieces of `wide` bytes. A warp's 32 pieces are a part of one row, or several whole rows. A lane
   loads a few pieces before it stores the first of them, so that it waits for shared memory once for all of these. */
static void copy(tw_gemm_gen *g, tw_val box, tw_val row, tw_val column) {
    enum { LOADED = 8 /* Words. */ };
    tw_builder *b = g->b;
    const int wide = g->v->vec_c, pitch = box_columns(g->columns) * 2, pieces = pitch / wide,
              lines = pieces < 32 ? 32 / pieces : 1, words = wide < 4 ? 1 : wide / 4;
    const tw_type type = wide == 2 ? g->v->out : TW_T_i32;
    const tw_attrs from = {.type = type, .vec = words, .space = TW_SPACE_shared};
    tw_val line = lines > 1 ? tw_div(b, g->lane, pieces) : tw_i32(b, 0);
    tw_val of_row = tw_mul_imm(b, tw_rem(b, g->lane, pieces < 32 ? pieces : 32), wide);
    tw_val first = tw_add(b, row, line), ldc = tw_mul_imm(b, g->arg.ldc, lines);
    tw_val at = tw_add(b, tw_mul(b, tw_widen(b, first), g->arg.ldc), tw_mul_imm(b, tw_widen(b, column), 2));
    if (g->v->batched) at = tw_add(b, at, tw_gemm_batch_offset(g, g->arg.stride_c, g->arg.set_c));
    at = tw_add(b, tw_add(b, g->arg.c, at), tw_widen(b, of_row));
    tw_val c = tw_add(b, column, tw_shr(b, of_row, 1));
    const int along = pieces > 32 ? pieces / 32 : 1, all = ROWS / lines * along; /* Pieces of a lane. */
    for (int piece = 0; piece < all; piece += LOADED / words) {
        tw_val x[LOADED][4] = {{{0}}};
        for (int i = piece; i < all && i < piece + LOADED / words; i++) {
            tw_val of_box = tw_mul_imm(b, tw_add_imm(b, line, i / along * lines), pitch);
            tw_val swizzle = tw_shl(b, swizzle_of(b, of_box, pitch / 16), 4);
            tw_val swizzled = tw_xor(b, tw_add_imm(b, of_row, i % along * 32 * wide), swizzle);
            tw_ld_vec(b, from, tw_add(b, box, tw_add(b, of_box, swizzled)), x[i - piece]);
        }
        for (int i = piece; i < all && i < piece + LOADED / words; i++) {
            const int aside = i % along * 32 * wide;
            tw_val inside = tw_lt(b, tw_add_imm(b, first, i / along * lines), g->x.limit);
            tw_when(b, tw_and(b, inside, tw_lt(b, tw_add_imm(b, c, aside / 2), g->y.limit)));
            tw_st(b, (tw_attrs){.type = type, .vec = words, .offset = aside}, at, x[i - piece]);
            if (i % along == along - 1) at = tw_add(b, at, ldc);
        }
    }
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
}

/* Stores a box whose first column is `column` of the tile, and whose first row is the warp's first one plus `row`. */
static void store_box(tw_gemm_gen *g, tw_val box, int row, int column) {
    tw_builder *b = g->b;
    const tw_attrs at = {.dims = g->v->sets ? 4 : g->v->batched ? 3 : 2};
    tw_val first = tw_sub(b, g->x.first, tw_shr(b, g->lane, 2)); /* The warp's first row in the tile. */
    const tw_box to = {.map = g->arg.map_c,
                       .at = {tw_add_imm(b, g->y.origin, column), tw_add(b, g->x.origin, tw_add_imm(b, first, row)),
                              g->batch, g->set}};
    if (!tw_gemm_boxes_sent(g->v)) {
        tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
        copy(g, box, to.at[1], to.at[0]);
        return;
    }
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_scope partial = TW_NO_BLOCK;
    if (g->v->grouped) {
        /* Rows behind the end of a group belong to the next group. */
        partial = tw_push_if(b, tw_lt(b, g->x.limit, tw_add_imm(b, to.at[1], ROWS)));
        copy(g, box, to.at[1], to.at[0]);
        tw_push_else(b, partial);
    }
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_tensor_store(b, at, &to, box, TW_NONE);
    if (g->v->grouped) tw_pop(b, partial);
    /* Each box is a group of stores, which is empty if lanes copied the box. */
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_do(b, TW_OP_bulk_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

void tw_gemm_boxed_store(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_record_begin(b, "store", TW_ENGINE_OF_memory);
    const int columns = box_columns(g->columns), bytes = box_bytes(g->columns), patches = columns / WIDE;
    const tw_gemm_cells of = tw_gemm_cells_of(g);
    const place at = place_of(g);
    tw_val boxes = tw_add(b, tw_gemm_exchange(g), tw_mul_imm(b, g->warp, (int64_t)BOXES * bytes));
    const int across = g->columns / columns, all = g->c->ms / TW_WGMMA_ROWS * across, ready = g->ahead->fetched;
    tw_gemm_squares_begin(g);
    fetch_ahead(g, &of, 0);
    for (int n = 0; n < all; n++) {
        tw_val box = tw_add_imm(b, boxes, (int64_t)(n % BOXES) * bytes);
        /* Every tile begins with the warp's first box. If a tile has an odd number of boxes, that is also the one it
           ended with. */
        if (tw_gemm_boxes_sent(g->v)) wait_for_stores(g, n || all % BOXES == 0 ? BOXES - 1 : 0, true);
        tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
        for (int i = 0; i < patches; i++) {
            put(g, n * patches + i, &at, box, i * WIDE);
            fetch_ahead(g, &of, n * patches + i + 1);
        }
        store_box(g, box, n / across * TW_WGMMA_ROWS, n % across * columns);
    }
    g->ahead->fetched = ready; /* Code that stores the same sums elsewhere fetches the rest itself. */
    tw_gemm_squares_end(g);
    tw_record_end(b, "store");
}

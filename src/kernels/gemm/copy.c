/* SPDX-License-Identifier: Apache-2.0 */
/* Copies tiles from global to shared memory. Elements out of bounds arrive as zeros. A thread's copies are `threads`
   apart in the tile's order. In a regular tile their addresses differ by constants. */
#include "kernels/gemm/generate.h"

/* Finds the row, the first element and the shared address of copy j. Copies are numbered along `width` elements of a
   row, then down the rows, and then along the next `width` elements of each row. */
static void find_copy(tw_gemm_gen *g, tw_gemm_operand *o, int j, tw_val shared) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    tw_val index = tw_add_imm(b, g->tid, (int64_t)j * g->plan.threads), outer = tw_div(b, index, t->per_row);
    tw_val inner = tw_mul_imm(b, tw_rem(b, index, t->per_row), t->vec / t->es);
    if (t->width != t->inner) {
        tw_val row = outer;
        outer = tw_rem(b, row, t->outer);
        inner = tw_add(b, inner, tw_mul_imm(b, tw_div(b, row, t->outer), t->width));
    }
    /* A tile in shared memory has the order of global memory, or is transposed element by element. */
    tw_val across = tw_mul_imm(b, t->transposed ? inner : outer, t->pitch);
    tw_val along = tw_mul_imm(b, t->transposed ? outer : inner, t->es);
    o->to[j] = tw_add(b, shared, tw_add(b, across, along));
    o->outer[j] = outer;
    o->inner[j] = inner;
}

static void find_copies(tw_gemm_gen *g, tw_gemm_operand *o, tw_val shared) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    /* Rows from a thread's copy to its next copy in a regular tile. */
    const int threads = g->plan.threads, apart = threads / t->per_row;
    o->regular = t->per_thread == 1 || (threads % t->per_row == 0 &&
                                        (t->width == t->inner || t->outer % apart == 0 || apart % t->outer == 0));
    for (int j = 0; j < t->per_thread; j++) {
        if (j && o->regular) {
            const int rows = j * apart % t->outer, elements = j * apart / t->outer * t->width;
            o->rows[j] = rows;
            o->elements[j] = elements;
            o->outer[j] = tw_add_imm(b, o->outer[0], rows);
            o->inner[j] = tw_add_imm(b, o->inner[0], elements);
            o->to[j] = o->to[0];
            o->to_offset[j] = t->transposed ? rows * t->es + elements * t->pitch : rows * t->pitch;
        } else {
            find_copy(g, o, j, shared);
        }
    }
}

void tw_gemm_copy_prepare(tw_gemm_gen *g, tw_gemm_operand *o, int shared_offset) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    const int threads = g->plan.threads;
    find_copies(g, o, tw_add_imm(b, g->shared, shared_offset));
    if (t->total % threads) {
        tw_val last = tw_add_imm(b, g->tid, (int64_t)(t->per_thread - 1) * threads);
        o->last = tw_lt(b, last, tw_i32(b, t->total));
    }
    /* Bounds along rows do not change from stage to stage. */
    for (int j = 0; j < t->per_thread && !o->whole; j++) {
        bool again = j && o->regular && (t->k_major ? o->rows[j] == 0 : o->elements[j] == 0);
        tw_val at = tw_add(b, o->origin, t->k_major ? o->outer[j] : o->inner[j]);
        o->inside[j] = again ? o->inside[0] : tw_lt(b, at, o->limit);
    }
    /* The address of the first copy. In a k-major matrix k runs along the rows. */
    tw_val first_outer = tw_add(b, t->k_major ? o->origin : g->k_begin, o->outer[0]);
    tw_val first_inner = tw_add(b, t->k_major ? g->k_begin : o->origin, o->inner[0]);
    tw_val rows = tw_mul(b, tw_widen(b, first_outer), o->ld), columns = tw_mul_imm(b, tw_widen(b, first_inner), t->es);
    o->pointer = tw_var_of(b, tw_add(b, o->matrix, tw_add(b, rows, columns)));
    o->advance = t->k_major ? tw_i64(b, (int64_t)g->c->u * t->es) : tw_mul_imm(b, o->ld, g->c->u);
    if (o->regular) {
        if (o->rows[1]) o->step = tw_mul_imm(b, o->ld, o->rows[1]);
        return;
    }
    for (int j = 1; j < t->per_thread; j++) {
        rows = tw_widen(b, tw_sub(b, o->outer[j], o->outer[0]));
        columns = tw_widen(b, tw_sub(b, o->inner[j], o->inner[0]));
        rows = tw_mul(b, rows, o->ld);
        o->offset[j] = tw_add(b, rows, tw_mul_imm(b, columns, t->es));
    }
}

/* Computes the global address of copy j. Copy j - 1 must have been computed before. */
static tw_val source(tw_gemm_gen *g, tw_gemm_operand *o, int j) {
    tw_builder *b = g->b;
    if (!j) return o->row = o->pointer;
    if (!o->regular) return tw_add(b, o->pointer, o->offset[j]);
    /* Copies go down the rows, and then begin at the first row again, with its next elements. */
    o->row = o->rows[j] ? tw_add(b, o->row, o->step) : o->pointer;
    return tw_add_imm(b, o->row, (int64_t)o->elements[j] * o->tile->es);
}

static tw_val both(tw_builder *b, tw_val p, tw_val q) {
    return !p.id ? q : !q.id ? p : tw_and(b, p, q);
}

/* Returns the type and number of registers that hold a copy. */
static tw_attrs carrier(const tw_gemm_tile *t) {
    if (t->transposed && t->es == 8) return (tw_attrs){.type = TW_T_f64, .vec = t->vec / 8};
    return (tw_attrs){.type = t->vec == 1 ? TW_T_i8 : t->vec == 2 ? TW_T_i16 : TW_T_i32, .vec = t->vec / 4};
}

/* Part `part` of `parts` of the next stage's copies. */
typedef struct batch {
    tw_val stage;    /* Destination of asynchronous copies. TW_NONE: copies go to registers. */
    tw_val more;     /* Predicate of asynchronous copies. TW_NONE: true. */
    int part, parts; /* The part's number, from 0, and the number of parts. */
} batch;

static void move(tw_gemm_gen *g, tw_gemm_operand *o, const batch *x, bool check_k) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    const int from = x->part * t->per_thread / x->parts, below = (x->part + 1) * t->per_thread / x->parts;
    tw_val base = x->stage.id ? tw_add(b, o->to[0], x->stage) : TW_NONE;
    for (int j = from; j < below; j++) {
        /* A copy is within bounds as a whole or not at all. */
        tw_val at = source(g, o, j), inside = o->inside[j], last = j == t->per_thread - 1 ? o->last : TW_NONE;
        if (check_k) {
            tw_val k = tw_add(b, g->k_position, t->k_major ? o->inner[j] : o->outer[j]);
            inside = both(b, inside, tw_lt(b, k, g->k_end));
        }
        if (x->stage.id) {
            tw_val bytes = inside.id ? tw_select(b, inside, tw_i32(b, t->vec), tw_i32(b, 0)) : TW_NONE;
            if (j && !o->regular) base = tw_add(b, o->to[j], x->stage);
            tw_val when = both(b, x->more, last);
            if (when.id) tw_when(b, when);
            tw_attrs how = {.bytes = t->vec, .offset = o->to_offset[j], .cache = t->vec == 16 ? TW_CACHE_cg : 0};
            tw_cp_async(b, how, base, at, bytes);
        } else {
            tw_attrs how = carrier(t);
            how.cache = TW_CACHE_nc;
            inside = both(b, inside, last);
            if (inside.id) tw_when(b, inside);
            tw_ld_vec(b, how, at, o->held[j]);
        }
    }
}

static void move_both(tw_gemm_gen *g, const batch *x, bool check_k) {
    move(g, &g->x, x, check_k);
    move(g, &g->y, x, check_k);
}

/* Only the stage that reaches beyond the block's part of k checks k. */
static void move_stage(tw_gemm_gen *g, const batch *x) {
    tw_builder *b = g->b;
    if (g->v->whole_k) {
        move_both(g, x, false);
        return;
    }
    TW_IF (b, tw_le(b, tw_add_imm(b, g->k_position, g->c->u), g->k_end)) {
        move_both(g, x, false);
    } else {
        move_both(g, x, true);
    }
}

void tw_gemm_copy_issue(tw_gemm_gen *g, tw_val stage, tw_val more, int part, int parts) {
    move_stage(g, &(batch){stage, more, part, parts});
}

void tw_gemm_copy_between(tw_gemm_gen *g, int step, int steps) {
    if (g->next_stage.id) tw_gemm_copy_issue(g, g->next_stage, g->more, step, steps);
}

void tw_gemm_copy_load(tw_gemm_gen *g) {
    move_stage(g, &(batch){.parts = 1});
}

void tw_gemm_copy_advance(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_add_to(b, g->x.pointer, g->x.advance);
    tw_add_to(b, g->y.pointer, g->y.advance);
    if (!g->v->whole_k) tw_add_to(b, g->k_position, tw_i32(b, g->c->u));
}

void tw_gemm_copy_declare(tw_gemm_gen *g) {
    for (int side = 0; side < 2; side++) {
        tw_gemm_operand *o = side ? &g->y : &g->x;
        const tw_attrs at = carrier(o->tile);
        for (int j = 0; j < o->tile->per_thread; j++)
            for (int i = 0; i < (at.vec ? at.vec : 1); i++)
                o->held[j][i] = tw_var_of(g->b, tw_zero(g->b, tw_type_register((tw_type)at.type)));
    }
}

static void store(tw_gemm_gen *g, const tw_gemm_operand *o, tw_val stage) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    tw_attrs how = carrier(t);
    how.space = TW_SPACE_shared;
    const int pieces = t->transposed && how.vec > 1 ? how.vec : 1;
    if (pieces > 1) how.vec = 1;
    for (int j = 0; j < t->per_thread; j++) {
        tw_val to = tw_add(b, o->to[j], stage);
        /* The elements of a transposed copy go to separate rows. */
        for (int e = 0; e < pieces; e++) {
            if (j == t->per_thread - 1 && o->last.id) tw_when(b, o->last);
            how.offset = o->to_offset[j] + e * t->pitch;
            tw_st(b, how, to, &o->held[j][e]);
        }
    }
}

void tw_gemm_copy_store(tw_gemm_gen *g, tw_val stage) {
    store(g, &g->x, stage);
    store(g, &g->y, stage);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies tiles from global to shared memory. Elements out of bounds arrive as zeros. A thread's copies are `threads`
   apart in the tile's order. In a regular tile their addresses differ by constants. */
#include "kernels/gemm/generate.h"

static int chunk_of(const tw_gemm_tile *t) {
    return t->vec / t->es;
}

/* Computes the shared address of the element at (outer, inner) of a tile. */
static tw_val place(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val outer, tw_val inner, tw_val shared) {
    tw_builder *b = g->b;
    /* A tile keeps its order in global memory, or is transposed element by element. */
    bool same = !t->transposed;
    tw_val row = tw_mul_imm(b, same ? outer : inner, t->pitch);
    tw_val column = tw_mul_imm(b, same ? inner : outer, t->es);
    return tw_add(b, shared, tw_add(b, row, column));
}

/* Finds the row and the first element of a copy. Copies are numbered along `width` elements of a row, then down the
   rows, and then along the next `width` elements of each row. */
static void find_copy(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val index, tw_val *outer, tw_val *inner) {
    tw_builder *b = g->b;
    tw_val row = tw_div(b, index, t->per_row);
    *inner = tw_mul_imm(b, tw_rem(b, index, t->per_row), chunk_of(t));
    *outer = row;
    if (t->width == t->inner) return;
    *outer = tw_rem(b, row, t->outer);
    *inner = tw_add(b, *inner, tw_mul_imm(b, tw_div(b, row, t->outer), t->width));
}

/* Tells whether copy j is a constant number of rows and elements behind the thread's first, and finds both numbers. */
static bool constant_distance(const tw_gemm_tile *t, int threads, int j, int *rows, int *elements) {
    const int apart = threads / t->per_row;
    *rows = *elements = 0;
    if (!j) return true;
    if (threads % t->per_row) return false;
    if (t->width == t->inner) {
        *rows = j * apart;
        return true;
    }
    if (t->outer % apart && apart % t->outer) return false;
    *rows = j * apart % t->outer;
    *elements = j * apart / t->outer * t->width;
    return true;
}

static void find_copies(tw_gemm_gen *g, tw_gemm_operand *o, tw_val shared) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    const int threads = g->plan.threads;
    o->regular = true;
    for (int j = 0; j < t->per_thread; j++)
        o->regular &= constant_distance(t, threads, j, &o->rows[j], &o->elements[j]);
    find_copy(g, t, g->tid, &o->outer[0], &o->inner[0]);
    o->to[0] = place(g, t, o->outer[0], o->inner[0], shared);
    o->to_offset[0] = 0;
    for (int j = 1; j < t->per_thread; j++) {
        if (o->regular) {
            bool same = !t->transposed;
            o->outer[j] = tw_add_imm(b, o->outer[0], o->rows[j]);
            o->inner[j] = tw_add_imm(b, o->inner[0], o->elements[j]);
            o->to[j] = o->to[0];
            o->to_offset[j] = same ? o->rows[j] * t->pitch : o->rows[j] * t->es + o->elements[j] * t->pitch;
            if (o->rows[j] && (!o->step_rows || o->rows[j] < o->step_rows)) o->step_rows = o->rows[j];
        } else {
            find_copy(g, t, tw_add_imm(b, g->tid, (int64_t)j * threads), &o->outer[j], &o->inner[j]);
            o->to[j] = place(g, t, o->outer[j], o->inner[j], shared);
            o->to_offset[j] = 0;
        }
    }
}

void tw_gemm_copy_prepare(tw_gemm_gen *g, tw_gemm_operand *o, const tw_gemm_tile *t, tw_val matrix, tw_val k_begin,
                          int shared_offset) {
    tw_builder *b = g->b;
    const int threads = g->plan.threads;
    o->tile = t;
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
    tw_val first_outer = tw_add(b, t->k_major ? o->origin : k_begin, o->outer[0]);
    tw_val first_inner = tw_add(b, t->k_major ? k_begin : o->origin, o->inner[0]);
    tw_val rows = tw_mul(b, tw_widen(b, first_outer), o->ld), columns = tw_mul_imm(b, tw_widen(b, first_inner), t->es);
    o->pointer = tw_var_of(b, tw_add(b, matrix, tw_add(b, rows, columns)));
    o->advance = t->k_major ? tw_i64(b, (int64_t)g->c->u * t->es) : tw_mul_imm(b, o->ld, g->c->u);
    if (o->regular) {
        if (o->step_rows) o->step = tw_mul_imm(b, o->ld, o->step_rows);
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
    if (o->rows[j] == 0)
        o->row = o->pointer;
    else if (o->rows[j] == o->rows[j - 1] + o->step_rows)
        o->row = tw_add(b, o->row, o->step);
    return tw_add_imm(b, o->row, (int64_t)o->elements[j] * o->tile->es);
}

static tw_val both(tw_builder *b, tw_val p, tw_val q) {
    return !p.id ? q : !q.id ? p : tw_and(b, p, q);
}

/* Computes the bytes of copy j that lie inside: all or none. TW_NONE: the copy always lies inside. */
static tw_val bytes_inside(tw_gemm_gen *g, const tw_gemm_operand *o, int j, bool check_k) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    tw_val inside = o->inside[j];
    if (check_k) {
        tw_val k = tw_add(b, g->k_position, t->k_major ? o->inner[j] : o->outer[j]);
        inside = both(b, inside, tw_lt(b, k, g->k_end));
    }
    return inside.id ? tw_select(b, inside, tw_i32(b, t->vec), tw_i32(b, 0)) : TW_NONE;
}

static void issue(tw_gemm_gen *g, tw_gemm_operand *o, tw_val stage, tw_val more, bool check_k, int part, int parts) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    const int from = part * t->per_thread / parts, to = (part + 1) * t->per_thread / parts;
    tw_val base = tw_add(b, o->to[0], stage);
    for (int j = from; j < to; j++) {
        tw_val at = source(g, o, j), bytes = bytes_inside(g, o, j, check_k);
        if (j && !o->regular) base = tw_add(b, o->to[j], stage);
        tw_val when = j == t->per_thread - 1 ? both(b, more, o->last) : more;
        if (when.id) tw_when(b, when);
        tw_attrs how = {.bytes = t->vec, .offset = o->to_offset[j], .cache = t->vec == 16 ? TW_CACHE_cg : 0};
        tw_cp_async(b, how, base, at, bytes);
    }
}

/* Only the stage that reaches beyond the block's part of k checks k. */
void tw_gemm_copy_issue(tw_gemm_gen *g, tw_val stage, tw_val more, int part, int parts) {
    tw_builder *b = g->b;
    if (g->v->whole_k) {
        issue(g, &g->x, stage, more, false, part, parts);
        issue(g, &g->y, stage, more, false, part, parts);
        return;
    }
    TW_IF (b, tw_le(b, tw_add_imm(b, g->k_position, g->c->u), g->k_end)) {
        issue(g, &g->x, stage, more, false, part, parts);
        issue(g, &g->y, stage, more, false, part, parts);
    } else {
        issue(g, &g->x, stage, more, true, part, parts);
        issue(g, &g->y, stage, more, true, part, parts);
    }
}

void tw_gemm_copy_advance(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_add_to(b, g->x.pointer, g->x.advance);
    tw_add_to(b, g->y.pointer, g->y.advance);
    if (!g->v->whole_k) tw_add_to(b, g->k_position, tw_i32(b, g->c->u));
}

/* Returns the type and number of registers that hold a copy. */
static tw_attrs carrier(const tw_gemm_tile *t) {
    if (t->transposed && t->es == 8) return (tw_attrs){.type = TW_T_f64, .vec = t->vec / 8};
    switch (t->vec) {
    case 1:
        return (tw_attrs){.type = TW_T_i8};
    case 2:
        return (tw_attrs){.type = TW_T_i16};
    case 4:
        return (tw_attrs){.type = TW_T_i32};
    default:
        return (tw_attrs){.type = TW_T_i32, .vec = t->vec / 4};
    }
}

static void load(tw_gemm_gen *g, tw_gemm_operand *o, bool check_k) {
    tw_builder *b = g->b;
    const tw_gemm_tile *t = o->tile;
    tw_attrs how = carrier(t);
    how.cache = TW_CACHE_nc;
    for (int j = 0; j < t->per_thread; j++) {
        tw_val at = source(g, o, j), inside = o->inside[j];
        if (check_k) {
            tw_val k = tw_add(b, g->k_position, t->k_major ? o->inner[j] : o->outer[j]);
            inside = both(b, inside, tw_lt(b, k, g->k_end));
        }
        if (j == t->per_thread - 1) inside = both(b, inside, o->last);
        if (inside.id) tw_when(b, inside);
        tw_ld_vec(b, how, at, o->held[j]);
    }
}

static void declare(tw_gemm_gen *g, tw_gemm_operand *o) {
    tw_attrs at = carrier(o->tile);
    for (int j = 0; j < o->tile->per_thread; j++)
        for (int i = 0; i < (at.vec ? at.vec : 1); i++)
            o->held[j][i] = tw_var_of(g->b, tw_zero(g->b, tw_type_register((tw_type)at.type)));
}

void tw_gemm_copy_declare(tw_gemm_gen *g) {
    declare(g, &g->x);
    declare(g, &g->y);
}

void tw_gemm_copy_load(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    if (g->v->whole_k) {
        load(g, &g->x, false);
        load(g, &g->y, false);
        return;
    }
    TW_IF (b, tw_le(b, tw_add_imm(b, g->k_position, g->c->u), g->k_end)) {
        load(g, &g->x, false);
        load(g, &g->y, false);
    } else {
        load(g, &g->x, true);
        load(g, &g->y, true);
    }
}

static void store(tw_gemm_gen *g, tw_gemm_operand *o, tw_val stage) {
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

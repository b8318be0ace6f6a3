/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cuda/activations.h"

#include "base/divide.h"

/* MOST: loads that a thread issues at once for a single position without RMS norm. COLUMNS: runs of columns that a
   thread loads at once for each of several positions, if the compiler finds registers for them. */
enum { MOST = 2 * TW_MEGA_AHEAD, COLUMNS = 2 };
_Static_assert((int)MOST <= (int)TW_FLAG_WORDS, "they may be polled together");
_Static_assert((int)TW_CUDA_VM_TOKENS <= (int)MOST, "a thread stores as many positions together");

/* ---- into shared memory */

/* Packs byte `d` of four columns into a word, the first column lowest. */
static tw_val digit_of(tw_builder *b, const tw_val *y, int d) {
    tw_val pair[2], pick = tw_i32(b, d | (d + 4) << 4);
    for (int i = 0; i < 2; i++) pair[i] = tw_op_emit(b, TW_OP_prmt_i32, y[2 * i], y[2 * i + 1], pick);
    return tw_op_emit(b, TW_OP_prmt_i32, pair[0], pair[1], tw_i32(b, 0x5410));
}

/* Four activations of a position, from column k + shift of the chunk on. `k` is the thread's first column, `shift`
   whole blocks of columns. Predicate `there`: the warp's first column is in the chunk, so all of its lanes store. */
typedef struct four {
    tw_val *x, k, there;
    int position, shift;
} four;

/* Finds the largest magnitude of the warp's 128 activations, as bits of a float. */
static tw_val largest(tw_builder *b, const tw_val *x) {
    tw_val most = TW_NONE;
    for (int i = 0; i < 4; i++) {
        tw_val size = tw_and(b, tw_bitcast(b, TW_T_i32, x[i]), tw_i32(b, INT32_MAX));
        most = i ? tw_max(b, most, size) : size;
    }
    return tw_get(b, TW_OP_redux_max_u32, (tw_attrs){0}, TW_T_i32, most, tw_i32(b, -1));
}

/* INFINITE: the bits of a float's exponent, which begins at bit EXPONENT. An integer has BITS bits and a sign. */
enum { INFINITE = 0x7f800000, EXPONENT = 23, BIAS = 127, BITS = 22 };

/* Stores activations as integers: x / 2^e * 2^BITS, where 2^e is one binade above `exponent`, and more than each of
   them. Digits have base 256 and are -128 to 127. */
static void store_digits(tw_mega_activations *a, const four *f, tw_val exponent) {
    enum { MIDDLE = 0x8080 };
    tw_builder *b = a->g->b;
    const uint32_t both = 2 * BIAS + BITS - 1;
    tw_val scale = tw_bitcast(b, TW_T_f32, tw_sub(b, tw_i32(b, (int32_t)(both << EXPONENT)), exponent)), y[4];
    for (int i = 0; i < 4; i++) {
        tw_val whole = tw_fma(b, f->x[i], scale, tw_bitcast(b, TW_T_f32, tw_i32(b, TW_MEGA_NUMBER)));
        y[i] = tw_add_imm(b, tw_bitcast(b, TW_T_i32, whole), MIDDLE - TW_MEGA_NUMBER);
    }
    tw_val half_block = tw_shr(b, f->k, 6), to = tw_mega_at(b, a->to[f->position], half_block, 256);
    to = tw_mega_at(b, tw_mega_at(b, to, tw_rem(b, tw_shr(b, f->k, 2), 4), 16), tw_rem(b, tw_shr(b, f->k, 4), 4), 4);
    for (int d = 0; d < TW_MEGA_DIGITS; d++) {
        tw_val word = digit_of(b, y, 2 - d), place = tw_xor(b, tw_rem(b, half_block, 2), tw_i32(b, d));
        if (d) word = tw_xor(b, word, tw_i32(b, (int32_t)0x80808080));
        tw_val at = tw_mega_at(b, to, place, 64);
        tw_when(b, f->there);
        tw_st(b, tw_mega_shared(TW_T_i32, 1, 4 * f->shift), at, &word);
    }
}

/* Stores the scale that turns integers back into activations. It is NaN if an activation is infinite or NaN. */
static void store_scale(tw_mega_activations *a, const four *f, tw_val most, tw_val exponent) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    tw_val finite = tw_lt(b, most, tw_i32(b, INFINITE));
    tw_val scale = tw_select(b, finite, tw_add_imm(b, exponent, -((BITS - 1) << EXPONENT)), tw_i32(b, INT32_MAX));
    tw_val cells = tw_add_imm(b, g->shared, g->p->scales + f->position * g->p->scales_pitch);
    tw_val at = tw_mega_at(b, cells, tw_shr(b, f->k, 7), 4), first = tw_eq(b, g->lane, tw_i32(b, 0));
    tw_when(b, tw_and(b, f->there, first));
    tw_st(b, tw_mega_shared(TW_T_i32, 1, f->shift / TW_MEGA_BLOCK * 4), at, &scale);
}

static void store_integers(tw_mega_activations *a, const four *f, int n) {
    /* The least exponent of a block. From it on, the factor to integers is finite, and the scale back is no subnormal.
     */
    enum { LEAST = (BITS + 10) << EXPONENT };
    tw_builder *b = a->g->b;
    tw_val most[MOST];
    for (int i = 0; i < n; i++) most[i] = largest(b, f[i].x);
    for (int i = 0; i < n; i++) {
        tw_val exponent = tw_max(b, tw_and(b, most[i], tw_i32(b, INFINITE)), tw_i32(b, LEAST));
        store_digits(a, &f[i], exponent);
        store_scale(a, &f[i], most[i], exponent);
    }
}

/* Stores activations in the order of a fragment: integers, or floats split into two 16-bit floats, a pair's upper
   halves before its remainders. */
static void store(tw_mega_activations *a, const four *f, int n) {
    tw_builder *b = a->g->b;
    if (tw_mega_is_integer(&a->g->p->body)) {
        store_integers(a, f, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        const tw_type t = a->g->p->body.pair;
        tw_val pair[4], at = tw_mega_at(b, a->to[f[i].position], f[i].k, 4);
        for (int e = 0; e < 4; e += 2) tw_part_split(b, t, f[i].x[e], f[i].x[e + 1], &pair[e], &pair[e + 1]);
        tw_when(b, f[i].there);
        tw_st(b, tw_mega_shared(t, 4, 4 * f[i].shift), at, pair);
    }
}

/* ---- from memory */

/* Loads activations of the thread's next columns, all loads at once. `w` has their addresses. */
static void load_columns(tw_mega_gen *g, tw_flag_words *w, int n, tw_val (*x)[4]) {
    tw_builder *b = g->b;
    if (g->p->flags) tw_mega_poll(g, w, n);
    for (int i = 0; i < n; i++) {
        if (g->p->flags) {
            for (int e = 0; e < 4; e++) x[i][e] = tw_select(b, w->there[i], tw_flag_value(b, w, i, e), tw_f32(b, 0));
        } else {
            tw_when(b, w->there[i]);
            tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), w->at[i], x[i]);
        }
    }
}

/* Computes the threads' turns through a chunk. */
static void set_pace(tw_mega_activations *a) {
    const tw_mega_plan *p = a->g->p;
    const int64_t of_body = tw_mega_stage_columns(p, &p->body), of_head = tw_mega_stage_columns(p, &p->head);
    const int64_t stage = of_body > of_head ? of_body : of_head, all = tw_ceil_div(p->m->dim, stage) * stage;
    const bool roomy = p->roomy && !tw_mega_is_integer(&p->body);
    a->span = 4 * tw_mega_threads(p);
    for (int normed = 0; normed < 2; normed++) {
        /* An input with RMS norm has the model's width. */
        const int64_t columns = normed && all < p->chunk_most ? all : p->chunk_most;
        const int64_t n = tw_ceil_div(columns, a->span);
        const int most = p->tokens == 1 ? normed ? TW_MEGA_AHEAD : MOST : roomy ? COLUMNS : 1;
        a->at_once[normed] = n < most ? (int)n : most;
        a->one_turn[normed] = n <= most;
    }
}

/* Loads the norm's weights of a thread's columns, from `k` on, as far as the chunk has them. */
static void load_weights(tw_mega_activations *a, tw_val k) {
    tw_builder *b = a->g->b;
    for (int i = 0; i < a->at_once[true]; i++) {
        tw_val column = tw_add_imm(b, k, i * a->span), at = tw_mega_at(b, a->norm, tw_add(b, a->from, column), 4);
        tw_when(b, tw_and(b, a->normed, tw_lt(b, column, a->limit)));
        tw_ld_vec(b, tw_mega_fixed(TW_T_f32, 4, 0), at, a->w[i]);
        if (!a->g->p->layer_norm) continue;
        tw_val bias = tw_mega_at(b, a->bias, tw_add(b, a->from, column), 4);
        tw_when(b, tw_and(b, a->biased, tw_lt(b, column, a->limit)));
        tw_ld_vec(b, tw_mega_fixed(TW_T_f32, 4, 0), bias, a->add[i]);
    }
}

/* Begins a loop over a thread's columns, unless one turn covers a chunk. The scope's `i` is the first column. */
static tw_scope push_columns(const tw_mega_activations *a, bool normed) {
    tw_builder *b = a->g->b;
    tw_val first = tw_shl(b, a->g->thread, 2);
    if (a->one_turn[normed]) return TW_NO_LOOP(first);
    /* All lanes of a warp run the loop equally often, since they find the largest activation together. */
    tw_val end = tw_and(b, tw_add_imm(b, a->width, TW_MEGA_BLOCK - 1), tw_i32(b, -TW_MEGA_BLOCK));
    return tw_push_for(b, first, end, tw_i32(b, a->at_once[normed] * a->span), false);
}

/* Loads the norm's weights for the turn after that of column `k`, if there is one. */
static void load_next_weights(tw_mega_activations *a, tw_val k) {
    if (!a->one_turn[true]) load_weights(a, tw_add_imm(a->g->b, k, a->at_once[true] * a->span));
}

void tw_mega_find_chunk(tw_mega_activations *a, tw_val chunk) {
    tw_builder *b = a->g->b;
    tw_assign(b, a->from, tw_mul(b, chunk, a->width));
    tw_assign(b, a->limit, tw_min(b, a->width, tw_sub(b, a->columns, a->from)));
    load_weights(a, tw_shl(b, a->g->thread, 2));
}

void tw_mega_find_activations(tw_mega_activations *a) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    set_pace(a);
    a->from = tw_var_of(b, tw_i32(b, 0));
    a->limit = tw_var_of(b, tw_i32(b, 0));
    for (int i = 0; i < 4 * a->at_once[true]; i++) a->w[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    for (int i = 0; i < 4 * a->at_once[true] && g->p->layer_norm; i++)
        a->add[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    for (int u = 0; u < g->p->tokens; u++) {
        tw_val position = tw_i32(b, u);
        a->row[u] = u ? tw_op_emit(b, TW_OP_mad_wide_s32, position, tw_mul_imm(b, a->pitch, 4), a->in) : a->in;
        a->to[u] = tw_add_imm(b, g->shared, g->p->x + u * (int64_t)g->p->x_pitch);
        a->there[u] = tw_lt(b, position, a->positions);
    }
    tw_mega_find_chunk(a, tw_i32(b, 0));
}

/* Norms run i of a thread's columns of a position. RMS norm: adds the squares, and multiplies by the norm's weights. */
static void norm_four(const tw_mega_activations *a, tw_val squares, int position, int i, tw_val *x) {
    tw_builder *b = a->g->b;
    for (int e = 0; e < 4; e++) {
        if (a->g->p->layer_norm) {
            tw_val y = tw_mul(b, tw_sub(b, x[e], a->mean[position]), a->inverse[position]);
            x[e] = tw_fma(b, y, a->w[i][e], a->add[i][e]);
            continue;
        }
        tw_op_to(b, squares, TW_OP_fma_f32, x[e], x[e], squares);
        x[e] = tw_mul(b, x[e], a->w[i][e]);
    }
}

/* Adds up x, or the squares of x - mean[u], over all columns of each position. Every warp does that by itself. */
static void add_columns(const tw_mega_activations *a, const tw_val *mean, tw_val *sum) {
    enum { RUN = 4 * 32, MANY = 4 };
    tw_builder *b = a->g->b;
    const int T = a->g->p->tokens, n = T > 1 ? 1 : MANY;
    for (int u = 0; u < T; u++) sum[u] = tw_var_of(b, tw_f32(b, 0));
    TW_FOR (b, k, tw_shl(b, a->g->lane, 2), a->columns, tw_i32(b, n * RUN), false) {
        tw_val x[TW_CUDA_VM_TOKENS][4] = {{{0}}}, there[TW_CUDA_VM_TOKENS];
        for (int i = 0; i < n * T; i++) {
            tw_val column = tw_add_imm(b, k, i / T * RUN);
            there[i] = tw_and(b, tw_lt(b, column, a->columns), a->there[i % T]);
            tw_val at = tw_mega_at(b, a->row[i % T], column, 4);
            tw_when(b, there[i]);
            tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), at, x[i]);
        }
        for (int i = 0; i < n * T; i++)
            for (int e = 0; e < 4; e++) {
                tw_val y = mean ? tw_select(b, there[i], tw_sub(b, x[i][e], mean[i % T]), tw_f32(b, 0)) : x[i][e];
                tw_op_to(b, sum[i % T], TW_OP_fma_f32, y, mean ? y : tw_f32(b, 1), sum[i % T]);
            }
    }
    for (int u = 0; u < T; u++) sum[u] = tw_part_warp_sum(b, tw_add(b, sum[u], tw_f32(b, 0)), 1, 32);
}

/* Computes the mean and 1 / deviation of each position's activations. */
static void find_moments(tw_mega_activations *a) {
    tw_builder *b = a->g->b;
    const tw_model *m = a->g->p->m;
    tw_val sum[TW_CUDA_VM_TOKENS], share = tw_f32(b, 1.0f / (float)m->dim);
    add_columns(a, NULL, sum);
    for (int u = 0; u < a->g->p->tokens; u++) a->mean[u] = tw_mul(b, sum[u], share);
    add_columns(a, a->mean, sum);
    for (int u = 0; u < a->g->p->tokens; u++)
        a->inverse[u] = tw_unary(b, TW_OP_rsqrt_f32, tw_fma(b, sum[u], share, tw_f32(b, m->norm_eps)));
}

/* Stores a position's sum of squares over the warp in the warp's cell. From the second chunk on it is added there. */
static void leave_squares(tw_mega_activations *a, tw_val squares, tw_val position, tw_val chunk) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    tw_val sum = tw_part_warp_sum(g->b, tw_add(b, squares, tw_f32(b, 0)), 1, 32);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        tw_val at = tw_add_imm(b, g->shared, g->p->sums);
        at = tw_mega_at(b, tw_mega_at(b, at, position, 4 * g->p->tuning.warps), g->warp, 4);
        const tw_attrs cell = tw_mega_shared(TW_T_f32, 1, 0);
        tw_when(b, tw_lt(b, tw_i32(b, 0), chunk));
        tw_val before = tw_ld(b, cell, at);
        tw_st(b, cell, at, (tw_val[]){tw_add(b, sum, before)});
    }
}

/* Counts the chunk's columns from the warp's first one on. `k` is this thread's first. A warp stores all of its
   columns, with zeros behind the chunk's last. */
static tw_val of_warp(const tw_mega_activations *a, tw_val k) {
    tw_builder *b = a->g->b;
    return tw_sub(b, a->width, tw_sub(b, k, tw_shl(b, a->g->lane, 2)));
}

/* Tells whether the columns of the chosen experts have zeros between them, which memory does not have. */
static bool pads(const tw_mega_activations *a) {
    return a->g->p->experts && a->g->p->padded != a->g->p->m->expert_dim;
}

/* Moves the address of a column of experts_down to where the expert's columns lie, and tells whether it has that one.
 */
static void skip_padding(const tw_mega_activations *a, tw_val column, tw_val *at, tw_val *there) {
    tw_builder *b = a->g->b;
    const int dim = (int)a->g->p->m->expert_dim;
    tw_val slot = tw_div(b, column, a->g->p->padded);
    tw_val in_expert = tw_sub(b, column, tw_mul_imm(b, slot, a->g->p->padded));
    tw_val from = tw_mega_at(b, a->row[0], tw_add(b, tw_mul_imm(b, slot, dim), in_expert), 4);
    *at = tw_select(b, a->padded, from, *at);
    *there = tw_and(b, *there, tw_or(b, tw_not(b, a->padded), tw_lt(b, in_expert, tw_i32(b, dim))));
}

/* ---- one position */

/* Copies `n` runs of columns to shared memory, with all loads issued at once. `squares` is TW_NONE without norm. */
static void stage_columns(tw_mega_activations *a, tw_val k, int n, tw_val squares) {
    tw_builder *b = a->g->b;
    tw_val x[MOST][4] = {{{0}}}, rest = tw_sub(b, a->limit, k), have = of_warp(a, k);
    tw_flag_words w = {.width = 4, .tag = a->tag, .mask = a->mask};
    tw_val first = tw_mega_at(b, a->row[0], tw_add(b, a->from, k), 4);
    four f[MOST];
    for (int i = 0; i < n; i++) {
        w.at[i] = tw_add_imm(b, first, 4 * i * a->span);
        w.there[i] = tw_lt(b, tw_i32(b, i * a->span), rest);
        if (pads(a)) skip_padding(a, tw_add_imm(b, k, i * a->span), &w.at[i], &w.there[i]);
        f[i] = (four){.x = x[i], .k = k, .shift = i * a->span, .there = tw_lt(b, tw_i32(b, i * a->span), have)};
    }
    load_columns(a->g, &w, n, x);
    for (int i = 0; i < n && squares.id; i++) norm_four(a, squares, 0, i, x[i]);
    store(a, f, n);
}

/* Copies one position without a norm, as many columns at once as registers allow. */
static void stage_plain(tw_mega_activations *a) {
    tw_builder *b = a->g->b;
    const int most = a->at_once[false], few = a->at_once[true];
    if (few == most) {
        TW_LOOP (b, k, push_columns(a, false)) stage_columns(a, k, most, TW_NONE);
        return;
    }
    /* The input is attention's output, hardly wider than the model, or the ffn's, several times as wide. */
    TW_IF (b, tw_le(b, a->width, tw_i32(b, few * a->span))) {
        stage_columns(a, tw_shl(b, a->g->thread, 2), few, TW_NONE);
    } else {
        TW_LOOP (b, k, push_columns(a, false)) stage_columns(a, k, most, TW_NONE);
    }
}

static void stage_one(tw_mega_activations *a, tw_val chunk) {
    tw_builder *b = a->g->b;
    TW_IF (b, a->normed) {
        tw_val squares = tw_var_of(b, tw_f32(b, 0));
        if (a->g->p->layer_norm) find_moments(a);
        TW_LOOP (b, k, push_columns(a, true)) {
            stage_columns(a, k, a->at_once[true], squares);
            load_next_weights(a, k);
        }
        if (!a->g->p->layer_norm) leave_squares(a, squares, tw_i32(b, 0), chunk);
    } else {
        stage_plain(a);
    }
}

/* ---- several positions */

/* Copies several positions, with their loads issued together. `squares`: sums by position. NULL: no norm. */
static void stage_rows(tw_mega_activations *a, const tw_val *squares) {
    tw_builder *b = a->g->b;
    const int n = a->at_once[squares != NULL], T = a->g->p->tokens;
    tw_val x[COLUMNS][TW_CUDA_VM_TOKENS][4] = {{{{0}}}}, k[COLUMNS];
    TW_LOOP (b, first, push_columns(a, squares)) {
        for (int i = 0; i < n; i++) {
            k[i] = tw_add_imm(b, first, i * a->span);
            tw_val column = tw_add(b, a->from, k[i]), inside = tw_lt(b, k[i], a->limit);
            for (int u = 0; u < T; u++) {
                tw_val at = tw_mega_at(b, a->row[u], column, 4);
                tw_when(b, tw_and(b, inside, a->there[u]));
                tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), at, x[i][u]);
            }
        }
        for (int i = 0; i < n; i++) {
            four f[TW_CUDA_VM_TOKENS];
            tw_val have = tw_lt(b, tw_i32(b, 0), of_warp(a, k[i]));
            for (int u = 0; u < T; u++) {
                if (squares) norm_four(a, squares[u], u, i, x[i][u]);
                f[u] = (four){.x = x[i][u], .position = u, .k = k[i], .there = tw_and(b, have, a->there[u])};
            }
            store(a, f, T);
        }
        if (squares) load_next_weights(a, first);
    }
}

static void stage_several(tw_mega_activations *a, tw_val chunk) {
    tw_builder *b = a->g->b;
    tw_val squares[TW_CUDA_VM_TOKENS];
    TW_IF (b, a->normed) {
        for (int u = 0; u < a->g->p->tokens; u++) squares[u] = tw_var_of(b, tw_f32(b, 0));
        if (a->g->p->layer_norm) find_moments(a);
        stage_rows(a, squares);
        for (int u = 0; u < a->g->p->tokens && !a->g->p->layer_norm; u++)
            TW_IF (b, a->there[u]) leave_squares(a, squares[u], tw_i32(b, u), chunk);
    } else {
        stage_rows(a, NULL);
    }
}

void tw_mega_stage_chunk(tw_mega_activations *a, tw_val chunk) {
    if (a->g->p->tokens > 1)
        stage_several(a, chunk);
    else
        stage_one(a, chunk);
}

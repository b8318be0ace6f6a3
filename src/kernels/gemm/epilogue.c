/* SPDX-License-Identifier: Apache-2.0 */
/* Turns sums into C: scale, add, activate, convert, store. A thread takes its cells line by line. Neighbouring cells of
   a line are moved together as a run. */
#include "kernels/gemm/epilogue.h"
#include "kernels/parts/activation.h"
#include "kernels/parts/convert.h"

#include <string.h>

enum {
    RUN = TW_GEMM_RUN,
    BATCH = 16 /* The most cells of a batch. */,
    AHEAD = 2 /* Batches. */,
    LINES = 4 /* Lines of C that a thread has sums of with wgmma, where operands are not swapped. */
};

typedef tw_gemm_run run;
typedef tw_gemm_line line;

/* Tells whether a thread loads and stores two neighbours of C at a time. */
static bool in_pairs(const tw_attrs *at) {
    return at->type == TW_T_f16x2 || at->type == TW_T_bf16x2;
}

/* Returns the attributes of a run's memory accesses. 16-bit floats are moved in pairs, and e4m3 as bytes. */
static tw_attrs access_of(const tw_gemm_gen *g, const run *r) {
    const tw_type t = g->v->out, pair = t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    const bool pairs = r->n > 1 && (t == TW_T_f16 || t == TW_T_bf16);
    const tw_type single = t == TW_T_e4m3 ? TW_T_i8 : t;
    return (tw_attrs){.type = pairs ? pair : single, .vec = pairs ? r->n / 2 : r->n, .offset = r->offset};
}

/* Returns the type that the epilogue computes with: f32, f64, or i32 if C has integers. */
static tw_type working_type(const tw_gemm_gen *g) {
    return g->v->out == TW_T_f64 ? TW_T_f64 : g->v->out == TW_T_i32 || g->v->out == TW_T_i8 ? TW_T_i32 : TW_T_f32;
}

/* Loads a run of elements of C's type from a line at `address`. */
static void fetch_run(tw_gemm_gen *g, const run *r, tw_val address, bool read_only, tw_val *raw) {
    tw_attrs at = access_of(g, r);
    /* What an early launch reads, the launch before may have written while this one ran. */
    if (read_only && !g->c->early) at.cache = TW_CACHE_nc;
    if (r->inside.id) tw_when(g->b, r->inside);
    tw_ld_vec(g->b, at, address, raw);
}

static void widen_run(tw_gemm_gen *g, const run *r, const tw_val *raw, tw_val *out) {
    tw_builder *b = g->b;
    const tw_attrs at = access_of(g, r);
    const bool pairs = in_pairs(&at);
    for (int i = 0; i < r->n; i++)
        out[i] = pairs ? tw_part_half(b, (tw_type)at.type, raw[i / 2], i % 2) : tw_part_widen(b, g->v->out, raw[i]);
}

static void load_run(tw_gemm_gen *g, const run *r, tw_val address, bool read_only, tw_val *out) {
    tw_val raw[RUN] = {{0}};
    fetch_run(g, r, address, read_only, raw);
    widen_run(g, r, raw, out);
}

static void store_run(tw_gemm_gen *g, const run *r, tw_val address, const tw_val *x) {
    tw_builder *b = g->b;
    const tw_type t = g->v->out;
    const tw_attrs at = access_of(g, r);
    const tw_opcode narrow = t == TW_T_f16    ? TW_OP_cvt_f16_f32
                             : t == TW_T_bf16 ? TW_OP_cvt_bf16_f32
                             : t == TW_T_e4m3 ? TW_OP_cvt_e4m3_f32
                                              : TW_OP_sat_s8_s32;
    const bool pairs = in_pairs(&at), same = t == working_type(g);
    tw_val raw[RUN];
    for (int i = 0; i < r->n; i++) {
        if (!pairs) raw[i] = same ? x[i] : tw_unary(b, narrow, x[i]);
        if (pairs && i % 2) raw[i / 2] = tw_part_pair(b, (tw_type)at.type, x[i - 1], x[i]);
    }
    for (int i = 0; i < r->n && g->v->epilogue.squares; i++) {
        tw_gemm_squares_add(g, r->cells[i],
                            g->v->epilogue.means ? x[i]
                            : pairs              ? tw_part_half(b, (tw_type)at.type, raw[i / 2], i % 2)
                            : t == TW_T_e4m3     ? tw_part_e4m3(b, raw[i], 0)
                                                 : tw_part_widen(b, t, raw[i]));
    }
    if (r->inside.id) tw_when(b, r->inside);
    tw_st(b, at, address, raw);
}

/* Loads the gains of a run's columns. Swapped, a thread has the same few columns of every line, and keeps their
   gains. */
static void load_gains(tw_gemm_gen *g, const line *l, const run *r, tw_val *out) {
    for (int i = 0; i < g->n_gains && g->c->swap; i++)
        if (g->gains[i].offset == r->offset) {
            *out = g->gains[i].of;
            return;
        }
    load_run(g, r, l->gains, true, out);
    if (!g->c->swap) return;
    g->gains[g->n_gains].offset = r->offset;
    g->gains[g->n_gains++].of = *out;
}

/* Stores a run of cells times gains, as elements of A's type. */
static void store_scaled(tw_gemm_gen *g, const run *r, tw_val address, const tw_val *gains, const tw_val *x) {
    tw_builder *b = g->b;
    const tw_type t = tw_gemm_types[g->v->type].element, pair = t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    tw_val y[RUN], raw[RUN];
    for (int i = 0; i < r->n; i++) {
        y[i] = tw_mul(b, x[i], gains[i]);
        if (r->n == 1) raw[0] = tw_unary(b, t == TW_T_f16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32, y[0]);
        if (i % 2) raw[i / 2] = tw_part_pair(b, pair, y[i - 1], y[i]);
    }
    if (r->inside.id) tw_when(b, r->inside);
    tw_st(b, (tw_attrs){.type = r->n > 1 ? pair : t, .vec = r->n > 1 ? r->n / 2 : 1, .offset = r->offset / 2}, address,
          raw);
}

typedef tw_val combine(tw_builder *b, tw_val x, tw_val y);

/* Combines each cell of a run with the operand's cell. */
static void apply(tw_gemm_gen *g, const run *r, const tw_val *y, combine *by, tw_val *x) {
    for (int i = 0; i < r->n; i++) x[i] = by(g->b, x[i], y[i]);
}

tw_val tw_gemm_activate(tw_builder *b, tw_gemm_activation a, tw_val x) {
    switch (a) {
    case TW_GEMM_SILU:
        return tw_part_silu(b, x);
    case TW_GEMM_GELU:
        return tw_part_gelu(b, x);
    case TW_GEMM_GELU_ERF:
        return tw_part_gelu_erf(b, x);
    default:
        return x;
    }
}

void tw_gemm_cells_fetch(tw_gemm_gen *g, const line *l, const run *r, tw_gemm_others *raw) {
    const tw_gemm_epilogue *e = &g->v->epilogue;
    memset(raw, 0, sizeof *raw);
    if (g->v->beta) fetch_run(g, r, l->c, false, raw->c);
    if (e->bias) fetch_run(g, r, l->bias, true, raw->bias);
    if (e->mul) fetch_run(g, r, l->mul, true, raw->mul);
    if (e->residual) fetch_run(g, r, l->residual, true, raw->residual);
    if (g->v->norm_residual) fetch_run(g, r, l->residual_gains, true, raw->residual_gains);
}

void tw_gemm_cells_widen(tw_gemm_gen *g, const run *r, const tw_gemm_others *raw, tw_gemm_others *others) {
    const tw_gemm_epilogue *e = &g->v->epilogue;
    if (g->v->beta) widen_run(g, r, raw->c, others->c);
    if (e->bias) widen_run(g, r, raw->bias, others->bias);
    if (e->mul) widen_run(g, r, raw->mul, others->mul);
    if (e->residual) widen_run(g, r, raw->residual, others->residual);
    if (g->v->norm_residual) widen_run(g, r, raw->residual_gains, others->residual_gains);
}

void tw_gemm_cells_load(tw_gemm_gen *g, const line *l, const run *r, tw_gemm_others *o) {
    tw_gemm_others raw;
    tw_gemm_cells_fetch(g, l, r, &raw);
    tw_gemm_cells_widen(g, r, &raw, o);
}

void tw_gemm_cells_compute(tw_gemm_gen *g, const line *l, const run *r, const tw_gemm_others *o, tw_val *x) {
    tw_builder *b = g->b;
    const tw_gemm_epilogue *e = &g->v->epilogue;
    const tw_type t = working_type(g);
    const bool scaled = t != TW_T_i32 && !e->gated; /* By alpha, and not yet. */
    for (int i = 0; i < r->n; i++) {
        x[i] = g->acc[0][r->cells[i]];
        if (g->acc_type == TW_T_i32 && t == TW_T_f32) x[i] = tw_unary(b, TW_OP_cvt_f32_s32, x[i]);
        if (!scaled) continue;
        tw_val alpha = t == TW_T_f32 ? tw_gemm_alpha(g, r->cells[i]) : g->arg.alpha;
        x[i] = e->bias ? tw_fma(b, x[i], alpha, o->bias[i]) : tw_mul(b, x[i], alpha);
    }
    for (int i = 0; i < r->n && g->v->beta; i++)
        x[i] = t == TW_T_i32 ? tw_add(b, x[i], o->c[i]) : tw_fma(b, o->c[i], g->arg.beta, x[i]);
    if (e->bias && !scaled) apply(g, r, o->bias, tw_add, x);
    for (int i = 0; i < r->n && !e->gated; i++) x[i] = tw_gemm_activate(b, e->activation, x[i]);
    if (e->mul) apply(g, r, o->mul, tw_mul, x);
    for (int i = 0; i < r->n && g->v->norm_residual; i++)
        x[i] = tw_fma(b, tw_fma(b, o->residual[i], l->residual_factor, l->residual_offset), o->residual_gains[i], x[i]);
    if (e->residual && !g->v->norm_residual) apply(g, r, o->residual, tw_add, x);
    for (int i = 0; i < r->n && g->v->scatter; i++) x[i] = tw_mul(b, x[i], l->factor);
}

/* Takes a line to the row of C that is its place. *inside becomes whether there is such a row. */
static void scatter(tw_gemm_gen *g, const tw_gemm_cells *of, int row, line *l, tw_val *inside) {
    tw_builder *b = g->b;
    const int es = tw_type_bits(g->v->out) / 8;
    tw_val at = tw_mul_imm(b, tw_widen(b, tw_add_imm(b, of->line, row)), 4);
    tw_val places = tw_add(b, g->arg.places, at), factors = tw_add(b, g->arg.factors, at);
    tw_when(b, *inside);
    tw_val place = tw_ld(b, (tw_attrs){.type = TW_T_i32}, places);
    tw_when(b, *inside);
    l->factor = tw_ld(b, (tw_attrs){.type = TW_T_f32}, factors);
    tw_val offset = tw_add(b, tw_mul(b, tw_widen(b, place), g->arg.ldc), tw_mul_imm(b, tw_widen(b, of->place), es));
    l->c = tw_add(b, g->arg.c, offset);
    *inside = tw_and(b, *inside, tw_binary(b, TW_OP_lt_u32, place, g->c->swap ? g->arg.n : g->arg.m));
}

tw_gemm_cells tw_gemm_cells_of(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int es = tw_type_bits(g->v->out) / 8;
    tw_gemm_cells of = {.across = g->c->swap ? &g->y : &g->x, .along = g->c->swap ? &g->x : &g->y};
    of.line = tw_add(b, of.across->origin, of.across->first);
    of.place = tw_add(b, of.along->origin, of.along->first);
    of.at = tw_add(b, tw_mul(b, tw_widen(b, of.line), g->arg.ldc), tw_mul_imm(b, tw_widen(b, of.place), es));
    of.c = g->v->pointers ? tw_gemm_batch_matrix(g, g->arg.c, g->arg.stride_c, TW_NONE) : g->arg.c;
    if (g->v->batched && !g->v->pointers)
        of.at = tw_add(b, of.at, tw_gemm_batch_offset(g, g->arg.stride_c, g->arg.set_c));
    if (g->v->addends) of.at = tw_add(b, of.at, tw_mul(b, tw_widen(b, g->split), g->arg.stride_c));
    return of;
}

line tw_gemm_line_of(tw_gemm_gen *g, const tw_gemm_cells *of, int sum, tw_val *inside) {
    tw_builder *b = g->b;
    const int es = tw_type_bits(g->v->out) / 8, row = of->across->of[sum];
    tw_val offset = tw_add(b, of->at, tw_mul_imm(b, g->arg.ldc, row));
    /* The bias belongs to C's columns, which are along a line in either case. */
    line l = {.c = tw_add(b, of->c, offset), .bias = tw_add(b, g->arg.bias, tw_mul_imm(b, tw_widen(b, of->place), es))};
    if (g->v->epilogue.mul) l.mul = tw_add(b, g->arg.mul, offset);
    if (g->v->epilogue.residual) l.residual = tw_add(b, g->arg.residual, offset);
    if (g->v->norm_residual)
        l.residual_gains = tw_add(b, g->arg.residual_gains, tw_mul_imm(b, tw_widen(b, of->place), es));
    if (g->v->epilogue.scaled) {
        l.gains = tw_add(b, g->arg.gains, tw_mul_imm(b, tw_widen(b, of->place), es));
        l.scaled = tw_add(b, g->arg.scaled, tw_shr(b, offset, 1));
    }
    *inside = of->across->whole ? TW_NONE : tw_lt(b, tw_add_imm(b, of->line, row), of->across->limit);
    if (g->v->scatter) scatter(g, of, row, &l, inside);
    return l;
}

void tw_gemm_line_norm(tw_gemm_gen *g, int row, line *l) {
    if (!g->v->norm_residual) return;
    l->residual_factor = tw_gemm_sums_factor(g, row);
    l->residual_offset = tw_gemm_sums_offset(g, row);
}

tw_val tw_gemm_inside(tw_gemm_gen *g, const tw_gemm_cells *of, int sum, tw_val line_inside) {
    tw_builder *b = g->b;
    if (of->along->whole) return line_inside;
    tw_val p = tw_lt(b, tw_add_imm(b, of->place, of->along->of[sum]), of->along->limit);
    return line_inside.id ? tw_and(b, line_inside, p) : p;
}

/* Runs whose other operands are loaded together. */
typedef struct batch {
    struct {
        run r;
        line l;
        tw_gemm_others others;
    } of[BATCH];
    int n, cells; /* Number of runs, and of their cells. */
} batch;

/* Batches in the order of their runs. The compiler must keep a load behind a store to memory that may be the same, so
   that a run whose loads came right before its stores would wait for memory by itself. Loads are therefore a few
   batches ahead of stores. */
typedef struct queue {
    batch of[AHEAD + 1];
    int loaded, stored; /* Number of batches so far. The last one is not loaded yet. */
    int ahead;          /* Number of batches that are loaded before the first one is stored. */
    int most;           /* Cells of a batch. */
} queue;

static void load_batch(tw_gemm_gen *g, batch *o) {
    for (int i = 0; i < o->n; i++) {
        const line *l = &o->of[i].l;
        const run *r = &o->of[i].r;
        tw_gemm_others *others = &o->of[i].others;
        tw_gemm_cells_load(g, l, r, others);
        if (!g->v->epilogue.scaled) continue;
        /* Rows of a thread have the same columns. */
        int same = 0;
        while (same < i && (g->c->swap || o->of[same].r.offset != r->offset || o->of[same].r.n != r->n)) same++;
        if (same < i)
            memcpy(others->gains, o->of[same].others.gains, sizeof others->gains);
        else
            load_gains(g, l, r, others->gains);
    }
}

static void store_batch(tw_gemm_gen *g, const batch *o) {
    for (int i = 0; i < o->n; i++) {
        tw_val x[RUN];
        tw_gemm_cells_compute(g, &o->of[i].l, &o->of[i].r, &o->of[i].others, x);
        store_run(g, &o->of[i].r, o->of[i].l.c, x);
        if (g->v->epilogue.scaled) store_scaled(g, &o->of[i].r, o->of[i].l.scaled, o->of[i].others.gains, x);
    }
}

/* Stores batches until `left` are loaded and not stored. */
static void store_until(tw_gemm_gen *g, queue *q, int left) {
    for (; q->loaded - q->stored > left; q->stored++) store_batch(g, &q->of[q->stored % (AHEAD + 1)]);
}

/* Loads the last batch, and begins another one. */
static void close_batch(tw_gemm_gen *g, queue *q) {
    load_batch(g, &q->of[q->loaded % (AHEAD + 1)]);
    q->loaded++;
    store_until(g, q, q->ahead);
    batch *next = &q->of[q->loaded % (AHEAD + 1)];
    next->n = next->cells = 0;
}

static void add_run(tw_gemm_gen *g, queue *q, const run *r, const line *l) {
    batch *o = &q->of[q->loaded % (AHEAD + 1)];
    o->of[o->n].r = *r;
    o->of[o->n++].l = *l;
    o->cells += r->n;
    if (o->cells + r->n > q->most) close_batch(g, q);
}

/* Chooses how many cells are a batch, and how many batches are loaded ahead: as many as the registers beside the sums
   hold. */
static queue queue_of(const tw_gemm_gen *g) {
    enum { THREAD = 168, OTHERS = 48 /* Registers of addresses and the like. */ };
    const tw_gemm_epilogue *e = &g->v->epilogue;
    const bool waits = g->v->beta || e->scaled || (g->c->early && (e->bias || e->mul || e->residual));
    const int all = g->plan.consumer_registers ? g->plan.consumer_registers : THREAD;
    const int left = all - OTHERS - g->plan.accumulators - g->plan.partial;
    const int operands =
        2 * (g->v->beta + e->bias + e->mul + e->residual + g->v->norm_residual) + (e->scaled && !g->c->swap);
    const bool tight = e->scaled && !g->c->swap && left < BATCH / 2 * operands;
    queue q = {.most = !waits ? 1 : tight ? BATCH / 2 : BATCH};
    if (!waits || !operands || g->c->mma != 2 || g->c->blocks > 1) return q;
    const int ahead = left / (q.most / 2 * operands) - 1;
    q.ahead = ahead < 0 ? 0 : ahead < AHEAD ? ahead : AHEAD;
    return q;
}

/* Finds the run that begins with sum `first`, among those that are not done. */
static run run_of(tw_gemm_gen *g, const tw_gemm_cells *of, const bool *done, int first, int to) {
    const int most = g->c->staged == TW_GEMM_EXCHANGED ? RUN : RUN / 2;
    const int es = tw_type_bits(g->v->out) / 8, *line_of = of->across->of, *along_of = of->along->of;
    run r = {.cells = {first}, .n = 1, .offset = along_of[first] * es};
    for (int j = first + 1; j < to && r.n < most && (r.n + 1) * es <= g->v->vec_c; j++)
        if (!done[j] && line_of[j] == line_of[first] && along_of[j] == along_of[first] + r.n) r.cells[r.n++] = j;
    /* A run's length is a power of two, and its place is a multiple of that. */
    while (r.n & (r.n - 1) || along_of[first] % r.n) r.n--;
    return r;
}

/* Adds the runs of a line. `first` is its first sum. */
static void add_line(tw_gemm_gen *g, queue *q, const tw_gemm_cells *of, bool *done, int first, int to) {
    const int *line_of = of->across->of;
    tw_val inside;
    line l = tw_gemm_line_of(g, of, first, &inside);
    tw_gemm_line_norm(g, line_of[first], &l);
    for (int i = first; i < to; i++) {
        if (done[i] || line_of[i] != line_of[first]) continue;
        run r = run_of(g, of, done, i, to);
        r.inside = tw_gemm_inside(g, of, i, inside);
        for (int cell = 0; cell < r.n; cell++) done[r.cells[cell]] = true;
        add_run(g, q, &r, &l);
    }
}

/* Adds all runs in the order of their sums, so that those of the same columns follow one another. */
static void add_in_order(tw_gemm_gen *g, queue *q, const tw_gemm_cells *of, bool *done, int from, int to) {
    struct {
        line l;
        tw_val inside;
        int row;
    } lines[LINES];
    int n = 0;
    for (int i = from; i < to; i++) {
        if (done[i]) continue;
        int at = 0;
        while (at < n && lines[at].row != of->across->of[i]) at++;
        if (at == n) {
            lines[n].row = of->across->of[i];
            lines[n].l = tw_gemm_line_of(g, of, i, &lines[n].inside);
            tw_gemm_line_norm(g, lines[n].row, &lines[n].l);
            n++;
        }
        run r = run_of(g, of, done, i, to);
        r.inside = tw_gemm_inside(g, of, i, lines[at].inside);
        for (int cell = 0; cell < r.n; cell++) done[r.cells[cell]] = true;
        add_run(g, q, &r, &lines[at].l);
    }
}

void tw_gemm_epilogue_store(tw_gemm_gen *g, int from, int to) {
    tw_builder *b = g->b;
    tw_record_begin(b, "store", TW_ENGINE_OF_memory);
    const tw_gemm_cells of = tw_gemm_cells_of(g);
    const tw_gemm_epilogue *e = &g->v->epilogue;
    bool done[TW_GEMM_MAX_ACC] = {false};
    queue q = queue_of(g);
    g->n_gains = 0;
    tw_gemm_squares_begin(g);
    if (e->scaled && g->c->mma == 2 && !g->c->swap) add_in_order(g, &q, &of, done, from, to);
    for (int first = from; first < to; first++)
        if (!done[first]) add_line(g, &q, &of, done, first, to);
    close_batch(g, &q);
    store_until(g, &q, 0);
    tw_gemm_squares_end(g);
    tw_record_end(b, "store");
}

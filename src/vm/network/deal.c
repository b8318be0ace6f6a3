/* SPDX-License-Identifier: Apache-2.0 */
/* Deals units out. Rows of all steps are cut at the same places where they are equally many, so that a chain of steps
   over rows stays with one worker, and nobody waits. Few rows of a product are cut along columns as well. */
#include "vm/network/deal.h"

#include "base/diag.h"
#include "base/divide.h"
#include "kernels/rows/rows.h"

enum {
    UNIT = 16,        /* Rows and columns are cut at multiples of it where there are many. */
    LEAST_WORK = 4096 /* Elements below which a second worker is no help. */
};

/* How a step is cut: axes of rows, the outermost first, into `rows` parts, and one axis across into `across`. */
typedef struct cut {
    int axes[TW_RANGE_AXES], n_axes;
    int across_axis; /* -1: none. */
    int rows, across;
} cut;

static int64_t rows_of(const tw_range_step *s, const cut *c) {
    int64_t n = 1;
    for (int i = 0; i < c->n_axes; i++) n *= s->units[c->axes[i]];
    return n;
}

/* Where part i of `parts` begins. */
static int64_t bound(int64_t n, int i, int parts) {
    if (i == parts) return n;
    const int64_t at = n * i / parts;
    return n >= 2 * UNIT * parts ? (at + UNIT / 2) / UNIT * UNIT : at;
}

/* What a worker of a product computes and reads, in rows times columns: an estimate. */
static double product_cost(int64_t rows, int64_t cols, const cut *c) {
    enum { EVEN = 2, READ = 2 /* Rows whose computation takes as long as reading the weights. */ };
    const int64_t r = tw_ceil_div(tw_ceil_div(rows, c->rows), EVEN) * EVEN;
    const int64_t k = tw_ceil_div(tw_ceil_div(cols, c->across), UNIT) * UNIT;
    const double apart = c->across > 1 ? 1.03 : 1; /* Rows of results are then several workers'. */
    return (double)(r + READ) * (double)k * apart;
}

static void cut_product(const tw_range_step *s, int workers, cut *c) {
    *c = (cut){{0, 1, 2, TW_PRODUCT_ROWS}, TW_PRODUCT_ROWS + 1, TW_PRODUCT_COLS, 1, 1};
    const int64_t rows = rows_of(s, c), cols = s->units[TW_PRODUCT_COLS];
    cut best = *c;
    for (c->rows = workers; c->rows >= 1; c->rows--)
        for (c->across = 1; c->across <= workers / c->rows; c->across++) {
            if (c->rows > rows || c->across > tw_ceil_div(cols, UNIT)) continue;
            if (product_cost(rows, cols, c) < product_cost(rows, cols, &best)) best = *c;
        }
    *c = best;
}

static void cut_attention(const tw_range_step *s, int workers, cut *c) {
    *c = (cut){{TW_ATTENTION_BATCH, TW_ATTENTION_QUERIES}, 2, -1, workers, 1};
    if (rows_of(s, c) >= (int64_t)2 * UNIT * workers) return;
    *c = (cut){{TW_ATTENTION_BATCH, TW_ATTENTION_HEADS, TW_ATTENTION_QUERIES}, 3, -1, workers, 1};
    if (rows_of(s, c) < workers) c->rows = (int)rows_of(s, c);
}

static void cut_points(const tw_range_step *s, const tw_points *x, int workers, cut *c) {
    *c = (cut){.n_axes = s->n_axes, .across_axis = -1, .rows = 1, .across = 1};
    for (int i = 0; i < s->n_axes; i++) c->axes[i] = i;
    const int64_t rows = rows_of(s, c), work = tw_points_rows(x) * tw_points_columns(x) / LEAST_WORK;
    while (c->rows < workers && c->rows < rows && c->rows <= work) c->rows++;
}

static void choose(const tw_range_step *s, const tw_step *of, int workers, cut *c) {
    *c = (cut){{0}, 1, -1, 1, 1};
    if (of->kind == TW_STEP_PRODUCT) cut_product(s, workers, c);
    if (of->kind == TW_STEP_ATTENTION) cut_attention(s, workers, c);
    if (of->kind == TW_STEP_MAP) cut_points(s, &of->of.map->x, workers, c);
    if (of->kind == TW_STEP_ROWS) cut_points(s, &of->of.rows->x, workers, c);
}

/* ---- tasks */

typedef struct dealer {
    tw_ranges *r;
    tw_network_place *order;
    int n, room;
} dealer;

/* A task has rows first[i] .. of the axes from i on, one index of those before. */
static void add_task(dealer *d, int worker, int step, const cut *c, const int64_t from[TW_RANGE_AXES],
                     const int64_t to[TW_RANGE_AXES], const int64_t across[2]) {
    tw_range_task *t = tw_ranges_add_task(d->r, worker, step);
    if (!t || d->n == d->room) {
        d->r->arena.failed = true;
        return;
    }
    for (int i = 0; i < c->n_axes; i++) {
        t->from[c->axes[i]] = from[i];
        t->to[c->axes[i]] = to[i];
    }
    if (c->across_axis >= 0) {
        t->from[c->across_axis] = across[0];
        t->to[c->across_axis] = across[1];
    }
    d->order[d->n++] = (tw_network_place){worker, d->r->workers[worker].count - 1};
}

/* Adds tasks for rows lo .. hi - 1, counted over the axes from `depth` on. Whole indices of an axis are one task, and a
   part of an index before or behind them another. */
static void add_rows(dealer *d, int worker, int step, const cut *c, int depth, int64_t lo, int64_t hi, int64_t *from,
                     int64_t *to, const int64_t across[2]) {
    const tw_range_step *s = &d->r->steps[step];
    int64_t inner = 1;
    if (lo >= hi || depth >= TW_RANGE_AXES) return;
    for (int i = depth + 1; i < c->n_axes; i++) inner *= s->units[c->axes[i]];
    const int64_t first = lo / inner, last = (hi - 1) / inner;
    const bool part = lo % inner != 0, rest = hi % inner != 0;
    if (part || (rest && first == last)) {
        const int64_t end = first == last ? hi : (first + 1) * inner;
        from[depth] = first;
        to[depth] = first + 1;
        add_rows(d, worker, step, c, depth + 1, lo - first * inner, end - first * inner, from, to, across);
        add_rows(d, worker, step, c, depth, end, hi, from, to, across);
        return;
    }
    const int64_t whole = rest ? last * inner : hi;
    from[depth] = first;
    to[depth] = whole / inner;
    for (int i = depth + 1; i < c->n_axes && i < TW_RANGE_AXES; i++) {
        from[i] = 0;
        to[i] = s->units[c->axes[i]];
    }
    add_task(d, worker, step, c, from, to, across);
    add_rows(d, worker, step, c, depth, whole, hi, from, to, across);
}

static void deal_step(dealer *d, const tw_program *p, int step) {
    const tw_range_step *s = &d->r->steps[step];
    int64_t from[TW_RANGE_AXES], to[TW_RANGE_AXES], across[2] = {0, 1};
    cut c;
    choose(s, &p->steps[step], d->r->n_workers, &c);
    const int64_t rows = rows_of(s, &c), cols = c.across_axis < 0 ? 1 : s->units[c.across_axis];
    for (int w = 0; w < c.rows * c.across; w++) {
        const int at = w / c.across, k = w % c.across;
        if (c.across_axis >= 0) {
            across[0] = tw_ceil_div(cols, UNIT) * k / c.across * UNIT;
            across[1] = k + 1 == c.across ? cols : tw_ceil_div(cols, UNIT) * (k + 1) / c.across * UNIT;
        }
        add_rows(d, w, step, &c, 0, bound(rows, at, c.rows), bound(rows, at + 1, c.rows), from, to, across);
    }
}

tw_status tw_network_deal(tw_ranges **out, const tw_program *p, int workers, tw_diag *diag) {
    tw_ranges *r = tw_ranges_new(workers);
    *out = NULL;
    if (!r) return tw_fail_memory(diag);
    tw_status st = tw_network_table(r, p, diag);
    dealer d = {.r = r, .room = (p->n_steps + 1) * workers * (2 * TW_RANGE_AXES)};
    if (st == TW_OK) d.order = tw_arena_array(&r->arena, (size_t)d.room, sizeof *d.order);
    for (int i = 0; i < p->n_steps && st == TW_OK && !r->arena.failed; i++) deal_step(&d, p, i);
    if (st == TW_OK && r->arena.failed) st = tw_fail_memory(diag);
    if (st == TW_OK) st = tw_network_waits(r, d.order, d.n, diag);
    if (st == TW_OK)
        *out = r;
    else
        tw_ranges_free(r);
    return st;
}

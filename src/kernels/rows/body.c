/* SPDX-License-Identifier: Apache-2.0 */
/* A row's threads take runs in turns. A row that fits is kept in registers from the first pass on. Of a longer one
   every pass computes the values anew, in a loop. */
#include "kernels/parts/softmax.h"
#include "kernels/pointwise/emit.h"
#include "kernels/rows/generate.h"

#include <math.h>

/* Values of a row that a thread has, and what of them are there: TW_NONE where all are. */
typedef struct held {
    tw_val of[TW_ROWS_LANE];
    tw_val there[TW_ROWS_LANE]; /* A predicate of each turn. */
} held;

/* One run of a pass. */
typedef struct turn {
    tw_point_at at;
    int64_t ahead; /* Elements behind the views' run. */
    tw_val there;  /* Predicate: the run is within the row. TW_NONE: it is. */
    const tw_val *x;
} turn;

typedef void step_fn(tw_rows_gen *g, const turn *t, void *context);

/* Moves a view along its row by `columns` (i32). */
static tw_point_view moved(tw_builder *b, const tw_point_view *v, tw_val columns) {
    tw_point_view to = *v;
    if (v->step)
        to.address =
            tw_add(b, v->address, tw_mul(b, tw_widen(b, columns), tw_i64(b, v->step * tw_memory_bytes(v->o->type))));
    return to;
}

/* Does a step for each run of a long row, whose views are moved for it. */
static void loop(tw_rows_gen *g, step_fn *fn, void *context) {
    tw_builder *b = g->b;
    const tw_rows_shape *s = g->s;
    const int64_t round = (int64_t)s->lanes * s->run;
    TW_FOR (b, start, tw_i32(b, 0), tw_i32(b, (int32_t)s->columns), tw_i32(b, (int32_t)round), false) {
        tw_rows_gen at = *g;
        tw_val x[TW_POINT_RUN];
        turn t = {.at = g->at, .x = x};
        t.at.column = tw_add(b, g->at.column, start);
        if (s->columns % round) t.there = tw_lt(b, t.at.column, tw_i32(b, (int32_t)s->columns));
        for (int i = 0; i < g->in.p->n_operands; i++) {
            at.in.views[i] = moved(b, &g->in.views[i], start);
            if (g->in.views[i].by) at.in.views[i].by = &at.in.views[g->in.views[i].o->by];
        }
        at.out = moved(b, &g->out, start);
        at.kept = moved(b, &g->kept, start);
        at.gain = moved(b, &g->gain, start);
        at.bias = moved(b, &g->bias, start);
        tw_point_inputs_values(b, &at.in, &t.at, 0, t.there, x);
        fn(&at, &t, context);
    }
}

/* Does a step for each run of a row that is kept, or of a long one. */
static void pass(tw_rows_gen *g, const held *h, step_fn *fn, void *context) {
    if (!h) {
        loop(g, fn, context);
        return;
    }
    for (int i = 0; i < g->s->turns; i++) {
        const turn t = {g->at, (int64_t)i * g->s->lanes * g->s->run, h->there[i], &h->of[i * g->s->run]};
        fn(g, &t, context);
    }
}

static void hold(tw_rows_gen *g, held *h) {
    const tw_rows_shape *s = g->s;
    const int rest = s->pieces % s->lanes;
    for (int i = 0; i < s->turns; i++) {
        h->there[i] = i == s->turns - 1 && rest ? tw_lt(g->b, g->lane, tw_i32(g->b, rest)) : TW_NONE;
        tw_point_inputs_values(g->b, &g->in, &g->at, (int64_t)i * s->lanes * s->run, h->there[i], &h->of[i * s->run]);
    }
}

/* -- statistics: a value of each element is summed up, or the largest or the least found */

typedef tw_val value_fn(tw_builder *b, tw_val x, tw_val centre);

static tw_val itself(tw_builder *b, tw_val x, tw_val centre) {
    (void)b, (void)centre;
    return x;
}

static tw_val square(tw_builder *b, tw_val x, tw_val centre) {
    tw_val off = centre.id ? tw_sub(b, x, centre) : x;
    return tw_mul(b, off, off);
}

static tw_val exponential(tw_builder *b, tw_val x, tw_val centre) {
    return tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, x, centre), tw_f32(b, TW_SOFTMAX_LOG2E)));
}

static tw_val is_nan(tw_builder *b, tw_val x, tw_val centre) {
    (void)centre;
    return tw_select(b, tw_ne(b, x, x), tw_f32(b, 1), tw_f32(b, 0));
}

static bool of_doubles(const tw_rows_gen *g) {
    return tw_cells_class(&g->s->p.x.cells) == TW_CLASS_double;
}

typedef struct statistic {
    value_fn *value;
    tw_rows_reduction by;
    bool doubles;         /* The values are doubles (f64). */
    tw_val centre, total; /* `total` is a variable. */
} statistic;

static tw_val neutral(tw_builder *b, tw_rows_reduction by, bool doubles) {
    static const float values[TW_ROWS_REDUCTIONS] = {0, -INFINITY, INFINITY, 1};
    return doubles ? tw_f64(b, (double)values[by]) : tw_f32(b, values[by]);
}

static void take(tw_rows_gen *g, const turn *t, void *context) {
    const statistic *s = context;
    tw_builder *b = g->b;
    tw_val sum = TW_NONE;
    /* The values of a run are added up first: their sum does not wait for the sums before. */
    for (int i = 0; i < g->s->run; i++) {
        tw_val x = s->value(b, t->x[i], s->centre);
        sum = i ? tw_rows_combine(b, s->by, sum, x) : x;
    }
    if (t->there.id) sum = tw_select(b, t->there, sum, neutral(b, s->by, s->doubles));
    static const tw_opcode codes[2][TW_ROWS_REDUCTIONS] = {
        {TW_OP_add_f32, TW_OP_max_f32, TW_OP_min_f32, TW_OP_mul_f32},
        {TW_OP_add_f64, TW_OP_max_f64, TW_OP_min_f64, TW_OP_mul_f64}};
    tw_op_to(b, s->total, codes[s->doubles][s->by], s->total, sum, TW_NONE);
}

static tw_val measure(tw_rows_gen *g, const held *h, value_fn *value, tw_rows_reduction by, tw_val centre) {
    const bool doubles = of_doubles(g) && value != is_nan;
    statistic s = {value, by, doubles, centre, tw_var_of(g->b, neutral(g->b, by, doubles))};
    pass(g, h, take, &s);
    return tw_rows_reduce(g, s.total, by);
}

/* -- results */

typedef struct results {
    tw_val centre, scale; /* Of norms: mean and inverse deviation. Of softmaxes: the largest, and 1 / sum or log. */
    const tw_point_run *gains; /* Of each turn, where they were loaded before. NULL: they were not. */
    const tw_point_run *biases;
    bool stores; /* False: only what is kept is stored. */
} results;

static tw_val parameter(tw_rows_gen *g, const turn *t, const tw_point_view *v, const tw_point_run *before,
                        tw_point_run *loaded, int i) {
    if (!before && !i) *loaded = tw_point_load(g->b, v, t->ahead, t->there);
    return tw_point_element(g->b, v, before ? &before[t->ahead / (g->s->lanes * g->s->run)] : loaded, i);
}

static void finish(tw_rows_gen *g, const turn *t, void *context) {
    const results *r = context;
    const tw_rows_problem *p = &g->s->p;
    tw_builder *b = g->b;
    tw_val y[TW_POINT_RUN], there = tw_point_both(b, g->there, t->there);
    tw_point_run gain, bias;
    if (p->has_kept) tw_point_store(b, &g->kept, t->ahead, there, t->x);
    for (int i = 0; i < g->s->run && r->stores; i++) {
        tw_val off = r->centre.id ? tw_sub(b, t->x[i], r->centre) : t->x[i];
        if (p->of == TW_ROWS_log_softmax)
            y[i] = tw_sub(b, off, r->scale);
        else if (p->of == TW_ROWS_softmax)
            y[i] = tw_mul(b, exponential(b, t->x[i], r->centre), r->scale);
        else
            y[i] = tw_mul(b, off, r->scale);
        if (p->has_gain) y[i] = tw_mul(b, y[i], parameter(g, t, &g->gain, r->gains, &gain, i));
        if (p->has_bias) y[i] = tw_add(b, y[i], parameter(g, t, &g->bias, r->biases, &bias, i));
    }
    if (r->stores) tw_point_store(b, &g->out, t->ahead, there, y);
}

/* The one element of a reduced row, which its first thread stores. */
static void finish_reduction(tw_rows_gen *g, tw_val y) {
    tw_val first = tw_eq(g->b, g->lane, tw_i32(g->b, 0));
    tw_point_store(g->b, &g->out, 0, tw_point_both(g->b, g->there, first), &y);
}

static tw_val extreme(tw_rows_gen *g, const held *h, tw_rows_reduction by) {
    tw_val most = measure(g, h, itself, by, TW_NONE), none = measure(g, h, is_nan, TW_ROWS_by_max, TW_NONE);
    tw_val nan = of_doubles(g) ? tw_const(g->b, TW_T_f64, 0x7ff8000000000000) : tw_const(g->b, TW_T_f32, 0x7fc00000);
    return tw_select(g->b, tw_lt(g->b, tw_f32(g->b, 0), none), nan, most);
}

static tw_val mean(tw_rows_gen *g, tw_val sum) {
    const double columns = (double)g->s->columns;
    if (of_doubles(g)) return tw_binary(g->b, TW_OP_div_f64, sum, tw_f64(g->b, columns));
    return tw_mul(g->b, sum, tw_f32(g->b, (float)(1 / columns)));
}

static void reduction(tw_rows_gen *g, const held *h) {
    const tw_rows_of of = g->s->p.of;
    tw_val y;
    if (of == TW_ROWS_max || of == TW_ROWS_min)
        y = extreme(g, h, of == TW_ROWS_max ? TW_ROWS_by_max : TW_ROWS_by_min);
    else
        y = measure(g, h, itself, of == TW_ROWS_prod ? TW_ROWS_by_product : TW_ROWS_by_sum, TW_NONE);
    if (of == TW_ROWS_mean) y = mean(g, y);
    finish_reduction(g, y);
    results r = {.stores = false};
    if (g->s->p.has_kept) pass(g, h, finish, &r);
}

static void norm(tw_rows_gen *g, const held *h, results *r) {
    tw_builder *b = g->b;
    if (g->s->p.of == TW_ROWS_layer_norm) r->centre = mean(g, measure(g, h, itself, TW_ROWS_by_sum, TW_NONE));
    tw_val variance = mean(g, measure(g, h, square, TW_ROWS_by_sum, r->centre));
    r->scale = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, variance, tw_f32(b, g->s->p.eps)));
    pass(g, h, finish, r);
}

static void softmax(tw_rows_gen *g, const held *h, results *r) {
    tw_builder *b = g->b;
    r->centre = measure(g, h, itself, TW_ROWS_by_max, TW_NONE);
    tw_val sum = measure(g, h, exponential, TW_ROWS_by_sum, r->centre);
    r->scale = g->s->p.of == TW_ROWS_softmax ? tw_binary(b, TW_OP_div_f32, tw_f32(b, 1), sum)
                                             : tw_mul(b, tw_unary(b, TW_OP_log2_f32, sum), tw_f32(b, 0.693147181f));
    pass(g, h, finish, r);
}

/* Whether gain and bias are loaded before the launch waits for the one before it: they are there, and registers are. */
static bool ahead_of_wait(const tw_rows_gen *g, bool has, const tw_point_operand *o) {
    return has && o->constant && g->s->p.early && !g->s->is_long && g->s->turns * g->s->run <= TW_ROWS_LANE;
}

static void load_all(tw_rows_gen *g, const tw_point_view *v, tw_point_run *out) {
    const tw_rows_shape *s = g->s;
    const int rest = s->pieces % s->lanes;
    for (int i = 0; i < s->turns; i++) {
        tw_val there = i == s->turns - 1 && rest ? tw_lt(g->b, g->lane, tw_i32(g->b, rest)) : TW_NONE;
        out[i] = tw_point_load(g->b, v, (int64_t)i * s->lanes * s->run, there);
    }
}

void tw_rows_body(tw_rows_gen *g) {
    const tw_rows_problem *p = &g->s->p;
    tw_builder *b = g->b;
    tw_point_run gains[TW_ROWS_LANE], biases[TW_ROWS_LANE];
    results r = {.stores = true};
    held h;
    if (p->early) tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
    if (ahead_of_wait(g, p->has_gain, &p->gain)) load_all(g, &g->gain, gains), r.gains = gains;
    if (ahead_of_wait(g, p->has_bias, &p->bias)) load_all(g, &g->bias, biases), r.biases = biases;
    if (p->early) tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_point_inputs_view(b, &g->in, &g->at);
    if (!g->s->is_long) hold(g, &h);
    const held *kept = g->s->is_long ? NULL : &h;
    if (tw_rows_reduces(p->of))
        reduction(g, kept);
    else if (p->of <= TW_ROWS_rms_norm)
        norm(g, kept, &r);
    else
        softmax(g, kept, &r);
}

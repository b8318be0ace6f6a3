/* SPDX-License-Identifier: Apache-2.0 */
/* Critical paths and predictions, against traces made by hand and kernels simulated before and after a change. */
#include "support/support.h"

#include "base/random.h"
#include "prof/path.h"
#include "prof/ring.h"

#include <math.h>
#include <string.h>

static void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g is not %.17g", a, b);
}

static ring random_ring(tw_random *x) {
    return (ring){.seed = tw_random_u64(x),
                  .iterations = 8 + (int)tw_random_below(x, 60),
                  .stages = 2 + (int)tw_random_below(x, 4),
                  .consumers = 1 + (int)tw_random_below(x, 2),
                  .blocks = 1 + (int)tw_random_below(x, 9),
                  .sms = 1 + (int)tw_random_below(x, 3),
                  .resident = 1 + (int)tw_random_below(x, 2),
                  .issue = 5 + 40 * tw_random_unit(x),
                  .load = 100 + 1500 * tw_random_unit(x),
                  .gap = tw_random_below(x, 2) ? 150 * tw_random_unit(x) : 0,
                  .product = 50 + 400 * tw_random_unit(x),
                  .alu = 300 * tw_random_unit(x),
                  .prologue = 100,
                  .epilogue = 300,
                  .spread = tw_random_below(x, 3) * 0.1,
                  .pass = tw_random_below(x, 2) * 8.0,
                  .lag = tw_random_below(x, 2) * 15.0,
                  .hidden = tw_random_below(x, 2),
                  .iterate = tw_random_below(x, 2)};
}

static void the_graph_gives_the_length_of_its_trace(void **state) {
    (void)state;
    tw_random x = tw_random_seed(1);
    for (int i = 0; i < 200; i++) {
        const ring r = random_ring(&x);
        tw_trace *t = ring_trace(&r);
        tw_dag *f = tw_dag_new(t);
        tw_dag_run run;
        assert_true(tw_dag_play(f, NULL, NULL, &run));
        near(run.length, tw_trace_length(t), 1e-9 * run.length);
        /* Not only at the end. */
        for (int p = 0; p < f->n_points; p++) near(run.at[p], f->points[p].time, 1e-9 * run.length);
        assert_int_equal(run.ignored, 0);
        tw_path path;
        assert_int_equal(tw_path_find(&path, t, NULL), TW_OK);
        double sum = path.start;
        for (int k = 0; k < path.n_parts; k++) sum += path.parts[k].time;
        near(sum, tw_trace_length(t), 1e-9 * run.length);
        for (int k = 1; k < path.n_pieces; k++) near(path.pieces[k].begin, path.pieces[k - 1].end, 1e-6);
        tw_path_free(&path);
        tw_dag_run_free(&run);
        tw_dag_free(f);
        tw_trace_free(t);
    }
}

static double time_of(const tw_path *p, const tw_trace *t, tw_dag_cause cause, const char *name) {
    double sum = 0;
    for (int i = 0; i < p->n_parts; i++)
        if (p->parts[i].cause == cause && p->parts[i].name >= 0 && !strcmp(t->names[p->parts[i].name].text, name))
            sum += p->parts[i].time;
    return sum;
}

/* Loads take so long that each returned stage is waited for: the path goes round the ring. */
static void slow_loads_are_the_path(void **state) {
    (void)state;
    ring r = ring_of(10, 1000, 100, 50);
    r.lag = 5;
    tw_trace *t = ring_trace(&r);
    tw_path p;
    assert_int_equal(tw_path_find(&p, t, NULL), TW_OK);
    /* 40 iterations with 3 stages: loads 39, 36 ... 0, and the product before each. */
    near(time_of(&p, t, TW_CAUSE_ASYNC, "load"), 14 * 1000, 1e-6);
    near(time_of(&p, t, TW_CAUSE_ASYNC, "product"), 14 * 100, 1e-6);
    near(time_of(&p, t, TW_CAUSE_NEWS, "full"), 14 * 5, 1e-6);
    near(time_of(&p, t, TW_CAUSE_NEWS, "empty"), 13 * 5, 1e-6);
    near(time_of(&p, t, TW_CAUSE_WORK, "issue"), 14 * 10, 1e-6);
    near(time_of(&p, t, TW_CAUSE_WORK, "prologue"), 20, 1e-6);
    near(time_of(&p, t, TW_CAUSE_WORK, "softmax"), 50, 1e-6);
    near(time_of(&p, t, TW_CAUSE_WORK, "epilogue"), 50, 1e-6);
    near(p.length, 14 * (1000 + 100 + 5 + 10) + 13 * 5 + 120, 1e-6);
    tw_path_free(&p);
    tw_trace_free(t);
}

static void slow_products_are_the_path(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    tw_trace *t = ring_trace(&r);
    tw_path p;
    assert_int_equal(tw_path_find(&p, t, NULL), TW_OK);
    near(time_of(&p, t, TW_CAUSE_ASYNC, "product"), 40 * 200, 1e-6);
    near(time_of(&p, t, TW_CAUSE_WORK, "softmax"), 40 * 150, 1e-6);
    near(time_of(&p, t, TW_CAUSE_ASYNC, "load"), 300, 1e-6);
    near(p.parts[0].time, 8000, 1e-6);
    assert_string_equal(t->names[p.parts[0].name].text, "product");
    assert_string_equal(t->names[p.parts[0].role].text, "consumer");
    tw_path_free(&p);
    tw_trace_free(t);
}

/* A block begins where one before it ended. */
static void waves_are_chained(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    r.blocks = 5;
    r.sms = 2;
    const double one = 20 + 10 + 300 + 40 * 350 + 50;
    tw_trace *t = ring_trace(&r);
    near(tw_trace_length(t), 3 * one, 1e-6);
    tw_prediction p;
    const tw_change faster = {TW_CHANGE_SCALE, "product", 0.5, 0};
    assert_int_equal(tw_path_predict(&p, t, &faster, 1, NULL), TW_OK);
    near(p.before, 3 * one, 1e-6);
    near(p.after, 3 * (one - 40 * 100), 1e-6);
    tw_trace_free(t);
}

/* -- predictions, against the kernel simulated with the edit */

typedef struct figures {
    int n;
    double worst, sum, changed;
} figures;

static void compare(const ring *r, const ring *edited, const tw_change *edit, figures *fig) {
    tw_trace *t = ring_trace(r);
    tw_prediction p;
    assert_int_equal(tw_path_predict(&p, t, edit, 1, NULL), TW_OK);
    assert_true(p.matched > 0);
    assert_int_equal(p.ignored, 0);
    const double truth = ring_length(edited), error = fabs(p.after - truth) / truth;
    fig->n++;
    fig->sum += error;
    fig->changed += fabs(truth / tw_trace_length(t) - 1);
    if (error > fig->worst) fig->worst = error;
    if (error > 0.03)
        fail_msg(
            "%s %g %+d: predicted %g, is %g (before %g; stages %d load %g gap %g product %g alu %g issue %g hidden %d "
            "consumers %d iterations %d spread %g blocks %d sms %d)",
            edit->name, edit->factor, edit->stages, p.after, truth, p.before, r->stages, r->load, r->gap, r->product,
            r->alu, r->issue, r->hidden, r->consumers, r->iterations, r->spread, r->blocks, r->sms);
    tw_trace_free(t);
}

static void changes_are_predicted(void **state) {
    (void)state;
    tw_random x = tw_random_seed(2);
    figures fig[6] = {{0}};
    static const char *const what[6] = {"product x f",  "load x f",     "softmax x 0",
                                        "a stage more", "a stage less", "no ring"};
    for (int i = 0; i < 400; i++) {
        ring r = random_ring(&x), e;
        /* What the records do not tell cannot be predicted: how long each hidden load took, and what kept it. */
        if (r.hidden) r.spread = r.gap = 0;
        e = r;
        /* Several blocks on a multiprocessor, or one after the other, make room for each other as before. */
        r.blocks = e.blocks = r.sms * r.resident * (1 + i % 3);
        const double factor = 0.25 + tw_random_unit(&x);
        e.product = r.product * factor;
        compare(&r, &e, &(tw_change){TW_CHANGE_SCALE, "product", factor, 0}, &fig[0]);
        e = r;
        if (!r.gap) {
            e.load = r.load * factor;
            compare(&r, &e, &(tw_change){TW_CHANGE_SCALE, "load", factor, 0}, &fig[1]);
        }
        e = r;
        e.alu = 0;
        compare(&r, &e, &(tw_change){TW_CHANGE_SCALE, "softmax", 0, 0}, &fig[2]);
        e = r;
        e.stages = r.stages + 1;
        compare(&r, &e, &(tw_change){TW_CHANGE_STAGES, "empty", 1, 1}, &fig[3]);
        if (r.stages > 2) {
            e.stages = r.stages - 1;
            compare(&r, &e, &(tw_change){TW_CHANGE_STAGES, "empty", 1, -1}, &fig[4]);
        }
        e.stages = r.iterations;
        compare(&r, &e, &(tw_change){TW_CHANGE_REMOVE, "empty", 1, 0}, &fig[5]);
    }
    for (int i = 0; i < 6; i++)
        print_message("%-12s %4d cases, the kernel's time changes by %4.1f %%, error %.3f %% mean, %.2f %% worst\n",
                      what[i], fig[i].n, 100 * fig[i].changed / fig[i].n, 100 * fig[i].sum / fig[i].n,
                      100 * fig[i].worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_graph_gives_the_length_of_its_trace),
                                       cmocka_unit_test(slow_loads_are_the_path),
                                       cmocka_unit_test(slow_products_are_the_path),
                                       cmocka_unit_test(waves_are_chained), cmocka_unit_test(changes_are_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The model of overlapping loops against simulations of them, with times that vary. */
#include "prof/hand.h"

#include "base/random.h"
#include "prof/pipelining.h"
#include "prof/ring.h"

enum { MOST = 160, CONSUMERS = 2, STAGES = 4 };

/* A kernel with its times drawn. */
typedef struct kernel {
    tw_pipelining_times t; /* As measured. */
    double issue[MOST], latency[MOST], product[CONSUMERS][MOST], alu[CONSUMERS][MOST];
} kernel;

static double draw(tw_random *x, double mean, double spread) {
    return mean * (1 + spread * (2 * tw_random_unit(x) - 1));
}

static tw_pipelining_time measured(const double *a, const double *b, int n) {
    double sum = 0, squares = 0;
    const int m = b ? 2 * n : n;
    for (int i = 0; i < m; i++) {
        const double x = i < n ? a[i] : b[i - n];
        sum += x;
        squares += x * x;
    }
    sum /= m;
    return (tw_pipelining_time){sum, sqrt(fmax(squares / m - sum * sum, 0))};
}

static void draw_kernel(kernel *k, tw_random *x, double spread) {
    const int n = 32 + (int)tw_random_below(x, MOST - 32), consumers = 1 + (int)tw_random_below(x, CONSUMERS);
    const double issue = 5 + 55 * tw_random_unit(x), latency = 200 + 1800 * tw_random_unit(x);
    const double product = 50 + 550 * tw_random_unit(x), alu = 500 * tw_random_unit(x);
    for (int i = 0; i < n; i++) {
        k->issue[i] = draw(x, issue, spread);
        k->latency[i] = draw(x, latency, spread);
        for (int c = 0; c < consumers; c++) {
            k->product[c][i] = draw(x, product, spread);
            k->alu[c][i] = draw(x, alu, spread);
        }
    }
    k->t = (tw_pipelining_times){.gap = tw_random_below(x, 2) ? 50 + 450 * tw_random_unit(x) : 0,
                                 .pass = 10.0 * (double)tw_random_below(x, 2),
                                 .lag = 20.0 * (double)tw_random_below(x, 2),
                                 .consumers = consumers,
                                 .iterations = n,
                                 .before = 100,
                                 .after = 300};
    const bool two = consumers > 1;
    k->t.issue = measured(k->issue, NULL, n);
    k->t.latency = measured(k->latency, NULL, n);
    k->t.product = measured(k->product[0], two ? k->product[1] : NULL, n);
    k->t.alu = measured(k->alu[0], two ? k->alu[1] : NULL, n);
}

/* Warps that load ahead, an event after the other. */
static double simulate_software(const kernel *k, int stages) {
    const tw_pipelining_times *t = &k->t;
    double time = t->before, done[MOST];
    int loads = 0;
    for (int i = 1 - stages; i < t->iterations; i++) {
        const bool serial = stages == 1;
        if (i >= 0 && !serial) time = fmax(time + t->pass, done[i]);
        if (loads < t->iterations) {
            time += k->issue[loads];
            done[loads] = time + k->latency[loads];
            if (loads) done[loads] = fmax(done[loads], done[loads - 1] + t->gap);
            loads++;
        }
        if (i < 0) continue;
        if (serial) time = fmax(time + t->pass, done[i]);
        double tensor = time, end = time;
        for (int c = 0; c < t->consumers; c++) {
            tensor += k->product[c][i];
            end = fmax(end, tensor + k->alu[c][i]);
        }
        time = end;
    }
    return time + t->after;
}

/* A producer and consumers. Whoever comes first has tensor cores first. */
static double simulate_specialised(const kernel *k, int stages) {
    const tw_pipelining_times *t = &k->t;
    double producer = t->before, now[CONSUMERS], returned[MOST], loaded = -INFINITY, tensor = 0, end = 0;
    for (int c = 0; c < t->consumers; c++) now[c] = t->before;
    for (int i = 0; i < t->iterations; i++) {
        producer += t->pass;
        if (i >= stages) producer = fmax(producer, returned[i - stages] + t->lag);
        producer += k->issue[i];
        loaded = fmax(producer + k->latency[i], loaded + t->gap);
        returned[i] = 0;
        const int first = t->consumers > 1 && now[1] < now[0];
        for (int j = 0; j < t->consumers; j++) {
            const int c = j ^ first;
            tensor = fmax(fmax(now[c] + t->pass, loaded + t->lag), tensor) + k->product[c][i];
            returned[i] = fmax(returned[i], tensor);
            now[c] = tensor + k->alu[c][i];
            end = fmax(end, now[c]);
        }
    }
    return end + t->after;
}

static double simulate(const kernel *k, tw_pipelining_kind kind, int stages) {
    return kind == TW_PIPELINING_SOFTWARE ? simulate_software(k, stages) : simulate_specialised(k, stages);
}

static void times_that_do_not_vary_are_exact(void **state) {
    (void)state;
    tw_random x = tw_random_seed(1);
    for (int i = 0; i < 2000; i++) {
        kernel k;
        draw_kernel(&k, &x, 0);
        for (int stages = 1; stages <= STAGES; stages++)
            for (int kind = 0; kind < 2; kind++) {
                const tw_pipelining_prediction p = tw_pipelining_predict(&k.t, (tw_pipelining_kind)kind, stages);
                const double truth = simulate(&k, (tw_pipelining_kind)kind, stages);
                near(p.total, truth, 0.005 * truth);
            }
    }
}

static void times_that_vary_are_within_five_percent(void **state) {
    (void)state;
    tw_random x = tw_random_seed(2);
    for (int spread = 10; spread <= 20; spread += 5) {
        double worst[2] = {0}, sum[2] = {0}, regret = 0;
        int n = 0, right = 0, kernels = 0;
        for (int i = 0; i < 1500; i++) {
            kernel k;
            draw_kernel(&k, &x, 0.01 * spread);
            tw_pipelining_prediction p[2 * (STAGES - 1)];
            assert_int_equal(tw_pipelining_choose(&k.t, STAGES, p), 2 * (STAGES - 1));
            double best = INFINITY, chosen = 0;
            for (int j = 0; j < 2 * (STAGES - 1); j++) {
                const double truth = simulate(&k, p[j].kind, p[j].stages), error = fabs(p[j].total - truth) / truth;
                sum[p[j].kind] += error;
                worst[p[j].kind] = fmax(worst[p[j].kind], error);
                if (!j) chosen = truth;
                best = fmin(best, truth);
                assert_true(!j || p[j].total >= p[j - 1].total);
                if (error > 0.05)
                    fail_msg("%s with %d stages: predicted %g, is %g; issue %g latency %g product %g alu %g gap %g, %d "
                             "consumers, %d iterations",
                             tw_pipelining_kind_name(p[j].kind), p[j].stages, p[j].total, truth, k.t.issue.mean,
                             k.t.latency.mean, k.t.product.mean, k.t.alu.mean, k.t.gap, k.t.consumers, k.t.iterations);
            }
            n += STAGES - 1;
            kernels++;
            right += chosen <= best * (1 + 1e-12);
            regret = fmax(regret, chosen / best - 1);
        }
        print_message(
            "times +-%d %%: error of software pipelining %.2f %% mean, %.2f %% worst; of warp specialisation %.2f %%, "
            "%.2f %%; the winner is right in %d of %d, else %.2f %% slower at most\n",
            spread, 100 * sum[0] / n, 100 * worst[0], 100 * sum[1] / n, 100 * worst[1], right, kernels, 100 * regret);
        assert_true(right >= 0.99 * kernels);
        assert_true(regret < 0.01);
    }
}

static tw_pipelining_times exact(double issue, double latency, double product, double alu) {
    return (tw_pipelining_times){{issue, 0}, {latency, 0}, {product, 0}, {alu, 0}, 0, 0, 0, 1, 100, 0, 0};
}

static void iterations_take_what_bounds_them(void **state) {
    (void)state;
    tw_pipelining_times t = exact(10, 1000, 200, 100);
    const tw_pipelining_kind sw = TW_PIPELINING_SOFTWARE, ws = TW_PIPELINING_SPECIALISED;
    near(tw_pipelining_predict(&t, sw, 1).iteration, 1310, 1e-6);
    near(tw_pipelining_predict(&t, sw, 2).iteration, 1010, 1e-6);
    near(tw_pipelining_predict(&t, sw, 3).iteration, 505, 1e-6);
    near(tw_pipelining_predict(&t, sw, 5).iteration, 310, 1e-6);
    assert_int_equal(tw_pipelining_predict(&t, sw, 3).bound, TW_PIPELINING_LATENCY);
    assert_int_equal(tw_pipelining_predict(&t, sw, 5).bound, TW_PIPELINING_COMPUTE);
    near(tw_pipelining_predict(&t, ws, 2).iteration, 605, 1e-6);
    near(tw_pipelining_predict(&t, ws, 4).iteration, 302.5, 1e-6);
    near(tw_pipelining_predict(&t, ws, 5).iteration, 300, 1e-6);
    t.gap = 400;
    assert_int_equal(tw_pipelining_predict(&t, ws, 5).bound, TW_PIPELINING_MEMORY);
    near(tw_pipelining_predict(&t, ws, 5).iteration, 400, 1e-6);
    t.gap = 0;
    t.consumers = 2;
    assert_int_equal(tw_pipelining_predict(&t, ws, 5).bound, TW_PIPELINING_TENSOR);
    near(tw_pipelining_predict(&t, ws, 5).iteration, 400, 1e-6);
    near(tw_pipelining_predict(&t, sw, 5).iteration, 510, 1e-6);
    t = exact(400, 1000, 200, 100);
    assert_int_equal(tw_pipelining_predict(&t, ws, 5).bound, TW_PIPELINING_ISSUE);
    assert_string_equal(tw_pipelining_bound_name(TW_PIPELINING_ISSUE), "issue");
    /* Where they are equal, what needs less wins. */
    t = exact(0, 10, 200, 100);
    tw_pipelining_prediction p[6];
    assert_int_equal(tw_pipelining_choose(&t, 4, p), 6);
    assert_int_equal(p[0].stages, 2);
    assert_int_equal(p[0].kind, TW_PIPELINING_SOFTWARE);
    assert_int_equal(tw_pipelining_choose(&t, 1, p), 0);
}

/* Times from a trace of one kernel predict others of it. */
static void a_profile_predicts_other_pipelines(void **state) {
    (void)state;
    tw_random x = tw_random_seed(3);
    double worst = 0;
    for (int i = 0; i < 150; i++) {
        ring r = ring_of(10 + 30 * tw_random_unit(&x), 200 + 1200 * tw_random_unit(&x), 100 + 300 * tw_random_unit(&x),
                         300 * tw_random_unit(&x));
        r.iterations = 48;
        r.seed = tw_random_u64(&x);
        r.spread = 0.1 * (i % 2);
        r.stages = 2 + i % 3;
        r.lag = 5 * (i % 4);
        tw_trace *t = ring_trace(&r);
        tw_pipelining_times m;
        assert_int_equal(tw_pipelining_measure(&m, t, -1, NULL), TW_OK);
        assert_int_equal(m.consumers, 1);
        assert_int_equal(m.iterations, 48);
        near(m.product.mean, r.product, 0.03 * r.product);
        near(m.alu.mean, r.alu, 0.03 * r.alu);
        near(m.issue.mean, r.issue, 0.03 * r.issue);
        near(m.latency.mean, r.load, 0.05 * r.load);
        near(m.before, r.prologue, 0.1 * r.prologue);
        near(m.after, r.epilogue, 0.1 * r.epilogue);
        for (int stages = 2; stages < 6; stages++) {
            ring e = r;
            e.stages = stages;
            const tw_pipelining_prediction p = tw_pipelining_predict(&m, TW_PIPELINING_SPECIALISED, stages);
            const double truth = ring_length(&e);
            near(p.total, truth, 0.05 * truth);
            worst = fmax(worst, fabs(p.total / truth - 1));
        }
        tw_trace_free(t);
    }
    print_message("worst %.2f %%\n", 100 * worst);
}

/* Two consumers that multiply at once each see half of the tensor cores. */
static void products_are_taken_alone(void **state) {
    (void)state;
    ring r = ring_of(10, 200, 400, 100);
    r.consumers = 2;
    tw_trace *t = ring_trace(&r);
    tw_pipelining_times m;
    assert_int_equal(tw_pipelining_measure(&m, t, 0, NULL), TW_OK);
    assert_int_equal(m.consumers, 2);
    near(m.product.mean, 200, 1e-6);
    near(m.alu.mean, 100, 1e-6);
    tw_trace_free(t);
}

static void a_loop_that_loads_ahead_is_measured(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("ahead", "", "ns");
    const int a = hand_track(t, 0, 0, "warps", 0, 0);
    double time = 50, done[64];
    for (int i = -2; i < 40; i++) {
        int loop = -1;
        if (i >= 0) {
            loop = hand_event(t, a, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, time, time);
            t->events[loop].loop = 7;
            const double begin = time;
            time = fmax(time, done[i]);
            hand_event(t, a, TW_EVENT_WAIT, "copies", TW_ENGINE_COPY, begin, time);
        }
        if (i < 38) {
            hand_event(t, a, TW_EVENT_REGION, "issue", TW_ENGINE_COPY, time, time + 12);
            time += 12;
            hand_event(t, a, TW_EVENT_ASYNC, "copy", TW_ENGINE_COPY, time, time + 300);
            done[i + 2] = time + 300;
        }
        if (i < 0) continue;
        hand_event(t, a, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, time, time + 90);
        hand_event(t, a, TW_EVENT_REGION, "scale", TW_ENGINE_ALU, time + 90, time + 110);
        time += 110;
        t->events[loop].end = time;
    }
    t->tracks[a].end = time + 30;
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_pipelining_times m;
    assert_int_equal(tw_pipelining_measure(&m, t, -1, NULL), TW_OK);
    near(m.issue.mean, 12, 1e-9);
    near(m.latency.mean, 300, 1e-9);
    near(m.product.mean, 90, 1e-9);
    near(m.alu.mean, 20, 1e-9);
    near(m.before, 50 + 24, 1e-9);
    near(m.after, 30, 1e-9);
    /* The trace's own loads before the loop count as before it, and as part of the prediction. */
    const tw_pipelining_prediction p = tw_pipelining_predict(&m, TW_PIPELINING_SOFTWARE, 3);
    near(p.total, tw_trace_length(t), 0.01 * tw_trace_length(t));
    tw_trace_free(t);
}

static void what_has_no_loop_has_no_model(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("none", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 100);
    tw_pipelining_times m;
    tw_diag d;
    assert_int_equal(tw_pipelining_measure(&m, t, -1, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "no iterations are recorded: there is no loop to model");
    const int i = hand_event(t, a, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, 0, 100);
    t->events[i].loop = 2;
    assert_int_equal(tw_pipelining_measure(&m, t, -1, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "loop 2 has no products on tensor cores: there is nothing to model");
    hand_event(t, a, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 0, 10);
    assert_int_equal(tw_pipelining_measure(&m, t, 2, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "loop 2 has no asynchronous copies: there is nothing to model");
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_that_do_not_vary_are_exact), cmocka_unit_test(times_that_vary_are_within_five_percent),
        cmocka_unit_test(iterations_take_what_bounds_them), cmocka_unit_test(a_profile_predicts_other_pipelines),
        cmocka_unit_test(products_are_taken_alone),         cmocka_unit_test(a_loop_that_loads_ahead_is_measured),
        cmocka_unit_test(what_has_no_loop_has_no_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

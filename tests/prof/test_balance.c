/* SPDX-License-Identifier: Apache-2.0 */
/* Imbalance of multiprocessors, and statistics of regions. */
#include "prof/hand.h"

#include "prof/balance.h"
#include "prof/region.h"
#include "prof/ring.h"

static void the_last_wave_leaves_time_idle(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    r.blocks = 5;
    r.sms = 2;
    const double one = 20 + 10 + 300 + 40 * 350 + 50;
    tw_trace *t = ring_trace(&r);
    tw_balance b;
    assert_int_equal(tw_balance_find(&b, t, 0, NULL), TW_OK);
    assert_int_equal(b.n_sms, 2);
    assert_int_equal(b.unused, 0);
    assert_int_equal(b.sms[0].blocks, 3);
    assert_int_equal(b.sms[1].blocks, 2);
    near(b.sms[0].busy, 3 * one, 1e-6);
    near(b.sms[1].last, 2 * one, 1e-6);
    near(b.mean, 2.5 * one, 1e-6);
    near(b.imbalance, 1.2, 1e-9);
    assert_int_equal(b.busiest, 0);
    near(b.tail, one, 1e-6);
    near(b.idle_at_end, one, 1e-6);
    near(b.idle_share, 1.0 / 6, 1e-9);
    tw_balance_free(&b);
    /* A device of four: two have no block. */
    assert_int_equal(tw_balance_find(&b, t, 4, NULL), TW_OK);
    assert_int_equal(b.unused, 2);
    near(b.idle_at_end, one * (1 + 3 + 3), 1e-6);
    near(b.tail, 3 * one, 1e-6);
    near(b.idle_share, 7.0 / 12, 1e-9);
    tw_balance_free(&b);
    tw_trace_free(t);
}

static void a_stage_has_a_slowest_multiprocessor(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("stages", "", "ns");
    for (int sm = 0; sm < 4; sm++) {
        const int a = hand_track(t, 10 + sm, sm, "worker", 5, 400);
        double time = 5;
        for (int layer = 0; layer < 3; layer++) {
            const double takes = sm == 2 ? 30 : 20, other = sm == 1 ? 12 : 10;
            hand_event(t, a, TW_EVENT_REGION, "attend", TW_ENGINE_TENSOR, time, time + takes);
            hand_event(t, a, TW_EVENT_WAIT, "counter", TW_ENGINE_SYNC, time + takes, time + 40);
            /* One multiprocessor has two short ones. */
            if (sm == 3) hand_event(t, a, TW_EVENT_REGION, "project", TW_ENGINE_MEMORY, time + 40, time + 48);
            hand_event(t, a, TW_EVENT_REGION, "project", TW_ENGINE_MEMORY, time + 50, time + 50 + other);
            time += 70;
        }
        if (!sm) hand_event(t, a, TW_EVENT_REGION, "sample", TW_ENGINE_ALU, time, time + 10);
    }
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_balance b;
    assert_int_equal(tw_balance_find(&b, t, 0, NULL), TW_OK);
    assert_int_equal(b.n_stages, 2);
    const tw_balance_stage *attend = &b.stages[0], *project = &b.stages[1];
    assert_string_equal(hand_name(t, attend->name), "attend");
    assert_int_equal(attend->slowest, 12);
    assert_int_equal(attend->sms, 4);
    assert_int_equal(attend->count, 12);
    near(attend->mean, 22.5, 1e-9);
    near(attend->slowest_mean, 30, 1e-9);
    near(attend->total, 67.5, 1e-9);
    near(attend->most_total, 90, 1e-9);
    assert_int_equal(project->slowest, 11);
    assert_int_equal(project->most, 13);
    near(project->most_total, 3 * 18, 1e-9);
    near(project->total, (30 + 36 + 30 + 54) / 4.0, 1e-9);
    near(b.begin, 5, 0);
    near(b.mean, (90 + 10 + 96 + 120 + 60 + 54) / 4.0, 1e-9);
    tw_balance_free(&b);
    tw_trace_free(t);
}

static const tw_region *find(const tw_regions *r, const tw_trace *t, const char *name, const char *role) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(hand_name(t, r->list[i].name), name) && !strcmp(hand_name(t, r->list[i].role), role))
            return &r->list[i];
    fail_msg("no region %s of %s", name, role);
    return NULL;
}

static void regions_have_percentiles(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("percentiles", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 6000), b = hand_track(t, 0, 0, "b", 0, 6000);
    double time = 0;
    for (int i = 0; i <= 100; i++) {
        const int takes = i * 37 % 101;
        hand_event(t, a, TW_EVENT_REGION, "work", TW_ENGINE_ALU, time, time + takes);
        hand_event(t, a, TW_EVENT_MARK, "mark", TW_ENGINE_NONE, time, time);
        time += takes;
    }
    hand_event(t, b, TW_EVENT_REGION, "work", TW_ENGINE_ALU, 0, 7);
    hand_event(t, b, TW_EVENT_WAIT, "work", TW_ENGINE_ALU, 0, 3);
    t->tracks[a].dropped = 3;
    t->tracks[b].dropped = 4;
    t->tracks[b].uncertainty = 0.5;
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_regions r;
    assert_int_equal(tw_regions_find(&r, t, NULL, NULL), TW_OK);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.dropped, 7);
    near(r.uncertainty, 0.5, 0);
    const tw_region *w = &r.list[0];
    assert_int_equal(w->count, 101);
    near(w->least, 0, 0);
    near(w->p50, 50, 0);
    near(w->p95, 95, 1e-9);
    near(w->p99, 99, 1e-9);
    near(w->most, 100, 0);
    near(w->mean, 50, 1e-9);
    near(w->total, 5050, 1e-9);
    near(w->busy, 5050, 1e-9);
    assert_string_equal(hand_name(t, r.list[1].role), "b");
    assert_int_equal(r.list[2].kind, TW_EVENT_WAIT);
    near(r.list[1].total, 7, 0);
    tw_regions_free(&r);
    tw_trace_free(t);
}

static void regions_have_rooflines(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    r.blocks = 4;
    r.sms = 2;
    r.resident = 2;
    tw_trace *t = ring_trace(&r);
    tw_regions x;
    /* A multiprocessor of 10 TFLOP/s and 1 TB/s. */
    const tw_peaks peaks = {2e13, 2e12, 2};
    assert_int_equal(tw_regions_find(&x, t, &peaks, NULL), TW_OK);
    const tw_region *product = find(&x, t, "product", "consumer");
    assert_int_equal(product->count, 160);
    /* Two blocks are there at once, at the same moments. */
    near(product->busy, 2 * 40 * 200, 1e-6);
    near(product->flops_rate, 1e4, 1e-6);
    near(product->flops_share, 1, 1e-9);
    near(product->bytes_share, 0, 0);
    near(product->intensity, 0, 0);
    near(product->share, 1, 1e-9);
    const tw_region *load = find(&x, t, "load", "producer");
    near(load->bytes_rate, 32768.0 * 160 / load->busy, 1e-9);
    near(load->bytes_share, load->bytes_rate / 1000, 1e-9);
    near(load->share, load->bytes_share, 0);
    tw_regions_free(&x);
    const tw_peaks unknown = {2e13, 0, 0};
    assert_int_equal(tw_regions_find(&x, t, &unknown, NULL), TW_OK);
    near(find(&x, t, "product", "consumer")->flops_share, 1, 1e-9);
    near(find(&x, t, "load", "producer")->share, 0, 0);
    tw_regions_free(&x);
    /* Operations are no time. */
    t->unit[0] = 'x';
    assert_int_equal(tw_regions_find(&x, t, &peaks, NULL), TW_OK);
    near(find(&x, t, "product", "consumer")->share, 0, 0);
    tw_regions_free(&x);
    tw_trace_free(t);
}

static void an_empty_trace_has_nothing(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    tw_balance b;
    tw_regions r;
    assert_int_equal(tw_balance_find(&b, t, 0, NULL), TW_OK);
    assert_int_equal(tw_regions_find(&r, t, NULL, NULL), TW_OK);
    assert_int_equal(b.n_sms + b.n_stages + r.n, 0);
    near(b.begin + b.end + b.tail, 0, 0);
    tw_balance_free(&b);
    tw_regions_free(&r);
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_wave_leaves_time_idle), cmocka_unit_test(a_stage_has_a_slowest_multiprocessor),
        cmocka_unit_test(regions_have_percentiles), cmocka_unit_test(regions_have_rooflines),
        cmocka_unit_test(an_empty_trace_has_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

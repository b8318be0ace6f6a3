/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame for idle time. */
#include "prof/hand.h"

#include "base/random.h"
#include "prof/bubble.h"
#include "prof/ring.h"

static const tw_bubble *find(const tw_bubbles *b, const tw_trace *t, int engine, const char *role, const char *channel,
                             const char *cause) {
    for (int i = 0; i < b->n; i++)
        if (b->rows[i].engine == engine && !strcmp(hand_name(t, b->rows[i].role), role) &&
            !strcmp(hand_name(t, b->rows[i].channel), channel) && !strcmp(hand_name(t, b->rows[i].cause_name), cause))
            return &b->rows[i];
    fail_msg("no bubble of %s in %s because of %s", role, channel, cause);
    return NULL;
}

/* c waits for b, which waits for a; a was slow, and then news took a while. b did something of its own, too. */
static tw_trace *chain(void) {
    tw_trace *t = tw_trace_new("chain", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 100), b = hand_track(t, 0, 0, "b", 0, 140),
              c = hand_track(t, 1, 1, "c", 0, 200);
    hand_event(t, a, TW_EVENT_REGION, "slow", TW_ENGINE_MEMORY, 0, 100);
    const int arrive_a = hand_event(t, a, TW_EVENT_MARK, "arrive a", TW_ENGINE_NONE, 100, 100);
    hand_event(t, b, TW_EVENT_REGION, "early", TW_ENGINE_ALU, 0, 10);
    const int wait_a = hand_event(t, b, TW_EVENT_WAIT, "for a", TW_ENGINE_SYNC, 10, 105);
    hand_event(t, b, TW_EVENT_REGION, "late", TW_ENGINE_ALU, 105, 140);
    const int arrive_b = hand_event(t, b, TW_EVENT_MARK, "arrive b", TW_ENGINE_NONE, 140, 140);
    hand_event(t, c, TW_EVENT_REGION, "other", TW_ENGINE_ALU, 0, 5);
    const int wait_b = hand_event(t, c, TW_EVENT_WAIT, "for b", TW_ENGINE_SYNC, 5, 143);
    hand_event(t, c, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 143, 180);
    hand_event(t, c, TW_EVENT_WAIT, "for nobody", TW_ENGINE_SYNC, 180, 200);
    tw_trace_add_edge(t, arrive_a, wait_a);
    tw_trace_add_edge(t, arrive_b, wait_b);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    return t;
}

static void blame_follows_the_chain(void **state) {
    (void)state;
    tw_trace *t = chain();
    tw_bubbles b;
    assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
    near(b.tracks.time, 100 + 140 + 200, 1e-9);
    near(b.tracks.idle, 95 + 138 + 20, 1e-9);
    near(b.tracks.attributed, 95 + 138, 1e-9);
    near(find(&b, t, -1, "b", "for a", "slow")->time, 90, 1e-9);
    near(find(&b, t, -1, "b", "for a", "for a")->time, 5, 1e-9);
    /* c: 3 of news, 35 of b's work, 5 of news of a, 90 of a's work, and 5 in which b did what came before. */
    near(find(&b, t, -1, "c", "for b", "for b")->time, 3, 1e-9);
    near(find(&b, t, -1, "c", "for b", "late")->time, 35, 1e-9);
    near(find(&b, t, -1, "c", "for b", "for a")->time, 5, 1e-9);
    const tw_bubble *slow = find(&b, t, -1, "c", "for b", "slow");
    near(slow->time, 95, 1e-9);
    assert_string_equal(hand_name(t, slow->producer_role), "b");
    assert_string_equal(hand_name(t, slow->producer), "arrive b");
    assert_string_equal(hand_name(t, slow->cause_role), "a");
    assert_int_equal(slow->cause, TW_CAUSE_WORK);
    assert_true(slow->attributed);
    assert_false(find(&b, t, -1, "c", "for nobody", "for nobody")->attributed);
    assert_int_equal(find(&b, t, -1, "c", "for nobody", "for nobody")->cause, TW_CAUSE_UNKNOWN);
    tw_bubbles_free(&b);
    tw_trace_free(t);
}

static void an_engines_idle_time_is_its_users(void **state) {
    (void)state;
    tw_trace *t = chain();
    tw_bubbles b;
    assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
    /* Two multiprocessors of 200; only one has tensor cores in use. */
    near(b.engines[TW_ENGINE_TENSOR].time, 400, 1e-9);
    near(b.engines[TW_ENGINE_TENSOR].idle, 400 - 37, 1e-9);
    near(b.engines[TW_ENGINE_TENSOR].attributed, 400 - 37 - 20, 1e-9);
    near(find(&b, t, TW_ENGINE_TENSOR, "c", "for b", "slow")->time, 95, 1e-9);
    near(find(&b, t, TW_ENGINE_TENSOR, "c", "", "other")->time, 5, 1e-9);
    near(find(&b, t, TW_ENGINE_TENSOR, "", "", "")->time, 200, 1e-9);
    assert_int_equal(b.rows[0].engine, TW_ENGINE_TENSOR);
    assert_int_equal(b.rows[b.n - 1].engine, -1);
    near(b.engines[TW_ENGINE_COPY].time, 0, 0);
    tw_bubbles_free(&b);
    tw_trace_free(t);
}

/* Two users of an engine share the blame; the wait that an engine's own region is in is no bubble of it. */
static void users_share_the_blame(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("two", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 100), b = hand_track(t, 0, 0, "b", 0, 60);
    hand_event(t, a, TW_EVENT_REGION, "softmax", TW_ENGINE_ALU, 0, 100);
    hand_event(t, a, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 40, 50);
    hand_event(t, b, TW_EVENT_REGION, "mask", TW_ENGINE_ALU, 0, 40);
    hand_event(t, b, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 40, 60);
    hand_event(t, b, TW_EVENT_WAIT, "products", TW_ENGINE_TENSOR, 45, 60);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_bubbles x;
    assert_int_equal(tw_bubbles_find(&x, t, NULL), TW_OK);
    near(x.engines[TW_ENGINE_TENSOR].idle, 80, 1e-9);
    near(find(&x, t, TW_ENGINE_TENSOR, "a", "", "softmax")->time, 20 + 40, 1e-9);
    near(find(&x, t, TW_ENGINE_TENSOR, "b", "", "mask")->time, 20, 1e-9);
    near(x.engines[TW_ENGINE_ALU].idle, 10, 1e-9);
    tw_bubbles_free(&x);
    tw_trace_free(t);
}

static void a_rings_bubbles_have_its_cause(void **state) {
    (void)state;
    /* Slow loads keep products waiting. */
    ring r = ring_of(10, 1000, 100, 50);
    tw_trace *t = ring_trace(&r);
    tw_bubbles b;
    assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
    const tw_bubble *load = find(&b, t, TW_ENGINE_TENSOR, "consumer", "full", "load");
    assert_true(load->time > 0.7 * b.engines[TW_ENGINE_TENSOR].idle);
    assert_string_equal(hand_name(t, load->cause_role), "producer");
    tw_bubbles_free(&b);
    tw_trace_free(t);
    /* Slow products keep loads waiting. */
    r = ring_of(10, 200, 300, 100);
    t = ring_trace(&r);
    assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
    const tw_bubble *product = find(&b, t, -1, "producer", "empty", "product");
    /* 37 waits, each for a product and, but for what a load's issue took of it, the softmax before. */
    near(product->time, 37 * 300, 1e-6);
    near(find(&b, t, -1, "producer", "empty", "softmax")->time, 36 * (100 - 10), 1e-6);
    assert_string_equal(hand_name(t, product->cause_role), "consumer");
    tw_bubbles_free(&b);
    tw_trace_free(t);
}

/* All idle time is in the rows. All of it has a cause, but for what the first waits for free stages take, which have no
   edges. */
static void rows_are_all_idle_time(void **state) {
    (void)state;
    tw_random x = tw_random_seed(3);
    double least = 1;
    for (int i = 0; i < 60; i++) {
        ring r =
            ring_of(10, 100 + 1000 * tw_random_unit(&x), 300 * tw_random_unit(&x) + 20, 200 * tw_random_unit(&x) + 10);
        r.consumers = 1 + i % 3;
        r.sms = 1 + i % 2;
        r.blocks = 1 + i % 5;
        r.spread = 0.2;
        r.lag = i % 4;
        r.pass = i % 3;
        r.seed = tw_random_u64(&x);
        tw_trace *t = ring_trace(&r);
        tw_bubbles b;
        assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
        double sum[TW_ENGINES + 1] = {0};
        for (int k = 0; k < b.n; k++) sum[b.rows[k].engine < 0 ? TW_ENGINES : b.rows[k].engine] += b.rows[k].time;
        for (int e = 0; e < TW_ENGINES; e++) {
            near(sum[e], b.engines[e].idle, 1e-9 * b.engines[e].time);
            const double left = b.engines[e].idle - b.engines[e].attributed;
            assert_true(left > -1e-6 && left < r.stages * r.blocks * r.pass + 1e-6);
        }
        near(sum[TW_ENGINES], b.tracks.idle, 1e-9 * b.tracks.time);
        least = fmin(least, b.tracks.attributed / b.tracks.idle);
        assert_int_equal(b.ignored, 0);
        tw_bubbles_free(&b);
        tw_trace_free(t);
    }
    print_message("at least %.2f %% of tracks' idle time attributed\n", 100 * least);
    assert_true(least > 0.99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blame_follows_the_chain), cmocka_unit_test(an_engines_idle_time_is_its_users),
        cmocka_unit_test(users_share_the_blame), cmocka_unit_test(a_rings_bubbles_have_its_cause),
        cmocka_unit_test(rows_are_all_idle_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

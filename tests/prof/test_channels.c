/* SPDX-License-Identifier: Apache-2.0 */
/* Which arrivals waits are for: lags, rings that lost records, barriers, work that a thread issues for itself. */
#include "support/support.h"

#include "prof/records.h"

#include <stdlib.h>

enum { ROOM = 64 };

/* Units of a scope each, whose sites stand in a loop each. */
typedef struct block {
    tw_prof_site sites[8];
    tw_prof_scope scopes[4];
    tw_prof_loop loops[4];
    tw_prof_unit units[4];
    tw_prof_record records[ROOM];
    tw_prof_layout layout;
    tw_prof_block_records r;
} block;

static int add_site(block *b, int unit, tw_prof_site s) {
    s.scope = s.loop = unit;
    s.pair = s.code == TW_OP_record_end ? b->layout.n_sites - 1 : -1;
    b->sites[b->layout.n_sites] = s;
    return b->layout.n_sites++;
}

static int add_wait(block *b, int unit, const char *channel, int wait, int count) {
    const int site =
        add_site(b, unit, (tw_prof_site){.code = TW_OP_record_begin, .name = channel, .wait = wait, .count = count});
    add_site(b, unit, (tw_prof_site){.code = TW_OP_record_end, .name = channel});
    return site;
}

static int add_arrival(block *b, int unit, const char *channel, int arrival) {
    return add_site(b, unit, (tw_prof_site){.code = TW_OP_record_mark, .name = channel, .arrival = arrival});
}

/* Records of a unit come one after another, by clock. */
static int add_record(block *b, int site, int64_t iteration, int64_t clock) {
    const int unit = b->sites[site].scope, n = b->r.n_records;
    assert_true(n < ROOM);
    if (!b->units[unit].n++) b->units[unit].first = n;
    b->records[n] =
        (tw_prof_record){.clock = clock, .iteration = iteration, .unit = unit, .site = site, .other = -1, .cause = -1};
    return b->r.n_records++;
}

static int add_waiting(block *b, int site, int64_t iteration, int64_t begin, int64_t end) {
    const int i = add_record(b, site, iteration, begin), j = add_record(b, site + 1, iteration, end);
    b->records[i].other = j;
    b->records[j].other = i;
    return i;
}

static void find(block *b, int units) {
    tw_diag d;
    for (int i = 0; i < units; i++) {
        b->scopes[i] = (tw_prof_scope){.from = i, .below = i + 1};
        b->loops[i].scope = b->units[i].scope = b->units[i].warp = i;
    }
    b->layout.sites = b->sites;
    b->layout.scopes = b->scopes;
    b->layout.loops = b->loops;
    b->layout.n_scopes = b->layout.n_loops = b->r.n_units = units;
    b->r.layout = &b->layout;
    b->r.units = b->units;
    b->r.records = b->records;
    assert_int_equal(tw_prof_find_links(&b->r, &d), TW_OK);
}

/* The iteration of the arrival that a wait is linked to. -1: none; more than one fails. */
static int64_t linked(const block *b, int wait) {
    int64_t found = -1;
    for (int i = 0; i < b->r.n_links; i++) {
        if (b->r.links[i].to != wait) continue;
        assert_true(found < 0);
        found = b->records[b->r.links[i].from].iteration;
        assert_int_equal(b->records[wait].cause, b->r.links[i].from);
    }
    return found;
}

static void a_ring_lags_by_its_stages(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    const int wait = add_wait(&b, 0, "empty", TW_WAIT_channel, 2),
              arrival = add_arrival(&b, 1, "empty", TW_ARRIVAL_now);
    int waits[6];
    for (int i = 0; i < 6; i++) waits[i] = add_waiting(&b, wait, i, 100 * i, 100 * i + 50);
    for (int i = 0; i < 5; i++) add_record(&b, arrival, i, 100 * i + 120);
    find(&b, 2);
    for (int i = 0; i < 6; i++) assert_int_equal(linked(&b, waits[i]), i < 2 ? -1 : i - 2);
    free(b.r.links);
}

/* Rings of the two units have lost different numbers of iterations. */
static void what_rings_lost_is_counted(void **state) {
    (void)state;
    for (int from = 0; from <= 6; from += 3)
        for (int to = 0; to <= 6; to += 2) {
            block b = {.r = {.n_links = 0}};
            const int wait = add_wait(&b, 0, "full", TW_WAIT_channel, 0),
                      arrival = add_arrival(&b, 1, "full", TW_ARRIVAL_later);
            int waits[10] = {0};
            for (int i = to; i < 10; i++) waits[i] = add_waiting(&b, wait, i, 100 * i, 100 * i + 50);
            for (int i = from; i < 10; i++) add_record(&b, arrival, i, 100 * i + 20);
            find(&b, 2);
            for (int i = to; i < 10; i++) assert_int_equal(linked(&b, waits[i]), i < from ? -1 : i);
            free(b.r.links);
        }
}

/* Records before a loop that lost iterations have numbers of their own. */
static void what_was_before_a_gap_is_not_behind_it(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    const int early = add_wait(&b, 0, "full", TW_WAIT_channel, 0), wait = add_wait(&b, 0, "full", TW_WAIT_channel, 0);
    const int first = add_arrival(&b, 1, "full", TW_ARRIVAL_now), arrival = add_arrival(&b, 1, "full", TW_ARRIVAL_now);
    b.sites[early].loop = b.sites[early + 1].loop = b.sites[first].loop = -1;
    int waits[10] = {0};
    const int before = add_waiting(&b, early, 0, 1, 9);
    for (int i = 5; i < 10; i++) waits[i] = add_waiting(&b, wait, i, 100 * i, 100 * i + 50);
    add_record(&b, first, 0, 5);
    for (int i = 3; i < 10; i++) add_record(&b, arrival, i, 100 * i + 20);
    find(&b, 2);
    assert_int_equal(linked(&b, before), -1); /* Nothing says that it was not for a lost one. */
    for (int i = 5; i < 10; i++) assert_int_equal(linked(&b, waits[i]), i);
    free(b.r.links);
}

/* A stage is not given back in the first iterations. How many of the lost ones gave one back is seen from when waits
   ended. */
static void lost_records_of_conditions_are_guessed(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    const int wait = add_wait(&b, 0, "empty", TW_WAIT_channel, 2),
              arrival = add_arrival(&b, 1, "empty", TW_ARRIVAL_now);
    b.sites[arrival].conditional = true;
    int waits[10] = {0};
    /* Arrival number n is made in iteration n + 1. */
    for (int i = 4; i < 10; i++) waits[i] = add_waiting(&b, wait, i, 100 * i, 100 * i + 50);
    for (int i = 4; i < 9; i++) add_record(&b, arrival, i, 100 * (i + 1) + 40);
    find(&b, 2);
    for (int i = 5; i < 10; i++) assert_int_equal(linked(&b, waits[i]), i - 1);
    free(b.r.links);
}

/* At a barrier each waits for all others, and the last one to come is to blame. */
static void whoever_comes_last_is_to_blame(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    int sites[3], waits[3][2];
    static const int64_t comes[3][2] = {{10, 130}, {30, 110}, {20, 120}};
    for (int u = 0; u < 3; u++) sites[u] = add_wait(&b, u, "barrier 1", TW_WAIT_meet, 0);
    for (int u = 0; u < 3; u++)
        for (int i = 0; i < 2; i++) waits[u][i] = add_waiting(&b, sites[u], i, comes[u][i], i ? 140 : 40);
    find(&b, 3);
    assert_int_equal(b.r.n_links, 3 * 2 * 2);
    for (int u = 0; u < 3; u++) {
        assert_int_equal(b.records[waits[u][0]].cause, u == 1 ? waits[2][0] : waits[1][0]);
        assert_int_equal(b.records[waits[u][1]].cause, u == 0 ? waits[2][1] : waits[0][1]);
    }
    for (int i = 0; i < b.r.n_links; i++) {
        assert_int_not_equal(b.records[b.r.links[i].from].unit, b.records[b.r.links[i].to].unit);
        assert_true(!i || b.r.links[i].to >= b.r.links[i - 1].to);
    }
    free(b.r.links);
}

/* A wait for all but the last piece of own work; nobody else's counts. */
static void own_work_is_counted_at_the_wait(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    const int issues[2] = {add_arrival(&b, 0, "products", TW_ARRIVAL_own),
                           add_arrival(&b, 1, "products", TW_ARRIVAL_own)};
    const int some = add_wait(&b, 0, "products", TW_WAIT_channel, 1),
              all = add_wait(&b, 0, "products", TW_WAIT_channel, 0);
    int waits[4], last;
    for (int i = 0; i < 4; i++) {
        add_record(&b, issues[0], i, 100 * i);
        waits[i] = add_waiting(&b, some, i, 100 * i + 10, 100 * i + 20);
    }
    last = add_waiting(&b, all, 0, 500, 510);
    for (int i = 0; i < 4; i++) add_record(&b, issues[1], i, 100 * i + 5);
    find(&b, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(linked(&b, waits[i]), i - 1);
    assert_int_equal(linked(&b, last), 3);
    free(b.r.links);
}

/* Two pieces are issued before a loop, whose ring has lost three iterations: waits that would have been for those. */
static void own_work_is_numbered_with_what_was_lost(void **state) {
    (void)state;
    block b = {.r = {.n_links = 0}};
    enum { LOST = 3, N = 8 };
    const int before = add_arrival(&b, 0, "copies", TW_ARRIVAL_own);
    b.sites[before].loop = -1;
    const int wait = add_wait(&b, 0, "copies", TW_WAIT_channel, 1),
              issue = add_arrival(&b, 0, "copies", TW_ARRIVAL_own);
    const int all = add_wait(&b, 0, "copies", TW_WAIT_channel, 0);
    b.sites[all].loop = b.sites[all + 1].loop = -1;
    int waits[N] = {0}, first[2];
    for (int i = 0; i < 2; i++) first[i] = add_record(&b, before, 0, i);
    for (int i = LOST; i < N; i++) {
        waits[i] = add_waiting(&b, wait, i, 100 * i + 10, 100 * i + 20);
        add_record(&b, issue, i, 100 * i + 30);
    }
    const int last = add_waiting(&b, all, 0, 900, 910);
    find(&b, 1);
    int bounds = 0;
    for (int i = 0; i < b.r.n_links; i++) {
        const tw_prof_link *k = &b.r.links[i];
        bounds += k->bound;
        assert_true(k->bound == (k->from == first[0] || k->from == first[1]));
        if (k->bound) assert_int_equal(k->to, waits[LOST]);
    }
    assert_int_equal(bounds, 2);
    /* Iteration i waits for what iteration i - 2 issued. */
    assert_int_equal(b.records[waits[LOST]].cause, -1);
    for (int i = LOST + 1; i < N; i++) assert_int_equal(linked(&b, waits[i]), i - 2 < LOST ? -1 : i - 2);
    assert_int_equal(b.records[last].cause >= 0 ? b.records[b.records[last].cause].iteration : -1, N - 1);
    free(b.r.links);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_lags_by_its_stages),
        cmocka_unit_test(what_rings_lost_is_counted),
        cmocka_unit_test(what_was_before_a_gap_is_not_behind_it),
        cmocka_unit_test(lost_records_of_conditions_are_guessed),
        cmocka_unit_test(whoever_comes_last_is_to_blame),
        cmocka_unit_test(own_work_is_counted_at_the_wait),
        cmocka_unit_test(own_work_is_numbered_with_what_was_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

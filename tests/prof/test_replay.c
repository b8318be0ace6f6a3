/* SPDX-License-Identifier: Apache-2.0 */
/* Replay against a small machine. Its warps work, wait and arrive; run with records that take time it gives what a
   profile buffer would have, run without it gives the truth. */
#include "support/support.h"

#include "base/random.h"
#include "prof/records.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 3, STEPS = 64, SITES = 256 };

typedef enum what { NOTHING, WORK, MARK, ARRIVE, WAIT, REGION_BEGIN, REGION_END } what;

typedef struct instruction {
    what what;
    int amount; /* Of WORK: clocks. Else the channel. */
    int lag;    /* Of WAIT. */
} instruction;

typedef struct program {
    instruction of[WARPS][STEPS];
    int latency; /* From an arrival to the end of a wait for it. */
} program;

/* What a run's records say, by warp in the order of its code. */
typedef struct run {
    double at[WARPS][2 * STEPS];
    int n[WARPS];
    double end[WARPS];
} run;

typedef struct machine {
    const program *p;
    double cost;
    run *out;
    int pc[WARPS], waits[WARPS][8];
    double now[WARPS], arrivals[8][STEPS];
    int n_arrivals[8];
} machine;

static void record(machine *m, int w) {
    m->out->at[w][m->out->n[w]++] = m->now[w];
    m->now[w] += m->cost;
}

/* Runs a warp as far as it comes. Returns whether it moved. */
static bool move(machine *m, int w) {
    bool moved = false;
    for (; m->pc[w] < STEPS; m->pc[w]++, moved = true) {
        const instruction *x = &m->p->of[w][m->pc[w]];
        if (x->what == WORK) {
            m->now[w] += x->amount;
        } else if (x->what == WAIT) {
            const int number = m->waits[w][x->amount] - x->lag;
            if (number >= m->n_arrivals[x->amount]) return moved;
            m->waits[w][x->amount]++;
            record(m, w);
            if (number >= 0) m->now[w] = fmax(m->now[w], m->arrivals[x->amount][number] + m->p->latency);
            record(m, w);
        } else if (x->what != NOTHING) {
            record(m, w);
            if (x->what == ARRIVE) m->arrivals[x->amount][m->n_arrivals[x->amount]++] = m->now[w];
        }
    }
    return moved;
}

static run simulate(const program *p, double cost, double from) {
    run out = {.n = {0}};
    machine m = {.p = p, .cost = cost, .out = &out};
    for (int w = 0; w < WARPS; w++) m.now[w] = from;
    for (bool any = true; any;) {
        any = false;
        for (int w = 0; w < WARPS; w++) any |= move(&m, w);
    }
    for (int w = 0; w < WARPS; w++) {
        assert_int_equal(m.pc[w], STEPS); /* Else the program waits for ever. */
        out.end[w] = m.now[w];
    }
    return out;
}

/* A block's records as read.c would have them. */
typedef struct made {
    tw_prof_layout layout;
    tw_prof_site sites[SITES];
    tw_prof_scope scopes[WARPS];
    tw_prof_block_records r;
} made;

static void add_site(made *x, int warp, tw_prof_site s) {
    s.scope = warp;
    s.loop = -1;
    x->sites[x->layout.n_sites++] = s;
}

static made *make(const program *p, const run *measured, double begin) {
    static const char *const channels[8] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    made *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->layout = (tw_prof_layout){.sites = x->sites, .scopes = x->scopes, .n_scopes = WARPS};
    x->r.layout = &x->layout;
    x->r.units = calloc(WARPS, sizeof *x->r.units);
    x->r.records = calloc(SITES, sizeof *x->r.records);
    x->r.room_units = x->r.n_units = WARPS;
    x->r.room_records = SITES;
    for (int w = 0; w < WARPS; w++) {
        const int first = x->r.n_records;
        int open = -1;
        for (int i = 0; i < STEPS; i++) {
            const instruction *s = &p->of[w][i];
            const int site = x->layout.n_sites;
            if (s->what == MARK) add_site(x, w, (tw_prof_site){.code = TW_OP_record_mark, .name = "mark"});
            if (s->what == ARRIVE)
                add_site(
                    x, w,
                    (tw_prof_site){.code = TW_OP_record_mark, .name = channels[s->amount], .arrival = TW_ARRIVAL_now});
            if (s->what == REGION_BEGIN) {
                open = site;
                add_site(x, w, (tw_prof_site){.code = TW_OP_record_begin, .name = "region"});
            }
            if (s->what == REGION_END)
                add_site(x, w, (tw_prof_site){.code = TW_OP_record_end, .name = "region", .pair = open});
            if (s->what == WAIT) {
                add_site(x, w,
                         (tw_prof_site){.code = TW_OP_record_begin,
                                        .name = channels[s->amount],
                                        .wait = TW_WAIT_channel,
                                        .count = s->lag});
                add_site(x, w, (tw_prof_site){.code = TW_OP_record_end, .name = channels[s->amount], .pair = site});
            }
        }
        for (int i = 0; i < measured->n[w]; i++)
            x->r.records[x->r.n_records++] = (tw_prof_record){
                .clock = (int64_t)measured->at[w][i], .unit = w, .site = first + i, .other = -1, .cause = -1};
        assert_int_equal(x->r.n_records, x->layout.n_sites);
        for (int i = first; i < x->r.n_records; i++) {
            const tw_prof_site *s = &x->sites[i];
            if (s->code != TW_OP_record_end) continue;
            x->r.records[i].other = s->pair;
            x->r.records[s->pair].other = i;
        }
        x->scopes[w] = (tw_prof_scope){.from = w, .below = w + 1, .group = 1, .units = 1};
        x->r.units[w] = (tw_prof_unit){.scope = w,
                                       .warp = w,
                                       .first = first,
                                       .n = x->r.n_records - first,
                                       .begin_clock = (int64_t)begin,
                                       .end_clock = (int64_t)measured->end[w]};
    }
    return x;
}

static void drop(made *x) {
    tw_prof_records_free(&x->r);
    free(x);
}

static double when(const tw_prof_record *x) {
    return (double)x->clock - x->shift;
}

/* Replays a run in which a record takes `cost` clocks, and whose beginning was late by `before`. */
static made *replay(const program *p, double cost, double before, run *clean) {
    const double begin = 1000;
    double after;
    tw_diag d;
    *clean = simulate(p, 0, begin);
    const run measured = simulate(p, cost, begin + before);
    made *x = make(p, &measured, begin + before);
    assert_int_equal(tw_prof_find_links(&x->r, &d), TW_OK);
    assert_int_equal(tw_prof_replay(&x->r, cost, before, &after, &d), TW_OK);
    double last = 0, late = 0;
    for (int w = 0; w < WARPS; w++) {
        const tw_prof_unit *u = &x->r.units[w];
        assert_true((double)u->begin_clock - u->begin_shift == begin);
        if (measured.end[w] >= last) late = u->end_shift;
        last = fmax(last, measured.end[w]);
    }
    assert_true(after == late);
    return x;
}

static void check_exact(const program *p) {
    static const double costs[] = {0, 1, 4, 16};
    for (int c = 0; c < 4; c++)
        for (double before = 0; before <= 7; before += 7) {
            run clean;
            made *x = replay(p, costs[c], before, &clean);
            for (int w = 0; w < WARPS; w++) {
                const tw_prof_unit *u = &x->r.units[w];
                for (int i = 0; i < u->n; i++) {
                    if (fabs(when(&x->r.records[u->first + i]) - clean.at[w][i]) < 1e-9) continue;
                    fail_msg("cost %g, warp %d, record %d: %g instead of %g", costs[c], w, i,
                             when(&x->r.records[u->first + i]), clean.at[w][i]);
                }
                assert_true(fabs((double)u->end_clock - u->end_shift - clean.end[w]) < 1e-9);
            }
            drop(x);
        }
}

static void straight_code_is_corrected(void **state) {
    (void)state;
    program p = {.latency = 5};
    for (int w = 0; w < WARPS; w++)
        for (int i = 0; i < 30; i++)
            p.of[w][i] = (instruction){(what[]){WORK, MARK, REGION_BEGIN, WORK, MARK, REGION_END}[i % 6],
                                       .amount = 20 + i * (w + 1)};
    check_exact(&p);
}

/* The producer is slow: every wait waits, and ends as much earlier as the producer is. */
static void waits_end_with_their_arrivals(void **state) {
    (void)state;
    program p = {.latency = 30};
    for (int i = 0; i < 60; i += 6) {
        memcpy(&p.of[0][i], (instruction[]){{WORK, 500, 0}, {MARK, 0, 0}, {ARRIVE, 0, 0}}, 3 * sizeof(instruction));
        memcpy(&p.of[1][i],
               (instruction[]){{WAIT, 0, 0}, {REGION_BEGIN, 0, 0}, {WORK, 100, 0}, {REGION_END, 0, 0}, {MARK, 0, 0}},
               5 * sizeof(instruction));
    }
    check_exact(&p);
}

/* The consumer is slow: no wait waits, and the consumer's own records count. */
static void waits_that_do_not_wait_are_the_units(void **state) {
    (void)state;
    program p = {.latency = 30};
    for (int i = 0; i < 60; i += 4) {
        memcpy(&p.of[0][i], (instruction[]){{WORK, 100, 0}, {ARRIVE, 0, 0}}, 2 * sizeof(instruction));
        memcpy(&p.of[1][i], (instruction[]){{WORK, 900, 0}, {WAIT, 0, 0}, {MARK, 0, 0}}, 3 * sizeof(instruction));
    }
    check_exact(&p);
}

/* A ring of two stages among three warps: what the first is late by comes to the last through the one between. */
static void chains_go_through_units(void **state) {
    (void)state;
    program p = {.latency = 25};
    for (int i = 0; i < 60; i += 6) {
        memcpy(&p.of[0][i], (instruction[]){{WAIT, 2, 2}, {WORK, 700, 0}, {ARRIVE, 0, 0}, {WORK, 5, 0}},
               4 * sizeof(instruction));
        memcpy(&p.of[1][i], (instruction[]){{WAIT, 0, 0}, {WORK, 300, 0}, {ARRIVE, 1, 0}, {WORK, 5, 0}},
               4 * sizeof(instruction));
        memcpy(&p.of[2][i], (instruction[]){{WAIT, 1, 0}, {WORK, 200, 0}, {ARRIVE, 2, 0}, {WORK, 5, 0}},
               4 * sizeof(instruction));
    }
    check_exact(&p);
}

/* Whatever the program, no record of a warp comes before the one before it, and without cost nothing moves. */
static void order_is_kept(void **state) {
    (void)state;
    tw_random r = tw_random_seed(21);
    for (int i = 0; i < 300; i++) {
        program p = {.latency = (int)(tw_random_u64(&r) % 40)};
        for (int at = 0; at + 4 <= STEPS; at += 4)
            for (int w = 0; w < WARPS; w++) {
                const int amount = (int)(tw_random_u64(&r) % 60);
                const instruction all[4] = {{WAIT, (w + WARPS - 1) % WARPS, w ? 0 : 1},
                                            {WORK, amount, 0},
                                            {ARRIVE, w, 0},
                                            {amount % 3 ? MARK : NOTHING, 0, 0}};
                memcpy(&p.of[w][at], all, sizeof all);
            }
        for (int cost = 0; cost <= 20; cost += 10) {
            run clean;
            made *x = replay(&p, cost, 0, &clean);
            for (int w = 0; w < WARPS; w++) {
                const tw_prof_unit *u = &x->r.units[w];
                for (int j = 0; j < u->n; j++) {
                    const tw_prof_record *y = &x->r.records[u->first + j];
                    if (!cost) assert_true(y->shift == 0);
                    if (j) assert_true(when(y) >= when(y - 1) - 1e-9);
                    assert_true(y->shift >= 0);
                }
            }
            drop(x);
        }
    }
}

/* -- units of one warp, and records of one reading */

/* The body's unit and a role's are one warp's: records of each delay the other. */
static void units_of_a_warp_are_late_together(void **state) {
    (void)state;
    tw_prof_site sites[3] = {{.code = TW_OP_record_mark, .name = "before", .loop = -1, .pair = -1},
                             {.code = TW_OP_record_mark, .name = "in", .scope = 1, .loop = -1, .pair = -1},
                             {.code = TW_OP_record_mark, .name = "behind", .loop = -1, .pair = -1}};
    tw_prof_scope scopes[2] = {{.parent = -1, .below = 4}, {.from = 0, .below = 4}};
    const tw_prof_layout l = {.sites = sites, .scopes = scopes, .n_sites = 3, .n_scopes = 2};
    tw_prof_unit units[2] = {{.scope = 0, .first = 0, .n = 2, .begin_clock = 100, .end_clock = 500},
                             {.scope = 1, .first = 2, .n = 1, .begin_clock = 200, .end_clock = 300}};
    tw_prof_record records[3] = {{.clock = 150, .unit = 0, .site = 0, .other = -1, .cause = -1},
                                 {.clock = 400, .unit = 0, .site = 2, .other = -1, .cause = -1},
                                 {.clock = 250, .unit = 1, .site = 1, .other = -1, .cause = -1}};
    tw_prof_block_records r = {.layout = &l, .units = units, .records = records, .n_units = 2, .n_records = 3};
    double after;
    tw_diag d;
    assert_int_equal(tw_prof_replay(&r, 10, 3, &after, &d), TW_OK);
    assert_true(units[0].begin_shift == 3 && records[0].shift == 3 && units[1].begin_shift == 13);
    assert_true(records[2].shift == 13 && units[1].end_shift == 23 && records[1].shift == 23);
    assert_true(units[0].end_shift == 33 && after == 33);
}

/* A record right behind another shares its reading. It costs less, and is at the same moment. */
static void shared_readings_are_one_moment(void **state) {
    (void)state;
    tw_prof_site sites[4] = {{.code = TW_OP_record_begin, .name = "a", .loop = -1, .pair = -1},
                             {.code = TW_OP_record_end, .name = "a", .loop = -1, .pair = 0},
                             {.code = TW_OP_record_begin, .name = "b", .loop = -1, .pair = -1},
                             {.code = TW_OP_record_end, .name = "b", .loop = -1, .pair = 2}};
    tw_prof_scope scope = {.parent = -1, .below = 4};
    const tw_prof_layout l = {.sites = sites, .scopes = &scope, .n_sites = 4, .n_scopes = 1};
    tw_prof_unit unit = {.n = 4, .begin_clock = 100, .end_clock = 500};
    tw_prof_record records[4] = {{.clock = 150, .site = 0, .other = 1, .cause = -1},
                                 {.clock = 200, .site = 1, .other = 0, .cause = -1},
                                 {.clock = 200, .site = 2, .other = 3, .cause = -1},
                                 {.clock = 204, .site = 3, .other = 2, .cause = -1}};
    tw_prof_block_records r = {.layout = &l, .units = &unit, .records = records, .n_units = 1, .n_records = 4};
    double after;
    tw_diag d;
    assert_int_equal(tw_prof_replay(&r, 10, 0, &after, &d), TW_OK);
    assert_true(records[1].shift == 10 && records[2].shift == 10 && records[3].shift == 14 && after == 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(straight_code_is_corrected),
        cmocka_unit_test(waits_end_with_their_arrivals),
        cmocka_unit_test(waits_that_do_not_wait_are_the_units),
        cmocka_unit_test(chains_go_through_units),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(units_of_a_warp_are_late_together),
        cmocka_unit_test(shared_readings_are_one_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

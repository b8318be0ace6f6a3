/* SPDX-License-Identifier: Apache-2.0 */
/* What the measuring calls, in which order, with candidates that are right, wrong or broken. */
#include "support/support.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/diag.h"
#include "tune/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };

/* Candidates that write down what is asked of them. */
typedef struct stage {
    tw_buf log;
    /* Of each candidate, what these say; TW_OK otherwise. */
    tw_status prepare, open[MOST], check[MOST], warm[MOST], sample[MOST], result[MOST];
    bool time_wrong[MOST];
    int taken[MOST];   /* samples */
    int fails_at;      /* the sample of a candidate that fails, from 0 */
    int interrupt_at;  /* the question that is answered with yes, from 1; 0: none */
    int asked;         /* of those */
    int64_t sample_ns; /* that one lasts at least */
    tw_measured seen[MOST];
    char why[MOST][64];
    int results;
} stage;

static tw_status say(stage *s, tw_status st, const char *what, int i, tw_diag *diag) {
    tw_buf_printf(&s->log, "%s%d ", what, i);
    return st == TW_OK ? st : tw_fail(diag, st, "%s%d", what, i);
}

static tw_status prepare(void *context, int first, int n, tw_diag *diag) {
    stage *s = context;
    tw_buf_printf(&s->log, "[%d+%d ", first, n);
    return s->prepare == TW_OK ? TW_OK : tw_fail(diag, s->prepare, "prepare");
}

static tw_status open(void *context, int i, tw_diag *diag) {
    stage *s = context;
    return say(s, s->open[i], "o", i, diag);
}

static tw_status check(void *context, int i, tw_diag *diag) {
    stage *s = context;
    return say(s, s->check[i], "c", i, diag);
}

static tw_status warm(void *context, int i, tw_diag *diag) {
    stage *s = context;
    return say(s, s->warm[i], "w", i, diag);
}

/* The n-th sample of candidate i lasts 100 i + n^2, the last one first. */
static tw_status sample(void *context, int i, double *time, tw_diag *diag) {
    stage *s = context;
    const int n = s->taken[i]++;
    for (const int64_t end = tw_now_ns() + s->sample_ns; tw_now_ns() < end;) {
    }
    *time = 100 * i + (10 - n) * (10 - n);
    return say(s, n == s->fails_at ? s->sample[i] : TW_OK, "", i, diag);
}

static void close(void *context, int i) {
    stage *s = context;
    tw_buf_printf(&s->log, "x%d ", i);
}

static tw_status result(void *context, const tw_measured *m, tw_diag *diag) {
    stage *s = context;
    snprintf(s->why[s->results], sizeof s->why[0], "%.63s", m->diag->message);
    s->seen[s->results++] = *m;
    return say(s, s->result[m->candidate], "r", m->candidate, diag);
}

static void release(void *context, int first, int n) {
    stage *s = context;
    tw_buf_printf(&s->log, "%d+%d] ", first, n);
}

static bool interrupted(void *context) {
    stage *s = context;
    return ++s->asked == s->interrupt_at;
}

static bool time_wrong(void *context, int i) {
    const stage *s = context;
    return s->time_wrong[i];
}

static const tw_measure_calls calls = {prepare, open,   check,   warm,        sample,
                                       close,   result, release, interrupted, time_wrong};

static tw_measure_report report;

static void measure(stage *s, int n, tw_measure_protocol p, tw_status want, const char *log) {
    tw_diag d;
    tw_diag_clear(&d);
    tw_buf_str(&s->log, "");
    const tw_status st = tw_measure(&calls, s, n, &p, &report, &d);
    assert_int_equal(st, want);
    if (log) assert_string_equal(s->log.data, log);
    if (st != TW_OK) assert_true(d.message[0] != 0);
    tw_buf_free(&s->log);
}

static void one_after_another(void **state) {
    (void)state;
    stage s = {0};
    measure(&s, 3, (tw_measure_protocol){.batch = 2, .samples = 2}, TW_OK,
            "[0+2 o0 c0 w0 0 0 x0 r0 o1 c1 w1 1 1 x1 r1 0+2] [2+1 o2 c2 w2 2 2 x2 r2 2+1] ");
    assert_true(report.right == 3 && !report.wrong && !report.failed && report.samples == 6 && !report.cut);
    for (int i = 0; i < 3; i++) {
        assert_true(s.seen[i].candidate == i && s.seen[i].status == TW_OK && s.seen[i].time.n == 2);
        assert_true(s.seen[i].time.max == 100 * i + 100 && s.seen[i].time.min == 100 * i + 81 && !s.why[i][0]);
    }
    /* None, and no calls but one. */
    s = (stage){0};
    measure(&s, 0, (tw_measure_protocol){.samples = 2}, TW_OK, "");
    const tw_measure_calls only = {.sample = sample};
    const tw_measure_protocol p = {.samples = 3};
    assert_int_equal(tw_measure(&only, &s, 2, &p, NULL, NULL), TW_OK);
    assert_string_equal(s.log.data, "0 0 0 1 1 1 ");
    tw_buf_free(&s.log);
}

static void in_turns(void **state) {
    (void)state;
    stage s = {0};
    measure(&s, 3, (tw_measure_protocol){.warmups = 1, .samples = 2, .turns = true}, TW_OK,
            "[0+3 o0 c0 w0 o1 c1 w1 o2 c2 w2 0 1 2 1 2 0 2 0 1 x0 r0 x1 r1 x2 r2 0+3] ");
    /* The warm-up was 100. */
    assert_true(s.seen[1].time.n == 2 && s.seen[1].time.max == 181 && s.seen[1].time.min == 164);
    assert_int_equal(report.samples, 9);
    s = (stage){0};
    measure(&s, 4, (tw_measure_protocol){.batch = 2, .samples = 1, .turns = true}, TW_OK,
            "[0+2 o0 c0 w0 o1 c1 w1 0 1 x0 r0 x1 r1 0+2] [2+2 o2 c2 w2 o3 c3 w3 2 3 x2 r2 x3 r3 2+2] ");
}

/* Who is much slower than the fastest so far gets one sample. The fastest has a median of 81, or of 90.5 of two. */
static void the_slow_are_given_up(void **state) {
    (void)state;
    stage s = {0};
    measure(&s, 3, (tw_measure_protocol){.samples = 3, .give_up = 3}, TW_OK,
            "[0+3 o0 c0 w0 0 0 0 x0 r0 o1 c1 w1 1 1 1 x1 r1 o2 c2 w2 2 x2 r2 0+3] ");
    assert_true(s.seen[1].time.n == 3 && s.seen[2].time.n == 1 && s.seen[2].time.median == 300);
    assert_true(report.right == 3 && report.samples == 7 && !report.cut);
    /* Who is wrong is no measure. */
    s = (stage){.check = {[0] = TW_ERR_MISMATCH}, .time_wrong = {true}};
    measure(&s, 3, (tw_measure_protocol){.samples = 2, .give_up = 1.1}, TW_OK,
            "[0+3 o0 c0 w0 0 0 x0 r0 o1 c1 w1 1 1 x1 r1 o2 c2 w2 2 x2 r2 0+3] ");
    s = (stage){0};
    measure(&s, 2, (tw_measure_protocol){.samples = 2, .give_up = 1.1, .turns = true}, TW_OK,
            "[0+2 o0 c0 w0 o1 c1 w1 0 1 1 0 x0 r0 x1 r1 0+2] ");
}

static void what_is_wrong_is_told(void **state) {
    (void)state;
    stage s = {.open = {[1] = TW_ERR_IO}, .check = {[2] = TW_ERR_MISMATCH}, .warm = {[3] = TW_ERR_UNSUPPORTED}};
    s.sample[4] = TW_ERR_MEMORY;
    s.fails_at = 1;
    measure(&s, 6, (tw_measure_protocol){.samples = 2}, TW_OK,
            "[0+6 o0 c0 w0 0 0 x0 r0 o1 x1 r1 o2 c2 x2 r2 o3 c3 w3 x3 r3 o4 c4 w4 4 4 x4 r4 o5 c5 w5 5 5 x5 r5 0+6] ");
    assert_true(report.right == 2 && report.wrong == 1 && report.failed == 3);
    static const tw_status want[] = {TW_OK, TW_ERR_IO, TW_ERR_MISMATCH, TW_ERR_UNSUPPORTED, TW_ERR_MEMORY, TW_OK};
    static const char *const why[] = {"", "o1", "c2", "w3", "4", ""};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(s.seen[i].status, want[i]);
        assert_int_equal(s.seen[i].time.n, want[i] == TW_OK ? 2 : 0);
        assert_string_equal(s.why[i], why[i]);
    }
    /* In turns, too, the others go on. */
    stage t = {.open = {[0] = TW_ERR_IO}, .check = {[1] = TW_ERR_MISMATCH}, .sample = {[2] = TW_ERR_IO}, .fails_at = 1};
    measure(&t, 4, (tw_measure_protocol){.samples = 3, .turns = true}, TW_OK,
            "[0+4 o0 x0 r0 o1 c1 x1 r1 o2 c2 w2 o3 c3 w3 2 3 2 x2 r2 3 3 x3 r3 0+4] ");
}

static void what_is_wrong_is_timed_where_that_is_asked(void **state) {
    (void)state;
    stage s = {.check = {[0] = TW_ERR_MISMATCH, [1] = TW_ERR_IO}, .warm = {[2] = TW_ERR_IO}};
    s.check[2] = s.check[3] = TW_ERR_MISMATCH;
    s.time_wrong[0] = s.time_wrong[1] = s.time_wrong[2] = true;
    measure(&s, 4, (tw_measure_protocol){.samples = 2}, TW_OK,
            "[0+4 o0 c0 w0 0 0 x0 r0 o1 c1 x1 r1 o2 c2 w2 x2 r2 o3 c3 x3 r3 0+4] ");
    assert_true(s.seen[0].status == TW_ERR_MISMATCH && s.seen[0].time.n == 2);
    assert_string_equal(s.why[0], "c0");
    assert_true(s.seen[1].status == TW_ERR_IO && s.seen[2].status == TW_ERR_IO);
    assert_string_equal(s.why[2], "w2");
    assert_true(s.seen[3].status == TW_ERR_MISMATCH && s.seen[3].time.n == 0);
    assert_true(report.wrong == 2 && report.failed == 2);
}

static void failures_end_it(void **state) {
    (void)state;
    stage s = {.prepare = TW_ERR_MEMORY};
    measure(&s, 2, (tw_measure_protocol){.samples = 1}, TW_ERR_MEMORY, "[0+2 0+2] ");
    s = (stage){.result = {[0] = TW_ERR_IO}};
    measure(&s, 2, (tw_measure_protocol){.samples = 1}, TW_ERR_IO, "[0+2 o0 c0 w0 0 x0 r0 0+2] ");
    s = (stage){.result = {[0] = TW_ERR_IO}};
    measure(&s, 3, (tw_measure_protocol){.samples = 1, .turns = true}, TW_ERR_IO,
            "[0+3 o0 c0 w0 o1 c1 w1 o2 c2 w2 0 1 2 x0 r0 x1 x2 0+3] ");
    s = (stage){.open = {[1] = TW_ERR_IO}, .result = {[1] = TW_ERR_IO}};
    measure(&s, 3, (tw_measure_protocol){.samples = 1, .turns = true}, TW_ERR_IO, "[0+3 o0 c0 w0 o1 x1 r1 x0 0+3] ");
}

static void budgets_end_it(void **state) {
    (void)state;
    stage s = {0};
    measure(&s, 4, (tw_measure_protocol){.batch = 2, .samples = 2, .most_samples = 3}, TW_OK,
            "[0+2 o0 c0 w0 0 0 x0 r0 o1 c1 w1 1 1 x1 r1 0+2] ");
    assert_true(report.cut && report.right == 2 && report.samples == 4);
    /* Within a batch. */
    s = (stage){0};
    measure(&s, 4, (tw_measure_protocol){.samples = 2, .most_samples = 2}, TW_OK, "[0+4 o0 c0 w0 0 0 x0 r0 0+4] ");
    /* Those in turns have as many samples as one another, and one at least. */
    s = (stage){0};
    measure(&s, 2, (tw_measure_protocol){.samples = 5, .turns = true, .most_samples = 3}, TW_OK,
            "[0+2 o0 c0 w0 o1 c1 w1 0 1 1 0 x0 r0 x1 r1 0+2] ");
    assert_true(report.cut && s.seen[0].time.n == 2 && s.seen[1].time.n == 2);
    s = (stage){0};
    measure(&s, 2, (tw_measure_protocol){.warmups = 1, .samples = 5, .turns = true, .most_samples = 1}, TW_OK,
            "[0+2 o0 c0 w0 o1 c1 w1 0 1 1 0 x0 r0 x1 r1 0+2] ");
    assert_true(s.seen[0].time.n == 1);
    /* Exactly enough is not too little. */
    s = (stage){0};
    measure(&s, 1, (tw_measure_protocol){.samples = 2, .most_samples = 2}, TW_OK, NULL);
    assert_false(report.cut);
    s = (stage){.sample_ns = 3000000};
    measure(&s, 4, (tw_measure_protocol){.samples = 1, .seconds = 0.004}, TW_OK, NULL);
    assert_true(report.cut && s.results >= 1 && s.results <= 2 && report.seconds >= 0.003 && report.seconds < 60);
    s = (stage){0};
    measure(&s, 4, (tw_measure_protocol){.samples = 1, .seconds = 100}, TW_OK, NULL);
    assert_true(!report.cut && s.results == 4);
}

/* Whenever it is, what was begun is closed and released, and nothing unfinished is told. */
static void interruptions_leave_nothing_open(void **state) {
    (void)state;
    for (int turns = 0; turns < 2; turns++) {
        bool went_through = false;
        for (int at = 1; !went_through; at++) {
            const tw_measure_protocol p = {.batch = 2, .samples = 2, .turns = turns};
            stage s = {.interrupt_at = at};
            assert_int_equal(tw_measure(&calls, &s, 3, &p, &report, NULL), TW_OK);
            tw_buf_str(&s.log, "");
            went_through = s.asked < at;
            assert_true(report.cut == !went_through);
            assert_true(report.right == s.results && (s.results == 3) == went_through);
            /* Nobody was asked again after a yes. */
            if (!went_through) assert_int_equal(s.asked, at);
            int open_now = 0, prepared = 0;
            for (const char *c = s.log.data; *c; c++) {
                open_now += (*c == 'o') - (*c == 'x');
                prepared += (*c == '[') - (*c == ']');
            }
            assert_true(!open_now && !prepared);
            for (int i = 0; i < s.results; i++) assert_int_equal(s.seen[i].time.n, 2);
            tw_buf_free(&s.log);
        }
    }
    stage s = {.interrupt_at = 4};
    measure(&s, 2, (tw_measure_protocol){.samples = 3}, TW_OK, "[0+2 o0 c0 w0 x0 0+2] ");
}

/* ---- energy */

/* A device that draws 200 W. Its time passes only while candidates run, and its counter is renewed every 50 ms. */
typedef struct drawing {
    int64_t ns;
    int64_t each;  /* Nanoseconds of a run. */
    int runs;      /* Runs so far. */
    int readings;  /* Readings of the counter so far. */
    int end;       /* Runs until an interruption. 0: there is none. */
    bool still;    /* True: the counter is not renewed. */
    int broken_at; /* The run after which the counter cannot be read. 0: none. */
    double seen;   /* The result. -1: there is none. */
    tw_status status;
    char why[100];
} drawing;

static bool drawn(void *context, double *joules) {
    drawing *d = context;
    d->readings++;
    *joules = d->still ? 0 : 200 * (double)(d->ns / 50000000) * 0.05;
    return !d->broken_at || d->runs < d->broken_at;
}

static int64_t drawn_now(void *context) {
    return ((drawing *)context)->ns;
}

static tw_status draw(void *context, int i, double *time, tw_diag *diag) {
    drawing *d = context;
    (void)i, (void)diag;
    d->runs++;
    d->ns += d->each;
    *time = 30; /* Microseconds of one of the launches that a run consists of. */
    return TW_OK;
}

static tw_status drawn_result(void *context, const tw_measured *m, tw_diag *diag) {
    drawing *d = context;
    (void)diag;
    d->seen = m->time.n ? m->time.median : 0;
    d->status = m->status;
    snprintf(d->why, sizeof d->why, "%.99s", m->diag->message);
    return TW_OK;
}

static bool drawn_end(void *context) {
    const drawing *d = context;
    return d->end && d->runs >= d->end;
}

static void measure_energy(drawing *d, int samples) {
    static const tw_measure_calls drawing_calls = {.sample = draw, .result = drawn_result, .interrupted = drawn_end};
    const tw_power_source source = {.energy = drawn, .now = drawn_now, .context = d};
    tw_measure_protocol p = {.warmups = 1, .samples = samples, .power_seconds = 0.3};
    assert_int_equal(tw_power_make(&p.power, &source, NULL), TW_OK);
    d->seen = -1;
    assert_int_equal(tw_measure(&drawing_calls, d, 1, &p, NULL, NULL), TW_OK);
    tw_power_close(p.power);
}

static void energy_is_power_times_time(void **state) {
    (void)state;
    drawing d = {.each = 210000};
    measure_energy(&d, 3);
    /* 30 us at 200 W. At both ends the counter's changes are seen at most 10 ms and a run too late. */
    if (fabs(d.seen / 6000 - 1) > 10.21 / 300) fail_msg("%g", d.seen);
    assert_true(d.runs > 3 * 300 / 0.21 && d.runs < 3 * 430 / 0.21);
    /* Readings take time in which a device is idle. */
    assert_true(d.readings < (double)d.ns * 1e-7 + 10);
    d = (drawing){.each = 40000000};
    measure_energy(&d, 1);
    assert_true(fabs(d.seen / 6000 - 1) < 0.15);
    d = (drawing){.each = 1000000, .end = 200};
    measure_energy(&d, 1);
    assert_true(d.seen == -1 && d.runs == 200);
    d = (drawing){.each = 1000000, .still = true};
    measure_energy(&d, 1);
    assert_int_equal(d.status, TW_ERR_UNSUPPORTED);
    assert_string_equal(d.why, "the counter of energy stands still");
    d = (drawing){.each = 1000000, .broken_at = 100};
    measure_energy(&d, 1);
    assert_int_equal(d.status, TW_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(energy_is_power_times_time),
        cmocka_unit_test(one_after_another),
        cmocka_unit_test(in_turns),
        cmocka_unit_test(the_slow_are_given_up),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(what_is_wrong_is_timed_where_that_is_asked),
        cmocka_unit_test(failures_end_it),
        cmocka_unit_test(budgets_end_it),
        cmocka_unit_test(interruptions_leave_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

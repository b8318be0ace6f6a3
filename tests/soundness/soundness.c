/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the static check against the oracle, on as many programs as asked for:

     soundness [--count N] [--seed N] [--class NAME] [--json] [--dump FILE]

   Program i of a run is that of seed + i, so `--seed S --count 1 --class NAME` makes it again. The status is 1 when the
   check accepted what the oracle proved unsafe, or rejected a real lowering, or when the oracle disagreed with a run of
   the machine. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "schedule/check.h"
#include "schedule/report.h"
#include "soundness/cases.h"
#include "soundness/machine.h"
#include "soundness/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CLASSES = 64,
    MAX_RULES = 32,
    RANDOM_EVERY = 16, /* programs: random runs of the machine, a few each */
    RANDOM_RUNS = 8,
    MANY_RUNS = 500,    /* where the states are too many */
    ALL_EVERY = 64,     /* programs: all runs of it */
    ALL_STATES = 20000, /* where there are no more states than this */
    TOLD = 20,          /* disagreements that are printed */
};

typedef struct tally {
    int64_t made, unsafe, rejected, false_accepts, over_strict, unknown;
    int64_t of[HAZARD_COUNT];
} tally;

/* What the check said first of programs that were safe. */
typedef struct strictness {
    const char *rule;
    int64_t count;
} strictness;

typedef struct options {
    int64_t count;
    uint64_t seed;
    const char *class, *dump;
    bool json;
} options;

typedef struct session {
    options opt;
    program_pool pool;
    oracle oracle;
    tally tallies[MAX_CLASSES];
    strictness strict[MAX_RULES];
    int64_t random_runs, random_faults, whole_spaces, engines_disagree, lowerings_rejected, told;
    double seconds, making, judging, checking;
} session;

static bool read_options(options *o, int argc, char **argv) {
    *o = (options){.count = 20000, .seed = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--json")) {
            o->json = true;
            continue;
        }
        if (!value) return false;
        if (!strcmp(argv[i], "--count"))
            o->count = strtoll(value, NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            o->seed = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--class"))
            o->class = value;
        else if (!strcmp(argv[i], "--dump"))
            o->dump = value;
        else
            return false;
        i++;
    }
    return true;
}

static void tell(session *x, const char *what, uint64_t seed, int class, const tw_schedule *s, const char *why) {
    if (x->told++ >= TOLD) return;
    fprintf(stderr, "%s: --class '%s' --seed %llu --count 1: %s\n", what, case_name(class), (unsigned long long)seed,
            why);
    tw_diag d;
    if (x->told == 1 && x->opt.dump && tw_schedule_write(s, x->opt.dump, &d) != TW_OK)
        fprintf(stderr, "%s\n", d.message);
}

/* Where nothing races, what is found undefined, uneven or missing is so in every run, and so is a deadlock. */
static bool in_every_run(hazard h) {
    return h == HAZARD_DEADLOCK || h == HAZARD_UNDEFINED || h == HAZARD_COVERAGE || h == HAZARD_OUTPUT;
}

static void run_at_random(session *x, int runs, tw_random *r, uint64_t seed, int class, const tw_schedule *s,
                          const oracle_verdict *v) {
    bool safe = v->kind == HAZARD_NONE || v->kind == HAZARD_SELF;
    for (int i = 0; i < runs; i++, x->random_runs++) {
        hazard h = machine_random(&x->oracle.memory, r);
        x->random_faults += h != HAZARD_NONE;
        if (h == HAZARD_NONE ? !in_every_run(v->kind) : !safe) continue;
        x->engines_disagree++;
        tell(x, "a run of the machine says otherwise than the oracle", seed, class, s, hazard_name(h));
    }
}

/* The machine, event by event, must find faults only where the oracle did, and all of them where it sees all runs. */
static void hold_against_machine(session *x, uint64_t seed, int class, const tw_schedule *s, const oracle_verdict *v) {
    memory *m = &x->oracle.memory;
    touch_step step[ORDER_MAX_STEPS];
    int who;
    tw_random r = tw_random_seed(seed ^ 0x5eed);
    bool ordered =
        v->kind >= HAZARD_DEADLOCK || v->kind == HAZARD_NONE; /* form and structure end before anything runs */
    if (!v->played || !ordered) return;
    for (int i = 0; i < v->steps; i++) step[i] = v->step[i].n ? v->step[i] : (touch_step){.n = s->tokens};
    if (memory_set(m, &x->oracle.order, &x->oracle.space, step, &who) != HAZARD_NONE) return;
    run_at_random(x, RANDOM_RUNS, &r, seed, class, s, v);
    if ((int64_t)(seed - x->opt.seed) / case_classes() % ALL_EVERY) return;
    bool complete, order_fault = v->kind == HAZARD_DEADLOCK || v->kind == HAZARD_RACE || v->kind == HAZARD_STEP_END;
    hazard h = machine_all(m, ALL_STATES, &complete);
    x->whole_spaces += complete;
    if (!complete) run_at_random(x, MANY_RUNS, &r, seed, class, s, v);
    if ((h != HAZARD_NONE && !order_fault) || (h == HAZARD_NONE && complete && order_fault)) {
        x->engines_disagree++;
        tell(x, "all runs of the machine say otherwise than the oracle", seed, class, s, hazard_name(h));
    }
}

static void count_strict(session *x, const tw_report *report) {
    int i = 0;
    if (!report->count) return;
    while (i < MAX_RULES - 1 && x->strict[i].count && strcmp(x->strict[i].rule, report->findings[0].rule)) i++;
    if (!x->strict[i].count++) x->strict[i].rule = strdup(report->findings[0].rule);
}

static double now(void) {
    return (double)tw_now_ns() / 1e9;
}

static void judge_one(session *x, int64_t number, int class) {
    uint64_t seed = x->opt.seed + (uint64_t)number;
    tw_random r = tw_random_seed(seed);
    tally *t = &x->tallies[class];
    oracle_verdict v;
    tw_report report;
    tw_diag d;
    double start = now();
    tw_schedule *s = case_make(&x->pool, class, &r);
    double made = now();
    oracle_judge(&x->oracle, s, &r, &v);
    double judged = now();
    if (tw_report_start(&report) != TW_OK) abort();
    bool accepted = tw_schedule_examine(s, &report, &d) == TW_OK;
    double checked = now();
    bool unsafe = v.kind != HAZARD_NONE;
    t->made++;
    t->unsafe += unsafe;
    t->of[v.kind]++;
    t->rejected += !accepted;
    t->unknown += !v.played;
    if (unsafe && accepted) {
        t->false_accepts++;
        tell(x, "accepted, but unsafe", seed, class, s, v.text);
    }
    if (!unsafe && v.played && !accepted) {
        t->over_strict++;
        count_strict(x, &report);
        if (x->opt.count == 1 || class == CASE_LOWERING)
            tell(x, "rejected, but safe", seed, class, s, report.count ? report.findings[0].text : "");
    }
    if (class == CASE_LOWERING && !accepted) x->lowerings_rejected++;
    tw_report_free(&report);
    if (number / case_classes() % RANDOM_EVERY == 0) hold_against_machine(x, seed, class, s, &v);
    tw_schedule_free(s);
    x->making += made - start;
    x->judging += judged - made;
    x->checking += checked - judged;
}

static void add_tally(tally *to, const tally *t) {
    to->made += t->made;
    to->unsafe += t->unsafe;
    to->rejected += t->rejected;
    to->false_accepts += t->false_accepts;
    to->over_strict += t->over_strict;
    to->unknown += t->unknown;
    for (int h = 0; h < HAZARD_COUNT; h++) to->of[h] += t->of[h];
}

static void print_row(const char *name, const tally *t) {
    printf("%-22s %9lld %9lld %9lld %7lld %9lld %8lld\n", name, (long long)t->made, (long long)t->unsafe,
           (long long)t->rejected, (long long)t->false_accepts, (long long)t->over_strict, (long long)t->unknown);
}

static void print_table(const session *x, const tally *all) {
    printf("%-22s %9s %9s %9s %7s %9s %8s\n", "class", "made", "unsafe", "rejected", "false", "over-", "unknown");
    printf("%-22s %9s %9s %9s %7s %9s\n", "", "", "", "", "accepts", "strict");
    for (int c = 0; c < case_classes(); c++)
        if (x->tallies[c].made) print_row(case_name(c), &x->tallies[c]);
    print_row("all", all);
    printf("\nunsafe by:");
    for (int h = 1; h < HAZARD_COUNT; h++)
        if (all->of[h]) printf(" %s %lld", hazard_name((hazard)h), (long long)all->of[h]);
    printf("\nsafe, but rejected by:");
    for (int i = 0; x->strict[i].count; i++) printf(" %s %lld", x->strict[i].rule, (long long)x->strict[i].count);
    printf("\n%lld lowerings rejected; %lld random runs (%lld with a fault) and %lld whole state spaces, %lld against "
           "the oracle\n",
           (long long)x->lowerings_rejected, (long long)x->random_runs, (long long)x->random_faults,
           (long long)x->whole_spaces, (long long)x->engines_disagree);
    printf("%.1f s, %.0f programs/s (making %.1f s, oracle %.1f s, check %.1f s)\n", x->seconds,
           (double)all->made / x->seconds, x->making, x->judging, x->checking);
}

static void print_tally_json(const char *name, const tally *t, const char *end) {
    printf("  {\"class\": \"%s\", \"made\": %lld, \"unsafe\": %lld, \"rejected\": %lld, \"false_accepts\": %lld, "
           "\"over_strict\": %lld, \"unknown\": %lld}%s\n",
           name, (long long)t->made, (long long)t->unsafe, (long long)t->rejected, (long long)t->false_accepts,
           (long long)t->over_strict, (long long)t->unknown, end);
}

static void print_json(const session *x, const tally *all) {
    printf("{\"seed\": %llu, \"seconds\": %.1f, \"programs_per_second\": %.0f,\n", (unsigned long long)x->opt.seed,
           x->seconds, (double)all->made / x->seconds);
    printf(" \"lowerings_rejected\": %lld, \"random_runs\": %lld, \"whole_state_spaces\": %lld, "
           "\"engines_disagree\": %lld,\n \"unsafe_by\": {",
           (long long)x->lowerings_rejected, (long long)x->random_runs, (long long)x->whole_spaces,
           (long long)x->engines_disagree);
    for (int h = 1; h < HAZARD_COUNT; h++)
        printf("%s\"%s\": %lld", h > 1 ? ", " : "", hazard_name((hazard)h), (long long)all->of[h]);
    printf("},\n \"over_strict_by\": {");
    for (int i = 0; x->strict[i].count; i++)
        printf("%s\"%s\": %lld", i ? ", " : "", x->strict[i].rule, (long long)x->strict[i].count);
    printf("},\n \"classes\": [\n");
    for (int c = 0; c < case_classes(); c++)
        if (x->tallies[c].made) print_tally_json(case_name(c), &x->tallies[c], ",");
    print_tally_json("all", all, "");
    printf(" ]}\n");
}

int main(int argc, char **argv) {
    static session x;
    int only = -1, classes = case_classes();
    if (!read_options(&x.opt, argc, argv)) {
        fprintf(stderr, "usage: soundness [--count N] [--seed N] [--class NAME] [--json] [--dump FILE]\n");
        return 2;
    }
    for (int c = 0; c < classes && x.opt.class; c++)
        if (!strcmp(case_name(c), x.opt.class)) only = c;
    if ((x.opt.class && only < 0) || classes > MAX_CLASSES) {
        fprintf(stderr, "no such class; there are:");
        for (int c = 0; c < classes; c++) fprintf(stderr, "%s %s", c ? "," : "", case_name(c));
        fprintf(stderr, "\n");
        return 2;
    }
    x.pool = program_pool_open(64, 600);
    double start = now();
    for (int64_t i = 0; i < x.opt.count; i++) judge_one(&x, i, only >= 0 ? only : (int)(i % classes));
    x.seconds = now() - start;
    tally all = {0};
    for (int c = 0; c < classes; c++) add_tally(&all, &x.tallies[c]);
    if (x.opt.json)
        print_json(&x, &all);
    else
        print_table(&x, &all);
    program_pool_close(&x.pool);
    oracle_free(&x.oracle);
    return all.false_accepts || x.lowerings_rejected || x.engines_disagree;
}

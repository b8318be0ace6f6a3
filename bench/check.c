/* SPDX-License-Identifier: Apache-2.0 */
/* bench_check: how long the static check takes, and how much memory, over sizes of schedules; one JSON line a case.
   Decode schedules of known shapes on one core, as a search would check them: the schedule is in memory, the proof is
   from nothing. */
#define _GNU_SOURCE
#include "schedule/check.h"
#include "base/clock.h"
#include "base/stats.h"
#include "schedule/report.h"
#include "tilewright/device.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { SAMPLES = 31, MOST_US = 20000 /* of one sample */ };

/* ---- memory: the linker passes every allocation through these ---- */

static bool counting; /* not while time is measured */
static size_t held, most_held;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static void *hold(void *p) {
    if (!counting) return p;
    held += malloc_usable_size(p);
    if (held > most_held) most_held = held;
    return p;
}

void *__wrap_malloc(size_t size) {
    return hold(__real_malloc(size));
}
void *__wrap_calloc(size_t n, size_t size) {
    return hold(__real_calloc(n, size));
}
void *__wrap_realloc(void *p, size_t size) {
    if (counting) held -= malloc_usable_size(p);
    return hold(__real_realloc(p, size));
}
void __wrap_free(void *p) {
    if (counting) held -= malloc_usable_size(p);
    __real_free(p);
}

/* ---- cases ---- */

typedef struct one_case {
    const char *shape;
    int workers;
    int64_t tokens, kv_splits;
    double limit_us; /* 0: none was set */
} one_case;

static const one_case cases[] = {
    {"llama-tiny", 2, 1, 2, 10},   {"llama-1b", 1, 1, 0, 0},       {"llama-1b", 2, 1, 0, 0},
    {"llama-1b", 8, 1, 0, 0},      {"llama-1b", 32, 1, 0, 0},      {"llama-1b", 64, 1, 0, 0},
    {"llama-1b", 132, 1, 0, 5000}, {"llama-1b", 264, 1, 0, 0},     {"llama-1b", 528, 1, 0, 0},
    {"llama-1b", 1024, 1, 0, 0},   {"llama-8b", 132, 1, 0, 15000}, {"llama-8b", 264, 1, 0, 0},
    {"llama-1b", 132, 512, 0, 0},  {"llama-1b", 1024, 512, 0, 0},
};

static bool examine(const tw_schedule *s) {
    tw_report r;
    tw_diag d;
    if (tw_report_start(&r) != TW_OK) return false;
    bool ok = tw_schedule_examine(s, &r, &d) == TW_OK;
    tw_report_free(&r);
    return ok;
}

static bool run_case(const one_case *c) {
    tw_diag d;
    tw_model *m;
    tw_schedule *s;
    tw_schedule_info info;
    tw_lowering l = {.workers = c->workers, .tokens = c->tokens, .max_seq = 2048, .kv_splits = c->kv_splits};
    double samples[SAMPLES];
    if (tw_model_synthetic(&m, c->shape, TW_BF16, 1, &d) != TW_OK || tw_schedule_lower(&s, m, &l, &d) != TW_OK) {
        fprintf(stderr, "bench_check: %s\n", d.message);
        return false;
    }
    tw_schedule_describe(s, &info);
    held = most_held = 0;
    counting = true;
    bool ok = examine(s);
    counting = false;
    size_t peak = most_held;
    int64_t start = tw_now_ns();
    ok = examine(s) && ok;
    double once = (double)(tw_now_ns() - start) * 1e-3;
    int times = once < MOST_US ? (int)(MOST_US / once) + 1 : 1;
    for (int i = 0; i < SAMPLES; i++) {
        start = tw_now_ns();
        for (int k = 0; k < times; k++) ok = examine(s) && ok;
        samples[i] = (double)(tw_now_ns() - start) * 1e-3 / times;
    }
    tw_stats t = tw_stats_of(samples, SAMPLES);
    printf("{\"case\": \"%s decode\", \"config\": {\"shape\": \"%s\", \"workers\": %d, \"tokens\": %lld, "
           "\"kv_splits\": %lld}, "
           "\"instructions\": %lld, \"ours_us\": %.2f, \"checks_per_s\": %.0f, \"spread\": %.4f, \"samples\": %d, "
           "\"peak_bytes\": %zu",
           c->shape, c->shape, c->workers, (long long)c->tokens, (long long)c->kv_splits, (long long)info.instructions,
           t.median, 1e6 / t.median, (t.p90 - t.p10) / t.median, SAMPLES, peak);
    if (c->limit_us > 0) printf(", \"goal_us\": %.0f", c->limit_us);
    printf(", \"correct\": %s}\n", ok ? "true" : "false");
    fflush(stdout);
    tw_schedule_free(s);
    tw_model_close(m);
    return ok;
}

int main(int argc, char **argv) {
    const char *commit = argc == 3 && !strcmp(argv[1], "--commit") ? argv[2] : "unknown";
    char date[16];
    time_t now = time(NULL);
    struct utsname u;
    tw_cpu cpu;
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: bench_check [--commit HASH]\n");
        return 2;
    }
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    uname(&u);
    tw_cpu_detect(&cpu);
    printf(
        "{\"device\": \"%s, one core\", \"kernel\": \"%s\", \"versions\": {\"tilewright\": \"%s\", \"compiler\": \"gcc "
        "%s\"}, \"date\": \"%s\", \"commit\": \"%s\", \"command\": \"build/bench/bench_check\"}\n",
        cpu.model, u.release, TW_VERSION, __VERSION__, date, commit);
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) ok = run_case(&cases[i]) && ok;
    return ok ? 0 : 1;
}

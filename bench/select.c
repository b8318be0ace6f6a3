/* SPDX-License-Identifier: Apache-2.0 */
/* bench_select [--waves] [--check]: prints the times of decisions as a line of JSON. The times are of a problem in the
   selector's cache; of a new problem with the tables in the processor's caches; of a new problem after the tables'
   lines were flushed (clflush); and of a new problem after walking a buffer evicted tables and code. The artefact is a
   direct one of 120 macro choices with corrections; with --waves each macro choice has 41 fits instead.

   Each problem is first decided twice and compared with the reference by the definition (tests/select/artefacts.h).
   Each timed decision is then compared with those. If a decision is wrong, no time is printed and the exit status is 1.
   --check times nothing. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/stats.h"
#include "select/artefacts.h"
#include "select/selector.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MACROS = 120, WAVES = 40, PROBLEMS = 1 << 14, COLD = 4000, WALKS = 200, WALK = 128 << 20, BATCH = 64 };

typedef struct bench {
    tw_arena arena;
    bool waves; /* True: the artefact is by waves. False: it is direct and has corrections. */
    tw_artefact *artefact;
    tw_selector *s, *other;
    int64_t (*problems)[TW_SELECT_AXES];
    tw_selection *right; /* The right decision of each problem. */
    double times[COLD];
    int next;
    int64_t checked; /* Number of decisions that were checked. */
    int64_t wrong;   /* Number of wrong decisions. */
} bench;

static void print_times(const char *name, const tw_stats *s) {
    printf("\"%s_ns\": %.1f, \"%s_p10_ns\": %.1f, \"%s_p90_ns\": %.1f, ", name, s->median, name, s->p10, name, s->p90);
}

/* ---- verdicts */

/* Counts a decision. The first wrong one is printed. `why` NULL: the decision is right. */
static void count(bench *b, int problem, const char *why) {
    const int64_t *p = b->problems[problem];
    b->checked++;
    if (!why || b->wrong++) return;
    fprintf(stderr, "bench_select: m=%lld n=%lld k=%lld: %s\n", (long long)p[0], (long long)p[1], (long long)p[2], why);
}

/* Decides each problem twice and compares both decisions with the reference. The cache answers the second time. */
static void check_all(bench *b) {
    for (int i = 0; i < PROBLEMS; i++)
        for (int again = 0; again < 2; again++) {
            tw_selection *s = &b->right[i];
            const tw_status st = tw_select_choose(b->s, b->problems[i], 0, s);
            const char *why = st == TW_OK ? artefact_refute(b->artefact, b->problems[i], 0, s) : "nothing is chosen";
            count(b, i, why ? why : again && !s->remembered ? "it is not remembered" : NULL);
        }
}

/* Compares a timed decision with that of check_all. */
static void check(bench *b, int problem, const tw_selection *s) {
    const tw_selection *r = &b->right[problem];
    const bool same = s->source == r->source && s->macro == r->macro && s->micro == r->micro &&
                      s->config == r->config && s->time == r->time;
    count(b, problem, same ? NULL : "timed, it is another decision");
}

/* ---- times */

static int new_problem(bench *b) {
    return b->next++ % PROBLEMS;
}

static tw_stats warm(bench *b, bool same) {
    tw_selection out[BATCH];
    int of[BATCH];
    memset(out, 0, sizeof out);
    for (int k = 0; k < COLD; k++) {
        for (int i = 0; i < BATCH; i++) of[i] = same ? 0 : new_problem(b);
        const int64_t began = tw_now_ns();
        for (int i = 0; i < BATCH; i++) (void)tw_select_choose(b->s, b->problems[of[i]], 0, &out[i]);
        b->times[k] = (double)(tw_now_ns() - began) / BATCH;
        for (int i = 0; i < BATCH; i++) check(b, of[i], &out[i]);
    }
    return tw_stats_of(b->times, COLD);
}

static void flush(const bench *b) {
#if defined(__x86_64__)
    for (size_t i = 0; i < b->s->map.size; i += 64) __builtin_ia32_clflush(b->s->map.data + i);
    __builtin_ia32_mfence();
#else
    (void)b;
#endif
}

/* Times a new problem with cold caches. The clock is called once before, so that its own code is warm. */
static double once(bench *b, bool decide) {
    tw_selection out = {.macro = -1};
    const int problem = new_problem(b);
    int64_t axes[TW_SELECT_AXES];
    memcpy(axes, b->problems[problem], sizeof axes);
    tw_now_ns();
    const int64_t began = tw_now_ns();
    if (decide) (void)tw_select_choose(b->s, axes, 0, &out);
    const int64_t ended = tw_now_ns();
    if (decide) check(b, problem, &out);
    return (double)(ended - began);
}

static tw_stats cold(bench *b, unsigned char *walk, bool warm_code, int n) {
    unsigned sum = 0;
    double empty[COLD];
    for (int i = 0; i < n; i++) {
        if (walk)
            for (size_t k = 0; k < WALK; k += 64) sum += walk[k];
        else
            flush(b);
        tw_selection out;
        for (int k = 0; warm_code && k < 4; k++) (void)tw_select_choose(b->other, b->problems[new_problem(b)], 0, &out);
        b->times[i] = once(b, true);
        empty[i] = once(b, false);
    }
    if (walk) walk[0] = (unsigned char)sum;
    const double clock = tw_stats_of(empty, (size_t)n).median;
    tw_stats s = tw_stats_of(b->times, (size_t)n);
    s.p10 -= clock;
    s.median -= clock;
    s.p90 -= clock;
    return s;
}

/* Opens a selector of a new copy of the artefact, which shares no pages with other copies. */
static tw_status open_selector(const bench *b, tw_selector **out, tw_diag *diag) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/bench-select.%d", (int)getpid());
    tw_status st = tw_artefact_write(b->artefact, path, diag);
    if (st == TW_OK) st = tw_selector_open(out, path, diag);
    unlink(path);
    return st;
}

static void draw(bench *b) {
    tw_random r = tw_random_seed(2);
    for (int i = 0; i < PROBLEMS; i++)
        for (int a = 0; a < b->artefact->n_axes; a++) {
            const uint64_t bound = UINT64_C(1) << (6 + tw_random_below(&r, 8));
            b->problems[i][a] = 1 + (int64_t)tw_random_below(&r, bound);
        }
}

static void print_model(void) {
    char line[256], *at;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && (at = strchr(line, ':'))) {
            printf("\"cpu\": \"%.*s\", ", (int)strcspn(at + 2, "\n"), at + 2);
            break;
        }
    if (f) fclose(f);
}

/* Returns the mean number of records that a decision reads. */
static double records_read(const bench *b) {
    double read = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        select_problem p;
        if (select_problem_of(&b->s->view, b->problems[i], 0, &p)) read += select_candidates(&b->s->view, &p);
    }
    return read / PROBLEMS;
}

enum { TIMES = 5 };
static const char *const names[TIMES] = {"remembered", "new", "flushed", "evicted", "walked"};

/* Measures all times. A wrong decision ends it. */
static void measure(bench *b, unsigned char *walk, tw_stats *out) {
    if (!b->wrong) out[0] = warm(b, true);
    if (!b->wrong) out[1] = warm(b, false);
    if (!b->wrong) out[2] = cold(b, NULL, false, COLD);
    if (!b->wrong) out[3] = cold(b, walk, true, WALKS);
    if (!b->wrong) out[4] = cold(b, walk, false, WALKS);
}

static void print(const bench *b, const tw_stats *times) {
    tw_selector_info info;
    tw_selector_describe(b->s, &info);
    printf("{");
    print_model();
    printf("\"macros\": %d, \"bytes\": %zu, \"avx2\": %s, ", info.macros, info.bytes,
           b->s->view.scan == select_scan_c ? "false" : "true");
    for (int i = 0; times && i < TIMES; i++) print_times(names[i], &times[i]);
    printf("\"records_read\": %.1f, \"checked\": %lld, \"correct\": true}\n", records_read(b), (long long)b->checked);
}

/* Makes the artefact, its selectors and the problems. */
static bool begin(bench *b, tw_diag *diag) {
    tw_random r = tw_random_seed(1);
    b->artefact = artefact_of_products(&b->arena, &r, MACROS, WAVES);
    if (!b->waves) {
        artefact_direct(&b->arena, &r, b->artefact);
        artefact_correct(&b->arena, &r, b->artefact);
    }
    b->problems = calloc(PROBLEMS, sizeof *b->problems);
    b->right = calloc(PROBLEMS, sizeof *b->right);
    if (b->arena.failed || !b->problems || !b->right) {
        tw_fail_memory(diag);
        return false;
    }
    draw(b);
    return open_selector(b, &b->other, diag) == TW_OK && open_selector(b, &b->s, diag) == TW_OK;
}

static void end(bench *b) {
    tw_selector_close(b->s);
    tw_selector_close(b->other);
    free(b->problems);
    free(b->right);
    tw_arena_free(&b->arena);
}

int main(int argc, char **argv) {
    bool times = true;
    tw_stats all[TIMES] = {{0}};
    tw_diag d;
    bench b = {.next = 0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check")) {
            times = false;
        } else if (!strcmp(argv[i], "--waves")) {
            b.waves = true;
        } else {
            fprintf(stderr, "usage: bench_select [--waves] [--check]\n");
            return 2;
        }
    }
    unsigned char *walk = times ? malloc(WALK) : NULL;
    if (times && !walk) tw_fail_memory(&d);
    const bool begun = times == (walk != NULL) && begin(&b, &d);
    if (!begun) {
        fprintf(stderr, "bench_select: %s\n", d.message);
    } else {
        check_all(&b);
        if (times) memset(walk, 1, WALK);
        if (times) measure(&b, walk, all);
        if (!b.wrong)
            print(&b, times ? all : NULL);
        else
            fprintf(stderr, "bench_select: %lld of %lld decisions are wrong\n", (long long)b.wrong,
                    (long long)b.checked);
    }
    free(walk);
    end(&b);
    return begun && !b.wrong ? 0 : 1;
}

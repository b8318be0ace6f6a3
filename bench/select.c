/* SPDX-License-Identifier: Apache-2.0 */
/* bench_select [FILE]: prints the times of decisions as a line of JSON. The times are of a problem in the selector's
   cache; of a new problem with the tables in the processor's caches; of a new problem after the tables' lines were
   flushed (clflush); and of a new problem after walking a buffer evicted tables and code. Without FILE the artefact has
   120 macro choices of 41 fits. */
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
    tw_selector *s, *other;
    int64_t (*problems)[TW_SELECT_AXES];
    double times[COLD];
    int next;
} bench;

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The 10th, 50th and 90th percentile of times. */
typedef struct spread {
    double p10, median, p90;
} spread;

static spread spread_of(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_size);
    return (spread){x[n / 10], x[n / 2], x[n * 9 / 10]};
}

static void print_spread(const char *name, spread s) {
    printf("\"%s_ns\": %.1f, \"%s_p10_ns\": %.1f, \"%s_p90_ns\": %.1f, ", name, s.median, name, s.p10, name, s.p90);
}

static const int64_t *new_problem(bench *b) {
    return b->problems[b->next++ % PROBLEMS];
}

static spread warm(bench *b, bool same) {
    tw_selection out;
    for (int k = 0; k < COLD; k++) {
        const int64_t began = tw_now_ns();
        for (int i = 0; i < BATCH; i++) (void)tw_select_choose(b->s, same ? b->problems[0] : new_problem(b), 0, &out);
        b->times[k] = (double)(tw_now_ns() - began) / BATCH;
    }
    return spread_of(b->times, COLD);
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
    tw_selection out;
    const int64_t *p = new_problem(b);
    int64_t axes[TW_SELECT_AXES];
    memcpy(axes, p, sizeof axes);
    tw_now_ns();
    const int64_t began = tw_now_ns();
    if (decide) (void)tw_select_choose(b->s, axes, 0, &out);
    return (double)(tw_now_ns() - began);
}

static spread cold(bench *b, unsigned char *walk, bool warm_code, int n) {
    unsigned sum = 0;
    double empty[COLD];
    for (int i = 0; i < n; i++) {
        if (walk)
            for (size_t k = 0; k < WALK; k += 64) sum += walk[k];
        else
            flush(b);
        tw_selection out;
        for (int k = 0; warm_code && k < 4; k++) (void)tw_select_choose(b->other, new_problem(b), 0, &out);
        b->times[i] = once(b, true);
        empty[i] = once(b, false);
    }
    if (walk) walk[0] = (unsigned char)sum;
    const double clock = spread_of(empty, n).median;
    const spread s = spread_of(b->times, n);
    return (spread){s.p10 - clock, s.median - clock, s.p90 - clock};
}

static tw_status make(const char *path, tw_diag *diag) {
    tw_arena arena = {0};
    tw_random r = tw_random_seed(1);
    const tw_status st = tw_artefact_write(artefact_of_products(&arena, &r, MACROS, WAVES), path, diag);
    tw_arena_free(&arena);
    return st;
}

static void draw(bench *b) {
    tw_selector_info info;
    tw_random r = tw_random_seed(2);
    tw_selector_describe(b->s, &info);
    b->problems = calloc(PROBLEMS, sizeof *b->problems);
    for (int i = 0; b->problems && i < PROBLEMS; i++)
        for (int a = 0; a < info.n_axes; a++) {
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

int main(int argc, char **argv) {
    tw_diag d;
    bench b = {0};
    char path[64];
    tw_selector_info info;
    snprintf(path, sizeof path, "/tmp/bench-select.%d", (int)getpid());
    tw_status st = make(path, &d);
    if (st == TW_OK) st = tw_selector_open(&b.other, path, &d);
    if (st == TW_OK && argc < 2) st = make(path, &d); /* A copy of the artefact, in other pages. */
    if (st == TW_OK) st = tw_selector_open(&b.s, argc < 2 ? path : argv[1], &d);
    unlink(path);
    if (st != TW_OK) {
        fprintf(stderr, "bench_select: %s\n", d.message);
        return 1;
    }
    draw(&b);
    unsigned char *walk = malloc(WALK);
    if (!b.problems || !walk) return 1;
    memset(walk, 1, WALK);
    tw_selector_describe(b.s, &info);
    printf("{");
    print_model();
    printf("\"macros\": %d, \"bytes\": %zu, \"avx2\": %s, ", info.macros, info.bytes,
           b.s->view.scan == select_scan_c ? "false" : "true");
    print_spread("remembered", warm(&b, true));
    print_spread("new", warm(&b, false));
    print_spread("flushed", cold(&b, NULL, false, COLD));
    print_spread("evicted", cold(&b, walk, true, WALKS));
    print_spread("walked", cold(&b, walk, false, WALKS));
    double read = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        select_problem p;
        if (select_problem_of(&b.s->view, b.problems[i], 0, &p)) read += select_candidates(&b.s->view, &p);
    }
    printf("\"records_read\": %.1f}\n", read / PROBLEMS);
    free(walk);
    free(b.problems);
    tw_selector_close(b.s);
    tw_selector_close(b.other);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Times maps and rows on one core: `bench_pointwise 'map WORDS' 'rows WORDS' ...`, in the words of `tilewright kernel`.
   Prints for each, by variant, microseconds of the processor, and the bytes of all its buffers per nanosecond beside
   those of a copy. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "kernels/cpu/kernels.h"
#include "kernels/pointwise/map_kernel.h"
#include "kernels/pointwise/trial.h"
#include "kernels/rows/rows_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 15, TEXT = 2048 };

typedef struct problem {
    bool is_map;
    tw_map_problem map;
    tw_rows_problem rows;
    const tw_points *x;
    tw_point_buffers buffers;
} problem;

/* Time that this thread has had, in nanoseconds: other programs may be running. */
static int64_t spent(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static tw_status parse(problem *p, const char *text, tw_diag *d) {
    char words[TEXT];
    snprintf(words, sizeof words, "%s", text + strcspn(text, " "));
    p->is_map = !strncmp(text, "map ", 4);
    const tw_status st = p->is_map ? tw_map_parse(&p->map, words, d) : tw_rows_parse(&p->rows, words, d);
    if (st != TW_OK) return st;
    p->x = p->is_map ? &p->map.x : &p->rows.x;
    if (p->is_map)
        tw_map_buffers(&p->map, &p->buffers);
    else
        tw_rows_buffers(&p->rows, &p->buffers);
    return TW_OK;
}

/* The least of some times in microseconds. */
static double time_of(const problem *p, const tw_kernels *k, const tw_point_data *data) {
    double best = 1e30;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t from = spent();
        if (p->is_map)
            k->map(&p->map, data, 0, tw_points_rows(p->x));
        else
            k->rows(&p->rows, data, 0, tw_points_rows(p->x));
        const double us = (double)(spent() - from) / 1e3;
        if (us < best) best = us;
    }
    return best;
}

static double copy_rate(size_t bytes) {
    double best = 0;
    char *x = malloc(bytes / 2 + 1), *y = malloc(bytes / 2 + 1);
    if (x && y) {
        memset(x, 1, bytes / 2 + 1);
        for (int i = 0; i < SAMPLES; i++) {
            const int64_t from = spent();
            memcpy(y, x, bytes / 2);
            __asm__ volatile("" ::"r"(y) : "memory");
            const double rate = (double)bytes / (double)(spent() - from);
            if (rate > best) best = rate;
        }
    }
    free(x);
    free(y);
    return best;
}

static int run(const char *text) {
    static const uint32_t masks[] = {0, TW_CPU_AVX2, TW_CPU_AVX2 | TW_CPU_AVX512};
    static const char *const names[] = {"c", "avx2", "avx512"};
    problem p = {0};
    tw_point_trial t;
    tw_diag d;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    if (parse(&p, text, &d) != TW_OK || tw_point_trial_make(&t, p.x, &p.buffers, 1, &d) != TW_OK) {
        fprintf(stderr, "%s: %s\n", text, d.message);
        return 1;
    }
    size_t bytes = 0;
    for (int i = 0; i < t.n; i++) bytes += t.of[i].bytes;
    printf("%s\n  %.2f MB; a copy: %.1f GB/s\n", text, (double)bytes / 1e6, copy_rate(bytes));
    for (int i = 0; i < 3; i++) {
        tw_kernels k;
        if ((masks[i] & cpu.isa) != masks[i]) continue;
        tw_kernels_choose(&k, masks[i]);
        const double us = time_of(&p, &k, &t.data);
        printf("  %-7s %9.1f us  %5.1f GB/s\n", names[i], us, (double)bytes / us / 1e3);
    }
    tw_point_trial_free(&t);
    return 0;
}

int main(int argc, char **argv) {
    int bad = argc < 2;
    for (int i = 1; i < argc; i++) bad |= run(argv[i]);
    return bad;
}

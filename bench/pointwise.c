/* SPDX-License-Identifier: Apache-2.0 */
/* Times maps and rows on one core: `bench_pointwise 'map WORDS' 'rows WORDS' ...`, in the words of `tilewright kernel`;
   with --gpu first, on the first GPU, whose results are also compared, and rows by every configuration. Where there is
   none, the emulator computes, and nothing is timed.
   Prints for each, by variant, microseconds of the processor, and the bytes of all its buffers per nanosecond beside
   those of a copy. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "kernels/cpu/kernels.h"
#include "kernels/kernel.h"
#include "kernels/pointwise/map_kernel.h"
#include "kernels/pointwise/trial.h"
#include "kernels/rows/rows_kernel.h"

#include <math.h>
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

/* -- on a GPU */

enum { LAUNCHES = 100, GRAPHS = 7, CONFIGURATIONS = 6 };

/* A kernel on a GPU with a problem's data. */
typedef struct device {
    tw_gpu *gpu;
    tw_gpu_kernel *kernel;
    tw_gpu_launch *launch;
    uint64_t address[TW_POINT_BUFFERS];
} device;

static tw_status prepare(device *v, const char *text, const char *configuration, const tw_point_trial *t, tw_diag *d) {
    tw_status st = tw_gpu_kernel_open(&v->kernel, v->gpu, text, configuration, d);
    if (st == TW_OK) st = tw_gpu_launch_open(&v->launch, v->kernel, d);
    for (int i = 0; i < t->n && st == TW_OK; i++) {
        const tw_point_memory *m = &t->of[i];
        st = tw_gpu_alloc(v->gpu, m->bytes, &v->address[i], d);
        if (st == TW_OK) st = tw_gpu_upload(v->gpu, v->address[i], m->host, m->bytes, d);
        if (st == TW_OK) st = tw_gpu_launch_bind(v->launch, m->f->name, v->address[i], d);
    }
    return st;
}

static void release(device *v) {
    tw_gpu_launch_close(v->launch);
    tw_gpu_kernel_close(v->kernel);
    for (int i = 0; i < TW_POINT_BUFFERS; i++) tw_gpu_release(v->gpu, v->address[i]);
}

/* Launches once, and compares what was written with what the processor computes. */
static tw_status compare(device *v, const problem *p, tw_point_trial *got, const tw_point_trial *want, tw_diag *d) {
    const double error = 0x1p-16 * (p->is_map ? 1 : 1 + (double)tw_points_columns(p->x) / 64);
    tw_status st = tw_gpu_launch_run(v->launch, NULL, d);
    if (st == TW_OK) st = tw_gpu_wait(v->gpu, d);
    for (int i = 0; i < got->n && st == TW_OK; i++)
        if (got->of[i].f->written) st = tw_gpu_download(v->gpu, got->of[i].host, v->address[i], got->of[i].bytes, d);
    return st == TW_OK ? tw_point_trial_compare(got, want, error, d) : st;
}

/* The least time of a launch among others of the same kernel, in microseconds. */
static tw_status time_launches(device *v, double *us, tw_diag *d) {
    tw_cuda *c = v->gpu->cuda;
    tw_cuda_graph *graph = NULL;
    tw_diag unused;
    *us = INFINITY;
    if (!c) return TW_OK;
    tw_status st = tw_cuda_capture_begin(c, d);
    if (st != TW_OK) return st;
    for (int i = 0; i < LAUNCHES && st == TW_OK; i++) st = tw_gpu_launch_run(v->launch, NULL, d);
    const tw_status ended = tw_cuda_capture_end(c, &graph, st == TW_OK ? d : &unused);
    if (st == TW_OK) st = ended;
    for (int i = 0; i < GRAPHS && st == TW_OK; i++) {
        double all;
        st = tw_cuda_graph_time(c, graph, 1, &all, d);
        if (st == TW_OK && all / LAUNCHES < *us) *us = all / LAUNCHES;
    }
    tw_cuda_graph_free(graph);
    return st;
}

static tw_status run_configured(tw_gpu *gpu, const problem *p, const char *text, const char *configuration,
                                const tw_point_trial *want, tw_diag *d) {
    device v = {.gpu = gpu};
    tw_point_trial got;
    double us = 0;
    size_t bytes = 0;
    tw_status st = tw_point_trial_make(&got, p->x, &p->buffers, 1, d);
    if (st == TW_OK) st = prepare(&v, text, configuration, &got, d);
    if (st == TW_OK) st = compare(&v, p, &got, want, d);
    if (st == TW_OK) st = time_launches(&v, &us, d);
    for (int i = 0; i < got.n; i++) bytes += got.of[i].bytes;
    if (st == TW_OK) {
        tw_gpu_kernel_info info;
        tw_gpu_kernel_describe(v.kernel, &info);
        printf("  %-16s %s %8.2f us %7.0f GB/s, %d registers\n", info.configuration, configuration[0] ? " " : "*", us,
               (double)bytes / us / 1e3, info.registers);
    }
    release(&v);
    tw_point_trial_free(&got);
    return st;
}

/* The default, then for rows all others. One that is not legal is passed over. */
static int run_on_gpu(tw_gpu *gpu, const char *text) {
    problem p = {0};
    tw_point_trial want;
    tw_kernels k;
    tw_cpu cpu;
    tw_diag d;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&k, cpu.isa);
    if (parse(&p, text, &d) != TW_OK || tw_point_trial_make(&want, p.x, &p.buffers, 1, &d) != TW_OK) {
        fprintf(stderr, "%s: %s\n", text, d.message);
        return 1;
    }
    time_of(&p, &k, &want.data);
    printf("%s\n", text);
    int bad = run_configured(gpu, &p, text, "", &want, &d) != TW_OK;
    if (bad) fprintf(stderr, "%s: %s\n", text, d.message);
    for (int w = 0; w < CONFIGURATIONS && !p.is_map && !bad; w++)
        for (int r = 1; r <= 16; r *= 2) {
            char configuration[40];
            snprintf(configuration, sizeof configuration, "warps=%d rows=%d", 1 << w, r);
            const tw_status st = run_configured(gpu, &p, text, configuration, &want, &d);
            if (st == TW_OK || st == TW_ERR_USAGE) continue;
            fprintf(stderr, "%s, %s: %s\n", text, configuration, d.message);
            bad = 1;
        }
    tw_point_trial_free(&want);
    return bad;
}

int main(int argc, char **argv) {
    const bool on_gpu = argc > 1 && !strcmp(argv[1], "--gpu");
    tw_gpu *gpu = NULL;
    tw_diag d;
    int bad = argc < 2 + on_gpu;
    if (on_gpu && tw_gpu_open(&gpu, "auto", &d) != TW_OK) {
        fprintf(stderr, "%s\n", d.message);
        return 1;
    }
    for (int i = 1 + on_gpu; i < argc; i++) bad |= on_gpu ? run_on_gpu(gpu, argv[i]) : run(argv[i]);
    tw_gpu_close(gpu);
    return bad;
}

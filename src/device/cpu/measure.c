/* SPDX-License-Identifier: Apache-2.0 */
/* The two ceilings that every figure is printed beside: bytes from memory, multiply-adds in registers. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/diag.h"
#include "base/thread.h"
#include "device/cpu/loops.h"
#include "tilewright/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Processors differ in how they like to be asked (streams side by side, prefetched by hand or not); what memory can
   deliver is the best of these. */
static const struct { size_t streams, ahead; } patterns[] = {{1, 0}, {1, 1024}, {4, 0}, {4, 1024}};
enum { PATTERNS = sizeof patterns / sizeof *patterns, PASSES = 6 * PATTERNS, MAX_CPUS = 4096 };

typedef struct gate {
    _Atomic uint32_t go; /* 0 wait, 1 run, 2 give up */
    pthread_barrier_t barrier;
    tw_cpu_read_fn *read; /* NULL: multiply-adds */
    tw_cpu_fma_fn *fma;
    size_t bytes;
    int64_t rounds;
} gate;

typedef struct worker {
    gate *gate;
    pthread_t thread;
    int cpu;
    bool failed;
    int64_t begin[PASSES], end[PASSES], round_ops;
    uint64_t seen;
    float sink;
} worker;

static void run_passes(worker *w, const void *data) {
    for (int p = 0; p < PASSES; p++) {
        pthread_barrier_wait(&w->gate->barrier);
        w->begin[p] = tw_now_ns();
        if (!w->gate->read)
            w->round_ops = w->gate->fma(w->gate->rounds, &w->sink);
        else if (data)
            w->seen |=
                w->gate->read(data, w->gate->bytes, patterns[p % PATTERNS].streams, patterns[p % PATTERNS].ahead);
        w->end[p] = tw_now_ns();
    }
}

static void *work(void *arg) {
    worker *w = arg;
    void *data = NULL;
    tw_pin_self(w->cpu);
    if (w->gate->read) {
        data = mmap(NULL, w->gate->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            data = NULL;
            w->failed = true;
        } else {
            madvise(data, w->gate->bytes, MADV_HUGEPAGE);
            memset(data, 1, w->gate->bytes);
        }
    }
    for (uint32_t go; (go = atomic_load(&w->gate->go)) != 1;) {
        if (go == 2) break;
        tw_sleep_on(&w->gate->go, 0);
    }
    if (atomic_load(&w->gate->go) == 1) run_passes(w, data);
    if (data) munmap(data, w->gate->bytes);
    return NULL;
}

/* Seconds of the best pass, from the first thread's start to the last one's end. */
static double best_pass(const worker *w, int threads) {
    double best = 0;
    for (int p = 0; p < PASSES; p++) {
        int64_t begin = w[0].begin[p], end = w[0].end[p];
        for (int t = 1; t < threads; t++) {
            if (w[t].begin[p] < begin) begin = w[t].begin[p];
            if (w[t].end[p] > end) end = w[t].end[p];
        }
        double s = (double)(end - begin) * 1e-9;
        if (s > 0 && (best == 0 || s < best)) best = s;
    }
    return best;
}

static tw_status run_workers(gate *g, worker *w, int threads, tw_diag *diag) {
    int made = 0;
    if (pthread_barrier_init(&g->barrier, NULL, (unsigned)threads)) return tw_fail_memory(diag);
    while (made < threads && !pthread_create(&w[made].thread, NULL, work, &w[made])) made++;
    atomic_store(&g->go, made == threads ? 1 : 2);
    tw_wake_all(&g->go);
    for (int t = 0; t < made; t++) pthread_join(w[t].thread, NULL);
    pthread_barrier_destroy(&g->barrier);
    if (made < threads)
        return tw_fail(diag, TW_ERR_MEMORY, "no more than %d of %d threads could be started", made, threads);
    for (int t = 0; t < threads; t++)
        if (w[t].failed) return tw_fail_memory(diag);
    return TW_OK;
}

static tw_status measure(gate *g, int threads, double *seconds, int64_t *round_ops, tw_diag *diag) {
    int *cpus = malloc(MAX_CPUS * sizeof *cpus);
    worker *w = calloc((size_t)threads, sizeof *w);
    tw_status s = TW_OK;
    if (!cpus || !w) {
        s = tw_fail_memory(diag);
    } else {
        int have = tw_allowed_cpus(cpus, MAX_CPUS);
        if (have > MAX_CPUS) have = MAX_CPUS;
        for (int t = 0; t < threads; t++) {
            w[t].gate = g;
            w[t].cpu = cpus[t % have];
        }
        s = run_workers(g, w, threads, diag);
        *seconds = best_pass(w, threads);
        *round_ops = w[0].round_ops;
        if (!s && *seconds <= 0) s = tw_fail(diag, TW_ERR_UNSUPPORTED, "the clock did not advance while measuring");
    }
    free(cpus);
    free(w);
    return s;
}

static int thread_count(int threads, const tw_cpu *cpu) {
    return threads > 0 ? threads : cpu->cores;
}

tw_status tw_cpu_measure_bandwidth(int threads, double *bytes_per_second, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    threads = thread_count(threads, &cpu);
    /* Enough that no cache holds it, yet no more than a quarter of what is free: 64 threads would ask for 16 GB. */
    int64_t bytes = 256 << 20, room = cpu.available_bytes / 4 / threads;
    if (bytes < 4 * cpu.l3_bytes) bytes = 4 * cpu.l3_bytes;
    if (room && bytes > room) bytes = room;
    bytes = (bytes + (2 << 20) - 1) & -(int64_t)(2 << 20);
    gate g = {.bytes = (size_t)bytes};
    g.read = cpu.isa & TW_CPU_AVX512 ? tw_cpu_read_avx512 : cpu.isa & TW_CPU_AVX2 ? tw_cpu_read_avx2 : tw_cpu_read_c;
    double seconds = 0;
    int64_t unused;
    tw_status s = measure(&g, threads, &seconds, &unused, diag);
    if (!s) *bytes_per_second = (double)bytes * threads / seconds;
    return s;
}

tw_status tw_cpu_measure_flops(int threads, double *flops, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    threads = thread_count(threads, &cpu);
    /* Two to three milliseconds a pass with vectors. */
    gate g = {.rounds = 1000000};
    g.fma = cpu.isa & TW_CPU_AVX512 ? tw_cpu_fma_avx512 : cpu.isa & TW_CPU_AVX2 ? tw_cpu_fma_avx2 : tw_cpu_fma_c;
    double seconds = 0;
    int64_t ops = 0;
    tw_status s = measure(&g, threads, &seconds, &ops, diag);
    if (!s) *flops = (double)ops * (double)g.rounds * threads / seconds;
    return s;
}

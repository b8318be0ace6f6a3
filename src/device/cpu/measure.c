/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings that every figure is printed beside: bytes from memory or caches, multiply-adds in registers. */
#define _GNU_SOURCE
#include "device/cpu/measure.h"

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
    size_t bytes;   /* that each thread reads */
    int64_t rounds; /* of multiply-adds; or how often the bytes are read */
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
        else
            for (int64_t r = 0; data && r < w->gate->rounds; r++)
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

/* `bytes` for each thread, `rounds` times in a pass. */
static tw_status measure_reads(const tw_cpu *cpu, int threads, int64_t bytes, int64_t rounds, double *rate,
                               tw_diag *diag) {
    gate g = {.bytes = (size_t)bytes, .rounds = rounds};
    g.read = cpu->isa & TW_CPU_AVX512 ? tw_cpu_read_avx512 : cpu->isa & TW_CPU_AVX2 ? tw_cpu_read_avx2 : tw_cpu_read_c;
    double seconds = 0;
    int64_t unused;
    tw_status s = measure(&g, threads, &seconds, &unused, diag);
    if (!s) *rate = (double)bytes * (double)rounds * threads / seconds;
    return s;
}

/* Up to a multiple of what every pattern of reading wants. */
static int64_t whole(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* Enough that no cache holds it, yet no more than a quarter of what is free: 64 threads would ask for 16 GB. */
static int64_t uncached_bytes(const tw_cpu *cpu, int threads) {
    int64_t bytes = 256 << 20, room = cpu->available_bytes / 4 / threads;
    if (bytes < 4 * cpu->l3_bytes) bytes = 4 * cpu->l3_bytes;
    if (room && bytes > room) bytes = room;
    return whole(bytes, 2 << 20);
}

int64_t tw_cpu_read_bytes(const tw_cpu *cpu, int threads, int64_t bytes) {
    enum { UNIT = 4096 };
    const int64_t own = whole(bytes / threads + 1, UNIT), most = uncached_bytes(cpu, threads);
    return bytes && own < most ? own : most;
}

tw_status tw_cpu_measure_bandwidth(int threads, double *bytes_per_second, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    threads = thread_count(threads, &cpu);
    return measure_reads(&cpu, threads, tw_cpu_read_bytes(&cpu, threads, 0), 1, bytes_per_second, diag);
}

tw_status tw_cpu_measure_reads(int threads, int64_t bytes, double *bytes_per_second, tw_diag *diag) {
    enum { PASS = 64 << 20 /* a few milliseconds even from a near cache */ };
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    threads = thread_count(threads, &cpu);
    const int64_t own = tw_cpu_read_bytes(&cpu, threads, bytes > 0 ? bytes : 1);
    return measure_reads(&cpu, threads, own, own < PASS ? PASS / own : 1, bytes_per_second, diag);
}

/* ---- arithmetic ---- */

enum {
    TILES = TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI | TW_CPU_AVX512BF16 | TW_CPU_AMX,
    VNNI = TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512VNNI,
    BF16 = TW_CPU_AVX2 | TW_CPU_AVX512 | TW_CPU_AVX512BF16,
};

/* The first that the processor has counts. Rounds take some milliseconds, of vectors and tiles alike. */
static const struct unit {
    tw_cpu_unit unit;
    uint32_t needs;
    tw_cpu_fma_fn *run;
    int64_t rounds;
} loops[] = {
    {TW_CPU_UNIT_F32, TW_CPU_AVX2 | TW_CPU_AVX512, tw_cpu_fma_avx512, 1000000},
    {TW_CPU_UNIT_F32, TW_CPU_AVX2, tw_cpu_fma_avx2, 1000000},
    {TW_CPU_UNIT_F32, 0, tw_cpu_fma_c, 1000000},
    {TW_CPU_UNIT_I8, VNNI, tw_cpu_i8_avx512vnni, 1000000},
    {TW_CPU_UNIT_I8, TW_CPU_AVX2, tw_cpu_i8_avx2, 1000000},
    {TW_CPU_UNIT_BF16, BF16, tw_cpu_bf16_avx512bf16, 1000000},
    {TW_CPU_UNIT_AMX_BF16, TILES, tw_cpu_bf16_amx, 50000},
    {TW_CPU_UNIT_AMX_I8, TILES, tw_cpu_i8_amx, 50000},
};
enum { LOOPS = sizeof loops / sizeof *loops };

static const struct unit *find_loop(tw_cpu_unit unit, uint32_t isa) {
    for (int i = 0; i < LOOPS; i++)
        if (loops[i].unit == unit && (loops[i].needs & isa) == loops[i].needs) return &loops[i];
    return NULL;
}

const char *tw_cpu_unit_name(tw_cpu_unit unit) {
    static const char *const names[TW_CPU_UNIT_COUNT] = {"f32", "i8", "bf16", "amx-bf16", "amx-i8"};
    return unit >= 0 && unit < TW_CPU_UNIT_COUNT ? names[unit] : "unknown";
}

bool tw_cpu_unit_present(tw_cpu_unit unit, uint32_t isa) {
    return find_loop(unit, isa) != NULL;
}

/* A ceiling is worth what its count is worth: loops other than f32's sum ones, and so tell how many they added. */
static tw_status check_count(const struct unit *u, tw_diag *diag) {
    enum { ROUNDS = 8 };
    float sum = 0;
    if (u->unit == TW_CPU_UNIT_F32) return TW_OK;
    double counted = (double)u->run(ROUNDS, &sum) * ROUNDS / 2;
    if ((double)sum == counted) return TW_OK;
    return tw_fail(diag, TW_ERR_MISMATCH, "the loop that measures %s did %.0f multiply-adds and counted %.0f",
                   tw_cpu_unit_name(u->unit), (double)sum, counted);
}

tw_status tw_cpu_measure_unit(tw_cpu_unit unit, int threads, double *operations, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    const struct unit *u = find_loop(unit, cpu.isa);
    if (!u) return tw_fail(diag, TW_ERR_UNSUPPORTED, "this processor has no %s", tw_cpu_unit_name(unit));
    threads = thread_count(threads, &cpu);
    gate g = {.rounds = u->rounds, .fma = u->run};
    double seconds = 0;
    int64_t ops = 0;
    tw_status s = check_count(u, diag);
    if (!s) s = measure(&g, threads, &seconds, &ops, diag);
    if (!s) *operations = (double)ops * (double)g.rounds * threads / seconds;
    return s;
}

tw_status tw_cpu_measure_flops(int threads, double *flops, tw_diag *diag) {
    return tw_cpu_measure_unit(TW_CPU_UNIT_F32, threads, flops, diag);
}

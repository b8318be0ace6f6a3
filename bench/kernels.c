/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the CPU's kernels: `bench_kernels [--threads N] [--isa LIST] [--case TEXT] [--rounds N] [--json] [--commit
   HASH]`. Candidates run in turn in every round, and so do the ceilings: plain reads of the same weights in two
   patterns, and multiply-adds in registers. What neighbours take from memory or the clock then meets all of them alike.
   Medians are compared; no figure comes without its verdict. */
#define _GNU_SOURCE
#include "kernels.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/stats.h"
#include "base/thread.h"
#include "device/cpu/loops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_ROUNDS = 99,
    MAX_THREADS = 256,
    FIRST_CEILING = 1 + BENCH_PEERS,
    CANDIDATES = FIRST_CEILING + 2,
    FMA_ROUNDS = 200000
};

typedef struct options {
    int threads, rounds;
    bool json;
    const char *only, *commit;
    uint32_t isa;
} options;

typedef struct team {
    options o;
    tw_kernels kernels;
    double bandwidth, flops, ceiling; /* at the start; of the case that runs */
    pthread_barrier_t barrier;
    int64_t begin[MAX_THREADS], end[MAX_THREADS];
    int repeats; /* runs in one sample, so that short ones outlast the clock */
    _Atomic bool correct;
    _Atomic bool peer_correct[CANDIDATES]; /* Indexed by the peer's number, which begins at 1. */
    double samples[CANDIDATES][MAX_ROUNDS];
    bool able[CANDIDATES];
} team;

typedef struct worker {
    team *team;
    int index, cpu;
    pthread_t thread;
    double ceiling_work; /* of one pass */
    uint64_t seen;       /* keeps the ceiling's reads alive */
} worker;

static int peer_count(const bench_case *c) {
    int n = 0;
    while (n < BENCH_PEERS && c->peers[n]) n++;
    return n;
}

/* How many ways the ceiling of a case is asked for. */
static int ceiling_count(const bench_case *c) {
    return c->unit == UNIT_BYTES ? 2 : c->unit == UNIT_FLOPS ? 1 : 0;
}

/* One pass at the ceiling; returns the bytes or operations. */
static double run_ceiling(worker *w, const bench_data *d, int way) {
    static const size_t streams[] = {1, 4}, ahead[] = {0, 1024};
    uint32_t isa = w->team->kernels.isa;
    if (d->c->unit == UNIT_FLOPS) {
        tw_cpu_fma_fn *fma = isa & TW_CPU_AVX512 ? tw_cpu_fma_avx512
                             : isa & TW_CPU_AVX2 ? tw_cpu_fma_avx2
                                                 : tw_cpu_fma_c;
        float sink = 0;
        double ops = (double)fma(FMA_ROUNDS, &sink);
        w->seen += sink > 0;
        return ops * FMA_ROUNDS;
    }
    tw_cpu_read_fn *read = isa & TW_CPU_AVX512 ? tw_cpu_read_avx512
                           : isa & TW_CPU_AVX2 ? tw_cpu_read_avx2
                                               : tw_cpu_read_c;
    size_t bytes = (size_t)d->c->work(d) / 4096 * 4096;
    w->seen += read(d->weights, bytes, streams[way], ahead[way]);
    return (double)bytes;
}

static void once(worker *w, bench_data *d, int candidate) {
    team *t = w->team;
    bool able = true;
    pthread_barrier_wait(&t->barrier);
    t->begin[w->index] = tw_now_ns();
    for (int i = 0; i < (candidate < FIRST_CEILING ? t->repeats : 1); i++) {
        if (candidate >= FIRST_CEILING)
            w->ceiling_work = run_ceiling(w, d, candidate - FIRST_CEILING);
        else if (candidate)
            able = d->c->run_peer(d, candidate - 1) && able;
        else
            d->c->run(d);
    }
    t->end[w->index] = tw_now_ns();
    pthread_barrier_wait(&t->barrier);
    if (w->index == 0) t->able[candidate] = able;
}

/* Seconds from the first thread's start to the last one's end. */
static double elapsed(const team *t) {
    int64_t begin = t->begin[0], end = t->end[0];
    for (int i = 1; i < t->o.threads; i++) {
        if (t->begin[i] < begin) begin = t->begin[i];
        if (t->end[i] > end) end = t->end[i];
    }
    return (double)(end - begin) * 1e-9;
}

static void environment(const team *t, int argc, char **argv);
static void report(team *t, const bench_case *c, double work);

static void find_ceiling(worker *w, const bench_case *c) {
    team *t = w->team;
    t->ceiling = 0;
    for (int p = 0; p < ceiling_count(c); p++) {
        tw_stats s = tw_stats_of(t->samples[FIRST_CEILING + p], (size_t)t->o.rounds);
        double rate = w->ceiling_work * t->o.threads / s.median;
        if (rate > t->ceiling) t->ceiling = rate;
    }
}

static void run_case(worker *w, const bench_case *c) {
    team *t = w->team;
    bench_data d = {
        .c = c, .k = &t->kernels, .vendor = tw_vendor_open(), .random = tw_random_seed((uint64_t)w->index + 1)};
    c->make(&d);
    if (w->index == 0) {
        t->repeats = 1;
        t->correct = true;
        for (int p = 1; p <= peer_count(c); p++) t->peer_correct[p] = true;
    }
    once(w, &d, 0); /* warms up, and says how long it takes */
    if (w->index == 0) {
        double s = elapsed(t);
        t->repeats = s < 2e-4 ? (int)(2e-4 / (s + 1e-9)) + 1 : 1;
    }
    for (int p = 1; p <= peer_count(c); p++) once(w, &d, p);
    for (int r = 0; r < t->o.rounds; r++) {
        for (int p = 0; p <= peer_count(c); p++) {
            once(w, &d, p);
            if (w->index == 0) t->samples[p][r] = elapsed(t) / t->repeats;
        }
        for (int p = 0; p < ceiling_count(c); p++) {
            once(w, &d, FIRST_CEILING + p);
            if (w->index == 0) t->samples[FIRST_CEILING + p][r] = elapsed(t);
        }
    }
    if (w->index == 0) find_ceiling(w, c);
    const bool correct = c->correct(&d);
    if (!correct) t->correct = false;
    for (int p = 1; p <= peer_count(c); p++)
        if (t->able[p] && !(c->peer_correct ? c->peer_correct(&d, p - 1) : correct)) t->peer_correct[p] = false;
    pthread_barrier_wait(&t->barrier);
    if (w->index == 0) report(t, c, c->work(&d) * t->o.threads);
    tw_vendor_close(d.vendor);
    bench_data_free(&d);
}

static void describe(const bench_case *c, int threads, char *out, size_t size) {
    char format[32] = "";
    if (!strncmp(c->name, "gem", 3)) {
        int n = snprintf(format, sizeof format, "%s", tw_dtype_name(c->f.dtype));
        if (c->f.group) snprintf(format + n, sizeof format - (size_t)n, "/%d", c->f.group);
    }
    if (!strcmp(c->name, "gemv"))
        snprintf(out, size, "%s K=%lld threads=%d", format, (long long)c->cols, threads);
    else if (!strcmp(c->name, "gemm"))
        snprintf(out, size, "%s M=%lld N=%lld K=%lld threads=%d", format, (long long)c->rows, (long long)c->n,
                 (long long)c->cols, threads);
    else if (c->unit == UNIT_NONE)
        snprintf(out, size, "n=%lld threads=%d", (long long)c->n, threads);
    else
        snprintf(out, size, "dim=%lld tokens=%lld span=%lld threads=%d", (long long)c->cols, (long long)c->rows,
                 (long long)c->n, threads);
}

static void report_row(const team *t, const bench_case *c, const char *config, double work, const tw_stats *ours,
                       const char *peer, bool peer_correct, const tw_stats *theirs) {
    static const char *const units[] = {"GB/s", "GFLOP/s", "Gelement/s"};
    double us = ours->median * 1e6, peer_us = theirs ? theirs->median * 1e6 : 0,
           spread = (ours->p90 - ours->p10) / ours->median;
    double rate = work / ours->median / 1e9;
    double ceiling = t->ceiling / 1e9;
    if (!t->o.json) {
        printf("%-18s %-36s %-5s %10.1f us %8.1f %-8s", c->name, config, t->correct ? "ok" : "WRONG", us, rate,
               units[c->unit]);
        if (ceiling > 0) printf(" %5.1f%% of %.1f", 100 * rate / ceiling, ceiling);
        if (theirs) printf("  %s %.1f us%s, ratio %.2f", peer, peer_us, peer_correct ? "" : " WRONG", peer_us / us);
        printf("  spread %.3f\n", spread);
    } else {
        printf("{\"case\":\"%s\",\"config\":\"%s\",\"ours_us\":%.2f,", c->name, config, us);
        if (theirs)
            printf("\"peer\":\"%s\",\"peer_us\":%.2f,\"peer_correct\":%s,\"ratio\":%.3f,", peer, peer_us,
                   peer_correct ? "true" : "false", peer_us / us);
        else
            printf("\"peer\":null,\"peer_us\":null,\"ratio\":null,");
        printf("\"spread\":%.4f,\"rate\":%.2f,\"unit\":\"%s\",\"ceiling\":", spread, rate, units[c->unit]);
        if (ceiling > 0)
            printf("%.2f", ceiling);
        else
            printf("null");
        printf(",\"correct\":%s}\n", t->correct ? "true" : "false");
    }
    fflush(stdout);
}

static void report(team *t, const bench_case *c, double work) {
    char config[128];
    bool any = false;
    describe(c, t->o.threads, config, sizeof config);
    tw_stats ours = tw_stats_of(t->samples[0], (size_t)t->o.rounds);
    for (int p = 1; p <= peer_count(c); p++) {
        if (!t->able[p]) continue;
        tw_stats theirs = tw_stats_of(t->samples[p], (size_t)t->o.rounds);
        report_row(t, c, config, work, &ours, c->peers[p - 1], t->peer_correct[p], &theirs);
        any = true;
    }
    if (!any) report_row(t, c, config, work, &ours, NULL, false, NULL);
}

static void *work_through(void *arg) {
    worker *w = arg;
    const char *only = w->team->o.only;
    tw_pin_self(w->cpu);
    for (int i = 0; i < bench_case_count(); i++) {
        const bench_case *c = bench_case_at(i);
        char config[128];
        describe(c, w->team->o.threads, config, sizeof config);
        if (!only || strstr(c->name, only) || strstr(config, only)) run_case(w, c);
    }
    return NULL;
}

static void environment(const team *t, int argc, char **argv) {
    tw_cpu cpu;
    char isa[128], date[32], version[256];
    time_t now = time(NULL);
    struct tm tm;
    tw_vendor *v = tw_vendor_open();
    tw_cpu_detect(&cpu);
    tw_cpu_isa_names(t->kernels.isa, isa, sizeof isa);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &tm));
    if (!t->o.json) {
        printf("%s, %d threads, %s; %.1f GB/s, %.1f GFLOP/s\n", cpu.model, t->o.threads, isa, t->bandwidth / 1e9,
               t->flops / 1e9);
    } else {
        printf("{\"device\":\"%s, %d cores, %s\",\"versions\":{\"tilewright\":\"%s\",\"compiler\":\"%s\"", cpu.model,
               cpu.cores, isa, TW_VERSION, __VERSION__);
        for (int i = 0; v && i < tw_vendor_count(v); i++) {
            tw_vendor_version(v, i, version, sizeof version);
            printf(",\"%s\":\"%s\"", tw_vendor_name(v, i), version);
        }
        printf("},\"bandwidth_gbs\":%.2f,\"gflops\":%.1f,\"date\":\"%s\",\"commit\":\"%s\",\"command\":\"bench_kernels",
               t->bandwidth / 1e9, t->flops / 1e9, date, t->o.commit);
        for (int i = 1; i < argc; i++) printf(" %s", argv[i]);
        printf("\"}\n");
    }
    tw_vendor_close(v);
    fflush(stdout);
}

static bool parse(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--json")) {
            o->json = true;
            continue;
        }
        if (!value) return false;
        if (!strcmp(argv[i], "--threads"))
            o->threads = atoi(value);
        else if (!strcmp(argv[i], "--rounds"))
            o->rounds = atoi(value);
        else if (!strcmp(argv[i], "--case"))
            o->only = value;
        else if (!strcmp(argv[i], "--commit"))
            o->commit = value;
        else if (strcmp(argv[i], "--isa") || !tw_cpu_isa_parse(value, &o->isa))
            return false;
        i++;
    }
    return o->threads >= 1 && o->threads <= MAX_THREADS && o->rounds >= 1 && o->rounds <= MAX_ROUNDS;
}

int main(int argc, char **argv) {
    static team t;
    static worker workers[MAX_THREADS];
    static int cpus[MAX_THREADS];
    tw_cpu cpu;
    tw_diag diag;
    tw_cpu_detect(&cpu);
    t.o = (options){.threads = 1, .rounds = 11, .commit = "", .isa = cpu.isa};
    if (!parse(&t.o, argc, argv)) {
        fprintf(
            stderr,
            "usage: bench_kernels [--threads N] [--isa LIST] [--case TEXT] [--rounds N] [--json] [--commit HASH]\n");
        return 2;
    }
    tw_kernels_choose(&t.kernels, t.o.isa & cpu.isa);
    if (tw_cpu_measure_bandwidth(t.o.threads, &t.bandwidth, &diag) ||
        tw_cpu_measure_flops(t.o.threads, &t.flops, &diag)) {
        fprintf(stderr, "bench_kernels: %s\n", diag.message);
        return 1;
    }
    environment(&t, argc, argv);
    int have = tw_allowed_cpus(cpus, MAX_THREADS);
    pthread_barrier_init(&t.barrier, NULL, (unsigned)t.o.threads);
    for (int i = 0; i < t.o.threads; i++) {
        workers[i] = (worker){.team = &t, .index = i, .cpu = cpus[i % (have < MAX_THREADS ? have : MAX_THREADS)]};
        if (pthread_create(&workers[i].thread, NULL, work_through, &workers[i])) return 1;
    }
    for (int i = 0; i < t.o.threads; i++) pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&t.barrier);
    return 0;
}

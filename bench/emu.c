/* SPDX-License-Identifier: Apache-2.0 */
/* bench_emu: how fast the emulator runs matrix products, with every checker on and without; one JSON line a case.
   One core; the operations of a warp count once for each lane that is active. */
#define _GNU_SOURCE
#include "emu/emu.h"
#include "base/stats.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/reference.h"
#include "tilewright/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { SAMPLES = 31 };

typedef struct bench_case {
    const char *name;
    tw_gemm_problem problem;
    const char *config;
} bench_case;

/* Parameters that are not named are the default's. */
static const bench_case cases[] = {
    {"f32 threads", {.type = TW_GEMM_F32, .m = 128, .n = 128, .k = 128, .alpha = 1}, "ms=4 ns=4 ml=64 nl=64 vec=16"},
    {"f32 ragged", {.type = TW_GEMM_F32, .m = 127, .n = 125, .k = 131, .alpha = 1}, "ms=4 ns=4 kl=2 kg=2 vec=4"},
    {"f16 tensor", {.type = TW_GEMM_F16, .m = 128, .n = 128, .k = 256, .alpha = 1}, "mma=1 vec=16"},
    {"tf32 tensor", {.type = TW_GEMM_TF32, .m = 128, .n = 128, .k = 128, .alpha = 1}, "mma=1 vec=16"},
    {"f32 through registers",
     {.type = TW_GEMM_F32, .m = 128, .n = 128, .k = 128, .trans_b = true, .alpha = 1},
     "ms=4 ns=4 ml=64 nl=64 vec=16 copy=1 stages=2"},
    {"f64 threads", {.type = TW_GEMM_F64, .m = 96, .n = 96, .k = 128, .alpha = 1}, "mma=0 ms=4 ns=4 vec=16"},
    {"s8 tensor", {.type = TW_GEMM_S8, .m = 96, .n = 96, .k = 256, .alpha = 1}, "mma=1 vec=16"},
};

static bool once(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, bool unchecked, uint64_t seed,
                 double *rate, int64_t *lane_operations) {
    tw_diag diag;
    tw_gemm_resources need;
    const char *why = "";
    if (!tw_gemm_legal(&d->problem, c, t, &need, &why)) {
        fprintf(stderr, "bench_emu: %s\n", why);
        return false;
    }
    tw_gemm_variant v = tw_gemm_variant_of(&d->problem, c);
    tw_kernel *k = tw_gemm_build(&v, c, t);
    tw_emu *e = tw_emu_new();
    size_t extra = (size_t)(need.workspace_bytes + need.counter_bytes) + 1;
    void *zeros = calloc(1, extra), *result = malloc(d->bytes[TW_GEMM_C]);
    bool fine = k && e && zeros && result && tw_pipeline_default(k, true, &diag) == TW_OK;
    if (fine) {
        tw_gemm_buffers at = {.of = {[TW_GEMM_WORKSPACE] = tw_emu_alloc(e, "workspace", zeros, extra, false),
                                     [TW_GEMM_COUNTERS] = tw_emu_alloc(e, "counters", zeros, extra, false)}};
        for (int i = TW_GEMM_A; i <= TW_GEMM_C; i++)
            at.of[i] =
                tw_emu_alloc(e, tw_gemm_buffer_names[i], i == TW_GEMM_C ? NULL : d->of[i], d->bytes[i], i != TW_GEMM_C);
        tw_launch_values l;
        tw_gemm_launch_of(&d->problem, c, &at, &l);
        const tw_signature signature = tw_signature_of(k);
        uint64_t words[TW_ARGUMENTS];
        tw_arguments_place(&l.arguments, &signature, words);
        tw_emu_options o = {.seed = seed, .grid = {l.grid[0], l.grid[1], l.grid[2]}, .unchecked = unchecked};
        tw_emu_report r;
        fine = tw_emu_launch(e, k, words, &o, &r, &diag) == TW_OK;
        if (!fine) fprintf(stderr, "bench_emu: %s\n", diag.message);
        tw_emu_read(e, at.of[TW_GEMM_C], result, d->bytes[TW_GEMM_C]);
        fine &= tw_gemm_data_compare(d, result, NULL, NULL) == 0;
        *rate = (double)r.lane_operations / r.seconds;
        *lane_operations = r.lane_operations;
    }
    free(zeros);
    free(result);
    tw_emu_free(e);
    tw_kernel_free(k);
    return fine;
}

static bool measure(const bench_case *b, const tw_target *t, bool unchecked) {
    tw_gemm_problem p = b->problem;
    tw_gemm_config c = {0};
    tw_gemm_data d;
    char config[256];
    tw_diag diag;
    double rates[SAMPLES];
    int64_t lane_operations = 0;
    if (tw_gemm_problem_complete(&p, &diag) == TW_OK) c = tw_gemm_config_default(&p);
    if (tw_gemm_problem_complete(&p, &diag) != TW_OK || tw_gemm_config_parse(&c, b->config, &diag) != TW_OK ||
        tw_gemm_data_make(&d, &p, 1, &diag) != TW_OK) {
        fprintf(stderr, "bench_emu: %s\n", diag.message);
        return false;
    }
    bool correct = true;
    /* The first launch is not counted: memory is new, and the core may still be slow. */
    for (int i = -1; i < SAMPLES && correct; i++)
        correct = once(&d, &c, t, unchecked, (uint64_t)(i + 1), &rates[i < 0 ? 0 : i], &lane_operations);
    tw_gemm_data_free(&d);
    if (!correct) {
        printf("{\"case\": \"%s\", \"correct\": false}\n", b->name);
        return false;
    }
    tw_stats s = tw_stats_of(rates, SAMPLES);
    tw_gemm_config_print(&c, config, sizeof config);
    printf("{\"case\": \"%s%s\", \"config\": {\"problem\": \"%s %dx%dx%d\", \"kernel\": \"%s\"}, "
           "\"lane_operations\": %lld, \"million_lane_operations_per_second\": %.1f, \"goal\": 20, \"spread\": %.3f, "
           "\"samples\": %d, \"correct\": true}\n",
           b->name, unchecked ? ", unchecked" : "", tw_gemm_types[p.type].name, (int)p.m, (int)p.n, (int)p.k, config,
           (long long)lane_operations, s.median * 1e-6, s.median > 0 ? (s.p90 - s.p10) / s.median : 0, SAMPLES);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    const char *commit = argc == 3 && !strcmp(argv[1], "--commit") ? argv[2] : "unknown";
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: bench_emu [--commit HASH]\n");
        return 2;
    }
    struct utsname u;
    char date[16];
    time_t now = time(NULL);
    tw_cpu cpu;
    uname(&u);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    tw_cpu_detect(&cpu);
    printf(
        "{\"device\": \"%s, one core\", \"kernel\": \"%s\", \"versions\": {\"tilewright\": \"%s\", \"compiler\": \"gcc "
        "%s\"}, \"date\": \"%s\", \"commit\": \"%s\", \"command\": \"build/bench/bench_emu\"}\n",
        cpu.model, u.release, TW_VERSION, __VERSION__, date, commit);
    const tw_target *t = tw_target_find("sm_90a");
    bool fine = t;
    for (size_t i = 0; fine && i < sizeof cases / sizeof *cases; i++)
        for (int unchecked = 0; unchecked < 2; unchecked++) fine &= measure(&cases[i], t, unchecked);
    return !fine;
}

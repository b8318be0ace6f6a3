/* SPDX-License-Identifier: Apache-2.0 */
/* What the profiler inside kernels costs, and how right it is, on a GPU: JSON lines.

     profile [--device cuda:0] [--rounds N]

   cost      clocks of a record, in shared and in global memory (calibration)
   overhead  products with and without records, in turn; the kernel's time as replay corrects it beside the clean one
   delay     waits behind a known delay, as recorded
   align     one event seen by two multiprocessors */
#include "base/buf.h"
#include "base/diag.h"
#include "base/stats.h"
#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "kernels/kernel.h"
#include "kernels/parts/ring.h"
#include "prof/calibrate.h"
#include "prof/decode.h"
#include "prof/summary.h"
#include "ptx/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char *what, const tw_diag *d) {
    fprintf(stderr, "profile: %s: %s\n", what, d->message);
    return 1;
}

/* -- products */

typedef struct product {
    const char *name, *words, *configuration, *only, *granularity;
    bool global, flush;
    int frames;
} product;

static const product products[] = {
    {"swp-2", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=2 vec=16", NULL,
     NULL, 0, 0, 0},
    {"swp-3", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=3 vec=16", NULL,
     NULL, 0, 0, 0},
    {"swp-4", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=4 vec=16", NULL,
     NULL, 0, 0, 0},
    {"ws", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16", NULL,
     NULL, 0, 0, 0},
    {"ws 256", "gemm type=bf16 m=2048 n=3072 k=2048 tb=1", "mma=2 ml=128 nl=256 ms=64 ns=256 u=64 stages=4 vec=16",
     NULL, NULL, 0, 0, 0},
    {"ws 256 staged", "gemm type=bf16 m=4096 n=4096 k=4096 tb=1",
     "mma=2 ml=128 nl=256 ms=64 ns=256 u=64 stages=4 vec=16 group=8 staged=1", NULL, NULL, 0, 0, 0},
    {"ws 128 staged", "gemm type=bf16 m=1024 n=4096 k=4096 tb=1",
     "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=6 vec=16 group=8 staged=1", NULL, NULL, 0, 0, 0},
    {"ws few rows", "gemm type=bf16 m=16 n=4096 k=4096 tb=1",
     "mma=2 ml=64 nl=32 ms=64 ns=32 u=128 stages=8 vec=16 swap=1 group=1", NULL, NULL, 0, 0, 0},
    {"ws persistent", "gemm type=bf16 m=4096 n=2048 k=2048 tb=1",
     "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16 persistent=128", NULL, NULL, 0, 0, 0},
    {"ws flush", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16",
     NULL, NULL, 0, 1, 8},
    {"ws global", "gemm type=bf16 m=2048 n=2048 k=2048 tb=1", "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16",
     NULL, NULL, 1, 0, 0},
    {"swp-2, 32 events", "gemm type=bf16 m=2048 n=2048 k=480 tb=1",
     "mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=2 vec=16", "multiply,store", "block", 0, 0, 0},
    {"swp-3, 32 events", "gemm type=bf16 m=2048 n=2048 k=480 tb=1",
     "mma=1 ml=128 nl=128 ms=64 ns=32 u=32 stages=3 vec=16", "multiply,store", "block", 0, 0, 0},
    {"ws, 32 events", "gemm type=bf16 m=2048 n=2048 k=960 tb=1",
     "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16", "tiles.full,store", "block", 0, 0, 0},
    {"ws long, 32 events", "gemm type=bf16 m=8192 n=4096 k=960 tb=1",
     "mma=2 ml=128 nl=128 ms=64 ns=128 u=64 stages=4 vec=16", "tiles.full,store", "block", 0, 0, 0},
};

static tw_status bind(tw_gpu *g, tw_gpu_kernel *k, tw_gpu_launch *l, uint64_t *addresses, tw_diag *d) {
    tw_status st = TW_OK;
    uint32_t seed = 1;
    for (int i = 0; i < tw_gpu_kernel_buffers(k) && st == TW_OK; i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, i);
        uint16_t *data = calloc(1, b->bytes + 4);
        /* bf16 from -1 to 1. */
        for (size_t j = 0; j < b->bytes / 2 && !b->written; j++) {
            seed = seed * 1664525u + 1013904223u;
            data[j] = (uint16_t)(0x3c00 + (seed >> 23) + (seed >> 31 << 15));
        }
        st = tw_gpu_alloc(g, b->bytes, &addresses[i], d);
        if (st == TW_OK) st = tw_gpu_upload(g, addresses[i], data, b->bytes, d);
        if (st == TW_OK) st = tw_gpu_launch_bind(l, b->name, addresses[i], d);
        free(data);
    }
    return st;
}

/* Compares the results of the kernel without and with records, byte for byte. */
static tw_status same_results(tw_gpu *g, tw_gpu_kernel *k, tw_gpu_launch *l, const uint64_t *addresses, bool *same,
                              tw_diag *d) {
    int c = 0;
    while (strcmp(tw_gpu_kernel_buffer(k, c)->name, "c") != 0) c++;
    const size_t bytes = tw_gpu_kernel_buffer(k, c)->bytes;
    char *with = malloc(bytes), *without = malloc(bytes), *poison = malloc(bytes);
    struct tw_tracer *tracer = k->tracer;
    tw_status st = TW_OK;
    memset(poison, 0xff, bytes);
    for (int i = 0; i < 2 && st == TW_OK; i++) {
        k->tracer = i ? tracer : NULL;
        st = tw_gpu_upload(g, addresses[c], poison, bytes, d);
        if (st == TW_OK) st = tw_gpu_launch_run(l, NULL, d);
        if (st == TW_OK) st = tw_gpu_wait(g, d);
        if (st == TW_OK) st = tw_gpu_download(g, i ? with : without, addresses[c], bytes, d);
    }
    k->tracer = tracer;
    *same = st == TW_OK && !memcmp(with, without, bytes) && memcmp(with, poison, bytes) != 0;
    free(with);
    free(without);
    free(poison);
    return st;
}

/* The length of a trace, from its first track's begin to its last one's end. */
static double length_of(const tw_trace *t) {
    double begin = INFINITY, end = 0;
    for (int i = 0; i < t->n_tracks; i++) {
        begin = fmin(begin, t->tracks[i].begin);
        end = fmax(end, t->tracks[i].end);
    }
    return end - begin;
}

static double uncertainty_of(const tw_trace *t) {
    double most = 0;
    for (int i = 0; i < t->n_tracks; i++) most = fmax(most, t->tracks[i].uncertainty);
    return most;
}

/* Prints a trace's figures to the standard error. */
static void show_summary(const char *name, const tw_trace *t) {
    tw_summary s;
    tw_buf text = {0};
    tw_diag d;
    if (tw_summary_make(&s, t, &d) == TW_OK) tw_summary_text(&text, &s, t);
    fprintf(stderr, "-- %s\n%s\n", name, text.data ? text.data : "");
    tw_summary_free(&s);
    tw_buf_free(&text);
}

static tw_status one_product(tw_gpu *g, const product *p, tw_diag *d) {
    tw_gpu_kernel *k;
    tw_gpu_launch *l = NULL;
    uint64_t addresses[16] = {0};
    tw_status st = tw_gpu_kernel_open(&k, g, p->words, p->configuration, d);
    if (st != TW_OK) return st;
    st = tw_gpu_launch_open(&l, k, d);
    if (st == TW_OK) st = bind(g, k, l, addresses, d);
    const tw_trace_options o = {
        .only = p->only, .granularity = p->granularity, .global = p->global, .flush = p->flush, .frames = p->frames};
    if (st == TW_OK) st = tw_gpu_kernel_attach(k, &o, d);
    bool same = false;
    tw_trace_cost cost = {0};
    tw_trace_times times = {0};
    tw_trace *raw = NULL, *corrected = NULL;
    if (st == TW_OK) {
        tw_gpu_kernel_traced(k, &cost);
        st = same_results(g, k, l, addresses, &same, d);
    }
    if (st == TW_OK) st = tw_kernel_trace_times(k, l, &times, d);
    if (st == TW_OK) st = tw_gpu_launch_run(l, NULL, d);
    if (st == TW_OK) st = tw_kernel_read_trace(k, d);
    if (st == TW_OK) st = tw_kernel_decode_trace(k, false, &raw, d);
    if (st == TW_OK) st = tw_kernel_decode_trace(k, true, &corrected, d);
    if (st == TW_OK) {
        int64_t dropped = 0;
        for (int i = 0; i < raw->n_tracks; i++) dropped += raw->tracks[i].dropped;
        const double less = (length_of(raw) - length_of(corrected)),
                     blocks = raw->n_tracks ? raw->tracks[raw->n_tracks - 1].block + 1 : 1;
        printf(
            "{\"case\": \"overhead\", \"kernel\": \"%s\", \"problem\": \"%s\", \"config\": \"%s\", \"clean_ns\": %.0f, "
            "\"traced_ns\": %.0f, \"overhead\": %.4f, \"events\": %d, \"events_a_block\": %.1f, \"events_a_us\": %.1f, "
            "\"dropped\": %lld, "
            "\"trace_ns\": %.0f, \"corrected_trace_ns\": %.0f, \"corrected_ns\": %.0f, \"corrected_of_clean\": %.4f, "
            "\"uncertainty_ns\": %.1f, \"ghz\": %.4f, \"shared_bytes\": %lld, \"blocks\": %d, \"blocks_traced\": %d, "
            "\"registers\": %d, \"registers_traced\": %d, \"global\": %s, \"correct\": %s}\n",
            p->name, p->words, p->configuration, times.clean, times.traced, times.traced / times.clean - 1,
            raw->n_events, (double)(raw->n_events + dropped) / blocks, (raw->n_events + dropped) / times.traced * 1000,
            (long long)dropped, length_of(raw), length_of(corrected), times.traced - less,
            (times.traced - less) / times.clean, uncertainty_of(raw), raw->ghz, (long long)cost.shared_bytes,
            cost.blocks, cost.blocks_traced, cost.registers, cost.registers_traced, cost.global ? "true" : "false",
            same ? "true" : "false");
        fflush(stdout);
        show_summary(p->name, corrected);
    }
    tw_trace_free(raw);
    tw_trace_free(corrected);
    tw_gpu_launch_close(l);
    for (int i = 0; i < tw_gpu_kernel_buffers(k); i++)
        if (addresses[i]) tw_gpu_release(g, addresses[i]);
    tw_gpu_kernel_close(k);
    return st;
}

/* -- kernels of our own, run once */

typedef struct runner {
    tw_gpu *gpu;
    tw_kernel *kernel;
    tw_prof_layout layout;
    tw_cuda_module *module;
    uint64_t out, profile;
} runner;

static void end_runner(runner *r) {
    if (r->module) tw_cuda_unload(r->module);
    tw_gpu_release(r->gpu, r->out);
    tw_gpu_release(r->gpu, r->profile);
    if (r->kernel) tw_kernel_free(r->kernel);
    tw_prof_layout_free(&r->layout);
}

/* Runs a kernel with the parameters out, delay and profile, and decodes what it recorded. */
static tw_status run_kernel(runner *r, int grid, int32_t delay, double cost, tw_trace **t, tw_diag *d) {
    const tw_prof_options o = {.shared_bytes = 65536, .units = TW_PROF_WARPS};
    tw_cuda *c = r->gpu->cuda;
    tw_status st = TW_OK;
    if (!r->module) {
        const tw_ptx_compiler by = tw_ptx_compiler_for(c, true);
        st = tw_pipeline_default(r->kernel, true, d);
        if (st == TW_OK) st = tw_prof_lower(r->kernel, &o, &r->layout, d);
        if (st == TW_OK) st = tw_ptx_load(&by, r->kernel, &r->module, NULL, d);
        if (st == TW_OK) st = tw_gpu_alloc(r->gpu, 1 << 20, &r->out, d);
        if (st == TW_OK) st = tw_gpu_alloc(r->gpu, (size_t)tw_prof_bytes(&r->layout, grid), &r->profile, d);
    }
    const size_t bytes = st == TW_OK ? (size_t)tw_prof_bytes(&r->layout, grid) : 0;
    if (st == TW_OK) st = tw_cuda_fill(c, r->profile, 0, bytes / 4, d);
    const uint64_t arguments[3] = {r->out, (uint32_t)delay, r->profile};
    const int sizes[3] = {8, 4, 8};
    const tw_cuda_launch launch = {.module = r->module,
                                   .grid = {grid, 1, 1},
                                   .threads = r->kernel->threads,
                                   .cluster = r->kernel->cluster,
                                   .dynamic_shared = tw_kernel_shared_layout(r->kernel, NULL),
                                   .arguments = arguments,
                                   .argument_bytes = sizes,
                                   .n_arguments = 3};
    if (st == TW_OK) st = tw_cuda_run(c, &launch, d);
    if (st == TW_OK) st = tw_cuda_sync(c, d);
    char *buffer = malloc(bytes + 1);
    if (st == TW_OK) st = tw_gpu_download(r->gpu, buffer, r->profile, bytes, d);
    const tw_prof_decoding how = {.title = r->kernel->name, .device = "", .cost = cost};
    if (st == TW_OK) st = tw_prof_decode(t, &r->layout, buffer, grid, &how, d);
    free(buffer);
    return st;
}

/* Spins until the clock is `delay` further. Returns by how much it is. */
static tw_val spin(tw_builder *b, tw_val delay) {
    tw_val begin = tw_sreg(b, TW_SREG_clock), past = tw_var_of(b, tw_i32(b, 0));
    TW_WHILE (b, tw_lt(b, past, delay)) tw_assign(b, past, tw_sub(b, tw_sreg(b, TW_SREG_clock), begin));
    return past;
}

/* A producer warp fills a ring of one stage, each time after a delay, by plain arrivals; a consumer warp waits. Both
   record. The consumer also says how long each wait was, by clocks of its own around it. */
enum { ROUNDS = 32 };
static tw_kernel *delays(void) {
    tw_kernel *k = tw_kernel_new("delays", 90, 64);
    tw_builder bb = tw_builder_of(k), *b = &bb;
    tw_pointer_add(b, "out", 16, false);
    tw_val delay = tw_parameter_add(b, "delay", TW_T_i32);
    tw_shared_add(b, "barriers", 16, 8, false);
    tw_val full = tw_shared_base(b, "barriers"), empty = tw_add_imm(b, full, 8), one = tw_i32(b, 1);
    TW_IF (b, tw_eq(b, tw_sreg(b, TW_SREG_tid_x), tw_i32(b, 0))) {
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, full, one);
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, empty, one);
    }
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    const tw_scope roles = tw_push_roles(b, (const int[]){0, 1, 1, 2}, 2);
    tw_name_roles(b, roles, "consumer producer");
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, ROUNDS), one, true) {
        tw_record_wait(b, "full", TW_ENGINE_OF_sync, 0);
        tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, full, tw_and(b, i, one));
        tw_record_end(b, "full");
        tw_record_arrive(b, "empty", TW_ARRIVAL_now, TW_ENGINE_OF_sync);
        TW_IF (b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)))
            tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, empty, TW_NONE);
    }
    tw_next_role(b, roles);
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, ROUNDS), one, true) {
        tw_val spun = spin(b, delay);
        tw_record_value(b, "spun", spun);
        tw_record_arrive(b, "full", TW_ARRIVAL_now, TW_ENGINE_OF_sync);
        TW_IF (b, tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0)))
            tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, full, TW_NONE);
        tw_record_wait(b, "empty", TW_ENGINE_OF_sync, 0);
        tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, empty, tw_and(b, i, one));
        tw_record_end(b, "empty");
    }
    tw_pop(b, roles);
    return k;
}

static bool is_named(const tw_trace *t, const tw_trace_event *e, const char *name) {
    return !strcmp(t->names[e->name].text, name);
}

/* Mean of what the producer spun, as it measured itself. */
static double mean_delay(const tw_trace *t) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_VALUE || e->iteration < 2) continue;
        sum += (double)e->value;
        n++;
    }
    return n ? sum / n : 0;
}

/* Means of the consumer's waits, in clocks, over the rounds but the first two. */
static double mean_wait(const tw_trace *t) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_WAIT || !is_named(t, e, "full") || e->iteration < 2) continue;
        sum += (e->end - e->begin) * t->ghz;
        n++;
    }
    return n ? sum / n : 0;
}

/* The wait grows by what the delay grows: 0 would be a wait's fixed part, which the smallest delay shows. */
static tw_status show_delays(tw_gpu *g, double cost, tw_diag *d) {
    static const int clocks[] = {200, 300, 500, 1000, 2000, 5000, 20000};
    runner r = {.gpu = g, .kernel = delays()};
    tw_status st = TW_OK;
    double first = 0, base = 0;
    for (int i = 0; i < 7 && st == TW_OK; i++) {
        tw_trace *raw = NULL, *t = NULL;
        st = run_kernel(&r, 1, clocks[i], 0, &raw, d);
        if (st == TW_OK) st = run_kernel(&r, 1, clocks[i], cost, &t, d);
        if (st == TW_OK) {
            const double waited = mean_wait(t), delay = mean_delay(t);
            if (!i) {
                first = waited;
                base = delay;
            }
            const double known = delay - base;
            printf("{\"case\": \"delay\", \"delay_clocks\": %.1f, \"wait_clocks\": %.1f, \"raw_wait_clocks\": %.1f, "
                   "\"grown\": %.1f, \"known\": %.0f, \"error\": %.4f, \"correct\": true}\n",
                   delay, waited, mean_wait(raw), waited - first, known, known > 0 ? (waited - first) / known - 1 : 0);
            fflush(stdout);
        }
        tw_trace_free(raw);
        tw_trace_free(t);
    }
    end_runner(&r);
    return st;
}

/* Clusters of two blocks that meet again and again. All threads leave a cluster's barrier at nearly the same moment. */
static tw_kernel *meetings(void) {
    tw_kernel *k = tw_kernel_new("meetings", 90, 32);
    k->cluster = 2;
    tw_builder bb = tw_builder_of(k), *b = &bb;
    tw_pointer_add(b, "out", 16, false);
    tw_val delay = tw_parameter_add(b, "delay", TW_T_i32);
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, ROUNDS), tw_i32(b, 1), true) {
        spin(b, delay);
        tw_record_begin(b, "meet", TW_ENGINE_OF_sync);
        tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_record_end(b, "meet");
    }
    return k;
}

static tw_status show_alignment(tw_gpu *g, tw_diag *d) {
    enum { BLOCKS = 264 };
    runner r = {.gpu = g, .kernel = meetings()};
    tw_trace *t = NULL;
    tw_status st = run_kernel(&r, BLOCKS, 2000, 0, &t, d);
    if (st == TW_OK) st = run_kernel(&r, BLOCKS, 2000, 0, &t, d);
    static double ends[BLOCKS][ROUNDS], apart[BLOCKS * ROUNDS];
    int n = 0;
    for (int i = 0; t && i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (is_named(t, e, "meet") && e->iteration >= 0 && e->iteration < ROUNDS)
            ends[t->tracks[e->track].block][e->iteration] = e->end;
    }
    double sum = 0;
    for (int i = 0; i < BLOCKS; i += 2)
        for (int j = 0; j < ROUNDS; j++)
            if (ends[i][j] > 0 && ends[i + 1][j] > 0) {
                apart[n++] = fabs(ends[i][j] - ends[i + 1][j]);
                sum += ends[i][j] - ends[i + 1][j];
            }
    if (st == TW_OK && n) {
        const tw_stats s = tw_stats_of(apart, (size_t)n);
        printf("{\"case\": \"align\", \"pairs\": %d, \"mean_ns\": %.2f, \"median_ns\": %.2f, \"p90_ns\": %.2f, "
               "\"max_ns\": %.2f, "
               "\"uncertainty_ns\": %.2f, \"ghz\": %.4f, \"correct\": true}\n",
               n, sum / n, s.median, s.p90, s.max, uncertainty_of(t), t->ghz);
    }
    tw_trace_free(t);
    end_runner(&r);
    return st;
}

static void show_cost(const char *buffer, const tw_prof_calibration *c) {
    static const char *const betweens[TW_PROF_BETWEENS] = {"work", "nothing"};
    for (int i = 0; i < TW_PROF_BETWEENS; i++) {
        const tw_prof_slope *s = &c->of[i];
        printf("{\"case\": \"cost\", \"buffer\": \"%s\", \"between\": \"%s\", \"clocks\": %.2f, \"error\": %.3f, "
               "\"points\": [",
               buffer, betweens[i], s->clocks, s->error);
        for (int j = 0; j < TW_PROF_POINTS; j++) printf("%s[%d, %.2f]", j ? ", " : "", s->records[j], s->measured[j]);
        printf("], \"correct\": true}\n");
    }
}

/* -- */

int main(int argc, char **argv) {
    const char *device = "cuda";
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--device")) device = argv[i + 1];
    tw_diag d;
    tw_gpu *g;
    if (tw_gpu_open(&g, device, &d) != TW_OK) return complain("device", &d);
    if (tw_gpu_emulated(g)) {
        fprintf(stderr, "profile: needs a GPU\n");
        return 1;
    }
    printf("{\"device\": \"%s\"}\n", tw_gpu_name(g));
    tw_prof_calibration c[2];
    for (int i = 0; i < 2; i++) {
        if (tw_prof_calibrate(&c[i], g->cuda, i, &d) != TW_OK) return complain("calibration", &d);
        show_cost(i ? "global" : "shared", &c[i]);
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (one_product(g, &products[i], &d) != TW_OK) failed |= complain(products[i].name, &d);
    if (show_delays(g, c[0].of[TW_PROF_WORK].clocks, &d) != TW_OK) failed |= complain("delays", &d);
    if (show_alignment(g, &d) != TW_OK) failed |= complain("alignment", &d);
    tw_gpu_close(g);
    return failed;
}

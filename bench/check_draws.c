/* SPDX-License-Identifier: Apache-2.0 */
/* Draws on a GPU against the processor's, from the same logits: every rule alone and together, spreads of logits from
   nearly equal to peaked, one sequence or several; and a draw's time by the host's clock, launch and all.

   check_draws [--vocab N] [--draws N] [--sequences N] [--seed N]

   Exit 1: a token differs. */
#include "base/clock.h"
#include "base/diag.h"
#include "base/random.h"
#include "device/cuda/cuda.h"
#include "ir/passes/passes.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "vm/draw_kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 132, WARPS = 8, LIST = 512, MOST = TW_CUDA_VM_TOKENS };

typedef struct rig {
    draw_shape shape;
    tw_mega_plan plan;
    tw_cuda *cuda;
    tw_cuda_module *module;
    uint64_t address[DRAW_POS];
} rig;

static const struct {
    const char *name;
    tw_sample_wish wish;
} wishes[] = {
    {"greedy", {.temperature = 0}},
    {"temp 1", {.temperature = 1}},
    {"temp 0.7 top-k 20 top-p 0.95", {.temperature = 0.7, .top_k = 20, .top_p = 0.95}},
    {"temp 0.6 top-p 0.9", {.temperature = 0.6, .top_p = 0.9}},
    {"temp 1 top-k 1", {.temperature = 1, .top_k = 1}},
    {"temp 1 top-k 5000 top-p 0.99", {.temperature = 1, .top_k = 5000, .top_p = 0.99}},
    {"temp 1.5 min-p 0.05", {.temperature = 1.5, .min_p = 0.05}},
    {"temp 1 top-k 64 min-p 0.1", {.temperature = 1, .top_k = 64, .min_p = 0.1}},
    {"temp 2 top-p 0.999", {.temperature = 2, .top_p = 0.999}},
    {"temp 0.7 top-k 40, penalties",
     {.temperature = 0.7, .top_k = 40, .repetition = 1.2, .presence = 0.3, .frequency = 0.1}},
    {"greedy, penalties", {.temperature = 0, .repetition = 1.1, .frequency = -0.5}},
};
enum { WISHES = sizeof wishes / sizeof *wishes };

static tw_status make(rig *r, tw_diag *d) {
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    tw_kernel *k = NULL;
    tw_status st = tw_cuda_open(&r->cuda, 0, d);
    if (st != TW_OK) return st;
    const tw_target *t = tw_cuda_describe(r->cuda)->target;
    r->plan = draw_plan(&r->shape, t);
    k = draw_kernel(&r->plan);
    st = k ? tw_pipeline_default(k, false, d) : tw_fail_memory(d);
    if (st == TW_OK) st = tw_ptx_print(&ptx, k, t, d);
    if (st == TW_OK) st = tw_ptx_compile(r->cuda, ptx.data, ptx.size, true, &cubin, d);
    if (st == TW_OK) st = tw_cuda_load(r->cuda, &r->module, cubin.data, cubin.bytes, "draw", r->plan.shared_bytes, d);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
    tw_kernel_free(k);
    const size_t n = (size_t)r->shape.sequences, all = n * (size_t)r->shape.vocab * 4;
    const size_t bytes[DRAW_POS] = {
        all, SLOTS * 8, SLOTS * n * 8, 2 * n * 4, n * 4, n * 4, 32, n * sizeof(tw_sample_rules), all};
    for (int i = 0; i < DRAW_POS && st == TW_OK; i++) {
        st = tw_cuda_alloc(r->cuda, bytes[i], &r->address[i], d);
        if (st == TW_OK) st = tw_cuda_fill(r->cuda, r->address[i], 0, bytes[i] / 4, d);
    }
    int32_t rows[2 * SLOTS];
    draw_rows(&r->shape, rows);
    return st == TW_OK ? tw_cuda_upload(r->cuda, r->address[DRAW_ROWS], rows, sizeof rows, d) : st;
}

static tw_status launch(rig *r, int64_t position, uint32_t mode, tw_diag *d) {
    uint64_t arguments[DRAW_ARGS];
    int bytes[DRAW_ARGS];
    for (int i = 0; i < DRAW_ARGS; i++) {
        arguments[i] = i < DRAW_POS ? r->address[i] : i == DRAW_POS ? (uint64_t)position : mode;
        bytes[i] = i < DRAW_POS ? 8 : 4;
    }
    const tw_cuda_launch l = {.module = r->module,
                              .grid = {1, 1, 1},
                              .threads = 32 * WARPS,
                              .dynamic_shared = r->plan.shared_bytes,
                              .arguments = arguments,
                              .argument_bytes = bytes,
                              .n_arguments = DRAW_ARGS};
    tw_status st = tw_cuda_run(r->cuda, &l, d);
    return st == TW_OK ? tw_cuda_sync(r->cuda, d) : st;
}

/* Draws of one wish at consecutive positions; what is counted goes on from each to the next. */
static tw_status compare(rig *r, int w, float spread, int draws, uint64_t seed, int64_t *wrong, double *us,
                         tw_diag *d) {
    const int n = r->shape.sequences;
    const int64_t vocab = r->shape.vocab;
    const size_t all = (size_t)n * (size_t)vocab;
    float *z = malloc(all * 4);
    uint32_t *counts = calloc(all, 4);
    void *room = malloc(tw_sample_room(vocab));
    tw_sample_rules rules[MOST];
    uint32_t mode = 0;
    tw_random random = tw_random_seed(seed * 131 + (uint64_t)w);
    tw_status st = z && counts && room ? TW_OK : tw_fail_memory(d);
    for (int i = 0; i < n && st == TW_OK; i++) {
        tw_sample_wish one = wishes[(w + (n > 1 ? i : 0)) % WISHES].wish;
        one.seed = seed + (uint64_t)i;
        st = tw_sample_rules_of(&rules[i], &one, vocab, d);
        mode |= rules[i].mode;
    }
    for (size_t i = 0; i < all && st == TW_OK; i++) {
        z[i] = spread * tw_random_normal(&random);
        counts[i] = i % 1000 == 3 ? TW_SAMPLE_SEEN : 0;
    }
    if (st == TW_OK) st = tw_cuda_upload(r->cuda, r->address[DRAW_RULES], rules, (size_t)n * sizeof *rules, d);
    if (st == TW_OK) st = tw_cuda_upload(r->cuda, r->address[DRAW_COUNTS], counts, all * 4, d);
    *us = 1e30;
    for (int k = 0; k < draws && st == TW_OK; k++) {
        int32_t tokens[2 * MOST] = {0}, out[MOST];
        for (int i = 0; i < n; i++) tokens[n + i] = k + 100 * i;
        for (int j = 0; j < 50; j++) z[tw_random_below(&random, all)] = spread * tw_random_normal(&random);
        st = tw_cuda_upload(r->cuda, r->address[DRAW_LOGITS], z, all * 4, d);
        if (st == TW_OK) st = tw_cuda_upload(r->cuda, r->address[DRAW_TOKENS], tokens, (size_t)n * 8, d);
        const int64_t start = tw_now_ns();
        if (st == TW_OK) st = launch(r, k, mode, d);
        *us = fmin(*us, (double)(tw_now_ns() - start) * 1e-3);
        if (st == TW_OK) st = tw_cuda_download(r->cuda, out, r->address[DRAW_OUT], (size_t)n * 4, d);
        for (int i = 0; i < n && st == TW_OK; i++) {
            uint32_t *mine = counts + i * vocab;
            const int32_t want = tw_sample_draw(&rules[i], z + i * vocab, mine, vocab, tokens[n + i], room);
            *wrong += out[i] != want;
            if (rules[i].mode & TW_SAMPLE_PENALISES) mine[want] = (mine[want] + 1) | TW_SAMPLE_SEEN;
        }
    }
    free(z);
    free(counts);
    free(room);
    return st;
}

int main(int argc, char **argv) {
    rig r = {.shape = {1, WARPS, SLOTS, LIST, 128256}};
    int draws = 100;
    uint64_t seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        const long n = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--vocab")) r.shape.vocab = n;
        if (!strcmp(argv[i], "--draws")) draws = (int)n;
        if (!strcmp(argv[i], "--sequences")) r.shape.sequences = (int)n;
        if (!strcmp(argv[i], "--seed")) seed = (uint64_t)n;
    }
    if (r.shape.sequences < 1 || r.shape.sequences > MOST || r.shape.vocab < 1) return 2;
    tw_diag d;
    tw_status st = make(&r, &d);
    int64_t wrong = 0, all = 0;
    static const float spreads[] = {0.02f, 1, 4};
    for (int w = 0; w < WISHES && st == TW_OK; w++)
        for (int s = 0; s < 3 && st == TW_OK; s++) {
            int64_t bad = 0;
            double us;
            st = compare(&r, w, spreads[s], draws, seed + (uint64_t)s, &bad, &us, &d);
            wrong += bad;
            all += (int64_t)draws * r.shape.sequences;
            printf("{\"draw\": \"%s\", \"sequences\": %d, \"vocab\": %lld, \"spread\": %g, \"draws\": %d, "
                   "\"different\": %lld, "
                   "\"us\": %.1f}\n",
                   wishes[w].name, r.shape.sequences, (long long)r.shape.vocab, (double)spreads[s], draws,
                   (long long)bad, us);
        }
    if (st != TW_OK) fprintf(stderr, "check_draws: %s\n", d.message);
    printf("%lld draws, %lld different\n", (long long)all, (long long)wrong);
    return st != TW_OK || wrong;
}

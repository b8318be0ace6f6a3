/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine in the emulator where its answer is nearer, or more certain, than a cache of 16 bits lets others
   see: which of equals is taken, what a head's norm and yarn multiply by, sums of halves, and parts beyond sixteen. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "tilewright/vm.h"
#include "vm/cuda/mega.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 64, MAX_VOCAB = 256 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

/* Both machines with the same model. */
typedef struct pair {
    tw_cuda_vm *gpu;
    tw_vm *cpu;
    tw_checked *on_gpu, *on_cpu;
    int gpu_id, cpu_id;
} pair;

static pair open_pair(const tw_model *m, tw_lowering l, int workers, int edges) {
    pair p = {0};
    tw_diag d;
    const tw_cuda_vm_options o = {
        .emulate = true, .workers = workers, .seed = 3, .tuning = {.warps = 2, .blocks = 1, .edges = edges}};
    const tw_vm_options plain = {.workers = 1, .no_vendor = true, .no_pin = true};
    if (tw_cuda_vm_open(&p.gpu, m, &o, &d) != TW_OK || tw_vm_open(&p.cpu, m, &plain, &d) != TW_OK)
        fail_msg("%s", d.message);
    const tw_dtype kv = l.kv;
    l.max_seq = MAX_SEQ;
    tw_cuda_vm_lowering(p.gpu, &l);
    l.kv = kv;
    p.on_gpu = test_lower(m, l, MAX_SEQ);
    p.on_cpu = test_lower(m, (tw_lowering){.workers = 1, .tokens = l.tokens}, MAX_SEQ);
    if (tw_cuda_vm_load(p.gpu, p.on_gpu, &p.gpu_id, &d) != TW_OK || tw_vm_load(p.cpu, p.on_cpu, &p.cpu_id, &d) != TW_OK)
        fail_msg("%s", d.message);
    return p;
}

static void close_pair(pair *p) {
    tw_cuda_vm_close(p->gpu);
    tw_vm_close(p->cpu);
    tw_checked_free(p->on_gpu);
    tw_checked_free(p->on_cpu);
}

/* One step on both; the GPU's is returned, the processor's written to *want. */
static tw_vm_step step(pair *p, int64_t pos, int64_t n, tw_vm_step *want) {
    int32_t tokens[8];
    tw_diag d;
    for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((pos + i) * 7 % TEST_LLAMA_VOCAB);
    tw_vm_step a = {.program = p->gpu_id, .tokens = tokens, .n = n, .pos = pos, .length = MAX_SEQ}, b = a;
    b.program = p->cpu_id;
    if (tw_cuda_vm_run(p->gpu, &a, &d) != TW_OK || tw_vm_run(p->cpu, &b, &d) != TW_OK) fail_msg("%s", d.message);
    a.tokens = b.tokens = NULL;
    *want = b;
    return a;
}

/* Over `steps` single positions; the largest difference, relative to the largest logit. */
static double worst(const tw_model *m, tw_lowering l, int workers, int steps) {
    pair p = open_pair(m, l, workers, 0);
    double off = 0, largest = 0;
    for (int i = 0; i < steps; i++) {
        tw_vm_step b, a = step(&p, i, 1, &b);
        for (int64_t k = 0; k < m->vocab; k++) {
            largest = fmax(largest, fabs((double)b.logits[k]));
            off = fmax(off, fabs((double)a.logits[k] - (double)b.logits[k]));
            if (isnan(a.logits[k])) off = INFINITY;
        }
    }
    close_pair(&p);
    return off / largest;
}

/* ---- which of equals */

static int32_t first_of_largest(const float *x, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
    return (int32_t)best;
}

/* More rows than a block has threads, and blocks than a warp has lanes: a thread meets several of both. */
enum { TIE_VOCAB = 272, TIE_DIM = 32 };

typedef struct tie {
    int equal[6], n, nan; /* n 0: all rows are the same one */
} tie;

static void check_tie(const tie *t, int workers, int tokens, int edges) {
    static const test_llama shape = {
        .dim = TIE_DIM, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 32, .vocab = TIE_VOCAB};
    tw_model *m = test_open_llama(&shape);
    float *head = test_own_weight(&m->head.weight);
    /* The equal ones are the largest, or the smallest; then all the others are the largest. */
    for (int k = TIE_VOCAB - 1; k >= 0; k--) {
        bool equal = t->n == 0;
        for (int e = 0; e < t->n; e++) equal |= t->equal[e] == k;
        for (int c = 0; c < TIE_DIM; c++) head[k * TIE_DIM + c] = head[c] * (equal ? 1 : -0.5f);
    }
    if (t->nan >= 0) head[t->nan * TIE_DIM] = NAN;
    pair p = open_pair(m, (tw_lowering){.tokens = tokens, .kv = TW_F16}, workers, edges);
    for (int pos = 0; pos < 2; pos++) {
        tw_vm_step b, a = step(&p, pos * tokens, tokens, &b);
        const int32_t want = first_of_largest(a.logits, m->vocab);
        if (a.token != want)
            fail_msg("%d rows from %d on, %d workers, %d positions: %d, not %d", t->n, t->equal[0], workers, tokens,
                     a.token, want);
        assert_int_equal(b.token, first_of_largest(b.logits, m->vocab));
    }
    close_pair(&p);
    tw_model_close(m);
    free(head);
}

/* Rows of the head that are the same give logits that are the same: whichever threads, warps and blocks have them, the
   lowest id is the token, and what is no number never is. */
static void the_lowest_of_equals_is_the_token(void **state) {
    (void)state;
    static const tie ties[] = {{{0}, 0, -1},
                               {{3, 4}, 2, -1},
                               {{2, 34, 66, 130, 161, 271}, 6, -1},
                               {{9, 25, 41, 57, 265}, 5, 0},
                               {{1, 270}, 2, 269}};
    static const struct {
        int workers, tokens, edges;
    } ways[] = {
        {1, 1, TW_EDGES_COUNTERS}, {34, 1, TW_EDGES_DATA}, {3, 3, TW_EDGES_COUNTERS}, {34, 1, TW_EDGES_COUNTERS}};
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            if (!TEST_SANITIZED || (i + w) % 4 == 0)
                check_tie(&ties[i], ways[w].workers, ways[w].tokens, ways[w].edges);
}

/* ---- factors */

static void yarn_multiplies_sines_and_cosines(void **state) {
    (void)state;
    tw_model *m = open_model("llama-llama3-sharded");
    assert_true(m->rope.attention_factor == 1);
    m->rope.attention_factor = 1.6f;
    const double off = worst(m, (tw_lowering){.tokens = 1, .kv = TW_F32, .group_heads = true}, 2, 4);
    if (!(off < 5e-5)) fail_msg("off by %g", off);
    tw_model_close(m);
}

/* Large enough to be seen beside a head's mean square. */
static void a_heads_norm_has_its_epsilon(void **state) {
    (void)state;
    tw_model *m = open_model("qwen3-bias");
    m->norm_eps = 0.7f;
    const double off = worst(m, (tw_lowering){.tokens = 1, .kv = TW_F32, .group_heads = true}, 2, 4);
    if (!(off < 5e-5)) fail_msg("off by %g", off);
    tw_model_close(m);
}

/* ---- halves */

/* A model whose keys and values are exactly 1 or -1, so that a cache of 16 bits loses nothing: what is left is what
   queries and weights lose as sums of two halves. */
static void queries_and_weights_keep_both_halves(void **state) {
    (void)state;
    static const test_llama shape = {.dim = 32, .heads = 4, .kv_heads = 1, .head_dim = 32, .ffn = 32};
    for (int kv = 0; kv < 2; kv++) {
        tw_model *m = test_open_llama(&shape);
        float *embed = test_own_weight(&m->embed), *norm = test_own_weight(&m->layers[0].attn_norm.weight),
              *k = test_own_weight(&m->layers[0].k.weight), *v = test_own_weight(&m->layers[0].v.weight),
              *q = test_own_weight(&m->layers[0].q.weight), *freq = m->rope.inv_freq;
        for (int i = 0; i < TEST_LLAMA_VOCAB * 32; i++) embed[i] = embed[i] < 0 ? -1.0f : 1.0f;
        m->norm_eps = 0;
        for (int i = 0; i < 32; i++) norm[i] = 1;
        for (int i = 0; i < 32 * 32; i++) {
            k[i] = i / 32 == i % 32;
            v[i] = i / 32 == 31 - i % 32;
        }
        for (int i = 0; i < 4 * 32 * 32; i++) q[i] *= 4;
        for (int i = 0; i < 16; i++) freq[i] = 0;
        const double off = worst(m, (tw_lowering){.tokens = 1, .kv = kv ? TW_BF16 : TW_F16}, 2, 24);
        if (!(off < 3e-5)) fail_msg("kv %d: off by %g", kv, off);
        tw_model_close(m);
        free(embed), free(norm), free(k), free(v), free(q);
    }
}

/* ---- parts */

static void more_parts_than_are_merged_at_once(void **state) {
    (void)state;
    static const test_llama shape = {.dim = 32, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 32};
    static const int parts[] = {15, 16, 17, 20, 31, 33};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i += TEST_SANITIZED ? 3 : 1) {
        tw_model *m = test_open_llama(&shape);
        const double off =
            worst(m, (tw_lowering){.tokens = 1, .kv_splits = parts[i], .kv = TW_F32, .group_heads = true}, 2, 40);
        if (!(off < 5e-5)) fail_msg("%d parts: off by %g", parts[i], off);
        tw_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_of_equals_is_the_token),  cmocka_unit_test(yarn_multiplies_sines_and_cosines),
        cmocka_unit_test(a_heads_norm_has_its_epsilon),       cmocka_unit_test(queries_and_weights_keep_both_halves),
        cmocka_unit_test(more_parts_than_are_merged_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine in the emulator, every checker on: the very kernel that a device runs gives the processor's answers
   for every family it covers, any division of the work, any interleaving and any tuning; and what it cannot do it says.
 */
#include "support/lower.h"
#include "support/support.h"

#include "base/diag.h"
#include "prof/trace.h"
#include "vm/cuda/machine.h"
#include "vm/traced.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 32, MAX_VOCAB = 256, TOKENS = TW_CUDA_VM_TOKENS, GREEDY = 3 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    assert_true(m->vocab <= MAX_VOCAB);
    return m;
}

static tw_checked *lower(const tw_model *m, tw_lowering l) {
    return test_lower(m, l, MAX_SEQ);
}

/* A machine with one program in it: the GPU's, or the processor's for reference. */
typedef struct machine {
    tw_checked *program;
    tw_cuda_vm *gpu;
    tw_vm *cpu;
    int id;
} machine;

static tw_status try_gpu(machine *r, const tw_model *m, tw_cuda_vm_options o, tw_lowering l, tw_diag *d) {
    *r = (machine){0};
    o.emulate = true;
    tw_status st = tw_cuda_vm_open(&r->gpu, m, &o, d);
    if (st != TW_OK) return st;
    l.max_seq = MAX_SEQ;
    const bool floats = l.kv == TW_F32 && l.group_heads;
    tw_cuda_vm_lowering(r->gpu, &l);
    if (floats) l.kv = TW_F32; /* asked for: the machine would rather have the model's type */
    r->program = lower(m, l);
    return tw_cuda_vm_load(r->gpu, r->program, &r->id, d);
}

static machine gpu(const tw_model *m, tw_cuda_vm_options o, tw_lowering l) {
    machine r;
    tw_diag d;
    if (try_gpu(&r, m, o, l, &d) != TW_OK) fail_msg("%s", d.message);
    return r;
}

static machine cpu(const tw_model *m, int64_t tokens, bool all_logits) {
    machine r = {.program = lower(m, (tw_lowering){.workers = 1, .tokens = tokens, .all_logits = all_logits})};
    tw_diag d;
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    if (tw_vm_open(&r.cpu, m, &o, &d) != TW_OK || tw_vm_load(r.cpu, r.program, &r.id, &d) != TW_OK)
        fail_msg("%s", d.message);
    return r;
}

static void end(machine *r) {
    tw_cuda_vm_close(r->gpu);
    tw_vm_close(r->cpu);
    tw_checked_free(r->program);
}

static tw_status run(machine *r, tw_vm_step *s, tw_diag *d) {
    s->program = r->id;
    return r->gpu ? tw_cuda_vm_run(r->gpu, s, d) : tw_vm_run(r->cpu, s, d);
}

static tw_status greedy(machine *r, int32_t token, int64_t pos, int64_t n, int32_t *out, double *us, tw_diag *d) {
    return tw_cuda_vm_batch(r->gpu, r->id, &token, &pos, n, out, NULL, us, d);
}

/* One way to run a model, and how near it is to come. */
typedef struct way {
    const char *folder;
    int tokens, workers, splits;
    tw_dtype kv;
    tw_cuda_vm_tuning tuning;
    const char *target;
    uint64_t seed;
    int steps;
    bool all_logits;
    int row_blocks;
} way;

static machine open_way_with(const tw_model *m, const way *w, tw_head_norms norms) {
    const tw_cuda_vm_options o = {.target = w->target, .workers = w->workers, .seed = w->seed, .tuning = w->tuning};
    return gpu(m, o,
               (tw_lowering){.tokens = w->tokens,
                             .kv_splits = w->splits,
                             .row_blocks = w->row_blocks,
                             .kv = w->kv,
                             .all_logits = w->all_logits,
                             .group_heads = true,
                             .head_norms = norms});
}

static machine open_way(const tw_model *m, const way *w) {
    return open_way_with(m, w, TW_HEAD_NORMS_AUTO);
}

static double tolerance(tw_dtype kv) {
    return kv == TW_F32 ? 5e-5 : kv == TW_F16 ? 4e-3 : 3e-2;
}

static void same(const float *a, const float *b, int64_t n, double most, const char *what, int step) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= most * largest + 1e-6))
            fail_msg("%s, step %d: logit %d is %g, not %g", what, step, (int)i, a[i], b[i]);
}

static int instructions(const tw_schedule *s, const char *name) {
    int n = 0;
    tw_instr_op op;
    assert_true(tw_instr_op_from_name(name, &op));
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) n += s->workers[w].list[i].op == op;
    return n;
}

/* Steps of various sizes, at least one of them full. */
static void agrees_with(const way *w, tw_head_norms norms) {
    tw_model *m = open_model(w->folder);
    machine g = open_way_with(m, w, norms), c = cpu(m, w->tokens, w->all_logits);
    tw_diag d;
    char what[256];
    if (norms) {
        const bool turn = norms == TW_HEAD_NORMS_TURN || w->tokens > 1;
        assert_int_equal(instructions(tw_checked_schedule(g.program), "turn") > 0, turn);
        assert_int_equal(tw_mega_program_of(g.gpu, g.id)->plan.turns, !turn);
    }
    snprintf(what, sizeof what, "%s: %d workers, %d positions, %d splits, %s cache, %d x %d x %d, window %d, seed %d",
             w->folder, w->workers, w->tokens, w->splits, tw_dtype_name(w->kv), w->tuning.warps, w->tuning.blocks,
             w->tuning.stages, w->tuning.window, (int)w->seed);
    int64_t pos = 0;
    for (int i = 0; i < (w->steps ? w->steps : 2); i++) {
        int32_t tokens[TOKENS];
        const int n = i ? 1 + i * 3 % w->tokens : w->tokens;
        for (int j = 0; j < n; j++) tokens[j] = (int32_t)((i * 37 + j * 11 + 3) % m->vocab);
        tw_vm_step a = {.tokens = tokens, .n = n, .pos = pos, .length = MAX_SEQ}, b = a;
        if (run(&g, &a, &d) != TW_OK) fail_msg("%s: %s", what, d.message);
        if (run(&c, &b, &d) != TW_OK) fail_msg("%s: %s", what, d.message);
        same(a.logits, b.logits, m->vocab * (w->all_logits ? n : 1), tolerance(w->kv), what, i);
        const float *last = a.logits + (w->all_logits ? (n - 1) * m->vocab : 0);
        for (int64_t k = 0; k < m->vocab; k++) assert_true(last[a.token] >= last[k]);
        pos += n;
    }
    end(&g);
    end(&c);
    tw_model_close(m);
}

static void agrees(const way *w) {
    agrees_with(w, TW_HEAD_NORMS_AUTO);
}

static void every_family(void **state) {
    (void)state;
    static const way ways[] = {
        {"llama-biases", 1, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 1, 3, 0, 0},
        {"llama-dynamic", 1, 1, 0, TW_F32, {2, 1, 3, 1, 0, 0, 0}, NULL, 2, 3, 0, 0},
        {"llama-linear-mqa", 1, 3, 2, TW_F32, {1, 2, 4, 2, 0, 0, 0}, NULL, 3, 3, 0, 0},
        {"llama-llama3-sharded", 1, 2, 0, TW_F32, {2, 2, 4, 2, 1, 0, 0}, NULL, 4, 2, 0, 0},
        {"mistral-window", 3, 2, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 6, 3, 0, 0},
        {"qwen2-window", 3, 2, 0, TW_F32, {2, 2, 4, 2, 1, 0, 0}, NULL, 7, 3, 0, 0},
        {"qwen3-bias", 3, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 8, 2, 0, 0},
        {"llama-biases", 8, 2, 2, TW_F32, {2, 2, 4, 2, 1, 0, 0}, NULL, 9, 2, 1, 0},
        {"qwen3-bias", 1, 3, 2, TW_F32, {3, 1, 5, 3, 0, 0, 0}, NULL, 10, 2, 0, 0},
        {"llama-yarn-mha", 1, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 11, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way w = ways[i];
        /* Under sanitizers one kind of edges for each. */
        if (!TEST_SANITIZED || i % 2 || w.tokens > 1) agrees(&w);
        w.tuning.edges = TW_EDGES_DATA;
        if (w.tokens == 1 && (!TEST_SANITIZED || i % 2 == 0)) agrees(&w);
    }
}

/* Layer norms, learned positions, ffns without a gate, every activation. */
static void every_kind_of_layer(void **state) {
    (void)state;
    static const way ways[] = {
        {"gpt2-gelu-bare", 1, 2, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 1, 3, 0, 0},
        {"gpt2-gelu-bare", 3, 2, 0, TW_F32, {3, 1, 5, 3, 0, 0, 0}, "sm_80", 2, 2, 1, 0},
        {"gpt2-relu-untied", 1, 3, 0, TW_F32, {1, 2, 4, 2, 1, 0, 0}, "sm_80", 3, 2, 0, 0},
        {"gpt2-relu-untied", 8, 2, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 4, 2, 1, 0},
        {"llama-yarn-mha", 8, 2, 0, TW_F32, {2, 1, 4, 2, 0, 0, 0}, NULL, 5, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i += TEST_SANITIZED ? 2 : 1) agrees(&ways[i]);
}

/* Scaled embeddings, caps, norms behind attention and the MLP, two ropes, layers without rope, partial rope, longrope.
 */
static void every_newer_kind_of_layer(void **state) {
    (void)state;
    static const way ways[] = {
        {"gemma-gelu", 1, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 1, 2, 0, 0},
        {"gemma2-caps", 1, 3, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 2, 3, 0, 0},
        {"gemma2-caps", 3, 2, 0, TW_F32, {3, 1, 5, 3, 1, 0, 0}, "sm_80", 3, 2, 1, 0},
        {"gemma3-ropes", 1, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 4, 3, 0, 0},
        {"gemma3-ropes", 3, 2, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 5, 2, 0, 0},
        {"gemma2-caps", 1, 2, 2, TW_BF16, {2, 2, 4, 2, 0, 0, 0}, NULL, 11, 3, 0, 0},
        {"gemma3-wide", 1, 3, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 12, 2, 0, 0},
        {"phi3-window", 3, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 6, 2, 0, 0},
        {"phi3-long", 1, 2, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 7, 2, 0, 0},
        {"olmo2-norms", 1, 3, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 9, 3, 0, 0},
        {"olmo2-norms", 3, 2, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 10, 2, 0, 0},
        {"smollm3-norope", 1, 3, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 8, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) /* Those left out are of models that other ways have. */
        if (!TEST_SANITIZED || (i != 1 && i != 4 && i != 5 && i != 10)) agrees(&ways[i]);
}

/* Mixtures of experts: all chosen, few of many, layers without, workers without rows of experts or of some. */
static void every_mixture(void **state) {
    (void)state;
    static const way ways[] = {
        {"mixtral-fused", 1, 1, 0, TW_F32, {2, 1, 4, 2, 0, 0, 0}, NULL, 1, 3, 0, 0},
        {"mixtral-window", 1, 3, 2, TW_F32, {2, 2, 4, 2, 1, 0, 0}, NULL, 2, 3, 0, 0},
        {"qwen3moe-dense-first", 1, 2, 0, TW_F32, {3, 1, 5, 3, 0, 0, 0}, "sm_80", 3, 3, 0, 0},
        {"qwen3moe-dense-first", 1, 8, 2, TW_F32, {1, 2, 4, 2, 0, 0, 0}, NULL, 4, 2, 0, 0},
        {"qwen3moe-step-fused", 1, 3, 0, TW_F32, {2, 1, 2, 1, 0, 0, 0}, NULL, 5, 4, 0, 0},
        /* A worker has an expert, or some rows of one. */
        {"qwen3moe-dense-first", 1, 3, 0, TW_F32, {2, 2, 4, 2, 0, 0, 0}, "sm_80", 6, 2, 0, 0},
        {"qwen3moe-dense-first", 1, 9, 0, TW_F32, {1, 1, 4, 2, 0, 0, 0}, NULL, 7, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i += TEST_SANITIZED ? 2 : 1) agrees(&ways[i]);
}

/* Workers of qkv have parts of heads. Norms of heads are instructions of their own, whose workers have heads, or
   attention's. */
static void norms_of_heads_apart(void **state) {
    (void)state;
    static const way ways[] = {
        {"qwen3-bias", 1, 3, 2, TW_F32, {2, 2, 4, 2, 0, 0, 0}, NULL, 1, 3, 0, 0},
        {"qwen3-bias", 3, 5, 0, TW_F32, {2, 1, 4, 2, 1, 0, 0}, "sm_80", 2, 2, 1, 0},
        {"qwen3-bias", 8, 2, 2, TW_BF16, {2, 2, 4, 2, 0, 0, 0}, NULL, 3, 2, 0, 0},
        {"qwen3moe-dense-first", 1, 9, 2, TW_F32, {1, 2, 4, 2, 0, 0, 0}, NULL, 4, 3, 0, 0},
        {"qwen3moe-step-fused", 1, 3, 0, TW_BF16, {2, 2, 4, 2, 0, 0, 0}, NULL, 5, 2, 0, 0},
        {"qwen3moe-dense-first", 1, 2, 1, TW_F16, {1, 2, 4, 2, 0, 0, 0}, "sm_80", 6, 3, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i += TEST_SANITIZED ? 2 : 1) {
        agrees_with(&ways[i], TW_HEAD_NORMS_TURN);
        if (ways[i].tokens == 1) agrees_with(&ways[i], TW_HEAD_NORMS_ATTEND);
    }
}

/* The processor's machine scores and chooses in two steps what it otherwise routes in one. */
static void a_route_in_two_steps_is_the_same(void **state) {
    (void)state;
    tw_model *m = open_model("qwen3moe-dense-first");
    machine one = cpu(m, 3, true), two = {0};
    const tw_vm_options o = {.workers = 3, .no_vendor = true, .no_pin = true};
    static const int32_t text[3] = {3, 1, 4};
    tw_diag d;
    two.program = lower(m, (tw_lowering){.workers = 3, .tokens = 3, .all_logits = true, .group_heads = true});
    if (tw_vm_open(&two.cpu, m, &o, &d) != TW_OK || tw_vm_load(two.cpu, two.program, &two.id, &d) != TW_OK)
        fail_msg("%s", d.message);
    tw_vm_step a = {.tokens = text, .n = 3}, b = a;
    if (run(&one, &a, &d) != TW_OK || run(&two, &b, &d) != TW_OK) fail_msg("%s", d.message);
    same(b.logits, a.logits, 3 * m->vocab, 1e-5, "a route in two steps", 0);
    end(&one);
    end(&two);
    tw_model_close(m);
}

/* Caches of each type, numbers of workers, ways to split attention. */
static void every_division(void **state) {
    (void)state;
    static const way ways[] = {
        {"llama-linear-mqa", 1, 1, 0, TW_BF16, {1, 1, 2, 1, 0, 0, 0}, NULL, 1, 2, 0, 0},
        {"llama-linear-mqa", 1, 5, 3, TW_F16, {1, 2, 3, 2, 0, 0, 0}, NULL, 2, 4, 0, 0},
        {"mistral-window", 3, 4, 0, TW_F16, {2, 1, 4, 4, 1, 0, 0}, NULL, 3, 2, 0, 0},
        {"qwen2-window", 8, 3, 2, TW_BF16, {1, 2, 4, 2, 0, 0, 0}, NULL, 4, 2, 0, 0},
        {"llama-dynamic", 3, 5, 0, TW_BF16, {1, 1, 4, 2, 1, 0, 0}, NULL, 5, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i += TEST_SANITIZED ? 2 : 1) agrees(&ways[i]);
    const way blocks = {.folder = "qwen2-window",
                        .tokens = 7,
                        .workers = 3,
                        .splits = 2,
                        .tuning = {2, 1, 4, 2, 0, 0, 0},
                        .seed = 6,
                        .steps = 3,
                        .row_blocks = 3};
    agrees(&blocks);
}

static void every_tuning(void **state) {
    (void)state;
    for (int warps = 1; warps <= 4; warps += TEST_SANITIZED ? 3 : 1)
        for (int blocks = 1; blocks <= 4; blocks += warps == 2 && !TEST_SANITIZED ? 1 : 3) {
            const int stages = 2 + (warps + blocks) % 4;
            const way w = {.folder = "llama-linear-mqa",
                           .tokens = warps == 3 && blocks == 4 ? 3 : 1,
                           .workers = 1,
                           .tuning = {warps, blocks, stages, 1 + (warps + blocks) % stages, warps % 3, blocks % 3, 0},
                           .seed = (uint64_t)(warps * 10 + blocks),
                           .steps = 1};
            agrees(&w);
        }
    /* The defaults, of each target: those with bulk copies and those without. */
    for (int t = 0; tw_target_at(t); t += TEST_SANITIZED ? 4 : 1) {
        const way w = {
            .folder = "llama-linear-mqa", .tokens = 1, .workers = 1, .target = tw_target_at(t)->name, .steps = 2};
        agrees(&w);
    }
}

static void every_interleaving(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 2 : 6); seed++) {
        way w = {.folder = "llama-linear-mqa",
                 .tokens = 1 + (int)(seed % 3),
                 .workers = 3,
                 .splits = 2,
                 .tuning = {2, 1, 3, 2, 1, 0, 0},
                 .target = seed & 1 ? "sm_80" : "sm_90a",
                 .seed = seed * 7919,
                 .steps = 2};
        if (w.tokens == 1) w.tuning.edges = TW_EDGES_DATA;
        agrees(&w);
    }
}

/* Copies of 16 bytes a lane instead of whole stages. */
static void without_bulk_copies(void **state) {
    (void)state;
    static const way ways[] = {
        {"llama-biases", 1, 2, 2, TW_F32, {2, 2, 2, 1, 0, 0, 0}, "sm_80", 1, 2, 0, 0},
        {"qwen2-window", 3, 3, 0, TW_F32, {3, 1, 5, 3, 1, 0, 0}, "sm_80", 2, 2, 0, 0},
        {"mistral-window", 8, 2, 0, TW_F32, {1, 4, 4, 4, 0, 0, 0}, "sm_89", 3, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i += TEST_SANITIZED ? 2 : 1) agrees(&ways[i]);
}

static void one_launch_is_as_good_as_many(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_90a", "sm_80"};
    for (int t = 0; t < 2; t++) {
        tw_model *m = open_model("llama-biases");
        const way w = {.tokens = 1,
                       .workers = 2,
                       .tuning = {2, 2, 3, 2, 1, TW_EDGES_COUNTERS + t, 0},
                       .target = targets[t],
                       .seed = 3};
        machine g = open_way(m, &w);
        int32_t first = 17, many[GREEDY], again[GREEDY], token = first;
        double us;
        tw_diag d;
        if (greedy(&g, first, 0, GREEDY, many, &us, &d) != TW_OK) fail_msg("%s", d.message);
        for (int i = 0; i < GREEDY; i++) {
            tw_vm_step s = {.tokens = &token, .n = 1, .pos = i, .length = GREEDY};
            assert_int_equal(run(&g, &s, &d), TW_OK);
            assert_int_equal(s.token, many[i]);
            token = s.token;
        }
        /* From further on, what came before being what the single steps left. */
        assert_int_equal(greedy(&g, many[0], 1, GREEDY - 1, again, NULL, &d), TW_OK);
        assert_memory_equal(again, many + 1, (GREEDY - 1) * sizeof *many);
        end(&g);
        tw_model_close(m);
    }
}

/* Positions may be taken again: what was there is forgotten. */
static void positions_are_taken_again(void **state) {
    (void)state;
    tw_model *m = open_model("qwen2-window");
    const way w = {.tokens = 3, .workers = 2, .tuning = {1, 2, 4, 2, 1, 0, 0}, .seed = 1};
    static float want[MAX_VOCAB];
    static const int32_t other[3] = {9, 8, 7}, text[4] = {1, 2, 3, 4};
    tw_diag d;
    machine g = open_way(m, &w), fresh = open_way(m, &w);
    tw_vm_step steps[] = {{.tokens = text, .n = 2, .length = 8},
                          {.tokens = other, .n = 3, .pos = 2, .length = 8},
                          {.tokens = text + 2, .n = 2, .pos = 2, .length = 8}};
    for (int i = 0; i < 3; i++)
        if (run(&g, &steps[i], &d) != TW_OK) fail_msg("%s", d.message);
    memcpy(want, steps[2].logits, (size_t)m->vocab * sizeof *want);
    for (int i = 0; i < 3; i += 2)
        if (run(&fresh, &steps[i], &d) != TW_OK) fail_msg("%s", d.message);
    assert_memory_equal(steps[2].logits, want, (size_t)m->vocab * sizeof *want);
    end(&g);
    end(&fresh);
    tw_model_close(m);
}

/* A prefill and a decode program over one cache. */
static void programs_share_the_cache(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    const way w = {.tokens = 8, .workers = 2, .tuning = {2, 1, 4, 2, 0, 0, 0}};
    machine g = open_way(m, &w), c = cpu(m, 1, false);
    tw_lowering l = {.tokens = 1, .max_seq = MAX_SEQ, .group_heads = true};
    tw_cuda_vm_lowering(g.gpu, &l);
    l.kv = TW_F32;
    tw_checked *decode = lower(m, l);
    tw_diag d;
    int id;
    if (tw_cuda_vm_load(g.gpu, decode, &id, &d) != TW_OK) fail_msg("%s", d.message);
    static const int32_t text[7] = {3, 1, 4, 1, 5, 9, 2};
    tw_vm_step a = {.program = g.id, .tokens = text, .n = 6}, b = {0};
    assert_int_equal(tw_cuda_vm_run(g.gpu, &a, &d), TW_OK);
    a = (tw_vm_step){.program = id, .tokens = text + 6, .n = 1, .pos = 6};
    assert_int_equal(tw_cuda_vm_run(g.gpu, &a, &d), TW_OK);
    for (int i = 0; i < 7; i++) {
        b = (tw_vm_step){.tokens = text + i, .n = 1, .pos = i};
        assert_int_equal(run(&c, &b, &d), TW_OK);
    }
    same(a.logits, b.logits, m->vocab, tolerance(TW_F32), "prefill, then decode", 0);
    end(&g);
    end(&c);
    tw_checked_free(decode);
    tw_model_close(m);
}

static void what_is_traced_took_time(void **state) {
    (void)state;
    enum { MANY = 10000000, OF_OTHERS = 8 }; /* Kinds of mixtures, of norms apart from products, and of parts. */
    tw_model *m = open_model("llama-linear-mqa");
    const tw_cuda_vm_options o = {.workers = 3, .seed = 4, .trace = true, .tuning = {1, 2, 3, 2, 1, 0, 0}};
    tw_cuda_vm_times times[TW_CUDA_VM_KINDS];
    tw_diag d;
    for (int splits = 1; splits <= 2; splits++) {
        machine g = gpu(m, o, (tw_lowering){.tokens = 1, .kv_splits = splits, .group_heads = true, .kv = TW_F32});
        int count = 0;
        const int32_t token = 7;
        tw_vm_step step = {.tokens = &token, .n = 1, .length = 8};
        if (run(&g, &step, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(tw_cuda_vm_trace(g.gpu, g.id, times, &d), TW_OK);
        for (int k = 0; k < TW_CUDA_VM_KINDS; k++) {
            assert_int_equal(times[k].count, instructions(tw_checked_schedule(g.program), times[k].name));
            double all = 0;
            for (int p = 0; p < TW_CUDA_VM_PHASES; p++) {
                const double mean = times[k].clocks[p], most = times[k].most[p];
                assert_true(times[k].count ? mean >= 0 && mean <= most && most < MANY : mean == 0 && most == 0);
                all += mean;
            }
            /* A phase between two marks that follow one another takes no time; an instruction does. */
            assert_true(!times[k].count == (all == 0));
            count += times[k].count > 0;
        }
        assert_int_equal(count, TW_CUDA_VM_KINDS - OF_OTHERS - (splits == 1)); /* merge */
        end(&g);
    }
    machine untraced = gpu(m, (tw_cuda_vm_options){.workers = 1}, (tw_lowering){.tokens = 1});
    assert_int_equal(tw_cuda_vm_trace(untraced.gpu, untraced.id, times, &d), TW_ERR_USAGE);
    end(&untraced);
    tw_model_close(m);
}

/* Products in parts are traced as what they are, in their layers. */
static void parts_are_traced(void **state) {
    (void)state;
    tw_model *m = open_model("qwen3-bias");
    const tw_cuda_vm_options o = {.workers = 8, .seed = 4, .trace = true, .tuning = {1, 1, 3, 2, 1, 0, 0}};
    tw_cuda_vm_times times[TW_CUDA_VM_KINDS];
    static const int32_t tokens[3] = {7, 8, 9};
    struct tw_trace *trace;
    tw_diag d;
    machine g = gpu(m, o, (tw_lowering){.tokens = 3, .down_splits = 7, .kv_splits = 1, .kv = TW_F32});
    tw_vm_step step = {.tokens = tokens, .n = 3, .length = 8};
    if (run(&g, &step, &d) != TW_OK || tw_cuda_vm_trace(g.gpu, g.id, times, &d) != TW_OK) fail_msg("%s", d.message);
    int parts = 0;
    for (int k = 0; k < TW_CUDA_VM_KINDS; k++) {
        assert_int_equal(times[k].count, instructions(tw_checked_schedule(g.program), times[k].name));
        if (!strcmp(times[k].name, "partial")) parts += times[k].count;
    }
    assert_int_equal(parts, 7 * m->n_layers);
    if (tw_cuda_vm_timeline(g.gpu, g.id, 3, 0, "parts", &trace, &d) != TW_OK) fail_msg("%s", d.message);
    int sums = 0;
    for (int i = 0; i < trace->n_events; i++) {
        const tw_trace_event *e = &trace->events[i];
        if (strcmp(trace->names[e->name].text, "sum") != 0) continue;
        assert_int_equal(e->loop, TW_LOOP_LAYER);
        sums++;
    }
    assert_true(sums > 0);
    tw_trace_free(trace);
    end(&g);
    tw_model_close(m);
}

static void a_mixture_is_traced(void **state) {
    (void)state;
    tw_model *m = open_model("qwen3moe-dense-first");
    const tw_cuda_vm_options o = {.workers = 3, .seed = 4, .trace = true, .tuning = {1, 2, 3, 2, 1, 0, 0}};
    tw_cuda_vm_times times[TW_CUDA_VM_KINDS];
    const int32_t token = 7;
    struct tw_trace *trace;
    tw_diag d;
    machine g = gpu(m, o, (tw_lowering){.tokens = 1, .kv_splits = 2, .group_heads = true, .kv = TW_F32});
    tw_vm_step step = {.tokens = &token, .n = 1, .length = 8};
    if (run(&g, &step, &d) != TW_OK || tw_cuda_vm_trace(g.gpu, g.id, times, &d) != TW_OK) fail_msg("%s", d.message);
    int kinds = 0;
    for (int k = 0; k < TW_CUDA_VM_KINDS; k++) {
        kinds += times[k].count > 0;
        assert_int_equal(times[k].count, instructions(tw_checked_schedule(g.program), times[k].name));
    }
    assert_int_equal(kinds, TW_CUDA_VM_KINDS - 4); /* Mixtures have no norms apart from products, and no parts. */
    if (tw_cuda_vm_timeline(g.gpu, g.id, 1, 0, "mixture", &trace, &d) != TW_OK) fail_msg("%s", d.message);
    tw_trace_free(trace);
    end(&g);
    tw_model_close(m);
}

/* ---- what is refused */

static void refused(const char *folder, tw_cuda_vm_options o, tw_lowering l, tw_status want, const char *why) {
    tw_model *m = open_model(folder);
    machine g;
    tw_diag d;
    tw_diag_clear(&d);
    const tw_status st = try_gpu(&g, m, o, l, &d);
    if (st != want || !strstr(d.message, why)) fail_msg("%s: %d, \"%s\", not \"%s\"", folder, st, d.message, why);
    end(&g);
    tw_model_close(m);
}

static void what_is_not_covered_is_refused(void **state) {
    (void)state;
    const tw_cuda_vm_options plain = {.workers = 1};
    const tw_lowering one = {.tokens = 1};
    refused("gpt2-gelu-bare", (tw_cuda_vm_options){.workers = 1, .tuning = {.edges = TW_EDGES_DATA}}, one, TW_ERR_USAGE,
            "edges by data: not for layer norms");
    refused("mixtral-fused", plain, (tw_lowering){.tokens = 2}, TW_ERR_UNSUPPORTED,
            "mixtures of experts at several positions");
    refused("llama-biases", plain, (tw_lowering){.tokens = TOKENS + 1}, TW_ERR_UNSUPPORTED, "takes 8");
    refused("llama-biases", (tw_cuda_vm_options){.target = "sm_70"}, one, TW_ERR_USAGE, "sm_70 is not a target");
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    static const struct {
        tw_cuda_vm_tuning tuning;
        const char *target, *why;
    } cases[] = {
        {{17, 1, 0, 0, 0, 0, 0}, NULL, "17 warps of 1 blocks: 1 to 16 and 1 to 8 are possible"},
        {{-1, 1, 0, 0, 0, 0, 0}, NULL, "-1 warps of 1 blocks"},
        {{1, 9, 0, 0, 0, 0, 0}, NULL, "1 warps of 9 blocks"},
        {{4, 4, 30, 0, 0, 0, 0}, NULL, "a ring of 30 stages of 8192 bytes"},
        {{1, 1, 33, 0, 0, 0, 0}, NULL, "a ring of 33 stages of 512 bytes"},
        {{2, 2, 1, 0, 0, 0, 0}, NULL, "a ring of 1 stages"},
        {{2, 2, -3, 0, 0, 0, 0}, NULL, "a ring of -3 stages"},
        {{16, 8, 0, 0, 0, 0, 0}, "sm_89", "stages of 65536 bytes"},
        {{2, 2, 0, -1, 0, 0, 0}, NULL, "a window of -1 stages"},
        {{2, 2, 0, 2, -1, 0, 0}, NULL, "a window of 2 stages, and -1 ahead"},
        {{2, 2, 0, 0, 0, 3, 0}, NULL, "edges: 3 is not counters (1) or data (2)"},
        {{2, 2, 0, 0, 0, 0, -5}, NULL, "spin_limit: -5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("llama-linear-mqa",
                (tw_cuda_vm_options){.workers = 1, .tuning = cases[i].tuning, .target = cases[i].target},
                (tw_lowering){.tokens = 1}, TW_ERR_USAGE, cases[i].why);
}

static void bad_steps_are_refused(void **state) {
    (void)state;
    tw_model *m = open_model("llama-dynamic");
    const way w = {.tokens = 1, .workers = 1, .tuning = {1, 1, 2, 1, 0, 0, 0}};
    machine g = open_way(m, &w);
    static const int32_t text[2] = {1, 2}, beyond[1] = {256}, negative[1] = {-1};
    int32_t out[GREEDY];
    tw_diag d;
    tw_vm_step bad[] = {{.tokens = text, .n = 2},
                        {.tokens = text, .n = 0},
                        {.tokens = text, .n = 1, .pos = -1},
                        {.tokens = text, .n = 1, .pos = MAX_SEQ},
                        {.tokens = beyond, .n = 1},
                        {.tokens = negative, .n = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(run(&g, &bad[i], &d), TW_ERR_USAGE);
    tw_vm_step other = {.program = 5, .tokens = text, .n = 1};
    assert_int_equal(tw_cuda_vm_run(g.gpu, &other, &d), TW_ERR_USAGE);
    assert_int_equal(greedy(&g, 256, 0, 1, out, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(greedy(&g, 1, MAX_SEQ - 1, 2, out, NULL, &d), TW_ERR_USAGE);
    /* Its angles change with every token. */
    assert_int_equal(greedy(&g, 1, 0, 2, out, NULL, &d), TW_ERR_UNSUPPORTED);
    end(&g);
    tw_model_close(m);
}

/* ---- what should never happen */

static bool awaited(const tw_schedule *s, int counter) {
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int k = 0; k < s->workers[w].list[i].n_waits; k++)
                if (s->workers[w].list[i].waits[k].counter == counter) return true;
    return false;
}

/* An arrival is lost: the machine says which counter was waited for, whoever did that, and ends. */
static void lose(const tw_model *m, const way *w, const tw_schedule *s, int counter) {
    machine g = open_way(m, w);
    const tw_mega_program *p = g.gpu->programs;
    const uint64_t at = p->arguments[TW_MEGA_ARG_COUNTERS] + (uint64_t)(counter * TW_MEGA_COUNTER);
    const int32_t token = 1;
    tw_vm_step step = {.tokens = &token, .n = 1, .length = 8};
    int32_t count;
    char want[160];
    tw_diag d;
    if (run(&g, &step, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_mega_read(g.gpu, &count, at, sizeof count, &d), TW_OK);
    count--;
    assert_int_equal(tw_mega_write(g.gpu, at, &count, sizeof count, &d), TW_OK);
    step.pos = 1;
    snprintf(want, sizeof want, "for counter %s to reach", s->counters[counter].name);
    /* Where nobody looks up from waiting, the emulator knows that nothing will come. */
    const bool patient = w->tuning.spin_limit == 0;
    if (patient) snprintf(want, sizeof want, "(polls counters+%d)", counter * TW_MEGA_COUNTER);
    if (run(&g, &step, &d) != (patient ? TW_ERR_REJECTED : TW_ERR_IO) || !strstr(d.message, want) ||
        !strstr(d.message, patient ? "deadlock" : "gave up: worker "))
        fail_msg("counter %s: %s", s->counters[counter].name, d.message);
    end(&g);
}

static void a_lost_arrival_is_named(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    for (int workers = 1; workers <= 2; workers++) {
        const way w = {.tokens = 1,
                       .workers = workers,
                       .tuning = {1, 1, 3, 2, 1, TW_EDGES_COUNTERS, workers == 1 ? 32 : 0},
                       .seed = 5};
        machine g = open_way(m, &w);
        const tw_schedule *s = tw_checked_schedule(g.program);
        for (int c = workers; c < s->n_counters; c += 3)
            if (awaited(s, c)) lose(m, &w, s, c);
        end(&g);
    }
    tw_model_close(m);
}

/* Nobody waits so briefly in earnest: a worker gives up, and all the others hear of it. */
static void everyone_hears_of_it(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    for (int edges = TW_EDGES_COUNTERS; edges <= TW_EDGES_DATA; edges++) {
        const way w = {.tokens = 1, .workers = 3, .tuning = {1, 1, 3, 2, 1, edges, 1}, .seed = 2};
        machine g = open_way(m, &w);
        const int32_t token = 1;
        tw_vm_step step = {.tokens = &token, .n = 1, .length = 8};
        tw_diag d;
        if (run(&g, &step, &d) != TW_ERR_IO || !strstr(d.message, "gave up: worker ")) fail_msg("%s", d.message);
        if (run(&g, &step, &d) != TW_ERR_IO || !strstr(d.message, "of no further use")) fail_msg("%s", d.message);
        end(&g);
    }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family),
        cmocka_unit_test(every_kind_of_layer),
        cmocka_unit_test(every_mixture),
        cmocka_unit_test(every_newer_kind_of_layer),
        cmocka_unit_test(norms_of_heads_apart),
        cmocka_unit_test(a_route_in_two_steps_is_the_same),
        cmocka_unit_test(every_division),
        cmocka_unit_test(every_tuning),
        cmocka_unit_test(every_interleaving),
        cmocka_unit_test(without_bulk_copies),
        cmocka_unit_test(one_launch_is_as_good_as_many),
        cmocka_unit_test(positions_are_taken_again),
        cmocka_unit_test(programs_share_the_cache),
        cmocka_unit_test(what_is_traced_took_time),
        cmocka_unit_test(a_mixture_is_traced),
        cmocka_unit_test(parts_are_traced),
        cmocka_unit_test(what_is_not_covered_is_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(bad_steps_are_refused),
        cmocka_unit_test(a_lost_arrival_is_named),
        cmocka_unit_test(everyone_hears_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's draw in the emulator, every checker on: from the same logits the token that the processor draws, for
   every rule alone and together, lists that are long enough and such that are not, one sequence and several. */
#include "support/lower.h"
#include "support/support.h"
#include "vm/draw_kernel.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "vm/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rig {
    draw_shape shape;
    tw_mega_plan plan;
    tw_kernel *kernel;
    int32_t *rows;
    void *room;
} rig;

static rig rig_open(draw_shape s, const char *target) {
    tw_diag d;
    rig r = {.shape = s, .plan = draw_plan(&s, tw_target_find(target))};
    r.kernel = draw_kernel(&r.plan);
    assert_non_null(r.kernel);
    if (tw_pipeline_default(r.kernel, true, &d) != TW_OK) fail_msg("%s", d.message);
    r.rows = calloc((size_t)s.slots, 8);
    draw_rows(&s, r.rows);
    r.room = malloc(tw_sample_room(s.vocab));
    return r;
}

static void rig_close(rig *r) {
    tw_kernel_free(r->kernel);
    free(r->rows);
    free(r->room);
}

static tw_sample_rules rules_of(tw_sample_wish w, int64_t vocab) {
    tw_sample_rules r;
    tw_diag d;
    if (tw_sample_rules_of(&r, &w, vocab, &d) != TW_OK) fail_msg("%s", d.message);
    return r;
}

/* One draw of every sequence there and here. */
static void same(rig *r, const tw_sample_rules *rules, const float *z, const uint32_t *counts, int64_t position,
                 const char *what) {
    const int n = r->shape.sequences;
    const int64_t vocab = r->shape.vocab;
    const size_t all = (size_t)n * (size_t)vocab * 4;
    int32_t tokens[2 * TW_CUDA_VM_TOKENS] = {0}, out[TW_CUDA_VM_TOKENS], token[TW_CUDA_VM_TOKENS], zero[8] = {0};
    uint32_t mode = 0;
    tw_diag d;
    for (int i = 0; i < n; i++) {
        tokens[n + i] = (int32_t)position + 3 * i;
        mode |= rules[i].mode;
    }
    tw_emu *e = tw_emu_new();
    uint32_t *none = calloc(1, all), *after = malloc(all);
    const uint64_t arguments[DRAW_ARGS] = {
        [DRAW_LOGITS] = tw_emu_alloc(e, "logits", z, all, false),
        [DRAW_ROWS] = tw_emu_alloc(e, "rows", r->rows, (size_t)r->shape.slots * 8, true),
        [DRAW_BEST] = tw_emu_alloc(e, "best", NULL, (size_t)r->shape.slots * (size_t)n * 8, false),
        [DRAW_TOKENS] = tw_emu_alloc(e, "tokens", tokens, sizeof tokens, true),
        [DRAW_OUT] = tw_emu_alloc(e, "out", NULL, sizeof out, false),
        [DRAW_TOKEN] = tw_emu_alloc(e, "token", NULL, sizeof token, false),
        [DRAW_ABORT] = tw_emu_alloc(e, "abort", zero, sizeof zero, false),
        [DRAW_RULES] = tw_emu_alloc(e, "rules", rules, (size_t)n * sizeof *rules, true),
        [DRAW_COUNTS] = tw_emu_alloc(e, "counts", counts ? counts : none, all, false),
        [DRAW_POS] = (uint32_t)position,
        [DRAW_MODE] = mode,
    };
    tw_emu_report report = {0};
    const tw_emu_options o = {.seed = (uint64_t)position, .grid = {1}};
    if (tw_emu_launch(e, r->kernel, arguments, &o, &report, &d) != TW_OK)
        fail_msg("%s: %s", what, report.n ? report.findings[0].text : d.message);
    assert_true(tw_emu_read(e, arguments[DRAW_OUT], out, (size_t)n * 4));
    assert_true(tw_emu_read(e, arguments[DRAW_TOKEN], token, (size_t)n * 4));
    assert_true(tw_emu_read(e, arguments[DRAW_COUNTS], after, all));
    float *left = malloc(all);
    assert_true(tw_emu_read(e, arguments[DRAW_LOGITS], left, all));
    for (int i = 0; i < n; i++) {
        const uint32_t *mine = (counts ? counts : none) + i * vocab;
        const int64_t at = n > 1 ? tokens[n + i] : position;
        const int32_t want = tw_sample_draw(&rules[i], z + i * vocab, mine, vocab, at, r->room);
        if (out[i] != want || token[i] != want)
            fail_msg("%s: position %d, sequence %d: %d, not %d", what, (int)at, i, out[i], want);
        for (int64_t k = 0; k < vocab; k++) {
            const uint32_t count = rules[i].mode & TW_SAMPLE_PENALISES ? mine[k] : 0;
            const float y = tw_sample_penalise(&rules[i], z[i * vocab + k], count), x = left[i * vocab + k];
            if (!(x == y) && !(isnan(x) && isnan(y))) fail_msg("%s: logit %d becomes %g, not %g", what, (int)k, x, y);
            const bool more = rules[i].mode & TW_SAMPLE_PENALISES && k == want;
            assert_int_equal(after[i * vocab + k], more ? (mine[k] + 1) | TW_SAMPLE_SEEN : mine[k]);
        }
    }
    tw_emu_free(e);
    free(none);
    free(after);
    free(left);
}

static void random_logits(float *z, int64_t n, uint64_t seed, float spread) {
    tw_random r = tw_random_seed(seed);
    for (int64_t i = 0; i < n; i++) z[i] = spread * tw_random_normal(&r);
}

static const tw_sample_wish wishes[] = {
    {.temperature = 0},
    {.temperature = 0.7, .seed = 1},
    {.temperature = 1, .top_k = 1, .seed = 2},
    {.temperature = 0.8, .top_k = 7, .seed = 3},
    {.temperature = 1.3, .top_k = 60, .seed = 4},
    {.temperature = 1, .top_p = 0.9, .seed = 5},
    {.temperature = 1, .top_p = 1e-9, .seed = 6},
    {.temperature = 2, .top_p = 0.9999, .seed = 7},
    {.temperature = 1, .min_p = 0.1, .seed = 8},
    {.temperature = 5, .min_p = 1, .seed = 9},
    {.temperature = 0.7, .top_k = 20, .top_p = 0.95, .seed = 10},
    {.temperature = 1.1, .top_k = 90, .top_p = 0.8, .min_p = 0.01, .seed = 11},
    {.temperature = 0.01, .top_p = 0.9, .min_p = 0.001, .seed = 12},
    {.temperature = 1e5, .top_k = 30, .top_p = 0.5, .seed = 1ull << 35},
    {.temperature = INFINITY, .top_k = 12, .seed = 13},
    {.temperature = 1, .top_k = 1000000, .top_p = 1, .seed = 14},
    {.temperature = 0.6, .top_p = 0.9, .repetition = 1.3, .presence = 0.5, .frequency = 0.2, .seed = 15},
    {.temperature = 0, .repetition = 0.7, .frequency = -0.3},
    {.temperature = 1, .presence = -1, .seed = 16},
};
enum { WISHES = sizeof wishes / sizeof *wishes };

static void draws_what_the_processor_draws(void **state) {
    (void)state;
    enum { VOCAB = 300 };
    static float z[VOCAB];
    static uint32_t counts[VOCAB];
    /* Lists with room for all, for what a few slots leave, and for nearly nothing. */
    static const draw_shape shapes[] = {{1, 2, 5, 512, VOCAB}, {1, 4, 33, 48, VOCAB}, {1, 1, 9, 16, VOCAB - 1}};
    for (size_t s = 0; s < 3; s++) {
        rig r = rig_open(shapes[s], s == 1 ? "sm_80" : "sm_90a");
        for (int i = 0; i < WISHES; i++)
            for (int k = 0; k < (TEST_SANITIZED ? 1 : 4); k++) {
                char what[64];
                snprintf(what, sizeof what, "shape %d, wish %d", (int)s, i);
                random_logits(z, VOCAB, (uint64_t)(100 * i + k), k & 1 ? 0.3f : 3);
                for (int j = 0; j < VOCAB; j++) counts[j] = j % 5 ? 0 : TW_SAMPLE_SEEN | (uint32_t)(j % 3);
                const tw_sample_rules rules = rules_of(wishes[i], shapes[s].vocab);
                same(&r, &rules, z, counts, 17 * k + i, what);
            }
        rig_close(&r);
    }
}

/* Logits that are equal, in every place where a cut may fall; that are none; that are zeros of both signs. */
static void odd_logits_are_drawn_from_alike(void **state) {
    (void)state;
    enum { VOCAB = 256, KINDS = 8 };
    static float z[VOCAB];
    static const draw_shape shapes[] = {{1, 2, 8, 300, VOCAB}, {1, 2, 8, 16, VOCAB}};
    for (size_t s = 0; s < 2; s++) {
        rig r = rig_open(shapes[s], "sm_90a");
        for (int kind = 0; kind < KINDS; kind++) {
            tw_random random = tw_random_seed((uint64_t)kind);
            for (int j = 0; j < VOCAB; j++) {
                const uint64_t x = tw_random_u64(&random);
                const float few = (float)(x % 3), some = x % 7 ? NAN : 1.5f, below = x % 5 ? -INFINITY : few;
                const float zero = x & 1 ? -0.0f : 0.0f, tiny = (float)(x % 100) * 1e-30f,
                            huge = x % 50 ? -1e30f : 1e30f;
                const float of[KINDS] = {1, few, some, below, zero, tiny, huge, NAN};
                z[j] = of[kind];
            }
            for (int i = 0; i < WISHES; i++) {
                char what[64];
                snprintf(what, sizeof what, "shape %d, kind %d, wish %d", (int)s, kind, i);
                const tw_sample_rules rules = rules_of(wishes[i], VOCAB);
                same(&r, &rules, z, NULL, 1000 + i, what);
                if (TEST_SANITIZED) i += 2;
            }
        }
        rig_close(&r);
    }
}

/* Where every slot has one of the k most likely, the k-th slot's is among them. */
static void every_slot_may_have_one_of_the_first(void **state) {
    (void)state;
    enum { SLOTS = 8, VOCAB = 64 };
    static float z[VOCAB];
    const draw_shape shape = {1, 2, SLOTS, 16, VOCAB};
    rig r = rig_open(shape, "sm_90a");
    for (int j = 0; j < VOCAB; j++) z[j] = j % SLOTS == 3 ? 5 - 0.1f * (float)(j / SLOTS) : -10;
    for (int k = 1; k <= SLOTS; k++) {
        const tw_sample_rules rules = rules_of((tw_sample_wish){.temperature = 4, .top_k = k, .seed = 9}, VOCAB);
        for (int i = 0; i < (TEST_SANITIZED ? 4 : 12); i++) same(&r, &rules, z, NULL, 50 * k + i, "slots");
    }
    rig_close(&r);
}

/* Each sequence by its own rules, from its own logits and counts, at its own position. */
static void sequences_draw_apart(void **state) {
    (void)state;
    enum { VOCAB = 132, N = 5 };
    static float z[N * VOCAB];
    static uint32_t counts[N * VOCAB];
    const draw_shape shape = {N, 2, 6, 64, VOCAB};
    rig r = rig_open(shape, "sm_90a");
    for (int k = 0; k < WISHES; k++) {
        tw_sample_rules rules[N];
        for (int i = 0; i < N; i++) rules[i] = rules_of(wishes[(k + 4 * i) % WISHES], VOCAB);
        random_logits(z, N * VOCAB, (uint64_t)k, 2);
        for (int j = 0; j < N * VOCAB; j++) counts[j] = j % 11 ? 0 : TW_SAMPLE_SEEN | 1;
        same(&r, rules, z, counts, 5 * k, "sequences");
    }
    rig_close(&r);
}

/* In the whole machine: several sequences, several steps a launch, each sequence by its own rules and counts; its own
   logits say what is to come. */
static bool keep(void *user, const int32_t *tokens) {
    int32_t **at = user;
    memcpy(*at, tokens, 3 * sizeof *tokens);
    *at += 3;
    return true;
}

static void programs_of_sequences_draw(void **state) {
    (void)state;
    enum { N = 3, STEPS = 3, MAX_SEQ = 16 };
    static const int which[N] = {10, 17, 16};
    tw_model *m;
    tw_cuda_vm *vm;
    tw_diag d;
    int id;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/llama-linear-mqa", &d), TW_OK);
    const tw_cuda_vm_options o = {.emulate = true, .workers = 3, .seed = 5, .tuning = {.warps = 2, .blocks = 2}};
    assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
    tw_lowering l = {.tokens = N, .sequences = N, .max_seq = MAX_SEQ, .group_heads = true};
    tw_cuda_vm_lowering(vm, &l);
    tw_checked *program = test_lower(m, l, MAX_SEQ);
    if (tw_cuda_vm_load(vm, program, &id, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_cuda_vm_draws(vm, id));
    const int64_t vocab = m->vocab;
    tw_sample_rules rules[N];
    uint32_t *counts = calloc((size_t)(N * vocab), sizeof *counts);
    void *room = malloc(tw_sample_room(vocab));
    for (int i = 0; i < N; i++) {
        rules[i] = rules_of(wishes[which[i]], vocab);
        for (int64_t k = i; k < vocab; k += 5) counts[i * vocab + k] = TW_SAMPLE_SEEN | (uint32_t)i;
        assert_int_equal(tw_cuda_vm_count(vm, i, counts + i * vocab, &d), TW_OK);
    }
    int32_t tokens[N] = {4, 5, 6}, got[N * STEPS], *at = got, greedy[N];
    int64_t positions[N] = {0, 0, 0};
    tw_cuda_vm_draw draw = {.program = id, .tokens = tokens, .positions = positions, .n = STEPS, .rules = rules};
    draw.take = keep;
    draw.user = &at;
    if (tw_cuda_vm_draw_tokens(vm, &draw, &d) != TW_OK) fail_msg("%s", d.message);
    for (int step = 0; step < STEPS; step++) {
        const float *logits;
        assert_int_equal(tw_cuda_vm_batch(vm, id, tokens, positions, 1, greedy, &logits, NULL, &d), TW_OK);
        for (int i = 0; i < N; i++) {
            uint32_t *mine = counts + i * vocab;
            tokens[i] = tw_sample_draw(&rules[i], logits + i * vocab, mine, vocab, positions[i]++, room);
            mine[tokens[i]] = (mine[tokens[i]] + 1) | TW_SAMPLE_SEEN;
            assert_int_equal(got[step * N + i], tokens[i]);
        }
    }
    free(counts);
    free(room);
    tw_cuda_vm_close(vm);
    tw_checked_free(program);
    tw_model_close(m);
}

/* The host must not take what a machine that gave up found. */
static void who_gave_up_tells_no_token(void **state) {
    (void)state;
    enum { VOCAB = 32 };
    static const float z[VOCAB] = {1};
    const draw_shape shape = {1, 1, 2, 16, VOCAB};
    rig r = rig_open(shape, "sm_90a");
    const tw_sample_rules rules = rules_of(wishes[0], VOCAB);
    int32_t out = 0;
    tw_diag d;
    tw_emu *e = tw_emu_new();
    const int32_t up[8] = {1}, zero[8] = {0};
    const uint64_t arguments[DRAW_ARGS] = {
        [DRAW_LOGITS] = tw_emu_alloc(e, "logits", z, sizeof z, false),
        [DRAW_ROWS] = tw_emu_alloc(e, "rows", r.rows, 16, true),
        [DRAW_BEST] = tw_emu_alloc(e, "best", NULL, 16, false),
        [DRAW_TOKENS] = tw_emu_alloc(e, "tokens", zero, sizeof zero, true),
        [DRAW_OUT] = tw_emu_alloc(e, "out", NULL, 4, false),
        [DRAW_TOKEN] = tw_emu_alloc(e, "token", NULL, 4, false),
        [DRAW_ABORT] = tw_emu_alloc(e, "abort", up, sizeof up, false),
        [DRAW_RULES] = tw_emu_alloc(e, "rules", &rules, sizeof rules, true),
        [DRAW_COUNTS] = tw_emu_alloc(e, "counts", z, sizeof z, false),
    };
    tw_emu_report report = {0};
    assert_int_equal(tw_emu_launch(e, r.kernel, arguments, &(tw_emu_options){.grid = {1}}, &report, &d), TW_OK);
    assert_true(tw_emu_read(e, arguments[DRAW_OUT], &out, 4));
    assert_int_equal(out, TW_MEGA_GAVE_UP);
    tw_emu_free(e);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_what_the_processor_draws),       cmocka_unit_test(odd_logits_are_drawn_from_alike),
        cmocka_unit_test(every_slot_may_have_one_of_the_first), cmocka_unit_test(sequences_draw_apart),
        cmocka_unit_test(programs_of_sequences_draw),           cmocka_unit_test(who_gave_up_tells_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

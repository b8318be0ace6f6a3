/* SPDX-License-Identifier: Apache-2.0 */
/* Which instructions pack their activations together, and that prompts in any steps give the same. */
#include "support/lower.h"
#include "support/support.h"

#include "base/random.h"
#include "schedule/builder.h"
#include "vm/cpu/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { T = 32, DIM = 64, MAX_SEQ = 64 };

static tw_vm *machine(const tw_model *m, int workers, tw_activations a) {
    tw_vm *vm;
    tw_diag d;
    tw_vm_options o = {.workers = workers, .no_vendor = true, .no_pin = true, .activations = a};
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return vm;
}

static tw_model *tiny(tw_dtype stored) {
    tw_model *m;
    tw_diag d;
    if (tw_model_synthetic(&m, "llama-tiny", stored, 1, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

/* A program that is taken apart and never run: instructions that multiply buffer `in` and change buffer `x`. */
typedef struct specimen {
    tw_schedule *s;
    tw_program p;
    int buffer[3], weights[2], counter[3];
} specimen;

static specimen begin(void) {
    static const char *const names[] = {"a", "b", "x"};
    specimen q = {.s = tw_schedule_begin(2, T, MAX_SEQ)};
    assert_non_null(q.s);
    for (int i = 0; i < 3; i++) {
        q.buffer[i] = tw_schedule_add_buffer(q.s, names[i], TW_BUFFER_ACTIVATION, TW_F32, 0, T, 1, DIM);
        q.counter[i] = tw_schedule_add_counter(q.s, names[i]);
    }
    for (int i = 0; i < 2; i++)
        q.weights[i] = tw_schedule_add_buffer(q.s, i ? "w1" : "w0", TW_BUFFER_WEIGHT, TW_BF16, 0, 1, DIM, DIM);
    return q;
}

static void project(specimen *q, int worker, int in, int weights, int x, int wait, int64_t arrivals, int arrive) {
    tw_instr *i = tw_schedule_add_instr(q->s, worker, TW_INSTR_PROJECT);
    assert_non_null(i);
    i->operand[TW_PROJECT_IN] = q->buffer[in];
    i->operand[TW_PROJECT_W] = q->weights[weights];
    i->operand[TW_PROJECT_X] = q->buffer[x];
    i->arrive = q->counter[arrive];
    if (wait >= 0) tw_schedule_add_wait(q->s, i, q->counter[wait], arrivals);
}

static void find_packs(tw_vm *vm, specimen *q) {
    tw_diag d;
    q->p.s = q->s;
    q->p.exec = calloc(2, sizeof *q->p.exec);
    assert_non_null(q->p.exec);
    for (int w = 0; w < 2; w++) {
        q->p.exec[w] = calloc((size_t)q->s->workers[w].count, sizeof **q->p.exec);
        assert_non_null(q->p.exec[w]);
    }
    if (tw_vm_share(vm, &q->p, &d) != TW_OK) fail_msg("%s", d.message);
}

static void end(specimen *q) {
    for (int w = 0; w < 2; w++) free(q->p.exec[w]);
    free(q->p.exec);
    tw_schedule_free(q->s);
}

static bool packs(const tw_vm *vm) {
    if (!vm->k.gemm_pack) print_message("no matrix unit: nothing is packed\n");
    return vm->k.gemm_pack;
}

static void a_stage_packs_together(void **state) {
    (void)state;
    tw_model *m = tiny(TW_BF16);
    tw_vm *vm = machine(m, 2, TW_ACTIVATIONS_FLOAT);
    specimen q = begin();
    for (int w = 0; w < 2; w++) project(&q, w, 0, 0, 2, -1, 0, 0);
    for (int w = 0; w < 2; w++) project(&q, w, 2, 1, 1, 0, 2, 1);
    find_packs(vm, &q);
    const tw_pack *first = q.p.exec[0][0].pack, *second = q.p.exec[0][1].pack;
    if (packs(vm)) {
        assert_non_null(first);
        assert_non_null(second);
        assert_ptr_not_equal(first, second);
        assert_ptr_equal(first->rows, second->rows);
    }
    assert_ptr_equal(q.p.exec[1][0].pack, first);
    assert_ptr_equal(q.p.exec[1][1].pack, second);
    end(&q);
    tw_vm_close(vm);
    tw_model_close(m);
}

/* Worker 1 changes what it multiplies after worker 0 has multiplied it. */
static void what_changes_between_two_is_packed_by_each(void **state) {
    (void)state;
    tw_model *m = tiny(TW_BF16);
    tw_vm *vm = machine(m, 2, TW_ACTIVATIONS_FLOAT);
    specimen q = begin();
    project(&q, 0, 0, 0, 2, -1, 0, 0);
    project(&q, 0, 2, 1, 1, -1, 0, 1);
    project(&q, 1, 1, 1, 0, 1, 1, 2);
    project(&q, 1, 0, 0, 2, -1, 0, 0);
    find_packs(vm, &q);
    assert_null(q.p.exec[0][0].pack);
    assert_null(q.p.exec[1][1].pack);
    end(&q);
    tw_vm_close(vm);
    tw_model_close(m);
}

/* Neither of two stages comes before the other: they may not have one memory. */
static void stages_at_once_do_not_share_memory(void **state) {
    (void)state;
    tw_model *m = tiny(TW_BF16);
    tw_vm *vm = machine(m, 2, TW_ACTIVATIONS_FLOAT);
    specimen q = begin();
    project(&q, 0, 0, 0, 2, -1, 0, 0);
    project(&q, 1, 1, 1, 2, -1, 0, 1);
    find_packs(vm, &q);
    assert_true(!q.p.exec[0][0].pack || !q.p.exec[1][0].pack);
    end(&q);
    tw_vm_close(vm);
    tw_model_close(m);
}

/* Steps of one position, of few, and of many, on one worker and several. */
static void any_steps_give_the_same(void **state) {
    (void)state;
    enum { PROMPT = 61, VOCAB = 256 };
    static const struct {
        int workers;
        int64_t tokens;
    } ways[] = {{1, 1}, {2, 61}, {3, 17}, {5, 32}, {2, 9}, {7, 61}};
    /* What differs in float may be rounded to different neighbours. */
    static const struct {
        tw_dtype stored, weights;
        tw_activations activations;
        float allowed;
    } kinds[] = {
        {TW_BF16, TW_F32, TW_ACTIVATIONS_FLOAT, 3e-5f}, {TW_BF16, TW_F32, TW_ACTIVATIONS_BF16, 1e-2f},
        {TW_BF16, TW_I8, TW_ACTIVATIONS_FLOAT, 3e-5f},  {TW_BF16, TW_I8, TW_ACTIVATIONS_INT8, 2e-2f},
        {TW_BF16, TW_I4, TW_ACTIVATIONS_FLOAT, 3e-5f},  {TW_BF16, TW_I4, TW_ACTIVATIONS_INT8, 2e-2f},
        {TW_F32, TW_F32, TW_ACTIVATIONS_FLOAT, 3e-5f},  {TW_F32, TW_F32, TW_ACTIVATIONS_BF16, 1e-2f},
    };
    static float logits[2][VOCAB], plain[VOCAB];
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        tw_model *m = tiny(kinds[kind].stored);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            int32_t ids[PROMPT];
            tw_diag d;
            int id;
            for (int t = 0; t < PROMPT; t++) ids[t] = (t * 37 + 5) % VOCAB;
            tw_checked *c = test_lower(
                m, (tw_lowering){.workers = ways[i].workers, .tokens = ways[i].tokens, .weights = kinds[kind].weights},
                MAX_SEQ);
            tw_vm *vm = machine(m, ways[i].workers, kinds[kind].activations);
            if (tw_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
            tw_vm_step s = {.program = id, .length = PROMPT};
            for (int64_t at = 0; at < PROMPT; at += s.n) {
                s.tokens = ids + at;
                s.n = PROMPT - at < ways[i].tokens ? PROMPT - at : ways[i].tokens;
                s.pos = at;
                if (tw_vm_run(vm, &s, &d) != TW_OK) fail_msg("%s", d.message);
            }
            memcpy(logits[i > 0], s.logits, sizeof logits[0]);
            float largest = 0, worst = 0;
            for (int k = 0; k < VOCAB; k++) {
                largest = fmaxf(largest, fabsf(logits[0][k]));
                worst = fmaxf(worst, fabsf(logits[i > 0][k] - logits[0][k]));
            }
            /* Single steps round, too. */
            const bool rounded = kinds[kind].activations != TW_ACTIVATIONS_FLOAT;
            if (!i && rounded && !memcmp(plain, logits[0], sizeof plain)) fail_msg("kind %zu rounds nothing", kind);
            if (!i && !rounded) memcpy(plain, logits[0], sizeof plain);
            if (!(worst <= kinds[kind].allowed * largest))
                fail_msg("way %zu, kind %zu: %g of %g", i, kind, (double)worst, (double)largest);
            tw_vm_close(vm);
            tw_checked_free(c);
        }
        tw_model_close(m);
    }
}

/* Floats that integers stand for are packed as floats are. */
static void memory_of_packs_is_of_what_runs(void **state) {
    (void)state;
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        tw_model *m = tiny(i ? TW_BF16 : TW_F32);
        tw_diag d;
        tw_vm *vm;
        tw_vm_options o = {.workers = 2, .no_vendor = true, .no_pin = true, .dequantise = i};
        if (tw_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
        tw_checked *c = test_lower(m, (tw_lowering){.workers = 2, .tokens = T, .weights = i ? TW_I8 : TW_F32}, MAX_SEQ);
        bytes[i] = tw_vm_share_bytes(vm, tw_checked_schedule(c));
        tw_checked_free(c);
        tw_vm_close(vm);
        tw_model_close(m);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* Each block has a scale of its own: 128 columns, or a group of the weights. */
static void bytes_are_rounded_in_blocks(void **state) {
    (void)state;
    enum { COLS = 300 };
    static const tw_panel_format formats[] = {{TW_I8, 0}, {TW_I8, 32}, {TW_I4, 64}, {TW_I4, 128}};
    tw_random r = tw_random_seed(7);
    tw_model *m = tiny(TW_BF16);
    tw_vm *vm = machine(m, 1, TW_ACTIVATIONS_INT8);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const int block = formats[f].group ? formats[f].group : 128;
        const tw_strip s = {.cols = COLS, .format = formats[f]};
        float x[COLS], out[COLS];
        for (int i = 0; i < COLS; i++) x[i] = tw_random_normal(&r) * (i < block ? 1000 : 1);
        assert_true(tw_product_rounds(vm, &s));
        tw_product_round(vm, &s, x, COLS, 1, out);
        for (int k = 0; k < COLS; k += block) {
            float largest = 0;
            int differ = 0;
            for (int i = k; i < k + block && i < COLS; i++) largest = fmaxf(largest, fabsf(x[i]));
            for (int i = k; i < k + block && i < COLS; i++) {
                assert_true(fabsf(out[i] - x[i]) <= largest / 253);
                differ += out[i] != x[i];
            }
            assert_true(differ > 0);
        }
    }
    tw_vm_close(vm);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_packs_together),
        cmocka_unit_test(what_changes_between_two_is_packed_by_each),
        cmocka_unit_test(stages_at_once_do_not_share_memory),
        cmocka_unit_test(any_steps_give_the_same),
        cmocka_unit_test(memory_of_packs_is_of_what_runs),
        cmocka_unit_test(bytes_are_rounded_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

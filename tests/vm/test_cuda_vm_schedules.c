/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine on schedules and models that tw_schedule_lower or the other tests do not make: rows too long for
   one chunk, counters in another order, more arrivals than a record holds, a head of another type. */
#include "support/llama.h"
#include "support/support.h"

#include "model/model.h"
#include "schedule/schedule.h"
#include "tilewright/vm.h"
#include "vm/cuda/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 16, STEPS = 2 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    if (tw_model_open(&m, folder, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

static tw_schedule *lower(const tw_model *m, tw_lowering l) {
    tw_schedule *s = NULL;
    tw_diag d;
    l.tokens = 1;
    if (!l.max_seq) l.max_seq = MAX_SEQ;
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

static tw_checked *check(tw_schedule *s) {
    tw_checked *c = NULL;
    tw_diag d;
    if (tw_schedule_check(&c, &s, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

static tw_cuda_vm *machine(const tw_model *m, const char *target, int workers) {
    tw_cuda_vm *vm;
    tw_diag d;
    const tw_cuda_vm_options o = {
        .emulate = true, .target = target, .workers = workers, .seed = 3, .tuning = {.warps = 2, .blocks = 2}};
    if (tw_cuda_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return vm;
}

/* Both machines' logits, a token at a time. Takes the schedule. */
static void agree(const tw_model *m, tw_cuda_vm *gpu, tw_schedule *s) {
    tw_checked *of_gpu = check(s), *of_cpu = check(lower(m, (tw_lowering){.workers = 1}));
    tw_vm *cpu;
    tw_diag d;
    int on_gpu, on_cpu;
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    if (tw_vm_open(&cpu, m, &o, &d) != TW_OK || tw_vm_load(cpu, of_cpu, &on_cpu, &d) != TW_OK)
        fail_msg("%s", d.message);
    if (tw_cuda_vm_load(gpu, of_gpu, &on_gpu, &d) != TW_OK) fail_msg("%s", d.message);
    for (int32_t i = 0; i < STEPS; i++) {
        const int32_t token = 7 * i + 3;
        tw_vm_step a = {.program = on_gpu, .tokens = &token, .n = 1, .pos = i, .length = MAX_SEQ}, b = a;
        b.program = on_cpu;
        if (tw_cuda_vm_run(gpu, &a, &d) != TW_OK || tw_vm_run(cpu, &b, &d) != TW_OK) fail_msg("%s", d.message);
        double largest = 0, worst = 0;
        for (int64_t k = 0; k < m->vocab; k++) {
            largest = fmax(largest, fabs((double)b.logits[k]));
            worst = fmax(worst, fabs((double)a.logits[k] - (double)b.logits[k]));
        }
        if (!(worst <= 5e-5 * largest)) fail_msg("step %d: off by %g of the largest logit", i, worst / largest);
    }
    tw_cuda_vm_close(gpu);
    tw_vm_close(cpu);
    tw_checked_free(of_gpu);
    tw_checked_free(of_cpu);
}

/* ---- a model with long rows */

static void long_rows_go_in_chunks(void **state) {
    (void)state;
    char *folder = test_folder_make();
    test_write_llama(folder, &(test_llama){.dim = 32, .heads = 4, .kv_heads = 2, .head_dim = 8, .ffn = 9000});
    tw_model *m = open_model(folder);
    /* A block of sm_89 has room for some 8,400 activations. */
    tw_cuda_vm *gpu = machine(m, "sm_89", 2);
    tw_lowering l = {.kv = TW_F32};
    tw_cuda_vm_lowering(gpu, &l);
    agree(m, gpu, lower(m, l));
    tw_model_close(m);
    test_folder_remove(folder);
}

/* ---- schedules by other hands */

static void rename_counter(int *counter, int a, int b) {
    *counter = *counter == a ? b : *counter == b ? a : *counter;
}

static int counter_named(const tw_schedule *s, const char *name) {
    for (int c = 0; c < s->n_counters; c++)
        if (!strcmp(s->counters[c].name, name)) return c;
    fail_msg("no counter %s", name);
    return -1;
}

static int find(const tw_schedule *s, int worker, int counter) {
    for (int i = 0; i < s->workers[worker].count; i++)
        if (s->workers[worker].list[i].arrive == counter) return i;
    return -1;
}

/* All of a stage to worker 0, so that the others wait for nothing before what follows. */
static void take_all(tw_schedule *s, const char *name, int from, int to) {
    const int counter = counter_named(s, name);
    tw_instr *mine = &s->workers[0].list[find(s, 0, counter)];
    for (int w = 1; w < s->n_workers; w++) {
        tw_worker *other = &s->workers[w];
        const int at = find(s, w, counter);
        const tw_instr *in = &other->list[at];
        if (in->param[from] < mine->param[from]) mine->param[from] = in->param[from];
        if (in->param[to] > mine->param[to]) mine->param[to] = in->param[to];
        memmove(other->list + at, other->list + at + 1, (size_t)(other->count - at - 1) * sizeof *other->list);
        other->count--;
    }
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int k = 0; k < s->workers[w].list[i].n_waits; k++)
                if (s->workers[w].list[i].waits[k].counter == counter) s->workers[w].list[i].waits[k].threshold = 1;
}

static void swap_counters(tw_schedule *s, const char *one, const char *two) {
    const int a = counter_named(s, one), b = counter_named(s, two);
    const tw_counter other = s->counters[a];
    s->counters[a] = s->counters[b];
    s->counters[b] = other;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            rename_counter(&in->arrive, a, b);
            for (int k = 0; k < in->n_waits; k++) rename_counter(&in->waits[k].counter, a, b);
        }
}

/* Counters may be listed in any order; the machine must not read one out of their numbers. Here worker 1 has nothing
   between two writings of x, and the rows of one change hands. */
static void counters_may_have_any_order(void **state) {
    (void)state;
    tw_model *m = open_model(TEST_DATA "/models/llama-biases");
    tw_cuda_vm *vm = machine(m, "sm_90a", 2);
    tw_lowering l = {.kv = TW_F32, .exact_kv = true, .kv_splits = 1};
    tw_cuda_vm_lowering(vm, &l);
    tw_schedule *s = lower(m, l);
    take_all(s, "1.qkv", TW_FROM, TW_TO);
    take_all(s, "1.attend", TW_ATTEND_HEAD_FROM, TW_ATTEND_HEAD_TO);
    const int down = counter_named(s, "0.down");
    tw_instr *x = &s->workers[0].list[find(s, 0, down)], *y = &s->workers[1].list[find(s, 1, down)];
    for (int p = TW_FROM; p <= TW_TO; p++) {
        const int64_t other = x->param[p];
        x->param[p] = y->param[p];
        y->param[p] = other;
    }
    swap_counters(s, "0.project", "0.down");
    agree(m, vm, s);
    tw_model_close(m);
}

static void refused(const char *folder, tw_lowering l, tw_dtype head, const char *why) {
    tw_model *m = open_model(folder);
    tw_cuda_vm *vm = machine(m, "sm_90a", 2);
    tw_diag d;
    int id;
    tw_cuda_vm_lowering(vm, &l);
    tw_schedule *s = lower(m, l);
    for (int i = 0; i < s->n_buffers && head != TW_F32; i++)
        if (!strcmp(s->buffers[i].name, "head")) s->buffers[i].dtype = head;
    tw_checked *c = check(s);
    if (tw_cuda_vm_load(vm, c, &id, &d) != TW_ERR_UNSUPPORTED || !strstr(d.message, why)) fail_msg("%s", d.message);
    tw_cuda_vm_close(vm);
    tw_checked_free(c);
    tw_model_close(m);
}

/* One thing of a covered model is changed at a time; the schedule stays as it is. */
static void models_that_are_not_covered_are_refused(void **state) {
    (void)state;
    tw_model *m = open_model(TEST_DATA "/models/llama-biases");
    const tw_model sound = *m;
    tw_cuda_vm *vm = machine(m, "sm_90a", 1);
    tw_lowering l = {0};
    tw_cuda_vm_lowering(vm, &l);
    tw_schedule *s = lower(m, l);
    tw_diag d;
    assert_int_equal(tw_cuda_vm_fits(vm, s, &d), TW_OK);
    static const char *const why[] = {"that rotate",        "learned positions", "heads of this size",
                                      "heads of this size", "sizes that 4",      "sizes that 4"};
    for (int i = 0; i < 6; i++) {
        if (i == 0) m->rope.kind = TW_ROPE_NONE;
        if (i == 1) m->positions.rows = 8;
        if (i == 2) m->head_dim = 14;
        if (i == 3) m->head_dim = 264;
        if (i == 4) m->dim += 2;
        if (i == 5) m->ffn_dim += 2;
        assert_int_equal(tw_cuda_vm_fits(vm, s, &d), TW_ERR_UNSUPPORTED);
        if (!strstr(d.message, why[i])) fail_msg("%s, not %s", d.message, why[i]);
        *m = sound;
    }
    tw_schedule_free(s);
    tw_cuda_vm_close(vm);
    tw_model_close(m);
}

/* A schedule of a covered model may still have instructions that the kernel lacks. */
static void instructions_that_are_not_covered_are_refused(void **state) {
    (void)state;
    enum { AS_LOWERED, NO_GATE, ROUTE, UP, DOWN, CASES };
    static const char *const why[CASES] = {"", "some have no gate", "routers that are not dealt out",
                                           "a model without any", "a model without any"};
    tw_model *m = open_model(TEST_DATA "/models/llama-biases");
    tw_cuda_vm *vm = machine(m, "sm_90a", 1);
    for (int i = 0; i < CASES; i++) {
        tw_lowering l = {0};
        tw_cuda_vm_lowering(vm, &l);
        tw_schedule *s = lower(m, l);
        tw_instr *ffn = &s->workers[0].list[find(s, 0, counter_named(s, "1.ffn"))];
        tw_diag d;
        if (i == NO_GATE) ffn->operand[TW_FFN_GATE] = -1;
        if (i >= ROUTE) ffn->op = i == ROUTE ? TW_INSTR_ROUTE : i == UP ? TW_INSTR_EXPERTS_UP : TW_INSTR_EXPERTS_DOWN;
        assert_int_equal(tw_cuda_vm_fits(vm, s, &d), i == AS_LOWERED ? TW_OK : TW_ERR_UNSUPPORTED);
        if (i != AS_LOWERED && !strstr(d.message, why[i])) fail_msg("%s, not %s", d.message, why[i]);
        tw_schedule_free(s);
    }
    tw_cuda_vm_close(vm);
    tw_model_close(m);
}

/* Data is its own flag only where a counter stands for one stage, and the stages follow one another as usual. */
static void data_is_a_flag_in_the_usual_order_alone(void **state) {
    (void)state;
    enum { AS_LOWERED, TWO_STAGES, NO_STAGE, ANOTHER_ORDER, CASES };
    tw_model *m = open_model(TEST_DATA "/models/llama-biases");
    const tw_cuda_vm_options o = {.emulate = true, .workers = 2, .tuning = {2, 2, .edges = TW_EDGES_DATA}};
    tw_cuda_vm *vm;
    tw_diag d;
    if (tw_cuda_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < CASES; i++) {
        tw_lowering l = {0};
        tw_cuda_vm_lowering(vm, &l);
        tw_schedule *s = lower(m, l);
        const int ffn = counter_named(s, "1.ffn");
        if (i == TWO_STAGES) s->workers[1].list[find(s, 1, counter_named(s, "0.qkv"))].arrive = ffn;
        for (int w = 0; i == NO_STAGE && w < 2; w++) s->workers[w].list[find(s, w, ffn)].arrive = -1;
        if (i == ANOTHER_ORDER) swap_counters(s, "0.qkv", "0.attend");
        assert_int_equal(tw_cuda_vm_fits(vm, s, &d), i == AS_LOWERED ? TW_OK : TW_ERR_USAGE);
        if (i != AS_LOWERED && !strstr(d.message, "usual order of stages")) fail_msg("%s", d.message);
        tw_schedule_free(s);
    }
    tw_cuda_vm_close(vm);
    tw_model_close(m);
}

static void what_records_have_no_room_for_is_refused(void **state) {
    (void)state;
    refused(TEST_DATA "/models/llama-biases", (tw_lowering){.workers = 1, .kv_splits = 4096, .max_seq = 1 << 20},
            TW_F32, "a past times its splits");
    refused(TEST_DATA "/models/llama-linear-mqa", (tw_lowering){.workers = 1}, TW_I8, "a head whose weights");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_rows_go_in_chunks),
        cmocka_unit_test(counters_may_have_any_order),
        cmocka_unit_test(models_that_are_not_covered_are_refused),
        cmocka_unit_test(instructions_that_are_not_covered_are_refused),
        cmocka_unit_test(data_is_a_flag_in_the_usual_order_alone),
        cmocka_unit_test(what_records_have_no_room_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

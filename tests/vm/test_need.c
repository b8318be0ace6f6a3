/* SPDX-License-Identifier: Apache-2.0 */
/* What loading is said to need is what it takes, and a model that does not fit is refused before anything is packed. */
#include "support/support.h"

#include "base/clock.h"
#include "tilewright/engine.h"
#include "tilewright/model.h"
#include "vm/cpu/vm.h"
#include "vm/cuda/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_model *synthetic(const char *shape) {
    tw_model *m;
    tw_diag d;
    if (tw_model_synthetic(&m, shape, TW_BF16, 1, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

static tw_checked *lowered(const tw_model *m, const tw_lowering *l) {
    tw_schedule *s;
    tw_checked *c;
    tw_diag d;
    if (tw_schedule_lower(&s, m, l, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_schedule_check(&c, &s, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

/* Pages that the machine asked the system for: tapes and scratch of its workers, and its buffers. */
static int64_t pages_of(const tw_vm *vm) {
    int64_t n = tw_vm_tape_bytes(vm) + tw_vm_buffer_bytes(vm);
    for (int i = 0; i < vm->n_threads; i++) n += (int64_t)vm->threads[i].scratch_bytes;
    return n;
}

/* Both programs of a model at once, and one after the other. */
static void need_is_what_loading_takes(void **state) {
    (void)state;
    static const char *const shapes[] = {"llama-tiny", "smollm2-135m"};
    static const tw_dtype weights[] = {TW_F32, TW_I8, TW_I4};
    for (int i = 0; i < 6; i++) {
        tw_model *m = synthetic(shapes[TEST_SANITIZED ? 0 : i / 3]);
        tw_lowering l = {.workers = 2, .max_seq = 100, .tokens = 1, .weights = weights[i % 3]};
        tw_checked *decode = lowered(m, &l);
        l.tokens = 32;
        tw_checked *prefill = lowered(m, &l);
        const tw_schedule *both[2] = {tw_checked_schedule(decode), tw_checked_schedule(prefill)};
        tw_vm *vm;
        tw_diag d;
        int id;
        tw_memory_need all, first, second;
        tw_vm_options o = {.workers = 2, .no_vendor = i % 2};
        assert_int_equal(tw_vm_open(&vm, m, &o, &d), TW_OK);
        assert_int_equal(tw_vm_need(vm, both, 2, &all, &d), TW_OK);
        assert_int_equal(tw_vm_need(vm, both, 1, &first, &d), TW_OK);
        assert_int_equal(tw_vm_load(vm, decode, &id, &d), TW_OK);
        assert_int_equal(first.weights, tw_vm_tape_bytes(vm));
        assert_int_equal(first.weights + first.caches + first.scratch, pages_of(vm));
        assert_int_equal(first.caches, (int64_t)2 * m->n_layers * m->n_kv_heads * 100 * m->head_dim * 4);
        assert_int_equal(tw_vm_need(vm, both + 1, 1, &second, &d), TW_OK);
        assert_true(second.weights == 0 && second.caches == 0 && second.scratch > 0);
        assert_int_equal(tw_vm_load(vm, prefill, &id, &d), TW_OK);
        assert_int_equal(all.weights + all.caches + all.scratch, pages_of(vm));
        assert_int_equal(tw_memory_sum(&vm->loaded), pages_of(vm));
        assert_int_equal(tw_vm_need(vm, both, 2, &all, &d), TW_OK);
        assert_true(!all.weights && !all.caches);
        tw_vm_close(vm);
        tw_checked_free(decode);
        tw_checked_free(prefill);
        tw_model_close(m);
    }
}

/* On the GPU's machine, in the emulator: what is not shared counts for each program. */
static void need_on_a_gpu(void **state) {
    (void)state;
    enum { PAGE = 2 << 20 };
    tw_model *m = synthetic("llama-tiny");
    tw_cuda_vm_options o = {.emulate = true, .workers = 2};
    tw_arena arena = {0};
    tw_cuda_vm *vm;
    tw_diag d;
    int id;
    assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
    tw_checked *checked[2];
    int n_checked = 0;
    int64_t before = 0;
    for (int tokens = 1; tokens <= 8; tokens += 7) {
        tw_lowering l = {.max_seq = 64, .tokens = tokens};
        tw_cuda_vm_lowering(vm, &l);
        tw_checked *c = lowered(m, &l);
        tw_mega_program p = {.s = tw_checked_schedule(c)};
        tw_memory_need need, again;
        assert_int_equal(tw_mega_plan_of(&p.plan, p.s, m, vm->target, &o, &d), TW_OK);
        assert_int_equal(tw_weights_resolve(&p.weights, p.s, m, &arena, &d), TW_OK);
        assert_int_equal(tw_mega_need(vm, &p, 1, &need, &d), TW_OK);
        assert_int_equal(tw_cuda_vm_load(vm, c, &id, &d), TW_OK);
        const int64_t tapes = tw_cuda_vm_tape_bytes(vm) - before;
        assert_true(need.weights >= tapes && need.weights <= tapes + 3 * PAGE);
        assert_int_equal(need.caches, tokens == 1 ? 2 * m->n_layers * m->n_kv_heads * 64 * m->head_dim * 2 : 0);
        before += tapes;
        assert_int_equal(tw_mega_need(vm, &p, 1, &again, &d), TW_OK);
        assert_true(!again.weights && !again.caches && again.scratch == need.scratch);
        assert_true(tw_memory_sum(&vm->loaded) >= before);
        vm->options.memory_limit = 1;
        assert_int_equal(tw_cuda_vm_load(vm, c, &id, &d), TW_ERR_MEMORY);
        vm->options.memory_limit = 0;
        checked[n_checked++] = c;
    }
    tw_cuda_vm_close(vm);
    tw_arena_free(&arena);
    while (n_checked) tw_checked_free(checked[--n_checked]);
    tw_model_close(m);
}

/* One byte decides. */
static void the_limit_is_exact(void **state) {
    (void)state;
    tw_model *m = synthetic("llama-tiny");
    tw_lowering l = {.workers = 2, .max_seq = 64, .tokens = 1};
    tw_checked *c = lowered(m, &l);
    const tw_schedule *s = tw_checked_schedule(c);
    tw_vm_options o = {.workers = 2, .no_vendor = true};
    tw_memory_need need;
    tw_diag d;
    tw_vm *vm;
    int id;
    assert_int_equal(tw_vm_open(&vm, m, &o, &d), TW_OK);
    assert_int_equal(tw_vm_need(vm, &s, 1, &need, &d), TW_OK);
    tw_vm_close(vm);
    for (int less = 0; less < 2; less++) {
        o.memory_limit = need.weights + need.caches + need.scratch - less;
        assert_int_equal(tw_vm_open(&vm, m, &o, &d), TW_OK);
        assert_int_equal(tw_vm_load(vm, c, &id, &d), less ? TW_ERR_MEMORY : TW_OK);
        if (less) {
            assert_string_equal(d.path, "llama-tiny");
            assert_int_equal(tw_vm_tape_bytes(vm), 0);
        }
        tw_vm_close(vm);
    }
    tw_checked_free(c);
    tw_model_close(m);
}

/* A model of 16 GB whose weights would take minutes to make: said at once, with both numbers and what would need less.
 */
static void a_large_model_is_refused_before_packing(void **state) {
    (void)state;
    static const struct {
        tw_dtype weights;
        int64_t context;
        const char *hint;
    } cases[] = {{TW_F32, 256, "--weights int8 or int4 would need less"},
                 {TW_F32, 256, "--weights int8 or int4 would need less"},
                 {TW_I8, 256, "--weights int4 would need less"},
                 {TW_I4, 256, "a smaller model is needed"},
                 {TW_I4, 131072, "a shorter context (-c) would need less"}};
    static const tw_schedule_config steps = {.prompts = TW_PROMPTS_STEPS};
    tw_model *m = synthetic("llama-8b");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int gpu = 0; gpu < 2; gpu++) {
            tw_engine_options o = {.workers = 2,
                                   .weights = cases[i].weights,
                                   .context = cases[i].context,
                                   .memory_limit = 1000000000,
                                   .config = i == 1 ? &steps : NULL,
                                   .emulate = gpu};
            tw_engine *e;
            tw_diag d;
            int64_t start = tw_now_ns();
            assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_ERR_MEMORY);
            assert_true(tw_now_ns() - start < (TEST_SANITIZED ? 100 : 10) * (int64_t)1000000000);
            assert_string_equal(d.path, "llama-8b");
            assert_non_null(strstr(d.message, "of which 1000 MB are available"));
            if (strstr(d.message, cases[i].hint) == NULL) fail_msg("%s", d.message);
            /* A GPU keeps the weights twice if prompts go in steps, which want them in another order. */
            const char *need = !gpu ? "needs 15." : i ? "needs 31." : "needs 16.";
            if (i < 2 && !strstr(d.message, need)) fail_msg("%s", d.message);
        }
    tw_model_close(m);
}

/* The prompt's program counts before the first token: its activations are what does not fit here. */
static void the_prompt_counts_too(void **state) {
    (void)state;
    tw_model *m = synthetic("llama-tiny");
    tw_engine_options o = {.workers = 1, .context = 4096, .prefill = 1, .no_vendor = true};
    tw_engine *e;
    tw_diag d;
    int64_t fits = 1 << 16;
    for (;; fits += 1 << 16) { /* the least that a prefill of single positions fits */
        o.memory_limit = fits;
        tw_status st = tw_engine_open(&e, m, &o, &d);
        tw_engine_close(e);
        if (st == TW_OK) break;
        assert_int_equal(st, TW_ERR_MEMORY);
    }
    o.prefill = 2048;
    assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_ERR_MEMORY);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(need_is_what_loading_takes), cmocka_unit_test(need_on_a_gpu),
        cmocka_unit_test(the_limit_is_exact),         cmocka_unit_test(a_large_model_is_refused_before_packing),
        cmocka_unit_test(the_prompt_counts_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

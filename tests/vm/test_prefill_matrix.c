/* SPDX-License-Identifier: Apache-2.0 */
/* Products whose B is a matrix on the tapes of a decode program, in the emulator: they are the products with the
   model's weights. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "base/random.h"
#include "ir/value.h"
#include "kernels/gemm/reference.h"
#include "model/model.h"
#include "vm/prefill/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 40, MAX_SEQ = 32 };

typedef struct machine {
    tw_model *m;
    tw_cuda_vm *vm;
    tw_checked *decode, *prompts;
    tw_prefill *prefill;
} machine;

static machine load(tw_model *m, tw_lowering l, tw_cuda_vm_tuning tuning, int workers) {
    machine x = {.m = m};
    tw_diag d;
    int id;
    const tw_cuda_vm_options o = {.emulate = true, .workers = workers, .seed = 1, .tuning = tuning};
    const tw_prefill_options as_usual = {0};
    if (tw_cuda_vm_open(&x.vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    tw_cuda_vm_lowering(x.vm, &l);
    x.decode = test_lower(m, l, MAX_SEQ);
    if (tw_cuda_vm_load(x.vm, x.decode, &id, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_lowering all = {.workers = 1, .tokens = 16, .kv = l.kv, .kv_splits = 1};
    x.prompts = test_lower(m, all, MAX_SEQ);
    if (tw_prefill_open(&x.prefill, x.vm, id, x.prompts, &as_usual, &d) != TW_OK) fail_msg("%s", d.message);
    return x;
}

static void unload(machine *x) {
    tw_prefill_close(x->prefill);
    tw_cuda_vm_close(x->vm);
    tw_checked_free(x->decode);
    tw_checked_free(x->prompts);
    tw_model_close(x->m);
}

/* Finds the matrices of the instruction whose first one has that name in the schedule. */
static const tw_prefill_matrix *find(const machine *x, const char *name) {
    const tw_schedule *s = x->prefill->s;
    for (int i = 0; i < s->workers[0].count; i++) {
        const tw_instr *in = &s->workers[0].list[i];
        if (!tw_instr_op_multiplies(in->op)) continue;
        if (!strcmp(s->buffers[tw_instr_matrices_of(in).matrix[0]].name, name)) return &x->prefill->matrices[i];
    }
    fail_msg("no instruction multiplies by %s", name);
    return NULL;
}

/* Reads row `row` of a product's B: of qkv in the order of heads' pairs, of an ffn eight of gate and of up in turn. */
static void read_row(const tw_model *m, const char *name, int64_t row, int64_t columns, float *out) {
    const tw_layer *l = &m->layers[0];
    const tw_weight *w = tw_model_find(m, name);
    int64_t at = row;
    if (strstr(name, "attn.q")) {
        const tw_qkv_row q = tw_qkv_locate(row, m->n_heads, m->n_kv_heads, m->head_dim, m->rope.dims);
        w = q.part == 0 ? &l->q.weight : q.part == 1 ? &l->k.weight : &l->v.weight;
        at = q.head * m->head_dim + q.row;
    }
    if (strstr(name, "mlp.gate")) {
        w = row / 8 % 2 ? &l->up.weight : &l->gate.weight;
        at = row / 16 * 8 + row % 8;
    }
    tw_weight_read(w, at, 0, columns, out);
}

static uint16_t half_of(tw_dtype t, float x) {
    return t == TW_F16 ? tw_f32_to_f16(x) : tw_f32_to_bf16(x);
}

static float wide_of(tw_dtype t, uint16_t x) {
    return t == TW_F16 ? tw_f16_to_f32(x) : tw_bf16_to_f32(x);
}

/* Launches the product, whose C (f32) is returned. The caller frees it. */
static float *multiply(const machine *x, const tw_prefill_matrix *b, const uint16_t *a, const char *configuration) {
    tw_gemm_problem p = {.type = b->shape.format.dtype == TW_F16 ? TW_GEMM_F16 : TW_GEMM_BF16,
                         .out = TW_T_f32,
                         .m = M,
                         .n = b->rows,
                         .k = b->columns,
                         .trans_b = true,
                         .alpha = 1,
                         .weights = true,
                         .tape = {b->shape.warps, b->shape.blocks, b->shape.run, b->shape.chunks > 0}};
    const tw_target *t = tw_target_find("sm_90a");
    tw_diag d;
    if (tw_gemm_problem_complete(&p, &d) != TW_OK) fail_msg("%s", d.message);
    tw_gemm_config c = tw_gemm_config_default(&p);
    if (tw_gemm_config_parse(&c, configuration, &d) != TW_OK) fail_msg("%s", d.message);
    tw_kernel *k = tw_gemm_make(&p, &c, t, true, &d);
    if (!k) fail_msg("%s", d.message);
    const size_t bytes = (size_t)(M * b->rows) * sizeof(float);
    tw_gemm_buffers at = {.of = {[TW_GEMM_B] = b->table}};
    at.of[TW_GEMM_A] = tw_emu_alloc(x->vm->emu, "a", a, (size_t)(M * b->columns) * 2, true);
    at.of[TW_GEMM_C] = tw_emu_alloc(x->vm->emu, "c", NULL, bytes, false);
    tw_launch_values l;
    tw_gemm_launch_of(&p, &c, &at, &l);
    const tw_signature signature = tw_signature_of(k);
    uint64_t words[TW_ARGUMENTS];
    tw_arguments_place(&l.arguments, &signature, words);
    const tw_emu_options o = {.seed = 1, .grid = {l.grid[0], l.grid[1], l.grid[2]}};
    tw_emu_report report;
    if (tw_emu_launch(x->vm->emu, k, words, &o, &report, &d) != TW_OK) {
        tw_emu_explain(&report, &d);
        fail_msg("%s", d.message);
    }
    float *out = malloc(bytes);
    assert_non_null(out);
    assert_true(tw_emu_read(x->vm->emu, at.of[TW_GEMM_C], out, bytes));
    tw_kernel_free(k);
    return out;
}

static void check(const machine *x, const char *name, int64_t rows, const char *configuration) {
    const tw_prefill_matrix *b = find(x, name);
    const tw_dtype dtype = b->shape.format.dtype;
    assert_int_equal(b->rows, rows);
    const int64_t k = b->columns;
    uint16_t *a = calloc((size_t)(M * k), sizeof *a);
    float *row = calloc((size_t)k, sizeof *row);
    assert_true(a && row);
    tw_random r = tw_random_seed(5);
    for (int64_t i = 0; i < M * k; i++) a[i] = half_of(dtype, 2 * (float)tw_random_unit(&r) - 1);
    float *c = multiply(x, b, a, configuration);
    for (int64_t j = 0; j < rows; j++) {
        read_row(x->m, name, j, k, row);
        for (int64_t i = 0; i < M; i++) {
            double want = 0, size = 0;
            for (int64_t e = 0; e < k; e++) {
                const double term = (double)wide_of(dtype, a[i * k + e]) * (double)row[e];
                want += term;
                size += fabs(term);
            }
            if (!(fabs((double)c[i * rows + j] - want) <= 1e-5 * size))
                fail_msg("%s %s: row %lld, column %lld: %g, not %g", name, configuration, (long long)i, (long long)j,
                         (double)c[i * rows + j], want);
        }
    }
    free(c);
    free(row);
    free(a);
}

#define WGMMA "mma=2 ms=64 ns=64 ml=64 nl=64 vec=16 stages=3 "

/* Every matrix of a layer. */
static void check_all(const machine *x, const char *configuration) {
    const tw_model *m = x->m;
    const int64_t heads = m->n_heads * m->head_dim, all = heads + 2 * m->n_kv_heads * m->head_dim;
    check(x, "layers.0.attn.q", all, configuration);
    check(x, "layers.0.attn.o", m->dim, configuration);
    check(x, "layers.0.mlp.gate", 2 * m->ffn_dim, configuration);
    check(x, "layers.0.mlp.down", m->dim, configuration);
}

static tw_model *open_model(const char *name) {
    char path[4096];
    tw_model *m = NULL;
    tw_diag d;
    snprintf(path, sizeof path, TEST_DATA "/models/%s", name);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s", d.message);
    return m;
}

static void products_are_those_of_the_weights(void **state) {
    (void)state;
    static const struct {
        const char *model;
        tw_cuda_vm_tuning tuning;
        int workers;
        const char *configuration;
    } of[] = {{"llama-dynamic", {0}, 3, WGMMA "u=64"},
              {"llama-linear-mqa", {.warps = 3, .blocks = 2, .stages = 4}, 5, WGMMA "u=64 swap=1"},
              {"qwen2-window", {.warps = 2, .blocks = 1, .stages = 3}, 2, WGMMA "u=64 persistent=2"},
              {"mistral-window", {.warps = 4, .blocks = 4, .stages = 4}, 4, WGMMA "u=32"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i += TEST_SANITIZED ? 2 : 1) {
        machine x = load(open_model(of[i].model), (tw_lowering){.tokens = 1}, of[i].tuning, of[i].workers);
        check_all(&x, of[i].configuration);
        unload(&x);
    }
}

/* Gives a weight bf16 elements. */
static void *round_weight(const tw_weight *w) {
    tw_weight *to = (tw_weight *)w;
    const int64_t n = w->rows * w->cols;
    float *row = malloc((size_t)w->cols * sizeof *row);
    uint16_t *data = malloc((size_t)n * sizeof *data);
    assert_true(row && data);
    for (int64_t i = 0; i < w->rows; i++) {
        tw_weight_read(w, i, 0, w->cols, row);
        for (int64_t j = 0; j < w->cols; j++) data[i * w->cols + j] = tw_f32_to_bf16(row[j]);
    }
    free(row);
    to->dtype = TW_BF16;
    to->data = data;
    to->row_stride = w->cols;
    to->col_stride = 1;
    return data;
}

/* Opens a llama with weights of bf16 and so wide a feed-forward layer. The caller frees `data`. */
enum { NAMES = 9 };
static tw_model *open_wide(int ffn, void *data[NAMES]) {
    static const char *const names[NAMES] = {"embed",
                                             "head",
                                             "layers.0.attn.q",
                                             "layers.0.attn.k",
                                             "layers.0.attn.v",
                                             "layers.0.attn.o",
                                             "layers.0.mlp.gate",
                                             "layers.0.mlp.up",
                                             "layers.0.mlp.down"};
    tw_model *m = test_open_llama(&(test_llama){.dim = 96, .heads = 4, .kv_heads = 2, .head_dim = 24, .ffn = ffn});
    for (int i = 0; i < NAMES; i++) data[i] = round_weight(tw_model_find(m, names[i]));
    return m;
}

/* Columns of several chunks, and rows of several groups in a worker. */
static void chunks_are_found(void **state) {
    (void)state;
    void *data[NAMES];
    tw_model *m = open_wide(5000, data);
    machine x = load(m, (tw_lowering){.tokens = 8, .down_splits = 1}, (tw_cuda_vm_tuning){.warps = 4, .blocks = 2}, 2);
    const tw_prefill_matrix *b = find(&x, "layers.0.mlp.down");
    assert_true(b->columns > 2 * b->shape.warps * b->shape.run * 32); /* Three chunks. */
    check(&x, "layers.0.mlp.down", 96, WGMMA "u=64 kg=2 split=3");
    check(&x, "layers.0.mlp.down", 96, WGMMA "u=128 stages=2");
    check(&x, "layers.0.attn.o", 96, WGMMA "u=64");
    check(&x, "layers.0.attn.q", 192, WGMMA "u=64 swap=1");
    unload(&x);
    for (int i = 0; i < NAMES; i++) free(data[i]);
}

/* Columns in parts on several workers' tapes, each of one chunk or of several. */
static void parts_are_found(void **state) {
    (void)state;
    static const struct { int ffn, parts, chunks, workers; } of[] = {{3072, 3, 3, 7}, {8192, 2, 4, 2}, {7680, 2, 6, 3}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i += TEST_SANITIZED ? 2 : 1) {
        void *data[NAMES];
        tw_model *m = open_wide(of[i].ffn, data);
        machine x = load(m, (tw_lowering){.tokens = 8, .down_splits = of[i].parts},
                         (tw_cuda_vm_tuning){.warps = 4, .blocks = 2}, of[i].workers);
        assert_int_equal(find(&x, "layers.0.mlp.down")->shape.chunks, of[i].chunks);
        assert_int_equal(find(&x, "layers.0.attn.o")->shape.chunks, 0);
        check(&x, "layers.0.mlp.down", 96, WGMMA "u=64 kg=2 split=3");
        check(&x, "layers.0.mlp.down", 96, WGMMA "u=128 stages=2 swap=1");
        check(&x, "layers.0.mlp.down", 96, WGMMA "u=32 persistent=3");
        check(&x, "layers.0.attn.o", 96, WGMMA "u=64");
        unload(&x);
        for (int j = 0; j < NAMES; j++) free(data[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_those_of_the_weights),
                                       cmocka_unit_test(chunks_are_found), cmocka_unit_test(parts_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

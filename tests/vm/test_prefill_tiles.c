/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of prompts' products: each product of known models gets one, and those that were measured a fast one. */
#include "support/lower.h"
#include "support/support.h"

#include "tilewright/model.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMS = 132 };

static tw_gemm_problem problem_of(const char *words) {
    char copy[256];
    tw_gemm_problem p;
    tw_diag d;
    snprintf(copy, sizeof copy, "%s", words);
    if (tw_gemm_problem_parse(&p, copy, &d) != TW_OK) fail_msg("%s: %s", words, d.message);
    return p;
}

static tw_gemm_config tile_of(const char *words) {
    tw_gemm_config c = {0};
    const tw_gemm_problem p = problem_of(words);
    if (!tw_prefill_tile(&p, NULL, tw_target_find("sm_90a"), SMS, &c)) fail_msg("%s: no tile", words);
    assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, NULL));
    return c;
}

/* Every product of a step, of any number of rows. */
static void every_product_has_a_tile(void **state) {
    static const struct {
        int dim, qkv, heads, ffn, run;
    } models[] = {{2048, 3072, 2048, 8192, 8}, {4096, 6144, 4096, 14336, 16}, {1024, 4096, 2048, 3072, 4}};
    static const int rows[] = {1, 8, 32, 64, 128, 144, 192, 256, 384, 512, 1024, 2048};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++)
            for (int masked = 0; masked < 2; masked++) {
                const int dim = models[i].dim, down_run = models[i].ffn / 256;
                const struct {
                    int n, k, run;
                    const char *more;
                } products[] = {{models[i].qkv, dim, models[i].run, "out=f32"},
                                {dim, models[i].heads, models[i].run, "out=f32 beta=1"},
                                {2 * models[i].ffn, dim, models[i].run, "gated=1 activation=silu"},
                                {dim, models[i].ffn, down_run, "out=f32 beta=1"}};
                for (size_t o = 0; o < sizeof products / sizeof *products; o++) {
                    char words[256];
                    snprintf(words, sizeof words, "type=bf16 m=%d n=%d k=%d tb=1 %s weights=1 tape=8x4x%d %s", rows[j],
                             products[o].n, products[o].k, masked ? "groups=1 masked=1" : "", products[o].run / 4 * 4,
                             products[o].more);
                    tile_of(words);
                }
            }
}

static void is(const char *words, int ml, int nl, int swap) {
    const tw_gemm_config c = tile_of(words);
    if (c.ml != ml || c.nl != nl || c.swap != swap) fail_msg("%s: %d x %d, swap %d", words, c.ml, c.nl, c.swap);
}

/* Tiles that were the fastest of those measured, or at most 3 % slower. */
static void measured_products_get_fast_tiles(void **state) {
    (void)state;
    is("type=bf16 m=512 n=2048 k=2048 tb=1 out=f32 beta=1 weights=1 tape=8x4x8", 64, 128, 0);
    is("type=bf16 m=512 n=2048 k=8192 tb=1 out=f32 beta=1 weights=1 tape=8x4x32", 128, 64, 0);
    is("type=bf16 m=512 n=4096 k=14336 tb=1 out=f32 beta=1 weights=1 tape=8x4x56", 128, 128, 0);
    is("type=bf16 m=384 n=2048 k=8192 tb=1 out=f32 beta=1 weights=1 tape=8x4x32", 64, 96, 1);
    is("type=bf16 m=128 n=4096 k=4096 tb=1 out=f32 beta=1 weights=1 tape=8x4x16", 64, 64, 0);
    is("type=bf16 m=2048 n=3072 k=2048 tb=1 out=f32 weights=1 tape=8x4x8", 128, 192, 0);
    is("type=bf16 m=768 n=16384 k=2048 tb=1 gated=1 activation=silu weights=1 tape=8x4x8", 128, 256, 0);
    is("type=bf16 m=768 n=4096 k=14336 tb=1 out=f32 beta=1 weights=1 tape=8x4x56", 128, 192, 1);
    is("type=bf16 m=2048 n=16384 k=2048 tb=1 gated=1 activation=silu weights=1 tape=8x4x8", 128, 256, 0);
    is("type=bf16 m=2048 n=2048 k=8192 tb=1 out=f32 beta=1 weights=1 tape=8x4x32", 128, 256, 0);
}

/* Where heads have norms, tiles have whole heads, for any number of rows. */
static void heads_with_norms_have_a_tile(void **state) {
    (void)state;
    tw_layer layer = {.q_norm = {.rows = 128}};
    const tw_model m = {.n_layers = 1, .head_dim = 128, .layers = &layer};
    const tw_prefill_shape rope = {.m = &m, .type = TW_T_bf16, .kv = TW_BF16};
    for (int rows = 16; rows <= 2048; rows += 16) {
        char words[160];
        tw_gemm_config c;
        snprintf(words, sizeof words, "type=bf16 m=%d n=4096 k=1024 tb=1 out=f32 weights=1 tape=8x4x4", rows);
        const tw_gemm_problem p = problem_of(words);
        if (!tw_prefill_tile(&p, &rope, tw_target_find("sm_90a"), SMS, &c)) fail_msg("%s: no tile", words);
        if (c.swap || c.nl % 128) fail_msg("%s: %d x %d, swap %d", words, c.ml, c.nl, c.swap);
    }
}

/* A thread with more than 128 sums loads cells that it adds to with no other ones on their way. */
static void sums_leave_registers_for_cells(void **state) {
    (void)state;
    for (int rows = 64; rows <= 8192; rows += rows < 1024 ? 16 : 64) {
        char words[160];
        snprintf(words, sizeof words, "type=bf16 m=%d n=2048 k=2048 tb=1 out=f32 beta=1 weights=1 tape=8x4x8", rows);
        const tw_gemm_config c = tile_of(words);
        if (c.ms * c.nl > 128 * 128) fail_msg("%s: %d x %d", words, c.ms, c.nl);
    }
}

/* The weights of a row's product are read by most multiprocessors. */
static void products_of_a_row_are_dealt_out(void **state) {
    (void)state;
    static const char *const products[] = {
        "type=bf16 m=1 n=2048 k=2048 tb=1 out=f32 beta=1 squares=1 scaled=1 weights=1 tape=8x4x8",
        "type=bf16 m=1 n=16384 k=2048 tb=1 gated=1 activation=silu sums=32 eps=1e-05 weights=1 tape=8x4x8",
        "type=bf16 m=1 n=2048 k=8192 tb=1 out=f32 beta=1 weights=1 tape=8x4x32",
        "type=f16 m=8 n=4096 k=14336 tb=1 out=f32 beta=1 weights=1 tape=8x4x56"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const tw_gemm_config c = tile_of(products[i]);
        const int64_t blocks = problem_of(products[i]).n / c.ml * c.kg;
        if (!c.swap || c.nl != 8 || c.blocks != 2 || blocks < SMS * 9 / 10)
            fail_msg("%s: %d blocks of %d x %d, swap %d", products[i], (int)blocks, c.ml, c.nl, c.swap);
    }
}

/* A batch that fills all multiprocessors with whole tiles needs none that are small or split. */
static void products_of_a_batch_fill_the_device(void **state) {
    (void)state;
    assert_true(tile_of("type=f16 m=8 n=64 k=2048 tb=1").kg > 1);
    assert_int_equal(tile_of("type=f16 m=8 n=64 k=2048 tb=1 batch=132").kg, 1);
    const tw_gemm_config one = tile_of("type=f16 m=512 n=512 k=64 tb=1"),
                         many = tile_of("type=f16 m=512 n=512 k=64 tb=1 batch=96");
    assert_true(many.ml * many.nl > one.ml * one.nl);
}

/* The products of a layer of Llama 3.2 1B, or of 3.1 8B. */
static void layer_of(bool large, tw_prefill_layer_product out[4]) {
    static const char *const small[] = {"n=3072 k=2048 tape=8x4x8 out=f32", "n=2048 k=2048 tape=8x4x8 out=f32 beta=1",
                                        "n=16384 k=2048 tape=8x4x8 gated=1 activation=silu",
                                        "n=2048 k=8192 tape=8x4x32 out=f32 beta=1"};
    static const char *const more[] = {"n=6144 k=4096 tape=8x4x16 out=f32", "n=4096 k=4096 tape=8x4x16 out=f32 beta=1",
                                       "n=28672 k=4096 tape=8x4x16 gated=1 activation=silu",
                                       "n=4096 k=14336 tape=8x4x56 out=f32 beta=1"};
    for (int i = 0; i < 4; i++) {
        char words[256];
        snprintf(words, sizeof words, "type=bf16 m=1 tb=1 weights=1 %s", large ? more[i] : small[i]);
        out[i] = (tw_prefill_layer_product){.problem = problem_of(words)};
    }
}

/* A list has no more rows than take hardly longer than the fewest. */
static void lists_have_few_rows_where_these_are_faster(void **state) {
    (void)state;
    const tw_target *t = tw_target_find("sm_90a");
    for (int large = 0; large < 2; large++) {
        tw_prefill_layer_product products[4];
        double times[TW_PREFILL_TOLD / TW_PREFILL_GRAIN] = {0};
        layer_of(large, products);
        for (int64_t n = 129; n <= TW_PREFILL_TOLD; n++) {
            const int64_t step = n <= 512 ? 64 : 128, enough = (n + step - 1) / step * step;
            const int64_t rows = tw_prefill_list_fit(products, 4, n, enough, t, SMS, times);
            double of[TW_PREFILL_TOLD / TW_PREFILL_GRAIN + 1] = {0};
            memcpy(of + 1, times, sizeof times);
            const int64_t fewest = (n + TW_PREFILL_GRAIN - 1) / TW_PREFILL_GRAIN;
            if (rows < n || rows > enough || rows % TW_PREFILL_GRAIN) fail_msg("%d: %d", (int)n, (int)rows);
            if (of[rows / TW_PREFILL_GRAIN] > 1.04 * of[fewest]) fail_msg("%d: %d is slow", (int)n, (int)rows);
        }
        assert_int_equal(tw_prefill_list_fit(products, 4, 129, 192, t, SMS, times), 160);
        assert_int_equal(tw_prefill_list_fit(products, 4, 700, 768, t, SMS, times), 704);
        assert_int_equal(tw_prefill_list_fit(products, 4, 192, 192, t, SMS, times), 192);
        assert_int_equal(tw_prefill_list_fit(products, 4, 130, 150, t, SMS, times),
                         150); /* There is no room for more. */
    }
}

/* What lengths.c reads of a program with weights of 16 bits. */
typedef struct program {
    tw_cuda_vm vm;
    tw_checked *checked;
    tw_prefill p;
} program;

/* Makes the matrices as decode programs of eight warps have them. */
static void open_program(program *out, const tw_model *m) {
    enum { WARPS = 8, BLOCKS = 4, DEPTH = 32 };
    const int64_t heads = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
    out->vm.m = m;
    out->checked = test_lower(
        m, (tw_lowering){.workers = 1, .tokens = TW_PREFILL_TOLD, .kv_splits = 1, .row_blocks = 1}, TW_PREFILL_TOLD);
    tw_prefill *p = &out->p;
    p->vm = &out->vm;
    p->s = tw_checked_schedule(out->checked);
    p->rows = p->s->tokens;
    p->sequences = 1;
    p->type = TW_T_bf16;
    p->kv = TW_BF16;
    p->gpu.target = tw_target_find("sm_90a");
    p->info.sms = SMS;
    const tw_worker *w = &p->s->workers[0];
    p->matrices = calloc((size_t)w->count, sizeof *p->matrices);
    assert_non_null(p->matrices);
    for (int i = 0, after = 0; i < w->count; i++) {
        tw_prefill_matrix *x = &p->matrices[i];
        const tw_instr_op op = w->list[i].op;
        if (op != TW_INSTR_QKV && op != TW_INSTR_PROJECT && op != TW_INSTR_FFN) continue;
        x->rows = op == TW_INSTR_QKV ? heads + 2 * kv : op == TW_INSTR_FFN ? 2 * m->ffn_dim : m->dim;
        x->columns = op != TW_INSTR_PROJECT ? m->dim : after == TW_INSTR_FFN ? m->ffn_dim : heads;
        x->shape.format.dtype = TW_BF16;
        x->shape.warps = WARPS;
        x->shape.blocks = BLOCKS;
        x->shape.run = (int)(x->columns / (DEPTH * WARPS));
        after = op;
    }
}

/* Programs of one sequence have lists between whole steps. Others have none. */
static void programs_know_their_products(void **state) {
    (void)state;
    static const struct {
        tw_type type;
        int64_t sequences, masked, rows[2]; /* Of 129 tokens, and of 700. */
    } cases[] = {{TW_T_bf16, 1, 0, {160, 704}},
                 {TW_T_bf16, 3, 0, {192, 768}},
                 {TW_T_bf16, 1, 512, {192, 768}},
                 {TW_T_f32, 1, 0, {192, 768}}};
    tw_model *m;
    tw_diag d;
    program of = {0};
    if (tw_model_synthetic(&m, "llama-8b", TW_BF16, 1, &d) != TW_OK) fail_msg("%s", d.message);
    open_program(&of, m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        of.p.type = cases[i].type;
        of.p.sequences = cases[i].sequences;
        of.p.options.masked = cases[i].masked;
        of.p.n_products = 0;
        assert_int_equal(tw_prefill_find_products(&of.p, &d), TW_OK);
        assert_int_equal(of.p.n_products, i ? 0 : 4);
        assert_int_equal(tw_prefill_list_tokens(&of.p, 128), 128);
        assert_int_equal(tw_prefill_list_tokens(&of.p, 129), cases[i].rows[0]);
        assert_int_equal(tw_prefill_list_tokens(&of.p, 700), cases[i].rows[1]);
    }
    free(of.p.matrices);
    tw_arena_free(&of.p.arena);
    tw_checked_free(of.checked);
    tw_model_close(m);
}

static void other_products_have_none(void **state) {
    (void)state;
    tw_gemm_config c;
    const tw_target *t = tw_target_find("sm_90a");
    const tw_gemm_problem floats = problem_of("type=tf32x3 m=64 n=64 k=64 tb=1");
    /* Stages of a whole line hold several runs of such a tape. */
    const tw_gemm_problem odd = problem_of("type=bf16 m=64 n=64 k=96 tb=1 weights=1 tape=1x1x1");
    assert_false(tw_prefill_tile(&floats, NULL, t, SMS, &c));
    assert_false(tw_prefill_tile(&odd, NULL, t, SMS, &c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product_has_a_tile),
        cmocka_unit_test(measured_products_get_fast_tiles),
        cmocka_unit_test(heads_with_norms_have_a_tile),
        cmocka_unit_test(sums_leave_registers_for_cells),
        cmocka_unit_test(products_of_a_row_are_dealt_out),
        cmocka_unit_test(products_of_a_batch_fill_the_device),
        cmocka_unit_test(lists_have_few_rows_where_these_are_faster),
        cmocka_unit_test(programs_know_their_products),
        cmocka_unit_test(other_products_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

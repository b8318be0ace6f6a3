/* SPDX-License-Identifier: Apache-2.0 */
/* Work of instructions: the bytes of each op by hand, and operations that do not depend on how a step is dealt out. */
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "schedule/work.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SEQ = 64 };

static tw_model *model_of(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

/* Work of a step by op. The feed-forward layer's projection counts as its own op, in place of the last. */
enum { DOWN = TW_INSTR_COUNT, OPS };
typedef struct sums {
    tw_instr_work of[OPS];
    double flops;
} sums;

static sums sum(const tw_checked *c, int64_t n, int64_t pos) {
    const tw_schedule *s = tw_checked_schedule(c);
    sums out = {0};
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            tw_instr_work work;
            tw_diag d;
            assert_int_equal(tw_instr_work_of(s, in, n, pos, &work, &d), TW_OK);
            const bool down = in->op == TW_INSTR_PROJECT && strstr(s->buffers[in->operand[TW_PROJECT_W]].name, "mlp");
            out.of[down ? DOWN : (int)in->op].flops += work.flops;
            out.of[down ? DOWN : (int)in->op].bytes += work.bytes;
            out.flops += work.flops;
        }
    return out;
}

static void bytes_by_hand(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F16, 1, &d), TW_OK);
    static const struct { int64_t tokens, n, pos; } steps[] = {{1, 1, 0}, {1, 1, 17}, {8, 8, 0}, {8, 3, 11}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const int64_t n = steps[i].n, pos = steps[i].pos, L = m->n_layers;
        tw_checked *c = test_lower(m, (tw_lowering){.workers = 1, .tokens = steps[i].tokens}, MAX_SEQ);
        const sums s = sum(c, n, pos);
        const int64_t dim = m->dim, q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim, ffn = m->ffn_dim,
                      rope = 4 * n * m->rope.dims;
        const struct {
            int op;
            int64_t bytes;
        } want[] = {
            {TW_INSTR_INPUT, 4 * n + rope},
            {TW_INSTR_EMBED, 4 * n + 2 * n * dim + 4 * n * dim},
            {TW_INSTR_QKV, L * (4 * n * dim + 2 * dim + 2 * dim * (q + 2 * kv) + rope + 4 * n * (q + 2 * kv))},
            {TW_INSTR_ATTEND, L * (2 * 4 * n * q + 2 * 4 * (pos + n) * kv)},
            {TW_INSTR_PROJECT, L * (4 * n * q + 2 * q * dim + 2 * 4 * n * dim)},
            {TW_INSTR_FFN, L * (4 * n * dim + 2 * dim + 2 * 2 * dim * ffn + 4 * n * ffn)},
            {DOWN, L * (4 * n * ffn + 2 * ffn * dim + 2 * 4 * n * dim)},
            {TW_INSTR_HEAD, 4 * dim + 2 * dim + 2 * dim * m->vocab + 4 * m->vocab + 8},
            {TW_INSTR_OUTPUT, 8 + 4},
        };
        for (size_t k = 0; k < sizeof want / sizeof *want; k++)
            if (s.of[want[k].op].bytes != (double)want[k].bytes)
                fail_msg("step %zu, op %d: %.0f bytes, not %lld", i, want[k].op, s.of[want[k].op].bytes,
                         (long long)want[k].bytes);
        tw_checked_free(c);
    }
    tw_model_close(m);
}

/* However a step is dealt out, the same is multiplied. */
static void operations_of_every_way(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "mistral-window", "gpt2-gelu-bare", "qwen3moe-step-fused"};
    static const tw_lowering ways[] = {
        {.workers = 5, .tokens = 6, .kv_splits = 3},
        {.workers = 3, .tokens = 6, .row_blocks = 4},
        {.workers = 4, .tokens = 6, .group_heads = true},
        {.workers = 9, .tokens = 6, .down_splits = 4},
    };
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        tw_model *m = model_of(folders[f]);
        tw_checked *one = test_lower(m, (tw_lowering){.workers = 1, .tokens = 6}, MAX_SEQ);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            tw_checked *c = test_lower(m, ways[i], MAX_SEQ);
            for (int64_t n = 1; n <= 6; n += 2)
                for (int64_t pos = 0; pos + n <= MAX_SEQ; pos += 19) {
                    const sums a = sum(one, n, pos), b = sum(c, n, pos);
                    assert_true(a.flops > 0 && a.flops == b.flops);
                    assert_true(a.of[TW_INSTR_ATTEND].flops == b.of[TW_INSTR_ATTEND].flops);
                }
            tw_checked_free(c);
        }
        tw_checked_free(one);
        tw_model_close(m);
    }
}

/* A window bounds what attention reads. A row block reads what its own rows see. */
static void windows_and_blocks(void **state) {
    (void)state;
    tw_model *m = model_of("mistral-window");
    const int64_t window = m->layers[0].window, d = m->head_dim;
    assert_in_range(window, 2, 40);
    tw_checked *c = test_lower(m, (tw_lowering){.workers = 1, .tokens = 4}, MAX_SEQ);
    double want = 0;
    for (int64_t i = 0; i < m->n_layers; i++) {
        const int64_t w = m->layers[i].window, rows = w && w + 3 < 54 ? w + 3 : 54;
        want += (double)(2 * 4 * 4 * m->n_heads * d + 2 * 4 * rows * m->n_kv_heads * d);
    }
    assert_true(sum(c, 4, 50).of[TW_INSTR_ATTEND].bytes == want);
    tw_checked_free(c);
    /* The first of two blocks ends two positions before the second. With 3 positions the second block has one. */
    tw_model *whole = model_of("llama-biases");
    c = test_lower(whole, (tw_lowering){.workers = 1, .tokens = 4, .row_blocks = 2}, MAX_SEQ);
    const int64_t per_row = 2 * 4 * whole->n_kv_heads * whole->head_dim, q = 2 * 4 * whole->n_heads * whole->head_dim;
    int groups = 0; /* Instructions of a block in a layer: one a head. */
    for (int i = 0; i < tw_checked_schedule(c)->workers[0].count; i++)
        groups += tw_checked_schedule(c)->workers[0].list[i].op == TW_INSTR_ATTEND;
    groups /= 2 * (int)whole->n_layers;
    const double share = (double)groups / (double)whole->n_kv_heads; /* A key/value head is read for each query head. */
    assert_true(sum(c, 3, 10).of[TW_INSTR_ATTEND].bytes ==
                (double)whole->n_layers * ((double)(3 * q) + share * (double)((12 + 13) * per_row)));
    tw_checked_free(c);
    tw_model_close(whole);
    tw_model_close(m);
}

/* A step routes to no more experts than it has positions for. */
static void experts_that_can_be_used(void **state) {
    (void)state;
    tw_model *m = model_of("qwen3moe-step-fused");
    tw_checked *c = test_lower(m, (tw_lowering){.workers = 1, .tokens = 8}, MAX_SEQ);
    const int64_t used = m->n_experts_used, all = m->n_experts;
    assert_true(used < all);
    int64_t layers = 0;
    for (int64_t i = 0; i < m->n_layers; i++) layers += m->layers[i].experts != NULL;
    for (int64_t n = 1; n <= 8; n += 7) {
        const int64_t experts = n * used < all ? n * used : all,
                      size = (int64_t)tw_dtype_bits(m->layers[m->n_layers - 1].experts[0].up.weight.dtype) / 8;
        const double down = (double)(experts * m->expert_dim * m->dim * size + 4 * n * used * m->expert_dim +
                                     4 * 2 * n * used + 2 * 4 * n * m->dim);
        assert_true(sum(c, n, 0).of[TW_INSTR_EXPERTS_DOWN].bytes == (double)layers * down);
        const double up = (double)(2 * experts * m->expert_dim * m->dim * size + 4 * n * used * m->expert_dim +
                                   4 * 2 * n * used + 4 * n * m->dim + m->dim * size);
        assert_true(sum(c, n, 0).of[TW_INSTR_EXPERTS_UP].bytes == (double)layers * up);
    }
    tw_checked_free(c);
    tw_model_close(m);
}

/* Several sequences: each at the position, with a past of its own. */
static void sequences_have_pasts_of_their_own(void **state) {
    (void)state;
    tw_model *m = model_of("llama-biases");
    tw_checked *one = test_lower(m, (tw_lowering){.workers = 1, .tokens = 1}, MAX_SEQ),
               *three = test_lower(m, (tw_lowering){.workers = 1, .sequences = 3}, MAX_SEQ);
    const sums a = sum(one, 1, 20), b = sum(three, 3, 20);
    assert_true(b.flops == 3 * a.flops);
    assert_true(b.of[TW_INSTR_ATTEND].bytes >= 3 * a.of[TW_INSTR_ATTEND].bytes);
    tw_checked_free(one);
    tw_checked_free(three);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_by_hand),
        cmocka_unit_test(operations_of_every_way),
        cmocka_unit_test(windows_and_blocks),
        cmocka_unit_test(experts_that_can_be_used),
        cmocka_unit_test(sequences_have_pasts_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

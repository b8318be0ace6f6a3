/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a model's weights a schedule's buffers stand for. */
#include "support/support.h"

#include "vm/weights.h"

#include <stdio.h>
#include <string.h>

typedef struct fixture {
    tw_model *m;
    tw_schedule *s;
} fixture;

static void open_fixture(fixture *f, const char *folder, tw_dtype weights) {
    char path[4096];
    tw_diag d;
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    const tw_lowering l = {.workers = 2, .tokens = 1, .max_seq = 16, .weights = weights};
    if (tw_model_open(&f->m, path, &d) != TW_OK || tw_schedule_lower(&f->s, f->m, &l, &d) != TW_OK)
        fail_msg("%s", d.message);
}

static void close_fixture(fixture *f) {
    tw_schedule_free(f->s);
    tw_model_close(f->m);
}

static int buffer_named(const tw_schedule *s, const char *name) {
    for (int i = 0; i < s->n_buffers; i++)
        if (!strcmp(s->buffers[i].name, name)) return i;
    fail_msg("no buffer %s", name);
    return -1;
}

/* A name stands for the weight of that name, and an expert's for one of each expert. */
static void names_are_weights(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "gpt2-gelu-bare", "mixtral-window", "qwen3moe-dense-first"};
    for (size_t k = 0; k < 2 * (sizeof folders / sizeof *folders); k++) {
        fixture f;
        tw_schedule_weights w;
        tw_arena arena = {0};
        tw_diag d;
        open_fixture(&f, folders[k / 2], k & 1 ? TW_I8 : TW_F32);
        if (tw_weights_resolve(&w, f.s, f.m, &arena, &d) != TW_OK) fail_msg("%s", d.message);
        int weights = 0;
        for (int i = 0; i < f.s->n_buffers; i++) {
            const tw_buffer *b = &f.s->buffers[i];
            if (b->kind != TW_BUFFER_WEIGHT) continue;
            weights++;
            char *experts = strstr(b->name, ".experts.");
            for (int64_t e = 0; e < b->shape[0]; e++) {
                char name[128];
                if (experts)
                    snprintf(name, sizeof name, "%.*s.experts.%d%s", (int)(experts - b->name), b->name, (int)e,
                             experts + strlen(".experts"));
                const tw_weight *want = tw_model_find(f.m, experts ? name : b->name);
                assert_non_null(want);
                assert_ptr_equal(tw_weight_at(&w, i, e), want);
            }
        }
        assert_true(weights > 10);
        tw_arena_free(&arena);
        close_fixture(&f);
    }
}

typedef struct change {
    const char *folder, *buffer, *name;
    int64_t copies, rows, cols; /* added */
    tw_dtype weights, dtype;    /* of the lowering; in place of the buffer's, TW_F32: as it is */
    const char *says;
} change;

static void what_is_no_weight_is_refused(void **state) {
    (void)state;
    static char long_name[256];
    memset(long_name, 'x', sizeof long_name - 1);
    memcpy(long_name, "layers.0.experts.", strlen("layers.0.experts."));
    static const change all[] = {
        {"llama-biases", "embed", "embedding", 0, 0, 0, 0, 0, "the schedule's embedding ["},
        {"llama-biases", "embed", NULL, 0, 1, 0, 0, 0, "] is not a weight of this model"},
        {"llama-biases", "embed", NULL, 0, 0, 1, 0, 0, "] is not a weight of this model"},
        {"llama-biases", "final_norm", NULL, 0, 0, 1, 0, 0, "the schedule's final_norm ["},
        {"llama-biases", "layers.1.attn.q", "layers.9.attn.q", 0, 0, 0, 0, 0, "the schedule's layers.9.attn.q ["},
        {"llama-biases", "layers.1.attn.q", NULL, 1, 0, 0, 0, 0, "layers.1.attn.q has 2 copies, the model 1"},
        {"llama-biases", "layers.1.attn.q", NULL, 0, 0, 0, 0, TW_F16, "layers.1.attn.q is f16, the model's is "},
        {"llama-biases", "layers.1.attn.q", "layers.1.experts.gate", 0, 0, 0, 0, 0, "gate has 1 copies, the model 0"},
        {"mixtral-window", "layers.0.experts.up", NULL, 0, 0, 1, TW_I8, 0, "the schedule's layers.0.experts.up ["},
        {"mixtral-window", "layers.0.experts.up", NULL, -1, 0, 0, 0, 0, "copies, the model "},
        {"mixtral-window", "layers.0.experts.up", "layers.0.experts.side", 0, 0, 0, 0, 0, ".experts.side ["},
        {"mixtral-window", "layers.0.experts.up", long_name, 0, 0, 0, 0, 0, "] is not a weight of this model"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fixture f;
        tw_schedule_weights w;
        tw_arena arena = {0};
        tw_diag d;
        open_fixture(&f, all[i].folder, all[i].weights);
        tw_buffer *b = &f.s->buffers[buffer_named(f.s, all[i].buffer)];
        if (all[i].name) b->name = all[i].name;
        b->shape[0] += all[i].copies;
        b->shape[1] += all[i].rows;
        b->shape[2] += all[i].cols;
        if (all[i].dtype != TW_F32) b->dtype = all[i].dtype;
        assert_int_equal(tw_weights_resolve(&w, f.s, f.m, &arena, &d), TW_ERR_MISMATCH);
        if (!strstr(d.message, all[i].says)) fail_msg("case %zu: %s", i, d.message);
        tw_arena_free(&arena);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_weights),
        cmocka_unit_test(what_is_no_weight_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lowerings of every family are accepted and survive JSON; broken files are refused with their place. */
#include "support/support.h"

#include "base/buf.h"
#include "base/file.h"
#include "model/model.h"
#include "schedule/effects.h"
#include "schedule/json.h"
#include "schedule/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_schedule *lower(const tw_model *m, tw_lowering l) {
    tw_schedule *s = NULL;
    tw_diag d;
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

static void accept(tw_schedule *s, const char *what) {
    tw_checked *c = NULL;
    tw_report r;
    tw_diag d;
    tw_status st = tw_schedule_check(&c, &s, &r, &d);
    if (st != TW_OK) fail_msg("%s: %s", what, d.message);
    tw_report_free(&r);
    tw_checked_free(c);
}

static void every_lowering_is_accepted(void **state) {
    (void)state;
    static const char *const shapes[] = {"llama-tiny", "gpt2", "qwen3-0.6b", "smollm2-135m", "qwen3-30b-a3b"};
    static const int workers[] = {1, 2, 7, 132};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tw_model *m;
        tw_diag d;
        assert_int_equal(tw_model_synthetic(&m, shapes[i], TW_BF16, 1, &d), TW_OK);
        for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
            for (int tokens = 1; tokens <= 33; tokens += 32) {
                char what[128];
                snprintf(what, sizeof what, "%s, %d workers, %d tokens", shapes[i], workers[w], tokens);
                accept(lower(m, (tw_lowering){.workers = workers[w], .tokens = tokens, .max_seq = 128}), what);
            }
        tw_model_close(m);
    }
}

/* Every attend instruction is one group of heads; every group's splits and blocks are dealt out once. */
static void grouped(const tw_schedule *s, const tw_model *m, int64_t splits, int64_t blocks) {
    int64_t per = m->n_heads / m->n_kv_heads, count = 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            if (in->op != TW_INSTR_ATTEND) continue;
            assert_int_equal(in->param[TW_ATTEND_HEAD_FROM] % per, 0);
            assert_int_equal(in->param[TW_ATTEND_HEAD_TO] - in->param[TW_ATTEND_HEAD_FROM], per);
            assert_int_equal(in->param[TW_ATTEND_SPLITS], splits);
            count++;
        }
    assert_int_equal(count, m->n_layers * m->n_kv_heads * splits * blocks);
}

static void accept_caches(const tw_model *m, const char *name) {
    static const int workers[] = {1, 2, 7, 132};
    static const tw_dtype kv[] = {TW_F32, TW_BF16, TW_F16};
    for (int i = 0; i < 48; i++) {
        tw_lowering l = {.workers = workers[i % 4], .tokens = i / 4 % 2 ? 8 : 1, .max_seq = 64};
        l.group_heads = i / 8 % 2;
        l.kv = kv[i / 16];
        tw_schedule *s = lower(m, l);
        char what[128];
        snprintf(what, sizeof what, "%s, %d workers, %d tokens, %s%s", name, l.workers, (int)l.tokens,
                 tw_dtype_name(l.kv), l.group_heads ? ", groups" : "");
        for (int b = 0; b < s->n_buffers; b++)
            if (s->buffers[b].kind == TW_BUFFER_KV) assert_int_equal(s->buffers[b].dtype, l.kv);
        int64_t splits = l.workers / m->n_kv_heads;
        if (l.group_heads) grouped(s, m, splits ? splits : 1, 1);
        accept(s, what);
    }
}

static void every_cache_and_group_is_accepted(void **state) {
    (void)state;
    static const char *const folders[] = {"gpt2-gelu-bare", "llama-biases",   "llama-linear-mqa",
                                          "llama-yarn-mha", "mistral-window", "qwen3moe-dense-first",
                                          "qwen2-window"};
    tw_model *m;
    tw_diag d;
    char path[4096];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, folders[i]);
        if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
        accept_caches(m, folders[i]);
        tw_model_close(m);
    }
    assert_int_equal(tw_model_synthetic(&m, "llama-1b", TW_BF16, 1, &d), TW_OK);
    accept_caches(m, "llama-1b");
    tw_lowering l = {.workers = 5, .tokens = 6, .max_seq = 40, .kv_splits = 3, .row_blocks = 2, .group_heads = true};
    tw_schedule *s = lower(m, l);
    grouped(s, m, 3, 2);
    accept(s, "chosen splits and blocks");
    tw_model_close(m);
}

/* Each sequence has a cache, a best token and logits; its attention is an instruction of its own unless fewer blocks
   are asked for. */
static void sequences_of(const tw_model *m, tw_lowering l) {
    char what[128];
    tw_schedule *s = lower(m, l);
    tw_schedule_info info;
    snprintf(what, sizeof what, "%d layers, %d sequences, %d workers", (int)m->n_layers, (int)l.sequences, l.workers);
    tw_schedule_describe(s, &info);
    assert_int_equal(info.sequences, l.sequences);
    assert_int_equal(info.tokens, l.sequences);
    for (int b = 0; b < s->n_buffers; b++) {
        if (s->buffers[b].kind == TW_BUFFER_KV) assert_int_equal(s->buffers[b].shape[0], l.sequences * m->n_kv_heads);
        if (s->buffers[b].kind == TW_BUFFER_OUTPUT) assert_int_equal(s->buffers[b].shape[0], l.sequences);
    }
    const int64_t blocks = l.row_blocks ? l.row_blocks : l.sequences, units = m->n_kv_heads * blocks;
    if (l.group_heads) grouped(s, m, l.workers > units ? l.workers / units : 1, blocks);
    accept(s, what);
}

static void every_number_of_sequences_is_accepted(void **state) {
    (void)state;
    static const char *const shapes[] = {"llama-tiny", "gpt2", "qwen3-0.6b", "qwen3-30b-a3b", "llama-1b"};
    static const int workers[] = {1, 7, 132};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tw_model *m;
        tw_diag d;
        assert_int_equal(tw_model_synthetic(&m, shapes[i], TW_BF16, 1, &d), TW_OK);
        for (int n = 1; n <= 8; n++) {
            tw_lowering l = {.workers = workers[n % 3], .sequences = n, .max_seq = 64, .group_heads = n % 2};
            l.kv = n % 3 ? TW_BF16 : TW_F32;
            l.row_blocks = n % 4 == 3 ? 2 : 0;
            sequences_of(m, l);
        }
        tw_model_close(m);
    }
}

static bool of_rows(const tw_instr *in, tw_instr_op op, int64_t row) {
    return in->op == op && in->param[TW_FROM] <= row && row < in->param[TW_TO];
}

/* The instructions of all layers that have a row of down. */
typedef struct of_row {
    int partial, sum;
    int workers; /* that have the row in layer 0 */
} of_row;

/* A sum waits for its team alone, which has so many members. */
static of_row count_row(const tw_schedule *s, int64_t row, int64_t members) {
    of_row n = {0};
    for (int w = 0; w < s->n_workers; w++) {
        bool has = false;
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const bool partial = of_rows(in, TW_INSTR_PARTIAL, row), sum = of_rows(in, TW_INSTR_SUM, row);
            n.partial += partial;
            n.sum += sum;
            has |= partial && !strcmp(s->buffers[in->operand[TW_PARTIAL_W]].name, "layers.0.mlp.down");
            if (sum && (in->n_waits != 1 || in->waits[0].threshold != members)) fail_msg("a sum waits for others");
        }
        n.workers += has;
    }
    return n;
}

/* Each row of the product has an instruction for every part, of as many workers as there are, and one that adds them
   up when they are there. Steps of one position have whole products. */
static void down_is_in_parts(void **state) {
    (void)state;
    static const struct { int workers, parts; } cases[] = {{132, 4}, {132, 7}, {8, 8}, {3, 4}, {1, 2}, {30, 14}};
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-8b", TW_BF16, 1, &d), TW_OK);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tw_lowering l = {.workers = cases[c].workers, .sequences = 8, .max_seq = 64, .row_unit = 8};
        l.down_splits = cases[c].parts;
        tw_schedule *s = lower(m, l);
        const int parts = cases[c].parts, workers = cases[c].workers;
        for (int64_t row = 0; row < m->dim; row += 331) {
            const of_row n = count_row(s, row, parts);
            assert_int_equal(n.partial, parts * m->n_layers);
            assert_int_equal(n.sum, m->n_layers);
            assert_int_equal(n.workers, parts < workers ? parts : workers);
        }
        accept(s, "parts");
        l.sequences = 1;
        s = lower(m, l);
        for (int b = 0; b < s->n_buffers; b++) assert_string_not_equal(s->buffers[b].name, "sums");
        tw_schedule_free(s);
    }
    tw_model_close(m);
}

static void a_config_names_every_choice(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tw_status status;
        tw_dtype kv;
    } cases[] = {
        {"{\"kv\": \"bf16\", \"group_heads\": true, \"all_logits\": true, \"kv_splits\": 5}", TW_OK, TW_BF16},
        {"{\"kv\": \"f16\", \"group_heads\": true, \"all_logits\": true, \"kv_splits\": 5}", TW_OK, TW_F16},
        {"{\"kv\": \"f32\", \"group_heads\": true, \"all_logits\": true, \"kv_splits\": 5}", TW_OK, TW_F32},
        {"{\"kv\": \"bf16\", \"group_heads\": true, \"all_logits\": true, \"kv_splits\": 5, \"sequences\": 3}", TW_OK,
         TW_BF16},
        {"{\"kv\": \"i8\"}", TW_ERR_FORMAT, TW_F32},
        {"{\"kv\": \"half\"}", TW_ERR_FORMAT, TW_F32},
        {"{\"kv\": 16}", TW_ERR_FORMAT, TW_F32},
        {"{\"group_heads\": 1}", TW_ERR_FORMAT, TW_F32},
        {"{\"all_logits\": \"yes\"}", TW_ERR_FORMAT, TW_F32},
    };
    char *folder = test_folder_make(), path[4096];
    snprintf(path, sizeof path, "%s/c.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_schedule_config c = {0};
        const tw_lowering *l = &c.lowering;
        tw_diag d;
        assert_int_equal(tw_file_write(path, cases[i].text, strlen(cases[i].text), &d), TW_OK);
        if (tw_schedule_config_read(&c, path, &d) != cases[i].status) fail_msg("case %zu", i);
        if (cases[i].status != TW_OK) continue;
        assert_int_equal(l->kv, cases[i].kv);
        assert_true(l->exact_kv && l->group_heads && l->all_logits && l->kv_splits == 5);
    }
    test_folder_remove(folder);
}

static void every_choice_of_the_lowering_is_accepted(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 1, &d), TW_OK);
    for (int workers = 1; workers <= 9; workers += 2)
        for (int unit = 2; unit <= 48; unit += 14)
            for (int splits = 1; splits <= 5; splits++)
                for (int blocks = 1; blocks <= 3; blocks++) {
                    tw_lowering l = {
                        .workers = workers, .tokens = 6, .max_seq = 40, .row_unit = unit, .kv_splits = splits};
                    l.row_blocks = blocks;
                    l.all_logits = blocks == 2;
                    l.down_splits = 1 << splits % 4;
                    l.weights = splits == 3 ? TW_I4 : splits == 4 ? TW_I8 : TW_F32;
                    accept(lower(m, l), "a choice");
                }
    tw_model_close(m);
}

static void nonsense_choices_are_refused(void **state) {
    (void)state;
    static const tw_lowering bad[] = {
        {.workers = 0},
        {.workers = 1, .tokens = 2, .down_splits = -1},
        {.workers = 1, .tokens = 2, .down_splits = 7},
        {.workers = 4000},
        {.workers = 2, .tokens = 300},
        {.workers = 2, .max_seq = 8, .tokens = 9},
        {.workers = 2, .row_unit = 3},
        {.workers = 2, .row_unit = -2},
        {.workers = 2, .weights = TW_F16},
        {.workers = 2, .weights = TW_I4, .group = 48},
        {.workers = 2, .kv_splits = 5000},
        {.workers = 2, .tokens = -1},
        {.workers = 2, .kv = TW_I8},
        {.workers = 2, .kv = TW_I32},
        {.workers = 2, .sequences = -1},
        {.workers = 2, .sequences = 3, .tokens = 4},
        {.workers = 2, .sequences = 3, .tokens = 1},
    };
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 1, &d), TW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_schedule *s;
        if (tw_schedule_lower(&s, m, &bad[i], &d) != TW_ERR_USAGE) fail_msg("case %zu was not refused", i);
        assert_null(s);
    }
    tw_model_close(m);
}

static void json_brings_back(tw_lowering l) {
    char *folder = test_folder_make(), a[4096], b[4096];
    tw_model *m;
    tw_diag d;
    tw_buf first = {0}, second = {0};
    assert_int_equal(tw_model_synthetic(&m, "qwen3-30b-a3b", TW_BF16, 1, &d), TW_OK);
    tw_schedule *s = lower(m, l), *t;
    snprintf(a, sizeof a, "%s/a.json", folder);
    snprintf(b, sizeof b, "%s/b.json", folder);
    assert_int_equal(tw_schedule_write(s, a, &d), TW_OK);
    assert_int_equal(tw_schedule_read(&t, a, &d), TW_OK);
    assert_int_equal(tw_schedule_write(t, b, &d), TW_OK);
    assert_int_equal(tw_file_read(&first, a, &d), TW_OK);
    assert_int_equal(tw_file_read(&second, b, &d), TW_OK);
    assert_string_equal(first.data, second.data);
    accept(t, "read back");
    tw_buf_free(&first);
    tw_buf_free(&second);
    tw_schedule_free(s);
    tw_model_close(m);
    test_folder_remove(folder);
}

static void json_brings_back_the_same_schedule(void **state) {
    (void)state;
    json_brings_back((tw_lowering){.workers = 5, .weights = TW_I4, .max_seq = 64});
    json_brings_back((tw_lowering){.workers = 9, .max_seq = 64, .kv = TW_BF16, .group_heads = true});
    json_brings_back((tw_lowering){.workers = 2, .max_seq = 64, .kv = TW_F16, .tokens = 4});
    json_brings_back((tw_lowering){.workers = 2, .max_seq = 64, .sequences = 4});
}

static void broken_json_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "invalid JSON"},
        {"[]", "not a schedule"},
        {"{}", "not a schedule"},
        {"{\"tilewright_schedule\": 2}", "unknown format version"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 2, \"max_seq\": 1, \"workers\": [[]]}", "tokens <= max_seq"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 2, \"max_seq\": 4, \"sequences\": 3, \"workers\": [[]]}",
         "nor tokens"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 2, \"max_seq\": 4, \"sequences\": 0, \"workers\": [[]]}",
         "nor tokens"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"workers\": []}", "1 to 1024 lists"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"workers\": [[]]}", "buffers: not a list"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"buffers\": [{\"name\": \"x\", \"kind\": "
         "\"heap\"}], "
         "\"counters\": [], \"workers\": [[]]}",
         "buffers[0]: kind"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"buffers\": [], \"counters\": [], \"workers\": "
         "[[{\"op\": \"fly\"}]]}",
         "workers[0][0]: unknown op fly"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"buffers\": [], \"counters\": [], \"workers\": "
         "[[{\"op\": \"input\", \"tokens\": \"ids\"}]]}",
         "workers[0][0]: names no buffer: tokens"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"buffers\": [], \"counters\": [{\"name\": "
         "\"c\"}, "
         "{\"name\": \"c\"}], \"workers\": [[]]}",
         "counters[1]: the name is used twice"},
        {"{\"tilewright_schedule\": 1, \"tokens\": 1, \"max_seq\": 1, \"buffers\": [], \"counters\": [{\"name\": "
         "\"c\"}], "
         "\"workers\": [[{\"op\": \"input\", \"wait\": [[\"c\", 1.5]]}]]}",
         "a threshold is an integer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_schedule *s;
        tw_diag d;
        assert_int_equal(tw_schedule_parse(&s, bad[i].text, strlen(bad[i].text), "s.json", &d), TW_ERR_FORMAT);
        assert_string_equal(d.path, "s.json");
        if (!strstr(d.message, bad[i].says)) fail_msg("case %zu says: %s", i, d.message);
    }
}

/* Operand i of these instructions is buffer 100 + i, unless it is absent. */
static void matrices_come_with_their_biases(void **state) {
    (void)state;
    static const struct {
        tw_instr_op op;
        int absent, n, matrix[TW_MAX_MATRICES], bias[TW_MAX_MATRICES]; /* operands; -1: none */
    } cases[] = {
        {TW_INSTR_QKV, -1, 3, {TW_QKV_WQ, TW_QKV_WK, TW_QKV_WV}, {TW_QKV_BQ, TW_QKV_BK, TW_QKV_BV}},
        {TW_INSTR_QKV, TW_QKV_BK, 3, {TW_QKV_WQ, TW_QKV_WK, TW_QKV_WV}, {TW_QKV_BQ, -1, TW_QKV_BV}},
        {TW_INSTR_PROJECT, -1, 1, {TW_PROJECT_W}, {TW_PROJECT_BIAS}},
        {TW_INSTR_FFN, -1, 2, {TW_FFN_GATE, TW_FFN_UP}, {TW_FFN_GATE_BIAS, TW_FFN_UP_BIAS}},
        {TW_INSTR_FFN, TW_FFN_GATE, 1, {TW_FFN_UP}, {TW_FFN_UP_BIAS}},
        {TW_INSTR_ROUTE, -1, 1, {TW_ROUTE_ROUTER}, {-1}},
        {TW_INSTR_SCORE, -1, 1, {TW_SCORE_ROUTER}, {-1}},
        {TW_INSTR_CHOOSE, -1, 0, {0}, {0}},
        {TW_INSTR_RESIDUAL, -1, 0, {0}, {0}},
        {TW_INSTR_PARTIAL, -1, 1, {TW_PARTIAL_W}, {-1}},
        {TW_INSTR_SUM, -1, 0, {0}, {0}},
        {TW_INSTR_TURN, -1, 0, {0}, {0}},
        {TW_INSTR_EXPERTS_UP, -1, 2, {TW_EXPERTS_UP_GATE, TW_EXPERTS_UP_UP}, {-1, -1}},
        {TW_INSTR_EXPERTS_DOWN, -1, 1, {TW_EXPERTS_DOWN_W}, {-1}},
        {TW_INSTR_HEAD, -1, 1, {TW_HEAD_W}, {-1}},
        {TW_INSTR_EMBED, -1, 0, {0}, {0}},
        {TW_INSTR_ATTEND, -1, 0, {0}, {0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tw_instr in = {.op = cases[c].op};
        for (int i = 0; i < TW_MAX_OPERANDS; i++) in.operand[i] = i == cases[c].absent ? -1 : 100 + i;
        const tw_instr_matrices all = tw_instr_matrices_of(&in);
        assert_int_equal(all.n, cases[c].n);
        assert_int_equal(tw_instr_op_multiplies(in.op), all.n > 0);
        for (int i = 0; i < all.n; i++) {
            const int bias = cases[c].bias[i];
            assert_int_equal(all.matrix[i], 100 + cases[c].matrix[i]);
            assert_int_equal(all.bias[i], bias < 0 ? -1 : 100 + bias);
        }
    }
}

static void a_qkv_range_covers_both_halves_of_every_pair(void **state) {
    (void)state;
    bool seen[96] = {0};
    for (int64_t row = 0; row < 96; row++) {
        tw_qkv_row r = tw_qkv_locate(row, 3, 2, 16, 12);
        if (row < 48) assert_int_equal(r.part, 0);
        int64_t real = (r.part == 0 ? 0 : r.part == 1 ? 48 : 80) + r.head * 16 + r.row;
        if (real < 96) {
            assert_false(seen[real]);
            seen[real] = true;
        }
    }
    assert_int_equal(tw_qkv_locate(1, 3, 2, 16, 12).row, 6);
    assert_int_equal(tw_qkv_locate(12, 3, 2, 16, 12).row, 12);
    assert_int_equal(tw_qkv_locate(81, 3, 2, 16, 12).row, 1); /* v is not rotated */
}

/* More workers than heads share a head's past, as many as there are to a head; of groups of heads and of several
   sequences no more than there are whole workers for each. */
static void workers_beyond_the_heads_share_them(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/llama-biases", &d), TW_OK);
    assert_true(m->n_heads == 4 && m->n_kv_heads == 2);
    static const struct {
        int workers;
        bool group;
        int sequences;
        int64_t splits;
    } cases[] = {{1, false, 0, 1}, {4, false, 0, 1},  {5, false, 0, 2},  {8, false, 0, 2}, {9, false, 0, 3},
                 {1, true, 0, 1},  {3, true, 0, 1},   {4, true, 0, 2},   {7, true, 0, 3},  {8, false, 2, 1},
                 {9, false, 2, 1}, {16, false, 2, 2}, {17, false, 2, 2}, {12, true, 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_schedule *s;
        const tw_lowering l = {.workers = cases[i].workers,
                               .tokens = cases[i].sequences ? cases[i].sequences : 1,
                               .max_seq = 32,
                               .group_heads = cases[i].group,
                               .sequences = cases[i].sequences};
        if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) fail_msg("%s", d.message);
        for (int w = 0; w < s->n_workers; w++)
            for (int k = 0; k < s->workers[w].count; k++) {
                const tw_instr *in = &s->workers[w].list[k];
                if (in->op == TW_INSTR_ATTEND && in->param[TW_ATTEND_SPLITS] != cases[i].splits)
                    fail_msg("case %zu: %d parts", i, (int)in->param[TW_ATTEND_SPLITS]);
            }
        tw_schedule_free(s);
    }
    tw_model_close(m);
}

/* The most rows of an op's instruction in layer 0, of chosen experts of all of them, and how many workers have one. */
static int64_t most_rows(const tw_schedule *s, tw_instr_op op, int *workers) {
    int64_t most = 0;
    *workers = 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int k = 0; k < s->workers[w].count; k++) {
            const tw_instr *in = &s->workers[w].list[k];
            if (in->op != op || strncmp(s->counters[in->arrive].name, "0.", 2) != 0) continue;
            int64_t rows = in->param[TW_TO] - in->param[TW_FROM];
            if (op == TW_INSTR_EXPERTS_UP)
                rows *= in->param[TW_EXPERTS_UP_SLOT_TO] - in->param[TW_EXPERTS_UP_SLOT_FROM];
            most = rows > most ? rows : most;
            ++*workers;
        }
    return most;
}

/* On a GPU no worker waits for one that has much more: 8 experts of 768 rows, and heads whose norms attention has. */
static void rows_are_dealt_out_evenly(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        int64_t sequences;
        bool turn, attend;
    } cases[] = {{"qwen3-30b-a3b", 1, false, true},
                 {"qwen3-0.6b", 1, false, true},
                 {"qwen3-0.6b", 8, false, false},
                 {"qwen3-4b", 8, true, false},
                 {"llama-8b", 1, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_model *m;
        tw_diag d;
        int workers;
        assert_int_equal(tw_model_synthetic(&m, cases[i].shape, TW_BF16, 1, &d), TW_OK);
        tw_schedule *s = lower(
            m, (tw_lowering){
                   .workers = 132, .max_seq = 64, .row_unit = 8, .sequences = cases[i].sequences, .group_heads = true});
        const int64_t even = (m->n_heads + 2 * m->n_kv_heads) * m->head_dim / 132 + 8;
        const bool apart = cases[i].turn || cases[i].attend;
        assert_int_equal(most_rows(s, TW_INSTR_QKV, &workers) <= even, apart || !m->layers[0].q_norm.rows);
        if (m->n_experts) {
            assert_int_equal(most_rows(s, TW_INSTR_EXPERTS_UP, &workers), 48);
            assert_int_equal(workers, 132);
        }
        most_rows(s, TW_INSTR_TURN, &workers);
        assert_int_equal(workers > 0, cases[i].turn);
        for (int k = 0; k < s->workers[0].count; k++)
            if (s->workers[0].list[k].op == TW_INSTR_ATTEND)
                assert_int_equal(s->workers[0].list[k].operand[TW_ATTEND_RAW_K] >= 0, cases[i].attend);
        accept(s, cases[i].shape);
        tw_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lowering_is_accepted),
        cmocka_unit_test(every_cache_and_group_is_accepted),
        cmocka_unit_test(every_number_of_sequences_is_accepted),
        cmocka_unit_test(down_is_in_parts),
        cmocka_unit_test(a_config_names_every_choice),
        cmocka_unit_test(every_choice_of_the_lowering_is_accepted),
        cmocka_unit_test(nonsense_choices_are_refused),
        cmocka_unit_test(json_brings_back_the_same_schedule),
        cmocka_unit_test(broken_json_is_refused_with_its_place),
        cmocka_unit_test(workers_beyond_the_heads_share_them),
        cmocka_unit_test(matrices_come_with_their_biases),
        cmocka_unit_test(a_qkv_range_covers_both_halves_of_every_pair),
        cmocka_unit_test(rows_are_dealt_out_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

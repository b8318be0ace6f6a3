/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as agreement with a reference, and what never does. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/buf.h"
#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 256, DIM = 64, N = 3 };

static const int32_t prompt[N] = {1, 5, 9};

/* A model whose head's rows a test may change. */
typedef struct fixture {
    tw_model *m;
    float head[VOCAB * DIM], logits[VOCAB];
    int32_t first; /* the most likely after the prompt */
    char *folder, golden[4200];
} fixture;

static tw_engine *open_engine(const tw_model *m, bool emulate) {
    tw_engine *e;
    tw_diag d;
    const tw_engine_options o = {.workers = 2, .context = 16, .emulate = emulate};
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

static void look(fixture *f) {
    tw_engine *e = open_engine(f->m, false);
    const float *logits;
    tw_diag d;
    assert_int_equal(tw_engine_feed(e, prompt, N, &logits, &f->first, &d), TW_OK);
    memcpy(f->logits, logits, sizeof f->logits);
    tw_engine_close(e);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    tw_diag d;
    if (!f || tw_model_open(&f->m, TEST_DATA "/models/llama-biases", &d) != TW_OK) return 1;
    tw_weight *head = &f->m->head.weight;
    assert_true(head->rows == VOCAB && head->cols == DIM && head->dtype == TW_F32);
    for (int i = 0; i < VOCAB; i++) tw_weight_read(head, i, 0, DIM, f->head + i * DIM);
    head->data = f->head;
    head->row_stride = DIM;
    head->col_stride = 1;
    f->folder = test_folder_make();
    snprintf(f->golden, sizeof f->golden, "%s/golden.json", f->folder);
    look(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tw_model_close(f->m);
    test_folder_remove(f->folder);
    free(f);
    return 0;
}

/* golden.json: these logits, greedy ids as a list's inside, a loss. `odd` stands for the first logit, unless NULL. */
static void write_odd(const fixture *f, const float *logits, const char *odd, const char *greedy, const char *loss) {
    tw_buf b = {0};
    tw_buf_printf(&b, "{\"cases\":[{\"prompt\":[%d,%d,%d],\"logits_last\":[", prompt[0], prompt[1], prompt[2]);
    for (int i = 0; i < VOCAB; i++)
        if (i || !odd)
            tw_buf_printf(&b, "%s%.9g", i ? "," : "", (double)logits[i]);
        else
            tw_buf_str(&b, odd);
    tw_buf_printf(&b, "],\"greedy\":[%s],\"loss\":%s}]}", greedy, loss);
    test_write(f->folder, "golden.json", b.data, b.size);
    tw_buf_free(&b);
}

static void write_golden(const fixture *f, const float *logits, const char *greedy) {
    write_odd(f, logits, NULL, greedy, "null");
}

static tw_status verify(const fixture *f, bool emulate, tw_verdict *v, tw_diag *d) {
    tw_engine *e = open_engine(f->m, emulate);
    tw_status st = tw_engine_verify(e, NULL, f->golden, f->folder, v, d);
    tw_engine_close(e);
    return st;
}

static double largest(const fixture *f) {
    double most = 0;
    for (int i = 0; i < VOCAB; i++) most = fmax(most, fabs((double)f->logits[i]));
    return most;
}

/* Loosening them is a decision, and not a way to make a comparison pass. */
static void the_tolerances_are_these(void **state) {
    fixture *f = *state;
    tw_engine *cpu = open_engine(f->m, false), *gpu = open_engine(f->m, true);
    const tw_tolerance *c = cpu->machine.backend->tolerance, *g = gpu->machine.backend->tolerance;
    const tw_tolerance *bf16 = &c[TW_ACTIVATIONS_BF16], *bytes = &c[TW_ACTIVATIONS_INT8];
    assert_true(c->logit_relative == 1e-3 && c->logit_absolute == 1e-4 && c->loss_relative == 1e-4 && !c->close);
    assert_true(g->logit_relative == 2e-2 && g->logit_absolute == 1e-3 && g->loss_relative == 5e-3 && g->close);
    assert_true(bf16->logit_relative == 2e-2 && bf16->logit_absolute == 1e-3 && bf16->loss_relative == 5e-3);
    assert_true(c->score_relative == 1e-3 && g->score_relative == 1e-2 && bf16->score_relative == 1e-2);
    assert_true(bytes->logit_relative == 1e-1 && bytes->score_relative == 1e-1 && bytes->logit_absolute == 1e-3 &&
                bytes->loss_relative == 2e-2);
    tw_engine_close(cpu);
    tw_engine_close(gpu);
}

static void a_logit_may_be_off_by_the_tolerance_alone(void **state) {
    fixture *f = *state;
    const double allowed = 1e-3 * largest(f) + 1e-4;
    float theirs[VOCAB];
    tw_verdict v;
    tw_diag d;
    memcpy(theirs, f->logits, sizeof theirs);
    int at = f->first == 7 ? 8 : 7;
    theirs[at] = (float)(f->logits[at] - 0.9 * allowed);
    write_golden(f, theirs, "");
    assert_int_equal(verify(f, false, &v, &d), TW_OK);
    assert_true(v.cases == 1 && v.worst_logit > 0.8 && v.worst_logit < 1);
    theirs[at] = (float)(f->logits[at] - 1.1 * allowed);
    write_golden(f, theirs, "");
    assert_int_equal(verify(f, false, &v, &d), TW_ERR_MISMATCH);
    assert_non_null(strstr(d.message, at == 7 ? "logit 7" : "logit 8"));
}

static void what_is_no_number_agrees_with_nothing(void **state) {
    fixture *f = *state;
    tw_verdict v;
    tw_diag d;
    write_golden(f, f->logits, "");
    assert_int_equal(verify(f, false, &v, &d), TW_OK);
    f->head[7 * DIM] = NAN;
    assert_int_equal(verify(f, false, &v, &d), TW_ERR_MISMATCH);
    assert_non_null(strstr(d.message, "logit 7 is nan here"));
    /* Nor with itself. */
    tw_engine *e = open_engine(f->m, false), *same = open_engine(f->m, false);
    assert_int_equal(tw_engine_compare(e, same, VOCAB, 1, 1, 1, &v, &d), TW_ERR_MISMATCH);
    f->head[7 * DIM] = 0;
    tw_engine *finite = open_engine(f->m, false);
    assert_int_equal(tw_engine_compare(finite, e, VOCAB, 1, 1, 1, &v, &d), TW_ERR_MISMATCH);
    assert_int_equal(tw_engine_compare(finite, finite, VOCAB, 1, 1, 1, &v, &d), TW_OK);
    tw_engine_close(finite);
    tw_engine_close(same);
    tw_engine_close(e);
}

/* A reference's word that is no number is not read as zero. */
static void a_reference_holds_numbers(void **state) {
    fixture *f = *state;
    tw_verdict v;
    tw_diag d;
    static const char *const odd[] = {"null", "\"0\"", "[]", "true"};
    for (int i = 0; i < DIM; i++) f->head[i] = 0;
    look(f);
    assert_true(fabs((double)f->logits[0]) < 1e-6);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        write_odd(f, f->logits, odd[i], "", "null");
        assert_int_equal(verify(f, false, &v, &d), TW_ERR_FORMAT);
        assert_non_null(strstr(d.message, "cases[0]: logits_last"));
    }
    write_odd(f, f->logits, NULL, "", "\"low\"");
    assert_int_equal(verify(f, false, &v, &d), TW_ERR_FORMAT);
    assert_non_null(strstr(d.message, "cases[0]: loss"));
}

/* Two ids as likely as each other: the lower is taken. The processor must say what the reference says; a GPU may say
   one that is as likely. */
static void close_tokens_are_a_gpus_alone(void **state) {
    fixture *f = *state;
    tw_verdict v;
    tw_diag d;
    char greedy[40];
    const int32_t a = f->first, b = a + 1 < VOCAB ? a + 1 : a - 1, low = a < b ? a : b, high = a < b ? b : a;
    memcpy(f->head + b * DIM, f->head + a * DIM, DIM * sizeof *f->head);
    look(f);
    assert_int_equal(f->first, low);
    snprintf(greedy, sizeof greedy, "%d", low);
    write_golden(f, f->logits, greedy);
    assert_int_equal(verify(f, false, &v, &d), TW_OK);
    assert_true(v.tokens == 1 && v.close == 0);
    snprintf(greedy, sizeof greedy, "%d", high);
    write_golden(f, f->logits, greedy);
    assert_int_equal(verify(f, false, &v, &d), TW_ERR_MISMATCH);
    assert_non_null(strstr(d.message, "greedy token 0"));
    if (verify(f, true, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.tokens == 0 && v.close == 1);
    /* Far from as likely. */
    int least = 0;
    for (int i = 1; i < VOCAB; i++)
        if (f->logits[i] < f->logits[least]) least = i;
    snprintf(greedy, sizeof greedy, "%d", least);
    write_golden(f, f->logits, greedy);
    assert_int_equal(verify(f, true, &v, &d), TW_ERR_MISMATCH);
}

/* The loss of the prompt by sums of our own, and how far from it a reference may be. */
static void a_loss_may_be_off_by_the_tolerance_alone(void **state) {
    fixture *f = *state;
    tw_verdict v;
    tw_diag d;
    char loss[40];
    double nll;
    tw_engine *e = open_engine(f->m, false);
    assert_int_equal(tw_engine_score(e, prompt, N, &nll, &d), TW_OK);
    tw_engine_close(e);
    nll /= N - 1;
    static const double off[] = {0, 0.6e-4, -0.6e-4, 1.4e-4, -1.4e-4};
    for (int i = 0; i < 5; i++) {
        snprintf(loss, sizeof loss, "%.12g", nll / (1 + off[i]));
        write_odd(f, f->logits, NULL, "", loss);
        assert_int_equal(verify(f, false, &v, &d), i < 3 ? TW_OK : TW_ERR_MISMATCH);
        if (i == 1 || i == 2) assert_true(v.worst_loss > 0.5 && v.worst_loss < 0.7);
        if (i >= 3) assert_non_null(strstr(d.message, "cases[0]: loss over prompt tokens 3 is"));
    }
}

/* Perplexity's fields are demanded, each by name, before anything is computed; and it takes a tokenizer. */
static void what_perplexity_needs(void **state) {
    fixture *f = *state;
    static const struct {
        const char *fields, *says;
    } bad[] = {
        {"\"context\":8,\"tokens\":5,\"value\":2", "file, context and tokens are needed"},
        {"\"file\":\"../x\",\"context\":8,\"tokens\":5,\"value\":2", "file, context and tokens are needed"},
        {"\"file\":\"x\",\"context\":1,\"tokens\":5,\"value\":2", "file, context and tokens are needed"},
        {"\"file\":\"x\",\"context\":8,\"tokens\":0,\"value\":2", "file, context and tokens are needed"},
        {"\"file\":\"x\",\"tokens\":5,\"value\":2", "file, context and tokens are needed"},
        {"\"file\":\"x\",\"context\":8,\"tokens\":5,\"value\":\"2\"", "value is no number"},
        {"\"file\":\"x\",\"context\":2,\"tokens\":1,\"value\":2", "needs the model's tokenizer.json"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_buf b = {0};
        tw_verdict v;
        tw_diag d;
        tw_buf_printf(&b, "{\"cases\":[{\"prompt\":[1,5,9],\"logits_last\":[");
        for (int k = 0; k < VOCAB; k++) tw_buf_printf(&b, "%s%.9g", k ? "," : "", (double)f->logits[k]);
        tw_buf_printf(&b, "],\"greedy\":[],\"loss\":null}],\"perplexity\":{%s}}", bad[i].fields);
        test_write(f->folder, "golden.json", b.data, b.size);
        tw_buf_free(&b);
        assert_int_equal(verify(f, false, &v, &d), TW_ERR_FORMAT);
        if (!strstr(d.message, bad[i].says)) fail_msg("case %zu: %s", i, d.message);
        assert_string_equal(d.path, f->golden);
    }
}

/* The longest prompt with what follows it, or perplexity's context. */
static void a_reference_says_how_many_positions_it_takes(void **state) {
    fixture *f = *state;
    static const struct {
        const char *text;
        int64_t positions;
    } files[] = {
        {"{\"cases\":[{\"prompt\":[1,2,3],\"greedy\":[4,5,6,7,8]}]}", 8},
        {"{\"cases\":[{\"prompt\":[1,2,3],\"greedy\":[4]},{\"prompt\":[1,2,3,4],\"greedy\":[5]},{\"prompt\":[1]}]}", 5},
        {"{\"cases\":[{\"prompt\":[1,2,3],\"greedy\":[4]}],\"perplexity\":{\"context\":7}}", 7},
        {"{\"cases\":[{\"prompt\":[1,2,3],\"greedy\":[4]}],\"perplexity\":{\"context\":3}}", 4},
        {"{}", 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int64_t positions = -1;
        tw_diag d;
        test_write(f->folder, "golden.json", files[i].text, strlen(files[i].text));
        assert_int_equal(tw_golden_context(f->golden, &positions, &d), TW_OK);
        assert_int_equal(positions, files[i].positions);
    }
}

/* Two engines of one model agree in as many tokens as are asked for, at most half of the context. */
static void engines_are_compared_within_their_context(void **state) {
    fixture *f = *state;
    tw_engine *e = open_engine(f->m, false), *other = open_engine(f->m, false);
    tw_verdict v;
    tw_diag d;
    if (tw_engine_compare(e, other, VOCAB, 3, 4, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.cases == 3 && v.tokens == 12 && v.close == 0);
    if (tw_engine_compare(e, other, VOCAB, 2, 100, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.cases == 2 && v.tokens == 16);
    tw_engine_close(other);
    tw_engine_close(e);
}

/* Checking kernels leaves the engine as it was: at the start, with its own kernels. */
static void checking_kernels_changes_nothing(void **state) {
    fixture *f = *state;
    for (int limited = 0; limited < 2; limited++) {
        char before[2000], after[2000];
        tw_engine *e;
        tw_verdict v;
        tw_diag d;
        const tw_engine_options o = {.workers = 2, .context = 40, .limit_isa = limited, .isa = 0};
        if (tw_engine_open(&e, f->m, &o, &d) != TW_OK) fail_msg("%s", d.message);
        const float *logits;
        float first[VOCAB];
        assert_int_equal(tw_engine_feed(e, prompt, N, &logits, NULL, &d), TW_OK);
        memcpy(first, logits, sizeof first);
        tw_engine_explain(e, before, sizeof before);
        assert_int_equal(tw_engine_check_kernels(e, 20, 1, &v, &d), TW_OK);
        assert_int_equal(v.cases, 4);
        assert_true(v.worst_logit >= 0 && v.worst_logit <= 1);
        assert_int_equal(tw_engine_position(e), 0);
        assert_int_equal(tw_engine_feed(e, prompt, N, &logits, NULL, &d), TW_OK);
        tw_engine_explain(e, after, sizeof after);
        assert_memory_equal(first, logits, sizeof first);
        assert_string_equal(before, after);
        /* A short prompt is compared once. */
        assert_int_equal(tw_engine_check_kernels(e, 2, 1, &v, &d), TW_OK);
        assert_int_equal(v.cases, 2);
        tw_engine_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_tolerances_are_these, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_logit_may_be_off_by_the_tolerance_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_number_agrees_with_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reference_holds_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(close_tokens_are_a_gpus_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_loss_may_be_off_by_the_tolerance_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_perplexity_needs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reference_says_how_many_positions_it_takes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(engines_are_compared_within_their_context, set_up, tear_down),
        cmocka_unit_test_setup_teardown(checking_kernels_changes_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

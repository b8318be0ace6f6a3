/* SPDX-License-Identifier: Apache-2.0 */
/* Random configurations, some of them absurd: whatever a file says, it is refused with a reason, or gives a schedule
   that the check accepts and a machine that computes what the processor does. */
#include "support/support.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/random.h"
#include "tilewright/vm.h"
#include "vm/cuda/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = TEST_SANITIZED ? 30 : 100, VOCAB = 256 /* of all of them */, MOST_TOKENS = TW_CUDA_VM_TOKENS };

static const char *const folders[] = {"llama-linear-mqa", "llama-biases", "qwen3-bias", "mistral-window"};
static const char *const targets[] = {"sm_90a", "sm_90a", "sm_80", "sm_89"};

typedef struct draw {
    tw_random r;
    tw_buf text;
    const char *comma;
} draw;

static int64_t within(draw *x, int64_t least, int64_t most) {
    return least + (int64_t)tw_random_below(&x->r, (uint64_t)(most - least + 1));
}

/* One in `n`. */
static bool sometimes(draw *x, int n) {
    return tw_random_below(&x->r, (uint64_t)n) == 0;
}

static void put(draw *x, const char *name, const char *value) {
    tw_buf_printf(&x->text, "%s\"%s\": %s", x->comma, name, value);
    x->comma = ", ";
}

/* A number that means something, or now and then anything. */
static void number(draw *x, const char *name, int64_t least, int64_t most, int absurd) {
    static const char *const anything[] = {"-1", "1e9", "2.5", "\"four\"", "99999999999", "null", "17", "4097", "33"};
    char text[32];
    if (sometimes(x, 2)) return;
    snprintf(text, sizeof text, "%lld", (long long)within(x, least, most));
    put(x, name, sometimes(x, absurd) ? anything[within(x, 0, 8)] : text);
}

static void word(draw *x, const char *name, const char *const *words, int n) {
    if (sometimes(x, 2)) put(x, name, words[within(x, 0, n - 1)]);
}

static void configuration(draw *x) {
    static const char *const kv[] = {"\"auto\"", "\"f32\"", "\"f16\"", "\"bf16\""};
    static const char *const edges[] = {"\"auto\"", "\"counters\"", "\"data\""};
    static const char *const flags[] = {"true", "false"};
    static const char *const weights[] = {"\"native\"", "\"native\"", "\"int8\"", "\"int4\""};
    x->comma = "";
    tw_buf_str(&x->text, "{");
    number(x, "workers", 1, 3, 40);
    number(x, "tokens", 1, 9, 40);
    number(x, "max_seq", 12, 40, 40);
    number(x, "row_unit", 2, 24, 40);
    number(x, "kv_splits", 1, 5, 40);
    number(x, "row_blocks", 1, sometimes(x, 4) ? 2 : 1, 40);
    number(x, "down_splits", 1, 7, 40);
    word(x, "kv", kv, 4);
    word(x, "weights", weights, 4);
    word(x, "all_logits", flags, 2);
    word(x, "group_heads", flags, 2);
    if (sometimes(x, 40)) put(x, "threads", "4");
    if (sometimes(x, 5)) {
        tw_buf_str(&x->text, "}");
        return;
    }
    tw_buf_printf(&x->text, "%s\"machine\": {", x->comma);
    x->comma = "";
    number(x, "warps", 1, 3, 30);
    number(x, "blocks", 1, 4, 30);
    number(x, "stages", 1, 8, 30);
    number(x, "window", 1, 8, 30);
    number(x, "ahead", 1, 8, 30);
    word(x, "edges", edges, 3);
    if (sometimes(x, 30)) put(x, "spin_limit", "-3");
    tw_buf_str(&x->text, "}}");
}

typedef struct tally {
    int unread, not_lowered, not_built, ran, small, counters, flagged;
} tally;

/* A refusal has a reason. */
static bool refused(tw_status st, const tw_diag *d, const char *text) {
    if (st == TW_OK) return false;
    const bool meant = st == TW_ERR_FORMAT || st == TW_ERR_USAGE || st == TW_ERR_UNSUPPORTED;
    if (!meant || !*d->message) fail_msg("%s: %d: %s", text, st, d->message);
    return true;
}

static void compare(const tw_vm_step *a, const tw_vm_step *b, int64_t n, double most, const char *text) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(b->logits[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a->logits[i] - b->logits[i]) <= most * largest + 1e-6))
            fail_msg("%s: logit %d is %g, not %g", text, (int)i, a->logits[i], b->logits[i]);
}

static void steps(tw_cuda_vm *gpu, int id, const tw_model *m, const tw_lowering *l, const char *text) {
    const int T = l->tokens ? (int)l->tokens : 1;
    const tw_lowering plain = {.workers = 1,
                               .tokens = T,
                               .max_seq = l->max_seq,
                               .weights = l->weights,
                               .group = l->group,
                               .all_logits = l->all_logits};
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true, .dequantise = l->weights != TW_F32};
    static const int32_t tokens[2 * MOST_TOKENS] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
    const double most = l->weights != TW_F32 ? 3e-2 : l->kv == TW_F32 ? 5e-5 : l->kv == TW_F16 ? 4e-3 : 3e-2;
    tw_schedule *s = NULL;
    tw_checked *c = NULL;
    tw_vm *cpu;
    tw_diag d;
    int reference;
    assert_int_equal(tw_schedule_lower(&s, m, &plain, &d), TW_OK);
    assert_int_equal(tw_schedule_check(&c, &s, NULL, &d), TW_OK);
    assert_int_equal(tw_vm_open(&cpu, m, &o, &d), TW_OK);
    if (tw_vm_load(cpu, c, &reference, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
    for (int64_t i = 0, pos = 0; i < 2; i++) {
        const int64_t n = i ? (T + 1) / 2 : T;
        if (pos + n > l->max_seq) break;
        tw_vm_step a = {.program = id, .tokens = tokens + pos, .n = n, .pos = pos, .length = l->max_seq}, b = a;
        b.program = reference;
        if (tw_cuda_vm_run(gpu, &a, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
        if (tw_vm_run(cpu, &b, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
        compare(&a, &b, VOCAB * (l->all_logits ? n : 1), most, text);
        pos += n;
    }
    tw_vm_close(cpu);
    tw_checked_free(c);
}

static void try(const char *text, const char *path, int number_of, tally *t) {
    tw_schedule_config c = {0};
    tw_schedule *s = NULL;
    tw_checked *checked = NULL;
    tw_cuda_vm *vm = NULL;
    tw_model *m = NULL;
    tw_report report = {0};
    tw_diag d;
    char model[4096];
    int id;
    tw_diag_clear(&d);
    if (refused(tw_schedule_config_read(&c, path, &d), &d, text)) {
        t->unread++;
        return;
    }
    snprintf(model, sizeof model, TEST_DATA "/models/%s", folders[number_of % 4]);
    assert_int_equal(tw_model_open(&m, model, &d), TW_OK);
    /* What is chosen instead is large, and slow to emulate; it is run elsewhere. */
    if (!c.machine.warps) c.machine.warps = 1;
    if (!c.lowering.max_seq) c.lowering.max_seq = 24;
    const tw_cuda_vm_options o = {.emulate = true,
                                  .target = targets[number_of / 4 % 4],
                                  .seed = (uint64_t)number_of,
                                  .dequantise = c.lowering.weights != TW_F32,
                                  .tuning = c.machine};
    assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
    tw_cuda_vm_lowering(vm, &c.lowering);
    if (refused(tw_schedule_lower(&s, m, &c.lowering, &d), &d, text)) {
        t->not_lowered++;
    } else {
        if (tw_schedule_check(&checked, &s, &report, &d) != TW_OK)
            fail_msg("%s: lowered to what the check refuses: %s", text, report.count ? report.findings[0].text : "");
        const tw_status fits = tw_cuda_vm_fits(vm, tw_checked_schedule(checked), &d);
        tw_diag_clear(&d);
        const tw_status st = tw_cuda_vm_load(vm, checked, &id, &d);
        assert_int_equal(fits, st);
        if (refused(st, &d, text)) {
            t->not_built++;
        } else {
            steps(vm, id, m, &c.lowering, text);
            t->ran++;
            t->small += o.target[3] == '8';
            t->counters += c.machine.edges == TW_EDGES_COUNTERS;
            t->flagged += c.machine.edges == TW_EDGES_DATA;
        }
    }
    tw_report_free(&report);
    tw_cuda_vm_close(vm);
    tw_checked_free(checked);
    tw_schedule_free(s);
    tw_model_close(m);
}

static void whatever_is_asked_for(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[4096];
    tally t = {0};
    snprintf(path, sizeof path, "%s/c.json", folder);
    for (int i = 0; i < CASES; i++) {
        draw x = {.r = tw_random_seed(1000 + (uint64_t)i)};
        tw_diag d;
        configuration(&x);
        assert_int_equal(tw_file_write(path, x.text.data, x.text.size, &d), TW_OK);
        try(x.text.data, path, i, &t);
        tw_buf_free(&x.text);
    }
    print_message(
        "%d ran (%d without bulk copies, %d with counters, %d with data as flag), %d could not be read, %d lowered, "
        "%d built\n",
        t.ran, t.small, t.counters, t.flagged, t.unread, t.not_lowered, t.not_built);
    assert_true(t.ran >= CASES / 4 && t.small && t.counters && t.flagged);
    assert_true(t.unread && t.not_lowered && t.not_built);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

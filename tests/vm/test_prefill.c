/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts' kernels by themselves: with rows that the device counts, in steps of any size, and steps of the machine that
   decodes among them; what they refuse; and their PTX. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "base/diag.h"
#include "kernels/gemm/gemm.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "vm/prefill/generate.h"
#include "vm/prefill/prefill.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 48, MAX_VOCAB = 256 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

/* An emulated machine with a program that decodes, and one for prompts. */
typedef struct machine {
    tw_cuda_vm *vm;
    tw_checked *decode, *prompt;
    tw_prefill *prefill;
    int id;
} machine;

static tw_status try_open(machine *r, const tw_model *m, tw_lowering decode, tw_lowering prompt, const char *target,
                          const tw_prefill_options *o, tw_diag *d) {
    *r = (machine){0};
    const tw_cuda_vm_options options = {.emulate = true, .workers = 3, .target = target, .tuning = {.warps = 2}};
    if (tw_cuda_vm_open(&r->vm, m, &options, d) != TW_OK) fail_msg("%s", d->message);
    if (o->many) tw_cuda_vm_reserve(r->vm, tw_checked_schedule(o->many)->sequences);
    decode.tokens = 1;
    decode.max_seq = MAX_SEQ;
    tw_cuda_vm_lowering(r->vm, &decode);
    r->decode = test_lower(m, decode, MAX_SEQ);
    if (tw_cuda_vm_load(r->vm, r->decode, &r->id, d) != TW_OK) fail_msg("%s", d->message);
    prompt.kv = decode.kv;
    r->prompt = test_lower(m, prompt, MAX_SEQ);
    return tw_prefill_open(&r->prefill, r->vm, r->id, r->prompt, o, d);
}

static void end(machine *r) {
    tw_prefill_close(r->prefill);
    tw_cuda_vm_close(r->vm);
    tw_checked_free(r->decode);
    tw_checked_free(r->prompt);
}

static const tw_lowering list = {.workers = 1, .tokens = MAX_SEQ, .kv_splits = 1, .row_blocks = 1};

static void text(int32_t ids[MAX_SEQ], int64_t vocab) {
    for (int i = 0; i < MAX_SEQ; i++) ids[i] = (int32_t)((i * i * 7 + i * 13 + 5) % vocab);
}

/* Runs a text in steps of these sizes (0: the machine that decodes takes one position), then one token more. */
static void run(const machine *r, const int *steps, int n, float *logits, int64_t vocab) {
    int32_t ids[MAX_SEQ];
    tw_diag d;
    int64_t pos = 0;
    tw_vm_step s = {0};
    text(ids, vocab);
    for (int i = 0; i <= n; i++) {
        s = (tw_vm_step){.program = r->id, .tokens = ids + pos, .n = 1, .pos = pos, .length = MAX_SEQ};
        const bool prompt = i < n && steps[i];
        if (prompt) s.n = steps[i];
        const tw_status st = prompt ? tw_prefill_run(r->prefill, 0, &s, false, &d) : tw_cuda_vm_run(r->vm, &s, &d);
        if (st != TW_OK) fail_msg("%s", d.message);
        pos += prompt ? steps[i] : 1;
    }
    memcpy(logits, s.logits, (size_t)vocab * sizeof *logits);
}

/* Runs so many tokens of the text on a processor. */
static void run_cpu(const tw_model *m, int n, float *logits) {
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    tw_checked *program = test_lower(m, (tw_lowering){.workers = 1, .tokens = MAX_SEQ}, MAX_SEQ);
    int32_t ids[MAX_SEQ];
    tw_vm_step s = {.tokens = ids, .n = n, .length = MAX_SEQ};
    tw_vm *vm;
    tw_diag d;
    text(ids, m->vocab);
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK || tw_vm_load(vm, program, &s.program, &d) != TW_OK ||
        tw_vm_run(vm, &s, &d) != TW_OK)
        fail_msg("%s", d.message);
    memcpy(logits, s.logits, (size_t)m->vocab * sizeof *logits);
    tw_vm_close(vm);
    tw_checked_free(program);
}

static void agrees(const char *folder, const tw_prefill_options *o, const int *steps, int n, double tolerance) {
    tw_model *m = open_model(folder);
    machine r;
    tw_diag d;
    static float got[MAX_VOCAB], want[MAX_VOCAB];
    int length = 0;
    double off = 0, largest = 0;
    for (int i = 0; i < n; i++) length += steps[i] ? steps[i] : 1;
    if (try_open(&r, m, (tw_lowering){0}, list, NULL, o, &d) != TW_OK) fail_msg("%s: %s", folder, d.message);
    run(&r, steps, n, got, m->vocab);
    run_cpu(m, length + 1, want);
    for (int64_t i = 0; i < m->vocab; i++) {
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    if (!(off <= tolerance * largest)) fail_msg("%s: %g off, of %g", folder, off, largest);
    end(&r);
    tw_model_close(m);
}

/* Steps of all sizes follow one another, whether products count rows or have a fixed number of them. */
static void steps_of_all_sizes(void **state) {
    (void)state;
    static const int steps[] = {5, 0, 33, 1, 3};
    const tw_prefill_options counted = {.masked = 1}, unpacked = {.masked = 40, .unpack = true};
    agrees("llama-linear-mqa", &counted, steps, 5, 4e-3);
    agrees("qwen2-window", &unpacked, steps, 5, 2e-2);
}

/* Products do what they can of norms and rope, also of rows that the device counts, and then these have no kernels. */
static void norms_and_rope_are_in_products(void **state) {
    (void)state;
    static const int steps[] = {5, 0, 33, 1, 3};
    static const tw_prefill_options ways[] = {{0}, {.masked = 1}, {.apart = true}};
    for (int i = 0; i < (TEST_SANITIZED ? 1 : 3); i++) {
        static char said[1 << 16];
        tw_model *m = open_model("llama-yarn-mha");
        machine r;
        tw_diag d;
        static float got[MAX_VOCAB];
        if (try_open(&r, m, (tw_lowering){0}, list, NULL, &ways[i], &d) != TW_OK) fail_msg("%s", d.message);
        run(&r, steps, 5, got, m->vocab);
        tw_prefill_explain(r.prefill, said, sizeof said);
        assert_int_equal(!strstr(said, "prefill_norm"), !ways[i].apart);
        assert_int_equal(!strstr(said, "prefill_rope"), !ways[i].apart);
        assert_int_equal(!strstr(said, " rope=1"), ways[i].apart);
        assert_int_equal(!strstr(said, " sums="), ways[i].apart);
        assert_int_equal(!strstr(said, " scaled=1"), ways[i].apart);
        end(&r);
        tw_model_close(m);
        agrees("llama-yarn-mha", &ways[i], steps, 5, 2e-2);
    }
}

/* A prompt's end has the last position's logits and token, as the machine that decodes has them: after one step and
   after several, behind a past and without, and however few positions there are. */
static void ends_like_decoding(tw_model *m, const char *folder, double tolerance) {
    static const int sizes[] = {MAX_SEQ - 16, 1, 2, 12};
    machine r;
    tw_diag d;
    int32_t ids[MAX_SEQ];
    tw_lowering small = list;
    small.tokens = 16;
    text(ids, m->vocab);
    if (try_open(&r, m, (tw_lowering){0}, small, NULL, &(tw_prefill_options){0}, &d) != TW_OK)
        fail_msg("%s", d.message);
    int64_t pos = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; pos += sizes[i++]) {
        tw_vm_step s = {.tokens = ids + pos, .n = sizes[i], .pos = pos, .length = MAX_SEQ}, one = s;
        if (tw_prefill_run(r.prefill, 0, &s, true, &d) != TW_OK) fail_msg("%s", d.message);
        one.tokens += one.n - 1;
        one.pos += one.n - 1;
        one.n = 1;
        one.program = r.id;
        if (tw_cuda_vm_run(r.vm, &one, &d) != TW_OK) fail_msg("%s", d.message);
        double off = 0, largest = 0;
        for (int64_t k = 0; k < m->vocab; k++) {
            off = fmax(off, fabs((double)s.logits[k] - (double)one.logits[k]));
            largest = fmax(largest, fabs((double)one.logits[k]));
            if (s.logits[k] > s.logits[s.token]) fail_msg("%s: token %d is not the likeliest", folder, s.token);
        }
        if (!(off <= tolerance * largest)) fail_msg("%s, from %d on: %g off, of %g", folder, (int)pos, off, largest);
    }
    tw_vm_step s = {.tokens = ids + pos, .n = 1, .pos = pos, .no_logits = true, .token = -1};
    if (tw_prefill_run(r.prefill, 0, &s, false, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(s.token, -1);
    assert_null(s.logits);
    end(&r);
    tw_model_close(m);
}

static void ends_are_those_of_decoding(void **state) {
    (void)state;
    const test_llama odd = {.dim = 1032, .heads = 2, .kv_heads = 1, .head_dim = 8, .ffn = 16, .vocab = 229};
    ends_like_decoding(open_model("llama-linear-mqa"), "llama-linear-mqa", 4e-3);
    if (!TEST_SANITIZED) ends_like_decoding(open_model("qwen2-window"), "qwen2-window", 2e-2);
    ends_like_decoding(open_model("gpt2-relu-untied"), "gpt2-relu-untied", 4e-3);
    static const char *const newer[] = {"gemma2-caps", "gemma3-ropes",   "gemma3-wide",
                                        "phi3-window", "smollm3-norope", "olmo2-norms"};
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i += TEST_SANITIZED ? 3 : 1)
        ends_like_decoding(open_model(newer[i]), newer[i], 2e-2);
    ends_like_decoding(test_open_llama(&odd), "a vocabulary that 8 does not divide", 1e-4);
}

/* Behind the only layer's keys and values a step without ends computes nothing, and one with an end a row. */
static void ends_are_computed_alone(void **state) {
    (void)state;
    const test_llama shape = {.dim = 64, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 96};
    static char said[1 << 16];
    static const char *const behind[] = {"prefill_attend type=f32 tokens=", " n=192 ", " n=64 k=96 "};
    tw_model *m = test_open_llama(&shape);
    machine r;
    tw_diag d;
    int32_t ids[MAX_SEQ];
    text(ids, m->vocab);
    if (try_open(&r, m, (tw_lowering){0}, list, NULL, &(tw_prefill_options){0}, &d) != TW_OK) fail_msg("%s", d.message);
    for (int ends = 0; ends < 2; ends++) {
        tw_vm_step s = {.tokens = ids, .n = 20, .length = MAX_SEQ};
        if (tw_prefill_run(r.prefill, 0, &s, ends, &d) != TW_OK) fail_msg("%s", d.message);
        tw_prefill_explain(r.prefill, said, sizeof said);
        assert_non_null(strstr(said, "m=32 n=128 k=64"));
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            int found = 0;
            for (char *line = said, *end; (end = strchr(line, '\n')); line = end + 1) {
                *end = 0;
                const bool is = strstr(line, behind[i]);
                if (is && !strstr(line, " m=1 ") && !strstr(line, " tokens=1 ")) fail_msg("%s", line);
                found += is;
                *end = '\n';
            }
            if (found != ends) fail_msg("%s: %d kernels of %s", ends ? "with an end" : "without", found, behind[i]);
        }
    }
    end(&r);
    tw_model_close(m);
}

/* A machine for many sequences. */
static tw_status open_many(machine *r, const tw_model *m, tw_checked **many, int64_t tokens, tw_diag *d) {
    enum { SEQUENCES = 3 };
    tw_lowering prompt = list;
    prompt.tokens = tokens;
    const tw_lowering l = {.workers = 1, .sequences = SEQUENCES, .tokens = SEQUENCES, .kv_splits = 1, .row_blocks = 1};
    *many = test_lower(m, l, MAX_SEQ);
    return try_open(r, m, (tw_lowering){0}, prompt, NULL,
                    &(tw_prefill_options){.many = *many, .o_parts = 2, .down_parts = 2}, d);
}

/* Feeds a prompt, then each of its tokens but the last, and checks that they follow. */
static void says_the_same(machine *r, const int32_t *ids, int64_t n, const int32_t *said, int count) {
    tw_diag d;
    for (int i = 0; i < count; i++) {
        tw_vm_step s = {.tokens = i ? said + i - 1 : ids, .n = i ? 1 : n, .pos = i ? n + i - 1 : 0, .length = MAX_SEQ};
        if (tw_prefill_run(r->prefill, 0, &s, true, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(s.token, said[i]);
    }
}

/* Steps of many sequences, one begun before the tokens of the other are known, have the tokens of one alone. */
static void steps_of_many(void **state) {
    (void)state;
    enum { N = 9, TOKENS = 2 };
    tw_model *m = open_model("llama-linear-mqa");
    tw_checked *many;
    machine r;
    tw_diag d;
    int32_t ids[MAX_SEQ], said[TOKENS], token[1];
    text(ids, m->vocab);
    if (open_many(&r, m, &many, MAX_SEQ, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_sample_rules greedy = {0};
    const tw_prefill_part first[] = {{0, 0, 2, ids + 7, NULL}, {2, 0, N, ids, &greedy}},
                          second = {2, N, 1, NULL, &greedy};
    const tw_prefill_part wrong[][2] = {{first[1], first[0]},
                                        {first[0], {2, MAX_SEQ - 1, 2, ids, NULL}},
                                        {first[0], {3, 0, 1, ids, NULL}},
                                        {first[0], {1, 0, 2, NULL, NULL}},
                                        {first[0], {1, 0, 1, (const int32_t[]){-1}, NULL}},
                                        {{0, 0, MAX_SEQ, ids, NULL}, {1, 0, 1, ids, NULL}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tw_prefill_begin(r.prefill, wrong[i], 2, &d), TW_ERR_USAGE);
    assert_int_equal(tw_prefill_begin(r.prefill, first, 0, &d), TW_ERR_USAGE);
    assert_int_equal(tw_prefill_end(r.prefill, token, &d), TW_ERR_USAGE);
    if (tw_prefill_begin(r.prefill, first, 2, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_prefill_begin(r.prefill, &second, 1, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_prefill_begin(r.prefill, &second, 1, &d), TW_ERR_USAGE);
    for (int i = 0; i < TOKENS; i++)
        if (tw_prefill_end(r.prefill, &said[i], &d) != TW_OK) fail_msg("%s", d.message);
    /* The same by steps of one sequence, of this program and of one that has no others. */
    says_the_same(&r, ids, N, said, TOKENS);
    tw_prefill_close(r.prefill);
    r.prefill = NULL;
    const tw_prefill_options one = {0};
    if (tw_prefill_open(&r.prefill, r.vm, r.id, r.prompt, &one, &d) != TW_OK) fail_msg("%s", d.message);
    says_the_same(&r, ids, N, said, TOKENS);
    assert_int_equal(tw_prefill_begin(r.prefill, &second, 1, &d), TW_ERR_USAGE);
    end(&r);
    tw_checked_free(many);
    tw_model_close(m);
}

/* Steps of fewer rows than lists have ends. */
static void few_rows_of_many(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    tw_checked *many;
    machine r;
    tw_diag d;
    int32_t ids[MAX_SEQ], said[3] = {0};
    text(ids, m->vocab);
    if (open_many(&r, m, &many, 2, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_sample_rules greedy = {0};
    const tw_prefill_part parts[][2] = {{{0, 0, 1, ids, NULL}, {2, 0, 2, ids, &greedy}},
                                        {{0, 1, 1, ids + 1, &greedy}, {1, 0, 1, ids, &greedy}}};
    for (int i = 0; i < 2; i++)
        if (tw_prefill_begin(r.prefill, parts[i], 2, &d) != TW_OK || tw_prefill_end(r.prefill, said + i, &d) != TW_OK)
            fail_msg("%s", d.message);
    assert_int_equal(said[1], said[0]);
    end(&r);
    tw_checked_free(many);
    tw_model_close(m);
}

/* A tail's products in parts are of its ends alone, and are added to rows of its own. */
static void parts_of_many(void **state) {
    (void)state;
    enum { N = 20 /* More rows than the tail has. */ };
    static char said[1 << 15];
    tw_model *m;
    tw_checked *many;
    machine r;
    tw_diag d;
    int32_t ids[MAX_SEQ], token[2];
    if (tw_model_synthetic(&m, "qwen3-tiny", TW_BF16, 3, &d) != TW_OK) fail_msg("%s", d.message);
    text(ids, m->vocab);
    if (open_many(&r, m, &many, MAX_SEQ, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_sample_rules greedy = {0};
    const tw_prefill_part parts[] = {{0, 0, N, ids, &greedy}, {2, 0, 3, ids + 7, &greedy}};
    if (tw_prefill_begin(r.prefill, parts, 2, &d) != TW_OK || tw_prefill_end(r.prefill, token, &d) != TW_OK)
        fail_msg("%s", d.message);
    tw_prefill_explain(r.prefill, said, sizeof said);
    assert_non_null(strstr(said, "m=16 n=64 k=1024 tb=1 addends=2 "));
    assert_non_null(strstr(said, "m=32 n=64 k=160 tb=1 addends=2 "));
    tw_prefill_close(r.prefill);
    const tw_prefill_options whole = {.o_parts = 1, .down_parts = 1};
    if (tw_prefill_open(&r.prefill, r.vm, r.id, r.prompt, &whole, &d) != TW_OK) fail_msg("%s", d.message);
    says_the_same(&r, ids, N, token, 1);
    says_the_same(&r, ids + 7, 3, token + 1, 1);
    end(&r);
    tw_checked_free(many);
    tw_model_close(m);
}

static void refused(const tw_model *m, tw_lowering decode, tw_lowering prompt, const char *target, const char *why) {
    machine r;
    tw_diag d;
    const tw_status st = try_open(&r, m, decode, prompt, target, &(tw_prefill_options){0}, &d);
    if (st != TW_ERR_UNSUPPORTED || !strstr(d.message, why)) fail_msg("%d, \"%s\", not \"%s\"", st, d.message, why);
    assert_null(r.prefill);
    end(&r);
}

static void what_is_not_covered_is_refused(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    tw_lowering l = list;
    refused(m, (tw_lowering){0}, list, "sm_80", "targets without products by warpgroups");
    l.workers = 2;
    refused(m, (tw_lowering){0}, l, NULL, "schedules of several workers");
    l = list;
    l.kv_splits = 2;
    refused(m, (tw_lowering){0}, l, NULL, "attention that is dealt out");
    refused(m, (tw_lowering){.row_unit = 4}, list, NULL, "rows of a matrix are not dealt out in eights");
    tw_model_close(m);
}

static void wrong_steps_are_refused(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    machine r;
    tw_diag d;
    static const int32_t ids[MAX_SEQ + 1], wrong[2] = {1, 256};
    tw_vm_step steps[] = {{.tokens = ids, .n = 0},
                          {.tokens = ids, .n = MAX_SEQ + 1},
                          {.tokens = ids, .n = 2, .pos = MAX_SEQ - 1},
                          {.tokens = wrong, .n = 2}};
    if (try_open(&r, m, (tw_lowering){0}, list, NULL, &(tw_prefill_options){0}, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < 4; i++) assert_int_equal(tw_prefill_run(r.prefill, 0, &steps[i], true, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "token 256"));
    const tw_vm_step sound = {.tokens = ids, .n = 2};
    for (int i = -1; i < 2; i += 2) {
        tw_vm_step step = sound;
        assert_int_equal(tw_prefill_run(r.prefill, i, &step, true, &d), TW_ERR_USAGE);
    }
    end(&r);
    tw_model_close(m);
}

/* ---- PTX */

static void add_job(const tw_prefill_problem *p, tw_buf *ptx, tw_ptx_job *job) {
    const tw_target *target = tw_target_find("sm_90a");
    tw_plan *plan = calloc(1, sizeof *plan);
    tw_diag d;
    assert_non_null(plan);
    if (tw_prefill_make(p, plan, target, &d) != TW_OK) fail_msg("%s: %s", p->kind->name, d.message);
    if (tw_ptx_print(ptx, plan->kernel, target, &d) != TW_OK) fail_msg("%s: %s", p->kind->name, d.message);
    *job = (tw_ptx_job){.ptx = ptx->data, .bytes = ptx->size};
    tw_kernel_free(plan->kernel);
    free(plan);
}

static void kernels_assemble(void **state) {
    (void)state;
    enum { MANY = 8, KINDS = 15, FORMATS = 6, JOBS = KINDS + 2 * FORMATS };
    /* From number MANY on, of many sequences. */
    static const tw_prefill_kind *const kinds[KINDS] = {
        &tw_prefill_embed, &tw_prefill_norm,   &tw_prefill_rope,     &tw_prefill_attend, &tw_prefill_gate,
        &tw_prefill_best,  &tw_prefill_take,   &tw_prefill_sum_norm, &tw_prefill_embed,  &tw_prefill_norm,
        &tw_prefill_rope,  &tw_prefill_attend, &tw_prefill_values,   &tw_prefill_pick,   &tw_prefill_take};
    static const struct {
        tw_dtype dtype;
        int group;
    } formats[FORMATS] = {{TW_BF16, 0}, {TW_F16, 0}, {TW_F32, 0}, {TW_I8, 0}, {TW_I8, 64}, {TW_I4, 32}};
    char path[4096];
    const bool have = tw_ptxas_find("ptxas", path, sizeof path);
    const tw_ptx_compiler by = {.target = "sm_90a", .ptxas = path};
    tw_buf ptx[JOBS] = {{0}};
    tw_ptx_job jobs[JOBS];
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-8b", TW_BF16, 1, &d), TW_OK);
    for (int i = 0; i < JOBS; i++) {
        const int format = (i - KINDS) % FORMATS;
        tw_prefill_problem p = {.kind = i < KINDS             ? kinds[i]
                                        : i < KINDS + FORMATS ? &tw_prefill_unpack
                                                              : &tw_prefill_head};
        tw_prefill_shape *s = &p.shape;
        *s = (tw_prefill_shape){.m = m, .type = TW_T_bf16, .kv = TW_BF16, .tokens = 512, .max_seq = 4096};
        s->rows = m->dim;
        s->columns = i < KINDS + FORMATS ? m->ffn_dim : m->dim;
        s->bias = s->early = true;
        s->parts = p.kind == &tw_prefill_sum_norm ? 8 : 0;
        s->many = i >= MANY && i < KINDS;
        s->cut_list = 512;
        if (s->many) s->rows = m->vocab;
        if (i >= KINDS) assert_true(tw_mega_format_of(formats[format].dtype, formats[format].group, &s->format));
        s->warps = 8;
        s->blocks = 4;
        s->run = 16;
        s->stage_bytes = 8 * 4 * (TW_MEGA_PIECE + s->format.scale_bytes) + s->format.row_bytes;
        add_job(&p, &ptx[i], &jobs[i]);
    }
    if (have) tw_ptx_compile_all_by(&by, jobs, JOBS, 2);
    for (int i = 0; i < JOBS; i++) {
        const tw_cubin *c = &jobs[i].cubin;
        if (have && (jobs[i].status != TW_OK || c->spill_bytes))
            fail_msg("kernel %d: %s; %d bytes spilt", i, jobs[i].diag.message, c->spill_bytes);
        tw_cubin_free(&jobs[i].cubin);
        tw_buf_free(&ptx[i]);
    }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_all_sizes),
        cmocka_unit_test(norms_and_rope_are_in_products),
        cmocka_unit_test(ends_are_those_of_decoding),
        cmocka_unit_test(ends_are_computed_alone),
        cmocka_unit_test(steps_of_many),
        cmocka_unit_test(few_rows_of_many),
        cmocka_unit_test(parts_of_many),
        cmocka_unit_test(what_is_not_covered_is_refused),
        cmocka_unit_test(wrong_steps_are_refused),
        cmocka_unit_test(kernels_assemble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

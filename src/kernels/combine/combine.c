/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread sums up to 16 bytes of a row: it loads its piece of all rows, and adds them up then. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/combine/combine.h"

#include "base/diag.h"
#include "base/divide.h"
#include "base/random.h"
#include "ir/builder.h"
#include "ir/passes/passes.h"
#include "ir/value.h"
#include "kernels/parts/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, PIECE = 16 /* Bytes of a piece at most. */, MOST_RUN = 8 };

static int element_bytes(const tw_combine_problem *p) {
    return tw_type_bits(p->type) / 8;
}

/* Returns the elements of a piece. Pieces do not cross rows. */
static int run_of(const tw_combine_problem *p) {
    int n = PIECE / element_bytes(p);
    while (p->n % n) n /= 2;
    return n;
}

static int64_t pieces_of(const tw_combine_problem *p) {
    return p->n / run_of(p);
}

tw_status tw_combine_parse(tw_combine_problem *p, char *words, tw_diag *diag) {
    char *save = NULL;
    int64_t early = 0;
    *p = (tw_combine_problem){.type = TW_T_bf16};
    const struct {
        const char *name;
        int64_t *to, least, most;
    } numbers[] = {{"tokens", &p->tokens, 1, INT32_MAX / 2},
                   {"top", &p->top, 1, TW_COMBINE_TOP},
                   {"n", &p->n, 1, INT32_MAX / 2},
                   {"early", &early, 0, 1}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '='), *end = NULL;
        if (value) *value++ = 0;
        int i = 0;
        while (i < NUMBERS && strcmp(numbers[i].name, w) != 0) i++;
        if (value && !strcmp(w, "type")) {
            p->type = !strcmp(value, "f32") ? TW_T_f32 : !strcmp(value, "f16") ? TW_T_f16 : TW_T_bf16;
            if (strcmp(value, tw_type_name(p->type)) != 0)
                return tw_fail(diag, TW_ERR_USAGE, "\"type=%s\": sums are of f32, f16 or bf16", value);
            continue;
        }
        if (!value || i == NUMBERS)
            return tw_fail(diag, TW_ERR_USAGE, "\"%s\": says nothing of sums; type, tokens, top, n and early do", w);
        *numbers[i].to = strtoll(value, &end, 10);
        if (end == value || *end) return tw_fail(diag, TW_ERR_USAGE, "\"%s=%s\": no such value", w, value);
    }
    for (int i = 0; i < NUMBERS; i++)
        if (*numbers[i].to < numbers[i].least || *numbers[i].to > numbers[i].most)
            return tw_fail(diag, TW_ERR_USAGE, "%s = %lld is not within %lld..%lld", numbers[i].name,
                           (long long)*numbers[i].to, (long long)numbers[i].least, (long long)numbers[i].most);
    if (p->tokens * pieces_of(p) > INT32_MAX - THREADS)
        return tw_fail(diag, TW_ERR_USAGE, "more threads than are numbered in 32 bits");
    p->early = early;
    return TW_OK;
}

/* Loads or stores a piece's elements as f32, 16-bit ones in pairs where there are several. */
static tw_attrs access_of(const tw_combine_problem *p, int run) {
    const tw_type pair = p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    const bool pairs = p->type != TW_T_f32 && run > 1;
    return (tw_attrs){.type = pairs ? pair : p->type, .vec = pairs ? run / 2 : run};
}

static tw_val element(tw_builder *b, const tw_combine_problem *p, tw_type loaded, const tw_val *raw, int i) {
    return loaded == p->type ? tw_part_widen(b, p->type, raw[i]) : tw_part_half(b, loaded, raw[i / 2], i % 2);
}

static void store(tw_builder *b, const tw_combine_problem *p, int run, tw_val to, const tw_val *sums) {
    const tw_attrs at = access_of(p, run);
    const tw_opcode narrow = p->type == TW_T_f16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32;
    tw_val raw[MOST_RUN];
    for (int i = 0; i < run; i++) {
        if (at.type == (int)p->type) raw[i] = p->type == TW_T_f32 ? sums[i] : tw_unary(b, narrow, sums[i]);
        if (at.type != (int)p->type && i % 2) raw[i / 2] = tw_part_pair(b, (tw_type)at.type, sums[i - 1], sums[i]);
    }
    tw_st(b, at, to, raw);
}

static void build(tw_builder *b, const tw_combine_problem *p) {
    const int run = run_of(p), bytes = run * element_bytes(p);
    tw_val x = tw_pointer_add(b, "x", bytes, false), y = tw_pointer_add(b, "y", bytes, false);
    tw_val all = tw_parameter_add(b, "all", TW_T_i32), pieces = tw_parameter_add(b, "pieces", TW_T_i32);
    tw_val row_bytes = tw_parameter_add(b, "row_bytes", TW_T_i64);
    tw_val number = tw_add(b, tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), THREADS), tw_sreg(b, TW_SREG_tid_x));
    if (p->early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    TW_IF (b, tw_lt(b, number, all)) {
        const tw_attrs at = access_of(p, run);
        tw_val token = tw_binary(b, TW_OP_div_u32, number, pieces), piece = tw_sub(b, number, tw_mul(b, token, pieces));
        tw_val place = tw_mul_imm(b, tw_widen(b, piece), bytes), row = tw_mul(b, tw_widen(b, token), row_bytes);
        tw_val from = tw_add(b, x, tw_add(b, place, tw_mul_imm(b, row, p->top))), sums[MOST_RUN];
        tw_val raw[TW_COMBINE_TOP][MOST_RUN] = {{{0}}};
        for (int r = 0; r < p->top; r++) tw_ld_vec(b, at, tw_add(b, from, tw_mul_imm(b, row_bytes, r)), raw[r]);
        for (int i = 0; i < run; i++) {
            sums[i] = element(b, p, (tw_type)at.type, raw[0], i);
            for (int r = 1; r < p->top; r++) sums[i] = tw_add(b, sums[i], element(b, p, (tw_type)at.type, raw[r], i));
        }
        store(b, p, run, tw_add(b, y, tw_add(b, place, row)), sums);
    }
}

tw_kernel *tw_combine_make(const tw_combine_problem *p, const tw_target *t, bool verify, tw_diag *diag) {
    if (p->early && t->sm < 90) {
        tw_fail(diag, TW_ERR_USAGE, "the target has no early launches");
        return NULL;
    }
    tw_kernel *k = tw_kernel_new("combine", t->sm, THREADS);
    if (!k) {
        tw_fail_memory(diag);
        return NULL;
    }
    tw_builder b = tw_builder_of(k);
    build(&b, p);
    const tw_status st = tw_kernel_failed(k) ? tw_fail_memory(diag) : tw_pipeline_default(k, verify, diag);
    if (st == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

static size_t bytes_of(const tw_combine_problem *p, bool is_x) {
    return (size_t)(p->tokens * (is_x ? p->top : 1) * p->n) * (size_t)element_bytes(p);
}

static void launch_of(const tw_combine_problem *p, uint64_t x, uint64_t y, tw_launch_values *l) {
    const int64_t all = p->tokens * pieces_of(p);
    *l = (tw_launch_values){.grid = {(int)tw_ceil_div(all, THREADS), 1, 1}, .early = p->early};
    tw_argument_buffer(&l->arguments, "x", x);
    tw_argument_buffer(&l->arguments, "y", y);
    tw_argument_number(&l->arguments, "all", all);
    tw_argument_number(&l->arguments, "pieces", pieces_of(p));
    tw_argument_number(&l->arguments, "row_bytes", p->n * element_bytes(p));
}

tw_status tw_combine_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target,
                                tw_diag *diag) {
    tw_combine_problem p;
    if (configuration[strspn(configuration, " ")])
        return tw_fail(diag, TW_ERR_USAGE, "\"%s\": sums have no configuration", configuration);
    const tw_status st = tw_combine_parse(&p, words, diag);
    if (st != TW_OK) return st;
    out->kernel = tw_combine_make(&p, target, false, diag);
    if (!out->kernel) return diag->status;
    launch_of(&p, 0, 0, &out->launch);
    const int align = run_of(&p) * element_bytes(&p);
    out->buffers[out->n_buffers++] = (tw_gpu_buffer){"x", bytes_of(&p, true), align, false, false};
    out->buffers[out->n_buffers++] = (tw_gpu_buffer){"y", bytes_of(&p, false), align, true, false};
    snprintf(out->problem, sizeof out->problem, "type=%s tokens=%lld top=%lld n=%lld early=%d", tw_type_name(p.type),
             (long long)p.tokens, (long long)p.top, (long long)p.n, p.early);
    return TW_OK;
}

/* -- in the emulator */

static float read(const tw_combine_problem *p, const void *data, int64_t i) {
    return p->type == TW_T_f32   ? ((const float *)data)[i]
           : p->type == TW_T_f16 ? tw_f16_to_f32(((const uint16_t *)data)[i])
                                 : tw_bf16_to_f32(((const uint16_t *)data)[i]);
}

static void fill(const tw_combine_problem *p, void *data, int64_t n, uint64_t seed) {
    tw_random r = tw_random_seed(seed);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(2 * tw_random_unit(&r) - 1);
        if (p->type == TW_T_f32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = p->type == TW_T_f16 ? tw_f32_to_f16(x) : tw_f32_to_bf16(x);
    }
}

/* A sum of f32 in the kernel's order has one rounding of each addition, and one of the result. */
static tw_status compare(const tw_combine_problem *p, const void *x, const void *y, tw_diag *diag) {
    const double unit = p->type == TW_T_f32 ? 0x1p-24 : p->type == TW_T_f16 ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < p->tokens * p->n; i++) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < p->top; r++) {
            const double term = (double)read(p, x, (i / p->n * p->top + r) * p->n + i % p->n);
            sum += term;
            size += fabs(term);
        }
        const double off = fabs((double)read(p, y, i) - sum);
        if (!(off <= unit * fabs(sum) * 1.01 + (double)p->top * 0x1p-24 * size + 0x1p-24))
            return tw_fail(diag, TW_ERR_MISMATCH, "the sum at row %lld, column %lld is wrong", (long long)(i / p->n),
                           (long long)(i % p->n));
    }
    return TW_OK;
}

tw_status tw_combine_emulate(const tw_combine_problem *p, const tw_target *t, uint64_t seed, tw_emu_report *report,
                             tw_diag *diag) {
    tw_emu_report unseen;
    void *x = malloc(bytes_of(p, true)), *y = malloc(bytes_of(p, false));
    tw_emu *emu = tw_emu_new();
    tw_kernel *k = tw_combine_make(p, t, true, diag);
    tw_status st = !k ? diag->status : x && y && emu ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) fill(p, x, p->tokens * p->top * p->n, seed);
    const uint64_t from = st == TW_OK ? tw_emu_alloc(emu, "x", x, bytes_of(p, true), !p->early) : 0;
    const uint64_t to = st == TW_OK ? tw_emu_alloc(emu, "y", NULL, bytes_of(p, false), false) : 0;
    if (st == TW_OK && (!from || !to)) st = tw_fail_memory(diag);
    if (st == TW_OK) {
        tw_launch_values l;
        uint64_t words[TW_ARGUMENTS];
        const tw_signature signature = tw_signature_of(k);
        launch_of(p, from, to, &l);
        tw_arguments_place(&l.arguments, &signature, words);
        const tw_emu_options o = {.seed = seed, .grid = {l.grid[0], 1, 1}, .overlaps = p->early};
        st = tw_emu_launch(emu, k, words, &o, report ? report : &unseen, diag);
        if (st == TW_ERR_REJECTED) st = tw_emu_explain(report ? report : &unseen, diag);
    }
    if (st == TW_OK) {
        tw_emu_read(emu, to, y, bytes_of(p, false));
        st = compare(p, x, y, diag);
    }
    tw_kernel_free(k);
    if (emu) tw_emu_free(emu);
    free(x);
    free(y);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of all positions of a step. The number of rows is known on the device alone, so they are products of one
   group, whose count of rows is the step's. */
#include "base/diag.h"
#include "base/divide.h"
#include "kernels/gemm/gemm.h"
#include "vm/prefill/program.h"

#include <stdio.h>
#include <string.h>

/* Returns the time of all tiles in units of a block's product of 64 x 64, if blocks take equal numbers of tiles. Large
   tiles fetch less for each product. */
static double cost(const tw_gemm_problem *p, const tw_gemm_config *c) {
    const int64_t tiles = tw_ceil_div(p->m, c->ml) * tw_ceil_div(p->n, c->nl);
    const double fetched = 1.0 / c->ml + 1.0 / c->nl;
    return (double)(tw_ceil_div(tiles, c->persistent) * c->ml * c->nl) * (1 + 48 * fetched);
}

/* Chooses the configuration of a product. */
static tw_status choose(const tw_prefill *p, const char *words, char *out, size_t size, tw_diag *diag) {
    static const struct {
        int ml, nl, stages, staged;
    } tiles[] = {{128, 256, 4, 2}, {128, 256, 4, 0}, {128, 128, 4, 2},
                 {128, 128, 4, 0}, {64, 128, 4, 0},  {64, 64, 4, 0}};
    char copy[TW_PLAN_TEXT];
    tw_gemm_problem problem;
    snprintf(copy, sizeof copy, "%s", words);
    const tw_status st = tw_gemm_problem_parse(&problem, copy, diag);
    if (st != TW_OK) return st;
    tw_gemm_config best = tw_gemm_config_default(&problem);
    bool found = false;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        tw_gemm_config c = tw_gemm_config_default(&problem);
        c.ml = tiles[i].ml;
        c.ms = 64;
        c.ns = c.nl = tiles[i].nl;
        c.stages = tiles[i].stages;
        c.staged = tiles[i].staged;
        c.group = 8;
        if (p->vm->cuda) c.persistent = tw_cuda_describe(p->vm->cuda)->sms;
        if (!tw_gemm_legal(&problem, &c, p->gpu.target, NULL, NULL)) continue;
        if (!found || cost(&problem, &c) < cost(&problem, &best)) best = c;
        found = true;
    }
    tw_gemm_config_print(&best, out, size);
    return found ? TW_OK : tw_fail(diag, TW_ERR_UNSUPPORTED, "no configuration for \"%s\"", words);
}

static tw_prefill_kernel *find(tw_prefill *p, const char *words) {
    tw_prefill_kernel *k = p->kernels;
    while (k && (!k->words || strcmp(k->words, words) != 0)) k = k->next;
    return k;
}

/* Opens the kernel of a product's words. TW_ERR_UNSUPPORTED: there is none. */
static tw_status open_words(tw_prefill *p, const char *words, tw_prefill_kernel **out, tw_diag *diag) {
    char configuration[TW_PLAN_TEXT];
    *out = find(p, words);
    if (*out) return TW_OK;
    tw_prefill_kernel *made = tw_arena_alloc(&p->arena, sizeof *made);
    char *kept = tw_arena_strdup(&p->arena, words), of_gemm[TW_PLAN_TEXT + 8];
    if (p->arena.failed) return tw_fail_memory(diag);
    tw_status st = choose(p, words, configuration, sizeof configuration, diag);
    snprintf(of_gemm, sizeof of_gemm, "gemm %s", words);
    if (st == TW_OK) st = tw_gpu_kernel_open(&made->kernel, &p->gpu, of_gemm, configuration, diag);
    if (st != TW_OK) return st;
    made->words = kept;
    made->next = p->kernels;
    *out = p->kernels = made;
    return TW_OK;
}

tw_status tw_prefill_open_product(tw_prefill *p, const tw_prefill_matrix *matrix, const char *epilogue,
                                  tw_prefill_kernel **out, bool *reads_tapes, tw_diag *diag) {
    char words[TW_PLAN_TEXT / 2], tape[TW_PLAN_TEXT];
    const tw_prefill_shape *s = &matrix->shape;
    const char *type = p->type == TW_T_f32 ? "tf32x3" : tw_type_name(p->type);
    snprintf(words, sizeof words, "type=%s m=%lld n=%lld k=%lld tb=1 groups=1 masked=1 %s", type,
             (long long)p->s->tokens, (long long)matrix->rows, (long long)matrix->columns, epilogue);
    *reads_tapes = !p->options.unpack && (s->format.dtype == TW_F16 || s->format.dtype == TW_BF16);
    if (!*reads_tapes) return open_words(p, words, out, diag);
    snprintf(tape, sizeof tape, "%s tape=%dx%dx%d", words, s->warps, s->blocks, s->run);
    const tw_status st = open_words(p, tape, out, diag);
    if (st != TW_ERR_UNSUPPORTED) return st;
    *reads_tapes = false;
    return open_words(p, words, out, diag);
}

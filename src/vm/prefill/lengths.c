/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of lists. Products take whole tiles of rows and whole waves of tiles, so that a step of some more rows often
   takes no longer. Every list has kernels of its own and is made at its first step, so that few lists are better. */
#include "base/diag.h"
#include "base/divide.h"
#include "vm/prefill/program.h"
#include "vm/prefill/qkv.h"

#include <string.h>

/* ---- by time */

/* Returns the microseconds of a layer's products of so many rows. 0: tiles do not tell. */
static double measure(const tw_prefill_layer_product *products, int n, int64_t rows, const tw_target *target, int sms) {
    double time = 0;
    for (int i = 0; i < n; i++) {
        tw_gemm_problem p = products[i].problem;
        p.m = rows;
        if (tw_gemm_problem_complete(&p, NULL) != TW_OK) return 0;
        const double of = tw_prefill_tile_time(&p, products[i].rope, target, sms);
        if (of >= 1e30) return 0;
        time += of;
    }
    return time;
}

int64_t tw_prefill_list_fit(const tw_prefill_layer_product *products, int n_products, int64_t n, int64_t enough,
                            const tw_target *target, int sms, double *times) {
    enum { GRAIN = TW_PREFILL_GRAIN };
    const double hardly = 1.0 / 32;
    const int64_t fewest = tw_ceil_div(n, GRAIN) * GRAIN;
    if (enough % GRAIN || enough > TW_PREFILL_TOLD) return enough;
    double least = 0;
    /* The fewest rows come first, then fewer and fewer. */
    for (int64_t rows = fewest;; rows = rows == fewest ? enough : rows - GRAIN) {
        double *time = &times[rows / GRAIN - 1];
        if (!(*time > 0)) *time = measure(products, n_products, rows, target, sms);
        if (!(*time > 0)) return enough;
        if (rows == fewest && !(least > 0))
            least = *time;
        else if (*time <= least * (1 + hardly))
            return rows;
    }
}

/* ---- products of a program */

/* Adds the product of an instruction, unless there is one like it. */
static void add(tw_prefill *p, const tw_instr *in, const tw_prefill_matrix *matrix) {
    const bool qkv = in->op == TW_INSTR_QKV, ffn = in->op == TW_INSTR_FFN;
    const tw_prefill_shape *s = &matrix->shape;
    tw_prefill_layer_product of = {.problem = {.type = p->type == TW_T_bf16 ? TW_GEMM_BF16 : TW_GEMM_F16,
                                               .out = ffn ? TW_T_none : TW_T_f32,
                                               .m = 1,
                                               .n = matrix->rows,
                                               .k = matrix->columns,
                                               .trans_b = true,
                                               .alpha = 1,
                                               .beta = !qkv && !ffn}};
    of.problem.epilogue.gated = ffn && tw_mega_gated(in);
    if (!p->options.unpack && (s->format.dtype == TW_F16 || s->format.dtype == TW_BF16)) {
        of.problem.weights = true;
        of.problem.tape = (tw_gemm_tape){.warps = s->warps, .blocks = s->blocks, .run = s->run, .apart = s->chunks > 0};
    }
    if (qkv && p->rope.m) of.rope = &p->rope;
    for (int i = 0; i < p->n_products; i++)
        if (p->products[i].problem.n == of.problem.n && p->products[i].problem.k == of.problem.k) return;
    if (p->n_products < TW_PREFILL_PRODUCTS) p->products[p->n_products++] = of;
}

tw_status tw_prefill_find_products(tw_prefill *p, tw_diag *diag) {
    const tw_worker *w = &p->s->workers[0];
    const bool halves = p->type == TW_T_f16 || p->type == TW_T_bf16;
    /* Steps of many sequences have ever different rows. Experts' products have as many as the router says. */
    if (!halves || p->sequences > 1 || p->vm->m->n_experts || p->options.masked) return TW_OK;
    p->times = tw_arena_array(&p->arena, TW_PREFILL_TOLD / TW_PREFILL_GRAIN, sizeof *p->times);
    if (p->arena.failed) return tw_fail_memory(diag);
    const tw_prefill_shape rope = {.m = p->vm->m, .type = p->type, .kv = p->kv};
    if (!p->options.apart && tw_prefill_qkv_covers(&rope)) memcpy(&p->rope, &rope, sizeof rope);
    for (int i = 0; i < w->count; i++)
        if (w->list[i].op == TW_INSTR_QKV || w->list[i].op == TW_INSTR_PROJECT || w->list[i].op == TW_INSTR_FFN)
            add(p, &w->list[i], &p->matrices[i]);
    return TW_OK;
}

/* ---- rows of a list */

int64_t tw_prefill_list_tokens(const tw_prefill *p, int64_t n) {
    enum { LEAST = 16, FEW = 32, SOME = 64, MANY = 128, MOST = 256, FROM = 512, LONG = 4096 };
    const int64_t step = n <= LEAST ? LEAST : n <= FEW ? FEW : n <= FROM ? SOME : n <= LONG ? MANY : MOST;
    int64_t enough = tw_ceil_div(n, step) * step;
    if (enough > p->rows) enough = p->rows;
    /* Up to `MANY` rows it is the weights that take time. */
    if (n <= MANY || !p->n_products) return enough;
    return tw_prefill_list_fit(p->products, p->n_products, n, enough, p->gpu.target, p->info.sms, p->times);
}

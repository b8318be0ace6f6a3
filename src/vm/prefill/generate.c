/* SPDX-License-Identifier: Apache-2.0 */
/* From a kind and a shape to a kernel, its buffers and its launch; what kernels have in common. */
#include "vm/prefill/generate.h"

#include "base/diag.h"
#include "ir/passes/passes.h"
#include "kernels/parts/convert.h"

#include <stdio.h>

tw_val tw_prefill_at(tw_prefill_gen *g, tw_val base, tw_val i, int64_t bytes) {
    return tw_add(g->b, base, tw_mul_imm(g->b, tw_widen(g->b, i), bytes));
}

tw_type tw_prefill_element(tw_dtype t) {
    return t == TW_F32 ? TW_T_f32 : t == TW_F16 ? TW_T_f16 : TW_T_bf16;
}

tw_val tw_prefill_step(tw_prefill_gen *g, tw_val step, int word) {
    return tw_ld(g->b, (tw_attrs){.type = TW_T_i32, .offset = 4 * word}, step);
}

tw_val tw_prefill_row_word(tw_prefill_gen *g, tw_val step, tw_val row, int word) {
    return tw_prefill_step(g, tw_prefill_at(g, step, row, 4 * TW_ROW_WORDS), TW_MANY_ROWS + word);
}

tw_val tw_prefill_position(tw_prefill_gen *g, tw_val step, tw_val row) {
    if (g->s->many) return tw_prefill_row_word(g, step, row, TW_ROW_POSITION);
    return tw_add(g->b, tw_prefill_step(g, step, TW_STEP_POS), row);
}

tw_val tw_prefill_first_head(tw_prefill_gen *g, tw_val step, tw_val row) {
    return g->s->many ? tw_prefill_row_word(g, step, row, TW_ROW_HEAD) : tw_prefill_step(g, step, TW_STEP_HEAD);
}

static tw_type pair_of(tw_type t) {
    return t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
}

void tw_prefill_load(tw_prefill_gen *g, tw_type t, tw_val address, int n, tw_val when, tw_val *out) {
    tw_builder *b = g->b;
    const bool floats = t == TW_T_f32;
    const int words = floats ? n : n / 2, vec = words < 4 ? words : 4;
    tw_val raw[8] = {{0}};
    for (int i = 0; i < words; i += vec) {
        if (when.id) tw_when(b, when);
        tw_ld_vec(b, (tw_attrs){.type = floats ? TW_T_f32 : TW_T_i32, .vec = vec, .offset = 4 * i}, address, raw + i);
    }
    for (int i = 0; i < n; i++) out[i] = floats ? raw[i] : tw_part_half(b, pair_of(t), raw[i / 2], i % 2);
}

void tw_prefill_store(tw_prefill_gen *g, tw_type t, tw_val address, int n, const tw_val *x) {
    tw_builder *b = g->b;
    const bool floats = t == TW_T_f32;
    const int words = floats ? n : n / 2, vec = words < 4 ? words : 4;
    tw_val raw[8];
    for (int i = 0; i < words; i++) raw[i] = floats ? x[i] : tw_part_pair(b, pair_of(t), x[2 * i], x[2 * i + 1]);
    for (int i = 0; i < words; i += vec)
        tw_st(b, (tw_attrs){.type = floats ? TW_T_f32 : (int)pair_of(t), .vec = vec, .offset = 4 * i}, address,
              raw + i);
}

void tw_prefill_store_one(tw_prefill_gen *g, tw_type t, tw_val address, tw_val x) {
    if (t != TW_T_f32) x = tw_unary(g->b, t == TW_T_f16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32, x);
    tw_st(g->b, (tw_attrs){.type = t}, address, &x);
}

/* Returns the threads of a block. A row's parts are many bytes, and a thread has few loads on their way. */
static int threads_of(const tw_prefill_shape *s) {
    enum { COLUMNS = 4 /* Of a thread. */ };
    int warps = TW_PREFILL_WARPS;
    while (s->parts && warps < TW_PREFILL_MOST_WARPS && 32 * COLUMNS * warps < s->columns) warps *= 2;
    return 32 * warps;
}

static void build(tw_builder *b, const tw_prefill_problem *p) {
    tw_prefill_gen g = {.b = b, .s = &p->shape, .threads = threads_of(&p->shape)};
    for (int i = 0; i < TW_PREFILL_BUFFERS && p->kind->buffers[i].name; i++)
        g.buffer[i] = tw_pointer_add(b, p->kind->buffers[i].name, 16, !p->kind->buffers[i].written);
    g.block = tw_sreg(b, TW_SREG_ctaid_x);
    g.thread = tw_sreg(b, TW_SREG_tid_x);
    g.warp = tw_sreg(b, TW_SREG_warpid);
    g.lane = tw_rem(b, g.thread, 32);
    /* Every block waits, so that a launch is over only when all launches before it are. */
    if (p->shape.early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    p->kind->build(&g);
}

tw_status tw_prefill_make(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag) {
    const tw_prefill_problem *p = problem;
    const tw_prefill_shape *s = &p->shape;
    out->kernel = tw_kernel_new(p->kind->name, target->sm, threads_of(&p->shape));
    if (!out->kernel) return tw_fail_memory(diag);
    tw_builder b = tw_builder_of(out->kernel);
    build(&b, p);
    if (tw_kernel_failed(out->kernel)) return tw_fail_memory(diag);
    out->launch.grid[0] = (int)p->kind->grid(s);
    out->launch.early = s->early;
    out->launch.grid[1] = out->launch.grid[2] = 1;
    for (int i = 0; i < TW_PREFILL_BUFFERS && p->kind->buffers[i].name; i++) {
        const char *name = p->kind->buffers[i].name;
        tw_argument_buffer(&out->launch.arguments, name, 0);
        out->buffers[out->n_buffers++] =
            (tw_gpu_buffer){.name = name, .align = 4, .written = p->kind->buffers[i].written};
    }
    snprintf(out->problem, sizeof out->problem, "%s type=%s tokens=%lld rows=%lld columns=%lld", p->kind->name,
             tw_type_name(s->type), (long long)s->tokens, (long long)s->rows, (long long)s->columns);
    return tw_pipeline_default(out->kernel, false, diag);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/generate.h"
#include "kernels/gemm/search.h"

/* Multiply-adds an SM finishes in a clock: plain threads, and mma at the rate of the fastest instruction there is
   (dense wgmma for 16 bits on sm_90), by the vendor's tables for sm_80 and sm_90. */
static double peak(tw_gemm_type t, int sm, bool tensor) {
    const bool hopper = sm >= 90;
    if (!tensor)
        return t == TW_GEMM_F64 ? (sm == 80 || sm == 90 || sm == 100 ? (hopper ? 64 : 32) : 2) : hopper ? 128 : 64;
    switch (t) {
    case TW_GEMM_F64:
        return hopper ? 128 : 64;
    case TW_GEMM_TF32:
        return hopper ? 1024 : 512;
    case TW_GEMM_S8:
        return hopper ? 4096 : 2048;
    default:
        return hopper ? 2048 : 1024;
    }
}

double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound) {
    const double es = tw_type_bits(tw_gemm_element(p->type)) / 8, out = tw_type_bits(p->out) / 8;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;
    double bytes = batch * ((p->stride_a < 0 ? 1 / batch : 1) * m * k * es +
                            (p->stride_b < 0 ? 1 / batch : 1) * k * n * es + m * n * out * (p->beta != 0 ? 2 : 1));
    /* Two transfers a memory clock; the clock is in kHz. */
    double bandwidth = 2.0 * info->memory_clock_khz * 1e3 * info->memory_bus_bits / 8;
    const bool tensor = p->type != TW_GEMM_F32;
    double rate = peak(p->type, info->sm, tensor) * info->sms * info->clock_khz * 1e3;
    /* A driver that tells no clocks leaves no bound. */
    double by_bytes = bandwidth > 0 ? bytes / bandwidth * 1e6 : 0;
    double by_work = rate > 0 ? m * n * k * batch / rate * 1e6 : 0;
    if (bytes_bound) *bytes_bound = by_bytes > by_work;
    return by_bytes > by_work ? by_bytes : by_work;
}

double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info) {
    tw_gemm_plan plan;
    tw_gemm_resources need;
    const tw_target *t = info->target;
    tw_gemm_variant v = tw_gemm_variant_of(p, c);
    if (tw_gemm_plan_of(&v, c, t, &plan) || !tw_gemm_legal(p, c, t, &need, NULL)) return 1e30;
    const double clock = info->clock_khz * 1e-3; /* a microsecond's */
    const double es = tw_type_bits(tw_gemm_element(p->type)) / 8;
    int resident = tw_target_blocks(t, need.threads, need.registers, (int)need.shared_bytes);
    if (resident < 1) resident = 1;
    const double per_sm = (double)((need.grid + info->sms - 1) / info->sms);
    const double together = per_sm < resident ? per_sm : resident;
    const double stages = (double)need.stages_of_k;
    /* Issue slots of a stage, a warp at a time: arithmetic, fragments, copies, the loop. */
    const double warps = need.threads / 32.0;
    double arithmetic, fragments;
    if (c->mma) {
        const tw_mma_info *m = tw_mma_describe(plan.mma);
        /* mma reaches about six tenths of wgmma's rate on sm_90. */
        const double rate = peak(p->type, info->sm, true) * (info->sm == 90 && es < 4 ? 0.62 : 0.9);
        arithmetic = (double)c->ml * c->nl * c->u / rate;
        const double steps = (double)plan.depth / m->k;
        fragments = warps * steps * ((double)c->ms / m->m * m->a + (double)c->ns / m->n * m->b) / (es == 2 ? 4 : 2) * 2;
    } else {
        const double rate = peak(p->type, info->sm, false);
        arithmetic = (double)c->ml * c->nl * c->u / rate;
        fragments =
            warps * plan.depth * ((double)c->ms / plan.vx + (double)c->ns / plan.vy) * (p->type == TW_GEMM_F64 ? 2 : 1);
        arithmetic += warps * plan.depth * ((double)c->ms / plan.vx + (double)c->ns / plan.vy) / 4;
    }
    double copies = warps * (plan.x.per_thread + plan.y.per_thread) * 4 / 4 + 20;
    double stage = (arithmetic > fragments ? arithmetic : fragments) + copies;
    /* A stage cannot come faster than memory's latency over the stages in flight. */
    const double latency = 900.0 / (c->stages > 1 ? c->stages - 1 : 1) + 60;
    double block = stages * (stage * together > latency ? stage * together : latency) + 1800;
    double waves = per_sm / together;
    double compute = (waves > 1 ? waves : 1) * block / clock;
    /* Every block reads its rows and columns of the operands through L2. */
    double l2 = (double)need.tiles * (c->ml + c->nl) * (double)p->k * es / 5.5e6;
    double parts = c->kg == 1 ? 0
                   : c->split == TW_GEMM_SPLIT_LAST
                       ? 2.5 + 2.0 * (double)need.workspace_bytes / 3e6 + 0.02 * c->kg * plan.accumulators
                   : c->split == TW_GEMM_SPLIT_ATOMIC ? 2.0 + 4.0 * (double)need.workspace_bytes * c->kg / 3e6
                                                      : 1.6 * c->kg + 2.0 * (double)need.workspace_bytes * c->kg / 3e6;
    double time = compute > l2 ? compute : l2;
    double floor = tw_gemm_floor(p, info, NULL) * 1.15;
    return (time > floor ? time : floor) + 0.15 * (time < floor ? time : floor) + parts + 1.5;
}

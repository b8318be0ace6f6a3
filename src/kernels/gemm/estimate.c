/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/estimate.h"

#include "base/divide.h"
#include "kernels/gemm/generate.h"

/* Returns the most multiply-adds that an SM finishes in a clock. */
static double peak(tw_gemm_type type, const tw_target *t, bool tensor) {
    if (!tensor) return type == TW_GEMM_F64 ? t->rate_f64 : t->rate_f32;
    return type == TW_GEMM_F64    ? t->tensor_f64
           : type == TW_GEMM_TF32 ? t->tensor_tf32
           : type == TW_GEMM_S8   ? t->tensor_s8
                                  : t->tensor_f16;
}

double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound) {
    const double es = tw_type_bits(tw_gemm_types[p->type].element) / 8, out = tw_type_bits(p->out) / 8;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;
    double bytes = batch * ((p->stride_a < 0 ? 1 / batch : 1) * m * k * es +
                            (p->stride_b < 0 ? 1 / batch : 1) * k * n * es + m * n * out * (p->beta != 0 ? 2 : 1));
    /* Memory makes two transfers per clock. The clock is in kHz. */
    double bandwidth = 2.0 * info->memory_clock_khz * 1e3 * info->memory_bus_bits / 8;
    double fastest = peak(p->type, info->target, p->type != TW_GEMM_F32);
    /* SIMT may be faster than tensor cores that are slow at f64. */
    if (p->type == TW_GEMM_F64 && fastest < info->target->rate_f64) fastest = info->target->rate_f64;
    double rate = fastest * info->sms * info->clock_khz * 1e3;
    /* If the driver does not tell the clocks, there is no bound. */
    double by_bytes = bandwidth > 0 ? bytes / bandwidth * 1e6 : 0;
    double by_work = rate > 0 ? m * n * k * batch / rate * 1e6 : 0;
    if (bytes_bound) *bytes_bound = by_bytes > by_work;
    return by_bytes > by_work ? by_bytes : by_work;
}

/* Cycles that a stage of a whole block takes. */
typedef struct stage_cost {
    double issue;  /* Issue slots of a scheduler. Four schedulers share a block's warps. */
    double tensor; /* Cycles of the tensor cores, or of the multiply-add pipe. */
    double shared;
} stage_cost;

static stage_cost simt_cost(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                            const tw_target *t) {
    const double warps = plan->threads / 32.0, sums = (double)c->ms * c->ns * plan->depth;
    const double x_loads = (double)c->ms * plan->depth / plan->x.v, y_loads = (double)c->ns * plan->depth / plan->y.v;
    /* Conversions of 16- and 8-bit elements are instructions of their own. */
    const double widen = p->type == TW_GEMM_F32 || p->type == TW_GEMM_F64 ? 0 : (double)(c->ms + c->ns) * plan->depth;
    const double rows = plan->lanes_m, columns = 32.0 / plan->lanes_m;
    const double es = plan->x.es;
    stage_cost s;
    s.issue = warps / 4 * (sums + x_loads + y_loads + widen);
    s.tensor = (double)c->ml * c->nl * c->u / peak(p->type, t, false);
    double x_wave = rows * plan->x.v * es / 128, y_wave = columns * plan->y.v * es / 128;
    s.shared = warps * (x_loads * (x_wave > 1 ? x_wave : 1) + y_loads * (y_wave > 1 ? y_wave : 1));
    return s;
}

static stage_cost tensor_cost(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                              const tw_target *t) {
    const tw_mma_info *m = tw_mma_describe(plan->mma);
    const double warps = plan->threads / 32.0, steps = (double)plan->depth / m->k;
    const double tiles_x = (double)c->ms / m->m, tiles_y = (double)c->ns / m->n;
    const bool f64 = p->type == TW_GEMM_F64;
    const double per_load = f64 ? 2 : 4; /* Registers that a load fills. */
    const double loads = steps * (tiles_x * m->a + tiles_y * m->b) / per_load * (f64 ? 2 : 1);
    stage_cost s;
    s.issue = warps / 4 * (steps * tiles_x * tiles_y * 2 + loads);
    /* mma reaches about six tenths of wgmma's rate on sm_90. */
    s.tensor = (double)c->ml * c->nl * c->u / (peak(p->type, t, true) * (t->sm == 90 && !f64 ? 0.62 : 0.95));
    s.shared = warps * steps * (c->ms + c->ns) * m->k * plan->x.es / 128.0;
    return s;
}

static stage_cost warpgroup_cost(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                                 const tw_target *t) {
    const double products = (double)c->ml / TW_WGMMA_ROWS * c->u / 16;
    stage_cost s = {.issue = products / 4 * 12};
    s.tensor = (double)c->ml * c->nl * c->u / (peak(p->type, t, true) * 0.9);
    /* Every product reads its rows and all columns. Data that arrives is written. */
    s.shared = products * (TW_WGMMA_ROWS + c->nl) * 16 * 2 / 128 + plan->stage_bytes / 128.0;
    return s;
}

double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info) {
    tw_gemm_plan plan;
    tw_gemm_resources need;
    const tw_target *t = info->target;
    tw_gemm_variant v = tw_gemm_variant_of(p, c);
    if (tw_gemm_plan_of(&v, c, t, &plan) || !tw_gemm_legal(p, c, t, &need, NULL)) return 1e30;
    const double clock = info->clock_khz * 1e-3; /* Clocks per microsecond. */
    const double es = plan.x.es, warps = need.threads / 32.0;
    const int fit = tw_target_blocks(t, need.threads, need.registers, (int)need.shared_bytes);
    const double blocks = (double)tw_ceil_div(need.grid, info->sms); /* Blocks of the busiest SM. */
    const double together = blocks < fit ? blocks : fit;
    stage_cost s = c->mma == 2 ? warpgroup_cost(p, c, &plan, t)
                   : c->mma    ? tensor_cost(p, c, &plan, t)
                               : simt_cost(p, c, &plan, t);
    const double copies = plan.x.per_thread + plan.y.per_thread;
    /* A copy costs its instruction, its address and its bounds. A narrow copy also keeps the memory pipe busy. */
    s.issue += warps / 4 * (copies * (v.whole_m && v.whole_n && v.whole_k ? 2.5 : 4.5) * (c->copy ? 1.6 : 1) + 24);
    /* Narrow copies go through L1, and take cycles from the loads of fragments. */
    if (plan.x.vec < 16 || plan.y.vec < 16) s.shared += warps * copies;
    s.shared += warps * copies * (plan.x.transposed || plan.y.transposed ? 3 : 1.2);
    double busy = s.issue > s.tensor ? s.issue : s.tensor;
    if (s.shared > busy) busy = s.shared;
    /* A scheduler issues from another warp while one waits. The more warps it has, the more issue slots are used. */
    const double others = together * warps / 4;
    const double full = c->mma == 2 ? 0.9 : c->mma ? 0.45 + 0.12 * others * (c->kl > 0) : 0.48 + 0.11 * others;
    double cycles = busy / (full < 0.93 ? full : 0.93) + 30 * (warps > 8 ? warps / 8 : 1) / together;
    /* The bytes in flight bound the rate at which stages arrive. */
    const double bytes = (double)(c->ml + c->nl) * c->u * es;
    const double ahead = c->stages > 1 ? c->stages - 1 : 1;
    double arriving = together * ahead * bytes / 1100;
    if (arriving > 56) arriving = 56;
    double fetching = bytes / arriving;
    double stages = (double)need.stages_of_k;
    double per_block = stages * (cycles > fetching ? cycles : fetching);
    const double waves = (blocks + together - 1) / together;
    const double fixed = 1500 + 250 * (c->kl > 1) + (c->kl > 1 ? 8.0 * plan.accumulators : 0) + 6.0 * plan.accumulators;
    double sm_us = (blocks * per_block + (double)(int64_t)waves * fixed) / clock;
    /* Every tile fetches its rows and columns through L2. Memory delivers everything at least once. */
    const double once = c->multicast ? c->multicast : 1; /* Tiles that share a fetch. */
    double l2_us =
        (double)need.tiles * (c->group == 1 ? c->ml / once + c->nl : c->ml + c->nl / once) * (double)p->k * es / 5.0e6;
    double memory_us = tw_gemm_floor(p, info, NULL) * 1.12;
    const double acc = tw_type_bits(tw_gemm_types[p->type].accumulator) / 8;
    const double part = (double)need.tiles * c->ml * c->nl * acc;
    double parts = 0;
    if (c->kg > 1 && c->split == TW_JOIN_LAST)
        parts = 3.0 + part * c->kg / 1.6e6 + 0.6e-3 * c->kg * plan.accumulators * need.threads / 32;
    if (c->kg > 1 && c->split == TW_JOIN_ATOMIC) parts = 2.4 + part * c->kg / 1.2e6;
    if (c->kg > 1 && c->split == TW_JOIN_SERIAL) parts = 1.5 * c->kg + part / 2.0e6;
    if (c->kg > 1 && c->split == TW_JOIN_CLUSTER) parts = 1.3 + 2.0e-3 * plan.accumulators;
    double time = sm_us > l2_us ? sm_us : l2_us;
    return (time > memory_us ? time : memory_us) + parts + 1.2;
}

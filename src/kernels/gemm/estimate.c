/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/estimate.h"

#include "base/divide.h"
#include "kernels/gemm/generate.h"

#include <math.h>
#include <string.h>

/* Returns the most multiply-adds that an SM finishes in a clock, by tensor cores or by its threads. */
static double peak(tw_gemm_type type, const tw_target *t, bool tensor) {
    if (!tensor) return type == TW_GEMM_F64 ? t->rate_f64 : t->rate_f32;
    return type == TW_GEMM_F64                          ? t->tensor_f64
           : type == TW_GEMM_TF32                       ? t->tensor_tf32
           : type == TW_GEMM_TF32X3                     ? t->tensor_tf32 / 3.0
           : type == TW_GEMM_S8 || type == TW_GEMM_E4M3 ? t->tensor_s8 /* Both have the same rate. */
                                                        : t->tensor_f16;
}

/* Returns the bytes that device memory moves in a microsecond at most: two transfers per clock. 0: the driver does not
   tell the clock or the width. */
static double bandwidth(const tw_cuda_info *info) {
    return 2e-3 * info->memory_clock_khz * info->memory_bus_bits / 8;
}

/* Counts the matrices of A, or of B, that differ. Those of groups count as one. */
static double matrices(const tw_gemm_problem *p, tw_gemm_buffer which) {
    const tw_gemm_matrix m = tw_gemm_matrix_of(p, which);
    return p->groups ? 1 : (double)(m.count * m.sets);
}

double tw_gemm_bytes(const tw_gemm_problem *p) {
    const double es = tw_type_bits(tw_gemm_types[p->type].element) / 8, out = tw_type_bits(p->out) / 8;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    if (p->narrow) {
        const tw_gemm_matrix b = tw_gemm_matrix_of(p, TW_GEMM_B), scales = tw_gemm_matrix_of(p, TW_GEMM_SCALES);
        return (double)tw_gemm_matrix_bytes(&b) + (double)tw_gemm_matrix_bytes(&scales) + m * k * es +
               m * (double)tw_gemm_columns(p) * out * (p->beta != 0 ? 2 : 1);
    }
    /* Of groups only those with rows are read: so many, if each row goes to any with the same chance. */
    const double all = (double)p->groups, groups = p->groups ? all * (1 - pow(1 - 1 / all, m)) : 1;
    /* Several rows of a product may gather one row of A. */
    const double rows = p->gather && p->rows_a < p->m ? (double)p->rows_a : m;
    return matrices(p, TW_GEMM_A) * rows * k * es + matrices(p, TW_GEMM_B) * k * n * groups * es +
           (double)p->batch * m * (double)tw_gemm_columns(p) * out * (p->beta != 0 ? 2 : 1);
}

double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound) {
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, batch = (double)p->batch;
    double fastest = peak(p->type, info->target, p->type != TW_GEMM_F32);
    /* SIMT may be faster than tensor cores that are slow at f64. */
    if (p->type == TW_GEMM_F64 && fastest < info->target->rate_f64) fastest = info->target->rate_f64;
    double rate = fastest * info->sms * info->clock_khz * 1e3;
    tw_gemm_problem least = *p;
    /* All rows may be of one group, and gather one row. */
    least.groups = 0;
    if (p->gather) least.rows_a = 1;
    if (bytes_bound) *bytes_bound = false;
    if (p->masked) return 0; /* All counts may be 0. */
    /* If the driver does not tell a clock rate, there is no bound by it. */
    double by_bytes = bandwidth(info) > 0 ? tw_gemm_bytes(&least) / bandwidth(info) : 0;
    double by_work = rate > 0 ? m * n * k * batch / rate * 1e6 : 0;
    if (bytes_bound) *bytes_bound = by_bytes > by_work;
    return by_bytes > by_work ? by_bytes : by_work;
}

/* What a block does with one stage. Clocks are at peak rates. */
typedef struct stage_count {
    double multiply; /* Clocks of the multiply-adds. */
    double issue;    /* Clocks of issuing instructions: each of an SM's four schedulers issues one in a clock. */
    double shared;   /* Clocks of shared memory, which moves 128 bytes in one. */
    double chain;    /* Dependent reads of shared memory. */
} stage_count;

static stage_count count_simt(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                              const tw_target *t) {
    const double warps = plan->threads / 32.0, depth = plan->depth, es = plan->x.es;
    const double x_loads = c->ms * depth / plan->x.v, y_loads = c->ns * depth / plan->y.v;
    /* Conversions of 16- and 8-bit elements are instructions of their own. */
    const double widen = p->type == TW_GEMM_F32 || p->type == TW_GEMM_F64 ? 0 : (c->ms + c->ns) * depth;
    const double x_lines = plan->lanes_m * plan->x.v * es / 128, y_lines = 32.0 / plan->lanes_m * plan->y.v * es / 128;
    return (stage_count){.multiply = (double)c->ml * c->nl * c->u / peak(p->type, t, false),
                         .issue = warps / 4 * (c->ms * c->ns * depth + x_loads + y_loads + widen),
                         .shared = warps * (x_loads * fmax(x_lines, 1) + y_loads * fmax(y_lines, 1)),
                         .chain = depth / plan->step};
}

static stage_count count_warps(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                               const tw_target *t) {
    const tw_mma_info *m = tw_mma_describe(plan->mma);
    const double warps = plan->threads / 32.0, steps = (double)plan->depth / m->k;
    const double tiles_x = (double)c->ms / m->m, tiles_y = (double)c->ns / m->n;
    const double per_load = p->type == TW_GEMM_F64 ? 1 : 4; /* Registers that a load of fragments fills. */
    const double loads = steps * (tiles_x * m->a + tiles_y * m->b) / per_load;
    return (stage_count){.multiply = (double)c->ml * c->nl * c->u / peak(p->type, t, true),
                         .issue = warps / 4 * (steps * tiles_x * tiles_y + loads),
                         .shared = warps * steps * (c->ms + c->ns) * m->k * plan->x.es / 128.0,
                         .chain = steps};
}

static stage_count count_warpgroups(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_gemm_plan *plan,
                                    const tw_target *t) {
    enum { K = 32 };
    const double products = (double)c->ml / TW_WGMMA_ROWS * c->u * plan->x.es /
                            K; /* Number of instructions. Each multiplies K bytes along k. */
    if (p->narrow) {
        /* X goes through registers: a thread converts its elements by a few instructions each. */
        const double each = p->narrow == TW_GEMM_I4 ? 2.6 : 3; /* Counted in a stage of 256 of bf16. */
        return (stage_count){.multiply = (double)c->ml * c->nl * c->u / peak(p->type, t, true),
                             .issue = (double)c->ml * c->u * each / 128,
                             .shared = products * c->nl * K / 128 + 2 * plan->stage_bytes / 128.0};
    }
    /* An instruction reads its rows and all columns from shared memory, where the stage was written before. */
    return (stage_count){.multiply = (double)c->ml * c->nl * c->u / peak(p->type, t, true),
                         .shared = products * (TW_WGMMA_ROWS + c->nl) * K / 128 + plan->stage_bytes / 128.0};
}

bool tw_gemm_demand(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info, tw_demand *out) {
    tw_gemm_plan plan;
    tw_gemm_resources need;
    const tw_target *t = info->target;
    const tw_gemm_variant v = tw_gemm_variant_of(p, c);
    if (tw_gemm_plan_of(&v, c, t, &plan) || !tw_gemm_legal(p, c, t, &need, NULL)) return false;
    stage_count s = c->mma == 2 ? count_warpgroups(p, c, &plan, t)
                    : c->mma    ? count_warps(p, c, &plan, t)
                                : count_simt(p, c, &plan, t);
    /* A thread's copy to shared memory issues two instructions, or four where it checks bounds of tiles that may be
       partial. A copy of less than 16 bytes also takes cycles of L1, which are those of shared memory, and one that
       transposes is stored element by element. */
    const double warps = need.threads / 32.0, copies = c->mma == 2 ? 0 : plan.x.per_thread + plan.y.per_thread;
    s.issue += warps / 4 * copies * (v.whole_m && v.whole_n && v.whole_k ? 2 : 4);
    s.shared += warps * copies *
                (plan.x.transposed || plan.y.transposed ? 3
                 : plan.x.vec < 16 || plan.y.vec < 16   ? 2
                                                        : 1);
    const double fit = tw_target_blocks(t, need.threads, need.registers, (int)need.shared_bytes);
    const double blocks = (double)tw_ceil_div(need.grid, info->sms), tiles = (double)tw_ceil_div(need.tiles, need.grid);
    /* Single elements of many rows fill a small part of each sector of memory that they go to. Lanes that store boxes
       fill whole ones. Measured on an H200. */
    const double torn = c->mma == 2 && v.vec_c == 2 && c->staged != TW_GEMM_BOXED ? 14 : 1;
    const double sums = (double)c->ml * c->nl * tw_type_bits(tw_gemm_types[p->type].accumulator) / 8;
    const tw_demand_unit warps_unit = p->type == TW_GEMM_F64 ? TW_DEMAND_DOUBLE : TW_DEMAND_WARPS;
    *out = (tw_demand){.unit = c->mma == 2 ? TW_DEMAND_WARPGROUPS
                               : c->mma    ? warps_unit
                                           : TW_DEMAND_SIMT,
                       .clock = info->clock_khz > 0 ? info->clock_khz * 1e-3 : 1000,
                       .blocks = blocks,
                       .together = fmin(blocks, fmax(fit, 1)),
                       .rounds = (double)need.stages_of_k * tiles,
                       .busy = fmax(s.multiply, fmax(s.issue, s.shared)),
                       .chain = s.chain,
                       .ahead = c->stages > 1 ? c->stages - 1 : 1,
                       .stored = torn * sums * tiles,
                       .memory = tw_gemm_bytes(p)};
    if (c->stream) {
        /* Each block has as many stages as any other, and leaves two parts at most. */
        out->rounds = ceil((double)need.tiles * (double)need.stages_of_k / (double)need.grid);
        out->parts = 2 * 2 * sums * (double)need.grid;
        out->turns = 1;
    }
    if (c->kg > 1 && !p->addends) {
        /* Blocks of a cluster write their sums, send them, receive others' and add them, all in shared memory. Other
           joins go through device memory. */
        const bool cluster = c->split == TW_JOIN_CLUSTER;
        if (cluster) out->stored *= 4;
        if (!cluster) out->parts = 2 * sums * (double)need.tiles * c->kg;
        out->turns = c->split == TW_JOIN_SERIAL ? c->kg : 1;
    }
    return true;
}

void tw_gemm_rates(const tw_cuda_info *info, tw_rates *out) {
    static const struct {
        const char *device;
        double bandwidth; /* What bandwidth() gives for the device. */
        tw_rates of;
    } known[] = {
#define RATES(device, bandwidth, ...) {device, bandwidth, {__VA_ARGS__}},
#include "kernels/gemm/rates.def"
#undef RATES
    };
    const int n = (int)(sizeof known / sizeof *known);
    int at = 0;
    while (at < n && strcmp(known[at].device, info->name) != 0) at++;
    *out = known[at < n ? at : 0].of;
    if (at == n && bandwidth(info) > 0) out->memory *= bandwidth(info) / known[0].bandwidth;
}

double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info) {
    tw_demand d;
    tw_rates r;
    if (!tw_gemm_demand(p, c, info, &d)) return 1e30;
    tw_gemm_rates(info, &r);
    return tw_demand_time(&d, &r);
}

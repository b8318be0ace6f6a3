/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a configuration: layouts in shared memory, threads, registers; and whether that can be. */
#include "kernels/gemm/generate.h"

#include <limits.h>

#define REFUSE(condition, reason)                                                                                      \
    do {                                                                                                               \
        if (condition) return reason;                                                                                  \
    } while (0)

static bool power_of_two(int x) {
    return x > 0 && !(x & (x - 1));
}

/* The shape for this depth of k, the deepest first. */
static tw_mma_kind shape_for(tw_gemm_type type, int depth, int sm) {
    static const struct {
        tw_gemm_type type;
        tw_mma_kind kind;
    } shapes[] = {
        {TW_GEMM_F16, TW_MMA_m16n8k16_f16},  {TW_GEMM_F16, TW_MMA_m16n8k8_f16},   {TW_GEMM_BF16, TW_MMA_m16n8k16_bf16},
        {TW_GEMM_BF16, TW_MMA_m16n8k8_bf16}, {TW_GEMM_TF32, TW_MMA_m16n8k8_tf32}, {TW_GEMM_TF32, TW_MMA_m16n8k4_tf32},
        {TW_GEMM_F64, TW_MMA_m16n8k16_f64},  {TW_GEMM_F64, TW_MMA_m16n8k8_f64},   {TW_GEMM_F64, TW_MMA_m16n8k4_f64},
        {TW_GEMM_F64, TW_MMA_m8n8k4_f64},    {TW_GEMM_S8, TW_MMA_m16n8k32_s8},    {TW_GEMM_S8, TW_MMA_m16n8k16_s8},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const tw_mma_info *m = tw_mma_describe(shapes[i].kind);
        if (shapes[i].type == type && depth % m->k == 0 && m->sm <= sm) return shapes[i].kind;
    }
    return TW_MMA_none;
}

static int round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

/* Bytes between rows in shared memory, such that what a warp reads together falls into different banks. */
static int pitch_of(const tw_gemm_tile *t, const tw_gemm_config *c, tw_gemm_type type) {
    int row = round_up((t->k_stored ? c->u : t->extent) * t->es, 16);
    if (c->mma && type == TW_GEMM_F64) {
        /* A half-warp reads four rows of four: an odd number of 32 bytes apart. */
        row = round_up(row, 32);
        return row / 32 % 2 ? row : row + 32;
    }
    if (c->mma && type == TW_GEMM_TF32 && !t->k_stored) return round_up(row, 128) + 32;
    if (!c->mma && !t->k_stored)
        return t->k_major ? row + 16 : row; /* transposed on the way: rows apart when written */
    return row / 16 % 2 ? row : row + 16;
}

/* Copies of a stage; NULL or why not. */
static const char *tile_of(tw_gemm_tile *t, const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x, int threads) {
    t->k_major = is_x ? v->a_k_major : v->b_k_major;
    t->extent = is_x ? c->ml : c->nl;
    t->es = tw_type_bits(tw_gemm_element(v->type)) / 8;
    t->vec = is_x ? v->vec_a : v->vec_b;
    REFUSE(!c->copy && t->vec < 4, "asynchronous copies move 4 bytes at least, and rows are aligned to less");
    t->outer = t->k_major ? t->extent : c->u;
    t->inner = t->k_major ? c->u : t->extent;
    while (t->vec > t->es && t->inner * t->es % t->vec) t->vec /= 2;
    REFUSE(!c->copy && t->vec < 4,
           "asynchronous copies move 4 bytes at least, and a tile's row is no whole number of them");
    /* Plain threads want runs along rows of C; element by element, a copy can bring them into that order. */
    t->transposed = t->k_major && !c->mma && (t->vec == t->es || (c->copy && t->es >= 4));
    t->k_stored = t->k_major && !t->transposed;
    /* Rows of eight along k, and the rows below, fall into different banks when they are written by columns. */
    const int width = t->vec / t->es > 8 ? t->vec / t->es : 8;
    t->width = t->transposed && t->inner > width ? width : t->inner;
    t->per_row = t->width * t->es / t->vec;
    t->total = t->outer * t->inner * t->es / t->vec;
    t->per_thread = (t->total + threads - 1) / threads;
    REFUSE(t->per_thread > TW_GEMM_MAX_COPIES, "too many copies a thread");
    t->pitch = pitch_of(t, c, v->type);
    t->bytes = (t->k_stored ? t->extent : c->u) * t->pitch;
    return NULL;
}

/* Elements of a fragment load of plain threads. */
static int fragment_of(const tw_gemm_tile *t, const tw_gemm_config *c, int cells, int depth) {
    const int bytes = t->k_stored && c->frag < 16 ? (c->frag > t->es ? c->frag : t->es) : 16;
    int v = bytes / t->es < 4 ? bytes / t->es : 4;
    const int within = t->k_stored ? depth : cells;
    while (v > 1 && within % v) v /= 2;
    return v;
}

static const char *simt_plan(const tw_gemm_config *c, tw_gemm_plan *p) {
    p->tm = c->ml / c->ms;
    p->tn = c->nl / c->ns;
    REFUSE(p->tm * p->tn % 32, "a group of threads is no whole number of warps");
    p->group = p->tm * p->tn;
    p->accumulators = c->ms * c->ns;
    REFUSE(p->accumulators > 128 || c->ms > 16 || c->ns > 16, "a thread's tile takes too many registers");
    /* Lanes as near to a square of cells as the tile allows. */
    int best = INT_MAX;
    for (int lanes = 1; lanes <= 32; lanes *= 2) {
        if (p->tm % lanes || p->tn % (32 / lanes)) continue;
        int edges = lanes * c->ms + 32 / lanes * c->ns;
        if (edges < best) {
            best = edges;
            p->lanes_m = lanes;
        }
    }
    REFUSE(best == INT_MAX, "a warp does not fit the tile");
    return NULL;
}

static const char *tensor_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    p->mma = shape_for(v->type, p->depth, t->sm);
    REFUSE(!p->mma, "no tensor-core shape for this type and depth");
    const tw_mma_info *m = tw_mma_describe(p->mma);
    REFUSE(c->ms % m->m || c->ns % m->n, "a warp's tile is no whole number of tensor-core tiles");
    REFUSE(c->ms / m->m > 16 || c->ns / m->n > 16, "a warp's tile is too large");
    p->tm = c->ml / c->ms;
    p->tn = c->nl / c->ns;
    p->group = p->tm * p->tn * 32;
    p->accumulators = c->ms / m->m * (c->ns / m->n) * m->c;
    return NULL;
}

/* 32-bit registers that a thread needs: sums, one step's fragments, copies and a few dozen for addresses. */
static int registers_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p) {
    const int acc = tw_type_bits(tw_gemm_accumulator(v->type)) / 32;
    int fragments;
    if (c->mma == 2) return tw_gemm_wgmma_registers(c, p);
    if (c->mma) {
        const tw_mma_info *m = tw_mma_describe(p->mma);
        fragments = (c->ms / m->m * m->a + c->ns / m->n * m->b) * tw_type_bits(m->ab) / 32;
    } else {
        const int x = p->x.k_stored ? p->vx : 1, y = p->y.k_stored ? p->vy : 1;
        fragments = (c->ms * x + c->ns * y) * acc;
    }
    int held = !c->copy ? 0 : (p->x.per_thread * p->x.vec + p->y.per_thread * p->y.vec + 3) / 4;
    int registers = p->accumulators * acc * c->ks + fragments + held + 24;
    /* The compiler takes no fewer for f64's tensor-core operations. */
    return c->mma && v->type == TW_GEMM_F64 && registers < 64 ? 64 : registers;
}

const char *tw_gemm_plan_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    *p = (tw_gemm_plan){0};
    REFUSE(c->ml < 1 || c->nl < 1 || c->u < 1 || c->ms < 1 || c->ns < 1 || c->kl < 1 || c->kg < 1 || c->ks < 1 ||
               c->ks > 2 || c->group < 1 || c->stages < 1 || c->stages > 16 || c->blocks < 0 || c->kg > 65535,
           "a parameter is out of range");
    REFUSE(c->split < 0 || c->split >= TW_GEMM_SPLITS, "no such way to split");
    REFUSE(c->copy < 0 || c->copy > 1, "copies are asynchronous (0) or go through registers (1)");
    REFUSE(c->copy ? c->stages > 2 : c->stages < 2,
           "asynchronous copies need 2 stages at least, and those through registers have 1 or 2");
    REFUSE(!power_of_two(c->vec) || c->vec > 16, "copies move 1, 2, 4, 8 or 16 bytes");
    REFUSE(c->frag != 4 && c->frag != 8 && c->frag != 16, "fragments are 4, 8 or 16 bytes");
    REFUSE(!power_of_two(c->u) || !power_of_two(c->kl), "u and kl are powers of two");
    REFUSE(c->ml > 512 || c->nl > 512 || c->u > 256, "a block's tile is too large");
    REFUSE(c->ml % c->ms || c->nl % c->ns, "a block's tile is no whole number of smaller ones");
    REFUSE(c->u % c->kl, "a stage cannot be dealt to kl groups");
    REFUSE(c->mma < 0 || c->mma > 2, "tensor cores are used by warps (1), by warpgroups (2), or not at all (0)");
    if (c->mma == 2) return tw_gemm_wgmma_plan(v, c, t, p);
    REFUSE(c->exchange, "sums change places on warpgroups alone");
    REFUSE(c->walk, "blocks walk with warpgroups alone");
    REFUSE(c->cast, "blocks fetch for one another with warpgroups alone");
    REFUSE(!c->mma && v->type == TW_GEMM_TF32, "tf32 is what tensor cores compute with");
    p->depth = c->u / c->kl;
    const char *why = c->mma ? tensor_plan(v, c, t, p) : simt_plan(c, p);
    if (why) return why;
    p->threads = p->group * c->kl;
    REFUSE(p->threads > 1024, "more than 1024 threads");
    REFUSE(p->accumulators * c->ks > TW_GEMM_MAX_ACC, "a thread's tile takes too many registers");
    REFUSE(c->ks > 1 && (c->mma ? p->depth / tw_mma_describe(p->mma)->k : p->depth) < c->ks,
           "nothing to split in a thread");
    if ((why = tile_of(&p->x, v, c, true, p->threads))) return why;
    if ((why = tile_of(&p->y, v, c, false, p->threads))) return why;
    p->vx = fragment_of(&p->x, c, c->ms, p->depth);
    p->vy = fragment_of(&p->y, c, c->ns, p->depth);
    /* Unrolled code of a stage; a k-stored 16-bit tile's pitch keeps fragments aligned by construction. */
    REFUSE(!c->mma && p->accumulators * p->depth > 2048, "a stage unrolls to too much code");
    REFUSE(c->mma && p->accumulators * p->depth > 16384, "a stage unrolls to too much code");
    p->stage_bytes = round_up(p->x.bytes, 16) + round_up(p->y.bytes, 16);
    p->x.bytes = round_up(p->x.bytes, 16);
    const int es = tw_type_bits(tw_gemm_accumulator(v->type)) / 8;
    int join = c->kl > 1 ? c->kl / 2 * p->accumulators * p->group * es : 0;
    const bool cluster = c->kg > 1 && c->split == TW_GEMM_SPLIT_CLUSTER;
    REFUSE(cluster && t->sm < 90, "the target has no clusters");
    REFUSE(cluster && c->kg > TW_GEMM_CLUSTER, "a cluster has no more than 8 blocks");
    if (cluster && p->accumulators * p->group * es > join) join = p->accumulators * p->group * es;
    p->shared_bytes = p->stage_bytes * c->stages;
    if (join > p->shared_bytes) p->shared_bytes = join;
    REFUSE(p->shared_bytes > t->shared_block, "more shared memory than a block may have");
    const int registers = registers_of(v, c, p);
    REFUSE(registers > t->thread_registers, "more registers than a thread may have");
    const int blocks = c->blocks ? c->blocks : 1;
    REFUSE(tw_target_blocks(t, p->threads, registers < 32 ? 32 : registers, p->shared_bytes) < blocks,
           "an SM cannot hold the blocks");
    return NULL;
}

bool tw_gemm_legal(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_target *t, tw_gemm_resources *r,
                   const char **why) {
    tw_gemm_plan plan;
    const char *reason = NULL;
    /* Checked before the variant is derived, which divides by the tile. */
    if (c->ml < 1 || c->nl < 1 || c->u < 1) reason = "a parameter is out of range";
    tw_gemm_variant v = {0};
    if (!reason) {
        v = tw_gemm_variant_of(p, c);
        reason = tw_gemm_plan_of(&v, c, t, &plan);
    }
    const int64_t stages = reason ? 1 : (p->k + c->u - 1) / c->u;
    if (!reason && c->kg > stages) reason = "more splits than stages along k";
    const int64_t m = c->swap ? p->n : p->m, n = c->swap ? p->m : p->n;
    /* Kernels number tiles, parts and groups of tiles in 32 bits; extents are below 2^30, so no product here wraps. */
    const int64_t rows = reason ? 0 : (m + c->ml - 1) / c->ml, columns = reason ? 0 : (n + c->nl - 1) / c->nl;
    const int64_t most = INT32_MAX / 16;
    if (!reason && (rows * columns > most || rows * columns * p->batch > most / c->kg))
        reason = "more blocks than a grid holds";
    if (!reason && c->cast && (c->group == 1 ? columns : rows) % c->cast)
        reason = "tiles that fetch together are no whole number of clusters";
    if (!reason && columns * c->group > INT32_MAX) reason = "a group of tiles is too large";
    const int64_t tiles = reason ? 0 : rows * columns * p->batch;
    if (why) *why = reason;
    if (reason) return false;
    if (!r) return true;
    const int64_t part = (int64_t)plan.accumulators * plan.group * tw_type_bits(tw_gemm_accumulator(v.type)) / 8;
    const bool alone = c->kg == 1 || c->split == TW_GEMM_SPLIT_CLUSTER; /* nothing to exchange through memory */
    *r = (tw_gemm_resources){
        .threads = plan.threads,
        .registers = registers_of(&v, c, &plan),
        .shared_bytes = plan.shared_bytes,
        .tiles = tiles,
        .grid = (c->walk > 1 ? (tiles + c->walk - 1) / c->walk : tiles) * c->kg,
        .stages_of_k = (stages + c->kg - 1) / c->kg,
        .workspace_bytes = alone ? 0 : tiles * part * (c->split == TW_GEMM_SPLIT_LAST ? c->kg : 1),
        .counter_bytes = alone ? 0 : tiles * 4,
    };
    return true;
}

int tw_gemm_legal_all(const tw_gemm_problem *p, const tw_gemm_config *c, int n, const tw_target *t, bool *ok) {
    int legal = 0;
    for (int i = 0; i < n; i++) legal += ok[i] = tw_gemm_legal(p, &c[i], t, NULL, NULL);
    return legal;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor cores a warpgroup at a time. One warp has the copy engine fetch tiles, as boxes of tensor maps, into a ring of
   stages; warpgroups of 64 or 128 rows each multiply what has landed. Two mbarriers a stage: `full` counts the bytes
   that arrive, `empty` the warps that are done with it.

   Tiles lie as wgmma reads them (ir/wgmma.def): rows of 64 elements, 128 bytes, swizzled; along k where the operand is
   so in memory, else along rows (columns). */
#include "kernels/gemm/generate.h"

enum { SPAN = 64 /* elements */, ROW = 128 /* bytes of them */, K = 16, ROWS = 64, WARPS = 4, ATOM = 8 * ROW };

#define REFUSE(condition, reason)                                                                                      \
    do {                                                                                                               \
        if (condition) return reason;                                                                                  \
    } while (0)

static int round_up(int x, int to) {
    return (x + to - 1) / to * to;
}

static void tile_of(tw_gemm_tile *t, bool k_major, int extent, int u) {
    *t = (tw_gemm_tile){.k_major = k_major, .k_stored = k_major, .extent = extent, .es = 2, .vec = 16, .pitch = ROW};
    t->outer = k_major ? extent : u;
    t->inner = t->width = k_major ? u : round_up(extent, SPAN);
    t->total = t->inner / SPAN; /* boxes */
    t->bytes = t->outer * t->inner * t->es;
}

/* Sums, two descriptors, and what the epilogue works with. */
int tw_gemm_wgmma_registers(const tw_gemm_config *c, const tw_gemm_plan *p) {
    (void)c;
    return p->accumulators + 40;
}

const char *tw_gemm_wgmma_plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
    REFUSE(t->sm != 90, "warpgroups' products are of sm_90a alone");
    REFUSE(v->type != TW_GEMM_F16 && v->type != TW_GEMM_BF16, "warpgroups multiply f16 and bf16");
    REFUSE(v->batched, "warpgroups' kernels have no batches");
    REFUSE(c->ks != 1 || c->kl != 1 || c->copy || c->ns != c->nl || c->vec != 16,
           "with warpgroups ks, kl and copy say nothing, ns is nl and vec is 16");
    REFUSE(v->vec_a < 16 || v->vec_b < 16, "the copy engine needs rows that are aligned to 16 bytes");
    REFUSE(c->ms != ROWS && c->ms != 2 * ROWS, "a warpgroup has 64 or 128 rows");
    REFUSE(c->ml > 256 || c->nl > 256 || c->nl % 8,
           "a warpgroup's tile is 256 rows and 256 columns at most, of whole eights");
    REFUSE(c->u < K || ((v->a_k_major || v->b_k_major) && c->u % SPAN),
           "a stage is no whole number of what the copy engine swizzles");
    tile_of(&p->x, v->a_k_major, c->ml, c->u);
    tile_of(&p->y, v->b_k_major, c->nl, c->u);
    p->depth = c->u;
    p->tm = c->ml / c->ms;
    p->tn = 1;
    p->group = p->tm * WARPS * 32;
    p->threads = p->group + 32;
    REFUSE(p->threads > 1024, "more than 1024 threads");
    p->accumulators = c->ms / ROWS * c->nl / 2;
    p->stage_bytes = p->x.bytes + p->y.bytes;
    const bool cluster = c->kg > 1 && c->split == TW_GEMM_SPLIT_CLUSTER;
    REFUSE(cluster && c->kg > TW_GEMM_CLUSTER, "a cluster has no more than 8 blocks");
    const int join = cluster ? p->accumulators * p->group * 4 : 0;
    const int tiles = p->stage_bytes * c->stages > join ? p->stage_bytes * c->stages : join;
    p->shared_bytes = tiles + 16 * c->stages;
    REFUSE(p->shared_bytes > t->shared_block, "more shared memory than a block may have");
    const int registers = tw_gemm_wgmma_registers(c, p);
    REFUSE(registers > t->thread_registers, "more registers than a thread may have");
    REFUSE(tw_target_blocks(t, p->threads, registers, p->shared_bytes) < (c->blocks ? c->blocks : 1),
           "an SM cannot hold the blocks");
    return NULL;
}

tw_tensor_map tw_gemm_wgmma_map(uint64_t address, int64_t extent, int64_t k, int64_t row_bytes, bool k_major, int tile,
                                int u) {
    return (tw_tensor_map){.address = address,
                           .element_bytes = 2,
                           .extent = {k_major ? k : extent, k_major ? extent : k},
                           .row_bytes = row_bytes,
                           .box = {SPAN, k_major ? tile : u},
                           .swizzle = ROW};
}

/* A place in the ring. */
typedef struct ring {
    tw_val stage;          /* variable: bytes */
    tw_val barrier, phase; /* variables: bytes, parity */
} ring;

static ring ring_begin(tw_gemm_gen *g) {
    tw_val zero = tw_i32(g->b, 0);
    return (ring){tw_var_of(g->b, zero), tw_var_of(g->b, zero), tw_var_of(g->b, zero)};
}

static void ring_advance(tw_gemm_gen *g, const ring *r) {
    tw_builder *b = g->b;
    const int end = g->plan.stage_bytes * g->c->stages;
    tw_val next = tw_add_imm(b, r->stage, g->plan.stage_bytes), zero = tw_i32(b, 0);
    tw_val wraps = tw_eq(b, next, tw_i32(b, end));
    tw_val place = tw_add_imm(b, r->barrier, 8), flipped = tw_xor(b, r->phase, tw_i32(b, 1));
    tw_assign(b, r->phase, tw_select(b, wraps, flipped, r->phase));
    tw_assign(b, r->barrier, tw_select(b, wraps, zero, place));
    tw_assign(b, r->stage, tw_select(b, wraps, zero, next));
}

/* -- the warp that copies */

static void load_tile(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val map, tw_val to, tw_val origin, tw_val k,
                      tw_val full) {
    tw_builder *b = g->b;
    for (int i = 0; i < t->total; i++) {
        tw_val at = tw_add_imm(b, to, (int64_t)i * t->outer * ROW);
        tw_val along = tw_add_imm(b, t->k_major ? k : origin, (int64_t)i * SPAN);
        tw_tensor_load(b, at, map, along, t->k_major ? origin : k, full, TW_NONE);
    }
}

static void copy(tw_gemm_gen *g, tw_val barriers, tw_val k_begin, tw_val count) {
    tw_builder *b = g->b;
    const int stages = g->c->stages;
    tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    for (int s = 0; s < stages; s++) {
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, tw_add_imm(b, barriers, 8 * s), tw_i32(b, 1));
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, tw_add_imm(b, barriers, 8 * (stages + s)),
              tw_i32(b, g->plan.group / 32));
    }
    tw_do(b, TW_OP_fence_mbarrier_init, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_pop(b);
    tw_do(b, TW_OP_barrier_arrive, (tw_attrs){.count = g->plan.threads}, tw_i32(b, TW_GEMM_BEGIN), TW_NONE);
    tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    ring r = ring_begin(g);
    tw_val k = tw_var_of(b, k_begin);
    tw_push_for(b, tw_i32(b, 0), count, tw_i32(b, 1), false);
    tw_val full = tw_add(b, barriers, r.barrier), to = tw_add(b, g->shared, r.stage);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, tw_add_imm(b, full, 8 * stages), tw_xor(b, r.phase, tw_i32(b, 1)));
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, tw_i32(b, g->plan.stage_bytes));
    load_tile(g, &g->plan.x, g->arg.map_x, to, g->x.origin, k, full);
    load_tile(g, &g->plan.y, g->arg.map_y, tw_add_imm(b, to, g->plan.x.bytes), g->y.origin, k, full);
    tw_op_to(b, k, TW_OP_add_i32, k, tw_i32(b, g->c->u), TW_NONE);
    ring_advance(g, &r);
    tw_pop(b);
    tw_pop(b);
}

/* -- the warpgroups that multiply */

/* The words of a descriptor: `at` is the address of the first element. */
static tw_val low_word(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val at) {
    const int first = t->k_major ? 1 : t->outer * ROW / 16;
    return tw_add_imm(g->b, tw_shr(g->b, at, 4), (int64_t)first << 16);
}

static tw_val descriptor(tw_gemm_gen *g, tw_val low, int bytes) {
    tw_builder *b = g->b;
    tw_val high = tw_i32(b, 1 << 30 | ATOM / 16);
    return tw_op_emit(b, TW_OP_pack_i64_i32, tw_add_imm(b, low, bytes / 16), high, TW_NONE);
}

/* Bytes from a tile's beginning to 64 rows (or all columns) from `row` on, at k. */
static int distance(const tw_gemm_tile *t, int row, int k) {
    if (t->k_major) return k / SPAN * t->outer * ROW + row * ROW + k % SPAN * t->es;
    return row / SPAN * t->outer * ROW + k * ROW;
}

static void multiply(tw_gemm_gen *g, tw_val x, tw_val y) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_attrs at = {.wgmma = g->v->type == TW_GEMM_F16 ? TW_WGMMA_f16 : TW_WGMMA_bf16,
                         .columns = g->c->nl,
                         .trans_a = !p->x.k_major,
                         .trans_b = !p->y.k_major};
    tw_val yes = tw_const(b, TW_T_pred, 1);
    tw_do(b, TW_OP_wgmma_fence, (tw_attrs){0}, TW_NONE, TW_NONE);
    for (int k = 0; k < g->c->u; k += K)
        for (int i = 0; i < g->c->ms / ROWS; i++) {
            tw_val of_x = descriptor(g, x, distance(&p->x, i * ROWS, k)),
                   of_y = descriptor(g, y, distance(&p->y, 0, k));
            tw_wgmma(b, at, &g->acc[0][i * g->c->nl / 2], of_x, of_y, yes);
        }
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void prepare(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int wide = g->c->nl / 2;
    tw_val first = tw_mul_imm(b, tw_shr(b, g->warp, 2), g->c->ms);
    tw_val within = tw_add(b, tw_mul_imm(b, tw_rem(b, g->warp, WARPS), 16), tw_shr(b, g->lane, 2));
    g->row = tw_add(b, first, within);
    g->column = tw_shl(b, tw_rem(b, g->lane, 4), 1);
    for (int i = 0; i < g->plan.accumulators; i++) {
        g->row_of[i] = i / wide * ROWS + i / 2 % 2 * 8;
        g->column_of[i] = i % wide / 4 * 8 + i % 2;
        g->acc[0][i] = tw_var_of(b, tw_f32(b, 0));
    }
}

/* The stage before is given back while the tensor cores are at work on this one. */
static void sum(tw_gemm_gen *g, tw_val barriers, tw_val count) {
    tw_builder *b = g->b;
    const int stages = g->c->stages;
    const tw_gemm_tile *x = &g->plan.x;
    prepare(g);
    tw_val group = tw_shr(b, g->warp, 2), first = tw_eq(b, g->lane, tw_i32(b, 0));
    const int apart = distance(x, g->c->ms, 0);
    tw_val x0 = low_word(g, x, tw_add(b, g->shared, tw_mul_imm(b, group, apart)));
    tw_val y0 = low_word(g, &g->plan.y, tw_add_imm(b, g->shared, x->bytes));
    ring r = ring_begin(g);
    tw_val before = tw_var_of(b, tw_i32(b, 0));
    tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = g->plan.threads}, tw_i32(b, TW_GEMM_BEGIN), TW_NONE);
    tw_val i = tw_push_for(b, tw_i32(b, 0), count, tw_i32(b, 1), false);
    tw_val full = tw_add(b, barriers, r.barrier), stage = tw_shr(b, r.stage, 4);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, full, r.phase);
    multiply(g, tw_add(b, x0, stage), tw_add(b, y0, stage));
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
    tw_when(b, tw_and(b, first, tw_lt(b, tw_i32(b, 0), i)));
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, before, TW_NONE);
    tw_assign(b, before, tw_add_imm(b, full, 8 * stages));
    ring_advance(g, &r);
    tw_pop(b);
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}

void tw_gemm_wgmma_run(tw_gemm_gen *g, tw_val k_begin, tw_val count) {
    tw_builder *b = g->b;
    const int warps = g->plan.group / 32, roles[4] = {0, warps, warps, warps + 1};
    const int bytes = 16 * g->c->stages;
    tw_shared_add(b, "tiles", g->plan.shared_bytes - bytes, ATOM, true);
    tw_shared_add(b, "barriers", bytes, 8, true);
    g->shared = tw_shared_base(b, "tiles");
    tw_val barriers = tw_shared_base(b, "barriers");
    tw_push_roles(b, roles, 2);
    sum(g, barriers, count);
    tw_gemm_finish(g);
    tw_next_role(b);
    copy(g, barriers, k_begin, count);
    tw_pop(b);
}

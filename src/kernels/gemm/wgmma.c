/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor cores a warpgroup at a time. One warp has the copy engine fetch tiles, as boxes of tensor maps, into a ring of
   stages; warpgroups of 64 or 128 rows each multiply what has landed. Two mbarriers a stage: `full` counts the bytes
   that arrive, `empty` the warps that are done with it.

   Tiles lie as wgmma reads them (ir/wgmma.def): rows of 64 elements, 128 bytes, swizzled; along k where the operand is
   so in memory, else along rows (columns). Of tiles of few columns such a row may have 32 or 16. */
#include "kernels/gemm/generate.h"
#include "kernels/parts/ring.h"

enum { SPAN = 64 /* elements of a row */, K = 16, ROWS = 64, WARPS = 4, ALIGN = 1024 };

/* Elements of a row in shared memory. */
static int span_of(bool k_major, int extent) {
    return k_major || extent > 32 ? SPAN : extent > 16 ? 32 : 16;
}

static void tile_of(tw_gemm_tile *t, bool k_major, int extent, int u) {
    *t = (tw_gemm_tile){.k_major = k_major, .k_stored = k_major, .extent = extent, .es = 2, .vec = 16};
    t->width = span_of(k_major, extent);
    t->pitch = t->width * t->es;
    t->outer = k_major ? extent : u;
    t->inner = tw_gemm_round_up(k_major ? u : extent, t->width);
    t->total = t->inner / t->width; /* boxes */
    t->bytes = t->outer * t->inner * t->es;
}

/* What blocks that fetch together have in common. */
static bool shares_x(const tw_gemm_config *c) {
    return c->cast && c->group == 1;
}
static bool shares_y(const tw_gemm_config *c) {
    return c->cast && c->group > 1;
}

/* Sums, two descriptors, and what the epilogue works with. */
static int registers_of(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_gemm_plan *p) {
    (void)v, (void)c;
    return p->accumulators + 40;
}

static const char *plan(const tw_gemm_variant *v, const tw_gemm_config *c, const tw_target *t, tw_gemm_plan *p) {
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
    REFUSE(p->x.bytes % ALIGN || p->y.bytes % ALIGN, "tiles do not end where the swizzle begins anew");
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
    REFUSE(c->cast && c->cast != 2 && c->cast != 4, "2 or 4 blocks fetch together, or none");
    REFUSE(c->cast && cluster, "a cluster fetches together or splits k, not both");
    REFUSE(c->cast && c->group > 1 && c->group % c->cast, "a group of tiles is no whole number of clusters");
    REFUSE(c->cast && (shares_x(c) ? &p->x : &p->y)->outer % (8 * c->cast),
           "a tile cannot be dealt to the blocks that fetch it together");
    REFUSE(c->exchange < 0 || c->exchange > 1, "sums change places (1) or not (0)");
    REFUSE(c->exchange && cluster, "a cluster's blocks share the sums out already");
    REFUSE(c->exchange && p->group % ((c->swap ? c->ml : c->nl) / 4), "lines of C cannot be dealt to the threads");
    REFUSE(c->walk < 0 || c->walk > 64, "a block walks 64 tiles at most");
    REFUSE(c->walk > 1 && (c->kg > 1 || c->cast), "blocks that walk do so alone, with all of k");
    const int join = cluster ? p->accumulators * p->group * 4 : c->exchange ? tw_gemm_staged_bytes(c) : 0;
    const int ring = p->stage_bytes * c->stages;
    /* The next tile is fetched while this one is stored. */
    p->shared_bytes = (c->walk > 1 ? ring + join : join > ring ? join : ring) + 16 * c->stages;
    REFUSE(p->shared_bytes > t->shared_block, "more shared memory than a block may have");
    const int registers = registers_of(v, c, p);
    REFUSE(registers > t->thread_registers, "more registers than a thread may have");
    REFUSE(tw_target_blocks(t, p->threads, registers, p->shared_bytes) < (c->blocks ? c->blocks : 1),
           "an SM cannot hold the blocks");
    return NULL;
}

tw_tensor_map tw_gemm_wgmma_map(uint64_t address, int64_t extent, int64_t k, int64_t row_bytes, bool k_major,
                                const tw_gemm_config *c, bool is_x) {
    const int tile = is_x ? c->ml : c->nl, outer = k_major ? tile : c->u, span = span_of(k_major, tile);
    return (tw_tensor_map){.address = address,
                           .element = TW_TENSOR_U16,
                           .dims = 2,
                           .extent = {k_major ? k : extent, k_major ? extent : k},
                           .stride = {0, row_bytes},
                           .box = {span, (is_x ? shares_x(c) : shares_y(c)) ? outer / c->cast : outer},
                           .swizzle = 2 * span};
}

/* Opens the loop over the tiles of a persistent block. */
static tw_scope push_walk(tw_gemm_gen *g) {
    if (g->c->walk < 2) return (tw_scope){0};
    const tw_walk walk = tw_gemm_walk(g);
    const tw_scope tiles = tw_walk_push(g->b, &walk);
    tw_gemm_find_tile(g, tiles.i);
    return tiles;
}

static void pop_walk(tw_gemm_gen *g, tw_scope tiles) {
    if (g->c->walk > 1) tw_pop(g->b, tiles);
}

/* -- the warp that copies */

/* A tile, or this block's part of it, for all of the cluster. */
static void load_tile(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val map, tw_val to, tw_val origin, tw_val k,
                      tw_val full, bool shared) {
    tw_builder *b = g->b;
    tw_val along = t->k_major ? k : origin, across = t->k_major ? origin : k;
    if (shared) {
        const int part = t->outer / g->c->cast;
        tw_val rank = tw_sreg(b, TW_SREG_cluster_rank);
        to = tw_add(b, to, tw_mul_imm(b, rank, (int64_t)part * t->pitch));
        across = tw_add(b, across, tw_mul_imm(b, rank, part));
    }
    for (int i = 0; i < t->total; i++)
        tw_tensor_load(b, shared ? (1 << g->c->cast) - 1 : 0, tw_add_imm(b, to, (int64_t)i * t->outer * t->pitch), map,
                       tw_add_imm(b, along, (int64_t)i * t->width), across, full, TW_NONE);
}

/* Nobody may fetch before every mbarrier it signals is initialised. */
static void begin(tw_gemm_gen *g, bool waits) {
    const tw_attrs at = {.count = g->plan.threads};
    if (g->c->cast)
        tw_do(g->b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    else
        tw_do(g->b, waits ? TW_OP_barrier_sync : TW_OP_barrier_arrive, at, tw_i32(g->b, TW_GEMM_BEGIN), TW_NONE);
}

static void copy(tw_gemm_gen *g, const tw_ring *ring, tw_val k_begin, tw_val count) {
    tw_builder *b = g->b;
    const tw_scope first_lane = tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    /* The copy engine reads a map before it can begin. */
    tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_x, TW_NONE);
    tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, g->arg.map_y, TW_NONE);
    tw_ring_init(b, ring, g->target->sm, 1, g->plan.group / 32 * (g->c->cast ? g->c->cast : 1));
    tw_pop(b, first_lane);
    begin(g, false);
    const tw_scope producer = tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    const tw_ring_cursor c = tw_ring_begin(b, ring, 1);
    const tw_scope tiles = push_walk(g);
    tw_val k = tw_var_of(b, k_begin);
    const tw_scope loop = tw_push_for(b, tw_i32(b, 0), count, tw_i32(b, 1), false);
    tw_val full = tw_ring_full(b, ring, &c), to = tw_ring_data(b, ring, &c, TW_NONE);
    tw_ring_wait(b, tw_ring_empty(b, ring, &c), &c);
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, tw_i32(b, g->plan.stage_bytes));
    load_tile(g, &g->plan.x, g->arg.map_x, to, g->x.origin, k, full, shares_x(g->c));
    load_tile(g, &g->plan.y, g->arg.map_y, tw_add_imm(b, to, g->plan.x.bytes), g->y.origin, k, full, shares_y(g->c));
    tw_op_to(b, k, TW_OP_add_i32, k, tw_i32(b, g->c->u), TW_NONE);
    tw_ring_advance(b, ring, &c);
    tw_pop(b, loop);
    pop_walk(g, tiles);
    tw_pop(b, producer);
}

/* -- the warpgroups that multiply */

/* The words of a descriptor: `at` is the address of the first element, of which the upper bits name a block of the
   cluster and have no place here. */
static tw_val low_word(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val at) {
    const int first = t->k_major ? 1 : t->outer * t->pitch / 16;
    at = tw_and(g->b, at, tw_i32(g->b, 0x3ffff));
    return tw_add_imm(g->b, tw_shr(g->b, at, 4), (int64_t)first << 16);
}

static tw_val descriptor(tw_gemm_gen *g, const tw_gemm_tile *t, tw_val low, int bytes) {
    tw_builder *b = g->b;
    const uint32_t layout = t->width == SPAN ? 1 : t->width == 32 ? 2 : 3;
    tw_val high = tw_i32(b, (int32_t)(layout << 30 | (uint32_t)t->pitch * 8 / 16));
    return tw_op_emit(b, TW_OP_pack_i64_i32, tw_add_imm(b, low, bytes / 16), high, TW_NONE);
}

/* Bytes from a tile's beginning to 64 rows (or all columns) from `row` on, at k. */
static int distance(const tw_gemm_tile *t, int row, int k) {
    if (t->k_major) return k / t->width * t->outer * t->pitch + row * t->pitch + k % t->width * t->es;
    return row / t->width * t->outer * t->pitch + k * t->pitch;
}

static void multiply(tw_gemm_gen *g, tw_val x, tw_val y, tw_val first) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const tw_attrs at = {.wgmma = g->v->type == TW_GEMM_F16 ? TW_WGMMA_f16 : TW_WGMMA_bf16,
                         .columns = g->c->nl,
                         .trans_a = !p->x.k_major,
                         .trans_b = !p->y.k_major};
    tw_val yes = tw_const(b, TW_T_pred, 1), again = tw_not(b, first);
    tw_do(b, TW_OP_wgmma_fence, (tw_attrs){0}, TW_NONE, TW_NONE);
    for (int k = 0; k < g->c->u; k += K)
        for (int i = 0; i < g->c->ms / ROWS; i++) {
            tw_val of_x = descriptor(g, &p->x, x, distance(&p->x, i * ROWS, k)),
                   of_y = descriptor(g, &p->y, y, distance(&p->y, 0, k));
            tw_wgmma(b, at, &g->acc[0][i * g->c->nl / 2], of_x, of_y, k ? yes : again);
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

/* A warp is done with a stage, which everybody who fills it hears. Only of those that are filled again: so nothing
   arrives at a block that has ended. */
static void give_back(tw_gemm_gen *g, tw_val empty, tw_val again) {
    const int blocks = g->c->cast ? g->c->cast : 1;
    tw_ring_give_back(g->b, &(tw_ring_return){.empty = empty, .blocks = blocks, .lane = g->lane, .when = again});
}

/* The stage before is given back while the tensor cores are at work on this one. */
static void sum(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, tw_val count) {
    tw_builder *b = g->b;
    const int stages = g->c->stages;
    const bool walks = g->c->walk > 1;
    const tw_gemm_tile *x = &g->plan.x;
    tw_val group = tw_shr(b, g->warp, 2), zero = tw_i32(b, 0);
    const int apart = distance(x, g->c->ms, 0);
    tw_val x0 = low_word(g, x, tw_add(b, g->shared, tw_mul_imm(b, group, apart)));
    tw_val y0 = low_word(g, &g->plan.y, tw_add_imm(b, g->shared, x->bytes));
    tw_val before = tw_var_of(b, zero), last = tw_add_imm(b, count, 1 - stages);
    const tw_scope loop = tw_push_for(b, zero, count, tw_i32(b, 1), false);
    tw_val i = loop.i;
    tw_val stage = tw_shr(b, c->stage, 4);
    tw_ring_wait(b, tw_ring_full(b, ring, c), c);
    multiply(g, tw_add(b, x0, stage), tw_add(b, y0, stage), tw_eq(b, i, zero));
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
    tw_val filled = tw_lt(b, zero, i);
    give_back(g, before, walks ? filled : tw_and(b, filled, tw_lt(b, i, last)));
    tw_assign(b, before, tw_ring_empty(b, ring, c));
    tw_ring_advance(b, ring, c);
    tw_pop(b, loop);
    tw_do(b, TW_OP_wgmma_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    if (walks) give_back(g, before, tw_const(b, TW_T_pred, 1));
}

static void build(tw_gemm_gen *g, const tw_gemm_range *r) {
    tw_builder *b = g->b;
    const int warps = g->plan.group / 32, ranges[4] = {0, warps, warps, warps + 1};
    const int bytes = 16 * g->c->stages;
    tw_shared_add(b, "tiles", g->plan.shared_bytes - bytes, ALIGN, true);
    tw_shared_add(b, "barriers", bytes, 8, true);
    g->shared = tw_shared_base(b, "tiles");
    const tw_ring ring = {.data = g->shared,
                          .barriers = tw_shared_base(b, "barriers"),
                          .empty = 8 * g->c->stages,
                          .stages = g->c->stages,
                          .bytes = g->plan.stage_bytes,
                          .offsets = true};
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    prepare(g);
    const tw_ring_cursor c = tw_ring_begin(b, &ring, 0);
    begin(g, true);
    const tw_scope tiles = push_walk(g);
    sum(g, &ring, &c, r->count);
    tw_gemm_finish(g);
    pop_walk(g, tiles);
    tw_next_role(b, roles);
    copy(g, &ring, r->k_begin, r->count);
    tw_pop(b, roles);
}

const tw_gemm_way tw_gemm_wgmma = {.tensor_copies = true, .plan = plan, .registers = registers_of, .build = build};

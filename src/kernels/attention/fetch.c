/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that copies: queries of each tile, and blocks of keys and values in the order in which they are multiplied.
 */
#include "base/divide.h"
#include "kernels/attention/generate.h"

static void fetch(tw_attention_gen *g, const tw_tile *tile, const tw_ring *ring, const tw_ring_cursor *c, tw_val map,
                  tw_val row, tw_val head, tw_val set) {
    tw_builder *b = g->b;
    tw_val full = tw_ring_fill(b, ring, c, tw_i32(b, tw_tile_bytes(tile))), zero = tw_i32(b, 0);
    const tw_tile_copy copy = {.map = map,
                               .to = tw_ring_data(b, ring, c, TW_NONE),
                               .origin = tile->k_major ? row : zero,
                               .k = tile->k_major ? zero : row,
                               .matrix = head,
                               .set = set,
                               .full = full};
    tw_tile_fetch(b, tile, &copy);
}

typedef struct cursors {
    tw_ring_cursor q, k, v;
    tw_ring_cursor landed_k, landed_v; /* If the plan gathers: the oldest stages whose copies are on their way. */
} cursors;

static int boxes_of(const tw_attention_gen *g) {
    return g->c->columns / g->plan.lines; /* At most a warp's lanes. */
}

/* Returns the lane's first key of a block (i32) whose first row is `row`. */
static tw_val first_key(tw_attention_gen *g, tw_val row) {
    return tw_add(g->b, row, tw_mul_imm(g->b, g->lane, g->plan.lines));
}

/* Looks up the page of the lane's keys of a block. Rows outside the sequence are of its first or last page, so that no
   page is fetched that is not the sequence's. */
static tw_val look_up(tw_attention_gen *g, const tw_attention_tile *t, tw_val row) {
    tw_builder *b = g->b;
    const int page = (int)g->p->page, each = (int)tw_ceil_div(g->p->keys, page);
    tw_val zero = tw_i32(b, 0), last = tw_max(b, tw_add_imm(b, t->keys, -1), zero);
    tw_val key = tw_max(b, tw_min(b, first_key(g, row), last), zero);
    tw_val place = tw_add(b, tw_mul_imm(b, t->sequence, each), tw_div(b, key, page));
    tw_val at = tw_add(b, g->arg.pages, tw_mul_imm(b, tw_widen(b, place), 4));
    return tw_ld(b, (tw_attrs){.type = TW_T_i32}, at);
}

/* Fetches a block of keys or values page by page. All lanes of a warp call it, each for the page `of`. */
static void fetch_pages(tw_attention_gen *g, const tw_tile *tile, const tw_ring *ring, const tw_ring_cursor *c,
                        tw_val map, tw_val row, tw_val head, tw_val of) {
    tw_builder *b = g->b;
    const int lines = g->plan.lines, pitch = tile->width * tile->es;
    tw_val zero = tw_i32(b, 0), full = tw_ring_full(b, ring, c), to = tw_ring_data(b, ring, c, TW_NONE);
    TW_IF (b, tw_eq(b, g->lane, zero)) tw_ring_fill(b, ring, c, tw_i32(b, tw_tile_bytes(tile)));
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    TW_IF (b, tw_lt(b, g->lane, tw_i32(b, boxes_of(g)))) {
        tw_val key = first_key(g, row);
        of = tw_binary(b, TW_OP_min_u32, of, tw_i32(b, (int)g->p->pool - 1));
        for (int k = 0; k < tile->boxes; k++) {
            const tw_box box = {.map = map,
                                .at = {tw_i32(b, k * tile->width), tw_rem(b, key, (int)g->p->page), head, of}};
            tw_val offset = tw_mul_imm(b, g->lane, (int64_t)lines * pitch);
            tw_val place_of_box = tw_add_imm(b, to, (int64_t)k * tile->lines * pitch);
            tw_tensor_load_box(b, (tw_attrs){.dims = 4}, tw_add(b, place_of_box, offset), &box, full, TW_NONE);
        }
    }
}

/* Opens the block of those that fetch: one lane, or with pages all. */
static tw_scope push_fetchers(tw_attention_gen *g) {
    return g->p->page ? TW_NO_BLOCK : tw_push_if(g->b, tw_eq(g->b, g->lane, tw_i32(g->b, 0)));
}

/* Opens the block of the lane that fetches what has no pages. Without pages it alone is here. */
static tw_scope push_lowest(tw_attention_gen *g) {
    return g->p->page ? tw_push_if(g->b, tw_eq(g->b, g->lane, tw_i32(g->b, 0))) : TW_NO_BLOCK;
}

/* Fetches the queries of several heads. */
static void fetch_packed(tw_attention_gen *g, const tw_ring_cursor *c, const tw_attention_tile *t, tw_val set) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    tw_val full = tw_ring_fill(b, &g->q, c, tw_i32(b, tw_tile_bytes(q))), zero = tw_i32(b, 0);
    for (int k = 0; k < q->depth; k += q->width) {
        const tw_box box = {.map = g->arg.map_q, .at = {tw_i32(b, k), zero, t->row, t->head, set}};
        tw_val to = tw_add_imm(b, tw_ring_data(b, &g->q, c, TW_NONE), tw_tile_offset(q, 0, k));
        tw_tensor_load_box(b, (tw_attrs){.dims = 5}, to, &box, full, TW_NONE);
    }
}

/* Fetches the queries. Every lane's cursor goes on. */
static void fetch_queries(tw_attention_gen *g, const tw_ring_cursor *c, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    tw_val set = g->p->ragged ? tw_i32(b, 0) : t->sequence; /* Ragged rows are those of one set. */
    TW_BLOCK (b, push_lowest(g)) {
        if (g->plan.pack > 1)
            fetch_packed(g, c, t, set);
        else
            fetch(g, &g->plan.q, &g->q, c, g->arg.map_q, t->row, t->head, set);
    }
    tw_ring_advance(b, &g->q, c);
}

/* A block of keys. */
typedef struct block {
    tw_val row; /* Its first row. */
    /* The page of the lane's keys, if there are pages. If the plan gathers: the rows of the lane's keys. */
    tw_val pages[TW_ATTENTION_ROWS];
} block;

/* Counts the numbers in block.pages. */
static int pages_of(const tw_attention_gen *g) {
    return g->plan.gathers ? tw_attention_rows_of_lane(g) : g->p->page ? 1 : 0;
}

/* Returns the block from `row` on, whose pages are looked up now. */
static block block_at(tw_attention_gen *g, const tw_attention_tile *t, tw_val row) {
    block x = {.row = row};
    if (g->plan.gathers)
        tw_attention_look_up_rows(g, t, row, x.pages);
    else if (g->p->page)
        x.pages[0] = look_up(g, t, row);
    return x;
}

/* Fetches a block of keys, or of values. */
static void fetch_block(tw_attention_gen *g, bool values, const cursors *all, const tw_attention_tile *t,
                        const block *x) {
    tw_builder *b = g->b;
    const tw_ring_cursor *c = values ? &all->v : &all->k;
    const tw_tile *tile = values ? &g->plan.v : &g->plan.k;
    const tw_ring *ring = values ? &g->values : &g->keys;
    tw_val map = values ? g->arg.map_v : g->arg.map_k;
    tw_val head = tw_div(b, t->head, g->plan.heads / (int)g->p->kv_heads);
    /* Ragged rows that lie as Q's do are those of one set. */
    tw_val set = g->p->ragged && !g->p->capacity ? tw_i32(b, 0) : t->sequence;
    if (g->plan.gathers)
        tw_attention_gather(g, tile, ring, c, values ? g->arg.v : g->arg.k, head, x->pages);
    else if (g->p->page)
        fetch_pages(g, tile, ring, c, map, x->row, head, x->pages[0]);
    else
        fetch(g, tile, ring, c, map, x->row, head, set);
    tw_ring_advance(b, ring, c);
}

static void become(tw_attention_gen *g, const block *x, const block *by) {
    tw_assign(g->b, x->row, by->row);
    for (int i = 0; i < pages_of(g); i++) tw_assign(g->b, x->pages[i], by->pages[i]);
}

static block variable_of(tw_attention_gen *g, block x) {
    x.row = tw_var_of(g->b, x.row);
    for (int i = 0; i < pages_of(g); i++) x.pages[i] = tw_var_of(g->b, x.pages[i]);
    return x;
}

/* Lands a block that was gathered, keys or values, behind which `pending` others are on their way. */
static void land(tw_attention_gen *g, bool values, const cursors *c, int pending) {
    if (g->plan.gathers)
        tw_attention_land(g, pending, values ? &g->values : &g->keys, values ? &c->landed_v : &c->landed_k);
}

/* Lands the block before the one that was fetched last: with overlap those are values, but for the tile's first keys.
 */
static void land_before(tw_attention_gen *g, const cursors *c, tw_val first) {
    if (!g->plan.gathers) return;
    TW_IF (g->b, first) {
        land(g, false, c, 1);
    } else {
        land(g, true, c, 1);
    }
}

/* Fetches the blocks of a part of a tile. One thread calls it, or with pages a warp. Pages are looked up a block ahead,
   so that no copy waits for that. */
static void fetch_part(tw_attention_gen *g, const cursors *c, const tw_attention_tile *t,
                       const tw_attention_blocks *blocks) {
    tw_builder *b = g->b;
    tw_val last = tw_add_imm(b, blocks->below, -1);
    tw_val row = tw_add(b, t->base, tw_mul_imm(b, last, g->c->columns));
    const block x = variable_of(g, block_at(g, t, row));
    const block next = variable_of(g, block_at(g, t, tw_add_imm(b, row, -g->c->columns)));
    /* The place of queries may be taken until the tile before is stored. */
    fetch_block(g, false, c, t, &x);
    fetch_queries(g, &c->q, t);
    TW_FOR (b, i, blocks->first, last, tw_i32(b, 1), false) {
        /* One block at most is on its way when the next one waits for a stage, which consumers return when they had
           those before. */
        if (g->c->overlap) {
            fetch_block(g, false, c, t, &next);
            land_before(g, c, tw_eq(b, i, blocks->first));
        }
        const block behind_next = block_at(g, t, tw_add_imm(b, next.row, -g->c->columns));
        fetch_block(g, true, c, t, &x);
        land(g, false, c, 1);
        if (!g->c->overlap) {
            fetch_block(g, false, c, t, &next);
            land(g, true, c, 1);
        }
        become(g, &x, &next);
        become(g, &next, &behind_next);
    }
    fetch_block(g, true, c, t, &x);
    if (g->c->overlap)
        land_before(g, c, tw_eq(b, blocks->first, last));
    else
        land(g, false, c, 1);
    land(g, true, c, 0);
}

static void fetch_tile(tw_attention_gen *g, const cursors *c, const tw_attention_tile *t) {
    const tw_attention_blocks blocks = tw_attention_blocks_of(g, t);
    TW_BLOCK (g->b, tw_attention_push_part(g, t, &blocks)) fetch_part(g, c, t, &blocks);
}

static cursors begin(tw_attention_gen *g) {
    tw_builder *b = g->b;
    cursors c = {
        .q = tw_ring_begin(b, &g->q, 1), .k = tw_ring_begin(b, &g->keys, 1), .v = tw_ring_begin(b, &g->values, 1)};
    if (g->plan.gathers) {
        c.landed_k = tw_ring_begin(b, &g->keys, 0);
        c.landed_v = tw_ring_begin(b, &g->values, 0);
    }
    return c;
}

/* Ragged sequences' tiles take registers to find, and pages to fetch, so that a warp does only one of these. */
static void find_in_one_warp_and_fetch_in_another(tw_attention_gen *g, int first, tw_val lowest) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first))) {
        tw_attention_finder f;
        tw_attention_push_found(g, &f, lowest);
        tw_attention_pop_found(g, &f);
    }
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first + 1))) {
        const cursors c = begin(g);
        tw_attention_tile t;
        TW_BLOCK (b, tw_attention_push_told(g, &t)) {
            TW_BLOCK (b, push_fetchers(g)) fetch_tile(g, &c, &t);
        }
    }
}

static void find_and_fetch(tw_attention_gen *g, int first, tw_val lowest) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first))) {
        const cursors c = begin(g);
        tw_attention_finder f;
        tw_attention_push_found(g, &f, lowest);
        TW_BLOCK (b, push_fetchers(g)) fetch_tile(g, &c, &f.tile);
        tw_attention_pop_found(g, &f);
    }
}

/* Fetches the first blocks of the block's first tile into the L2. Whatever the launch before still writes reaches the
   L2, so that nothing old is kept. One thread calls it. */
static void prefetch(tw_attention_gen *g) {
    tw_builder *b = g->b;
    enum { MOST = 16 /* Blocks of keys, and of values. */ };
    const tw_attention_tile t = tw_attention_first_tile(g);
    const tw_attention_blocks blocks = tw_attention_blocks_of(g, &t);
    tw_val head = tw_div(b, t.head, g->plan.heads / (int)g->p->kv_heads);
    TW_BLOCK (b, tw_attention_push_part(g, &t, &blocks)) {
        tw_val count = tw_min(b, tw_sub(b, blocks.below, blocks.first), tw_i32(b, MOST));
        TW_FOR (b, i, tw_i32(b, 0), count, tw_i32(b, 1), false) {
            tw_val row = tw_mul_imm(b, tw_sub(b, tw_add_imm(b, blocks.below, -1), i), g->c->columns);
            for (int k = 0; k < 2 * g->plan.k.boxes; k++) {
                const tw_box box = {.map = k % 2 ? g->arg.map_v : g->arg.map_k,
                                    .at = {tw_i32(b, k / 2 * g->plan.k.width), row, head, t.sequence}};
                tw_tensor_prefetch_box(b, (tw_attrs){.dims = 4}, &box, TW_NONE);
            }
        }
    }
}

/* Tells the consumers that the mbarriers are initialised, without waiting for them. `shared`: a warp that did not
   initialise the mbarriers uses them, and waits for that. It does so at a barrier of the producer's own, since all
   threads that wait at a barrier have to do so in one place of the code. */
static void let_begin(tw_attention_gen *g, bool shared) {
    tw_builder *b = g->b;
    const tw_attrs all = {.count = g->plan.threads}, mine = {.count = TW_ATTENTION_WARPS * 32};
    if (shared) tw_do(b, TW_OP_barrier_sync, mine, tw_i32(b, TW_ATTENTION_PRODUCER), TW_NONE);
    tw_do(b, TW_OP_barrier_arrive, all, tw_i32(b, TW_ATTENTION_BEGIN), TW_NONE);
}

void tw_attention_fetch(tw_attention_gen *g) {
    tw_builder *b = g->b;
    const tw_attention_plan *plan = &g->plan;
    const bool apart = g->p->ragged || g->p->page;
    const int warps = plan->groups * TW_ATTENTION_WARPS;
    if (plan->producer_registers)
        tw_do(b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = plan->producer_registers}, TW_NONE, TW_NONE);
    tw_val lowest = tw_eq(b, g->tid, tw_i32(b, 32 * warps));
    TW_IF (b, lowest) {
        const tw_val maps[] = {g->arg.map_q, g->arg.map_k, g->arg.map_v, g->arg.map_o};
        for (int i = 0; i < 4; i++)
            if (maps[i].id) tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, maps[i], TW_NONE);
        const tw_ring *const rings[] = {&g->q, &g->keys, &g->values};
        for (int i = 0; i < 3; i++) tw_ring_init(b, rings[i], b->kernel->target, 1, warps);
        tw_ring_init(b, &g->told, b->kernel->target, 1, 32 * (apart ? warps + 1 : warps));
    }
    let_begin(g, apart);
    if (g->c->early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        if (g->c->early == TW_ATTENTION_BESIDE) {
            TW_IF (b, lowest) prefetch(g);
        }
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    (apart ? find_in_one_warp_and_fetch_in_another : find_and_fetch)(g, warps, lowest);
}

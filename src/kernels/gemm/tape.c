/* SPDX-License-Identifier: Apache-2.0 */
/* B as a tape (tw_gemm_tape). The kernel walks along k in the order in which a unit's pieces lie, so that a stage of a
   unit is one bulk copy. The other operand's boxes are then not next to one another: a stage may have elements of
   several runs.

   A bulk copy takes its operands from registers that a warp's lanes share. ptxas makes a loop over lanes of it, unless
   one lane copies that was elected just before. So all lanes of the producer's warps go through the stages, and an
   elected one copies. With n such warps warp j has units j, j + n, and so on. */
#include "base/divide.h"
#include "base/random.h"
#include "kernels/gemm/generate.h"

#include <string.h>

enum {
    ROWS = TW_TILE_ROWS,
    DEPTH = TW_TILE_PIECE_LINE / 2,
    COLUMN = TW_TILE_PIECE / DEPTH, /* Bytes of a unit for an element along k. */
    FETCHERS = 4                    /* Warps that copy. A quarter of an SM runs one of them. */
};

static int64_t chunk_of(const tw_gemm_tape *t) {
    return (int64_t)t->warps * t->run * DEPTH;
}

int64_t tw_gemm_depth(const tw_gemm_problem *p) {
    return p->tape.warps ? tw_ceil_div(p->k, chunk_of(&p->tape)) * chunk_of(&p->tape) : p->k;
}

static int64_t units_in(const tw_gemm_problem *p) {
    return tw_ceil_div(p->n, ROWS) * (p->groups ? p->groups : 1);
}

int64_t tw_gemm_tape_of_unit(const tw_gemm_problem *p) {
    return p->tape.apart ? tw_gemm_depth(p) / chunk_of(&p->tape) : 1;
}

int64_t tw_gemm_tape_entries(const tw_gemm_problem *p) {
    return units_in(p) * tw_gemm_tape_of_unit(p) + (p->tape.apart ? 1 : 0);
}

size_t tw_gemm_tape_bytes(const tw_gemm_problem *p) {
    return (size_t)(units_in(p) * tw_gemm_depth(p) * COLUMN);
}

/* Returns the element along k of the tape's order at `at`. */
static int64_t element_of(const tw_gemm_tape *t, int64_t at) {
    const int64_t chunk = at / chunk_of(t), in = at % chunk_of(t), block = (int64_t)t->blocks * DEPTH,
                  number = in / block;
    return chunk * chunk_of(t) + number % t->warps * t->run * DEPTH + number / t->warps * block + in % block;
}

/* Copies a column of B to its line of a unit. `tape` is the memory that begins at `address`. */
static void pack_column(const tw_gemm_problem *p, const char *column, int line, const tw_gemm_unit *u, uint64_t address,
                        char *tape) {
    enum { QUARTER = TW_TILE_PIECE_LINE / 4, EIGHT = QUARTER / 2 };
    const int64_t chunk = chunk_of(&p->tape), depth = tw_gemm_depth(p);
    for (int64_t at = 0; at < depth; at += EIGHT) {
        const int64_t k = element_of(&p->tape, at), left = p->k - k, n = left < EIGHT ? left : EIGHT;
        const int64_t number = at / chunk;
        const uint64_t begin = p->tape.apart ? u[number].address : u->address + (uint64_t)(number * u->stride);
        char *to = tape + (begin - address) + at % chunk / DEPTH * TW_TILE_PIECE + line * TW_TILE_PIECE_LINE;
        if (n > 0) memcpy(to + (at % DEPTH / EIGHT ^ line / 2 % 4) * QUARTER, column + 2 * k, (size_t)n * 2);
    }
}

void tw_gemm_tape_place(const tw_gemm_problem *p, uint64_t seed, uint64_t address, tw_gemm_unit *units) {
    enum { MOST = 16 /* Units of a strip. */ };
    if (!p->tape.warps) return;
    const int64_t n = units_in(p), bytes = chunk_of(&p->tape) * COLUMN, chunks = tw_gemm_depth(p) * COLUMN / bytes;
    tw_random r = tw_random_seed(seed ^ 0x74617065);
    if (p->tape.apart) { /* Chunks lie in a random order. */
        const int64_t all = n * chunks;
        for (int64_t i = 0; i < all; i++) units[i] = (tw_gemm_unit){address + (uint64_t)(i * bytes), 0};
        for (int64_t i = all; i > 1; i--) {
            const int64_t j = (int64_t)tw_random_below(&r, (uint64_t)i);
            const tw_gemm_unit moved = units[i - 1];
            units[i - 1] = units[j];
            units[j] = moved;
        }
        units[all] = (tw_gemm_unit){address, 0};
        return;
    }
    for (int64_t left = n; left > 0;) {
        const int64_t most = left < MOST ? left : MOST, strip = 1 + (int64_t)tw_random_below(&r, (uint64_t)most);
        for (int64_t i = 0; i < strip; i++)
            units[left - strip + i] = (tw_gemm_unit){address + (uint64_t)(i * bytes), strip * bytes};
        address += (uint64_t)(strip * bytes * chunks);
        left -= strip;
    }
}

void tw_gemm_tape_pack(const tw_gemm_problem *p, const void *b, const tw_gemm_unit *units, uint64_t address,
                       void *tape) {
    const int64_t per = tw_ceil_div(p->n, ROWS);
    if (!p->tape.warps) return;
    memset(tape, 0, tw_gemm_tape_bytes(p));
    for (int64_t group = 0; group < (p->groups ? p->groups : 1); group++)
        for (int64_t column = 0; column < p->n; column++) {
            const tw_gemm_unit *u = &units[(group * per + column / ROWS) * tw_gemm_tape_of_unit(p)];
            const char *from = (const char *)b + 2 * (group * p->stride_b + column * p->ldb);
            pack_column(p, from, (int)(column % ROWS), u, address, tape);
        }
}

const char *tw_gemm_tape_plan(const tw_gemm_variant *v, const tw_gemm_config *c) {
    const int block = v->tape.blocks * DEPTH;
    REFUSE(c->u < DEPTH, "a stage is less than a tape's piece");
    REFUSE(block % c->u && (c->u % block || v->tape.warps * block % c->u),
           "a stage is no whole number of a tape's blocks, nor a part of one");
    REFUSE(tw_gemm_fetchers(c, c->swap) > 1, "a tape is not multicast");
    return NULL;
}

/* Tells whether X or Y is the tape. */
bool tw_gemm_is_tape(const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x) {
    return v->tape.warps && is_x == (bool)c->swap;
}

tw_tile tw_gemm_tile_of(const tw_gemm_variant *v, const tw_gemm_config *c, bool is_x) {
    const int es = tw_type_bits(tw_gemm_types[v->type].element) / 8, extent = is_x ? c->ml : c->nl;
    if (tw_gemm_is_tape(v, c, is_x)) return tw_tile_of_pieces(extent, c->u);
    const tw_tile t = tw_tile_of(is_x ? v->a_k_major : v->b_k_major, es, extent, c->u);
    return v->tape.warps ? tw_tile_cut(t, v->tape.blocks * DEPTH) : t;
}

static int units_of(const tw_gemm_config *c) {
    return (c->swap ? c->ml : c->nl) / ROWS;
}

int tw_gemm_tape_fetchers(const tw_gemm_config *c) {
    return units_of(c) < FETCHERS ? 1 : FETCHERS;
}

tw_val tw_gemm_tape_fetcher(tw_gemm_gen *g) {
    return tw_add_imm(g->b, tw_sreg(g->b, TW_SREG_warpid), -g->plan.group * g->plan.teams / 32);
}

/* Counts the units that a warp copies at most. */
static int units_of_warp(const tw_gemm_gen *g) {
    return (units_of(g->c) + g->plan.fetchers - 1) / g->plan.fetchers;
}

tw_scope tw_gemm_tape_elect(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    return tw_push_if(b, tw_get(b, TW_OP_elect, (tw_attrs){0}, TW_T_pred, tw_i32(b, -1), TW_NONE));
}

void tw_gemm_tape_expect(tw_gemm_gen *g, tw_val full, tw_val bytes) {
    tw_builder *b = g->b;
    const int n = g->plan.fetchers, all = g->c->swap ? g->plan.x.bytes : g->plan.y.bytes, unit = g->c->u * COLUMN;
    tw_val fetcher = tw_gemm_tape_fetcher(g);
    /* Units of the tile whose number is that of the warp modulo n. */
    tw_val units = tw_div(b, tw_sub(b, tw_i32(b, units_of(g->c) + n - 1), fetcher), n);
    tw_val first = tw_eq(b, fetcher, tw_i32(b, 0)), others = tw_add_imm(b, bytes, -all);
    tw_val mine = tw_add(b, tw_mul_imm(b, units, unit), tw_select(b, first, others, tw_i32(b, 0)));
    TW_BLOCK (b, tw_gemm_tape_elect(g)) tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, mine);
}

/* Computes the bytes of n entries of the table of units. */
static tw_val entries_bytes(tw_gemm_gen *g, tw_val n) {
    return tw_mul_imm(g->b, tw_widen(g->b, n), (int64_t)sizeof(tw_gemm_unit));
}

/* Begins at the tile's first stage. The divisions are here so that the loop over stages has none: a producer that
   divides is slower than the products of small tiles. */
static void begin_walk(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_gemm_tape_walk *w = &g->walk;
    const bool whole = g->c->kg == 1 && !g->c->stream; /* A tile begins with the first chunk. */
    tw_val chunk = whole ? tw_i32(b, 0) : tw_binary(b, TW_OP_div_u32, g->k_begin, g->arg.tape_chunk);
    tw_val first = whole ? chunk : tw_mul(b, chunk, g->arg.tape_chunk),
           in = whole ? chunk : tw_sub(b, g->k_begin, first);
    for (int i = 0; i < units_of_warp(g); i++) {
        tw_val unit[2] = {{0}};
        if (g->v->tape.apart) {
            w->unit[i] = tw_var_of(b, whole ? w->unit[i] : tw_add(b, w->unit[i], entries_bytes(g, chunk)));
            unit[0] = tw_ld(b, (tw_attrs){.type = TW_T_i64}, w->unit[i]);
        } else {
            tw_ld_vec(b, (tw_attrs){.type = TW_T_i64, .vec = 2}, w->unit[i], unit);
        }
        if (!whole && !g->v->tape.apart) unit[0] = tw_add(b, unit[0], tw_mul(b, tw_widen(b, chunk), unit[1]));
        if (!whole) unit[0] = tw_add(b, unit[0], tw_widen(b, tw_mul_imm(b, in, COLUMN)));
        w->piece[i] = tw_var_of(b, unit[0]);
    }
    w->in = tw_var_of(b, in);
    w->chunk = tw_var_of(b, first);
    w->within = tw_var_of(b, in);
}

/* Moves a place in a chunk to the next stage's. Returns the predicate that it is in the next chunk. */
static tw_val step(tw_gemm_gen *g, tw_val in) {
    tw_builder *b = g->b;
    tw_val next = tw_add_imm(b, in, g->c->u), ends = tw_eq(b, next, g->arg.tape_chunk);
    tw_assign(b, in, tw_select(b, ends, tw_i32(b, 0), next));
    return ends;
}

void tw_gemm_tape_find(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const bool swap = g->c->swap;
    const tw_gemm_operand *o = swap ? &g->x : &g->y;
    tw_val table = swap ? g->arg.x : g->arg.y;
    tw_val last = tw_div(b, tw_add_imm(b, o->limit, -1), ROWS);
    tw_val first = tw_add(b, tw_div(b, o->origin, ROWS), tw_gemm_tape_fetcher(g));
    if (g->v->grouped) {
        tw_val apart = swap ? g->arg.stride_x : g->arg.stride_y;
        table = tw_add(b, table, tw_mul(b, tw_widen(b, g->matrix), apart));
    }
    for (int i = 0; i < units_of_warp(g); i++) {
        tw_val unit = tw_min(b, tw_add_imm(b, first, i * g->plan.fetchers), last);
        if (g->v->tape.apart) unit = tw_mul(b, unit, g->arg.tape_chunks);
        g->walk.unit[i] = tw_add(b, table, entries_bytes(g, unit));
    }
    begin_walk(g);
}

void tw_gemm_tape_fetch(tw_gemm_gen *g, tw_val to, tw_val full) {
    tw_builder *b = g->b;
    const int bytes = g->c->u * COLUMN, n = units_of_warp(g), units = units_of(g->c), fetchers = g->plan.fetchers;
    tw_gemm_tape_walk *w = &g->walk;
    tw_val fetcher = tw_gemm_tape_fetcher(g), place = tw_add(b, to, tw_mul_imm(b, fetcher, bytes));
    TW_BLOCK (b, tw_gemm_tape_elect(g)) {
        for (int i = 0; i < n; i++) {
            tw_val at = tw_add_imm(b, place, (int64_t)i * fetchers * bytes);
            const tw_val operands[] = {at, w->piece[i], tw_i32(b, bytes), full};
            if ((i + 1) * fetchers > units) tw_when(b, tw_lt(b, fetcher, tw_i32(b, units - i * fetchers)));
            tw_emit(b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, operands, 4);
        }
    }
    tw_val ends = step(g, w->in);
    for (int i = 0; i < n; i++) tw_add_to(b, w->piece[i], tw_i64(b, bytes));
    TW_IF (b, ends) {
        for (int i = 0; i < n && g->v->tape.apart; i++) {
            tw_add_to(b, w->unit[i], tw_i64(b, (int64_t)sizeof(tw_gemm_unit)));
            tw_assign(b, w->piece[i], tw_ld(b, (tw_attrs){.type = TW_T_i64}, w->unit[i]));
        }
        for (int i = 0; i < n && !g->v->tape.apart; i++) {
            tw_val stride = tw_ld(b, (tw_attrs){.type = TW_T_i64, .offset = 8}, w->unit[i]);
            tw_add_to(b, w->piece[i], tw_sub(b, stride, tw_widen(b, tw_mul_imm(b, g->arg.tape_chunk, COLUMN))));
        }
    }
}

tw_val tw_gemm_tape_element(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_tape *t = &g->v->tape;
    const int block = t->blocks * DEPTH;
    tw_val in = g->walk.within, number = tw_div(b, in, block), of_run = tw_div(b, number, t->warps);
    tw_val run = tw_sub(b, number, tw_mul_imm(b, of_run, t->warps));
    tw_val within = tw_add(b, tw_mul_imm(b, of_run, block), tw_sub(b, in, tw_mul_imm(b, number, block)));
    return tw_add(b, g->walk.chunk, tw_add(b, tw_mul(b, run, g->arg.tape_run), within));
}

void tw_gemm_tape_advance(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_val ends = step(g, g->walk.within);
    tw_add_to(b, g->walk.chunk, tw_select(b, ends, g->arg.tape_chunk, tw_i32(b, 0)));
}

void tw_gemm_tape_arguments(const tw_gemm_problem *p, tw_arguments *to) {
    tw_argument_number(to, "tape_chunk", chunk_of(&p->tape));
    tw_argument_number(to, "tape_run", (int64_t)p->tape.run * DEPTH);
    if (p->tape.apart) tw_argument_number(to, "tape_chunks", tw_gemm_tape_of_unit(p));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that feeds the ring. It copies a stage when the ring has an empty one and fewer than `window` are in flight,
   or than `ahead` if the stage's activations are not in shared memory yet. It waits for nothing else, since weights do
   not depend on what is computed. One lane issues bulk copies. On a GPU without them every lane copies its 16 bytes of
   each piece. */
#include "vm/cuda/generate.h"

#include <stddef.h>

static bool bulk(const tw_mega_plan *p) {
    return p->target->sm >= 90;
}

int tw_mega_feeders(const tw_mega_plan *p) {
    return bulk(p) ? 1 : 32;
}

typedef struct producer {
    tw_mega_gen *g;
    tw_val tape, stages, before_head, policy; /* A step's stages, and how many precede the head's. */
    tw_ring_cursor next;                      /* The stage that is filled next. */
    tw_ring_cursor landed;                    /* The oldest stage whose data may not have arrived. */
    tw_val stage;                             /* Variable: number of the next stage in its step. */
    tw_val from;                              /* Variable: the next stage's place in the tape. */
    tw_val in_flight;                         /* Variable: number of stages in flight. */
    tw_val issued;                            /* Variable: stages issued since the launch. Used with plan.paces. */
} producer;

/* Computes the bytes of the next stage. The head's stages may be shorter. */
static tw_val bytes_of(const producer *x) {
    tw_builder *b = x->g->b;
    const tw_mega_plan *p = x->g->p;
    if (p->head_bytes == p->stage_bytes) return tw_i32(b, p->stage_bytes);
    return tw_select(b, tw_lt(b, x->stage, x->before_head), tw_i32(b, p->stage_bytes), tw_i32(b, p->head_bytes));
}

/* Each lane arrives at the full mbarrier when its copies have landed. */
static void copy_by_lanes(producer *x, tw_val to, tw_val size, tw_val full) {
    tw_builder *b = x->g->b;
    const tw_mega_plan *p = x->g->p;
    const int most = p->stage_bytes, least = p->head_bytes < most ? p->head_bytes : most;
    tw_val first = tw_shl(b, x->g->lane, 4), here = tw_add(b, to, first), there = tw_mega_at(b, x->from, first, 1);
    for (int at = 0; at < most; at += TW_MEGA_PIECE) {
        const tw_attrs how = {.bytes = 16, .offset = at, .cache = TW_CACHE_cg};
        tw_val source = tw_add_imm(b, there, at);
        if (at + TW_MEGA_PIECE > least) tw_when(b, tw_lt(b, tw_add_imm(b, first, at), size));
        tw_cp_async(b, how, here, source, TW_NONE);
    }
    tw_do(b, TW_OP_cp_async_arrive, (tw_attrs){0}, full, TW_NONE);
}

/* Computes how many stages may be in flight once the next one is issued. */
static tw_val flight_limit(const producer *x) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_val window = tw_i32(b, g->p->tuning.window);
    if (!g->p->paces) return window;
    tw_val ready = tw_ld(b, tw_mega_ready(g->p), g->shared);
    return tw_select(b, tw_lt(b, x->issued, ready), window, tw_i32(b, g->p->tuning.ahead));
}

/* Waits until one more stage may be in flight. */
static void make_room(producer *x) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_val most = flight_limit(x);
    TW_WHILE (b, tw_le(b, most, x->in_flight)) {
        tw_ring_wait(b, &g->ring, tw_ring_full(b, &g->ring, &x->landed), &x->landed);
        tw_ring_advance(b, &g->ring, &x->landed);
        tw_op_to(b, x->in_flight, TW_OP_add_i32, x->in_flight, tw_i32(b, -1), TW_NONE);
    }
}

static void bulk_copy(const producer *x, tw_val to, tw_val from, tw_val size, tw_val full) {
    tw_emit(x->g->b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, (tw_val[]){to, from, size, full, x->policy}, 5);
}

/* Copies a stage of consecutive bytes. */
static void copy(producer *x, tw_val size) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_val full = tw_ring_fill(b, &g->ring, &x->next, bulk(g->p) ? size : TW_NONE);
    tw_val to = tw_ring_data(b, &g->ring, &x->next, TW_NONE);
    if (bulk(g->p))
        bulk_copy(x, to, x->from, size, full);
    else
        copy_by_lanes(x, to, size, full);
}

static void count_stage(producer *x) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_op_to(b, x->in_flight, TW_OP_add_i32, x->in_flight, tw_i32(b, 1), TW_NONE);
    if (g->p->paces) tw_op_to(b, x->issued, TW_OP_add_i32, x->issued, tw_i32(b, 1), TW_NONE);
    tw_ring_advance(b, &g->ring, &x->next);
}

/* Copies the next stage into the ring. A step's last stage is followed by the next step's first. */
static void produce(producer *x) {
    tw_builder *b = x->g->b;
    make_room(x);
    tw_val size = bytes_of(x);
    copy(x, size);
    tw_op_to(b, x->from, TW_OP_add_i64, x->from, tw_widen(b, size), TW_NONE);
    tw_op_to(b, x->stage, TW_OP_add_i32, x->stage, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_eq(b, x->stage, x->stages)) {
        tw_assign(b, x->stage, tw_i32(b, 0));
        tw_assign(b, x->from, x->tape);
    }
    count_stage(x);
}

/* ---- mixtures of experts */

/* A leg, in values. */
typedef struct leg {
    tw_val word[4]; /* kind, hears, stages, bytes */
    tw_val from, expert, unit, units, early, later, slot, slots;
} leg;

static leg load_leg(const producer *x, tw_val number) {
    tw_builder *b = x->g->b;
    tw_val at = tw_mega_at(b, x->tape, number, sizeof(tw_mega_leg)), wide[2] = {{0}};
    leg l = {0};
    tw_ld_vec(b, tw_mega_fixed(TW_T_i32, 4, 0), at, l.word);
    tw_ld_vec(b, tw_mega_fixed(TW_T_i64, 2, offsetof(tw_mega_leg, from)), at, wide);
    l.from = wide[0];
    l.expert = wide[1];
    l.unit = tw_ld(b, tw_mega_fixed(TW_T_i64, 1, offsetof(tw_mega_leg, unit)), at);
    l.units = tw_ld(b, tw_mega_fixed(TW_T_i32, 1, offsetof(tw_mega_leg, units)), at);
    l.early = tw_ld(b, tw_mega_fixed(TW_T_i32, 1, offsetof(tw_mega_leg, early)), at);
    l.later = tw_ld(b, tw_mega_fixed(TW_T_i64, 1, offsetof(tw_mega_leg, later)), at);
    l.slot = tw_ld(b, tw_mega_fixed(TW_T_i32, 1, offsetof(tw_mega_leg, slot)), at);
    l.slots = tw_ld(b, tw_mega_fixed(TW_T_i32, 1, offsetof(tw_mega_leg, slots)), at);
    return l;
}

/* Computes base + i * bytes, where both are known at run time alone. */
static tw_val far(tw_builder *b, tw_val base, tw_val i, tw_val bytes) {
    return tw_add(b, base, tw_mul(b, tw_widen(b, i), bytes));
}

/* Loads the number of the expert that was chosen as number `slot`. */
static tw_val chosen(const producer *x, tw_val slot) {
    tw_builder *b = x->g->b;
    tw_val at = tw_mega_at(b, tw_add_imm(b, x->g->shared, x->g->p->chosen), slot, 4);
    return tw_ld(b, tw_mega_shared(TW_T_i32, 1, 0), at);
}

/* Copies a leg's consecutive stages. */
static void take_run(producer *x, const leg *l, tw_val from) {
    tw_builder *b = x->g->b;
    x->from = tw_var_of(b, from);
    TW_FOR (b, i, tw_i32(b, 0), l->word[2], tw_i32(b, 1), false) {
        make_room(x);
        copy(x, l->word[3]);
        tw_op_to(b, x->from, TW_OP_add_i64, x->from, tw_widen(b, l->word[3]), TW_NONE);
        count_stage(x);
    }
}

/* Bytes of a segment's pieces, and of their scales. */
typedef struct segment {
    int pieces, scales;
} segment;

static segment segment_of(const tw_mega_plan *p) {
    return (segment){p->tuning.blocks * TW_MEGA_PIECE, p->tuning.blocks * p->body.scale_bytes};
}

/* Copies a stage that consists of one segment for each warp that multiplies. from[] has the segments' addresses. */
static void copy_segments(producer *x, const tw_val *from) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    const segment s = segment_of(g->p);
    const int warps = g->p->tuning.warps;
    tw_val full = tw_ring_fill(b, &g->ring, &x->next, bulk(g->p) ? tw_i32(b, warps * (s.pieces + s.scales)) : TW_NONE);
    tw_val to = tw_ring_data(b, &g->ring, &x->next, TW_NONE), lane = tw_shl(b, g->lane, 4);
    for (int w = 0; w < warps; w++) {
        tw_val pieces = tw_add_imm(b, to, w * s.pieces), scales = tw_add_imm(b, to, warps * s.pieces + w * s.scales);
        if (bulk(g->p)) {
            bulk_copy(x, pieces, from[w], tw_i32(b, s.pieces), full);
            if (s.scales) bulk_copy(x, scales, tw_add_imm(b, from[w], s.pieces), tw_i32(b, s.scales), full);
            continue;
        }
        tw_val here = tw_add(b, pieces, lane), there = tw_mega_at(b, from[w], lane, 1);
        for (int at = 0; at < s.pieces; at += TW_MEGA_PIECE)
            tw_cp_async(b, (tw_attrs){.bytes = 16, .offset = at, .cache = TW_CACHE_cg}, here, tw_add_imm(b, there, at),
                        TW_NONE);
        for (int at = 0; at < s.scales; at += TW_MEGA_PIECE) {
            tw_val source = tw_add_imm(b, there, s.pieces + at), into = tw_add(b, scales, lane);
            tw_when(b, tw_lt(b, lane, tw_i32(b, s.scales - at)));
            tw_cp_async(b, (tw_attrs){.bytes = 16, .offset = at, .cache = TW_CACHE_cg}, into, source, TW_NONE);
        }
    }
    if (!bulk(g->p)) tw_do(b, TW_OP_cp_async_arrive, (tw_attrs){0}, full, TW_NONE);
}

/* Copies the stages of experts_down. Warp w has segments w * stages and following of the chosen experts' columns.
   Segments behind the last expert's meet activations of zero, so any will do. */
static void take_down(producer *x, const leg *l) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    const segment size = segment_of(g->p);
    const int of_expert = g->p->padded / (g->p->tuning.blocks * g->p->body.depth);
    const int all = of_expert * (int)g->p->m->n_experts_used;
    TW_FOR (b, unit, tw_i32(b, 0), l->units, tw_i32(b, 1), false) {
        tw_val base = far(b, l->from, unit, l->unit);
        TW_FOR (b, stage, tw_i32(b, 0), l->word[2], tw_i32(b, 1), false) {
            tw_val from[TW_MEGA_WARPS];
            for (int w = 0; w < g->p->tuning.warps; w++) {
                tw_val at = tw_add(b, tw_mul_imm(b, l->word[2], w), stage);
                at = tw_min(b, at, tw_i32(b, all - 1));
                tw_val slot = tw_div(b, at, of_expert), in_expert = tw_sub(b, at, tw_mul_imm(b, slot, of_expert));
                from[w] = far(b, base, chosen(x, slot), l->expert);
                from[w] = tw_mega_at(b, from[w], in_expert, size.pieces + size.scales);
            }
            make_room(x);
            copy_segments(x, from);
            count_stage(x);
        }
    }
}

/* Copies a step's stages, leg by leg. */
static void take_legs(producer *x, tw_val heard) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    TW_FOR (b, i, tw_i32(b, 0), x->stages, tw_i32(b, 1), false) {
        leg l = load_leg(x, i);
        tw_val kind = l.word[0];
        TW_IF (b, tw_ne(b, l.word[1], tw_i32(b, 0))) {
            if (bulk(g->p)) {
                TW_IF (b, tw_ne(b, l.early, tw_i32(b, 0)))
                    tw_do(b, TW_OP_bulk_prefetch, (tw_attrs){0}, l.later, l.early);
            }
            tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, tw_add_imm(b, g->shared, g->p->routed), heard);
            tw_op_to(b, heard, TW_OP_xor_i32, heard, tw_i32(b, 1), TW_NONE);
        }
        TW_IF (b, tw_eq(b, kind, tw_i32(b, TW_MEGA_LEG_DOWN))) {
            take_down(x, &l);
        } else {
            tw_val up = tw_eq(b, kind, tw_i32(b, TW_MEGA_LEG_UP));
            TW_FOR (b, slot, l.slot, tw_add(b, l.slot, l.slots), tw_i32(b, 1), false) {
                tw_val expert = tw_var_of(b, tw_i32(b, 0));
                TW_IF (b, up) tw_assign(b, expert, chosen(x, slot));
                take_run(x, &l, far(b, l.from, expert, l.expert));
            }
        }
    }
}

/* Copies the legs of every step. */
static void take_all_legs(producer *x) {
    tw_builder *b = x->g->b;
    tw_val heard = tw_var_of(b, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), x->g->arg[TW_MEGA_ARG_STEPS], tw_i32(b, 1), false) take_legs(x, heard);
}

/* Copies the tape in every step. */
static void take_tape(producer *x) {
    tw_builder *b = x->g->b;
    x->from = tw_var_of(b, x->tape);
    x->stage = tw_var_of(b, tw_i32(b, 0));
    tw_val all = tw_mul(b, x->stages, x->g->arg[TW_MEGA_ARG_STEPS]);
    TW_FOR (b, i, tw_i32(b, 0), all, tw_i32(b, 1), false) produce(x);
}

void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages, tw_val before_head) {
    tw_builder *b = g->b;
    producer x = {.g = g, .tape = tape, .stages = stages, .before_head = before_head};
    const tw_attrs once = {.cache = TW_CACHE_evict_first}; /* Bulk copies alone take a policy. */
    TW_BLOCK (b, bulk(g->p) ? tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0))) : TW_NO_BLOCK) {
        if (bulk(g->p)) x.policy = tw_get(b, TW_OP_policy, once, TW_T_i64, TW_NONE, TW_NONE);
        x.next = tw_ring_begin(b, &g->ring, 1);
        x.landed = tw_ring_begin(b, &g->ring, 0);
        x.in_flight = tw_var_of(b, tw_i32(b, 0));
        x.issued = tw_var_of(b, tw_i32(b, 0));
        if (g->p->experts)
            take_all_legs(&x);
        else
            take_tape(&x);
    }
}

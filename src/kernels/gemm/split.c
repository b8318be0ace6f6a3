/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in parts: in a thread (ks), in groups of a block's threads (kl), in blocks (kg). What blocks exchange lies in
   the workspace in the order of accumulators and threads, so that every access is whole and needs no bounds:
   [tile][part][accumulator / v][thread][v]. Counters, one a tile, are zero before and after every launch. */
#include "kernels/gemm/generate.h"

enum { TOGETHER = 8 /* parts of a vector on their way at once */ };

void tw_gemm_meet(tw_gemm_gen *g) {
    if (g->plan.threads == g->plan.group * g->c->kl)
        tw_do(g->b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    else
        tw_do(g->b, TW_OP_barrier_sync, (tw_attrs){.count = g->plan.group}, tw_i32(g->b, TW_GEMM_SUMS), TW_NONE);
}

static void add_to(tw_gemm_gen *g, tw_val acc, tw_val x) {
    tw_opcode code = g->acc_type == TW_T_f32 ? TW_OP_add_f32 : g->acc_type == TW_T_f64 ? TW_OP_add_f64 : TW_OP_add_i32;
    tw_op_to(g->b, acc, code, acc, x, TW_NONE);
}

static int bytes_of(const tw_gemm_gen *g) {
    return tw_type_bits(g->acc_type) / 8;
}

/* The upper half of the groups hands its sums to the lower half through shared memory, until one is left. */
static void join_groups(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_plan *p = &g->plan;
    const int es = bytes_of(g), row = p->group * es;
    for (int half = g->c->kl / 2; half >= 1; half /= 2) {
        tw_val slot = tw_rem(b, g->group, half);
        tw_val at = tw_add(b, g->shared, tw_mul_imm(b, slot, (int64_t)p->accumulators * row));
        at = tw_add(b, at, tw_mul_imm(b, g->group_tid, es));
        tw_gemm_meet(g);
        tw_val upper = tw_le(b, tw_i32(b, half), g->group);
        tw_push_if(b, tw_and(b, upper, tw_lt(b, g->group, tw_i32(b, 2 * half))));
        for (int i = 0; i < p->accumulators; i++)
            tw_st(b, (tw_attrs){.type = g->acc_type, .space = TW_SPACE_shared, .offset = i * row}, at, &g->acc[0][i]);
        tw_pop(b);
        tw_gemm_meet(g);
        tw_push_if(b, tw_lt(b, g->group, tw_i32(b, half)));
        for (int i = 0; i < p->accumulators; i++)
            add_to(g, g->acc[0][i],
                   tw_ld(b, (tw_attrs){.type = g->acc_type, .space = TW_SPACE_shared, .offset = i * row}, at));
        tw_pop(b);
    }
}

/* Elements that a thread moves to and from the workspace at once. */
static int vector(const tw_gemm_gen *g) {
    int v = 16 / bytes_of(g);
    while (g->plan.accumulators % v) v /= 2;
    return v;
}

static int64_t part_bytes(const tw_gemm_gen *g) {
    return (int64_t)g->plan.accumulators * g->plan.group * bytes_of(g);
}

/* The thread's first vector in part `part` of this tile, of `parts`. */
static tw_val part_address(tw_gemm_gen *g, tw_val part, int parts) {
    tw_builder *b = g->b;
    tw_val index = tw_add(b, tw_mul_imm(b, g->tile, parts), part);
    tw_val thread = tw_mul_imm(b, g->group_tid, vector(g) * bytes_of(g));
    return tw_add(b, g->arg.workspace,
                  tw_add(b, tw_mul_imm(b, tw_widen(b, index), part_bytes(g)), tw_widen(b, thread)));
}

static int vector_offset(const tw_gemm_gen *g, int i) {
    return i / vector(g) * vector(g) * g->plan.group * bytes_of(g);
}

static void put(tw_gemm_gen *g, tw_val at) {
    const int v = vector(g);
    for (int i = 0; i < g->plan.accumulators; i += v)
        tw_st(g->b, (tw_attrs){.type = g->acc_type, .vec = v, .offset = vector_offset(g, i)}, at, &g->acc[0][i]);
}

/* Adds `parts` parts that follow one another from `at` on, in order; `afresh`: to nothing. Every load of a vector is
   issued before the first is added. */
static void take(tw_gemm_gen *g, tw_val at, int parts, bool afresh) {
    const int v = vector(g);
    for (int i = 0; i < g->plan.accumulators; i += v) {
        tw_val x[TOGETHER][4] = {{{0}}};
        for (int p = 0; p < parts; p++) {
            const int offset = (int)(p * part_bytes(g)) + vector_offset(g, i);
            tw_attrs from = {.type = g->acc_type, .vec = v, .offset = offset, .cache = TW_CACHE_cg};
            tw_ld_vec(g->b, from, at, x[p]);
        }
        for (int p = 0; p < parts; p++)
            for (int e = 0; e < v; e++)
                if (afresh && !p)
                    tw_assign(g->b, g->acc[0][i + e], x[p][e]);
                else
                    add_to(g, g->acc[0][i + e], x[p][e]);
    }
}

static tw_val counter(tw_gemm_gen *g) {
    return tw_add(g->b, g->arg.counters, tw_mul_imm(g->b, tw_widen(g->b, g->tile), 4));
}

static tw_val leader(tw_gemm_gen *g) {
    return tw_eq(g->b, g->tid, tw_i32(g->b, 0));
}

/* Everything this block wrote becomes visible, then thread 0 counts it in; every thread learns how many came before.
   The counter wraps from kg - 1 to zero. */
static tw_val arrive(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_gemm_meet(g);
    tw_push_if(b, leader(g));
    tw_attrs at = {.rmw = TW_RMW_inc, .type = TW_T_i32, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
    tw_val before = tw_atom(b, at, counter(g), tw_i32(b, g->c->kg - 1), TW_NONE);
    tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, g->shared, &before);
    tw_pop(b);
    tw_gemm_meet(g);
    return tw_ld(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, g->shared);
}

static void push_if_first_group(tw_gemm_gen *g) {
    if (g->c->kl > 1) tw_push_if(g->b, tw_eq(g->b, g->group, tw_i32(g->b, 0)));
}

static void pop_first_group(tw_gemm_gen *g) {
    if (g->c->kl > 1) tw_pop(g->b);
}

static void begin_last(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    push_if_first_group(g);
    put(g, part_address(g, g->split, g->c->kg));
    pop_first_group(g);
    tw_push_if(b, tw_eq(b, arrive(g), tw_i32(b, g->c->kg - 1)));
    push_if_first_group(g);
    tw_val at = part_address(g, tw_i32(b, 0), g->c->kg);
    const int first = (g->c->kg - 1) % TOGETHER + 1, rounds = (g->c->kg - first) / TOGETHER;
    take(g, at, first, true);
    if (!rounds) return;
    tw_val more = tw_var_of(b, tw_add_imm(b, at, first * part_bytes(g)));
    tw_push_for(b, tw_i32(b, 0), tw_i32(b, rounds), tw_i32(b, 1), false);
    take(g, more, TOGETHER, false);
    tw_op_to(b, more, TW_OP_add_i64, more, tw_i64(b, TOGETHER * part_bytes(g)), TW_NONE);
    tw_pop(b);
}

static void begin_atomic(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int v = vector(g);
    /* Vectors of f32 are added at once from sm_90 on. */
    const int together = g->acc_type == TW_T_f32 && g->target->sm >= 90 ? v : 1;
    tw_val at = part_address(g, tw_i32(b, 0), 1);
    push_if_first_group(g);
    for (int i = 0; i < g->plan.accumulators; i += together) {
        tw_attrs a = {.rmw = TW_RMW_add,
                      .type = g->acc_type,
                      .vec = together,
                      .order = TW_ORDER_relaxed,
                      .scope = TW_SCOPE_gpu,
                      .offset = vector_offset(g, i) + i % v * bytes_of(g)};
        tw_red(b, a, at, &g->acc[0][i]);
    }
    pop_first_group(g);
    tw_push_if(b, tw_eq(b, arrive(g), tw_i32(b, g->c->kg - 1)));
    push_if_first_group(g);
    take(g, at, 1, true);
    tw_val zero = tw_zero(b, g->acc_type), zeros[4] = {zero, zero, zero, zero};
    for (int i = 0; i < g->plan.accumulators; i += v)
        tw_st(b, (tw_attrs){.type = g->acc_type, .vec = v, .offset = vector_offset(g, i)}, at, zeros);
}

static void begin_serial(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    tw_val last = tw_eq(b, g->split, tw_i32(b, g->c->kg - 1));
    /* Thread 0 waits for its turn; the barrier passes that on. */
    tw_push_if(b, leader(g));
    tw_push_while(b);
    tw_attrs acquire = {.type = TW_T_i32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    tw_val turn = tw_ld(b, acquire, counter(g));
    tw_push_while_body(b, tw_ne(b, turn, g->split));
    tw_do(b, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(b, 20), TW_NONE);
    tw_pop(b);
    tw_pop(b);
    tw_gemm_meet(g);
    tw_val at = part_address(g, tw_i32(b, 0), 1);
    push_if_first_group(g);
    tw_push_if(b, tw_lt(b, tw_i32(b, 0), g->split));
    take(g, at, 1, false);
    tw_pop(b);
    tw_push_if(b, tw_not(b, last));
    put(g, at);
    tw_pop(b);
    pop_first_group(g);
    tw_gemm_meet(g);
    tw_val next = tw_select(b, last, tw_i32(b, 0), tw_add_imm(b, g->split, 1));
    tw_push_if(b, leader(g));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu}, counter(g), &next);
    tw_pop(b);
    tw_push_if(b, last);
    push_if_first_group(g);
}

/* The blocks of a cluster leave their sums in shared memory; each adds up its share of all of them, and stores that. */
static void finish_cluster(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const int v = vector(g), kg = g->c->kg, vectors = g->plan.accumulators / v, es = bytes_of(g);
    tw_val mine = tw_add(b, g->shared, tw_mul_imm(b, g->group_tid, v * es)), of[TW_GEMM_CLUSTER];
    tw_gemm_meet(g);
    push_if_first_group(g);
    for (int i = 0; i < g->plan.accumulators; i += v) {
        tw_attrs to = {.type = g->acc_type, .vec = v, .space = TW_SPACE_shared, .offset = vector_offset(g, i)};
        tw_st(b, to, mine, &g->acc[0][i]);
    }
    pop_first_group(g);
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    for (int r = 0; r < kg; r++) of[r] = tw_get(b, TW_OP_cluster_address, (tw_attrs){0}, TW_T_i32, mine, tw_i32(b, r));
    push_if_first_group(g);
    for (int r = 0; r < kg; r++) {
        const int from = r * vectors / kg * v, to = (r + 1) * vectors / kg * v;
        if (from == to) continue;
        tw_push_if(b, tw_eq(b, g->split, tw_i32(b, r)));
        for (int i = from; i < to; i += v) {
            tw_val x[TW_GEMM_CLUSTER][4] = {{{0}}};
            for (int p = 0; p < kg; p++) {
                tw_attrs at = {.type = g->acc_type, .vec = v, .space = TW_SPACE_cluster, .offset = vector_offset(g, i)};
                tw_ld_vec(b, at, of[p], x[p]);
            }
            for (int e = 0; e < v; e++) tw_assign(b, g->acc[0][i + e], x[0][e]);
            for (int p = 1; p < kg; p++)
                for (int e = 0; e < v; e++) add_to(g, g->acc[0][i + e], x[p][e]);
        }
        tw_gemm_epilogue_store(g, from, to);
        tw_pop(b);
    }
    pop_first_group(g);
    /* Nobody leaves while others read what it left. */
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
}

void tw_gemm_finish(tw_gemm_gen *g) {
    for (int s = 1; s < g->c->ks; s++)
        for (int i = 0; i < g->plan.accumulators; i++) add_to(g, g->acc[0][i], g->acc[s][i]);
    if (g->c->kl > 1) join_groups(g);
    if (g->c->kg > 1 && g->c->split == TW_GEMM_SPLIT_CLUSTER) {
        finish_cluster(g);
        return;
    }
    if (g->c->kg == 1)
        push_if_first_group(g);
    else if (g->c->split == TW_GEMM_SPLIT_LAST)
        begin_last(g);
    else if (g->c->split == TW_GEMM_SPLIT_ATOMIC)
        begin_atomic(g);
    else
        begin_serial(g);
    if (g->c->exchange) tw_gemm_wgmma_exchange(g);
    tw_gemm_epilogue_store(g, 0, g->plan.accumulators);
    pop_first_group(g);
    if (g->c->kg > 1) tw_pop(g->b);
}

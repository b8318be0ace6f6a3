/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/join.h"

#include "kernels/parts/counter.h"

enum { TOGETHER = 8 /* The most parts that are loaded before their first vector is added. */ };

static void add_to(tw_builder *b, const tw_join *j, tw_val acc, tw_val x) {
    tw_opcode code = j->type == TW_T_f32 ? TW_OP_add_f32 : j->type == TW_T_f64 ? TW_OP_add_f64 : TW_OP_add_i32;
    tw_op_to(b, acc, code, acc, x, TW_NONE);
}

static int bytes_of(const tw_join *j) {
    return tw_type_bits(j->type) / 8;
}

/* The upper half of the groups passes its sums to the lower half through shared memory. This repeats until one group is
   left. */
void tw_join_groups(tw_builder *b, const tw_join *j) {
    const int es = bytes_of(j), row = j->threads * es;
    for (int half = j->groups / 2; half >= 1; half /= 2) {
        tw_val slot = tw_rem(b, j->group, half);
        tw_val at = tw_add(b, j->shared, tw_mul_imm(b, slot, (int64_t)j->n * row));
        at = tw_add(b, at, tw_mul_imm(b, j->thread, es));
        tw_part_meet(b, &j->meeting);
        tw_val upper = tw_le(b, tw_i32(b, half), j->group);
        TW_IF (b, tw_and(b, upper, tw_lt(b, j->group, tw_i32(b, 2 * half)))) {
            for (int i = 0; i < j->n; i++)
                tw_st(b, (tw_attrs){.type = j->type, .space = TW_SPACE_shared, .offset = i * row}, at, &j->sums[i]);
        }
        tw_part_meet(b, &j->meeting);
        TW_IF (b, tw_lt(b, j->group, tw_i32(b, half))) {
            for (int i = 0; i < j->n; i++)
                add_to(b, j, j->sums[i],
                       tw_ld(b, (tw_attrs){.type = j->type, .space = TW_SPACE_shared, .offset = i * row}, at));
        }
    }
}

/* Counts the elements of a thread's access to the workspace. */
static int vector(const tw_join *j) {
    int v = 16 / bytes_of(j);
    while (j->n % v) v /= 2;
    return v;
}

static int64_t part_bytes(const tw_join *j) {
    return (int64_t)j->n * j->threads * bytes_of(j);
}

/* Computes the address of the thread's first vector in one of the tile's parts. */
static tw_val part_address(tw_builder *b, const tw_join *j, tw_val part, int parts) {
    tw_val index = tw_add(b, tw_mul_imm(b, j->tile, parts), part);
    tw_val thread = tw_mul_imm(b, j->thread, vector(j) * bytes_of(j));
    return tw_add(b, j->workspace, tw_add(b, tw_mul_imm(b, tw_widen(b, index), part_bytes(j)), tw_widen(b, thread)));
}

static int vector_offset(const tw_join *j, int i) {
    return i / vector(j) * vector(j) * j->threads * bytes_of(j);
}

static void put(tw_builder *b, const tw_join *j, tw_val at) {
    const int v = vector(j);
    for (int i = 0; i < j->n; i += v)
        tw_st(b, (tw_attrs){.type = j->type, .vec = v, .offset = vector_offset(j, i)}, at, &j->sums[i]);
}

/* Adds `parts` consecutive parts from address `at` on, in order. With `afresh` the sums start from zero. All loads of a
   vector are issued before the first addition. */
static void take(tw_builder *b, const tw_join *j, tw_val at, int parts, bool afresh) {
    const int v = vector(j);
    for (int i = 0; i < j->n; i += v) {
        tw_val x[TOGETHER][4] = {{{0}}};
        for (int p = 0; p < parts; p++) {
            const int offset = (int)(p * part_bytes(j)) + vector_offset(j, i);
            tw_attrs from = {.type = j->type, .vec = v, .offset = offset, .cache = TW_CACHE_cg};
            tw_ld_vec(b, from, at, x[p]);
        }
        for (int p = 0; p < parts; p++)
            for (int e = 0; e < v; e++)
                if (afresh && !p)
                    tw_assign(b, j->sums[i + e], x[p][e]);
                else
                    add_to(b, j, j->sums[i + e], x[p][e]);
    }
}

static tw_val counter(tw_builder *b, const tw_join *j) {
    return tw_add(b, j->counters, tw_mul_imm(b, tw_widen(b, j->tile), 4));
}

static tw_val leader(tw_builder *b, const tw_join *j) {
    return tw_eq(b, j->tid, tw_i32(b, 0));
}

/* Makes the block's writes visible, and then counts the block at the tile's counter by thread 0. The counter wraps from
   parts - 1 to 0. Returns to every thread how many blocks arrived earlier. */
static tw_val arrive(tw_builder *b, const tw_join *j) {
    tw_part_meet(b, &j->meeting);
    TW_IF (b, leader(b, j)) {
        tw_attrs at = {.rmw = TW_RMW_inc, .type = TW_T_i32, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
        tw_val before = tw_atom(b, at, counter(b, j), tw_i32(b, j->parts - 1), TW_NONE);
        tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, j->shared, &before);
    }
    tw_part_meet(b, &j->meeting);
    return tw_ld(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, j->shared);
}

tw_scope tw_join_push_first(tw_builder *b, const tw_join *j) {
    return j->groups > 1 ? tw_push_if(b, tw_eq(b, j->group, tw_i32(b, 0))) : TW_NO_BLOCK;
}

/* IR blocks that are open: the outer one for a block of the grid, the inner one for its group 0. */
typedef struct opened {
    tw_scope whole, first;
} opened;

/* Opens an IR block that only the last block of the grid to arrive executes. */
static opened open_last(tw_builder *b, const tw_join *j) {
    opened o = {.whole = tw_push_if(b, tw_eq(b, arrive(b, j), tw_i32(b, j->parts - 1)))};
    o.first = tw_join_push_first(b, j);
    return o;
}

static opened begin_last(tw_builder *b, const tw_join *j) {
    TW_BLOCK (b, tw_join_push_first(b, j)) put(b, j, part_address(b, j, j->part, j->parts));
    const opened o = open_last(b, j);
    tw_val at = part_address(b, j, tw_i32(b, 0), j->parts);
    const int first = (j->parts - 1) % TOGETHER + 1, rounds = (j->parts - first) / TOGETHER;
    take(b, j, at, first, true);
    if (!rounds) return o;
    tw_val more = tw_var_of(b, tw_add_imm(b, at, first * part_bytes(j)));
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, rounds), tw_i32(b, 1), false) {
        take(b, j, more, TOGETHER, false);
        tw_op_to(b, more, TW_OP_add_i64, more, tw_i64(b, TOGETHER * part_bytes(j)), TW_NONE);
    }
    return o;
}

static opened begin_atomic(tw_builder *b, const tw_join *j) {
    const int v = vector(j);
    /* From sm_90 on one atomic adds a vector of f32. */
    const int together = j->type == TW_T_f32 && j->target >= 90 ? v : 1;
    tw_val at = part_address(b, j, tw_i32(b, 0), 1);
    TW_BLOCK (b, tw_join_push_first(b, j)) {
        for (int i = 0; i < j->n; i += together) {
            tw_attrs a = {.rmw = TW_RMW_add,
                          .type = j->type,
                          .vec = together,
                          .order = TW_ORDER_relaxed,
                          .scope = TW_SCOPE_gpu,
                          .offset = vector_offset(j, i) + i % v * bytes_of(j)};
            tw_red(b, a, at, &j->sums[i]);
        }
    }
    const opened o = open_last(b, j);
    take(b, j, at, 1, true);
    tw_val zero = tw_zero(b, j->type), zeros[4] = {zero, zero, zero, zero};
    for (int i = 0; i < j->n; i += v)
        tw_st(b, (tw_attrs){.type = j->type, .vec = v, .offset = vector_offset(j, i)}, at, zeros);
    return o;
}

static void sleep(void *context, tw_val seen) {
    (void)seen;
    tw_do(context, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(context, 20), TW_NONE);
}

static opened begin_serial(tw_builder *b, const tw_join *j) {
    tw_val last = tw_eq(b, j->part, tw_i32(b, j->parts - 1));
    /* Thread 0 waits for the block's turn. The barrier makes the other threads wait for thread 0. */
    TW_IF (b, leader(b, j)) {
        tw_counter_poll(b, &(tw_counter_wait){.counter = counter(b, j),
                                              .target = j->part,
                                              .exact = true,
                                              .patience = &(tw_patience){.between = sleep, .context = b}});
    }
    tw_part_meet(b, &j->meeting);
    tw_val at = part_address(b, j, tw_i32(b, 0), 1);
    TW_BLOCK (b, tw_join_push_first(b, j)) {
        TW_IF (b, tw_lt(b, tw_i32(b, 0), j->part)) take(b, j, at, 1, false);
        TW_IF (b, tw_not(b, last)) put(b, j, at);
    }
    tw_part_meet(b, &j->meeting);
    tw_val next = tw_select(b, last, tw_i32(b, 0), tw_add_imm(b, j->part, 1));
    TW_IF (b, leader(b, j)) tw_counter_set(b, counter(b, j), next);
    opened o = {.whole = tw_push_if(b, last)};
    o.first = tw_join_push_first(b, j);
    return o;
}

void tw_join_blocks(tw_builder *b, const tw_join *j, tw_join_way way, tw_join_store *store, void *context) {
    const opened o = way == TW_JOIN_LAST     ? begin_last(b, j)
                     : way == TW_JOIN_ATOMIC ? begin_atomic(b, j)
                                             : begin_serial(b, j);
    TW_BLOCK (b, o.whole)
        TW_BLOCK (b, o.first) store(context, 0, j->n);
}

/* Each block stores its sums in its shared memory, and then adds up one share of the sums of all blocks. */
void tw_join_cluster(tw_builder *b, const tw_join *j, tw_join_store *store, void *context) {
    const int v = vector(j), n = j->parts, vectors = j->n / v, es = bytes_of(j);
    tw_val mine = tw_add(b, j->shared, tw_mul_imm(b, j->thread, v * es)), of[TW_JOIN_CLUSTER];
    tw_part_meet(b, &j->meeting);
    TW_BLOCK (b, tw_join_push_first(b, j)) {
        for (int i = 0; i < j->n; i += v) {
            tw_attrs to = {.type = j->type, .vec = v, .space = TW_SPACE_shared, .offset = vector_offset(j, i)};
            tw_st(b, to, mine, &j->sums[i]);
        }
    }
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    for (int r = 0; r < n; r++) of[r] = tw_get(b, TW_OP_cluster_address, (tw_attrs){0}, TW_T_i32, mine, tw_i32(b, r));
    TW_BLOCK (b, tw_join_push_first(b, j)) {
        for (int r = 0; r < n; r++) {
            const int from = r * vectors / n * v, to = (r + 1) * vectors / n * v;
            if (from == to) continue;
            TW_IF (b, tw_eq(b, j->part, tw_i32(b, r))) {
                for (int i = from; i < to; i += v) {
                    tw_val x[TW_JOIN_CLUSTER][4] = {{{0}}};
                    for (int p = 0; p < n; p++) {
                        tw_attrs at = {
                            .type = j->type, .vec = v, .space = TW_SPACE_cluster, .offset = vector_offset(j, i)};
                        tw_ld_vec(b, at, of[p], x[p]);
                    }
                    for (int e = 0; e < v; e++) tw_assign(b, j->sums[i + e], x[0][e]);
                    for (int p = 1; p < n; p++)
                        for (int e = 0; e < v; e++) add_to(b, j, j->sums[i + e], x[p][e]);
                }
                store(context, from, to);
            }
        }
    }
    /* A block may exit only when no other block still reads its shared memory. */
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
}

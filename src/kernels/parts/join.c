/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/join.h"

#include "kernels/parts/counter.h"

enum { TOGETHER = TW_JOIN_BLOCKS /* The most parts whose loads are issued before the first addition. */ };

static int bytes_of(const tw_join *j) {
    return tw_type_bits(j->type) / 8;
}

/* The upper half of the groups passes its sums to the lower half through shared memory. This repeats until one group is
   left. */
static void join_groups(tw_builder *b, const tw_join *j) {
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
                tw_add_to(b, j->sums[i],
                          tw_ld(b, (tw_attrs){.type = j->type, .space = TW_SPACE_shared, .offset = i * row}, at));
        }
    }
}

/* Opens an IR block for group 0. Opens none if there is one group. */
static tw_scope push_first(tw_builder *b, const tw_join *j) {
    return j->groups > 1 ? tw_push_if(b, tw_eq(b, j->group, tw_i32(b, 0))) : TW_NO_BLOCK;
}

/* Returns the elements of a thread's vector access to a part. */
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

/* Stores the thread's sums to a part. `zeros` not NULL: stores its four values in place of each vector. */
static void put(tw_builder *b, const tw_join *j, int space, tw_val at, const tw_val *zeros) {
    tw_attrs to = {.type = j->type, .vec = vector(j), .space = space};
    for (int i = 0; i < j->n; i += to.vec) {
        to.offset = vector_offset(j, i);
        tw_st(b, to, at, zeros ? zeros : &j->sums[i]);
    }
}

/* Adds the vector of sum i of `n` parts, in order, to the sums; with `afresh`, to zero. All loads are issued before the
   first addition. */
static void take_vector(tw_builder *b, const tw_join *j, int i, const tw_val *parts, int n, tw_attrs from,
                        bool afresh) {
    tw_val x[TOGETHER][4] = {{{0}}};
    from.type = j->type;
    from.vec = vector(j);
    from.offset = vector_offset(j, i);
    for (int p = 0; p < n; p++) tw_ld_vec(b, from, parts[p], x[p]);
    for (int p = 0; p < n; p++)
        for (int e = 0; e < from.vec; e++)
            if (afresh && !p)
                tw_assign(b, j->sums[i + e], x[p][e]);
            else
                tw_add_to(b, j->sums[i + e], x[p][e]);
}

/* Adds `n` consecutive parts of the workspace from address `at` on to the sums. */
static void take(tw_builder *b, const tw_join *j, tw_val at, int n, bool afresh) {
    tw_val parts[TOGETHER];
    for (int p = 0; p < n; p++) parts[p] = p ? tw_add_imm(b, at, p * part_bytes(j)) : at;
    for (int i = 0; i < j->n; i += vector(j)) take_vector(b, j, i, parts, n, (tw_attrs){.cache = TW_CACHE_cg}, afresh);
}

/* Sets the sums to those of all parts, in rounds of TOGETHER parts. The first round takes the remainder. */
static void take_all(tw_builder *b, const tw_join *j) {
    tw_val at = part_address(b, j, tw_i32(b, 0), j->parts);
    const int first = (j->parts - 1) % TOGETHER + 1, rounds = (j->parts - first) / TOGETHER;
    take(b, j, at, first, true);
    if (!rounds) return;
    tw_val more = tw_var_of(b, tw_add_imm(b, at, first * part_bytes(j)));
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, rounds), tw_i32(b, 1), false) {
        take(b, j, more, TOGETHER, false);
        tw_add_to(b, more, tw_i64(b, TOGETHER * part_bytes(j)));
    }
}

static tw_val counter(tw_builder *b, const tw_join *j) {
    return tw_add(b, j->counters, tw_mul_imm(b, tw_widen(b, j->tile), 4));
}

static tw_val leader(tw_builder *b, const tw_join *j) {
    return tw_eq(b, j->tid, tw_i32(b, 0));
}

/* Makes the block's writes visible, and then counts the block at the tile's counter by thread 0. The counter wraps from
   `others` to 0. Tells every thread whether all `others` arrived earlier. */
static tw_val arrive(tw_builder *b, const tw_join *j, tw_val others) {
    tw_part_meet(b, &j->meeting);
    const tw_attrs shared = {.type = TW_T_i32, .space = TW_SPACE_shared};
    TW_IF (b, leader(b, j)) {
        tw_attrs at = {.rmw = TW_RMW_inc, .type = TW_T_i32, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
        tw_val before = tw_atom(b, at, counter(b, j), others, TW_NONE);
        tw_st(b, shared, j->shared, &before);
    }
    tw_part_meet(b, &j->meeting);
    return tw_eq(b, tw_ld(b, shared, j->shared), others);
}

static void add_atomically(tw_builder *b, const tw_join *j) {
    /* From sm_90 on one atomic adds a vector of f32. */
    const int v = vector(j), together = j->type == TW_T_f32 && b->kernel->target >= 90 ? v : 1;
    tw_val at = part_address(b, j, tw_i32(b, 0), 1);
    TW_BLOCK (b, push_first(b, j)) {
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
}

static void sleep(void *context, tw_val seen) {
    (void)seen;
    tw_do(context, TW_OP_nanosleep, (tw_attrs){0}, tw_i32(context, 20), TW_NONE);
}

/* Adds the block's sums to the workspace when the blocks before it have. The last block keeps the result. */
static tw_val add_in_turn(tw_builder *b, const tw_join *j) {
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
    TW_BLOCK (b, push_first(b, j)) {
        TW_IF (b, tw_lt(b, tw_i32(b, 0), j->part)) take(b, j, at, 1, false);
        TW_IF (b, tw_not(b, last)) put(b, j, TW_SPACE_global, at, NULL);
    }
    tw_part_meet(b, &j->meeting);
    tw_val next = tw_select(b, last, tw_i32(b, 0), tw_add_imm(b, j->part, 1));
    TW_IF (b, leader(b, j)) tw_counter_set(b, counter(b, j), next);
    return last;
}

/* Stores the block's sums in the workspace. Returns the predicate that this block stores the tile. */
static tw_val give(tw_builder *b, const tw_join *j) {
    if (j->way == TW_JOIN_SERIAL) return add_in_turn(b, j);
    if (j->way == TW_JOIN_ATOMIC) {
        add_atomically(b, j);
    } else {
        TW_BLOCK (b, push_first(b, j)) put(b, j, TW_SPACE_global, part_address(b, j, j->part, j->parts), NULL);
    }
    return arrive(b, j, tw_i32(b, j->parts - 1));
}

/* Loads the total of all blocks' sums from the workspace. */
static void collect(tw_builder *b, const tw_join *j) {
    if (j->way == TW_JOIN_LAST) take_all(b, j);
    if (j->way != TW_JOIN_ATOMIC) return;
    tw_val at = part_address(b, j, tw_i32(b, 0), 1), zero = tw_zero(b, j->type);
    take(b, j, at, 1, true);
    put(b, j, TW_SPACE_global, at, (const tw_val[]){zero, zero, zero, zero});
}

/* Each block stores its sums in its shared memory, and then adds up one share of the sums of all blocks. */
static void join_cluster(tw_builder *b, const tw_join *j, tw_join_store *store, void *context) {
    const int v = vector(j), n = j->parts, vectors = j->n / v;
    tw_val mine = tw_add(b, j->shared, tw_mul_imm(b, j->thread, v * bytes_of(j))), of[TW_JOIN_BLOCKS];
    tw_part_meet(b, &j->meeting);
    TW_BLOCK (b, push_first(b, j)) put(b, j, TW_SPACE_shared, mine, NULL);
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    for (int r = 0; r < n; r++) of[r] = tw_get(b, TW_OP_cluster_address, (tw_attrs){0}, TW_T_i32, mine, tw_i32(b, r));
    TW_BLOCK (b, push_first(b, j)) {
        for (int r = 0; r < n; r++) {
            const int from = r * vectors / n * v, below = (r + 1) * vectors / n * v;
            if (from == below) continue;
            TW_IF (b, tw_eq(b, j->part, tw_i32(b, r))) {
                for (int i = from; i < below; i += v)
                    take_vector(b, j, i, of, n, (tw_attrs){.space = TW_SPACE_cluster}, true);
                store(context, from, below);
            }
        }
    }
    /* A block may exit only when no other block still reads its shared memory. */
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void join(tw_builder *b, const tw_join *j, tw_join_store *store, void *context) {
    const bool alone = j->parts == 1;
    if (j->groups > 1) join_groups(b, j);
    if (!alone && j->way == TW_JOIN_CLUSTER) {
        join_cluster(b, j, store, context);
        return;
    }
    TW_BLOCK (b, alone ? TW_NO_BLOCK : tw_push_if(b, give(b, j))) {
        TW_BLOCK (b, push_first(b, j)) {
            if (!alone) collect(b, j);
            store(context, 0, j->n);
        }
    }
}

void tw_join_sums(tw_builder *b, const tw_join *j, tw_join_store *store, void *context) {
    const bool alone = j->parts == 1 && j->groups == 1;
    if (!alone) tw_record_begin(b, "join", TW_ENGINE_OF_memory);
    join(b, j, store, context);
    if (!alone) tw_record_end(b, "join");
}

/* Computes the address of the thread's first vector in a part that a block left. */
static tw_val share_address(tw_builder *b, const tw_join *j, tw_val slot) {
    tw_val thread = tw_mul_imm(b, j->thread, vector(j) * bytes_of(j));
    return tw_add(b, j->workspace, tw_add(b, tw_mul_imm(b, tw_widen(b, slot), part_bytes(j)), tw_widen(b, thread)));
}

void tw_join_shares(tw_builder *b, const tw_join *j, const tw_join_share *s, tw_join_store *store, void *context) {
    tw_val stores = tw_var_of(b, s->whole);
    tw_record_begin(b, "join", TW_ENGINE_OF_memory);
    TW_IF (b, tw_not(b, s->whole)) {
        tw_val second = tw_select(b, s->begins, tw_i32(b, 1), tw_i32(b, 0));
        put(b, j, TW_SPACE_global, share_address(b, j, tw_add(b, tw_shl(b, s->block, 1), second)), NULL);
        tw_val last = arrive(b, j, tw_add_imm(b, s->blocks, -1));
        tw_assign(b, stores, last);
        TW_IF (b, last) {
            take(b, j, share_address(b, j, tw_add_imm(b, tw_shl(b, s->first, 1), 1)), 1, true);
            tw_val at = tw_var_of(b, share_address(b, j, tw_add_imm(b, tw_shl(b, s->first, 1), 2)));
            TW_FOR (b, i, tw_i32(b, 1), s->blocks, tw_i32(b, 1), false) {
                take(b, j, at, 1, false);
                tw_add_to(b, at, tw_i64(b, 2 * part_bytes(j)));
            }
        }
    }
    TW_IF (b, stores) store(context, 0, j->n);
    tw_record_end(b, "join");
}

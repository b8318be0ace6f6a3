/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm_faults.h"

#include "ir/builder.h"
#include "ir/passes/edit.h"
#include "kernels/gemm/generate.h"

#include <string.h>

enum { MOST_OPS = 1 << 16 };

/* -- finding one's way in a kernel */

static void collect(const tw_block *b, tw_opcode code, tw_ir_op **out, int *n) {
    for (tw_ir_op *op = b->first; op; op = op->next) {
        if (op->code == code && *n < MOST_OPS) out[(*n)++] = op;
        for (int i = 0; i < op->n_blocks; i++) collect(&op->blocks[i], code, out, n);
    }
}

static tw_ir_op *found[MOST_OPS];

/* Every operation of a code, in order, into `found`. */
static int all(const tw_block *b, tw_opcode code) {
    int n = 0;
    collect(b, code, found, &n);
    return n;
}

/* The nth of a code that lies in the block itself. */
static tw_ir_op *direct(const tw_block *b, tw_opcode code, int nth) {
    for (tw_ir_op *op = b->first; op; op = op->next)
        if (op->code == code && nth-- == 0) return op;
    return NULL;
}

static tw_ir_op *after(tw_ir_op *op, tw_opcode code) {
    while (op && (op = op->next) && op->code != code) {
    }
    return op;
}

static tw_ir_op *before(tw_ir_op *op, tw_opcode code) {
    while (op && (op = op->prev) && op->code != code) {
    }
    return op;
}

static tw_ir_op *loop_of(tw_kernel *k) {
    return direct(&k->body, TW_OP_for, 0);
}

static tw_block *inside(tw_kernel *k) {
    return &loop_of(k)->blocks[0];
}

static tw_val constant(tw_kernel *k, tw_type t, uint64_t bits) {
    return tw_edit_constant(k, t, bits);
}

static bool is_constant(const tw_kernel *k, tw_val v, uint64_t bits) {
    uint64_t is;
    return tw_value_constant(k, v, &is) && is == bits;
}

static tw_val parameter(const tw_kernel *k, const char *name) {
    for (int i = 0; i < k->n_parameters; i++)
        if (!strcmp(k->parameters[i].name, name)) return k->parameters[i].value;
    return TW_NONE;
}

static tw_ir_op *definition(const tw_block *b, tw_val v) {
    for (tw_ir_op *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++)
            if (op->results[i].id == v.id) return op;
        for (int i = 0; i < op->n_blocks; i++) {
            tw_ir_op *in = definition(&op->blocks[i], v);
            if (in) return in;
        }
    }
    return NULL;
}

static void move_before(tw_ir_op *at, tw_ir_op *op) {
    tw_edit_remove(op);
    op->prev = op->next = NULL;
    tw_block alone = {.first = op, .last = op};
    tw_edit_splice(at, &alone);
}

/* With the operations of its block that it needs and that are not above `at` yet. */
static void hoist_before(tw_kernel *k, tw_ir_op *at, tw_ir_op *op) {
    for (int i = -1; i < op->n_operands; i++) {
        tw_ir_op *in = definition(&k->body, i < 0 ? op->guard : op->operands[i]);
        bool below = in && in->block == at->block;
        for (tw_ir_op *above = at->prev; above && below; above = above->prev) below = above != in;
        if (below) hoist_before(k, at, in);
    }
    move_before(at, op);
}

static tw_ir_op *owner(tw_ir_op *op) {
    return op ? op->block->owner : NULL;
}

static bool drop(tw_ir_op *op) {
    if (op) tw_edit_remove(op);
    return op;
}

/* -- the faults */

static bool loop_barrier(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(direct(inside(k), TW_OP_barrier, 0));
}

static bool second_loop_barrier(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(direct(inside(k), TW_OP_barrier, 1));
}

static bool no_wait(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(direct(inside(k), TW_OP_cp_async_wait, 0));
}

static bool short_wait(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *wait = direct(inside(k), TW_OP_cp_async_wait, 0);
    if (wait) wait->at.count++;
    return wait;
}

static bool no_commit(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(direct(inside(k), TW_OP_cp_async_commit, 0));
}

/* The copies of the next stage stand among the sums, or, where k is ragged, in an `if` before them. */
static bool copy_before_barrier(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *barrier = direct(inside(k), TW_OP_barrier, 0), *copy, *issue = after(barrier, TW_OP_if);
    if (!barrier) return false;
    if (!s->whole_k) {
        if (issue && issue->next) move_before(issue->next, barrier);
        return issue && issue->next;
    }
    int moved = 0;
    while ((copy = after(barrier, TW_OP_cp_async))) {
        hoist_before(k, barrier, copy);
        moved++;
    }
    return moved > 0;
}

static bool commits_before_the_last_copy(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *commit = direct(inside(k), TW_OP_cp_async_commit, 0), *copy = before(commit, TW_OP_cp_async);
    if (copy) move_before(copy, commit);
    return copy;
}

/* The guard of the copies among the sums: that there is a stage left to fetch. */
static tw_ir_op *guard_of_copies(tw_kernel *k) {
    tw_ir_op *copy = direct(inside(k), TW_OP_cp_async, 0);
    tw_ir_op *guard = copy && copy->guard.id ? definition(inside(k), copy->guard) : NULL;
    /* Of a last copy, that not every thread has: both. */
    if (guard && guard->code != TW_OP_lt_s32) guard = definition(inside(k), guard->operands[0]);
    return guard && guard->code == TW_OP_lt_s32 ? guard : NULL;
}

static bool copies_unguarded(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    int dropped = 0;
    for (tw_ir_op *op = inside(k)->first; op; op = op->next)
        if (op->code == TW_OP_cp_async && op->guard.id) {
            op->guard = TW_NONE;
            dropped++;
        }
    return dropped > 0;
}

static bool guard_moved(tw_kernel *k, int by) {
    tw_ir_op *lt = guard_of_copies(k);
    if (!lt) return false;
    lt->operands[1] =
        tw_edit_insert(k, lt, TW_OP_add_i32, TW_T_i32, lt->operands[1], constant(k, TW_T_i32, (uint32_t)by), TW_NONE);
    return true;
}

static bool last_stage_not_fetched(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return guard_moved(k, -1);
}

static bool a_stage_beyond_is_fetched(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return guard_moved(k, 1);
}

/* The addition that takes an operand's pointer to the next stage. */
static tw_ir_op *advance(tw_kernel *k) {
    for (tw_ir_op *op = inside(k)->first; op; op = op->next)
        if (op->code == TW_OP_add_i64 && op->results[0].id == op->operands[0].id) return op;
    return NULL;
}

static bool never_advances(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(advance(k));
}

static bool advances_before_its_copies(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = advance(k), *barrier = direct(inside(k), TW_OP_barrier, 0);
    if (op && barrier) move_before(barrier, op);
    return op && barrier;
}

static bool wait_after_barrier(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *wait = direct(inside(k), TW_OP_cp_async_wait, 0), *barrier = after(wait, TW_OP_barrier);
    if (barrier) move_before(wait, barrier);
    return barrier;
}

static bool join_barrier(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(after(loop_of(k), TW_OP_barrier));
}

static bool second_join_barrier(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(after(after(loop_of(k), TW_OP_barrier), TW_OP_barrier));
}

static bool one_stage_fewer(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *loop = loop_of(k);
    loop->operands[1] =
        tw_edit_insert(k, loop, TW_OP_sub_i32, TW_T_i32, loop->operands[1], constant(k, TW_T_i32, 1), TW_NONE);
    return true;
}

static bool one_stage_more(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *loop = loop_of(k);
    loop->operands[1] =
        tw_edit_insert(k, loop, TW_OP_add_i32, TW_T_i32, loop->operands[1], constant(k, TW_T_i32, 1), TW_NONE);
    return true;
}

/* The selects that bring a stage back to the first: of the stage that is read, which comes last, or written. */
static tw_ir_op *wrap_of(tw_kernel *k, bool read) {
    tw_ir_op *last = NULL, *but_one = NULL;
    for (tw_ir_op *op = inside(k)->first; op; op = op->next)
        if (op->code == TW_OP_select && is_constant(k, op->operands[0], 0)) {
            but_one = last;
            last = op;
        }
    return read ? last : but_one;
}

static bool never_wraps(tw_ir_op *op) {
    if (op) op->operands[0] = op->operands[1];
    return op;
}

static bool never_wraps_reading(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return never_wraps(wrap_of(k, true));
}

static bool never_wraps_writing(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return never_wraps(wrap_of(k, false));
}

static bool wraps_to_the_second(tw_kernel *k, const gemm_specimen *s, tw_ir_op *op) {
    if (op) op->operands[0] = constant(k, TW_T_i32, (uint64_t)s->plan.stage_bytes);
    return op;
}

static bool wraps_to_the_wrong_stage(tw_kernel *k, const gemm_specimen *s) {
    return wraps_to_the_second(k, s, wrap_of(k, true));
}

static bool writes_the_wrong_stage(tw_kernel *k, const gemm_specimen *s) {
    return wraps_to_the_second(k, s, wrap_of(k, false));
}

/* -- through registers: a stage is loaded in one `if` of the loop, and stored in another */

static tw_ir_op *fetch_of(tw_kernel *k, bool store) {
    return direct(inside(k), TW_OP_if, store ? 1 : 0);
}

static bool loads_beyond_the_last_stage(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *fetch = fetch_of(k, false);
    if (fetch) fetch->operands[0] = constant(k, TW_T_pred, 1);
    return fetch;
}

static bool next_stage_not_stored(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(fetch_of(k, true));
}

/* Into the stage that is being read: the other one is only chosen afterwards. */
static bool stores_to_the_same_stage(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *store = fetch_of(k, true), *assign = before(store, TW_OP_set);
    if (assign) move_before(assign, store);
    return assign;
}

static bool stores_before_loading(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *load = fetch_of(k, false), *store = fetch_of(k, true);
    if (!load || !store) return false;
    hoist_before(k, load, store);
    return true;
}

static int stores_of(const tw_gemm_tile *t) {
    return t->per_thread * (t->transposed ? t->vec / t->es : 1);
}

/* Into `found`: the stores of an operand that is transposed on its way, in vectors of `each`; of the first stage, and
   of the others. */
static int turned_stores(tw_kernel *k, const gemm_specimen *s, int *each) {
    const tw_gemm_tile *x = &s->plan.x, *y = &s->plan.y, *t = x->transposed ? x : y;
    *each = t->vec / t->es;
    if (!t->transposed || *each < 2) return 0;
    const int stage = stores_of(x) + stores_of(y), from = t == x ? 0 : stores_of(x);
    int n = all(&k->body, TW_OP_st), seen = 0, kept = 0;
    for (int i = 0; i < n && seen < 2 * stage; i++) {
        if (found[i]->at.space != TW_SPACE_shared) continue;
        const int at = seen++ % stage;
        if (at >= from && at < from + stores_of(t)) found[kept++] = found[i];
    }
    return kept;
}

static bool turned_a_row_further(tw_kernel *k, const gemm_specimen *s) {
    int each, n = turned_stores(k, s, &each);
    for (int i = 0; i < n; i++) found[i]->at.offset += s->plan.x.transposed ? s->plan.x.pitch : s->plan.y.pitch;
    return n > 0;
}

static bool turned_into_one_row(tw_kernel *k, const gemm_specimen *s) {
    int each, n = turned_stores(k, s, &each);
    for (int i = 0; i < n; i++) found[i]->at.offset = found[i / each * each]->at.offset;
    return n > 0;
}

static bool turned_elements_exchanged(tw_kernel *k, const gemm_specimen *s) {
    int each, n = turned_stores(k, s, &each);
    for (int i = 0; i + 1 < n; i += each) {
        const int swap = found[i]->at.offset;
        found[i]->at.offset = found[i + 1]->at.offset;
        found[i + 1]->at.offset = swap;
    }
    return n > 0;
}

static int element_bytes(const gemm_specimen *s) {
    return tw_type_bits(tw_gemm_types[s->problem.type].element) / 8;
}

static bool shift_copies(tw_kernel *k, int by) {
    int n = all(&k->body, TW_OP_cp_async);
    for (int i = 0; i < n; i++) found[i]->at.offset += by;
    return n > 0;
}

static bool copies_land_an_element_further(tw_kernel *k, const gemm_specimen *s) {
    return shift_copies(k, element_bytes(s));
}

static bool copies_land_a_copy_further(tw_kernel *k, const gemm_specimen *s) {
    return shift_copies(k, s->plan.x.vec > s->plan.y.vec ? s->plan.x.vec : s->plan.y.vec);
}

static bool shift_sources(tw_kernel *k, tw_opcode code, int operand, int by) {
    int n = all(&k->body, code), shifted = 0;
    for (int i = 0; i < n; i++) {
        if (code == TW_OP_ld && (found[i]->at.space != TW_SPACE_global || found[i]->at.cache != TW_CACHE_nc)) continue;
        found[i]->operands[operand] = tw_edit_insert(k, found[i], TW_OP_add_i64, TW_T_i64, found[i]->operands[operand],
                                                     constant(k, TW_T_i64, (uint64_t)by), TW_NONE);
        shifted++;
    }
    return shifted > 0;
}

static bool sources_an_element_further(tw_kernel *k, const gemm_specimen *s) {
    return shift_sources(k, TW_OP_cp_async, 1, element_bytes(s));
}

static bool sources_a_copy_further(tw_kernel *k, const gemm_specimen *s) {
    return shift_sources(k, TW_OP_cp_async, 1, s->plan.x.vec);
}

static bool loads_an_element_further(tw_kernel *k, const gemm_specimen *s) {
    return shift_sources(k, TW_OP_ld, 0, element_bytes(s));
}

/* Shared loads, or stores, of the loop. */
static tw_ir_op *shared_access(tw_kernel *k, tw_opcode code) {
    int n = all(inside(k), code);
    for (int i = 0; i < n; i++)
        if (code == TW_OP_ldmatrix || found[i]->at.space == TW_SPACE_shared) return found[i];
    return NULL;
}

static bool fragment_an_element_further(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *op = shared_access(k, TW_OP_ld);
    if (op) op->at.offset += element_bytes(s);
    return op;
}

static bool fragment_a_vector_further(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *op = shared_access(k, TW_OP_ld);
    if (op) op->at.offset += element_bytes(s) * (op->at.vec ? op->at.vec : 1);
    return op;
}

static bool store_an_element_further(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    int n = all(inside(k), TW_OP_st), shifted = 0;
    for (int i = 0; i < n; i++)
        if (found[i]->at.space == TW_SPACE_shared) {
            found[i]->at.offset += tw_type_bits((tw_type)found[i]->at.type) / 8;
            shifted++;
        }
    return shifted > 0;
}

static bool matrix_half_a_row_further(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = shared_access(k, TW_OP_ldmatrix);
    if (op) op->at.offset += 8;
    return op;
}

static bool matrix_a_row_further(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = shared_access(k, TW_OP_ldmatrix);
    if (op) op->at.offset += s->plan.x.pitch;
    return op;
}

static bool matrix_turned(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = shared_access(k, TW_OP_ldmatrix);
    if (op) op->at.trans ^= 1;
    return op;
}

static void swap_values(tw_val *a, tw_val *b) {
    tw_val v = *a;
    *a = *b;
    *b = v;
}

static bool mma_rows_exchanged(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    if (!all(inside(k), TW_OP_mma)) return false;
    swap_values(&found[0]->operands[0], &found[0]->operands[1]);
    return true;
}

static bool mma_columns_exchanged(tw_kernel *k, const gemm_specimen *s) {
    const tw_mma_info *m = tw_mma_describe(s->plan.mma);
    if (m->b < 2) return false;
    if (!all(inside(k), TW_OP_mma)) return false;
    swap_values(&found[0]->operands[m->a], &found[0]->operands[m->a + 1]);
    return true;
}

static bool mma_result_misplaced(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    if (!all(inside(k), TW_OP_mma)) return false;
    swap_values(&found[0]->results[0], &found[0]->results[1]);
    return true;
}

/* The first accumulator. */
static tw_ir_op *first_sum(tw_kernel *k, const gemm_specimen *s) {
    const tw_type t = tw_gemm_types[s->problem.type].accumulator;
    for (tw_ir_op *op = k->body.first; op && op != loop_of(k); op = op->next)
        if (op->code == TW_OP_set && op->at.type == (int)t && is_constant(k, op->operands[0], 0) &&
            all(inside(k), s->config.mma   ? TW_OP_mma
                           : t == TW_T_f64 ? TW_OP_fma_f64
                           : t == TW_T_f32 ? TW_OP_fma_f32
                                           : TW_OP_mad_i32))
            for (int i = 0; i < found[0]->n_results; i++)
                if (found[0]->results[i].id == op->results[0].id) return op;
    return NULL;
}

static bool sum_starts_at_one(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *op = first_sum(k, s);
    const tw_type t = tw_gemm_types[s->problem.type].accumulator;
    if (!op) return false;
    op->operands[0] = constant(k, t, t == TW_T_i32 ? 1 : t == TW_T_f32 ? 0x3f800000u : 0x3ff0000000000000u);
    return true;
}

static bool sum_never_starts(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *op = first_sum(k, s);
    if (!op) return false;
    op->code = TW_OP_undef;
    op->n_operands = 0;
    return true;
}

static bool sum_is_forgotten(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    if (!all(inside(k), TW_OP_fma_f32)) return false;
    found[0]->operands[2] = constant(k, TW_T_f32, 0);
    return true;
}

/* -- bounds */

static bool all_bytes(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    int n = all(&k->body, TW_OP_cp_async), dropped = 0;
    for (int i = 0; i < n; i++)
        if (found[i]->n_operands == 3) {
            found[i]->n_operands = 2;
            dropped++;
        }
    return dropped > 0;
}

static bool a_byte_too_many(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    int n = all(&k->body, TW_OP_cp_async), shifted = 0;
    for (int i = 0; i < n; i++)
        if (found[i]->n_operands == 3) {
            tw_val more = tw_edit_insert(k, found[i], TW_OP_add_i32, TW_T_i32, found[i]->operands[2],
                                         constant(k, TW_T_i32, (uint64_t)element_bytes(s)), TW_NONE);
            found[i]->operands[2] = tw_edit_insert(k, found[i], TW_OP_min_s32, TW_T_i32, more,
                                                   constant(k, TW_T_i32, (uint64_t)found[i]->at.bytes), TW_NONE);
            shifted++;
        }
    return shifted > 0;
}

static bool drop_guards(tw_kernel *k, tw_opcode code, bool read_only) {
    int n = all(&k->body, code), dropped = 0;
    for (int i = 0; i < n; i++)
        if (found[i]->guard.id && found[i]->at.space == TW_SPACE_global &&
            (found[i]->at.cache == TW_CACHE_nc) == read_only) {
            found[i]->guard = TW_NONE;
            dropped++;
        }
    return dropped > 0;
}

static bool loads_unguarded(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop_guards(k, TW_OP_ld, true);
}

static bool stores_unguarded(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop_guards(k, TW_OP_st, false);
}

/* Every use of a parameter is moved by so many bytes, or becomes another value. */
static int replace_operand(tw_kernel *k, tw_block *b, tw_val from, tw_val to) {
    int n = 0;
    for (tw_ir_op *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->n_operands; i++)
            if (op->operands[i].id == from.id) {
                op->operands[i] = to;
                n++;
            }
        for (int i = 0; i < op->n_blocks; i++) n += replace_operand(k, &op->blocks[i], from, to);
    }
    return n;
}

static bool writes_a(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return replace_operand(k, &k->body, parameter(k, "c"), parameter(k, "a")) > 0;
}

static bool bias_of_the_next_tile(tw_kernel *k, const gemm_specimen *s) {
    const int es = tw_type_bits(s->problem.out) / 8;
    tw_val bias = parameter(k, "bias");
    int n = replace_operand(k, &k->body, bias, TW_NONE);
    if (!n) return false;
    tw_val next = tw_edit_insert(k, k->body.first, TW_OP_add_i64, TW_T_i64, bias,
                                 constant(k, TW_T_i64, (uint64_t)(s->config.nl * es)), TW_NONE);
    return replace_operand(k, &k->body, TW_NONE, next) >= 0;
}

static bool products_in_one_place(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return replace_operand(k, &k->body, parameter(k, "stride_c"), constant(k, TW_T_i64, 0)) > 0;
}

/* -- splits */

static tw_ir_op *counting(tw_kernel *k) {
    return all(&k->body, TW_OP_atom) ? found[0] : NULL;
}

static bool arrives_early(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(before(owner(counting(k)), TW_OP_barrier));
}

static bool asks_early(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(after(owner(counting(k)), TW_OP_barrier));
}

static bool barrier_of_one(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *atom = counting(k), *barrier = after(owner(atom), TW_OP_barrier);
    if (barrier) move_before(atom, barrier);
    return barrier;
}

static bool counts_relaxed(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = counting(k);
    if (op) op->at.order = TW_ORDER_relaxed;
    return op;
}

static bool counts_without_acquire(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = counting(k);
    if (op) op->at.order = TW_ORDER_release;
    return op;
}

static bool counts_without_release(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = counting(k);
    if (op) op->at.order = TW_ORDER_acquire;
    return op;
}

static bool counts_in_the_block(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = counting(k);
    if (op) op->at.scope = TW_SCOPE_cta;
    return op;
}

static bool counter_not_reset(tw_kernel *k, const gemm_specimen *s) {
    tw_ir_op *op = counting(k);
    if (op) op->operands[1] = constant(k, TW_T_i32, (uint64_t)s->config.kg);
    return op;
}

static bool counter_reset_early(tw_kernel *k, const gemm_specimen *s) {
    if (s->config.kg == 2) return false;
    tw_ir_op *op = counting(k);
    if (op) op->operands[1] = constant(k, TW_T_i32, (uint64_t)(s->config.kg - 2));
    return op;
}

static tw_ir_op *ordered(tw_kernel *k, tw_opcode code, int order) {
    int n = all(&k->body, code);
    for (int i = 0; i < n; i++)
        if (found[i]->at.order == order) return found[i];
    return NULL;
}

static tw_ir_op *turn(tw_kernel *k) {
    return ordered(k, TW_OP_ld, TW_ORDER_acquire);
}

static tw_ir_op *handing_on(tw_kernel *k) {
    return ordered(k, TW_OP_st, TW_ORDER_release);
}

static bool looks_relaxed(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = turn(k);
    if (op) op->at.order = TW_ORDER_relaxed;
    return op;
}

static bool looks_in_the_block(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = turn(k);
    if (op) op->at.scope = TW_SCOPE_cta;
    return op;
}

static bool hands_on_relaxed(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = handing_on(k);
    if (op) op->at.order = TW_ORDER_relaxed;
    return op;
}

static bool hands_on_in_the_block(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *op = handing_on(k);
    if (op) op->at.scope = TW_SCOPE_cta;
    return op;
}

static bool starts_before_its_turn(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    /* The load is in a while, which is in the leader's if. */
    return drop(after(owner(owner(turn(k))), TW_OP_barrier));
}

static bool hands_on_early(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(before(owner(handing_on(k)), TW_OP_barrier));
}

static bool last_does_not_reset(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *st = handing_on(k), *select = st ? definition(&k->body, st->operands[1]) : NULL;
    if (!select || select->code != TW_OP_select) return false;
    st->operands[1] = select->operands[1];
    return true;
}

static bool waits_for_ever(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    tw_ir_op *loop = owner(turn(k)), *ne = loop ? definition(&k->body, loop->operands[0]) : NULL;
    if (!ne || ne->code != TW_OP_ne_i32) return false;
    ne->code = TW_OP_eq_i32;
    return true;
}

static tw_ir_op *to_workspace(tw_kernel *k, tw_opcode code) {
    int n = all(&k->body, code);
    for (int i = 0; i < n; i++)
        if (found[i]->at.space == TW_SPACE_global && !found[i]->guard.id && found[i]->at.order != TW_ORDER_release)
            return found[i];
    return NULL;
}

static bool part_not_left(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(to_workspace(k, TW_OP_st));
}

static bool workspace_not_zeroed(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(to_workspace(k, TW_OP_st));
}

static bool part_not_added(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(to_workspace(k, TW_OP_red));
}

static bool adds_in_the_block(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    int n = all(&k->body, TW_OP_red);
    for (int i = 0; i < n; i++) found[i]->at.scope = TW_SCOPE_cta;
    return n > 0;
}

static tw_ir_op *meeting(tw_kernel *k, int nth) {
    return all(&k->body, TW_OP_cluster_sync) > nth ? found[nth] : NULL;
}

static bool reads_before_meeting(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(meeting(k, 0));
}

static bool leaves_before_meeting(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    return drop(meeting(k, 1));
}

static bool reads_the_same_block(tw_kernel *k, const gemm_specimen *s) {
    (void)s;
    if (all(&k->body, TW_OP_cluster_address) < 2) return false;
    found[1]->operands[1] = constant(k, TW_T_i32, 0);
    return true;
}

static bool reads_beyond_the_cluster(tw_kernel *k, const gemm_specimen *s) {
    if (all(&k->body, TW_OP_cluster_address) < 2) return false;
    found[1]->operands[1] = constant(k, TW_T_i32, (uint64_t)s->config.kg);
    return true;
}

/* -- the table */

#define ONLY(rule) (1u << (rule))
#define RULE(name) ONLY(TW_EMU_##name)
#define WRONG      ONLY(MISMATCH)
/* Who reads first, and finds nothing there, is the other side of a race. */
#define RACE_READ  (RULE(RACE) | RULE(UNINITIALISED))
#define RACE_ASYNC (RULE(ASYNC) | RACE_READ)

static const gemm_fault faults[] = {
    {"pipeline: no barrier", PIPE, loop_barrier, RACE_ASYNC, "tiles+"},
    {"pipeline: no wait", PIPE, no_wait, RULE(ASYNC), "tiles+"},
    {"pipeline: waits for one group too few", PIPE, short_wait, RULE(ASYNC), "tiles+"},
    {"pipeline: no commit", PIPE, no_commit, RULE(ASYNC), "tiles+"},
    {"pipeline: waits after the barrier", PIPE, wait_after_barrier, RACE_ASYNC, "tiles+"},
    {"pipeline: fetches before the barrier", PIPE, copy_before_barrier, RACE_ASYNC, "tiles+"},
    {"pipeline, ragged k: fetches before the barrier", PIPE | RAGGED_K, copy_before_barrier, RACE_ASYNC, "tiles+"},
    {"pipeline: commits before the last copy", PIPE, commits_before_the_last_copy, RULE(ASYNC), "tiles+"},
    {"pipeline: copies without their guard", PIPE, copies_unguarded, RULE(BOUNDS) | RULE(ASYNC), "+"},
    {"pipeline: a stage beyond k is fetched", PIPE, a_stage_beyond_is_fetched, RULE(BOUNDS), "+"},
    {"pipeline: the last stage is not fetched", PIPE, last_stage_not_fetched, WRONG, "row"},
    {"pipeline: a pointer stands still", PIPE, never_advances, WRONG, "row"},
    {"pipeline: a pointer moves on too early", PIPE, advances_before_its_copies, RULE(BOUNDS) | WRONG, NULL},
    {"pipeline, ragged k: a pointer stands still", PIPE | RAGGED_K, never_advances, WRONG, "row"},
    {"pipeline: tensor cores, no barrier", PIPE | TENSOR, loop_barrier, RACE_ASYNC, "tiles+"},
    {"pipeline: reads on beyond the last stage", PIPE, never_wraps_reading, RULE(BOUNDS), "tiles+"},
    {"pipeline: writes on beyond the last stage", PIPE, never_wraps_writing, RULE(BOUNDS), "tiles+"},
    {"pipeline: reads the wrong stage", PIPE, wraps_to_the_wrong_stage, RACE_ASYNC | RULE(BOUNDS) | WRONG, NULL},
    {"pipeline: writes the wrong stage", PIPE, writes_the_wrong_stage, RACE_ASYNC | RULE(BOUNDS) | WRONG, NULL},
    {"one stage: no barrier before reading", ONE, loop_barrier, RACE_READ, "tiles+"},
    {"one stage: no barrier before writing", ONE, second_loop_barrier, RACE_READ, "tiles+"},
    {"two stages, registers: no barrier", TWO, loop_barrier, RACE_READ, "tiles+"},
    {"two stages, registers: stores where others read", TWO, stores_to_the_same_stage, RACE_READ, "tiles+"},
    {"two stages, registers: reads on beyond", TWO, never_wraps_reading, RULE(BOUNDS), "tiles+"},
    {"two stages, registers: wraps to the second", TWO, wraps_to_the_wrong_stage, RACE_READ | WRONG, NULL},
    {"two stages, registers: a stage is not stored", TWO, next_stage_not_stored, RULE(UNINITIALISED), "tiles+"},
    {"two stages, registers: loads beyond k", TWO, loads_beyond_the_last_stage, RULE(BOUNDS), "+"},
    {"two stages, registers: stores before loading", TWO, stores_before_loading, RACE_READ | WRONG, NULL},
    {"two stages, registers: a stage too few", TWO, one_stage_fewer, WRONG, "row"},
    {"two stages, registers: a pointer stands still", TWO, never_advances, WRONG, "row"},
    {"two stages, registers: no bounds along m", TWO | RAGGED_M, loads_unguarded, RULE(BOUNDS), "+"},
    {"two stages, registers: no bounds along k", TWO | RAGGED_K, loads_unguarded, RULE(BOUNDS), "+"},
    {"transposed: a row further", TWO | F32, turned_a_row_further, RULE(UNINITIALISED) | RULE(RACE) | RULE(BOUNDS),
     "tiles+"},
    {"transposed: a copy into one row", TWO | F32, turned_into_one_row, RACE_READ, "tiles+"},
    {"transposed: rows exchanged", TWO | F32, turned_elements_exchanged, WRONG, "row"},
    {"a stage too few", PIPE, one_stage_fewer, WRONG, "row"},
    {"a stage too many", PIPE, one_stage_more, WRONG, "row"},
    {"one stage: a stage too few", ONE, one_stage_fewer, WRONG, "row"},
    {"copy to an element further", PIPE | VECTORS, copies_land_an_element_further, RULE(ALIGNMENT), "tiles+"},
    {"copy to a copy further", PIPE, copies_land_a_copy_further, RULE(UNINITIALISED) | RACE_ASYNC | RULE(BOUNDS),
     "tiles+"},
    {"copy from an element further", PIPE | VECTORS, sources_an_element_further, RULE(ALIGNMENT), "+"},
    {"copy from a copy further", PIPE, sources_a_copy_further, RULE(BOUNDS) | WRONG, NULL},
    {"load from an element further", ONE | VECTORS, loads_an_element_further, RULE(ALIGNMENT), "+"},
    {"store to an element further", ONE | VECTORS, store_an_element_further, RULE(ALIGNMENT), "tiles+"},
    {"fragment an element further", PIPE | VECTORS | F32, fragment_an_element_further, RULE(ALIGNMENT), "tiles+"},
    {"fragment a vector further", PIPE, fragment_a_vector_further, RULE(UNINITIALISED) | WRONG, NULL},
    {"ldmatrix at half a row", PIPE | TENSOR | VECTORS, matrix_half_a_row_further, RULE(ALIGNMENT), "tiles+"},
    {"ldmatrix a row further", PIPE | TENSOR | VECTORS, matrix_a_row_further, WRONG, "row"},
    {"ldmatrix turned", PIPE | TENSOR | VECTORS, matrix_turned, WRONG, "row"},
    {"mma: rows exchanged", PIPE | TENSOR, mma_rows_exchanged, WRONG, "row"},
    {"mma: columns exchanged", PIPE | TENSOR, mma_columns_exchanged, WRONG, "row"},
    {"mma: results exchanged", PIPE | TENSOR, mma_result_misplaced, WRONG, "row"},
    {"a sum starts at one", PIPE, sum_starts_at_one, WRONG, "row"},
    {"a sum starts nowhere", PIPE, sum_never_starts, ONLY(VERIFIER), "assigned"},
    {"a sum is forgotten", PIPE | F32, sum_is_forgotten, WRONG, "row"},
    {"no bounds along m", PIPE | RAGGED_M, all_bytes, RULE(BOUNDS), "a+"},
    {"no bounds along n", PIPE | RAGGED_N, all_bytes, RULE(BOUNDS), "b+"},
    {"no bounds along k", PIPE | RAGGED_K, all_bytes, RULE(BOUNDS), "+"},
    {"an element too many along k", PIPE | RAGGED_K, a_byte_too_many, RULE(BOUNDS) | WRONG, NULL},
    {"one stage: no bounds along m", ONE | RAGGED_M, loads_unguarded, RULE(BOUNDS), "+"},
    {"one stage: no bounds along k", ONE | RAGGED_K, loads_unguarded, RULE(BOUNDS), "+"},
    {"C written beyond m", PIPE | RAGGED_M, stores_unguarded, RULE(BOUNDS), "c+"},
    {"C written beyond n", PIPE | RAGGED_N, stores_unguarded, RULE(BOUNDS), "c+"},
    {"A is written", PIPE, writes_a, RULE(READ_ONLY) | RULE(BOUNDS), "a+"},
    {"bias of the next tile", PIPE | BIAS, bias_of_the_next_tile, RULE(BOUNDS), "bias+"},
    {"a batch in one place", PIPE | BATCH, products_in_one_place, RULE(RACE), "c+"},
    {"groups: no barrier before joining", PIPE | KL, join_barrier, RULE(RACE), "tiles+"},
    {"groups: no barrier while joining", PIPE | KL, second_join_barrier, RACE_READ, "tiles+"},
    {"split, last: arrives before all have written", PIPE | LAST, arrives_early, RULE(RACE), NULL},
    {"split, last: asks before it is known", PIPE | LAST, asks_early, RULE(RACE), "tiles+"},
    {"split, last: a barrier for one thread", PIPE | LAST, barrier_of_one,
     RULE(DIVERGENCE) | RULE(BARRIER) | RULE(DEADLOCK), "barrier"},
    {"split, last: counter relaxed", PIPE | LAST, counts_relaxed, RULE(RACE), "workspace+"},
    {"split, last: counter without acquire", PIPE | LAST, counts_without_acquire, RULE(RACE), "workspace+"},
    {"split, last: counter without release", PIPE | LAST, counts_without_release, RULE(RACE), "workspace+"},
    {"split, last: counter of block scope", PIPE | LAST, counts_in_the_block, RULE(RACE), "+"},
    {"split, last: counter not reset", PIPE | LAST, counter_not_reset, WRONG, "counters"},
    {"split, last: counter reset early", PIPE | LAST, counter_reset_early, WRONG, NULL},
    {"split, last: a part is not left", PIPE | LAST, part_not_left, RULE(UNINITIALISED), "workspace+"},
    {"split, atomic: counter relaxed", PIPE | ATOMIC, counts_relaxed, RULE(RACE), "workspace+"},
    {"split, atomic: workspace not zeroed", PIPE | ATOMIC, workspace_not_zeroed, WRONG, "workspace"},
    {"split, atomic: a part is not added", PIPE | ATOMIC, part_not_added, WRONG, "row"},
    {"split, atomic: additions of block scope", PIPE | ATOMIC, adds_in_the_block, RULE(RACE), "workspace+"},
    {"split, serial: looks relaxed", PIPE | SERIAL, looks_relaxed, RULE(RACE), "workspace+"},
    {"split, serial: looks with block scope", PIPE | SERIAL, looks_in_the_block, RULE(RACE), "+"},
    {"split, serial: hands on relaxed", PIPE | SERIAL, hands_on_relaxed, RULE(RACE), "workspace+"},
    {"split, serial: hands on in the block", PIPE | SERIAL, hands_on_in_the_block, RULE(RACE), "+"},
    {"split, serial: starts before its turn", PIPE | SERIAL, starts_before_its_turn, RACE_READ, "workspace+"},
    {"split, serial: hands on before all wrote", PIPE | SERIAL, hands_on_early, RULE(RACE), "workspace+"},
    {"split, serial: the last does not reset", PIPE | SERIAL, last_does_not_reset, WRONG, "counters"},
    {"cluster: reads before all have written", PIPE | CLUSTER, reads_before_meeting, RACE_ASYNC | RULE(BOUNDS), NULL},
    {"cluster: leaves while others read", PIPE | CLUSTER, leaves_before_meeting, RULE(RACE) | RULE(BOUNDS), NULL},
    {"cluster: takes one part twice", PIPE | CLUSTER, reads_the_same_block, WRONG, "row"},
    {"cluster: takes a block's that there is not", PIPE | CLUSTER, reads_beyond_the_cluster, RULE(BOUNDS), "cluster"},
    {"split, serial: nobody's turn", PIPE | SERIAL, waits_for_ever, RULE(DEADLOCK) | RULE(LIMIT), NULL},
};

const gemm_fault *gemm_faults(int *count) {
    *count = sizeof faults / sizeof *faults;
    return faults;
}

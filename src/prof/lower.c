/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of lowering records: code at a scope's begin and end, at a loop's iterations, and at each record.

   With

       record_begin(name="multiply" engine=tensor)

   in a loop whose frame is 16 bytes and whose ring has 64 frames, the loop's body begins with

       %1:i32 = and_i32 $count, 1023:i32
       %2:i32 = add_i32 %near, %1
       $count = add_i32 $count, 16:i32

   and the record becomes

       %3:i32 = sreg(type=i32 sreg=clock)

   A store would wait for the reading, and whatever the warp does next for the store. So words are stored where their
   block of operations ends, neighbours together:

       st(type=i32 vec=4 space=shared offset=...) %2, %3, %5, %7, %8 when %lane

   The first lane of the unit's warp stores. Code that it does not run leaves no record. */
#include "prof/lower.h"

#include "base/diag.h"
#include "ir/builder.h"
#include "ir/passes/edit.h"
#include "prof/plan.h"

#include <stdlib.h>

enum { CHUNK = 16, LANES = 32, WORD = 4 };

static const char *const object = TW_PROF_SHARED;

/* What the code of a scope refers to. */
typedef struct scope_values {
    tw_val unit;   /* Predicate: this warp of this block records. TW_NONE: it always does. */
    tw_val lane;   /* Predicate: this lane stores records, the first of a warp that records. */
    tw_val number; /* The unit's number. */
    tw_val near;   /* Shared address of the unit's part (i32). With global records unset. */
    tw_val far;    /* Address of the unit's segment (i64), with global records. */
} scope_values;

typedef struct lowering {
    tw_kernel *k;
    const tw_prof_options *o;
    tw_prof_layout *l;
    tw_val profile;       /* The parameter. */
    scope_values *scopes; /* By scope. */
    tw_val *counts;       /* By loop: variables. */
    struct words *words;  /* Of the block of operations that is being lowered. */
    int site, loop, scope;
} lowering;

/* A word that was read, and that is stored where its block of operations ends. */
typedef struct word {
    tw_val to, x, when; /* Address, value, and the predicate of its store. */
    int offset;
} word;

enum { MOST_WORDS = 64 };
typedef struct words {
    word list[MOST_WORDS];
    int n;
    tw_val now; /* The last reading. TW_NONE: something was done since, or the next record is another's end. */
    int cheap;  /* Operations since, that only compute. */
} words;

/* A piece of code that is built apart and moved to its place. */
typedef struct piece {
    tw_block block;
    tw_builder b;
} piece;

static tw_builder *begin_piece(piece *p, tw_kernel *k) {
    p->block = (tw_block){0};
    p->b = tw_builder_of(k);
    p->b.open[0] = &p->block;
    return &p->b;
}

/* -- which warps and blocks */

static tw_val and_predicates(tw_builder *b, tw_val x, tw_val y) {
    return !x.id ? y : !y.id ? x : tw_and(b, x, y);
}

static tw_val first_lane(tw_builder *b) {
    return tw_eq(b, tw_sreg(b, TW_SREG_laneid), tw_i32(b, 0));
}

/* The block's number in the grid. */
static tw_val block_number(tw_builder *b) {
    tw_val yz = tw_fma(b, tw_sreg(b, TW_SREG_ctaid_z), tw_sreg(b, TW_SREG_nctaid_y), tw_sreg(b, TW_SREG_ctaid_y));
    return tw_fma(b, yz, tw_sreg(b, TW_SREG_nctaid_x), tw_sreg(b, TW_SREG_ctaid_x));
}

static bool chooses_blocks(const tw_prof_layout *l) {
    return l->first > 0 || l->every > 1;
}

/* The predicate that the block is recorded. */
static tw_val chosen_block(const tw_prof_layout *l, tw_builder *b) {
    tw_val from = tw_add_imm(b, block_number(b), -l->first), zero = tw_i32(b, 0), p = tw_le(b, zero, from);
    return l->every > 1 ? tw_and(b, p, tw_eq(b, tw_rem(b, from, l->every), zero)) : p;
}

static scope_values find_unit(lowering *l, tw_builder *b, const tw_prof_scope *s) {
    scope_values v = {0};
    tw_val warp = tw_sreg(b, TW_SREG_warpid), of = tw_add_imm(b, warp, -s->from);
    v.number = tw_div(b, of, s->group);
    if (s->group > 1) v.unit = tw_eq(b, tw_rem(b, of, s->group), tw_i32(b, 0));
    if (l->o->warps) {
        tw_val bit = tw_binary(b, TW_OP_shr_u32, tw_i32(b, (int32_t)(uint32_t)l->o->warps), warp);
        v.unit = and_predicates(b, v.unit, tw_ne(b, tw_and(b, bit, tw_i32(b, 1)), tw_i32(b, 0)));
    }
    if (chooses_blocks(l->l)) v.unit = and_predicates(b, v.unit, chosen_block(l->l, b));
    v.lane = and_predicates(b, v.unit, first_lane(b));
    return v;
}

/* The address of the unit's segment. Means nothing in a block that is not recorded. */
static tw_val segment(lowering *l, tw_builder *b, const tw_prof_scope *s, const scope_values *v) {
    const tw_prof_layout *p = l->l;
    tw_val index = tw_div(b, tw_add_imm(b, block_number(b), -p->first), p->every);
    tw_val part = tw_mul(b, tw_widen(b, index), tw_i64(b, p->block_bytes));
    tw_val unit = tw_mul(b, tw_widen(b, v->number), tw_i64(b, s->bytes));
    return tw_add_imm(b, tw_add(b, l->profile, tw_add(b, part, unit)), s->segment);
}

/* -- scopes */

static void store_word(tw_builder *b, tw_val to, int at, tw_val x) {
    tw_st(b, (tw_attrs){.type = TW_T_i64, .offset = 8 * at}, to, &x);
}

static void store_anchor(tw_builder *b, tw_val to, int clock, int time) {
    store_word(b, to, clock, tw_sreg(b, TW_SREG_clock64));
    store_word(b, to, time, tw_sreg(b, TW_SREG_globaltimer));
}

static void sync_warp(tw_builder *b) {
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
}

/* The first chunk of a lane, and the bytes from one to the next: lanes share the chunks out, or one lane has all. */
static tw_val first_chunk(tw_builder *b, bool alone) {
    return alone ? tw_i32(b, 0) : tw_mul_imm(b, tw_sreg(b, TW_SREG_laneid), CHUNK);
}

static tw_val next_chunk(tw_builder *b, bool alone) {
    return tw_i32(b, alone ? CHUNK : CHUNK * LANES);
}

static void clear(tw_builder *b, tw_val near, int bytes) {
    tw_val zero = tw_i32(b, 0), zeros[4] = {zero, zero, zero, zero};
    TW_FOR (b, at, first_chunk(b, false), tw_i32(b, bytes), next_chunk(b, false), true)
        tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared}, tw_add(b, near, at), zeros);
}

/* Copies from shared to global memory. `bytes` is a multiple of CHUNK. */
static void copy_out(tw_builder *b, tw_val from, tw_val to, tw_val bytes, bool alone) {
    TW_FOR (b, at, first_chunk(b, alone), bytes, next_chunk(b, alone), true) {
        tw_val x[4] = {{0}};
        tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared}, tw_add(b, from, at), x);
        tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4}, tw_add(b, to, tw_widen(b, at)), x);
    }
}

static tw_scope only_if(tw_builder *b, tw_val p) {
    return p.id ? tw_push_if(b, p) : TW_NO_BLOCK;
}

/* Makes the code of a scope's beginning. */
static void begin_scope(lowering *l, int scope, piece *p) {
    const tw_prof_scope *s = &l->l->scopes[scope];
    tw_builder *b = begin_piece(p, l->k);
    scope_values v = find_unit(l, b, s);
    tw_val to = segment(l, b, s, &v);
    if (l->l->global) {
        v.far = to;
    } else {
        tw_val part = tw_mul_imm(b, v.number, s->near_bytes);
        v.near = tw_add_imm(b, tw_add(b, tw_shared_base(b, object), part), s->near);
    }
    for (int i = 0; i < l->l->n_loops; i++)
        if (l->l->loops[i].scope == scope && l->l->loops[i].frame) l->counts[i] = tw_var_of(b, tw_i32(b, 0));
    TW_BLOCK (b, only_if(b, v.unit)) {
        if (!l->l->global) {
            clear(b, v.near, s->near_bytes);
            sync_warp(b);
        }
        TW_IF (b, first_lane(b)) store_anchor(b, to, TW_PROF_BEGIN_CLOCK, TW_PROF_BEGIN_TIME);
    }
    l->scopes[scope] = v;
}

/* Writes out what a ring has had since it was full the last time. The count is the first lane's, since others may not
   have run the loop. */
static void write_rest(tw_builder *b, const scope_values *v, const tw_prof_loop *p, tw_val count, tw_val to) {
    const int kept = p->frame * p->kept, all = p->frame * p->frames;
    count = tw_shfl(b, TW_MODE_idx, count, tw_i32(b, 0), tw_i32(b, -1));
    TW_IF (b, tw_lt(b, tw_i32(b, 0), count)) {
        tw_val last = tw_and(b, tw_add_imm(b, count, -1), tw_i32(b, ~(kept - 1)));
        tw_val place = tw_and(b, last, tw_i32(b, all - 1));
        copy_out(b, tw_add_imm(b, v->near, p->near), tw_add_imm(b, tw_add(b, to, tw_widen(b, place)), p->ring),
                 tw_i32(b, kept), false);
    }
}

/* Copies a unit's statics and rings from shared memory to its segment. */
static void write_out(lowering *l, tw_builder *b, int scope, tw_val to) {
    const tw_prof_scope *s = &l->l->scopes[scope];
    const scope_values *v = &l->scopes[scope];
    int bytes = s->near_bytes;
    for (int i = 0; i < l->l->n_loops && l->l->flush; i++) {
        const tw_prof_loop *q = &l->l->loops[i];
        if (q->scope != scope || !q->frame) continue;
        if (q->near < bytes) bytes = q->near;
        write_rest(b, v, q, l->counts[i], to);
    }
    if (bytes) copy_out(b, v->near, tw_add_imm(b, to, s->statics), tw_i32(b, bytes), false);
}

static void end_scope(lowering *l, int scope, tw_block *block) {
    const tw_prof_scope *s = &l->l->scopes[scope];
    const scope_values *v = &l->scopes[scope];
    piece p;
    tw_builder *b = begin_piece(&p, l->k);
    TW_BLOCK (b, only_if(b, v->unit)) {
        sync_warp(b);
        tw_val to = segment(l, b, s, v);
        TW_IF (b, first_lane(b)) {
            store_anchor(b, to, TW_PROF_END_CLOCK, TW_PROF_END_TIME);
            store_word(b, to, TW_PROF_SM, tw_widen(b, tw_sreg(b, TW_SREG_smid)));
            for (int i = 0; i < l->l->n_loops; i++) {
                const tw_prof_loop *q = &l->l->loops[i];
                if (q->scope == scope && q->frame)
                    tw_st(b, (tw_attrs){.type = TW_T_i32, .offset = q->count}, to, &l->counts[i]);
            }
        }
        if (!l->l->global) write_out(l, b, scope, to);
    }
    tw_edit_append(block, &p.block);
}

/* -- records */

static tw_val read_counter(tw_builder *b, tw_prof_metric metric) {
    if (metric == TW_PROF_GLOBALTIMER) return tw_unary(b, TW_OP_low_i32_i64, tw_sreg(b, TW_SREG_globaltimer));
    if (metric == TW_PROF_SMID) return tw_add_imm(b, tw_sreg(b, TW_SREG_smid), 1); /* 0 is no record. */
    return tw_sreg(b, TW_SREG_clock);
}

static tw_attrs place_of(const lowering *l, int offset, int n) {
    return (tw_attrs){
        .type = TW_T_i32, .vec = n, .space = l->l->global ? TW_SPACE_global : TW_SPACE_shared, .offset = offset};
}

static void store_words(const lowering *l, tw_builder *b, const word *w, int n) {
    tw_val x[4];
    for (int i = 0; i < n; i++) x[i] = w[i].x;
    if (w->when.id) tw_when(b, w->when);
    tw_st(b, place_of(l, w->offset, n), w->to, x);
}

/* How many of the words at `w` one store can take: neighbours at a place that is aligned for them. Parts of units and
   frames of so many words are aligned likewise. */
static int together(const word *w, int n) {
    int all = 1;
    while (all < n && all < 4 && w[all].to.id == w->to.id && w[all].when.id == w->when.id &&
           w[all].offset == w->offset + WORD * all)
        all++;
    int most = all >= 4 ? 4 : all >= 2 ? 2 : 1;
    while (most > 1 && w->offset % (WORD * most)) most /= 2;
    return most;
}

/* Makes the stores of all words that were read. */
static void store_all(lowering *l, tw_builder *b) {
    words *w = l->words;
    for (int i = 0, n; i < w->n; i += n) {
        n = together(&w->list[i], w->n - i);
        store_words(l, b, &w->list[i], n);
    }
    w->n = 0;
}

/* Stores a word now, or where the block of operations ends. What a variable holds may be another thing then. */
static void put(lowering *l, tw_builder *b, const word *w, bool later) {
    words *all = l->words;
    if (later && all->n < MOST_WORDS)
        all->list[all->n++] = *w;
    else
        store_words(l, b, w, 1);
}

/* -- loops */

/* Writes out a ring that is full. Where lanes may be apart, the first lane does it alone. */
static void write_full(lowering *l, tw_builder *b, int loop) {
    const tw_prof_loop *p = &l->l->loops[loop];
    const scope_values *v = &l->scopes[p->scope];
    const int kept = p->frame * p->kept, all = p->frame * p->frames;
    tw_val count = l->counts[loop], zero = tw_i32(b, 0);
    tw_val full = tw_and(b, tw_eq(b, tw_and(b, count, tw_i32(b, kept - 1)), zero), tw_lt(b, zero, count));
    TW_IF (b, and_predicates(b, full, p->apart ? v->lane : v->unit)) {
        if (!p->apart) sync_warp(b);
        tw_val to = segment(l, b, &l->l->scopes[p->scope], v);
        tw_val place = tw_and(b, tw_add_imm(b, count, -kept), tw_i32(b, all - 1));
        copy_out(b, tw_add_imm(b, v->near, p->near), tw_add_imm(b, tw_add(b, to, tw_widen(b, place)), p->ring),
                 tw_i32(b, kept), p->apart);
        if (!p->apart) sync_warp(b);
    }
}

/* Makes the code of an iteration's beginning. Returns the address that its frame's offsets count from. */
static tw_val begin_iteration(lowering *l, int loop, piece *at) {
    const tw_prof_loop *p = &l->l->loops[loop];
    const scope_values *v = &l->scopes[p->scope];
    tw_builder *b = begin_piece(at, l->k);
    if (l->l->flush) write_full(l, b, loop);
    const int bytes = p->frame * (l->l->global ? p->frames : p->kept);
    tw_val within = tw_and(b, l->counts[loop], tw_i32(b, bytes - 1));
    tw_val frame = l->l->global ? tw_add(b, v->far, tw_widen(b, within)) : tw_add(b, v->near, within);
    tw_add_to(b, l->counts[loop], tw_i32(b, p->frame));
    if (p->stamped) {
        const word stamp = {frame, read_counter(b, l->l->metric), v->lane, l->l->global ? p->ring : p->near};
        put(l, b, &stamp, false);
    }
    return frame;
}

/* A mark or a region's beginning right behind another record is at the same moment. */
static bool shares_reading(const lowering *l, const tw_ir_op *op) {
    return l->words->now.id && op->code != TW_OP_record_end && !l->o->apart;
}

/* Lowers the next site, which is `op`. `frame` is the loop's (begin_iteration). */
static void lower_record(lowering *l, tw_ir_op *op, tw_val frame) {
    const tw_prof_site *s = &l->l->sites[l->site++];
    const scope_values *v = &l->scopes[s->scope];
    const tw_prof_scope *scope = &l->l->scopes[s->scope];
    const bool global = l->l->global;
    word w = {.to = s->loop >= 0 ? frame : global ? v->far : v->near, .when = v->lane, .offset = s->offset};
    if (s->loop >= 0)
        w.offset += global ? l->l->loops[s->loop].ring : l->l->loops[s->loop].near;
    else if (global)
        w.offset += scope->statics;
    piece p;
    tw_builder *b = begin_piece(&p, l->k);
    /* A predicate of its own, since the guard may be a variable. */
    if (op->guard.id) w.when = and_predicates(b, w.when, op->guard_not ? tw_not(b, op->guard) : op->guard);
    w.x = shares_reading(l, op) ? l->words->now : read_counter(b, l->l->metric);
    put(l, b, &w, true);
    l->words->now = op->code == TW_OP_record_begin ? TW_NONE : w.x;
    l->words->cheap = 0;
    if (op->code == TW_OP_record_value) {
        w.offset += WORD;
        w.x = op->operands[0];
        put(l, b, &w, !tw_is_variable(l->k, w.x));
    }
    tw_edit_splice(op, &p.block);
}

/* Notes that an operation stands between two records. A few that compute addresses take no time to speak of. */
static void pass(const lowering *l, const tw_ir_op *op) {
    enum { CHEAP = 8 };
    words *w = l->words;
    bool cheap = tw_op_describe((tw_opcode)op->code)->flags & TW_F_PURE && ++w->cheap <= CHEAP;
    for (int i = 0; i < op->n_results; i++) cheap &= !tw_type_is_float(tw_value_type(l->k, op->results[i]));
    if (!cheap) w->now = TW_NONE;
}

static void lower_block(lowering *l, tw_block *block, tw_val frame);

/* Lowers the records of the next scope. Its first and last code is put into its block at last, so that it is not taken
   for the kernel's own. */
static void lower_scope(lowering *l, tw_block *block) {
    const int scope = l->scope++;
    const bool records = l->l->scopes[scope].n_sites;
    piece first;
    if (records) begin_scope(l, scope, &first);
    lower_block(l, block, TW_NONE);
    if (!records) return;
    tw_edit_prepend(block, &first.block);
    end_scope(l, scope, block);
}

static void lower_loop(lowering *l, tw_ir_op *op) {
    const int loop = l->loop++;
    tw_block *body = &op->blocks[op->n_blocks - 1];
    if (!l->l->loops[loop].frame) {
        lower_block(l, body, TW_NONE);
        return;
    }
    piece first;
    tw_val frame = begin_iteration(l, loop, &first);
    lower_block(l, body, frame);
    tw_edit_prepend(body, &first.block);
}

static void lower_op(lowering *l, tw_ir_op *op, tw_val frame) {
    if (op->code == TW_OP_for || op->code == TW_OP_while) {
        if (op->code == TW_OP_while) lower_block(l, &op->blocks[0], frame);
        lower_loop(l, op);
    } else if (tw_prof_opens_scopes(l->k, op)) {
        for (int i = 0; i < op->n_blocks; i++) lower_scope(l, &op->blocks[i]);
    } else {
        for (int i = 0; i < op->n_blocks; i++) lower_block(l, &op->blocks[i], frame);
    }
}

static void lower_block(lowering *l, tw_block *block, tw_val frame) {
    words *outer = l->words, own = {.n = 0};
    l->words = &own;
    for (tw_ir_op *op = block->first, *next; op; op = next) {
        next = op->next;
        if (tw_is_record(op)) {
            if (tw_prof_wants(l->o, op)) lower_record(l, op, frame);
            tw_edit_remove(op);
        } else {
            lower_op(l, op, frame);
            pass(l, op);
        }
    }
    piece p;
    store_all(l, begin_piece(&p, l->k));
    tw_edit_append(block, &p.block);
    l->words = outer;
}

static void lower_kernel(lowering *l) {
    tw_builder b = tw_builder_of(l->k);
    l->profile = tw_pointer_add(&b, TW_PROF_PARAMETER, CHUNK, false);
    if (!l->l->global) tw_shared_add(&b, object, l->l->shared_bytes, CHUNK, true);
    lower_scope(l, &l->k->body);
}

tw_status tw_prof_lower(tw_kernel *k, const tw_prof_options *o, tw_prof_layout *layout, tw_diag *diag) {
    if (tw_kernel_failed(k)) return tw_fail_memory(diag);
    const tw_status st = tw_prof_plan(k, o, layout, diag);
    if (st != TW_OK || !layout->n_sites) return st;
    lowering l = {.k = k, .o = o, .l = layout};
    l.scopes = calloc((size_t)layout->n_scopes, sizeof *l.scopes);
    l.counts = calloc((size_t)layout->n_loops + 1, sizeof *l.counts);
    if (l.scopes && l.counts)
        lower_kernel(&l);
    else
        k->arena.failed = true;
    free(l.scopes);
    free(l.counts);
    return tw_kernel_failed(k) ? tw_fail_memory(diag) : TW_OK;
}

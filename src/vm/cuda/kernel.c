/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's frame: set-up, and the loop over instructions with its edges. */
#include "vm/cuda/generate.h"

enum { LOOK = 4096 /* Polls between two looks at the abort flag. */ };

tw_val tw_mega_word(tw_mega_gen *g, int word) {
    tw_builder *b = g->b;
    return tw_shfl(b, TW_MODE_idx, g->record, tw_i32(b, word), tw_i32(b, -1));
}

tw_val tw_mega_address(tw_mega_gen *g, int word) {
    tw_val low = tw_mega_word(g, word), high = tw_mega_word(g, word + 1);
    return tw_binary(g->b, TW_OP_pack_i64_i32, low, high);
}

void tw_mega_barrier(tw_mega_gen *g) {
    tw_do(g->b, TW_OP_barrier_sync, (tw_attrs){.count = tw_mega_threads(g->p)}, tw_i32(g->b, 1), TW_NONE);
}

tw_val tw_mega_at(tw_builder *b, tw_val base, tw_val i, int64_t bytes) {
    if (tw_value_type(b->kernel, base) == TW_T_i32) return tw_add(b, base, tw_mul_imm(b, i, bytes));
    return tw_op_emit(b, TW_OP_mad_wide_s32, i, tw_i32(b, (int32_t)bytes), base);
}

tw_scope tw_mega_thread_loop(tw_mega_gen *g, tw_val count) {
    return tw_push_for(g->b, g->thread, count, tw_i32(g->b, tw_mega_threads(g->p)), false);
}

tw_type tw_mega_element(tw_dtype t) {
    return t == TW_F32 ? TW_T_f32 : t == TW_F16 ? TW_T_f16 : TW_T_bf16;
}

tw_val tw_mega_position(tw_mega_gen *g, tw_val row) {
    tw_builder *b = g->b;
    if (g->p->sequences == 1) return tw_add(b, g->pos, row);
    tw_val at = tw_mega_at(b, g->arg[TW_MEGA_ARG_TOKENS], row, 4);
    return tw_add(b, tw_ld(b, tw_mega_fixed(TW_T_i32, 1, 4 * g->p->tokens), at), g->step);
}

const char *const tw_mega_marks[TW_MEGA_MARKS] = {"begun", "waited", "prepared", "multiplied", "finished", "arrived"};

void tw_mega_mark(tw_mega_gen *g, int mark) {
    tw_record_mark(g->b, tw_mega_marks[mark]);
}

/* ---- edges */

/* Describes a thread's wait for the abort record. */
typedef struct waiting {
    tw_mega_gen *g;
    tw_val polls;           /* Variable (i32): polls so far. */
    tw_val counter, target; /* Counter -1: data is its own flag. */
} waiting;

/* Counts a poll. Every LOOK polls the thread reads the abort flag, and after spin_limit polls it aborts the machine.
   The first thread to do so writes the abort record. */
static void count_poll(void *context, tw_val seen) {
    const waiting *w = context;
    tw_mega_gen *g = w->g;
    tw_builder *b = g->b;
    const int most = g->p->tuning.spin_limit, look_after = most < LOOK ? most : LOOK;
    tw_val abort = g->arg[TW_MEGA_ARG_ABORT];
    tw_op_to(b, w->polls, TW_OP_add_i32, w->polls, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_eq(b, tw_rem(b, w->polls, look_after), tw_i32(b, 0))) {
        tw_attrs flag = {.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
        tw_assign(b, g->gave_up, tw_ld(b, flag, abort));
        TW_IF (b, tw_le(b, tw_i32(b, most), w->polls)) {
            tw_assign(b, g->gave_up, tw_i32(b, 1));
            flag.rmw = TW_RMW_cas;
            tw_val first = tw_atom(b, flag, abort, tw_i32(b, 0), tw_i32(b, 1));
            TW_IF (b, tw_eq(b, first, tw_i32(b, 0))) {
                tw_val said[] = {tw_sreg(b, TW_SREG_ctaid_x), g->index, w->counter, w->target, seen};
                for (int i = 0; i < 5; i++)
                    tw_st(b, (tw_attrs){.type = TW_T_i32, .offset = 4 + 4 * i}, abort, &said[i]);
            }
        }
    }
}

void tw_mega_wait(tw_mega_gen *g) {
    tw_builder *b = g->b;
    tw_val word = tw_mega_word(g, TW_W_WAIT), waits = tw_le(b, tw_i32(b, 0), word);
    waiting w = {.g = g, .counter = tw_and(b, word, tw_i32(b, 0xffff))};
    w.target = tw_mul(b, tw_shr(b, word, 16), g->epoch);
    TW_IF (b, waits) {
        TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0))) {
            const tw_patience patience = {count_poll, &w, g->gave_up};
            tw_counter_wait wait = {.target = w.target, .patience = &patience};
            wait.counter = tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTERS], w.counter, TW_MEGA_COUNTER);
            w.polls = tw_var_of(b, tw_i32(b, 0));
            wait.seen = tw_var_of(b, tw_i32(b, 0));
            tw_counter_poll(b, &wait);
        }
        tw_mega_barrier(g);
    }
    tw_mega_mark(g, 1);
}

void tw_mega_wait_alone(tw_mega_gen *g) {
    tw_mega_wait(g);
    tw_mega_mark(g, 2);
}

/* ---- data as its own flag */

tw_val tw_mega_tag(tw_mega_gen *g, bool writes, int uses) {
    tw_builder *b = g->b;
    if (!g->p->flags) return TW_NONE;
    tw_val word = tw_mega_word(g, TW_W_USES);
    tw_val use = writes ? tw_shr(b, word, 16) : tw_and(b, word, tw_i32(b, 0xffff));
    tw_val before = tw_mul_imm(b, tw_add_imm(b, g->epoch, -1), uses);
    return tw_and(b, tw_add_imm(b, tw_add(b, before, use), 1), tw_i32(b, TW_FLAG_TAG));
}

tw_val tw_mega_mask(tw_mega_gen *g) {
    tw_builder *b = g->b;
    tw_val reads = tw_and(b, tw_mega_word(g, TW_W_USES), tw_i32(b, 0xffff));
    return tw_select(b, tw_eq(b, reads, tw_i32(b, TW_MEGA_UNTAGGED)), tw_i32(b, 0), tw_i32(b, TW_FLAG_TAG));
}

void tw_mega_put(tw_mega_gen *g, tw_val address, tw_val x, tw_val tag) {
    if (g->p->flags)
        tw_flag_store(g->b, address, x, tag);
    else
        tw_st(g->b, (tw_attrs){.type = TW_T_f32}, address, &x);
}

static void count_stale(void *context, tw_val seen) {
    const waiting *w = context;
    count_poll(context, tw_and(w->g->b, seen, tw_i32(w->g->b, TW_FLAG_TAG)));
}

void tw_mega_poll(tw_mega_gen *g, tw_flag_words *x, int n) {
    tw_builder *b = g->b;
    waiting w = {g, tw_var_of(b, tw_i32(b, 0)), tw_i32(b, -1), x->tag};
    tw_flag_poll(b, x, n, &(tw_patience){count_stale, &w, g->gave_up});
}

/* Arrives at the record's counter, which publishes everything that this block wrote. The barrier keeps warps from using
   shared memory for the next instruction while another is still at this one. If data is its own flag, project and ffn
   arrive without waiting for their writes, since readers check the tags. */
static void arrive(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    tw_val counter = tw_mega_word(g, TW_W_ARRIVE), arrives = tw_le(b, tw_i32(b, 0), counter);
    tw_mega_barrier(g);
    TW_IF (b, tw_and(b, arrives, tw_eq(b, g->thread, tw_i32(b, 0)))) {
        if (g->p->flags) {
            tw_val project = tw_eq(b, kind, tw_i32(b, TW_MEGA_PROJECT)), ffn = tw_eq(b, kind, tw_i32(b, TW_MEGA_FFN));
            TW_IF (b, tw_or(b, project, ffn)) {
                tw_counter_add(b, tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTERS], counter, 1), false);
            } else {
                tw_counter_add(b, tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTERS], counter, 1), true);
            }
        } else {
            tw_counter_add(b, tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTERS], counter, 1), true);
        }
    }
}

/* ---- instructions without weights */

/* Copies the angles of the step's positions to a buffer. They begin `offset` bytes into a position's row. */
static void copy_angles(tw_mega_gen *g, tw_val to, int offset) {
    tw_builder *b = g->b;
    const int dims = (int)g->p->m->rope.dims, row_bytes = 4 * dims * (g->p->two_ropes ? 2 : 1);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_mul_imm(b, g->arg[TW_MEGA_ARG_N], dims))) {
        tw_val row = tw_div(b, i, dims), angle = tw_rem(b, i, dims);
        tw_val at = tw_mega_at(b, g->arg[TW_MEGA_ARG_ANGLES], tw_mega_position(g, row), row_bytes);
        tw_val x = tw_ld(b, tw_mega_l2(TW_T_f32, 1, offset), tw_mega_at(b, at, angle, 4));
        tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, to, i, 4), &x);
    }
}

/* Copies the step's tokens and angles. A launch's first step has the caller's tokens, later ones the last step's. */
static void build_input(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int half = (int)g->p->m->rope.dims / 2;
    tw_val n = g->arg[TW_MEGA_ARG_N], tokens = tw_mega_address(g, TW_W_OUT), last = tw_mega_address(g, TW_W_IN);
    tw_val rope = tw_mega_address(g, TW_W_ROPE), local = TW_NONE;
    if (g->p->two_ropes) local = tw_mega_address(g, TW_W_ROPE_LOCAL);
    tw_mega_wait_alone(g);
    TW_IF (b, tw_lt(b, g->thread, n)) {
        tw_val first = tw_eq(b, g->step, tw_i32(b, 0));
        tw_val token;
        if (g->p->tokens == 1) {
            tw_unless(b, first);
            token = tw_select(b, first, g->arg[TW_MEGA_ARG_TOKEN], tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), last));
        } else {
            if (g->p->sequences > 1) last = tw_mega_at(b, last, g->thread, 4);
            tw_val from = tw_select(b, first, tw_mega_at(b, g->arg[TW_MEGA_ARG_TOKENS], g->thread, 4), last);
            token = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), from);
        }
        tw_st(b, (tw_attrs){.type = TW_T_i32}, tw_mega_at(b, tokens, g->thread, 4), &token);
    }
    if (!half) return;
    copy_angles(g, rope, 0);
    if (g->p->two_ropes) copy_angles(g, local, 8 * half);
}

/* Loads an element of a row of a table of the model's width. */
static tw_val table_element(tw_mega_gen *g, tw_dtype t, tw_val table, tw_val row, tw_val column) {
    tw_builder *b = g->b;
    const int64_t bytes = (int64_t)tw_dtype_bits(t) / 8;
    const tw_attrs element = tw_mega_fixed(tw_mega_element(t), 1, 0);
    tw_val at = tw_mega_at(b, tw_mega_at(b, table, row, g->p->m->dim * bytes), column, bytes);
    return tw_part_widen(b, element.type, tw_ld(b, element, at));
}

static void build_embed(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    tw_val from = tw_mega_word(g, TW_W_FROM), count = tw_mega_word(g, TW_W_COUNT);
    tw_val tokens = tw_mega_address(g, TW_W_IN), table = tw_mega_address(g, TW_W_TABLE);
    tw_val x = tw_mega_address(g, TW_W_OUT), tag = tw_mega_tag(g, true, g->p->uses_x);
    tw_val positions = m->positions.rows ? tw_mega_address(g, TW_W_POSITIONS) : TW_NONE;
    tw_mega_wait_alone(g);
    tw_val all = g->p->tokens > 1 ? tw_mul(b, count, g->arg[TW_MEGA_ARG_N]) : count;
    TW_LOOP (b, i, tw_mega_thread_loop(g, all)) {
        tw_val position = tw_i32(b, 0), column = tw_add(b, from, i);
        if (g->p->tokens > 1) {
            position = tw_binary(b, TW_OP_div_u32, i, count);
            column = tw_sub(b, column, tw_mul(b, position, count));
        }
        tw_val token = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), tw_mega_at(b, tokens, position, 4));
        /* After the machine gave up a token may be anything. */
        token = tw_binary(b, TW_OP_min_u32, token, tw_i32(b, (int32_t)g->p->vocab - 1));
        tw_val v = table_element(g, m->embed.dtype, table, token, column);
        if (m->embed_scale != 1) v = tw_mul(b, v, tw_f32(b, m->embed_scale));
        if (m->positions.rows) {
            tw_val at = tw_mega_position(g, position);
            v = tw_add(b, v, table_element(g, m->positions.dtype, positions, at, column));
        }
        tw_val to = tw_mega_at(b, tw_mega_at(b, x, position, m->dim * 4), column, 4);
        tw_mega_put(g, to, v, tag);
    }
}

/* ---- the loop */

static void dispatch(tw_mega_gen *g, tw_val kind) {
    tw_builder *b = g->b;
    static const struct {
        tw_mega_kind kind;
        void (*build)(tw_mega_gen *g);
    } plain[] = {{TW_MEGA_ATTEND, tw_mega_build_attend}, {TW_MEGA_MERGE, tw_mega_build_merge},
                 {TW_MEGA_EMBED, build_embed},           {TW_MEGA_INPUT, build_input},
                 {TW_MEGA_OUTPUT, tw_mega_build_output}, {TW_MEGA_WAIT, tw_mega_wait_alone},
                 {TW_MEGA_SCORE, tw_mega_build_score},   {TW_MEGA_CHOOSE, tw_mega_build_choose}};
    const int n_plain = g->p->experts ? 8 : 6;
    tw_val project = tw_eq(b, kind, tw_i32(b, TW_MEGA_PROJECT)), ffn = tw_eq(b, kind, tw_i32(b, TW_MEGA_FFN));
    tw_val qkv = tw_eq(b, kind, tw_i32(b, TW_MEGA_QKV)), head = tw_eq(b, kind, tw_i32(b, TW_MEGA_HEAD));
    tw_val product = tw_or(b, tw_or(b, project, ffn), tw_or(b, qkv, head));
    if (g->p->experts) product = tw_or(b, product, tw_le(b, tw_i32(b, TW_MEGA_EXPERTS_UP), kind));
    if (g->p->parts) product = tw_or(b, product, tw_eq(b, kind, tw_i32(b, TW_MEGA_PARTIAL)));
    TW_IF (b, product) {
        tw_mega_build_product(g, kind);
    } else {
        for (int i = 0; i < n_plain; i++)
            TW_IF (b, tw_eq(b, kind, tw_i32(b, plain[i].kind))) plain[i].build(g);
        if (g->p->post_norm)
            TW_IF (b, tw_eq(b, kind, tw_i32(b, TW_MEGA_RESIDUAL))) tw_mega_build_residual(g);
        if (g->p->parts)
            TW_IF (b, tw_eq(b, kind, tw_i32(b, TW_MEGA_SUM))) tw_mega_build_sum(g);
        if (g->p->apart && !g->p->turns)
            TW_IF (b, tw_eq(b, kind, tw_i32(b, TW_MEGA_TURN))) tw_mega_build_turn(g);
        tw_mega_mark(g, 3);
    }
}

static void build_workers(tw_mega_gen *g, tw_val records, tw_val count) {
    tw_builder *b = g->b;
    g->next = tw_ring_begin(b, &g->ring, 0);
    g->gave_up = tw_var_of(b, tw_i32(b, 0));
    /* `nothing` is 0, since addresses of allocations are multiples of 16. */
    tw_val low = tw_unary(b, TW_OP_low_i32_i64, g->arg[TW_MEGA_ARG_COUNTERS]);
    g->nothing = tw_and(b, low, tw_i32(b, 15));
    const tw_attrs record = tw_mega_fixed(TW_T_i32, 1, 0);
    tw_val word = tw_mega_at(b, records, g->lane, 4), next = tw_var_of(b, tw_ld(b, record, word));
    TW_FOR (b, i, tw_i32(b, 0), g->arg[TW_MEGA_ARG_STEPS], tw_i32(b, 1), false) {
        g->step = i;
        g->epoch = tw_add_imm(b, tw_add(b, g->arg[TW_MEGA_ARG_EPOCH], g->step), 1);
        if (g->p->sequences == 1) g->pos = tw_add(b, g->arg[TW_MEGA_ARG_POS], g->step);
        TW_FOR (b, r, tw_i32(b, 0), count, tw_i32(b, 1), false) {
            g->record = tw_var_of(b, next);
            /* The next record is loaded ahead. After the last one comes the first, for the next step. */
            tw_val after = tw_add_imm(b, r, 1), which = tw_select(b, tw_eq(b, after, count), tw_i32(b, 0), after);
            tw_val loaded = tw_ld(b, record, tw_mega_at(b, word, which, TW_MEGA_RECORD));
            tw_mega_mark(g, 0);
            g->index = r;
            tw_val kind = tw_and(b, tw_mega_word(g, TW_W_KIND), tw_i32(b, TW_MEGA_EARLY - 1));
            dispatch(g, kind);
            tw_mega_mark(g, 4);
            arrive(g, kind);
            tw_mega_mark(g, 5);
            /* The loaded record is first used here. A plain copy would be moved up to the load, and wait there. */
            tw_op_to(b, next, TW_OP_or_i32, loaded, g->nothing, TW_NONE);
        }
    }
}

static void declare(tw_mega_gen *g) {
    tw_builder *b = g->b;
    static const struct {
        const char *name;
        tw_type type; /* TW_T_none: a pointer. */
        int align;
        bool read_only;
    } parameters[TW_MEGA_ARGS] = {
        [TW_MEGA_ARG_WORKERS] = {"workers", TW_T_none, 32, true},
        [TW_MEGA_ARG_COUNTERS] = {"counters", TW_T_none, 128, false},
        [TW_MEGA_ARG_TOKENS] = {"tokens", TW_T_none, 4, true},
        [TW_MEGA_ARG_ANGLES] = {"angles", TW_T_none, 4, true},
        [TW_MEGA_ARG_OUT] = {"out", TW_T_none, 4, false},
        [TW_MEGA_ARG_ABORT] = {"abort", TW_T_none, 32, false},
        [TW_MEGA_ARG_RULES] = {"rules", TW_T_none, 32, true},
        [TW_MEGA_ARG_COUNTS] = {"counts", TW_T_none, 4, false},
        [TW_MEGA_ARG_POS] = {"pos", TW_T_i32, 0, false},
        [TW_MEGA_ARG_N] = {"n", TW_T_i32, 0, false},
        [TW_MEGA_ARG_STEPS] = {"steps", TW_T_i32, 0, false},
        [TW_MEGA_ARG_EPOCH] = {"epoch", TW_T_i32, 0, false},
        [TW_MEGA_ARG_TOKEN] = {"token", TW_T_i32, 0, false},
        [TW_MEGA_ARG_MODE] = {"mode", TW_T_i32, 0, false},
    };
    for (int i = 0; i < TW_MEGA_ARGS; i++)
        g->arg[i] = parameters[i].type == TW_T_none
                        ? tw_pointer_add(b, parameters[i].name, parameters[i].align, parameters[i].read_only)
                        : tw_parameter_add(b, parameters[i].name, parameters[i].type);
    tw_shared_add(b, "memory", g->p->shared_bytes, 1024, true);
    g->shared = tw_shared_base(b, "memory");
}

static void init_ring(tw_mega_gen *g, tw_val tid) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    g->ring = (tw_ring){.name = "weights",
                        .data = g->shared,
                        .barriers = g->shared,
                        .first = p->ring,
                        .full = p->full,
                        .empty = p->empty,
                        .stages = p->tuning.stages,
                        .bytes = p->stage_bytes};
    TW_IF (b, tw_eq(b, tid, tw_i32(b, 0))) {
        tw_ring_init(b, &g->ring, p->target->sm, tw_mega_feeders(p), tw_mega_threads(p));
        if (p->paces) tw_st(b, tw_mega_ready(p), g->shared, (tw_val[]){tw_i32(b, 0)});
        if (p->experts)
            tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, tw_add_imm(b, g->shared, p->routed), tw_i32(b, 32));
    }
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
}

tw_kernel *tw_mega_build(const tw_mega_plan *p) {
    tw_kernel *k = tw_kernel_new("step", p->target->sm, 32 + tw_mega_threads(p));
    if (!k) return NULL;
    k->cooperative = true;
    k->min_blocks = 1;
    tw_builder b = tw_builder_of(k);
    tw_mega_gen g = {.b = &b, .p = p};
    declare(&g);
    tw_val tid = tw_sreg(&b, TW_SREG_tid_x);
    g.lane = tw_rem(&b, tid, 32);
    init_ring(&g, tid);
    tw_val self = tw_mega_at(&b, g.arg[TW_MEGA_ARG_WORKERS], tw_sreg(&b, TW_SREG_ctaid_x), sizeof(tw_mega_worker));
    tw_val at[2] = {{0}}, count[2] = {{0}};
    tw_ld_vec(&b, tw_mega_fixed(TW_T_i64, 2, 0), self, at);
    tw_ld_vec(&b, tw_mega_fixed(TW_T_i32, 2, 16), self, count);
    tw_val before_head = tw_ld(&b, tw_mega_fixed(TW_T_i32, 1, 24), self);
    const tw_scope roles = tw_push_roles(&b, (const int[]){0, 1, 1, 1 + p->tuning.warps}, 2);
    tw_name_roles(&b, roles, "producer worker");
    tw_mega_build_producer(&g, at[0], count[0], before_head);
    tw_next_role(&b, roles);
    g.thread = tw_add_imm(&b, tid, -32);
    g.warp = tw_shr(&b, g.thread, 5);
    g.row = tw_shr(&b, g.lane, 2);
    g.column = tw_rem(&b, g.lane, 4);
    build_workers(&g, at[1], count[1]);
    tw_pop(&b, roles);
    return k;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The product with q, k and v, whose epilogue does what the kind "rope" does: it adds biases, norms heads, rotates
   pairs, and stores queries, and keys and values in the cache. The product's columns have the two elements of a
   pair next to one another.

   With operands as they are, a thread has both elements of a pair: a run of two columns, or of eight where lanes
   exchange sums. With swapped operands the other element is in the lane whose number differs in the bit of the next row
   of X. Columns that are whole heads apart share their angles.
   Heads with norms lie within a tile whose operands are as they are: the four lanes of a row have all of a head. */
#include "vm/prefill/qkv.h"

#include "kernels/gemm/epilogue.h"
#include "kernels/parts/convert.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDE = 8,   /* Columns of a run where lanes exchange sums. */
    PAIR = 2,   /* Columns of a run where they do not. */
    LINES = 2,  /* Lines whose angles are loaded together. */
    CELLS = 16, /* Swapped: cells whose angles are loaded together. */
    LANES = 4,  /* Lanes that have a row with operands as they are. */
    OTHER = 4   /* Swapped: the bit of a lane's number in which the lane with the other element differs. */
};

/* What the frame's functions need. */
typedef struct state {
    const tw_prefill_shape *s;
    tw_val step, angles, q, k, v; /* Addresses of buffers. */
    tw_val q_norm, k_norm;        /* Only if heads have norms. */
    tw_val count, pos, head;      /* Words of the step, loaded before anything is stored. */
} state;

static state *state_of(tw_gemm_gen *g) {
    return g->frame->context;
}

static bool norms(const tw_prefill_shape *s) {
    return s->m->layers[0].q_norm.rows > 0;
}

static void declare(tw_gemm_gen *g) {
    state *o = state_of(g);
    o->step = tw_pointer_add(g->b, "step", 4, false);
    o->angles = tw_pointer_add(g->b, "angles", 16, true);
    o->q = tw_pointer_add(g->b, "queries", 16, false);
    o->k = tw_pointer_add(g->b, "keys", 16, false);
    o->v = tw_pointer_add(g->b, "values", 16, false);
    if (!norms(o->s)) return;
    o->q_norm = tw_pointer_add(g->b, "q_norm", 16, true);
    o->k_norm = tw_pointer_add(g->b, "k_norm", 16, true);
}

/* Neighbouring columns of the product, of one head, all of which are rotated, or none. Registers are scarce, so that
   addresses of other lines and of the head's second half are offsets that predicates choose. */
typedef struct columns {
    tw_val is_q, turned; /* Predicates: they are of queries, and rope rotates them. */
    /* Address of what becomes of them in the thread's first line: of the first half of the elements, as the head has
       them. */
    tw_val to;
    int n;             /* Number of columns. */
    tw_val angles;     /* Address of the first pair's cosine in the first line. */
    tw_val has_angles; /* Predicate: rope has angles of them. TW_NONE: it has angles of all of a head. */
    tw_val bias;       /* Address of the first one's bias. */
    tw_val is_v;       /* Predicate: they are of values. */
    tw_val weights;    /* Address of the first element's weight in the norm. Only if heads have norms. */
    tw_val inside;     /* Predicate: the product has them. TW_NONE: it has all. */
} columns;

static int64_t dims_of(const state *o) {
    return o->s->m->rope.dims;
}

/* Finds what belongs to `n` columns from number `column` on. `line` is the thread's first line. With swapped operands n
   is 1, and `to` is the place of the one element. */
static columns columns_of(tw_gemm_gen *g, tw_val line, tw_val column, int n) {
    tw_builder *b = g->b;
    const state *o = state_of(g);
    const tw_model *m = o->s->m;
    const int size = (int)m->head_dim, es = tw_prefill_bytes(o->s->type), dims = (int)dims_of(o);
    const int queries = (int)m->n_heads, keys = (int)m->n_kv_heads, row = size * es;
    tw_val head = tw_div(b, column, size), inner = tw_rem(b, column, size), pair = tw_shr(b, inner, 1);
    tw_val is_q = tw_lt(b, head, tw_i32(b, queries)), is_v = tw_le(b, tw_i32(b, queries + keys), head);
    tw_val position = tw_add(b, o->pos, line),
           before = tw_select(b, is_v, tw_i32(b, queries + keys), tw_i32(b, queries));
    tw_val kept = tw_add(b, tw_sub(b, head, before), o->head);
    tw_val to =
        tw_add(b, tw_mul_imm(b, tw_widen(b, kept), o->s->max_seq * row), tw_mul_imm(b, tw_widen(b, position), row));
    to = tw_add(b, tw_select(b, is_v, o->v, o->k), to);
    tw_val query =
        tw_add(b, tw_mul_imm(b, tw_widen(b, line), (int64_t)queries * row), tw_mul_imm(b, tw_widen(b, head), row));
    to = tw_select(b, is_q, tw_add(b, o->q, query), to);
    columns c = {.is_q = is_q, .turned = tw_and(b, tw_not(b, is_v), tw_lt(b, inner, tw_i32(b, dims))), .n = n};
    tw_val place = tw_select(b, c.turned, pair, inner);
    if (n == 1) {
        tw_val odd = tw_ne(b, tw_and(b, column, tw_i32(b, 1)), tw_i32(b, 0));
        place = tw_add(b, place, tw_select(b, tw_and(b, c.turned, odd), tw_i32(b, dims / 2), tw_i32(b, 0)));
    }
    c.to = tw_add(b, to, tw_mul_imm(b, tw_widen(b, place), es));
    c.is_v = is_v;
    if (norms(o->s))
        c.weights = tw_add(b, tw_select(b, is_q, o->q_norm, o->k_norm), tw_mul_imm(b, tw_widen(b, place), 4));
    tw_val of_position = tw_mul_imm(b, tw_widen(b, position), 4 * (int64_t)tw_mega_angles_of(o->s->m));
    c.angles = tw_add(b, o->angles, tw_add(b, of_position, tw_mul_imm(b, tw_widen(b, pair), 4)));
    if (dims < size) c.has_angles = tw_lt(b, inner, tw_i32(b, dims));
    c.bias = tw_add(b, g->arg.bias, tw_mul_imm(b, tw_widen(b, column), 4));
    const tw_gemm_operand *along = g->c->swap ? &g->x : &g->y;
    if (!along->whole) c.inside = tw_lt(b, column, along->limit);
    return c;
}

/* Computes the address of the first half of the columns in a line, or of the second. */
static tw_val address_of(tw_gemm_gen *g, const columns *c, int line, bool second) {
    tw_builder *b = g->b;
    const tw_prefill_shape *s = state_of(g)->s;
    const int es = tw_prefill_bytes(s->type);
    const int64_t row = s->m->head_dim * es, query = line * s->m->n_heads * row, kept = line * row;
    tw_val to = c->to;
    if (line) to = tw_add(b, to, tw_select(b, c->is_q, tw_i64(b, query), tw_i64(b, kept)));
    if (!second) return to;
    return tw_add(b, to, tw_select(b, c->turned, tw_i64(b, s->m->rope.dims / 2 * es), tw_i64(b, c->n / 2 * es)));
}

/* Returns the predicate that the step has the line that is so far from the thread's first. */
static tw_val has_line(tw_gemm_gen *g, tw_val line, int offset) {
    tw_builder *b = g->b;
    const tw_gemm_operand *across = g->c->swap ? &g->y : &g->x;
    tw_val at = tw_add_imm(b, line, offset), has = tw_lt(b, at, state_of(g)->count);
    return across->whole ? has : tw_and(b, has, tw_lt(b, at, across->limit));
}

/* Loads the cosines and sines of n pairs, of the line that is so far from the thread's first. No launch writes them. */
static void load_angles(tw_gemm_gen *g, const columns *c, int line, int n, tw_val has, tw_val *cosines, tw_val *sines) {
    const int dims = (int)dims_of(state_of(g));
    tw_attrs at = {.type = TW_T_f32,
                   .vec = n,
                   .offset = line * 4 * (int)tw_mega_angles_of(state_of(g)->s->m),
                   .cache = TW_CACHE_nc};
    if (!dims) return;
    if (c->has_angles.id) has = tw_and(g->b, has, c->has_angles);
    tw_when(g->b, has);
    tw_ld_vec(g->b, at, c->angles, cosines);
    at.offset += 4 * (dims / 2);
    tw_when(g->b, has);
    tw_ld_vec(g->b, at, c->angles, sines);
}

static void load_bias(tw_gemm_gen *g, const columns *c, int n, tw_val *x) {
    tw_builder *b = g->b;
    tw_val bias[WIDE] = {{0}};
    if (!g->v->epilogue.bias) return;
    for (int i = 0, vec = n < 4 ? n : 4; i < n; i += vec) {
        if (c->inside.id) tw_when(b, c->inside);
        tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .vec = vec, .offset = 4 * i}, c->bias, bias + i);
    }
    for (int i = 0; i < n; i++) x[i] = tw_add(b, x[i], bias[i]);
}

/* Stores n elements where `when` holds. */
static void store(tw_gemm_gen *g, tw_val to, int n, const tw_val *x, tw_val when) {
    tw_builder *b = g->b;
    const tw_type t = state_of(g)->s->type, pair = t == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    tw_val raw[WIDE / 2];
    if (n == 1) raw[0] = tw_unary(b, t == TW_T_f16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32, x[0]);
    for (int i = 0; i < n / 2; i++) raw[i] = tw_part_pair(b, pair, x[2 * i], x[2 * i + 1]);
    tw_when(b, when);
    tw_st(b, (tw_attrs){.type = n == 1 ? t : pair, .vec = n == 1 ? 1 : n / 2}, to, raw);
}

/* Rotates a pair. */
static void turn(tw_builder *b, tw_val first, tw_val second, tw_val c, tw_val s, tw_val out[2]) {
    out[0] = tw_fma(b, second, tw_unary(b, TW_OP_neg_f32, s), tw_mul(b, first, c));
    out[1] = tw_fma(b, second, c, tw_mul(b, first, s));
}

/* ---- operands as they are */

/* The thread's runs: their first columns, and the sums of each in each line. */
typedef struct runs {
    int n, lines, width;                   /* Number of runs, of lines, and of columns of a run. */
    int column[TW_GEMM_MAX_ACC / 4];       /* Columns from the thread's first to each run. */
    int line[4];                           /* Rows from the thread's first to each line. */
    int sum[4][TW_GEMM_MAX_ACC / 4][WIDE]; /* -1: the block has no such sum. */
} runs;

static int find(const int *of, int n, int x) {
    int i = 0;
    while (i < n && of[i] != x) i++;
    return i;
}

static void find_runs(const tw_gemm_gen *g, int from, int below, runs *r) {
    r->n = r->lines = 0;
    r->width = g->c->staged == TW_GEMM_EXCHANGED ? WIDE : PAIR;
    memset(r->sum, -1, sizeof r->sum);
    for (int i = from; i < below; i++) {
        const int first = g->y.of[i] / r->width * r->width;
        const int line = find(r->line, r->lines, g->x.of[i]), run = find(r->column, r->n, first);
        r->line[line] = g->x.of[i];
        r->column[run] = first;
        r->lines += line == r->lines;
        r->n += run == r->n;
        r->sum[line][run][g->y.of[i] - first] = i;
    }
}

/* Takes the elements of a run, with their biases. */
static void take(tw_gemm_gen *g, const columns *c, const int *sum, tw_val *x) {
    for (int i = 0; i < c->n; i++) x[i] = g->acc[0][sum[i]];
    load_bias(g, c, c->n, x);
}

/* Multiplies a run by its head's factor and weights. These are not loaded as constants: ptxas would load those of many
   runs before they are used, and spill. Where pairs are rotated, the second element of each has a weight
   of the second half of those that are. */
static void norm(tw_gemm_gen *g, const columns *c, tw_val factor, tw_val *x) {
    tw_builder *b = g->b;
    const int half = c->n / 2;
    const tw_attrs at = {.type = TW_T_f32, .vec = half};
    const int64_t dims = dims_of(state_of(g));
    tw_val low[WIDE / 2] = {{0}}, high[WIDE / 2] = {{0}};
    tw_val second = tw_select(b, c->turned, tw_i64(b, dims / 2 * 4), tw_i64(b, (int64_t)half * 4));
    tw_ld_vec(b, at, c->weights, low);
    tw_ld_vec(b, at, tw_add(b, c->weights, second), high);
    for (int i = 0; i < c->n; i++) {
        tw_val turned = i % 2 ? high[i / 2] : low[i / 2], plain = i < half ? low[i] : high[i - half];
        tw_val y = tw_mul(b, x[i], tw_mul(b, factor, tw_select(b, c->turned, turned, plain)));
        x[i] = tw_select(b, c->is_v, x[i], y);
    }
}

/* Stores a run of a line. `factor` is its head's. TW_NONE: heads have no norms. */
static void store_run(tw_gemm_gen *g, const columns *c, const int *sum, int line, tw_val factor, const tw_val *cosines,
                      const tw_val *sines, tw_val has) {
    tw_builder *b = g->b;
    const bool turns = dims_of(state_of(g)) > 0;
    const int width = c->n;
    tw_val x[WIDE], y[WIDE];
    take(g, c, sum, x);
    if (factor.id) norm(g, c, factor, x);
    for (int i = 0; i < width / 2; i++) {
        tw_val pair[2] = {x[2 * i], x[2 * i + 1]};
        if (turns) turn(b, x[2 * i], x[2 * i + 1], cosines[i], sines[i], pair);
        for (int half = 0; half < 2; half++) {
            tw_val plain = x[half * width / 2 + i];
            y[half * width / 2 + i] = turns ? tw_select(b, c->turned, pair[half], plain) : plain;
        }
    }
    if (c->inside.id) has = tw_and(b, has, c->inside);
    for (int half = 0; half < 2; half++) store(g, address_of(g, c, line, half), width / 2, y + half * width / 2, has);
}

/* Computes the factor of a head's norm in a line. `of` has the numbers of the head's runs. */
static tw_val factor_of(tw_gemm_gen *g, const columns *all, const runs *r, const int *of, int n, int line) {
    tw_builder *b = g->b;
    const tw_model *m = state_of(g)->s->m;
    tw_val sum = tw_f32(b, 0), x[WIDE];
    for (int i = 0; i < n; i++) {
        take(g, &all[i], r->sum[line][of[i]], x);
        for (int j = 0; j < all[i].n; j++) sum = tw_fma(b, x[j], x[j], sum);
    }
    for (int by = 1; by < LANES; by *= 2)
        sum = tw_add(b, sum, tw_shfl(b, TW_MODE_bfly, sum, tw_i32(b, by), tw_i32(b, -1)));
    sum = tw_mul(b, sum, tw_f32(b, 1.0f / (float)m->head_dim));
    return tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, sum, tw_f32(b, m->norm_eps)));
}

/* Stores the runs of a head that has a norm. */
static void store_head(tw_gemm_gen *g, const runs *r, const int *of, int n) {
    tw_builder *b = g->b;
    columns all[TW_GEMM_MAX_ACC / 4];
    tw_val line = tw_add(b, g->x.origin, g->x.first), column = tw_add(b, g->y.origin, g->y.first);
    for (int i = 0; i < n; i++) all[i] = columns_of(g, line, tw_add_imm(b, column, r->column[of[i]]), r->width);
    for (int l = 0; l < r->lines; l++) {
        tw_val has = has_line(g, line, r->line[l]), factor = factor_of(g, all, r, of, n, l);
        for (int i = 0; i < n; i++) {
            tw_val cosines[WIDE / 2] = {{0}}, sines[WIDE / 2] = {{0}};
            load_angles(g, &all[i], r->line[l], r->width / 2, has, cosines, sines);
            store_run(g, &all[i], r->sum[l][of[i]], r->line[l], factor, cosines, sines, has);
        }
    }
}

/* Stores runs that are whole heads apart. `of` has their numbers. */
static void store_together(tw_gemm_gen *g, const runs *r, const int *of, int n) {
    tw_builder *b = g->b;
    columns all[TW_GEMM_MAX_ACC / 4];
    tw_val line = tw_add(b, g->x.origin, g->x.first), column = tw_add(b, g->y.origin, g->y.first);
    for (int i = 0; i < n; i++) all[i] = columns_of(g, line, tw_add_imm(b, column, r->column[of[i]]), r->width);
    for (int l = 0; l < r->lines; l += LINES) {
        tw_val cosines[LINES][WIDE / 2] = {{{0}}}, sines[LINES][WIDE / 2] = {{{0}}}, has[LINES];
        for (int i = l; i < l + LINES && i < r->lines; i++) {
            has[i - l] = has_line(g, line, r->line[i]);
            load_angles(g, &all[0], r->line[i], r->width / 2, has[i - l], cosines[i - l], sines[i - l]);
        }
        for (int i = l; i < l + LINES && i < r->lines; i++)
            for (int j = 0; j < n; j++)
                if (r->sum[i][of[j]][0] >= 0)
                    store_run(g, &all[j], r->sum[i][of[j]], r->line[i], TW_NONE, cosines[i - l], sines[i - l],
                              has[i - l]);
    }
}

static void store_rows(tw_gemm_gen *g, int from, int below) {
    const int size = (int)state_of(g)->s->m->head_dim;
    const bool heads = norms(state_of(g)->s);
    bool done[TW_GEMM_MAX_ACC / 4] = {false};
    runs r;
    find_runs(g, from, below, &r);
    for (int i = 0; i < r.n; i++) {
        int of[TW_GEMM_MAX_ACC / 4], n = 0;
        for (int j = i; j < r.n && !done[i]; j++)
            if (!done[j] &&
                (heads ? r.column[j] / size == r.column[i] / size : (r.column[j] - r.column[i]) % size == 0))
                of[n++] = j;
        for (int j = 0; j < n; j++) done[of[j]] = true;
        if (n) (heads ? store_head : store_together)(g, &r, of, n);
    }
}

/* ---- swapped operands */

/* A cell, and what it is rotated by. */
typedef struct cell {
    int sum, line;
    tw_val cosine, sine, has;
} cell;

/* Stores cells of a column. */
static void store_cells(tw_gemm_gen *g, const columns *c, const cell *cells, int n) {
    tw_builder *b = g->b;
    const bool turns = dims_of(state_of(g)) > 0;
    tw_val odd = tw_ne(b, tw_and(b, g->lane, tw_i32(b, OTHER)), tw_i32(b, 0));
    for (int i = 0; i < n; i++) {
        tw_val x = g->acc[0][cells[i].sum], y = TW_NONE, to = address_of(g, c, cells[i].line, false);
        load_bias(g, c, 1, &x);
        if (turns) {
            /* The pair's first element becomes first * cosine - second * sine, its second one second * cosine + first *
               sine. */
            tw_val other = tw_shfl(b, TW_MODE_bfly, x, tw_i32(b, OTHER), tw_i32(b, -1));
            tw_val first = tw_select(b, odd, other, x), second = tw_select(b, odd, x, other);
            tw_val of_first = tw_select(b, odd, cells[i].sine, cells[i].cosine);
            tw_val of_second = tw_select(b, odd, cells[i].cosine, tw_unary(b, TW_OP_neg_f32, cells[i].sine));
            y = tw_fma(b, second, of_second, tw_mul(b, first, of_first));
            x = tw_select(b, c->turned, y, x);
        }
        store(g, to, 1, &x, c->inside.id ? tw_and(b, cells[i].has, c->inside) : cells[i].has);
    }
}

static void store_swapped(tw_gemm_gen *g, int from, int below) {
    tw_builder *b = g->b;
    tw_val line = tw_add(b, g->y.origin, g->y.first), column = tw_add(b, g->x.origin, g->x.first);
    bool done[TW_GEMM_MAX_ACC] = {false};
    for (int i = from; i < below; i++) {
        if (done[i]) continue;
        const columns c = columns_of(g, line, tw_add_imm(b, column, g->x.of[i]), 1);
        cell cells[CELLS];
        int n = 0;
        for (int j = i; j < below; j++) {
            if (g->x.of[j] != g->x.of[i]) continue;
            cell *x = &cells[n++];
            *x = (cell){.sum = j, .line = g->y.of[j], .has = has_line(g, line, g->y.of[j])};
            load_angles(g, &c, x->line, 1, x->has, &x->cosine, &x->sine);
            done[j] = true;
            if (n < CELLS) continue;
            store_cells(g, &c, cells, n);
            n = 0;
        }
        store_cells(g, &c, cells, n);
    }
}

static tw_val step_word(tw_gemm_gen *g, int word) {
    return tw_ld(g->b, (tw_attrs){.type = TW_T_i32, .offset = 4 * word}, state_of(g)->step);
}

static void store_all(tw_gemm_gen *g, int from, int below) {
    state *o = state_of(g);
    tw_record_begin(g->b, "store", TW_ENGINE_OF_memory);
    o->count = step_word(g, TW_STEP_COUNT);
    o->pos = step_word(g, TW_STEP_POS);
    o->head = step_word(g, TW_STEP_HEAD);
    (g->c->swap ? store_swapped : store_rows)(g, from, below);
    tw_record_end(g->b, "store");
}

bool tw_prefill_qkv_covers(const tw_prefill_shape *s) {
    enum { ALL = 32 /* Columns of which four lanes have some each. */ };
    const tw_model *m = s->m;
    const bool halves = s->type == TW_T_f16 || s->type == TW_T_bf16;
    if (norms(s) && m->head_dim % ALL) return false;
    return halves && s->type == tw_prefill_element(s->kv) && m->head_dim % WIDE == 0 && m->rope.dims % WIDE == 0;
}

bool tw_prefill_qkv_fits(const tw_prefill_shape *s, const tw_gemm_config *c) {
    return c->staged != TW_GEMM_STAGED && (!norms(s) || (!c->swap && c->kg == 1 && c->nl % s->m->head_dim == 0));
}

tw_status tw_prefill_qkv_make(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag) {
    static const char *const names[] = {"step", "angles", "queries", "keys", "values", "q_norm", "k_norm"};
    const tw_prefill_qkv *p = problem;
    state o = {.s = &p->shape};
    tw_gemm_frame frame = tw_gemm_plain_frame;
    char words[TW_PLAN_TEXT], configuration[TW_PLAN_TEXT];
    frame.store = store_all;
    frame.declare = declare;
    frame.eights = true;
    frame.context = &o;
    snprintf(words, sizeof words, "%s", p->words);
    snprintf(configuration, sizeof configuration, "%s", p->configuration);
    const tw_status st = tw_gemm_plan_frame(out, &frame, words, configuration, target, diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < (norms(&p->shape) ? 7 : 5); i++) {
        tw_argument_buffer(&out->launch.arguments, names[i], 0);
        out->buffers[out->n_buffers++] = (tw_gpu_buffer){.name = names[i], .align = 16, .written = i > 1 && i < 5};
    }
    const size_t length = strlen(out->problem);
    snprintf(out->problem + length, sizeof out->problem - length, " rope=1");
    return TW_OK;
}

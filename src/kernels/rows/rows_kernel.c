/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "kernels/rows/rows_kernel.h"

#include "base/diag.h"
#include "base/divide.h"
#include "ir/passes/passes.h"
#include "kernels/pointwise/launch.h"
#include "kernels/pointwise/shape.h"
#include "kernels/pointwise/words.h"
#include "kernels/rows/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- shapes and configurations */

enum {
    SMS = 132,
    SM_WARPS = 16,   /* Warps of an SM with which it hides most of its latency. */
    BLOCK_WARPS = 8, /* Most warps of a block of several rows. */
};

/* Results with the row's elements, all of which are accessed in runs. */
static int vectors_of(tw_rows_problem *p, tw_point_operand **out) {
    int n = 0;
    if (!tw_rows_reduces(p->of)) out[n++] = &p->out;
    if (p->has_kept) out[n++] = &p->kept;
    if (p->has_gain) out[n++] = &p->gain;
    if (p->has_bias) out[n++] = &p->bias;
    return n;
}

/* Time of a row that is kept, as a number of turns: rounds of warps on the machine, each with its turns and what the
   reductions take. 0: the row does not fit. */
static int cost_of(const tw_rows_shape *s, int warps) {
    const int64_t turns = tw_ceil_div(s->pieces, (int64_t)32 * warps);
    const int64_t rounds = tw_ceil_div(s->rows * warps, SMS * SM_WARPS);
    return turns * s->run > TW_ROWS_LANE ? 0 : (int)((rounds > 1000 ? 1000 : rounds) * (turns + (warps > 1 ? 4 : 2)));
}

static tw_rows_config default_of(const tw_rows_shape *s) {
    tw_rows_config c = {TW_ROWS_LONG_WARPS, 1};
    int best = 0;
    for (int w = TW_ROWS_WARPS; w >= 1; w /= 2) {
        const int cost = cost_of(s, w);
        if (!cost || (best && cost > best)) continue;
        best = cost;
        c.warps = w;
    }
    while (c.warps * c.rows * 2 <= BLOCK_WARPS && s->rows > (int64_t)SMS * c.rows) c.rows *= 2;
    return c;
}

static tw_status legal(const tw_rows_shape *s, tw_diag *diag) {
    const tw_rows_config *c = &s->c;
    if (c->warps < 1 || c->warps > TW_ROWS_LONG_WARPS || (c->warps & (c->warps - 1)))
        return tw_fail(diag, TW_ERR_USAGE, "warps=%d: a row has 1, 2, 4, 8, 16 or 32 warps", c->warps);
    if (c->rows < 1 || c->rows * c->warps > 32)
        return tw_fail(diag, TW_ERR_USAGE, "rows=%d: a block has 1 to 32 warps", c->rows);
    return TW_OK;
}

/* What does not depend on the configuration. */
static tw_status begin(const tw_rows_problem *p, tw_rows_shape *s, tw_diag *diag) {
    tw_status st = tw_rows_check(p, diag);
    if (st != TW_OK) return st;
    tw_point_operand *vectors[TW_POINT_BUFFERS];
    s->p = *p;
    if (tw_rows_reduces(p->of)) s->p.out.strides[p->x.rank - 1] = 0;
    int n = vectors_of(&s->p, vectors);
    s->run = 1;
    s->columns = tw_points_columns(&s->p.x);
    s->rows = tw_points_rows(&s->p.x);
    if (s->columns < 1 || s->rows < 1)
        return tw_fail(diag, TW_ERR_USAGE, "there are no rows, or they have no elements");
    if (s->columns > INT32_MAX / 2 || s->rows > INT32_MAX / 2)
        return tw_fail(diag, TW_ERR_USAGE, "more than is numbered in 32 bits");
    if (tw_rows_reduces(p->of)) vectors[n++] = &s->p.out;
    tw_points_join(&s->p.x, vectors, n, false);
    n = vectors_of(&s->p, vectors);
    s->run = tw_points_run(&s->p.x, (const tw_point_operand *const *)vectors, n);
    s->pieces = (int)(s->columns / s->run);
    return TW_OK;
}

tw_status tw_rows_shape_of(const tw_rows_problem *p, const tw_rows_config *c, tw_rows_shape *s, tw_diag *diag) {
    tw_status st = begin(p, s, diag);
    if (st != TW_OK) return st;
    s->c = c ? *c : default_of(s);
    st = legal(s, diag);
    if (st != TW_OK) return st;
    s->lanes = 32 * s->c.warps;
    s->turns = (int)tw_ceil_div(s->pieces, s->lanes);
    s->is_long = s->turns * s->run > TW_ROWS_LANE || s->c.warps * s->c.rows > TW_ROWS_WARPS;
    return TW_OK;
}

tw_rows_config tw_rows_config_default(const tw_rows_problem *p) {
    tw_rows_shape s;
    tw_diag unseen;
    return tw_rows_shape_of(p, NULL, &s, &unseen) == TW_OK ? s.c : (tw_rows_config){1, 1};
}

/* -- the kernel */

static tw_point_view view(tw_rows_gen *g, const char *name, const tw_point_operand *o, int run, bool read_only) {
    tw_val base = tw_pointer_add(g->b, name, tw_point_align(&g->s->p.x, o, run), read_only);
    return (tw_point_view){.o = o, .run = run, .address = base};
}

/* Makes the thread's view of what `v` declares. */
static void place(tw_rows_gen *g, tw_point_view *v) {
    if (v->o) *v = tw_point_view_of(g->b, &g->s->p.x, v->o, v->run, v->address, &g->at, NULL);
}

static void build(tw_builder *b, const tw_rows_shape *s) {
    const tw_rows_problem *p = &s->p;
    tw_rows_gen g = {.s = s, .b = b};
    tw_point_inputs_declare(b, &p->x, s->run, &g.in);
    if (p->has_gain) g.gain = view(&g, "gain", &p->gain, s->run, p->gain.constant);
    if (p->has_bias) g.bias = view(&g, "bias", &p->bias, s->run, p->bias.constant);
    g.out = view(&g, "out", &p->out, tw_rows_reduces(p->of) ? 1 : s->run, false);
    if (p->has_kept) g.kept = view(&g, "kept", &p->kept, s->run, false);
    if (s->c.warps > 1) {
        tw_shared_add(b, "partial", (int64_t)TW_ROWS_MOST_REDUCTIONS * s->c.rows * s->c.warps * tw_rows_each(s), 16,
                      false);
        g.shared = tw_shared_base(b, "partial");
    }
    tw_val thread = tw_sreg(b, TW_SREG_tid_x), row = tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), s->c.rows);
    g.slot = tw_div(b, thread, s->lanes);
    g.lane = tw_rem(b, thread, s->lanes);
    row = tw_add(b, row, g.slot);
    /* Threads without a row compute the last one once more: they take part in barriers, and store nothing. */
    if (s->rows % s->c.rows) {
        g.there = tw_lt(b, row, tw_i32(b, (int32_t)s->rows));
        row = tw_min(b, row, tw_i32(b, (int32_t)s->rows - 1));
    }
    tw_point_at_row(b, &p->x, row, &g.at);
    g.at.column = tw_mul_imm(b, g.lane, s->run);
    /* A run that the row does not have is not loaded either where it would be gathered for. */
    if (s->pieces < s->lanes) g.at.there = tw_lt(b, g.lane, tw_i32(b, s->pieces));
    place(&g, &g.gain);
    place(&g, &g.bias);
    place(&g, &g.kept);
    tw_val column = g.at.column;
    if (tw_rows_reduces(p->of)) g.at.column = tw_i32(b, 0);
    place(&g, &g.out);
    g.at.column = column;
    tw_rows_body(&g);
}

static tw_kernel *make(const tw_rows_shape *s, const tw_target *t, bool verify, tw_diag *diag) {
    if (s->p.early && t->sm < 90) {
        tw_fail(diag, TW_ERR_USAGE, "the target has no early launches");
        return NULL;
    }
    tw_kernel *k = tw_kernel_new("rows", t->sm, s->lanes * s->c.rows);
    if (!k) {
        tw_fail_memory(diag);
        return NULL;
    }
    tw_builder b = tw_builder_of(k);
    build(&b, s);
    const tw_status st = tw_kernel_failed(k) ? tw_fail_memory(diag) : tw_pipeline_default(k, verify, diag);
    if (st == TW_OK) return k;
    tw_kernel_free(k);
    return NULL;
}

tw_kernel *tw_rows_make(const tw_rows_problem *p, const tw_rows_config *c, const tw_target *t, bool verify,
                        tw_diag *diag) {
    tw_rows_shape s;
    return tw_rows_shape_of(p, c, &s, diag) == TW_OK ? make(&s, t, verify, diag) : NULL;
}

/* -- launches */

void tw_rows_buffers(const tw_rows_problem *p, tw_point_buffers *all) {
    *all = (tw_point_buffers){0};
    tw_point_buffers_inputs(all, &p->x);
    if (p->has_gain) tw_point_buffers_add(all, "gain", &p->gain, false, false);
    if (p->has_bias) tw_point_buffers_add(all, "bias", &p->bias, false, false);
    tw_point_buffers_add(all, "out", &p->out, true, tw_rows_reduces(p->of));
    if (p->has_kept) tw_point_buffers_add(all, "kept", &p->kept, true, false);
}

static tw_status plan(const tw_rows_problem *p, const tw_rows_config *c, tw_plan *out, const tw_target *target,
                      bool verify, tw_diag *diag) {
    tw_rows_shape s;
    tw_point_buffers buffers, joined;
    int align[TW_POINT_BUFFERS];
    const tw_status st = tw_rows_shape_of(p, c, &s, diag);
    if (st != TW_OK) return st;
    out->kernel = make(&s, target, verify, diag);
    if (!out->kernel) return diag->status;
    tw_rows_buffers(p, &buffers);
    tw_rows_buffers(&s.p, &joined);
    for (int i = 0; i < joined.n; i++) align[i] = tw_point_align(&s.p.x, joined.of[i].o, joined.of[i].row ? 1 : s.run);
    out->launch.grid[0] = (int)tw_ceil_div(s.rows, s.c.rows);
    out->launch.grid[1] = out->launch.grid[2] = 1;
    out->launch.early = p->early;
    snprintf(out->configuration, sizeof out->configuration, "warps=%d rows=%d", s.c.warps, s.c.rows);
    tw_point_buffers_plan(&buffers, &p->x, align, out);
    return TW_OK;
}

tw_status tw_rows_plan(const void *problem, tw_plan *out, const tw_target *target, tw_diag *diag) {
    return plan(problem, NULL, out, target, false, diag);
}

static void run(const void *problem, const tw_point_data *data, int64_t from, int64_t to) {
    tw_rows_run(problem, data, from, to);
}

tw_status tw_rows_emulate(const tw_rows_problem *p, const tw_rows_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag) {
    static const double error = 0x1p-16;
    tw_plan made = {0};
    tw_point_buffers buffers;
    tw_status st = plan(p, c, &made, t, true, diag);
    tw_rows_buffers(p, &buffers);
    const tw_point_emulated e = {&p->x, &made, &buffers, run, p, error};
    if (st == TW_OK) st = tw_point_emulate(&e, seed, report, diag);
    tw_kernel_free(made.kernel);
    return st;
}

/* -- words */

enum { OPERANDS = 4 };

static void operands_of(tw_rows_problem *p, bool *out, tw_point_word *w) {
    w[0] = (tw_point_word){"gain", &p->gain, &p->has_gain, true, false};
    w[1] = (tw_point_word){"bias", &p->bias, &p->has_bias, true, false};
    w[2] = (tw_point_word){"out", &p->out, out, false, tw_rows_reduces(p->of)};
    w[3] = (tw_point_word){"kept", &p->kept, &p->has_kept, false, false};
}

/* Words of rows alone: eps. What is computed is read before, since operands depend on it. */
static bool other(void *context, const char *name, const char *value, tw_status *st, tw_diag *diag) {
    tw_rows_problem *p = context;
    if (!strcmp(name, "of")) return true;
    if (strcmp(name, "eps") != 0) return false;
    char *end = NULL;
    p->eps = strtof(value, &end);
    if (end == value || *end || !(p->eps >= 0))
        *st = tw_fail(diag, TW_ERR_USAGE, "\"eps=%s\": a number, at least 0, is wanted", value);
    return true;
}

static tw_status read_of(tw_rows_problem *p, const char *words, tw_diag *diag) {
    const char *at = words;
    while (*at && strncmp(at, "of=", 3) != 0) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    if (!*at)
        return tw_fail(diag, TW_ERR_USAGE,
                       "of is missing: layer_norm, rms_norm, softmax, log_softmax, sum, mean, max, min or prod");
    const size_t n = strcspn(at + 3, " ");
    for (int i = 0; i < TW_ROWS_OPS; i++) {
        p->of = (tw_rows_of)i;
        if (strlen(tw_rows_name(p->of)) == n && !strncmp(tw_rows_name(p->of), at + 3, n)) return TW_OK;
    }
    return tw_fail(diag, TW_ERR_USAGE,
                   "\"of=%.*s\": layer_norm, rms_norm, softmax, log_softmax, sum, mean, max, min or prod is wanted",
                   (int)n, at + 3);
}

tw_status tw_rows_parse(tw_rows_problem *p, char *words, tw_diag *diag) {
    bool out = false;
    tw_point_word operands[OPERANDS];
    *p = (tw_rows_problem){.eps = 1e-5f};
    tw_status st = read_of(p, words + strspn(words, " "), diag);
    if (st != TW_OK) return st;
    operands_of(p, &out, operands);
    st = tw_point_words_parse(&(tw_point_words){&p->x, operands, OPERANDS, &p->early, other, p}, words, diag);
    if (st != TW_OK) return st;
    return out ? tw_rows_check(p, diag) : tw_fail(diag, TW_ERR_USAGE, "out is missing");
}

void tw_rows_print(const tw_rows_problem *p, char *out, size_t size) {
    bool always = true;
    tw_rows_problem copy = *p;
    tw_point_word operands[OPERANDS];
    operands_of(&copy, &always, operands);
    int n = snprintf(out, size, "of=%s ", tw_rows_name(p->of));
    if (p->of <= TW_ROWS_rms_norm && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, "eps=%.9g ", (double)p->eps);
    if ((size_t)n >= size) return;
    tw_point_words_print(&(tw_point_words){&copy.x, operands, OPERANDS, &copy.early, NULL, NULL}, out + n,
                         size - (size_t)n);
}

tw_status tw_rows_config_parse(tw_rows_config *c, char *words, tw_diag *diag) {
    char *save = NULL;
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        int n = 0;
        if (sscanf(w, "warps=%d%n", &c->warps, &n) == 1 && !w[n]) continue;
        if (sscanf(w, "rows=%d%n", &c->rows, &n) == 1 && !w[n]) continue;
        return tw_fail(diag, TW_ERR_USAGE, "\"%s\": rows have a configuration of warps and rows", w);
    }
    return TW_OK;
}

tw_status tw_rows_plan_words(tw_plan *out, char *words, char *configuration, const tw_target *target, tw_diag *diag) {
    tw_rows_problem p;
    tw_point_buffers buffers;
    tw_status st = tw_rows_parse(&p, words, diag);
    if (st != TW_OK) return st;
    tw_rows_config c = tw_rows_config_default(&p);
    st = tw_rows_config_parse(&c, configuration, diag);
    if (st != TW_OK) return st;
    tw_rows_buffers(&p, &buffers);
    st = tw_point_buffers_forward(&buffers, &p.x, diag);
    if (st == TW_OK) st = plan(&p, &c, out, target, false, diag);
    if (st == TW_OK) tw_rows_print(&p, out->problem, sizeof out->problem);
    return st;
}

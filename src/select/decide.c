/* SPDX-License-Identifier: Apache-2.0 */
#include "select/selector.h"

#include <math.h>

enum { FLAGS = TW_SELECT_DETERMINISTIC | TW_SELECT_NO_WORKSPACE | TW_SELECT_OWN_ONLY | TW_SELECT_VENDOR_ONLY };

bool select_problem_of(const select_view *v, const int64_t *problem, unsigned flags, select_problem *out) {
    memset(out, 0, sizeof *out);
    out->flags = flags;
    bool right = !(flags & ~(unsigned)FLAGS);
    for (int a = 0; a < v->axes; a++) {
        right = right && problem[a] >= 1 && problem[a] <= TW_SELECT_MOST;
        out->whole[a] = (uint32_t)problem[a];
        out->axes[a] = (float)problem[a];
    }
    memcpy(out->ruled, out->whole, sizeof out->ruled);
    if (!right || v->spread < 0) return right;
    select_rule_numbers(v->spread + 1, v->groups + 1, out->ruled);
    out->axes[v->groups] = (float)tw_spread_used(problem[v->spread], problem[v->groups]);
    return true;
}

uint64_t select_hash(const uint32_t *problem) {
    uint64_t h = 0;
    for (int i = 0; i < TW_SELECT_AXES; i += 2)
        h = (h ^ (problem[i] | (uint64_t)problem[i + 1] << 32)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h ^ h >> 32;
}

/* ---- legality */

/* Returns the reason why flags leave out macro choices of these properties. */
static select_reason refuses(unsigned flags, unsigned properties) {
    if (flags & TW_SELECT_DETERMINISTIC && properties & TW_MACRO_ATOMIC) return SELECT_IS_ATOMIC;
    if (flags & TW_SELECT_NO_WORKSPACE && properties & TW_MACRO_WORKSPACE) return SELECT_NEEDS_WORKSPACE;
    if (flags & TW_SELECT_OWN_ONLY && properties & TW_MACRO_VENDOR) return SELECT_IS_VENDOR;
    if (flags & TW_SELECT_VENDOR_ONLY && !(properties & TW_MACRO_VENDOR)) return SELECT_IS_OWN;
    return SELECT_ALLOWED;
}

select_reason select_why_not(const select_view *v, const select_problem *p, int macro) {
    const uint32_t kind = select_item(&v->columns[COLUMN_KIND], macro);
    const select_reason why = refuses(p->flags, kind & ((1 << SELECT_RULE) - 1));
    if (why != SELECT_ALLOWED) return why;
    return select_keeps(&v->rules[kind >> SELECT_RULE], p->ruled, v->axes) ? SELECT_ALLOWED : SELECT_CANNOT;
}

bool select_allows(const select_view *v, const select_problem *p, int macro) {
    return select_why_not(v, p, macro) == SELECT_ALLOWED;
}

/* Verdicts on each set of properties and on each rule: true if it is allowed. A macro choice is allowed if both of its
   own are. */
typedef struct verdicts {
    bool property[1 << SELECT_RULE];
    bool rule[SELECT_RULES];
} verdicts;

static void judge(const select_view *v, const select_problem *p, verdicts *out) {
    for (unsigned i = 0; i < 1 << SELECT_RULE; i++) out->property[i] = refuses(p->flags, i) == SELECT_ALLOWED;
    for (int i = 0; i < v->n_rules; i++) out->rule[i] = select_keeps(&v->rules[i], p->ruled, v->axes);
}

static bool is_allowed(const verdicts *r, uint32_t kind) {
    return r->property[kind & ((1 << SELECT_RULE) - 1)] && r->rule[kind >> SELECT_RULE];
}

/* Sets the bounds of macro choices that are not allowed so that none becomes a candidate: NaN is not below any bound,
   and infinity lowers none. */
static void leave_out(const select_view *v, const verdicts *r, int from, int n, select_scan *s) {
    const select_list *kinds = &v->columns[COLUMN_KIND];
    if (!kinds->each && is_allowed(r, kinds->same)) return;
    for (int i = 0; i < n; i++) {
        if (is_allowed(r, select_item(kinds, from + i))) continue;
        s->low[i] = NAN;
        s->high[i] = INFINITY;
    }
}

/* ---- the model */

int select_micro(const select_view *v, int macro, int row, double rounds) {
    const select_macro *m = &v->tails[macro];
    const uint32_t *anchors = (const uint32_t *)(const void *)(v->data + m->anchors);
    const uint8_t *micros = v->data + m->anchors + (size_t)m->anchor_count * sizeof *anchors;
    micros += (size_t)row * m->anchor_count;
    int best = -1;
    double least = (double)INFINITY;
    for (int i = 0; i < m->anchor_count; i++) {
        const double apart = fabs((double)anchors[i] - rounds);
        if (micros[i] == SELECT_NO_ANCHOR || apart >= least) continue;
        least = apart;
        best = micros[i];
    }
    return best;
}

static void prefetch(const void *at) {
    __builtin_prefetch(at);
}

void select_divide(const select_view *v, const float *axes, int macro, double *grid, double *rounds) {
    *grid = select_item(&v->columns[COLUMN_TIMES], macro);
    *rounds = 1;
    for (int a = 0; a < v->axes; a++) {
        const uint32_t g = select_item(&v->columns[COLUMN_GRID + a], macro),
                       l = select_item(&v->columns[COLUMN_ROUNDS + a], macro);
        if (g && a == v->spread)
            *grid *= (double)select_spread(axes[a], axes[v->groups], (float)g);
        else if (g)
            *grid *= (double)select_ceil(axes[a], (float)g);
        if (l) *rounds *= (double)select_ceil(axes[a], (float)l);
        if (g && v->shrinks >> a & 1) *rounds *= (double)select_used(axes[a], (float)g);
    }
}

void select_find_corners(const select_view *v, const float *axes, select_corners *c) {
    float at[TW_SELECT_AXES];
    memcpy(at, axes, sizeof at);
    if (v->spread >= 0) at[v->spread] /= at[v->groups];
    c->n = v->lattice ? tw_lattice_corners(&v->nodes, v->axes, at, c->node, c->weight) : 0;
    for (; c->n % SELECT_ROWS; c->n++) {
        c->node[c->n] = 0;
        c->weight[c->n] = 0;
    }
}

/* A macro choice whose lower bound is at most the least upper bound of all. Its time may be the least. */
typedef struct candidate {
    int macro, fit;
    double grid, rounds, x;
    double factor; /* Factor by which corrections multiply the time. */
    const uint32_t *record;
} candidate;

/* Finds the record of macro choice from + i, and prefetches the record and the select_macro. False: the macro choice
   has no fits. */
static bool find_record(const select_view *v, const select_problem *p, const select_scan *s, int from, int i,
                        candidate *c) {
    const int fits = (int)select_item(&v->columns[COLUMN_FITS], from + i);
    if (!fits) return false;
    c->macro = from + i;
    c->grid = (double)s->grid[i];
    c->rounds = (double)s->rounds[i];
    if (c->grid >= SELECT_EXACT || c->rounds >= SELECT_EXACT || v->shrinks)
        select_divide(v, p->axes, c->macro, &c->grid, &c->rounds);
    c->factor = (double)s->factor[i];
    c->x = c->grid / select_item(&v->columns[COLUMN_SLOTS], c->macro);
    c->fit = select_fit_of(c->x, fits);
    c->record = select_records_of(v, c->macro, fits) + (size_t)c->fit * v->record_words;
    prefetch(c->record);
    prefetch(&v->tails[c->macro]);
    return true;
}

bool select_predict(const select_view *v, const select_problem *p, int macro, select_decision *out) {
    const int fits = (int)select_item(&v->columns[COLUMN_FITS], macro);
    *out = (select_decision){.source = TW_SELECT_MODEL, .macro = macro, .micro = -1};
    select_divide(v, p->axes, macro, &out->grid, &out->rounds);
    if (!fits) return false;
    const double x = out->grid / select_item(&v->columns[COLUMN_SLOTS], macro);
    out->fit = select_fit_of(x, fits);
    const select_record r =
        select_unpack(select_records_of(v, macro, fits) + (size_t)out->fit * v->record_words, v->record_words);
    select_corners c;
    select_scan s;
    select_find_corners(v, p->axes, &c);
    v->scan(v, p->axes, &c, macro, 1, &s);
    out->time =
        v->terms ? select_direct(v, &s, macro, 0) : select_time(&r, x - out->fit, out->rounds) * (double)s.factor[0];
    out->error = select_error(r.error);
    if (!(out->time > 0)) return false;
    out->row = r.row;
    out->micro = select_micro(v, macro, r.row, out->rounds);
    return true;
}

/* Predicts the time of a candidate. Infinity: the prediction is not above 0. */
static double predict(const select_view *v, const candidate *c, select_record *r) {
    *r = select_unpack(c->record, v->record_words);
    const double time = select_time(r, c->x - c->fit, c->rounds) * c->factor;
    return time > 0 ? time : (double)INFINITY;
}

/* Lists the macro choices of a block whose lower bound is at most `high`. Returns their number. */
static int find_near(const select_scan *s, int n, float high, uint16_t *out) {
    _Alignas(8) uint8_t near[SELECT_BLOCK];
    int found = 0;
    for (int i = 0; i < n; i++) near[i] = s->low[i] <= high;
    memset(near + n, 0, (size_t)(-n & 7));
    for (int i = 0; i < n; i += 8) {
        uint64_t eight;
        for (memcpy(&eight, near + i, sizeof eight); eight; eight &= eight - 1)
            out[found++] = (uint16_t)(i + __builtin_ctzll(eight) / 8);
    }
    return found;
}

/* Predicts the macro choices of a block that `near` lists, by their fits, and replaces *best by each that takes less.
 */
static void take_fits(const select_view *v, const select_problem *p, const select_scan *s, int from,
                      const uint16_t *near, int n, select_decision *best) {
    candidate c[SELECT_BLOCK];
    int found = 0;
    for (int i = 0; i < n; i++) found += find_record(v, p, s, from, near[i], &c[found]);
    for (int k = 0; k < found; k++) {
        select_record r;
        const double time = predict(v, &c[k], &r);
        if (!(time < best->time)) continue;
        *best = (select_decision){.source = TW_SELECT_MODEL,
                                  .macro = c[k].macro,
                                  .time = time,
                                  .error = select_error(r.error),
                                  .grid = c[k].grid,
                                  .rounds = c[k].rounds,
                                  .fit = c[k].fit,
                                  .row = r.row};
        prefetch(v->data + v->tails[c[k].macro].anchors);
    }
}

/* Predicts macro choice from + i of a direct artefact, and replaces *best if it takes less. Of equal times that of the
   first macro choice counts. */
static void take_term(const select_view *v, const select_scan *s, int from, int i, select_decision *best) {
    const int macro = from + i;
    if ((double)s->low[i] > best->time) return;
    const double time = select_direct(v, s, macro, i);
    if (!(time > 0) || time > best->time || (time == best->time && macro > best->macro)) return;
    best->macro = macro;
    best->time = time;
}

/* Does the same as take_fits in a direct artefact. The macro choice of the least bound comes first, since its time
   leaves out most others. */
static void take_terms(const select_view *v, const select_scan *s, int from, const uint16_t *near, int n,
                       select_decision *best) {
    int first = 0;
    float least = INFINITY;
    for (int k = 0; k < n; k++) {
        const float low = s->low[near[k]];
        if (v->fills) prefetch(&v->fills[from + near[k]]);
        first = low < least ? k : first;
        least = low < least ? low : least;
    }
    if (n) take_term(v, s, from, near[first], best);
    for (int k = 0; k < n; k++)
        if (k != first) take_term(v, s, from, near[k], best);
}

/* Fills in the rest of a decision by terms. */
static void complete(const select_view *v, const select_problem *p, select_decision *best) {
    const select_record r = select_unpack(select_records_of(v, best->macro, 1), v->record_words);
    best->source = TW_SELECT_MODEL;
    best->error = select_error(r.error);
    best->row = r.row;
    select_divide(v, p->axes, best->macro, &best->grid, &best->rounds);
}

/* Looks at a block of macro choices. `high` is the least upper bound so far. Lists those that it does not leave out.
   Returns their number. */
static int scan_block(const select_view *v, const select_problem *p, const verdicts *r, const select_corners *corners,
                      int from, float *high, select_scan *s, uint16_t *near) {
    const int n = v->macros - from < SELECT_BLOCK ? v->macros - from : SELECT_BLOCK;
    v->scan(v, p->axes, corners, from, n, s);
    leave_out(v, r, from, n, s);
    /* Positive floats are ordered as their bits are when these are read as integers. The compiler vectorises a minimum
       of integers. It does not vectorise a minimum of floats, which may be NaN. */
    int32_t least = (int32_t)tw_f32_bits(*high);
    for (int i = 0; i < n; i++) {
        const int32_t bits = (int32_t)tw_f32_bits(s->high[i]);
        least = bits < least ? bits : least;
    }
    *high = tw_bits_f32((uint32_t)least);
    return find_near(s, n, *high, near);
}

/* Has the rows of the corrections around a problem fetched. */
static void prefetch_rows(const select_view *v, const select_corners *corners) {
    for (int k = 0; k < corners->n; k++) {
        const int8_t *row = v->lattice + (size_t)corners->node[k] * v->lattice_pitch;
        for (int i = 0; i < v->macros; i += SELECT_LINE) prefetch(row + i);
    }
}

static void model(const select_view *v, const select_problem *p, select_decision *best) {
    verdicts r;
    select_corners corners;
    select_scan s;
    uint16_t near[SELECT_BLOCK];
    select_find_corners(v, p->axes, &corners);
    prefetch_rows(v, &corners);
    float high = INFINITY;
    judge(v, p, &r);
    best->time = (double)INFINITY;
    for (int from = 0; from < v->macros; from += SELECT_BLOCK) {
        const int n = scan_block(v, p, &r, &corners, from, &high, &s, near);
        if (v->terms)
            take_terms(v, &s, from, near, n, best);
        else
            take_fits(v, p, &s, from, near, n, best);
    }
    if (v->terms && best->macro >= 0) complete(v, p, best);
    if (best->macro >= 0) best->micro = select_micro(v, best->macro, best->row, best->rounds);
}

/* ---- the decision */

const select_exact *select_find(const select_view *v, const uint32_t *problem) {
    const uint64_t h = select_hash(problem);
    const uint32_t tag = (uint32_t)(h >> 52), mask = v->n_buckets - 1;
    for (uint32_t i = 0; i < SELECT_PROBES; i++) {
        const uint32_t b = v->buckets[((uint32_t)(h >> 20) + i) & mask];
        if (!b) return NULL;
        const select_exact *e = &v->exact[b % SELECT_INDEX - 1];
        if (b / SELECT_INDEX == tag && !memcmp(e->problem, problem, sizeof e->problem)) return e;
    }
    return NULL;
}

static bool take_exact(const select_view *v, const select_problem *p, select_decision *out) {
    const select_exact *e = v->n_buckets ? select_find(v, p->whole) : NULL;
    if (!e) return false;
    out->source = TW_SELECT_EXACT;
    if (select_allows(v, p, e->macro)) {
        out->macro = e->macro;
        out->micro = e->micro;
        out->time = (double)e->time;
        return true;
    }
    if (!select_allows(v, p, e->second_macro)) return false;
    out->macro = e->second_macro;
    out->micro = e->second_micro;
    out->time = (double)e->second_time;
    return true;
}

void select_decide(const select_view *v, const select_problem *p, select_decision *out) {
    for (int i = 0; i < v->hot_lines; i++) prefetch(v->hot + (size_t)i * SELECT_LINE);
    *out = (select_decision){.macro = -1, .micro = -1};
    if (take_exact(v, p, out)) return;
    model(v, p, out);
    if (out->macro >= 0) return;
    *out = (select_decision){.macro = -1, .micro = -1};
    if (!select_allows(v, p, v->macro)) return;
    out->source = TW_SELECT_DEFAULT;
    out->macro = v->macro;
    out->micro = v->micro;
}

void select_answer_write(const select_view *v, const select_answer *a, bool remembered, tw_selection *out) {
    out->source = (tw_select_source)a->source;
    out->macro = a->macro;
    out->micro = a->micro;
    out->config = select_config(v, a->macro, a->micro);
    out->time = a->time;
    out->low = a->error < 1 ? a->time * (1 - (double)a->error) : 0;
    out->high = a->time * (1 + (double)a->error);
    out->remembered = remembered;
}

select_answer select_answer_of(const select_decision *d) {
    return (select_answer){(uint8_t)d->source, (uint8_t)d->micro, (uint16_t)d->macro, (float)d->error, d->time};
}

static tw_status nothing(tw_selection *out, tw_status st) {
    *out = (tw_selection){.macro = -1, .micro = -1};
    return st;
}

tw_status tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out) {
    const select_view *v = &s->view;
    select_problem p;
    select_answer a;
    if (!select_problem_of(v, problem, flags, &p)) return nothing(out, TW_ERR_USAGE);
    const uint64_t hash = select_hash(p.whole) ^ flags;
    const bool remembered = select_cache_get(s->cache, hash, p.whole, flags, &a);
    if (!remembered) {
        select_decision d;
        select_decide(v, &p, &d);
        if (d.source == TW_SELECT_NONE) return nothing(out, TW_ERR_UNSUPPORTED);
        a = select_answer_of(&d);
        select_cache_put(s->cache, hash, p.whole, flags, &a);
    }
    select_answer_write(v, &a, remembered, out);
    return TW_OK;
}

int select_candidates(const select_view *v, const select_problem *p) {
    verdicts r;
    select_corners corners;
    select_scan s;
    uint16_t near[SELECT_BLOCK];
    float high = INFINITY;
    int n = 0;
    judge(v, p, &r);
    select_find_corners(v, p->axes, &corners);
    for (int from = 0; from < v->macros; from += SELECT_BLOCK)
        n += scan_block(v, p, &r, &corners, from, &high, &s, near);
    return n;
}

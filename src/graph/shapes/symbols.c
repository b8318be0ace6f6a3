/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"
#include "graph/shapes/infer.h"
#include "graph/shapes/rules.h"

#include <stdlib.h>
#include <string.h>

/* Numbers that symbols may be, such that what differs differs in most of them, too. */
static int64_t sample_of(int symbol) {
    static const int64_t primes[] = {11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89};
    return primes[symbol % (int)(sizeof primes / sizeof *primes)];
}

static bool add_sample(tw_symbols *s, int symbol, int64_t sample) {
    int64_t *grown = tw_grow(s->samples, symbol, &s->room, 16, sizeof *grown);
    if (!grown) return false;
    s->samples = grown;
    s->samples[symbol] = sample;
    return true;
}

static int64_t value_of(const tw_graph *g, int symbol, const int64_t *symbols);

/* Computes an extent with symbols that may stand for others. -1: it is not known. */
static int64_t value_at(const tw_graph *g, const tw_formula *e, const int64_t *symbols) {
    int64_t *all = malloc(((size_t)g->n_symbols + 1) * sizeof *all), x = -1;
    for (int i = 0; all && i < g->n_symbols; i++) all[i] = -1;
    bool known = all != NULL;
    for (int i = 0; i < e->n && known; i++)
        for (int j = 0; j < e->terms[i].n && known; j++) {
            const int symbol = e->terms[i].symbols[j];
            all[symbol] = value_of(g, symbol, symbols);
            known = all[symbol] >= 0;
        }
    if (known && !tw_formula_at(e, all, &x)) x = -1;
    free(all);
    return x < 0 ? -1 : x;
}

static int64_t value_of(const tw_graph *g, int symbol, const int64_t *symbols) {
    const tw_meaning *m = &g->meanings[symbol];
    if (m->sum) return value_at(g, m->sum, symbols);
    if (!m->least[0]) return symbols[symbol];
    const int64_t a = value_at(g, m->least[0], symbols), b = value_at(g, m->least[1], symbols);
    return a < 0 || b < 0 ? -1 : a < b ? a : b;
}

int64_t tw_graph_extent(const tw_graph *g, tw_dim d, const int64_t *symbols) {
    if (d >= 0) return d;
    return d == TW_DIM_UNKNOWN ? -1 : value_of(g, tw_dim_symbol(d), symbols);
}

bool tw_symbols_begin(tw_symbols *s) {
    for (int i = 0; i < s->graph->n_symbols; i++)
        if (!add_sample(s, i, sample_of(i))) return false;
    for (int i = 0; i < s->graph->n_symbols; i++) {
        const int64_t x = value_of(s->graph, i, s->samples);
        s->samples[i] = x < 0 ? 1 : x;
    }
    return true;
}

static const tw_formula *copy(tw_arena *arena, const tw_formula *e) {
    const size_t size = sizeof *e + (size_t)e->n * sizeof *e->terms;
    tw_formula *made = tw_arena_alloc(arena, size);
    return made ? memcpy(made, e, size) : NULL;
}

/* Finds the symbol of a name and a meaning, or makes it. -1: out of memory, or the name has another meaning. */
static int symbol_of(tw_symbols *s, const char *name, const tw_meaning *m) {
    tw_graph *g = s->graph;
    const int n = g->n_symbols, symbol = name ? tw_graph_symbol(g, name) : -1;
    if (symbol < 0) return -1;
    tw_meaning *have = &g->meanings[symbol];
    if (symbol < n) {
        const bool same = tw_formula_equal(have->sum, m->sum) || (tw_formula_equal(have->least[0], m->least[0]) &&
                                                                  tw_formula_equal(have->least[1], m->least[1]));
        return same ? symbol : -1;
    }
    if (m->sum) have->sum = copy(&g->arena, m->sum);
    for (int i = 0; i < 2 && m->least[i]; i++) have->least[i] = copy(&g->arena, m->least[i]);
    const int64_t x = g->arena.failed ? -1 : value_of(g, symbol, s->samples);
    return !g->arena.failed && add_sample(s, symbol, x < 0 ? 1 : x) ? symbol : -1;
}

/* Finds a number that an extent is never below. False: none is found. */
static bool find_least(const tw_symbols *s, const tw_formula *a, int64_t *x) {
    *x = 0;
    for (int i = 0; a && i < a->n; i++) {
        const tw_term *t = &a->terms[i];
        int64_t most = 1, part;
        if (t->n && t->by > 0) continue;
        /* What is taken away is no more than the number that it is smaller than. */
        if (t->n > 1 || (t->n == 1 && !tw_formula_is_number(s->graph->meanings[t->symbols[0]].least[0], &most)))
            return false;
        if (__builtin_mul_overflow(t->by, most, &part) || __builtin_add_overflow(*x, part, x)) return false;
    }
    return a != NULL;
}

bool tw_at_least(const tw_symbols *s, const tw_formula *a, const tw_formula *b) {
    tw_arena scratch = {0};
    int64_t least;
    const bool holds = find_least(s, tw_formula_subtract(&scratch, a, b), &least) && least >= 0;
    tw_arena_free(&scratch);
    return holds;
}

bool tw_differs(const tw_symbols *s, const tw_formula *a, const tw_formula *b) {
    tw_arena scratch = {0};
    int64_t least;
    bool holds = find_least(s, tw_formula_subtract(&scratch, a, b), &least) && least > 0;
    holds = holds || (find_least(s, tw_formula_subtract(&scratch, b, a), &least) && least > 0);
    tw_arena_free(&scratch);
    return holds;
}

/* Whether all factors of a are factors of b, so that a is above 0 where b is. */
static bool is_part(const tw_term *a, const tw_term *b) {
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int j = 0; j < b->n; j++) found |= a->symbols[i] == b->symbols[j];
        if (!found) return false;
    }
    return true;
}

/* Returns an extent that is above 0 exactly where another is, as short as can be found. */
static const tw_formula *sign_of(const tw_symbols *s, const tw_formula *e) {
    tw_term terms[TW_FORMULA_TERMS];
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        if (e->terms[i].by < 0) return e;
        tw_term t = e->terms[i];
        for (int j = 0; j < t.n; j++) {
            const tw_formula *of = s->graph->meanings[t.symbols[j]].least[1];
            /* The smaller of a number and one symbol is above 0 where this is. */
            if (of && of->n == 1 && of->terms[0].n == 1 && of->terms[0].by > 0) t.symbols[j] = of->terms[0].symbols[0];
        }
        bool told = false;
        for (int k = 0; k < n && !told; k++) told = is_part(&terms[k], &t);
        if (!told) terms[n++] = t;
    }
    const tw_formula *sum = tw_formula_number(s->arena, 0);
    for (int k = 0; k < n; k++) {
        bool told = false;
        for (int other = 0; other < n; other++) told |= other != k && is_part(&terms[other], &terms[k]);
        if (told) continue;
        const tw_formula *product = tw_formula_number(s->arena, 1);
        for (int i = 0; i < terms[k].n; i++) {
            bool before = false;
            for (int j = 0; j < i; j++) before |= terms[k].symbols[j] == terms[k].symbols[i];
            if (!before)
                product = tw_formula_multiply(s->arena, product, tw_formula_symbol(s->arena, terms[k].symbols[i]));
        }
        sum = tw_formula_add(s->arena, sum, product);
    }
    return sum ? sum : e;
}

const tw_formula *tw_least_make(tw_symbols *s, const tw_formula *number, const tw_formula *extent) {
    if (!number || !extent) return NULL;
    if (tw_formula_is(number, 1)) extent = sign_of(s, extent);
    const tw_meaning m = {.least = {number, extent}};
    tw_buf name = {0};
    tw_buf_str(&name, "min(");
    tw_formula_print(number, s->graph->symbols, &name);
    tw_buf_str(&name, ",");
    tw_formula_print(extent, s->graph->symbols, &name);
    tw_buf_str(&name, ")");
    const int symbol = symbol_of(s, name.failed ? NULL : tw_arena_strdup(&s->graph->arena, name.data), &m);
    tw_buf_free(&name);
    return symbol < 0 ? NULL : tw_formula_symbol(s->arena, symbol);
}

bool tw_least_of(const tw_symbols *s, const tw_formula *a, const tw_formula *b) {
    if (!a || !b || a->n != 1 || a->terms[0].by != 1 || a->terms[0].n != 1) return false;
    return tw_formula_equal(s->graph->meanings[a->terms[0].symbols[0]].least[1], b);
}

tw_dim tw_symbols_dim(tw_symbols *s, const tw_formula *e) {
    int64_t x;
    if (!e) return TW_DIM_UNKNOWN;
    if (tw_formula_is_number(e, &x)) return x < 0 ? TW_DIM_UNKNOWN : x;
    if (e->n == 1 && e->terms[0].n == 1 && e->terms[0].by == 1) return tw_dim_of_symbol(e->terms[0].symbols[0]);
    const tw_meaning m = {.sum = e};
    tw_buf name = {0};
    tw_formula_print(e, s->graph->symbols, &name);
    const int symbol = symbol_of(s, name.failed ? NULL : tw_arena_strdup(&s->graph->arena, name.data), &m);
    tw_buf_free(&name);
    return symbol < 0 ? TW_DIM_UNKNOWN : tw_dim_of_symbol(symbol);
}

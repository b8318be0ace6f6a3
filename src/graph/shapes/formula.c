/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/shapes/formula.h"

#include <inttypes.h>
#include <string.h>

/* A sum that is being made. */
typedef struct sum {
    tw_term terms[TW_FORMULA_TERMS];
    int n;
    bool failed; /* It has more terms than there is room for, or a number that is too large. */
} sum;

/* Orders products: those of more factors come first. */
static int compare(const tw_term *a, const tw_term *b) {
    if (a->n != b->n) return b->n - a->n;
    for (int i = 0; i < a->n; i++)
        if (a->symbols[i] != b->symbols[i]) return a->symbols[i] < b->symbols[i] ? -1 : 1;
    return 0;
}

static void add_term(sum *s, const tw_term *t) {
    int at = 0;
    if (s->failed || !t->by) return;
    while (at < s->n && compare(&s->terms[at], t) < 0) at++;
    if (at < s->n && !compare(&s->terms[at], t)) {
        s->failed = __builtin_add_overflow(s->terms[at].by, t->by, &s->terms[at].by);
        if (s->terms[at].by) return;
        s->n--;
        memmove(&s->terms[at], &s->terms[at + 1], (size_t)(s->n - at) * sizeof *s->terms);
        return;
    }
    if (s->n == TW_FORMULA_TERMS) {
        s->failed = true;
        return;
    }
    memmove(&s->terms[at + 1], &s->terms[at], (size_t)(s->n - at) * sizeof *s->terms);
    s->terms[at] = *t;
    s->n++;
}

static const tw_formula *keep(tw_arena *arena, const sum *s) {
    tw_formula *e = s->failed ? NULL : tw_arena_alloc(arena, sizeof *e + (size_t)s->n * sizeof *e->terms);
    if (!e) return NULL;
    e->n = s->n;
    memcpy(e->terms, s->terms, (size_t)s->n * sizeof *e->terms);
    return e;
}

const tw_formula *tw_formula_number(tw_arena *arena, int64_t x) {
    sum s = {.n = 0};
    add_term(&s, &(tw_term){.by = x});
    return keep(arena, &s);
}

const tw_formula *tw_formula_symbol(tw_arena *arena, int symbol) {
    sum s = {.n = 0};
    add_term(&s, &(tw_term){.by = 1, .n = 1, .symbols = {symbol}});
    return keep(arena, &s);
}

const tw_formula *tw_formula_add(tw_arena *arena, const tw_formula *a, const tw_formula *b) {
    sum s = {.n = 0};
    if (!a || !b) return NULL;
    for (int i = 0; i < a->n; i++) add_term(&s, &a->terms[i]);
    for (int i = 0; i < b->n; i++) add_term(&s, &b->terms[i]);
    return keep(arena, &s);
}

static bool multiply(const tw_term *a, const tw_term *b, tw_term *out) {
    int i = 0, j = 0;
    *out = (tw_term){.n = a->n + b->n};
    if (out->n > TW_FORMULA_FACTORS || __builtin_mul_overflow(a->by, b->by, &out->by)) return false;
    for (int k = 0; k < out->n; k++) {
        const bool first = j == b->n || (i < a->n && a->symbols[i] <= b->symbols[j]);
        out->symbols[k] = first ? a->symbols[i++] : b->symbols[j++];
    }
    return true;
}

const tw_formula *tw_formula_multiply(tw_arena *arena, const tw_formula *a, const tw_formula *b) {
    sum s = {.n = 0};
    if (!a || !b) return NULL;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            tw_term t;
            if (!multiply(&a->terms[i], &b->terms[j], &t)) return NULL;
            add_term(&s, &t);
        }
    return keep(arena, &s);
}

const tw_formula *tw_formula_subtract(tw_arena *arena, const tw_formula *a, const tw_formula *b) {
    return tw_formula_add(arena, a, tw_formula_multiply(arena, b, tw_formula_number(arena, -1)));
}

/* Divides one product by another. False: there is a rest. */
static bool divide(const tw_term *a, const tw_term *b, tw_term *out) {
    int j = 0;
    *out = (tw_term){.by = b->by == -1 ? 0 : a->by / b->by};
    if (b->by == -1 || a->by % b->by) return false;
    for (int i = 0; i < a->n; i++) {
        if (j < b->n && a->symbols[i] == b->symbols[j])
            j++;
        else
            out->symbols[out->n++] = a->symbols[i];
    }
    return j == b->n;
}

const tw_formula *tw_formula_divide(tw_arena *arena, const tw_formula *a, const tw_formula *b) {
    sum s = {.n = 0};
    if (!a || !b) return NULL;
    if (tw_formula_equal(a, b) && b->n) return tw_formula_number(arena, 1);
    if (b->n != 1) return NULL;
    for (int i = 0; i < a->n; i++) {
        tw_term t;
        if (!divide(&a->terms[i], &b->terms[0], &t)) return NULL;
        add_term(&s, &t);
    }
    return keep(arena, &s);
}

bool tw_formula_is_number(const tw_formula *a, int64_t *x) {
    if (!a || a->n > 1 || (a->n && a->terms[0].n)) return false;
    *x = a->n ? a->terms[0].by : 0;
    return true;
}

bool tw_formula_is(const tw_formula *a, int64_t x) {
    int64_t is;
    return tw_formula_is_number(a, &is) && is == x;
}

bool tw_formula_equal(const tw_formula *a, const tw_formula *b) {
    if (!a || !b || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->terms[i].by != b->terms[i].by || compare(&a->terms[i], &b->terms[i])) return false;
    return true;
}

bool tw_formula_at(const tw_formula *a, const int64_t *symbols, int64_t *x) {
    *x = 0;
    for (int i = 0; a && i < a->n; i++) {
        int64_t by = a->terms[i].by;
        for (int j = 0; j < a->terms[i].n; j++)
            if (__builtin_mul_overflow(by, symbols[a->terms[i].symbols[j]], &by)) return false;
        if (__builtin_add_overflow(*x, by, x)) return false;
    }
    return a != NULL;
}

void tw_formula_print(const tw_formula *a, const char *const *symbols, tw_buf *out) {
    if (!a) tw_buf_str(out, "?");
    if (a && !a->n) tw_buf_str(out, "0");
    for (int i = 0; a && i < a->n; i++) {
        const tw_term *t = &a->terms[i];
        if (i && t->by > 0) tw_buf_str(out, "+");
        if (t->by == -1 && t->n)
            tw_buf_str(out, "-");
        else if (t->by != 1 || !t->n)
            tw_buf_printf(out, "%" PRId64 "%s", t->by, t->n ? "*" : "");
        for (int j = 0; j < t->n; j++) tw_buf_printf(out, "%s%s", j ? "*" : "", symbols[t->symbols[j]]);
    }
}

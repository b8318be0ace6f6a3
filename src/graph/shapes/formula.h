/* SPDX-License-Identifier: Apache-2.0 */
/* Extents with symbols: sums of products of symbols, such as 2*batch*seq + 1. NULL stands for one that is not known,
   and what is made of it is not known. Extents lie in an arena and never change. */
#ifndef TW_GRAPH_SHAPES_FORMULA_H
#define TW_GRAPH_SHAPES_FORMULA_H

#include "base/arena.h"
#include "base/buf.h"

#include <stdint.h>

enum { TW_FORMULA_TERMS = 8, TW_FORMULA_FACTORS = 8 /* The most of a sum, and of a product. */ };

typedef struct tw_term {
    int64_t by; /* Not 0. */
    int n;
    int symbols[TW_FORMULA_FACTORS]; /* The lowest first. Powers have one several times. */
} tw_term;

typedef struct tw_formula {
    int n; /* 0: the extent is 0. */
    tw_term
        terms[]; /* Terms of the sum, sorted, so that equal extents have equal lists. A constant term is the last. */
} tw_formula;

const tw_formula *tw_formula_number(tw_arena *arena, int64_t x);
const tw_formula *tw_formula_symbol(tw_arena *arena, int symbol);
const tw_formula *tw_formula_add(tw_arena *arena, const tw_formula *a, const tw_formula *b);
const tw_formula *tw_formula_subtract(tw_arena *arena, const tw_formula *a, const tw_formula *b);
const tw_formula *tw_formula_multiply(tw_arena *arena, const tw_formula *a, const tw_formula *b);
/* Divides by a product. Not known unless all terms are divided without a rest. */
const tw_formula *tw_formula_divide(tw_arena *arena, const tw_formula *a, const tw_formula *b);

bool tw_formula_is_number(const tw_formula *a, int64_t *x); /* False also for NULL. */
bool tw_formula_is(const tw_formula *a, int64_t x);
bool tw_formula_equal(const tw_formula *a, const tw_formula *b); /* Whether they are known to be. */
/* Computes an extent of numbers for symbols. False: it is not known, or too large. */
bool tw_formula_at(const tw_formula *a, const int64_t *symbols, int64_t *x);
void tw_formula_print(const tw_formula *a, const char *const *symbols, tw_buf *out);

#endif

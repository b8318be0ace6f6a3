/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of whole numbers, as text. In order of precedence: ! and unary -; * / %; + -; < <= > >= == !=; &&; ||.
   Division truncates towards 0, and comparisons and logic give 0 or 1. The functions are min(a, b), max(a, b) and
   ceil(a / b), which is the least whole number that is at least the quotient; ceil's a is a product. */
#ifndef TW_TUNE_EXPRESSION_H
#define TW_TUNE_EXPRESSION_H

#include "tilewright/base.h"

/* The names that an expression may use. */
typedef struct tw_names {
    /* Sets the value of a name of n characters. False: there is no such name. */
    bool (*find)(void *context, const char *name, size_t n, int64_t *value);
    void *context; /* Passed to `find`. */
} tw_names;

/* Computes an expression. TW_ERR_FORMAT: it is not an expression, a name is unknown, a division is by 0, or a value
   does not fit into 64 bits. The message has the expression and the place of the error. */
tw_status tw_expression(const char *text, const tw_names *names, int64_t *out, tw_diag *diag);

/* Computes the tiles of a product of factors such as "ceil(m / BM) * heads * SPLIT". A factor is ceil(A / E), an axis A
   alone, or E, where E is an expression in parentheses, a number, a name or a function. tile[i] is the E of axis i: 1
   for an axis alone, 0 for an axis that is no factor. *times is the product of the other factors.
   TW_ERR_FORMAT: as above, or the text is no such product, or an axis is in several factors. */
tw_status tw_expression_tiles(const char *text, const char *const *axes, int n_axes, const tw_names *names,
                              int64_t *tile, int64_t *times, tw_diag *diag);

/* Tells whether a text is a name: a letter or "_", then letters, digits and "_", and no function. */
bool tw_expression_is_name(const char *text);

#endif

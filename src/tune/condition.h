/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of other autotuners: a part of Python's expressions, evaluated on the values of a configuration.
   - Operands are numbers, strings, True, False, names of parameters, and expressions in parentheses. All numbers are
     computed as doubles.
   - Operators, from the weakest to the strongest: or; and; not; the comparisons < <= > >= == != and `in`;
     + and -; *, /, // and %; the signs + and -; **. `||` and `&&` mean `or` and `and`.
   - Comparisons chain: a < b < c means a < b and b < c. On the right of `in` stands a list or a tuple.
   - The functions are min, max, abs and int. */
#ifndef TW_TUNE_CONDITION_H
#define TW_TUNE_CONDITION_H

#include "tilewright/base.h"

#include <jansson.h>

/* Evaluates a condition. The object `values` has the value of each name. Both operands of `and` and of `or` are always
   evaluated. TW_ERR_FORMAT: the text is no such expression, has a name that the object lacks, or divides by 0. */
tw_status tw_condition(const char *text, const json_t *values, bool *holds, tw_diag *diag);

/* Reads a Python list of at most 4096 numbers, strings and truth values, as a JSON array. Its forms are [1, 2], (1, 2),
   range(1, 9, 2) and list(...) around one of these. TW_ERR_FORMAT: the text is no such list. The caller frees *out. */
tw_status tw_condition_list(const char *text, json_t **out, tw_diag *diag);

#endif

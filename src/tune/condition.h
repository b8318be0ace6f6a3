/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of other autotuners: Python expressions of a configuration's values. There are numbers (all computed as
   double), strings, truth values, names, lists and tuples behind `in`, parentheses, and the functions min, max, abs and
   int. Operators by precedence: or; and; not; comparisons, which chain, and in; + -; * / // %; unary + -; **. `&&` and
   `||` are other spellings of `and` and `or`. */
#ifndef TW_TUNE_CONDITION_H
#define TW_TUNE_CONDITION_H

#include "tilewright/base.h"

#include <jansson.h>

/* Evaluates a condition on the values of an object. All of the condition is evaluated, also behind an `or` that holds.
   TW_ERR_FORMAT: it is no such expression, has a name that the object lacks, or divides by 0. */
tw_status tw_condition(const char *text, const json_t *values, bool *holds, tw_diag *diag);

/* Reads a list of numbers, strings and truth values as Python has them: [1, 2], (1, 2), range(a, b, c), list(...). At
   most 4096 values. TW_ERR_FORMAT: the text is no such list. The caller frees *out. */
tw_status tw_condition_list(const char *text, json_t **out, tw_diag *diag);

#endif

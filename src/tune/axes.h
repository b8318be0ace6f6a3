/* SPDX-License-Identifier: Apache-2.0 */
/* Reads problems from words, each of which gives the value of one axis. */
#ifndef TW_TUNE_AXES_H
#define TW_TUNE_AXES_H

#include "tilewright/select.h"

/* Reads the `length` bytes of a word such as "m=64" into problem[a] and sets given[a], with a the index of axis "m".
   False: the word has no axis, an axis that was given before, or no number from 1 to TW_SELECT_MOST. */
bool tw_axes_read(const char *const *axes, int n_axes, const char *word, size_t length, int64_t *problem, bool *given);

#endif

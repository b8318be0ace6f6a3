/* SPDX-License-Identifier: Apache-2.0 */
/* What a GroupQueryAttention becomes: attention over its caches. How many keys a sequence has is an operand's content,
   so that places, angles and masks are computed from it where the model runs. */
#ifndef TW_GRAPH_PATTERNS_GROUPS_H
#define TW_GRAPH_PATTERNS_GROUPS_H

#include "graph/patterns/make.h"

/* Checks of patterns: a GroupQueryAttention that can become attention; one of prompts, where row i of each sequence
   stands at position i and sees all rows before it. */
bool tw_is_groups(const tw_graph *g, int value);
bool tw_is_prompt(const tw_graph *g, int value);

/* queries(n), keys(n), values(n): what is attended of a GroupQueryAttention n, rotated, as rows of heads. */
int tw_make_queries(tw_maker *k, const int *args, int n, int want);
int tw_make_keys(tw_maker *k, const int *args, int n, int want);
int tw_make_values(tw_maker *k, const int *args, int n, int want);
/* cached_keys(n, x), cached_values(n, x): x, which is new, behind what n has of the past. */
int tw_make_cached_keys(tw_maker *k, const int *args, int n, int want);
int tw_make_cached_values(tw_maker *k, const int *args, int n, int want);
/* known(n, c, x): rows of the cache c that some sequence may have, or x, which is new, where there are no others. */
int tw_make_known(tw_maker *k, const int *args, int n, int want);
/* sight(n): the mask of the keys that queries see, with what is added to scores. */
int tw_make_sight(tw_maker *k, const int *args, int n, int want);

#endif

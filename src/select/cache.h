/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to recent problems, direct mapped, for any number of threads. An entry is a cache line. A writer makes its
   turn odd, and even again when it is done; one that finds it odd leaves its answer out. A reader believes an entry
   whose turn was even, and the same before and after: so nobody waits, and no answer is torn. Keys are whole problems.
 */
#ifndef TW_SELECT_CACHE_H
#define TW_SELECT_CACHE_H

#include "tilewright/select.h"

typedef struct select_cache select_cache;

enum { SELECT_ENTRIES = 1024 };

/* What is remembered of a decision. */
typedef struct select_answer {
    uint8_t source; /* tw_select_source. Not TW_SELECT_NONE. */
    uint8_t micro;
    uint16_t macro;
    float error; /* Relative half width of the time's interval. */
    double time;
} select_answer;

select_cache *select_cache_open(void); /* NULL: out of memory. */
void select_cache_close(select_cache *c);

/* `hash` is of the problem, which has a 0 for each axis that is not there. */
bool select_cache_get(const select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags,
                      select_answer *out);
void select_cache_put(select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags, const select_answer *a);
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A direct-mapped cache of answers to recent problems, for any number of threads. Keys are whole problems. An entry is
   a cache line with a sequence number, its turn. A writer makes the turn odd while it writes and even afterwards; a
   writer that finds it odd drops its answer. A reader takes an entry whose turn was even and equal before and after. So
   no thread waits, and no answer is torn. */
#ifndef TW_SELECT_CACHE_H
#define TW_SELECT_CACHE_H

#include "tilewright/select.h"

typedef struct select_cache select_cache;

enum { SELECT_ENTRIES = 1024 };

/* A decision as the cache keeps it. */
typedef struct select_answer {
    uint8_t source; /* tw_select_source, except TW_SELECT_NONE. */
    uint8_t micro;
    uint16_t macro;
    float error; /* Relative half width of the time's interval. */
    double time;
} select_answer;

select_cache *select_cache_open(void); /* NULL: out of memory. */
void select_cache_close(select_cache *c);

/* Look up and store the answer to a problem and its flags. `problem` has TW_SELECT_AXES values, 0 beyond the last axis.
   `hash` is its hash. `select_cache_get` returns false if the answer is not there. */
bool select_cache_get(const select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags,
                      select_answer *out);
void select_cache_put(select_cache *c, uint64_t hash, const uint32_t *problem, unsigned flags, const select_answer *a);
#endif

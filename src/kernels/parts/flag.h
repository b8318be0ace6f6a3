/* SPDX-License-Identifier: Apache-2.0 */
/* Data that is its own flag. An f32 in global memory has 28 bits of the value, and in its last four bits a tag: the
   number of its writing, modulo 16. A reader looks until the tag is the one it waits for. So a writer publishes
   nothing, and need not wait for the memory's answer. Readers must have read the data before its tag comes again. */
#ifndef TW_KERNELS_PARTS_FLAG_H
#define TW_KERNELS_PARTS_FLAG_H

#include "kernels/parts/counter.h"

enum {
    TW_FLAG_TAG = 15, /* The tag's bits. */
    TW_FLAG_WORDS = 8 /* The most addresses that are read at once. */
};

/* Stores an f32, rounded to 28 bits, with a tag (i32). A NaN stays a NaN. */
void tw_flag_store(tw_builder *b, tw_val address, tw_val x, tw_val tag);

/* A thread's elements. */
typedef struct tw_flag_words {
    int width;                     /* Elements at each address: 1 or 4. */
    tw_val tag;                    /* The tag to wait for (i32). */
    tw_val mask;                   /* The tag's bits that count (i32), 0 for data without tags. TW_NONE: all. */
    tw_val at[TW_FLAG_WORDS];      /* Addresses. */
    tw_val there[TW_FLAG_WORDS];   /* Predicates: the address is read. */
    tw_val word[TW_FLAG_WORDS][4]; /* tw_flag_poll sets them. Variables (i32): elements with their tags. */
} tw_flag_words;
/* Reads n addresses until all their elements have the tag, or until the thread gives up and leaves stale words. */
void tw_flag_poll(tw_builder *b, tw_flag_words *x, int n, const tw_patience *p);
/* Computes an element's value (f32). */
tw_val tw_flag_value(tw_builder *b, const tw_flag_words *x, int i, int e);

#endif

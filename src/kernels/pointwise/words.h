/* SPDX-License-Identifier: Apache-2.0 */
/* Words of maps and rows. An operand is "TYPE", which is dense, or "TYPE[s0,s1,...]" with a stride for each dimension.
   Behind that may come "@K*STRIDE/EXTENT": it is gathered by xK; ":BYTES", the alignment of its address, which is
   otherwise 16 bytes; and "!": its content is constant. */
#ifndef TW_KERNELS_POINTWISE_WORDS_H
#define TW_KERNELS_POINTWISE_WORDS_H

#include "kernels/pointwise/map.h"

/* A word that names an operand other than x0, x1, ... */
typedef struct tw_point_word {
    const char *name;
    tw_point_operand *o;
    bool *given; /* Gets whether the word was there. May be NULL. */
    bool vector; /* Without strides it lies along the last dimension, and is broadcast along the others. */
    bool row;    /* Without strides it has one element a row. */
} tw_point_word;

/* What a problem's words are: those of `x`, these operands, early, and others that `other` takes. */
typedef struct tw_point_words {
    tw_points *x;
    const tw_point_word *operands;
    int n;
    bool *early;
    /* Takes a word. False: it is unknown. *st gets what is wrong with a known one. May be NULL. */
    bool (*other)(void *context, const char *name, const char *value, tw_status *st, tw_diag *diag);
    void *context;
} tw_point_words;

/* Reads all words, which are overwritten. */
tw_status tw_point_words_parse(const tw_point_words *w, char *words, tw_diag *diag);
/* Writes all words but the others'. Returns the length without a cut. */
size_t tw_point_words_print(const tw_point_words *w, char *out, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the tape's rows with the activations in shared memory, on tensor cores. A warp takes its run of every
   unit's columns.

   Floats: 8 rows of weights are the k x 8 operand. An activation is the sum of two 16-bit floats, so that two products
   are as good as one with floats. Its upper half is in row g of the 16 x k operand, and the rest in row g + 8.

   Integers: 16 rows of weights are the 16 x k operand, as bytes. A nibble is the upper half of a byte, so its product
   is 16 times too large. An activation has three digits of base 256, and BLOCK activations share a scale. A position
   has four columns of the k x 8 operand, one for each digit and one that is not used. 64 columns of activations take
   256 bytes of shared memory, 64 bytes for each digit and 64 that are not used. Of a digit's 64 bytes, lane t has 16, a
   word for each run of 16 columns. Digits 0 and 1 change places in every other 64 columns, and so do digit 2 and the
   unused bytes, so that a warp stores 128 columns without bank conflicts. */
#ifndef TW_VM_CUDA_MULTIPLY_H
#define TW_VM_CUDA_MULTIPLY_H

#include "vm/cuda/generate.h"

/* The most independent sums of a unit. With integer weights a sum serves two positions. */
enum { TW_MEGA_SUMS = TW_MEGA_FRAGMENTS };
_Static_assert(2 * TW_MEGA_SUMS >= TW_CUDA_VM_TOKENS, "every two positions have sums");

typedef struct tw_mega_way tw_mega_way;
typedef struct tw_mega_multiply {
    tw_mega_gen *g;
    const tw_mega_format *f;
    const tw_mega_way *way;
    const tw_mega_units *u;
    tw_mega_stream *stream;
    tw_val ring;      /* Shared address of the lane's words in the ring's first stage. */
    tw_val scales;    /* Shared address of the lane's scales in the ring's first stage. */
    tw_val active;    /* Predicate: the lane's column of activations is in use. */
    tw_val x;         /* Shared address of the lane's first fragment of activations. */
    tw_val digit;     /* Integers: number of the lane's digit. */
    tw_val number[4]; /* Integers: TW_MEGA_NUMBER, to begin sums with. No compiler knows that the four are the same. */
    int sums;         /* Independent sums of a unit. */
    tw_val first;     /* The warp's first column of the chunk. */
    tw_val unit, stage;          /* Variables: numbers of the next unit and of its next stage. */
    tw_val acc[TW_MEGA_SUMS][4]; /* Variables: the unit's sums. */
} tw_mega_multiply;

/* The product of weights of one kind. */
struct tw_mega_way {
    void (*begin)(tw_mega_multiply *o); /* Computes the values that all stages use. */
    /* Adds the products of a stage's pieces `t`, whose first column is `from`, to the sums. */
    void (*multiply)(tw_mega_multiply *o, const tw_mega_taken *t, tw_val from);
    void (*leave)(tw_mega_multiply *o, const tw_mega_taken *t); /* Stores this warp's sums of a unit. */
};
extern const tw_mega_way tw_mega_floats, tw_mega_integers;
/* True if the activations of a stage are loaded before it, and kept while the next stage has the same columns. That is
   for integers of few positions. */
bool tw_mega_keeps(const tw_mega_multiply *o);
void tw_mega_load_kept(tw_mega_multiply *o, tw_val from);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the tape's rows with the activations in shared memory, on tensor cores. A warp takes its run of every
   unit's columns.

   Floats of 8 rows are the k x 8 operand. An activation is a sum of two 16-bit floats, an upper half and what that
   leaves, so that the sum of two products is as good as one with floats: positions' upper halves are rows g of the
   16 x k operand, the rest rows g + 8.

   Integers of 16 rows are the 16 x k operand, as bytes; nibbles are sixteen times too large. Activations are integers
   of three digits of base 256, with a scale for each BLOCK: of the k x 8 operand's columns a position has four, one for
   each digit and one that nobody looks at. In shared memory 64 columns take 256 bytes: 64 for each digit (and 64 for
   none), in which a lane's t has 16, a word for each run of 16 columns. The first two digits change places from 64
   columns to the next, and so do the other two, so that a warp's stores of 128 columns meet no bank twice. */
#ifndef TW_VM_CUDA_MULTIPLY_H
#define TW_VM_CUDA_MULTIPLY_H

#include "vm/cuda/generate.h"

enum { TW_MEGA_SUMS = TW_MEGA_FRAGMENTS /* independent ones of a unit; of integers one for every two positions */ };
_Static_assert(2 * TW_MEGA_SUMS >= TW_CUDA_VM_TOKENS, "every two positions have sums");

typedef struct tw_mega_multiply {
    tw_mega_gen *g;
    const tw_mega_format *f;
    const tw_mega_units *u;
    tw_mega_stream *stream;
    tw_val ring;      /* this lane's part of the first slot's first piece */
    tw_val scales;    /* of its scales */
    tw_val active;    /* the lane's column of activations is a position's; of integers a digit's */
    tw_val x;         /* address of this lane's first fragment in the activations */
    tw_val digit;     /* of integers: the lane's */
    tw_val number[4]; /* of integers: NUMBER, with which sums begin, as four that no compiler knows to be the same and
                         copies */
    tw_mma_kind mma;
    tw_type pair;
    int sums;
} tw_mega_multiply;

/* For floats, and for integers: what a unit's stages have in common; a stage, whose first column is `from` and whose
   pieces are `t`; and this warp's part of a unit's sums handed over. */
void tw_mega_begin_floats(tw_mega_multiply *o);
void tw_mega_multiply_floats(tw_mega_multiply *o, const tw_mega_taken *t, tw_val from, tw_val (*acc)[4]);
void tw_mega_leave_floats(tw_mega_multiply *o, tw_val unit, tw_val (*acc)[4]);
void tw_mega_begin_integers(tw_mega_multiply *o);
void tw_mega_multiply_integers(tw_mega_multiply *o, const tw_mega_taken *t, tw_val from, tw_val (*acc)[4]);
void tw_mega_leave_integers(tw_mega_multiply *o, tw_val unit, const tw_mega_taken *t, tw_val (*acc)[4]);
/* Integers keep the activations of few positions in registers, where a unit has one stage for all units: they are
   loaded beforehand. */
bool tw_mega_keeps(const tw_mega_multiply *o);
void tw_mega_load_kept(tw_mega_multiply *o, tw_val from);

#endif

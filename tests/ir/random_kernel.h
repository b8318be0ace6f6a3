/* SPDX-License-Identifier: Apache-2.0 */
/* Random kernels that the verifier accepts, over every operation of the table. The same options give the same kernel in
   programs of one compiler. */
#ifndef TW_TEST_RANDOM_KERNEL_H
#define TW_TEST_RANDOM_KERNEL_H

#include "ir/ir.h"

typedef struct random_kernel_options {
    uint64_t seed;
    int operations; /* about so many; 0: 100 */
    int target;     /* 0: any */
    /* Only what can be executed and gives the same result on every run: accesses within the buffers, nothing read
       before it is written, no races, no clocks. The parameters are then, in order: in   RANDOM_IN_BYTES of anything,
       read only out  RANDOM_OUT_BYTES for each thread of the grid (in x); thread i writes from i * RANDOM_OUT_BYTES on
         n    any i32
         x    any f32
       NaN is stored in one form alone, whatever arithmetic made of it. */
    bool runnable;
} random_kernel_options;

enum { RANDOM_IN_BYTES = 4096, RANDOM_OUT_SLOTS = 64, RANDOM_OUT_BYTES = RANDOM_OUT_SLOTS * 16 };

/* NULL: out of memory. Verified or not is for the test to say. */
tw_kernel *random_kernel(const random_kernel_options *o);

#endif

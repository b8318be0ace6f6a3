/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix in global memory as Hopper's copy engine reads it: boxes of it arrive in shared memory, row behind row. A
   kernel's parameter that is a tensor map is given as the host's address of one of these; a launch turns it into what
   the device understands, and the emulator reads it as it is. */
#ifndef TW_DEVICE_TENSOR_MAP_H
#define TW_DEVICE_TENSOR_MAP_H

#include <stdint.h>

enum { TW_TENSOR_MAP_BYTES = 128 }; /* as the device has it */

typedef struct tw_tensor_map {
    uint64_t address;  /* a multiple of 16 */
    int element_bytes; /* 1, 2, 4 or 8 */
    int64_t extent[2]; /* elements of a row, rows: below 2^32 */
    int64_t row_bytes; /* from row to row: a multiple of 16, below 2^40 */
    int box[2];        /* likewise, 256 at most; a box's row is a multiple of 16 bytes */
    int swizzle; /* 0: none; 32, 64, 128: pieces of 16 bytes change places as ir/wgmma.def says, and a box's row has as
                    many */
} tw_tensor_map;

#endif

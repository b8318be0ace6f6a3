/* SPDX-License-Identifier: Apache-2.0 */
/* An array in global memory as Hopper's copy engine reads and writes it: boxes of it come to shared memory and go back,
   row behind row. A kernel's parameter that is a tensor map is given as the host's address of one of these; a launch
   turns it into what the device understands, and the emulator reads it as it is. Dimensions are counted from the
   innermost, whose elements are neighbours. */
#ifndef TW_DEVICE_TENSOR_MAP_H
#define TW_DEVICE_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TW_TENSOR_MAP_BYTES = 128, /* as the device has it */
    TW_TENSOR_DIMS = 5,        /* at most */
};

/* The type of an element. Loads and stores move bits, and need its size alone; reductions compute in it. */
typedef enum tw_tensor_element {
    TW_TENSOR_U8,
    TW_TENSOR_U16,
    TW_TENSOR_U32,
    TW_TENSOR_S32,
    TW_TENSOR_U64,
    TW_TENSOR_S64,
    TW_TENSOR_F16,
    TW_TENSOR_F32,
    TW_TENSOR_F64,
    TW_TENSOR_BF16,
    TW_TENSOR_ELEMENTS
} tw_tensor_element;

typedef struct tw_tensor_map {
    uint64_t address; /* a multiple of 16 */
    tw_tensor_element element;
    int dims;                       /* 1 to 5; 3 to 5 with im2col */
    int64_t extent[TW_TENSOR_DIMS]; /* elements: 1 to 2^32 - 1 */
    int64_t stride[TW_TENSOR_DIMS]; /* Bytes between neighbours: a multiple of 16, below 2^40. [0] means nothing. */
    int step[TW_TENSOR_DIMS];       /* Every how many elements one is taken: 1 (or 0) to 8. [0] is 1. */
    int swizzle; /* 0: none; 32, 64, 128: pieces of 16 bytes change places as ir/wgmma.def says, and a row of a box has
                    as many bytes */
    bool im2col;
    /* Without im2col: the box's extent before steps, 256 at most. Its rows have a multiple of 16 bytes. */
    int box[TW_TENSOR_DIMS];
    /* With im2col the dimensions are channels, one to three of space, images. A box is `pixels` rows of `channels`
       elements. Its pixels follow one another, first along the innermost dimension of space, within a bounding box that
       begins at `lower` and ends with extent - 1 + `upper`; images follow images. A copy adds an offset to the place of
       every pixel. */
    int lower[TW_TENSOR_DIMS - 2], upper[TW_TENSOR_DIMS - 2];
    int channels /* 256 at most */, pixels /* 1024 at most */;
} tw_tensor_map;

int tw_tensor_element_bytes(tw_tensor_element e);
/* Whether a device takes it. */
bool tw_tensor_map_valid(const tw_tensor_map *m);
/* What a box has in shared memory, outside of the array included: rows, and bytes of one. */
int tw_tensor_map_rows(const tw_tensor_map *m);
int tw_tensor_map_row_bytes(const tw_tensor_map *m);
/* Every how many elements one is taken along a dimension, and how many of a box are. */
int tw_tensor_map_step(const tw_tensor_map *m, int dimension);
int tw_tensor_map_count(const tw_tensor_map *m, int dimension);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: arrays in global memory whose boxes Hopper's copy engine moves to and from shared memory. In shared
   memory the rows of a box follow one another. A launch takes the host's address of a tw_tensor_map for a parameter
   that is a tensor map. It encodes the map for a device; the emulator reads it as it is. Dimension 0 is the innermost,
   whose elements are contiguous. */
#ifndef TW_DEVICE_TENSOR_MAP_H
#define TW_DEVICE_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TW_TENSOR_MAP_BYTES = 128, /* Bytes of an encoded map. */
    TW_TENSOR_DIMS = 5,        /* The most dimensions. */
};

/* The type of an element. Loads and stores use only its size. Reductions compute in it. */
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
    uint64_t address; /* The first element's device address, a multiple of 16. */
    tw_tensor_element element;
    int dims;                       /* 1 to 5 dimensions; with im2col 3 to 5. */
    int64_t extent[TW_TENSOR_DIMS]; /* Elements in each dimension, 1 to 2^32 - 1. */
    int64_t stride[TW_TENSOR_DIMS]; /* Bytes to the next element: a multiple of 16, below 2^40. [0] is unused. */
    int step[TW_TENSOR_DIMS];       /* A box takes every step-th element, 1 to 8. 0 means 1. [0] is 1. */
    /* 0: none. 32, 64 or 128: the swizzle of that width (ir/wgmma.def), which a row of a box must have in bytes. */
    int swizzle;
    /* The dimensions are channels, one to three of space, and images. A box is `pixels` rows of `channels` elements.
       Pixels are counted within a bounding box, from its innermost dimension outwards; after its last pixel comes the
       next image. A copy may add an offset to the coordinates of all pixels. */
    bool im2col;
    int box[TW_TENSOR_DIMS]; /* Without im2col: elements that a box spans, at most 256. Rows are multiples of 16 bytes.
                              */
    int lower[TW_TENSOR_DIMS - 2]; /* With im2col: the first coordinate of the bounding box. */
    int upper[TW_TENSOR_DIMS - 2]; /* With im2col: the last coordinate of the bounding box less extent - 1. */
    int channels;                  /* With im2col: elements in a row, at most 256. */
    int pixels;                    /* With im2col: rows in a box, at most 1024. */
} tw_tensor_map;

int tw_tensor_element_bytes(tw_tensor_element e);
/* True if a device accepts the map. */
bool tw_tensor_map_valid(const tw_tensor_map *m);
/* Rows of a box in shared memory, and bytes of a row. Elements outside of the array count. */
int tw_tensor_map_rows(const tw_tensor_map *m);
int tw_tensor_map_row_bytes(const tw_tensor_map *m);
/* The step along a dimension, and how many elements a box takes along it. */
int tw_tensor_map_step(const tw_tensor_map *m, int dimension);
int tw_tensor_map_count(const tw_tensor_map *m, int dimension);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a launch, by the names of the kernel's parameters. The kernel's signature gives their order and sizes.
 */
#ifndef TW_KERNELS_ARGUMENTS_H
#define TW_KERNELS_ARGUMENTS_H

#include "device/tensor_map.h"
#include "ir/ir.h"

enum { TW_ARGUMENTS = 64, TW_ARGUMENT_MAPS = 8 };

typedef struct tw_argument {
    const char *name;
    uint64_t bits;            /* A number, or a device address. Unused by a tensor map. */
    const char *buffer;       /* Name of the buffer of the address or the tensor map. NULL: the argument is a number. */
    const tw_tensor_map *map; /* NULL: the argument is no tensor map. */
} tw_argument;

/* The arguments of a launch. Must not be copied, since arguments point to `maps`. */
typedef struct tw_arguments {
    tw_argument of[TW_ARGUMENTS];
    tw_tensor_map maps[TW_ARGUMENT_MAPS];
    int n, n_maps;
} tw_arguments;

/* The grid and the arguments of a launch. */
typedef struct tw_launch_values {
    int grid[3]; /* Blocks in each dimension. */
    int cluster; /* Blocks per cluster. 0 or 1: no clusters. */
    bool early;  /* The launch may begin before the one before it is over (tw_cuda_launch.programmatic). */
    tw_arguments arguments;
} tw_launch_values;

void tw_argument_number(tw_arguments *a, const char *name, int64_t value);
void tw_argument_float(tw_arguments *a, const char *name, double value, tw_type type); /* `type` is f32 or f64. */
void tw_argument_buffer(tw_arguments *a, const char *name, uint64_t address);
void tw_argument_map(tw_arguments *a, const char *name, const char *buffer, const tw_tensor_map *map);

/* Names and sizes of a kernel's parameters. It outlives the kernel. */
typedef struct tw_signature {
    char names[TW_ARGUMENTS][24];
    int bytes[TW_ARGUMENTS]; /* TW_TENSOR_MAP_BYTES: the parameter is a tensor map. */
    int n;
} tw_signature;
tw_signature tw_signature_of(const tw_kernel *k);

/* Finds the argument of parameter i, which must exist. */
const tw_argument *tw_argument_of(const tw_arguments *a, const tw_signature *s, int i);

/* Writes a word for each parameter, in order. The word of a tensor map is its address on the host. Every parameter must
   have an argument. */
void tw_arguments_place(const tw_arguments *a, const tw_signature *s, uint64_t *words);

#endif

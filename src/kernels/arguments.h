/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch gives the parameters of a kernel, by their names. The kernel's own list of parameters says in which
   order and in how many bytes. */
#ifndef TW_KERNELS_ARGUMENTS_H
#define TW_KERNELS_ARGUMENTS_H

#include "device/tensor_map.h"
#include "ir/ir.h"

enum { TW_ARGUMENTS = 64, TW_ARGUMENT_MAPS = 8 };

typedef struct tw_argument {
    const char *name;
    uint64_t bits;            /* a number, or an address on the device */
    const char *buffer;       /* whose address it is, or, of a map, lies at; NULL: no buffer's */
    const tw_tensor_map *map; /* NULL: none */
} tw_argument;

/* Maps may be pointed to: not to be copied. */
typedef struct tw_arguments {
    tw_argument of[TW_ARGUMENTS];
    tw_tensor_map maps[TW_ARGUMENT_MAPS];
    int n, n_maps;
} tw_arguments;

/* A launch: its blocks, and what the kernel's parameters are given. */
typedef struct tw_launch_values {
    int grid[3], cluster; /* blocks of a cluster; 0 or 1: none */
    tw_arguments arguments;
} tw_launch_values;

void tw_argument_number(tw_arguments *a, const char *name, int64_t value);
void tw_argument_float(tw_arguments *a, const char *name, double value, tw_type type); /* f32 or f64 */
void tw_argument_buffer(tw_arguments *a, const char *name, uint64_t address);
void tw_argument_map(tw_arguments *a, const char *name, const char *buffer, const tw_tensor_map *map);

/* A kernel's parameters, apart from the kernel. */
typedef struct tw_signature {
    char names[TW_ARGUMENTS][24];
    int bytes[TW_ARGUMENTS]; /* TW_TENSOR_MAP_BYTES says that it is a tensor map */
    int n;
} tw_signature;
tw_signature tw_signature_of(const tw_kernel *k);

/* One word a parameter, in their order; of a tensor map, its address on the host. Every parameter must have an
   argument: what lacks one is our own mistake, and asserts. */
void tw_arguments_place(const tw_arguments *a, const tw_signature *s, uint64_t *words);

#endif

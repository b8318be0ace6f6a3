/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format: eight bytes of header length, a JSON header, the data. Parsed from memory, which the
   tensors then point into. */
#ifndef TW_MODEL_SAFETENSORS_H
#define TW_MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "tilewright/base.h"

enum { TW_TENSOR_RANK = 8 };

typedef struct tw_tensor {
    const char *name;
    const char *type; /* as the format spells it: "BF16", "I64", ... */
    bool is_weight;   /* F32, F16 or BF16: `dtype` holds */
    tw_dtype dtype;
    int rank;
    int64_t shape[TW_TENSOR_RANK];
    int64_t elements, bytes;
    const unsigned char *data; /* not aligned */
    int file;                  /* index of the shard */
    bool used;                 /* the importer's mark */
} tw_tensor;

typedef struct tw_tensors {
    tw_tensor *items; /* sorted by name */
    size_t count;
} tw_tensors;

/* Reads the header of a whole file of `size` bytes at `data`, which must outlive the tensors; `path` is for the
   diagnostic, whose offset is that of the entry at fault. Refused (TW_ERR_FORMAT) are headers that lie about the file:
   lengths beyond it, entries that overlap or leave holes, sizes that are not shape times element, unknown types. */
tw_status tw_safetensors_parse(tw_tensors *out, tw_arena *arena, const void *data, size_t size, const char *path,
                               tw_diag *diag);

void tw_tensors_sort(tw_tensors *t);
tw_tensor *tw_tensors_find(const tw_tensors *t, const char *name); /* NULL when there is none */

#endif

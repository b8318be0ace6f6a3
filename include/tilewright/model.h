/* SPDX-License-Identifier: Apache-2.0 */
/* Models: a Hugging Face directory, opened, understood whole, or refused with every reason. */
#ifndef TILEWRIGHT_MODEL_H
#define TILEWRIGHT_MODEL_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_model tw_model;

/* Opens a directory with config.json, model.safetensors (or model.safetensors.index.json and its shards) and, when
   there, generation_config.json. Weights are mapped, not read. A model is accepted only if every tensor is used,
   every needed one is there with its shape, and every config field that changes the arithmetic is understood;
   otherwise TW_ERR_UNSUPPORTED (or TW_ERR_FORMAT) with one reason a line. The caller closes the model. */
tw_status tw_model_open(tw_model **out, const char *directory, tw_diag *diag);

/* A model of a known shape with random weights, made as they are read, not stored: "llama-1b", "llama-8b",
   "qwen3-0.6b", ... `dtype` is TW_F32, TW_F16 or TW_BF16. An unknown name fails and lists those there are. */
tw_status tw_model_synthetic(tw_model **out, const char *shape, tw_dtype dtype, uint64_t seed, tw_diag *diag);

/* The names that tw_model_synthetic knows; NULL after the last. */
const char *tw_model_shape_name(int i);

void tw_model_close(tw_model *model); /* NULL is fine */

/* Plain facts for callers outside the library. */
typedef struct tw_model_info {
    const char *family; /* "llama", "qwen2", ...; owned by the model, as is `name` */
    const char *name;   /* the directory, or the shape */
    tw_dtype dtype;     /* of the weight matrices as stored */
    int64_t layers, dim, heads, kv_heads, head_dim, vocab, max_seq, experts;
    int64_t parameters;   /* elements stored, shared ones counted once */
    int64_t weight_bytes; /* as stored */
    /* Bytes of matrices that one decoded token streams (the embedding is gathered, not streamed; of a mixture's
       experts only those a token uses). */
    int64_t streamed_bytes;
} tw_model_info;

void tw_model_describe(const tw_model *model, tw_model_info *info);

/* Counts the elements of all weights that are NaN or infinite. Reads every weight once. *first is the name of the first
   weight with such an element, owned by the model, or NULL if there is none. `first` may be NULL. */
int64_t tw_model_count_nonfinite(const tw_model *model, const char **first);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

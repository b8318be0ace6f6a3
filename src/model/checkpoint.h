/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a Hugging Face directory: one safetensors file, or an index and its shards, mapped. */
#ifndef TW_MODEL_CHECKPOINT_H
#define TW_MODEL_CHECKPOINT_H

#include "base/file.h"
#include "model/reasons.h"
#include "model/safetensors.h"

typedef struct tw_checkpoint {
    tw_map *maps; /* in the arena; tw_checkpoint_close unmaps them */
    const char **files;
    int n_files;
    tw_tensors tensors; /* of all shards, sorted by name */
} tw_checkpoint;

/* A file that is not what the format says is returned at once, located. Files that are missing, and shards that are not
   what the index says, become reasons; where a file is missing none is mapped, and n_files is 0. */
tw_status tw_checkpoint_open(tw_checkpoint *c, tw_arena *arena, const char *directory, tw_reasons *reasons);
void tw_checkpoint_close(tw_checkpoint *c);

#endif

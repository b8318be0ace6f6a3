/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CLI_TUNE_MODEL_H
#define TW_CLI_TUNE_MODEL_H

#include <stdbool.h>

/* Tunes the products of the prompts of the model `path` on this processor. Each is measured as our kernel and as each
   vendor computes it. An artefact lists them, one for each storage format of weights, and is kept in the user's cache
   folder if the running model is not slower with it. `store` NULL: tuned.db. `threads` 0: all cores. Returns the exit
   status. */
int cli_tune_model(const char *path, const char *store, int threads, bool json);

#endif

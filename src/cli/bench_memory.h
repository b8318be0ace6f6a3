/* SPDX-License-Identifier: Apache-2.0 */
/* What `bench` says of memory. */
#ifndef TW_CLI_BENCH_MEMORY_H
#define TW_CLI_BENCH_MEMORY_H

#include "tilewright/engine.h"

#include <jansson.h>

/* The engine's memory in a line behind the table. */
void cli_bench_memory_print(const tw_engine *e);
/* The same as fields of a row's object. NULL: does nothing. */
void cli_bench_memory_add(json_t *row, const tw_engine *e);

#endif

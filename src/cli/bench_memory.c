/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/bench_memory.h"

#include <stdio.h>

void cli_bench_memory_print(const tw_engine *e) {
    const tw_engine_memory m = tw_engine_memory_of(e);
    printf("\n%s: %.3f GB at most; weights %.3f GB, keys and values %.3f GB\n",
           tw_engine_on_gpu(e) ? "the GPU's memory" : "resident", (double)m.peak / 1e9, (double)m.weights / 1e9,
           (double)m.caches / 1e9);
}

void cli_bench_memory_add(json_t *row, const tw_engine *e) {
    const tw_engine_memory m = tw_engine_memory_of(e);
    json_t *fields = json_pack("{s:I, s:I, s:I}", "peak_bytes", (json_int_t)m.peak, "weight_bytes",
                               (json_int_t)m.weights, "cache_bytes", (json_int_t)m.caches);
    if (row && fields) json_object_update(row, fields);
    json_decref(fields);
}

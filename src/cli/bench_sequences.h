/* SPDX-License-Identifier: Apache-2.0 */
/* `bench --sequences`: prompts and tokens of several sequences together. */
#ifndef TW_CLI_BENCH_SEQUENCES_H
#define TW_CLI_BENCH_SEQUENCES_H

#include "cli/cli.h"

typedef struct cli_bench_sequences {
    int64_t sequences;   /* Number of sequences. */
    int64_t prompt, n;   /* Ids of each prompt, and tokens of each that are timed. */
    int64_t repetitions; /* At most 100. */
    const char *weights; /* "native", "int8" or "int4". */
    const char *format;  /* "md", "csv" or "json". */
} cli_bench_sequences;

/* Measures and prints. TW_ERR_UNSUPPORTED: the machine decodes fewer sequences together. */
tw_status cli_bench_sequences_run(const cli_bench_sequences *o, const tw_model *model, const tw_engine_options *options,
                                  tw_diag *d);

#endif

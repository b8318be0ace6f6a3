/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CLI_BENCH_GEMM_H
#define TW_CLI_BENCH_GEMM_H

#include "cli/cli.h"

/* "bench gemm": flags and objects after the word gemm; returns the exit status. */
int cli_bench_gemm(int argc, char **argv);

#endif

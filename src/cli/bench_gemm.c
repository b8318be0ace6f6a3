/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright bench gemm`: the fastest own kernels for a product beside cuBLASLt, in one run. */
#include "cli/bench_gemm.h"

#include "base/stats.h"
#include "kernels/gemm/search.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINALISTS = 6, FINAL_ROUNDS = 24 };

/* Paper 002's table 4; layouts are those of row-major matrices. */
static const struct {
    const char *name;
    int m, n, k;
    bool trans_a, trans_b;
} table4[] = {
    {"linpack-512", 512, 512, 512, false, true},
    {"linpack-1024", 1024, 1024, 1024, false, true},
    {"linpack-2048", 2048, 2048, 2048, false, true},
    {"deepbench-f-16", 2560, 16, 2560, false, false},
    {"deepbench-f-32", 2560, 32, 2560, false, false},
    {"deepbench-f-64", 2560, 64, 2560, false, false},
    {"deepbench-f-128", 2560, 128, 2560, false, false},
    {"deepbench-b-16", 2560, 16, 2560, true, false},
    {"deepbench-b-32", 2560, 32, 2560, true, false},
    {"deepbench-b-64", 2560, 64, 2560, true, false},
    {"deepbench-b-128", 2560, 128, 2560, true, false},
    {"ica-32", 32, 32, 60000, false, true},
    {"ica-64", 64, 64, 60000, false, true},
    {"ica-256", 256, 256, 60000, false, true},
    {"lapack-4096", 4096, 4096, 32, false, true},
    {"lapack-3456", 3456, 3456, 32, false, true},
    {"lapack-896", 896, 896, 32, false, true},
};

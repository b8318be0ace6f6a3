/* SPDX-License-Identifier: Apache-2.0 */
/* C += A * B of one mma. Compiled once for each instruction set, with EMU_PRODUCT the name of the function that is
   made: products of all types but f64 are exact in double, so contracting them or not gives the same sums. */
#include "emu/machine.h"

#include <math.h>

void EMU_PRODUCT(const tw_mma_info *m, double a[EMU_M][EMU_K], double b[EMU_K][EMU_N], double c[EMU_M][EMU_N]) {
    for (int i = 0; i < m->m; i++) {
        double sum[EMU_N];
        memcpy(sum, c[i], sizeof sum);
        for (int k = 0; k < m->k; k++)
            for (int j = 0; j < EMU_N; j++) sum[j] = EMU_FMA(m, a[i][k], b[k][j], sum[j]);
        memcpy(c[i], sum, sizeof sum);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a tw_mlp_layer_fn. Each instruction set's file defines these names and includes it:
     LAYER         name of the function
     VECTOR        vector type of LANES floats
     AT_ONCE       units that are summed at once, with two vectors of sums each; these must fit in registers
     FMA(a, b, c)  a * b + c, lane by lane
     SPREAD(x)     vector with x in each lane
     POSITIVE(v)   v with 0 in place of negative lanes
     ANY(v)        true if a lane is not 0 */
#include "tune/mlp_layer.h"

int LAYER(const tw_mlp_layer *l, const float *x, const int *live, int n, float *y, int *next) {
    int count = 0;
    for (int first = 0; first < l->units; first += AT_ONCE) {
        const float *w = l->weights + (int64_t)(first / TW_MLP_UNITS) * l->inputs * TW_MLP_UNITS + first % TW_MLP_UNITS;
        bool any[AT_ONCE] = {false};
        for (int row = 0; row < TW_MLP_ROWS; row += 2 * LANES) {
            VECTOR sum[AT_ONCE][2];
            for (int u = 0; u < AT_ONCE; u++) sum[u][0] = sum[u][1] = SPREAD(l->bias[first + u]);
            for (int i = 0; i < n; i++) {
                const VECTOR *at = (const VECTOR *)(x + (int64_t)live[i] * TW_MLP_ROWS + row);
                const VECTOR a = at[0], b = at[1];
                const float *of = w + (int64_t)live[i] * TW_MLP_UNITS;
                for (int u = 0; u < AT_ONCE; u++) {
                    const VECTOR s = SPREAD(of[u]);
                    sum[u][0] = FMA(s, a, sum[u][0]);
                    sum[u][1] = FMA(s, b, sum[u][1]);
                }
            }
            for (int u = 0; u < AT_ONCE; u++)
                for (int v = 0; v < 2; v++) {
                    const VECTOR r = l->rectify ? POSITIVE(sum[u][v]) : sum[u][v];
                    any[u] |= ANY(r);
                    *(VECTOR *)(y + (int64_t)(first + u) * TW_MLP_ROWS + row + v * LANES) = r;
                }
        }
        for (int u = 0; u < AT_ONCE; u++)
            if (any[u]) next[count++] = first + u;
    }
    return count;
}

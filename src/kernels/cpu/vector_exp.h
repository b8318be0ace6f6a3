/* SPDX-License-Identifier: Apache-2.0 */
/* e^x in a vector, for each vector_*.h included before it: relative error below 2e-7, 0 and infinity beyond float's
   range, NaN kept. The polynomial is the Chebyshev interpolant of degree 6 on +-ln 2 / 2 (relative error 2.0e-8). */
#ifndef TW_KERNELS_CPU_VECTOR_EXP_H
#define TW_KERNELS_CPU_VECTOR_EXP_H

#include "device/cpu/unroll.h"

static inline vf v_exp(vf x) {
    static const float c[] = {1.0f, 1.0f, 0.5f, 0.166664138f, 0.0416663513f, 0.00837529451f, 0.0013941318f};
    x = v_min(v_set(89.0f), v_max(v_set(-110.0f), x));
    vf n = v_round(v_mul(x, v_set(1.44269504f)));
    /* ln 2 in two parts, the first short enough that n times it is exact. */
    vf r = v_fnma(n, v_set(0.693145752f), x);
    r = v_fnma(n, v_set(1.42860677e-6f), r);
    vf p = v_set(c[6]);
    TW_UNROLL for (int i = 5; i >= 0; i--) p = v_fma(p, r, v_set(c[i]));
    return v_scale2(p, n);
}

#endif

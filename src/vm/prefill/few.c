/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of products of few rows, which take as long as memory needs to read the weights. The weights have the tensor
   cores' 64 rows, so that hardly any of a tile is padding. Where there are fewer tiles than multiprocessors, the blocks
   of a cluster share the columns of k of each: no multiprocessor reads as fast as memory can. A multiprocessor has room
   for another block, which fetches weights while the first one stores: one of the next launch, too. */
#include "base/divide.h"
#include "vm/prefill/program.h"
#include "vm/prefill/qkv.h"

enum { ROWS = 8 /* The fewest that a tile has. */, WEIGHTS = 64, TOGETHER = 2 /* Blocks of a multiprocessor. */ };

/* Makes a tile whose columns of k are shared by kg blocks. */
static tw_gemm_config tile_of(int u, int kg) {
    return (tw_gemm_config){.mma = 2,
                            .ml = WEIGHTS,
                            .ms = WEIGHTS,
                            .nl = ROWS,
                            .ns = ROWS,
                            .u = u,
                            .ks = 1,
                            .kl = 1,
                            .kg = kg,
                            .split = kg > 1 ? TW_JOIN_CLUSTER : 0,
                            .vec = 16,
                            .frag = 16,
                            .swap = 1,
                            .group = 1,
                            .blocks = TOGETHER};
}

bool tw_prefill_few(const tw_gemm_problem *p, const tw_prefill_shape *rope, const tw_target *target, int sms,
                    tw_gemm_config *out) {
    enum { MOST = 4 /* Blocks of a tile. */, STEPS = 2 /* The least of a block. */ };
    if (p->m > ROWS || p->groups) return false;
    const int64_t tiles = tw_ceil_div(p->n, WEIGHTS) * p->batch;
    for (int u = 128; u >= 64; u /= 2)
        for (int kg = MOST; kg >= 1; kg--) {
            tw_gemm_config c = tile_of(u, kg);
            if (kg > 1 && (tiles * kg > sms || tw_gemm_depth(p) < (int64_t)STEPS * kg * u)) continue;
            if ((rope && !tw_prefill_qkv_fits(rope, &c)) || !tw_prefill_complete(p, target, &c)) continue;
            *out = c;
            return true;
        }
    return false;
}

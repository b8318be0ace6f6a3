/* SPDX-License-Identifier: Apache-2.0 */
/* Template: gemv on float formats, compiled once for each vector_*.h included before it. */
#include "device/cpu/unroll.h"
#include "kernels/cpu/variants.h"

enum {
    SPLIT = TW_PANEL_ROWS / LANES, /* vectors a column */
    STREAMS = LANES == 16 ? 4 : 1, /* panels read side by side: one core alone asks for 4 streams' worth of memory */
    CHAINS = 4,                    /* columns whose sums are kept apart, to hide the latency of the multiply-add */
    /* The hardware's streams stop at every 4 KiB; asking ahead of them is worth 5 to 10 % of the bandwidth. */
    AHEAD = 8192 / STREAMS
};

/* The SPLIT vectors of columns k and k + 1. */
static inline __attribute__((always_inline)) void load_pair(tw_dtype t, const char *data, int64_t k, vf w[2][SPLIT]) {
    TW_UNROLL for (int s = 0; s < SPLIT; s++) {
        int64_t at = k * TW_PANEL_ROWS + s * LANES;
        if (t == TW_F32) {
            w[0][s] = v_load((const float *)(const void *)data + at);
            w[1][s] = v_load((const float *)(const void *)data + at + TW_PANEL_ROWS);
        } else if (t == TW_F16) {
            w[0][s] = v_load_f16(data + 2 * at);
            w[1][s] = v_load_f16(data + 2 * (at + TW_PANEL_ROWS));
        } else {
            vi bits = v_load_bits(data + 2 * (k * TW_PANEL_ROWS + 2 * s * LANES));
            w[0][s] = v_even_bf16(bits);
            w[1][s] = v_odd_bf16(bits);
        }
    }
}

/* `streams` panels, `apart` bytes from one another, step by step in turn. Each panel's sums are in the same order
   however many are summed together. */
static inline __attribute__((always_inline)) void gemv_panels(tw_dtype t, int streams, const char *data, int64_t apart,
                                                              int64_t cols, const float *x, float *y, int64_t y_apart) {
    vf acc[STREAMS][CHAINS][SPLIT], w[2][SPLIT];
    const int64_t bytes = t == TW_F32 ? 64 : 32; /* a column */
    TW_UNROLL for (int p = 0; p < streams; p++) {
        TW_UNROLL for (int c = 0; c < CHAINS; c++) {
            TW_UNROLL for (int s = 0; s < SPLIT; s++) acc[p][c][s] = v_zero();
        }
    }
    for (int64_t k = 0; k < cols; k += TW_PANEL_K) {
        TW_UNROLL for (int p = 0; p < streams; p++) {
            const char *panel = data + p * apart;
            TW_UNROLL for (int64_t b = 0; b < TW_PANEL_K * bytes; b += 64)
                _mm_prefetch(panel + k * bytes + AHEAD + b, _MM_HINT_T0);
            TW_UNROLL for (int c = 0; c < TW_PANEL_K; c += 2) {
                load_pair(t, panel, k + c, w);
                TW_UNROLL for (int s = 0; s < SPLIT; s++) {
                    acc[p][c % CHAINS][s] = v_fma(w[0][s], v_set(x[k + c]), acc[p][c % CHAINS][s]);
                    acc[p][c % CHAINS + 1][s] = v_fma(w[1][s], v_set(x[k + c + 1]), acc[p][c % CHAINS + 1][s]);
                }
            }
        }
    }
    TW_UNROLL for (int p = 0; p < streams; p++) {
        TW_UNROLL for (int s = 0; s < SPLIT; s++) v_store(
            y + p * y_apart + s * LANES, v_add(v_add(acc[p][0][s], acc[p][1][s]), v_add(acc[p][2][s], acc[p][3][s])));
    }
}

static inline __attribute__((always_inline)) void gemv_type(tw_dtype t, const char *panels, int64_t n, int64_t bytes,
                                                            int64_t cols, const float *x, float *y) {
    /* Far apart, so that each is a stream of its own to the memory. */
    const int64_t each = n / STREAMS;
    for (int64_t p = 0; p < each; p++)
        gemv_panels(t, STREAMS, panels + p * bytes, each * bytes, cols, x, y + p * TW_PANEL_ROWS, each * TW_PANEL_ROWS);
    for (int64_t p = each * STREAMS; p < n; p++)
        gemv_panels(t, 1, panels + p * bytes, 0, cols, x, y + p * TW_PANEL_ROWS, 0);
}

void VARIANT(tw_gemv_float)(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                            float *y) {
    const int64_t bytes = (int64_t)tw_panel_bytes(f, cols), padded = tw_panel_cols(f, cols);
    if (f.dtype == TW_F32)
        gemv_type(TW_F32, panels, n_panels, bytes, padded, x, y);
    else if (f.dtype == TW_F16)
        gemv_type(TW_F16, panels, n_panels, bytes, padded, x, y);
    else
        gemv_type(TW_BF16, panels, n_panels, bytes, padded, x, y);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's kernels: one table of functions per instruction-set mask, plain C where nothing better fits. Variants are
   found once, best first (kernels.c), never through globals. All arithmetic is float, or exact integers that are
   scaled in float; nothing is accumulated in less. */
#ifndef TW_KERNELS_CPU_KERNELS_H
#define TW_KERNELS_CPU_KERNELS_H

#include "kernels/cpu/panel.h"
#include "kernels/cpu/split.h"
#include "kernels/rows/rows.h"
#include "tilewright/device.h"

/* y[16 p + r] = row r of panel p . x, for n_panels panels that follow each other; y is overwritten.
   `x` is what the table's `prepare` for this format made of K floats. */
typedef void tw_gemv_fn(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x, float *y);

/* Lays K floats out for gemv: for float formats the floats themselves, padded with zeros; for integer formats 24-bit
   fixed point per block of columns (error at most 2^-23 of the block's largest), in the order the kernel reads.
   `out` is 64-byte aligned and has prepared_bytes(f, cols). */
typedef void tw_prepare_fn(tw_panel_format f, const float *x, int64_t cols, void *out);
typedef size_t tw_prepared_bytes_fn(tw_panel_format f, int64_t cols);

/* Is told as soon as a part of a product is final, while it lies in a near cache: rows row .. row + rows - 1 of columns
   col .. col + cols - 1. Parts are disjoint and together are everything; a part begins at a multiple of
   TW_SINK_COLS columns and has as many, or ends the product. */
enum { TW_SINK_COLS = 512 };
typedef struct tw_gemm_sink {
    void (*take)(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols);
    void *context;
} tw_gemm_sink;

/* The blocks of a product that stay in caches. Kernels with AMX and in plain C choose their own. */
typedef struct tw_gemm_blocking {
    int span; /* Columns of x and W in a block, a multiple of 256. 0: 2048. */
    int rows; /* Rows of x in a block, a multiple of 12. 0: 48. */
} tw_gemm_blocking;

/* y[m][16 p + r] = row r of panel p . x[m] for m < rows; x is rows x cols with stride ldx, y has stride ldy; y is
   overwritten, n_panels * 16 columns of it. `sink` may be NULL. `scratch` is 64-byte aligned and has scratch_bytes. */
typedef void tw_gemm_fn(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const float *x,
                        int64_t ldx, int64_t rows, float *y, int64_t ldy, tw_gemm_blocking by, const tw_gemm_sink *sink,
                        void *scratch);
typedef size_t tw_gemm_scratch_fn(tw_panel_format f, int64_t n_panels, int64_t cols, int64_t rows, tw_gemm_blocking by);

enum { TW_PACKED_TILE = 16 /* Rows of x that are packed together. */ };

/* Lays rows of x out as `terms` terms of bf16, once for all products that x enters. 1: x is rounded to bf16. 2: what is
   left is rounded as well, and each float is within 2^-17 of itself; for weights of f32 a third term has the rest, and
   with 1 the other terms are zeros (split.h). TW_PACK_BYTES: x is rounded to integers of 8 bits
   for weights of format `f`, which are integers. TW_PACKED_TILE rows that follow each other in x do so in `out`, which
   has pack_bytes(f, rows, cols, terms) and is 64-byte aligned. */
enum { TW_PACK_BYTES = 0 };
typedef void tw_gemm_pack_fn(tw_panel_format f, const float *x, int64_t ldx, int64_t rows, int64_t cols, int terms,
                             void *out);
typedef size_t tw_gemm_pack_bytes_fn(tw_panel_format f, int64_t rows, int64_t cols, int terms);

/* Columns of x that share a scale where x is integers of 8 bits. */
static inline int64_t tw_byte_block(tw_panel_format f) {
    return f.group ? f.group : 128;
}

/* The scale of such a block: x is integers of -127 to 127, the nearest to x * inverse, times `scale`. */
typedef struct tw_byte_scale {
    float scale, inverse;
} tw_byte_scale;

/* Finds a block's scale from its largest magnitude. NaN if that is NaN: every sum that x enters is NaN then. */
static inline tw_byte_scale tw_byte_scale_of(float largest) {
    const float most = largest < 0x1p-100f ? 0x1p-100f : largest;
    return (tw_byte_scale){most / 127, 127 / most};
}

/* Does what tw_gemm_fn does, with packed x. `scratch` is 64-byte aligned and has packed_scratch(f). */
typedef void tw_gemm_packed_fn(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                               int64_t rows, int terms, float *y, int64_t ldy, const tw_gemm_sink *sink, void *scratch);
typedef size_t tw_gemm_packed_scratch_fn(tw_panel_format f);

/* Attention of one query head over one kv head, for `n` consecutive tokens at positions pos .. pos + n - 1 whose keys
   and values are already in the cache.
     q    n x dim, stride ldq     k, v  max_seq x dim, contiguous
     out  n x dim, stride ldo
   Token i sees positions max(0, pos + i + 1 - window) .. pos + i (window 0: from 0), cut to [first, last).
   softmax(scale q.k) v, of scores s that a cap other than 0 makes cap * tanh(s / cap); when `partial` is given, out is
   left unnormalised relative to partial[2 i] = the largest score and partial[2 i + 1] = the sum of exponentials, so
   that parts can be merged; a token that sees nothing has -INFINITY and 0 there and zeros in out. */
typedef struct tw_attention {
    const float *q, *k, *v;
    float *out, *partial;
    int64_t ldq, ldo, dim, pos, n, window, first, last;
    float scale, cap;
    int terms;     /* 1: a matrix unit may round all operands to bf16. Otherwise they have two terms of it there. */
    void *scratch; /* attention_scratch(dim, n, last - first), 64-byte aligned */
} tw_attention;
typedef void tw_attention_fn(const tw_attention *a);
typedef size_t tw_attention_scratch_fn(int64_t dim, int64_t n, int64_t span);

/* What a product is computed on: a unit, and how many of its products stand for one multiply-add in float. */
typedef struct tw_kernel_unit {
    tw_cpu_unit unit;
    int passes;
} tw_kernel_unit;

/* How far an activation may be from the one that such a unit multiplies, relative to it. */
static inline double tw_kernel_unit_error(tw_kernel_unit u) {
    if (u.unit != TW_CPU_UNIT_AMX_BF16 || u.passes == TW_SPLIT_PASSES) return 0;
    return u.passes > 1 ? 0x1p-17 : 0x1p-8;
}

typedef struct tw_kernels {
    uint32_t isa;
    tw_prepared_bytes_fn *prepared_bytes[TW_DTYPE_COUNT];
    tw_prepare_fn *prepare[TW_DTYPE_COUNT];
    tw_gemv_fn *gemv[TW_DTYPE_COUNT];
    tw_gemm_fn *gemm[TW_DTYPE_COUNT];
    tw_gemm_scratch_fn *gemm_scratch[TW_DTYPE_COUNT];
    const char *gemv_name[TW_DTYPE_COUNT], *gemm_name[TW_DTYPE_COUNT]; /* "avx512vnni", ... */
    tw_kernel_unit gemv_unit[TW_DTYPE_COUNT], gemm_unit[TW_DTYPE_COUNT];
    tw_gemm_packed_fn *gemm_packed[TW_DTYPE_COUNT]; /* NULL: x is not packed for these weights. */
    int64_t packed_rows[TW_DTYPE_COUNT];            /* The fewest rows for which x is packed. */
    tw_gemm_pack_fn *gemm_pack;                     /* NULL where no weights have gemm_packed. */
    tw_gemm_pack_bytes_fn *gemm_pack_bytes;
    tw_gemm_packed_scratch_fn *gemm_packed_scratch;
    const tw_split_kernels *split; /* NULL: products of f32 are computed in f32 alone. */
    tw_attention_fn *attention;
    const char *attention_name; /* "amx", ... */
    tw_attention_scratch_fn *attention_scratch;
    /* y = x / rms(x) * w */
    void (*norm_rms)(const float *x, const float *w, float eps, int64_t n, float *y);
    /* y = (x - mean) / sqrt(var + eps) * w + b */
    void (*norm_layer)(const float *x, const float *w, const float *b, float eps, int64_t n, float *y);
    void (*silu_mul)(const float *gate, const float *up, int64_t n, float *y); /* y may be gate or up */
    void (*gelu)(const float *x, int64_t n, float *y);                         /* erf */
    void (*gelu_tanh)(const float *x, int64_t n, float *y);
    void (*add)(float *y, const float *x, int64_t n);           /* y += x */
    void (*axpy)(float *y, const float *x, float a, int64_t n); /* y += a x */
    /* x = e^(scale x + bias - the largest of them); returns their sum. Without any number it is 0. `bias` may be NULL.
     */
    float (*soften)(float *x, float scale, const float *bias, int64_t n);
    int64_t (*argmax)(const float *x, int64_t n); /* the first of the largest; NaN never wins */
    tw_map_fn *map;                               /* kernels/pointwise/map.h */
    tw_rows_fn *rows;                             /* kernels/rows/rows.h */
} tw_kernels;

/* The best of everything within `isa`, which the processor must have. */
void tw_kernels_choose(tw_kernels *k, uint32_t isa);

/* Products alone, of any processor's sets: what would run there. */
void tw_kernels_choose_products(tw_kernels *k, uint32_t isa);

#endif

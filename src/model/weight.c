/* SPDX-License-Identifier: Apache-2.0 */
/* Reading weights: from the mapped file, or made from a seed. */
#include "base/dtype.h"
#include "model/model.h"

enum { BLOCK = 512 /* elements made at a time; a multiple of LANES */, LANES = 8 /* elements a 64-bit word gives */ };

/* The word of elements [8 i, 8 i + 8): splitmix64's finisher on a Weyl sequence, so any word stands alone. */
static inline uint64_t word(uint64_t seed, uint64_t i) {
    uint64_t z = seed + i * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Elements [first, first + count) as float, before they are rounded to the stored type. A byte b stands for
   (2 b + 1) / 256: odd and of eight bits, so that it is exact in every type once scaled by a power of two. */
static void make(const tw_weight *w, uint64_t first, int64_t count, float *out) {
    uint64_t words[BLOCK / LANES + 1];
    int skip = (int)(first % LANES);
    int64_t n_words = (skip + count + LANES - 1) / LANES;
    for (int64_t i = 0; i < n_words; i++) words[i] = word(w->seed, first / LANES + (uint64_t)i);
    const int8_t *bytes = (const int8_t *)words + skip;
    float scale = w->scale / 128, offset = w->offset + w->scale / 256;
    for (int64_t i = 0; i < count; i++) out[i] = offset + scale * (float)bytes[i];
}

/* Branch-free, so that it is vectorised: the general conversion costs more than making the number. */
static inline uint16_t to_f16(float f) {
    uint32_t u = tw_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    uint32_t small = tw_f32_bits(tw_bits_f32(a) + 0.5f) - 0x3f000000u; /* rounds at 2^-24 */
    return (uint16_t)(sign | (a < 0x38800000u ? small : normal));
}

static void make_raw(const tw_weight *w, uint64_t first, int64_t count, void *out) {
    float f[BLOCK];
    uint16_t h[BLOCK];
    make(w, first, count, f);
    if (w->dtype == TW_F32) {
        memcpy(out, f, (size_t)count * 4);
        return;
    }
    if (w->dtype == TW_F16)
        for (int64_t i = 0; i < count; i++) h[i] = to_f16(f[i]);
    else
        for (int64_t i = 0; i < count; i++) h[i] = tw_f32_to_bf16(f[i]);
    memcpy(out, h, (size_t)count * 2);
}

/* Whether every element is a float that the stored type holds: no offset, and a scale that is a power of two and not
   so small that f16 would lose the last bit. All matrices are so. */
static bool is_exact(const tw_weight *w) {
    return w->dtype == TW_F32 || (w->offset == 0 && !(tw_f32_bits(w->scale) & 0x7fffffu) && w->scale >= 0x1p-16f);
}

/* A read of a synthetic weight, which is contiguous in its rows. */
static void synthesise(const tw_weight *w, int64_t row, int64_t col, int64_t count, void *out, bool raw) {
    uint64_t first = (uint64_t)(row * w->row_stride + col);
    size_t size = tw_dtype_bits(w->dtype) / 8;
    bool exact = is_exact(w);
    uint16_t h[BLOCK];
    while (count > 0) {
        int64_t n = count < BLOCK ? count : BLOCK;
        if (raw)
            make_raw(w, first, n, out);
        else if (exact)
            make(w, first, n, out);
        else {
            make_raw(w, first, n, h);
            tw_to_f32(w->dtype, h, out, (size_t)n);
        }
        out = (char *)out + (size_t)n * (raw ? size : sizeof(float));
        first += (uint64_t)n;
        count -= n;
    }
}

void tw_weight_read_raw(const tw_weight *w, int64_t row, int64_t col, int64_t count, void *out) {
    if (count <= 0) return;
    if (!w->data) {
        synthesise(w, row, col, count, out, true);
        return;
    }
    size_t size = tw_dtype_bits(w->dtype) / 8;
    const char *src = (const char *)w->data + (size_t)(row * w->row_stride + col * w->col_stride) * size;
    if (w->col_stride == 1) {
        memcpy(out, src, (size_t)count * size);
        return;
    }
    size_t step = (size_t)w->col_stride * size;
    for (int64_t i = 0; i < count; i++) memcpy((char *)out + (size_t)i * size, src + (size_t)i * step, size);
}

static void read_stored(const tw_weight *w, int64_t row, int64_t col, int64_t count, float *out) {
    if (!w->data) {
        synthesise(w, row, col, count, out, false);
        return;
    }
    size_t size = tw_dtype_bits(w->dtype) / 8;
    if (w->col_stride == 1) {
        tw_to_f32(w->dtype, (const char *)w->data + (size_t)(row * w->row_stride + col) * size, out, (size_t)count);
        return;
    }
    uint32_t gathered[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t n = count - at < BLOCK ? count - at : BLOCK;
        tw_weight_read_raw(w, row, col + at, n, gathered);
        tw_to_f32(w->dtype, gathered, out + at, (size_t)n);
    }
}

void tw_weight_read(const tw_weight *w, int64_t row, int64_t col, int64_t count, float *out) {
    if (count <= 0) return;
    read_stored(w, row, col, count, out);
    if (w->plus == 0) return;
    for (int64_t i = 0; i < count; i++) out[i] += w->plus;
}

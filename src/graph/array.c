/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/array.h"

#include "base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int onnx, bits;
    tw_kind kind;
} elements[TW_ELEMENTS] = {
#define ELEMENT(id, name, onnx, bits, kind) [TW_E_##id] = {name, onnx, bits, TW_KIND_##kind},
#include "graph/element.def"
};

const char *tw_element_name(tw_element t) {
    return elements[t].name;
}

int tw_element_bits(tw_element t) {
    return elements[t].bits;
}

tw_kind tw_element_kind(tw_element t) {
    return elements[t].kind;
}

int tw_element_onnx(tw_element t) {
    return elements[t].onnx;
}

bool tw_element_from_onnx(int64_t number, tw_element *t) {
    for (int i = 0; i < TW_ELEMENTS; i++)
        if (elements[i].onnx == number) {
            *t = (tw_element)i;
            return true;
        }
    return false;
}

bool tw_element_from_name(const char *name, tw_element *t) {
    for (int i = 0; i < TW_ELEMENTS; i++)
        if (!strcmp(elements[i].name, name)) {
            *t = (tw_element)i;
            return true;
        }
    return false;
}

int64_t tw_array_elements(const tw_array *a) {
    enum { MOST = 48 };
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < a->rank; i++) {
        empty |= a->dims[i] == 0;
        if (a->dims[i] < 0 || (a->dims[i] && __builtin_mul_overflow(n, a->dims[i], &n)) || n >> MOST) return -1;
    }
    return empty ? 0 : n;
}

int64_t tw_array_bytes(const tw_array *a) {
    const int64_t n = tw_array_elements(a), bits = tw_element_bits(a->type);
    return n < 0 || !bits ? -1 : (n * bits + 7) / 8;
}

/* Converts a real as the instruction of x86 does: what has no integer is the least one. */
static int64_t cut(double x) {
    if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return (int64_t)(uint64_t)x;
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

/* Rounds a double to f16 or bf16 once: the rounding to f32 goes to odd, so that the second one has what it needs. */
static float to_odd(double x) {
    float f = (float)x;
    if (f == x || isnan(x) || isinf(f)) return f;
    uint32_t u = tw_f32_bits(f);
    if (u & 1) return f;
    /* f was rounded to even: the odd neighbour on x's side is the one to take. */
    const bool up = fabs(x) > fabs((double)f);
    return tw_bits_f32(up ? u + 1 : u - 1);
}

/* Types that can be computed with: TYPE(id, C type, value of a stored x, what is stored of x[i]). */
#define REALS(TYPE)                                                                                                    \
    TYPE(TW_E_f32, float, x, x[i])                                                                                     \
    TYPE(TW_E_f64, double, x, x[i])                                                                                    \
    TYPE(TW_E_f16, uint16_t, tw_f16_to_f32(x), tw_f32_to_f16(to_odd((double)x[i])))                                    \
    TYPE(TW_E_bf16, uint16_t, tw_bf16_to_f32(x), tw_f32_to_bf16(to_odd((double)x[i])))
#define TRUTHS(TYPE) TYPE(TW_E_bool, uint8_t, x != 0, x[i] != 0)
#define WHOLES(TYPE)                                                                                                   \
    TYPE(TW_E_u8, uint8_t, x, x[i])                                                                                    \
    TYPE(TW_E_i8, int8_t, x, x[i])                                                                                     \
    TYPE(TW_E_u16, uint16_t, x, x[i])                                                                                  \
    TYPE(TW_E_i16, int16_t, x, x[i])                                                                                   \
    TYPE(TW_E_u32, uint32_t, x, x[i])                                                                                  \
    TYPE(TW_E_i32, int32_t, x, x[i])                                                                                   \
    TYPE(TW_E_u64, uint64_t, x, x[i])                                                                                  \
    TYPE(TW_E_i64, int64_t, x, x[i])

/* Reads n elements of a C type. They may lie at any address. */
#define READ(id, T, expression)                                                                                        \
    case id:                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T x;                                                                                                       \
            memcpy(&x, p + (from + i) * (int64_t)sizeof x, sizeof x);                                                  \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
        return;
#define READ_REAL(id, T, value, stored)  READ(id, T, (double)(value))
#define READ_CUT(id, T, value, stored)   READ(id, T, cut((double)(value)))
#define READ_WHOLE(id, T, value, stored) READ(id, T, (int64_t)(value))

void tw_array_get_reals(const tw_array *a, int64_t from, int64_t n, double *out) {
    const char *p = a->data;
    switch (a->type) {
        REALS(READ_REAL)
        TRUTHS(READ_REAL)
        WHOLES(READ_REAL)
    default:
        return;
    }
}

void tw_array_get_integers(const tw_array *a, int64_t from, int64_t n, int64_t *out) {
    const char *p = a->data;
    switch (a->type) {
        REALS(READ_CUT)
        TRUTHS(READ_WHOLE)
        WHOLES(READ_WHOLE)
    default:
        return;
    }
}

/* Writes n elements of a C type to any address. */
#define WRITE(id, T, expression)                                                                                       \
    case id:                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T y = (T)(expression);                                                                               \
            memcpy(p + (at + i) * (int64_t)sizeof y, &y, sizeof y);                                                    \
        }                                                                                                              \
        return;
#define WRITE_IT(id, T, value, stored)  WRITE(id, T, stored)
#define WRITE_CUT(id, T, value, stored) WRITE(id, T, cut(stored))

void tw_array_set_reals(tw_element t, void *data, int64_t at, int64_t n, const double *x) {
    char *p = data;
    switch (t) {
        REALS(WRITE_IT)
        TRUTHS(WRITE_IT)
        WHOLES(WRITE_CUT)
    default:
        return;
    }
}

void tw_array_set_integers(tw_element t, void *data, int64_t at, int64_t n, const int64_t *x) {
    char *p = data;
    switch (t) {
        REALS(WRITE_IT)
        TRUTHS(WRITE_IT)
        WHOLES(WRITE_IT)
    default:
        return;
    }
}

double tw_array_real(const tw_array *a, int64_t i) {
    double x = 0;
    tw_array_get_reals(a, i, 1, &x);
    return x;
}

int64_t tw_array_integer(const tw_array *a, int64_t i) {
    int64_t x = 0;
    tw_array_get_integers(a, i, 1, &x);
    return x;
}

void tw_array_describe(const tw_array *a, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "%s[", tw_element_name(a->type));
    for (int i = 0; i < a->rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)a->dims[i]);
    if (n < size) snprintf(out + n, size - n, "]");
}

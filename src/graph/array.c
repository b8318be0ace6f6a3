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

/* Reads n elements of a C type. They may lie at any address. */
#define READ(T, expression)                                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        T x;                                                                                                           \
        memcpy(&x, p + (from + i) * (int64_t)sizeof x, sizeof x);                                                      \
        out[i] = (expression);                                                                                         \
    }                                                                                                                  \
    return

void tw_array_get_reals(const tw_array *a, int64_t from, int64_t n, double *out) {
    const char *p = a->data;
    switch (a->type) {
    case TW_E_f32:
        READ(float, x);
    case TW_E_f64:
        READ(double, x);
    case TW_E_f16:
        READ(uint16_t, tw_f16_to_f32(x));
    case TW_E_bf16:
        READ(uint16_t, tw_bf16_to_f32(x));
    case TW_E_u8:
        READ(uint8_t, x);
    case TW_E_bool:
        READ(uint8_t, x != 0);
    case TW_E_i8:
        READ(int8_t, x);
    case TW_E_u16:
        READ(uint16_t, x);
    case TW_E_i16:
        READ(int16_t, x);
    case TW_E_u32:
        READ(uint32_t, x);
    case TW_E_i32:
        READ(int32_t, x);
    case TW_E_u64:
        READ(uint64_t, (double)x);
    case TW_E_i64:
        READ(int64_t, (double)x);
    default:
        return;
    }
}

/* Converts a real as the instruction of x86 does: what has no integer is the least one. */
static int64_t cut(double x) {
    if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return (int64_t)(uint64_t)x;
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

void tw_array_get_integers(const tw_array *a, int64_t from, int64_t n, int64_t *out) {
    const char *p = a->data;
    switch (a->type) {
    case TW_E_f32:
        READ(float, cut(x));
    case TW_E_f64:
        READ(double, cut(x));
    case TW_E_f16:
        READ(uint16_t, cut(tw_f16_to_f32(x)));
    case TW_E_bf16:
        READ(uint16_t, cut(tw_bf16_to_f32(x)));
    case TW_E_u8:
        READ(uint8_t, x);
    case TW_E_bool:
        READ(uint8_t, x != 0);
    case TW_E_i8:
        READ(int8_t, x);
    case TW_E_u16:
        READ(uint16_t, x);
    case TW_E_i16:
        READ(int16_t, x);
    case TW_E_u32:
        READ(uint32_t, x);
    case TW_E_i32:
        READ(int32_t, x);
    case TW_E_u64:
        READ(uint64_t, (int64_t)x);
    case TW_E_i64:
        READ(int64_t, x);
    default:
        return;
    }
}
#undef READ

#define WRITE(T, expression)                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const T y = (T)(expression);                                                                                   \
        memcpy(p + (at + i) * (int64_t)sizeof y, &y, sizeof y);                                                        \
    }                                                                                                                  \
    return

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

void tw_array_set_reals(tw_element t, void *data, int64_t at, int64_t n, const double *x) {
    char *p = data;
    switch (t) {
    case TW_E_f32:
        WRITE(float, x[i]);
    case TW_E_f64:
        WRITE(double, x[i]);
    case TW_E_f16:
        WRITE(uint16_t, tw_f32_to_f16(to_odd(x[i])));
    case TW_E_bf16:
        WRITE(uint16_t, tw_f32_to_bf16(to_odd(x[i])));
    case TW_E_bool:
        WRITE(uint8_t, x[i] != 0);
    case TW_E_u8:
        WRITE(uint8_t, cut(x[i]));
    case TW_E_i8:
        WRITE(int8_t, cut(x[i]));
    case TW_E_u16:
        WRITE(uint16_t, cut(x[i]));
    case TW_E_i16:
        WRITE(int16_t, cut(x[i]));
    case TW_E_u32:
        WRITE(uint32_t, cut(x[i]));
    case TW_E_i32:
        WRITE(int32_t, cut(x[i]));
    case TW_E_u64:
    case TW_E_i64:
        WRITE(int64_t, cut(x[i]));
    default:
        return;
    }
}

void tw_array_set_integers(tw_element t, void *data, int64_t at, int64_t n, const int64_t *x) {
    char *p = data;
    switch (t) {
    case TW_E_f32:
        WRITE(float, x[i]);
    case TW_E_f64:
        WRITE(double, x[i]);
    case TW_E_f16:
        WRITE(uint16_t, tw_f32_to_f16(to_odd((double)x[i])));
    case TW_E_bf16:
        WRITE(uint16_t, tw_f32_to_bf16(to_odd((double)x[i])));
    case TW_E_bool:
        WRITE(uint8_t, x[i] != 0);
    case TW_E_u8:
        WRITE(uint8_t, x[i]);
    case TW_E_i8:
        WRITE(int8_t, x[i]);
    case TW_E_u16:
        WRITE(uint16_t, x[i]);
    case TW_E_i16:
        WRITE(int16_t, x[i]);
    case TW_E_u32:
        WRITE(uint32_t, x[i]);
    case TW_E_i32:
        WRITE(int32_t, x[i]);
    case TW_E_u64:
    case TW_E_i64:
        WRITE(int64_t, x[i]);
    default:
        return;
    }
}
#undef WRITE

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

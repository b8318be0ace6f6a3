/* SPDX-License-Identifier: Apache-2.0 */
/* A function of blocks for each operation of expression.def and each class of its operands. Reals are floats, integers
   int64_t, truths uint8_t. A result may lie where an operand does. */
#ifndef TW_KERNELS_CPU_POINTWISE_OPS_H
#define TW_KERNELS_CPU_POINTWISE_OPS_H

#include "kernels/cpu/pointwise_single.h"
#include "kernels/pointwise/expression.h"
#include "kernels/pointwise/whole.h"

typedef void block_fn(const void *x, const void *y, const void *z, void *out, int n);

#define NONE  0
#define OF(f) p_##f

/* One loop: `value` of elements of type `from`, which are computed with as `as`, to elements of type `to`. */
#define P_LOOP(from, as, to, value)                                                                                    \
    {                                                                                                                  \
        const from *p = x, *q = y;                                                                                     \
        to *o = out;                                                                                                   \
        _Pragma("omp simd") for (int i = 0; i < n; i++) {                                                              \
            const as a = p[i], b = q[i];                                                                               \
            (void)a, (void)b;                                                                                          \
            o[i] = (to)(value);                                                                                        \
        }                                                                                                              \
    }
/* Conditions on `classes`, a literal, leave one loop of each function, or none where the operation has no such operand.
   An operand that the operation does not have is its first. */
#define CELL(name, classes, real, whole, ...)                                                                          \
    static void name##_reals(const void *x, const void *y, const void *z, void *out, int n) {                          \
        (void)x, (void)y, (void)z, (void)out, (void)n;                                                                 \
        if (classes[1] == 'i' || classes[1] == 't') return;                                                            \
        if (classes[0] == 't')                                                                                         \
            P_LOOP(float, float, uint8_t, real)                                                                        \
        else if (classes[0] == 'i')                                                                                    \
            P_LOOP(float, float, int64_t, real)                                                                        \
        else                                                                                                           \
            P_LOOP(float, float, float, real)                                                                          \
    }                                                                                                                  \
    static void name##_integers(const void *x, const void *y, const void *z, void *out, int n) {                       \
        (void)x, (void)y, (void)z, (void)out, (void)n;                                                                 \
        if (classes[1] == 'r' || classes[1] == 't') return;                                                            \
        if (classes[0] == 't')                                                                                         \
            P_LOOP(int64_t, int64_t, uint8_t, whole)                                                                   \
        else if (classes[0] == 'r')                                                                                    \
            P_LOOP(int64_t, int64_t, float, whole)                                                                     \
        else                                                                                                           \
            P_LOOP(int64_t, int64_t, int64_t, whole)                                                                   \
    }                                                                                                                  \
    static void name##_truths(const void *x, const void *y, const void *z, void *out, int n) {                         \
        (void)x, (void)y, (void)z, (void)out, (void)n;                                                                 \
        if (classes[1] != 't' && classes[1] != 'v' && classes[1] != 'a') return;                                       \
        if (classes[0] == 't')                                                                                         \
            P_LOOP(uint8_t, int, uint8_t, whole)                                                                       \
        else if (classes[0] == 'r')                                                                                    \
            P_LOOP(uint8_t, int, float, whole)                                                                         \
        else                                                                                                           \
            P_LOOP(uint8_t, int, int64_t, whole)                                                                       \
    }
#include "kernels/pointwise/expression.def"

#define CELL(name, ...) {name##_reals, name##_integers, name##_truths},
static block_fn *const block_ops[][3] = {
#include "kernels/pointwise/expression.def"
};

#define P_CHOOSE(name, type)                                                                                           \
    static void name(const void *x, const void *y, const void *z, void *out, int n) {                                  \
        const uint8_t *t = x;                                                                                          \
        const type *p = y, *q = z;                                                                                     \
        type *o = out;                                                                                                 \
        _Pragma("omp simd") for (int i = 0; i < n; i++) o[i] = t[i] ? p[i] : q[i];                                     \
    }
P_CHOOSE(choose_reals, float)
P_CHOOSE(choose_integers, int64_t)
P_CHOOSE(choose_truths, uint8_t)

/* The function of a cell whose first operand has class `of`. */
static block_fn *block_function(const tw_cell *c, tw_class of) {
    static block_fn *const choices[] = {choose_reals, choose_integers, choose_truths};
    if (c->op == TW_CELL_where) return choices[c->class];
    return block_ops[c->op - TW_CELL_number - 1][of];
}

#endif

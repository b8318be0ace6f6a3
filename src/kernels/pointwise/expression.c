/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/expression.h"

#include "base/dtype.h"
#include "kernels/pointwise/whole.h"

#include <math.h>
#include <string.h>

/* -- the tables */

#define MEMORY(name, class, bytes) {#name, TW_CLASS_##class, bytes},
static const struct {
    const char *name;
    tw_class class;
    int bytes;
} memories[] = {
#include "kernels/pointwise/memory.def"
};

const char *tw_memory_name(tw_memory_type t) {
    return memories[t].name;
}

bool tw_memory_from_name(const char *name, tw_memory_type *out) {
    for (int i = 0; i < TW_MEMORY_TYPES; i++)
        if (!strcmp(memories[i].name, name)) return *out = (tw_memory_type)i, true;
    return false;
}

tw_class tw_memory_class(tw_memory_type t) {
    return memories[t].class;
}

int tw_memory_bytes(tw_memory_type t) {
    return memories[t].bytes;
}

/* Functions of the table beside those of <math.h>. */
static double gelu(double a) {
    return a / (1 + exp(-1.5957691216057308 * (a + 0.044715 * a * a * a)));
}

static double gelu_erf(double a) {
    return 0.5 * a * erfc(-0.70710678118654752 * a);
}

static double f16(double a) {
    return (double)tw_f16_to_f32(tw_f32_to_f16((float)a));
}

static double bf16(double a) {
    return (double)tw_bf16_to_f32(tw_f32_to_bf16((float)a));
}

/* Tells whether an operation can compute doubles. double.c has its code for GPUs. */
static bool of_doubles(tw_cell_op op) {
    switch ((int)op) {
    case TW_CELL_pow:
    case TW_CELL_log1p:
    case TW_CELL_tanh:
    case TW_CELL_erf:
    case TW_CELL_gelu:
    case TW_CELL_gelu_erf:
    case TW_CELL_sin:
    case TW_CELL_cos:
    case TW_CELL_f16:
    case TW_CELL_bf16:
        return false;
    default:
        return true;
    }
}

typedef double real_function(double a, double b);
typedef int64_t whole_function(int64_t a, int64_t b);

#define NONE  0
#define OF(f) f
/* A function whose value is NONE is not called: classes_fit tells. */
#define CELL(name, classes, real, whole, ir_real, ir_whole)                                                            \
    static double name##_real(double a, double b) {                                                                    \
        (void)a, (void)b;                                                                                              \
        return (double)(real);                                                                                         \
    }                                                                                                                  \
    static int64_t name##_whole(int64_t a, int64_t b) {                                                                \
        (void)a, (void)b;                                                                                              \
        return (int64_t)(whole);                                                                                       \
    }
#include "kernels/pointwise/expression.def"

#define CELL(name, classes, real, whole, ir_real, ir_whole) {#name, classes, name##_real, name##_whole},
static const struct {
    const char *name, *classes;
    real_function *real;
    whole_function *whole;
} ops[] = {
#include "kernels/pointwise/expression.def"
};
enum { FIRST = TW_CELL_number + 1, OPS = sizeof ops / sizeof *ops };

const char *tw_cell_name(tw_cell_op op) {
    return (int)op < FIRST ? "" : ops[op - FIRST].name;
}

bool tw_cell_from_name(const char *name, tw_cell_op *out) {
    for (int i = 0; i < OPS; i++)
        if (!strcmp(ops[i].name, name)) return *out = (tw_cell_op)(i + FIRST), true;
    return false;
}

const char *tw_cell_classes(tw_cell_op op) {
    return (int)op < FIRST ? "" : ops[op - FIRST].classes;
}

/* -- values */

tw_cell_value tw_cell_apply(const tw_cell *cell, tw_class of, tw_cell_value a, tw_cell_value b, tw_cell_value c) {
    if (cell->op == TW_CELL_where) return a.whole ? b : c;
    tw_cell_value y;
    /* A comparison, and a cast, of reals gives a whole number, and the cast to reals one of integers. */
    if (cell->op == TW_CELL_integer && tw_class_is_real(of))
        y.whole = real_to_whole(a.real);
    else if (cell->op == TW_CELL_real && of == TW_CLASS_double)
        y.real = (double)(float)a.real;
    else if (tw_class_is_real(of) && !tw_class_is_real((tw_class)cell->class))
        y.whole = (int64_t)ops[cell->op - FIRST].real(a.real, b.real);
    else if (tw_class_is_real(of))
        y.real = ops[cell->op - FIRST].real(a.real, b.real);
    else if (cell->op == TW_CELL_real || cell->op == TW_CELL_double)
        y.real = (double)a.whole;
    else
        y.whole = ops[cell->op - FIRST].whole(a.whole, b.whole);
    return y;
}

tw_cell_value tw_cells_compute(const tw_cells *e, const tw_cell_value *operands, const int64_t *index) {
    tw_cell_value x[TW_CELLS];
    for (int i = 0; i <= e->value; i++) {
        const tw_cell *c = &e->of[i];
        if (c->op == TW_CELL_operand)
            x[i] = operands[c->of[0]];
        else if (c->op == TW_CELL_index)
            x[i].whole = index[c->of[0]];
        else if (c->op == TW_CELL_number)
            x[i] = c->value;
        else
            x[i] = tw_cell_apply(c, (tw_class)e->of[c->of[0]].class, x[c->of[0]], x[c->of[1]], x[c->of[2]]);
    }
    return x[e->value];
}

/* -- building */

static int fail(tw_cells *e) {
    e->failed = true;
    return -1;
}

static int add(tw_cells *e, const tw_cell *cell) {
    for (int i = 0; i < e->n; i++) {
        const tw_cell *c = &e->of[i];
        if (c->op == cell->op && c->class == cell->class && !memcmp(c->of, cell->of, sizeof c->of) &&
            c->value.whole == cell->value.whole)
            return e->value = i;
    }
    if (e->failed || e->n == TW_CELLS) return fail(e);
    e->of[e->n] = *cell;
    return e->value = e->n++;
}

int tw_cells_operand(tw_cells *e, int number, tw_memory_type type) {
    return number < 0 || number > UINT8_MAX
               ? fail(e)
               : add(e, &(tw_cell){TW_CELL_operand, (uint8_t)tw_memory_class(type), {(uint8_t)number}, {0}});
}

int tw_cells_index(tw_cells *e, int dimension) {
    return dimension < 0 || dimension > UINT8_MAX
               ? fail(e)
               : add(e, &(tw_cell){TW_CELL_index, TW_CLASS_integer, {(uint8_t)dimension}, {0}});
}

int tw_cells_real(tw_cells *e, double x) {
    return add(e, &(tw_cell){TW_CELL_number, TW_CLASS_real, {0}, {.real = (double)(float)x}});
}

int tw_cells_double(tw_cells *e, double x) {
    return add(e, &(tw_cell){TW_CELL_number, TW_CLASS_double, {0}, {.real = x}});
}

int tw_cells_number(tw_cells *e, tw_class of, double x) {
    return of == TW_CLASS_double ? tw_cells_double(e, x) : tw_cells_real(e, x);
}

int tw_cells_like(tw_cells *e, int cell, double x) {
    return cell < 0 ? fail(e) : tw_cells_number(e, (tw_class)e->of[cell].class, x);
}

int tw_cells_constant(tw_cells *e, const tw_cell *number) {
    return tw_class_is_real((tw_class)number->class) ? tw_cells_number(e, (tw_class)number->class, number->value.real)
           : number->class == TW_CLASS_integer       ? tw_cells_integer(e, number->value.whole)
                                                     : tw_cells_truth(e, number->value.whole != 0);
}

bool tw_cells_has_doubles(const tw_cells *e) {
    for (int i = 0; i <= e->value; i++)
        if (e->of[i].class == TW_CLASS_double) return true;
    return false;
}

int tw_cells_integer(tw_cells *e, int64_t x) {
    return add(e, &(tw_cell){TW_CELL_number, TW_CLASS_integer, {0}, {.whole = x}});
}

int tw_cells_truth(tw_cells *e, bool x) {
    return add(e, &(tw_cell){TW_CELL_number, TW_CLASS_truth, {0}, {.whole = x}});
}

/* Tells whether operands have the classes that an operation wants, and finds the result's. */
static bool classes_fit(const tw_cells *e, tw_cell *cell, const int *of) {
    const char *wanted = ops[cell->op - FIRST].classes;
    int same = -1;
    for (int i = 1; wanted[i]; i++) {
        const int class = e->of[of[i - 1]].class;
        const char w = wanted[i];
        const char is = "ritr"[class];
        if (w == 'n' ? class == TW_CLASS_truth : w != 'v' && w != 'a' && w != is) return false;
        if (class == TW_CLASS_double && !of_doubles((tw_cell_op)cell->op)) return false;
        if (w != 'n' && w != 'v' && w != 'r') continue;
        if (same >= 0 && same != class) return false;
        same = class;
    }
    cell->class = (uint8_t)(cell->op == TW_CELL_double ? TW_CLASS_double
                            : wanted[0] == 'r'         ? same == TW_CLASS_double ? TW_CLASS_double : TW_CLASS_real
                            : wanted[0] == 'i'         ? TW_CLASS_integer
                            : wanted[0] == 't'         ? TW_CLASS_truth
                                                       : same);
    return true;
}

/* A power with a constant exponent that products or roots compute. -1: there is none such. */
static int power(tw_cells *e, int a, int b) {
    const tw_cell *by = &e->of[b];
    if (by->op != TW_CELL_number) return -1;
    const double x = by->value.real;
    if (x == 1) return e->value = a;
    if (x == 0.5) return tw_cells_apply(e, TW_CELL_sqrt, a, 0, 0);
    if (x == -0.5) return tw_cells_apply(e, TW_CELL_rsqrt, a, 0, 0);
    if (x == -1) return tw_cells_apply(e, TW_CELL_reciprocal, a, 0, 0);
    if (x == 2) return tw_cells_apply(e, TW_CELL_mul, a, a, 0);
    return x == 3 ? tw_cells_apply(e, TW_CELL_mul, tw_cells_apply(e, TW_CELL_mul, a, a, 0), a, 0) : -1;
}

/* An integer power with a constant exponent that products compute. -1: there is none such. */
static int whole_power(tw_cells *e, int a, int b) {
    const tw_cell *by = &e->of[b];
    const int64_t n = by->value.whole;
    if (by->op != TW_CELL_number) return -1;
    if (n == 0) return tw_cells_integer(e, 1);
    if (n == 1) return e->value = a;
    if (n == 2) return tw_cells_apply(e, TW_CELL_mul, a, a, 0);
    return n == 3 ? tw_cells_apply(e, TW_CELL_mul, tw_cells_apply(e, TW_CELL_mul, a, a, 0), a, 0) : -1;
}

int tw_cells_apply(tw_cells *e, tw_cell_op op, int a, int b, int c) {
    const int n = (int)op < FIRST || (int)op >= TW_CELL_OPS ? 0 : (int)strlen(tw_cell_classes(op)) - 1,
              of[] = {a, b, c};
    tw_cell cell = {.op = (uint8_t)op};
    bool numbers = true;
    if (n == 0 || e->failed) return fail(e);
    for (int i = 0; i < n; i++) {
        if (of[i] < 0 || of[i] >= e->n) return fail(e);
        cell.of[i] = (uint8_t)of[i];
        numbers = numbers && e->of[of[i]].op == TW_CELL_number;
    }
    if (!classes_fit(e, &cell, of)) return fail(e);
    if (numbers) {
        const tw_cell *x = e->of;
        const tw_cell_value y =
            tw_cell_apply(&cell, (tw_class)x[a].class, x[a].value, x[cell.of[1]].value, x[cell.of[2]].value);
        return tw_class_is_real((tw_class)cell.class) ? tw_cells_number(e, (tw_class)cell.class, y.real)
               : cell.class == TW_CLASS_integer       ? tw_cells_integer(e, y.whole)
                                                      : tw_cells_truth(e, y.whole);
    }
    if (op >= TW_CELL_real && cell.class == e->of[a].class) return e->value = a; /* A cast to what it is. */
    const int simple = op == TW_CELL_pow ? power(e, a, b) : op == TW_CELL_powi ? whole_power(e, a, b) : -1;
    return simple >= 0 ? simple : add(e, &cell);
}

/* -- memory */

tw_cell_value tw_memory_read(tw_memory_type t, const void *data, int64_t at) {
    switch (t) {
    case TW_M_f32:
        return (tw_cell_value){.real = (double)((const float *)data)[at]};
    case TW_M_f16:
        return (tw_cell_value){.real = (double)tw_f16_to_f32(((const uint16_t *)data)[at])};
    case TW_M_f64:
        return (tw_cell_value){.real = ((const double *)data)[at]};
    case TW_M_bf16:
        return (tw_cell_value){.real = (double)tw_bf16_to_f32(((const uint16_t *)data)[at])};
    case TW_M_i64:
    case TW_M_u64:
        return (tw_cell_value){.whole = ((const int64_t *)data)[at]};
    case TW_M_i32:
        return (tw_cell_value){.whole = ((const int32_t *)data)[at]};
    case TW_M_i16:
        return (tw_cell_value){.whole = ((const int16_t *)data)[at]};
    case TW_M_i8:
        return (tw_cell_value){.whole = ((const int8_t *)data)[at]};
    case TW_M_u32:
        return (tw_cell_value){.whole = ((const uint32_t *)data)[at]};
    case TW_M_u16:
        return (tw_cell_value){.whole = ((const uint16_t *)data)[at]};
    case TW_M_u8:
        return (tw_cell_value){.whole = ((const uint8_t *)data)[at]};
    default:
        return (tw_cell_value){.whole = ((const uint8_t *)data)[at] != 0};
    }
}

void tw_memory_write(tw_memory_type t, void *data, int64_t at, tw_cell_value x) {
    switch (tw_memory_bytes(t)) {
    case 8:
        if (t == TW_M_f64)
            ((double *)data)[at] = x.real;
        else
            ((int64_t *)data)[at] = x.whole;
        return;
    case 4:
        if (t == TW_M_f32)
            ((float *)data)[at] = (float)x.real;
        else
            ((uint32_t *)data)[at] = (uint32_t)x.whole;
        return;
    case 2:
        ((uint16_t *)data)[at] = t == TW_M_f16    ? tw_f32_to_f16((float)x.real)
                                 : t == TW_M_bf16 ? tw_f32_to_bf16((float)x.real)
                                                  : (uint16_t)x.whole;
        return;
    default:
        ((uint8_t *)data)[at] = (uint8_t)x.whole;
    }
}

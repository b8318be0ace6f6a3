/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/pointwise/access.h"

#include "kernels/parts/convert.h"
#include "kernels/pointwise/emit.h"
#include "kernels/pointwise/shape.h"

#include <stdio.h>

/* -- widths */

/* Elements of an access: neighbours, at a multiple of their bytes wherever the run may be. */
static int vector_of(const tw_points *p, const tw_point_operand *o, int run) {
    const int bytes = tw_memory_bytes(o->type), align = o->align ? o->align : bytes;
    if (tw_points_step(p, o) != 1 || (o->gathers && tw_points_step(p, &p->operands[o->by]) != 0)) return 1;
    for (int vec = TW_POINT_PIECE / bytes < run ? TW_POINT_PIECE / bytes : run; vec * bytes >= 4 && vec > 1; vec /= 2) {
        bool fits = align % (vec * bytes) == 0;
        for (int d = 0; d + 1 < p->rank; d++) fits = fits && (p->dims[d] == 1 || o->strides[d] % vec == 0);
        if (fits && (!o->gathers || o->gather_stride % vec == 0)) return vec;
    }
    return 1;
}

static int width_of(const tw_points *p, const tw_point_operand *o) {
    const int bytes = tw_memory_bytes(o->type);
    return tw_points_step(p, o) == 1 ? TW_POINT_PIECE / bytes : 1;
}

int tw_points_run(const tw_points *p, const tw_point_operand *const *others, int n) {
    int run = 1;
    for (int i = 0; i < p->n_operands; i++)
        if (tw_points_used(p) >> i & 1 && width_of(p, &p->operands[i]) > run) run = width_of(p, &p->operands[i]);
    for (int i = 0; i < n; i++)
        if (width_of(p, others[i]) > run) run = width_of(p, others[i]);
    if (run > TW_POINT_RUN) run = TW_POINT_RUN;
    while (tw_points_columns(p) % run) run /= 2;
    return run;
}

int tw_point_align(const tw_points *p, const tw_point_operand *o, int run) {
    return vector_of(p, o, run) * tw_memory_bytes(o->type);
}

/* -- places */

void tw_point_at_row(tw_builder *b, const tw_points *p, tw_val row, tw_point_at *at) {
    for (int d = p->rank - 2; d >= 0; d--) {
        const int extent = (int)p->dims[d];
        at->index[d] = d ? tw_rem(b, row, extent) : row;
        if (d) row = tw_div(b, row, extent);
    }
}

tw_val tw_point_both(tw_builder *b, tw_val p, tw_val q) {
    return !p.id ? q : !q.id ? p : tw_and(b, p, q);
}

/* address + index * bytes, of an i32. */
static tw_val step(tw_builder *b, tw_val address, tw_val index, int64_t bytes) {
    if (bytes == 0) return address;
    if (bytes == (int32_t)bytes) return tw_op_emit(b, TW_OP_mad_wide_s32, index, tw_i32(b, (int32_t)bytes), address);
    return tw_add(b, address, tw_mul(b, tw_widen(b, index), tw_i64(b, bytes)));
}

/* Moves an address to a gathered place, and finds out whether there is one. An address that is not there is not
   moved. */
static tw_val gather(tw_builder *b, const tw_point_operand *o, tw_val address, tw_val which, tw_val *inside) {
    tw_val none = tw_i64(b, 0), behind = tw_add(b, which, tw_i64(b, o->gather_extent));
    which = tw_select(b, tw_lt(b, which, none), behind, which);
    *inside = tw_binary(b, TW_OP_lt_u64, which, tw_i64(b, o->gather_extent));
    which = tw_select(b, *inside, which, none);
    return tw_add(b, address, tw_mul(b, which, tw_i64(b, o->gather_stride * tw_memory_bytes(o->type))));
}

tw_point_view tw_point_view_of(tw_builder *b, const tw_points *p, const tw_point_operand *o, int run, tw_val base,
                               const tw_point_at *at, const tw_point_view *by) {
    const int64_t bytes = tw_memory_bytes(o->type);
    tw_point_view v = {.o = o, .run = run, .vec = vector_of(p, o, run), .step = tw_points_step(p, o), .address = base};
    for (int d = 0; d + 1 < p->rank; d++) v.address = step(b, v.address, at->index[d], o->strides[d] * bytes);
    v.address = step(b, v.address, at->column, v.step * bytes);
    if (!o->gathers) return v;
    if (by->step != 0) {
        v.by = by;
        return v;
    }
    const tw_point_run r = tw_point_load(b, by, 0, at->there);
    v.address = gather(b, o, v.address, tw_point_element(b, by, &r, 0), &v.inside);
    return v;
}

/* -- loads */

/* The registers of an access, and how many of them. Words hold 16-bit and 8-bit elements. */
static tw_attrs access_of(const tw_point_view *v) {
    static const tw_type alone[TW_MEMORY_TYPES] = {
        [TW_M_f32] = TW_T_f32, [TW_M_f16] = TW_T_f16, [TW_M_bf16] = TW_T_bf16, [TW_M_i64] = TW_T_i64,
        [TW_M_f64] = TW_T_f64, [TW_M_i32] = TW_T_i32, [TW_M_i16] = TW_T_i16,   [TW_M_i8] = TW_T_i8,
        [TW_M_u64] = TW_T_i64, [TW_M_u32] = TW_T_i32, [TW_M_u16] = TW_T_i16,   [TW_M_u8] = TW_T_i8,
        [TW_M_bool] = TW_T_i8};
    const int bytes = tw_memory_bytes(v->o->type);
    if (v->vec == 1 || bytes >= 4) return (tw_attrs){.type = alone[v->o->type], .vec = v->vec};
    return (tw_attrs){.type = TW_T_i32, .vec = v->vec * bytes / 4};
}

static void guard(tw_builder *b, tw_val there) {
    if (there.id) tw_when(b, there);
}

/* Loads one access's worth of registers. The attribute `offset` takes what is known, if it is not too far. */
static void load_at(tw_builder *b, tw_attrs at, tw_val address, int64_t offset, tw_val there, tw_val *out) {
    if (offset == (int32_t)offset)
        at.offset = (int32_t)offset;
    else
        address = tw_add(b, address, tw_i64(b, offset));
    guard(b, there);
    tw_ld_vec(b, at, address, out);
}

tw_point_run tw_point_load(tw_builder *b, const tw_point_view *v, int64_t ahead, tw_val there) {
    const tw_attrs at = access_of(v);
    const int64_t bytes = tw_memory_bytes(v->o->type);
    tw_point_run r = {0}, which;
    if (v->by) which = tw_point_load(b, v->by, ahead, there);
    const bool once = v->step == 0 && !v->by;
    for (int i = 0; i < (once ? 1 : v->run); i += v->vec) {
        tw_val address = v->address, inside = v->inside;
        if (v->by) address = gather(b, v->o, address, tw_point_element(b, v->by, &which, i), &inside);
        load_at(b, at, address, v->shift + (ahead + i) * v->step * bytes, tw_point_both(b, inside, there),
                &r.raw[i / v->vec * at.vec]);
        for (int k = 0; k < v->vec; k++) r.inside[i + k] = inside;
    }
    return r;
}

/* The 16 or 8 bits of an element, as a register of 32 bits. */
static tw_val bits_of(tw_builder *b, const tw_point_view *v, const tw_point_run *r, int i) {
    const int bytes = tw_memory_bytes(v->o->type), per = 4 / bytes;
    if (v->vec > 1) return tw_shr(b, r->raw[i / per], 8 * bytes * (i % per));
    return bytes == 2 ? tw_unary(b, TW_OP_zext_i32_i16, r->raw[i]) : r->raw[i];
}

/* An element without regard to whether its place is there. */
static tw_val value_of(tw_builder *b, const tw_point_view *v, const tw_point_run *r, int i) {
    const bool pairs = v->vec > 1;
    switch (v->o->type) {
    case TW_M_f32:
    case TW_M_f64:
    case TW_M_i64:
    case TW_M_u64:
        return r->raw[i];
    case TW_M_f16:
        return pairs ? tw_part_half(b, TW_T_f16x2, r->raw[i / 2], i % 2) : tw_part_widen(b, TW_T_f16, r->raw[i]);
    case TW_M_bf16:
        return pairs ? tw_part_half(b, TW_T_bf16x2, r->raw[i / 2], i % 2) : tw_part_widen(b, TW_T_bf16, r->raw[i]);
    case TW_M_i32:
        return tw_widen(b, r->raw[i]);
    case TW_M_u32:
        return tw_unary(b, TW_OP_zext_i64_i32, r->raw[i]);
    case TW_M_i16:
        return tw_widen(b, tw_unary(b, TW_OP_sext_i32_i16, tw_unary(b, TW_OP_trunc_i16_i32, bits_of(b, v, r, i))));
    case TW_M_i8:
        return tw_widen(b, tw_unary(b, TW_OP_sext_i32_i8, bits_of(b, v, r, i)));
    case TW_M_u16:
        return tw_unary(b, TW_OP_zext_i64_i32, tw_and(b, bits_of(b, v, r, i), tw_i32(b, 0xffff)));
    case TW_M_u8:
        return tw_unary(b, TW_OP_zext_i64_i32, tw_and(b, bits_of(b, v, r, i), tw_i32(b, 0xff)));
    default:
        return tw_ne(b, tw_and(b, bits_of(b, v, r, i), tw_i32(b, 0xff)), tw_i32(b, 0));
    }
}

tw_val tw_point_element(tw_builder *b, const tw_point_view *v, const tw_point_run *r, int i) {
    if (v->step == 0 && !v->by) i = 0;
    tw_val x = value_of(b, v, r, i);
    /* A load that was not done gave 0. */
    const tw_class class = tw_memory_class(v->o->type);
    if (!r->inside[i].id || !tw_class_is_real(class)) return x;
    tw_val nan =
        class == TW_CLASS_double ? tw_const(b, TW_T_f64, 0x7ff8000000000000) : tw_const(b, TW_T_f32, 0x7fc00000);
    return tw_select(b, r->inside[i], x, nan);
}

/* -- stores */

/* The bits of a value in memory, in the lower part of a register of 32. */
static tw_val stored_bits(tw_builder *b, tw_memory_type t, tw_val x) {
    if (t == TW_M_f16 || t == TW_M_bf16) {
        tw_val half = tw_unary(b, t == TW_M_f16 ? TW_OP_cvt_f16_f32 : TW_OP_cvt_bf16_f32, x);
        return tw_unary(b, TW_OP_zext_i32_i16, tw_bitcast(b, TW_T_i16, half));
    }
    if (t == TW_M_bool) return tw_select(b, x, tw_i32(b, 1), tw_i32(b, 0));
    return tw_unary(b, TW_OP_trunc_i32_i64, x);
}

/* One register of an access, of elements from `values` on. */
static tw_val packed(tw_builder *b, const tw_point_view *v, const tw_attrs *at, const tw_val *values) {
    const tw_memory_type t = v->o->type;
    const int bytes = tw_memory_bytes(t);
    if (t == TW_M_f32 || t == TW_M_f64 || t == TW_M_i64 || t == TW_M_u64) return values[0];
    if (at->type != TW_T_i32 || bytes == 4) {
        tw_val x = stored_bits(b, t, values[0]);
        return bytes == 2 ? tw_bitcast(b, (tw_type)at->type, tw_unary(b, TW_OP_trunc_i16_i32, x)) : x;
    }
    if (t == TW_M_f16 || t == TW_M_bf16)
        return tw_bitcast(b, TW_T_i32, tw_part_pair(b, t == TW_M_f16 ? TW_T_f16x2 : TW_T_bf16x2, values[0], values[1]));
    tw_val word = tw_i32(b, 0);
    for (int i = 0; i < 4 / bytes; i++) {
        tw_val x = tw_and(b, stored_bits(b, t, values[i]), tw_i32(b, bytes == 2 ? 0xffff : 0xff));
        word = tw_or(b, word, tw_shl(b, x, 8 * bytes * i));
    }
    return word;
}

void tw_point_store(tw_builder *b, const tw_point_view *v, int64_t ahead, tw_val there, const tw_val *values) {
    const int64_t bytes = tw_memory_bytes(v->o->type);
    for (int i = 0; i < v->run; i += v->vec) {
        tw_attrs at = access_of(v);
        const int each = v->vec / at.vec; /* Elements of a register. */
        const int64_t offset = v->shift + (ahead + i) * v->step * bytes;
        tw_val registers[TW_POINT_RUN], address = v->address;
        for (int k = 0; k < at.vec; k++) registers[k] = packed(b, v, &at, &values[i + k * each]);
        if (offset == (int32_t)offset)
            at.offset = (int32_t)offset;
        else
            address = tw_add(b, address, tw_i64(b, offset));
        guard(b, there);
        tw_st(b, at, address, registers);
    }
}

/* -- all operands */

void tw_point_inputs_declare(tw_builder *b, const tw_points *p, int run, tw_point_inputs *in) {
    static const char *const names[TW_POINT_OPERANDS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    *in = (tw_point_inputs){.p = p, .used = tw_points_used(p), .run = run};
    for (int i = 0; i < p->n_operands; i++) {
        const tw_point_operand *o = &p->operands[i];
        if (in->used >> i & 1) in->base[i] = tw_pointer_add(b, names[i], tw_point_align(p, o, run), o->constant);
    }
}

void tw_point_inputs_view(tw_builder *b, tw_point_inputs *in, const tw_point_at *at) {
    for (int gathers = 0; gathers < 2; gathers++)
        for (int i = 0; i < in->p->n_operands; i++) {
            const tw_point_operand *o = &in->p->operands[i];
            if (in->used >> i & 1 && o->gathers == gathers)
                in->views[i] =
                    tw_point_view_of(b, in->p, o, in->run, in->base[i], at, gathers ? &in->views[o->by] : NULL);
        }
}

/* The index of element i of the run, in the last dimension. */
static tw_val column_of(tw_builder *b, const tw_point_at *at, int64_t ahead, int i) {
    return tw_add_imm(b, at->column, ahead + i);
}

void tw_point_inputs_move(tw_point_inputs *in, int dimension, int64_t by) {
    for (int i = 0; i < in->p->n_operands; i++) {
        const tw_point_operand *o = &in->p->operands[i];
        in->views[i].shift += by * o->strides[dimension] * tw_memory_bytes(o->type);
    }
}

unsigned tw_point_inputs_elements(const tw_point_inputs *in) {
    const tw_points *p = in->p;
    unsigned elements = 0;
    for (int i = 0; i < p->cells.n; i++)
        if (p->cells.of[i].op == TW_CELL_operand) elements |= 1u << p->cells.of[i].of[0] & in->used;
    return elements;
}

unsigned tw_point_inputs_varying(const tw_point_inputs *in, int dimension) {
    unsigned varying = 0;
    for (int i = 0; i < in->p->n_operands; i++)
        if (in->p->operands[i].strides[dimension]) varying |= 1u << i;
    return varying & tw_point_inputs_elements(in);
}

void tw_point_inputs_load(tw_builder *b, const tw_point_inputs *in, int64_t ahead, tw_val there, unsigned which,
                          tw_point_loads *loads) {
    for (int i = 0; i < in->p->n_operands; i++)
        if (which >> i & 1) loads->of[i] = tw_point_load(b, &in->views[i], ahead, there);
}

void tw_point_inputs_compute(tw_builder *b, const tw_point_inputs *in, const tw_point_at *at, int64_t ahead,
                             const tw_point_loads *loads, tw_val *values) {
    const tw_points *p = in->p;
    const unsigned elements = tw_point_inputs_elements(in);
    for (int k = 0; k < in->run; k++) {
        tw_val x[TW_POINT_OPERANDS] = {0}, index[TW_POINT_RANK] = {0};
        for (int d = 0; d + 1 < p->rank; d++) index[d] = at->index[d];
        index[p->rank - 1] = column_of(b, at, ahead, k);
        for (int i = 0; i < p->n_operands; i++)
            if (elements >> i & 1) x[i] = tw_point_element(b, &in->views[i], &loads->of[i], k);
        values[k] = tw_cells_emit(b, &p->cells, x, index);
    }
}

void tw_point_inputs_values(tw_builder *b, const tw_point_inputs *in, const tw_point_at *at, int64_t ahead,
                            tw_val there, tw_val *values) {
    tw_point_loads loads = {0};
    tw_point_inputs_load(b, in, ahead, there, tw_point_inputs_elements(in), &loads);
    tw_point_inputs_compute(b, in, at, ahead, &loads, values);
}

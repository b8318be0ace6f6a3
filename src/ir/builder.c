/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/builder.h"

#include "base/grow.h"
#include "ir/value.h"

#include <assert.h>

tw_builder tw_builder_of(tw_kernel *k) {
    return (tw_builder){.kernel = k, .open = {&k->body}, .depth = 1};
}

/* Room for one more element of a table that lives beside the arena, whose failure it shares. */
static bool grow(tw_kernel *k, void **table, int n, int *room, size_t size) {
    if (k->arena.failed) return false;
    void *const grown = tw_grow(*table, n, room, 8, size);
    if (grown)
        *table = grown;
    else
        k->arena.failed = true;
    return grown;
}

static tw_val new_value(tw_kernel *k, tw_ir_value v) {
    if (!grow(k, (void **)&k->values, k->n_values, &k->room_values, sizeof v)) return TW_NONE;
    k->values[k->n_values] = v;
    return (tw_val){k->n_values++};
}

tw_val tw_parameter_add(tw_builder *b, const char *name, tw_type type) {
    tw_kernel *k = b->kernel;
    if (!grow(k, (void **)&k->parameters, k->n_parameters, &k->room_parameters, sizeof *k->parameters)) return TW_NONE;
    name = tw_arena_strdup(&k->arena, name);
    tw_val v = new_value(
        k, (tw_ir_value){.kind = TW_V_PARAMETER, .type = type, .bits = (uint64_t)k->n_parameters, .name = name});
    k->parameters[k->n_parameters++] = (tw_parameter){.name = name, .type = type, .value = v};
    return v;
}

tw_val tw_pointer_add(tw_builder *b, const char *name, int align, bool read_only) {
    tw_val v = tw_parameter_add(b, name, TW_T_i64);
    if (!v.id) return v;
    tw_parameter *p = &b->kernel->parameters[b->kernel->n_parameters - 1];
    p->pointer = true;
    p->read_only = read_only;
    p->align = align;
    return v;
}

tw_val tw_map_add(tw_builder *b, const char *name) {
    tw_val v = tw_parameter_add(b, name, TW_T_i64);
    if (v.id) b->kernel->parameters[b->kernel->n_parameters - 1].map = true;
    return v;
}

void tw_shared_add(tw_builder *b, const char *name, int64_t bytes, int align, bool dynamic) {
    tw_kernel *k = b->kernel;
    assert(bytes > 0 && align > 0 && !tw_kernel_shared_find(k, name));
    if (!grow(k, (void **)&k->shared, k->n_shared, &k->room_shared, sizeof *k->shared)) return;
    name = tw_arena_strdup(&k->arena, name);
    if (!name) return;
    k->shared[k->n_shared++] = (tw_shared){.name = name, .bytes = bytes, .align = align, .dynamic = dynamic};
}

tw_val tw_const(tw_builder *b, tw_type t, uint64_t bits) {
    tw_kernel *k = b->kernel;
    if (tw_type_bits(t) < 64) bits &= (1ull << tw_type_bits(t)) - 1;
    /* The newest few are looked through, which keeps the table short where it matters: in unrolled code. */
    for (int i = k->n_values - 1, tries = 64; i > 0 && tries; i--, tries--)
        if (k->values[i].kind == TW_V_CONSTANT && k->values[i].type == t && k->values[i].bits == bits)
            return (tw_val){i};
    return new_value(k, (tw_ir_value){.kind = TW_V_CONSTANT, .type = t, .bits = bits});
}

tw_val tw_i32(tw_builder *b, int32_t x) {
    return tw_const(b, TW_T_i32, (uint32_t)x);
}

tw_val tw_i64(tw_builder *b, int64_t x) {
    return tw_const(b, TW_T_i64, (uint64_t)x);
}

tw_val tw_f32(tw_builder *b, float x) {
    return tw_const(b, TW_T_f32, tw_f32_bits(x));
}

tw_val tw_f64(tw_builder *b, double x) {
    return tw_const(b, TW_T_f64, tw_write_f64(x));
}

tw_val tw_zero(tw_builder *b, tw_type t) {
    return tw_const(b, t, 0);
}

tw_ir_op *tw_emit(tw_builder *b, tw_opcode code, tw_attrs at, tw_val *results, const tw_type *types, int n_results,
                  const tw_val *operands, int n_operands) {
    tw_kernel *k = b->kernel;
    tw_block *block = b->open[b->depth - 1];
    tw_ir_op *op = tw_arena_alloc(&k->arena, sizeof *op);
    tw_val *values = tw_arena_array(&k->arena, (size_t)(n_results + n_operands) + 1, sizeof *values);
    for (int i = 0; i < n_results; i++)
        if (!results[i].id) results[i] = new_value(k, (tw_ir_value){.kind = TW_V_REGISTER, .type = types[i]});
    if (k->arena.failed) return NULL;
    op->code = (uint16_t)code;
    op->at = at;
    op->guard = b->guard;
    op->guard_not = b->guard_not;
    b->guard = TW_NONE;
    b->guard_not = false;
    assert(!op->guard.id || tw_op_describe(code)->flags & TW_F_GUARD);
    op->results = values;
    op->operands = values + n_results;
    op->n_results = (uint16_t)n_results;
    op->n_operands = (uint16_t)n_operands;
    if (n_results) memcpy(op->results, results, (size_t)n_results * sizeof *results);
    if (n_operands) memcpy(op->operands, operands, (size_t)n_operands * sizeof *operands);
    op->block = block;
    op->prev = block->last;
    if (block->last)
        block->last->next = op;
    else
        block->first = op;
    block->last = op;
    return op;
}

static tw_val emit_one(tw_builder *b, tw_opcode code, tw_attrs at, tw_type t, const tw_val *operands, int n) {
    tw_val r = TW_NONE;
    tw_emit(b, code, at, &r, &t, 1, operands, n);
    return r;
}

tw_val tw_shared_base(tw_builder *b, const char *name) {
    tw_val r = TW_NONE;
    tw_type t = TW_T_i32;
    tw_ir_op *op = tw_emit(b, TW_OP_shared_address, (tw_attrs){0}, &r, &t, 1, NULL, 0);
    if (op) op->name = tw_arena_strdup(&b->kernel->arena, name);
    return r;
}

tw_val tw_var(tw_builder *b, tw_type t) {
    tw_val v = emit_one(b, TW_OP_undef, (tw_attrs){.type = t}, t, NULL, 0);
    if (v.id) b->kernel->values[v.id].kind = TW_V_VARIABLE;
    return v;
}

tw_val tw_var_of(tw_builder *b, tw_val initial) {
    tw_type t = tw_value_type(b->kernel, initial);
    tw_val v = emit_one(b, TW_OP_set, (tw_attrs){.type = t}, t, &initial, 1);
    if (v.id) b->kernel->values[v.id].kind = TW_V_VARIABLE;
    return v;
}

void tw_assign(tw_builder *b, tw_val variable, tw_val value) {
    tw_type t = tw_value_type(b->kernel, variable);
    assert(b->kernel->arena.failed || t == tw_value_type(b->kernel, value));
    tw_emit(b, TW_OP_set, (tw_attrs){.type = t}, &variable, &t, 1, &value, 1);
}

void tw_when(tw_builder *b, tw_val p) {
    b->guard = p;
    b->guard_not = false;
}

void tw_unless(tw_builder *b, tw_val p) {
    b->guard = p;
    b->guard_not = true;
}

/* -- scalar operations */

static bool is_constant(tw_builder *b, tw_val v, uint64_t bits) {
    uint64_t c;
    return tw_value_constant(b->kernel, v, &c) && c == bits;
}

/* x op y where y (or x, for what commutes) changes nothing. */
static tw_val identity(tw_builder *b, tw_opcode code, tw_val x, tw_val y) {
    switch (code) {
    case TW_OP_add_i32:
    case TW_OP_add_i64:
    case TW_OP_or_i32:
    case TW_OP_xor_i32:
        if (is_constant(b, x, 0)) return y;
        return is_constant(b, y, 0) ? x : TW_NONE;
    case TW_OP_sub_i32:
    case TW_OP_sub_i64:
    case TW_OP_shl_i32:
    case TW_OP_shr_u32:
    case TW_OP_shl_i64:
    case TW_OP_shr_u64:
        return is_constant(b, y, 0) ? x : TW_NONE;
    case TW_OP_mul_i32:
    case TW_OP_mul_i64:
        if (is_constant(b, x, 1)) return y;
        return is_constant(b, y, 1) ? x : TW_NONE;
    case TW_OP_and_pred:
        if (is_constant(b, x, 1)) return y;
        return is_constant(b, y, 1) ? x : TW_NONE;
    default:
        return TW_NONE;
    }
}

static bool is_variable(tw_builder *b, tw_val v) {
    return b->kernel->values[v.id].kind == TW_V_VARIABLE;
}

static tw_val fold(tw_builder *b, tw_opcode code, tw_val x, tw_val y, tw_val z) {
    const tw_op_info *info = tw_op_describe(code);
    uint64_t a = 0, c = 0, d = 0, r;
    bool constant = (!x.id || tw_value_constant(b->kernel, x, &a)) && (!y.id || tw_value_constant(b->kernel, y, &c)) &&
                    (!z.id || tw_value_constant(b->kernel, z, &d));
    if (constant && !(info->flags & TW_F_APPROX) && tw_op_evaluate(code, a, c, d, &r))
        return tw_const(b, info->result, r);
    /* A variable may be assigned between here and the use of the result, which would see it. */
    tw_val same = z.id ? TW_NONE : identity(b, code, x, y);
    return is_variable(b, same) ? TW_NONE : same;
}

static int scalar_operands(tw_builder *b, tw_opcode code, const tw_val *v) {
    const tw_op_info *info = tw_op_describe(code);
    assert(info->scalar);
    for (int i = 0; i < info->n_operands; i++)
        assert(b->kernel->arena.failed || tw_value_type(b->kernel, v[i]) == info->operand[i]);
    (void)b, (void)v;
    return info->n_operands;
}

tw_val tw_op_emit(tw_builder *b, tw_opcode code, tw_val x, tw_val y, tw_val z) {
    tw_val v[3] = {x, y, z};
    int n = scalar_operands(b, code, v);
    tw_val folded = fold(b, code, x, y, z);
    return folded.id ? folded : emit_one(b, code, (tw_attrs){0}, tw_op_describe(code)->result, v, n);
}

tw_val tw_unary(tw_builder *b, tw_opcode code, tw_val x) {
    return tw_op_emit(b, code, x, TW_NONE, TW_NONE);
}

tw_val tw_binary(tw_builder *b, tw_opcode code, tw_val x, tw_val y) {
    return tw_op_emit(b, code, x, y, TW_NONE);
}

void tw_op_to(tw_builder *b, tw_val variable, tw_opcode code, tw_val x, tw_val y, tw_val z) {
    tw_val v[3] = {x, y, z};
    int n = scalar_operands(b, code, v);
    tw_type t = tw_op_describe(code)->result; /* of a variable that memory was short for */
    tw_emit(b, code, (tw_attrs){0}, &variable, &t, 1, v, n);
}

/* The operation of a family for a type; asserts that there is one. */
typedef struct family {
    int i32, i64, f32, f64, f16, f16x2, pred;
} family;
static tw_opcode member(const family *f, tw_type t) {
    int code = t == TW_T_i32     ? f->i32
               : t == TW_T_i64   ? f->i64
               : t == TW_T_f32   ? f->f32
               : t == TW_T_f64   ? f->f64
               : t == TW_T_f16   ? f->f16
               : t == TW_T_f16x2 ? f->f16x2
               : t == TW_T_pred  ? f->pred
                                 : 0;
    /* add_i32 is opcode 0, and only its own family's i32. */
    assert(code || t == TW_T_i32);
    return (tw_opcode)code;
}
static tw_val binary(tw_builder *b, const family *f, tw_val x, tw_val y) {
    if (b->kernel->arena.failed) return TW_NONE;
    return tw_op_emit(b, member(f, tw_value_type(b->kernel, x)), x, y, TW_NONE);
}

#define FAMILY(name, ...)                                                                                              \
    tw_val name(tw_builder *b, tw_val x, tw_val y) {                                                                   \
        static const family f = {__VA_ARGS__};                                                                         \
        return binary(b, &f, x, y);                                                                                    \
    }
FAMILY(tw_add, TW_OP_add_i32, TW_OP_add_i64, TW_OP_add_f32, TW_OP_add_f64, TW_OP_add_f16, TW_OP_add_f16x2, 0)
FAMILY(tw_sub, TW_OP_sub_i32, TW_OP_sub_i64, TW_OP_sub_f32, TW_OP_sub_f64, 0, 0, 0)
FAMILY(tw_mul, TW_OP_mul_i32, TW_OP_mul_i64, TW_OP_mul_f32, TW_OP_mul_f64, TW_OP_mul_f16, TW_OP_mul_f16x2, 0)
FAMILY(tw_min, TW_OP_min_s32, TW_OP_min_s64, TW_OP_min_f32, TW_OP_min_f64, 0, 0, 0)
FAMILY(tw_max, TW_OP_max_s32, TW_OP_max_s64, TW_OP_max_f32, TW_OP_max_f64, 0, 0, 0)
FAMILY(tw_and, TW_OP_and_i32, TW_OP_and_i64, 0, 0, 0, 0, TW_OP_and_pred)
FAMILY(tw_or, TW_OP_or_i32, TW_OP_or_i64, 0, 0, 0, 0, TW_OP_or_pred)
FAMILY(tw_xor, TW_OP_xor_i32, TW_OP_xor_i64, 0, 0, 0, 0, TW_OP_xor_pred)
FAMILY(tw_lt, TW_OP_lt_s32, TW_OP_lt_s64, TW_OP_lt_f32, TW_OP_lt_f64, 0, 0, 0)
FAMILY(tw_le, TW_OP_le_s32, 0, TW_OP_le_f32, TW_OP_le_f64, 0, 0, 0)
FAMILY(tw_eq, TW_OP_eq_i32, TW_OP_eq_i64, TW_OP_eq_f32, TW_OP_eq_f64, 0, 0, 0)
FAMILY(tw_ne, TW_OP_ne_i32, TW_OP_ne_i64, TW_OP_ne_f32, TW_OP_ne_f64, 0, 0, 0)

void tw_add_to(tw_builder *b, tw_val variable, tw_val x) {
    static const family f = {TW_OP_add_i32, TW_OP_add_i64, TW_OP_add_f32, TW_OP_add_f64, 0, 0, 0};
    if (b->kernel->arena.failed) return;
    tw_op_to(b, variable, member(&f, tw_value_type(b->kernel, variable)), variable, x, TW_NONE);
}

tw_val tw_fma(tw_builder *b, tw_val x, tw_val y, tw_val z) {
    static const family f = {TW_OP_mad_i32, 0, TW_OP_fma_f32, TW_OP_fma_f64, TW_OP_fma_f16, TW_OP_fma_f16x2, 0};
    if (b->kernel->arena.failed) return TW_NONE;
    return tw_op_emit(b, member(&f, tw_value_type(b->kernel, x)), x, y, z);
}

tw_val tw_not(tw_builder *b, tw_val x) {
    if (b->kernel->arena.failed) return TW_NONE;
    bool p = tw_value_type(b->kernel, x) == TW_T_pred;
    return tw_op_emit(b, p ? TW_OP_not_pred : TW_OP_not_i32, x, TW_NONE, TW_NONE);
}

tw_val tw_shl(tw_builder *b, tw_val x, int by) {
    if (b->kernel->arena.failed) return TW_NONE;
    bool wide = tw_value_type(b->kernel, x) == TW_T_i64;
    return tw_op_emit(b, wide ? TW_OP_shl_i64 : TW_OP_shl_i32, x, tw_i32(b, by), TW_NONE);
}

tw_val tw_shr(tw_builder *b, tw_val x, int by) {
    if (b->kernel->arena.failed) return TW_NONE;
    bool wide = tw_value_type(b->kernel, x) == TW_T_i64;
    return tw_op_emit(b, wide ? TW_OP_shr_u64 : TW_OP_shr_u32, x, tw_i32(b, by), TW_NONE);
}

static bool power_of_two(int64_t d) {
    return d > 0 && !(d & (d - 1));
}

tw_val tw_div(tw_builder *b, tw_val x, int d) {
    assert(d > 0);
    if (power_of_two(d)) return tw_shr(b, x, __builtin_ctz((unsigned)d));
    return tw_op_emit(b, TW_OP_div_u32, x, tw_i32(b, d), TW_NONE);
}

tw_val tw_rem(tw_builder *b, tw_val x, int d) {
    assert(d > 0);
    if (d == 1) return tw_i32(b, 0);
    if (power_of_two(d)) return tw_and(b, x, tw_i32(b, d - 1));
    return tw_op_emit(b, TW_OP_rem_u32, x, tw_i32(b, d), TW_NONE);
}

static tw_val integer_like(tw_builder *b, tw_val x, int64_t y) {
    return tw_value_type(b->kernel, x) == TW_T_i64 ? tw_i64(b, y) : tw_i32(b, (int32_t)y);
}

tw_val tw_add_imm(tw_builder *b, tw_val x, int64_t y) {
    return tw_add(b, x, integer_like(b, x, y));
}

tw_val tw_mul_imm(tw_builder *b, tw_val x, int64_t y) {
    if (power_of_two(y)) return tw_shl(b, x, __builtin_ctzll((unsigned long long)y));
    return tw_mul(b, x, integer_like(b, x, y));
}

tw_val tw_widen(tw_builder *b, tw_val x) {
    return tw_op_emit(b, TW_OP_sext_i64_i32, x, TW_NONE, TW_NONE);
}

tw_val tw_select(tw_builder *b, tw_val p, tw_val yes, tw_val no) {
    tw_type t = tw_value_type(b->kernel, yes);
    uint64_t c;
    if (tw_value_constant(b->kernel, p, &c) && !is_variable(b, c ? yes : no)) return c ? yes : no;
    return emit_one(b, TW_OP_select, (tw_attrs){.type = t}, t, (tw_val[]){yes, no, p}, 3);
}

tw_val tw_bitcast(tw_builder *b, tw_type t, tw_val x) {
    assert(b->kernel->arena.failed || tw_type_bits(t) == tw_type_bits(tw_value_type(b->kernel, x)));
    uint64_t c;
    if (t == tw_value_type(b->kernel, x) && !is_variable(b, x)) return x;
    if (tw_value_constant(b->kernel, x, &c)) return tw_const(b, t, c);
    return emit_one(b, TW_OP_bitcast, (tw_attrs){.type = t}, t, &x, 1);
}

tw_val tw_sreg(tw_builder *b, int sreg) {
    tw_type t = sreg >= TW_SREG_clock64 ? TW_T_i64 : TW_T_i32;
    return emit_one(b, TW_OP_sreg, (tw_attrs){.sreg = sreg, .type = t}, t, NULL, 0);
}

/* -- memory */

static int lanes_of(const tw_attrs *at) {
    return at->vec ? at->vec : 1;
}

void tw_ld_vec(tw_builder *b, tw_attrs at, tw_val address, tw_val *out) {
    tw_type t[8];
    int n = lanes_of(&at);
    for (int i = 0; i < n; i++) t[i] = tw_type_register((tw_type)at.type);
    tw_emit(b, TW_OP_ld, at, out, t, n, &address, 1);
}

tw_val tw_ld(tw_builder *b, tw_attrs at, tw_val address) {
    tw_val out = TW_NONE;
    assert(lanes_of(&at) == 1);
    tw_ld_vec(b, at, address, &out);
    return out;
}

static void emit_store(tw_builder *b, tw_opcode code, tw_attrs at, tw_val address, const tw_val *values) {
    tw_val v[9] = {address};
    int n = lanes_of(&at);
    for (int i = 0; i < n; i++) v[1 + i] = values[i];
    tw_emit(b, code, at, NULL, NULL, 0, v, 1 + n);
}

void tw_st(tw_builder *b, tw_attrs at, tw_val address, const tw_val *values) {
    emit_store(b, TW_OP_st, at, address, values);
}

void tw_red(tw_builder *b, tw_attrs at, tw_val address, const tw_val *values) {
    emit_store(b, TW_OP_red, at, address, values);
}

/* Trailing absent operands are left out. */
static int present(const tw_val *v, int n) {
    while (n && !v[n - 1].id) n--;
    return n;
}

tw_val tw_atom(tw_builder *b, tw_attrs at, tw_val address, tw_val x, tw_val y) {
    tw_val v[3] = {address, x, y};
    return emit_one(b, TW_OP_atom, at, (tw_type)at.type, v, present(v, 3));
}

void tw_cp_async(tw_builder *b, tw_attrs at, tw_val to_shared, tw_val from_global, tw_val source_bytes) {
    tw_val v[3] = {to_shared, from_global, source_bytes};
    tw_emit(b, TW_OP_cp_async, at, NULL, NULL, 0, v, present(v, 3));
}

void tw_do(tw_builder *b, tw_opcode code, tw_attrs at, tw_val x, tw_val y) {
    tw_val v[2] = {x, y};
    tw_emit(b, code, at, NULL, NULL, 0, v, present(v, 2));
}

tw_val tw_get(tw_builder *b, tw_opcode code, tw_attrs at, tw_type t, tw_val x, tw_val y) {
    tw_val v[2] = {x, y};
    return emit_one(b, code, at, t, v, present(v, 2));
}

/* -- a warp */

void tw_mma(tw_builder *b, tw_mma_kind kind, tw_val *d, const tw_val *a, const tw_val *x, const tw_val *c) {
    const tw_mma_info *m = tw_mma_describe(kind);
    tw_val v[24];
    tw_type t[8];
    int n = 0;
    for (int i = 0; i < m->a; i++) v[n++] = a[i];
    for (int i = 0; i < m->b; i++) v[n++] = x[i];
    for (int i = 0; i < m->c; i++) v[n++] = c[i];
    for (int i = 0; i < m->c; i++) t[i] = m->cd;
    tw_emit(b, TW_OP_mma, (tw_attrs){.mma = kind}, d, t, m->c, v, n);
}

void tw_ldmatrix(tw_builder *b, int count, bool trans, tw_val address, int offset, tw_val *out) {
    const tw_type t[4] = {TW_T_i32, TW_T_i32, TW_T_i32, TW_T_i32};
    tw_emit(b, TW_OP_ldmatrix, (tw_attrs){.vec = count, .trans = trans, .offset = offset}, out, t, count, &address, 1);
}

/* The operands are `first`, then the accumulators. */
static void product(tw_builder *b, tw_opcode code, tw_attrs at, tw_val *acc, const tw_val *first, int n_first) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)at.wgmma);
    const int n = tw_wgmma_registers((tw_wgmma_kind)at.wgmma, at.columns);
    tw_val v[6 + TW_WGMMA_COLUMNS / 2];
    tw_type t[TW_WGMMA_COLUMNS / 2];
    assert(n <= TW_WGMMA_COLUMNS / 2);
    memcpy(v, first, (size_t)n_first * sizeof *v);
    for (int i = 0; i < n; i++) {
        v[n_first + i] = acc[i];
        t[i] = m->d;
    }
    tw_emit(b, code, at, acc, t, n, v, n_first + n);
}

void tw_wgmma(tw_builder *b, tw_attrs at, tw_val *acc, tw_val a, tw_val x, tw_val add) {
    product(b, TW_OP_wgmma, at, acc, (tw_val[]){a, x, add}, 3);
}

void tw_wgmma_rs(tw_builder *b, tw_attrs at, tw_val *acc, const tw_val a[4], tw_val x, tw_val add) {
    product(b, TW_OP_wgmma_rs, at, acc, (tw_val[]){a[0], a[1], a[2], a[3], x, add}, 6);
}

void tw_tensor_load(tw_builder *b, int ranks, tw_val to, tw_val map, tw_val x, tw_val y, tw_val mbarrier,
                    tw_val policy) {
    tw_tensor_load_box(b, (tw_attrs){.ranks = ranks}, to, &(tw_box){.map = map, .at = {x, y}}, mbarrier, policy);
}

/* Collects operands in order. */
enum { BOX_OPERANDS = 12 };
typedef struct said {
    tw_val v[BOX_OPERANDS];
    int n;
} said;

static void put(said *o, const tw_val *v, int n) {
    for (int i = 0; i < n; i++) o->v[o->n++] = v[i];
}

static void put_box(said *o, const tw_attrs *at, const tw_box *box) {
    put(o, &box->map, 1);
    put(o, box->at, at->dims ? at->dims : 2);
}

static void put_offsets(said *o, const tw_attrs *at, const tw_box *box) {
    if (at->im2col) put(o, box->offset, at->dims - 2);
}

static void emit_box(tw_builder *b, tw_opcode code, tw_attrs at, said *o, tw_val policy) {
    if (policy.id) put(o, &policy, 1);
    tw_emit(b, code, at, NULL, NULL, 0, o->v, o->n);
}

void tw_tensor_load_box(tw_builder *b, tw_attrs at, tw_val to, const tw_box *box, tw_val mbarrier, tw_val policy) {
    said o = {{to}, 1};
    put_box(&o, &at, box);
    put(&o, &mbarrier, 1);
    put_offsets(&o, &at, box);
    emit_box(b, TW_OP_tensor_load, at, &o, policy);
}

void tw_tensor_store(tw_builder *b, tw_attrs at, const tw_box *box, tw_val from, tw_val policy) {
    said o = {.n = 0};
    put_box(&o, &at, box);
    put(&o, &from, 1);
    emit_box(b, TW_OP_tensor_store, at, &o, policy);
}

void tw_tensor_reduce(tw_builder *b, tw_attrs at, const tw_box *box, tw_val from, tw_val policy) {
    said o = {.n = 0};
    put_box(&o, &at, box);
    put(&o, &from, 1);
    emit_box(b, TW_OP_tensor_reduce, at, &o, policy);
}

void tw_tensor_prefetch_box(tw_builder *b, tw_attrs at, const tw_box *box, tw_val policy) {
    said o = {.n = 0};
    put_box(&o, &at, box);
    put_offsets(&o, &at, box);
    emit_box(b, TW_OP_tensor_prefetch_box, at, &o, policy);
}

tw_val tw_shfl(tw_builder *b, int mode, tw_val x, tw_val lane, tw_val mask) {
    tw_type t = tw_value_type(b->kernel, x);
    return emit_one(b, TW_OP_shfl, (tw_attrs){.mode = mode, .type = t}, t, (tw_val[]){x, lane, mask}, 3);
}

/* -- blocks */

static tw_ir_op *push(tw_builder *b, tw_opcode code, tw_attrs at, tw_val *result, tw_type t, const tw_val *operands,
                      int n_operands, int n_blocks) {
    tw_ir_op *op = tw_emit(b, code, at, result, &t, result ? 1 : 0, operands, n_operands);
    tw_block *blocks = tw_arena_array(&b->kernel->arena, (size_t)n_blocks, sizeof *blocks);
    assert(b->depth < TW_BUILDER_DEPTH);
    if (!op || !blocks) {
        /* Out of memory: what follows is built into a block that nobody reads. */
        b->open[b->depth] = b->open[b->depth - 1];
        b->depth++;
        return NULL;
    }
    for (int i = 0; i < n_blocks; i++) blocks[i].owner = op;
    op->blocks = blocks;
    op->n_blocks = (uint16_t)n_blocks;
    b->open[b->depth++] = blocks;
    return op;
}

/* The handle of the block that `push` opened. */
static tw_scope scope(tw_builder *b, tw_val i) {
    const tw_scope s = {.depth = b->depth, .serial = ++b->opened, .i = i};
    b->serials[b->depth - 1] = s.serial;
    return s;
}

static bool is_innermost(const tw_builder *b, tw_scope s) {
    return b->depth > 1 && s.depth == b->depth && s.serial == b->serials[b->depth - 1];
}

/* The operation that opened a block, which must be the innermost. NULL: memory ran out. */
static tw_ir_op *owner(const tw_builder *b, tw_scope s) {
    assert(is_innermost(b, s));
    return b->kernel->arena.failed ? NULL : b->open[b->depth - 1]->owner;
}

tw_scope tw_push_for(tw_builder *b, tw_val from, tw_val below, tw_val step, bool unroll) {
    tw_val i = TW_NONE;
    tw_type t = tw_value_type(b->kernel, from);
    push(b, TW_OP_for, (tw_attrs){.type = t, .unroll = !unroll}, &i, t, (tw_val[]){from, below, step}, 3, 1);
    return scope(b, i);
}

tw_scope tw_push_if(tw_builder *b, tw_val p) {
    push(b, TW_OP_if, (tw_attrs){0}, NULL, TW_T_none, &p, 1, 2);
    return scope(b, TW_NONE);
}

void tw_push_else(tw_builder *b, tw_scope s) {
    tw_ir_op *op = owner(b, s);
    assert(!op || (op->code == TW_OP_if && b->open[b->depth - 1] == &op->blocks[0]));
    if (op) b->open[b->depth - 1] = &op->blocks[1];
}

tw_scope tw_push_while(tw_builder *b) {
    tw_val none = TW_NONE; /* known once its block is built */
    push(b, TW_OP_while, (tw_attrs){0}, NULL, TW_T_none, &none, 1, 2);
    return scope(b, TW_NONE);
}

void tw_push_while_body(tw_builder *b, tw_scope s, tw_val p) {
    tw_ir_op *op = owner(b, s);
    assert(!op || (op->code == TW_OP_while && b->open[b->depth - 1] == &op->blocks[0]));
    if (!op) return;
    op->operands[0] = p;
    b->open[b->depth - 1] = &op->blocks[1];
}

tw_scope tw_push_roles(tw_builder *b, const int *ranges, int n) {
    tw_val v[32];
    assert(n > 0 && n <= 16);
    for (int i = 0; i < 2 * n; i++) v[i] = tw_i32(b, ranges[i]);
    push(b, TW_OP_roles, (tw_attrs){0}, NULL, TW_T_none, v, 2 * n, n);
    return scope(b, TW_NONE);
}

void tw_name_roles(tw_builder *b, tw_scope s, const char *names) {
    tw_ir_op *op = owner(b, s);
    if (op) op->name = tw_arena_strdup(&b->kernel->arena, names);
}

void tw_next_role(tw_builder *b, tw_scope s) {
    tw_ir_op *op = owner(b, s);
    if (!op) return;
    assert(op->code == TW_OP_roles && b->open[b->depth - 1] + 1 < op->blocks + op->n_blocks);
    b->open[b->depth - 1]++;
}

void tw_pop(tw_builder *b, tw_scope s) {
    assert(is_innermost(b, s));
    b->depth--;
}

bool tw_next_branch(tw_builder *b, tw_statement *s) {
    if (s->round == 2) tw_push_else(b, s->scope);
    if (++s->round <= 3) return true;
    tw_end_statement(b, s);
    return false;
}

void tw_end_statement(tw_builder *b, tw_statement *s) {
    if (s->scope.depth) tw_pop(b, s->scope);
    s->round = 0;
}

void tw_check_statement(tw_statement *s) {
    assert(!s->round);
    s->round = 0;
}

static void record(tw_builder *b, tw_opcode code, tw_attrs at, const char *name, tw_val value) {
    tw_ir_op *op = tw_emit(b, code, at, NULL, NULL, 0, &value, code == TW_OP_record_value);
    if (op) op->name = tw_arena_strdup(&b->kernel->arena, name);
}

void tw_record_begin(tw_builder *b, const char *region, int engine) {
    record(b, TW_OP_record_begin, (tw_attrs){.engine = engine}, region, TW_NONE);
}

void tw_record_end(tw_builder *b, const char *region) {
    record(b, TW_OP_record_end, (tw_attrs){0}, region, TW_NONE);
}

void tw_record_wait(tw_builder *b, const char *channel, int engine, int lag) {
    const tw_attrs at = {.engine = engine, .wait = TW_WAIT_channel, .count = lag};
    record(b, TW_OP_record_begin, at, channel, TW_NONE);
}

void tw_record_meet(tw_builder *b, const char *channel) {
    const tw_attrs at = {.engine = TW_ENGINE_OF_sync, .wait = TW_WAIT_meet};
    record(b, TW_OP_record_begin, at, channel, TW_NONE);
}

void tw_record_mark(tw_builder *b, const char *name) {
    record(b, TW_OP_record_mark, (tw_attrs){0}, name, TW_NONE);
}

void tw_record_arrive(tw_builder *b, const char *channel, int arrival, int engine) {
    record(b, TW_OP_record_mark, (tw_attrs){.arrival = arrival, .engine = engine}, channel, TW_NONE);
}

void tw_record_value(tw_builder *b, const char *name, tw_val value) {
    record(b, TW_OP_record_value, (tw_attrs){0}, name, value);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What operations compute, lane by lane and under control flow. */
#include "emu/emu_test.h"

#include <stdlib.h>

enum { N = 96 };

static uint64_t alloc_out(tw_emu *e, size_t bytes) {
    uint64_t a = tw_emu_alloc(e, "out", NULL, bytes, false);
    assert_true(a);
    return a;
}

/* Bits that make sense for a view: small and odd numbers among random ones. */
static uint64_t pattern(tw_type t, tw_random *r) {
    uint64_t x = tw_random_u64(r);
    switch (tw_random_below(r, 5)) {
    case 0:
        x &= 31;
        break;
    case 1:
        x = (uint64_t) - (int64_t)(x & 7);
        break;
    case 2:
        if (t == TW_T_f32) x = tw_f32_bits((float)(int)(x & 255) - 100.5f);
        if (t == TW_T_f64) x = tw_write_f64((double)(int)(x & 255) - 100.5);
        break;
    default:
        break;
    }
    int bits = tw_type_bits(t);
    return bits == 64 ? x : x & ((1ull << bits) - 1);
}

static tw_type stored(tw_type t) {
    return t == TW_T_pred ? TW_T_i32 : t;
}

static bool same(tw_type t, uint64_t x, uint64_t y) {
    if (x == y) return true;
    if (t == TW_T_f32) return isnan(tw_read_f32(x)) && isnan(tw_read_f32(y));
    if (t == TW_T_f64) return isnan(tw_read_f64(x)) && isnan(tw_read_f64(y));
    return false;
}

/* Each scalar operation of the table over three warps of random operands; the last warp within a divergent branch that
   assigns a variable. */
static void one_scalar(tw_opcode code, tw_random *r) {
    const tw_op_info *info = tw_op_describe(code);
    uint64_t in[3][N], got[N];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new(info->name, 80, N);
    tw_builder b = tw_builder_of(k);
    tw_val p[4], v[3] = {TW_NONE, TW_NONE, TW_NONE};
    uint64_t arguments[4];
    for (int i = 0; i < 4; i++) p[i] = tw_pointer_add(&b, "p", 16, i < 3);
    tw_val t = tid(&b);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < N; j++) in[i][j] = i < info->n_operands ? pattern(info->operand[i], r) : 0;
        arguments[i] = tw_emu_alloc(e, "in", in[i], sizeof in[i], true);
        if (i >= info->n_operands) continue;
        tw_type type = info->operand[i];
        v[i] = tw_ld(&b, (tw_attrs){.type = stored(type)}, at64(&b, p[i], t, 8));
        if (type == TW_T_pred) v[i] = tw_ne(&b, v[i], tw_i32(&b, 0));
    }
    tw_val out = tw_var_of(&b, tw_op_emit(&b, code, v[0], v[1], v[2]));
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, t, tw_i32(&b, 77)));
    tw_assign(&b, out, tw_zero(&b, info->result));
    tw_op_to(&b, out, code, v[0], v[1], v[2]);
    tw_pop(&b, branch);
    if (info->result == TW_T_pred) out = tw_select(&b, out, tw_i32(&b, 1), tw_i32(&b, 0));
    store(&b, (tw_attrs){.type = stored(info->result)}, at64(&b, p[3], t, 8), out);
    uint64_t zeros[N] = {0};
    arguments[3] = tw_emu_alloc(e, "out", zeros, sizeof got, false);
    run_clean(e, k, arguments, (tw_emu_options){0});
    tw_emu_read(e, arguments[3], got, sizeof got);
    for (int j = 0; j < N; j++) {
        uint64_t want;
        for (int i = 0; i < 3; i++)
            if (info->operand[i] == TW_T_pred) in[i][j] &= 1;
        assert_true(tw_op_evaluate(code, in[0][j], in[1][j], in[2][j], &want));
        if (!same(info->result, want, got[j]))
            fail_msg("%s lane %d: %llx, want %llx", info->name, j, (unsigned long long)got[j],
                     (unsigned long long)want);
    }
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void scalar_operations(void **state) {
    (void)state;
    tw_random r = tw_random_seed(1);
    for (int code = 0; code < TW_OPCODES; code++)
        if (tw_op_describe((tw_opcode)code)->scalar)
            for (int i = 0; i < 3; i++) one_scalar((tw_opcode)code, &r);
}

/* -- control flow: a kernel of nested loops and branches against the same program in C */

static int32_t walk(int32_t t) {
    int32_t x = t, s = 0;
    for (int32_t i = t % 5; i < 3 + t % 7; i += 2) {
        if (i & 1) {
            for (int32_t j = 0; j < t % 4; j++) s += i * j + x;
        } else {
            s ^= i + 17;
            if (s % 3 == 0) x += 5;
        }
        while (x > 10) {
            if (x & 1)
                x = x * 3 - 20;
            else
                x >>= 1;
            if (x > 100) x = 7;
            s += x;
        }
    }
    return s * 31 + x;
}

static void build_walk(tw_builder *b, tw_val t, tw_val x, tw_val s) {
    const tw_scope loop = tw_push_for(b, tw_rem(b, t, 5), tw_add_imm(b, tw_rem(b, t, 7), 3), tw_i32(b, 2), true);
    tw_val i = loop.i;
    const tw_scope branch = tw_push_if(b, tw_ne(b, tw_and(b, i, tw_i32(b, 1)), tw_i32(b, 0)));
    const tw_scope loop2 = tw_push_for(b, tw_i32(b, 0), tw_rem(b, t, 4), tw_i32(b, 1), true);
    tw_val j = loop2.i;
    tw_assign(b, s, tw_add(b, s, tw_add(b, tw_mul(b, i, j), x)));
    tw_pop(b, loop2);
    tw_push_else(b, branch);
    tw_assign(b, s, tw_xor(b, s, tw_add_imm(b, i, 17)));
    const tw_scope branch2 = tw_push_if(b, tw_eq(b, tw_binary(b, TW_OP_rem_s32, s, tw_i32(b, 3)), tw_i32(b, 0)));
    tw_assign(b, x, tw_add_imm(b, x, 5));
    tw_pop(b, branch2);
    tw_pop(b, branch);
    const tw_scope poll = tw_push_while(b);
    tw_push_while_body(b, poll, tw_binary(b, TW_OP_gt_s32, x, tw_i32(b, 10)));
    const tw_scope branch3 = tw_push_if(b, tw_ne(b, tw_and(b, x, tw_i32(b, 1)), tw_i32(b, 0)));
    tw_assign(b, x, tw_add_imm(b, tw_mul_imm(b, x, 3), -20));
    tw_push_else(b, branch3);
    tw_assign(b, x, tw_binary(b, TW_OP_shr_s32, x, tw_i32(b, 1)));
    tw_pop(b, branch3);
    const tw_scope branch4 = tw_push_if(b, tw_binary(b, TW_OP_gt_s32, x, tw_i32(b, 100)));
    tw_assign(b, x, tw_i32(b, 7));
    tw_pop(b, branch4);
    tw_assign(b, s, tw_add(b, s, x));
    tw_pop(b, poll);
    tw_pop(b, loop);
}

static void control_flow(void **state) {
    (void)state;
    enum { THREADS = 100, BLOCKS = 5 };
    int32_t got[THREADS * BLOCKS];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("walk", 80, THREADS);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 16, false);
    tw_val t = tw_fma(&b, tw_sreg(&b, TW_SREG_ctaid_x), tw_i32(&b, THREADS), tid(&b));
    tw_val x = tw_var_of(&b, t), s = tw_var_of(&b, tw_i32(&b, 0));
    build_walk(&b, t, x, s);
    /* Some leave early, from within two branches. */
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, t, tw_i32(&b, 50)));
    const tw_scope branch2 = tw_push_if(&b, tw_eq(&b, tw_rem(&b, t, 3), tw_i32(&b, 0)));
    store(&b, (tw_attrs){I32}, at64(&b, out, t, 4), tw_i32(&b, -1));
    tw_when(&b, tw_eq(&b, tw_rem(&b, t, 2), tw_i32(&b, 0)));
    tw_do(&b, TW_OP_exit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_pop(&b, branch2);
    tw_pop(&b, branch);
    store(&b, (tw_attrs){I32}, at64(&b, out, t, 4), tw_add(&b, tw_mul_imm(&b, s, 31), x));
    for (uint64_t seed = 0; seed < 8; seed++) {
        uint64_t address = alloc_out(e, sizeof got);
        run_clean(e, k, &address, (tw_emu_options){.seed = seed, .grid = {BLOCKS}});
        assert_true(tw_emu_written(e, address, sizeof got));
        tw_emu_read(e, address, got, sizeof got);
        for (int i = 0; i < THREADS * BLOCKS; i++)
            assert_int_equal(got[i], i < 50 && i % 3 == 0 && i % 2 == 0 ? -1 : walk(i));
    }
    tw_kernel_free(k);
    tw_emu_free(e);
}

/* Where all lanes that are in a block leave, the others go on behind it. */
static void lanes_leave_together(void **state) {
    (void)state;
    enum { THREADS = 32 };
    int32_t got[THREADS];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("leave", 80, THREADS);
    tw_builder b = tw_builder_of(k);
    tw_val out = tw_pointer_add(&b, "out", 16, false), t = tid(&b), mine = at64(&b, out, t, 4);
    tw_val v = tw_var_of(&b, tw_i32(&b, 0));
    const tw_attrs at = {I32}, none = {0};
    const tw_scope branch = tw_push_if(&b, tw_lt(&b, t, tw_i32(&b, 8)));
    store(&b, at, mine, tw_i32(&b, -1));
    tw_do(&b, TW_OP_exit, none, TW_NONE, TW_NONE);
    store(&b, at, mine, tw_i32(&b, -2));
    tw_pop(&b, branch);
    const tw_scope loop = tw_push_for(&b, tw_i32(&b, 0), tw_i32(&b, 4), tw_i32(&b, 1), false);
    tw_val i = loop.i;
    tw_assign(&b, v, tw_add_imm(&b, v, 1));
    const tw_scope branch2 = tw_push_if(&b, tw_eq(&b, t, tw_add_imm(&b, i, 8)));
    store(&b, at, mine, v);
    tw_do(&b, TW_OP_exit, none, TW_NONE, TW_NONE);
    store(&b, at, mine, tw_i32(&b, -2));
    tw_pop(&b, branch2);
    tw_assign(&b, v, tw_add_imm(&b, v, 10));
    tw_pop(&b, loop);
    const tw_scope branch3 = tw_push_if(&b, tw_lt(&b, t, tw_i32(&b, 16)));
    store(&b, at, mine, v);
    tw_do(&b, TW_OP_exit, none, TW_NONE, TW_NONE);
    tw_push_else(&b, branch3);
    tw_assign(&b, v, tw_add_imm(&b, v, 100));
    tw_pop(&b, branch3);
    const tw_scope poll = tw_push_while(&b);
    tw_push_while_body(&b, poll, tw_const(&b, TW_T_pred, 1));
    tw_assign(&b, v, tw_add_imm(&b, v, 1));
    const tw_scope branch4 = tw_push_if(&b, tw_eq(&b, v, tw_add_imm(&b, t, 144)));
    store(&b, at, mine, v);
    tw_do(&b, TW_OP_exit, none, TW_NONE, TW_NONE);
    tw_pop(&b, branch4);
    tw_pop(&b, poll);
    uint64_t address = alloc_out(e, sizeof got);
    run_clean(e, k, &address, (tw_emu_options){0});
    assert_true(tw_emu_written(e, address, sizeof got));
    tw_emu_read(e, address, got, sizeof got);
    for (int j = 0; j < THREADS; j++)
        assert_int_equal(got[j], j < 8 ? -1 : j < 12 ? 11 * (j - 8) + 1 : j < 16 ? 44 : 144 + j);
    tw_kernel_free(k);
    tw_emu_free(e);
}

/* -- sreg, select, bitcast, guards, vectors, i8 */

static void loads_and_stores(void **state) {
    (void)state;
    enum { THREADS = 64 };
    uint8_t bytes[THREADS * 16], got[THREADS * 16];
    tw_random r = tw_random_seed(3);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)tw_random_u64(&r);
    static const struct {
        tw_type type;
        int vec;
    } kinds[] = {{TW_T_i8, 1},  {TW_T_i8, 4},   {TW_T_i16, 8}, {TW_T_f16, 2}, {TW_T_i32, 1},
                 {TW_T_i32, 2}, {TW_T_f32, 4},  {TW_T_i64, 2}, {TW_T_f64, 1}, {TW_T_bf16x2, 4},
                 {TW_T_i8, 8},  {TW_T_bf16, 1}, {TW_T_f64, 2}};
    for (size_t c = 0; c < sizeof kinds / sizeof *kinds; c++)
        for (int through_shared = 0; through_shared < 2; through_shared++) {
            int size = tw_type_bits(kinds[c].type) / 8 * kinds[c].vec;
            tw_attrs at = {.type = kinds[c].type, .vec = kinds[c].vec};
            tw_emu *e = tw_emu_new();
            tw_kernel *k = tw_kernel_new("copy", 80, THREADS);
            tw_builder b = tw_builder_of(k);
            tw_val in = tw_pointer_add(&b, "in", 16, true), out = tw_pointer_add(&b, "out", 16, false), v[8] = {{0}};
            tw_shared_add(&b, "tile", THREADS * 16, 16, through_shared > 0);
            tw_val t = tid(&b);
            tw_ld_vec(&b, at, at64(&b, in, t, size), v);
            if (through_shared) {
                tw_attrs s = at;
                s.space = TW_SPACE_shared;
                tw_val a = at32(&b, tw_shared_base(&b, "tile"), t, size);
                tw_st(&b, s, a, v);
                tw_val x[8] = {{0}};
                s.offset = 0;
                tw_ld_vec(&b, s, a, x);
                memcpy(v, x, sizeof v);
            }
            tw_st(&b, at, at64(&b, out, t, size), v);
            uint64_t a[2] = {tw_emu_alloc(e, "in", bytes, sizeof bytes, true), alloc_out(e, sizeof got)};
            run_clean(e, k, a, (tw_emu_options){0});
            size_t n = (size_t)size * THREADS;
            assert_true(tw_emu_read(e, a[1], got, n));
            assert_memory_equal(got, bytes, n);
            assert_true(tw_emu_written(e, a[1], n));
            assert_int_equal(tw_emu_written(e, a[1], n + 1), false);
            tw_kernel_free(k);
            tw_emu_free(e);
        }
}

static void guards_and_specials(void **state) {
    (void)state;
    enum { THREADS = 48 };
    int32_t got[THREADS * 4], in[THREADS];
    for (int i = 0; i < THREADS; i++) in[i] = 1000 + i;
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("guards", 80, THREADS);
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "in", 16, true), out = tw_pointer_add(&b, "out", 16, false);
    tw_val f = tw_parameter_add(&b, "f", TW_T_f32);
    tw_val t = tid(&b), few = tw_lt(&b, t, tw_i32(&b, 40)), o = at64(&b, out, t, 16);
    tw_val lane = tw_sreg(&b, TW_SREG_laneid), bits = tw_bitcast(&b, TW_T_i32, f), from = at64(&b, p, t, 4);
    tw_when(&b, few);
    tw_val x = tw_ld(&b, (tw_attrs){I32}, from);
    store(&b, (tw_attrs){I32}, o, x);
    tw_unless(&b, few);
    store(&b, (tw_attrs){I32, .offset = 4}, o, lane);
    tw_when(&b, few);
    store(&b, (tw_attrs){I32, .offset = 4}, o, bits);
    store(&b, (tw_attrs){I32, .offset = 8}, o, tw_select(&b, few, tw_sreg(&b, TW_SREG_warpid), tw_i32(&b, 9)));
    store(&b, (tw_attrs){I32, .offset = 12}, o, tw_sreg(&b, TW_SREG_ntid_x));
    uint64_t a[3] = {tw_emu_alloc(e, "in", in, 40 * 4, true), alloc_out(e, sizeof got), tw_f32_bits(1.5f)};
    run_clean(e, k, a, (tw_emu_options){0});
    tw_emu_read(e, a[1], got, sizeof got);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(got[4 * i], i < 40 ? 1000 + i : 0);
        assert_int_equal(got[4 * i + 1], i < 40 ? (int32_t)tw_f32_bits(1.5f) : i % 32);
        assert_int_equal(got[4 * i + 2], i < 40 ? i / 32 : 9);
        assert_int_equal(got[4 * i + 3], THREADS);
    }
    tw_kernel_free(k);
    tw_emu_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_operations),    cmocka_unit_test(control_flow),
        cmocka_unit_test(lanes_leave_together), cmocka_unit_test(loads_and_stores),
        cmocka_unit_test(guards_and_specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

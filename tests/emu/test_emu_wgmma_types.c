/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a warpgroup in all their types, with A in shared memory and in registers: twice 32 bytes of k, summed by
   plain loops over numbers that are decoded here. Then what may be done to registers that a product uses, and when. */
#include "emu/emu_test.h"

#include "emu/on_device.h"
#include "ir/verify.h"

#include <math.h>

enum { ROWS = 64, MOST = 32, ROW = 32 /* bytes of k */ };

enum {
    A_UNFENCED = 1, /* a part of A is written after the fence */
    A_WRITTEN,      /* before the wait */
    A_READ,
    SUMS_UNFENCED,
    SUMS_WRITTEN,
    SUMS_READ,
    WAITED_TOO_FEW, /* for the group before alone, then A is written */
    WRITTEN_AFTER,  /* no fault */
};

static const tw_attrs none = {0};
static const tw_attrs word = {.type = TW_T_i32};

/* Rows of 32 bytes, swizzled over 32: the two pieces of a row change places every four rows. */
static void stage(tw_builder *b, tw_val from, tw_val to, int rows) {
    const tw_scope loop = tw_push_for(b, tid(b), tw_i32(b, rows * ROW / 16), tw_i32(b, 128), false);
    tw_val i = loop.i, v[4] = {{0}};
    tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 4}, at64(b, from, i, 16), v);
    tw_val piece = tw_xor(b, i, tw_and(b, tw_shr(b, i, 3), tw_i32(b, 1)));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared}, at32(b, to, piece, 16), v);
    tw_pop(b, loop);
}

static tw_val descriptor(tw_builder *b, tw_val at) {
    tw_val low = tw_unary(b, TW_OP_zext_i64_i32, tw_shr(b, at, 4));
    return tw_add_imm(b, low, (int64_t)((uint64_t)3 << 62) | (int64_t)(8 * ROW / 16) << 32 | 1 << 16);
}

static void one_product(tw_builder *b, tw_attrs at, bool rs, tw_val *acc, tw_val *part, tw_val a, tw_val x, int add) {
    tw_val p = tw_const(b, TW_T_pred, (uint64_t)add);
    if (rs)
        tw_wgmma_rs(b, at, acc, part, x, p);
    else
        tw_wgmma(b, at, acc, a, x, p);
    tw_do(b, TW_OP_wgmma_commit, none, TW_NONE, TW_NONE);
}

static tw_kernel *build(int kind, int columns, bool rs, int fault) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)kind);
    const tw_attrs at = {.wgmma = kind, .columns = columns};
    tw_kernel *k = tw_kernel_new("types", 90, 128);
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_val in_a = tw_pointer_add(b, "a", 16, true), in_b = tw_pointer_add(b, "b", 16, true);
    tw_val out = tw_pointer_add(b, "out", 16, false), acc[MOST / 2], part[4];
    tw_shared_add(b, "a_tile", ROWS * ROW, 256, true);
    tw_shared_add(b, "b_tile", MOST * ROW, 256, true);
    tw_val a_tile = tw_shared_base(b, "a_tile"), b_tile = tw_shared_base(b, "b_tile");
    stage(b, in_a, a_tile, ROWS);
    stage(b, in_b, b_tile, columns);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_barrier, none, TW_NONE, TW_NONE);
    tw_val lane = tw_sreg(b, TW_SREG_laneid), row = tw_shr(b, lane, 2), t = tw_rem(b, lane, 4);
    row = tw_add(b, row, tw_mul_imm(b, tw_sreg(b, TW_SREG_warpid), 16));
    tw_val own = tw_add(b, at64(b, in_a, row, ROW), tw_widen(b, tw_mul_imm(b, t, 4)));
    for (int r = 0; r < 4; r++) {
        part[r] = tw_var(b, TW_T_i32);
        tw_attrs from = word;
        from.offset = r / 2 * 16 + r % 2 * 8 * ROW;
        tw_ld_vec(b, from, own, &part[r]);
    }
    const int sums = tw_wgmma_registers((tw_wgmma_kind)kind, columns);
    for (int i = 0; i < sums; i++) acc[i] = tw_var_of(b, tw_zero(b, m->d));
    tw_val da = descriptor(b, a_tile), db = descriptor(b, b_tile);
    tw_do(b, TW_OP_wgmma_fence, none, TW_NONE, TW_NONE);
    if (fault == A_UNFENCED) tw_assign(b, part[2], tw_i32(b, 0));
    if (fault == SUMS_UNFENCED) tw_assign(b, acc[1], tw_zero(b, m->d));
    one_product(b, at, rs, acc, part, da, db, 0);
    one_product(b, at, rs, acc, part, da, db, 1);
    if (fault == WAITED_TOO_FEW) tw_do(b, TW_OP_wgmma_wait, (tw_attrs){.count = 1}, TW_NONE, TW_NONE);
    if (fault == A_WRITTEN || fault == WAITED_TOO_FEW) tw_assign(b, part[3], tw_i32(b, 0));
    if (fault == A_READ) store(b, word, out, part[1]);
    if (fault == SUMS_WRITTEN) tw_assign(b, acc[0], tw_zero(b, m->d));
    if (fault == SUMS_READ) store(b, word, out, tw_bitcast(b, TW_T_i32, acc[0]));
    tw_do(b, TW_OP_wgmma_wait, none, TW_NONE, TW_NONE);
    if (fault == WRITTEN_AFTER) tw_assign(b, part[3], tw_i32(b, 0));
    tw_val to = at64(b, out, tid(b), MOST / 2 * 4);
    for (int i = 0; i < sums; i++) tw_st(b, (tw_attrs){.type = (int32_t)m->d, .offset = 4 * i}, to, &acc[i]);
    return k;
}

/* -- numbers, decoded by their definitions */

static double number(tw_wgmma_element of, uint32_t bits) {
    static const int exponents[] = {0, 5, 8, 8, 4, 5}, mantissas[] = {0, 10, 7, 10, 3, 2},
                     skipped[] = {0, 0, 0, 13, 0, 0};
    if (of == TW_WGMMA_OF_s8) return (int8_t)bits;
    if (of == TW_WGMMA_OF_u8) return (uint8_t)bits;
    const int e = exponents[of], m = mantissas[of];
    bits >>= skipped[of];
    const int exponent = (int)(bits >> m & ((1u << e) - 1)), bias = (1 << (e - 1)) - 1;
    const double mantissa = (double)(bits & ((1u << m) - 1)) / (1 << m);
    const double x = exponent ? ldexp(1 + mantissa, exponent - bias) : ldexp(mantissa, 1 - bias);
    return bits >> (e + m) & 1 ? -x : x;
}

/* A number whose sums of 64 products fit the type without rounding, or nearly so; bits that a type ignores are set. */
static uint32_t draw(tw_random *r, tw_wgmma_element of, int bytes, double most) {
    for (;;) {
        uint32_t bits = (uint32_t)tw_random_u64(r);
        if (bytes < 4) bits &= (1u << 8 * bytes) - 1;
        const double x = number(of, bits);
        if (x == 0 || (fabs(x) <= most && fabs(x) >= 1.0 / 64)) return bits;
    }
}

/* `size`: what the terms come to without their signs. */
static double sum_of(const uint8_t *a, const uint8_t *b, const tw_wgmma_info *m, double *size) {
    const int bytes = ROW / m->k;
    double sum = 0;
    *size = 0;
    for (int k = 0; k < m->k; k++) {
        uint32_t x = 0, y = 0;
        memcpy(&x, a + (ptrdiff_t)k * bytes, (size_t)bytes);
        memcpy(&y, b + (ptrdiff_t)k * bytes, (size_t)bytes);
        sum += number(m->a, x) * number(m->b, y);
        *size += fabs(number(m->a, x) * number(m->b, y));
    }
    return sum;
}

static double rounded(const tw_wgmma_info *m, double x) {
    return m->d == TW_T_f32     ? (double)(float)x
           : m->d == TW_T_f16x2 ? (double)tw_f16_to_f32(tw_f32_to_f16((float)x))
                                : x;
}

/* A device cuts bits off while it sums: of products of eight bits most. */
static double device_slack(const tw_wgmma_info *m) {
    return m->d == TW_T_i32 ? 0 : m->k == 32 ? 0x1p-11 : 0x1p-20;
}

static void check_sums(const tw_wgmma_info *m, const uint8_t *a, const uint8_t *b, const uint32_t *out, int columns,
                       double slack) {
    for (int thread = 0; thread < 128; thread++)
        for (int i = 0; i < columns / 2; i++) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8,
                      column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            double size;
            const double once = sum_of(a + (ptrdiff_t)row * ROW, b + (ptrdiff_t)column * ROW, m, &size);
            const double want = rounded(m, rounded(m, once) + once);
            const uint32_t *own = out + (ptrdiff_t)thread * (MOST / 2);
            const double got = m->d == TW_T_f32     ? (double)tw_read_f32(own[i])
                               : m->d == TW_T_f16x2 ? (double)tw_f16_to_f32((uint16_t)(own[i / 2] >> i % 2 * 16))
                                                    : (double)(int32_t)own[i];
            const double close = m->d == TW_T_f32 ? fabs(want) * 1e-6 : m->d == TW_T_f16x2 ? fabs(want) * 2e-3 : 0;
            if (!(fabs(got - want) <= close + 2 * slack * size))
                fail_msg("%s: [%d][%d] is %g, not %g", m->name, row, column, got, want);
        }
}

static void draw_both(const tw_wgmma_info *m, int columns, uint64_t seed, uint8_t *a, uint8_t *x) {
    const int bytes = ROW / m->k;
    tw_random r = tw_random_seed(seed);
    for (int i = 0; i < ROWS * m->k + columns * m->k; i++) {
        const bool left = i < ROWS * m->k;
        const uint32_t bits = draw(&r, left ? m->a : m->b, bytes, m->d == TW_T_i32 ? 256 : m->d == TW_T_f16x2 ? 2 : 16);
        memcpy((left ? a : x) + (ptrdiff_t)(left ? i : i - ROWS * m->k) * bytes, &bits, (size_t)bytes);
    }
}

static tw_status play_types(int kind, int columns, bool rs, int fault, uint64_t seed, bool keep_going,
                            tw_emu_report *report) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)kind);
    uint8_t a[ROWS * ROW], x[MOST * ROW];
    uint32_t out[128 * MOST / 2];
    draw_both(m, columns, seed, a, x);
    tw_emu *e = tw_emu_new();
    tw_kernel *k = build(kind, columns, rs, fault);
    tw_diag d;
    if (tw_kernel_verify(k, 90, &d) != TW_OK) fail_msg("%s", d.message);
    const uint64_t arguments[3] = {tw_emu_alloc(e, "a", a, sizeof a, true), tw_emu_alloc(e, "b", x, sizeof x, true),
                                   tw_emu_alloc(e, "out", NULL, sizeof out, false)};
    tw_emu_options o = {.seed = seed, .keep_going = keep_going};
    tw_status st = tw_emu_launch(e, k, arguments, &o, report, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) fail_msg("%s", d.message);
    tw_emu_read(e, arguments[2], out, sizeof out);
    if (st == TW_OK) check_sums(m, a, x, out, columns, 0);
    tw_kernel_free(k);
    tw_emu_free(e);
    return st;
}

static void products_are_right(void **state) {
    (void)state;
    for (int kind = 1; kind < TW_WGMMAS; kind++)
        for (int rs = 0; rs < 2; rs++)
            for (uint64_t seed = 0; seed < 4; seed++) {
                tw_emu_report r;
                const int columns = seed % 2 ? 24 : 32;
                if (play_types(kind, columns, rs, seed == 3 ? WRITTEN_AFTER : 0, seed, false, &r) != TW_OK)
                    fail_msg("kind %d, %d: %s: %s", kind, rs, tw_emu_rule_name(r.findings[0].rule), r.findings[0].text);
            }
}

/* The same on a device. */
static void a_device_agrees(void **state) {
    (void)state;
    tw_cuda *c = gpu_open(90);
    if (!c) skip();
    for (int kind = 1; kind < TW_WGMMAS; kind++)
        for (int rs = 0; rs < 2; rs++) {
            const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)kind);
            uint8_t a[ROWS * ROW], x[MOST * ROW];
            uint32_t out[128 * MOST / 2] = {0};
            tw_diag d;
            draw_both(m, MOST, (uint64_t)kind, a, x);
            tw_kernel *k = build(kind, MOST, rs, 0);
            const uint64_t to[3] = {gpu_upload(c, a, sizeof a), gpu_upload(c, x, sizeof x),
                                    gpu_upload(c, out, sizeof out)};
            gpu_run(c, k, 1, to);
            fine(tw_cuda_download(c, out, to[2], sizeof out, &d), &d);
            check_sums(m, a, x, out, MOST, device_slack(m));
            for (int i = 0; i < 3; i++) tw_cuda_release(c, to[i]);
            tw_kernel_free(k);
        }
    tw_cuda_close(c);
}

/* -- faults */

static const struct {
    int fault;
    bool rs;
    const char *name;
    tw_emu_rule rule;
    const char *words;
} faults[] = {
    {A_UNFENCED, true, "A written after the fence", TW_EMU_ASYNC, "/wgmma_rs|no wgmma_fence since this part of A"},
    {A_WRITTEN, true, "A written before the wait", TW_EMU_ASYNC, "/set|writes a register|product body/wgmma_rs"},
    {WAITED_TOO_FEW, true, "A written after too short a wait", TW_EMU_ASYNC,
     "/set|writes a register|product body/wgmma_rs"},
    {A_READ, true, "A read before the wait", TW_EMU_ASYNC, "/st|reads a part of A|product body/wgmma_rs"},
    {SUMS_UNFENCED, true, "sums set after the fence", TW_EMU_ASYNC, "/wgmma_rs|no wgmma_fence since these acc"},
    {SUMS_UNFENCED, false, "sums set after the fence", TW_EMU_ASYNC, "/wgmma |no wgmma_fence since these acc"},
    {SUMS_WRITTEN, false, "sums written before the wait", TW_EMU_ASYNC, "/set|writes a register|product body/wgmma "},
    {SUMS_READ, false, "sums read before the wait", TW_EMU_UNINITIALISED,
     "/bitcast|has no value yet|product body/wgmma "},
};

static void faults_are_found(void **state) {
    (void)state;
    int missed = 0;
    for (int i = 0; i < COUNT(faults); i++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            tw_emu_report r;
            bool found = false;
            play_types(faults[i].fault > A_READ && !faults[i].rs ? TW_WGMMA_f16 : TW_WGMMA_e4m3, 16, faults[i].rs,
                       faults[i].fault, seed, true, &r);
            for (int j = 0; j < r.n && !found; j++)
                found = r.findings[j].rule == faults[i].rule && holds_all(r.findings[j].text, faults[i].words);
            if (found) continue;
            print_error("%s, seed %d: %s\n", faults[i].name, (int)seed, r.n ? r.findings[0].text : "nothing");
            missed++;
        }
    assert_int_equal(missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_right), cmocka_unit_test(a_device_agrees),
                                       cmocka_unit_test(faults_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

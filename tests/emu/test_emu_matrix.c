/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor cores and what feeds them: every shape of mma as a whole product, with fragments laid out by the PTX manual's
   formulas shape by shape, and through ldmatrix and stmatrix; shuffles, votes and reductions. */
#include "emu/emu_test.h"

typedef struct place {
    int row, column;
} place;

/* The manual's formulas: i counts the elements that a lane holds of A, B (row is k) and C; g = lane / 4, t = lane % 4.
 */
static place a_of(tw_mma_kind kind, int g, int t, int i) {
    switch (kind) {
    case TW_MMA_m16n8k8_f16:
    case TW_MMA_m16n8k8_bf16:
        return (place){i < 2 ? g : g + 8, 2 * t + (i & 1)};
    case TW_MMA_m16n8k16_f16:
    case TW_MMA_m16n8k16_f16acc:
    case TW_MMA_m16n8k16_bf16:
        return (place){i < 2 || (i >= 4 && i < 6) ? g : g + 8, 2 * t + (i & 1) + (i < 4 ? 0 : 8)};
    case TW_MMA_m16n8k4_tf32:
    case TW_MMA_m16n8k4_f64:
        return (place){i == 0 ? g : g + 8, t};
    case TW_MMA_m16n8k8_tf32:
    case TW_MMA_m16n8k8_f64:
        return (place){i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
    case TW_MMA_m8n8k4_f64:
        return (place){g, t};
    case TW_MMA_m16n8k16_f64:
        return (place){i % 2 == 0 ? g : g + 8, t + i / 2 * 4};
    case TW_MMA_m16n8k16_s8:
        return (place){i < 4 ? g : g + 8, 4 * t + (i & 3)};
    default: /* m16n8k32_s8 */
        return (place){i < 4 || (i >= 8 && i < 12) ? g : g + 8, 4 * t + (i & 3) + (i < 8 ? 0 : 16)};
    }
}

static place b_of(tw_mma_kind kind, int g, int t, int i) {
    switch (kind) {
    case TW_MMA_m16n8k8_f16:
    case TW_MMA_m16n8k8_bf16:
        return (place){2 * t + i, g};
    case TW_MMA_m16n8k16_f16:
    case TW_MMA_m16n8k16_f16acc:
    case TW_MMA_m16n8k16_bf16:
        return (place){2 * t + (i & 1) + (i < 2 ? 0 : 8), g};
    case TW_MMA_m16n8k16_s8:
    case TW_MMA_m16n8k32_s8:
        return (place){4 * t + (i & 3) + (i < 4 ? 0 : 16), g};
    default: /* tf32, f64 */
        return (place){t + 4 * i, g};
    }
}

static place c_of(int g, int t, int i) {
    return (place){i < 2 ? g : g + 8, 2 * t + (i & 1)};
}

/* Elements a register holds. */
static int per(tw_mma_kind kind, tw_type t) {
    bool s8 = kind == TW_MMA_m16n8k16_s8 || kind == TW_MMA_m16n8k32_s8;
    return t == TW_T_f16x2 || t == TW_T_bf16x2 ? 2 : s8 && t == TW_T_i32 ? 4 : 1;
}

static uint64_t encode(tw_mma_kind kind, tw_type t, double x) {
    (void)kind;
    switch (t) {
    case TW_T_f16x2:
        return tw_f32_to_f16((float)x);
    case TW_T_bf16x2:
        return tw_f32_to_bf16((float)x);
    case TW_T_f64:
        return tw_write_f64(x);
    case TW_T_f32:
        return tw_f32_bits((float)x);
    default:
        return per(kind, t) == 4 ? (uint8_t)(int8_t)x : tw_f32_bits((float)x);
    }
}

static double decode(tw_mma_kind kind, tw_type t, uint64_t bits) {
    (void)kind;
    switch (t) {
    case TW_T_f16x2:
        return (double)tw_f16_to_f32((uint16_t)bits);
    case TW_T_f64:
        return tw_read_f64(bits);
    case TW_T_f32:
        return (double)tw_bits_f32((uint32_t)bits);
    default:
        return (int32_t)bits;
    }
}

enum { REGS = 16, M = 16, N = 8, K = 32 };
typedef struct matrices {
    double a[M][K], b[K][N], c[M][N];
} matrices;

static void pack(tw_mma_kind kind, const matrices *x, uint64_t in[REGS][32]) {
    const tw_mma_info *m = tw_mma_describe(kind);
    int pa = per(kind, m->ab), pc = m->cd == TW_T_f16x2 ? 2 : 1;
    memset(in, 0, sizeof(uint64_t) * REGS * 32);
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4, bits = 64 >> (m->ab == TW_T_f64 ? 0 : pa == 1 ? 1 : pa == 2 ? 2 : 3);
        for (int i = 0; i < m->a * pa; i++) {
            place p = a_of(kind, g, t, i);
            in[i / pa][lane] |= encode(kind, m->ab, x->a[p.row][p.column]) << bits * (i % pa);
        }
        for (int i = 0; i < m->b * pa; i++) {
            place p = b_of(kind, g, t, i);
            in[m->a + i / pa][lane] |= encode(kind, m->ab, x->b[p.row][p.column]) << bits * (i % pa);
        }
        for (int i = 0; i < m->c * pc; i++) {
            place p = c_of(g, t, i);
            double c = x->c[p.row][p.column];
            uint64_t e = m->cd == TW_T_i32 ? (uint32_t)(int32_t)c : encode(kind, m->cd, c);
            in[m->a + m->b + i / pc][lane] |= e << 16 * (i % pc);
        }
    }
}

/* One mma; registers go in and out as words of 64 bits, [register][lane]. */
static void multiply(tw_mma_kind kind, uint64_t in[REGS][32], uint64_t out[8][32]) {
    const tw_mma_info *m = tw_mma_describe(kind);
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new(m->name, 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_val p = tw_pointer_add(&b, "in", 16, true), q = tw_pointer_add(&b, "out", 16, false), t = tid(&b);
    tw_val v[REGS], d[8] = {{0}};
    for (int i = 0; i < m->a + m->b + m->c; i++)
        v[i] = tw_ld(&b, (tw_attrs){.type = i < m->a + m->b ? m->ab : m->cd, .offset = 256 * i}, at64(&b, p, t, 8));
    tw_mma(&b, kind, d, v, v + m->a, v + m->a + m->b);
    for (int i = 0; i < m->c; i++) store(&b, (tw_attrs){.type = m->cd, .offset = 256 * i}, at64(&b, q, t, 8), d[i]);
    uint64_t zeros[8][32] = {{0}};
    uint64_t args[2] = {tw_emu_alloc(e, "in", in, REGS * 256, true),
                        tw_emu_alloc(e, "out", zeros, sizeof zeros, false)};
    run_clean(e, k, args, (tw_emu_options){0});
    tw_emu_read(e, args[1], out, sizeof zeros);
    tw_kernel_free(k);
    tw_emu_free(e);
}

static void every_shape_is_a_product(void **state) {
    (void)state;
    tw_random r = tw_random_seed(9);
    for (int kind = 1; kind < TW_MMAS; kind++) {
        const tw_mma_info *m = tw_mma_describe((tw_mma_kind)kind);
        matrices x = {0};
        uint64_t in[REGS][32], out[8][32];
        int pc = m->cd == TW_T_f16x2 ? 2 : 1;
        /* Small integers: exact whatever the precision and the order. */
        for (int i = 0; i < m->m; i++)
            for (int j = 0; j < m->k; j++) x.a[i][j] = (double)tw_random_below(&r, 15) - 7;
        for (int i = 0; i < m->k; i++)
            for (int j = 0; j < N; j++) x.b[i][j] = (double)tw_random_below(&r, 15) - 7;
        for (int i = 0; i < m->m; i++)
            for (int j = 0; j < N; j++) x.c[i][j] = (double)tw_random_below(&r, 100) - 50;
        pack((tw_mma_kind)kind, &x, in);
        multiply((tw_mma_kind)kind, in, out);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < m->c * pc; i++) {
                place p = c_of(lane / 4, lane % 4, i);
                double want = x.c[p.row][p.column];
                for (int j = 0; j < m->k; j++) want += x.a[p.row][j] * x.b[j][p.column];
                double got = decode((tw_mma_kind)kind, m->cd, out[i / pc][lane] >> 16 * (i % pc));
                if (got != want) fail_msg("%s: row %d column %d: %g, want %g", m->name, p.row, p.column, got, want);
            }
    }
}

/* f32 results are the exact sum, rounded once. */
static void sums_are_rounded_once(void **state) {
    (void)state;
    tw_random r = tw_random_seed(10);
    matrices x = {0};
    uint64_t in[REGS][32], out[8][32];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 16; j++) x.a[i][j] = (double)tw_f16_to_f32(tw_f32_to_f16(tw_random_normal(&r)));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < N; j++) x.b[i][j] = (double)tw_f16_to_f32(tw_f32_to_f16(tw_random_normal(&r)));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) x.c[i][j] = (double)tw_random_normal(&r);
    pack(TW_MMA_m16n8k16_f16, &x, in);
    multiply(TW_MMA_m16n8k16_f16, in, out);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            place p = c_of(lane / 4, lane % 4, i);
            double want = x.c[p.row][p.column];
            for (int j = 0; j < 16; j++) want += x.a[p.row][j] * x.b[j][p.column];
            assert_true(tw_bits_f32((uint32_t)out[i][lane]) == (float)want);
        }
}

/* Halves, too: a sum just beside the middle of two of them goes to the nearer one, though no float tells it from the
   middle itself. */
static void sums_of_halves_are_rounded_once(void **state) {
    (void)state;
    static const struct {
        double c, little, want; /* c + 1 + little */
    } sums[] = {{2048, 0, 2048},         {2048, 0x1p-24, 2050}, {2048, -0x1p-24, 2048},  {2050, 0, 2052},
                {2050, -0x1p-24, 2050},  {2050, 0x1p-24, 2052}, {-2050, 0, -2048},       {-2050, -0x1p-24, -2050},
                {-2050, 0x1p-24, -2048}, {-2052, 0, -2052},     {-2052, 0x1p-24, -2050}, {-2052, -0x1p-24, -2052}};
    matrices x = {0};
    uint64_t in[REGS][32], out[8][32];
    for (int i = 0; i < COUNT(sums); i++) {
        x.a[i][0] = 1;
        x.a[i][1] = sums[i].little * 0x1p12;
        for (int j = 0; j < N; j++) x.c[i][j] = sums[i].c;
    }
    for (int j = 0; j < N; j++) x.b[0][j] = 1, x.b[1][j] = 0x1p-12;
    pack(TW_MMA_m16n8k16_f16acc, &x, in);
    multiply(TW_MMA_m16n8k16_f16acc, in, out);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            place p = c_of(lane / 4, lane % 4, i);
            if (p.row >= COUNT(sums)) continue;
            double got = decode(TW_MMA_m16n8k16_f16acc, TW_T_f16x2, out[i / 2][lane] >> 16 * (i % 2));
            if (got != sums[p.row].want)
                fail_msg("%g + 1 + %g: %g, want %g", sums[p.row].c, sums[p.row].little, got, sums[p.row].want);
        }
}

/* A (16 x 16) and B through shared memory and ldmatrix; B stored k x n (transposed on the way) or n x k; C as halves
   through stmatrix, straight or transposed. */
static void build_through_matrices(tw_builder *b, bool trans, bool trans_out) {
    tw_val p = tw_pointer_add(b, "in", 16, true), q = tw_pointer_add(b, "out", 16, false);
    tw_shared_add(b, "tile", 1024, 16, false);
    tw_val lane = tid(b), tile = tw_shared_base(b, "tile"), v[4] = {{0}};
    for (int i = 0; i < 2; i++) {
        tw_val w[4] = {{0}};
        tw_ld_vec(b, (tw_attrs){I32, .vec = 4, .offset = 512 * i}, at64(b, p, lane, 16), w);
        tw_st(b, (tw_attrs){I32, .vec = 4, SHARED, .offset = 512 * i}, at32(b, tile, lane, 16), w);
    }
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    /* Rows of A are 32 bytes: lanes 0-15 its left halves, 16-31 the right ones. */
    tw_val row = tw_and(b, lane, tw_i32(b, 15)), right = tw_shl(b, tw_shr(b, lane, 4), 4);
    tw_ldmatrix(b, 4, false, tw_add(b, at32(b, tile, row, 32), right), 0, v);
    /* B as k x n has rows of 16 bytes, as n x k of 32: then lanes 0-7 give the left halves, 8-15 the right ones. */
    tw_val x[2] = {{0}}, low = tw_and(b, lane, tw_i32(b, 7)), half = tw_and(b, tw_shl(b, lane, 1), tw_i32(b, 16));
    tw_val at = trans ? at32(b, tile, row, 16) : tw_add(b, at32(b, tile, low, 32), half);
    tw_ldmatrix(b, 2, trans, at, 512, x);
    tw_val a[4], y[2], c[4], d[4] = {{0}};
    for (int i = 0; i < 4; i++) a[i] = tw_bitcast(b, TW_T_f16x2, v[i]), c[i] = tw_f32(b, 0);
    for (int i = 0; i < 2; i++) y[i] = tw_bitcast(b, TW_T_f16x2, x[i]);
    tw_mma(b, TW_MMA_m16n8k16_f16, d, a, y, c);
    tw_val s[3];
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    /* Two matrices of 8 x 8, one under the other. */
    s[0] = at32(b, tile, row, 16);
    for (int i = 0; i < 2; i++)
        s[1 + i] = tw_bitcast(b, TW_T_i32, tw_binary(b, TW_OP_cvt_f16x2_f32, d[2 * i], d[2 * i + 1]));
    tw_emit(b, TW_OP_stmatrix, (tw_attrs){.vec = 2, .trans = trans_out}, NULL, NULL, 0, s, 3);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_val w[2] = {{0}};
    tw_ld_vec(b, (tw_attrs){I32, .vec = 2, SHARED}, at32(b, tile, lane, 8), w);
    tw_st(b, (tw_attrs){I32, .vec = 2}, at64(b, q, lane, 8), w);
}

static void matrices_through_shared_memory(void **state) {
    (void)state;
    tw_random r = tw_random_seed(11);
    for (int variant = 0; variant < 4; variant++) {
        bool trans = variant & 1, trans_out = variant & 2;
        int a[16][16], b[16][8];
        uint16_t in[512], got[128];
        memset(in, 0, sizeof in);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 16; j++) {
                a[i][j] = (int)tw_random_below(&r, 9) - 4;
                in[16 * i + j] = tw_f32_to_f16((float)a[i][j]);
            }
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                b[i][j] = (int)tw_random_below(&r, 9) - 4;
                in[256 + (trans ? 8 * i + j : 16 * j + i)] = tw_f32_to_f16((float)b[i][j]);
            }
        tw_emu *e = tw_emu_new();
        tw_kernel *k = tw_kernel_new("matrices", 90, 32);
        tw_builder builder = tw_builder_of(k);
        build_through_matrices(&builder, trans, trans_out);
        uint64_t args[2] = {tw_emu_alloc(e, "in", in, sizeof in, true),
                            tw_emu_alloc(e, "out", NULL, sizeof got, false)};
        run_clean(e, k, args, (tw_emu_options){0});
        tw_emu_read(e, args[1], got, sizeof got);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                int want = 0;
                for (int n = 0; n < 16; n++) want += a[i][n] * b[n][j];
                /* Transposed one by one. */
                int at = trans_out ? i / 8 * 64 + j * 8 + i % 8 : i * 8 + j;
                assert_true((float)want == tw_f16_to_f32(got[at]));
            }
        tw_kernel_free(k);
        tw_emu_free(e);
    }
}

/* -- shuffles, votes, reductions */

static int shuffled(int mode, int lane, int by) {
    int from = mode == TW_MODE_up     ? lane - by
               : mode == TW_MODE_down ? lane + by
               : mode == TW_MODE_bfly ? lane ^ by
                                      : by;
    return from < 0 || from > 31 ? lane : from;
}

static void shuffles_votes_and_reductions(void **state) {
    (void)state;
    static const int modes[] = {TW_MODE_idx, TW_MODE_up, TW_MODE_down, TW_MODE_bfly};
    enum { N_MODES = 4, BY = 5, ROWS = N_MODES * BY + 5 };
    uint64_t got[ROWS][32];
    tw_emu *e = tw_emu_new();
    tw_kernel *k = tw_kernel_new("shuffles", 90, 32);
    tw_builder b = tw_builder_of(k);
    tw_val q = tw_pointer_add(&b, "out", 16, false), lane = tid(&b), all = tw_i32(&b, -1);
    tw_val x = tw_binary(&b, TW_OP_mul_wide_u32, lane, tw_i32(&b, 0x10000001));
    int row = 0;
    for (int m = 0; m < N_MODES; m++)
        for (int by = 0; by < BY; by++)
            store(&b, (tw_attrs){.type = TW_T_i64, .offset = 256 * row++}, at64(&b, q, lane, 8),
                  tw_shfl(&b, modes[m], x, tw_i32(&b, by * 7), all));
    tw_val p = tw_lt(&b, tw_rem(&b, lane, 5), tw_i32(&b, 2));
    tw_val ballot = tw_get(&b, TW_OP_vote, (tw_attrs){.mode = TW_MODE_ballot}, TW_T_i32, p, all);
    tw_val any = tw_get(&b, TW_OP_vote, (tw_attrs){.mode = TW_MODE_any}, TW_T_pred, p, all);
    tw_val every = tw_get(&b, TW_OP_vote, (tw_attrs){.mode = TW_MODE_all}, TW_T_pred, p, all);
    tw_val hashed = tw_mul(&b, lane, tw_i32(&b, (int32_t)0x9e3779b1));
    tw_val votes[] = {
        ballot, tw_select(&b, any, tw_i32(&b, 1), tw_i32(&b, 0)), tw_select(&b, every, tw_i32(&b, 1), tw_i32(&b, 0)),
        tw_get(&b, TW_OP_redux_max_u32, (tw_attrs){0}, TW_T_i32, hashed, all),
        tw_select(&b, tw_get(&b, TW_OP_elect, (tw_attrs){0}, TW_T_pred, all, TW_NONE), tw_i32(&b, 1), tw_i32(&b, 0))};
    for (int i = 0; i < 5; i++) {
        tw_val wide = tw_unary(&b, TW_OP_zext_i64_i32, votes[i]);
        store(&b, (tw_attrs){.type = TW_T_i64, .offset = 256 * row++}, at64(&b, q, lane, 8), wide);
    }
    uint64_t a = tw_emu_alloc(e, "out", NULL, sizeof got, false);
    run_clean(e, k, &a, (tw_emu_options){0});
    tw_emu_read(e, a, got, sizeof got);
    uint32_t yes = 0, most = 0;
    for (uint32_t i = 0; i < 32; i++) {
        yes |= (uint32_t)(i % 5 < 2) << i;
        if (i * 0x9e3779b1 > most) most = i * 0x9e3779b1;
    }
    for (int i = 0; i < 32; i++) {
        for (int m = 0; m < N_MODES; m++)
            for (int by = 0; by < BY; by++)
                assert_int_equal(got[m * BY + by][i], (uint64_t)shuffled(modes[m], i, by * 7) * 0x10000001);
        assert_int_equal(got[ROWS - 5][i], yes);
        assert_int_equal(got[ROWS - 4][i], 1);
        assert_int_equal(got[ROWS - 3][i], 0);
        assert_int_equal(got[ROWS - 2][i], most);
        assert_int_equal(got[ROWS - 1][i], i == 31);
    }
    tw_kernel_free(k);
    tw_emu_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_a_product),        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(sums_of_halves_are_rounded_once), cmocka_unit_test(matrices_through_shared_memory),
        cmocka_unit_test(shuffles_votes_and_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

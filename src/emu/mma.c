/* SPDX-License-Identifier: Apache-2.0 */
/* mma. A warp multiplies matrices that are spread over its lanes in fragments.

   A register of A or B holds E elements: 2 halves, 4 bytes, or 1 of any other type. The PTX manual's figures for m16n8
   and m8n8 show which element of a matrix element e of register r of lane 4 * g + t is:
   In A it has row g + 8 * (r & 1) and column 4 * E * (r / 2) + E * t + e.
   In B it has row 4 * E * r + E * t + e and column g.
   In C it has row g + 8 * (r / 2) and column 2 * t + (r & 1).
   In a C of pairs of halves it has row g + 8 * r and column 2 * t + e.

   Products are exact. Sums of one operation, with C among them, are doubles and rounded once. Tensor cores keep fewer
   bits while summing, so results differ by a few units in the last place of the largest term. f64 is a chain of fma,
   and s8 is exact modulo 2^32. */
#include "emu/machine.h"
#include "ir/value.h"

enum { M = EMU_M, N = EMU_N, K = EMU_K };

static inline double half_of(uint32_t h) {
    uint32_t bits = (h & 0x7fff) << 13;
    float f = (h & 0x7c00) == 0x7c00 ? tw_bits_f32(bits | 0x7f800000u) : tw_bits_f32(bits) * 0x1p112f;
    return (double)(h & 0x8000 ? -f : f);
}

/* Reads the elements of a register of A or B, lane by lane. */
static void spread(tw_type t, int per, const void *reg, double out[EMU_LANES][4]) {
    const uint32_t *r = reg;
    const uint64_t *wide = reg;
    for (int lane = 0; lane < EMU_LANES; lane++) switch (t) {
        case TW_T_f16x2:
            out[lane][0] = half_of(r[lane] & 0xffff);
            out[lane][1] = half_of(r[lane] >> 16);
            break;
        case TW_T_bf16x2:
            out[lane][0] = tw_bf16_to_f32((uint16_t)r[lane]);
            out[lane][1] = tw_bf16_to_f32((uint16_t)(r[lane] >> 16));
            break;
        case TW_T_f64:
            out[lane][0] = tw_read_f64(wide[lane]);
            break;
        default:
            /* An i32 holds bytes, or a tf32, of which the hardware reads 19 bits. */
            if (per == 1) out[lane][0] = tw_bits_f32(r[lane] & ~0x1fffu);
            for (int e = 0; per == 4 && e < 4; e++) out[lane][e] = (int8_t)(r[lane] >> 8 * e);
        }
}

static int per_register(const tw_mma_info *m) {
    return m->m * m->k / EMU_LANES / m->a;
}

static void gather_a(const emu_warp *w, const emu_op *op, const tw_mma_info *m, double a[M][K]) {
    int per = per_register(m);
    double x[EMU_LANES][4];
    for (int r = 0; r < m->a; r++) {
        spread(m->ab, per, emu_reg(w, op->in[r]), x);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            double *to = &a[lane / 4 + 8 * (r & 1)][4 * per * (r / 2) + per * (lane % 4)];
            for (int e = 0; e < per; e++) to[e] = x[lane][e];
        }
    }
}

static void gather_b(const emu_warp *w, const emu_op *op, const tw_mma_info *m, double b[K][N]) {
    int per = per_register(m);
    double x[EMU_LANES][4];
    for (int r = 0; r < m->b; r++) {
        spread(m->ab, per, emu_reg(w, op->in[m->a + r]), x);
        for (int lane = 0; lane < EMU_LANES; lane++)
            for (int e = 0; e < per; e++) b[4 * per * r + per * (lane % 4) + e][lane / 4] = x[lane][e];
    }
}

static double value_of(tw_type t, uint64_t bits, int e) {
    return t == TW_T_f32     ? (double)tw_read_f32(bits)
           : t == TW_T_f64   ? tw_read_f64(bits)
           : t == TW_T_f16x2 ? (double)tw_f16_to_f32((uint16_t)(bits >> 16 * e))
                             : (double)(int32_t)bits;
}

/* Converts by way of a float rounded to odd, so that nothing is rounded twice. */
uint16_t emu_to_half(double x) {
    float f = (float)x;
    uint32_t u = tw_f32_bits(f);
    if ((double)f != x && !isnan(x) && !isinf(f) && !(u & 1)) u = fabs((double)f) > fabs(x) ? u - 1 : u + 1;
    return tw_f32_to_f16(tw_bits_f32(u));
}

emu_next emu_exec_mma(emu_warp *w, const emu_op *op) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)op->ir->at.mma);
    double a[M][K], b[K][N], c[M][N];
    if (w->live & ~w->active) {
        uint32_t missing = w->live & ~w->active;
        emu_find(w, op, __builtin_ctz(w->active), TW_EMU_DIVERGENCE, "lane %d and %d more of this warp are not there",
                 __builtin_ctz(missing), __builtin_popcount(missing) - 1);
        return EMU_GO;
    }
    gather_a(w, op, m, a);
    gather_b(w, op, m, b);
    bool pairs = m->cd == TW_T_f16x2;
    for (int r = 0; r < m->c; r++)
        for (int lane = 0; lane < EMU_LANES; lane++)
            for (int e = 0; e < 1 + pairs; e++) {
                int row = lane / 4 + 8 * (pairs ? r : r / 2), column = lane % 4 * 2 + (pairs ? e : r & 1);
                c[row][column] = value_of(m->cd, emu_get(w, op->in[m->a + m->b + r], lane), e);
            }
    w->launch->product(m, a, b, c);
    for (int r = 0; r < m->c; r++)
        for (int lane = 0; lane < EMU_LANES; lane++) {
            int row = lane / 4 + 8 * (pairs ? r : r / 2), column = lane % 4 * 2 + (pairs ? 0 : r & 1);
            double x = c[row][column];
            uint64_t bits = m->cd == TW_T_f32   ? tw_write_f32((float)x)
                            : m->cd == TW_T_f64 ? tw_write_f64(x)
                            : pairs ? (uint64_t)emu_to_half(x) | (uint64_t)emu_to_half(c[row][column + 1]) << 16
                                    : (uint32_t)(int64_t)x;
            emu_put(w, op->out[r], lane, bits);
        }
    return EMU_GO;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a warpgroup. Each of its four warps computes its own 16 rows of the 64, so none waits for another here:
   lane 4 * g + t holds, in register r, row g + 8 * (r / 2 % 2) of them and column 8 * (r / 4) + 2 * t + r % 2.

   What a product reads is checked where it is issued, as an act of the warp's multiplier, which only who waited for the
   group comes after. Sums are there at once, but the accumulators count as without a value until then. Numbers are
   taken as those of mma are. */
#include "emu/machine.h"
#include "ir/value.h"

enum { K = 16, ROWS = 16, PIECE = 16 };

static bool whole_warp(emu_warp *w, const emu_op *op) {
    uint32_t missing = EMU_ALL & ~w->active;
    if (!missing) return true;
    emu_find(w, op, __builtin_ctz(w->active), TW_EMU_DIVERGENCE,
             "lane %d and %d more of this warp are not there, and a warpgroup has all of its lanes",
             __builtin_ctz(missing), __builtin_popcount(missing) - 1);
    return false;
}

/* Bytes of a row; 0: the layout without a swizzle. */
static int swizzle_of(uint64_t descriptor) {
    static const int widths[] = {0, 128, 64, 32};
    return widths[descriptor >> 62];
}

typedef struct matrix {
    uint64_t descriptor;
    bool across; /* along rows (columns), not along k */
    int from, n; /* rows (columns) that are wanted */
} matrix;

/* Where element (row, k) lies: the address of its piece of 16 bytes, and its place in that. */
static uint32_t piece_of(const matrix *m, int row, int k, int *within) {
    const uint32_t first = (uint32_t)(m->descriptor >> 16 & 0x3fff) << 4,
                   second = (uint32_t)(m->descriptor >> 32 & 0x3fff) << 4;
    const int width = swizzle_of(m->descriptor), elements = width / 2; /* of a row */
    uint32_t at = (uint32_t)(m->descriptor & 0x3fff) << 4;
    if (m->across)
        at += (uint32_t)(row / elements) * first + (uint32_t)(k / 8) * second +
              (uint32_t)(k % 8 * width + row % elements * 2);
    else
        at += (uint32_t)(row / 8) * second + (uint32_t)(row % 8 * width + k * 2);
    at ^= at >> 3 & (uint32_t)(width - PIECE);
    *within = (int)(at % PIECE);
    return at - at % PIECE;
}

/* Fetches [row][k], a piece of 8 elements at a time; false after a finding. */
static bool gather(emu_warp *w, const emu_op *op, const emu_how *how, const matrix *m, bool bf16, double *out) {
    for (int outer = 0; outer < (m->across ? K : m->n); outer++)
        for (int inner = 0; inner < (m->across ? m->n : K); inner += 8) {
            const int row = m->across ? inner : outer, k = m->across ? outer : inner;
            int within;
            const uint32_t at = piece_of(m, m->from + row, k, &within);
            const uint8_t *p = emu_access(w, op, how, 0, TW_SPACE_shared, at, PIECE, NULL);
            if (!p) return false;
            for (int e = 0; e < 8; e++) {
                uint16_t h;
                memcpy(&h, p + (size_t)2 * (size_t)e, 2);
                const double x = (double)(bf16 ? tw_bf16_to_f32(h) : tw_f16_to_f32(h));
                out[m->across ? (row + e) * K + k : row * K + k + e] = x;
            }
        }
    return true;
}

static bool descriptor_is_known(emu_warp *w, const emu_op *op, int operand, uint64_t d) {
    if (swizzle_of(d) && !(d >> 49 & 7)) return true;
    emu_find(w, op, 0, TW_EMU_ALIGNMENT, "descriptor %d, 0x%llx, is of no swizzle, which is not known here", operand,
             (unsigned long long)d);
    return false;
}

/* The accumulators' variables, in the order of `assigned`: nobody but products may have touched them since a fence. */
static void take_accumulators(emu_warp *w, const emu_op *op) {
    if (!w->fenced_products)
        emu_find(w, op, -1, TW_EMU_ASYNC, "no wgmma_fence since these accumulators were waited for or set");
    for (int i = 0; i < op->n_assigned; i++) {
        const int v = op->assigned[i];
        if (!w->pending[v] && w->assigned[v] != EMU_ALL)
            emu_find(w, op, -1, TW_EMU_UNINITIALISED, "adds to a variable that has no value in some lane");
        w->pending[v] = w->agents[EMU_MULTIPLIER];
        w->assigned[v] = 0;
    }
}

static void multiply(const emu_warp *w, const emu_op *op, const double *a, const double *b) {
    const uint32_t add = emu_lanes(w, op->in[2]);
    for (int r = 0; r < op->n_out; r++)
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const double *x = a + (lane / 4 + r / 2 % 2 * 8) * K, *y = b + (r / 4 * 8 + lane % 4 * 2 + r % 2) * K;
            double sum = add & 1 ? (double)tw_read_f32(emu_get(w, op->in[3 + r], lane)) : 0;
            for (int k = 0; k < K; k++) sum += x[k] * y[k];
            emu_put(w, op->out[r], lane, tw_write_f32((float)sum));
        }
}

emu_next emu_exec_wgmma(emu_warp *w, const emu_op *op) {
    const tw_attrs *at = &op->ir->at;
    if (!whole_warp(w, op)) return EMU_GO;
    double a[ROWS * K], b[TW_WGMMA_COLUMNS * K];
    const matrix left = {emu_get(w, op->in[0], 0), at->trans_a, w->index % 4 * ROWS, ROWS};
    const matrix right = {emu_get(w, op->in[1], 0), at->trans_b, 0, at->columns};
    if (!descriptor_is_known(w, op, 0, left.descriptor) || !descriptor_is_known(w, op, 1, right.descriptor))
        return EMU_GO;
    const uint32_t clock = ++w->agents[EMU_MULTIPLIER];
    const emu_how how = {.read = true,
                         .async = true,
                         .agent = EMU_MULTIPLIER,
                         .thread = emu_agent(w, EMU_MULTIPLIER),
                         .clock = clock,
                         .align = PIECE};
    if (w->launch->checked) take_accumulators(w, op);
    const bool bf16 = at->wgmma == TW_WGMMA_bf16;
    if (gather(w, op, &how, &left, bf16, a) && gather(w, op, &how, &right, bf16, b)) multiply(w, op, a, b);
    return EMU_GO;
}

emu_next emu_exec_wgmma_fence(emu_warp *w, const emu_op *op) {
    if (whole_warp(w, op)) w->fenced_products = true;
    return EMU_GO;
}

emu_next emu_exec_wgmma_commit(emu_warp *w, const emu_op *op) {
    if (whole_warp(w, op)) emu_commit_add(w, &w->products, EMU_ALL, w->agents[EMU_MULTIPLIER]);
    return EMU_GO;
}

/* All lanes wait together, and so learn together. */
emu_next emu_exec_wgmma_wait(emu_warp *w, const emu_op *op) {
    emu_launch *l = w->launch;
    if (!whole_warp(w, op) || !l->checked) return EMU_GO;
    const uint32_t done = emu_commit_done(&w->products, 0, op->ir->at.count);
    if (!done) return EMU_GO;
    emu_clock_put(l, &w->known, emu_agent(w, EMU_MULTIPLIER), EMU_ALL, done + 1);
    for (int i = 0; i < l->code.n_checked; i++) {
        if (!w->pending[i] || w->pending[i] > done) continue;
        w->pending[i] = 0;
        w->assigned[i] = EMU_ALL;
        w->fenced_products = false;
    }
    return EMU_GO;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma. Each of a warpgroup's four warps computes its own 16 of the 64 rows, so no warp waits for another here.
   Register r of lane 4 * g + t holds row g + 8 * (r / 2 % 2) of the 16 and column 8 * (r / 4) + 2 * t + r % 2. With f16
   accumulators two neighbouring columns share a register.

   A product's reads are checked when it is issued. They belong to an agent, the warp's multiplier, and only a wait for
   the product's group comes after them. The accumulators are computed at once, but have no value until that wait.
   Elements are read as in mma.c. */
#include "emu/machine.h"
#include "ir/value.h"

enum {
    ROW = 32,     /* Bytes that a product takes along k. */
    K = EMU_K,    /* The most elements along k, for types of one byte. */
    ROWS = EMU_M, /* Rows of a warp. */
    PIECE = 16,   /* Bytes that a swizzle moves together. */
};

bool emu_whole_warp(emu_warp *w, const emu_op *op) {
    uint32_t missing = EMU_ALL & ~w->active;
    if (!missing) return true;
    emu_find(w, op, __builtin_ctz(w->active), TW_EMU_DIVERGENCE,
             "lane %d and %d more of this warp are not there, and a warpgroup has all of its lanes",
             __builtin_ctz(missing), __builtin_popcount(missing) - 1);
    return false;
}

/* The swizzle's width in bytes. 0: the layout without a swizzle. */
static int swizzle_of(uint64_t descriptor) {
    static const int widths[] = {0, 128, 64, 32};
    return widths[descriptor >> 62];
}

typedef struct matrix {
    uint64_t descriptor;
    bool across; /* Elements are contiguous along rows (of B columns) instead of along k. */
    int from;    /* The first row (of B column). */
    int n;       /* Number of rows (of B columns). */
    tw_wgmma_element of;
    int bytes; /* Bytes of an element. */
} matrix;

/* Converts an e4m3 or e5m2. */
static double small_float(uint8_t x, tw_wgmma_element of) {
    if (of == TW_WGMMA_OF_e5m2) return (double)tw_f16_to_f32((uint16_t)(x << 8));
    return (double)tw_e4m3_to_f32(x);
}

static double element(tw_wgmma_element of, const uint8_t *p) {
    uint16_t h;
    uint32_t word;
    switch (of) {
    case TW_WGMMA_OF_f16:
    case TW_WGMMA_OF_bf16:
        memcpy(&h, p, sizeof h);
        return (double)(of == TW_WGMMA_OF_f16 ? tw_f16_to_f32(h) : tw_bf16_to_f32(h));
    case TW_WGMMA_OF_tf32:
        memcpy(&word, p, sizeof word);
        return (double)tw_bits_f32(word & ~0x1fffu);
    case TW_WGMMA_OF_s8:
        return (int8_t)*p;
    case TW_WGMMA_OF_u8:
        return *p;
    default:
        return small_float(*p, of);
    }
}

/* Computes where element (row, k) lies: returns the address of its 16-byte piece, and sets the offset in it. */
static uint32_t piece_of(const matrix *m, int row, int k, int *within) {
    const uint32_t first = (uint32_t)(m->descriptor >> 16 & 0x3fff) << 4,
                   second = (uint32_t)(m->descriptor >> 32 & 0x3fff) << 4;
    const int width = swizzle_of(m->descriptor), elements = width / 2; /* A row's 16-bit elements. */
    uint32_t at = (uint32_t)(m->descriptor & 0x3fff) << 4;
    if (m->across)
        at += (uint32_t)(row / elements) * first + (uint32_t)(k / 8) * second +
              (uint32_t)(k % 8 * width + row % elements * 2);
    else
        at += (uint32_t)(row / 8) * second + (uint32_t)(row % 8 * width + k * m->bytes);
    at ^= at >> 3 & (uint32_t)(width - PIECE);
    *within = (int)(at % PIECE);
    return at - at % PIECE;
}

/* Reads a matrix from shared memory, a 16-byte piece at a time: A to out[row][k], B to out[column / 8][k][column % 8].
   Returns false after a finding. */
static bool gather(emu_warp *w, const emu_op *op, const emu_how *how, const matrix *m, bool of_b, double *out) {
    const int per = PIECE / m->bytes, depth = ROW / m->bytes;
    for (int outer = 0; outer < (m->across ? depth : m->n); outer++)
        for (int inner = 0; inner < (m->across ? m->n : depth); inner += per) {
            const int row = m->across ? inner : outer, k = m->across ? outer : inner;
            int within;
            const uint32_t at = piece_of(m, m->from + row, k, &within);
            const uint8_t *p = emu_access(w, op, how, 0, TW_SPACE_shared, at, PIECE, NULL);
            if (!p) return false;
            for (int e = 0; e < per; e++) {
                const int r = m->across ? row + e : row, c = m->across ? k : k + e;
                out[of_b ? (r / EMU_N * K + c) * EMU_N + r % EMU_N : r * K + c] =
                    element(m->of, p + (size_t)e * (size_t)m->bytes);
            }
        }
    return true;
}

/* Reads A from registers to out[row][k]. ops.def describes their layout at wgmma_rs. */
static void spread(const emu_warp *w, const emu_op *op, const matrix *m, double *out) {
    for (int r = 0; r < 4; r++)
        for (int lane = 0; lane < EMU_LANES; lane++) {
            const uint32_t x = (uint32_t)emu_get(w, op->in[r], lane);
            uint8_t bytes[4];
            memcpy(bytes, &x, sizeof x);
            double *to = out + (lane / 4 + r % 2 * 8) * K + (r / 2 * PIECE + lane % 4 * 4) / m->bytes;
            for (int e = 0; e < 4 / m->bytes; e++) to[e] = element(m->of, bytes + (ptrdiff_t)e * m->bytes);
        }
}

static bool descriptor_is_known(emu_warp *w, const emu_op *op, int operand, uint64_t d) {
    if (swizzle_of(d) && !(d >> 49 & 7)) return true;
    emu_find(w, op, 0, TW_EMU_ALIGNMENT, "descriptor %d, 0x%llx, is of no swizzle, which is not known here", operand,
             (unsigned long long)d);
    return false;
}

/* Gives a variable to this product. Only products may have used it since the last wgmma_fence. */
static void take(emu_warp *w, const emu_op *op, int v, const char *unfenced) {
    emu_pending *p = &w->pending[v];
    if (!p->fenced) emu_find(w, op, -1, TW_EMU_ASYNC, "no wgmma_fence since %s", unfenced);
    p->clock = w->agents[EMU_MULTIPLIER];
    p->op = op;
}

/* Gives the accumulators and, with wgmma_rs, A's registers to this product. The operation assigns the accumulators; A's
   registers are the first four variables that it reads. */
static void take_registers(emu_warp *w, const emu_op *op) {
    for (int i = 0; i < op->n_assigned; i++) {
        const int v = op->assigned[i];
        if (!w->pending[v].clock && w->assigned[v] != EMU_ALL)
            emu_find(w, op, -1, TW_EMU_UNINITIALISED, "adds to a variable that has no value in some lane");
        take(w, op, v, "these accumulators were waited for or set");
        w->assigned[v] = 0;
    }
    for (int i = 0; op->ir->code == TW_OP_wgmma_rs && i < 4; i++) {
        const int v = op->checked[i];
        if (w->assigned[v] != EMU_ALL)
            emu_find(w, op, -1, TW_EMU_UNINITIALISED, "reads a part of A that has no value in some lane");
        take(w, op, v, "this part of A was written");
    }
}

/* Reads accumulator i of a lane. Two of f16 share a register. */
static double get_sum(const emu_warp *w, tw_type t, const emu_ref *refs, int i, int lane) {
    if (t == TW_T_f16x2) return (double)tw_f16_to_f32((uint16_t)(emu_get(w, refs[i / 2], lane) >> i % 2 * 16));
    const uint64_t x = emu_get(w, refs[i], lane);
    return t == TW_T_f32 ? (double)tw_read_f32(x) : (double)(int32_t)x;
}

static void put_sum(const emu_warp *w, tw_type t, const emu_ref *refs, int i, int lane, double x) {
    if (t == TW_T_f16x2) {
        const uint32_t shift = (uint32_t)i % 2 * 16,
                       keep = (uint32_t)emu_get(w, refs[i / 2], lane) & ~(0xffffu << shift);
        emu_put(w, refs[i / 2], lane, keep | (uint32_t)emu_to_half(x) << shift);
    } else {
        emu_put(w, refs[i], lane, t == TW_T_f32 ? tw_write_f32((float)x) : (uint32_t)(int64_t)x);
    }
}

/* Multiplies, eight columns at a time. Operand `add` tells whether to add to the accumulators, which are the operands
   after it. */
static void multiply(const emu_warp *w, const emu_op *op, int add, int depth, double a[ROWS][K], double b[][K][EMU_N]) {
    const tw_type t = tw_wgmma_describe((tw_wgmma_kind)op->ir->at.wgmma)->d;
    const tw_mma_info eight = {.m = ROWS, .n = EMU_N, .k = depth, .cd = t};
    const bool adds = emu_lanes(w, op->in[add]) & 1;
    for (int i = 0; i < op->ir->at.columns / 2; i += 4) {
        double c[EMU_M][EMU_N] = {0};
        for (int r = 0; r < 4 && adds; r++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                c[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2] = get_sum(w, t, op->in + add + 1, i + r, lane);
        w->launch->product(&eight, a, b[i / 4], c);
        for (int r = 0; r < 4; r++)
            for (int lane = 0; lane < EMU_LANES; lane++)
                put_sum(w, t, op->out, i + r, lane, c[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2]);
    }
}

/* Computes a product. `in_registers`: A is in registers, not in shared memory. */
static emu_next product(emu_warp *w, const emu_op *op, bool in_registers) {
    const tw_attrs *at = &op->ir->at;
    const tw_wgmma_info *info = tw_wgmma_describe((tw_wgmma_kind)at->wgmma);
    const int of_b = in_registers ? 4 : 1, bytes = ROW / info->k;
    if (!emu_whole_warp(w, op)) return EMU_GO;
    double a[ROWS][K], b[TW_WGMMA_COLUMNS / EMU_N][K][EMU_N];
    matrix left = {.from = w->index % 4 * ROWS, .n = ROWS, .of = info->a, .bytes = bytes, .across = at->trans_a};
    const matrix right = {emu_get(w, op->in[of_b], 0), at->trans_b, 0, at->columns, info->b, bytes};
    if (!in_registers) left.descriptor = emu_get(w, op->in[0], 0);
    if (!in_registers && !descriptor_is_known(w, op, 0, left.descriptor)) return EMU_GO;
    if (!descriptor_is_known(w, op, of_b, right.descriptor)) return EMU_GO;
    const uint32_t clock = ++w->agents[EMU_MULTIPLIER];
    const emu_how how = {.read = true,
                         .async = true,
                         .agent = EMU_MULTIPLIER,
                         .thread = emu_agent(w, EMU_MULTIPLIER),
                         .clock = clock,
                         .align = PIECE};
    if (w->launch->checked) take_registers(w, op);
    if (in_registers)
        spread(w, op, &left, *a);
    else if (!gather(w, op, &how, &left, false, *a))
        return EMU_GO;
    if (gather(w, op, &how, &right, true, **b)) multiply(w, op, of_b + 1, info->k, a, b);
    return EMU_GO;
}

emu_next emu_exec_wgmma(emu_warp *w, const emu_op *op) {
    return product(w, op, false);
}

emu_next emu_exec_wgmma_rs(emu_warp *w, const emu_op *op) {
    return product(w, op, true);
}

emu_next emu_exec_wgmma_fence(emu_warp *w, const emu_op *op) {
    if (!emu_whole_warp(w, op)) return EMU_GO;
    for (int i = 0; i < w->launch->code.n_checked; i++) w->pending[i].fenced = true;
    return EMU_GO;
}

emu_next emu_exec_wgmma_commit(emu_warp *w, const emu_op *op) {
    if (emu_whole_warp(w, op)) emu_commit_add(w, &w->products, EMU_ALL, w->agents[EMU_MULTIPLIER]);
    return EMU_GO;
}

/* The groups belong to the warp, so all lanes come after the same products. */
emu_next emu_exec_wgmma_wait(emu_warp *w, const emu_op *op) {
    emu_launch *l = w->launch;
    if (!emu_whole_warp(w, op) || !l->checked) return EMU_GO;
    const uint32_t done = emu_commit_done(&w->products, 0, op->ir->at.count);
    if (!done) return EMU_GO;
    emu_clock_put(l, &w->known, emu_agent(w, EMU_MULTIPLIER), EMU_ALL, done + 1);
    for (int i = 0; i < l->code.n_checked; i++) {
        emu_pending *p = &w->pending[i];
        if (!p->clock || p->clock > done) continue;
        p->clock = 0;
        if (w->assigned[i] == EMU_ALL) continue; /* The variable holds a part of A, and kept its value. */
        w->assigned[i] = EMU_ALL;
        p->fenced = false;
    }
    return EMU_GO;
}

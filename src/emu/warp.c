/* SPDX-License-Identifier: Apache-2.0 */
/* Operations across the lanes of a warp. */
#include "emu/machine.h"

/* Checks that every lane that is alive takes part. Returns false after a finding. */
static bool together(emu_warp *w, const emu_op *op) {
    uint32_t missing = w->live & ~w->active;
    if (!missing) return true;
    emu_find(w, op, __builtin_ctz(w->active), TW_EMU_DIVERGENCE, "lane %d and %d more of this warp are not there",
             __builtin_ctz(missing), __builtin_popcount(missing) - 1);
    return false;
}

/* Checks that all lanes that a lane's mask names are there, and the lane itself is named. Returns false after a
   finding. */
static bool named(emu_warp *w, const emu_op *op, int lane, uint32_t mask) {
    uint32_t missing = mask & w->live & ~w->active;
    if (!(mask >> lane & 1)) {
        emu_find(w, op, lane, TW_EMU_DIVERGENCE, "its mask 0x%x does not name it", mask);
        return false;
    }
    if (missing) {
        emu_find(w, op, lane, TW_EMU_DIVERGENCE, "its mask 0x%x names lane %d, which is not there", mask,
                 __builtin_ctz(missing));
        return false;
    }
    return true;
}

/* Reads a mask, operand `at`, of the first lane in `left`, and checks that all lanes that it names have the same. 0:
   there was a finding. */
static uint32_t meeting(emu_warp *w, const emu_op *op, int at, uint32_t left) {
    const int lane = __builtin_ctz(left);
    const uint32_t mask = (uint32_t)emu_get(w, op->in[at], lane);
    if (!named(w, op, lane, mask)) return 0;
    EMU_EACH(other, mask & left) {
        if ((uint32_t)emu_get(w, op->in[at], (int)other) == mask) continue;
        emu_find(w, op, (int)other, TW_EMU_DIVERGENCE, "lanes of one meeting name different masks");
        return 0;
    }
    return mask;
}

emu_next emu_exec_warp_sync(emu_warp *w, const emu_op *op) {
    for (uint32_t left = w->active; left;) {
        const uint32_t mask = meeting(w, op, 0, left);
        if (!mask) return EMU_GO;
        if (w->launch->checked) emu_converge(w, mask & w->live);
        left &= ~mask;
    }
    return EMU_GO;
}

static int source_lane(int mode, int lane, uint32_t by) {
    switch (mode) {
    case TW_MODE_up:
        return lane - (int)(by & 31) < 0 ? lane : lane - (int)(by & 31);
    case TW_MODE_down:
        return lane + (int)(by & 31) > 31 ? lane : lane + (int)(by & 31);
    case TW_MODE_bfly:
        return lane ^ (int)(by & 31);
    default:
        return (int)(by & 31);
    }
}

emu_next emu_exec_shfl(emu_warp *w, const emu_op *op) {
    uint64_t out[EMU_LANES];
    EMU_EACH(lane, w->active) {
        if (!named(w, op, (int)lane, (uint32_t)emu_get(w, op->in[2], (int)lane))) return EMU_GO;
    }
    EMU_EACH(lane, w->active) {
        uint32_t mask = (uint32_t)emu_get(w, op->in[2], (int)lane);
        int from = source_lane(op->ir->at.mode, (int)lane, (uint32_t)emu_get(w, op->in[1], (int)lane));
        if (!(w->active & mask) || !((w->active & mask) >> from & 1)) {
            emu_find(w, op, (int)lane, TW_EMU_DIVERGENCE, "takes the value of lane %d, which takes no part", from);
            return EMU_GO;
        }
        out[lane] = emu_get(w, op->in[0], from);
    }
    EMU_EACH(to, w->active) emu_put(w, op->out[0], (int)to, out[to]);
    return EMU_GO;
}

emu_next emu_exec_vote(emu_warp *w, const emu_op *op) {
    uint32_t p = emu_lanes(w, op->in[0]);
    uint32_t masks[EMU_LANES];
    EMU_EACH(lane, w->active) {
        masks[lane] = op->n_in > 1 ? (uint32_t)emu_get(w, op->in[1], (int)lane) : EMU_ALL;
        if (!named(w, op, (int)lane, masks[lane])) return EMU_GO;
    }
    EMU_EACH(to, w->active) {
        uint32_t among = masks[to] & w->active, yes = p & among;
        uint64_t r = op->ir->at.mode == TW_MODE_any ? yes != 0 : op->ir->at.mode == TW_MODE_all ? yes == among : yes;
        emu_put(w, op->out[0], (int)to, r);
    }
    return EMU_GO;
}

emu_next emu_exec_redux_max_u32(emu_warp *w, const emu_op *op) {
    for (uint32_t left = w->active, mask; left; left &= ~mask) {
        uint32_t most = 0;
        if (!(mask = meeting(w, op, 1, left))) return EMU_GO;
        EMU_EACH(lane, mask & left) {
            const uint32_t x = (uint32_t)emu_get(w, op->in[0], (int)lane);
            if (x > most) most = x;
        }
        EMU_EACH(lane, mask & left) emu_put(w, op->out[0], (int)lane, most);
    }
    return EMU_GO;
}

/* -- 8 x 8 matrices of 16 bits. Lane i has the address of row i % 8 of matrix i / 8. A lane holds two neighbours of
   each matrix, in row lane / 4 or, transposed, in column lane / 4. */

static uint8_t *row_of(emu_warp *w, const emu_op *op, const emu_how *how, int lane) {
    uint64_t address = (uint32_t)(emu_get(w, op->in[0], lane) + (uint64_t)op->ir->at.offset);
    return emu_access(w, op, how, lane, TW_SPACE_shared, address, 16, NULL);
}

static uint16_t half_at(uint8_t *const rows[8], int row, int column) {
    uint16_t h = 0;
    if (rows[row]) memcpy(&h, rows[row] + (size_t)2 * (size_t)column, 2);
    return h;
}

emu_next emu_exec_ldmatrix(emu_warp *w, const emu_op *op) {
    int n = op->ir->at.vec ? op->ir->at.vec : 1;
    if (!together(w, op)) return EMU_GO;
    if (op->load) emu_load_starts(w, op);
    emu_how how = emu_weak(w, true, false);
    for (int m = 0; m < n; m++) {
        uint8_t *rows[8];
        for (int i = 0; i < 8; i++) rows[i] = row_of(w, op, &how, 8 * m + i);
        EMU_EACH(lane, w->active) {
            int r = (int)lane / 4, c = (int)lane % 4 * 2;
            bool t = op->ir->at.trans;
            uint32_t low = t ? half_at(rows, c, r) : half_at(rows, r, c);
            uint32_t high = t ? half_at(rows, c + 1, r) : half_at(rows, r, c + 1);
            emu_put(w, op->out[m], (int)lane, low | high << 16);
        }
    }
    return EMU_GO;
}

emu_next emu_exec_stmatrix(emu_warp *w, const emu_op *op) {
    int n = op->ir->at.vec ? op->ir->at.vec : 1;
    if (!together(w, op)) return EMU_GO;
    emu_how how = emu_weak(w, false, true);
    for (int m = 0; m < n; m++) {
        uint16_t matrix[8][8];
        EMU_EACH(lane, w->active) {
            int r = (int)lane / 4, c = (int)lane % 4 * 2;
            uint32_t x = (uint32_t)emu_get(w, op->in[1 + m], (int)lane);
            bool t = op->ir->at.trans;
            *(t ? &matrix[c][r] : &matrix[r][c]) = (uint16_t)x;
            *(t ? &matrix[c + 1][r] : &matrix[r][c + 1]) = (uint16_t)(x >> 16);
        }
        for (int i = 0; i < 8; i++) {
            uint8_t *row = row_of(w, op, &how, 8 * m + i);
            if (row) memcpy(row, matrix[i], 16);
        }
    }
    w->launch->progress++;
    return EMU_GO;
}

/* PTX does not say which lane is elected. Here it is the last one, so that what counts on the first is found. */
emu_next emu_exec_elect(emu_warp *w, const emu_op *op) {
    for (uint32_t left = w->active, mask; left; left &= ~mask) {
        if (!(mask = meeting(w, op, 0, left))) return EMU_GO;
        const uint32_t last = 31 - (uint32_t)__builtin_clz(mask & left);
        EMU_EACH(lane, mask & left) emu_put(w, op->out[0], (int)lane, lane == last);
    }
    return EMU_GO;
}

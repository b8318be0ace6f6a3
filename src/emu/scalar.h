/* SPDX-License-Identifier: Apache-2.0 */
/* A function for each scalar operation of the table, over the lanes of a warp. Compiled once for each instruction set,
   with EMU_SCALARS the name of the table that is made. */
#include "emu/machine.h"
#include "ir/value.h"

#define tw_c__      int
#define tw_read__   (int)
#define WORD__      uint32_t
#define WORD_pred   uint32_t
#define WORD_u16    uint32_t
#define WORD_s16    uint32_t
#define WORD_f16    uint32_t
#define WORD_bf16   uint32_t
#define WORD_u32    uint32_t
#define WORD_s32    uint32_t
#define WORD_f16x2  uint32_t
#define WORD_bf16x2 uint32_t
#define WORD_u64    uint64_t
#define WORD_s64    uint64_t
#define WORD_f32    uint32_t
#define WORD_f64    uint64_t

/* Results go through an array of their own, so that d may be an operand and the loop still becomes vectors. */
#define OP(name, r, A, B, C, flags, sm, ptx, value)                                                                    \
    static void run_##name(void *d, const void *pa, const void *pb, const void *pc, uint32_t mask) {                   \
        WORD_##r result[EMU_LANES], *out = d;                                                                          \
        const WORD_##A *va = pa;                                                                                       \
        const WORD_##B *vb = pb;                                                                                       \
        const WORD_##C *vc = pc;                                                                                       \
        for (int i = 0; i < EMU_LANES; i++) {                                                                          \
            const tw_c_##A a = tw_read_##A(va[i]);                                                                     \
            const tw_c_##B b = tw_read_##B(vb[i]);                                                                     \
            const tw_c_##C c = tw_read_##C(vc[i]);                                                                     \
            (void)a, (void)b, (void)c;                                                                                 \
            result[i] = (WORD_##r)tw_write_##r(value);                                                                 \
        }                                                                                                              \
        if (mask == EMU_ALL)                                                                                           \
            memcpy(out, result, sizeof result);                                                                        \
        else                                                                                                           \
            for (int i = 0; i < EMU_LANES; i++) out[i] = mask >> i & 1 ? result[i] : out[i];                           \
    }
#define MOP(...)
#include "ir/ops.def"
#undef OP

emu_scalar *const EMU_SCALARS[TW_OPCODES] = {
#define OP(name, ...) [TW_OP_##name] = run_##name,
#include "ir/ops.def"
#undef OP
#undef MOP
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of elements of 8 bits: all of them. */
#include "emu/emu_test.h"

#include "base/dtype.h"
#include "kernels/parts/convert.h"

enum { BYTES = 256, EACH = 4, THREADS = BYTES / EACH };

/* Thread t has bytes 4 t to 4 t + 3, and stores each one's value. */
static void build(tw_builder *b, tw_type pair, tw_val out) {
    tw_val t = tid(b), x = tw_add(b, tw_mul_imm(b, t, 0x04040404), tw_i32(b, 0x03020100)), pairs[2];
    tw_part_e4m3_pairs(b, pair, x, pairs);
    for (int i = 0; i < EACH; i++) {
        tw_val value = tw_part_half(b, pair, pairs[i % 2], i / 2);
        store(b, (tw_attrs){F32, .offset = 4 * i}, at64(b, out, t, 4 * EACH), value);
    }
}

static void build_f16(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault, (void)in, (void)aux;
    build(b, TW_T_f16x2, out);
}

static void build_bf16(tw_builder *b, int fault, tw_val in, tw_val out, tw_val aux) {
    (void)fault, (void)in, (void)aux;
    build(b, TW_T_bf16x2, out);
}

/* The bits of NaNs would be those of 480. */
static float value_of(int byte) {
    return byte % 128 == 127 ? byte < 128 ? 480 : -480 : tw_e4m3_to_f32((uint8_t)byte);
}

static float part_of(int byte) {
    return value_of(byte) / TW_PART_E4M3_F16;
}

static void every_e4m3_is_exact(void **state) {
    (void)state;
    static const scene f16 = {"f16", THREADS, 1, 1, false, build_f16, part_of, BYTES};
    static const scene bf16 = {"bf16", THREADS, 1, 1, false, build_bf16, value_of, BYTES};
    plays_clean(&f16);
    plays_clean(&bf16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_e4m3_is_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

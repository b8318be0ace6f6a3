/* SPDX-License-Identifier: Apache-2.0 */
/* How a narrow B is stored. With swapped operands a column of B is a row of X. */
#include "kernels/gemm/generate.h"

#include <string.h>

tw_narrow tw_gemm_narrow_of(tw_gemm_type type, tw_gemm_narrow narrow, int64_t scales, bool scale_sums) {
    return (tw_narrow){.bits = narrow == TW_GEMM_I4 ? 4 : 8,
                       .type = tw_gemm_types[type].element,
                       .group = (int)scales,
                       .on_sums = scale_sums};
}

static tw_narrow narrow_of(const tw_gemm_problem *p) {
    return tw_gemm_narrow_of(p->type, p->narrow, p->scales, p->scale_sums);
}

static int64_t rows_of_blocks(const tw_gemm_problem *p) {
    return (p->n + TW_NARROW_ROWS - 1) / TW_NARROW_ROWS;
}

tw_gemm_matrix tw_gemm_packed_matrix(const tw_gemm_problem *p) {
    const tw_narrow n = narrow_of(p);
    const int64_t columns = tw_narrow_blocks(p->k) * tw_narrow_block_bytes(&n);
    return (tw_gemm_matrix){TW_T_i8, rows_of_blocks(p), columns, columns, 1, 0, 1, 0};
}

tw_gemm_matrix tw_gemm_scales_matrix(const tw_gemm_problem *p) {
    const tw_narrow n = narrow_of(p);
    const int64_t columns = tw_narrow_groups(&n, p->k) * TW_NARROW_ROWS;
    return (tw_gemm_matrix){n.type, rows_of_blocks(p), columns, columns, 1, 0, 1, 0};
}

/* Finds the byte of a packed integer, and the bit in it where the integer begins. */
static int64_t byte_of(const tw_gemm_problem *p, int64_t column, int64_t k, int *bit) {
    const tw_narrow n = narrow_of(p);
    const int64_t block = column / TW_NARROW_ROWS * tw_narrow_blocks(p->k) + k / TW_NARROW_K;
    const int at = tw_narrow_bit(&n, (int)(column % TW_NARROW_ROWS), (int)(k % TW_NARROW_K));
    *bit = at % 8;
    return block * tw_narrow_block_bytes(&n) + at / 8;
}

void tw_gemm_pack(const tw_gemm_problem *p, const int8_t *integers, void *packed) {
    const tw_gemm_matrix m = tw_gemm_packed_matrix(p);
    const unsigned mask = p->narrow == TW_GEMM_I4 ? 0xf : 0xff;
    uint8_t *to = packed;
    memset(to, 0, tw_gemm_matrix_bytes(&m));
    for (int64_t column = 0; column < p->n; column++)
        for (int64_t k = 0; k < p->k; k++) {
            int bit;
            const int64_t at = byte_of(p, column, k, &bit);
            to[at] = (uint8_t)(to[at] | ((unsigned)(uint8_t)integers[column * p->k + k] & mask) << bit);
        }
}

int tw_gemm_packed(const tw_gemm_problem *p, const void *packed, int64_t column, int64_t k) {
    int bit;
    const int64_t at = byte_of(p, column, k, &bit);
    const unsigned byte = ((const uint8_t *)packed)[at];
    if (p->narrow == TW_GEMM_I8) return (int8_t)byte;
    return (int)((byte >> bit & 0xf) ^ 8) - 8;
}

int64_t tw_gemm_scale_place(const tw_gemm_problem *p, int64_t column, int64_t group) {
    const tw_narrow n = narrow_of(p);
    const int64_t block = column / TW_NARROW_ROWS * tw_narrow_groups(&n, p->k) + group;
    return block * TW_NARROW_ROWS + tw_narrow_scale((int)(column % TW_NARROW_ROWS));
}

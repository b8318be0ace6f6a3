/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"

#include <immintrin.h>
#include <string.h>

/* Rows and bytes of a row of a full tile. */
enum { ROWS = 16, BYTES = 64, SUMS = 6 };

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* gcc does not tell itself that loading a tile, or all of the configuration, reads memory, and that storing one writes
   it. */
static inline void settle(void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* 0 .. 5 sums, which are zero; 6 and 7 factors, whose every byte pair is `pair`. */
static void begin(uint16_t pair) {
    uint16_t ones[ROWS * BYTES / 2];
    tile_config c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int i = 0; i < SUMS + 2; i++) {
        c.bytes[i] = BYTES;
        c.rows[i] = ROWS;
    }
    for (int i = 0; i < ROWS * BYTES / 2; i++) ones[i] = pair;
    settle(&c);
    _tile_loadconfig(&c);
    settle(ones);
    _tile_loadd(6, ones, BYTES);
    _tile_loadd(7, ones, BYTES);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
}

/* Stores the sums, 32-bit each, one tile after the other, and gives the tiles back. */
static void end(void *sums) {
    char *out = sums;
    _tile_stored(0, out, BYTES);
    _tile_stored(1, out + ROWS * BYTES, BYTES);
    _tile_stored(2, out + 2 * ROWS * BYTES, BYTES);
    _tile_stored(3, out + 3 * ROWS * BYTES, BYTES);
    _tile_stored(4, out + 4 * ROWS * BYTES, BYTES);
    _tile_stored(5, out + 5 * ROWS * BYTES, BYTES);
    settle(sums);
    _tile_release();
}

int64_t tw_cpu_bf16_amx(int64_t n, float *sink) {
    float sums[SUMS * ROWS * ROWS];
    begin(0x3f80); /* 1 in bf16 */
    for (int64_t r = 0; r < n; r++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    end(sums);
    for (int i = 0; i < SUMS * ROWS * ROWS; i++) *sink += sums[i];
    return 2 * SUMS * ROWS * ROWS * (BYTES / 2);
}

int64_t tw_cpu_i8_amx(int64_t n, float *sink) {
    int32_t sums[SUMS * ROWS * ROWS];
    begin(0x0101);
    for (int64_t r = 0; r < n; r++) {
        _tile_dpbssd(0, 6, 7);
        _tile_dpbssd(1, 6, 7);
        _tile_dpbssd(2, 6, 7);
        _tile_dpbssd(3, 6, 7);
        _tile_dpbssd(4, 6, 7);
        _tile_dpbssd(5, 6, 7);
    }
    end(sums);
    for (int i = 0; i < SUMS * ROWS * ROWS; i++) *sink += (float)sums[i];
    return 2 * SUMS * ROWS * ROWS * BYTES;
}

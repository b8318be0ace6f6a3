/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels with AMX share: the shape of tiles, and their configuration. */
#ifndef TW_KERNELS_CPU_AMX_H
#define TW_KERNELS_CPU_AMX_H

#include "base/divide.h"
#include "kernels/cpu/variants.h"

#include <immintrin.h>
#include <string.h>

enum {
    TW_AMX_TILE = 1024, /* Bytes of a tile: 16 rows of 64. */
    TW_AMX_STEP = 32,   /* Columns of bf16 in a tile. */
};

/* Returns the columns of x that one tile has (pack_amx.c). */
int64_t tw_amx_step(tw_panel_format f, int terms);

/* gcc does not know that loading a tile or the configuration reads memory. After this call the memory has its
   contents. */
static inline void tw_amx_settle(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Configures all tiles at full size. */
static inline void tw_amx_configure(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = 16;
    }
    tw_amx_settle(&c);
    _tile_loadconfig(&c);
}

#endif

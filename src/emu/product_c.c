/* SPDX-License-Identifier: Apache-2.0 */
#define EMU_PRODUCT         emu_product_c
#define EMU_FMA(m, x, y, z) ((m)->cd == TW_T_f64 ? fma(x, y, z) : (x) * (y) + (z))
#include "emu/product.h"

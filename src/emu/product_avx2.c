/* SPDX-License-Identifier: Apache-2.0 */
#define EMU_PRODUCT         emu_product_avx2
#define EMU_FMA(m, x, y, z) fma(x, y, z)
#include "emu/product.h"

/* SPDX-License-Identifier: Apache-2.0 */
#define EMU_SCALARS emu_scalars_c
#include "emu/scalar.h"

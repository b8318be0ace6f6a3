/* SPDX-License-Identifier: Apache-2.0 */
#define SELECT_SCAN select_scan_avx2
#include "select/scan.h"

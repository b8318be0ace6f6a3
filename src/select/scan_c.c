/* SPDX-License-Identifier: Apache-2.0 */
#define SELECT_SCAN select_scan_c
#include "select/scan.h"

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/python.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Spells a number, and those that are not finite as the given words. */
static void spell(char out[TW_PYTHON_FLOAT], double x, const char *nan, const char *infinity) {
    int digits = 1;
    if (!isfinite(x)) {
        snprintf(out, TW_PYTHON_FLOAT, "%s%s", x < 0 ? "-" : "", isnan(x) ? nan : infinity);
        return;
    }
    do snprintf(out, TW_PYTHON_FLOAT, "%.*e", digits - 1, x);
    while (strtod(out, NULL) != x && ++digits <= 17);
    const int exponent = atoi(strchr(out, 'e') + 1);
    if (exponent < -4 || exponent >= 16) return;
    snprintf(out, TW_PYTHON_FLOAT, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 1, x);
}

void tw_python_float(char out[TW_PYTHON_FLOAT], double x) {
    spell(out, x, "nan", "inf");
}

void tw_python_json_float(char out[TW_PYTHON_FLOAT], double x) {
    spell(out, x, "NaN", "Infinity");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/axes.h"

#include <string.h>

/* Returns the index of an axis. -1: no axis has this name. */
static int find_axis(const char *const *axes, int n_axes, const char *name, size_t length) {
    for (int a = 0; a < n_axes; a++)
        if (strlen(axes[a]) == length && !memcmp(axes[a], name, length)) return a;
    return -1;
}

/* Returns the number that `n` digits spell. 0: they spell no number from 1 to TW_SELECT_MOST. */
static int64_t read_number(const char *digits, size_t n) {
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9') return 0;
        value = 10 * value + (digits[i] - '0');
        if (value > TW_SELECT_MOST) return 0;
    }
    return value;
}

bool tw_axes_read(const char *const *axes, int n_axes, const char *word, size_t length, int64_t *problem, bool *given) {
    const char *const sign = memchr(word, '=', length);
    if (!sign) return false;
    const size_t name = (size_t)(sign - word);
    const int a = find_axis(axes, n_axes, word, name);
    if (a < 0 || given[a]) return false;
    problem[a] = read_number(sign + 1, length - name - 1);
    given[a] = true;
    return problem[a] > 0;
}

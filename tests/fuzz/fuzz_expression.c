/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an expression and as a product of tiles: a value, or an error with a message. */
#include "tune/expression.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool find(void *context, const char *name, size_t n, int64_t *value) {
    (void)context;
    *value = (int64_t)n - 3;
    return *name != 'x';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const axes[] = {"m", "n"};
    const tw_names names = {find, NULL};
    tw_diag diag = {0};
    int64_t value, times, tile[2];
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (tw_expression(text, &names, &value, &diag) != TW_OK && !*diag.message) abort();
    if (tw_expression_tiles(text, axes, 2, &names, tile, &times, &diag) == TW_OK && (tile[0] < 0 || tile[1] < 0))
        abort();
    tw_expression_is_name(text);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a line of a measurement: refused with its place, or read; what is written of it is read as the same. */
#include "tune/lines.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_line a, b;
    tw_diag diag = {0};
    tw_buf text = {0};
    if (tw_lines_read(&a, (const char *)data, size, "f", 1, &diag) != TW_OK) {
        if (!diag.message[0] || diag.line != 1 || a.json) abort();
        return 0;
    }
    if (tw_store_wrong(&a.m) || tw_lines_write(&text, &a.m, &diag) != TW_OK) abort();
    if (tw_lines_read(&b, text.data, text.size, "f", 1, &diag) != TW_OK) abort();
    uint64_t one[2], other[2];
    tw_store_checksum(&a.m, one);
    tw_store_checksum(&b.m, other);
    if (memcmp(one, other, sizeof one) != 0) abort();
    tw_lines_free(&a);
    tw_lines_free(&b);
    tw_buf_free(&text);
    return 0;
}

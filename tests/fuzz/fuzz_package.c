/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a package whose description has its checksum. */
#include "base/hash.h"
#include "engine/package.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_package *p;
    tw_package_header h;
    tw_diag diag = {0};
    /* The file is in an allocation of its size, so that a read beyond it is found. */
    unsigned char *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    if (size >= sizeof h) {
        memcpy(&h, copy, sizeof h);
        if (h.meta_bytes <= size - sizeof h) {
            tw_hash hash = tw_hash_begin();
            tw_hash_add(&hash, copy + sizeof h, h.meta_bytes);
            tw_hash_end(&hash, h.hash);
            memcpy(copy, &h, sizeof h);
        }
    }
    if (tw_package_read(&p, copy, size, "f", &diag) == TW_OK) {
        char text[256];
        for (int i = 0; i < p->n_graphs; i++) tw_package_describe_shapes(p, i, text, sizeof text);
        tw_package_check(p, NULL, "f", &diag);
        tw_package_close(p);
    } else if (!diag.message[0] || diag.offset >= (int64_t)(size ? size : 1)) {
        abort();
    }
    free(copy);
    return 0;
}

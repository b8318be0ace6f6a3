/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a package whose description and constants have their checksums. */
#include "base/hash.h"
#include "base/sum.h"
#include "engine/package.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a number of the description, and moves on. -1: there is none, or none that may be a length. */
static int64_t number(const unsigned char *p, size_t size, size_t *at) {
    int64_t x = -1;
    if (size < sizeof x || *at > size - sizeof x) return -1;
    memcpy(&x, p + *at, sizeof x);
    *at += sizeof x;
    return x < 0 || (uint64_t)x > size ? -1 : x;
}

/* Gives all constants their sums. They follow two texts. */
static void give_sums(unsigned char *p, size_t size, const tw_package_header *h) {
    const size_t end = sizeof *h + h->meta_bytes;
    size_t at = sizeof *h;
    for (int i = 0; i < 2; i++) {
        const int64_t n = number(p, end, &at);
        if (n < 0) return;
        at += (size_t)n + 1;
    }
    int64_t n = number(p, end, &at);
    for (tw_package_constant c; n > 0 && at <= end && end - at >= sizeof c; n--, at += sizeof c) {
        memcpy(&c, p + at, sizeof c);
        if (h->data_at > size || c.at > size - h->data_at || c.bytes > size - h->data_at - c.at) continue;
        c.sum = tw_sum(p + h->data_at + c.at, c.bytes);
        memcpy(p + at, &c, sizeof c);
    }
}

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
            give_sums(copy, size, &h);
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

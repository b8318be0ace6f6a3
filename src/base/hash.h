/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 with 128 bits of result and a fixed key (Aumasson and Bernstein): names for contents, and checksums. Not
   against somebody who wants two contents to collide. */
#ifndef TW_BASE_HASH_H
#define TW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct tw_hash {
    uint64_t v[4];
    unsigned char rest[8];
    size_t size; /* bytes so far */
} tw_hash;

tw_hash tw_hash_begin(void);
void tw_hash_add(tw_hash *h, const void *data, size_t size);
void tw_hash_end(tw_hash *h, uint64_t out[2]);

#endif

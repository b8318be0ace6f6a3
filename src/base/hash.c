/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

static uint64_t rotate(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], int n) {
    while (n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static uint64_t word(const unsigned char *p) {
    uint64_t w = 0;
    for (int i = 7; i >= 0; i--) w = w << 8 | p[i];
    return w;
}

static void absorb(tw_hash *h, uint64_t w) {
    h->v[3] ^= w;
    rounds(h->v, 2);
    h->v[0] ^= w;
}

tw_hash tw_hash_begin(void) {
    /* The key is the bytes 0 to 15, as in the published test vectors. */
    const uint64_t k0 = 0x0706050403020100u, k1 = 0x0f0e0d0c0b0a0908u;
    return (tw_hash){.v = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee, k0 ^ 0x6c7967656e657261u,
                           k1 ^ 0x7465646279746573u}};
}

void tw_hash_add(tw_hash *h, const void *data, size_t size) {
    const unsigned char *p = data;
    size_t held = h->size % 8;
    h->size += size;
    if (held) {
        size_t n = 8 - held < size ? 8 - held : size;
        memcpy(h->rest + held, p, n);
        if (held + n < 8) return;
        absorb(h, word(h->rest));
        p += n;
        size -= n;
    }
    for (; size >= 8; p += 8, size -= 8) absorb(h, word(p));
    if (size) memcpy(h->rest, p, size);
}

void tw_hash_end(tw_hash *h, uint64_t out[2]) {
    memset(h->rest + h->size % 8, 0, 8 - h->size % 8);
    h->rest[7] = (unsigned char)h->size;
    absorb(h, word(h->rest));
    for (int i = 0; i < 2; i++) {
        h->v[i ? 1 : 2] ^= i ? 0xdd : 0xee;
        rounds(h->v, 4);
        out[i] = h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3];
    }
}

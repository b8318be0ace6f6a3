/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sum.h"

#include <string.h>

enum { LANES = 8 };

/* Each step is a bijection of the lane, so that a word that changes changes its lane. */
static inline void step(uint64_t lanes[LANES], const uint64_t x[LANES]) {
    for (int i = 0; i < LANES; i++) {
        lanes[i] = (lanes[i] ^ x[i]) * 0x9e3779b97f4a7c15u;
        lanes[i] ^= lanes[i] >> 29;
    }
}

uint64_t tw_sum_join(uint64_t sum, uint64_t block) {
    sum = (sum ^ block) * 0xd6e8feb86659fd93u;
    return sum ^ sum >> 32;
}

uint64_t tw_sum_block(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t lanes[LANES] = {1, 2, 3, 4, 5, 6, 7, 8}, x[LANES] = {0}, sum = bytes;
    size_t left = bytes;
    for (; left >= sizeof x; left -= sizeof x, p += sizeof x) {
        memcpy(x, p, sizeof x);
        step(lanes, x);
    }
    memset(x, 0, sizeof x);
    if (left) memcpy(x, p, left);
    step(lanes, x);
    for (int i = 0; i < LANES; i++) sum = tw_sum_join(sum, lanes[i]);
    return sum;
}

uint64_t tw_sum(const void *data, size_t bytes) {
    uint64_t sum = bytes;
    for (size_t at = 0; at < bytes; at += TW_SUM_BLOCK) {
        const size_t n = bytes - at < TW_SUM_BLOCK ? bytes - at : TW_SUM_BLOCK;
        sum = tw_sum_join(sum, tw_sum_block((const unsigned char *)data + at, n));
    }
    return sum;
}

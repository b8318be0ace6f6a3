/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <math.h>

uint64_t tw_splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

tw_random tw_random_seed(uint64_t seed) {
    tw_random r;
    for (int i = 0; i < 4; i++) r.s[i] = tw_splitmix64(&seed);
    return r;
}

static uint64_t rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

uint64_t tw_random_u64(tw_random *r) {
    uint64_t *s = r->s, out = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

double tw_random_unit(tw_random *r) {
    return (double)(tw_random_u64(r) >> 11) * 0x1p-53;
}

float tw_random_normal(tw_random *r) {
    double u = 1.0 - tw_random_unit(r), v = tw_random_unit(r);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

uint64_t tw_random_below(tw_random *r, uint64_t bound) {
    if (!bound) return 0;
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound, x;
    do x = tw_random_u64(r);
    while (x >= limit);
    return x % bound;
}

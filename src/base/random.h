/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256++ (Blackman and Vigna), seeded through splitmix64: the same numbers on every machine. */
#ifndef TW_BASE_RANDOM_H
#define TW_BASE_RANDOM_H

#include <stdint.h>

typedef struct tw_random {
    uint64_t s[4];
} tw_random;

uint64_t tw_splitmix64(uint64_t *state);
tw_random tw_random_seed(uint64_t seed);
uint64_t tw_random_u64(tw_random *r);
double tw_random_unit(tw_random *r);                    /* in [0, 1), 53 bits */
float tw_random_normal(tw_random *r);                   /* mean 0, variance 1 */
uint64_t tw_random_below(tw_random *r, uint64_t bound); /* in [0, bound), unbiased; 0 when bound is 0 */

#endif

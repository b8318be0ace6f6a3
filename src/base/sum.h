/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums at the speed of memory, by which damage is found and equal contents are looked for. A change of one word, 8
   bytes whose place is a multiple of 8, always changes the sum. Other changes go unseen once in 2^64. Not against
   somebody who wants two contents to have one sum. */
#ifndef TW_BASE_SUM_H
#define TW_BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

/* The sum of a content is joined of sums of blocks, which threads may compute side by side. */
enum { TW_SUM_BLOCK = 1 << 20 };

uint64_t tw_sum_block(const void *data, size_t bytes);
/* Begins with the number of bytes as `sum`, and goes through all blocks in order. */
uint64_t tw_sum_join(uint64_t sum, uint64_t block);
uint64_t tw_sum(const void *data, size_t bytes);

#endif

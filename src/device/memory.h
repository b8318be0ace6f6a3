/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is, and how much of it this process may still take. */
#ifndef TW_DEVICE_MEMORY_H
#define TW_DEVICE_MEMORY_H

#include <stdint.h>

/* Bytes; 0: unknown. Available is the least of what the kernel could free, what the process's control groups (version 1
   or 2) leave, and what its limits of address space and data leave. `root` is put before /proc and /sys: "" but in
   tests. */
int64_t tw_memory_total(const char *root);
int64_t tw_memory_available(const char *root);
/* The most bytes of the process that were in memory at once, pages of files that it maps among them. 0: unknown. */
int64_t tw_memory_peak(const char *root);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, pinning, and waiting on a word of memory. */
#ifndef TW_BASE_THREAD_H
#define TW_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The processors this process may run on, ascending; returns how many there are (at most `max` are written). */
int tw_allowed_cpus(int *cpus, int max);

bool tw_pin_self(int cpu); /* the calling thread; false when the kernel refuses */
/* Lets the calling thread run on n processors alone. False: the kernel refuses. */
bool tw_pin_among(const int *cpus, int n);

/* Moves the calling thread off these processors if it is on one of them, and may run on others. Afterwards it may run
   on the same processors as before. */
void tw_leave_cpus(const int *cpus, int n);

/* Opens the calling thread's account of run delay: of the time that it was ready to run, but waited for a processor.
   Returns a file descriptor that any thread may read, and that the caller closes. -1: the kernel keeps no account. */
int tw_delay_open(void);
/* Returns the run delay of an account so far, in nanoseconds. 0: it cannot be read. */
int64_t tw_delay_read(int account);

/* Sleeps while *word is `expected`, or until woken; may return early. */
void tw_sleep_on(_Atomic uint32_t *word, uint32_t expected);
void tw_wake_all(_Atomic uint32_t *word);

static inline void tw_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif

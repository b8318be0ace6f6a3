/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/thread.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int tw_allowed_cpus(int *cpus, int max) {
    cpu_set_t set;
    int n = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) < 0) {
        if (max > 0) cpus[0] = 0;
        return 1;
    }
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &set)) {
            if (n < max) cpus[n] = c;
            n++;
        }
    return n;
}

bool tw_pin_self(int cpu) {
    return tw_pin_among(&cpu, 1);
}

bool tw_pin_among(const int *cpus, int n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < n; i++) CPU_SET(cpus[i], &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

void tw_leave_cpus(const int *cpus, int n) {
    const int here = sched_getcpu();
    cpu_set_t all, others;
    int i = 0;
    while (i < n && cpus[i] != here) i++;
    if (i == n || sched_getaffinity(0, sizeof all, &all) < 0) return;
    others = all;
    for (i = 0; i < n; i++) CPU_CLR(cpus[i], &others);
    /* The kernel refuses an empty set. It moves the thread before the call returns. */
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

/* The file has three numbers: nanoseconds of running, nanoseconds of run delay, and the number of times that the thread
   was given a processor. */
int tw_delay_open(void) {
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

int64_t tw_delay_read(int account) {
    char text[96], *at;
    const ssize_t n = account >= 0 ? pread(account, text, sizeof text - 1, 0) : 0;
    if (n <= 0) return 0;
    text[n] = 0;
    strtoll(text, &at, 10);
    return strtoll(at, NULL, 10);
}

void tw_sleep_on(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void tw_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

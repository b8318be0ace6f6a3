/* SPDX-License-Identifier: Apache-2.0 */
#include "support/taken.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* The linker wraps these functions: calls of the program's objects arrive here. */
static atomic_int locks, texts;
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_snprintf(char *out, size_t size, const char *fmt, ...);
int __wrap_vsnprintf(char *out, size_t size, const char *fmt, va_list ap);
int __real_vsnprintf(char *out, size_t size, const char *fmt, va_list ap);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
    locks++;
    return __real_pthread_mutex_lock(m);
}

int __wrap_vsnprintf(char *out, size_t size, const char *fmt, va_list ap) {
    texts++;
    return __real_vsnprintf(out, size, fmt, ap);
}

int __wrap_snprintf(char *out, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int n = __wrap_vsnprintf(out, size, fmt, ap);
    va_end(ap);
    return n;
}

int taken_locks(void) {
    return locks;
}

int taken_texts(void) {
    return texts;
}

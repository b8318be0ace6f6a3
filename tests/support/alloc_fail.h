/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the n-th allocation fail. Programs that use it are linked with the allocator wrapped (tests/CMakeLists.txt). */
#ifndef TW_TEST_ALLOC_FAIL_H
#define TW_TEST_ALLOC_FAIL_H

#include <stdbool.h>

/* From now on the allocation after `n` more fails, once (`persist` false) or with every later one. Negative: none. */
void alloc_fail_after(long n, bool persist);

/* Whether a failure was injected since the last alloc_fail_after. */
bool alloc_fail_hit(void);

/* Calls `attempt(context)` once untouched, then with the n-th allocation failing for n = 0, 1, 2 …; of allocations that
   come from the same place by the same callers, the first three (fewer under sanitizers, where long attempts leave some
   out). A request to an arena is an allocation. `attempt` returns 0 for success, 1 for "out of memory, said so";
   anything else fails the test. Leaks show under the address sanitizer. Jansson is left out: 2.14 goes on with a
   shorter text when its lexer's buffer cannot grow, and then writes beyond it. */
void alloc_fail_exhaust(int (*attempt)(void *), void *context);

#endif

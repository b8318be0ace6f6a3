/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_TESTS_SUPPORT_LOWER_H
#define TW_TESTS_SUPPORT_LOWER_H

#include "schedule/schedule.h"

/* A model lowered and checked; fails the test when either cannot be. `max_seq`: where `l` has none. The caller frees
   it. */
tw_checked *test_lower(const tw_model *m, tw_lowering l, int64_t max_seq);

/* A decode program in which every third instruction also waits for the first stage, before its own wait or after it. */
tw_checked *test_lower_waits(const tw_model *m, int workers, int64_t max_seq);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of programs: which there are, and one of a class from a seed. */
#ifndef TW_SOUNDNESS_CASES_H
#define TW_SOUNDNESS_CASES_H

#include "soundness/program.h"

enum { CASE_LOWERING }; /* class 0: what users run; none of these may be rejected */

int case_classes(void);
const char *case_name(int class);
tw_schedule *case_make(const program_pool *pool, int class, tw_random *r);

#endif

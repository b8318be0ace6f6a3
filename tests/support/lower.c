/* SPDX-License-Identifier: Apache-2.0 */
#include "support/lower.h"

#include "support/support.h"

tw_checked *test_lower(const tw_model *m, tw_lowering l, int64_t max_seq) {
    tw_schedule *s = NULL;
    tw_checked *c = NULL;
    tw_diag d;
    if (!l.max_seq) l.max_seq = max_seq;
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK || tw_schedule_check(&c, &s, NULL, &d) != TW_OK)
        fail_msg("%s", d.message);
    return c;
}

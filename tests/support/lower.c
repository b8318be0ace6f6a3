/* SPDX-License-Identifier: Apache-2.0 */
#include "support/lower.h"

#include "schedule/builder.h"
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

tw_checked *test_lower_waits(const tw_model *m, int workers, int64_t max_seq) {
    const tw_lowering l = {.workers = workers, .tokens = 1, .kv_splits = 2, .max_seq = max_seq};
    tw_schedule *s = NULL;
    tw_checked *c = NULL;
    tw_diag d;
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) fail_msg("%s", d.message);
    for (int w = 0, n = 0; w < s->n_workers; w++)
        for (int i = 2; i < s->workers[w].count; i++) {
            tw_instr *in = &s->workers[w].list[i];
            if (n++ % 3 || in->n_waits != 1 || in->waits[0].counter == 0) continue;
            tw_schedule_add_wait(s, in, 0, 1);
            const tw_wait first = in->waits[0];
            if (n % 2) {
                in->waits[0] = in->waits[1];
                in->waits[1] = first;
            }
        }
    if (tw_schedule_check(&c, &s, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

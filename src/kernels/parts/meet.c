/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/meet.h"

#include <stdio.h>

void tw_part_meet(tw_builder *b, const tw_meeting *m) {
    char channel[24];
    snprintf(channel, sizeof channel, "barrier %d", m->number);
    tw_record_meet(b, channel);
    tw_val number = tw_i32(b, m->number);
    if (m->team.id) number = tw_add(b, number, m->team);
    if (m->threads)
        tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = m->threads, .apart = m->apart}, number, TW_NONE);
    else
        tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_record_end(b, channel);
}

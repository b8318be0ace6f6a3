/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_SAMPLE_H
#define TW_ENGINE_SAMPLE_H

#include "vm/sample.h"

struct tw_sampler {
    tw_sample_rules rules;
    int64_t vocab;
    uint32_t *counts;       /* [vocab]: count of each id, see TW_SAMPLE_SEEN. NULL: no penalties. */
    void *room;             /* Scratch of tw_sample_draw. */
    uint64_t changes;       /* How many times the counts were changed. */
    const void *counted_by; /* The engine whose device was sent the counts last. */
    uint64_t stamp; /* The engine's counts_stamp when the counts were sent. If the engine's has changed since, the
                       device has other counts. */
};

#endif

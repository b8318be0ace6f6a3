/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_ENGINE_SAMPLE_H
#define TW_ENGINE_SAMPLE_H

#include "vm/sample.h"

struct tw_sampler {
    tw_sample_rules rules;
    int64_t vocab;
    uint32_t *counts; /* with penalties: of each id, see TW_SAMPLE_SEEN; else NULL */
    void *room;
    uint64_t changes; /* of the counts */
    /* A device has these counts where its engine is this one and says the same. */
    const void *counted_by;
    uint64_t stamp;
};

#endif

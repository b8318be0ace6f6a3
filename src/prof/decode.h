/* SPDX-License-Identifier: Apache-2.0 */
/* From a profile buffer to a trace. */
#ifndef TW_PROF_DECODE_H
#define TW_PROF_DECODE_H

#include "prof/layout.h"
#include "prof/trace.h"

typedef struct tw_prof_decoding {
    const char *title, *device;
    bool emulated;   /* The kernel ran in the emulator: the unit is operations. */
    double cost;     /* Clocks that a record takes (calibrate.h). 0: times stay as they were measured, as do those that
                        are not of TW_PROF_CLOCK. */
    double ghz;      /* Clocks per nanosecond. 0: what the buffer's own anchors say. */
    bool iterations; /* Add events of the loops' iterations. */
} tw_prof_decoding;

/* Decodes the buffer of a launch of `blocks` thread blocks, which has tw_prof_bytes() bytes. Records that conditional
   code did not make are absent, also such whose place an earlier iteration had filled. Records of kind TW_PROF_SMID
   become values at their warp's beginning; of those an earlier iteration's may stand for a later one's.
   TW_ERR_FORMAT: the buffer is none of the layout's. The caller frees the trace. */
tw_status tw_prof_decode(tw_trace **out, const tw_prof_layout *l, const void *buffer, int64_t blocks,
                         const tw_prof_decoding *how, tw_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that name a device in artefacts, and the comparison of an artefact's device with one that is here. */
#ifndef TW_TUNE_IDENTITY_H
#define TW_TUNE_IDENTITY_H

#include "tilewright/select.h"

typedef struct tw_identity {
    char device[192];       /* The device: "AMD EPYC 7763, 2 threads", "NVIDIA H200". */
    char alike[192];        /* Its kind: "x86-64 avx2, 2 threads", "sm_90a, 132 SMs, 50 MiB of L2". */
    char architecture[128]; /* Its architecture: "x86-64 avx2", "sm_90a". */
} tw_identity;

/* Names a processor. `isa` has TW_CPU_* bits. */
void tw_identity_of_cpu(tw_identity *out, const char *model, int threads, uint32_t isa);
/* Names a GPU. */
void tw_identity_of_gpu(tw_identity *out, const char *name, const char *target, int sms, int64_t l2_bytes);

/* Compares an artefact's device with one that is here: "cpu", "cuda" or "cuda:N". "auto" is the one that the artefact's
   kernel runs on, and *out is TW_SELECT_UNKNOWN if that is not here or the kernel is not the tuner's. `threads` is the
   processor's number of threads. 0: all cores. TW_ERR_USAGE: `device` is another word. TW_ERR_UNSUPPORTED: the named
   GPU is not here. */
tw_status tw_identity_match(const tw_selector *s, const char *device, int threads, tw_select_match *out, tw_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that name a device in measurements and artefacts. */
#ifndef TW_DEVICE_IDENTITY_H
#define TW_DEVICE_IDENTITY_H

#include <stdint.h>

typedef struct tw_identity {
    char device[192];       /* The device: "AMD EPYC 7763, 2 threads", "NVIDIA H200". */
    char alike[192];        /* Its kind: "x86-64 avx2, 2 threads", "sm_90a, 132 SMs, 50 MiB of L2". */
    char architecture[128]; /* Its architecture: "x86-64 avx2", "sm_90a". */
} tw_identity;

/* Names a processor. `isa` has TW_CPU_* bits. */
void tw_identity_of_cpu(tw_identity *out, const char *model, int threads, uint32_t isa);
/* Names a GPU. */
void tw_identity_of_gpu(tw_identity *out, const char *name, const char *target, int sms, int64_t l2_bytes);

#endif

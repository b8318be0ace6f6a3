/* SPDX-License-Identifier: Apache-2.0 */
#include "device/identity.h"

#include "tilewright/device.h"

#include <stdio.h>

void tw_identity_of_cpu(tw_identity *out, const char *model, int threads, uint32_t isa) {
    char names[64];
    tw_cpu_isa_names(isa, names, sizeof names);
    snprintf(out->device, sizeof out->device, "%s, %d threads", model, threads);
    snprintf(out->alike, sizeof out->alike, "x86-64 %s, %d threads", names, threads);
    snprintf(out->architecture, sizeof out->architecture, "x86-64 %s", names);
}

void tw_identity_of_gpu(tw_identity *out, const char *name, const char *target, int sms, int64_t l2_bytes) {
    snprintf(out->device, sizeof out->device, "%s", name);
    snprintf(out->alike, sizeof out->alike, "%s, %d SMs, %lld MiB of L2", target, sms, (long long)(l2_bytes >> 20));
    snprintf(out->architecture, sizeof out->architecture, "%s", target);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine.h"

#include "base/diag.h"
#include "device/name.h"

#include <string.h>

tw_status tw_engine_backends(const tw_engine_options *o, const tw_engine_backend *out[TW_ENGINE_BACKENDS], int *n,
                             tw_diag *diag) {
    const bool for_cpus = o->workers || o->limit_isa || o->activations;
    int number;
    *n = 0;
    if (o->emulate) {
        out[(*n)++] = &tw_engine_gpu;
    } else if (!o->device || !strcmp(o->device, "cpu")) {
        out[(*n)++] = &tw_engine_cpu;
    } else if (!strcmp(o->device, "auto")) {
        if (!for_cpus && !o->schedule) out[(*n)++] = &tw_engine_gpu;
        out[(*n)++] = &tw_engine_cpu;
    } else if (!tw_device_gpu_number(o->device, &number)) {
        return tw_fail(diag, TW_ERR_USAGE, "device: \"%s\" is not auto, cpu, cuda or cuda:N", o->device);
    } else if (for_cpus) {
        return tw_fail(diag, TW_ERR_USAGE,
                       "threads, instruction sets and rounded activations are a processor's: not with device %s",
                       o->device);
    } else {
        out[(*n)++] = &tw_engine_gpu;
    }
    return TW_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/identity.h"

#include "base/diag.h"
#include "device/cuda/cuda.h"
#include "device/identity.h"
#include "device/name.h"
#include "tilewright/device.h"

#include <stdio.h>
#include <string.h>

/* Names GPU `number` of this machine. */
static tw_status find_gpu(tw_identity *out, int number, tw_diag *diag) {
    tw_cuda_info i;
    const tw_status st = tw_cuda_query(number, &i, diag);
    if (st == TW_OK) tw_identity_of_gpu(out, i.name, i.target ? i.target->name : "", i.sms, i.l2_bytes);
    return st;
}

const char *tw_identity_device(const char *kernel) {
    if (!strncmp(kernel, "gemm-cpu-", 9)) return "cpu";
    return strncmp(kernel, "gemm-gpu-", 9) ? NULL : "cuda";
}

tw_status tw_identity_match(const tw_selector *s, const char *device, int threads, tw_select_match *out,
                            tw_diag *diag) {
    const bool chosen = strcmp(device, "auto") != 0;
    tw_selector_info info;
    tw_identity here;
    tw_diag ignored;
    tw_cpu cpu;
    int number;
    *out = TW_SELECT_UNKNOWN;
    tw_selector_describe(s, &info);
    if (!chosen) device = tw_identity_device(info.kernel);
    if (!device) return TW_OK;
    if (!strcmp(device, "cpu")) {
        tw_cpu_detect(&cpu);
        tw_identity_of_cpu(&here, cpu.model, threads ? threads : cpu.cores, cpu.isa);
    } else if (tw_device_gpu_number(device, &number)) {
        const tw_status st = find_gpu(&here, number, chosen ? diag : &ignored);
        if (st != TW_OK) return chosen ? st : TW_OK;
    } else {
        return tw_fail(diag, TW_ERR_USAGE, "--device: \"%s\" is not auto, cpu, cuda or cuda:N", device);
    }
    *out = tw_selector_match(s, here.device, here.alike, here.architecture);
    return TW_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Energy and clock rate of a GPU by NVML, the management library of NVIDIA's driver (NVML API reference, version 12).
 */
#define _GNU_SOURCE
#include "base/diag.h"
#include "device/power.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_CLOCK_SM = 1 /* The clock of multiprocessors. */ };

typedef struct nvml {
    void *library;
    bool started; /* True: `init` succeeded, and `shutdown` is due. */
    void *device; /* The GPU's handle. */
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*energy)(void *device, unsigned long long *millijoules);
    int (*clock)(void *device, int type, unsigned *mhz);
} nvml;

static bool find(const nvml *n, const char *symbol, void *slot) {
    void *p = dlsym(n->library, symbol);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

static void close_nvml(void *context) {
    nvml *n = context;
    if (n->started) n->shutdown();
    if (n->library) dlclose(n->library);
    free(n);
}

static bool read_energy(void *context, double *joules) {
    const nvml *n = context;
    unsigned long long mj = 0;
    const bool good = n->energy(n->device, &mj) == 0;
    *joules = (double)mj * 1e-3;
    return good;
}

static double read_clock(void *context) {
    const nvml *n = context;
    unsigned mhz = 0;
    return n->clock(n->device, NVML_CLOCK_SM, &mhz) == 0 ? mhz : 0;
}

/* Opens the library and finds the GPU. Returns what went wrong. NULL: nothing. */
static const char *open_nvml(nvml *n, const char *bus) {
    const char *own = getenv("TILEWRIGHT_LIBNVML");
    n->library = dlopen(own && *own ? own : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library) return "there is no NVML";
    if (!find(n, "nvmlInit_v2", &n->init) || !find(n, "nvmlShutdown", &n->shutdown) ||
        !find(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus) ||
        !find(n, "nvmlDeviceGetTotalEnergyConsumption", &n->energy) || !find(n, "nvmlDeviceGetClockInfo", &n->clock))
        return "NVML is too old";
    n->started = n->init() == 0;
    if (!n->started) return "NVML does not start";
    return n->by_bus(bus, &n->device) == 0 ? NULL : "NVML does not know the GPU";
}

tw_status tw_power_open_gpu(tw_power **out, const char *bus, tw_diag *diag) {
    nvml *n = calloc(1, sizeof *n);
    *out = NULL;
    if (!n) return tw_fail_memory(diag);
    const char *missing = open_nvml(n, bus);
    if (missing) {
        close_nvml(n);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s", missing);
    }
    const tw_power_source s = {.energy = read_energy, .clock = read_clock, .close = close_nvml, .context = n};
    return tw_power_make(out, &s, diag);
}

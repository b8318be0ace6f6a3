/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVML: one GPU, whose counter of energy rises by 250 mJ at each reading, at 1,500 MHz. $FAKE_NVML_WRONG
   names a function that fails. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
EXPORT int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz);

static int started;
static unsigned long long energy = 1000000;

static int fails(const char *name) {
    const char *wrong = getenv("FAKE_NVML_WRONG");
    return wrong && !strcmp(wrong, name);
}

int nvmlInit_v2(void) {
    return fails("init") ? 1 : (started++, 0);
}

int nvmlShutdown(void) {
    return started-- < 1;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    *device = &started;
    return strcmp(bus, "0000:1B:00.0") != 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) {
    *mj = energy += 250;
    return fails("energy") || device != &started || started < 1;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) {
    *mhz = 1500;
    return fails("clock") || device != &started || type != 1;
}

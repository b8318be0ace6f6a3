/* SPDX-License-Identifier: Apache-2.0 */
/* Meters of a device's energy, power and clock rate. A GPU's are read through NVML, which is opened at run time
   ($TILEWRIGHT_LIBNVML, else libnvidia-ml.so.1). A processor's energy is read through RAPL, from the kernel's files
   ($TILEWRIGHT_POWERCAP, else /sys/class/powercap). One thread at a time may use a tw_power. */
#ifndef TW_DEVICE_POWER_H
#define TW_DEVICE_POWER_H

#include "tilewright/base.h"

typedef struct tw_power tw_power;

/* The functions of a meter. */
typedef struct tw_power_source {
    /* Reads a counter of energy in joules, which never falls. Its start is arbitrary. False: it cannot be read. */
    bool (*energy)(void *context, double *joules);
    double (*clock)(void *context); /* Returns the clock rate in MHz. 0: unknown. NULL: it is always unknown. */
    int64_t (*now)(void *context);  /* Returns the time in monotonic nanoseconds. NULL: tw_now_ns does. */
    void (*close)(void *context);   /* Frees `context`. NULL: nothing is freed. */
    void *context;                  /* Passed to the functions. */
} tw_power_source;

/* Least length in nanoseconds of the intervals of tw_power_watts. GPUs renew their counter every 20 to 100 ms, which
   makes an error of up to a tenth over this length. Processors renew theirs every millisecond. */
#define TW_POWER_INTERVAL 1000000000

/* Makes a meter of a source. The meter owns the source and closes it. If this function fails, it closes the source
   itself. The caller closes the meter. TW_ERR_UNSUPPORTED: the counter cannot be read, and *out is NULL. */
tw_status tw_power_make(tw_power **out, const tw_power_source *source, tw_diag *diag);
/* Opens the meter of a GPU. `bus` is the GPU's PCI bus number, such as "0000:1b:00.0". The caller closes the meter.
   TW_ERR_UNSUPPORTED: there is no counter that this process may read, and *out is NULL. */
tw_status tw_power_open_gpu(tw_power **out, const char *bus, tw_diag *diag);
/* Opens the meter of all sockets of this machine's processors. Otherwise the same as tw_power_open_gpu. */
tw_status tw_power_open_cpu(tw_power **out, tw_diag *diag);
void tw_power_close(tw_power *p); /* NULL is fine. */

/* Reads the counter in joules, and the time in monotonic nanoseconds. False: the counter cannot be read. */
bool tw_power_energy(tw_power *p, double *joules, int64_t *now);
/* Returns the time of the meter's clock in monotonic nanoseconds. */
int64_t tw_power_now(const tw_power *p);
/* Returns the mean power in watts over the last complete interval. An interval ends at the first call that is at least
   TW_POWER_INTERVAL after its beginning, and the next one begins there. 0: none is complete, the counter cannot be
   read, or `p` is NULL. */
double tw_power_watts(tw_power *p);
/* Returns the clock rate in MHz, read at most 10 ms ago. 0: unknown, or `p` is NULL. */
double tw_power_clock(tw_power *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a device draws: its counter of energy, mean power, and clock rate. A GPU is asked through NVML, which is opened
   at run time ($TILEWRIGHT_LIBNVML, else libnvidia-ml.so.1); a processor through RAPL, as files of the kernel
   ($TILEWRIGHT_POWERCAP, else /sys/class/powercap). One thread at a time may use a tw_power. */
#ifndef TW_DEVICE_POWER_H
#define TW_DEVICE_POWER_H

#include "tilewright/base.h"

typedef struct tw_power tw_power;

/* Where readings come from. */
typedef struct tw_power_source {
    /* Reads the energy since an arbitrary start in joules. It never falls. False: it cannot be read. */
    bool (*energy)(void *context, double *joules);
    double (*clock)(void *context); /* Returns the clock rate in MHz, 0 if it is unknown. NULL: it is. */
    int64_t (*now)(void *context);  /* Returns monotonic nanoseconds. NULL: tw_now_ns. */
    void (*close)(void *context);   /* NULL: there is nothing to close. */
    void *context;                  /* Passed to the functions. */
} tw_power_source;

/* Means of power are over at least so many nanoseconds. GPUs renew their counter every 20 to 100 ms, so a mean errs by
   up to a tenth of this; a processor's counter is renewed each millisecond. */
#define TW_POWER_INTERVAL 1000000000

/* Make a meter of a source; of the GPU with a PCI bus number, such as "0000:1b:00.0"; of the processors of this
   machine, all sockets together. The caller closes it. TW_ERR_UNSUPPORTED: there is no counter that this process may
   read. After a failure the source is closed, too. */
tw_status tw_power_make(tw_power **out, const tw_power_source *source, tw_diag *diag);
tw_status tw_power_open_gpu(tw_power **out, const char *bus, tw_diag *diag);
tw_status tw_power_open_cpu(tw_power **out, tw_diag *diag);
void tw_power_close(tw_power *p); /* NULL is fine. */

/* Reads the counter in joules, and the time in monotonic nanoseconds. False: the counter cannot be read any more. */
bool tw_power_energy(tw_power *p, double *joules, int64_t *now);
/* Returns the mean power in watts over the last complete interval of TW_POWER_INTERVAL or more. Intervals end at calls.
   0: there is none yet. `p` may be NULL. */
double tw_power_watts(tw_power *p);
/* Returns the clock rate in MHz, read at most 10 ms ago. 0: unknown. `p` may be NULL. */
double tw_power_clock(tw_power *p);

#endif

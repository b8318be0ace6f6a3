/* SPDX-License-Identifier: Apache-2.0 */
#include "device/power.h"

#include "base/clock.h"
#include "base/diag.h"

#include <stdlib.h>

enum { CLOCK_AGE = 10000000 /* Nanoseconds for which a clock rate is not read again. */ };

struct tw_power {
    tw_power_source source;
    double joules; /* The counter at the beginning of the current interval. */
    int64_t since; /* Time of the beginning of the current interval. */
    double watts;  /* Mean power over the last complete interval. 0: there is none. */
    double clock;  /* Clock rate in MHz when it was last read. */
    int64_t read;  /* Time when the clock rate was last read. */
};

int64_t tw_power_now(const tw_power *p) {
    return p->source.now ? p->source.now(p->source.context) : tw_now_ns();
}

tw_status tw_power_make(tw_power **out, const tw_power_source *source, tw_diag *diag) {
    tw_power *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) {
        if (source->close) source->close(source->context);
        return tw_fail_memory(diag);
    }
    p->source = *source;
    if (!tw_power_energy(p, &p->joules, &p->since)) {
        tw_power_close(p);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the counter of energy cannot be read");
    }
    p->read = p->since - CLOCK_AGE;
    *out = p;
    return TW_OK;
}

void tw_power_close(tw_power *p) {
    if (p && p->source.close) p->source.close(p->source.context);
    free(p);
}

bool tw_power_energy(tw_power *p, double *joules, int64_t *at) {
    const bool good = p->source.energy(p->source.context, joules);
    *at = tw_power_now(p);
    return good;
}

double tw_power_watts(tw_power *p) {
    double joules;
    int64_t at;
    if (!p) return 0;
    if (tw_power_now(p) - p->since < TW_POWER_INTERVAL) return p->watts;
    if (!tw_power_energy(p, &joules, &at)) return 0;
    p->watts = (joules - p->joules) / ((double)(at - p->since) * 1e-9);
    p->joules = joules;
    p->since = at;
    return p->watts;
}

double tw_power_clock(tw_power *p) {
    if (!p || !p->source.clock) return 0;
    const int64_t at = tw_power_now(p);
    if (at - p->read < CLOCK_AGE) return p->clock;
    p->clock = p->source.clock(p->source.context);
    p->read = at;
    return p->clock;
}

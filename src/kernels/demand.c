/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/demand.h"

#include <math.h>

/* Returns the clocks of a wave of n blocks. A round takes the longest of three: the work of all n blocks, which share
   the unit; the fetch of a stage, which has `ahead` rounds to arrive; and a block's own work with its dependent reads.
 */
static double wave(const tw_demand *d, const tw_rates *r, double n) {
    const double busy = d->busy / r->share[d->unit];
    const double round = fmax(n * busy, fmax(r->latency / d->ahead, busy + d->chain * r->step));
    return r->block + d->rounds * round + n * d->stored / r->store;
}

double tw_demand_time(const tw_demand *d, const tw_rates *r) {
    const double full = floor(d->blocks / d->together), rest = d->blocks - full * d->together;
    const double computing = full * wave(d, r, d->together) + (rest > 0 ? wave(d, r, rest) : 0);
    const double joining = d->turns * r->turn + d->parts / r->memory; /* Time to add the partial sums of k. */
    return r->launch + fmax(computing / d->clock, d->memory / r->memory) + joining;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/generate.h"

#include "model/model.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void cli_sampling(cli_sampling_flags *f, const tw_model *model, tw_generation *g) {
    tw_generation_defaults(model, g);
    tw_sampling *s = &g->sampling;
    if (f->seed == CLI_UNSET) f->seed = (int64_t)(getpid() ^ (int64_t)time(NULL) << 16);
    s->seed = (uint64_t)f->seed;
    if (f->temperature != CLI_UNSET) s->temperature = f->temperature;
    if (f->top_k != CLI_UNSET) s->top_k = f->top_k;
    if (f->top_p != CLI_UNSET) s->top_p = f->top_p;
    if (f->min_p != CLI_UNSET) s->min_p = f->min_p;
    if (f->repetition != CLI_UNSET) s->repetition_penalty = f->repetition;
    s->presence_penalty = f->presence;
    s->frequency_penalty = f->frequency;
    if (f->stop.count) {
        g->stop = f->stop.item;
        g->n_stop = f->stop.count;
    }
    g->ignore_eos = f->ignore_eos;
}

void cli_warn_nonfinite(const tw_model *model) {
    const char *first = NULL;
    int64_t bad = tw_model_count_nonfinite(model, &first);
    if (bad)
        fprintf(stderr, "tilewright: warning: %lld weights are NaN or infinite, first in %s\n", (long long)bad, first);
}

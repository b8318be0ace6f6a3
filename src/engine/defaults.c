/* SPDX-License-Identifier: Apache-2.0 */
/* Generation defaults from a model's generation_config.json. */
#include "model/model.h"
#include "tilewright/engine.h"

void tw_generation_defaults(const tw_model *m, tw_generation *g) {
    tw_sampling s = {.top_p = 1, .repetition_penalty = m->repetition_penalty};
    if (m->do_sample) {
        s.temperature = m->temperature;
        s.top_k = m->top_k;
        s.top_p = m->top_p;
        s.min_p = m->min_p;
    }
    s.seed = g->sampling.seed;
    g->sampling = s;
    g->stop = m->stop;
    g->n_stop = m->n_stop;
}

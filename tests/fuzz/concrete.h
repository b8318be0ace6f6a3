/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzzers do with a graph that is resolved: all symbols are 2, and what is made of it must be sound. */
#ifndef TW_FUZZ_CONCRETE_H
#define TW_FUZZ_CONCRETE_H

#include "graph/check.h"
#include "graph/passes/passes.h"
#include "graph/shapes/infer.h"
#include "graph/specialize.h"

#include <stdlib.h>

static inline void fuzz_concrete(tw_graph *g) {
    enum { INPUTS = 16, SYMBOLS = 4096 };
    static int64_t symbols[2 * SYMBOLS];
    tw_array in[INPUTS];
    const tw_array *list[INPUTS];
    tw_diag d = {0};
    tw_graph *c;
    if (g->n_symbols > SYMBOLS || g->n_inputs > INPUTS) return;
    for (int i = 0; i < 2 * SYMBOLS; i++) symbols[i] = 2;
    /* Names may be there twice, and whatever is there before nodes are looked at is the reader's. */
    const bool sound = tw_graph_check(g, &d) == TW_OK;
    if (tw_graph_infer(g, &d) != TW_OK) return;
    for (int i = 0; i < g->n_inputs; i++) {
        tw_value *v = &g->values[g->inputs[i]];
        in[i] = (tw_array){.type = v->type, .rank = v->rank};
        list[i] = &in[i];
        if (v->type == TW_E_none || v->rank < 0) return;
        for (int k = 0; k < v->rank; k++) {
            in[i].dims[k] = tw_graph_extent(g, v->dims[k], symbols);
            if (in[i].dims[k] < 0 || in[i].dims[k] > 64) return;
        }
    }
    d = (tw_diag){0};
    const tw_status st = tw_graph_specialize(&c, g, list, &d);
    if (st != TW_OK && (!d.message[0] || c)) abort();
    if (st != TW_OK) return;
    if (sound && tw_graph_check(c, &d) != TW_OK) abort();
    tw_status made = sound ? tw_graph_simplify(c, &d) : TW_ERR_USAGE;
    if (made == TW_OK) made = tw_graph_convert(c, TW_E_f16, &d);
    if (made == TW_OK && tw_graph_check(c, &d) != TW_OK) abort();
    if (sound && made != TW_OK && made != TW_ERR_MEMORY) abort();
    tw_graph_free(c);
}

#endif

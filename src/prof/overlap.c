/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/overlap.h"

#include "base/diag.h"
#include "prof/busy.h"

#include <math.h>
#include <stdlib.h>

static bool measure(tw_overlap_of *o, const tw_dag *f, const int *tracks, int n) {
    tw_busy busy = {0};
    bool fine = true;
    for (int i = 0; fine && i < n; i++) fine = tw_busy_add(&busy, f, tracks[i]);
    tw_busy_unite(&busy);
    o->resident = tw_spans_length(&busy.resident);
    for (int a = 0; a < TW_ENGINES; a++) {
        o->busy[a] = tw_spans_length(&busy.engines[a]);
        for (int b = 0; b < TW_ENGINES; b++) o->both[a][b] = tw_spans_common(&busy.engines[a], &busy.engines[b]);
    }
    tw_busy_free(&busy);
    return fine;
}

double tw_overlap_fraction(const tw_overlap_of *o, tw_trace_engine a, tw_trace_engine b) {
    const double less = fmin(o->busy[a], o->busy[b]);
    return less > 0 ? o->both[a][b] / less : 0;
}

static void sum_up(tw_overlap *out) {
    double resident = 0;
    for (int i = 0; i < out->n_sms; i++) resident += out->sms[i].resident;
    for (int a = 0; a < TW_ENGINES; a++) {
        double busy = 0;
        for (int i = 0; i < out->n_sms; i++) busy += out->sms[i].busy[a];
        out->share[a] = resident > 0 ? busy / resident : 0;
        for (int b = 0; b < TW_ENGINES; b++) {
            double both = 0, less = 0;
            for (int i = 0; i < out->n_sms; i++) {
                both += out->sms[i].both[a][b];
                less += fmin(out->sms[i].busy[a], out->sms[i].busy[b]);
            }
            out->fraction[a][b] = less > 0 ? both / less : 0;
        }
    }
}

tw_status tw_overlap_find(tw_overlap *out, const tw_trace *t, tw_diag *diag) {
    *out = (tw_overlap){0};
    tw_dag *f = tw_dag_new(t);
    int n_sms = 0;
    int *order = f ? tw_busy_order(t, &n_sms) : NULL;
    if (order) {
        out->sms = calloc((size_t)n_sms + 1, sizeof *out->sms);
        out->blocks = calloc((size_t)f->n_blocks + 1, sizeof *out->blocks);
    }
    bool fine = order && out->sms && out->blocks;
    for (int i = 0, j; fine && i < t->n_tracks; i = j) {
        const tw_trace_track *k = &t->tracks[order[i]];
        for (j = i; j < t->n_tracks && t->tracks[order[j]].sm == k->sm;) j++;
        tw_overlap_of *o = &out->sms[out->n_sms++];
        *o = (tw_overlap_of){.sm = k->sm, .block = -1};
        fine = measure(o, f, order + i, j - i);
        for (int b = i, end; fine && b < j; b = end) {
            const int block = t->tracks[order[b]].block;
            for (end = b; end < j && t->tracks[order[end]].block == block;) end++;
            o = &out->blocks[out->n_blocks++];
            *o = (tw_overlap_of){.sm = k->sm, .block = block};
            fine = measure(o, f, order + b, end - b);
        }
    }
    if (fine) sum_up(out);
    free(order);
    tw_dag_free(f);
    if (fine) return TW_OK;
    tw_overlap_free(out);
    return tw_fail_memory(diag);
}

void tw_overlap_free(tw_overlap *o) {
    free(o->sms);
    free(o->blocks);
    *o = (tw_overlap){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/describe.h"

#include "base/diag.h"

#include <math.h>

enum { TEXT = 400 };

static const char *const alone[] = {""};

tw_artefact tw_describe_family(const tw_family *f) {
    tw_artefact a = {.kernel = f->name,
                     .unit = f->unit,
                     .device = f->device,
                     .alike = f->alike,
                     .architecture = f->architecture,
                     .n_axes = f->n_axes,
                     .spread = f->spread,
                     .groups = f->groups};
    for (int i = 0; i < f->n_axes; i++) {
        a.axes[i] = f->axes[i];
        a.shrinks[i] = f->shrinks[i];
    }
    return a;
}

/* Makes a macro choice of a configuration, without fits. */
static tw_artefact_macro macro_of(tw_arena *arena, const tw_family *f, int macro, int micro) {
    char words[TEXT];
    tw_artefact_macro m = f->macros[macro];
    tw_family_config(f, macro, micro, words, sizeof words);
    m.config = tw_arena_strdup(arena, words);
    m.micros = alone;
    m.n_micros = 1;
    return m;
}

/* Makes the fit of all waves. */
static tw_artefact_fit fit_of(const tw_spline_config *c, double slots, const tw_artefact_anchor *anchors,
                              int n_anchors) {
    return (tw_artefact_fit){.c = {(float)(c->c[4] / slots), (float)(c->c[5] / slots), (float)c->c[2], (float)c->c[3]},
                             .waves = {(float)c->c[0], (float)c->c[1]},
                             .tail = {(float)c->c[6], (float)c->c[7]},
                             .flow = {(float)c->c[8], (float)c->c[9]},
                             .memory = {(float)c->c[10], (float)c->c[11]},
                             .anchors = anchors,
                             .n_anchors = n_anchors,
                             .samples = c->samples,
                             .error = fmin(c->error, TW_ARTEFACT_ERROR)};
}

/* Finds the least and the largest L of usual problems. Returns their number. */
static int find_anchors(const tw_family *f, const tw_artefact_macro *m, tw_artefact_anchor *out) {
    double least = 1, most = 1;
    for (int a = 0; a < f->n_axes; a++) {
        if (!m->rounds[a]) continue;
        least *= ceil((double)f->least[a] / (double)m->rounds[a]);
        most *= ceil((double)f->most[a] / (double)m->rounds[a]);
    }
    out[0] = (tw_artefact_anchor){(int64_t)fmin(least, UINT32_MAX), 0};
    out[1] = (tw_artefact_anchor){(int64_t)fmin(most, UINT32_MAX), 0};
    return out[1].rounds > out[0].rounds ? 2 : 1;
}

tw_status tw_describe_spline(tw_artefact *a, tw_arena *arena, const tw_spline *s, tw_diag *diag) {
    const tw_family *f = s->family;
    tw_artefact_macro *macros = tw_arena_array(arena, (size_t)s->n + 1, sizeof *macros);
    if (!macros) return tw_fail_memory(diag);
    a->macros = macros;
    a->lattice = &s->lattice;
    a->direct = true;
    for (int k = 0; k < TW_FILL_AXES; k++) a->tiled[k] = s->tiled[k];
    a->macro = -1;
    for (int i = 0; i < s->n; i++) {
        const tw_spline_config *c = &s->configs[i];
        tw_artefact_fit *fit = tw_arena_array(arena, 1, sizeof *fit);
        tw_artefact_anchor *anchors = tw_arena_array(arena, 2, sizeof *anchors);
        if (!fit || !anchors) return tw_fail_memory(diag);
        macros[i] = macro_of(arena, f, c->macro, c->micro);
        macros[i].slots = c->slots;
        *fit = fit_of(c, (double)macros[i].slots, anchors, find_anchors(f, &macros[i], anchors));
        macros[i].fits = fit;
        macros[i].n_fits = 1;
        macros[i].corrections = c->r;
        macros[i].fills = c->r + tw_lattice_count(&s->lattice, f->n_axes);
        if (c->macro == f->macro && c->micro == f->micro) a->macro = i;
    }
    a->n_macros = s->n;
    if (a->macro < 0) {
        a->macro = a->n_macros;
        macros[a->n_macros++] = macro_of(arena, f, f->macro, f->micro);
    }
    return arena->failed ? tw_fail_memory(diag) : TW_OK;
}

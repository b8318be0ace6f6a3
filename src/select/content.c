/* SPDX-License-Identifier: Apache-2.0 */
#include "select/content.h"

#include "base/diag.h"

#include <math.h>

static tw_status wrong(tw_diag *diag, int macro, const char *what) {
    return tw_fail(diag, TW_ERR_USAGE, "macro choice %d: %s", macro, what);
}

static bool is_text(const char *s) {
    return s && select_is_text(s, strlen(s) + 1);
}

static bool is_words(const char *s) {
    return is_text(s) && strlen(s) < UINT16_MAX / 2;
}

static bool within(int64_t x, int64_t least, int64_t most) {
    return x >= least && x <= most;
}

select_rule select_rule_of(const tw_artefact *a, const tw_artefact_macro *m) {
    select_rule r;
    for (int i = 0; i < TW_SELECT_AXES; i++) {
        r.multiple[i] = i < a->n_axes ? select_or_one(m->multiple[i]) : 1;
        r.least[i] = i < a->n_axes ? select_or_one(m->least[i]) : 1;
        r.most[i] = i < a->n_axes && m->most[i] ? (uint32_t)m->most[i] : TW_SELECT_MOST;
        r.parts[i] = i < a->n_axes ? select_or_one(m->parts[i]) : 1;
        r.tile[i] = r.parts[i] > 1 ? (uint32_t)m->grid[i] : 1;
    }
    return r;
}

static tw_status check_axes(const tw_artefact *a, int i, tw_diag *diag) {
    const tw_artefact_macro *m = &a->macros[i];
    for (int x = 0; x < a->n_axes; x++) {
        if (!within(m->grid[x], 0, TW_ARTEFACT_TILE) || !within(m->rounds[x], 0, TW_ARTEFACT_TILE))
            return wrong(diag, i, "a tile is out of range");
        if (!within(m->multiple[x], 0, TW_SELECT_MOST) || !within(m->least[x], 0, TW_SELECT_MOST) ||
            !within(m->most[x], 0, TW_SELECT_MOST) || !within(m->parts[x], 0, TW_ARTEFACT_TILE) ||
            (m->parts[x] > 1 && !m->grid[x]))
            return wrong(diag, i, "a rule is out of range");
        if (m->most[x] && m->least[x] > m->most[x]) return wrong(diag, i, "its least is above its most");
    }
    return TW_OK;
}

static tw_status check_fit(const tw_artefact_macro *m, int i, int number, tw_diag *diag) {
    const tw_artefact_fit *f = &m->fits[number];
    for (int k = 0; k < 4; k++)
        if (!isfinite(f->c[k])) return wrong(diag, i, "a coefficient is not finite");
    if (!(f->error >= 0 && f->error <= TW_ARTEFACT_ERROR)) return wrong(diag, i, "an error is out of range");
    if (f->samples < 0) return wrong(diag, i, "a number of samples is negative");
    if (f->n_anchors < 0) return wrong(diag, i, "a number of anchors is negative");
    for (int k = 0; k < f->n_anchors; k++) {
        const tw_artefact_anchor *n = &f->anchors[k];
        if (!within(n->rounds, 1, UINT32_MAX)) return wrong(diag, i, "an anchor is out of range");
        if (k && n->rounds <= n[-1].rounds) return wrong(diag, i, "anchors are not in order");
        if (!within(n->micro, 0, m->n_micros - 1)) return wrong(diag, i, "an anchor has no micro choice");
    }
    const select_record r = select_record_make(m, number, 0);
    return select_record_is_near(m, number, &r) ? TW_OK : wrong(diag, i, "a fit is too large for floats");
}

static tw_status check_macro(const tw_artefact *a, int i, tw_diag *diag) {
    const tw_artefact_macro *m = &a->macros[i];
    if (!is_words(m->config)) return wrong(diag, i, "its words are no text");
    if (m->properties >> SELECT_RULE) return wrong(diag, i, "a property is unknown");
    if (!within(m->times, 0, TW_ARTEFACT_TILE)) return wrong(diag, i, "`times` is out of range");
    if (!within(m->slots, 1, TW_ARTEFACT_TILE)) return wrong(diag, i, "the number of slots is out of range");
    if (!within(m->n_micros, 1, TW_ARTEFACT_MICROS))
        return wrong(diag, i, "the number of micro choices is out of range");
    if (!within(m->n_fits, 0, TW_ARTEFACT_FITS)) return wrong(diag, i, "the number of fits is out of range");
    tw_status st = check_axes(a, i, diag);
    for (int k = 0; st == TW_OK && k < m->n_micros; k++)
        if (!is_words(m->micros[k])) st = wrong(diag, i, "the words of a micro choice are no text");
    for (int k = 0; st == TW_OK && k < m->n_fits; k++) st = check_fit(m, i, k, diag);
    return st;
}

static bool is_choice(const tw_artefact *a, int macro, int micro) {
    return within(macro, 0, a->n_macros - 1) && within(micro, 0, a->macros[macro].n_micros - 1);
}

/* Tells whether a macro choice can compute a problem. */
static bool computes(const tw_artefact *a, int macro, const int64_t *problem) {
    const select_rule r = select_rule_of(a, &a->macros[macro]);
    uint32_t whole[TW_SELECT_AXES];
    for (int x = 0; x < a->n_axes; x++) whole[x] = (uint32_t)problem[x];
    select_rule_numbers(a->spread, a->groups, whole);
    return select_keeps(&r, whole, a->n_axes);
}

static tw_status check_exact(const tw_artefact *a, int i, tw_diag *diag) {
    const tw_artefact_exact *e = &a->exact[i];
    const bool second = e->second_macro >= 0;
    for (int x = 0; x < a->n_axes; x++)
        if (!within(e->problem[x], 1, TW_SELECT_MOST))
            return tw_fail(diag, TW_ERR_USAGE, "exact problem %d: an axis is out of range", i);
    if (!is_choice(a, e->macro, e->micro) || (second && !is_choice(a, e->second_macro, e->second_micro)))
        return tw_fail(diag, TW_ERR_USAGE, "exact problem %d: there is no such choice", i);
    if (!(e->time > 0) || isinf((float)e->time) || (float)e->time <= 0 ||
        (second && (!(e->second_time >= e->time) || isinf((float)e->second_time))))
        return tw_fail(diag, TW_ERR_USAGE, "exact problem %d: a time is out of range", i);
    if (!computes(a, e->macro, e->problem) || (second && !computes(a, e->second_macro, e->problem)))
        return tw_fail(diag, TW_ERR_USAGE, "exact problem %d: a choice cannot compute it", i);
    return TW_OK;
}

/* Checks the fits of a macro choice for what a direct artefact can hold, or that what only it can hold is not there. */
static tw_status check_direct(const tw_artefact *a, int i, tw_diag *diag) {
    const tw_artefact_macro *m = &a->macros[i];
    if (a->direct && m->n_fits > 1) return wrong(diag, i, "it has several fits in a direct artefact");
    for (int k = 0; k < m->n_fits; k++) {
        const tw_artefact_fit *f = &m->fits[k];
        const float most = SELECT_TERM_MOST / (float)m->slots;
        const float terms[] = {f->waves[0],  f->waves[1],  f->tail[0], f->tail[1], f->flow[0], f->flow[1],
                               f->memory[0], f->memory[1], f->c[0],    f->c[1],    f->c[2],    f->c[3]};
        for (int t = 0; t < 8 && !a->direct; t++)
            if (terms[t] != 0) return wrong(diag, i, "it has terms of waves, but the artefact is not direct");
        for (int t = 0; t < SELECT_TERMS && a->direct; t++)
            if (!(terms[t] >= 0 && terms[t] <= most)) return wrong(diag, i, "a term is out of range");
    }
    return TW_OK;
}

static tw_status check_corrections(const tw_artefact *a, int i, tw_diag *diag) {
    const double *r = a->macros[i].corrections;
    if (!r) return TW_OK;
    if (!a->lattice) return wrong(diag, i, "it has corrections, but there is no lattice");
    for (int k = 0; k < tw_lattice_count(a->lattice, a->n_axes); k++)
        if (!(r[k] >= TW_ARTEFACT_LEAST && r[k] <= TW_ARTEFACT_MOST))
            return wrong(diag, i, "a correction is out of range");
    return TW_OK;
}

/* Checks the corrections of a macro choice's fills. */
static tw_status check_fills(const tw_artefact *a, int i, tw_diag *diag) {
    const double *r = a->macros[i].fills;
    if (!r) return TW_OK;
    if (!a->direct) return wrong(diag, i, "it has corrections of fills, but the artefact is not direct");
    for (int k = 0; k < TW_FILL_CELLS; k++)
        if (!(r[k] >= -1 && r[k] <= 1)) return wrong(diag, i, "a correction of a fill is out of range");
    return TW_OK;
}

tw_status select_check_content(const tw_artefact *a, tw_diag *diag) {
    if (!within(a->n_axes, 1, TW_SELECT_AXES)) return tw_fail(diag, TW_ERR_USAGE, "the number of axes is out of range");
    if (!within(a->n_macros, 1, TW_ARTEFACT_MACROS))
        return tw_fail(diag, TW_ERR_USAGE, "the number of macro choices is out of range");
    if (!within(a->n_exact, 0, TW_ARTEFACT_EXACT))
        return tw_fail(diag, TW_ERR_USAGE, "the number of exact problems is out of range");
    if (!is_text(a->kernel) || !is_text(a->unit) || !is_text(a->device) || !is_text(a->alike) ||
        !is_text(a->architecture) || !is_text(a->about))
        return tw_fail(diag, TW_ERR_USAGE, "a text is missing or not UTF-8");
    for (int x = 0; x < a->n_axes; x++)
        if (!is_text(a->axes[x])) return tw_fail(diag, TW_ERR_USAGE, "axis %d has no name", x);
    if (!within(a->spread, 0, a->n_axes) || !within(a->groups, 0, a->n_axes) || !a->spread != !a->groups ||
        (a->spread && (a->spread == a->groups || a->shrinks[a->spread - 1])))
        return tw_fail(diag, TW_ERR_USAGE, "the spread axis and that of its groups are not two axes, or it shrinks");
    tw_status st = TW_OK;
    if (a->lattice && !select_is_lattice(a->lattice, a->n_axes))
        return tw_fail(diag, TW_ERR_USAGE, "the lattice's nodes are out of range");
    for (int i = 0; st == TW_OK && i < a->n_macros; i++) st = check_macro(a, i, diag);
    for (int i = 0; st == TW_OK && i < a->n_macros; i++) st = check_corrections(a, i, diag);
    for (int i = 0; st == TW_OK && i < a->n_macros; i++) st = check_direct(a, i, diag);
    for (int i = 0; st == TW_OK && i < a->n_macros; i++) st = check_fills(a, i, diag);
    for (int k = 0; k < TW_FILL_AXES; k++)
        if (!within(a->tiled[k], 0, a->n_axes)) return tw_fail(diag, TW_ERR_USAGE, "a tiled axis is out of range");
    if (st == TW_OK && !is_choice(a, a->macro, a->micro))
        st = tw_fail(diag, TW_ERR_USAGE, "there is no such choice as the default");
    for (int i = 0; st == TW_OK && i < a->n_exact; i++) st = check_exact(a, i, diag);
    return st;
}

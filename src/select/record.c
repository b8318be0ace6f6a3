/* SPDX-License-Identifier: Apache-2.0 */
#include "select/content.h"

#include <math.h>

/* ROUNDING is the error of floats relative to the terms, which may cancel. */
static const double NEAR = 1e-3, ROUNDING = 2e-7;

select_record select_record_make(const tw_artefact_macro *m, int before, uint8_t row) {
    const tw_artefact_fit *f = &m->fits[before];
    const double slots = (double)m->slots, grid = slots * before;
    select_record r = {.error = select_error_code(f->error), .row = row};
    if (!f->n_anchors) return r;
    r.c[0] = (float)((double)f->c[0] * slots);
    r.c[1] = (float)((double)f->c[1] * slots);
    r.c[2] = (float)((double)f->c[2] + (double)f->c[0] * grid);
    r.c[3] = (float)((double)f->c[3] + (double)f->c[1] * grid);
    return r;
}

select_record select_record_round(const select_record *r) {
    select_record out = *r;
    for (int i = 0; i < 4; i++) {
        const uint32_t bits = tw_f32_bits(r->c[i]);
        /* Rounds to nearest, ties to even. */
        out.c[i] = tw_bits_f32((bits + 0x7ff + (bits >> 12 & 1)) & ~0xfffu);
    }
    return out;
}

bool select_record_is_near(const tw_artefact_macro *m, int before, const select_record *r) {
    const tw_artefact_fit *f = &m->fits[before];
    const double slots = (double)m->slots;
    for (int i = 0; i < 4; i++)
        if (!isfinite(r->c[i])) return false;
    for (int corner = 0; f->n_anchors && corner < 4; corner++) {
        const double x = corner & 1 ? 1 : 1 / slots, g = slots * (before + x);
        const double l = (double)f->anchors[corner & 2 ? f->n_anchors - 1 : 0].rounds;
        const double time = (double)f->c[0] * g * l + (double)f->c[1] * g + (double)f->c[2] * l + (double)f->c[3];
        const double terms =
            (fabs((double)r->c[0]) * l + fabs((double)r->c[1])) * x + fabs((double)r->c[2]) * l + fabs((double)r->c[3]);
        if (time > 0 && fabs(select_time(r, x, l) - time) > NEAR * time + ROUNDING * terms) return false;
    }
    return true;
}

uint8_t select_error_code(double error) {
    int code = 0;
    while (code < 255 && select_error((uint8_t)code) < error) code++;
    return (uint8_t)code;
}

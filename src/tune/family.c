/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/family.h"

#include "base/diag.h"
#include "base/divide.h"
#include "select/spread.h"
#include "tune/axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tw_family_close(tw_family *f) {
    if (!f) return;
    tw_power_close(f->power);
    f->calls->close(f->self);
}

double tw_family_work(const tw_family *f, const int64_t *problem) {
    double work = 2;
    if (f->work) return f->work(f->self, problem);
    for (int a = 0; a < f->n_axes; a++) work *= (double)problem[a];
    return work;
}

void tw_family_admit_least(tw_family *f) {
    const double least = 8 * tw_family_work(f, f->least);
    if (f->most_work > 0 && f->most_work < least) f->most_work = least;
}

bool tw_family_fits(const tw_family *f, const int64_t *problem) {
    return !f->calls || !f->calls->fits || f->calls->fits(f->self, problem);
}

double tw_family_time(const tw_family *f, const tw_stats *s) {
    return f->shared ? s->min : s->median;
}

/* ---- words */

void tw_family_print(const tw_family *f, const int64_t *problem, char *out, size_t size) {
    size_t used = 0;
    for (int a = 0; a < f->n_axes && used < size; a++)
        used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", a ? " " : "", f->axes[a], (long long)problem[a]);
}

tw_status tw_family_parse(const tw_family *f, int64_t *problem, const char *words, tw_diag *diag) {
    bool given[TW_SELECT_AXES] = {false};
    for (const char *at = words + strspn(words, " "); *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        if (!tw_axes_read(f->axes, f->n_axes, at, length, problem, given))
            return tw_fail(diag, TW_ERR_USAGE, "\"%.*s\" is no axis of %s and a number from 1 to %d", (int)length, at,
                           f->name, TW_SELECT_MOST);
        at += length;
    }
    for (int a = 0; a < f->n_axes; a++)
        if (!given[a]) return tw_fail(diag, TW_ERR_USAGE, "\"%s\" does not say %s", words, f->axes[a]);
    return TW_OK;
}

void tw_family_config(const tw_family *f, int macro, int micro, char *out, size_t size) {
    const tw_artefact_macro *m = &f->macros[macro];
    snprintf(out, size, "%s%s%s", m->config, *m->micros[micro] ? " " : "", m->micros[micro]);
}

bool tw_family_find(const tw_family *f, const char *config, int *macro, int *micro) {
    for (int i = 0; i < f->n_macros; i++) {
        const tw_artefact_macro *m = &f->macros[i];
        const size_t length = strlen(m->config);
        if (strncmp(config, m->config, length) != 0) continue;
        for (int j = 0; j < m->n_micros; j++)
            if (!strcmp(config + length + (config[length] == ' '), m->micros[j])) {
                *macro = i;
                *micro = j;
                return true;
            }
    }
    return false;
}

/* ---- problems */

void tw_family_point(const tw_family *f, const int64_t *problem, double point[TW_SELECT_AXES]) {
    for (int a = 0; a < f->n_axes; a++) point[a] = (double)problem[a];
    if (!f->spread) return;
    const int64_t used = tw_spread_used(problem[f->spread - 1], problem[f->groups - 1]);
    point[f->groups - 1] = (double)used;
    point[f->spread - 1] /= (double)used;
}

/* Returns an axis' extent as tiles and rounds divide it. Of groups only those that have rows count. */
static int64_t extent_of(const tw_family *f, int axis, const int64_t *problem) {
    const bool groups = f->spread && axis == f->groups - 1;
    return groups ? tw_spread_used(problem[f->spread - 1], problem[axis]) : problem[axis];
}

int64_t tw_family_tiles(const tw_family *f, int macro, int axis, const int64_t *problem) {
    const int64_t tile = f->macros[macro].grid[axis], extent = extent_of(f, axis, problem);
    if (!tile) return 1;
    if (axis != f->spread - 1) return tw_ceil_div(extent, tile);
    return tw_spread_tiles(extent, extent_of(f, f->groups - 1, problem), tile);
}

tw_wave_division tw_family_divide(const tw_family *f, int macro, const int64_t *problem) {
    const tw_artefact_macro *m = &f->macros[macro];
    tw_wave_division d = {m->times ? m->times : 1, 1};
    for (int a = 0; a < f->n_axes; a++) {
        const bool spread = a == f->spread - 1;
        const int64_t ruled = spread ? tw_spread_share(problem[a], problem[f->groups - 1]) : problem[a];
        const int64_t extent = extent_of(f, a, problem);
        if ((m->multiple[a] && ruled % m->multiple[a]) || ruled < m->least[a] || (m->most[a] && ruled > m->most[a]))
            return (tw_wave_division){0};
        const int64_t parts = tw_family_tiles(f, macro, a, problem),
                      ruled_parts = m->grid[a] ? tw_ceil_div(ruled, m->grid[a]) : 1;
        if (m->parts[a] && ruled_parts % m->parts[a]) return (tw_wave_division){0};
        d.grid *= parts;
        if (m->rounds[a]) d.loops *= (double)tw_ceil_div(extent, m->rounds[a]);
        if (f->shrinks[a] && m->grid[a]) d.loops *= (double)extent / (double)(parts * m->grid[a]);
    }
    return d;
}

bool tw_family_place(const tw_family *f, const double *unit, int64_t *problem) {
    for (int a = 0; a < f->n_axes; a++) {
        const double least = (double)f->least[a], ratio = (double)f->most[a] / least;
        const int64_t at = (int64_t)(least * pow(ratio, unit[a]));
        problem[a] = tw_ceil_div(at, f->step[a]) * f->step[a];
        if (problem[a] > f->most[a] && problem[a] > f->step[a]) problem[a] -= f->step[a];
    }
    return !(f->most_work > 0 && tw_family_work(f, problem) > f->most_work) && tw_family_fits(f, problem);
}

void tw_family_draw(const tw_family *f, tw_random *r, int64_t *problem) {
    double unit[TW_SELECT_AXES];
    do
        for (int a = 0; a < f->n_axes; a++) unit[a] = tw_random_unit(r);
    while (!tw_family_place(f, unit, problem));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "select/artefacts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t below(tw_random *r, int64_t bound) {
    return (int64_t)tw_random_below(r, (uint64_t)bound);
}

static double around(tw_random *r, double x, double deviation) {
    return x * fmax(0.5, 1 + deviation * (double)tw_random_normal(r));
}

static void *array(tw_arena *a, int n, size_t size) {
    return tw_arena_array(a, (size_t)n + 1, size);
}

/* ---- products */

typedef struct tile {
    int64_t m, n, k, slots;
    double round, start; /* Microseconds of a round, and of the work before the first round. */
} tile;

/* The time of a wave is a start and a part that grows with its blocks. The steps between waves fade, since blocks end
   at different times. */
static void fit_wave(tw_random *r, const tile *t, int wave, tw_artefact_fit *f) {
    const double slope = 1 - exp(-wave / 15.0), slots = (double)t->slots, before = wave - 1;
    const double a = around(r, slope * t->round, 0.05), b = around(r, slope * t->start, 0.1);
    const double c = around(r, (wave - slope) * t->round, 0.01), d = around(r, 2 + (wave - slope) * t->start, 0.02);
    f->c[0] = (float)(a / slots);
    f->c[1] = (float)(b / slots);
    f->c[2] = (float)(c - a * before);
    f->c[3] = (float)(d - b * before);
}

static void add_anchors(tw_arena *a, tw_random *r, const tile *t, int favourite, tw_artefact_fit *f) {
    static const int64_t depths[] = {512, 2048, 4096, 16384};
    tw_artefact_anchor *anchors = array(a, 4, sizeof *anchors);
    f->anchors = anchors;
    f->n_anchors = 4;
    for (int i = 0; i < 4; i++)
        anchors[i] = (tw_artefact_anchor){depths[i] / t->k, below(r, 5) ? favourite : (int)below(r, 4)};
}

static void make_product(tw_arena *a, tw_random *r, int number, int waves, tw_artefact_macro *m) {
    static const int64_t rows[] = {32, 64, 128, 192, 256}, columns[] = {32, 64, 96, 128, 192, 256},
                         depths[] = {16, 32, 64, 128};
    static const char *const micros[] = {"stages=3 group=4", "stages=4 group=8", "stages=5 group=8",
                                         "stages=6 group=1"};
    tile t = {.m = rows[number % 5], .n = columns[number / 5 % 6], .k = depths[number / 30 % 4]};
    const double area = (double)(t.m * t.n);
    t.slots = 132 * (area <= 8192 ? 3 : area <= 16384 ? 2 : 1);
    /* Nanoseconds of a round by arithmetic and by bytes from the L2, both shared by the blocks that run at once. */
    const double together = (double)t.slots, flops = area * (double)t.k * together / 132 / 3000,
                 bytes = 2 * (double)((t.m + t.n) * t.k) * together / 5500 / 132 * 132;
    t.round = around(r, (fmax(flops, bytes) + 60) / 1000, 0.05);
    t.start = around(r, 0.8 + area / 20000, 0.1);
    m->config = tw_arena_printf(a, "tm=%d tn=%d tk=%d", (int)t.m, (int)t.n, (int)t.k);
    m->grid[0] = t.m;
    m->grid[1] = t.n;
    m->rounds[2] = t.k;
    m->slots = t.slots;
    m->micros = micros;
    m->n_micros = 4;
    m->n_fits = waves + 1;
    const int favourite = (int)below(r, 4);
    tw_artefact_fit *fits = array(a, m->n_fits, sizeof *fits);
    m->fits = fits;
    for (int w = 0; w <= waves; w++) {
        fit_wave(r, &t, w + 1, &fits[w]);
        add_anchors(a, r, &t, favourite, &fits[w]);
        fits[w].samples = 16 + below(r, 30);
        fits[w].error = 0.01 + 0.03 * tw_random_unit(r);
    }
}

tw_artefact *artefact_of_products(tw_arena *a, tw_random *r, int macros, int waves) {
    tw_artefact *out = tw_arena_alloc(a, sizeof *out);
    tw_artefact_macro *m = array(a, macros, sizeof *m);
    for (int i = 0; i < macros; i++) make_product(a, r, i, waves, &m[i]);
    *out = (tw_artefact){.kernel = "gemm",
                         .unit = "us",
                         .device = "a GPU, 132 SMs",
                         .alike = "sm_90, 132 SMs, 50 MB",
                         .architecture = "sm_90",
                         .about = "{\"samples\": 100000}",
                         .axes = {"m", "n", "k"},
                         .n_axes = 3,
                         .macros = m,
                         .n_macros = macros};
    return out;
}

void artefact_correct(tw_arena *a, tw_random *r, tw_artefact *out) {
    enum { NODES = 9 * 5 * 3 };
    tw_lattice *l = tw_arena_alloc(a, sizeof *l);
    tw_artefact_macro *m = array(a, out->n_macros, sizeof *m);
    memcpy(m, out->macros, (size_t)out->n_macros * sizeof *m);
    *l = (tw_lattice){{9, 5, 3, 1, 1, 1}, {6, 8, 10}, {14, 13, 13}};
    for (int i = 0; i < out->n_macros; i++) {
        double *corrections = array(a, NODES, sizeof *corrections);
        for (int k = 0; k < NODES; k++) corrections[k] = 0.2 * tw_random_unit(r) - 0.1;
        m[i].corrections = corrections;
    }
    out->lattice = l;
    out->macros = m;
}

/* ---- the reference */

double artefact_parts(int64_t size, int64_t part) {
    const int64_t parts = part ? (size + part - 1) / part : 1;
    return (double)parts;
}

/* Returns the micro choice of the nearest anchor, or of the lower of two. *other is the micro choice of another anchor
   that would be the nearest if L were rounded. */
static int nearest(const tw_artefact_fit *f, double rounds, int *other) {
    int best = -1;
    double least = (double)INFINITY;
    for (int i = 0; i < f->n_anchors; i++) {
        const double apart = fabs((double)f->anchors[i].rounds - rounds);
        if (apart < least) best = f->anchors[i].micro;
        least = fmin(least, apart);
    }
    *other = best;
    for (int i = 0; i < f->n_anchors; i++) {
        const bool near = fabs((double)f->anchors[i].rounds - rounds) <= least + 1e-6 * rounds;
        if (near && f->anchors[i].micro != best) *other = f->anchors[i].micro;
    }
    return best;
}

static double largest(const double *r, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(r[i]));
    return most;
}

/* Returns the expected number of groups that have rows. */
static double used_of(const tw_artefact *a, const int64_t *problem) {
    const double rows = (double)problem[a->spread - 1], groups = (double)problem[a->groups - 1];
    return fmax(1, floor(groups * (1 - pow(1 - 1 / groups, rows)) + 0.5));
}

/* Returns an axis's extent, of groups the number of those that have rows. */
static int64_t extent_of(const tw_artefact *a, int x, const int64_t *problem) {
    return a->groups && x == a->groups - 1 ? (int64_t)used_of(a, problem) : problem[x];
}

double artefact_tiles(const tw_artefact *a, const tw_artefact_macro *m, int x, const int64_t *problem) {
    const int64_t extent = extent_of(a, x, problem);
    if (!a->spread || x != a->spread - 1 || !m->grid[x]) return artefact_parts(extent, m->grid[x]);
    const double used = used_of(a, problem), size = (double)m->grid[x];
    return fmax(used, ceil(((double)extent + used * size / 2) / size));
}

/* Returns the correction at a problem. *off is what its storage in 127 steps may change. */
static double correction_of(const tw_artefact *a, const tw_artefact_macro *m, const int64_t *problem, double *off) {
    uint32_t node[TW_LATTICE_CORNERS];
    int16_t weight[TW_LATTICE_CORNERS];
    float axes[TW_SELECT_AXES];
    double sum = 0;
    *off = largest(m->corrections, tw_lattice_count(a->lattice, a->n_axes)) / 127;
    for (int x = 0; x < a->n_axes; x++) axes[x] = (float)problem[x];
    if (a->spread) {
        axes[a->groups - 1] = (float)used_of(a, problem);
        axes[a->spread - 1] /= axes[a->groups - 1];
    }
    for (int k = tw_lattice_corners(a->lattice, a->n_axes, axes, node, weight); k-- > 0;)
        sum += m->corrections[node[k]] * weight[k] / TW_LATTICE_UNITS;
    return sum;
}

/* How full the device and the last tiles are. */
typedef struct filling {
    double x, waves, tiles[2];
    double empty[2]; /* Empty part of the last tile. 0: the axis shrinks. */
    double lean[2];  /* Size of a tile divided by a block's extent. 0: the axis does not shrink. */
} filling;

static filling filling_of(const tw_artefact *a, const tw_artefact_macro *m, double g, const int64_t *problem) {
    filling f = {.x = g / (double)m->slots, .waves = ceil(g / (double)m->slots), .tiles = {1, 1}};
    for (int k = 0; k < 2; k++) {
        const int64_t side = a->tiled[k] ? m->grid[a->tiled[k] - 1] : 0;
        const bool equal = a->tiled[k] && a->shrinks[a->tiled[k] - 1];
        f.lean[k] = equal;
        if (!side) continue;
        const int64_t size = extent_of(a, a->tiled[k] - 1, problem), over = size % side;
        f.tiles[k] = artefact_tiles(a, m, a->tiled[k] - 1, problem);
        if (a->tiled[k] == a->spread) continue;
        if (equal)
            f.lean[k] = f.tiles[k] * (double)side / (double)size;
        else
            f.empty[k] = over ? 1 - (double)over / (double)side : 0;
    }
    return f;
}

/* Returns the correction of a filling: between the two nodes of its number of waves. */
static double fill_of(const double *cells, const filling *f, double *off) {
    const int part = f->waves > 4 ? 3 : f->waves > 2 ? 2 : (int)f->waves - 1;
    const double at = f->x / f->waves * 3;
    double sum = 0;
    for (int node = 0; node < 4; node++) {
        const double *c = cells + (part * 4 + node) * 3, near = 1 - fabs(at - node);
        if (near > 0) sum += near * (c[0] + c[1] * f->empty[0] + c[2] * f->empty[1]);
    }
    *off = 3 * largest(cells, TW_FILL_CELLS) / 127;
    return sum;
}

/* Multiplies a prediction by what the macro choice's corrections make of it. */
static void correct(const tw_artefact *a, const tw_artefact_macro *m, const int64_t *problem, const filling *f,
                    artefact_prediction *p) {
    double factor = 1, off = 0, more = 0;
    if (!m->corrections && !m->fills) return;
    if (m->corrections) factor += correction_of(a, m, problem, &off);
    if (m->fills) factor = fmax(factor + fill_of(m->fills, f, &more), 0.05);
    off += more;
    p->slack = p->slack * (factor + off) + fabs(p->time) * (off + 1e-5);
    p->time *= factor;
    p->exact = false;
}

artefact_prediction artefact_refer(const tw_artefact *a, int macro, const int64_t *problem) {
    const tw_artefact_macro *m = &a->macros[macro];
    double g = m->times ? (double)m->times : 1, l = 1;
    bool shrinks = false;
    for (int x = 0; x < a->n_axes; x++) {
        g *= artefact_tiles(a, m, x, problem);
        l *= artefact_parts(extent_of(a, x, problem), m->rounds[x]);
        if (a->shrinks[x] && m->grid[x])
            l *= (double)problem[x] / ((double)m->grid[x] * artefact_parts(problem[x], m->grid[x]));
        shrinks |= a->shrinks[x];
    }
    if (!m->n_fits) return (artefact_prediction){0};
    /* A direct artefact does not round W up where floats do not hold G exactly. */
    const double waves = a->direct && g >= 0x1p24 ? g / (double)m->slots : ceil(g / (double)m->slots);
    const int fit = (waves < m->n_fits ? (int)waves : m->n_fits) - 1;
    const tw_artefact_fit *f = &m->fits[fit];
    const double c[4] = {(double)f->c[0], (double)f->c[1], (double)f->c[2], (double)f->c[3]};
    const double before = (double)fit * (double)m->slots;
    artefact_prediction r = {.time = c[0] * g * l + c[1] * g + c[2] * l + c[3]};
    r.time += ((double)f->waves[0] * l + (double)f->waves[1]) * waves;
    const filling full = filling_of(a, m, g, problem);
    for (int k = 0; k < 2; k++)
        r.time += (full.empty[k] + full.lean[k] * waves) * l * (double)f->tail[k] +
                  ((full.empty[k] + full.lean[k]) * (double)f->flow[k] + (a->tiled[k] ? (double)f->memory[k] : 0)) * l *
                      full.x / full.tiles[k];
    r.micro = nearest(f, l, &r.other);
    if (!shrinks) r.other = r.micro;
    r.slack = (fabs(c[0] * l * (g - before)) + fabs(c[1] * (g - before)) + fabs((c[2] + c[0] * before) * l) +
               fabs(c[3] + c[1] * before)) *
              2.45e-4;
    if (a->direct) r.slack = r.time * 4e-6;
    r.known = f->n_anchors && r.time > 0 && (!a->direct || r.time <= 1e30);
    r.exact = g * l < 0x1p40 && g < 0x1p30 && !shrinks && !a->direct;
    correct(a, m, problem, &full, &r);
    return r;
}

static bool computes(const tw_artefact *a, int macro, const int64_t *problem) {
    const tw_artefact_macro *m = &a->macros[macro];
    for (int x = 0; x < a->n_axes; x++) {
        const bool spread = a->spread && x == a->spread - 1;
        const int64_t extent = spread ? (int64_t)ceil((double)problem[x] / used_of(a, problem)) : problem[x];
        if (m->multiple[x] && extent % m->multiple[x] != 0) return false;
        if (extent < m->least[x]) return false;
        if (m->most[x] && extent > m->most[x]) return false;
        if (m->parts[x] && (int64_t)artefact_parts(extent, m->grid[x]) % m->parts[x]) return false;
    }
    return true;
}

bool artefact_allows(const tw_artefact *a, int macro, const int64_t *problem, unsigned flags) {
    const unsigned p = a->macros[macro].properties;
    return computes(a, macro, problem) && !(flags & TW_SELECT_DETERMINISTIC && p & TW_MACRO_ATOMIC) &&
           !(flags & TW_SELECT_NO_WORKSPACE && p & TW_MACRO_WORKSPACE) &&
           !(flags & TW_SELECT_OWN_ONLY && p & TW_MACRO_VENDOR) &&
           !(flags & TW_SELECT_VENDOR_ONLY && !(p & TW_MACRO_VENDOR));
}

bool artefact_is_config(const tw_artefact *a, const tw_selection *s) {
    char config[200];
    const tw_artefact_macro *m = &a->macros[s->macro];
    const char *micro = m->micros[s->micro];
    snprintf(config, sizeof config, "%s%s%s", m->config, *micro ? " " : "", micro);
    return !strcmp(s->config, config);
}

const char *artefact_refute(const tw_artefact *a, const int64_t *problem, unsigned flags, const tw_selection *s) {
    if (s->source != TW_SELECT_MODEL) return "the model did not decide";
    if (s->macro < 0 || s->macro >= a->n_macros) return "there is no such macro choice";
    if (!artefact_allows(a, s->macro, problem, flags)) return "the macro choice is not allowed";
    double most = (double)INFINITY;
    for (int i = 0; i < a->n_macros; i++) {
        const artefact_prediction r = artefact_refer(a, i, problem);
        if (r.known && artefact_allows(a, i, problem, flags)) most = fmin(most, r.time + r.slack);
    }
    const artefact_prediction got = artefact_refer(a, s->macro, problem);
    if (got.time - got.slack > most) return "another macro choice takes less";
    if (!(s->time > 0 && fabs(s->time - got.time) <= got.slack)) return "the time is another";
    if (s->micro != got.micro && s->micro != got.other) return "the micro choice is another";
    return artefact_is_config(a, s) ? NULL : "the configuration's words are others";
}

/* ---- random artefacts */

static void random_anchors(tw_arena *a, tw_random *r, const tw_artefact_macro *m, tw_artefact_fit *f) {
    tw_artefact_anchor *anchors = array(a, 6, sizeof *anchors);
    int64_t l = 0;
    f->anchors = anchors;
    f->n_anchors = below(r, 12) ? 1 + (int)below(r, 6) : 0;
    for (int i = 0; i < f->n_anchors; i++) {
        l += 1 + below(r, below(r, 3) ? 8 : 300);
        anchors[i] = (tw_artefact_anchor){l, (int)below(r, m->n_micros)};
    }
}

static void random_fit(tw_random *r, const artefact_limits *l, int number, tw_artefact_fit *f) {
    const double wave = number + 1;
    for (int i = 0; i < 4; i++)
        f->c[i] = l->plain ? (float)below(r, 8) : (float)(tw_random_unit(r) * (i < 2 ? 0.1 : wave));
    /* Some fits predict 0 or less in places. */
    if (!below(r, 20)) f->c[below(r, 4)] *= -1;
    if (!below(r, 40)) memset(f->c, 0, sizeof f->c);
    f->samples = below(r, 100) ? below(r, 300) : 70000;
    f->error = below(r, 5) ? tw_random_unit(r) : 0;
}

static void random_macro(tw_arena *a, tw_random *r, const artefact_limits *l, int axes, int number,
                         tw_artefact_macro *m) {
    static const int64_t tiles[] = {0, 1, 3, 16, 64, 96, 128, 1000, 65535};
    m->config = tw_arena_printf(a, "macro=%d", number);
    m->properties = below(r, 3) ? 0 : (unsigned)below(r, 8);
    for (int x = 0; x < axes; x++) {
        m->grid[x] = tiles[below(r, 9)];
        m->rounds[x] = tiles[below(r, 9)];
        if (!below(r, 4)) m->multiple[x] = 1 + below(r, 4);
        if (!below(r, 6) && m->grid[x]) m->parts[x] = below(r, 4);
        if (!below(r, 6)) m->least[x] = 1 + below(r, 100);
        if (!below(r, 6)) m->most[x] = 100 + below(r, 10000);
    }
    m->times = below(r, 3) ? 0 : 1 + below(r, 4);
    m->slots = l->plain ? (int64_t)1 << below(r, 6) : 1 + below(r, below(r, 2) ? 200 : 20);
    m->n_micros = 1 + (int)below(r, l->micros);
    const char **micros = array(a, m->n_micros, sizeof *micros);
    for (int i = 0; i < m->n_micros; i++) micros[i] = i ? tw_arena_printf(a, "micro=%d", i) : "";
    m->micros = micros;
    m->n_fits = below(r, 10) ? 1 + (int)below(r, l->fits) : 0;
    tw_artefact_fit *fits = array(a, m->n_fits, sizeof *fits);
    m->fits = fits;
    for (int i = 0; i < m->n_fits; i++) {
        random_fit(r, l, i, &fits[i]);
        random_anchors(a, r, m, &fits[i]);
    }
}

/* Makes an artefact direct: one fit at most, without a coefficient below 0, and with terms of waves. */
static void make_direct(tw_arena *a, tw_random *r, tw_artefact *out, tw_artefact_macro *m) {
    out->direct = true;
    for (int k = 0; k < 2; k++) out->tiled[k] = (int)below(r, out->n_axes + 1);
    for (int i = 0; i < out->n_macros; i++) {
        if (!m[i].n_fits) continue;
        tw_artefact_fit *f = array(a, 1, sizeof *f);
        *f = m[i].fits[0];
        for (int k = 0; k < 4; k++) f->c[k] = fabsf(f->c[k]);
        for (int k = 0; k < 2; k++) {
            f->waves[k] = below(r, 4) ? (float)(tw_random_unit(r) * 3) : 0;
            f->tail[k] = below(r, 3) ? (float)(tw_random_unit(r) * 2) : 0;
            f->flow[k] = below(r, 3) ? (float)tw_random_unit(r) : 0;
            f->memory[k] = below(r, 3) ? (float)tw_random_unit(r) : 0;
        }
        m[i].fits = f;
        m[i].n_fits = 1;
    }
}

static const double *random_fills(tw_arena *a, tw_random *r, double most) {
    double *out = array(a, TW_FILL_CELLS, sizeof *out);
    for (int i = 0; i < TW_FILL_CELLS; i++) out[i] = most * (2 * tw_random_unit(r) - 1);
    return out;
}

void artefact_direct(tw_arena *a, tw_random *r, tw_artefact *out) {
    tw_artefact_macro *m = array(a, out->n_macros, sizeof *m);
    memcpy(m, out->macros, (size_t)out->n_macros * sizeof *m);
    make_direct(a, r, out, m);
    out->tiled[0] = 1;
    out->tiled[1] = 2;
    for (int i = 0; i < out->n_macros; i++) m[i].fills = random_fills(a, r, 0.1);
    out->macros = m;
}

static const tw_lattice *random_lattice(tw_arena *a, tw_random *r, int axes) {
    tw_lattice *l = tw_arena_alloc(a, sizeof *l);
    int wide = 0;
    for (int x = 0; x < TW_SELECT_AXES; x++) {
        const bool several = x < axes && wide < TW_LATTICE_AXES && below(r, 3);
        l->nodes[x] = several ? 2 + (int)below(r, 4) : 1;
        l->low[x] = (float)(tw_random_unit(r) * 8);
        l->high[x] = l->low[x] + (float)(tw_random_unit(r) * 8 + 0.1);
        wide += several;
    }
    return l;
}

static const double *random_corrections(tw_arena *a, tw_random *r, int nodes) {
    double *out = array(a, nodes, sizeof *out);
    const double most = below(r, 4) ? 0.3 : 9;
    for (int i = 0; i < nodes; i++) out[i] = fmax(most * (2 * tw_random_unit(r) - 1), -0.9);
    return below(r, 6) ? out : NULL;
}

static void random_exact(tw_arena *a, tw_random *r, int most, tw_artefact *out) {
    tw_artefact_exact *e = array(a, most, sizeof *e);
    out->exact = e;
    for (int i = 0; i < most; i++) {
        tw_artefact_exact *x = &e[out->n_exact];
        artefact_problem(out, r, x->problem);
        x->macro = (int)below(r, out->n_macros);
        x->micro = (int)below(r, out->macros[x->macro].n_micros);
        x->time = 1 + (double)below(r, 1000);
        x->second_macro = below(r, 3) ? (int)below(r, out->n_macros) : -1;
        bool right = computes(out, x->macro, x->problem);
        if (x->second_macro >= 0) {
            x->second_micro = (int)below(r, out->macros[x->second_macro].n_micros);
            x->second_time = x->time + (double)below(r, 1000);
            right = right && computes(out, x->second_macro, x->problem);
        }
        for (int k = 0; k < out->n_exact; k++) right = right && memcmp(e[k].problem, x->problem, sizeof x->problem);
        if (right)
            out->n_exact++;
        else
            memset(x, 0, sizeof *x);
    }
}

tw_artefact *artefact_random(tw_arena *a, tw_random *r, const artefact_limits *l) {
    static const char *const names[] = {"m", "n", "k", "heads", "batch", "l\xc3\xa4nge"};
    tw_artefact *out = tw_arena_alloc(a, sizeof *out);
    *out = (tw_artefact){.kernel = "any",
                         .unit = "us",
                         .device = "this",
                         .alike = "such",
                         .architecture = "kind",
                         .about = "{}",
                         .n_axes = 1 + (int)below(r, l->axes),
                         .n_macros = 1 + (int)below(r, l->macros)};
    memcpy(out->axes, names, sizeof out->axes);
    tw_artefact_macro *m = array(a, out->n_macros, sizeof *m);
    for (int x = 0; x < out->n_axes; x++) out->shrinks[x] = !l->plain && !below(r, 6);
    if (!l->plain && out->n_axes > 1 && !below(r, 3)) {
        out->spread = 1 + (int)below(r, out->n_axes);
        out->groups = 1 + (out->spread + (int)below(r, out->n_axes - 1)) % out->n_axes;
        out->shrinks[out->spread - 1] = out->shrinks[out->groups - 1] = false;
    }
    for (int i = 0; i < out->n_macros; i++) random_macro(a, r, l, out->n_axes, i, &m[i]);
    if (!l->plain && below(r, 2)) make_direct(a, r, out, m);
    if (!l->plain && below(r, 2)) out->lattice = random_lattice(a, r, out->n_axes);
    for (int i = 0; i < out->n_macros && out->lattice; i++)
        m[i].corrections = random_corrections(a, r, tw_lattice_count(out->lattice, out->n_axes));
    const bool fills = out->direct && below(r, 2);
    for (int i = 0; i < out->n_macros && fills; i++)
        if (below(r, 6)) m[i].fills = random_fills(a, r, below(r, 4) ? 0.3 : 1);
    out->macros = m;
    out->macro = (int)below(r, out->n_macros);
    out->micro = (int)below(r, m[out->macro].n_micros);
    random_exact(a, r, (int)below(r, l->exact + 1), out);
    return out;
}

void artefact_problem(const tw_artefact *a, tw_random *r, int64_t *problem) {
    for (int x = 0; x < a->n_axes; x++) {
        const int64_t bound = below(r, 8) ? (int64_t)1 << (1 + below(r, 13)) : TW_SELECT_MOST;
        problem[x] = 1 + below(r, bound);
    }
    /* So many that floats count their tiles exactly. */
    if (a->spread) {
        problem[a->spread - 1] = 1 + problem[a->spread - 1] % (1 << 20);
        problem[a->groups - 1] = 1 + problem[a->groups - 1] % 256;
    }
}

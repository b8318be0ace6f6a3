/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/diag.h"
#include "select/content.h"

#include <math.h>
#include <stdlib.h>

/* A file in the making. Failures of its buffer and its arena stick. */
typedef struct writer {
    const tw_artefact *a;
    tw_buf out;
    tw_arena arena;
    select_header h;
    uint16_t (*columns)[TW_ARTEFACT_MACROS]; /* [column][macro]: the numbers of the columns. */
    select_macro *macros;
    select_rule *rules;
    uint32_t *records;    /* Records of all macro choices. */
    uint32_t *first;      /* [macro]: number of the first record. */
    unsigned char **rows; /* [macro]: rows of anchors. */
    uint32_t **anchors;   /* [macro]: values of L that the rows' elements are for. */
    int8_t *lattice;      /* Corrections of the lattice, a row for each node. NULL: there is no lattice. */
    float *terms;         /* Rows of terms. NULL: the artefact is not direct. */
    select_fill *fills;   /* [macro]: corrections by fill (select/fill.h). NULL: the artefact has none. */
} writer;

/* Adds bytes at an aligned place. Returns the place. */
static uint32_t add(writer *w, const void *data, size_t size, size_t align) {
    static const char zeros[SELECT_LINE];
    tw_buf_add(&w->out, zeros, (align - w->out.size % align) % align);
    const size_t at = w->out.size;
    tw_buf_add(&w->out, data, size);
    return (uint32_t)at;
}

static uint32_t add_text(writer *w, const char *s) {
    return add(w, s, strlen(s) + 1, 1);
}

/* ---- columns */

static uint32_t rule_number(writer *w, const tw_artefact_macro *m) {
    const select_rule r = select_rule_of(w->a, m);
    uint32_t i = 0;
    while (i < w->h.rules && memcmp(&w->rules[i], &r, sizeof r)) i++;
    if (i == w->h.rules) w->rules[w->h.rules++] = r;
    return i;
}

static void fill_columns(writer *w) {
    for (int i = 0; i < w->a->n_macros; i++) {
        const tw_artefact_macro *m = &w->a->macros[i];
        w->columns[COLUMN_KIND][i] = (uint16_t)(rule_number(w, m) << SELECT_RULE | m->properties);
        w->columns[COLUMN_SLOTS][i] = (uint16_t)m->slots;
        w->columns[COLUMN_TIMES][i] = (uint16_t)select_or_one(m->times);
        w->columns[COLUMN_FITS][i] = (uint16_t)m->n_fits;
        for (int x = 0; x < w->a->n_axes; x++) {
            w->columns[COLUMN_GRID + x][i] = (uint16_t)m->grid[x];
            w->columns[COLUMN_ROUNDS + x][i] = (uint16_t)m->rounds[x];
        }
    }
}

static void add_columns(writer *w) {
    const size_t n = (size_t)w->a->n_macros;
    w->h.hot_at = add(w, NULL, 0, SELECT_LINE);
    for (int c = 0; c < COLUMNS; c++) {
        const uint16_t *column = w->columns[c];
        size_t same = 1;
        while (same < n && column[same] == column[0]) same++;
        const bool bound = c >= COLUMN_BOUND && c <= COLUMN_RATIO, fill = c == COLUMN_LOW || c == COLUMN_HIGH;
        if (same == n && !(bound && !w->terms) && !(fill && w->fills))
            w->h.columns[c].same = column[0];
        else
            w->h.columns[c].at = add(w, column, n * sizeof *column, SELECT_LINE);
    }
    if (w->h.columns[COLUMN_FITS].at) w->h.first_at = add(w, w->first, n * sizeof *w->first, SELECT_LINE);
    if (w->terms) w->h.terms_at = add(w, w->terms, SELECT_TERMS * w->h.terms_pitch * sizeof *w->terms, SELECT_LINE);
    w->h.hot_end = add(w, NULL, 0, SELECT_LINE);
}

/* ---- corrections */

/* Returns the step, as bf16, of which n corrections are multiples and the largest at most 127. 0: all are 0. */
static uint16_t step_of(const double *r, int n) {
    double most = 0;
    for (int k = 0; r && k < n; k++) most = fmax(most, fabs(r[k]));
    return most > 0 ? (uint16_t)((tw_f32_bits((float)(most / 127)) + 0xffff) >> 16) : 0;
}

/* Stores the corrections of a macro choice as multiples of a step. */
static void fill_corrections(writer *w, int i, int nodes) {
    const double *r = w->a->macros[i].corrections;
    const uint16_t step = step_of(r, nodes);
    if (!step) return;
    w->columns[COLUMN_STEP][i] = step;
    for (int k = 0; k < nodes; k++)
        w->lattice[(size_t)k * w->h.lattice_pitch + (size_t)i] = (int8_t)lrint(r[k] / (double)tw_bf16_to_f32(step));
}

static tw_status fill_lattice(writer *w, tw_diag *diag) {
    if (!w->a->lattice) return TW_OK;
    const int nodes = tw_lattice_count(w->a->lattice, w->a->n_axes);
    w->h.lattice = *w->a->lattice;
    w->h.lattice_pitch = (w->h.macros + SELECT_LINE - 1) / SELECT_LINE * SELECT_LINE;
    w->lattice = tw_arena_array(&w->arena, (size_t)nodes, w->h.lattice_pitch);
    if (!w->lattice) return tw_fail_memory(diag);
    for (int i = 0; i < w->a->n_macros; i++) fill_corrections(w, i, nodes);
    return TW_OK;
}

/* Stores the corrections of a macro choice's fills, and what they are between. */
static void fill_cells(writer *w, int i) {
    const double *r = w->a->macros[i].fills;
    select_fill *f = &w->fills[i];
    f->step = step_of(r, TW_FILL_CELLS);
    for (int k = 0; f->step && k < TW_FILL_CELLS; k++)
        f->cell[k] = (int8_t)lrint(r[k] / (double)tw_bf16_to_f32(f->step));
    float low, high;
    select_fill_range(f, &low, &high);
    w->columns[COLUMN_LOW][i] = tw_f32_to_bf16(low - SELECT_FILL_ROOM * (fabsf(low) + 1));
    w->columns[COLUMN_HIGH][i] = tw_f32_to_bf16(high + SELECT_FILL_ROOM * (fabsf(high) + 1));
}

static tw_status fill_fills(writer *w, tw_diag *diag) {
    bool any = false;
    for (int i = 0; i < w->a->n_macros; i++) any = any || w->a->macros[i].fills;
    if (!any) return TW_OK;
    w->fills = tw_arena_array(&w->arena, (size_t)w->a->n_macros, sizeof *w->fills);
    if (!w->fills) return tw_fail_memory(diag);
    for (int i = 0; i < w->a->n_macros; i++) fill_cells(w, i);
    return TW_OK;
}

/* ---- anchors */

static int by_size(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Collects the values of L of all anchors of a macro choice. */
static tw_status find_anchors(writer *w, int i, tw_diag *diag) {
    const tw_artefact_macro *m = &w->a->macros[i];
    size_t all = 0, n = 0;
    for (int k = 0; k < m->n_fits; k++) all += (size_t)m->fits[k].n_anchors;
    uint32_t *l = tw_arena_array(&w->arena, all + 1, sizeof *l);
    if (!l) return tw_fail_memory(diag);
    for (int k = 0; k < m->n_fits; k++)
        for (int j = 0; j < m->fits[k].n_anchors; j++) l[n++] = (uint32_t)m->fits[k].anchors[j].rounds;
    qsort(l, n, sizeof *l, by_size);
    size_t left = 0;
    for (size_t k = 0; k < n; k++)
        if (!k || l[k] != l[k - 1]) l[left++] = l[k];
    if (left > TW_ARTEFACT_ANCHORS)
        return tw_fail(diag, TW_ERR_USAGE, "macro choice %d: its anchors have more than %d values of L", i,
                       TW_ARTEFACT_ANCHORS);
    w->anchors[i] = l;
    w->macros[i].anchor_count = (uint16_t)left;
    return TW_OK;
}

/* Returns the number of the row with a fit's anchors, and adds the row if it is new. */
static uint8_t row_number(writer *w, int i, const tw_artefact_fit *f) {
    select_macro *m = &w->macros[i];
    const size_t n = m->anchor_count;
    unsigned char *row = w->rows[i] + m->rows * n;
    int next = 0;
    for (size_t k = 0; k < n; k++) {
        const bool here = next < f->n_anchors && f->anchors[next].rounds == w->anchors[i][k];
        row[k] = here ? (unsigned char)f->anchors[next++].micro : SELECT_NO_ANCHOR;
    }
    for (size_t r = 0; r < m->rows; r++)
        if (!memcmp(w->rows[i] + r * n, row, n)) return (uint8_t)r;
    return (uint8_t)m->rows++;
}

/* ---- records */

/* Makes the records of all macro choices, of `words` words each. False: a narrow record is too far from its fit. */
static bool fill_records(writer *w, uint32_t words) {
    uint32_t *to = w->records;
    w->h.record_words = words;
    for (int i = 0; i < w->a->n_macros; i++) {
        const tw_artefact_macro *m = &w->a->macros[i];
        w->macros[i].rows = 0;
        for (int k = 0; k < m->n_fits; k++, to += words) {
            select_record r = select_record_make(m, k, m->fits[k].n_anchors ? row_number(w, i, &m->fits[k]) : 0);
            if (w->terms) memset(r.c, 0, sizeof r.c);
            if (words == SELECT_NARROW && !w->terms) {
                r = select_record_round(&r);
                if (!select_record_is_near(m, k, &r)) return false;
            }
            select_pack(to, words, &r);
        }
    }
    return true;
}

/* Fills in the terms of a direct artefact. A fit without anchors never predicts. */
static tw_status fill_terms(writer *w, tw_diag *diag) {
    if (!w->a->direct) return TW_OK;
    w->h.terms_pitch = (w->h.macros + 15) / 16 * 16;
    w->terms = tw_arena_array(&w->arena, SELECT_TERMS * (size_t)w->h.terms_pitch, sizeof *w->terms);
    if (!w->terms) return tw_fail_memory(diag);
    for (int i = 0; i < w->a->n_macros; i++) {
        const tw_artefact_macro *m = &w->a->macros[i];
        if (!m->n_fits || !m->fits->n_anchors) continue;
        const float *c = m->fits->c, slots = (float)m->slots;
        float terms[SELECT_TERMS] = {c[0] * slots, c[1] * slots, c[2], c[3], m->fits->waves[0], m->fits->waves[1]};
        for (int k = 0; k < TW_FILL_AXES; k++) {
            terms[SELECT_TAIL + k] = m->fits->tail[k];
            terms[SELECT_FLOW + k] = m->fits->flow[k];
            terms[SELECT_MEMORY + k] = w->a->tiled[k] ? m->fits->memory[k] : 0;
        }
        for (size_t k = 0; k < SELECT_TERMS; k++) w->terms[k * w->h.terms_pitch + (size_t)i] = terms[k];
    }
    return TW_OK;
}

static void fill_bounds(writer *w) {
    double least = (double)INFINITY, most = 0;
    for (int i = 0; i < w->a->n_macros; i++) {
        if (!w->macros[i].anchor_count) continue;
        least = fmin(least, w->anchors[i][0]);
        most = fmax(most, w->anchors[i][w->macros[i].anchor_count - 1]);
    }
    if (!(most > 0)) least = most = 1;
    w->h.least = (float)fmax(1, least / SELECT_BEYOND);
    w->h.most = (float)(most * SELECT_BEYOND);
    if (w->terms) return; /* Decisions compute the times themselves. */
    for (int i = 0; i < w->a->n_macros; i++) {
        const tw_artefact_macro *m = &w->a->macros[i];
        const select_fits f = {w->records + (size_t)w->first[i] * w->h.record_words,
                               w->h.record_words,
                               m->n_fits,
                               (double)m->slots,
                               (double)w->h.least,
                               (double)w->h.most};
        uint16_t bound[4];
        select_bound(&f, bound, &w->columns[COLUMN_RATIO][i]);
        for (int k = 0; k < 4; k++) w->columns[COLUMN_BOUND + k][i] = bound[k];
    }
}

static void add_samples(writer *w) {
    w->h.samples_at = add(w, NULL, 0, 4);
    for (int i = 0; i < w->a->n_macros; i++)
        for (int k = 0; k < w->a->macros[i].n_fits; k++) {
            const int64_t samples = w->a->macros[i].fits[k].samples;
            const uint16_t some = samples < UINT16_MAX ? (uint16_t)samples : UINT16_MAX;
            tw_buf_add(&w->out, &some, sizeof some);
        }
}

/* ---- macro choices */

static tw_status add_configs(writer *w, int i, tw_diag *diag) {
    const tw_artefact_macro *m = &w->a->macros[i];
    size_t longest = 0;
    for (int k = 0; k < m->n_micros; k++) {
        const size_t n = strlen(m->micros[k]);
        if (n > longest) longest = n;
    }
    const size_t pitch = strlen(m->config) + longest + 2;
    char *config = tw_arena_alloc(&w->arena, pitch);
    if (!config) return tw_fail_memory(diag);
    w->macros[i].pitch = (uint16_t)pitch;
    w->macros[i].micros = (uint8_t)m->n_micros;
    w->macros[i].config = add(w, NULL, 0, 1);
    for (int k = 0; k < m->n_micros; k++) {
        memset(config, 0, pitch);
        strcpy(config, m->config);
        if (*config && *m->micros[k]) strcat(config, " ");
        strcat(config, m->micros[k]);
        tw_buf_add(&w->out, config, pitch);
    }
    return TW_OK;
}

static void add_anchors(writer *w) {
    for (int i = 0; i < w->a->n_macros; i++) {
        select_macro *m = &w->macros[i];
        m->anchors = add(w, w->anchors[i], m->anchor_count * sizeof **w->anchors, 4);
        tw_buf_add(&w->out, w->rows[i], (size_t)m->rows * m->anchor_count);
    }
}

/* ---- exact problems */

/* Puts n problems into `size` buckets. False: a problem would need more than SELECT_PROBES probes. */
static bool fill_buckets(const select_exact *e, uint32_t n, uint32_t *buckets, uint32_t size) {
    memset(buckets, 0, size * sizeof *buckets);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t hash = select_hash(e[i].problem);
        uint32_t probe = 0, at = 0;
        for (; probe < SELECT_PROBES; probe++) {
            at = ((uint32_t)(hash >> 20) + probe) & (size - 1);
            if (!buckets[at]) break;
        }
        if (probe == SELECT_PROBES) return false;
        buckets[at] = (uint32_t)(hash >> 52) * SELECT_INDEX | (i + 1);
    }
    return true;
}

static int by_problem(const void *a, const void *b) {
    return memcmp(((const select_exact *)a)->problem, ((const select_exact *)b)->problem,
                  sizeof((select_exact *)0)->problem);
}

static tw_status add_exact(writer *w, tw_diag *diag) {
    const uint32_t n = (uint32_t)w->a->n_exact;
    if (!n) {
        w->h.exact_at = w->h.buckets_at = add(w, NULL, 0, 4);
        return TW_OK;
    }
    select_exact *e = tw_arena_array(&w->arena, n, sizeof *e);
    if (!e) return tw_fail_memory(diag);
    for (uint32_t i = 0; i < n; i++) {
        const tw_artefact_exact *from = &w->a->exact[i];
        const bool second = from->second_macro >= 0;
        e[i] = (select_exact){.time = (float)from->time,
                              .second_time = (float)(second ? from->second_time : from->time),
                              .macro = (uint16_t)from->macro,
                              .second_macro = (uint16_t)(second ? from->second_macro : from->macro),
                              .micro = (uint8_t)from->micro,
                              .second_micro = (uint8_t)(second ? from->second_micro : from->micro)};
        for (int x = 0; x < w->a->n_axes; x++) e[i].problem[x] = (uint32_t)from->problem[x];
    }
    qsort(e, n, sizeof *e, by_problem);
    for (uint32_t i = 1; i < n; i++)
        if (!by_problem(&e[i], &e[i - 1])) return tw_fail(diag, TW_ERR_USAGE, "an exact problem is there twice");
    w->h.exact = n;
    w->h.exact_at = add(w, e, n * sizeof *e, SELECT_LINE);
    for (uint32_t size = SELECT_PROBES; size; size *= 2) {
        if (size < 2 * n) continue;
        uint32_t *buckets = tw_arena_array(&w->arena, size, sizeof *buckets);
        if (!buckets) break;
        if (!fill_buckets(e, n, buckets, size)) continue;
        w->h.buckets = size;
        w->h.buckets_at = add(w, buckets, size * sizeof *buckets, SELECT_LINE);
        return TW_OK;
    }
    return tw_fail_memory(diag);
}

/* ---- the file */

static void add_texts(writer *w) {
    const tw_artefact *a = w->a;
    const char *const texts[TEXTS] = {[TEXT_KERNEL] = a->kernel,
                                      [TEXT_UNIT] = a->unit,
                                      [TEXT_DEVICE] = a->device,
                                      [TEXT_ALIKE] = a->alike,
                                      [TEXT_ARCHITECTURE] = a->architecture,
                                      [TEXT_ABOUT] = a->about};
    for (int i = 0; i < TEXTS; i++) w->h.texts[i] = add_text(w, texts[i]);
    for (int x = 0; x < a->n_axes; x++) w->h.names[x] = add_text(w, a->axes[x]);
}

static bool allocate(writer *w) {
    const size_t n = (size_t)w->a->n_macros;
    size_t records = 0;
    tw_arena *arena = &w->arena;
    w->columns = tw_arena_array(arena, COLUMNS, sizeof *w->columns);
    w->macros = tw_arena_array(arena, n, sizeof *w->macros);
    w->rules = tw_arena_array(arena, n, sizeof *w->rules);
    w->first = tw_arena_array(arena, n, sizeof *w->first);
    w->rows = tw_arena_array(arena, n, sizeof *w->rows);
    w->anchors = tw_arena_array(arena, n, sizeof *w->anchors);
    for (size_t i = 0; w->first && i < n; i++) {
        w->first[i] = (uint32_t)records;
        records += (size_t)w->a->macros[i].n_fits;
    }
    w->h.records = (uint32_t)records;
    w->records = tw_arena_array(arena, records + 1, SELECT_WIDE * sizeof *w->records);
    return !arena->failed;
}

static tw_status fill(writer *w, tw_diag *diag) {
    if (!allocate(w)) return tw_fail_memory(diag);
    for (int i = 0; i < w->a->n_macros; i++) {
        const tw_status st = find_anchors(w, i, diag);
        if (st != TW_OK) return st;
        w->rows[i] = tw_arena_array(&w->arena, (size_t)w->a->macros[i].n_fits + 1, w->macros[i].anchor_count + 1u);
        if (!w->rows[i]) return tw_fail_memory(diag);
    }
    tw_status st = fill_terms(w, diag);
    if (st != TW_OK) return st;
    if (!fill_records(w, SELECT_NARROW)) fill_records(w, SELECT_WIDE);
    fill_columns(w);
    fill_bounds(w);
    st = fill_fills(w, diag);
    return st == TW_OK ? fill_lattice(w, diag) : st;
}

/* Adds all parts, in the order in which a decision needs them. */
static tw_status put(writer *w, tw_diag *diag) {
    select_header *h = &w->h;
    add(w, h, sizeof *h, 1);
    add_columns(w);
    if (w->fills) h->fills_at = add(w, w->fills, (size_t)h->macros * sizeof *w->fills, SELECT_LINE);
    h->rules_at = add(w, w->rules, h->rules * sizeof *w->rules, SELECT_LINE);
    h->records_at = add(w, w->records, (size_t)h->records * h->record_words * sizeof *w->records, SELECT_LINE);
    if (w->lattice) {
        const size_t nodes = (size_t)tw_lattice_count(&h->lattice, w->a->n_axes);
        h->lattice_at = add(w, w->lattice, nodes * h->lattice_pitch, SELECT_LINE);
    }
    h->macros_at = add(w, w->macros, (size_t)h->macros * sizeof *w->macros, SELECT_LINE);
    add_anchors(w);
    tw_status st = add_exact(w, diag);
    for (int i = 0; st == TW_OK && i < w->a->n_macros; i++) st = add_configs(w, i, diag);
    if (st != TW_OK) return st;
    add_samples(w);
    add_texts(w);
    h->size = w->out.size;
    if (w->out.failed) return tw_fail_memory(diag);
    if (h->size > UINT32_MAX) return tw_fail(diag, TW_ERR_USAGE, "the artefact is larger than 4 GB");
    memcpy(w->out.data + h->macros_at, w->macros, (size_t)h->macros * sizeof *w->macros);
    memcpy(w->out.data, h, sizeof *h);
    select_checksum((unsigned char *)w->out.data, w->out.size, h->checksum);
    memcpy(w->out.data, h, sizeof *h);
    return TW_OK;
}

tw_status tw_artefact_write(const tw_artefact *a, const char *path, tw_diag *diag) {
    tw_status st = select_check_content(a, diag);
    if (st != TW_OK) return st;
    writer w = {.a = a,
                .h = {.magic = SELECT_MAGIC,
                      .order = SELECT_ORDER,
                      .version = SELECT_VERSION,
                      .axes = (uint32_t)a->n_axes,
                      .macros = (uint32_t)a->n_macros,
                      .macro = (uint32_t)a->macro,
                      .micro = (uint32_t)a->micro}};
    for (int k = 0; k < TW_FILL_AXES; k++) w.h.tiled[k] = (uint32_t)a->tiled[k];
    for (int x = 0; x < a->n_axes; x++) w.h.shrinks = (uint16_t)(w.h.shrinks | a->shrinks[x] << x);
    w.h.spread = (uint8_t)a->spread;
    w.h.groups = (uint8_t)a->groups;
    st = fill(&w, diag);
    if (st == TW_OK) st = put(&w, diag);
    if (st == TW_OK) st = tw_file_write(path, w.out.data, w.out.size, diag);
    tw_buf_free(&w.out);
    tw_arena_free(&w.arena);
    return st;
}

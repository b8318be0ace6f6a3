/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a file before its use. A file that passes, even a malicious one, is read within its bounds, and in a
   time that its size limits: parts that are read one after another do not overlap. */
#include "base/diag.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "select/selector.h"

#include <math.h>
#include <string.h>

typedef struct file {
    const unsigned char *data;
    size_t size;
    const select_header *h;
    select_view v;
    const char *path;
    tw_diag *diag;
} file;

static tw_status bad(const file *f, const void *where, const char *what) {
    const unsigned char *p = where;
    return tw_fail_at(f->diag, TW_ERR_FORMAT, f->path, p ? (int64_t)(p - f->data) : -1, "damaged artefact: %s", what);
}

/* ---- texts */

bool select_is_text(const void *text, size_t room) {
    const char *first = text, *end = memchr(first, 0, room);
    return end && tw_utf8_check(first, (size_t)(end - first)) == (size_t)(end - first);
}

/* ---- places */

/* Tells whether `bytes` bytes at `at` are aligned, behind the header and within the file. */
static bool holds(const file *f, uint32_t at, uint64_t bytes, uint32_t align) {
    return at >= sizeof *f->h && at % align == 0 && at <= f->size && bytes <= f->size - at;
}

static tw_status check_frame(const file *f) {
    const select_header *h = f->h;
    if (f->size < sizeof h->magic || memcmp(f->data, SELECT_MAGIC, sizeof h->magic))
        return tw_fail_at(f->diag, TW_ERR_FORMAT, f->path, -1, "no artefact of a tuner");
    if (f->size < sizeof *h) return bad(f, NULL, "it is cut");
    if (h->order == __builtin_bswap32(SELECT_ORDER))
        return tw_fail_at(f->diag, TW_ERR_UNSUPPORTED, f->path, -1, "an artefact for machines of the other byte order");
    if (h->order != SELECT_ORDER) return bad(f, &h->order, "no byte order");
    if (h->version > SELECT_VERSION)
        return tw_fail_at(f->diag, TW_ERR_UNSUPPORTED, f->path, -1, "an artefact of version %u; this is for %d",
                          (unsigned)h->version, SELECT_VERSION);
    if (h->version != SELECT_VERSION) return bad(f, &h->version, "no version");
    if (h->size != f->size) return bad(f, &h->size, "its size is another");
    if (f->size > UINT32_MAX) return bad(f, &h->size, "it is too large");
    uint64_t sum[2];
    select_checksum(f->data, f->size, sum);
    return memcmp(sum, h->checksum, sizeof sum) ? bad(f, &h->checksum, "its checksum is another") : TW_OK;
}

void select_checksum(const unsigned char *data, size_t size, uint64_t sum[2]) {
    const size_t at = offsetof(select_header, checksum), end = at + sizeof((select_header *)0)->checksum;
    const unsigned char zeros[sizeof((select_header *)0)->checksum] = {0};
    tw_hash hash = tw_hash_begin();
    tw_hash_add(&hash, data, at);
    tw_hash_add(&hash, zeros, sizeof zeros);
    tw_hash_add(&hash, data + end, size - end);
    tw_hash_end(&hash, sum);
}

bool select_is_lattice(const tw_lattice *l, int axes) {
    int all = 1, wide = 0;
    for (int a = 0; a < TW_SELECT_AXES; a++) {
        const int most = a < axes ? TW_LATTICE_NODES : 1;
        if (l->nodes[a] < 1 || l->nodes[a] > most) return false;
        if (!isfinite(l->low[a]) || !isfinite(l->high[a]) || (l->nodes[a] > 1 && !(l->low[a] < l->high[a])))
            return false;
        all *= l->nodes[a];
        wide += l->nodes[a] > 1;
        if (all > TW_LATTICE_ALL || wide > TW_LATTICE_AXES) return false;
    }
    return true;
}

static tw_status check_lattice(const file *f) {
    const select_header *h = f->h;
    const tw_lattice *l = &h->lattice;
    static const tw_lattice none;
    if (!h->lattice_at)
        return h->lattice_pitch || memcmp(l, &none, sizeof none) ? bad(f, &h->lattice_at, "lattice") : TW_OK;
    if (!select_is_lattice(l, (int)h->axes)) return bad(f, l, "lattice");
    if (h->lattice_pitch < h->macros || h->lattice_pitch % SELECT_LINE ||
        !holds(f, h->lattice_at, (uint64_t)tw_lattice_count(l, (int)h->axes) * h->lattice_pitch, SELECT_LINE))
        return bad(f, &h->lattice_at, "place");
    return TW_OK;
}

static tw_status check_places(const file *f) {
    const select_header *h = f->h;
    if (h->axes < 1 || h->axes > TW_SELECT_AXES) return bad(f, &h->axes, "number of axes");
    if (h->macros < 1 || h->macros > TW_ARTEFACT_MACROS) return bad(f, &h->macros, "number of macro choices");
    if (h->record_words != SELECT_NARROW && h->record_words != SELECT_WIDE) return bad(f, &h->record_words, "records");
    if (h->rules < 1 || h->rules > SELECT_RULES) return bad(f, &h->rules, "number of rules");
    if (h->exact >= SELECT_INDEX - 1) return bad(f, &h->exact, "number of exact problems");
    const bool power = h->buckets && !(h->buckets & (h->buckets - 1));
    if (h->exact ? !power || h->buckets / 2 < h->exact || h->buckets < SELECT_PROBES : h->buckets != 0)
        return bad(f, &h->buckets, "number of buckets");
    if (!holds(f, h->records_at, UINT64_C(4) * h->records * h->record_words, 4)) return bad(f, &h->records_at, "place");
    if (!holds(f, h->macros_at, h->macros * sizeof(select_macro), 4)) return bad(f, &h->macros_at, "place");
    if (!holds(f, h->rules_at, h->rules * sizeof(select_rule), 4)) return bad(f, &h->rules_at, "place");
    if (!holds(f, h->samples_at, UINT64_C(2) * h->records, 2)) return bad(f, &h->samples_at, "place");
    if (!holds(f, h->exact_at, h->exact * sizeof(select_exact), 4)) return bad(f, &h->exact_at, "place");
    if (!holds(f, h->buckets_at, UINT64_C(4) * h->buckets, 4)) return bad(f, &h->buckets_at, "place");
    if (h->first_at && !holds(f, h->first_at, UINT64_C(4) * h->macros, 4)) return bad(f, &h->first_at, "place");
    if (h->hot_end < h->hot_at || !holds(f, h->hot_at, h->hot_end - h->hot_at, SELECT_LINE))
        return bad(f, &h->hot_at, "place");
    for (int i = 0; i < COLUMNS; i++) {
        const select_column *c = &h->columns[i];
        if (i >= COLUMN_BOUND && i <= COLUMN_RATIO && !c->at && !h->terms_at) return bad(f, c, "column");
        if (c->at ? c->same || !holds(f, c->at, UINT64_C(2) * h->macros, 2) : c->same > UINT16_MAX)
            return bad(f, c, "column");
    }
    if (h->shrinks >> h->axes) return bad(f, &h->shrinks, "axes");
    if (h->spread > h->axes || h->groups > h->axes || !h->spread != !h->groups ||
        (h->spread && (h->spread == h->groups || h->shrinks >> (h->spread - 1) & 1)))
        return bad(f, &h->spread, "spread axis");
    if (h->terms_at ? h->terms_pitch < h->macros || h->terms_pitch > TW_ARTEFACT_MACROS ||
                          !holds(f, h->terms_at, UINT64_C(4) * SELECT_TERMS * h->terms_pitch, SELECT_LINE)
                    : h->terms_pitch != 0)
        return bad(f, &h->terms_at, "place");
    if (h->fills_at && (!h->terms_at || !holds(f, h->fills_at, h->macros * sizeof(select_fill), SELECT_LINE)))
        return bad(f, &h->fills_at, "place");
    for (int k = 0; k < TW_FILL_AXES; k++)
        if (h->tiled[k] > h->axes) return bad(f, &h->tiled[k], "axis");
    for (int i = COLUMN_LOW; i <= COLUMN_HIGH; i++)
        if (h->fills_at && !h->columns[i].at) return bad(f, &h->columns[i], "column");
    return check_lattice(f);
}

static tw_status check_texts(const file *f) {
    const select_header *h = f->h;
    for (int i = 0; i < TEXTS; i++)
        if (!holds(f, h->texts[i], 1, 1) || !select_is_text(f->data + h->texts[i], f->size - h->texts[i]))
            return bad(f, &h->texts[i], "text");
    for (uint32_t a = 0; a < TW_SELECT_AXES; a++) {
        const uint32_t at = h->names[a];
        if (a < h->axes ? !holds(f, at, 1, 1) || !select_is_text(f->data + at, f->size - at) : at != 0)
            return bad(f, &h->names[a], "name of an axis");
    }
    return TW_OK;
}

/* ---- numbers */

/* Checks the columns, and that records follow one another without gaps. */
static tw_status check_columns(const file *f) {
    const select_header *h = f->h;
    const select_list *c = f->v.columns;
    uint32_t records = 0;
    if (!(h->least > 0) || !(h->most >= h->least) || isinf(h->most)) return bad(f, &h->least, "values of L");
    for (int i = 0; i < (int)h->macros; i++) {
        const uint32_t fits = select_item(&c[COLUMN_FITS], i);
        if (select_item(&c[COLUMN_KIND], i) >> SELECT_RULE >= h->rules) return bad(f, &h->columns[COLUMN_KIND], "rule");
        if (!select_item(&c[COLUMN_SLOTS], i)) return bad(f, &h->columns[COLUMN_SLOTS], "no slots");
        if (!select_item(&c[COLUMN_TIMES], i)) return bad(f, &h->columns[COLUMN_TIMES], "no blocks");
        if (fits > TW_ARTEFACT_FITS) return bad(f, &h->columns[COLUMN_FITS], "number of fits");
        if (f->v.first ? f->v.first[i] != records : c[COLUMN_FITS].each != NULL)
            return bad(f, &h->first_at, "first records");
        records += fits;
    }
    return records == h->records ? TW_OK : bad(f, &h->records, "number of records");
}

static tw_status check_macro(const file *f, int i, uint32_t *configs, uint32_t *anchors) {
    const select_macro *m = &f->v.tails[i];
    const uint64_t row_bytes = (uint64_t)m->rows * m->anchor_count, head = m->anchor_count * UINT64_C(4);
    if (!m->micros || !m->pitch || m->zero || m->rows > TW_ARTEFACT_FITS || !m->anchor_count != !m->rows)
        return bad(f, m, "macro choice");
    if (m->config < *configs || !holds(f, m->config, (uint64_t)m->micros * m->pitch, 1))
        return bad(f, m, "configurations");
    *configs = m->config + (uint32_t)m->micros * m->pitch;
    for (int k = 0; k < m->micros; k++)
        if (!select_is_text(select_config(&f->v, i, k), m->pitch)) return bad(f, select_config(&f->v, i, k), "text");
    if (m->anchors < *anchors || !holds(f, m->anchors, head + row_bytes, 4)) return bad(f, m, "anchors");
    *anchors = m->anchors + (uint32_t)(head + row_bytes);
    const uint32_t *rounds = (const void *)(f->data + m->anchors);
    for (int k = 0; k < m->anchor_count; k++)
        if (!rounds[k] || (k && rounds[k] <= rounds[k - 1])) return bad(f, &rounds[k], "anchor");
    const unsigned char *row = f->data + m->anchors + head;
    for (int r = 0; r < m->rows; r++) {
        int count = 0;
        for (int k = 0; k < m->anchor_count; k++, row++) {
            if (*row >= m->micros && *row != SELECT_NO_ANCHOR) return bad(f, row, "micro choice");
            count += *row != SELECT_NO_ANCHOR;
        }
        if (!count) return bad(f, row - m->anchor_count, "row without anchors");
    }
    return TW_OK;
}

static tw_status check_records(const file *f, int macro, const uint32_t *w) {
    const uint32_t words = f->v.record_words;
    for (uint32_t i = 0; i < select_item(&f->v.columns[COLUMN_FITS], macro); i++, w += words) {
        const select_record r = select_unpack(w, words);
        bool zero = true;
        for (int k = 0; k < 4; k++) {
            if (!isfinite(r.c[k])) return bad(f, w, "coefficient");
            zero = zero && r.c[k] == 0;
        }
        if (words == SELECT_WIDE && w[4] >> 16) return bad(f, &w[4], "not zero");
        /* A prediction of 0 is never taken, and needs no anchors. */
        if (r.row >= f->v.tails[macro].rows && (r.row || !zero)) return bad(f, w, "row of anchors");
    }
    return TW_OK;
}

/* Checks that bounds hold. If they did not, decisions could miss the least prediction. A direct artefact has none. */
static tw_status check_bound(const file *f, int macro, const uint32_t *records) {
    const select_list *c = &f->v.columns[COLUMN_BOUND];
    double bound[4], low = 0, high = 0;
    bool none = true;
    if (f->v.terms) return TW_OK;
    for (int i = 0; i < 4; i++) {
        bound[i] = (double)tw_bf16_to_f32((uint16_t)select_item(&c[i], macro));
        none = none && bound[i] == 0;
    }
    const double ratio = (double)tw_bf16_to_f32((uint16_t)select_item(&c[4], macro));
    const select_fits fits = {records,
                              f->v.record_words,
                              (int)select_item(&f->v.columns[COLUMN_FITS], macro),
                              select_item(&f->v.columns[COLUMN_SLOTS], macro),
                              (double)f->h->least,
                              (double)f->h->most};
    if (none && isinf(ratio) && ratio > 0) return TW_OK;
    const double margin = (1 + SELECT_MARGIN) / 2;
    return select_ratios(&fits, bound, &low, &high) && low >= margin && high * margin <= ratio
               ? TW_OK
               : bad(f, &f->h->columns[COLUMN_BOUND], "bound");
}

/* Checks that corrections leave times above 0, and within what bounds can be multiplied by. */
static tw_status check_corrections(const file *f, int macro) {
    const float step = tw_bf16_to_f32((uint16_t)select_item(&f->v.columns[COLUMN_STEP], macro));
    int least = 0;
    if (!(step >= 0 && step <= SELECT_STEP_MOST) || (step > 0 && !f->v.lattice))
        return bad(f, &f->h->columns[COLUMN_STEP], "step of corrections");
    if (!f->v.lattice) return TW_OK;
    const int8_t *row = f->v.lattice + macro;
    for (int k = tw_lattice_count(&f->v.nodes, f->v.axes); k > 0; k--, row += k ? f->v.lattice_pitch : 0)
        if (*row < least) least = *row;
    return step * (float)-least <= SELECT_CORRECTION ? TW_OK : bad(f, &f->h->lattice_at, "correction");
}

/* Checks that corrections of fills are between the numbers that columns have for them. */
static tw_status check_fill(const file *f, int macro) {
    if (!f->v.fills) return TW_OK;
    const select_fill *x = &f->v.fills[macro];
    const float low = tw_bf16_to_f32(f->v.columns[COLUMN_LOW].each[macro]),
                high = tw_bf16_to_f32(f->v.columns[COLUMN_HIGH].each[macro]);
    float least, most;
    if (!(tw_bf16_to_f32(x->step) >= 0)) return bad(f, x, "step of corrections");
    select_fill_range(x, &least, &most);
    if (!(low >= -SELECT_FILL_MOST * 2) || !(high <= SELECT_FILL_MOST * 2) || !(least >= -SELECT_FILL_MOST) ||
        !(most <= SELECT_FILL_MOST))
        return bad(f, x, "correction of a fill");
    for (size_t k = 0; k < sizeof x->zero / sizeof *x->zero; k++)
        if (x->zero[k]) return bad(f, x, "not zero");
    /* Half of the writer's room is asked for. */
    const float room = SELECT_FILL_ROOM / 2;
    return low <= least - room && high >= most + room ? TW_OK
                                                      : bad(f, &f->h->columns[COLUMN_LOW], "bound of corrections");
}

/* Checks the terms of a direct artefact. Sums of them are finite and not below 0, and those that are above 0 have a fit
   with anchors. */
static tw_status check_terms(const file *f, int macro) {
    bool zero = true;
    if (!f->v.terms) return TW_OK;
    const uint32_t fits = select_item(&f->v.columns[COLUMN_FITS], macro);
    for (size_t k = 0; k < SELECT_TERMS; k++) {
        const float *c = &f->v.terms[k * f->v.terms_pitch + (size_t)macro];
        if (!(*c >= 0 && *c <= SELECT_TERM_MOST)) return bad(f, c, "term");
        zero = zero && *c == 0;
    }
    if (fits > 1) return bad(f, &f->h->columns[COLUMN_FITS], "number of fits");
    return zero || (fits && f->v.tails[macro].rows) ? TW_OK : bad(f, &f->v.terms[macro], "term without anchors");
}

static tw_status check_macros(const file *f) {
    const uint32_t *w = f->v.records;
    uint32_t configs = 0, anchors = 0;
    for (int i = 0; i < f->v.macros; i++) {
        tw_status st = check_macro(f, i, &configs, &anchors);
        if (st == TW_OK) st = check_records(f, i, w);
        if (st == TW_OK) st = check_bound(f, i, w);
        if (st == TW_OK) st = check_corrections(f, i);
        if (st == TW_OK) st = check_terms(f, i);
        if (st == TW_OK) st = check_fill(f, i);
        if (st != TW_OK) return st;
        w += select_item(&f->v.columns[COLUMN_FITS], i) * f->v.record_words;
    }
    return TW_OK;
}

static tw_status check_rules(const file *f) {
    for (int i = 0; i < f->v.n_rules; i++)
        for (int a = 0; a < f->v.axes; a++) {
            const select_rule *r = &f->v.rules[i];
            if (!r->multiple[a] || !r->least[a] || r->least[a] > r->most[a] || r->most[a] > TW_SELECT_MOST ||
                !r->tile[a] || !r->parts[a])
                return bad(f, r, "rule");
        }
    return TW_OK;
}

/* ---- exact problems */

static bool is_choice(const file *f, uint32_t macro, uint32_t micro) {
    return macro < f->h->macros && micro < f->v.tails[macro].micros;
}

static tw_status check_exact(const file *f) {
    for (uint32_t i = 0; i < f->h->buckets; i++)
        if (f->v.buckets[i] % SELECT_INDEX > f->h->exact || (f->v.buckets[i] && !(f->v.buckets[i] % SELECT_INDEX)))
            return bad(f, &f->v.buckets[i], "bucket");
    for (uint32_t i = 0; i < f->h->exact; i++) {
        const select_exact *e = &f->v.exact[i];
        int64_t problem[TW_SELECT_AXES];
        select_problem p;
        for (int a = 0; a < TW_SELECT_AXES; a++) {
            problem[a] = e->problem[a];
            if (a >= f->v.axes && e->problem[a]) return bad(f, e, "problem");
        }
        if (!select_problem_of(&f->v, problem, 0, &p)) return bad(f, e, "problem");
        if (!is_choice(f, e->macro, e->micro) || !is_choice(f, e->second_macro, e->second_micro) || e->zero)
            return bad(f, e, "choice");
        if (!(e->time > 0) || !(e->second_time >= e->time) || isinf(e->second_time)) return bad(f, e, "time");
        if (!select_allows(&f->v, &p, e->macro) || !select_allows(&f->v, &p, e->second_macro))
            return bad(f, e, "a choice that cannot compute its problem");
        if (select_find(&f->v, e->problem) != e) return bad(f, e, "problem that is not found");
    }
    return TW_OK;
}

tw_status select_verify(const unsigned char *data, size_t size, const char *path, tw_diag *diag) {
    file f = {.data = data, .size = size, .h = (const void *)data, .path = path, .diag = diag};
    tw_status st = check_frame(&f);
    if (st == TW_OK) st = check_places(&f);
    if (st != TW_OK) return st;
    select_view_of(&f.v, data);
    st = check_texts(&f);
    if (st == TW_OK) st = check_columns(&f);
    if (st == TW_OK) st = check_macros(&f);
    if (st == TW_OK) st = check_rules(&f);
    if (st == TW_OK && !is_choice(&f, f.h->macro, f.h->micro)) st = bad(&f, &f.h->macro, "default");
    if (st == TW_OK) st = check_exact(&f);
    return st;
}

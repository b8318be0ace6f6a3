/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/grow.h"
#include "prof/records.h"

#include <stdlib.h>
#include <string.h>

void tw_prof_records_clear(tw_prof_block_records *r) {
    r->n_units = r->n_records = r->n_links = 0;
}

void tw_prof_records_free(tw_prof_block_records *r) {
    free(r->units);
    free(r->records);
    free(r->links);
    *r = (tw_prof_block_records){0};
}

enum { MOST_SMS = 4096 /* More multiprocessors than any GPU has. */ };

typedef struct reader {
    tw_prof_block_records *r;
    const unsigned char *segment;
    int unit;
    bool failed; /* Memory ran out. */
} reader;

static uint32_t word_at(const reader *d, int64_t offset) {
    uint32_t x;
    memcpy(&x, d->segment + offset, sizeof x);
    return x;
}

static uint64_t header_word(const reader *d, int word) {
    uint64_t x;
    memcpy(&x, d->segment + 8 * word, sizeof x);
    return x;
}

static void add(reader *d, int site, int64_t iteration, int64_t clock, int32_t value) {
    tw_prof_block_records *r = d->r;
    tw_prof_record *grown = tw_grow(r->records, r->n_records, &r->room_records, 256, sizeof *r->records);
    d->failed |= !grown;
    if (!grown) return;
    r->records = grown;
    r->records[r->n_records++] = (tw_prof_record){.clock = clock,
                                                  .iteration = iteration,
                                                  .unit = d->unit,
                                                  .site = site,
                                                  .value = value,
                                                  .other = -1,
                                                  .cause = -1};
}

/* Adds what a site left in a kernel whose records are %smid + 1, so that 0 is none. False: this kernel's are times. */
static bool add_smid(reader *d, int site, int64_t iteration, uint32_t word) {
    if (d->r->layout->metric != TW_PROF_SMID) return false;
    if (word) add(d, site, iteration, d->r->units[d->unit].begin_clock, (int32_t)(word - 1));
    return true;
}

/* A clock of 32 bits that was not after `later`, as one of 64. */
static int64_t unwrap(int64_t later, uint32_t clock) {
    return later - (int64_t)(uint32_t)((uint32_t)(uint64_t)later - clock);
}

/* The clock of the frame's first word, which every iteration writes. */
static uint32_t first_of(const reader *d, const tw_prof_loop *p, int64_t frame) {
    (void)p;
    return word_at(d, frame);
}

/* Reads a frame backwards. `later` is the clock of the record after it. Returns that of its first one. A word of a
   conditional site is of this iteration if it lies between the frame's first record and the next one; else an
   earlier iteration wrote it, or none. */
static int64_t read_frame(reader *d, int loop, int64_t frame, int64_t iteration, int64_t later) {
    const tw_prof_layout *l = d->r->layout;
    const int64_t begin = unwrap(later, first_of(d, &l->loops[loop], frame));
    for (int i = l->n_sites - 1; i >= 0; i--) {
        const tw_prof_site *s = &l->sites[i];
        if (s->loop != loop) continue;
        const uint32_t word = word_at(d, frame + s->offset);
        const int64_t clock = unwrap(later, word);
        if (add_smid(d, i, iteration, word)) continue;
        if (s->conditional && (!word || clock < begin)) continue;
        add(d, i, iteration, clock, s->code == TW_OP_record_value ? (int32_t)word_at(d, frame + s->offset + 4) : 0);
        later = clock;
    }
    return begin;
}

static int sites_of(const tw_prof_layout *l, int loop) {
    int n = 0;
    for (int i = 0; i < l->n_sites; i++) n += l->sites[i].loop == loop;
    return n;
}

/* The first of n iterations that a ring still has. A ring in shared memory is always written out whole, also the last
   time, so that what stands there for iterations to come takes the place of the oldest. */
static int64_t first_kept(const tw_prof_layout *l, const tw_prof_loop *p, int64_t n) {
    const int64_t written = l->flush ? (n + p->kept - 1) / p->kept * p->kept : n;
    return written > p->frames ? written - p->frames : 0;
}

static bool read_loop(reader *d, int loop) {
    const tw_prof_loop *p = &d->r->layout->loops[loop];
    tw_prof_unit *u = &d->r->units[d->unit];
    const uint32_t count = word_at(d, p->count);
    if (count % (uint32_t)p->frame) return false;
    const int64_t n = count / (uint32_t)p->frame, first = first_kept(d->r->layout, p, n);
    int64_t later = u->end_clock;
    for (int64_t i = n - 1; i >= first; i--) later = read_frame(d, loop, p->ring + i % p->frames * p->frame, i, later);
    u->dropped += first * sites_of(d->r->layout, loop);
    return true;
}

static void read_statics(reader *d, int scope) {
    const tw_prof_layout *l = d->r->layout;
    const tw_prof_unit *u = &d->r->units[d->unit];
    for (int i = 0; i < l->n_sites; i++) {
        const tw_prof_site *s = &l->sites[i];
        if (s->scope != scope || s->loop >= 0) continue;
        const int at = l->scopes[scope].statics + s->offset;
        const uint32_t word = word_at(d, at);
        const int64_t clock = unwrap(u->end_clock, word);
        if (add_smid(d, i, 0, word)) continue;
        if (s->conditional && (!word || clock < u->begin_clock)) continue;
        add(d, i, 0, clock, s->code == TW_OP_record_value ? (int32_t)word_at(d, at + 4) : 0);
    }
}

static int by_clock(const void *a, const void *b) {
    const tw_prof_record *x = a, *y = b;
    if (x->clock != y->clock) return x->clock < y->clock ? -1 : 1;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return x->iteration < y->iteration ? -1 : x->iteration > y->iteration;
}

/* Joins begins with ends. A region begins and ends in one iteration. */
static bool pair(tw_prof_block_records *r, const tw_prof_unit *u) {
    int32_t *open = malloc(((size_t)r->layout->n_sites + 1) * sizeof *open);
    if (!open) return false;
    for (int i = 0; i < r->layout->n_sites; i++) open[i] = -1;
    for (int i = u->first; i < u->first + u->n; i++) {
        const tw_prof_site *s = tw_prof_site_of(r, i);
        if (s->code == TW_OP_record_begin) open[r->records[i].site] = i;
        if (s->code != TW_OP_record_end || s->pair < 0 || open[s->pair] < 0) continue;
        const int32_t begin = open[s->pair];
        if (r->records[begin].iteration != r->records[i].iteration) continue;
        r->records[begin].other = i;
        r->records[i].other = begin;
        open[s->pair] = -1;
    }
    free(open);
    return true;
}

static tw_status read_unit(reader *d, int scope, int number, tw_diag *diag) {
    tw_prof_block_records *r = d->r;
    const tw_prof_scope *s = &r->layout->scopes[scope];
    if (!header_word(d, TW_PROF_END_CLOCK)) return TW_OK;
    tw_prof_unit *grown = tw_grow(r->units, r->n_units, &r->room_units, 16, sizeof *r->units);
    if (!grown) return tw_fail_memory(diag);
    r->units = grown;
    d->unit = r->n_units++;
    tw_prof_unit *u = &r->units[d->unit];
    const bool timer = r->layout->metric == TW_PROF_GLOBALTIMER;
    *u = (tw_prof_unit){.scope = scope,
                        .warp = s->from + number * s->group,
                        .sm = (int)header_word(d, TW_PROF_SM),
                        .begin_clock = (int64_t)header_word(d, timer ? TW_PROF_BEGIN_TIME : TW_PROF_BEGIN_CLOCK),
                        .end_clock = (int64_t)header_word(d, timer ? TW_PROF_END_TIME : TW_PROF_END_CLOCK),
                        .begin_time = header_word(d, TW_PROF_BEGIN_TIME),
                        .end_time = header_word(d, TW_PROF_END_TIME),
                        .first = r->n_records};
    bool whole = 0 <= u->begin_clock && u->begin_clock <= u->end_clock && header_word(d, TW_PROF_SM) < MOST_SMS;
    if (whole) read_statics(d, scope);
    for (int i = 0; i < r->layout->n_loops && whole; i++)
        if (r->layout->loops[i].scope == scope && r->layout->loops[i].frame) whole = read_loop(d, i);
    if (!whole)
        return tw_fail(diag, TW_ERR_FORMAT,
                       "the records of warp %d are none of this kernel's: a count or a clock is wrong", u->warp);
    u->n = r->n_records - u->first;
    if (!d->failed && u->n) qsort(r->records + u->first, (size_t)u->n, sizeof *r->records, by_clock);
    return d->failed || !pair(r, u) ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_prof_read(tw_prof_block_records *r, const void *part, tw_diag *diag) {
    const tw_prof_layout *l = r->layout;
    tw_status st = TW_OK;
    for (int i = 0; i < l->n_scopes && st == TW_OK; i++) {
        const tw_prof_scope *s = &l->scopes[i];
        for (int j = 0; j < s->units && s->n_sites && st == TW_OK; j++) {
            reader d = {.r = r, .segment = (const unsigned char *)part + s->segment + (int64_t)j * s->bytes};
            st = read_unit(&d, i, j, diag);
        }
    }
    return st;
}

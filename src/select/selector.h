/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of a selector: an open artefact and a cache of answers. */
#ifndef TW_SELECT_SELECTOR_H
#define TW_SELECT_SELECTOR_H

#include "base/file.h"
#include "select/cache.h"
#include "select/format.h"

/* A column of the file. */
typedef struct select_list {
    const uint16_t *each; /* A number for each macro choice. NULL: all have the number `same`. */
    uint32_t same;
} select_list;

static inline uint32_t select_item(const select_list *l, int i) {
    return l->each ? l->each[i] : l->same;
}

typedef struct select_view select_view;
typedef struct select_scan select_scan;
typedef struct select_corners select_corners;
typedef void select_scan_fn(const select_view *v, const float *axes, const select_corners *c, int from, int n,
                            select_scan *s);

/* The parts of a mapped file. */
struct select_view {
    const unsigned char *data;
    const unsigned char *hot; /* Where the columns begin. */
    int hot_lines;            /* Cache lines of the columns, at most SELECT_HOT. */
    int axes, macros;
    uint32_t shrinks;   /* Bit a: blocks divide axis a equally. */
    int spread, groups; /* Indices of the spread axis and of the axis that counts the groups. -1: there is none. */
    float least, most;  /* The least and the largest L for which bounds hold. */
    select_list columns[COLUMNS];
    const int8_t *lattice; /* Rows of corrections. NULL: there are none. */
    uint32_t lattice_pitch;
    tw_lattice nodes;   /* A copy, so that decisions need no line of the header. */
    const float *terms; /* Rows of terms. NULL: the artefact is not direct. */
    size_t terms_pitch;
    const select_fill *fills; /* [macro]: corrections by fill (select/fill.h). NULL: the artefact has none. */
    /* Index of each tiled axis, whose tiles have terms. -1: there is none. */
    int tiled[TW_FILL_AXES];
    const uint32_t *first; /* [macro]: number of the first record. NULL: all macro choices have as many fits. */
    const uint32_t *records;
    uint32_t record_words;
    const select_macro *tails; /* The data of each macro choice that predictions do not need. */
    const select_rule *rules;
    int n_rules;
    const uint16_t *samples;
    const select_exact *exact;
    const uint32_t *buckets;
    uint32_t n_buckets, n_exact;
    int macro, micro;
    select_scan_fn *scan; /* The fastest scan of this processor. */
};

/* Sets the view of a file whose header was checked. */
void select_view_of(select_view *v, const unsigned char *data);

/* Checks a whole file. A file that passes is safe to read through its view. */
tw_status select_verify(const unsigned char *data, size_t size, const char *path, tw_diag *diag);

/* Tells whether `text` is UTF-8 whose terminating 0 is within `room` bytes. */
bool select_is_text(const void *text, size_t room);

/* Tells whether a lattice is one that corrections can have: over `axes` axes, with finite ends. */
bool select_is_lattice(const tw_lattice *l, int axes);

/* Computes the checksum that a file must have. The field of the file's own checksum does not count. */
void select_checksum(const unsigned char *data, size_t size, uint64_t sum[2]);

struct tw_selector {
    select_view view;
    select_cache *cache;
    tw_map map;
};

/* ---- bounds (bound.c) */

/* The fits of a macro choice. The last one serves all later waves, too. */
typedef struct select_fits {
    const uint32_t *records;
    uint32_t words;
    int n;
    double slots;
    double least, most; /* The least and the largest L for which bounds must hold. */
} select_fits;

/* Ratio of times and bounds that the writer leaves. The check asks for half of its excess over 1. */
#define SELECT_MARGIN 1.001

/* Finds the least and the largest ratio of the predicted time to bound[0] wL + bound[1] w + bound[2] L + bound[3],
   where w is the number of waves. False: somewhere the time or the divisor is not above 0, or the divisor's terms
   nearly cancel. */
bool select_ratios(const select_fits *f, const double bound[4], double *low, double *high);

/* Finds a lower bound and the ratio of the upper bound to it, as bf16. Without a bound the coefficients are 0 and the
   ratio is infinity. */
void select_bound(const select_fits *f, uint16_t bound[4], uint16_t *ratio);

/* ---- deciding */

enum { SELECT_BLOCK = 256, SELECT_RULES = TW_ARTEFACT_MACROS };

/* A problem in the forms that decisions need. */
typedef struct select_problem {
    float axes[TW_SELECT_AXES];     /* The axes. The groups are those that have rows. */
    uint32_t whole[TW_SELECT_AXES]; /* The axes as integers. 0 beyond the last axis. */
    uint32_t ruled[TW_SELECT_AXES]; /* The numbers that rules are about. */
    unsigned flags;
} select_problem;

enum { SELECT_ROWS = 4 /* Rows of corrections that are summed at once. */ };

/* The nodes of the lattice around a problem, a multiple of SELECT_ROWS. Those that fill it up have no weight. */
struct select_corners {
    int n; /* Number of nodes. 0: there is no lattice. */
    uint32_t node[TW_LATTICE_CORNERS];
    int16_t weight[TW_LATTICE_CORNERS]; /* Weight of each node, in units of 1 / TW_LATTICE_UNITS. */
};

/* G, L and bounds of the time of a block of macro choices, for a problem. */
struct select_scan {
    float grid[SELECT_BLOCK];   /* G. Exact below SELECT_EXACT, and rounded from there on. */
    float rounds[SELECT_BLOCK]; /* L. Exact below SELECT_EXACT if no axis shrinks. Rounded otherwise. */
    float low[SELECT_BLOCK];    /* A lower bound of the time. 0: there is none. */
    float high[SELECT_BLOCK];   /* An upper bound of the time. Infinity: there is none. */
    float factor[SELECT_BLOCK]; /* 1 plus the lattice's correction. The bounds are of the corrected time. */
    /* The fields below are set for direct artefacts alone. */
    float time[SELECT_BLOCK];  /* Time by the terms, without corrections. */
    float waves[SELECT_BLOCK]; /* The number of waves W. For G from SELECT_EXACT on, W is not rounded up. */
    float x[SELECT_BLOCK];     /* G / slots. */
    float parts[TW_FILL_AXES][SELECT_BLOCK]; /* Number of tiles along each tiled axis. Without an axis 1. */
    float empty[TW_FILL_AXES][SELECT_BLOCK]; /* Empty part of the last tile, from 0 to 1. 0 if the axis shrinks. */
    float lean[TW_FILL_AXES][SELECT_BLOCK];  /* Size of a tile divided by a block's extent. Set if the axis shrinks. */
};

/* Tells whether tiled axis k shrinks: whether blocks divide it equally. */
static inline bool select_is_equal(const select_view *v, int k) {
    return v->tiled[k] >= 0 && v->shrinks >> v->tiled[k] & 1;
}

/* Fills in `s` for macro choices `from` to from + n - 1, n at most SELECT_BLOCK. */
select_scan_fn select_scan_c, select_scan_avx2;
select_scan_fn *select_scan_best(void); /* Returns the fastest scan that this processor can run. */

/* Finds the nodes around a problem. */
void select_find_corners(const select_view *v, const float *axes, select_corners *c);
/* Returns the time of macro choice `macro` of a direct artefact, whose place in the scan is i. 0: there is none. */
static inline double select_direct(const select_view *v, const select_scan *s, int macro, int i) {
    double factor = (double)s->factor[i];
    if (v->fills) {
        const select_fill *f = &v->fills[macro];
        const tw_fill_place at = tw_fill_find(s->x[i] / s->waves[i], s->waves[i]);
        const int8_t *c = f->cell + at.cell, *next = c + TW_FILL_KINDS;
        float low = c[0], high = next[0];
        for (int k = 0; k < TW_FILL_AXES; k++) {
            low += c[1 + k] * s->empty[k][i];
            high += next[1 + k] * s->empty[k][i];
        }
        factor += (double)((low + at.part * (high - low)) * tw_bf16_to_f32(f->step));
        factor = factor > TW_ARTEFACT_FLOOR ? factor : TW_ARTEFACT_FLOOR;
    }
    return s->time[i] <= SELECT_TIME_MOST ? (double)s->time[i] * factor : 0;
}

/* Computes G and L of a macro choice, exactly if they are below 2^53 and no axis shrinks. */
void select_divide(const select_view *v, const float *axes, int macro, double *grid, double *rounds);

/* A choice and the prediction behind it. */
typedef struct select_decision {
    tw_select_source source;
    int macro, micro;
    double time;
    double error;        /* Relative half width of the time's interval. */
    double grid, rounds; /* G and L, where the model chooses. */
    int fit;             /* Number of the fit, from 0, where the model chooses. */
    int row;             /* Number of the fit's row of anchors, where the model chooses. */
} select_decision;

bool select_problem_of(const select_view *v, const int64_t *problem, unsigned flags, select_problem *out);
void select_decide(const select_view *v, const select_problem *p, select_decision *out);

/* Predicts the time of a macro choice. False: there is no prediction. G and L are set in either case. */
bool select_predict(const select_view *v, const select_problem *p, int macro, select_decision *out);

/* Counts the macro choices whose records a decision reads. */
int select_candidates(const select_view *v, const select_problem *p);

select_answer select_answer_of(const select_decision *d);
void select_answer_write(const select_view *v, const select_answer *a, bool remembered, tw_selection *out);

/* Reasons why flags and rules leave out a macro choice. */
typedef enum select_reason {
    SELECT_ALLOWED,
    SELECT_IS_ATOMIC,
    SELECT_NEEDS_WORKSPACE,
    SELECT_IS_VENDOR,
    SELECT_IS_OWN,
    SELECT_CANNOT
} select_reason;
select_reason select_why_not(const select_view *v, const select_problem *p, int macro);

/* Tells whether flags and rules allow a macro choice. */
bool select_allows(const select_view *v, const select_problem *p, int macro);
/* Finds a listed problem. NULL: it is not listed. */
const select_exact *select_find(const select_view *v, const uint32_t *problem);
uint64_t select_hash(const uint32_t *problem);

/* Returns the number, from 0, of the fit for x = G / slots. There are `fits` fits. */
static inline int select_fit_of(double x, int fits) {
    const int whole = x < fits ? (int)x : fits, waves = whole + (whole < x);
    return (waves < fits ? waves : fits) - 1;
}

/* Returns the first record of a macro choice. */
static inline const uint32_t *select_records_of(const select_view *v, int macro, int fits) {
    return v->records + (v->first ? v->first[macro] : (size_t)macro * (size_t)fits) * v->record_words;
}

/* Finds the micro choice of the anchor whose L is nearest to `rounds`. Of two equally near, the lower L counts. -1: the
   row has no anchors. */
int select_micro(const select_view *v, int macro, int row, double rounds);

static inline const char *select_config(const select_view *v, int macro, int micro) {
    const select_macro *m = &v->tails[macro];
    return (const char *)v->data + m->config + (size_t)micro * m->pitch;
}
#endif

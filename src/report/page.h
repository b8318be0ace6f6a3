/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as one HTML file that needs no network: figures, texts, tables, and plots and timelines that scripts draw
   from data in the page. A page is built in the order in which it is read. The first failure sticks, and tw_page_write
   returns it.
 */
#ifndef TW_REPORT_PAGE_H
#define TW_REPORT_PAGE_H

#include "tilewright/base.h"

typedef struct tw_page tw_page;

/* Begins a page. `lead` introduces the page in a sentence or two. Here and below texts are UTF-8 without markup, and
   are copied. Returns NULL if memory runs out. The caller closes the page. */
tw_page *tw_page_open(const char *title, const char *lead);
void tw_page_close(tw_page *p); /* NULL is fine. */

/* Adds a headline figure. Consecutive figures stand side by side. */
void tw_page_figure(tw_page *p, const char *value, const char *meaning);
/* Begins a section with a paragraph. `text` NULL: without one. */
void tw_page_section(tw_page *p, const char *heading, const char *text);
/* Adds a paragraph. */
void tw_page_text(tw_page *p, const char *text);

/* ---- tables */

/* Begins a table of n columns. `caption` may be NULL. */
void tw_page_table(tw_page *p, const char *caption, const char *const *columns, int n);
/* Adds a row to the last table: a cell for each column. Cells that begin with a digit, or a sign and a digit, are
   aligned as numbers. Only other rows may stand between a table's begin and a row. */
void tw_page_row(tw_page *p, const char *const *cells);

/* ---- plots */

typedef enum tw_page_kind {
    TW_PAGE_POINTS, /* Points alone. */
    TW_PAGE_LINE,   /* Points joined by straight lines. */
    TW_PAGE_STEPS,  /* A staircase: a value holds from its x to the next. */
    TW_PAGE_BARS    /* A bar for each label. A plot of bars has no other series. */
} tw_page_kind;

typedef struct tw_page_plot {
    const char *title;
    const char *note; /* A sentence below the plot. NULL: there is none. */
    const char *x;    /* Title of the axis, with the unit. */
    const char *y;    /* Title of the axis, with the unit. */
    bool log_x;       /* The axis is logarithmic: points whose x is not above 0 are left out. */
    bool log_y;       /* The axis is logarithmic: points whose y is not above 0 are left out. */
    bool zero_y;      /* The axis begins at 0. */
} tw_page_plot;

/* Adds a plot. Consecutive plots stand side by side where there is room. */
void tw_page_add_plot(tw_page *p, const tw_page_plot *plot);
/* Begins a series of the last plot. A line or a staircase after points has the points' color. */
void tw_page_series(tw_page *p, const char *name, tw_page_kind kind);
/* Adds a point to the last series. Points that are not finite are left out. `label` is shown when the reader points at
   the point; it may be NULL. In a series of bars the label names the bar, and x is ignored. */
void tw_page_point(tw_page *p, double x, double y, const char *label);

/* ---- timelines */

typedef enum tw_page_look {
    TW_PAGE_WORK,  /* Filled with the kind's color. */
    TW_PAGE_WAIT,  /* Hatched with it. */
    TW_PAGE_FRAME, /* Pale, whatever the kind: what only holds others. */
    TW_PAGE_MOMENT /* A diamond at `begin`. */
} tw_page_look;

typedef struct tw_page_timeline {
    const char *title;
    const char *note;         /* A sentence below the title. NULL: there is none. */
    const char *unit;         /* Of all times. "ns" is shown as µs or ms where there are many. */
    double begin, end;        /* What is shown at first. */
    const char *const *kinds; /* What bars are of: each has a color, and a word in the legend. */
    int n_kinds;
} tw_page_timeline;

typedef struct tw_page_bar {
    int kind;
    tw_page_look style;
    int level;          /* Bars of a row are one below the other: 0 is the topmost level. */
    double begin, end;  /* Finite. */
    const char *name;   /* As UTF-8, like all texts. */
    int iteration;      /* Shown when the reader points at the bar, unless it is below 0. */
    const char *detail; /* Likewise. NULL: there is none. */
} tw_page_bar;

/* Adds a timeline, whose rows are in groups. It is drawn by a script of the page, without Chart.js. */
void tw_page_add_timeline(tw_page *p, const tw_page_timeline *timeline);
/* Begins a group of the last timeline. */
void tw_page_group(tw_page *p, const char *name);
/* Begins a row of the last group. Rows of lanes are lower, and belong to the row above. */
void tw_page_timeline_row(tw_page *p, const char *name, bool is_lane);
/* Adds a bar to the last row. Returns its number in the timeline, from 0. */
int tw_page_add_bar(tw_page *p, const tw_page_bar *bar);
/* Adds an arrow from the end of a bar to that of another. It is shown when the reader points at either. */
void tw_page_arrow(tw_page *p, int from, int to);

/* ---- writing */

/* Writes the page beside `path` and renames it. `plots` is the source of Chart.js, version 3 or 4. NULL: the page has
   no plots, and says so. TW_ERR_MEMORY. TW_ERR_IO. TW_ERR_UNSUPPORTED: `plots` cannot stand in a page. */
tw_status tw_page_write(tw_page *p, const char *path, const char *plots, tw_diag *diag);

#endif

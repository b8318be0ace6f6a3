/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as one HTML file that needs no network: figures, texts, tables, and plots that a script draws from data in
   the page. A page is built in the order in which it is read. The first failure sticks, and tw_page_write returns it.
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

/* ---- writing */

/* Writes the page beside `path` and renames it. `plots` is the source of Chart.js, version 3 or 4. NULL: the page has
   no plots, and says so. TW_ERR_MEMORY. TW_ERR_IO. TW_ERR_UNSUPPORTED: `plots` cannot stand in a page. */
tw_status tw_page_write(tw_page *p, const char *path, const char *plots, tw_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "report/embedded.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The part of a page that is open at the body's end. */
typedef enum part { PART_NONE, PART_FIGURES, PART_TABLE, PART_PLOTS } part;

struct tw_page {
    tw_buf head;    /* HTML from the title to the lead. */
    tw_buf body;    /* HTML of all parts. */
    part open;      /* The last part, if its closing tags are not in `body` yet. */
    int columns;    /* Columns of the last table. */
    json_t *plots;  /* All plots. */
    json_t *plot;   /* The last plot. Owned by `plots`. */
    json_t *points; /* The points of the last series. Owned by `plot`. */
    json_t *lines;  /* All timelines. */
    json_t *line;   /* The last timeline. Owned by `lines`. */
    json_t *rows;   /* The rows of the last group. Owned by `line`. */
    json_t *bars;   /* The bars of the last row. Owned by `rows`. */
    json_t *texts;  /* Numbers of the last timeline's texts. */
    int n_bars;     /* Bars of the last timeline. */
    bool failed;    /* True: memory for plots or timelines ran out. */
};

/* ---- text */

/* Adds text. Characters of markup are written as entities. */
static void add_text(tw_buf *b, const char *text) {
    for (; *text; text++) switch (*text) {
        case '&':
            tw_buf_str(b, "&amp;");
            break;
        case '<':
            tw_buf_str(b, "&lt;");
            break;
        case '>':
            tw_buf_str(b, "&gt;");
            break;
        case '"':
            tw_buf_str(b, "&quot;");
            break;
        default:
            tw_buf_add(b, text, 1);
        }
}

static void add_element(tw_buf *b, const char *begin, const char *text, const char *end) {
    tw_buf_str(b, begin);
    add_text(b, text);
    tw_buf_str(b, end);
}

/* Adds data as JSON for a script element. "<" is escaped, so that no string ends the element. */
static void add_json(tw_buf *b, const json_t *data) {
    char *text = tw_json_text(data, JSON_COMPACT | JSON_REAL_PRECISION(7));
    if (!text) b->failed = true;
    for (const char *at = text; at && *at;) {
        const size_t n = strcspn(at, "<");
        tw_buf_add(b, at, n);
        at += n;
        if (*at == '<') {
            tw_buf_str(b, "\\u003c");
            at++;
        }
    }
    free(text);
}

/* ---- parts */

static void end_part(tw_page *p) {
    static const char *const ends[] = {[PART_NONE] = "",
                                       [PART_FIGURES] = "</dl>\n",
                                       [PART_TABLE] = "</tbody></table></div>\n",
                                       [PART_PLOTS] = "</div>\n"};
    tw_buf_str(&p->body, ends[p->open]);
    p->open = PART_NONE;
}

static void begin_part(tw_page *p, part kind, const char *begin) {
    if (p->open == kind) return;
    end_part(p);
    tw_buf_str(&p->body, begin);
    p->open = kind;
}

tw_page *tw_page_open(const char *title, const char *lead) {
    tw_page *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->plots = json_array();
    p->lines = json_array();
    p->failed = !p->plots || !p->lines;
    add_element(&p->head, "<title>", title, "</title>\n");
    tw_buf_str(&p->head, "<style>\n");
    tw_buf_str(&p->head, (const char *)tw_page_style);
    tw_buf_str(&p->head, "</style>\n</head>\n<body>\n");
    add_element(&p->head, "<h1>", title, "</h1>\n");
    add_element(&p->head, "<p class=\"lead\">", lead, "</p>\n");
    return p;
}

void tw_page_close(tw_page *p) {
    if (!p) return;
    tw_buf_free(&p->head);
    tw_buf_free(&p->body);
    json_decref(p->plots);
    json_decref(p->lines);
    json_decref(p->texts);
    free(p);
}

void tw_page_figure(tw_page *p, const char *value, const char *meaning) {
    begin_part(p, PART_FIGURES, "<dl class=\"figures\">\n");
    add_element(&p->body, "<div><dt>", meaning, "</dt>");
    add_element(&p->body, "<dd>", value, "</dd></div>\n");
}

void tw_page_section(tw_page *p, const char *heading, const char *text) {
    end_part(p);
    add_element(&p->body, "<h2>", heading, "</h2>\n");
    if (text) tw_page_text(p, text);
}

void tw_page_text(tw_page *p, const char *text) {
    end_part(p);
    add_element(&p->body, "<p>", text, "</p>\n");
}

void tw_page_table(tw_page *p, const char *caption, const char *const *columns, int n) {
    end_part(p);
    tw_buf_str(&p->body, "<div class=\"scroll\"><table>");
    if (caption) add_element(&p->body, "<caption>", caption, "</caption>");
    tw_buf_str(&p->body, "<thead><tr>");
    for (int i = 0; i < n; i++) add_element(&p->body, "<th scope=\"col\">", columns[i], "</th>");
    tw_buf_str(&p->body, "</tr></thead><tbody>\n");
    p->columns = n;
    p->open = PART_TABLE;
}

enum { LONG = 40 /* A cell of more bytes gets a wider column. */ };

static const char *cell_begin(const char *text) {
    const char first = text[strspn(text, "+-")];
    if (first >= '0' && first <= '9') return "<td class=\"number\">";
    return strlen(text) > LONG ? "<td class=\"long\">" : "<td>";
}

void tw_page_row(tw_page *p, const char *const *cells) {
    tw_buf_str(&p->body, "<tr>");
    for (int i = 0; i < p->columns; i++) add_element(&p->body, cell_begin(cells[i]), cells[i], "</td>");
    tw_buf_str(&p->body, "</tr>\n");
}

/* ---- plots */

static bool append(json_t *list, json_t *item) {
    return !json_array_append_new(list, item);
}

void tw_page_add_plot(tw_page *p, const tw_page_plot *plot) {
    begin_part(p, PART_PLOTS, "<div class=\"plots\">\n");
    add_element(&p->body, "<figure class=\"plot\"><figcaption>", plot->title, "</figcaption>");
    tw_buf_printf(&p->body, "<div class=\"canvas\"><canvas id=\"plot%zu\" role=\"img\"", json_array_size(p->plots));
    add_element(&p->body, " aria-label=\"", plot->title, "\"></canvas></div>");
    if (plot->note) add_element(&p->body, "<p class=\"note\">", plot->note, "</p>");
    tw_buf_str(&p->body, "</figure>\n");
    p->plot = json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:[]}", "title", plot->title, "x", plot->x, "y", plot->y,
                        "log_x", plot->log_x, "log_y", plot->log_y, "zero_y", plot->zero_y, "series");
    p->points = NULL;
    if (!append(p->plots, p->plot)) {
        p->failed = true;
        p->plot = NULL;
    }
}

void tw_page_series(tw_page *p, const char *name, tw_page_kind kind) {
    static const char *const kinds[] = {
        [TW_PAGE_POINTS] = "points", [TW_PAGE_LINE] = "line", [TW_PAGE_STEPS] = "steps", [TW_PAGE_BARS] = "bars"};
    json_t *series = json_pack("{s:s, s:s, s:[]}", "name", name, "kind", kinds[kind], "points");
    p->points = json_object_get(series, "points");
    if (!append(json_object_get(p->plot, "series"), series)) {
        p->failed = true;
        p->points = NULL;
    }
}

void tw_page_point(tw_page *p, double x, double y, const char *label) {
    if (!isfinite(x) || !isfinite(y)) return;
    json_t *point = json_pack("{s:f, s:f}", "x", x, "y", y);
    if (label && point && json_object_set_new(point, "label", json_string(label))) p->failed = true;
    if (!append(p->points, point)) p->failed = true;
}

/* ---- timelines */

/* Appends to a list, which may be NULL. Returns the item as long as the page owns it. */
static json_t *append_part(tw_page *p, json_t *list, json_t *item) {
    if (append(list, item)) return item;
    p->failed = true;
    return NULL;
}

void tw_page_add_timeline(tw_page *p, const tw_page_timeline *timeline) {
    end_part(p);
    tw_buf_printf(&p->body, "<figure class=\"timeline\" id=\"timeline%zu\">", json_array_size(p->lines));
    add_element(&p->body, "<figcaption>", timeline->title, "</figcaption>");
    if (timeline->note) add_element(&p->body, "<p class=\"note\">", timeline->note, "</p>");
    tw_buf_str(&p->body, "</figure>\n");
    json_decref(p->texts);
    p->texts = json_object();
    p->line = append_part(p, p->lines,
                          json_pack("{s:s, s:s, s:f, s:f, s:[], s:[], s:[], s:[]}", "title", timeline->title, "unit",
                                    timeline->unit, "begin", timeline->begin, "end", timeline->end, "kinds", "texts",
                                    "groups", "arrows"));
    p->rows = p->bars = NULL;
    p->n_bars = 0;
    for (int i = 0; i < timeline->n_kinds; i++)
        append_part(p, json_object_get(p->line, "kinds"), json_string(timeline->kinds[i]));
}

void tw_page_group(tw_page *p, const char *name) {
    json_t *group = json_pack("{s:s, s:[]}", "name", name, "rows");
    p->rows = json_object_get(append_part(p, json_object_get(p->line, "groups"), group), "rows");
}

void tw_page_timeline_row(tw_page *p, const char *name, bool is_lane) {
    json_t *row = json_pack("{s:s, s:b, s:[]}", "name", name, "lane", is_lane, "bars");
    p->bars = json_object_get(append_part(p, p->rows, row), "bars");
}

/* The number of a text in the last timeline. */
static json_t *text_number(tw_page *p, const char *text) {
    const json_t *known = json_object_get(p->texts, text);
    if (known) return json_integer(json_integer_value(known));
    const size_t n = json_object_size(p->texts);
    if (json_object_set_new(p->texts, text, json_integer((json_int_t)n))) p->failed = true;
    append_part(p, json_object_get(p->line, "texts"), json_string(text));
    return json_integer((json_int_t)n);
}

/* Whole numbers are written as such: they are shorter, and exact. */
static json_t *time_json(double x) {
    return floor(x) == x && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

int tw_page_add_bar(tw_page *p, const tw_page_bar *bar) {
    json_t *made = json_pack("[o, o, i, o, i, i, i]", time_json(bar->begin), time_json(bar->end), bar->kind,
                             text_number(p, bar->name), bar->level, (int)bar->style, bar->iteration);
    if (bar->detail && !append(made, text_number(p, bar->detail))) p->failed = true;
    append_part(p, p->bars, made);
    return p->n_bars++;
}

void tw_page_arrow(tw_page *p, int from, int to) {
    append_part(p, json_object_get(p->line, "arrows"), json_pack("[i, i]", from, to));
}

/* ---- writing */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:\">\n";

static void add_scripts(tw_buf *b, const tw_page *p, const char *plots) {
    tw_buf_str(b, "<p class=\"foot\" id=\"drawn\" hidden></p>\n<script type=\"application/json\" id=\"data\">");
    json_t *data = json_pack("{s:O, s:O}", "plots", p->plots, "timelines", p->lines);
    add_json(b, data);
    json_decref(data);
    tw_buf_str(b, "</script>\n");
    if (plots) {
        tw_buf_str(b, "<script>\n");
        tw_buf_str(b, plots);
        tw_buf_str(b, "\n</script>\n");
    }
    tw_buf_str(b, "<script>\n");
    if (json_array_size(p->lines)) tw_buf_str(b, (const char *)tw_page_timeline_script);
    tw_buf_str(b, (const char *)tw_page_script);
    tw_buf_str(b, "</script>\n</body>\n</html>\n");
}

tw_status tw_page_write(tw_page *p, const char *path, const char *plots, tw_diag *diag) {
    tw_buf b = {0};
    if (plots && (strstr(plots, "</script") || strstr(plots, "<!--")))
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "the library for plots cannot stand in a page: it has \"</script\" or \"<!--\"");
    end_part(p);
    tw_buf_str(&b, head);
    tw_buf_add(&b, p->head.data, p->head.size);
    if (!plots && json_array_size(p->plots))
        tw_buf_str(&b, "<style>.plots { display: none; }</style>\n<p class=\"lack\">The plots are missing: Chart.js "
                       "(Debian's libjs-chart.js) was not installed where "
                       "this command was built. Their data is in the page's source.</p>\n");
    else
        tw_buf_str(&b,
                   "<noscript><p class=\"lack\">Plots and timelines are drawn by a script of this page, and scripts "
                   "are off."
                   "</p></noscript>\n");
    tw_buf_add(&b, p->body.data, p->body.size);
    add_scripts(&b, p, plots);
    const bool good = !p->failed && !p->head.failed && !p->body.failed && !b.failed;
    const tw_status st = good ? tw_file_write(path, b.data, b.size, diag) : tw_fail_memory(diag);
    tw_buf_free(&b);
    return st;
}

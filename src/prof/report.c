/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/report.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/text.h"
#include "prof/report_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = TRACE_TIME };

/* ---- headline */

static void add_figures(tw_page *p, const tw_summary *s, const tw_trace *t) {
    char value[CELL], meaning[CELL];
    trace_time(value, s->length, t->unit);
    tw_page_figure(p, value, "from the first to the last instruction");
    snprintf(value, sizeof value, "%d", s->sms);
    snprintf(meaning, sizeof meaning, "%s with %d tracks of %d blocks", t->on_processor ? "cores" : "SMs", t->n_tracks,
             s->blocks);
    tw_page_figure(p, value, meaning);
    snprintf(value, sizeof value, "%d", t->n_events);
    tw_page_figure(p, value, "events");
    snprintf(value, sizeof value, "%" PRId64, s->dropped);
    tw_page_figure(p, value, "records lost");
    if (isfinite(s->overhead)) {
        snprintf(value, sizeof value, "%+.2f %%", s->overhead * 100);
        tw_page_figure(p, value, s->trusted ? "that recording took" : "that recording took: untrusted");
    }
}

static void add_cautions(tw_page *p, const tw_summary *s, const tw_trace *t) {
    char text[4 * CELL];
    if (!s->trusted) {
        snprintf(
            text, sizeof text,
            "Untrusted: with records the kernel takes %+.2f %% of its time more, and beyond %.0f %% recording may have "
            "changed what was to be seen.",
            s->overhead * 100, TW_SUMMARY_TRUST * 100);
        tw_page_text(p, text);
    }
    if (s->dropped) tw_page_text(p, "Records are lost, since the buffer was full: counts and totals lack them.");
    if (s->uncertainty > 0) {
        snprintf(text, sizeof text, "Times of different %s may be off by %.3g %s against each other.",
                 t->on_processor ? "cores" : "SMs", s->uncertainty, t->unit);
        tw_page_text(p, text);
    }
}

/* ---- tables */

typedef struct tables {
    tw_page *page;
    const tw_trace *t;
    bool failed; /* Memory ran out. */
} tables;

static bool is_ns(const tw_trace *t) {
    return !strcmp(t->unit, "ns");
}

/* A name of the trace as text of the page. The caller frees it. */
static char *name_text(tables *x, int name) {
    char *text = trace_text(x->t->names[name].text);
    if (!text) x->failed = true;
    return text;
}

static void add_region(tables *x, const tw_summary_region *r) {
    enum { COLUMNS = 12 };
    const tw_trace *t = x->t;
    char cells[COLUMNS][CELL] = {{0}}, *name = name_text(x, r->name);
    const char *row[COLUMNS] = {name};
    if (!name) return;
    snprintf(cells[1], CELL, "%s", tw_event_kind_name(r->kind));
    snprintf(cells[2], CELL, "%s", tw_trace_engine_name(t->names[r->name].engine));
    snprintf(cells[3], CELL, "%" PRId64, r->count);
    if (!tw_is_moment(r->kind)) {
        snprintf(cells[4], CELL, "%.2f", r->total * (is_ns(t) ? 1e-3 : 1));
        snprintf(cells[5], CELL, "%.1f %%", r->share * 100);
        snprintf(cells[6], CELL, "%.1f %%", r->total > 0 ? r->self / r->total * r->share * 100 : 0);
    }
    if (r->kind != TW_EVENT_MARK) {
        const double of[] = {r->mean, r->p50, r->p95, r->p99, r->max};
        for (int i = 0; i < 5; i++) snprintf(cells[7 + i], CELL, "%.1f", of[i]);
    }
    for (int i = 1; i < COLUMNS; i++) row[i] = cells[i];
    tw_page_row(x->page, row);
    free(name);
}

static void add_role(tables *x, const tw_summary_role *role) {
    char total[CELL], mean[CELL], time[CELL], *name = name_text(x, role->name);
    tw_buf caption = {0};
    snprintf(total, CELL, "total, %.16s", is_ns(x->t) ? "µs" : x->t->unit);
    snprintf(mean, CELL, "mean, %.16s", x->t->unit);
    const char *const columns[] = {"what", "kind", "engine", "count", total, "share",
                                   "own",  mean,   "p50",    "p95",   "p99", "max"};
    trace_time(time, role->time, x->t->unit);
    if (name)
        tw_buf_printf(&caption, "%s: %d tracks, together %s, %" PRId64 " records lost", name, role->tracks, time,
                      role->dropped);
    x->failed |= caption.failed;
    tw_page_table(x->page, caption.data, columns, 12);
    for (int i = 0; i < role->n_regions; i++) add_region(x, &role->regions[i]);
    tw_buf_free(&caption);
    free(name);
}

static void add_stall(tables *x, const tw_summary_role *role, const tw_summary_wait *w) {
    char count[CELL], total[CELL], share[CELL], *name = name_text(x, role->name);
    snprintf(count, CELL, "%" PRId64, w->count);
    trace_time(total, w->total, x->t->unit);
    snprintf(share, CELL, "%.1f %%", w->share * 100);
    if (name) tw_page_row(x->page, (const char *const[]){name, w->reason, count, total, share});
    free(name);
}

static void add_stalls(tables *x, const tw_summary *s) {
    static const char *const columns[] = {"role", "stall", "count", "total", "share"};
    int n = 0;
    for (int i = 0; i < s->n_roles; i++) n += s->roles[i].n_waits;
    if (!n) return;
    tw_page_table(x->page, "Waits, in the words of Nsight Compute", columns, 5);
    for (int i = 0; i < s->n_roles; i++)
        for (int k = 0; k < s->roles[i].n_waits; k++) add_stall(x, &s->roles[i], &s->roles[i].waits[k]);
}

/* Adds the section of tables. Returns false if memory runs out. */
static bool add_tables(tw_page *p, const tw_summary *s, const tw_trace *t) {
    tables x = {p, t, false};
    tw_page_section(
        p, "Where the time went",
        "By role. Share is of the time of all tracks of the role; own leaves out what is nested inside. What works "
        "asynchronously overlaps, and its shares can add up to more than 100 %.");
    for (int i = 0; i < s->n_roles; i++) add_role(&x, &s->roles[i]);
    add_stalls(&x, s);
    return !x.failed;
}

/* ---- */

static tw_page *fill(const tw_trace *t, const tw_summary *s, const tw_layout *l) {
    char *title = trace_text(t->title), *device = trace_text(t->device);
    tw_buf lead = {0};
    tw_page *p = NULL;
    if (device)
        tw_buf_printf(&lead, "What each warp did and when, on %s. Times are without what recording cost.", device);
    if (title && lead.data) p = tw_page_open(title, lead.data);
    if (p) {
        add_figures(p, s, t);
        add_cautions(p, s, t);
        if (!trace_timeline(p, t, l) || !add_tables(p, s, t)) {
            tw_page_close(p);
            p = NULL;
        }
    }
    tw_buf_free(&lead);
    free(title);
    free(device);
    return p;
}

tw_page *tw_trace_page(const tw_trace *t, tw_diag *diag) {
    tw_summary s;
    tw_layout l = {0};
    tw_page *p = NULL;
    tw_status st = tw_summary_make(&s, t, diag);
    if (st == TW_OK) st = tw_layout_make(&l, t, diag);
    if (st == TW_OK) {
        p = fill(t, &s, &l);
        if (!p) tw_fail_memory(diag);
    }
    tw_summary_free(&s);
    tw_layout_free(&l);
    return p;
}

tw_status tw_trace_report(const tw_trace *t, const tw_prof_memory_report *memory, const char *path, const char *plots,
                          tw_diag *diag) {
    tw_diag own;
    if (!diag) diag = &own;
    tw_page *p = tw_trace_page(t, diag);
    if (!p) return diag->status;
    if (memory) tw_prof_memory_page(memory, p);
    const tw_status st = tw_page_write(p, path, plots, diag);
    tw_page_close(p);
    return st;
}

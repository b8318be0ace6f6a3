/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries as text and as JSON. */
#include "base/utf8.h"
#include "prof/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text */

enum { NAME = 32 /* Columns of a name. A longer one is cut. */ };

/* Totals are in microseconds where the unit is nanoseconds. */
static double scale_of(const tw_trace *t) {
    return strcmp(t->unit, "ns") ? 1 : 1e-3;
}

static const char *total_unit(const tw_trace *t) {
    return strcmp(t->unit, "ns") ? t->unit : "us";
}

/* Adds a text in a column of `width` characters. What would break the table's lines is a blank. */
static void add_name(tw_buf *out, const char *text, int width) {
    int n = 0;
    for (const char *c = text; *c && n < width; c++) {
        const unsigned char byte = (unsigned char)*c;
        if ((byte & 0xc0) != 0x80) n++;
        tw_buf_add(out, byte < 0x20 || byte == 0x7f ? " " : c, 1);
        while ((c[1] & 0xc0) == 0x80) tw_buf_add(out, ++c, 1);
    }
    tw_buf_printf(out, "%*s", width - n, "");
}

static void add_head(tw_buf *out, const tw_summary *s, const tw_trace *t) {
    const char *unit = total_unit(t), *where = t->on_processor ? "cores" : "SMs";
    const double scale = scale_of(t);
    tw_buf_printf(out, "%s\n%s: %d tracks of %d blocks on %d %s, %d events, %.2f %s\n", t->title, t->device,
                  t->n_tracks, s->blocks, s->sms, where, t->n_events, s->length * scale, unit);
    if (isfinite(s->overhead))
        tw_buf_printf(out, "clean %.2f %s, traced %.2f %s: %+.2f %%%s\n", t->clean * scale, unit, t->traced * scale,
                      unit, s->overhead * 100, s->trusted ? "" : ", untrusted: recording changed what was to be seen");
    else
        tw_buf_str(out, "What recording cost was not measured.\n");
    if (s->dropped)
        tw_buf_printf(out, "%" PRId64 " records are lost: the buffer was full. Counts and totals lack them.\n",
                      s->dropped);
    if (s->uncertainty > 0)
        tw_buf_printf(out, "Times of different %s may be off by %.3g %s against each other.\n", where, s->uncertainty,
                      t->unit);
}

static void add_region(tw_buf *out, const tw_summary_region *r, const tw_trace *t) {
    const double scale = scale_of(t);
    tw_buf_str(out, "  ");
    add_name(out, t->names[r->name].text, NAME);
    tw_buf_printf(out, " %-9s %-6s %8" PRId64, tw_event_kind_name(r->kind),
                  tw_trace_engine_name(t->names[r->name].engine), r->count);
    if (r->kind == TW_EVENT_VALUE)
        tw_buf_printf(out, " %11s %7s %7s %9.4g %9.4g %9.4g %9.4g %9.4g", "", "", "", r->mean, r->p50, r->p95, r->p99,
                      r->max);
    else if (r->kind != TW_EVENT_MARK)
        tw_buf_printf(out, " %11.2f %6.1f%% %6.1f%% %9.1f %9.1f %9.1f %9.1f %9.1f", r->total * scale, r->share * 100,
                      r->total > 0 ? r->self / r->total * r->share * 100 : 0, r->mean, r->p50, r->p95, r->p99, r->max);
    if (r->least < r->most) tw_buf_printf(out, "  total within %.4g and %.4g", r->least * scale, r->most * scale);
    tw_buf_str(out, "\n");
}

void tw_summary_text(tw_buf *out, const tw_summary *s, const tw_trace *t) {
    const double scale = scale_of(t);
    add_head(out, s, t);
    for (int i = 0; i < s->n_roles; i++) {
        const tw_summary_role *role = &s->roles[i];
        tw_buf_printf(out, "\n%s: %d tracks, %.2f %s", t->names[role->name].text, role->tracks, role->time * scale,
                      total_unit(t));
        if (role->dropped) tw_buf_printf(out, ", %" PRId64 " records lost", role->dropped);
        if (role->n_regions)
            tw_buf_printf(out, "\n  %-*s %-9s %-6s %8s %8s %2s %7s %7s %9s %9s %9s %9s %9s", NAME, "", "", "", "count",
                          "total", total_unit(t), "share", "self", "mean", "p50", "p95", "p99", "max");
        if (role->n_regions) tw_buf_printf(out, " %s", t->unit);
        tw_buf_str(out, "\n");
        for (int k = 0; k < role->n_regions; k++) add_region(out, &role->regions[k], t);
        for (int k = 0; k < role->n_waits; k++)
            tw_buf_printf(out, "  stalls: %-24s %19s %8" PRId64 " %11.2f %6.1f%%\n", role->waits[k].reason, "",
                          role->waits[k].count, role->waits[k].total * scale, role->waits[k].share * 100);
    }
}

/* ---- JSON */

/* A number, or null if it is none that JSON has. */
static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

/* A text whose bytes are UTF-8, or have been made so. NULL: out of memory. */
static json_t *text(const char *from) {
    json_t *made = json_string(from);
    if (made) return made;
    tw_buf copy = {0};
    if (tw_buf_str(&copy, from)) {
        tw_utf8_mend(copy.data);
        made = json_string(copy.data);
    }
    tw_buf_free(&copy);
    return made;
}

static json_t *region_json(const tw_summary_region *r, const tw_trace *t) {
    const tw_trace_name *name = &t->names[r->name];
    return json_pack("{s:o, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", text(name->text),
                     "kind", tw_event_kind_name(r->kind), "engine", tw_trace_engine_name(name->engine), "count",
                     (json_int_t)r->count, "total", number(r->total), "self", number(r->self), "share",
                     number(r->share), "mean", number(r->mean), "p50", number(r->p50), "p95", number(r->p95), "p99",
                     number(r->p99), "max", number(r->max), "least", number(r->least), "most", number(r->most));
}

static json_t *role_json(const tw_summary_role *role, const tw_trace *t) {
    json_t *regions = json_array(), *waits = json_array();
    bool good = true;
    for (int i = 0; i < role->n_regions; i++)
        good &= !json_array_append_new(regions, region_json(&role->regions[i], t));
    for (int i = 0; i < role->n_waits; i++) {
        const tw_summary_wait *w = &role->waits[i];
        good &= !json_array_append_new(waits, json_pack("{s:s, s:I, s:o, s:o}", "reason", w->reason, "count",
                                                        (json_int_t)w->count, "total", number(w->total), "share",
                                                        number(w->share)));
    }
    json_t *made = json_pack("{s:o, s:i, s:o, s:I, s:o, s:o}", "role", text(t->names[role->name].text), "tracks",
                             role->tracks, "time", number(role->time), "dropped", (json_int_t)role->dropped, "regions",
                             regions, "stalls", waits);
    if (good) return made;
    json_decref(made);
    return NULL;
}

json_t *tw_summary_json(const tw_summary *s, const tw_trace *t) {
    const bool measured = isfinite(s->overhead);
    json_t *roles = json_array();
    bool good = true;
    for (int i = 0; i < s->n_roles; i++) good &= !json_array_append_new(roles, role_json(&s->roles[i], t));
    json_t *made = json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "title",
                             text(t->title), "device", text(t->device), "unit", text(t->unit), "sms", s->sms, "blocks",
                             s->blocks, "tracks", t->n_tracks, "events", t->n_events, "length", number(s->length),
                             "clean", number(t->clean > 0 ? t->clean : (double)NAN), "traced",
                             number(t->traced > 0 ? t->traced : (double)NAN), "overhead", number(s->overhead),
                             "trusted", measured ? json_boolean(s->trusted) : json_null(), "dropped",
                             (json_int_t)s->dropped, "uncertainty", number(s->uncertainty), "roles", roles);
    if (good) return made;
    json_decref(made);
    return NULL;
}

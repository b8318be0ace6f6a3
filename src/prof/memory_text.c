/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/memory.h"

const char *tw_prof_memory_space(int space) {
    return space == TW_SPACE_global ? "global" : "shared";
}

const char *tw_prof_memory_does(const tw_prof_memory_site *s) {
    return s->read && s->write ? "reads and writes" : s->write ? "writes" : "reads";
}

double tw_prof_memory_times(int64_t n, int64_t of) {
    return of ? (double)n / (double)of : 0;
}

static bool add(json_t *list, json_t *row) {
    return json_array_append_new(list, row) == 0;
}

static json_t *site_json(const tw_prof_memory_site *s) {
    return json_pack("{s:s, s:s, s:b, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "place", s->place,
                     "object", s->object, "mixed", s->mixed, "space", tw_prof_memory_space(s->space), "read", s->read,
                     "write", s->write, "engine", s->engine, "requests", (json_int_t)s->requests, "lanes",
                     (json_int_t)s->lanes, "bytes", (json_int_t)s->bytes, "sectors", (json_int_t)s->sectors,
                     "least_sectors", (json_int_t)s->least_sectors, "wavefronts", (json_int_t)s->wavefronts,
                     "least_wavefronts", (json_int_t)s->least_wavefronts, "ways", s->ways);
}

static json_t *object_json(const tw_prof_memory_object *o) {
    json_t *parts = json_array();
    bool fine = parts != NULL;
    for (int i = 0; fine && i < TW_PROF_MEMORY_PARTS; i++) fine = add(parts, json_integer(o->parts[i]));
    json_t *all = fine ? json_pack("{s:s, s:s, s:I, s:I, s:I, s:O}", "name", o->name, "space",
                                   tw_prof_memory_space(o->space), "size", (json_int_t)o->size, "read",
                                   (json_int_t)o->read, "written", (json_int_t)o->written, "parts", parts)
                       : NULL;
    json_decref(parts);
    return all;
}

json_t *tw_prof_memory_json(const tw_prof_memory_report *r) {
    json_t *sites = json_array(), *objects = json_array(), *slots = json_array();
    bool fine = sites && objects && slots;
    for (int i = 0; fine && i < r->n_sites; i++) fine = add(sites, site_json(&r->sites[i]));
    for (int i = 0; fine && i < r->n_objects; i++) fine = add(objects, object_json(&r->objects[i]));
    for (int i = 0; fine && i < r->n_slots; i++) {
        const tw_prof_memory_slot *s = &r->slots[i];
        fine = add(slots, json_pack("[I, I, I, I]", (json_int_t)s->read[0], (json_int_t)s->written[0],
                                    (json_int_t)s->read[1], (json_int_t)s->written[1]));
    }
    json_t *all = fine ? json_pack("{s:O, s:O, s:{s:I, s:[s, s, s, s], s:O}}", "operations", sites, "objects", objects,
                                   "density", "slot", (json_int_t)r->slot, "columns", "global read", "global written",
                                   "shared read", "shared written", "rows", slots)
                       : NULL;
    json_decref(sites);
    json_decref(objects);
    json_decref(slots);
    return all;
}

static void put_site(const tw_prof_memory_site *s, tw_buf *out) {
    tw_buf_printf(out, "  %s %s %s%s, %lld times: ", s->place, tw_prof_memory_does(s), s->object,
                  s->mixed ? " and others" : "", (long long)s->requests);
    if (s->space == TW_SPACE_global)
        tw_buf_printf(out, "%.2f times the sectors that its bytes fill (%lld, %lld)\n",
                      tw_prof_memory_times(s->sectors, s->least_sectors), (long long)s->sectors,
                      (long long)s->least_sectors);
    else if (s->engine)
        tw_buf_printf(out, "%lld bytes\n", (long long)s->bytes);
    else if (s->ways > 1 && s->wavefronts > s->least_wavefronts)
        tw_buf_printf(out, "%d-way bank conflicts, %.2f times the wavefronts (%lld, %lld)\n", s->ways,
                      tw_prof_memory_times(s->wavefronts, s->least_wavefronts), (long long)s->wavefronts,
                      (long long)s->least_wavefronts);
    else
        tw_buf_printf(out, "no bank conflicts\n");
}

bool tw_prof_memory_lines(const tw_prof_memory_report *r, int rows, tw_buf *out) {
    for (int space = TW_SPACE_global, k = 0; k < 2; k++, space = TW_SPACE_shared) {
        int n = 0, of = 0;
        for (int i = 0; i < r->n_sites; i++) {
            if (r->sites[i].space != space) continue;
            if (!of++) tw_buf_printf(out, "%s memory\n", tw_prof_memory_space(space));
            if (rows > 0 && n == rows) continue;
            n++;
            put_site(&r->sites[i], out);
        }
        if (n < of) tw_buf_printf(out, "  and %d more\n", of - n);
    }
    for (int i = 0; i < r->n_objects; i++) {
        const tw_prof_memory_object *o = &r->objects[i];
        if (!i) tw_buf_printf(out, "objects\n");
        tw_buf_printf(out, "  %-20s %s, %lld bytes: %.2f times read, %.2f times written\n", o->name,
                      tw_prof_memory_space(o->space), (long long)o->size, tw_prof_memory_times(o->read, o->size),
                      tw_prof_memory_times(o->written, o->size));
    }
    return !out->failed;
}

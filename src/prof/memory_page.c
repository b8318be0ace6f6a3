/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/memory.h"

#include <inttypes.h>
#include <stdio.h>

enum { CELL = 64, OBJECTS = 8 /* The most objects that a plot draws. */ };

/* ---- density */

static void add_density(tw_page *p, const tw_prof_memory_report *r, int k, const char *title) {
    char y[CELL];
    snprintf(y, sizeof y, "bytes in %" PRId64 " operations", r->slot);
    tw_page_add_plot(p, &(tw_page_plot){.title = title, .x = "time, operations of warps", .y = y, .zero_y = true});
    for (int written = 0; written < 2; written++) {
        tw_page_series(p, written ? "written" : "read", TW_PAGE_STEPS);
        for (int i = 0; i <= r->n_slots; i++) {
            const tw_prof_memory_slot *s = &r->slots[i < r->n_slots ? i : r->n_slots - 1];
            tw_page_point(p, (double)(i * r->slot), (double)(written ? s->written[k] : s->read[k]), NULL);
        }
    }
}

/* ---- heat */

/* Tells whether an object is in a state space, and has enough bytes for the parts of the heat plot. */
static bool has_parts(const tw_prof_memory_object *o, int space) {
    return o->space == space && o->size >= TW_PROF_MEMORY_PARTS;
}

/* Adds a plot of how often the hottest objects of a space are accessed, by parts of them. */
static void add_heat(tw_page *p, const tw_prof_memory_report *r, int space, const char *title) {
    int there = 0, drawn = 0;
    for (int i = 0; i < r->n_objects; i++) there += has_parts(&r->objects[i], space);
    if (!there) return;
    tw_page_add_plot(p, &(tw_page_plot){.title = title,
                                        .note = there > OBJECTS
                                                    ? "Bytes read and written in each part, over its size. The hottest."
                                                    : "Bytes read and written in each part, over its size.",
                                        .x = "place in the object, %",
                                        .y = "times",
                                        .zero_y = true});
    for (int i = 0; i < r->n_objects && drawn < OBJECTS; i++) {
        const tw_prof_memory_object *o = &r->objects[i];
        const double part = (double)o->size / TW_PROF_MEMORY_PARTS;
        if (!has_parts(o, space)) continue;
        drawn++;
        tw_page_series(p, o->name, TW_PAGE_STEPS);
        for (int k = 0; k <= TW_PROF_MEMORY_PARTS; k++) {
            const int from = k < TW_PROF_MEMORY_PARTS ? k : TW_PROF_MEMORY_PARTS - 1;
            tw_page_point(p, 100.0 * k / TW_PROF_MEMORY_PARTS, (double)o->parts[from] / part, NULL);
        }
    }
}

/* ---- tables */

static void add_objects(tw_page *p, const tw_prof_memory_report *r) {
    static const char *const columns[] = {"object", "memory", "bytes", "read", "written"};
    tw_page_table(p, "Objects: how often their bytes are read and written", columns, 5);
    for (int i = 0; i < r->n_objects; i++) {
        const tw_prof_memory_object *o = &r->objects[i];
        char size[CELL], read[CELL], written[CELL];
        snprintf(size, CELL, "%" PRId64, o->size);
        snprintf(read, CELL, "%.2f times", tw_prof_memory_times(o->read, o->size));
        snprintf(written, CELL, "%.2f times", tw_prof_memory_times(o->written, o->size));
        tw_page_row(p, (const char *const[]){o->name, tw_prof_memory_space(o->space), size, read, written});
    }
}

/* Writes how many sectors or wavefronts an operation takes, and how many times the fewest that is. */
static void spell_cost(char out[CELL], const tw_prof_memory_site *s) {
    const bool global = s->space == TW_SPACE_global;
    const int64_t taken = global ? s->sectors : s->wavefronts, fewest = global ? s->least_sectors : s->least_wavefronts;
    if (fewest)
        snprintf(out, CELL, "%.2f times the fewest: %" PRId64 " %s", tw_prof_memory_times(taken, fewest), taken,
                 global ? "sectors" : "wavefronts");
    else
        snprintf(out, CELL, "%" PRId64 " bytes", s->bytes);
}

static void add_sites(tw_page *p, const tw_prof_memory_report *r) {
    static const char *const columns[] = {"operation", "does", "object", "memory", "times", "takes", "ways"};
    tw_page_table(p, "Operations: sectors of 32 bytes, and wavefronts of 32 banks", columns, 7);
    for (int i = 0; i < r->n_sites; i++) {
        const tw_prof_memory_site *s = &r->sites[i];
        char requests[CELL], cost[CELL], ways[CELL] = "", object[2 * CELL];
        snprintf(requests, CELL, "%" PRId64, s->requests);
        snprintf(object, sizeof object, "%.100s%s", s->object, s->mixed ? " and others" : "");
        spell_cost(cost, s);
        if (s->ways) snprintf(ways, CELL, "%d", s->ways);
        tw_page_row(p, (const char *const[]){s->place, tw_prof_memory_does(s), object, tw_prof_memory_space(s->space),
                                             requests, cost, ways});
    }
}

void tw_prof_memory_page(const tw_prof_memory_report *r, tw_page *p) {
    tw_page_section(p, "Memory",
                    "From the addresses of every access in the emulator. Global memory moves in sectors of 32 bytes. A "
                    "wavefront of shared memory takes a word of each of 32 banks; lanes that need more words of a bank "
                    "conflict.");
    if (!r->n_slots) {
        tw_page_text(p, "The kernel accesses no memory.");
        return;
    }
    add_density(p, r, 0, "Global memory over time");
    add_density(p, r, 1, "Shared memory over time");
    add_heat(p, r, TW_SPACE_global, "Heat of buffers");
    add_heat(p, r, TW_SPACE_shared, "Heat of shared objects");
    add_objects(p, r);
    add_sites(p, r);
}

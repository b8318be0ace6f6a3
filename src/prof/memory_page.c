/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/memory.h"

#include <inttypes.h>
#include <stdio.h>

enum { CELL = 64, OBJECTS = 8 /* Of each space that are drawn. */ };

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

/* Adds how often each part of the objects of a space is accessed. */
static void add_heat(tw_page *p, const tw_prof_memory_report *r, int space, const char *title) {
    int drawn = 0;
    tw_page_add_plot(p, &(tw_page_plot){.title = title,
                                        .note = "Bytes read and written in each part, over the part's size.",
                                        .x = "place in the object, %",
                                        .y = "times",
                                        .zero_y = true});
    for (int i = 0; i < r->n_objects && drawn < OBJECTS; i++) {
        const tw_prof_memory_object *o = &r->objects[i];
        const double part = (double)o->size / TW_PROF_MEMORY_PARTS;
        if (o->space != space || part < 1) continue;
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
        const double all = o->size ? (double)o->size : 1;
        snprintf(size, CELL, "%" PRId64, o->size);
        snprintf(read, CELL, "%.2f times", (double)o->read / all);
        snprintf(written, CELL, "%.2f times", (double)o->written / all);
        tw_page_row(
            p, (const char *const[]){o->name, o->space == TW_SPACE_global ? "global" : "shared", size, read, written});
    }
}

/* Spells what an operation moves, or takes, of what it needs at least. */
static void spell_waste(char out[CELL], const tw_prof_memory_site *s) {
    const bool global = s->space == TW_SPACE_global;
    const int64_t is = global ? s->sectors : s->wavefronts, least = global ? s->least_sectors : s->least_wavefronts;
    if (least)
        snprintf(out, CELL, "%.2f times, %" PRId64 " %s", (double)is / (double)least, is,
                 global ? "sectors" : "wavefronts");
    else
        snprintf(out, CELL, "%" PRId64 " bytes", s->bytes);
}

static void add_sites(tw_page *p, const tw_prof_memory_report *r) {
    static const char *const columns[] = {"operation", "object", "memory", "times", "moves, of the least", "ways"};
    tw_page_table(p, "Operations: sectors of 32 bytes, and wavefronts of 32 banks", columns, 6);
    for (int i = 0; i < r->n_sites; i++) {
        const tw_prof_memory_site *s = &r->sites[i];
        char requests[CELL], waste[CELL], ways[CELL] = "";
        snprintf(requests, CELL, "%" PRId64, s->requests);
        spell_waste(waste, s);
        if (s->ways) snprintf(ways, CELL, "%d", s->ways);
        tw_page_row(p, (const char *const[]){s->place, s->object, s->space == TW_SPACE_global ? "global" : "shared",
                                             requests, waste, ways});
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

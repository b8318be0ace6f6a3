/* SPDX-License-Identifier: Apache-2.0 */
/* How a kernel uses memory, from the addresses that the emulator saw: sectors of global memory, bank conflicts of
   shared memory, and how hot each tensor is, by operation and by object (KPerfIR, section 4.4).

   Global memory moves in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes: a wavefront takes one word of
   each, for any number of lanes. Lanes of more than 4 bytes are served in groups of 128 bytes: 16 lanes of 8 bytes, 8
   of 16. */
#ifndef TW_PROF_MEMORY_H
#define TW_PROF_MEMORY_H

#include "base/buf.h"
#include "emu/emu.h"
#include "report/page.h"

#include <jansson.h>

enum { TW_PROF_MEMORY_PARTS = 64, TW_PROF_MEMORY_SLOTS = 128, TW_PROF_MEMORY_PLACE = 160 };

/* An operation of the kernel in one space. */
typedef struct tw_prof_memory_site {
    char place[TW_PROF_MEMORY_PLACE]; /* As findings name it. */
    char *object;                     /* What it accesses. Owned. */
    bool mixed;                       /* It accesses other objects, too. */
    int space;
    bool read, write;
    bool engine;      /* The copy engine or tensor cores do. They have sectors, and no bank conflicts that
                         anybody documents. */
    int64_t requests; /* Operations of warps. */
    int64_t lanes;    /* Of lanes; of engines, rows or parts of them. */
    int64_t bytes;
    int64_t sectors;       /* Global: moved. */
    int64_t least_sectors; /* Global: as many as the bytes fill, bytes that several lanes access once. */
    int64_t wavefronts;    /* Shared, of lanes. */
    int64_t least_wavefronts;
    int ways; /* Shared, of lanes: the most wavefronts of a group of lanes. 1: no conflicts. */
} tw_prof_memory_site;

/* An allocation, or a shared object of all blocks. */
typedef struct tw_prof_memory_object {
    char *name; /* Owned. */
    int space;
    int64_t size;
    int64_t read, written;               /* Bytes. */
    int64_t parts[TW_PROF_MEMORY_PARTS]; /* Bytes read and written in each of so many equal parts. */
} tw_prof_memory_object;

/* Bytes in a slot of time. */
typedef struct tw_prof_memory_slot {
    int64_t read[2], written[2]; /* Global, shared. */
} tw_prof_memory_slot;

typedef struct tw_prof_memory_report {
    tw_prof_memory_site *sites; /* Global memory first; the most wasted sectors or wavefronts first in each space. */
    int n_sites;
    tw_prof_memory_object *objects; /* Global memory first; the most bytes first in each space. */
    int n_objects;
    tw_prof_memory_slot slots[TW_PROF_MEMORY_SLOTS];
    int n_slots;
    int64_t slot; /* Operations of warps in a slot. */
} tw_prof_memory_report;

/* Collects accesses. NULL: out of memory. The caller frees it. */
typedef struct tw_prof_memory tw_prof_memory;
tw_prof_memory *tw_prof_memory_new(void);
void tw_prof_memory_free(tw_prof_memory *m); /* NULL is fine. */
/* The observer of tw_emu_options, with a tw_prof_memory as its context. Launches add up, each after those before. The
   kernels live until the report is made. */
void tw_prof_memory_observe(void *memory, const tw_emu_access *a);
/* What was collected. The collector is empty afterwards. TW_ERR_MEMORY: memory ran out, now or while it collected. */
tw_status tw_prof_memory_finish(tw_prof_memory *m, tw_prof_memory_report *out, tw_diag *diag);
void tw_prof_memory_report_free(tw_prof_memory_report *r);

const char *tw_prof_memory_space(int space);                   /* Returns "global" or "shared". */
const char *tw_prof_memory_does(const tw_prof_memory_site *s); /* Returns "reads", "writes" or "reads and writes". */
double tw_prof_memory_times(int64_t n, int64_t of);            /* Returns n / of, or 0 if `of` is 0. */

/* The results as an object. NULL: out of memory. */
json_t *tw_prof_memory_json(const tw_prof_memory_report *r);
/* Appends the results as lines to read, of at most `rows` operations a space (0: all). False: out of memory. */
bool tw_prof_memory_lines(const tw_prof_memory_report *r, int rows, tw_buf *out);
/* Adds the section about memory accesses to a page. Plots show their density over time, and the heat of the hottest
   objects. Tables list all objects and operations. */
void tw_prof_memory_page(const tw_prof_memory_report *r, tw_page *p);

#endif

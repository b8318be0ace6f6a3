/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of steps that are dealt out in ranges. A step is any computation of many units that can be computed apart,
   such as a matrix product with a unit for each element. A table says which bytes a step's units read and write. A
   task is a range of a step's units, and workers run tasks in their order. Unlike the instructions of ops.def, steps
   have no names that the check knows: what it proves, it proves from the table. */
#ifndef TW_SCHEDULE_RANGES_RANGES_H
#define TW_SCHEDULE_RANGES_RANGES_H

#include "base/arena.h"
#include "base/json.h"
#include "schedule/access.h"
#include "tilewright/schedule.h"

enum { TW_RANGE_AXES = 5 /* The most axes along which a step's units lie. */ };

typedef enum tw_range_kind {
    TW_RANGE_CONSTANT, /* Defined before the first task, and never written: weights and inputs. */
    TW_RANGE_SCRATCH,  /* Lies in memory that scratch buffers share. */
    TW_RANGE_OUTPUT    /* Written whole. */
} tw_range_kind;

/* Rows of bytes, which follow each other in memory. */
typedef struct tw_range_buffer {
    const char *name;
    tw_range_kind kind;
    int64_t rows, bytes; /* Number of rows, and bytes of each. */
    int64_t offset;      /* Scratch: bytes from the beginning of the shared memory. Otherwise 0. */
} tw_range_buffer;

/* The rows, or the bytes of a row, that the units of a step access. Unit (i, j, ...) has [f, f + extent), where f is
   first + step[0] * i + step[1] * j + ... */
typedef struct tw_range_span {
    int64_t first, extent;
    int64_t step[TW_RANGE_AXES];
} tw_range_span;

typedef struct tw_range_access {
    int buffer;
    bool write;
    tw_range_span rows, bytes;
} tw_range_access;

typedef struct tw_range_step {
    const char *name; /* No two steps have the same. */
    int n_axes;
    int64_t units[TW_RANGE_AXES]; /* Extents of the axes. 1 beyond n_axes. */
    tw_range_access *accesses;
    int n_accesses;
} tw_range_step;

/* Units from[a] to to[a] - 1 of each axis a. */
typedef struct tw_range_task {
    int step;
    int64_t from[TW_RANGE_AXES], to[TW_RANGE_AXES];
    tw_wait *waits;
    int n_waits;
    int arrive; /* Number of the counter that the task arrives at. -1: none. */
} tw_range_task;

typedef struct tw_range_worker {
    tw_range_task *list;
    int count;
} tw_range_worker;

typedef struct tw_ranges {
    tw_arena arena;
    int64_t scratch; /* Bytes of the memory that scratch buffers share. */
    tw_range_buffer *buffers;
    int n_buffers;
    tw_range_step *steps;
    int n_steps;
    const char **counters; /* Their names. */
    int n_counters;
    tw_range_worker *workers;
    int n_workers;
} tw_ranges;

/* build.c. Failures stick in the arena. Functions that add return what they added, which is valid until the next is
   added there, or its number. NULL or -1: out of memory. */
tw_ranges *tw_ranges_new(int workers);
void tw_ranges_free(tw_ranges *r); /* NULL is fine. */
int tw_ranges_add_buffer(tw_ranges *r, const tw_range_buffer *b);
tw_range_step *tw_ranges_add_step(tw_ranges *r, const char *name, int n_axes, const int64_t *units);
tw_range_access *tw_ranges_add_access(tw_ranges *r, tw_range_step *s, int buffer, bool write);
int tw_ranges_add_counter(tw_ranges *r, const char *name);
tw_range_task *tw_ranges_add_task(tw_ranges *r, int worker, int step); /* Of all units of the step. */
void tw_ranges_add_wait(tw_ranges *r, tw_range_task *t, int counter, int64_t threshold);

/* effects.c. Appends the boxes that a task accesses, which are exact: a box has no byte that no unit has. Numbers and
   units of the task are in range. TW_ERR_FORMAT: there are too many boxes. */
tw_status tw_ranges_effects(const tw_ranges *r, const tw_range_task *t, tw_access_list *list, tw_diag *diag);

/* json.c */
bool tw_ranges_recognise(const json_t *root);
tw_status tw_ranges_from_json(tw_ranges **out, const json_t *root, const char *path, tw_diag *diag);
bool tw_ranges_print(const tw_ranges *r, tw_buf *out); /* As JSON. False: no memory. */
tw_status tw_ranges_write(const tw_ranges *r, const char *path, tw_diag *diag);

/* check.c. Adds every finding to a report that was started. TW_OK or TW_ERR_MEMORY: findings are not an error. */
tw_status tw_ranges_check(const tw_ranges *r, tw_report *report);
/* As tw_schedule_dot. */
tw_status tw_ranges_dot(const tw_ranges *r, const tw_report *report, const char *path, tw_diag *diag);
void tw_ranges_describe(const tw_ranges *r, tw_schedule_info *info);

#endif

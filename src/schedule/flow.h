/* SPDX-License-Identifier: Apache-2.0 */
/* What the check proves something about: a program without ops. Workers run their tasks in order; a task waits for
   counters, touches boxes of buffers, and arrives at a counter. Every format of schedule is turned into one. */
#ifndef TW_SCHEDULE_FLOW_H
#define TW_SCHEDULE_FLOW_H

#include "schedule/access.h"
#include "schedule/report.h"

typedef enum tw_flow_kind {
    TW_FLOW_CONSTANT, /* defined from the start and never written: its accesses are not looked at */
    TW_FLOW_FRESH,    /* defined by this step's writes alone */
    TW_FLOW_OUTPUT,   /* the same, and written whole by the end of the step */
    TW_FLOW_CACHE     /* rows (dimension 1) count from the step's position; those below 0 are defined at its start */
} tw_flow_kind;

typedef struct tw_flow_buffer {
    const char *name;
    tw_flow_kind kind;
    int64_t extent[3]; /* of an output: what "whole" is */
    /* Bytes of memory that buffers share. A buffer has its bytes from its first access in a step to its last. 0, 0: it
       shares none. */
    int64_t at, below;
} tw_flow_buffer;

typedef struct tw_flow_task {
    int first_access, n_accesses, first_wait, n_waits;
    int arrive; /* counter; -1: none */
} tw_flow_task;

typedef struct tw_flow {
    tw_flow_buffer *buffers;
    int n_buffers;
    int n_workers;
    int *first; /* [n_workers + 1]: worker w's tasks are first[w] .. first[w + 1] - 1, in its order */
    tw_flow_task *tasks;
    tw_access *accesses; /* within their buffers, not empty */
    int n_accesses;
    tw_wait *waits; /* counters in range */
    int n_counters;
    bool repeats; /* the next step follows without a barrier, and counters go on; else a barrier and zeroed counters */
    int last;     /* when it repeats: the task that ends a step, which all others come before */
    /* For findings: "workers[2][17] ffn" into `out`; the counter's name. */
    void (*name_task)(const void *context, int task, char out[96]);
    const char *(*name_counter)(const void *context, int counter);
    const void *context;
} tw_flow;

/* Adds every reason why some interleaving would deadlock, race, read what is not defined, or leave bytes uncovered.
   TW_OK or TW_ERR_MEMORY: findings are not an error. */
tw_status tw_flow_check(const tw_flow *f, tw_report *report);

#endif

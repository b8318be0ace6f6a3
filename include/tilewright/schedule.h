/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: a model as one program for a fixed set of workers, joined only by monotonic counters; lowered from a
   model, written and read as JSON, and proved safe before anything runs them. */
#ifndef TILEWRIGHT_SCHEDULE_H
#define TILEWRIGHT_SCHEDULE_H

#include "tilewright/model.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_schedule tw_schedule;

/* How a model is lowered. Zero means "choose". */
typedef struct tw_lowering {
    int workers;        /* at least 1 */
    int64_t tokens;     /* positions a step handles at most; 1: decode */
    int64_t max_seq;    /* rows of the key/value cache; 0: what the model was made for */
    int64_t sequences;  /* that decode together, one position of each a step: tokens is then this or 0, and every
                           sequence has logits; 0: 1 */
    bool all_logits;    /* logits of every position, not the last alone */
    tw_dtype weights;   /* TW_I8, TW_I4: quantise the matrices; TW_F32 (0): as stored */
    int group;          /* columns a scale; 0: a row (int8), 64 (int4) */
    int64_t row_unit;   /* rows are dealt out in multiples of this; 0: 16 */
    int64_t kv_splits;  /* parts of the key/value range that attention is split in; 0: enough to busy every worker */
    int64_t row_blocks; /* blocks of positions that prefill's attention is split in; 0: likewise; of several sequences:
                           one for each */
    tw_dtype kv;        /* of the key/value cache: TW_F32 (0), TW_BF16 or TW_F16 */
    bool exact_kv;      /* kv is asked for: a machine that would rather have another type in place of TW_F32 may not */
    bool group_heads;   /* an attend instruction is for all query heads of one key/value head: there are n_kv_heads *
                           kv_splits * row_blocks of them. 0 then means as many splits as make every worker at most one
                           instruction (at least 1), in prefill too, and 1 block a sequence */
} tw_lowering;

/* How instructions of a GPU's machine learn that what they read is there. */
typedef enum tw_edges {
    TW_EDGES_AUTO,
    TW_EDGES_COUNTERS, /* they wait for the schedule's counters */
    TW_EDGES_DATA /* every element of the residual stream and of an ffn's carries the number of its writing in its last
                     bits, and readers look at those: nobody waits for the memory to answer that it is written; programs
                     of one position, as tw_schedule_lower makes them; those of several, and attention, have counters */
} tw_edges;

/* How a GPU's machine is built; 0 means "choose". Every value either gives a machine that runs right, or is refused. */
typedef struct tw_machine_tuning {
    int warps;      /* that multiply, of a block */
    int blocks;     /* of 512 bytes that each of them takes of a stage */
    int stages;     /* of the ring; 0: as many as fit */
    int window;     /* of them that may be on their way at once */
    int edges;      /* tw_edges */
    int spin_limit; /* looks at an edge before the machine gives up; 0: seconds' worth */
} tw_machine_tuning;

/* Every choice: what a search or a person edits. */
typedef struct tw_schedule_config {
    tw_lowering lowering;
    tw_machine_tuning machine; /* of no account on a processor */
} tw_schedule_config;

/* Sets the fields that the JSON object in this file names, the machine's in an object "machine" within; the others
   stay. An unknown field, or a value that a field cannot have, is an error that names it, and nothing is set. Writing
   names every field. The schema is JSON Schema 2020-12. "-": standard output. */
tw_status tw_schedule_config_read(tw_schedule_config *c, const char *path, tw_diag *diag);
tw_status tw_schedule_config_write(const tw_schedule_config *c, const char *path, tw_diag *diag);
tw_status tw_schedule_config_schema(const char *path, tw_diag *diag);

/* The caller frees the schedule; it keeps nothing of the model. */
tw_status tw_schedule_lower(tw_schedule **out, const tw_model *model, const tw_lowering *l, tw_diag *diag);
tw_status tw_schedule_read(tw_schedule **out, const char *path, tw_diag *diag);     /* JSON; "-": standard input */
tw_status tw_schedule_write(const tw_schedule *s, const char *path, tw_diag *diag); /* JSON; "-": standard output */
void tw_schedule_free(tw_schedule *s);

typedef struct tw_schedule_info {
    int workers, counters, buffers;
    int64_t instructions, tokens, max_seq, sequences;
} tw_schedule_info;
void tw_schedule_describe(const tw_schedule *s, tw_schedule_info *info);

/* One thing the check found wrong. Texts are owned by the report. */
typedef struct tw_finding {
    const char *rule;  /* "race", "undefined read", "bounds", "deadlock", ... */
    const char *where; /* "workers[1][7] attend", or a buffer or counter */
    const char *text;  /* what is wrong, with bytes and the other party */
    const char *how;   /* of a race: what is ordered and what is not, and a shortest run that shows it; or NULL */
} tw_finding;

typedef struct tw_report {
    tw_finding *findings;
    size_t count;
    bool cut; /* more were found than are listed */
    struct tw_arena *memory;
} tw_report;

/* A schedule that the check accepted, and the only thing a machine will run. Holds the schedule as it was checked. */
typedef struct tw_checked tw_checked;

/* Proves, for every interleaving: every reference, shape and bound; no write to what is read-only; every byte read was
   written before, and all that one access reads equally often; no unordered conflicting accesses within a step or from
   one step to the next; no deadlock; counters that start at zero and whose thresholds exactly the named producers meet.
   TW_OK: *out is the accepted schedule, and the caller's `s` belongs to it (and is set to NULL). TW_ERR_REJECTED:
   *report says why; `s` stays with the caller. `report` may be NULL; tw_report_free it otherwise. */
tw_status tw_schedule_check(tw_checked **out, tw_schedule **s, tw_report *report, tw_diag *diag);
void tw_report_free(tw_report *r);

/* Writes a Graphviz graph of who waits for whom, with what `report` (or NULL) found marked. TW_ERR_REJECTED when
   references or shapes are broken: there is nothing to draw then. */
tw_status tw_schedule_dot(const tw_schedule *s, const tw_report *report, const char *path, tw_diag *diag);
void tw_checked_free(tw_checked *c);
const tw_schedule *tw_checked_schedule(const tw_checked *c);

/* Files that the check reads: ours, and those of AutoMegaKernel's IR 0.2, which nothing here runs. */
typedef enum tw_schedule_format {
    TW_SCHEDULE_AUTO, /* recognised by its fields */
    TW_SCHEDULE_TILEWRIGHT,
    TW_SCHEDULE_AMK
} tw_schedule_format;

/* A schedule to be checked, whichever its format. */
typedef struct tw_schedule_file tw_schedule_file;

tw_status tw_schedule_file_read(tw_schedule_file **out, const char *path, tw_schedule_format format,
                                tw_diag *diag); /* "-": standard input */

/* Which format it is, never auto. Of AMK's, instructions are tasks, and workers the SMs that tasks are bound to (0: any
   may run any). */
tw_schedule_format tw_schedule_file_describe(const tw_schedule_file *f, tw_schedule_info *info);

/* As tw_schedule_check and tw_schedule_dot. tw_report_free the report in every case. */
tw_status tw_schedule_file_check(tw_schedule_file *f, tw_report *report, tw_diag *diag);
tw_status tw_schedule_file_dot(tw_schedule_file *f, const tw_report *report, const char *path, tw_diag *diag);
void tw_schedule_file_free(tw_schedule_file *f);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

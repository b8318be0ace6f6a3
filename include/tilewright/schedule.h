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

/* Where queries and keys are normed, if each head has a norm of at most 128 elements. Larger norms have `turn`. */
typedef enum tw_head_norms {
    /* For a GPU as TW_HEAD_NORMS_ATTEND, if whole heads gave a worker many more bytes of q, k and v. Else by qkv. */
    TW_HEAD_NORMS_AUTO,
    TW_HEAD_NORMS_QKV,   /* By qkv, of which each worker has whole heads. */
    TW_HEAD_NORMS_TURN,  /* By instructions of their own, so that q, k and v are dealt out evenly. */
    TW_HEAD_NORMS_ATTEND /* By a GPU's attention if a step has one position. Else by instructions of their own. */
} tw_head_norms;

/* How a model is lowered. Zero means "choose". */
typedef struct tw_lowering {
    int workers;       /* Workers that the program is for, at least 1. */
    int64_t tokens;    /* The most positions of a step. 1: decode. 0: 1, or one of each sequence. */
    int64_t max_seq;   /* Positions of the key/value cache. 0: those that the model was made for. */
    int64_t sequences; /* Sequences that decode together. Several: a step has one position and logits of each. 0: 1. */
    bool all_logits;   /* Logits of every position. False: of the last position of a step. */
    tw_dtype weights;  /* Type of the matrices. TW_I8, TW_I4: they are quantised. TW_F32 (0): as stored. */
    int group;         /* Columns of a quantised matrix that share a scale. 0: a row (int8) or 64 (int4). */
    int64_t row_unit;  /* Rows of a matrix are dealt out in multiples of this even number. 0: 16. */
    /* Parts of the key/value range that attention is split into. 0: enough to busy every worker when decoding, and 1 in
       prefill. With group_heads or several sequences, 0: as many as give no worker a second instruction, at least 1. */
    int64_t kv_splits;
    /* Blocks of positions that attention is split into. 0: one per sequence. In prefill without group_heads, 0: enough
       to busy every worker. */
    int64_t row_blocks;
    /* Only for steps of several positions. Equal parts that the columns of the feed-forward layer's second product are
       split into: workers compute sums of one part, and then add up the parts. 0: what the machine chooses, else 1. */
    int64_t down_splits;
    tw_dtype kv;      /* Element type of the key/value cache: TW_F32 (0), TW_BF16 or TW_F16. */
    bool exact_kv;    /* `kv` must be this type. False: a machine may choose another one in place of TW_F32. */
    bool group_heads; /* An attend instruction takes exactly the query heads of one key/value head. */
    int head_norms;   /* tw_head_norms. */
} tw_lowering;

/* How instructions of a GPU's machine learn that what they read is there. */
typedef enum tw_edges {
    TW_EDGES_AUTO,     /* The machine chooses. */
    TW_EDGES_COUNTERS, /* Readers wait for the schedule's counters. */
    /* Elements of the residual stream and of the ffn's activations have the number of their write in their last bits.
       Readers look at these bits, so no writer waits until memory answers. Only programs of one position, as
       tw_schedule_lower makes them. Attention, and programs of several positions, wait for counters. */
    TW_EDGES_DATA
} tw_edges;

/* How a GPU's machine is built; 0 means "choose". Every value either gives a machine that runs right, or is refused. */
typedef struct tw_machine_tuning {
    int warps;  /* Warps of a block that multiply. */
    int blocks; /* Pieces of 512 bytes of a stage that each warp takes. */
    int stages; /* Stages in the ring. 0: as many as fit in shared memory. */
    int window; /* The most stages in flight from memory to the ring. */
    /* The most stages in flight if the next stage's instruction still waits for its activations. Stages in flight delay
       those activations. At most `window`. */
    int ahead;
    int edges;      /* tw_edges. */
    int spin_limit; /* Looks at an edge before the machine gives up. 0: as many as take some seconds. */
} tw_machine_tuning;

/* How a GPU runs prompts. */
typedef enum tw_prompts {
    TW_PROMPTS_AUTO,     /* Long ones by kernels for all positions at once, where these cover model and GPU. */
    TW_PROMPTS_STEPS,    /* By steps of the machine that decodes, up to 8 positions each. */
    TW_PROMPTS_UNPACKED, /* As auto, but a kernel unpacks each matrix before its product, which could read tapes. */
    TW_PROMPTS_APART     /* As auto, but norms and rope are kernels of their own, which products could do. */
} tw_prompts;

enum { TW_PROMPT_PARTS = 8 /* The most parts of a prompt's product. */ };

/* Every choice: what a search or a person edits. */
typedef struct tw_schedule_config {
    tw_lowering lowering;
    tw_machine_tuning machine; /* A processor ignores it. */
    int prompts;               /* tw_prompts. A processor ignores it. */
    /* Of short prompts on a GPU: parts along the columns of attention's second product and of the feed-forward layer's,
       which the norm behind each adds up. 1: none. 0: choose. A processor ignores them. */
    int prompt_o_parts, prompt_down_parts;
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

/* Files that the check reads: programs of decoders, steps of any graph that are dealt out in ranges, and schedules of
   AutoMegaKernel's IR 0.2, which nothing here runs. */
typedef enum tw_schedule_format {
    TW_SCHEDULE_AUTO, /* recognised by its fields */
    TW_SCHEDULE_TILEWRIGHT,
    TW_SCHEDULE_RANGES,
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

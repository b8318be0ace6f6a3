/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence that a GPU's machine decodes rightly where it is timed: every sequence is given contents of its own up to a
   context, one launch of several greedy tokens follows, and a reference that is fed the same tokens says what each of
   them, and the logits of the last, should have been. */
#ifndef TW_BENCH_DECODE_EVIDENCE_H
#define TW_BENCH_DECODE_EVIDENCE_H

#include "decode_programs.h"

#include <stdbool.h>

enum { EVIDENCE_CONTEXTS = 16, EVIDENCE_STEPS = 64 };

/* Of the largest logit. A reference whose keys and values are floats differs by their rounding to 16 bits: 0.004 at
   most was seen; one that rounds them too, by a tenth of that. */
#define EVIDENCE_TOLERANCE 0.01

/* What the answers at one context are worth, of all sequences together. */
typedef struct evidence_verdict {
    int64_t context; /* positions that the launch's first token sees, its own included */
    double worst;    /* the largest difference of a logit, over the largest logit; NaN: one is no number */
    int64_t equal;   /* greedy tokens that are the reference's */
    int64_t close;   /* that are not, but whose logit there is within twice the tolerance of the largest */
    int64_t wrong;
    int64_t judged, expected; /* tokens */
} evidence_verdict;

typedef struct evidence evidence;

/* `contexts`: ascending; one that leaves no room for `steps` tokens stands for the cache's end. They are to be `steps`
   apart. The machine must outlive the evidence. */
tw_status evidence_new(evidence **out, decode_machine *m, const int64_t *contexts, int n, int steps, tw_diag *d);
void evidence_free(evidence *e); /* NULL is fine */

/* Runs the machine. */
tw_status evidence_collect(evidence *e, tw_diag *d);

/* Contents for every sequence up to where launches with this context begin: what is timed reads nothing that was never
   written. After it the answers stand as they are, and no more are collected. */
tw_status evidence_fill(evidence *e, int64_t context, tw_diag *d);

/* For tests: makes the answer at a context wrong, in a logit or in a token. */
typedef enum evidence_spoil { EVIDENCE_SOUND, EVIDENCE_LOGIT, EVIDENCE_NAN, EVIDENCE_TOKEN } evidence_spoil;
void evidence_spoil_at(evidence *e, int64_t context, evidence_spoil how);

/* What a reference elsewhere must know, as JSON: the shape, how every weight is made, what each sequence was fed and
   where its launches began. It answers with the logits of every position of every launch, as floats: sequence by
   sequence, launch by launch, position by position. `path` is of that file. */
tw_status evidence_write(const evidence *e, const char *path, tw_diag *d);
tw_status evidence_judge_file(evidence *e, const char *path, tw_diag *d);

/* The processor's machine as the reference, its keys and values floats; or its logits in a file as above. */
tw_status evidence_judge_cpu(evidence *e, tw_diag *d);
tw_status evidence_answer_cpu(evidence *e, const char *path, tw_diag *d);

int evidence_count(const evidence *e);
const evidence_verdict *evidence_at(const evidence *e, int i);
/* Of the launch that a context is timed with; NULL: none was made there. */
const evidence_verdict *evidence_find(const evidence *e, int64_t context);

/* Whether it was judged, and nothing is wrong. */
bool evidence_holds(const evidence_verdict *v);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's machine for prompts. It runs a checked schedule of one worker as a list of kernels, one after another: norms,
   products, rope and attention of all positions of a step at once. It reads the weights of a decode program's tapes,
   and appends to the same key/value cache, so that the decode program goes on after it. */
#ifndef TW_VM_PREFILL_PREFILL_H
#define TW_VM_PREFILL_PREFILL_H

#include "vm/cuda/vm.h"

typedef struct tw_prefill tw_prefill;

typedef struct tw_prefill_options {
    bool unpack; /* Unpack every matrix before its product. False: products read the tapes if they can. */
    bool apart;  /* Norms and rope are launches of their own. False: products do what they can of them. */
    /* Parts along k of attention's second product and of an ffn's, which the norm behind each adds up, in steps of few
       positions. 1: none. 0: chosen by estimates. */
    int o_parts, down_parts;
    /* From so many positions on, products are of exactly the step's rows, which they read from memory. Below, they have
       a fixed number of rows, a few more than the step, and more ways to be computed. 0: all have. */
    int64_t masked;
    /* A checked schedule of one worker and a position of each of many sequences. Steps of many sequences have the same
       instructions, with any rows of them. NULL: steps are of a single one. The schedule must outlive the result. */
    const tw_checked *many;
    int64_t rows; /* With `many`: the most rows of a step. */
} tw_prefill_options;

/* Returns true if the kernels cover the model on this machine. tw_prefill_open may still refuse a schedule. */
bool tw_prefill_covers(const tw_cuda_vm *vm);

/* Makes kernels and launches for a checked schedule of one worker and one sequence, whose attention is in one part.
   `decode` is the number of a loaded program with the same model and weights. Its caches may be of several sequences.
   The machine `vm` and `program` must outlive the result. TW_ERR_UNSUPPORTED: the schedule is not covered.
   TW_ERR_MEMORY: there is no memory for it. The caller closes it before the machine. */
tw_status tw_prefill_open(tw_prefill **out, tw_cuda_vm *vm, int decode, const tw_checked *program,
                          const tw_prefill_options *options, tw_diag *diag);
void tw_prefill_close(tw_prefill *p); /* NULL is fine. */

/* Makes what a run of n positions from `pos` on with `ends` needs, which tw_prefill_run otherwise does at their first.
   Errors are those of tw_prefill_open. */
tw_status tw_prefill_warm(tw_prefill *p, int64_t n, int64_t pos, tw_diag *diag);

/* Chooses anew how the products of later steps are computed. `artefact` names a file of tilewright/select.h. NULL: the
   file that $TILEWRIGHT_SELECT names, or those of the user's cache folder, which products of tapes ignore. "": no file.
   Products that no file decides are decided by tiles that were measured, or by estimates. A file that is missing,
   damaged or of another architecture is no error. */
tw_status tw_prefill_choose(tw_prefill *p, const char *artefact, tw_diag *diag);

/* Runs step->n positions of a sequence of the decode program from step->pos on, as many of the schedule's steps as that
   takes, and waits for their end. step->program is not read. With `ends` the run has the last position's token and,
   unless step->no_logits, logits: vocab floats, owned by the program and valid until it runs again. Without, it has
   neither, and saves the time. */
tw_status tw_prefill_run(tw_prefill *p, int64_t sequence, tw_vm_step *step, bool ends, tw_diag *diag);

/* ---- many sequences, with tw_prefill_options.many */

/* Positions of a sequence that are rows of a step. */
typedef struct tw_prefill_part {
    int64_t sequence, pos, n; /* Positions pos to pos + n - 1 of the sequence. */
    const int32_t *tokens;    /* [n]. NULL: n is 1, and the token is the last one that was found for the sequence. */
    const tw_sample_rules *rules; /* How the token after the last position is drawn. NULL: it is not wanted. */
} tw_prefill_part;

/* Begins a step of parts of different sequences, in ascending order. It may begin while one other is under way, whose
   tokens it then uses. Rules may change afterwards, and tokens, too. The machine's counts (tw_cuda_vm_count) count. */
tw_status tw_prefill_begin(tw_prefill *p, const tw_prefill_part *parts, int n, tw_diag *diag);
/* Waits for the end of the step that was begun first, and gets its tokens: one of each part that has rules. */
tw_status tw_prefill_end(tw_prefill *p, int32_t *tokens, tw_diag *diag);

/* Writes a line for each kernel, with its problem and its configuration. `out` is always terminated. */
void tw_prefill_explain(const tw_prefill *p, char *out, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the launches of a list are made with. */
#ifndef TW_VM_PREFILL_BUILDER_H
#define TW_VM_PREFILL_BUILDER_H

#include "vm/prefill/program.h"

/* What is left to do of the residual stream's rows, by whoever reads them next. */
typedef struct tw_prefill_stream {
    /* Number of vectors of sums of squares of the rows, beside which `normed` has the rows times the next norm's
       weights. 0: the rows are to be normed by a kernel. */
    int64_t sums;
    int parts; /* Number of parts of a product that this kernel adds to the rows first. 0: there are none. */
} tw_prefill_stream;

/* What builds a list. */
typedef struct tw_prefill_builder {
    tw_prefill *p;
    tw_prefill_list *list;
    const tw_prefill_list *rows;     /* Has as many rows as launches: `list`, or one of as many as it has ends. */
    const tw_prefill_memory *memory; /* The program's, or a copy with a tail's step, x and q. */
    tw_prefill_stream *x;            /* Of the list so far. */
} tw_prefill_builder;

/* A buffer's name and address. Name NULL ends a list. */
typedef struct tw_prefill_binding {
    const char *name;
    uint64_t address;
} tw_prefill_binding;

/* A product of rows and a matrix. */
typedef struct tw_prefill_product {
    uint64_t a, c;        /* Addresses of the rows, and of the result. */
    uint64_t bias;        /* 0: there is none. */
    uint64_t gains;       /* Address of the next norm's weights, for which the product readies x. 0: it does not. */
    bool divides;         /* Rows lack the division by the roots of their means of squares. */
    const char *epilogue; /* Words. */
    const tw_prefill_matrix *matrix; /* NULL: the instruction's. */
    /* The work of the kind "rope" that the product does, too, and its buffers. NULL: it does none. */
    const tw_prefill_shape *rope;
    const tw_prefill_binding *roped;
} tw_prefill_product;

/* Makes a shape with what all kinds use. Its padding is zero. */
void tw_prefill_shape_of(const tw_prefill_builder *o, int64_t columns, tw_prefill_shape *out);

/* Returns the address of a weight or cache of the decode program. 0: there is none. */
uint64_t tw_prefill_shared(const tw_prefill *p, int buffer);

/* Returns the matrix of an instruction. */
const tw_prefill_matrix *tw_prefill_matrix_of(const tw_prefill *p, const tw_instr *in);

/* Adds a launch of a kind of kernel. `to` has its buffers. */
tw_status tw_prefill_add_kind(const tw_prefill_builder *o, const tw_prefill_kind *kind, const tw_prefill_shape *shape,
                              const tw_prefill_binding *to, tw_diag *diag);

/* Adds a launch of a kernel that is open. `to` has its buffers, beside its workspace and counters. */
tw_status tw_prefill_add_launch(const tw_prefill_builder *o, const tw_prefill_kernel *k, const tw_prefill_binding *to,
                                tw_diag *diag);

/* Adds a product, and before it what unpacks its matrix if no product reads such tapes. */
tw_status tw_prefill_add_product(const tw_prefill_builder *o, const tw_instr *in, const tw_prefill_product *of,
                                 tw_diag *diag);

/* Closes the list's launches from number n on. */
void tw_prefill_drop_launches(tw_prefill_list *list, int n);

/* ends.c. Adds the launches that find a step's new tokens: a norm, the head's product, and the draw. */
tw_status tw_prefill_add_ends(const tw_prefill_builder *o, tw_diag *diag);
/* ends.c. Adds the launches that find the logits and the token of a prompt's last position. */
tw_status tw_prefill_add_end(const tw_prefill_builder *o, tw_diag *diag);

#endif

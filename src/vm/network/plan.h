/* SPDX-License-Identifier: Apache-2.0 */
/* How products and attention are computed: what a search has found, to be kept with a model. */
#ifndef TW_VM_NETWORK_PLAN_H
#define TW_VM_NETWORK_PLAN_H

#include "base/arena.h"
#include "base/buf.h"
#include "tilewright/base.h"

typedef struct tw_network_choice {
    const char *kind;          /* "gemm", "attention": our kernels. "cublaslt", "cudnn": the vendor's. */
    const char *problem;       /* Words of the problem as it is searched. */
    const char *configuration; /* Words of the configuration, or numbers of the vendor's algorithm or engine. */
    double us;                 /* As measured alone, with what computes the problem's epilogue. */
    bool settled;              /* Whole passes were fastest with it. At most one choice of a problem is settled. */
} tw_network_choice;

/* Where the seconds of searches went. */
typedef struct tw_network_costs {
    double draw;    /* Drawing configurations, and estimating them. */
    double refer;   /* Making operands and right results. */
    double wait;    /* Waiting for kernels to be compiled. */
    double load;    /* Loading kernels. */
    double check;   /* Comparing results. */
    double time;    /* Timing our kernels. */
    double again;   /* Timing the fastest again. */
    double vendor;  /* Making, checking and timing what is the vendor's. */
    double settle;  /* Comparing whole passes. */
    double threads; /* Compiling, of all threads together. It is no part of the sum. */
} tw_network_costs;

/* What settling came to, of all programs together. */
typedef struct tw_network_settled {
    int problems;         /* Problems with more than one promising choice. */
    int changed;          /* Those that are computed otherwise than the times alone would have it. */
    int tried;            /* Choices that whole passes were timed with. */
    double before, after; /* Microseconds of a pass, as if the clock had not drifted between the two. */
} tw_network_settled;

/* Choices of a problem follow one another, those of our kernels the fastest first. Starts from {0}. */
typedef struct tw_network_plan {
    tw_arena arena;
    tw_network_choice *choices;
    int n, room;
    double seconds; /* That searches took. */
    int searched;   /* Problems that were searched. */
    int measured;   /* Configurations that were measured. */
    int cut;        /* Problems whose search a limit ended early, or left out. */
    tw_network_costs costs;
    tw_network_settled settled;
} tw_network_plan;

void tw_network_plan_free(tw_network_plan *p);
/* Adds a choice, whose texts are copied. TW_ERR_MEMORY. */
tw_status tw_network_plan_add(tw_network_plan *p, const tw_network_choice *c, tw_diag *diag);
/* Finds the next choice for a problem from number `from` on. -1: there is none. */
int tw_network_plan_find(const tw_network_plan *p, const char *problem, int from);

/* Settles a choice, and none beside it of its problem. settle < 0: no choice of the problem is settled. */
void tw_network_plan_settle(tw_network_plan *p, const char *problem, int settle);

/* Writes a line that says what searches cost. Nothing if there were none. */
tw_status tw_network_plan_explain(const tw_network_plan *p, tw_buf *out, tw_diag *diag);

/* Writes it as lines of text, and reads them. A sign + in front of the microseconds says that a choice is settled.
   TW_ERR_FORMAT: they are none. */
tw_status tw_network_plan_write(const tw_network_plan *p, tw_buf *out, tw_diag *diag);
tw_status tw_network_plan_read(tw_network_plan *p, const char *text, size_t size, tw_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a kernel's configuration for a problem, at run time, from an artefact: a file that a tuner compiled from its
   measurements. A problem is a vector of axes (m, n and k of a product, say). A configuration is a macro choice (tiles)
   and a micro choice (stages, order) within it. The model is WaveTune's (arXiv 2604.10187): a macro choice makes G
   blocks of L rounds, the device runs `slots` blocks at once, and each of the ceil(G / slots) waves has a fit of its
   own.

   Threads. A selector may be used by any number of threads at once. Deciding allocates nothing, takes no lock and makes
   no system call. */
#ifndef TILEWRIGHT_SELECT_H
#define TILEWRIGHT_SELECT_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define TW_SELECT_AXES 6         /* The most axes of a problem. */
#define TW_SELECT_MOST (1 << 24) /* The largest value of an axis. The smallest is 1. */

/* ---- artefacts ---- */

typedef struct tw_selector tw_selector;

/* Maps the artefact `path` and checks all of it, so that nothing can go wrong later.
   TW_ERR_FORMAT: it is no artefact, or damaged; the diagnostic has the path and, where it helps, a byte offset.
   TW_ERR_UNSUPPORTED: it is of a later version, or of a machine of the other byte order. TW_ERR_IO. TW_ERR_MEMORY.
   The file must not change while it is open; writing a new one in its place by renaming is fine. The caller closes the
   selector. */
tw_status tw_selector_open(tw_selector **out, const char *path, tw_diag *diag);
void tw_selector_close(tw_selector *s); /* NULL is fine. */

/* What an artefact is of. The texts belong to the selector. */
typedef struct tw_selector_info {
    const char *kernel;               /* "gemm-cpu" */
    const char *unit;                 /* The unit of times, "us". */
    const char *axes[TW_SELECT_AXES]; /* Names of the axes, "m". NULL after the last. */
    int n_axes;                       /* Number of axes. */
    const char *device;               /* Everything that names the device but its driver. */
    const char *alike;                /* What devices of one kind share: architecture, cores, cache size. */
    const char *architecture;         /* The architecture alone. */
    const char *about;                /* Where it comes from: a text of JSON, which is not looked into here. */
    int macros;                       /* Number of macro choices. */
    int exact;                        /* Number of problems whose measured best is listed. */
    size_t bytes;                     /* Size of the file. */
} tw_selector_info;
void tw_selector_describe(const tw_selector *s, tw_selector_info *info);

/* How near a device is to the one that an artefact was measured on. */
typedef enum tw_select_match {
    TW_SELECT_SAME,         /* It is that device. */
    TW_SELECT_ALIKE,        /* It is one of the same kind. Choices are a prior. */
    TW_SELECT_ARCHITECTURE, /* It has the same architecture. Choices are a prior. */
    TW_SELECT_OTHER         /* It is another device. Choices are a guess. */
} tw_select_match;
tw_select_match tw_selector_match(const tw_selector *s, const char *device, const char *alike,
                                  const char *architecture);
const char *tw_select_match_name(tw_select_match m); /* "same", "alike", "architecture", "other" */

/* ---- deciding ---- */

/* What may not be chosen. */
enum {
    TW_SELECT_DETERMINISTIC = 1, /* No macro choice that sums atomically, in any order. */
    TW_SELECT_NO_WORKSPACE = 2,  /* No macro choice that needs workspace. */
    TW_SELECT_OWN_ONLY = 4,      /* No macro choice of a vendor's library. */
    TW_SELECT_VENDOR_ONLY = 8    /* Only macro choices of a vendor's library. */
};

typedef enum tw_select_source {
    TW_SELECT_NONE,    /* Nothing can be chosen. */
    TW_SELECT_DEFAULT, /* The artefact's default, because the model has no prediction. */
    TW_SELECT_MODEL,   /* The least predicted time. */
    TW_SELECT_EXACT    /* The least measured time: the problem is listed in the artefact. */
} tw_select_source;
const char *tw_select_source_name(tw_select_source s); /* "none", "default", "model", "exact" */

typedef struct tw_selection {
    tw_select_source source;
    int macro;          /* Index of the macro choice. -1: nothing can be chosen. */
    int micro;          /* Index of the micro choice within the macro choice. -1: nothing can be chosen. */
    const char *config; /* The configuration in words. Owned by the selector. NULL: nothing can be chosen. */
    double time;        /* The predicted or measured time in the artefact's unit. 0: unknown. */
    double low, high;   /* The interval that holds 9 of 10 times, as far as samples tell. 0: unknown. */
    bool remembered;    /* The answer was found in the selector's cache of problems. */
} tw_selection;

/* Chooses the configuration for a problem, which has a value for each axis of the artefact: the measured best if the
   problem is listed, else the least prediction, else the default. Of several predictions that are equal the macro
   choice of the lowest index counts. `flags` leave out macro choices, and so does what they can compute. TW_ERR_USAGE:
   an axis is below 1 or above TW_SELECT_MOST, or a flag is unknown. TW_ERR_UNSUPPORTED: no choice is allowed;
   out->source is TW_SELECT_NONE then, in both cases. */
tw_status tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out);

/* Writes the macro choices of the least predictions, at most `top` of them, in ascending order, each with its micro
   choice. Listed problems and the default do not count. Returns their number. -1: as TW_ERR_USAGE of tw_select_choose.
 */
int tw_select_best(const tw_selector *s, const int64_t *problem, unsigned flags, int top, tw_selection *out);

/* ---- why ---- */

typedef struct tw_select_explanation {
    tw_selection choice;
    double grid;      /* G, the number of blocks. Exact below 2^53. 0: nothing can be chosen. */
    double rounds;    /* L, the rounds of a block. Exact below 2^53. */
    double waves;     /* ceil(G / slots). */
    int64_t slots;    /* Blocks that the device runs at once. */
    int fit;          /* The wave whose fit predicts, from 1. 0: no prediction. */
    bool beyond;      /* The fit is that of all waves from `fit` on. */
    int64_t samples;  /* Number of samples of the fit. 65535: that many or more. */
    double error;     /* Relative half width of the interval that held 9 of 10 residuals of the fit, rounded up. */
    double predicted; /* What the model says of the choice. 0: nothing. */
    /* What came second: of a listed problem the measured second, else the second least prediction. Its source is
       TW_SELECT_NONE if there is none. */
    tw_selection second;
    double behind; /* How much longer the second takes, relative to the choice. */
    int macros;    /* Number of macro choices. */
    /* How many macro choices are left out. One that is for several reasons counts for the first of these fields. */
    int atomic;    /* Left out by TW_SELECT_DETERMINISTIC. */
    int workspace; /* Left out by TW_SELECT_NO_WORKSPACE. */
    int vendor;    /* Left out by TW_SELECT_OWN_ONLY. */
    int own;       /* Left out by TW_SELECT_VENDOR_ONLY. */
    int illegal;   /* Left out because they cannot compute the problem. */
    int unknown;   /* Left out because their prediction is not a number above 0. */
    tw_select_match match;
} tw_select_explanation;

/* Tells why a problem gets its choice. `match` is of the device at hand. Returns as tw_select_choose does. */
tw_status tw_select_explain(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                            tw_select_explanation *out);
/* Writes the same in lines for people, cut to `size` bytes with the terminating 0. Returns as tw_select_choose does. */
tw_status tw_select_explain_text(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                                 char *out, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

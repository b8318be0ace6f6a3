/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a kernel's configuration for a problem at run time. It decides from an artefact, a file that a tuner compiled
   from its measurements. A problem is a vector of axes (m, n and k of a product, say). A configuration is a macro
   choice (tiles) and a micro choice (stages, order) within it. The model is WaveTune's (arXiv 2604.10187): a macro
   choice makes G blocks of L rounds, the device runs `slots` blocks at once, and each of the ceil(G / slots) waves has
   its own fit. Any number of threads may use a selector at once. Deciding allocates nothing, takes no lock and makes no
   system call. */
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

/* Maps the artefact `path` and checks all of it, so that decisions need no checks. The caller closes the selector. The
   file must not change while it is open; a new file may be renamed over it. TW_ERR_FORMAT: the file is no artefact, or
   damaged; the diagnostic has the path and, where it helps, a byte offset. TW_ERR_UNSUPPORTED: the file has a later
   version or the other byte order. TW_ERR_IO. TW_ERR_MEMORY. */
tw_status tw_selector_open(tw_selector **out, const char *path, tw_diag *diag);
void tw_selector_close(tw_selector *s); /* NULL is fine. */

/* Describes an artefact. The selector owns the texts. */
typedef struct tw_selector_info {
    const char *kernel;               /* Name of the kernel, "gemm-cpu-bf16". */
    const char *unit;                 /* The unit of times, "us". */
    const char *axes[TW_SELECT_AXES]; /* Names of the axes, "m". NULL after the last. */
    int n_axes;                       /* Number of axes, from 1. */
    const char *device;               /* Name of the device that was measured. It does not tell the driver. */
    const char *alike;                /* The device's kind: architecture, cores, cache size. */
    const char *architecture;         /* The device's architecture. */
    const char *about;                /* The artefact's origin, as JSON. The library never parses it. */
    int macros;                       /* Number of macro choices. */
    int exact;                        /* Number of problems whose measured best is listed. */
    size_t bytes;                     /* Size of the file. */
} tw_selector_info;
void tw_selector_describe(const tw_selector *s, tw_selector_info *info);

/* How similar a device is to the one that an artefact was measured on. */
typedef enum tw_select_match {
    TW_SELECT_SAME,         /* The same device. */
    TW_SELECT_ALIKE,        /* A device of the same kind. Choices are a prior. */
    TW_SELECT_ARCHITECTURE, /* A device of the same architecture. Choices are a prior. */
    TW_SELECT_OTHER,        /* Any other device. Choices are a guess. */
    TW_SELECT_UNKNOWN       /* The devices were not compared. */
} tw_select_match;
tw_select_match tw_selector_match(const tw_selector *s, const char *device, const char *alike,
                                  const char *architecture);
const char *tw_select_match_name(tw_select_match m); /* "same", "alike", "architecture", "other", "unknown" */

/* ---- deciding ---- */

/* Flags that leave out macro choices. */
enum {
    TW_SELECT_DETERMINISTIC = 1, /* Leaves out atomic sums, whose order differs from run to run. */
    TW_SELECT_NO_WORKSPACE = 2,  /* Leaves out macro choices that need workspace. */
    TW_SELECT_OWN_ONLY = 4,      /* Leaves out vendors' libraries. */
    TW_SELECT_VENDOR_ONLY = 8    /* Leaves out all but vendors' libraries. */
};

typedef enum tw_select_source {
    TW_SELECT_NONE,    /* Nothing can be chosen. */
    TW_SELECT_DEFAULT, /* The artefact's default: the model has no prediction. */
    TW_SELECT_MODEL,   /* The least predicted time. */
    TW_SELECT_EXACT    /* The least measured time: the artefact lists the problem. */
} tw_select_source;
const char *tw_select_source_name(tw_select_source s); /* "none", "default", "model", "exact" */

typedef struct tw_selection {
    tw_select_source source;
    int macro;          /* Index of the macro choice. -1: nothing can be chosen. */
    int micro;          /* Index of the micro choice within the macro choice. -1: nothing can be chosen. */
    const char *config; /* The configuration in words. The selector owns it. NULL: nothing can be chosen. */
    double time;        /* The predicted or measured time in the artefact's unit. 0: unknown. */
    double low, high;   /* The interval that held 9 of 10 samples. 0: unknown. */
    bool remembered;    /* True: the answer comes from the selector's cache. */
} tw_selection;

/* Chooses the configuration for a problem, which has a value for each axis of the artefact. The choice is the measured
   best if the problem is listed, else the least prediction, else the default. Of equal predictions the macro choice
   with the lowest index is taken. Macro choices are left out by `flags`, and where they cannot compute the problem.
   TW_ERR_USAGE: an axis is below 1 or above TW_SELECT_MOST, or a flag is unknown. TW_ERR_UNSUPPORTED: no choice is
   allowed. After either error out->source is TW_SELECT_NONE. */
tw_status tw_select_choose(const tw_selector *s, const int64_t *problem, unsigned flags, tw_selection *out);

/* Writes the macro choices with the least predictions, at most `top`, in ascending order, each with its micro choice.
   Listed problems and the default are not considered. Returns the number of choices. -1: an axis or a flag is out of
   range. */
int tw_select_best(const tw_selector *s, const int64_t *problem, unsigned flags, int top, tw_selection *out);

/* ---- why ---- */

typedef struct tw_select_explanation {
    tw_selection choice;
    double grid;      /* G, the number of blocks. Exact below 2^53. 0: nothing can be chosen. */
    double rounds;    /* L, the rounds of a block. Exact below 2^53. 0: nothing can be chosen. */
    double waves;     /* Number of waves, ceil(G / slots). */
    int64_t slots;    /* Blocks that the device runs at once. */
    int fit;          /* The wave whose fit predicts, from 1. 0: no prediction. */
    bool beyond;      /* True: the fit is for wave `fit` and all later ones. */
    int64_t samples;  /* Number of samples of the fit. 65535: at least so many. */
    double error;     /* Relative half width of the interval that held 9 of 10 residuals of the fit, rounded up. */
    double predicted; /* The time that the model predicts for the choice. 0: no prediction. */
    /* The second best choice: for a listed problem the measured second, else the second least prediction. Its source is
       TW_SELECT_NONE if there is none. */
    tw_selection second;
    double behind; /* Time of `second` divided by that of the choice, less 1. 0: there is no second. */
    int macros;    /* Number of macro choices. */
    int atomic;    /* Macro choices that TW_SELECT_DETERMINISTIC leaves out. */
    int workspace; /* Macro choices that TW_SELECT_NO_WORKSPACE leaves out. */
    int vendor;    /* Macro choices that TW_SELECT_OWN_ONLY leaves out. */
    int own;       /* Macro choices that TW_SELECT_VENDOR_ONLY leaves out. */
    int illegal;   /* Macro choices that cannot compute the problem. */
    int unknown;   /* Macro choices whose prediction is no number above 0. */
    tw_select_match match;
} tw_select_explanation;

/* Explains the choice for a problem. `match` compares the device at hand with the artefact's. A macro choice that is
   left out for several reasons counts for the first one, in the order of the fields. Returns as tw_select_choose. */
tw_status tw_select_explain(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                            tw_select_explanation *out);
/* Writes the explanation as lines of text, cut to `size` bytes with the terminating 0. Returns as tw_select_choose. */
tw_status tw_select_explain_text(const tw_selector *s, const int64_t *problem, unsigned flags, tw_select_match match,
                                 char *out, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The content of an artefact, which a tuner fills in, and its writer. tilewright/select.h reads the file. */
#ifndef TW_SELECT_ARTEFACT_H
#define TW_SELECT_ARTEFACT_H

#include "select/fill.h"
#include "select/lattice.h"
#include "tilewright/select.h"

enum {
    TW_ARTEFACT_MACROS = 4096,   /* The most macro choices. */
    TW_ARTEFACT_MICROS = 255,    /* The most micro choices of a macro choice. */
    TW_ARTEFACT_FITS = 256,      /* The most fits of a macro choice. */
    TW_ARTEFACT_ANCHORS = 65535, /* The most different L of a macro choice's anchors. */
    TW_ARTEFACT_TILE = 65535,    /* The largest tile, `times` and number of slots. */
    TW_ARTEFACT_EXACT = 500000   /* The most exact problems. */
};

#define TW_ARTEFACT_ERROR 15.0   /* The largest relative error of a fit. */
#define TW_ARTEFACT_LEAST (-0.9) /* The least correction. */
#define TW_ARTEFACT_MOST  9.0    /* The largest correction. */
#define TW_ARTEFACT_FLOOR 0.05   /* Corrections together multiply a time by this at least. */

/* Properties of a macro choice, by which flags leave it out. */
enum {
    TW_MACRO_ATOMIC = 1,    /* Sums atomically, in an order that differs from run to run. */
    TW_MACRO_WORKSPACE = 2, /* Needs workspace. */
    TW_MACRO_VENDOR = 4     /* Calls a vendor's library. */
};

/* The measured micro choice for an L. It also serves values of L near it. */
typedef struct tw_artefact_anchor {
    int64_t rounds; /* L, from 1 to 2^32 - 1. */
    int micro;      /* Index of the micro choice. */
} tw_artefact_anchor;

/* The model of a wave: time = c[0] GL + c[1] G + c[2] L + c[3]. */
typedef struct tw_artefact_fit {
    float c[4];
    const tw_artefact_anchor *anchors; /* Anchors by ascending L, all different. */
    int n_anchors;                     /* Number of anchors. 0: the wave is unknown, and the fit never predicts. */
    int64_t samples;                   /* Number of samples of the fit. The file keeps at most 65535. */
    double error; /* Relative half width of the interval that held 9 of 10 residuals. At most TW_ARTEFACT_ERROR. */
    /* A direct artefact adds to the time, with W waves: waves[0] WL + waves[1] W, and terms of each tiled axis k with r
       tiles:
       - tail[k] e L + (flow[k] e + memory[k]) L x / r, if the axis does not shrink. e is the empty part of the last
       tile.
       - tail[k] W e L + flow[k] e L x / r, if it shrinks. e is the size of a tile divided by a block's extent, so eL
         does not depend on this extent. It counts what a block does whatever its extent along the axis is.
         memory[k] is 0.
       In other artefacts all are 0. */
    float waves[2];
    float tail[TW_FILL_AXES], flow[TW_FILL_AXES], memory[TW_FILL_AXES];
} tw_artefact_fit;

typedef struct tw_artefact_macro {
    const char *config;  /* Parameters of the macro choice in words, "by=own tm=64 tn=256". */
    unsigned properties; /* Sum of TW_MACRO_... */
    /* Tiles. 0: the axis does not count.
       G is `times` times the product of ceil(problem[a] / grid[a]), L the product of ceil(problem[a] / rounds[a]). */
    int64_t grid[TW_SELECT_AXES], rounds[TW_SELECT_AXES];
    int64_t times; /* Factor of G, such as the number of splits. 0: 1. */
    /* Legality: problem[a] must be a multiple of multiple[a], at least least[a], at most most[a]. 0: no such rule. */
    int64_t multiple[TW_SELECT_AXES], least[TW_SELECT_AXES], most[TW_SELECT_AXES];
    int64_t parts[TW_SELECT_AXES]; /* ceil(problem[a] / grid[a]) must be a multiple of it. 0: no such rule. */
    int64_t slots;                 /* Blocks that the device runs at once. */
    const char *const *micros;     /* Words of the micro choices, "span=2048 rows=48". An empty one is fine. */
    int n_micros;                  /* Number of micro choices, at least 1. */
    const tw_artefact_fit *fits;   /* Fits of waves 1, 2 and so on. The last one is of all waves from its own on. */
    int n_fits;                    /* Number of fits. 0: the macro choice is never predicted. */
    /* Times are multiplied by 1 plus the correction at the problem plus that of its fill, but by TW_ARTEFACT_FLOOR at
       least. */
    const double *corrections; /* Correction at each node of the lattice, from TW_ARTEFACT_LEAST to TW_ARTEFACT_MOST.
                                  NULL: zeros. */
    const double *fills;       /* TW_FILL_CELLS cells, from -1 to 1. NULL: zeros. Only a direct artefact has them. */
} tw_artefact_macro;

/* A problem whose best was measured. */
typedef struct tw_artefact_exact {
    int64_t problem[TW_SELECT_AXES];
    int macro, micro;               /* The fastest choice. */
    double time;                    /* Measured time of the fastest choice. */
    int second_macro, second_micro; /* The second fastest choice. -1: there is none. */
    double second_time;             /* Measured time of the second choice, at least `time`. */
} tw_artefact_exact;

typedef struct tw_artefact {
    /* Texts of tw_selector_info, in UTF-8. */
    const char *kernel, *unit, *device, *alike, *architecture, *about;
    const char *axes[TW_SELECT_AXES];
    int n_axes;
    /* True: blocks divide this axis equally, so L is multiplied by the used part of a tile, problem[a] / (grid[a] *
       ceil(problem[a] / grid[a])). */
    bool shrinks[TW_SELECT_AXES];
    /* Index of an axis, plus 1, whose rows are spread over groups (select/spread.h), and index, plus 1, of the axis
       that counts the groups. 0: there are none. Tiles of the spread axis are counted by tw_spread_tiles, its rules are
       about the rows of a group that has rows, and corrections depend on these and on the number of such groups. */
    int spread, groups;
    int tiled[TW_FILL_AXES];   /* Tiled axes: those with terms `tail` and `flow`, counted from 1. 0: none. */
    const tw_lattice *lattice; /* Nodes of the macro choices' corrections. NULL: there are no corrections. */
    const tw_artefact_macro *macros;
    int n_macros;                   /* Number of macro choices, at least 1. */
    const tw_artefact_exact *exact; /* Exact problems in any order, all different. */
    int n_exact;
    int macro, micro; /* The default choice. */
    /* True: macro choices have one fit at most, without a coefficient below 0. A decision computes all predictions at
       once. False: a decision reads the fits that bounds leave. */
    bool direct;
} tw_artefact;

/* Writes an artefact beside `path` and renames it. In the wave and between the anchors of a fit, predictions from the
   file are within 0.1 % of the fit's. Corrections are stored in 8 bits, as multiples of a 127th of the macro choice's
   largest. TW_ERR_USAGE: something in it is out of range, which the message names. TW_ERR_IO. TW_ERR_MEMORY. */
tw_status tw_artefact_write(const tw_artefact *a, const char *path, tw_diag *diag);

#endif

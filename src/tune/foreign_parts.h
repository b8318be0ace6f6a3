/* SPDX-License-Identifier: Apache-2.0 */
/* The data and functions that the files of tune/foreign.h share. */
#ifndef TW_TUNE_FOREIGN_PARTS_H
#define TW_TUNE_FOREIGN_PARTS_H

#include "base/arena.h"
#include "space/space.h"
#include "tune/child.h"
#include "tune/expression.h"
#include "tune/family.h"

#include <jansson.h>

enum { TW_FOREIGN_BASELINES = 4 /* The most baselines, the default included. */ };

typedef struct tw_foreign {
    tw_arena arena;
    const char *path;   /* Path of the description. */
    json_t *json;       /* Content of the description. */
    json_t *told;       /* The environment, an object. */
    const char *text;   /* The environment as text. NULL: not known yet. */
    const char **argv;  /* The command, ended by NULL. */
    const char *shown;  /* The command as one text, for messages. */
    const char *folder; /* Folder of the description, in which the command runs. */
    double timeout;     /* Seconds of silence after which the command is given up. */
    tw_child *child;    /* NULL: the command is not running. */
    tw_space space;     /* The parameters. A configuration has an int64_t for each. */
    tw_status computed; /* The first error in computing a constraint. TW_OK: there was none. */
    const char *axes[TW_SELECT_AXES];
    int n_axes;
    const char *baselines[TW_FOREIGN_BASELINES]; /* Names of the baselines. */
    const json_t *rules[TW_FOREIGN_BASELINES];   /* Each baseline's configuration, or its list of rules. */
    int n_baselines;
} tw_foreign;

/* Reads the description, but for what depends on the environment, into *g and *f. The caller closes *g. */
tw_status tw_foreign_read(tw_foreign *g, tw_family *f, tw_diag *diag);
/* Fills in the parts of *f that depend on the environment, which g->text and g->told hold. */
tw_status tw_foreign_describe(tw_foreign *g, tw_family *f, tw_diag *diag);
/* Writes the configuration of a baseline for a problem. */
void tw_foreign_baseline(const void *self, int i, const int64_t *problem, char *out, size_t size);

/* Starts the command if it is not running, and reads the environment that it tells. If g->text is not NULL it must be
   the same environment. g->child is NULL afterwards if it failed or was interrupted. */
tw_status tw_foreign_start(tw_foreign *g, bool (*interrupted)(void *context), void *context, tw_diag *diag);
/* Measures as tw_family_calls.measure does. */
tw_status tw_foreign_measure(void *self, const int64_t *problem, const char *const *configs, int n,
                             const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag);

#endif

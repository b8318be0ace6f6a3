/* SPDX-License-Identifier: Apache-2.0 */
/* A family is what can be chosen for one computation on one device: macro choices, each with micro choices. Campaigns
   measure a family, models are trained for it, and artefacts are written of it, whatever it computes. A problem is a
   value for each of its axes. */
#ifndef TW_TUNE_FAMILY_H
#define TW_TUNE_FAMILY_H

#include "base/random.h"
#include "select/artefact.h"
#include "tune/measure.h"
#include "tune/wave.h"

typedef struct tw_family tw_family;

/* Receives the results of tw_family_calls.measure. */
typedef struct tw_family_listener {
    /* Receives a result; m->candidate is the index of the configuration. An error ends the measurement. */
    tw_status (*result)(void *context, const tw_measured *m, tw_diag *diag);
    bool (*interrupted)(void *context); /* As in tw_measure_calls. NULL: nothing interrupts. */
    void *context;
} tw_family_listener;

typedef struct tw_family_calls {
    /* Checks and times n configurations of a problem, by the protocol. Times are in the family's unit. */
    tw_status (*measure)(void *self, const int64_t *problem, const char *const *configs, int n,
                         const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag);
    /* Writes the configuration of a baseline for a problem. */
    void (*baseline)(const void *self, int i, const int64_t *problem, char *out, size_t size);
    void (*close)(void *self);
} tw_family_calls;

struct tw_family {
    const char *name;        /* "gemm-cpu-bf16" */
    const char *unit;        /* Unit of times: "us". */
    const char *environment; /* What measurements depend on, as a JSON object. */
    const char *protocol;    /* How samples are taken beside their number: "caches=hot". */
    /* The device's texts of an artefact (tilewright/select.h). */
    const char *device, *alike, *architecture;

    const char *axes[TW_SELECT_AXES]; /* Names of the axes. */
    int n_axes;
    bool shrinks[TW_SELECT_AXES]; /* As in an artefact. */
    int rows, columns, loops;     /* The axes that rows and columns of blocks, and rounds, divide. */
    /* Usual problems have axes from `least` to `most`, in steps of `step`, and at most so much work. */
    int64_t least[TW_SELECT_AXES], most[TW_SELECT_AXES], step[TW_SELECT_AXES];
    double most_work; /* In operations. 0: any. */

    const tw_artefact_macro *macros; /* The macro choices. Their fits are empty. */
    int n_macros;
    int macro, micro;             /* The artefact's default. */
    const char *const *baselines; /* Names of configurations to compare with: "default". The first is used today. */
    int n_baselines;

    bool recorded; /* The device is not here: what the store lacks cannot be measured. */
    const tw_family_calls *calls;
    void *self; /* Passed to the calls. */
};

void tw_family_close(tw_family *f); /* NULL is fine. */

/* The operations of a problem: two for each combination of its axes. */
double tw_family_work(const tw_family *f, const int64_t *problem);

/* Writes a problem as words, such as "m=64 n=64 k=64". */
void tw_family_print(const tw_family *f, const int64_t *problem, char *out, size_t size);
/* Reads a problem from words, each axis once. TW_ERR_USAGE: a word is wrong, or an axis is missing. */
tw_status tw_family_parse(const tw_family *f, int64_t *problem, const char *words, tw_diag *diag);

/* Writes the configuration of a macro and a micro choice in words. */
void tw_family_config(const tw_family *f, int macro, int micro, char *out, size_t size);
/* Finds a configuration's macro and micro choice. False: it is none of them. */
bool tw_family_find(const tw_family *f, const char *config, int *macro, int *micro);

/* Divides a problem by a macro choice: grid is 0 if the choice cannot compute it. */
tw_wave_division tw_family_divide(const tw_family *f, int macro, const int64_t *problem);

/* Writes the problem at a place of the usual ones: unit[a], from 0 to 1, says where axis a is between its least and its
   most value, so that each factor of two is equally long. False: the problem has too much work. */
bool tw_family_place(const tw_family *f, const double *unit, int64_t *problem);
/* Draws a usual problem: a random place. */
void tw_family_draw(const tw_family *f, tw_random *r, int64_t *problem);

#endif

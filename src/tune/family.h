/* SPDX-License-Identifier: Apache-2.0 */
/* A family is the set of configurations of one computation on one device: macro choices, each with micro choices.
   Campaigns, training and artefacts work with families alone, whatever these compute. A problem has a value for each
   axis of its family. */
#ifndef TW_TUNE_FAMILY_H
#define TW_TUNE_FAMILY_H

#include "base/random.h"
#include "device/power.h"
#include "kernels/demand.h"
#include "select/artefact.h"
#include "tune/measure.h"
#include "tune/wave.h"

typedef struct tw_family tw_family;

enum { TW_FAMILY_WORDS = 400 /* Bytes that a problem or a configuration in words has room in, its 0 included. */ };

/* Callbacks of tw_family_calls.measure. */
typedef struct tw_family_listener {
    /* Receives a result; m->candidate is the index of the configuration. An error ends the measurement. */
    tw_status (*result)(void *context, const tw_measured *m, tw_diag *diag);
    bool (*interrupted)(void *context); /* Returns true to interrupt the measurement. NULL: nothing interrupts. */
    void *context;
} tw_family_listener;

typedef struct tw_family_calls {
    /* Checks and times n configurations of a problem, by the protocol. Times are in the family's unit. */
    tw_status (*measure)(void *self, const int64_t *problem, const char *const *configs, int n,
                         const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag);
    /* Writes the configuration of baseline i for a problem. */
    void (*baseline)(const void *self, int i, const int64_t *problem, char *out, size_t size);
    void (*close)(void *self);
    /* Counts what a configuration asks of the device for a problem (kernels/demand.h). False: the configuration cannot
       compute the problem. NULL: the family has no such counts. */
    bool (*demand)(const void *self, int macro, int micro, const int64_t *problem, tw_demand *out);
    /* Tells whether the device has room for a problem. NULL: it has room for all usual ones. */
    bool (*fits)(const void *self, const int64_t *problem);
} tw_family_calls;

struct tw_family {
    const char *name;        /* Name of the family, "gemm-cpu-bf16". */
    const char *unit;        /* Unit of samples: "us", or "uJ" with `energy`. */
    const char *environment; /* Device and versions that measurements depend on, as a JSON object. */
    const char *protocol;    /* Conditions of the samples in words: "caches=hot". */
    /* Texts of tw_selector_info. */
    const char *device, *alike, *architecture;

    const char *axes[TW_SELECT_AXES]; /* Names of the axes. */
    int n_axes;
    bool shrinks[TW_SELECT_AXES]; /* True: blocks divide the axis equally (tw_artefact.shrinks). */
    /* Index, plus 1, of the axis whose rows are spread over groups, and of the axis that counts the groups
       (tw_artefact.spread). 0: there are none. */
    int spread, groups;
    int rows, columns, loops; /* Indices of the axes that rows of blocks, columns of blocks and rounds divide. */
    /* Range of usual problems: each axis is from `least` to `most`, in steps of `step`. */
    int64_t least[TW_SELECT_AXES], most[TW_SELECT_AXES], step[TW_SELECT_AXES];
    double most_work; /* The most operations of usual problems (tw_family_work). 0: no limit. */
    /* Returns the floating-point operations of a problem, at least 1. NULL: the family computes matrix products, which
       have two operations for each combination of the axes' indices. */
    double (*work)(const void *self, const int64_t *problem);

    const tw_artefact_macro *macros; /* The macro choices, without fits. */
    int n_macros;
    int macro, micro; /* The default choice of artefacts. */
    /* True: the default choice has other words than the first baseline, but computes every problem in the same way. An
       evaluation measures the two once, in the baseline's words. */
    bool renamed;
    /* Index of the macro choice that stands for a library's own ranking of its algorithms, plus 1. Its micro choices
       are places in the ranking. A place may have another algorithm for each problem, so measurements of some problems
       tell nothing about others. 0: there is no such macro choice. */
    int ranking;
    const char *const *baselines; /* Names of the baselines, "default". The first one is the choice without a tuner. */
    int n_baselines;

    /* True: other processes use the device, too, and delay samples. Samples of different configurations are taken in
       turn then, and the least one of a configuration counts. False: the median counts. */
    bool shared;
    /* True: the device's clock rate drifts. If the configurations of a problem have several samples each, they are
       sampled in turn. */
    bool drifts;
    tw_power *power; /* Meter of the device's power. The family owns it. NULL: the power is unknown. */
    /* True: samples are energies, and `unit` is "uJ". Then `power` is not NULL, unless the family is recorded. */
    bool energy;
    bool recorded; /* True: nothing can be measured, and only a store's measurements are available. */
    const tw_family_calls *calls;
    void *self; /* Passed to `work` and to the calls. */
};

void tw_family_close(tw_family *f); /* NULL is fine. */

/* Counts the floating-point operations of a problem. */
double tw_family_work(const tw_family *f, const int64_t *problem);
/* Raises most_work, if it is a limit, to eight times the work of the smallest usual problem. Without this a range of
   large problems has none to draw. */
void tw_family_admit_least(tw_family *f);

/* Tells whether the device has room for a problem. */
bool tw_family_fits(const tw_family *f, const int64_t *problem);

/* Returns the time that samples with these statistics stand for: the median, or the least if the device is shared. */
double tw_family_time(const tw_family *f, const tw_stats *s);

/* Writes a problem as words, such as "m=64 n=64 k=64". */
void tw_family_print(const tw_family *f, const int64_t *problem, char *out, size_t size);
/* Reads a problem from words, each axis once. TW_ERR_USAGE: a word is wrong, or an axis is missing. */
tw_status tw_family_parse(const tw_family *f, int64_t *problem, const char *words, tw_diag *diag);

/* Writes the configuration of a macro and a micro choice in words. */
void tw_family_config(const tw_family *f, int macro, int micro, char *out, size_t size);
/* Finds the macro and micro choice of a configuration. False: the family does not have it. */
bool tw_family_find(const tw_family *f, const char *config, int *macro, int *micro);

/* Tells whether a vendor's library computes a macro choice. */
static inline bool tw_family_is_vendor(const tw_family *f, int macro) {
    return f->macros[macro].properties & TW_MACRO_VENDOR;
}

/* Counts the configurations. */
static inline int tw_family_configs(const tw_family *f) {
    int n = 0;
    for (int m = 0; m < f->n_macros; m++) n += f->macros[m].n_micros;
    return n;
}

/* Writes what models know of a problem: its axes, but of a spread axis the rows of a group that has rows, and of groups
   the number of those that have rows. */
void tw_family_point(const tw_family *f, const int64_t *problem, double point[TW_SELECT_AXES]);

/* Counts the tiles along an axis. Without a tile there is one. */
int64_t tw_family_tiles(const tw_family *f, int macro, int axis, const int64_t *problem);

/* Computes G and L of a problem for a macro choice. The grid is 0 if the choice cannot compute the problem. */
tw_wave_division tw_family_divide(const tw_family *f, int macro, const int64_t *problem);

/* Writes the usual problem at a place: unit[a], from 0 to 1, is the logarithm of axis a between the logarithms of its
   least and its most value. False: the problem has too much work, or the device no room for it. */
bool tw_family_place(const tw_family *f, const double *unit, int64_t *problem);
/* Draws a usual problem. Its place is uniform. most_work must admit the smallest usual problem, and the device must
   have room for it. */
void tw_family_draw(const tw_family *f, tw_random *r, int64_t *problem);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Models with which the choices of artefacts are compared. A model gives every configuration of a family a score for a
   problem, and chooses the configuration with the least one. All forms of models learn from the same trials. */
#ifndef TW_TUNE_MODELS_H
#define TW_TUNE_MODELS_H

#include "tune/boost.h"
#include "tune/evaluate.h"
#include "tune/mlp.h"
#include "tune/policy.h"
#include "tune/spline.h"

typedef enum tw_model_form {
    TW_MODEL_MLP,       /* The network of tune/mlp.h. */
    TW_MODEL_TREES,     /* The boosted trees of tune/boost.h. */
    TW_MODEL_TREE,      /* A decision tree of tune/policy.h. */
    TW_MODEL_NEAR,      /* The nearest problem of tune/policy.h. */
    TW_MODEL_SPLINE,    /* The model of artefacts (tune/spline.h), without the rounding of their file. */
    TW_MODEL_RESIDUAL,  /* Boosted trees that correct the spline. */
    TW_MODEL_MIX,       /* The geometric mean of the times by the spline, boosted trees and a network. */
    TW_MODEL_DISTILLED, /* The spline, which also learns from a network's predictions of random problems. */
    TW_MODEL_ANALYTIC,  /* The analytic model (kernels/demand.h), whose constants are fitted to the trials. */
    TW_MODEL_LINEAR,    /* The linear model of tune/linear.h. */
    TW_MODEL_FORMS      /* Number of forms. */
} tw_model_form;

/* Returns the name of a form, "mlp". */
const char *tw_model_name(tw_model_form form);
/* Finds the form of a name of `length` bytes. False: there is none. */
bool tw_model_form_find(const char *name, size_t length, tw_model_form *out);

typedef struct tw_model_options {
    /* True: every configuration with a trial may be chosen, and by the analytic model also those without. False: only
       configurations that the spline models. */
    bool all;
    bool own;      /* True: configurations of vendors are not chosen. */
    bool plain;    /* True: features are sizes, not their logarithms. */
    double held;   /* Share of the problems by which a network's training stops. No form learns from them. */
    int distilled; /* Number of random problems whose times a network predicts for TW_MODEL_DISTILLED. */
    uint64_t seed; /* Seed of the draws of all forms. */
    tw_mlp_options mlp;
    tw_boost_options boost;
    tw_policy_options policy;
} tw_model_options;

/* Returns ISAAC's largest network (163k weights), WaveTune's boosted trees and its decision tree. */
tw_model_options tw_model_defaults(void);

typedef struct tw_model tw_model;

/* Learns from trials of screening and of spread. The caller frees *out. The family must outlive it.
   TW_ERR_USAGE: there is too little to learn from. TW_ERR_UNSUPPORTED: XGBoost is not installed. */
tw_status tw_model_fit(tw_model **out, tw_model_form form, const tw_family *f, const tw_trials *t,
                       const tw_model_options *o, tw_diag *diag);
void tw_model_free(tw_model *m); /* NULL is fine. */

/* Changes which configurations may be chosen, by `all` and `own` of the options. A policy keeps what it has learned. */
void tw_model_allow(tw_model *m, const tw_trials *t, bool all, bool own);

int tw_model_configs(const tw_model *m);                     /* Number of configurations of the family. */
int tw_model_index(const tw_model *m, int macro, int micro); /* Index of a configuration. */
bool tw_model_predicts(const tw_model *m);                   /* True: scores are natural logarithms of times. */
/* Computes the score of each configuration for a problem, [configs]. Infinity: it is not chosen. Uses memory of the
   model, so it is for one thread at a time. */
void tw_model_score(tw_model *m, const int64_t *problem, double *scores);
/* Lists the configurations with the least scores for a problem, at most `most`, the least first. Returns their number.
   Uses memory of the model. */
int tw_model_rank(tw_model *m, const int64_t *problem, int most, tw_choice *out);
/* Writes the choice for a problem. False: there is none. Uses memory of the model. */
bool tw_model_choose(tw_model *m, const int64_t *problem, char *out, size_t size);

int64_t tw_model_bytes(const tw_model *m); /* Size of what decisions read, features included. */
int64_t tw_model_weights(
    const tw_model *m); /* Weights of a network or of the linear model, nodes of trees. 0: there are none. */
tw_mlp *tw_model_network(tw_model *m); /* The network. NULL: the form has none. */

#endif

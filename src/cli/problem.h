/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product and a configuration as words of a command line. */
#ifndef TW_CLI_PROBLEM_H
#define TW_CLI_PROBLEM_H

#include "kernels/gemm/gemm.h"

#include <jansson.h>

/* Sets what a word like "m=512", "type=f16", "ta=1", "alpha=0.5", "bias=1", "activation=silu" says of the problem.
   False: it says nothing of one (perhaps of a configuration), or its value is wrong, which *status then tells (else
   TW_OK). */
bool cli_problem_word(tw_gemm_problem *p, const char *word, tw_status *status, tw_diag *diag);

/* The words that it takes, for help texts. */
extern const char cli_problem_words[];

/* The same as JSON, and a configuration. */
json_t *cli_problem_json(const tw_gemm_problem *p);
json_t *cli_config_json(const tw_gemm_config *c);

#endif

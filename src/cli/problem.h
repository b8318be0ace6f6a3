/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product and a configuration as JSON. */
#ifndef TW_CLI_PROBLEM_H
#define TW_CLI_PROBLEM_H

#include "kernels/gemm/gemm.h"

#include <jansson.h>

json_t *cli_problem_json(const tw_gemm_problem *p);
json_t *cli_config_json(const tw_gemm_config *c);

#endif

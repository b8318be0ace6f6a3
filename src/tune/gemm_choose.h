/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of products on a GPU that artefacts choose. */
#ifndef TW_TUNE_GEMM_CHOOSE_H
#define TW_TUNE_GEMM_CHOOSE_H

#include "tune/gemm_kind.h"

/* Chooses a configuration of our own for a completed problem. An artefact knows products A B^T without an epilogue. Its
   choices are tried in ascending order of predicted time, and the first that is legal for the problem is taken. If none
   is, that is the configuration of a problem that nobody tuned, and *source is TW_SELECT_NONE. An artefact of f16
   serves bf16, too, and the reverse. `flags` are those of tw_select_choose. TW_ERR_USAGE: the artefact is of another
   kind of products, or an extent is larger than artefacts know. */
tw_status tw_gemm_choose(const tw_selector *s, const tw_gemm_problem *p, const tw_target *target, unsigned flags,
                         tw_gemm_config *out, tw_select_source *source, tw_diag *diag);

#endif

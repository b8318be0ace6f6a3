/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of products on a GPU. Each kind has a family of its own, with axes and macro choices, and artefacts that are
   named after it. */
#ifndef TW_TUNE_GEMM_KIND_H
#define TW_TUNE_GEMM_KIND_H

#include "kernels/gemm/gemm.h"
#include "tilewright/select.h"

typedef enum tw_gemm_form {
    TW_GEMM_PLAIN,  /* One product. The axes are m, n and k. */
    TW_GEMM_GROUPS, /* Rows in groups. The axes are m, which has the rows of all groups, n, k and groups. */
    TW_GEMM_BATCH,  /* Products of equal extents. The axes are m, n, k and batch. */
    TW_GEMM_FORMS
} tw_gemm_form;

typedef struct tw_gemm_kind {
    tw_gemm_type type;
    tw_gemm_form form;
} tw_gemm_kind;

enum { TW_GEMM_KIND_NAME = 40 /* Bytes of a name, with its 0. */, TW_GEMM_KIND_AXES = 4 /* The most axes. */ };

/* Writes the name of a kind's family: "gemm-gpu-bf16", "gemm-gpu-bf16-groups". */
void tw_gemm_kind_name(tw_gemm_kind k, char out[TW_GEMM_KIND_NAME]);
bool tw_gemm_kind_from_name(const char *name, tw_gemm_kind *out);
/* Returns the word that names a form, "groups" or "batch". "": of a plain product. */
const char *tw_gemm_form_word(tw_gemm_form f);

tw_gemm_kind tw_gemm_kind_of(const tw_gemm_problem *p);
/* Returns the product A B^T of a kind with these axes, not completed. B of plain products is constant. */
tw_gemm_problem tw_gemm_kind_problem(tw_gemm_kind k, const int64_t *axes);
/* Writes the axes of a problem's kind. Returns their number. */
int tw_gemm_kind_axes(const tw_gemm_problem *p, int64_t axes[TW_SELECT_AXES]);

#endif

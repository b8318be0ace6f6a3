/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of kernels share that `tilewright kernel` shows. */
#ifndef TW_CLI_KERNEL_H
#define TW_CLI_KERNEL_H

#include "base/buf.h"
#include "space/space.h"
#include "tilewright/base.h"

#include <jansson.h>

/* The command's request. */
typedef struct cli_kernel_request {
    const char *const *words; /* Words after the kernel's name. */
    int n;
    const char *target, *emit;
    const char *artefact; /* The artefact that chooses the configuration. NULL: none does. */
    bool emulate, run, json, list, space;
    uint64_t seed;
} cli_kernel_request;

/* Prints a space's parameters one per line, or returns them as JSON. With `counts` each has its number of values. */
json_t *cli_kernel_show_parameters(const tw_space *s, bool json, bool counts);
/* Prints the text of a kernel, which is IR if that was asked for and PTX otherwise. */
tw_status cli_kernel_emit_text(const char *target, const tw_buf *text, const char *what, tw_diag *diag);

/* kernel_attention.c: returns the command's status. */
int cli_kernel_attention(const cli_kernel_request *r);
int cli_kernel_combine(const cli_kernel_request *r);
int cli_kernel_map(const cli_kernel_request *r);
int cli_kernel_rows(const cli_kernel_request *r);

#endif

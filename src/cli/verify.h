/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_CLI_VERIFY_H
#define TW_CLI_VERIFY_H

#include "tilewright/base.h"

/* verify_onnx.c */
bool cli_is_onnx(const char *path); /* The path ends as ONNX's files do. */
/* Compares a model's outputs with those of a .npz file, and prints the verdict. */
tw_status cli_verify_onnx(const char *path, const char *golden, bool json, tw_diag *d);

#endif

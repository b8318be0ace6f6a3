/* SPDX-License-Identifier: Apache-2.0 */
/* What every room speaks: statuses, diagnostics, element types. */
#ifndef TILEWRIGHT_BASE_H
#define TILEWRIGHT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define TW_VERSION "0.1.0"

/* What a function came to. Nothing in the library exits, aborts on user input, or prints. */
typedef enum tw_status {
    TW_OK = 0,
    TW_ERR_USAGE,       /* the caller asked for something that makes no sense */
    TW_ERR_IO,          /* the operating system refused: open, read, write, map */
    TW_ERR_FORMAT,      /* a file is not what its format says */
    TW_ERR_UNSUPPORTED, /* well formed, but not something this build can do right */
    TW_ERR_MEMORY,      /* an allocation failed, or the machine is too small */
    TW_ERR_REJECTED,    /* the static check found the schedule unsafe */
    TW_ERR_MISMATCH     /* a comparison with a reference failed */
} tw_status;

#define TW_DIAG_MESSAGE 4096
#define TW_DIAG_PATH    1024

/* Where and why something failed. Owned by the caller, holds no pointers, may be copied.
   `message` holds one reason a line. A place that is unknown is -1. Functions that take a `tw_diag *`
   accept NULL. */
typedef struct tw_diag {
    tw_status status;
    char path[TW_DIAG_PATH]; /* empty when no file is at fault */
    int64_t offset;          /* byte offset in the file, or -1 */
    int line, column;        /* 1-based, or -1 */
    char message[TW_DIAG_MESSAGE];
} tw_diag;

/* Writes "path:where: " (or nothing when no file is at fault) into `out`. */
void tw_diag_place(const tw_diag *diag, char *out, size_t size);

/* Element types of tensors and buffers. The quantised ones describe one row of `cols` elements:
   its integers, then nothing; scales live beside them (see tw_dtype_row_bytes). */
typedef enum tw_dtype {
    TW_F32,
    TW_F16,
    TW_BF16,
    TW_I32,
    TW_I8, /* weight-only int8: one f32 scale a row, or a group of columns */
    TW_I4, /* weight-only int4: one f16 scale a group of columns */
    TW_DTYPE_COUNT
} tw_dtype;

const char *tw_dtype_name(tw_dtype t);               /* "f32", "bf16", ... */
bool tw_dtype_from_name(const char *s, tw_dtype *t); /* the names above; false when unknown */
size_t tw_dtype_bits(tw_dtype t);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The program ptxas and its like, run as processes of their own on temporary files in $TMPDIR or /tmp. */
#ifndef TW_PTX_PTXAS_H
#define TW_PTX_PTXAS_H

#include "base/buf.h"
#include "tilewright/base.h"

/* The file that `name` means: itself when there is a slash in it, else the first of that name on PATH. False when there
   is none that can be run. */
bool tw_ptxas_find(const char *name, char *path, size_t size);

/* A text that changes when the program is replaced: its path, size and time. */
bool tw_ptxas_identify(const char *path, char *out, size_t size);

/* Compiles. `cubin` and `log` are appended to; TW_ERR_FORMAT when the program says no, TW_ERR_IO when it could not be
   run or was killed. */
tw_status tw_ptxas_run(const char *path, const char *target, const char *ptx, size_t bytes, tw_buf *cubin, tw_buf *log,
                       tw_diag *diag);

/* Machine code as text, appended to `text`, by cuobjdump or nvdisasm, whichever of them PATH has. TW_ERR_UNSUPPORTED
   where it has neither. */
tw_status tw_ptxas_disassemble(const void *cubin, size_t bytes, tw_buf *text, tw_diag *diag);

#endif

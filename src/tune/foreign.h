/* SPDX-License-Identifier: Apache-2.0 */
/* Families of kernels that are not Tilewright's. A JSON file describes the family, and a command that it names checks
   and times configurations. docs/tune.md has the fields of the file and the lines that the command reads and writes.
   Times are microseconds. */
#ifndef TW_TUNE_FOREIGN_H
#define TW_TUNE_FOREIGN_H

#include "tune/family.h"

enum { TW_FOREIGN_NAME = 64 /* Room for the name of a family. */ };

/* Reads the name of the family that a file describes. TW_ERR_FORMAT: it has none. */
tw_status tw_foreign_name(const char *path, char out[TW_FOREIGN_NAME], tw_diag *diag);

/* Opens the family of a file and starts its command, which tells the environment. The caller closes the family, which
   ends the command. `interrupted` returns true to give up; NULL: nothing interrupts. TW_ERR_FORMAT: the description is
   wrong. TW_ERR_IO: the command did not start as it should. */
tw_status tw_foreign_open(tw_family *out, const char *path, bool (*interrupted)(void *context), void *context,
                          tw_diag *diag);

/* Opens the family of a file as it was measured in an environment. It does not measure, and the command is not started.
   The caller closes it. */
tw_status tw_foreign_recorded(tw_family *out, const char *path, const char *environment, tw_diag *diag);

#endif

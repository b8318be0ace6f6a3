/* SPDX-License-Identifier: Apache-2.0 */
/* ptxas, where PATH has it. */
#ifndef TW_TEST_PTX_ASSEMBLE_H
#define TW_TEST_PTX_ASSEMBLE_H

#include "support/support.h"

#include "base/buf.h"
#include "device/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static inline bool have_ptxas(void) {
    return system("command -v ptxas >/dev/null 2>&1") == 0;
}

/* Fails the test, with what ptxas says, unless it takes this text. Only the optimiser is left out: it finds nothing
   illegal, and takes long over kernels that make no sense. */
static inline void assemble(const tw_buf *ptx, const tw_target *t) {
    char *folder = test_folder_make(), command[1024], said[4096];
    test_write(folder, "k.ptx", ptx->data, ptx->size);
    snprintf(command, sizeof command, "ptxas -O0 -arch=%s -o %s/k.cubin %s/k.ptx 2>&1", t->name, folder, folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = 0;
    while (fgetc(f) != EOF) {
    }
    int status = pclose(f);
    if (status || said[0])
        fail_msg("%s: ptxas ends with %d: %s", t->name, WIFEXITED(status) ? WEXITSTATUS(status) : -1, said);
    test_folder_remove(folder);
}

#endif

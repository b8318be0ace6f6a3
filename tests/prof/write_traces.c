/* SPDX-License-Identifier: Apache-2.0 */
/* write_traces FOLDER: writes traces made by hand in every format, for readers that are not ours. */
#include "prof/made.h"
#include "prof/perfetto.h"

#include <stdio.h>
#include <string.h>

static int write(const char *folder, const char *name, tw_trace *t) {
    char path[512];
    tw_diag d;
    snprintf(path, sizeof path, "%s/%s.pftrace", folder, name);
    tw_status st = tw_perfetto_write(t, path, &d);
    if (st != TW_OK) fprintf(stderr, "%s\n", d.message);
    tw_trace_free(t);
    return st != TW_OK;
}

int main(int n, char **args) {
    if (n != 2) return 2;
    return write(args[1], "small", made_small()) || write(args[1], "empty", made_empty()) ||
           write(args[1], "product", made_product(8, 24)) || write(args[1], "large", made_product(132, 120));
}

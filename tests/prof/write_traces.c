/* SPDX-License-Identifier: Apache-2.0 */
/* write_traces FOLDER [CHART.JS]: writes traces made by hand in every format, for readers that are not ours. */
#include "base/file.h"
#include "prof/chrome.h"
#include "prof/made.h"
#include "prof/perfetto.h"
#include "prof/report.h"

#include <stdio.h>

static const char *chart;

static bool write(const char *folder, const char *name, tw_trace *t) {
    char path[512];
    tw_diag d;
    snprintf(path, sizeof path, "%s/%s.pftrace", folder, name);
    tw_status st = tw_perfetto_write(t, path, &d);
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    if (st == TW_OK) st = tw_chrome_write(t, path, &d);
    snprintf(path, sizeof path, "%s/%s.html", folder, name);
    if (st == TW_OK) st = tw_trace_report(t, NULL, path, chart, &d);
    if (st != TW_OK) fprintf(stderr, "%s\n", d.message);
    tw_trace_free(t);
    return st == TW_OK;
}

int main(int n, char **args) {
    tw_buf text = {0};
    tw_diag d;
    if (n < 2 || n > 3) return 2;
    if (n == 3 && tw_file_read(&text, args[2], &d) != TW_OK) {
        fprintf(stderr, "%s\n", d.message);
        return 1;
    }
    chart = text.data;
    const bool good = write(args[1], "small", made_small()) && write(args[1], "empty", made_empty()) &&
                      write(args[1], "product", made_product(8, 24)) && write(args[1], "large", made_product(132, 120));
    tw_buf_free(&text);
    return !good;
}

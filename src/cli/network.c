/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/network.h"

#include "base/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_ends(const char *s, const char *with) {
    const size_t n = strlen(s), m = strlen(with);
    return n > m && !strcmp(s + n - m, with);
}

bool cli_is_network(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (argv[i][0] != '-' && (cli_ends(argv[i], ".onnx") || cli_ends(argv[i], ".tw")) &&
            (!i || strcmp(argv[i - 1], "-o")))
            return true;
    return false;
}

tw_status cli_network_open(tw_network **out, const char *path, const cli_network_flags *f, tw_diag *d) {
    tw_network_options o = {.device = f->device,
                            .dtype = f->dtype,
                            .threads = (int)f->threads,
                            .search = f->search || f->seconds > 0,
                            .seconds = (double)f->seconds,
                            .unsplit = f->unsplit,
                            .unsplit_batches = f->unsplit_batches,
                            .clear_counters = f->clear_counters,
                            .unfused = f->unfused,
                            .apart = f->apart,
                            .norms_apart = f->norms_apart};
    const char *by = f->products ? f->products : "best";
    *out = NULL;
    tw_diag_clear(d);
    if (strcmp(by, "best") && strcmp(by, "own") && strcmp(by, "vendor"))
        return tw_fail(d, TW_ERR_USAGE, "--products: \"%s\" is not best, own or vendor", by);
    if (f->seconds < 0 || f->seconds > 1000000)
        return tw_fail(d, TW_ERR_USAGE, "--seconds: %lld is not within 0..1000000", (long long)f->seconds);
    if (f->threads < 0 || f->threads > 1024)
        return tw_fail(d, TW_ERR_USAGE, "-t: %lld is not within 0..1024", (long long)f->threads);
    o.products = !strcmp(by, "own") ? TW_PRODUCTS_OWN : !strcmp(by, "vendor") ? TW_PRODUCTS_VENDOR : 0;
    return tw_network_open(out, path, &o, d);
}

/* ---- extents */

static const char *values_of(const char *item) {
    const char *eq = strrchr(item, '=');
    return eq ? eq + 1 : "";
}

static int count_of(const char *item) {
    int n = 0;
    for (const char *s = values_of(item); *s; n++) {
        char *end;
        errno = 0;
        const long long x = strtoll(s, &end, 10);
        if (end == s || x < 0 || errno || (*end && *end != ',')) return 0;
        s = *end ? end + 1 : end;
    }
    return n;
}

int cli_dims_count(const cli_list *list) {
    int n = 1;
    for (int i = 0; i < list->count; i++) {
        const int k = count_of(list->item[i]);
        if (!k || n > 1000 / k) {
            cli_usage("--dim: \"%s\" is not a dimension's name and its extents, like batch=4 or batch=1,4",
                      list->item[i]);
            return 0;
        }
        n *= k;
    }
    return n;
}

/* Gives inputs the extents of choice `number`; the last list runs fastest. */
static tw_status set_extents(tw_tensors *in, const cli_list *dims, int number, tw_diag *d) {
    tw_status st = TW_OK;
    for (int i = dims->count - 1; i >= 0 && st == TW_OK; i--) {
        const char *item = dims->item[i], *s = values_of(item);
        const int k = count_of(item), which = number % k;
        char name[256];
        number /= k;
        if ((size_t)snprintf(name, sizeof name, "%.*s", (int)(s - 1 - item), item) >= sizeof name)
            return tw_fail(d, TW_ERR_USAGE, "--dim: the name is too long");
        for (int j = 0; j < which; j++) s = strchr(s, ',') + 1;
        st = tw_tensors_extent(in, name, strtoll(s, NULL, 10), d);
    }
    return st;
}

static tw_status read_item(tw_tensors *in, const char *item, tw_diag *d) {
    const char *eq = strchr(item, '=');
    char name[256];
    if (!eq || access(item, F_OK) == 0) return tw_tensors_read(in, NULL, item, d);
    if ((size_t)snprintf(name, sizeof name, "%.*s", (int)(eq - item), item) >= sizeof name)
        return tw_fail(d, TW_ERR_USAGE, "--input: the name is too long");
    return tw_tensors_read(in, name, eq + 1, d);
}

tw_status cli_inputs(tw_tensors **out, const tw_network *n, const cli_list *files, const cli_list *dims, int number,
                     bool random, tw_diag *d) {
    *out = NULL;
    tw_status st = tw_tensors_new(out, n, d);
    for (int i = 0; files && i < files->count && st == TW_OK; i++) st = read_item(*out, files->item[i], d);
    if (st == TW_OK) st = set_extents(*out, dims, number, d);
    return st == TW_OK ? tw_tensors_complete(*out, random, d) : st;
}

tw_status cli_network_compute(tw_network *n, const tw_tensors *in, tw_tensor **outputs, tw_diag *d) {
    tw_network_info info;
    tw_network_describe(n, &info);
    *outputs = calloc((size_t)info.outputs + 1, sizeof **outputs);
    return *outputs ? tw_network_run(n, tw_tensors_list(in), *outputs, d) : tw_fail_memory(d);
}

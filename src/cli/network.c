/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/network.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/random.h"
#include "graph/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends(const char *s, const char *with) {
    const size_t n = strlen(s), m = strlen(with);
    return n > m && !strcmp(s + n - m, with);
}

bool cli_is_network(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (argv[i][0] != '-' && (ends(argv[i], ".onnx") || ends(argv[i], ".tw")) && (!i || strcmp(argv[i - 1], "-o")))
            return true;
    return false;
}

tw_status cli_network_open(tw_network **out, const char *path, const cli_network_flags *f, tw_diag *d) {
    tw_network_options o = {.device = f->device,
                            .dtype = f->dtype,
                            .threads = (int)f->threads,
                            .search = f->search,
                            .unsplit = f->unsplit,
                            .unfused = f->unfused,
                            .apart = f->apart};
    const char *by = f->products ? f->products : "best";
    *out = NULL;
    tw_diag_clear(d);
    if (strcmp(by, "best") && strcmp(by, "own") && strcmp(by, "vendor"))
        return tw_fail(d, TW_ERR_USAGE, "--products: \"%s\" is not best, own or vendor", by);
    if (f->threads < 0 || f->threads > 4096)
        return tw_fail(d, TW_ERR_USAGE, "-t: %lld is not within 0..4096", (long long)f->threads);
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
        const long long x = strtoll(s, &end, 10);
        if (end == s || x < 0 || (*end && *end != ',')) return 0;
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

/* Finds the extent of a named dimension. -1: none was given. */
static int64_t extent_of(cli_dims dims, const char *name) {
    int number = dims.number;
    for (int i = dims.list->count - 1; i >= 0; i--) {
        const char *item = dims.list->item[i], *s = values_of(item);
        const int k = count_of(item), which = number % k;
        number /= k;
        if (!name || strlen(name) != (size_t)(s - 1 - item) || strncmp(item, name, strlen(name)) != 0) continue;
        for (int j = 0; j < which; j++) s = strchr(s, ',') + 1;
        return strtoll(s, NULL, 10);
    }
    return -1;
}

static tw_status check_names(const tw_network *n, cli_dims dims, tw_diag *d) {
    tw_network_info info;
    tw_network_describe(n, &info);
    for (int i = 0; i < dims.list->count; i++) {
        const char *item = dims.list->item[i];
        const size_t length = (size_t)(values_of(item) - 1 - item);
        bool found = false;
        for (int k = 0; k < info.inputs; k++) {
            tw_tensor t;
            tw_network_input(n, k, &t);
            for (int j = 0; j < t.rank; j++)
                found |= t.symbols[j] && strlen(t.symbols[j]) == length && !strncmp(t.symbols[j], item, length);
        }
        if (!found) return tw_fail(d, TW_ERR_USAGE, "--dim: no input has a dimension %.*s", (int)length, item);
    }
    return TW_OK;
}

static tw_status shape(const tw_network *n, int i, cli_dims dims, tw_tensor *t, tw_diag *d) {
    tw_network_input(n, i, t);
    if (t->rank < 0) return tw_fail(d, TW_ERR_USAGE, "input \"%s\" has no shape: give it by --input", t->name);
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] >= 0) continue;
        t->dims[k] = extent_of(dims, t->symbols[k]);
        if (t->dims[k] < 0)
            return tw_fail(d, TW_ERR_USAGE, "input \"%s\": dimension %s is open: give it by --dim %s=N or --input",
                           t->name, t->symbols[k] ? t->symbols[k] : "of no name",
                           t->symbols[k] ? t->symbols[k] : "NAME");
    }
    return TW_OK;
}

static tw_status begin(cli_inputs *in, const tw_network *n, cli_dims dims, tw_diag *d) {
    tw_network_info info;
    tw_network_describe(n, &info);
    in->n = info.inputs;
    in->list = tw_arena_array(&in->arena, (size_t)in->n + 1, sizeof *in->list);
    return in->list ? check_names(n, dims, d) : tw_fail_memory(d);
}

tw_status cli_inputs_shape(cli_inputs *in, const tw_network *n, cli_dims dims, tw_diag *d) {
    tw_status st = begin(in, n, dims, d);
    for (int i = 0; i < in->n && st == TW_OK; i++) st = shape(n, i, dims, &in->list[i], d);
    return st;
}

void cli_inputs_free(cli_inputs *in) {
    tw_arena_free(&in->arena);
    *in = (cli_inputs){0};
}

/* ---- contents */

static void set(tw_tensor *t, const char *name, const tw_array *a) {
    *t = (tw_tensor){.name = name, .type = tw_element_name(a->type), .rank = a->rank, .data = a->data};
    for (int i = 0; i < a->rank; i++) t->dims[i] = a->dims[i];
}

/* Sets one input, or all whose names a file's arrays have, as they are or with in_ before them. */
static tw_status read_file(cli_inputs *in, const tw_network *n, const char *path, int only, tw_diag *d) {
    tw_npz_entry *entries;
    int count = 0, found = 0;
    tw_status st = tw_arrays_open(&in->arena, path, &entries, &count, d);
    for (int i = 0; i < in->n && st == TW_OK; i++) {
        tw_tensor t;
        char key[512];
        if (only >= 0 && i != only) continue;
        tw_network_input(n, i, &t);
        snprintf(key, sizeof key, "in_%s", t.name);
        const tw_array *a = tw_npz_find(entries, count, t.name);
        if (!a) a = tw_npz_find(entries, count, key);
        if (!a && only >= 0 && count == 1) a = &entries[0].array;
        if (a) set(&in->list[i], t.name, a);
        found += !!a;
    }
    if (st == TW_OK && !found) st = tw_fail_at(d, TW_ERR_USAGE, path, -1, "no array has the name of an input");
    return st;
}

static tw_status read_item(cli_inputs *in, const tw_network *n, const char *item, tw_diag *d) {
    const char *eq = strchr(item, '=');
    if (!eq || tw_file_exists(item)) return read_file(in, n, item, -1, d);
    for (int i = 0; i < in->n; i++) {
        tw_tensor t;
        tw_network_input(n, i, &t);
        if (strlen(t.name) == (size_t)(eq - item) && !strncmp(t.name, item, (size_t)(eq - item)))
            return read_file(in, n, eq + 1, i, d);
    }
    return tw_fail(d, TW_ERR_USAGE, "--input: the model has no input %.*s", (int)(eq - item), item);
}

/* Draws reals around 0, and integers within what the model looks up by them; masks are 1. */
static tw_status draw(cli_inputs *in, const tw_network *n, int i, tw_diag *d) {
    tw_tensor *t = &in->list[i];
    tw_array a = {.rank = t->rank};
    tw_random r = tw_random_seed((uint64_t)i + 1);
    const int64_t limit = tw_network_input_limit(n, i);
    memcpy(a.dims, t->dims, sizeof a.dims);
    if (!tw_element_from_name(t->type, &a.type) || tw_array_bytes(&a) < 0)
        return tw_fail(d, TW_ERR_UNSUPPORTED, "input \"%s\" cannot be drawn: give it by --input", t->name);
    void *data = tw_arena_alloc(&in->arena, (size_t)tw_array_bytes(&a) + 1);
    if (!data) return tw_fail_memory(d);
    const bool real = tw_element_kind(a.type) == TW_KIND_real, mask = strstr(t->name, "mask");
    for (int64_t k = 0; k < tw_array_elements(&a); k++) {
        const double x = tw_random_unit(&r);
        const int64_t whole = limit > 1 ? (int64_t)(x * (double)limit) : mask;
        const double between = 2 * x - 1;
        if (real)
            tw_array_set_reals(a.type, data, k, 1, mask ? &(double){1} : &between);
        else
            tw_array_set_integers(a.type, data, k, 1, &whole);
    }
    t->data = data;
    return TW_OK;
}

tw_status cli_inputs_read(cli_inputs *in, const tw_network *n, const cli_list *files, cli_dims dims, bool random,
                          tw_diag *d) {
    tw_status st = begin(in, n, dims, d);
    for (int i = 0; i < files->count && st == TW_OK; i++) st = read_item(in, n, files->item[i], d);
    for (int i = 0; i < in->n && st == TW_OK; i++) {
        if (in->list[i].type) continue;
        tw_tensor t;
        tw_network_input(n, i, &t);
        if (!random) return tw_fail(d, TW_ERR_USAGE, "input \"%s\" has no content: --input %s=FILE", t.name, t.name);
        st = shape(n, i, dims, &in->list[i], d);
        if (st == TW_OK) st = draw(in, n, i, d);
    }
    return st;
}

void cli_inputs_describe(const cli_inputs *in, char *out, size_t size) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < in->n && at < size; i++) {
        const tw_tensor *t = &in->list[i];
        at += (size_t)snprintf(out + at, size - at, "%s%s %s[", i ? ", " : "", t->name, t->type);
        for (int k = 0; k < t->rank && at < size; k++)
            at += (size_t)snprintf(out + at, size - at, "%s%lld", k ? ", " : "", (long long)t->dims[k]);
        if (at < size) at += (size_t)snprintf(out + at, size - at, "]");
    }
}

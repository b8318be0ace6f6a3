/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `import` adds measurements to a store: lines that `export` wrote, and results of other autotuners. */
#include "base/diag.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tune/interchange.h"
#include "tune/lines.h"

#include <stdio.h>
#include <string.h>

typedef struct adding {
    tw_store *store;
    int64_t added; /* Number of measurements that were added. */
    int64_t there; /* Number of measurements that the store had already. */
} adding;

static tw_status add(void *context, const tw_measurement *m, tw_diag *diag) {
    adding *a = context;
    bool added = false;
    const tw_status st = tw_store_add(a->store, m, &added, diag);
    if (st == TW_OK) *(added ? &a->added : &a->there) += 1;
    return st;
}

/* Adds the lines of a text. Fails at a wrong line. The lines before a wrong line stay added. */
static tw_status add_lines(adding *a, const tw_buf *text, const char *path, tw_diag *diag) {
    const char *at = text->data, *end = text->data ? text->data + text->size : NULL;
    tw_status st = TW_OK;
    for (int number = 1; at < end && st == TW_OK; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((stop ? stop : end) - at);
        tw_line line = {0};
        if (size) {
            st = tw_lines_read(&line, at, size, path, number, diag);
            if (st == TW_OK) st = add(a, &line.m, diag);
            tw_lines_free(&line);
        }
        at += size + 1;
    }
    return st;
}

static tw_status add_text(adding *a, const tw_buf *text, const char *path, const tw_interchange_names *names,
                          tw_diag *diag) {
    switch (tw_interchange_detect(text->data, text->size)) {
    case TW_INTERCHANGE_LINES:
        if (names->device || names->space || names->problem || names->campaign || names->space_of)
            return tw_fail_at(diag, TW_ERR_USAGE, path, -1,
                              "lines have names of their own: flags are for T4 and caches");
        return add_lines(a, text, path, diag);
    case TW_INTERCHANGE_T1:
        return tw_fail_at(diag, TW_ERR_USAGE, path, -1,
                          "T1 describes a problem and has no results: give it to --t1, and a file of results");
    default:
        return tw_interchange_read(text->data, text->size, path, names, add, a, diag);
    }
}

/* Imports the file `path`. `t1` is the path of its description in T1, or NULL. The store is not made if a file cannot
   be read. */
static tw_status import(adding *a, const char *store, const char *path, const char *t1, tw_interchange_names *names,
                        tw_diag *diag) {
    tw_buf text = {0};
    tw_t1 space = {0};
    tw_status st = tw_file_read(&text, path, diag);
    if (st == TW_OK && t1) st = tw_t1_read(&space, t1, diag);
    if (st == TW_OK && t1) names->space_of = &space;
    if (st == TW_OK) st = tw_store_open(&a->store, store, false, diag);
    if (st == TW_OK) st = add_text(a, &text, path, names, diag);
    tw_t1_free(&space);
    tw_buf_free(&text);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *objects[2], *t1 = NULL;
    tw_interchange_names names = {0};
    const cli_flag flags[] = {
        {"--device", CLI_TEXT, &names.device, "NAME", "what measured the results, where the file does not say"},
        {"--space", CLI_TEXT, &names.space, "NAME", "the kernel, where the file does not say"},
        {"--problem", CLI_TEXT, &names.problem, "WORDS", "the problem, where the file does not say: \"x=4096\""},
        {"--t1", CLI_TEXT, &t1, "FILE", "the problem's description in T1: names, and the space of configurations"},
        {"--campaign", CLI_TEXT, &names.campaign, "NAME", "results become trials of a campaign, to train from"},
    };
    int n, status;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, objects, 2, 2, &n, &status)) return status;
    adding a = {0};
    tw_diag d;
    const tw_status st = import(&a, objects[0], objects[1], t1, &names, &d);
    if (a.store) printf("%lld measurements added, %lld were there already\n", (long long)a.added, (long long)a.there);
    tw_store_close(a.store);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_import = {
    "import", "STORE FILE", "add exported measurements, T4 or a cache of Kernel Tuner to a store",
    "tilewright import tuned.db other.jsonl\n  xz -dc h200.jsonl.xz | tilewright import tuned.db -\n"
    "  tilewright import tuned.db results.json --t1 problem.json --device \"NVIDIA A100\"",
    run};

/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `import` adds lines that `export` wrote to a store. */
#include "base/file.h"
#include "cli/cli.h"
#include "tune/lines.h"

#include <stdio.h>
#include <string.h>

typedef struct counts {
    int64_t added, there;
} counts;

/* Adds the lines of a text. Those before a line that is wrong stay added: they are measurements. */
static tw_status add_lines(tw_store *s, const tw_buf *text, const char *path, counts *n, tw_diag *diag) {
    const char *at = text->data, *end = text->data ? text->data + text->size : NULL;
    tw_status st = TW_OK;
    for (int number = 1; at < end && st == TW_OK; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((stop ? stop : end) - at);
        tw_line line = {0};
        bool added = false;
        if (size) {
            st = tw_lines_read(&line, at, size, path, number, diag);
            if (st == TW_OK) st = tw_store_add(s, &line.m, &added, diag);
            if (st == TW_OK) (added ? &n->added : &n->there)[0]++;
            tw_lines_free(&line);
        }
        at += size + 1;
    }
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *objects[2];
    int n, status;
    if (!cli_parse(verb, argc, argv, NULL, 0, objects, 2, 2, &n, &status)) return status;
    tw_store *s = NULL;
    tw_buf text = {0};
    counts all = {0};
    tw_diag d;
    tw_status st = tw_file_read(&text, objects[1], &d);
    if (st == TW_OK) st = tw_store_open(&s, objects[0], false, &d);
    if (st == TW_OK) st = add_lines(s, &text, objects[1], &all, &d);
    if (s) printf("%lld measurements added, %lld were there already\n", (long long)all.added, (long long)all.there);
    tw_store_close(s);
    tw_buf_free(&text);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_import = {
    "import", "STORE FILE", "add exported measurements to a store",
    "tilewright import tuned.db other.jsonl\n  xz -dc h200.jsonl.xz | tilewright import tuned.db -", run};

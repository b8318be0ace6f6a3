/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/file.h"
#include "cli/cli.h"
#include "tokenizer/golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const tw_tokenizer *t, const int32_t *ids, size_t n, bool json) {
    json_t *list = json ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tw_tokenizer_piece(t, ids[i]);
        if (json)
            json_array_append_new(list, json_pack("{s:i, s:s?}", "id", ids[i], "piece", piece));
        else
            printf("%8d  %s\n", ids[i], piece ? piece : "");
    }
    char *text = json ? json_dumps(list, 0) : NULL;
    if (text) puts(text);
    free(text);
    json_decref(list);
}

static tw_status encode(const tw_tokenizer *t, const char *text, bool plain, bool json, tw_diag *d) {
    tw_buf in = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    tw_status st = TW_OK;
    if (!strcmp(text, "-"))
        st = tw_file_read(&in, "-", d);
    else if (!tw_buf_str(&in, text))
        st = TW_ERR_MEMORY;
    if (st == TW_OK) {
        st = tw_tokenizer_encode(t, in.data ? in.data : "", in.size, !plain, &ids, &n, d);
        cli_blame(d, st, strcmp(text, "-") ? "TEXT" : "-");
    }
    if (st == TW_OK) print(t, ids, n, json);
    free(ids);
    tw_buf_free(&in);
    return st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *objects[2], *golden = NULL;
    bool json = false, plain = false;
    const cli_flag flags[] = {
        {"--golden", CLI_TEXT, &golden, "FILE", "compare with a reference file instead"},
        {"--no-special", CLI_FLAG, &plain, NULL, "leave out what the post-processor adds (BOS and the like)"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, objects, 1, 2, &n, &status)) return status;
    if ((n == 2) == (golden != NULL)) return cli_usage("tokenize: needs a TEXT or --golden FILE, one of them");
    tw_tokenizer *t = NULL;
    tw_diag d = {.offset = -1, .line = -1};
    int64_t cases = 0;
    tw_status st = tw_tokenizer_open(&t, objects[0], &d);
    if (st == TW_OK)
        st = golden ? tw_tokenizer_check_golden(t, golden, &cases, &d) : encode(t, objects[1], plain, json, &d);
    if (st == TW_OK && golden && json) printf("{\"agrees\": true, \"cases\": %lld}\n", (long long)cases);
    if (st == TW_OK && golden && !json) printf("agrees with %s: %lld cases\n", golden, (long long)cases);
    tw_tokenizer_close(t);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_tokenize = {"tokenize", "MODEL TEXT", "ids and pieces of a text; MODEL may be a tokenizer.json",
                               "tilewright tokenize models/demo \"In the beginning\"", run};

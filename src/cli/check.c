/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_json(const char *path, const tw_schedule_info *info, const tw_report *r, bool accepted) {
    json_t *findings = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s}", "rule", r->findings[i].rule, "where",
                                                  r->findings[i].where, "text", r->findings[i].text));
    json_t *o = json_pack("{s:s, s:b, s:I, s:i, s:i, s:b, s:o}", "schedule", path, "accepted", accepted, "instructions",
                          (json_int_t)info->instructions, "workers", info->workers, "counters", info->counters,
                          "findings_cut", r->cut, "findings", findings);
    char *text = o ? json_dumps(o, 0) : NULL;
    if (text) puts(text);
    free(text);
    json_decref(o);
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *path, *format = "auto";
    bool json = false;
    const cli_flag flags[] = {
        {"--format", CLI_TEXT, &format, "auto|tilewright", "the file's format"},
        {"--json", CLI_FLAG, &json, NULL, "print the verdict and every finding as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    if (strcmp(format, "auto") && strcmp(format, "tilewright"))
        return cli_usage("--format: \"%s\" is not auto or tilewright", format);
    tw_schedule *s = NULL;
    tw_checked *c = NULL;
    tw_report r = {0};
    tw_diag d;
    tw_schedule_info info = {0};
    tw_status st = tw_schedule_read(&s, path, &d);
    if (st != TW_OK) return cli_fail(&d);
    tw_schedule_describe(s, &info);
    st = tw_schedule_check(&c, &s, &r, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) {
        status = cli_fail(&d);
    } else {
        status = st == TW_OK ? CLI_OK : CLI_FAILED;
        if (json)
            print_json(path, &info, &r, st == TW_OK);
        else if (st == TW_OK)
            printf("%s: accepted: %lld instructions on %d workers, %d counters, every interleaving of every step\n",
                   path, (long long)info.instructions, info.workers, info.counters);
        for (size_t i = 0; !json && i < r.count; i++)
            printf("%s: %s: %s: %s\n", path, r.findings[i].where, r.findings[i].rule, r.findings[i].text);
        if (!json && r.cut) printf("%s: (and more)\n", path);
    }
    tw_report_free(&r);
    tw_checked_free(c);
    tw_schedule_free(s);
    return status;
}

const cli_verb cli_check = {"check", "S.json", "prove a schedule safe, or say why it is not", "tilewright check s.json",
                            run};

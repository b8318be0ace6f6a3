/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const formats[] = {"auto", "tilewright", "ranges", "amk"};

static void print_json(const char *path, tw_schedule_format format, const tw_schedule_info *info, const tw_report *r,
                       bool accepted) {
    json_t *findings = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(findings,
                              json_pack("{s:s, s:s, s:s, s:s?}", "rule", r->findings[i].rule, "where",
                                        r->findings[i].where, "text", r->findings[i].text, "how", r->findings[i].how));
    json_t *o = json_pack("{s:s, s:s, s:b, s:I, s:i, s:i, s:b, s:o}", "schedule", path, "format", formats[format],
                          "accepted", accepted, "instructions", (json_int_t)info->instructions, "workers",
                          info->workers, "counters", info->counters, "findings_cut", r->cut, "findings", findings);
    cli_results_print(o, 0);
}

static void print_accepted(const char *path, tw_schedule_format format, const tw_schedule_info *info) {
    if (format == TW_SCHEDULE_RANGES)
        printf("%s: accepted: %lld tasks on %d workers, %d counters, every interleaving\n", path,
               (long long)info->instructions, info->workers, info->counters);
    else if (format != TW_SCHEDULE_AMK)
        printf("%s: accepted: %lld instructions on %d workers, %d counters, every interleaving of every step\n", path,
               (long long)info->instructions, info->workers, info->counters);
    else if (info->workers)
        printf("%s: accepted: %lld tasks on %d SMs, %d counters, every interleaving\n", path,
               (long long)info->instructions, info->workers, info->counters);
    else
        printf("%s: accepted: %lld tasks on any SMs, %d counters, every interleaving\n", path,
               (long long)info->instructions, info->counters);
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *path, *name = "auto", *dot = NULL;
    bool json = false, explain = false;
    const cli_flag flags[] = {
        {"--format", CLI_TEXT, &name, "auto|tilewright|ranges|amk",
         "the file's format (default auto); ranges: a graph's; amk: AutoMegaKernel's"},
        {"--explain", CLI_FLAG, &explain, NULL, "also what is ordered around a race, and a shortest run that shows it"},
        {"--dot", CLI_TEXT, &dot, "FILE", "write who waits for whom as a Graphviz graph, findings marked"},
        {"--json", CLI_FLAG, &json, NULL, "print the verdict and every finding as JSON"},
    };
    int status, n;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &n, &status)) return status;
    tw_schedule_format format = TW_SCHEDULE_AUTO;
    while (format <= TW_SCHEDULE_AMK && strcmp(name, formats[format])) format++;
    if (format > TW_SCHEDULE_AMK) return cli_usage("--format: \"%s\" is not auto, tilewright, ranges or amk", name);
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    tw_schedule_info info;
    tw_status st = tw_schedule_file_read(&f, path, format, &d);
    if (st != TW_OK) return cli_fail(&d);
    format = tw_schedule_file_describe(f, &info);
    st = tw_schedule_file_check(f, &r, &d);
    if (st != TW_OK && st != TW_ERR_REJECTED) {
        status = cli_fail(&d);
    } else {
        status = st == TW_OK ? CLI_OK : CLI_FAILED;
        if (json)
            print_json(path, format, &info, &r, st == TW_OK);
        else if (st == TW_OK)
            print_accepted(path, format, &info);
        for (size_t i = 0; !json && i < r.count; i++) {
            printf("%s: %s: %s: %s\n", path, r.findings[i].where, r.findings[i].rule, r.findings[i].text);
            if (explain && r.findings[i].how) printf("  %s\n", r.findings[i].how);
        }
        if (!json && r.cut) printf("%s: (and more)\n", path);
    }
    if (dot && status != CLI_USAGE && tw_schedule_file_dot(f, &r, dot, &d) != TW_OK) status = cli_fail(&d);
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return status;
}

const cli_verb cli_check = {"check", "S.json", "prove a schedule safe, or say why it is not",
                            "tilewright check s.json\n  tilewright check --format amk megakernel.json", run};

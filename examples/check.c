/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a model of a known shape to a schedule for four workers and has it proved safe:

     cc check.c $(pkg-config --cflags --libs tilewright) -o check && ./check llama-tiny */
#include <tilewright/model.h>
#include <tilewright/schedule.h>

#include <stdio.h>

static tw_status check(const char *shape, tw_diag *diag) {
    tw_model *model = NULL;
    tw_schedule *schedule = NULL;
    tw_checked *checked = NULL;
    tw_report report = {0};
    const tw_lowering lowering = {.workers = 4, .tokens = 1, .max_seq = 128};
    tw_status st = tw_model_synthetic(&model, shape, TW_BF16, 1, diag);
    if (st == TW_OK) st = tw_schedule_lower(&schedule, model, &lowering, diag);
    if (st == TW_OK) st = tw_schedule_check(&checked, &schedule, &report, diag);
    for (size_t i = 0; i < report.count; i++)
        printf("%s: %s: %s\n", report.findings[i].where, report.findings[i].rule, report.findings[i].text);
    if (st == TW_OK) {
        tw_schedule_info info;
        tw_schedule_describe(tw_checked_schedule(checked), &info);
        printf("accepted: %lld instructions of %d workers\n", (long long)info.instructions, info.workers);
    }
    tw_report_free(&report);
    tw_checked_free(checked);
    tw_schedule_free(schedule);
    tw_model_close(model);
    return st;
}

int main(int argc, char **argv) {
    tw_diag diag;
    if (argc != 2) {
        fprintf(stderr, "usage: check SHAPE\n");
        return 2;
    }
    if (check(argv[1], &diag) == TW_OK) return 0;
    fprintf(stderr, "check: %s\n", diag.message);
    return 1;
}

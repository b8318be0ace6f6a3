/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a file in any of the formats. */
#include "schedule/formats.h"

#include "base/diag.h"
#include "base/file.h"
#include "schedule/amk/amk.h"
#include "schedule/check.h"
#include "schedule/json.h"
#include "schedule/ranges/ranges.h"
#include "schedule/report.h"

#include <stdlib.h>

struct tw_schedule_file {
    /* One of these is there. */
    tw_schedule *own;
    tw_ranges *ranges;
    tw_amk *amk;
};

tw_status tw_schedule_file_parse(tw_schedule_file **out, const char *data, size_t size, const char *path,
                                 tw_schedule_format format, tw_diag *diag) {
    json_t *root = NULL;
    *out = NULL;
    tw_schedule_file *f = calloc(1, sizeof *f);
    if (!f) return tw_fail_memory(diag);
    tw_status st = tw_json_parse(&root, data, size, path, -1, diag);
    if (st == TW_OK && (format == TW_SCHEDULE_AMK || (format == TW_SCHEDULE_AUTO && tw_amk_recognise(root))))
        st = tw_amk_from_json(&f->amk, root, path, diag);
    else if (st == TW_OK && (format == TW_SCHEDULE_RANGES || (format == TW_SCHEDULE_AUTO && tw_ranges_recognise(root))))
        st = tw_ranges_from_json(&f->ranges, root, path, diag);
    else if (st == TW_OK)
        st = tw_schedule_from_json(&f->own, root, path, diag);
    json_decref(root);
    if (st == TW_OK)
        *out = f;
    else
        tw_schedule_file_free(f);
    return st;
}

tw_status tw_schedule_file_read(tw_schedule_file **out, const char *path, tw_schedule_format format, tw_diag *diag) {
    tw_buf text = {0};
    *out = NULL;
    tw_status st = tw_file_read(&text, path, diag);
    if (st == TW_OK) st = tw_schedule_file_parse(out, text.data, text.size, path, format, diag);
    tw_buf_free(&text);
    return st;
}

tw_schedule_format tw_schedule_file_describe(const tw_schedule_file *f, tw_schedule_info *info) {
    if (f->amk)
        tw_amk_describe(f->amk, info);
    else if (f->ranges)
        tw_ranges_describe(f->ranges, info);
    else
        tw_schedule_describe(f->own, info);
    return f->amk ? TW_SCHEDULE_AMK : f->ranges ? TW_SCHEDULE_RANGES : TW_SCHEDULE_TILEWRIGHT;
}

tw_status tw_schedule_file_check(tw_schedule_file *f, tw_report *report, tw_diag *diag) {
    if (tw_report_start(report) != TW_OK) return tw_fail_memory(diag);
    if (f->own) return tw_schedule_examine(f->own, report, diag);
    if ((f->amk ? tw_amk_check(f->amk, report) : tw_ranges_check(f->ranges, report)) != TW_OK)
        return tw_fail_memory(diag);
    if (!report->count && !report->cut) return TW_OK;
    const tw_finding *first = report->count ? report->findings : NULL;
    return tw_fail(diag, TW_ERR_REJECTED, "the schedule is unsafe: %s: %s: %s", first ? first->where : "",
                   first ? first->rule : "", first ? first->text : "");
}

tw_status tw_schedule_file_dot(tw_schedule_file *f, const tw_report *report, const char *path, tw_diag *diag) {
    if (f->ranges) return tw_ranges_dot(f->ranges, report, path, diag);
    return f->own ? tw_schedule_dot(f->own, report, path, diag) : tw_amk_dot(f->amk, report, path, diag);
}

void tw_schedule_file_free(tw_schedule_file *f) {
    if (!f) return;
    tw_schedule_free(f->own);
    tw_ranges_free(f->ranges);
    tw_amk_free(f->amk);
    free(f);
}

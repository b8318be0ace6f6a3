/* SPDX-License-Identifier: Apache-2.0 */
/* `trace MODEL`: steps of decode, or of a prompt. */
#include "cli/trace.h"
#include "engine/trace.h"

#include <stdio.h>

/* Sets the time of the steps on an engine that does not record. */
static tw_status time_untraced(tw_model *model, const tw_engine_options *o, const tw_engine_trace_options *how,
                               tw_trace *t, tw_diag *d) {
    tw_engine *e = NULL;
    tw_status st = tw_engine_open(&e, model, o, d);
    if (st == TW_OK) st = tw_engine_time_untraced(e, how, &t->clean, d);
    tw_engine_close(e);
    return st;
}

static tw_status trace(const char *path, const tw_engine_options *o, const tw_engine_trace_options *how, tw_trace **t,
                       tw_diag *d) {
    tw_model *model = NULL;
    tw_engine *e = NULL;
    tw_engine_options traced = *o;
    traced.traced = true;
    tw_status st = tw_model_open(&model, path, d);
    if (st == TW_OK) st = tw_engine_open(&e, model, &traced, d);
    if (st == TW_OK) st = tw_engine_trace(e, how, t, d);
    tw_engine_close(e);
    if (st == TW_OK && !(*t)->clean) st = time_untraced(model, o, how, *t, d);
    tw_model_close(model);
    return st;
}

int cli_trace_model(const cli_verb *verb, int argc, char **argv) {
    cli_model_flags m = {0};
    cli_trace_flags f = {0};
    const char *path = NULL;
    tw_engine_trace_options how = {0};
    const cli_flag flags[] = {
        {"--context", CLI_INT, &how.context, "N", "tokens in the cache before the traced ones (default 0)"},
        {"--steps", CLI_INT, &how.steps, "N", "tokens decoded one by one (default 1)"},
        {"--prefill", CLI_INT, &how.prefill, "N", "read a prompt of N tokens at once instead of decoding"},
        {"-r", CLI_INT, &how.runs, "N", "runs, of which the fastest is kept (default: as many as take half a second)"},
        CLI_TRACE_FLAGS(f),
        {"--schedule", CLI_TEXT, &m.schedule, "S.json", "decode by this schedule, once the check accepts it"},
        CLI_MODEL_FLAGS(m),
    };
    int status, count;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, &path, 1, 1, &count, &status)) return status;
    if (how.steps && how.prefill) return cli_usage("--steps are decode's: not with --prefill");
    if (how.context < 0 || how.steps < 0 || how.prefill < 0 || how.runs < 0 || how.context > 1 << 24 ||
        how.steps > 1 << 16 || how.prefill > 1 << 24)
        return cli_usage("--context, --steps, --prefill, -r: out of range");
    if (!how.steps) how.steps = 1;
    const int64_t n = how.prefill ? how.prefill : how.steps;
    char title[512];
    snprintf(title, sizeof title, "%.400s: %s of %lld token%s after %lld", path, how.prefill ? "prefill" : "decode",
             (long long)n, n == 1 ? "" : "s", (long long)how.context);
    how.title = title;
    tw_engine_options o;
    tw_trace *t = NULL;
    tw_diag d;
    tw_status st = cli_trace_check(&f, &d);
    if (st == TW_OK) st = cli_engine_options(&m, &o, &d);
    if (st == TW_OK && !o.context && !m.config.lowering.max_seq && !o.schedule) o.context = how.context + n;
    if (st == TW_OK) st = trace(path, &o, &how, &t, &d);
    if (st == TW_OK) st = cli_trace_print(t, &f, &d);
    tw_trace_free(t);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

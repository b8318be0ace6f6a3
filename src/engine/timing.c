/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/timing.h"

#include "base/clock.h"
#include "base/diag.h"
#include "engine/engine.h"

#include <stdlib.h>

static int32_t first_id(const tw_engine *e) {
    return (int32_t)(1 % e->model->vocab);
}

double tw_prompt_streamed_bytes(const tw_engine *e, int64_t depth, int64_t n) {
    const bool prompts = e->program[TW_PROGRAM_PROMPT] >= 0;
    const int64_t most = prompts ? tw_engine_step_tokens(e, TW_PROGRAM_PROMPT) : e->machine.tokens;
    double bytes = 0;
    for (int64_t done = 0, step; done < n; done += step) {
        step = n - done < most ? n - done : most;
        bytes += (double)tw_engine_streamed_bytes(e, depth + done + step - 1);
    }
    return bytes;
}

static int32_t *random_ids(const tw_engine *e, tw_random *r, int64_t n, tw_diag *diag) {
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    if (!ids) tw_fail_memory(diag);
    for (int64_t i = 0; ids && i < n; i++) ids[i] = (int32_t)tw_random_below(r, (uint64_t)e->model->vocab);
    return ids;
}

tw_status tw_feed_random(tw_engine *e, tw_random *r, int64_t n, tw_diag *diag) {
    double seconds;
    return n < 1 ? TW_OK : tw_time_prompt(e, r, n, &seconds, diag);
}

tw_status tw_time_prompt(tw_engine *e, tw_random *r, int64_t n, double *seconds, tw_diag *diag) {
    int32_t *ids = random_ids(e, r, n, diag);
    if (!ids) return TW_ERR_MEMORY;
    int32_t id; /* A prompt is over when its first token is known. */
    const int64_t start = tw_now_ns();
    const tw_status st = tw_engine_feed(e, ids, n, NULL, &id, diag);
    *seconds = (double)(tw_now_ns() - start) * 1e-9;
    free(ids);
    return st;
}

tw_status tw_time_steps(tw_engine *e, int64_t n, double *microseconds, double *seconds, tw_diag *diag) {
    int32_t id = first_id(e);
    const int64_t start = tw_now_ns();
    int64_t before = start;
    for (int64_t i = 0; i < n; i++) {
        const tw_status st = tw_engine_feed(e, &id, 1, NULL, &id, diag);
        if (st != TW_OK) return st;
        if (!microseconds) continue;
        const int64_t now = tw_now_ns();
        microseconds[i] = (double)(now - before) * 1e-3;
        before = now;
    }
    *seconds = (double)(tw_now_ns() - start) * 1e-9;
    return TW_OK;
}

tw_status tw_time_greedy(tw_engine *e, int64_t n, int32_t *ids, double *seconds, tw_diag *diag) {
    return tw_engine_greedy(e, first_id(e), n, ids, seconds, diag);
}

tw_status tw_time_generation(tw_engine *e, const tw_sampling *how, int64_t n, double *seconds, tw_diag *diag) {
    const int32_t id = first_id(e);
    tw_generation g = {.prompt = &id, .n_prompt = 1, .limit = n + 1, .sampling = *how, .ignore_eos = true};
    const tw_status st = tw_generate(e, NULL, &g, diag);
    *seconds = g.decode_seconds;
    if (st == TW_OK) free(g.ids);
    return st;
}

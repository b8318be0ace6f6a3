/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traced.h"

#include "base/diag.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

void cli_traced_close(cli_traced *x) {
    tw_gpu_launch_close(x->launch);
    for (int i = 0; x->kernel && i < tw_gpu_kernel_buffers(x->kernel); i++)
        if (x->addresses[i]) tw_gpu_release(x->gpu, x->addresses[i]);
    tw_gpu_kernel_close(x->kernel);
    tw_gpu_close(x->gpu);
    free(x->result);
    *x = (cli_traced){0};
}

static bool is_attention(const cli_traced *x) {
    return !strncmp(x->problem, "attention", strlen("attention"));
}

/* Fills a buffer with random numbers. As floats of 16 bits or more they are between -1 and 1. In attention bf16 is
   usual, of which these are so small that all weights would be equal: there magnitudes are from 0.5 to 2. */
static void fill(const cli_traced *x, void *data, size_t bytes, tw_random *r) {
    const bool large = is_attention(x) && !strstr(x->problem, "type=f16");
    const uint16_t least = large ? 0x3f00 : 0x3800, some = large ? 0x80ff : 0x83ff;
    uint16_t *to = data;
    for (size_t i = 0; i < bytes / 2; i++) to[i] = (uint16_t)(least | (tw_random_u64(r) & some));
}

static tw_status bind_all(cli_traced *x, tw_diag *diag) {
    tw_random r = tw_random_seed((uint64_t)x->as->seed);
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(x->kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *buffer = tw_gpu_kernel_buffer(x->kernel, i);
        void *data = calloc(1, buffer->bytes);
        if (!data) return tw_fail_memory(diag);
        if (!buffer->written) fill(x, data, buffer->bytes, &r);
        st = tw_gpu_alloc_named(x->gpu, buffer->name, buffer->bytes, &x->addresses[i], diag);
        if (st == TW_OK) st = tw_gpu_upload(x->gpu, x->addresses[i], data, buffer->bytes, diag);
        if (st == TW_OK) st = tw_gpu_launch_bind(x->launch, buffer->name, x->addresses[i], diag);
        free(data);
    }
    return st;
}

tw_status cli_traced_open(cli_traced *x, const cli_traced_as *as, const char *problem, const char *configuration,
                          tw_diag *diag) {
    *x = (cli_traced){.as = as, .problem = problem};
    /* Lengths, first rows and numbers of pages are no random numbers. */
    if (is_attention(x) && (strstr(problem, "ragged=1") || strstr(problem, "page=")))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "attention of ragged sequences or of pages is not traced");
    tw_status st = tw_gpu_open(&x->gpu, as->device, diag);
    if (st == TW_OK && as->memory && x->gpu->cuda)
        st = tw_fail(diag, TW_ERR_USAGE, "--memory needs --device emulator, which sees addresses");
    if (st == TW_OK) st = tw_gpu_kernel_open(&x->kernel, x->gpu, problem, configuration, diag);
    if (st == TW_OK) st = tw_gpu_launch_open(&x->launch, x->kernel, diag);
    return st == TW_OK ? bind_all(x, diag) : st;
}

/* Runs the kernel once, and returns C, or attention's result, in *out. The caller frees it. Before each run it holds
   the same random numbers. NaN would hide differences if beta is not 0. */
static tw_status run(cli_traced *x, int c, void **out, tw_diag *diag) {
    *out = malloc(x->bytes);
    if (!*out) return tw_fail_memory(diag);
    tw_random r = tw_random_seed((uint64_t)x->as->seed + 1);
    fill(x, *out, x->bytes, &r);
    tw_status st = tw_gpu_upload(x->gpu, x->addresses[c], *out, x->bytes, diag);
    if (st == TW_OK) st = tw_gpu_launch_run(x->launch, NULL, diag);
    if (st == TW_OK) st = tw_gpu_wait(x->gpu, diag);
    return st == TW_OK ? tw_gpu_download(x->gpu, *out, x->addresses[c], x->bytes, diag) : st;
}

/* Runs the kernel once in the emulator, and returns C in *out. The caller frees it. *used becomes the kernel's use of
   memory. */
static tw_status run_observed(cli_traced *x, int c, void **out, tw_prof_memory_report *used, tw_diag *diag) {
    tw_prof_memory *m = tw_prof_memory_new();
    if (!m) return tw_fail_memory(diag);
    x->gpu->observer = tw_prof_memory_observe;
    x->gpu->observer_context = m;
    tw_status st = run(x, c, out, diag);
    x->gpu->observer = NULL;
    x->gpu->observer_context = NULL;
    if (st == TW_OK) st = tw_prof_memory_finish(m, used, diag);
    tw_prof_memory_free(m);
    return st;
}

tw_status cli_traced_run(cli_traced *x, tw_trace **t, tw_prof_memory_report *used, tw_diag *diag) {
    void *traced = NULL;
    tw_trace_times times = {0};
    int c = 0;
    while (strcmp(tw_gpu_kernel_buffer(x->kernel, c)->name, is_attention(x) ? "out" : "c") != 0) c++;
    x->bytes = tw_gpu_kernel_buffer(x->kernel, c)->bytes;
    tw_status st = used ? run_observed(x, c, &x->result, used, diag) : run(x, c, &x->result, diag);
    if (st == TW_OK) st = tw_gpu_kernel_attach(x->kernel, &x->as->options, diag);
    if (st == TW_OK) st = tw_kernel_trace_times(x->kernel, x->launch, &times, diag);
    if (st == TW_OK) st = run(x, c, &traced, diag);
    if (st == TW_OK && memcmp(x->result, traced, x->bytes) != 0)
        st = tw_fail(diag, TW_ERR_MISMATCH, "the kernel with records has other results than without");
    if (st == TW_OK) st = tw_kernel_trace(x->kernel, t, diag);
    if (st == TW_OK) {
        (*t)->clean = times.clean;
        (*t)->traced = times.traced;
    }
    free(traced);
    return st;
}

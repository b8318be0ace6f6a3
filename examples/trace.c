/* SPDX-License-Identifier: Apache-2.0 */
/* Looks inside a generated kernel while it is in use, on the first GPU or in the emulator: runs it, attaches a tracer,
   runs it again, and prints who did what for how long.

     cc trace.c $(pkg-config --cflags --libs tilewright) -o trace && ./trace */
#include <tilewright/trace.h>

#include <stdio.h>
#include <stdlib.h>

/* Called for each thing that a warp did. */
static bool print(void *user, const tw_trace_record *r) {
    int *records = user;
    printf("block %d, warp %2d: %-6s %-10s %10.1f to %10.1f\n", r->block, r->warp, r->kind, r->name, r->begin, r->end);
    return ++*records < 12;
}

static tw_status bind_all(tw_gpu *gpu, const tw_gpu_kernel *kernel, tw_gpu_launch *launch, uint64_t *at,
                          tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *buffer = tw_gpu_kernel_buffer(kernel, i);
        void *zeros = calloc(1, buffer->bytes);
        if (!zeros) return TW_ERR_MEMORY;
        st = tw_gpu_alloc(gpu, buffer->bytes, &at[i], diag);
        if (st == TW_OK) st = tw_gpu_upload(gpu, at[i], zeros, buffer->bytes, diag);
        if (st == TW_OK) st = tw_gpu_launch_bind(launch, buffer->name, at[i], diag);
        free(zeros);
    }
    return st;
}

static tw_status trace(int *records, tw_diag *diag) {
    const tw_trace_options options = {.granularity = "warp"};
    uint64_t at[8] = {0};
    tw_gpu *gpu = NULL;
    tw_gpu_kernel *kernel = NULL;
    tw_gpu_launch *launch = NULL;
    tw_status st = tw_gpu_open(&gpu, "auto", diag);
    if (st == TW_OK) st = tw_gpu_kernel_open(&kernel, gpu, "gemm type=f16 m=64 n=64 k=128", NULL, diag);
    if (st == TW_OK) st = tw_gpu_launch_open(&launch, kernel, diag);
    if (st == TW_OK) st = bind_all(gpu, kernel, launch, at, diag);
    if (st == TW_OK) st = tw_gpu_launch_run(launch, NULL, diag);
    /* From here on the same launch leaves records. */
    if (st == TW_OK) st = tw_gpu_kernel_attach(kernel, &options, diag);
    if (st == TW_OK) st = tw_gpu_launch_run(launch, NULL, diag);
    if (st == TW_OK) st = tw_gpu_kernel_collect(kernel, print, records, diag);
    if (st == TW_OK) {
        /* And from here on it leaves none. */
        tw_gpu_kernel_detach(kernel);
        st = tw_gpu_launch_run(launch, NULL, diag);
    }
    tw_gpu_launch_close(launch);
    tw_gpu_kernel_close(kernel);
    for (int i = 0; gpu && i < 8; i++) tw_gpu_release(gpu, at[i]);
    tw_gpu_close(gpu);
    return st;
}

int main(void) {
    tw_diag diag = {.message = ""};
    int records = 0;
    if (trace(&records, &diag) != TW_OK) {
        fprintf(stderr, "trace: %s\n", diag.message);
        return 1;
    }
    printf("%d records\n", records);
    return records ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies two matrices with a generated GPU kernel, on the first GPU or, where there is none, in the emulator, and
   compares with a plain loop:

     cc multiply.c $(pkg-config --cflags --libs tilewright) -lm -o multiply && ./multiply */
#include <tilewright/kernel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 96, N = 80, K = 64 };
static float a[M * K], b[K * N], c[M * N];

static double worst_error(void) {
    double worst = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)a[i * K + k] * b[k * N + j];
            worst = fmax(worst, fabs(sum - c[i * N + j]));
        }
    return worst;
}

/* Allocates and binds every buffer of the kernel, and zeroes those that need it. */
static tw_status bind_all(tw_gpu *gpu, const tw_gpu_kernel *kernel, tw_gpu_launch *launch, uint64_t *at,
                          tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < tw_gpu_kernel_buffers(kernel) && st == TW_OK; i++) {
        const tw_gpu_buffer *buffer = tw_gpu_kernel_buffer(kernel, i);
        const void *from = buffer->name[0] == 'a' ? a : buffer->name[0] == 'b' ? b : NULL;
        void *zeros = buffer->zeroed ? calloc(1, buffer->bytes) : NULL;
        st = tw_gpu_alloc(gpu, buffer->bytes, &at[i], diag);
        if (st == TW_OK && from) st = tw_gpu_upload(gpu, at[i], from, buffer->bytes, diag);
        if (st == TW_OK && zeros) st = tw_gpu_upload(gpu, at[i], zeros, buffer->bytes, diag);
        if (st == TW_OK) st = tw_gpu_launch_bind(launch, buffer->name, at[i], diag);
        free(zeros);
    }
    return st;
}

static tw_status multiply(tw_diag *diag) {
    char words[64];
    uint64_t at[8] = {0};
    tw_gpu *gpu = NULL;
    tw_gpu_kernel *kernel = NULL;
    tw_gpu_launch *launch = NULL;
    snprintf(words, sizeof words, "gemm type=f32 m=%d n=%d k=%d", M, N, K);
    tw_status st = tw_gpu_open(&gpu, "auto", diag);
    if (st == TW_OK) st = tw_gpu_kernel_open(&kernel, gpu, words, NULL, diag);
    if (st == TW_OK) st = tw_gpu_launch_open(&launch, kernel, diag);
    if (st == TW_OK) st = bind_all(gpu, kernel, launch, at, diag);
    if (st == TW_OK) st = tw_gpu_launch_run(launch, NULL, diag);
    if (st == TW_OK) st = tw_gpu_wait(gpu, diag);
    if (st == TW_OK) st = tw_gpu_download(gpu, c, at[2], sizeof c, diag);
    if (st == TW_OK) printf("%d x %d x %d on %s: worst error %.2g\n", M, N, K, tw_gpu_name(gpu), worst_error());
    tw_gpu_launch_close(launch);
    tw_gpu_kernel_close(kernel);
    for (int i = 0; gpu && i < 8; i++) tw_gpu_release(gpu, at[i]);
    tw_gpu_close(gpu);
    return st;
}

int main(void) {
    tw_diag diag;
    for (int i = 0; i < M * K; i++) a[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < K * N; i++) b[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    if (multiply(&diag) != TW_OK) {
        fprintf(stderr, "multiply: %s\n", diag.message);
        return 1;
    }
    return worst_error() < 1e-4 ? 0 : 1;
}

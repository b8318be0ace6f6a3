/* SPDX-License-Identifier: Apache-2.0 */
/* What a test can ask of the stand-in for the NVIDIA driver (fake_cuda.c), once the library is opened. */
#ifndef TW_TEST_FAKE_CUDA_H
#define TW_TEST_FAKE_CUDA_H

/* The last tensor map encoded, as the driver was given it. */
typedef struct fake_cuda_map {
    int im2col, type, swizzle;
    unsigned rank, box[5], steps[5], channels, pixels;
    unsigned long long address, extents[5], strides[4];
    int lower[3], upper[3];
} fake_cuda_map;

typedef struct fake_cuda_seen {
    int calls, launches, replays, compiled;
    unsigned grid[3], block[3], shared; /* of the last launch, captured or not */
    int cluster, cooperative, programmatic;
    const void *stream;
    fake_cuda_map map;
} fake_cuda_seen;

/* The `nth` call from now (0: the next) of `function` ("*": of any that can fail) fails with `code`. NULL: none. */
void fake_cuda_fail(const char *function, int nth, int code);
void fake_cuda_reset(void); /* no faults, no failures, one device */
void fake_cuda_devices(int n);
/* Makes the primary context of a device the calling thread's current one. -1: the thread has none. Launches fail with
   400 where another device's context is current. */
void fake_cuda_enter(int device);
int fake_cuda_alive(void); /* objects made and not given back */
const fake_cuda_seen *fake_cuda_look(void);
/* Called in place of every kernel named `name`, with its parameters; NULL: none. */
void fake_cuda_hook(const char *name, void (*run)(void **parameters));
/* Called for the microseconds of every kernel when it runs, by its blocks and by threads and dynamic shared memory of a
   block. NULL: all kernels take the same time. */
void fake_cuda_time(int (*us)(unsigned grid, unsigned threads, unsigned shared));
/* The next `n` questions whether a stream is idle are answered with no. */
void fake_cuda_busy(int n);
int fake_cuda_work(void); /* a kernel that does nothing, on the stream or into what is captured */

#endif

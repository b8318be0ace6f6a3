/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernels: a case is one kernel at one shape, run by every thread on data of its own, with peers that compute the
   same. */
#ifndef TW_BENCH_KERNELS_H
#define TW_BENCH_KERNELS_H

#include "base/random.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vendor.h"

enum { BENCH_PEERS = 3 };
enum { UNIT_BYTES, UNIT_FLOPS, UNIT_NONE };

typedef struct bench_case bench_case;

/* What one thread holds while a case runs. */
typedef struct bench_data {
    const bench_case *c;
    const tw_kernels *k;
    tw_vendor *vendor;
    tw_random random;
    int64_t panels, heads; /* how much it takes to be far larger than the caches */
    void *weights, *plain; /* packed; row-major as the peers take it */
    float *x, *y, *z;      /* inputs, our output, the peer's */
    uint16_t *x16;
    void *prepared, *scratch;
} bench_data;

struct bench_case {
    const char *name;
    tw_panel_format f;
    int64_t rows, cols, n; /* tokens; K; N, or span, or elements */
    int unit;
    void (*make)(bench_data *d);
    void (*run)(bench_data *d);
    bool (*correct)(bench_data *d);
    double (*work)(const bench_data *d); /* bytes or operations of one run */
    /* Peers: NULL-terminated names, each run by number. False: it cannot. */
    const char *peers[BENCH_PEERS + 1];
    bool (*run_peer)(bench_data *d, int peer);
    /* Runs a peer on a poisoned output and checks it. NULL: `correct` compares our output with the peer's. */
    bool (*peer_correct)(bench_data *d, int peer);
};

int bench_case_count(void);
const bench_case *bench_case_at(int i);
void bench_data_free(bench_data *d);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a network: a model, and a program for each set of its inputs' extents. */
#ifndef TW_ENGINE_NETWORK_H
#define TW_ENGINE_NETWORK_H

#include "graph/contents.h"
#include "graph/patterns/fuse.h"
#include "graph/program/program.h"
#include "tilewright/graph.h"
#include "vm/network/network.h"

enum { TW_BUCKETS = 32 /* The most programs that are kept. */ };

/* A program for extents of the inputs. */
typedef struct tw_bucket {
    tw_graph *graph;     /* For these extents, after all passes. NULL: the model itself runs plainly. */
    tw_program *program; /* NULL: the graph runs plainly. */
    tw_fusions fusions;
    void *state;       /* The runner's. */
    tw_array *inputs;  /* In order. Their data have the contents of the last run. */
    tw_array *outputs; /* In order. Their data are NULL until a plain run tells their extents. */
    double seconds;    /* That its preparation took. */
    tw_arena arena;    /* Has inputs and outputs. */
    tw_arena results;  /* Has contents of outputs of plain runs. */
} tw_bucket;

struct tw_network;

/* A kind of machine that computes networks. Every function but `open` takes an open network. */
typedef struct tw_network_runner {
    const char *name;
    bool lowers; /* Graphs become programs. */
    /* Sets what programs are like beside what the network's options say. May be NULL. */
    void (*lowering)(const struct tw_network *n, tw_program_options *o);
    bool gpu;
    tw_status (*open)(struct tw_network *n, const char *device, tw_diag *diag);
    void (*close)(struct tw_network *n); /* Buckets are dropped before. */
    tw_status (*prepare)(struct tw_network *n, tw_bucket *b, tw_diag *diag);
    void (*drop)(tw_bucket *b);
    tw_status (*run)(struct tw_network *n, tw_bucket *b, const void *const *in, void *const *out, tw_diag *diag);
    /* NULL: a run is timed by the clock. */
    tw_status (*time)(struct tw_network *n, tw_bucket *b, double *us, int samples, tw_diag *diag);
    void (*describe)(const struct tw_network *n, const tw_bucket *b, tw_network_info *info); /* NULL: nothing to add. */
    tw_status (*explain)(struct tw_network *n, tw_bucket *b, tw_buf *out,
                         tw_diag *diag); /* NULL: it has no launches. */
} tw_network_runner;
extern const tw_network_runner tw_runner_plain, tw_runner_cpu, tw_runner_cuda;

struct tw_network {
    tw_network_options options; /* Texts are this struct's. */
    tw_element type;            /* Of `dtype`. TW_E_none: as the model has it. */
    char path[TW_DIAG_PATH];
    char asked[64];   /* The device that was asked for. */
    char device[128]; /* The one that it is. */
    tw_graph *model;  /* As it was read. Of a package: one of its graphs, which only describes inputs and outputs. */
    struct tw_package *package; /* NULL: the model was read from an ONNX file. */
    const tw_network_runner *runner;
    void *machine;        /* The runner's. */
    tw_network_plan plan; /* How products are computed. */
    tw_bucket *buckets[TW_BUCKETS];
    tw_contents contents; /* Constants of the buckets' graphs. */
    tw_program_made made; /* Constants that their programs' lowering made. */
    int n_buckets, last;  /* last: the bucket that was prepared or run last. */
    /* Contents of the last run's inputs and outputs. */
    const void **in_data;
    void **out_data;
    bool ran; /* The bucket `last` was run last, so that these are its contents. */
};

/* The machine of a GPU's runner. */
typedef struct tw_gpu_machine {
    tw_gpu *gpu;
    tw_network_weights *weights;
} tw_gpu_machine;

/* network_package.c. Gives a machine that was opened what the network's package has for it, if there is one. */
tw_status tw_network_lend(struct tw_network *n, tw_diag *diag);
/* Checks what a bucket's program reads of the package. On a processor the program is prepared before. */
tw_status tw_network_check_read(struct tw_network *n, const tw_bucket *b, tw_diag *diag);
/* Checks all constants of a package's graph. */
tw_status tw_network_check_graph(struct tw_network *n, const tw_graph *g, tw_diag *diag);
/* Writes what the package has, and what a bucket's program takes of it. */
tw_status tw_network_describe_package(const struct tw_network *n, const tw_bucket *b, tw_buf *out, tw_diag *diag);

/* network_prepare.c. Makes a bucket for extents of inputs. */
tw_status tw_bucket_make(struct tw_network *n, const tw_array *inputs, tw_bucket **out, tw_diag *diag);
void tw_bucket_free(struct tw_network *n, tw_bucket *b);

#endif

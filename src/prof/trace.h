/* SPDX-License-Identifier: Apache-2.0 */
/* A trace: what each warp of a kernel, or each thread of the processor's machine, did and when. Whoever collects
   records makes one (decode.h for kernels); writers and analyses read it.

   All times are doubles in the trace's unit, from the trace's beginning: nanoseconds on a GPU and on a processor,
   operations of warps in the emulator. */
#ifndef TW_PROF_TRACE_H
#define TW_PROF_TRACE_H

#include "tilewright/base.h"

/* What a region keeps busy, or what a thread waits for in it. */
typedef enum tw_trace_engine {
    TW_ENGINE_NONE,   /* Nothing of the kinds below, or several of them. */
    TW_ENGINE_ALU,    /* Ordinary instructions. */
    TW_ENGINE_TENSOR, /* Tensor cores. */
    TW_ENGINE_COPY,   /* Copies from global to shared memory. */
    TW_ENGINE_MEMORY, /* Loads and stores of global memory by threads. */
    TW_ENGINE_SYNC,   /* Waiting for other threads. */
    TW_ENGINES
} tw_trace_engine;
const char *tw_trace_engine_name(tw_trace_engine e); /* "none", "alu", "tensor", "copy", "memory", "sync" */

typedef enum tw_event_kind {
    TW_EVENT_REGION,    /* Work of the track's own instructions. Regions of a track nest. */
    TW_EVENT_WAIT,      /* The track waits, for the event in `edges` if it is known. Nests like a region. */
    TW_EVENT_ITERATION, /* An iteration of a loop. Nests like a region. */
    TW_EVENT_ASYNC,     /* Work behind the track's back, from its issue until somebody saw that it was done. */
    TW_EVENT_MARK,      /* A moment: begin is end. */
    TW_EVENT_VALUE,     /* A moment with a value. */
    TW_EVENT_KINDS
} tw_event_kind;
const char *tw_event_kind_name(tw_event_kind k); /* "region", "wait", "iteration", "async", "mark", "value" */

/* What events are called. Events of one name do the same thing. */
typedef struct tw_trace_name {
    char *text; /* Owned by the trace. */
    tw_trace_engine engine;
    double flops; /* Of one event. 0: none, or unknown. */
    double bytes; /* Of global memory, moved by one event. 0: none, or unknown. */
} tw_trace_name;

/* A warp, a warpgroup or a thread block of a launch, or a thread of a processor. */
typedef struct tw_trace_track {
    int sm;             /* Multiprocessor, or processor core. */
    int block;          /* Number of the thread block in the launch. On a processor 0. */
    int warp;           /* The first warp in the block whose records the track has. On a processor the thread. */
    int role;           /* Index into `names`: the warp's role. */
    double begin, end;  /* When the track's first and last instructions were. */
    int64_t dropped;    /* Records that were made and are lost, since the buffer was full. */
    double uncertainty; /* Times of this track may be off by so much against those of other tracks. */
} tw_trace_track;

typedef struct tw_trace_event {
    int32_t track, name;
    tw_event_kind kind;
    int32_t iteration;  /* Iteration of the innermost recorded loop around it, counted from the track's beginning, from
                           0. -1: there is no loop. */
    int32_t loop;       /* Which loop of the kernel. -1: none. */
    double begin, end;  /* As replay puts them: without what recording cost. */
    double least, most; /* Bounds of end - begin. They are equal where the records determine it. */
    int64_t value;      /* Of a TW_EVENT_VALUE. */
} tw_trace_event;

/* `to`, a wait, could end since `from` ended: an arrival (a mark), an asynchronous event or a region. */
typedef struct tw_trace_edge {
    int32_t from, to; /* Indices of events. */
} tw_trace_edge;

/* The peak rates of a device. 0: unknown. */
typedef struct tw_peaks {
    double flops;     /* Floating-point operations of the whole device in a second. */
    double bandwidth; /* Bytes of global memory in a second. */
    int sms;          /* Number of multiprocessors. 0: as many as the trace has. */
} tw_peaks;

typedef struct tw_trace {
    char *title; /* "gemm type=bf16 m=512 ...", or a model's name. Owned by the trace. */
    char *device;
    char *unit;        /* "ns", or "ops" in the emulator. */
    double ghz;        /* Clocks per nanosecond that cycles were converted by. 0: nothing was converted. */
    double clean;      /* Time of the kernel without records, in the unit. 0: it was not measured. */
    double traced;     /* Time of the kernel with records, in the unit. 0: it was not measured. */
    double began_unix; /* Seconds since 1970 at the trace's beginning. */
    tw_peaks peaks;    /* Peak rates of the device. Unknown before tw_trace_set_peaks. */
    bool on_processor; /* Tracks are threads of a processor: `sm` is a core, and `warp` a thread. */
    tw_trace_name *names;
    tw_trace_track *tracks;
    tw_trace_event *events; /* Ascending by track, then by begin; of those that begin together the outer one first, and
                               else in the order in which they were added. */
    tw_trace_edge *edges;   /* Ascending by `to`. */
    int n_names, n_tracks, n_events, n_edges;
    int room_names, room_tracks, room_events, room_edges;
} tw_trace;

/* A new trace without events. NULL: out of memory. `unit` is copied. The caller frees it. */
tw_trace *tw_trace_new(const char *title, const char *device, const char *unit);
void tw_trace_free(tw_trace *t); /* NULL is fine. */

/* Each appends one and returns its index, or -1 if memory runs out. A name that is there already (text and engine) is
   found again. Edges name events by these indices; tw_trace_finish sorts both and keeps edges right. Events may be
   appended in any order; those of a track that begin together are best appended as the program came by them: whether
   a wait that took no time was before a copy was issued or behind it is not to be seen otherwise. */
int tw_trace_add_name(tw_trace *t, const char *text, tw_trace_engine engine);
int tw_trace_add_track(tw_trace *t, const tw_trace_track *track);
int tw_trace_add_event(tw_trace *t, const tw_trace_event *event);
int tw_trace_add_edge(tw_trace *t, int from, int to);
tw_status tw_trace_finish(tw_trace *t, tw_diag *diag);

struct tw_cuda_info; /* device/cuda/cuda.h */
/* Sets the trace's peaks. The peak of operations is that of dense f16 on tensor cores. Both peaks follow from the GPU's
   clocks. */
void tw_trace_set_peaks(tw_trace *t, const struct tw_cuda_info *gpu);

/* When the last track ends. */
double tw_trace_length(const tw_trace *t);

#endif

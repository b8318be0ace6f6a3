/* SPDX-License-Identifier: Apache-2.0 */
/* How long regions take, and how near that is to what the device can do. */
#ifndef TW_PROF_REGION_H
#define TW_PROF_REGION_H

#include "prof/trace.h"

/* Events of a name, kind and role. */
typedef struct tw_region {
    int name, role; /* Indices into the trace's names. The role may be -1. */
    tw_event_kind kind;
    int64_t count;
    double total, mean, least, p50, p95, p99, most;
    double busy;        /* How long at least one of them was under way on a multiprocessor, summed over these. */
    double flops_rate;  /* Floating-point operations in a unit of time of a multiprocessor while busy. */
    double bytes_rate;  /* Bytes, likewise. */
    double intensity;   /* Operations a byte. 0: there are no bytes, or they are unknown. */
    double flops_share; /* Of a multiprocessor's share of the peak. 0: unknown, or the trace's unit is no time. */
    double
        bytes_share; /* Share of a multiprocessor's part of the bandwidth. Above 1: caches served some of the bytes. */
    double share;    /* Of what the roofline allows at that intensity: the larger of the two. */
} tw_region;

typedef struct tw_regions {
    tw_region *list; /* The largest total first. Marks and values are left out. */
    int n;
    int64_t dropped;    /* Records of all tracks that are lost. */
    double uncertainty; /* The most of any track. */
} tw_regions;

/* Finds the regions of a trace. `peaks` NULL: the trace's peaks. */
tw_status tw_regions_find(tw_regions *out, const tw_trace *t, const tw_peaks *peaks, tw_diag *diag);
void tw_regions_free(tw_regions *r);

#endif

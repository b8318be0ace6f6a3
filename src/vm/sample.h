/* SPDX-License-Identifier: Apache-2.0 */
/* How a token is drawn from logits, defined so that every machine draws the same one: all that decides is integers, and
   floats made by additions, products and fused ones in a stated order, which every processor and GPU rounds alike.

   In this order, of the logits z of one position:
     penalties    of ids that the text has: z / repetition where z is positive, else z * repetition; then, of ids that
                  were generated, z - frequency * their number, and z - presence
     candidates   the logits above TW_SAMPLE_LEAST: no NaN, no -infinity. Larger come first, of equals the smaller id.
                  A candidate's mass is 2^30 e^((z - largest) / temperature), as an integer
     top-k        the first k
     top-p        of those the first whose masses sum to p of all of theirs; at least one
     min-p        of those the ones of at least min_p of the largest's probability
     the draw     of those the one of the largest z log2(e) / temperature + noise. The noise is Gumbel's, made from the
                  seed, the position of the token before, and the id: so each is taken with its probability, and
                  nothing needs their sum
   Without a temperature the first largest logit is taken. Where there is no candidate, id 0. */
#ifndef TW_VM_SAMPLE_H
#define TW_VM_SAMPLE_H

#include "tilewright/base.h"

#include <math.h>
#include <string.h>

#define TW_SAMPLE_LEAST (-3.4e38f)

enum {
    TW_SAMPLE_DRAWS = 1,     /* has a temperature */
    TW_SAMPLE_CUTS = 2,      /* top-k, top-p or min-p */
    TW_SAMPLE_PENALISES = 4, /* repetition, presence or frequency */
    TW_SAMPLE_MASS = 30,     /* log2 of the largest's mass */
    TW_SAMPLE_STEPS = 16,    /* log2 of the steps in which the log2 of a probability is told */
};

/* Of a sequence, as the machines read it: words of 32 bits. */
typedef struct tw_sample_rules {
    uint32_t mode;
    float scale;       /* log2(e) / temperature */
    int32_t top_k;     /* 0: all */
    uint32_t top_p;    /* times 2^32; 0: all */
    int32_t min_p;     /* -log2(min_p) in steps: at most this far below the largest */
    uint32_t seed[2];  /* low, high */
    float repetition;  /* 1: none */
    float presence;    /* 0: none */
    float frequency;   /* 0: none */
    uint32_t spare[6]; /* up to 64 bytes */
} tw_sample_rules;

/* An id's count for the penalties. The top bit is set if the text contains the id. The other bits count how often it
   was generated. */
#define TW_SAMPLE_SEEN 0x80000000u

static inline uint32_t tw_sample_mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

typedef struct tw_sample_key {
    uint32_t first, second;
} tw_sample_key;

static inline tw_sample_key tw_sample_key_of(const tw_sample_rules *r, int64_t position) {
    tw_sample_key k;
    k.first = tw_sample_mix((uint32_t)position * 0x9e3779b9u + r->seed[0]);
    /* Not made of the first: for some id the two would cancel at every position. */
    k.second = tw_sample_mix((uint32_t)position * 0x85ebca77u + tw_sample_mix(r->seed[1] ^ 0x6a09e667u));
    return k;
}

static inline uint32_t tw_sample_bits(tw_sample_key k, uint32_t id) {
    return tw_sample_mix(tw_sample_mix(id * 0x9e3779b9u + k.first) ^ k.second);
}

/* log2(1 + f) / f for f in sqrt(1/2) - 1 .. sqrt(2) - 1, within 1e-7 of it: Chebyshev's, lowest power first. */
#define TW_SAMPLE_LOG2                                                                                                 \
    {                                                                                                                  \
        0x1.715476p+0f, -0x1.71547p-1f, 0x1.ec73d4p-2f, -0x1.715c9cp-2f, 0x1.26d41p-2f, -0x1.e94f12p-3f,               \
            0x1.b9b11ep-3f, -0x1.a8cc5cp-3f, 0x1.025a2p-3f                                                             \
    }
/* 2^-f for f in 0..1, within 3e-7 of it. */
#define TW_SAMPLE_EXP2                                                                                                 \
    { 0x1.fffffep-1f, -0x1.62e3aap-1f, 0x1.ebe33ap-3f, -0x1.c503aep-5f, 0x1.2dd26cp-7f, -0x1.f0ca8p-11f }
enum { TW_SAMPLE_LOG2_TERMS = 9, TW_SAMPLE_EXP2_TERMS = 6, TW_SAMPLE_SQRT_HALF = 0x3f3504f3 };

static inline float tw_sample_log2_near_one(float f) {
    static const float c[TW_SAMPLE_LOG2_TERMS] = TW_SAMPLE_LOG2;
    float y = c[TW_SAMPLE_LOG2_TERMS - 1];
    for (int i = TW_SAMPLE_LOG2_TERMS - 2; i >= 0; i--) y = fmaf(y, f, c[i]);
    return y;
}

/* log2 of a normal number. */
static inline float tw_sample_log2(float x) {
    int32_t bits, exponent;
    memcpy(&bits, &x, 4);
    exponent = (bits - TW_SAMPLE_SQRT_HALF) >> 23;
    bits -= (int32_t)((uint32_t)exponent << 23);
    memcpy(&x, &bits, 4);
    const float f = x - 1;
    return fmaf(f, tw_sample_log2_near_one(f), (float)exponent);
}

/* -log2(-log2(1 - v)) for v uniform in 0..1, of which the low end counts: there 32 bits tell. */
static inline float tw_sample_noise(uint32_t bits) {
    float v = fmaf((float)bits, 0x1p-32f, 0x1p-33f);
    v = v < 0x1.fffffep-1f ? v : 0x1.fffffep-1f;
    const float w = v < 0.25f ? v * tw_sample_log2_near_one(-v) : -tw_sample_log2(1 - v);
    return -tw_sample_log2(w);
}

static inline float tw_sample_score(const tw_sample_rules *r, tw_sample_key k, float z, uint32_t id) {
    return fmaf(z, r->scale, tw_sample_noise(tw_sample_bits(k, id)));
}

/* Steps that a logit lies below the largest. At TW_SAMPLE_FAR and more its mass is zero. */
enum { TW_SAMPLE_FAR = 1 << 30 };
static inline int32_t tw_sample_distance(const tw_sample_rules *r, float largest, float z) {
    const float d = z == largest ? 0 : largest - z, x = d * r->scale * (float)(1 << TW_SAMPLE_STEPS);
    return x < (float)TW_SAMPLE_FAR ? (int32_t)lrintf(x) : TW_SAMPLE_FAR;
}

static inline uint32_t tw_sample_mass(int32_t distance) {
    static const float c[TW_SAMPLE_EXP2_TERMS] = TW_SAMPLE_EXP2;
    const int32_t whole = distance >> TW_SAMPLE_STEPS;
    const float f = (float)(distance & ((1 << TW_SAMPLE_STEPS) - 1)) * (1.0f / (1 << TW_SAMPLE_STEPS));
    float y = c[TW_SAMPLE_EXP2_TERMS - 1];
    for (int i = TW_SAMPLE_EXP2_TERMS - 2; i >= 0; i--) y = fmaf(y, f, c[i]);
    const uint32_t m = (uint32_t)lrintf(y * (float)(1 << TW_SAMPLE_MASS));
    return whole > TW_SAMPLE_MASS ? 0 : m >> whole;
}

/* Larger logits first, of equals the smaller id: as a number, smaller first. `largest` and z: -0 is 0. */
static inline uint32_t tw_sample_ordered(float z) {
    uint32_t u;
    z += 0.0f;
    memcpy(&u, &z, 4);
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}
static inline uint64_t tw_sample_rank(float largest, float z, uint32_t id) {
    return (uint64_t)(tw_sample_ordered(largest) - tw_sample_ordered(z)) << 32 | id;
}

/* What top-p leaves: of `sum`, at least 1. */
static inline uint64_t tw_sample_share(uint64_t sum, uint32_t p) {
    const uint64_t share = (sum >> 32) * p + ((sum & 0xffffffffu) * p >> 32);
    return share ? share : 1;
}

static inline float tw_sample_penalise(const tw_sample_rules *r, float z, uint32_t count) {
    const float n = (float)(int32_t)(count & ~TW_SAMPLE_SEEN);
    if (!count) return z;
    z = z > 0 ? z / r->repetition : z * r->repetition;
    z = fmaf(-r->frequency, n, z);
    return n > 0 ? z - r->presence : z;
}

/* Sampling as a caller asks for it. */
typedef struct tw_sample_wish {
    double temperature;
    int64_t top_k;
    double top_p, min_p;
    uint64_t seed;
    double repetition, presence, frequency; /* repetition 0 or 1: none */
} tw_sample_wish;
/* Converts a caller's settings to rules. TW_ERR_USAGE: a setting is out of range. */
tw_status tw_sample_rules_of(tw_sample_rules *r, const tw_sample_wish *w, int64_t vocab, tw_diag *diag);

/* Bytes of scratch that tw_sample_draw needs from the caller. */
size_t tw_sample_room(int64_t vocab);

/* Draws the token after `position`. `counts`: [vocab]; NULL without penalties. */
int32_t tw_sample_draw(const tw_sample_rules *r, const float *logits, const uint32_t *counts, int64_t vocab,
                       int64_t position, void *room);

#endif

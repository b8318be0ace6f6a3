/* SPDX-License-Identifier: Apache-2.0 */
#include "model/rope.h"

#include <math.h>

#define PI 3.14159265358979323846

/* base^(2i/dims), each step rounded as a float tensor's would be. */
static float wave(double base, int64_t i, int64_t dims) {
    float exponent = (float)(2 * i) / (float)dims;
    return (float)pow((double)(float)base, (double)exponent);
}

static void plain(float *inv_freq, double base, int64_t dims) {
    for (int64_t i = 0; i < dims / 2; i++) inv_freq[i] = 1.0f / wave(base, i, dims);
}

static void linear(float *inv_freq, const tw_rope_spec *s) {
    plain(inv_freq, s->theta, s->dims);
    for (int64_t i = 0; i < s->dims / 2; i++) inv_freq[i] /= (float)s->factor;
}

/* Long waves are slowed by `factor`, short ones kept, those between blended. */
static void llama3(float *inv_freq, const tw_rope_spec *s) {
    plain(inv_freq, s->theta, s->dims);
    float context = (float)s->original_max, factor = (float)s->factor;
    float longest = (float)((double)s->original_max / s->low_freq);
    float shortest = (float)((double)s->original_max / s->high_freq);
    for (int64_t i = 0; i < s->dims / 2; i++) {
        float f = inv_freq[i], length = (float)(2 * PI) / f;
        if (length > longest)
            inv_freq[i] = f / factor;
        else if (length >= shortest) {
            float smooth = (context / length - (float)s->low_freq) / (float)(s->high_freq - s->low_freq);
            inv_freq[i] = (1.0f - smooth) * f / factor + smooth * f;
        }
    }
}

/* The pair of elements that turns `turns` times in the original context. */
static double turning_dim(double turns, const tw_rope_spec *s) {
    return ((double)s->dims * log((double)s->original_max / (turns * 2 * PI))) / (2 * log(s->theta));
}

static void yarn(float *inv_freq, const tw_rope_spec *s) {
    double low = turning_dim(s->beta_fast, s), high = turning_dim(s->beta_slow, s);
    if (s->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(s->dims - 1));
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < s->dims / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float stay = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
        float w = wave(s->theta, i, s->dims);
        inv_freq[i] = 1.0f / ((float)s->factor * w) * (1.0f - stay) + 1.0f / w * stay;
    }
}

static double yarn_scale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_attention(const tw_rope_spec *s) {
    if (s->attention_factor >= 0) return s->attention_factor;
    if (s->mscale != 0 && s->mscale_all_dim != 0)
        return yarn_scale(s->factor, s->mscale) / yarn_scale(s->factor, s->mscale_all_dim);
    return yarn_scale(s->factor, 1);
}

/* Frequencies are divided one by one. */
static void divided(float *inv_freq, const tw_rope_spec *s, const float *factor) {
    for (int64_t i = 0; i < s->dims / 2; i++) inv_freq[i] = 1.0f / (factor[i] * wave(s->theta, i, s->dims));
}

static double long_attention(const tw_rope_spec *s) {
    if (s->attention_factor >= 0) return s->attention_factor;
    return s->factor <= 1 ? 1 : sqrt(1 + log(s->factor) / log((double)s->original_max));
}

bool tw_rope_init(tw_rope *r, tw_arena *arena, const tw_rope_spec *s) {
    *r = (tw_rope){.kind = TW_ROPE_FIXED, .dims = s->dims, .attention_factor = 1, .theta = s->theta, .factor = 1};
    r->inv_freq = tw_arena_array(arena, (size_t)(s->dims / 2), sizeof *r->inv_freq);
    if (!r->inv_freq) return false;
    switch (s->type) {
    case TW_ROPE_TYPE_DEFAULT:
        plain(r->inv_freq, s->theta, s->dims);
        break;
    case TW_ROPE_TYPE_LINEAR:
        linear(r->inv_freq, s);
        break;
    case TW_ROPE_TYPE_LLAMA3:
        llama3(r->inv_freq, s);
        break;
    case TW_ROPE_TYPE_YARN:
        yarn(r->inv_freq, s);
        r->attention_factor = (float)yarn_attention(s);
        break;
    case TW_ROPE_TYPE_LONG:
        r->kind = TW_ROPE_LONG;
        r->original_max = s->original_max;
        r->attention_factor = (float)long_attention(s);
        r->long_inv_freq = tw_arena_array(arena, (size_t)(s->dims / 2), sizeof *r->long_inv_freq);
        if (!r->long_inv_freq) return false;
        divided(r->inv_freq, s, s->short_factor);
        divided(r->long_inv_freq, s, s->long_factor);
        break;
    case TW_ROPE_TYPE_DYNAMIC:
        r->kind = TW_ROPE_DYNAMIC;
        r->factor = s->factor;
        r->original_max = s->original_max;
        plain(r->inv_freq, s->theta, s->dims);
        break;
    }
    return true;
}

bool tw_rope_init_still(tw_rope *r, tw_arena *arena, int64_t dims) {
    *r = (tw_rope){.kind = TW_ROPE_FIXED, .dims = dims, .attention_factor = 1, .factor = 1};
    r->inv_freq = tw_arena_array(arena, (size_t)(dims / 2), sizeof *r->inv_freq);
    return r->inv_freq != NULL;
}

void tw_rope_frequencies(const tw_rope *r, int64_t length, float *inv_freq) {
    if (r->kind == TW_ROPE_DYNAMIC && length > r->original_max) {
        /* The length is an integer tensor where this comes from, so the stretched base is a float. */
        float stretch = (float)r->factor * (float)length / (float)r->original_max - (float)(r->factor - 1);
        float base = (float)r->theta * powf(stretch, (float)((double)r->dims / (double)(r->dims - 2)));
        plain(inv_freq, (double)base, r->dims);
        return;
    }
    const float *table = r->kind == TW_ROPE_LONG && length > r->original_max ? r->long_inv_freq : r->inv_freq;
    for (int64_t i = 0; i < r->dims / 2; i++) inv_freq[i] = table[i];
}

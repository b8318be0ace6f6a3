/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embeddings in config.json: one dictionary, under two names and in two shapes, and the keys beside it. */
#include "model/config_parts.h"

#include <string.h>

static const struct {
    const char *name;
    tw_rope_type type;
} rope_types[] = {
    {"default", TW_ROPE_TYPE_DEFAULT}, {"linear", TW_ROPE_TYPE_LINEAR}, {"dynamic", TW_ROPE_TYPE_DYNAMIC},
    {"llama3", TW_ROPE_TYPE_LLAMA3},   {"yarn", TW_ROPE_TYPE_YARN},
};
/* transformers takes Phi's older names for longrope. */
static const char *const long_names[] = {"longrope", "su", "yarn"};

#define R(field) offsetof(tw_rope_spec, field)
static const struct {
    const char *name;
    size_t at;
    double lo, hi;
} rope_reals[] = {
    {"rope_theta", R(theta), 1.0000001, 1e30},
    {"factor", R(factor), 1, 1e9},
    {"low_freq_factor", R(low_freq), 1e-9, 1e9},
    {"high_freq_factor", R(high_freq), 1e-9, 1e9},
    {"beta_fast", R(beta_fast), 1e-9, 1e9},
    {"beta_slow", R(beta_slow), 1e-9, 1e9},
    {"mscale", R(mscale), 0, 1e9},
    {"mscale_all_dim", R(mscale_all_dim), 0, 1e9},
    {"attention_factor", R(attention_factor), 0, 1e9},
};

static bool is_one(const json_t *v) {
    return json_is_number(v) && json_number_value(v) == 1;
}

static void read_partial(tw_config_parser *p, const char *name, const json_t *v) {
    const double share = json_number_value(v);
    if (json_is_null(v) || is_one(v)) return;
    if (p->c->family != TW_FAMILY_PHI3 || !json_is_number(v) || !(share > 0 && share < 1))
        tw_config_refuse(p, name, v, "is not supported");
    else
        p->c->partial = share;
}

/* What each frequency is divided by. */
static void read_factors(tw_config_parser *p, float **out, const char *name, const json_t *v) {
    const size_t n = (size_t)p->c->rope.dims / 2;
    float *factor = tw_arena_array(p->arena, n, sizeof *factor);
    bool good = json_array_size(v) == n;
    for (size_t i = 0; good && factor && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        good = json_is_number(x) && json_number_value(x) > 1e-9 && json_number_value(x) < 1e9;
        factor[i] = good ? (float)json_number_value(x) : 1;
    }
    if (good)
        *out = factor;
    else
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "%s: is not a list of %zu positive numbers", name, n);
}

static void read_rope_key(tw_config_parser *p, tw_rope_spec *r, const char *dict, const char *name, const json_t *v) {
    char full[TW_CONFIG_SHOWN];
    snprintf(full, sizeof full, "%s%s%s", dict, *dict ? "." : "", name);
    for (size_t i = 0; i < sizeof rope_reals / sizeof *rope_reals; i++) {
        if (strcmp(name, rope_reals[i].name) != 0) continue;
        double d = json_number_value(v);
        if (json_is_number(v) && d >= rope_reals[i].lo && d <= rope_reals[i].hi)
            memcpy((char *)r + rope_reals[i].at, &d, sizeof d);
        else if (!json_is_null(v))
            tw_config_refuse(p, full, v, "is not supported");
        return;
    }
    if (!strcmp(name, "original_max_position_embeddings")) {
        if (!json_is_null(v) && !tw_json_int(v, 1, 1 << 30, &r->original_max))
            tw_config_refuse(p, full, v, "is not supported");
    } else if (!strcmp(name, "truncate")) {
        r->truncate = json_is_true(v);
        if (!json_is_boolean(v)) tw_config_refuse(p, full, v, "is not true or false");
    } else if (!strcmp(name, "partial_rotary_factor")) {
        read_partial(p, full, v);
    } else if (p->c->family == TW_FAMILY_PHI3 && !strcmp(name, "short_factor")) {
        if (!json_is_null(v)) p->short_factor = v;
    } else if (p->c->family == TW_FAMILY_PHI3 && !strcmp(name, "long_factor")) {
        if (!json_is_null(v)) p->long_factor = v;
    } else if (strcmp(name, "rope_type") != 0 && strcmp(name, "type") != 0 && strcmp(name, "finetuned") != 0 &&
               !json_is_null(v))
        tw_config_refuse(p, full, v, "is not understood, and may change the arithmetic");
}

static void read_phi_rope_type(tw_config_parser *p, tw_rope_spec *r, const char *name, const json_t *type) {
    const char *s = json_is_string(type) ? json_string_value(type) : "";
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (!strcmp(s, long_names[i])) r->type = TW_ROPE_TYPE_LONG;
    if (r->type != TW_ROPE_TYPE_LONG && strcmp(s, "default") != 0)
        tw_config_refuse(p, name, type, "is not supported; supported: default, longrope");
}

static void read_rope_type(tw_config_parser *p, tw_rope_spec *r, const char *dict, const json_t *v) {
    const json_t *type = json_object_get(v, "rope_type"), *old = json_object_get(v, "type");
    char full[TW_CONFIG_SHOWN];
    snprintf(full, sizeof full, "%s.rope_type", dict);
    if (type && old && !json_equal((json_t *)(uintptr_t)type, (json_t *)(uintptr_t)old))
        tw_config_refuse(p, full, type, "contradicts type");
    if (!type) type = old;
    if (!type) return;
    if (p->c->family == TW_FAMILY_PHI3) {
        read_phi_rope_type(p, r, full, type);
        return;
    }
    for (size_t i = 0; json_is_string(type) && i < sizeof rope_types / sizeof *rope_types; i++)
        if (!strcmp(json_string_value(type), rope_types[i].name)) {
            r->type = rope_types[i].type;
            return;
        }
    tw_config_refuse(p, full, type, "is not supported; supported: default, linear, dynamic, llama3, yarn");
}

static void read_rope_fields(tw_config_parser *p, tw_rope_spec *r, const char *dict, const json_t *v) {
    const char *name;
    json_t *value;
    if (!json_is_object(v)) {
        tw_config_refuse(p, dict, v, "is not supported");
        return;
    }
    read_rope_type(p, r, dict, v);
    json_object_foreach((json_t *)(uintptr_t)v, name, value) read_rope_key(p, r, dict, name, value);
}

/* Gemma 3 has one dictionary for each type of layers in rope_parameters. */
static void read_rope_by_type(tw_config_parser *p, const json_t *v) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, name, value) {
        char dict[TW_CONFIG_SHOWN];
        snprintf(dict, sizeof dict, "rope_parameters.%.64s", name);
        bool full = !strcmp(name, "full_attention");
        if (!full && strcmp(name, "sliding_attention") != 0)
            tw_config_refuse(p, dict, value, "is not understood, and may change the arithmetic");
        else if (!json_is_null(value))
            read_rope_fields(p, full ? &p->c->rope : &p->c->rope_local, dict, value);
    }
}

/* The dictionary is rope_scaling in transformers 4, where rope_theta stands beside it, and rope_parameters in 5,
   where it stands within. */
static void read_rope_dict(tw_config_parser *p) {
    const json_t *old = json_object_get(p->root, "rope_scaling"), *v = json_object_get(p->root, "rope_parameters");
    const json_t *theta = json_object_get(p->root, "rope_theta"),
                 *local = json_object_get(p->root, "rope_local_base_freq");
    const char *dict = "rope_parameters";
    tw_rope_spec *r = &p->c->rope;
    if (theta && !json_is_null(theta)) read_rope_key(p, r, "", "rope_theta", theta);
    if (p->c->family == TW_FAMILY_GEMMA3 && local) {
        p->c->rope_local.theta = json_number_value(local);
        if (!(p->c->rope_local.theta > 1)) tw_config_refuse(p, "rope_local_base_freq", local, "is not supported");
    }
    double beside = r->theta;
    if (json_object_size(old) && json_object_size(v))
        tw_config_refuse(p, "rope_scaling", old, "is there beside rope_parameters");
    if (!json_object_size(v)) {
        v = old;
        dict = "rope_scaling";
    }
    if (!v || json_is_null(v)) return;
    if (p->c->family == TW_FAMILY_GEMMA3 && v != old)
        read_rope_by_type(p, v);
    else
        read_rope_fields(p, r, dict, v);
    if (theta && json_is_number(theta) && r->theta != beside)
        tw_config_refuse(p, "rope_theta", theta, "contradicts the one of rope_parameters");
}

static void finish_long_rope(tw_config_parser *p) {
    tw_rope_spec *r = &p->c->rope;
    if (r->type != TW_ROPE_TYPE_LONG) return;
    if (!p->short_factor || !p->long_factor) {
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs short_factor and long_factor");
        r->type = TW_ROPE_TYPE_DEFAULT;
        return;
    }
    read_factors(p, &r->short_factor, "short_factor", p->short_factor);
    read_factors(p, &r->long_factor, "long_factor", p->long_factor);
    if (r->original_max < 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs an original length above 1");
    if (!r->short_factor || !r->long_factor) r->type = TW_ROPE_TYPE_DEFAULT; /* Refused; a model is still made. */
}

static void finish_rope(tw_config_parser *p, tw_rope_spec *r) {
    tw_config *c = p->c;
    if (c->original_max) r->original_max = c->original_max; /* Beside the dictionary it goes before the one within. */
    bool given = r->original_max > 0;
    if (!given || r->type == TW_ROPE_TYPE_DYNAMIC) r->original_max = c->max_seq;
    if ((r->type == TW_ROPE_TYPE_YARN && r->factor == 0 && given) || (r->type == TW_ROPE_TYPE_LONG && r->factor == 0))
        r->factor = (double)c->max_seq / (double)r->original_max;
    if (r->type != TW_ROPE_TYPE_DEFAULT && r->factor == 0)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: this rope_type needs a factor");
    if (r->type == TW_ROPE_TYPE_LLAMA3 && !(r->low_freq > 0 && r->high_freq > r->low_freq))
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED,
                  "rope: low_freq_factor %g and high_freq_factor %g are not a rising pair", r->low_freq, r->high_freq);
    if (r->type == TW_ROPE_TYPE_DYNAMIC && r->dims == 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: the dynamic rope_type needs a head_dim above 2");
    if (r->type == TW_ROPE_TYPE_DYNAMIC && c->family == TW_FAMILY_GEMMA3)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "rope: the dynamic rope_type is not supported in gemma3_text");
}

void tw_config_read_rope(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *partial = json_object_get(p->root, "partial_rotary_factor");
    if (partial) read_partial(p, "partial_rotary_factor", partial);
    read_rope_dict(p);
    c->rope.dims = c->rope_local.dims = (int64_t)((double)c->head_dim * c->partial);
    if (c->rope.dims < 2 || c->rope.dims % 2)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED,
                  "partial_rotary_factor: %g rotates %lld elements of a head, not an even number", c->partial,
                  (long long)c->rope.dims);
    finish_rope(p, &c->rope);
    if (c->family == TW_FAMILY_GEMMA3) finish_rope(p, &c->rope_local);
    finish_long_rope(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json and generation_config.json: the keys with a shape of their own, and what must fit together. Keys
   that are one number or one truth value are in config_keys.c, those of rotary embeddings in config_rope.c. */
#include "model/config_parts.h"

#include <string.h>

/* ---- keys with a shape of their own */

static void read_architectures(tw_config_parser *p) {
    const json_t *v = json_object_get(p->root, "architectures");
    if (!v || json_is_null(v)) return;
    const char *want = tw_family_architecture(p->c->family), *s = json_string_value(json_array_get(v, 0));
    if (json_array_size(v) == 1 && s && !strcmp(s, want)) return;
    char why[64];
    snprintf(why, sizeof why, "is not supported; it must be %s", want);
    tw_config_refuse(p, "architectures", json_array_size(v) == 1 ? json_array_get(v, 0) : v, why);
}

static const struct {
    const char *name;
    tw_activation value;
} activations[] = {
    {"silu", TW_ACT_SILU},        {"swish", TW_ACT_SILU},         {"gelu", TW_ACT_GELU},
    {"gelu_python", TW_ACT_GELU}, {"gelu_new", TW_ACT_GELU_TANH}, {"gelu_pytorch_tanh", TW_ACT_GELU_TANH},
    {"relu", TW_ACT_RELU},
};

static void read_activation(tw_config_parser *p) {
    const tw_family family = p->c->family;
    const char *name = family == TW_FAMILY_GPT2                                   ? "activation_function"
                       : family == TW_FAMILY_GEMMA2 || family == TW_FAMILY_GEMMA3 ? "hidden_activation"
                                                                                  : "hidden_act";
    const json_t *v = json_object_get(p->root, name);
    if (!v || json_is_null(v)) return;
    for (size_t i = 0; json_is_string(v) && i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(json_string_value(v), activations[i].name)) {
            p->c->activation = activations[i].value;
            return;
        }
    tw_config_refuse(p, name, v, "is not supported");
}

/* An id, or for the end tokens a list of them; -1 and null mean none. */
static bool read_id(const json_t *v, int64_t *out) {
    return tw_json_int(v, -1, INT32_MAX, out);
}

static void read_tokens(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *bos = json_object_get(p->root, "bos_token_id"), *eos = json_object_get(p->root, "eos_token_id");
    if (json_is_null(bos))
        c->bos = -1;
    else if (bos && !read_id(bos, &c->bos))
        tw_config_refuse(p, "bos_token_id", bos, "is not a token");
    if (!eos) return;
    c->n_eos = 0;
    size_t n = json_is_array(eos) ? json_array_size(eos) : !json_is_null(eos);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (!read_id(json_is_array(eos) ? json_array_get(eos, i) : eos, &id)) {
            tw_config_refuse(p, "eos_token_id", eos, "is neither a token nor a list of them");
            return;
        }
        if (id < 0) continue;
        if (c->n_eos == TW_EOS_MAX) {
            tw_config_refuse(p, "eos_token_id", eos, "has more than 64 tokens");
            return;
        }
        c->eos[c->n_eos++] = id;
    }
}

/* Tells whether some layers of the family may slide and others not. */
static bool slides_by_layer(tw_family f) {
    return f == TW_FAMILY_QWEN2 || f == TW_FAMILY_QWEN3 || f == TW_FAMILY_GEMMA2 || f == TW_FAMILY_GEMMA3 ||
           f == TW_FAMILY_SMOLLM3;
}

static void read_layer_types(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "layer_types");
    if (!v || json_is_null(v)) return;
    if (json_array_size(v) != (size_t)c->n_layers) {
        tw_config_refuse(p, "layer_types", v, "is not a list with one type a layer");
        return;
    }
    unsigned char *windowed = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    for (int64_t i = 0; windowed && i < c->n_layers; i++) {
        const json_t *t = json_array_get(v, (size_t)i);
        const char *s = json_is_string(t) ? json_string_value(t) : "";
        if (strcmp(s, "full_attention") != 0 && strcmp(s, "sliding_attention") != 0) {
            tw_config_refuse(p, "layer_types", t, "is not supported; supported: full_attention, sliding_attention");
            return;
        }
        windowed[i] = s[0] == 's';
        if (windowed[i] && !c->window) {
            tw_config_refuse(p, "layer_types", t, "asks for a sliding_window, and there is none");
            return;
        }
        /* The other families slide all layers or none, whatever the list says. */
        if (!slides_by_layer(c->family) && windowed[i] != (c->window > 0)) {
            tw_config_refuse(p, "layer_types", t, "contradicts sliding_window");
            return;
        }
    }
    c->windowed = windowed;
}

static void read_dense_layers(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "mlp_only_layers");
    if (!v || json_is_null(v)) return;
    unsigned char *dense = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    for (size_t i = 0; dense && i < json_array_size(v); i++) {
        int64_t layer;
        if (!tw_json_int(json_array_get(v, i), 0, INT32_MAX, &layer)) break;
        if (layer < c->n_layers) dense[layer] = 1; /* beyond the last layer it says nothing */
        if (i + 1 == json_array_size(v)) c->dense = dense;
    }
    if (!c->dense && !(json_is_array(v) && !json_array_size(v)))
        tw_config_refuse(p, "mlp_only_layers", v, "is not a list of layers");
}

/* transformers has these models itself. What their own code would be is named here, and must be what is named there. */
static void read_auto_map(tw_config_parser *p) {
    const json_t *v = json_object_get(p->root, "auto_map");
    const char *name;
    json_t *value;
    if (!v || json_is_null(v)) return;
    bool known = json_is_object(v);
    json_object_foreach((json_t *)(uintptr_t)v, name, value) {
        const char *s = json_string_value(value), *dot = s ? strrchr(s, '.') : NULL;
        known = known && dot && !strncmp(dot + 1, "Phi3", 4) && !strncmp(name, "Auto", 4);
    }
    if (!known) tw_config_refuse(p, "auto_map", v, "is not understood, and may change the arithmetic");
}

/* 1: the layer has rope. */
static void read_no_rope_layers(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "no_rope_layers");
    if (!v || json_is_null(v)) return;
    unsigned char *ropeless = tw_arena_alloc(p->arena, (size_t)c->n_layers);
    bool good = json_array_size(v) >= (size_t)c->n_layers;
    for (int64_t i = 0; good && ropeless && i < c->n_layers; i++) {
        int64_t has;
        good = tw_json_int(json_array_get(v, (size_t)i), 0, 1, &has);
        ropeless[i] = good && !has;
    }
    if (good)
        c->ropeless = ropeless;
    else
        tw_config_refuse(p, "no_rope_layers", v, "is not a list with 0 or 1 a layer");
}

/* ---- what must fit together */

static void finish_sizes(tw_config_parser *p) {
    tw_config *c = p->c;
    int64_t before = p->reasons->count;
    if (!c->head_dim && c->dim % c->n_heads)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "hidden size %lld is not a multiple of %lld heads", (long long)c->dim,
                  (long long)c->n_heads);
    if (!c->head_dim) c->head_dim = c->dim / c->n_heads;
    if (!c->n_kv_heads) c->n_kv_heads = c->n_heads;
    if (c->n_heads % c->n_kv_heads)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "num_key_value_heads: %lld does not divide %lld heads",
                  (long long)c->n_kv_heads, (long long)c->n_heads);
    if (c->family != TW_FAMILY_GPT2 && (c->head_dim < 2 || c->head_dim % 2))
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "head_dim: %lld is not even, as rotary embeddings need",
                  (long long)c->head_dim);
    if (c->n_experts_used > c->n_experts)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "num_experts_per_tok: %lld is more than the %lld experts",
                  (long long)c->n_experts_used, (long long)c->n_experts);
    if (!c->ffn_dim) c->ffn_dim = 4 * c->dim;
    if (c->family == TW_FAMILY_MIXTRAL) c->expert_dim = c->ffn_dim;
    if (p->reasons->count != before) p->sizes_good = false;
}

static void finish_window(tw_config_parser *p) {
    tw_config *c = p->c;
    if (!c->use_window) c->window = 0;
    /* Of SmolLM 3's layers those without rope slide. */
    if (c->family == TW_FAMILY_SMOLLM3 && c->window && p->sizes_good) {
        c->windowed = tw_arena_alloc(p->arena, (size_t)c->n_layers);
        for (int64_t i = 0; c->windowed && i < c->n_layers; i++)
            c->windowed[i] = tw_config_rope(c, i) == TW_LAYER_NO_ROPE;
    }
    /* Older versions of transformers left the first layers whole, newer ones slide all of them. */
    if (c->family == TW_FAMILY_QWEN3_MOE && c->window && p->has_window_start && c->first_windowed)
        tw_reason(p->reasons, TW_ERR_UNSUPPORTED, "max_window_layers: %lld is not supported with use_sliding_window",
                  (long long)c->first_windowed);
}

/* The family that model_type names; a reason when there is none such. */
static bool read_family(const json_t *root, tw_family *f, tw_reasons *reasons) {
    const json_t *v = json_object_get(root, "model_type");
    char shown[TW_CONFIG_SHOWN], list[256] = "";
    for (int i = 0; i < TW_FAMILY_COUNT; i++) {
        if (json_is_string(v) && !strcmp(json_string_value(v), tw_family_name((tw_family)i))) {
            *f = (tw_family)i;
            return true;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", tw_family_name((tw_family)i));
    }
    if (v)
        tw_reason(reasons, TW_ERR_UNSUPPORTED, "model_type: %s is not supported; supported: %s",
                  tw_show_json(v, shown, sizeof shown), list);
    else
        tw_reason(reasons, TW_ERR_UNSUPPORTED, "model_type: is missing; supported: %s", list);
    return false;
}

tw_status tw_config_parse(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                          tw_reasons *reasons, bool *usable) {
    json_t *root;
    *usable = false;
    tw_status s = tw_json_parse(&root, text, size, path, -1, reasons->diag);
    if (s != TW_OK) return s;
    tw_family family;
    if (!json_is_object(root))
        s = tw_fail_at(reasons->diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    else if (read_family(root, &family, reasons)) {
        tw_config_defaults(c, family);
        tw_config_parser p = {.c = c, .arena = arena, .root = root, .reasons = reasons, .sizes_good = true};
        tw_config_read_keys(&p);
        read_architectures(&p);
        read_activation(&p);
        read_tokens(&p);
        if (p.sizes_good) finish_sizes(&p);
        if (p.sizes_good) read_no_rope_layers(&p);
        finish_window(&p);
        read_auto_map(&p);
        if (p.sizes_good) {
            if (family != TW_FAMILY_GPT2) tw_config_read_rope(&p);
            read_layer_types(&p);
            read_dense_layers(&p);
        }
        *usable = p.sizes_good;
        if (arena->failed) s = tw_fail_memory(reasons->diag);
    }
    json_decref(root);
    return s;
}

/* A text, or a list of them. */
static void read_stops(tw_config_parser *p) {
    tw_config *c = p->c;
    const json_t *v = json_object_get(p->root, "stop_strings");
    if (!v || json_is_null(v)) return;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        const char *s = json_string_value(one);
        if (!s || !*s || strlen(s) != json_string_length(one)) {
            tw_config_refuse(p, "stop_strings", v, "is neither a text nor a list of them");
            return;
        }
        if (c->n_stop == TW_STOP_MAX) {
            tw_config_refuse(p, "stop_strings", v, "has more than 64 texts");
            return;
        }
        c->stop[c->n_stop] = tw_arena_strdup(p->arena, s);
        if (c->stop[c->n_stop]) c->n_stop++;
    }
}

tw_status tw_config_parse_generation(tw_config *c, tw_arena *arena, const char *text, size_t size, const char *path,
                                     tw_reasons *reasons) {
    json_t *root;
    tw_status s = tw_json_parse(&root, text, size, path, -1, reasons->diag);
    if (s != TW_OK) return s;
    tw_config_parser p = {.c = c, .arena = arena, .root = root, .reasons = reasons, .sizes_good = true};
    if (!json_is_object(root)) s = tw_fail_at(reasons->diag, TW_ERR_FORMAT, path, -1, "not a JSON object");
    tw_config_read_generation_keys(&p);
    int64_t bos = c->bos;
    read_tokens(&p);
    if (!json_object_get(root, "bos_token_id")) c->bos = bos;
    read_stops(&p);
    if (s == TW_OK && arena->failed) s = tw_fail_memory(reasons->diag);
    json_decref(root);
    return s;
}

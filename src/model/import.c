/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face directory as a model: config, then every tensor to its place, then what is left over. */
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a family spells a part. A tensor may hold several parts side by side (GPT-2's c_attn: q, k and v), and may be
   stored transposed (GPT-2's Conv1D: in x out). NULL: the family has no such part. */
typedef struct spelling {
    const char *name;
    int index, of; /* which of how many parts of the same rows; 0 of 0 is the one of one */
    bool transposed;
    bool heads; /* q, k or v, by `index`, in a tensor of all three, whose rows differ */
} spelling;

static const spelling llama_spelling[TW_PART_COUNT] = {
    [TW_PART_ATTN_NORM] = {.name = "input_layernorm.weight"},
    [TW_PART_Q] = {.name = "self_attn.q_proj.weight"},
    [TW_PART_Q_BIAS] = {.name = "self_attn.q_proj.bias"},
    [TW_PART_K] = {.name = "self_attn.k_proj.weight"},
    [TW_PART_K_BIAS] = {.name = "self_attn.k_proj.bias"},
    [TW_PART_V] = {.name = "self_attn.v_proj.weight"},
    [TW_PART_V_BIAS] = {.name = "self_attn.v_proj.bias"},
    [TW_PART_Q_NORM] = {.name = "self_attn.q_norm.weight"},
    [TW_PART_K_NORM] = {.name = "self_attn.k_norm.weight"},
    [TW_PART_O] = {.name = "self_attn.o_proj.weight"},
    [TW_PART_O_BIAS] = {.name = "self_attn.o_proj.bias"},
    [TW_PART_MLP_NORM] = {.name = "post_attention_layernorm.weight"},
    [TW_PART_GATE] = {.name = "mlp.gate_proj.weight"},
    [TW_PART_GATE_BIAS] = {.name = "mlp.gate_proj.bias"},
    [TW_PART_UP] = {.name = "mlp.up_proj.weight"},
    [TW_PART_UP_BIAS] = {.name = "mlp.up_proj.bias"},
    [TW_PART_DOWN] = {.name = "mlp.down_proj.weight"},
    [TW_PART_DOWN_BIAS] = {.name = "mlp.down_proj.bias"},
    [TW_PART_ROUTER] = {.name = "mlp.gate.weight"},
    [TW_PART_EXPERT_GATE] = {.name = "gate_proj.weight"},
    [TW_PART_EXPERT_UP] = {.name = "up_proj.weight"},
    [TW_PART_EXPERT_DOWN] = {.name = "down_proj.weight"},
    [TW_PART_EMBED] = {.name = "embed_tokens.weight"},
    [TW_PART_FINAL_NORM] = {.name = "norm.weight"},
    [TW_PART_HEAD] = {.name = "lm_head.weight"},
};

/* Phi: q, k and v in one tensor, gate and up in another. */
static const spelling phi3_spelling[TW_PART_COUNT] = {
    [TW_PART_ATTN_NORM] = {.name = "input_layernorm.weight"},
    [TW_PART_Q] = {.name = "self_attn.qkv_proj.weight", .index = 0, .heads = true},
    [TW_PART_K] = {.name = "self_attn.qkv_proj.weight", .index = 1, .heads = true},
    [TW_PART_V] = {.name = "self_attn.qkv_proj.weight", .index = 2, .heads = true},
    [TW_PART_O] = {.name = "self_attn.o_proj.weight"},
    [TW_PART_MLP_NORM] = {.name = "post_attention_layernorm.weight"},
    [TW_PART_GATE] = {.name = "mlp.gate_up_proj.weight", .index = 0, .of = 2},
    [TW_PART_UP] = {.name = "mlp.gate_up_proj.weight", .index = 1, .of = 2},
    [TW_PART_DOWN] = {.name = "mlp.down_proj.weight"},
    [TW_PART_EMBED] = {.name = "embed_tokens.weight"},
    [TW_PART_FINAL_NORM] = {.name = "norm.weight"},
    [TW_PART_HEAD] = {.name = "lm_head.weight"},
};

/* Where norms follow attention and the MLP, the name of what is elsewhere the MLP's norm is attention's. */
static const spelling post_norm_spelling[TW_PART_COUNT] = {
    [TW_PART_ATTN_POST_NORM] = {.name = "post_attention_layernorm.weight"},
    [TW_PART_MLP_NORM] = {.name = "pre_feedforward_layernorm.weight"},
    [TW_PART_MLP_POST_NORM] = {.name = "post_feedforward_layernorm.weight"},
};

static const spelling gpt2_spelling[TW_PART_COUNT] = {
    [TW_PART_ATTN_NORM] = {.name = "ln_1.weight"},
    [TW_PART_ATTN_NORM_BIAS] = {.name = "ln_1.bias"},
    [TW_PART_Q] = {.name = "attn.c_attn.weight", .index = 0, .of = 3, .transposed = true},
    [TW_PART_Q_BIAS] = {.name = "attn.c_attn.bias", .index = 0, .of = 3},
    [TW_PART_K] = {.name = "attn.c_attn.weight", .index = 1, .of = 3, .transposed = true},
    [TW_PART_K_BIAS] = {.name = "attn.c_attn.bias", .index = 1, .of = 3},
    [TW_PART_V] = {.name = "attn.c_attn.weight", .index = 2, .of = 3, .transposed = true},
    [TW_PART_V_BIAS] = {.name = "attn.c_attn.bias", .index = 2, .of = 3},
    [TW_PART_O] = {.name = "attn.c_proj.weight", .transposed = true},
    [TW_PART_O_BIAS] = {.name = "attn.c_proj.bias"},
    [TW_PART_MLP_NORM] = {.name = "ln_2.weight"},
    [TW_PART_MLP_NORM_BIAS] = {.name = "ln_2.bias"},
    [TW_PART_UP] = {.name = "mlp.c_fc.weight", .transposed = true},
    [TW_PART_UP_BIAS] = {.name = "mlp.c_fc.bias"},
    [TW_PART_DOWN] = {.name = "mlp.c_proj.weight", .transposed = true},
    [TW_PART_DOWN_BIAS] = {.name = "mlp.c_proj.bias"},
    [TW_PART_EMBED] = {.name = "wte.weight"},
    [TW_PART_POSITIONS] = {.name = "wpe.weight"},
    [TW_PART_FINAL_NORM] = {.name = "ln_f.weight"},
    [TW_PART_FINAL_NORM_BIAS] = {.name = "ln_f.bias"},
    [TW_PART_HEAD] = {.name = "lm_head.weight"},
};

/* Mixtral's own names of its mixture; transformers 5 may keep the newer ones, which are those of Qwen. */
static const spelling mixtral_router = {.name = "block_sparse_moe.gate.weight"};
static const spelling mixtral_experts[] = {{.name = "w1.weight"}, {.name = "w3.weight"}, {.name = "w2.weight"}};

/* All experts of a layer in one tensor, [experts, rows, cols], gate above up. */
static const spelling fused_experts[] = {{.name = "mlp.experts.gate_up_proj", .index = 0, .of = 2},
                                         {.name = "mlp.experts.gate_up_proj", .index = 1, .of = 2},
                                         {.name = "mlp.experts.down_proj"}};

typedef struct importer {
    tw_model *m;
    const tw_config *c;
    tw_checkpoint *ck;
    tw_reasons *reasons;
    spelling spell[TW_PART_COUNT];
    const char *base, *layers; /* "model.", "model.layers." */
} importer;

/* One place to bind: where its tensor is called what. */
typedef struct place {
    int64_t layer;              /* -1: of the model */
    int64_t expert, of_experts; /* of a fused tensor; 0 of 0 otherwise */
    char name[160];             /* in the checkpoint */
    const char *said;           /* in messages: below the layer */
} place;

static void name_place(const importer *im, place *p, const char *name) {
    int n = 0;
    if (p->layer >= 0)
        n = snprintf(p->name, sizeof p->name, "%s%lld.", im->layers, (long long)p->layer);
    else if (strcmp(name, "lm_head.weight") != 0)
        n = snprintf(p->name, sizeof p->name, "%s", im->base);
    snprintf(p->name + n, sizeof p->name - (size_t)n, "%s", name);
    p->said = p->layer >= 0 ? p->name + n : p->name;
}

/* "layer 3: " or nothing */
static const char *where(const place *p, char *out, size_t size) {
    if (p->layer >= 0)
        snprintf(out, size, "layer %lld: ", (long long)p->layer);
    else
        out[0] = 0;
    return out;
}

static const char *show_shape(int rank, const int64_t *shape, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (n < size) snprintf(out + n, size - n, "]");
    return out;
}

/* Rows of the tensor that a part is in, and of the parts before it. */
static int64_t all_rows(const tw_model *m, const tw_part_info *part, const spelling *s) {
    if (s->heads) return (m->n_heads + 2 * m->n_kv_heads) * m->head_dim;
    return tw_model_extent(m, part->rows) * (s->of ? s->of : 1);
}
static int64_t rows_before(const tw_model *m, const tw_part_info *part, const spelling *s) {
    if (!s->heads) return s->index * tw_model_extent(m, part->rows);
    return s->index ? (m->n_heads + (s->index - 1) * m->n_kv_heads) * m->head_dim : 0;
}

/* The shape that the tensor of a part has in the file. */
static int stored_shape(const tw_part_info *part, const tw_model *m, const spelling *s, const place *p,
                        int64_t *shape) {
    int64_t rows = all_rows(m, part, s), cols = tw_model_extent(m, part->cols);
    int rank = 0;
    if (p->of_experts) shape[rank++] = p->of_experts;
    if (s->transposed) shape[rank++] = cols;
    shape[rank++] = rows;
    if (!s->transposed && part->cols != TW_EXTENT_ONE) shape[rank++] = cols;
    return rank;
}

/* The tensor at a place if it is as it must be; otherwise a reason, told once for parts that share a tensor. */
static tw_tensor *take(importer *im, const tw_part_info *part, const spelling *s, const place *p) {
    tw_tensor *t = tw_tensors_find(&im->ck->tensors, p->name);
    int64_t shape[4];
    int rank = stored_shape(part, im->m, s, p, shape);
    char layer[40], is[200], must[100];
    bool first = !s->index && !p->expert;
    where(p, layer, sizeof layer);
    if (!t) {
        if (first) tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "%s%s is missing", layer, p->said);
        return NULL;
    }
    if (first && !t->used) {
        im->m->parameters += t->elements;
        im->m->weight_bytes += t->bytes;
    }
    t->used = true;
    if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0) {
        if (first)
            tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "%s%s is %s, not %s", layer, p->said,
                      show_shape(t->rank, t->shape, is, sizeof is), show_shape(rank, shape, must, sizeof must));
        return NULL;
    }
    if (!t->is_weight) {
        if (first)
            tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "%s%s is of dtype %s; supported: F32, F16, BF16", layer, p->said,
                      t->type);
        return NULL;
    }
    return t;
}

static void bind_part(importer *im, void *owner, tw_part which, const spelling *s, const place *p,
                      const char *canonical) {
    const tw_part_info *part = &tw_parts[which];
    const tw_tensor *t = take(im, part, s, p);
    if (!t) return;
    int64_t rows = tw_model_extent(im->m, part->rows), cols = tw_model_extent(im->m, part->cols);
    int64_t all = all_rows(im->m, part, s), before = rows_before(im->m, part, s);
    int64_t skip = s->transposed ? before : (p->expert * all + before) * cols;
    *tw_part_of(owner, which) = (tw_weight){
        .name = canonical,
        .dtype = t->dtype,
        .rows = rows,
        .cols = cols,
        .row_stride = s->transposed ? 1 : cols,
        .col_stride = s->transposed ? all : 1,
        .plus = tw_config_is_gemma(im->c) && 1ull << which & tw_part_norms ? 1 : 0,
        .data = t->data + skip * (int64_t)(tw_dtype_bits(t->dtype) / 8),
    };
    if (!canonical) im->reasons->no_memory = true;
}

static bool has(const importer *im, const place *at, const char *name) {
    place p = *at;
    name_place(im, &p, name);
    return tw_tensors_find(&im->ck->tensors, p.name) != NULL;
}

static void bind_experts(importer *im, tw_layer *l, int64_t layer) {
    tw_model *m = im->m;
    place p = {.layer = layer};
    bool fused = has(im, &p, fused_experts[0].name), own = has(im, &p, mixtral_router.name);
    /* The config's number is believed, and memory set aside, only when the checkpoint can hold that many. */
    if (!fused && m->n_experts > (int64_t)im->ck->tensors.count) {
        tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "layer %lld: %lld experts are missing", (long long)layer,
                  (long long)m->n_experts);
        return;
    }
    l->experts = tw_arena_array(&m->arena, (size_t)m->n_experts, sizeof *l->experts);
    const char *folder = own ? "block_sparse_moe.experts" : "mlp.experts";
    for (int64_t e = 0; l->experts && e < m->n_experts; e++)
        for (int i = 0; i < 3; i++) {
            int part = TW_PART_EXPERT_GATE + i;
            const spelling *s = fused ? &fused_experts[i] : own ? &mixtral_experts[i] : &im->spell[part];
            char name[96];
            if (fused)
                snprintf(name, sizeof name, "%s", s->name);
            else
                snprintf(name, sizeof name, "%s.%lld.%s", folder, (long long)e, s->name);
            place q = {.layer = layer, .expert = fused ? e : 0, .of_experts = fused ? m->n_experts : 0};
            name_place(im, &q, name);
            bind_part(im, &l->experts[e], (tw_part)part, s, &q,
                      tw_arena_printf(&m->arena, "layers.%lld.experts.%lld.%s", (long long)layer, (long long)e,
                                      tw_parts[part].name));
        }
}

static void bind_layer(importer *im, int64_t layer) {
    tw_model *m = im->m;
    tw_layer *l = &m->layers[layer];
    unsigned features = tw_config_features(im->c, layer);
    for (int part = 0; part < TW_PART_LAYER_COUNT; part++) {
        if (tw_parts[part].needs & ~features) continue;
        place p = {.layer = layer};
        const spelling *s = &im->spell[part];
        if (part == TW_PART_ROUTER && has(im, &p, mixtral_router.name)) s = &mixtral_router;
        name_place(im, &p, s->name);
        bind_part(im, l, (tw_part)part, s, &p,
                  tw_arena_printf(&m->arena, "layers.%lld.%s", (long long)layer, tw_parts[part].name));
    }
    if (features & TW_HAS_EXPERTS) bind_experts(im, l, layer);
}

/* transformers ties the head to the embedding without a look at what the file holds for it; here a head that is
   stored all the same must be the embedding's very bytes. */
static void tie_head(importer *im) {
    tw_model *m = im->m;
    place p = {.layer = -1};
    name_place(im, &p, im->spell[TW_PART_EMBED].name);
    const tw_tensor *embed = tw_tensors_find(&im->ck->tensors, p.name);
    tw_tensor *head = tw_tensors_find(&im->ck->tensors, im->spell[TW_PART_HEAD].name);
    m->head.weight = m->embed;
    if (m->head.weight.rows) m->head.weight.name = "head";
    if (!head) return;
    head->used = true;
    if (embed && (head->type != embed->type || head->rank != embed->rank || head->bytes != embed->bytes ||
                  memcmp(head->shape, embed->shape, sizeof head->shape) != 0 ||
                  (head->bytes && memcmp(head->data, embed->data, (size_t)head->bytes) != 0)))
        tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "%s differs from %s, to which tie_word_embeddings ties it",
                  head->name, embed->name);
}

static void bind_globals(importer *im) {
    unsigned features = tw_config_features(im->c, 0);
    for (int part = TW_PART_EMBED; part < TW_PART_COUNT; part++) {
        if (tw_parts[part].needs & ~features) continue;
        if (part == TW_PART_HEAD && im->c->tied) {
            tie_head(im);
            continue;
        }
        place p = {.layer = -1};
        name_place(im, &p, im->spell[part].name);
        bind_part(im, im->m, (tw_part)part, &im->spell[part], &p, tw_parts[part].name);
    }
}

/* Buffers that old versions of transformers saved although they follow from the config: causal masks, and inverse
   frequencies (which it does not read back either). By exact name. */
static bool is_derived(const importer *im, const char *below_layer) {
    if (im->c->family == TW_FAMILY_GPT2)
        return !strcmp(below_layer, "attn.bias") || !strcmp(below_layer, "attn.masked_bias");
    return !strcmp(below_layer, "self_attn.rotary_emb.inv_freq");
}

/* Splits "model.layers.12.x" into 12 and "x"; NULL when it is no such name. */
static const char *below_layer(const importer *im, const char *name, int64_t *layer) {
    size_t n = strlen(im->layers);
    if (strncmp(name, im->layers, n) != 0) return NULL;
    char *end;
    if (name[n] < '0' || name[n] > '9' || (name[n] == '0' && name[n + 1] != '.')) return NULL;
    *layer = strtoll(name + n, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

static void refuse_leftovers(importer *im) {
    for (size_t i = 0; i < im->ck->tensors.count; i++) {
        const tw_tensor *t = &im->ck->tensors.items[i];
        if (t->used) continue;
        int64_t layer;
        const char *rest = below_layer(im, t->name, &layer);
        if (!rest)
            tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "unexpected tensor %s", t->name);
        else if (layer >= im->m->n_layers || !is_derived(im, rest))
            tw_reason(im->reasons, TW_ERR_UNSUPPORTED, "layer %lld: unexpected tensor %s", (long long)layer, rest);
    }
}

static void import_weights(tw_model *m, const tw_config *c, tw_checkpoint *ck, tw_reasons *reasons) {
    importer im = {.m = m, .c = c, .ck = ck, .reasons = reasons};
    bool gpt2 = c->family == TW_FAMILY_GPT2;
    const bool post = tw_config_features(c, 0) & TW_HAS_POST_NORM;
    memcpy(im.spell,
           gpt2                          ? gpt2_spelling
           : c->family == TW_FAMILY_PHI3 ? phi3_spelling
                                         : llama_spelling,
           sizeof im.spell);
    for (int part = 0; part < TW_PART_COUNT && post; part++)
        if (post_norm_spelling[part].name) im.spell[part] = post_norm_spelling[part];
    /* The first GPT-2 checkpoints were saved from the body alone, without its prefix. */
    bool bare = gpt2 && tw_tensors_find(&ck->tensors, "wte.weight");
    im.base = bare ? "" : gpt2 ? "transformer." : "model.";
    im.layers = bare ? "h." : gpt2 ? "transformer.h." : "model.layers.";
    if (m->n_layers > (int64_t)ck->tensors.count) {
        tw_reason(reasons, TW_ERR_UNSUPPORTED, "%lld layers cannot be in %zu tensors", (long long)m->n_layers,
                  ck->tensors.count);
        return;
    }
    bind_globals(&im);
    for (int64_t i = 0; i < m->n_layers; i++) bind_layer(&im, i);
    refuse_leftovers(&im);
    if (m->arena.failed) reasons->no_memory = true;
}

/* Reads `directory`/`name` whole; absent files are fine when they are `optional`. */
static tw_status read_text(tw_buf *out, char **path, tw_arena *arena, const char *directory, const char *name,
                           bool optional, tw_diag *diag) {
    *path = tw_arena_printf(arena, "%s/%s", directory, name);
    if (!*path) return tw_fail_memory(diag);
    if (optional && !tw_file_exists(*path)) return TW_OK;
    return tw_file_read(out, *path, diag);
}

static tw_status read_config(tw_config *c, tw_arena *arena, const char *directory, tw_reasons *reasons, bool *usable) {
    char *path;
    tw_buf text = {0};
    tw_status s = read_text(&text, &path, arena, directory, "config.json", false, reasons->diag);
    if (s == TW_OK) s = tw_config_parse(c, arena, text.data, text.size, path, reasons, usable);
    tw_buf_clear(&text);
    if (s == TW_OK && *usable) {
        s = read_text(&text, &path, arena, directory, "generation_config.json", true, reasons->diag);
        if (s == TW_OK && text.size) s = tw_config_parse_generation(c, arena, text.data, text.size, path, reasons);
    }
    tw_buf_free(&text);
    return s;
}

/* A fault of the weights' files does not hide what the config was refused for: it becomes one more reason. */
static tw_status open_weights(tw_checkpoint *ck, tw_arena *arena, const char *directory, tw_reasons *reasons) {
    if (!reasons->count) return tw_checkpoint_open(ck, arena, directory, reasons);
    tw_diag d;
    char located[TW_DIAG_PATH + 64];
    tw_diag_clear(&d);
    tw_reasons own = {.diag = &d, .path = directory};
    tw_status s = tw_checkpoint_open(ck, arena, directory, &own);
    if (s == TW_ERR_MEMORY) return tw_fail_memory(reasons->diag);
    if (s == TW_OK && !own.count) return TW_OK;
    tw_diag_place(&d, located, sizeof located);
    size_t folder = strlen(directory) + 1;
    const char *below = s != TW_OK && strlen(located) > folder ? located + folder : "";
    for (const char *line = d.message; *line;) {
        size_t n = strcspn(line, "\n");
        tw_reason(reasons, d.status, "%s%.*s", below, (int)n, line);
        line += n + (line[n] == '\n');
    }
    return TW_OK;
}

static tw_status fill(tw_model *m, const char *directory, tw_reasons *reasons) {
    tw_config c;
    tw_checkpoint ck;
    bool usable;
    m->name = tw_arena_strdup(&m->arena, directory);
    if (!m->name) return tw_fail_memory(reasons->diag);
    tw_status s = read_config(&c, &m->arena, directory, reasons, &usable);
    if (s != TW_OK) return s;
    if (usable && !tw_config_apply(&c, m)) return tw_fail_memory(reasons->diag);
    s = open_weights(&ck, &m->arena, directory, reasons);
    m->maps = ck.maps;
    m->n_maps = ck.maps ? ck.n_files : 0;
    if (s == TW_OK && usable && ck.n_files) import_weights(m, &c, &ck, reasons);
    return s;
}

tw_status tw_model_open(tw_model **out, const char *directory, tw_diag *diag) {
    *out = NULL;
    tw_diag_clear(diag);
    if (!tw_path_is_dir(directory)) return tw_fail_at(diag, TW_ERR_IO, directory, -1, "not a directory");
    tw_model *m = calloc(1, sizeof *m);
    if (!m) return tw_fail_memory(diag);
    tw_reasons reasons = {.diag = diag, .path = directory};
    tw_status s = fill(m, directory, &reasons);
    if (s == TW_OK) s = tw_reasons_end(&reasons);
    if (s == TW_OK)
        *out = m;
    else
        tw_model_close(m);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the importer refuses, and in which words; what it makes of checkpoints that are right is test_import_golden. */
#include "model/tiny_checkpoint.h"

#include "model/model.h"

static char *folder;

static int set_up(void **state) {
    (void)state;
    folder = test_folder_make();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static tw_model *opens(void) {
    tw_model *m;
    tw_diag diag;
    if (tw_model_open(&m, folder, &diag) != TW_OK) fail_msg("refused: %s", diag.message);
    return m;
}

/* Refused with all of `message`; `file` is the end of the path it is located in, NULL for the folder. */
static void refused_at(tw_status status, const char *file, const char *message) {
    tw_model *m;
    tw_diag diag;
    assert_int_equal(tw_model_open(&m, folder, &diag), status);
    assert_null(m);
    assert_string_equal(diag.message, message);
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, file ? "/" : "", file ? file : "");
    assert_string_equal(diag.path, path);
    assert_int_equal(tw_model_open(&m, folder, NULL), status);
}

static void refused(const char *message) {
    refused_at(TW_ERR_UNSUPPORTED, NULL, message);
}

static void test_opens(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_write(&c, folder, TINY_LLAMA);
    tw_model *m = opens();
    tw_model_info info;
    tw_model_describe(m, &info);
    assert_string_equal(info.family, "llama");
    assert_string_equal(info.name, folder);
    assert_int_equal(info.layers, 2);
    assert_int_equal(info.head_dim, 4);
    assert_int_equal(info.dtype, TW_F32);
    int64_t layer = 8 * 8 * 2 + 4 * 8 * 2 + 12 * 8 * 3;
    assert_int_equal(info.parameters, 2 * 16 * 8 + 8 + 2 * (layer + 16));
    assert_int_equal(info.weight_bytes, info.parameters * 4);
    assert_int_equal(info.streamed_bytes, (16 * 8 + 2 * layer) * 4);
    assert_int_equal(m->max_seq, 32);
    assert_true(m->rope.kind == TW_ROPE_FIXED && m->rope.dims == 4 && m->attn_scale == 0.5f);
    tw_model_close(m);
    tw_model_close(NULL);
}

static void test_not_there(void **state) {
    (void)state;
    tw_model *m;
    tw_diag diag;
    assert_int_equal(tw_model_open(&m, "/no/such/folder", &diag), TW_ERR_IO);
    assert_string_equal(diag.message, "not a directory");
    refused_at(TW_ERR_IO, "config.json", "cannot open: No such file or directory");
    test_write(folder, "config.json", TINY_LLAMA, sizeof TINY_LLAMA - 1);
    refused_at(TW_ERR_IO, NULL, "has neither model.safetensors nor model.safetensors.index.json");
    test_write(folder, "pytorch_model.bin", "x", 1);
    refused_at(
        TW_ERR_IO, NULL,
        "has neither model.safetensors nor model.safetensors.index.json; pytorch_model.bin is not read: save the "
        "model as safetensors");
    test_write(folder, "model.safetensors", "", 0);
    refused_at(TW_ERR_FORMAT, "model.safetensors", "0 bytes are too few for a safetensors file");
    test_write(folder, "config.json", "{\"model_type\":", 14);
    refused_at(TW_ERR_FORMAT, "config.json", "invalid JSON: unexpected token near end of file");
}

static void test_shapes(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_find(&c, "model.layers.0.mlp.down_proj.weight")->shape[1] = 11;
    tiny_find(&c, "model.embed_tokens.weight")->shape[0] = 15;
    tiny_tensor *norm = tiny_find(&c, "model.layers.1.input_layernorm.weight");
    norm->rank = 2;
    norm->shape[1] = 1;
    tiny_find(&c, "model.norm.weight")->rank = 0;
    tiny_write(&c, folder, TINY_LLAMA);
    refused(
        "model.embed_tokens.weight is [15, 8], not [16, 8]\nmodel.norm.weight is [], not [8]\n"
        "layer 0: mlp.down_proj.weight is [8, 11], not [8, 12]\nlayer 1: input_layernorm.weight is [8, 1], not [8]");
}

static void test_missing_and_unexpected(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_find(&c, "model.layers.1.self_attn.v_proj.weight")->dropped = true;
    tiny_find(&c, "lm_head.weight")->dropped = true;
    tiny_layer(&c, 0, "self_attn.q_proj.bias", 1, 8, 0);
    tiny_layer(&c, 7, "mlp.up_proj.weight", 1, 8, 0);
    tiny_layer(&c, 0, "self_attn.rotary_emb.inv_freqs", 1, 2, 0);
    tiny_add(&c, "model.layers.00.mlp.up_proj.weight", "F32", 1, 1, 0, 0);
    tiny_add(&c, "visual.proj", "F32", 1, 1, 0, 0);
    tiny_write(&c, folder, TINY_LLAMA);
    refused(
        "lm_head.weight is missing\nlayer 1: self_attn.v_proj.weight is missing\n"
        "layer 0: unexpected tensor self_attn.q_proj.bias\nlayer 0: unexpected tensor self_attn.rotary_emb.inv_freqs\n"
        "unexpected tensor model.layers.00.mlp.up_proj.weight\nlayer 7: unexpected tensor mlp.up_proj.weight\n"
        "unexpected tensor visual.proj");
}

/* Config and weights are both told. */
static void test_config_and_weights(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_find(&c, "model.norm.weight")->dropped = true;
    tiny_write(&c, folder, "{\"model_type\":\"llama\",\"hidden_act\":\"gelu_fast\"," TINY_SIZES "}");
    refused("hidden_act: gelu_fast is not supported\nmodel.norm.weight is missing");
    tiny_write(&c, folder, "{\"model_type\":\"llama\",\"head_dim\":0," TINY_SIZES "}");
    refused("head_dim: 0 is not an integer from 2 to 16384");
}

static void test_types(void **state) {
    (void)state;
    tiny c = tiny_llama();
    strcpy(tiny_find(&c, "model.layers.1.self_attn.q_proj.weight")->type, "I64");
    strcpy(tiny_find(&c, "model.norm.weight")->type, "BOOL");
    strcpy(tiny_find(&c, "lm_head.weight")->type, "BF16");
    strcpy(tiny_find(&c, "model.layers.0.mlp.up_proj.weight")->type, "F16");
    tiny_write(&c, folder, TINY_LLAMA);
    refused("model.norm.weight is of dtype BOOL; supported: F32, F16, BF16\n"
            "layer 1: self_attn.q_proj.weight is of dtype I64; supported: F32, F16, BF16");
    strcpy(tiny_find(&c, "model.layers.1.self_attn.q_proj.weight")->type, "F32");
    strcpy(tiny_find(&c, "model.norm.weight")->type, "F32");
    tiny_write(&c, folder, TINY_LLAMA);
    tw_model *m = opens();
    assert_int_equal(m->head.weight.dtype, TW_BF16);
    assert_int_equal(m->layers[0].up.weight.dtype, TW_F16);
    tw_model_close(m);
}

static void test_biases(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_write(&c, folder, "{\"model_type\":\"qwen2\"," TINY_SIZES "}");
    refused("layer 0: self_attn.q_proj.bias is missing\nlayer 0: self_attn.k_proj.bias is missing\n"
            "layer 0: self_attn.v_proj.bias is missing\nlayer 1: self_attn.q_proj.bias is missing\n"
            "layer 1: self_attn.k_proj.bias is missing\nlayer 1: self_attn.v_proj.bias is missing");
    for (int i = 0; i < 2; i++) {
        tiny_layer(&c, i, "self_attn.q_proj.bias", 1, 8, 0);
        tiny_layer(&c, i, "self_attn.k_proj.bias", 1, 4, 0);
        tiny_layer(&c, i, "self_attn.v_proj.bias", 1, 4, 0);
    }
    tiny_write(&c, folder, "{\"model_type\":\"qwen2\"," TINY_SIZES "}");
    tw_model_close(opens());
    tiny_write(&c, folder, "{\"model_type\":\"llama\",\"attention_bias\":true," TINY_SIZES "}");
    refused("layer 0: self_attn.o_proj.bias is missing\nlayer 1: self_attn.o_proj.bias is missing");
    tiny_write(&c, folder, TINY_LLAMA);
    refused("layer 0: unexpected tensor self_attn.k_proj.bias\nlayer 0: unexpected tensor self_attn.q_proj.bias\n"
            "layer 0: unexpected tensor self_attn.v_proj.bias\nlayer 1: unexpected tensor self_attn.k_proj.bias\n"
            "layer 1: unexpected tensor self_attn.q_proj.bias\nlayer 1: unexpected tensor self_attn.v_proj.bias");
}

static void test_tied(void **state) {
    (void)state;
    const char *config = "{\"model_type\":\"llama\",\"tie_word_embeddings\":true," TINY_SIZES "}";
    tiny c = tiny_llama();
    tiny_write(&c, folder, config);
    tw_model *m = opens(); /* the head is stored, with the embedding's bytes */
    assert_ptr_equal(m->head.weight.data, m->embed.data);
    assert_string_equal(m->head.weight.name, "head");
    tw_model_info info;
    tw_model_describe(m, &info);
    int64_t layer = 8 * 8 * 2 + 4 * 8 * 2 + 12 * 8 * 3;
    assert_int_equal(info.parameters, 16 * 8 + 8 + 2 * (layer + 16));
    assert_int_equal(info.streamed_bytes, (16 * 8 + 2 * layer) * 4);
    tw_model_close(m);
    tiny_find(&c, "lm_head.weight")->shape[0] = 15;
    tiny_write(&c, folder, config);
    refused("lm_head.weight differs from model.embed_tokens.weight, to which tie_word_embeddings ties it");
    /* As many elements in another shape, and the same bytes as another type. */
    tiny_find(&c, "lm_head.weight")->shape[0] = 8;
    tiny_find(&c, "lm_head.weight")->shape[1] = 16;
    tiny_write(&c, folder, config);
    refused("lm_head.weight differs from model.embed_tokens.weight, to which tie_word_embeddings ties it");
    tiny_find(&c, "lm_head.weight")->shape[0] = 16;
    tiny_find(&c, "lm_head.weight")->shape[1] = 8;
    strcpy(tiny_find(&c, "lm_head.weight")->type, "BF16");
    strcpy(tiny_find(&c, "model.embed_tokens.weight")->type, "F16");
    tiny_write(&c, folder, config);
    refused("lm_head.weight differs from model.embed_tokens.weight, to which tie_word_embeddings ties it");
    strcpy(tiny_find(&c, "model.embed_tokens.weight")->type, "F32");
    tiny_find(&c, "lm_head.weight")->dropped = true;
    tiny_write(&c, folder, config);
    m = opens();
    assert_ptr_equal(m->head.weight.data, m->embed.data);
    tw_model_close(m);
}

/* One byte of the stored head apart: no longer the same. */
static void test_tied_bytes(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_write(&c, folder, "{\"model_type\":\"llama\",\"tie_word_embeddings\":true," TINY_SIZES "}");
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    unsigned char prefix[8];
    assert_int_equal(fread(prefix, 1, 8, f), 8);
    long header = prefix[0] | prefix[1] << 8 | prefix[2] << 16;
    assert_int_equal(fseek(f, 8 + header + 16 * 8 * 4 + 77, SEEK_SET), 0);
    assert_int_equal(fputc(0x55, f), 0x55);
    assert_int_equal(fclose(f), 0);
    refused("lm_head.weight differs from model.embed_tokens.weight, to which tie_word_embeddings ties it");
}

static void test_derived_buffers(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_layer(&c, 0, "self_attn.rotary_emb.inv_freq", 1, 2, 0);
    tiny_layer(&c, 1, "self_attn.rotary_emb.inv_freq", 1, 2, 0);
    tiny_write(&c, folder, TINY_LLAMA);
    tw_model *m = opens();
    tw_model_info info;
    tw_model_describe(m, &info);
    assert_int_equal(info.weight_bytes, info.parameters * 4);
    tw_model_close(m);
    tiny_layer(&c, 2, "self_attn.rotary_emb.inv_freq", 1, 2, 0);
    tiny_layer(&c, 1, "attn.masked_bias", 1, 2, 0);
    tiny_write(&c, folder, TINY_LLAMA);
    refused("layer 1: unexpected tensor attn.masked_bias\nlayer 2: unexpected tensor self_attn.rotary_emb.inv_freq");
}

/* A number of layers or of experts that the file cannot hold costs no memory and not many lines. */
static void test_absurd_numbers(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_write(&c, folder,
               "{\"model_type\":\"llama\",\"num_hidden_layers\":4096,\"hidden_size\":8,\"num_attention_heads\":2,"
               "\"intermediate_size\":12,\"vocab_size\":16}");
    refused("4096 layers cannot be in 21 tensors");
    for (int i = 0; i < 2; i++) {
        tiny_layer(&c, i, "block_sparse_moe.gate.weight", 2, 4096, 8);
        tiny_layer(&c, i, "self_attn.rotary_emb.inv_freq", 1, 2, 0);
        const char *gone[] = {"gate", "up", "down"};
        for (int k = 0; k < 3; k++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.mlp.%s_proj.weight", i, gone[k]);
            tiny_find(&c, name)->dropped = true;
        }
    }
    tiny_write(&c, folder, "{\"model_type\":\"mixtral\",\"num_local_experts\":4096," TINY_SIZES "}");
    refused("layer 0: 4096 experts are missing\nlayer 1: 4096 experts are missing");
}

/* More reasons than the diagnostic holds: whole lines, and a last one that says so. */
static void test_too_many_reasons(void **state) {
    (void)state;
    tiny c = tiny_llama();
    for (int i = 0; i < 70; i++) {
        char name[96];
        snprintf(name, sizeof name, "%02d.a.tensor.with.quite.a.long.name.that.nobody.ever.expected.to.find.here", i);
        tiny_add(&c, name, "F32", 1, 1, 0, 0);
    }
    tiny_write(&c, folder, TINY_LLAMA);
    tw_model *m;
    tw_diag diag;
    assert_int_equal(tw_model_open(&m, folder, &diag), TW_ERR_UNSUPPORTED);
    size_t n = strlen(diag.message);
    assert_true(n > 3500 && n < sizeof diag.message);
    assert_string_equal(diag.message + n - 11, "\n(and more)");
}

/* ---- shards */

static void write_index(const char *text) {
    test_write(folder, "model.safetensors.index.json", text, strlen(text));
}

/* tiny_llama in two shards; the index is written with `change` applied to one entry. */
static void write_shards(tiny *c, int split, const char *change_name, const char *change_file, bool drop) {
    tiny_write_part(c, folder, "model-00001-of-00002.safetensors", 0, split);
    tiny_write_part(c, folder, "model-00002-of-00002.safetensors", split, c->n);
    test_write(folder, "config.json", TINY_LLAMA, sizeof TINY_LLAMA - 1);
    tw_buf b = {0};
    tw_buf_str(&b, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    bool any = false;
    for (int i = 0; i < c->n; i++) {
        char file[64];
        snprintf(file, sizeof file, "model-0000%d-of-00002.safetensors", i < split ? 1 : 2);
        bool changed = change_name && !strcmp(c->t[i].name, change_name);
        if (changed && drop) continue;
        tw_buf_printf(&b, "%s\"%s\":\"%s\"", any ? "," : "", c->t[i].name, changed ? change_file : file);
        any = true;
    }
    tw_buf_str(&b, "}}");
    write_index(b.data);
    tw_buf_free(&b);
}

static void test_shards(void **state) {
    (void)state;
    tiny c = tiny_llama();
    write_shards(&c, 9, NULL, NULL, false);
    tw_model *m = opens();
    assert_int_equal(m->n_maps, 2);
    float row[8];
    tw_weight_read(tw_model_find(m, "layers.1.mlp.up"), 11, 0, 8, row);
    assert_true(row[7] == (float)((11 * 8 + 7) % 17 - 8) / 16);
    tw_model_close(m);
    write_shards(&c, 9, "lm_head.weight", "model-00002-of-00002.safetensors", false);
    refused_at(
        TW_ERR_FORMAT, NULL,
        "lm_head.weight is in model-00001-of-00002.safetensors; the index names model-00002-of-00002.safetensors");
    write_shards(&c, 9, "lm_head.weight", "", true);
    refused_at(TW_ERR_FORMAT, NULL, "lm_head.weight of model-00001-of-00002.safetensors is not in the index");
    write_shards(&c, 9, "lm_head.weight", "model-00003-of-00002.safetensors", false);
    refused_at(TW_ERR_IO, NULL, "model-00003-of-00002.safetensors is missing, which the index names");
    tiny_add(&c, "lm_head.weight", "F32", 2, 16, 8, 0);
    tiny_write_part(&c, folder, "model-00002-of-00002.safetensors", 9, c.n);
    c.n--;
    write_shards(&c, 9, NULL, NULL, false);
    tiny_add(&c, "lm_head.weight", "F32", 2, 16, 8, 0);
    tiny_write_part(&c, folder, "model-00002-of-00002.safetensors", 9, c.n);
    tw_model *none;
    tw_diag diag;
    assert_int_equal(tw_model_open(&none, folder, &diag), TW_ERR_FORMAT);
    assert_non_null(strstr(diag.message, "lm_head.weight is in model-0000"));
    assert_non_null(strstr(diag.message, " and in model-0000"));
}

/* What the config is refused for comes first, all of it, whatever is wrong with the files of weights. */
static void test_config_before_files(void **state) {
    (void)state;
    char path[1100];
    const char *bad = "{\"model_type\":\"llama\",\"hidden_act\":\"gelu_fast\",\"magic\":1," TINY_SIZES "}";
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    remove(path);
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    remove(path);
    test_write(folder, "config.json", bad, strlen(bad));
    refused("magic: 1 is not understood, and may change the arithmetic\n"
            "hidden_act: gelu_fast is not supported\n"
            "has neither model.safetensors nor model.safetensors.index.json");
    bad = "{\"model_type\":\"orca\"}";
    test_write(folder, "config.json", bad, strlen(bad));
    refused("model_type: orca is not supported; supported: llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gpt2, "
            "gemma, gemma2, gemma3_text, phi3, smollm3, olmo2\n"
            "has neither model.safetensors nor model.safetensors.index.json");
    test_write(folder, "model.safetensors", "", 0);
    refused("model_type: orca is not supported; supported: llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, gpt2, "
            "gemma, gemma2, gemma3_text, phi3, smollm3, olmo2\n"
            "model.safetensors:0: 0 bytes are too few for a safetensors file");
}

/* All the shards that are missing, after what the config is refused for. */
static void test_missing_shards(void **state) {
    (void)state;
    tiny c = tiny_llama();
    write_shards(&c, 9, NULL, NULL, false);
    char path[1100];
    for (int i = 1; i <= 2; i++) {
        snprintf(path, sizeof path, "%s/model-%05d-of-00002.safetensors", folder, i);
        assert_int_equal(remove(path), 0);
    }
    refused_at(TW_ERR_IO, NULL,
               "model-00001-of-00002.safetensors is missing, which the index names\n"
               "model-00002-of-00002.safetensors is missing, which the index names");
    const char *bad = "{\"model_type\":\"llama\",\"hidden_act\":\"gelu_fast\"," TINY_SIZES "}";
    test_write(folder, "config.json", bad, strlen(bad));
    refused("hidden_act: gelu_fast is not supported\n"
            "model-00001-of-00002.safetensors is missing, which the index names\n"
            "model-00002-of-00002.safetensors is missing, which the index names");
}

static void test_shard_missing_tensor(void **state) {
    (void)state;
    tiny c = tiny_llama();
    write_shards(&c, 9, NULL, NULL, false);
    tiny_find(&c, "model.norm.weight")->dropped = true;
    tiny_write_part(&c, folder, "model-00001-of-00002.safetensors", 0, 9);
    refused_at(TW_ERR_FORMAT, NULL,
               "model.norm.weight is not in model-00001-of-00002.safetensors, which the index names for it\n"
               "model.norm.weight is missing");
}

static void test_index(void **state) {
    (void)state;
    const char *index = "model.safetensors.index.json";
    tiny c = tiny_llama();
    write_shards(&c, 9, NULL, NULL, false);
    static const char *const elsewhere[] = {"../x.safetensors",   "/etc/x.safetensors",  "a/b.safetensors",
                                            "a\\\\b.safetensors", "..safetensors",       ".safetensors",
                                            "model.bin",          "x\\u0000.safetensors"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        char text[200];
        tw_model *m;
        tw_diag diag;
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%s\"}}", elsewhere[i]);
        write_index(text);
        assert_int_equal(tw_model_open(&m, folder, &diag), TW_ERR_FORMAT);
        assert_non_null(strstr(diag.message, "is not the name of a file beside the index"));
        assert_non_null(strstr(diag.path, index));
    }
    write_index("{\"weight_map\":{\"a\":3}}");
    refused_at(TW_ERR_FORMAT, index, "weight_map: a: 3 is not the name of a file beside the index");
    write_index("{\"weight_map\":{}}");
    refused_at(TW_ERR_FORMAT, index, "weight_map is not an object naming files");
    write_index("[]");
    refused_at(TW_ERR_FORMAT, index, "weight_map is not an object naming files");
    write_index("{\"weight_map\":{\"a\":\"b.safetensors\",\"a\":\"b.safetensors\"}}");
    refused_at(TW_ERR_FORMAT, index, "invalid JSON: duplicate object key near '\"a\"'");
    tiny_write(&c, folder, NULL);
    tw_model_close(opens()); /* the single file goes first, as it does for transformers */
}

/* ---- the other families */

static void add_gpt2(tiny *c, const char *prefix) {
    static const struct {
        const char *name;
        int rank;
        long a, b;
    } parts[] = {{"ln_1.weight", 1, 8, 0},       {"ln_1.bias", 1, 8, 0},          {"attn.c_attn.weight", 2, 8, 24},
                 {"attn.c_attn.bias", 1, 24, 0}, {"attn.c_proj.weight", 2, 8, 8}, {"attn.c_proj.bias", 1, 8, 0},
                 {"ln_2.weight", 1, 8, 0},       {"ln_2.bias", 1, 8, 0},          {"mlp.c_fc.weight", 2, 8, 32},
                 {"mlp.c_fc.bias", 1, 32, 0},    {"mlp.c_proj.weight", 2, 32, 8}, {"mlp.c_proj.bias", 1, 8, 0}};
    char name[96];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "%sh.0.%s", prefix, parts[i].name);
        tiny_add(c, name, "F32", parts[i].rank, parts[i].a, parts[i].b, 0);
    }
    static const char *const globals[] = {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, globals[i]);
        tiny_add(c, name, "F32", i < 2 ? 2 : 1, i < 2 ? 16 >> i : 8, 8, 0);
    }
}

#define GPT2 "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":2,\"n_layer\":1,\"n_positions\":8,\"vocab_size\":16}"

static void test_gpt2(void **state) {
    (void)state;
    for (int bare = 0; bare < 2; bare++) {
        tiny c = {.n = 0};
        add_gpt2(&c, bare ? "" : "transformer.");
        tiny_add(&c, bare ? "h.0.attn.bias" : "transformer.h.0.attn.bias", "U8", 3, 1, 8, 8);
        tiny_add(&c, bare ? "h.0.attn.masked_bias" : "transformer.h.0.attn.masked_bias", "F32", 0, 0, 0, 0);
        tiny_write(&c, folder, GPT2);
        tw_model *m = opens();
        const tw_weight *k = tw_model_find(m, "layers.0.attn.k"), *v = tw_model_find(m, "layers.0.attn.v.bias");
        assert_true(k->rows == 8 && k->cols == 8 && k->row_stride == 1 && k->col_stride == 24);
        float got[8], bias;
        tw_weight_read(k, 3, 2, 5, got); /* row 3 of K is column 11 of the stored [8, 24] */
        for (int i = 0; i < 5; i++) assert_true(got[i] == (float)(((2 + i) * 24 + 11) % 17 - 8) / 16);
        tw_weight_read(v, 7, 0, 1, &bias);
        assert_true(bias == (float)(23 % 17 - 8) / 16);
        assert_true(m->norm == TW_NORM_LAYER && m->rope.kind == TW_ROPE_NONE && m->positions.rows == 8);
        assert_null(tw_model_find(m, "layers.0.mlp.gate"));
        tw_model_close(m);
    }
}

/* What three parts share is told once. */
static void test_gpt2_refused(void **state) {
    (void)state;
    tiny c = {.n = 0};
    add_gpt2(&c, "transformer.");
    tiny_find(&c, "transformer.h.0.attn.c_attn.weight")->shape[1] = 25;
    tiny_find(&c, "transformer.h.0.attn.c_attn.bias")->dropped = true;
    tiny_find(&c, "transformer.wpe.weight")->shape[0] = 9;
    tiny_write(&c, folder, GPT2);
    refused("transformer.wpe.weight is [9, 8], not [8, 8]\nlayer 0: attn.c_attn.weight is [8, 25], not [8, 24]\n"
            "layer 0: attn.c_attn.bias is missing");
}

static void add_mixtral(tiny *c, bool fused) {
    for (int i = 0; i < 2; i++) {
        const char *dense[] = {"gate", "up", "down"};
        char name[96];
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "model.layers.%d.mlp.%s_proj.weight", i, dense[k]);
            tiny_find(c, name)->dropped = true;
        }
        tiny_layer(c, i, fused ? "mlp.gate.weight" : "block_sparse_moe.gate.weight", 2, 3, 8);
        if (fused) {
            snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj", i);
            tiny_add(c, name, "F32", 3, 3, 24, 8);
            snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj", i);
            tiny_add(c, name, "F32", 3, 3, 8, 12);
        }
        for (int e = 0; !fused && e < 3; e++)
            for (int w = 1; w <= 3; w++) {
                snprintf(name, sizeof name, "block_sparse_moe.experts.%d.w%d.weight", e, w);
                tiny_layer(c, i, name, 2, w == 2 ? 8 : 12, w == 2 ? 12 : 8);
            }
    }
}

#define MIXTRAL "{\"model_type\":\"mixtral\",\"num_local_experts\":3," TINY_SIZES "}"

static void test_mixtral(void **state) {
    (void)state;
    tiny c = tiny_llama();
    add_mixtral(&c, false);
    tiny_write(&c, folder, MIXTRAL);
    tw_model *m = opens();
    assert_int_equal(tw_model_find(m, "layers.1.experts.2.down")->cols, 12);
    assert_null(tw_model_find(m, "layers.1.experts.3.down"));
    tw_model_info info;
    tw_model_describe(m, &info);
    int64_t attention = 8 * 8 * 2 + 4 * 8 * 2, used = 2 * 3 * 12 * 8 + 3 * 8;
    assert_int_equal(info.streamed_bytes, (16 * 8 + 2 * (attention + used)) * 4);
    assert_int_equal(info.experts, 3);
    tw_model_close(m);
    tiny_find(&c, "model.layers.1.block_sparse_moe.experts.2.w3.weight")->shape[0] = 13;
    tiny_find(&c, "model.layers.0.block_sparse_moe.experts.1.w2.weight")->dropped = true;
    tiny_write(&c, folder, MIXTRAL);
    refused("layer 0: block_sparse_moe.experts.1.w2.weight is missing\n"
            "layer 1: block_sparse_moe.experts.2.w3.weight is [13, 8], not [12, 8]");
}

static void test_mixtral_fused(void **state) {
    (void)state;
    tiny c = tiny_llama();
    add_mixtral(&c, true);
    tiny_write(&c, folder, MIXTRAL);
    tw_model *m = opens();
    float row[8];
    tw_weight_read(tw_model_find(m, "layers.1.experts.2.up"), 5, 0, 8, row);
    int first = (2 * 24 + 12 + 5) * 8; /* expert 2, behind the gate's 12 rows */
    for (int i = 0; i < 8; i++) assert_true(row[i] == (float)((first + i) % 17 - 8) / 16);
    tw_model_close(m);
    tiny_find(&c, "model.layers.0.mlp.experts.down_proj")->shape[0] = 2;
    tiny_write(&c, folder, MIXTRAL);
    refused("layer 0: mlp.experts.down_proj is [2, 8, 12], not [3, 8, 12]");
}

static void test_generation_config(void **state) {
    (void)state;
    tiny c = tiny_llama();
    tiny_write(&c, folder, TINY_LLAMA);
    test_write(folder, "generation_config.json", "{\"eos_token_id\":[3,4],\"do_sample\":true,\"top_k\":7}", 49);
    tw_model *m = opens();
    assert_true(m->n_eos == 2 && m->eos[1] == 4 && m->do_sample && m->top_k == 7 && m->bos == 1);
    tw_model_close(m);
    test_write(folder, "generation_config.json", "{\"eos_token_id\":\"</s>\"}", 23);
    refused("eos_token_id: </s> is neither a token nor a list of them");
    test_write(folder, "generation_config.json", "{", 1);
    refused_at(TW_ERR_FORMAT, "generation_config.json", "invalid JSON: string or '}' expected near end of file");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_opens),
        TEST(test_not_there),
        TEST(test_shapes),
        TEST(test_missing_and_unexpected),
        TEST(test_config_and_weights),
        TEST(test_config_before_files),
        TEST(test_missing_shards),
        TEST(test_types),
        TEST(test_biases),
        TEST(test_tied),
        TEST(test_tied_bytes),
        TEST(test_derived_buffers),
        TEST(test_absurd_numbers),
        TEST(test_too_many_reasons),
        TEST(test_shards),
        TEST(test_shard_missing_tensor),
        TEST(test_index),
        TEST(test_gpt2),
        TEST(test_gpt2_refused),
        TEST(test_mixtral),
        TEST(test_mixtral_fused),
        TEST(test_generation_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

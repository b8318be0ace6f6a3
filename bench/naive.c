/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of expectations: a Llama decoder as one writes it in an afternoon. Plain loops over the mapped checkpoint
   (bf16 weights, float arithmetic), one token at a time, no blocking, no intrinsics. With OpenMP the rows of a matrix
   are shared among threads, which is all the parallelism there is.

   naive DIR IDS N REPEATS: feeds all of IDS but the last, then N times the last token and takes the most likely next
   one; prints {"seconds":[of the N steps, each repeat],"ids":[...],"threads":T}. DIR holds config.json and one
   model.safetensors in bf16. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_LAYERS = 128, MAX_PROMPT = 4096 };

typedef struct layer {
    const uint16_t *attn_norm, *q, *k, *v, *o, *mlp_norm, *gate, *up, *down;
    float *keys, *values; /* [positions][kv_heads * head_dim] */
} layer;

typedef struct model {
    int layers, dim, heads, kv_heads, head_dim, ffn, vocab, positions;
    float eps;
    const uint16_t *embed, *norm, *head;
    layer layer[MAX_LAYERS];
    float *frequency;                                  /* [head_dim / 2] */
    float *x, *h, *q, *att, *mix, *gate, *up, *logits; /* one token's activations; att: [heads][positions] */
} model;

static void die(const char *what, const char *name) {
    fprintf(stderr, "naive: %s %s\n", name, what);
    exit(1);
}

static float *floats(size_t n) {
    float *p = calloc(n, sizeof *p);
    if (!p) die("of activations: out of memory", "some");
    return p;
}

/* ---- the checkpoint ---- */

static double number(const json_t *config, const char *name) {
    const json_t *v = json_object_get(config, name);
    if (!json_is_number(v)) die("is not a number in config.json", name);
    return json_number_value(v);
}

typedef struct tensors {
    json_t *header;
    const char *data;
    size_t size;
} tensors;

static tensors tensors_open(const char *folder) {
    char path[4096];
    struct stat s;
    uint64_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &s) || s.st_size < 8) die("cannot be read", path);
    const char *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) die("cannot be mapped", path);
    memcpy(&n, map, 8);
    if (n > (uint64_t)s.st_size - 8) die("has a header longer than the file", path);
    tensors t = {.data = map + 8 + n, .size = (size_t)s.st_size - 8 - n};
    t.header = json_loadb(map + 8, n, 0, NULL);
    if (!t.header) die("has a header that is not JSON", path);
    return t;
}

static const uint16_t *tensor(const tensors *t, const char *name, int64_t elements) {
    const json_t *o = json_object_get(t->header, name), *at = json_object_get(o, "data_offsets");
    const char *type = json_string_value(json_object_get(o, "dtype"));
    int64_t begin = json_integer_value(json_array_get(at, 0)), end = json_integer_value(json_array_get(at, 1));
    if (!type || strcmp(type, "BF16")) die("is not there in bf16", name);
    if (begin < 0 || begin % 2 || end - begin != 2 * elements || (size_t)end > t->size) die("has another size", name);
    return (const uint16_t *)(const void *)(t->data + begin);
}

static const uint16_t *layer_tensor(const tensors *t, int l, const char *name, int64_t elements) {
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", l, name);
    return tensor(t, full, elements);
}

/* Llama 3 slows the low frequencies down and leaves the high ones, smoothly between. */
static void frequencies(model *m, const json_t *config) {
    const json_t *rope = json_object_get(config, "rope_parameters");
    if (!json_is_object(rope)) rope = json_object_get(config, "rope_scaling");
    const json_t *holder = json_object_get(rope, "rope_theta") ? rope : config;
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    double theta = number(holder, "rope_theta");
    m->frequency = floats((size_t)m->head_dim / 2);
    for (int i = 0; i < m->head_dim / 2; i++) {
        double f = pow(theta, -2.0 * i / m->head_dim);
        if (type && !strcmp(type, "llama3")) {
            double low = number(rope, "low_freq_factor"), high = number(rope, "high_freq_factor");
            double turns = number(rope, "original_max_position_embeddings") * f / (2 * 3.14159265358979323846);
            double keep = (turns - low) / (high - low);
            keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
            f = keep * f + (1 - keep) * f / number(rope, "factor");
        }
        m->frequency[i] = (float)f;
    }
}

static void load(model *m, const char *folder, int positions) {
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *c = json_load_file(path, 0, NULL);
    if (!c) die("is not JSON, or cannot be read", path);
    m->layers = (int)number(c, "num_hidden_layers");
    m->dim = (int)number(c, "hidden_size");
    m->heads = (int)number(c, "num_attention_heads");
    m->kv_heads = (int)number(c, "num_key_value_heads");
    m->head_dim = (int)number(c, "head_dim");
    m->ffn = (int)number(c, "intermediate_size");
    m->vocab = (int)number(c, "vocab_size");
    m->eps = (float)number(c, "rms_norm_eps");
    m->positions = positions;
    if (m->layers < 1 || m->layers > MAX_LAYERS) die("has too many layers", path);
    frequencies(m, c);
    tensors t = tensors_open(folder);
    int64_t dim = m->dim, heads = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim,
            ffn = m->ffn;
    m->embed = tensor(&t, "model.embed_tokens.weight", m->vocab * dim);
    m->norm = tensor(&t, "model.norm.weight", dim);
    m->head = json_object_get(t.header, "lm_head.weight") ? tensor(&t, "lm_head.weight", m->vocab * dim) : m->embed;
    for (int l = 0; l < m->layers; l++) {
        layer *y = &m->layer[l];
        y->attn_norm = layer_tensor(&t, l, "input_layernorm", dim);
        y->q = layer_tensor(&t, l, "self_attn.q_proj", heads * dim);
        y->k = layer_tensor(&t, l, "self_attn.k_proj", kv * dim);
        y->v = layer_tensor(&t, l, "self_attn.v_proj", kv * dim);
        y->o = layer_tensor(&t, l, "self_attn.o_proj", dim * heads);
        y->mlp_norm = layer_tensor(&t, l, "post_attention_layernorm", dim);
        y->gate = layer_tensor(&t, l, "mlp.gate_proj", ffn * dim);
        y->up = layer_tensor(&t, l, "mlp.up_proj", ffn * dim);
        y->down = layer_tensor(&t, l, "mlp.down_proj", dim * ffn);
        y->keys = floats((size_t)(positions * kv));
        y->values = floats((size_t)(positions * kv));
    }
    m->x = floats((size_t)dim);
    m->h = floats((size_t)dim);
    m->q = floats((size_t)heads);
    m->mix = floats((size_t)heads);
    m->att = floats((size_t)m->heads * (size_t)positions);
    m->gate = floats((size_t)ffn);
    m->up = floats((size_t)ffn);
    m->logits = floats((size_t)m->vocab);
    json_decref(t.header);
    json_decref(c);
}

/* ---- one token ---- */

static inline float widen(uint16_t b) {
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* y[rows] = w[rows][cols] x[cols] */
static void matvec(float *y, const uint16_t *w, const float *x, int rows, int cols) {
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int r = 0; r < rows; r++) {
        const uint16_t *row = w + (size_t)r * (size_t)cols;
        float sum = 0;
        for (int c = 0; c < cols; c++) sum += widen(row[c]) * x[c];
        y[r] = sum;
    }
}

static void rms_norm(float *y, const float *x, const uint16_t *w, int n, float eps) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * widen(w[i]);
}

static void rotate(const model *m, float *heads, int count, int pos) {
    int half = m->head_dim / 2;
    for (int h = 0; h < count; h++) {
        float *v = heads + h * m->head_dim;
        for (int i = 0; i < half; i++) {
            float angle = (float)pos * m->frequency[i], c = cosf(angle), s = sinf(angle), a = v[i], b = v[i + half];
            v[i] = a * c - b * s;
            v[i + half] = b * c + a * s;
        }
    }
}

static void attend(model *m, const layer *y, int pos) {
    int d = m->head_dim, kv = m->kv_heads * d;
    float scale = 1 / sqrtf((float)d);
    for (int h = 0; h < m->heads; h++) {
        const float *q = m->q + h * d;
        int at = h / (m->heads / m->kv_heads) * d;
        float *att = m->att + (size_t)h * (size_t)m->positions, *out = m->mix + h * d, max = -FLT_MAX, sum = 0;
        for (int t = 0; t <= pos; t++) {
            const float *key = y->keys + (size_t)t * (size_t)kv + at;
            float dot = 0;
            for (int i = 0; i < d; i++) dot += q[i] * key[i];
            att[t] = dot * scale;
            if (att[t] > max) max = att[t];
        }
        for (int t = 0; t <= pos; t++) sum += att[t] = expf(att[t] - max);
        memset(out, 0, (size_t)d * sizeof *out);
        for (int t = 0; t <= pos; t++) {
            const float *value = y->values + (size_t)t * (size_t)kv + at;
            for (int i = 0; i < d; i++) out[i] += att[t] / sum * value[i];
        }
    }
}

static int feed(model *m, int token, int pos) {
    int kv = m->kv_heads * m->head_dim;
    for (int i = 0; i < m->dim; i++) m->x[i] = widen(m->embed[(size_t)token * (size_t)m->dim + (size_t)i]);
    for (int l = 0; l < m->layers; l++) {
        const layer *y = &m->layer[l];
        float *key = y->keys + (size_t)pos * (size_t)kv, *value = y->values + (size_t)pos * (size_t)kv;
        rms_norm(m->h, m->x, y->attn_norm, m->dim, m->eps);
        matvec(m->q, y->q, m->h, m->heads * m->head_dim, m->dim);
        matvec(key, y->k, m->h, kv, m->dim);
        matvec(value, y->v, m->h, kv, m->dim);
        rotate(m, m->q, m->heads, pos);
        rotate(m, key, m->kv_heads, pos);
        attend(m, y, pos);
        matvec(m->h, y->o, m->mix, m->dim, m->heads * m->head_dim);
        for (int i = 0; i < m->dim; i++) m->x[i] += m->h[i];
        rms_norm(m->h, m->x, y->mlp_norm, m->dim, m->eps);
        matvec(m->gate, y->gate, m->h, m->ffn, m->dim);
        matvec(m->up, y->up, m->h, m->ffn, m->dim);
        for (int i = 0; i < m->ffn; i++) m->gate[i] = m->gate[i] / (1 + expf(-m->gate[i])) * m->up[i];
        matvec(m->h, y->down, m->gate, m->dim, m->ffn);
        for (int i = 0; i < m->dim; i++) m->x[i] += m->h[i];
    }
    rms_norm(m->h, m->x, m->norm, m->dim, m->eps);
    matvec(m->logits, m->head, m->h, m->vocab, m->dim);
    int best = 0;
    for (int i = 1; i < m->vocab; i++)
        if (m->logits[i] > m->logits[best]) best = i;
    return best;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    static model m;
    static int prompt[MAX_PROMPT];
    int count = 0, steps = argc == 5 ? atoi(argv[3]) : 0, repeats = argc == 5 ? atoi(argv[4]) : 0;
    if (steps < 1 || steps > 1 << 20 || repeats < 1) {
        fprintf(stderr, "usage: naive DIR IDS N REPEATS\n");
        return 2;
    }
    for (char *p = argv[2], *end = p; *p && count < MAX_PROMPT; p = end + (*end == ',')) {
        prompt[count++] = (int)strtol(p, &end, 10);
        if (end == p) die("is not a list of ids such as 1,2,3", argv[2]);
    }
    load(&m, argv[1], count + steps);
    for (int i = 0; i < count; i++)
        if (prompt[i] < 0 || prompt[i] >= m.vocab) die("holds an id beyond the vocabulary", argv[2]);
    if (!count) die("holds no id", "the prompt");
    printf("{\"seconds\":[");
    int *ids = malloc((size_t)steps * sizeof *ids), threads = 1;
    if (!ids) return 1;
    for (int r = 0; r < repeats; r++) {
        for (int i = 0; i < count - 1; i++) feed(&m, prompt[i], i);
        double start = now();
        for (int i = 0; i < steps; i++) ids[i] = feed(&m, i ? ids[i - 1] : prompt[count - 1], count - 1 + i);
        printf("%s%.6f", r ? "," : "", now() - start);
    }
    printf("],\"ids\":[");
    for (int i = 0; i < steps; i++) printf("%s%d", i ? "," : "", ids[i]);
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    printf("],\"threads\":%d}\n", threads);
    return 0;
}

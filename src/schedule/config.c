/* SPDX-License-Identifier: Apache-2.0 */
/* Every choice there is, as JSON: one table of fields from which they are read, written, and described. */
#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "schedule/schedule.h"

#include <stddef.h>
#include <string.h>

typedef enum form { INT32, INT64, FLAG, WORD } form;

typedef struct field {
    const char *name;
    bool of_machine;
    form form;
    size_t at;
    int64_t least, most; /* of numbers */
    const char *words[5];
    int value[4]; /* of each word */
    const char *meaning;
} field;

#define LOWERING(f)                            #f, false
#define MACHINE(f)                             #f, true
#define IN_LOWERING(f)                         offsetof(tw_schedule_config, lowering.f)
#define IN_MACHINE(f)                          offsetof(tw_schedule_config, machine.f)
#define NUMBER(form, at, least, most, meaning) form, at, least, most, {NULL}, {0}, meaning
#define WORDS(at, words, values, meaning)      WORD, at, 0, 0, words, values, meaning
#define LIST(...)                                                                                                      \
    { __VA_ARGS__ }

/* In the order in which they are written: the lowering's, then the machine's. */
static const field fields[] = {
    {LOWERING(workers),
     NUMBER(INT32, IN_LOWERING(workers), 0, TW_MAX_WORKERS, "lists of instructions; 0: as many as the machine has")},
    {LOWERING(tokens), NUMBER(INT64, IN_LOWERING(tokens), 0, 1 << 20, "positions a step takes at most; 0: 1")},
    {LOWERING(sequences),
     NUMBER(INT64, IN_LOWERING(sequences), 0, 1 << 20, "that decode together, one position of each a step; 0: 1")},
    {LOWERING(max_seq),
     NUMBER(INT64, IN_LOWERING(max_seq), 0, INT32_MAX, "rows of the key/value cache; 0: what the model was made for")},
    {LOWERING(all_logits),
     NUMBER(FLAG, IN_LOWERING(all_logits), 0, 1, "logits of every position, not of the last alone")},
    {LOWERING(weights), WORDS(IN_LOWERING(weights), LIST("native", "int8", "int4"), LIST(TW_F32, TW_I8, TW_I4),
                              "matrices as stored, or quantised")},
    {LOWERING(group), NUMBER(INT32, IN_LOWERING(group), 0, 128,
                             "columns that share a scale: 32, 64 or 128; 0: a row (int8), 64 (int4)")},
    {LOWERING(row_unit), NUMBER(INT64, IN_LOWERING(row_unit), 0, INT32_MAX,
                                "rows are dealt out in multiples of this even number; 0: what suits the machine")},
    {LOWERING(kv_splits), NUMBER(INT64, IN_LOWERING(kv_splits), 0, 4096,
                                 "parts of the past that attention is split in; 0: enough to busy every worker")},
    {LOWERING(row_blocks), NUMBER(INT64, IN_LOWERING(row_blocks), 0, INT32_MAX,
                                  "blocks of positions that attention is split in; 0: likewise")},
    {LOWERING(kv), WORDS(IN_LOWERING(kv), LIST("auto", "f32", "f16", "bf16"), LIST(TW_F32, TW_F32, TW_F16, TW_BF16),
                         "of the key/value cache; auto: what suits the machine")},
    {LOWERING(group_heads),
     NUMBER(FLAG, IN_LOWERING(group_heads), 0, 1,
            "one instruction for all query heads of a key/value head; a GPU's machine always has them so")},
    {MACHINE(warps), NUMBER(INT32, IN_MACHINE(warps), 0, 16, "warps of a block that multiply; 0: choose")},
    {MACHINE(blocks),
     NUMBER(INT32, IN_MACHINE(blocks), 0, 8, "pieces of 512 bytes that each of them takes of a stage; 0: choose")},
    {MACHINE(stages), NUMBER(INT32, IN_MACHINE(stages), 0, 32, "of the ring in shared memory; 0: as many as fit")},
    {MACHINE(window),
     NUMBER(INT32, IN_MACHINE(window), 0, 32, "stages on their way at once, at most; 0: 48 KB of them")},
    {MACHINE(edges),
     WORDS(IN_MACHINE(edges), LIST("auto", "counters", "data"), LIST(TW_EDGES_AUTO, TW_EDGES_COUNTERS, TW_EDGES_DATA),
           "how an instruction learns that what it reads is there")},
    {MACHINE(spin_limit), NUMBER(INT32, IN_MACHINE(spin_limit), 0, INT32_MAX,
                                 "looks at an edge before the machine gives up; 0: seconds' worth")},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* ---- values: of words, their number */

static int64_t get(const tw_schedule_config *c, const field *f) {
    const char *at = (const char *)c + f->at;
    if (f->form == FLAG) return *(const bool *)(const void *)at;
    if (f->form == INT64) return *(const int64_t *)(const void *)at;
    const int x = *(const int *)(const void *)at;
    if (f->form == INT32) return x;
    /* A cache of f32 that was asked for is another word than one that was not. */
    int from = !strcmp(f->name, "kv") && c->lowering.exact_kv;
    while (f->words[from] && f->value[from] != x) from++;
    return f->words[from] ? from : 0;
}

static void set(tw_schedule_config *c, const field *f, int64_t x) {
    char *at = (char *)c + f->at;
    if (f->form == FLAG)
        *(bool *)(void *)at = x;
    else if (f->form == INT64)
        *(int64_t *)(void *)at = x;
    else
        *(int *)(void *)at = f->form == WORD ? f->value[x] : (int)x;
    if (!strcmp(f->name, "kv")) c->lowering.exact_kv = x > 0;
}

/* ---- reading */

static tw_status refuse(const field *f, const json_t *v, const char *path, tw_diag *diag) {
    const char *of = f->of_machine ? "machine." : "";
    if (f->form == FLAG) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s: not true or false", of, f->name);
    if (f->form != WORD)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s: not a whole number within %lld..%lld", of, f->name,
                          (long long)f->least, (long long)f->most);
    char list[100] = "";
    for (int i = 0; f->words[i]; i++) {
        if (i) strcat(list, f->words[i + 1] ? ", " : " or ");
        strcat(list, f->words[i]);
    }
    const char *text = json_string_value(v);
    if (!text) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s: not %s", of, f->name, list);
    return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s: \"%s\" is not %s", of, f->name, text, list);
}

static bool value_of(const field *f, const json_t *v, int64_t *x) {
    if (f->form == FLAG) {
        *x = json_is_true(v);
        return json_is_boolean(v);
    }
    if (f->form != WORD) return tw_json_int(v, f->least, f->most, x);
    const char *text = json_string_value(v);
    for (int i = 0; text && f->words[i]; i++)
        if (!strcmp(text, f->words[i])) {
            *x = i;
            return true;
        }
    return false;
}

static tw_status read_object(tw_schedule_config *c, const json_t *o, bool of_machine, const char *path, tw_diag *diag) {
    const char *key, *of = of_machine ? "machine" : "configuration";
    json_t *v;
    if (!json_is_object(o)) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: not a JSON object", of);
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        int64_t x;
        int i = 0;
        if (!of_machine && !strcmp(key, "machine")) {
            tw_status st = read_object(c, v, true, path, diag);
            if (st != TW_OK) return st;
            continue;
        }
        while (i < FIELDS && (fields[i].of_machine != of_machine || strcmp(key, fields[i].name))) i++;
        if (i == FIELDS)
            return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s%s: unknown field", of_machine ? "machine." : "", key);
        if (!value_of(&fields[i], v, &x)) return refuse(&fields[i], v, path, diag);
        set(c, &fields[i], x);
    }
    return TW_OK;
}

tw_status tw_schedule_config_read(tw_schedule_config *c, const char *path, tw_diag *diag) {
    json_t *root;
    tw_status st = tw_json_load(&root, path, diag);
    if (st != TW_OK) return st;
    tw_schedule_config read = *c;
    st = read_object(&read, root, false, path, diag);
    if (st == TW_OK) *c = read;
    json_decref(root);
    return st;
}

/* ---- writing */

static void put_value(tw_buf *out, const tw_schedule_config *c, const field *f) {
    const int64_t x = get(c, f);
    if (f->form == WORD)
        tw_buf_printf(out, "\"%s\"", f->words[x]);
    else if (f->form == FLAG)
        tw_buf_str(out, x ? "true" : "false");
    else
        tw_buf_printf(out, "%lld", (long long)x);
}

static void put_schema(tw_buf *out, const field *f) {
    if (f->form == WORD) {
        tw_buf_str(out, "{\"enum\": [");
        for (int i = 0; f->words[i]; i++) tw_buf_printf(out, "%s\"%s\"", i ? ", " : "", f->words[i]);
        tw_buf_printf(out, "], \"default\": \"%s\"", f->words[0]);
    } else if (f->form == FLAG) {
        tw_buf_str(out, "{\"type\": \"boolean\", \"default\": false");
    } else {
        tw_buf_printf(out, "{\"type\": \"integer\", \"minimum\": %lld, \"maximum\": %lld, \"default\": 0",
                      (long long)f->least, (long long)f->most);
    }
    tw_buf_printf(out, ", \"description\": \"%s\"}", f->meaning);
}

/* A line a field; the machine's in an object of their own. `c` NULL: the schema. */
static void put_fields(tw_buf *out, const tw_schedule_config *c, bool of_machine, const char *indent) {
    const char *comma = "";
    for (int i = 0; i < FIELDS; i++) {
        if (fields[i].of_machine != of_machine) continue;
        tw_buf_printf(out, "%s\n%s\"%s\": ", comma, indent, fields[i].name);
        if (c)
            put_value(out, c, &fields[i]);
        else
            put_schema(out, &fields[i]);
        comma = ",";
    }
}

static tw_status finish(tw_buf *out, const char *path, tw_diag *diag) {
    tw_status st = out->failed ? tw_fail_memory(diag) : tw_file_write(path, out->data, out->size, diag);
    tw_buf_free(out);
    return st;
}

tw_status tw_schedule_config_write(const tw_schedule_config *c, const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_buf_str(&out, "{");
    put_fields(&out, c, false, "  ");
    tw_buf_str(&out, ",\n  \"machine\": {");
    put_fields(&out, c, true, "    ");
    tw_buf_str(&out, "\n  }\n}\n");
    return finish(&out, path, diag);
}

tw_status tw_schedule_config_schema(const char *path, tw_diag *diag) {
    tw_buf out = {0};
    tw_buf_str(&out, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                     "  \"title\": \"How Tilewright lowers a model, and how a GPU's machine is built\",\n"
                     "  \"type\": \"object\",\n  \"additionalProperties\": false,\n  \"properties\": {");
    put_fields(&out, NULL, false, "    ");
    tw_buf_str(&out, ",\n    \"machine\": {\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n"
                     "      \"properties\": {");
    put_fields(&out, NULL, true, "        ");
    tw_buf_str(&out, "\n      }\n    }\n  }\n}\n");
    return finish(&out, path, diag);
}

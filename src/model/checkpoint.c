/* SPDX-License-Identifier: Apache-2.0 */
#include "model/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS_MAX = 4096 };

typedef struct opening {
    tw_checkpoint *c;
    tw_arena *arena;
    const char *directory;
    tw_reasons *reasons;
} opening;

static tw_status open_file(opening *o, int i, tw_tensors *part) {
    tw_checkpoint *c = o->c;
    const char *path = tw_arena_printf(o->arena, "%s/%s", o->directory, c->files[i]);
    if (!path) return tw_fail_memory(o->reasons->diag);
    tw_status s = tw_map_open(&c->maps[i], path, o->reasons->diag);
    if (s == TW_OK) s = tw_safetensors_parse(part, o->arena, c->maps[i].data, c->maps[i].size, path, o->reasons->diag);
    for (size_t k = 0; s == TW_OK && k < part->count; k++) part->items[k].file = i;
    return s;
}

/* Every shard that is not there is a reason, before any is mapped. */
static bool has_all_files(opening *o) {
    int64_t before = o->reasons->count;
    for (int i = 0; i < o->c->n_files; i++) {
        const char *path = tw_arena_printf(o->arena, "%s/%s", o->directory, o->c->files[i]);
        if (path && !tw_file_exists(path))
            tw_reason(o->reasons, TW_ERR_IO, "%s is missing, which the index names", o->c->files[i]);
    }
    return o->reasons->count == before;
}

/* Maps files[0 .. n_files) and joins their tensors. The number of shards is known before any is opened, so that
   closing finds every map. */
static tw_status open_files(opening *o) {
    tw_checkpoint *c = o->c;
    c->maps = tw_arena_array(o->arena, (size_t)c->n_files, sizeof *c->maps);
    tw_tensors *parts = tw_arena_array(o->arena, (size_t)c->n_files, sizeof *parts);
    if (o->arena->failed) {
        c->n_files = 0;
        return tw_fail_memory(o->reasons->diag);
    }
    size_t total = 0;
    for (int i = 0; i < c->n_files; i++) {
        tw_status s = open_file(o, i, &parts[i]);
        if (s != TW_OK) return s;
        total += parts[i].count;
    }
    c->tensors.items = tw_arena_array(o->arena, total, sizeof *c->tensors.items);
    if (o->arena->failed) return tw_fail_memory(o->reasons->diag);
    for (int i = 0; i < c->n_files; i++) {
        if (!parts[i].count) continue;
        memcpy(c->tensors.items + c->tensors.count, parts[i].items, parts[i].count * sizeof *parts[i].items);
        c->tensors.count += parts[i].count;
    }
    tw_tensors_sort(&c->tensors);
    return TW_OK;
}

/* Shards lie beside the index; a name that leads elsewhere is not one. */
static bool is_plain_name(const char *s) {
    size_t n = strlen(s);
    return n > 12 && s[0] != '.' && !strcmp(s + n - 12, ".safetensors") && !strpbrk(s, "/\\");
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the weight map. */
static tw_status list_shards(opening *o, const json_t *map, const char *index) {
    tw_checkpoint *c = o->c;
    tw_diag *d = o->reasons->diag;
    char shown[128];
    size_t n = 0, count = json_object_size(map);
    const char **all = tw_arena_array(o->arena, count, sizeof *all);
    if (!all) return tw_fail_memory(d);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)map, key, v) {
        const char *s = json_string_value(v);
        if (!s || strlen(s) != json_string_length(v) || !is_plain_name(s))
            return tw_fail_at(d, TW_ERR_FORMAT, index, -1,
                              "weight_map: %s: %s is not the name of a file beside the index", key,
                              tw_show_json(v, shown, sizeof shown));
        all[n] = tw_arena_strdup(o->arena, s);
        if (!all[n++]) return tw_fail_memory(d);
    }
    qsort(all, n, sizeof *all, by_text);
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(all[i], all[distinct - 1]) != 0) all[distinct++] = all[i];
    if (distinct > SHARDS_MAX)
        return tw_fail_at(d, TW_ERR_FORMAT, index, -1, "weight_map names %zu files; at most %d are supported", distinct,
                          SHARDS_MAX);
    c->files = all;
    c->n_files = (int)distinct;
    return TW_OK;
}

/* Every tensor stands in the one shard that the index names for it. */
static void compare_with_index(opening *o, const json_t *map) {
    tw_checkpoint *c = o->c;
    const tw_tensor *before = NULL;
    for (size_t i = 0; i < c->tensors.count; before = &c->tensors.items[i++]) {
        const tw_tensor *t = &c->tensors.items[i];
        if (before && !strcmp(before->name, t->name))
            tw_reason(o->reasons, TW_ERR_FORMAT, "%s is in %s and in %s", t->name, c->files[before->file],
                      c->files[t->file]);
        const char *file = json_string_value(json_object_get(map, t->name));
        if (!file)
            tw_reason(o->reasons, TW_ERR_FORMAT, "%s of %s is not in the index", t->name, c->files[t->file]);
        else if (strcmp(file, c->files[t->file]) != 0)
            tw_reason(o->reasons, TW_ERR_FORMAT, "%s is in %s; the index names %s", t->name, c->files[t->file], file);
    }
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)map, key, v) {
        if (!tw_tensors_find(&c->tensors, key))
            tw_reason(o->reasons, TW_ERR_FORMAT, "%s is not in %s, which the index names for it", key,
                      json_string_value(v));
    }
}

static tw_status open_sharded(opening *o, const char *index) {
    json_t *root;
    tw_status s = tw_json_load(&root, index, o->reasons->diag);
    if (s != TW_OK) return s;
    const json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        s = tw_fail_at(o->reasons->diag, TW_ERR_FORMAT, index, -1, "weight_map is not an object naming files");
    if (s == TW_OK) s = list_shards(o, map, index);
    bool whole = s == TW_OK && has_all_files(o);
    if (!whole) o->c->n_files = 0; /* nothing is mapped */
    if (s == TW_OK && whole) s = open_files(o);
    if (s == TW_OK && whole) compare_with_index(o, map);
    json_decref(root);
    return s;
}

tw_status tw_checkpoint_open(tw_checkpoint *c, tw_arena *arena, const char *directory, tw_reasons *reasons) {
    *c = (tw_checkpoint){0};
    opening o = {c, arena, directory, reasons};
    const char *single = tw_arena_printf(arena, "%s/model.safetensors", directory);
    const char *index = tw_arena_printf(arena, "%s/model.safetensors.index.json", directory);
    const char *pickled = tw_arena_printf(arena, "%s/pytorch_model.bin", directory);
    if (arena->failed) return tw_fail_memory(reasons->diag);
    if (!tw_file_exists(single) && tw_file_exists(index)) return open_sharded(&o, index);
    if (!tw_file_exists(single)) {
        tw_reason(reasons, TW_ERR_IO, "has neither model.safetensors nor model.safetensors.index.json%s",
                  tw_file_exists(pickled) ? "; pytorch_model.bin is not read: save the model as safetensors" : "");
        return TW_OK;
    }
    c->files = tw_arena_array(arena, 1, sizeof *c->files);
    if (!c->files) return tw_fail_memory(reasons->diag);
    c->files[0] = "model.safetensors";
    c->n_files = 1;
    return open_files(&o);
}

void tw_checkpoint_close(tw_checkpoint *c) {
    for (int i = 0; c->maps && i < c->n_files; i++) tw_map_close(&c->maps[i]);
    *c = (tw_checkpoint){0};
}

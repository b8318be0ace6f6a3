/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "vm/cpu/selected.h"

#include "base/file.h"
#include "device/identity.h"
#include "kernels/cpu/tiled.h"
#include "tilewright/device.h"
#include "tilewright/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMATS = 8 /* The most storage formats that are asked for. No artefact decides for further ones. */ };

/* The artefact of a storage format. */
typedef struct format {
    tw_panel_format weights;
    tw_selector *selector; /* NULL: there is none. */
} format;

struct tw_selected {
    char *path;  /* Path of the only artefact. NULL: artefacts are in the cache folder. */
    int threads; /* Number of threads of the machine. */
    bool none;   /* True: no artefact decides. */
    format formats[FORMATS];
    int n; /* Number of formats that were asked for. */
};

tw_selected *tw_selected_open(const char *path, int threads, bool whole) {
    tw_selected *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (!path) path = getenv("TILEWRIGHT_SELECT");
    s->threads = threads;
    s->none = !whole || (path && !*path);
    if (path) s->path = strdup(path);
    if (!path || s->path) return s;
    free(s);
    return NULL;
}

void tw_selected_close(tw_selected *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) tw_selector_close(s->formats[i].selector);
    free(s->path);
    free(s);
}

/* Tells whether an artefact is of the kernel `name` and of this machine. */
static bool fits(const tw_selector *s, const char *name, int threads) {
    static const char *const axes[] = {"m", "n", "k"};
    tw_selector_info info;
    tw_identity here;
    tw_cpu cpu;
    tw_selector_describe(s, &info);
    bool good = !strcmp(info.kernel, name) && info.n_axes == 3;
    for (int a = 0; a < 3 && good; a++) good = !strcmp(info.axes[a], axes[a]);
    tw_cpu_detect(&cpu);
    tw_identity_of_cpu(&here, cpu.model, threads, cpu.isa);
    return good && tw_selector_match(s, here.device, here.alike, here.architecture) == TW_SELECT_SAME;
}

static tw_selector *open_artefact(const tw_selected *s, tw_panel_format weights) {
    char name[64], file[80], path[4096];
    tw_selector *selector;
    tw_tiled_name(weights, true, name, sizeof name);
    snprintf(file, sizeof file, "%s.select", name);
    if (!s->path && !tw_cache_path(file, path, sizeof path)) return NULL;
    if (tw_selector_open(&selector, s->path ? s->path : path, NULL) != TW_OK) return NULL;
    if (fits(selector, name, s->threads)) return selector;
    tw_selector_close(selector);
    return NULL;
}

/* Finds the artefact of a storage format. NULL: there is none. */
static tw_selector *find(tw_selected *s, tw_panel_format weights) {
    for (int i = 0; i < s->n; i++)
        if (s->formats[i].weights.dtype == weights.dtype && s->formats[i].weights.group == weights.group)
            return s->formats[i].selector;
    if (s->n == FORMATS) return NULL;
    s->formats[s->n] = (format){weights, open_artefact(s, weights)};
    return s->formats[s->n++].selector;
}

int tw_selected_choose(tw_selected *s, const tw_vm_product *p, int legal, const char **by, double *us) {
    const tw_selector *selector = s->none ? NULL : find(s, (tw_panel_format){p->weights, p->group});
    const int64_t problem[TW_SELECT_AXES] = {p->m, p->n, p->k};
    tw_selection choice;
    if (!selector || tw_select_choose(selector, problem, 0, &choice) != TW_OK) return -1;
    /* The artefact's default is no prediction: our own measurement is better. */
    if (choice.source != TW_SELECT_EXACT && choice.source != TW_SELECT_MODEL) return -1;
    for (int i = 0; i < legal; i++) {
        char words[64];
        snprintf(words, sizeof words, "by=%s", tw_tiled_makers[i]);
        if (strcmp(choice.config, words) != 0) continue;
        *by = tw_select_source_name(choice.source);
        *us = choice.time;
        return i;
    }
    return -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "select/selector.h"

#include <stdlib.h>

select_scan_fn *select_scan_best(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return select_scan_avx2;
#endif
    return select_scan_c;
}

static const void *at(const unsigned char *data, uint32_t offset) {
    return offset ? data + offset : NULL;
}

void select_view_of(select_view *v, const unsigned char *data) {
    const select_header *h = (const void *)data;
    *v = (select_view){.data = data,
                       .hot = data + h->hot_at,
                       .axes = (int)h->axes,
                       .macros = (int)h->macros,
                       .least = h->least,
                       .most = h->most,
                       .lattice = at(data, h->lattice_at),
                       .lattice_pitch = h->lattice_pitch,
                       .nodes = h->lattice,
                       .terms = at(data, h->terms_at),
                       .terms_pitch = h->terms_pitch,
                       .fills = at(data, h->fills_at),
                       .first = at(data, h->first_at),
                       .records = at(data, h->records_at),
                       .record_words = h->record_words,
                       .tails = at(data, h->macros_at),
                       .shrinks = h->shrinks,
                       .spread = (int)h->spread - 1,
                       .groups = (int)h->groups - 1,
                       .rules = at(data, h->rules_at),
                       .n_rules = (int)h->rules,
                       .samples = at(data, h->samples_at),
                       .exact = at(data, h->exact_at),
                       .buckets = at(data, h->buckets_at),
                       .n_buckets = h->buckets,
                       .n_exact = h->exact,
                       .macro = (int)h->macro,
                       .micro = (int)h->micro,
                       .scan = select_scan_best()};
    for (int k = 0; k < TW_FILL_AXES; k++) v->tiled[k] = (int)h->tiled[k] - 1;
    for (int i = 0; i < COLUMNS; i++) v->columns[i] = (select_list){at(data, h->columns[i].at), h->columns[i].same};
    const uint32_t lines = (h->hot_end - h->hot_at) / SELECT_LINE;
    v->hot_lines = lines < SELECT_HOT ? (int)lines : SELECT_HOT;
}

tw_status tw_selector_open(tw_selector **out, const char *path, tw_diag *diag) {
    *out = NULL;
    tw_map map;
    tw_status st = tw_map_open(&map, path, diag);
    if (st != TW_OK) return st;
    st = select_verify(map.data, map.size, path, diag);
    tw_selector *s = NULL;
    select_cache *cache = NULL;
    if (st != TW_OK || !(s = calloc(1, sizeof *s)) || !(cache = select_cache_open())) {
        free(s);
        tw_map_close(&map);
        return st != TW_OK ? st : tw_fail_memory(diag);
    }
    s->map = map;
    s->cache = cache;
    select_view_of(&s->view, map.data);
    *out = s;
    return TW_OK;
}

void tw_selector_close(tw_selector *s) {
    if (!s) return;
    select_cache_close(s->cache);
    tw_map_close(&s->map);
    free(s);
}

void tw_selector_describe(const tw_selector *s, tw_selector_info *info) {
    const char *data = (const char *)s->map.data;
    const select_header *h = (const void *)data;
    *info = (tw_selector_info){.kernel = data + h->texts[TEXT_KERNEL],
                               .unit = data + h->texts[TEXT_UNIT],
                               .n_axes = (int)h->axes,
                               .device = data + h->texts[TEXT_DEVICE],
                               .alike = data + h->texts[TEXT_ALIKE],
                               .architecture = data + h->texts[TEXT_ARCHITECTURE],
                               .about = data + h->texts[TEXT_ABOUT],
                               .macros = (int)h->macros,
                               .exact = (int)h->exact,
                               .bytes = s->map.size};
    for (uint32_t a = 0; a < h->axes; a++) info->axes[a] = data + h->names[a];
}

tw_select_match tw_selector_match(const tw_selector *s, const char *device, const char *alike,
                                  const char *architecture) {
    tw_selector_info i;
    tw_selector_describe(s, &i);
    if (!strcmp(i.device, device)) return TW_SELECT_SAME;
    if (!strcmp(i.alike, alike)) return TW_SELECT_ALIKE;
    return strcmp(i.architecture, architecture) ? TW_SELECT_OTHER : TW_SELECT_ARCHITECTURE;
}

const char *tw_select_match_name(tw_select_match m) {
    static const char *const names[] = {"same", "alike", "architecture", "other", "unknown"};
    return (unsigned)m <= TW_SELECT_UNKNOWN ? names[m] : "?";
}

const char *tw_select_source_name(tw_select_source s) {
    static const char *const names[] = {"none", "default", "model", "exact"};
    return (unsigned)s <= TW_SELECT_EXACT ? names[s] : "?";
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/macros.h"

#include <string.h>

enum { WORDS = 400 };

/* Makes room for one more element of a list with n elements. Lists in an arena have room for a power of two, and move
   when they grow. NULL: out of memory. */
static void *grow(tw_arena *arena, void *list, int n, size_t size) {
    if (n & (n - 1)) return list;
    void *wider = tw_arena_array(arena, n ? 2 * (size_t)n : 1, size);
    if (wider && n) memcpy(wider, list, (size_t)n * size);
    return wider;
}

static bool add_micro(tw_arena *arena, tw_artefact_macro *m, const char *words) {
    for (int i = 0; i < m->n_micros; i++)
        if (!strcmp(m->micros[i], words)) return true;
    const char **wider = grow(arena, (void *)m->micros, m->n_micros, sizeof *m->micros);
    const char *copy = tw_arena_strdup(arena, words);
    if (!wider || !copy || m->n_micros == TW_ARTEFACT_MICROS) return false;
    m->micros = wider;
    wider[m->n_micros++] = copy;
    return true;
}

tw_artefact_macro *tw_macros_add(tw_arena *arena, tw_artefact_macro **list, int *n, const tw_space *s,
                                 const void *config, bool *added) {
    char macro[WORDS], micro[WORDS];
    int i = 0;
    tw_space_print_role(s, config, TW_SPACE_MACRO, macro, sizeof macro);
    tw_space_print_role(s, config, TW_SPACE_MICRO, micro, sizeof micro);
    while (i < *n && strcmp((*list)[i].config, macro) != 0) i++;
    *added = i == *n;
    if (*added) {
        tw_artefact_macro *wider = grow(arena, *list, *n, sizeof **list);
        const char *copy = tw_arena_strdup(arena, macro);
        if (!wider || !copy || *n == TW_ARTEFACT_MACROS) return NULL;
        *list = wider;
        wider[(*n)++] = (tw_artefact_macro){.config = copy};
    }
    return add_micro(arena, &(*list)[i], micro) ? &(*list)[i] : NULL;
}

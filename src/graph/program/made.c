/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/program/made.h"

#include "base/grow.h"
#include "base/sum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tw_made_words(tw_made_key *key, const int64_t *words, int n) {
    assert(key->n + n <= TW_MADE_WORDS);
    memcpy(key->of + key->n, words, (size_t)n * sizeof *words);
    key->n += n;
}

bool tw_made_find(const tw_program_made *all, tw_made *m) {
    for (int i = 0; i < all->n; i++)
        if (!memcmp(&all->list[i].key, &m->key, sizeof m->key)) {
            *m = all->list[i];
            return true;
        }
    return false;
}

bool tw_made_add(tw_program_made *all, tw_made *m) {
    tw_made *grown = tw_grow(all->list, all->n, &all->room, 32, sizeof *grown);
    if (!grown) {
        tw_made_drop(m);
        return false;
    }
    all->list = grown;
    all->list[all->n++] = *m;
    return true;
}

void tw_made_drop(tw_made *m) {
    free(m->data);
    free(m->shift);
    m->data = NULL;
    m->shift = NULL;
}

const void *tw_made_copy(tw_program_made *all, const void *content, int64_t bytes) {
    const int64_t words[] = {(int64_t)tw_sum(content, (size_t)bytes), bytes};
    tw_made m = {.key = {.kind = TW_MADE_COPIED}};
    tw_made_words(&m.key, words, 2);
    for (int i = 0; i < all->n; i++)
        if (!memcmp(&all->list[i].key, &m.key, sizeof m.key) && !memcmp(all->list[i].data, content, (size_t)bytes))
            return all->list[i].data;
    m.data = malloc((size_t)bytes + 1);
    if (!m.data) return NULL;
    memcpy(m.data, content, (size_t)bytes);
    return tw_made_add(all, &m) ? m.data : NULL;
}

void tw_program_made_free(tw_program_made *all) {
    for (int i = 0; i < all->n; i++) tw_made_drop(&all->list[i]);
    free(all->list);
    *all = (tw_program_made){0};
}

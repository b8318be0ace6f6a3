/* SPDX-License-Identifier: Apache-2.0 */
/* Whether constants of a package are what they were. Reading them is bound by memory, so that all processors read. */
#include "base/diag.h"
#include "base/sum.h"
#include "base/team.h"
#include "base/thread.h"
#include "engine/package.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    MOST = 16,       /* Threads. A few read as fast as memory is. */
    SHARE = 4 << 20, /* Bytes that are worth a thread. */
};

/* A block of a constant, whose sum a thread computes. */
typedef struct block {
    const unsigned char *data;
    size_t bytes;
    uint64_t sum;
} block;

typedef struct crew {
    block *blocks;
    size_t n;     /* Number of blocks. */
    size_t bytes; /* Bytes of all blocks together. */
    _Atomic size_t next;
} crew;

static void work(void *context, int member) {
    crew *c = context;
    (void)member;
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;)
        c->blocks[i].sum = tw_sum_block(c->blocks[i].data, c->blocks[i].bytes);
}

/* Without other threads it takes longer. */
static void sum_all(crew *c) {
    tw_team *team = NULL;
    int wanted = tw_allowed_cpus(NULL, 0);
    if (wanted > MOST) wanted = MOST;
    if ((size_t)wanted > c->bytes / SHARE + 1) wanted = (int)(c->bytes / SHARE + 1);
    if (wanted > 1 && tw_team_start(&team, wanted, false, NULL) == TW_OK)
        tw_team_run(team, work, c);
    else
        work(c, 0);
    tw_team_stop(team);
}

static size_t blocks_of(const tw_package_constant *c) {
    return (size_t)(c->bytes / TW_SUM_BLOCK + !!(c->bytes % TW_SUM_BLOCK));
}

static bool is_due(const tw_package *p, const bool *which, int64_t i) {
    return !p->checked[i] && (!which || which[i]);
}

/* Cuts constants into blocks. */
static void cut(const tw_package *p, const bool *which, crew *c) {
    for (int64_t i = 0; i < p->n_constants; i++)
        for (uint64_t at = 0; is_due(p, which, i) && at < p->constants[i].bytes; at += TW_SUM_BLOCK) {
            const uint64_t left = p->constants[i].bytes - at;
            c->bytes += left < TW_SUM_BLOCK ? left : TW_SUM_BLOCK;
            c->blocks[c->n++] =
                (block){p->data + p->constants[i].at + at, left < TW_SUM_BLOCK ? left : TW_SUM_BLOCK, 0};
        }
}

tw_status tw_package_check(tw_package *p, const bool *which, const char *path, tw_diag *diag) {
    size_t n = 0, at = 0;
    for (int64_t i = 0; i < p->n_constants; i++) n += is_due(p, which, i) ? blocks_of(&p->constants[i]) : 0;
    crew c = {.blocks = calloc(n + 1, sizeof *c.blocks)};
    if (!c.blocks) return tw_fail_memory(diag);
    cut(p, which, &c);
    sum_all(&c);
    int64_t wrong = -1;
    for (int64_t i = 0; i < p->n_constants && wrong < 0; i++) {
        if (!is_due(p, which, i)) continue;
        uint64_t sum = p->constants[i].bytes;
        for (size_t k = 0; k < blocks_of(&p->constants[i]); k++) sum = tw_sum_join(sum, c.blocks[at++].sum);
        p->checked[i] = sum == p->constants[i].sum;
        if (!p->checked[i]) wrong = i;
    }
    free(c.blocks);
    if (wrong < 0) return TW_OK;
    return tw_fail_at(diag, TW_ERR_FORMAT, path, (int64_t)(p->data_at + p->constants[wrong].at),
                      "a constant does not have its checksum");
}

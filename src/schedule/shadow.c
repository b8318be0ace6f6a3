/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/shadow.h"

#include "schedule/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last write by (worker, index + 1), 0: none; how many writes there were; and the last read of each worker since,
   index + 1. */
typedef struct cell {
    uint32_t writer, written, writes;
    uint32_t reads[]; /* [workers] */
} cell;

/* Cells of one buffer. Key/value rows are relative to the step's position, and the next step has another: so each step
   has its own cells, and between the steps rows are not told apart. */
typedef struct grid {
    int64_t *cut[3];
    int cuts[3]; /* cells in a dimension: cuts - 1 */
    unsigned char *cells[2];
    unsigned char *across[2]; /* [step][dimension 0][dimension 2], key/value only */
} grid;

struct tw_shadow {
    const tw_schedule *s;
    tw_report *report;
    tw_arena arena;
    grid *grids;
    size_t cell_size;
    bool feasible;
};

enum { MAX_SHADOW_BYTES = 1 << 30 };

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int unique(int64_t *v, int n) {
    int m = 0;
    qsort(v, (size_t)n, sizeof *v, ascending);
    for (int i = 0; i < n; i++)
        if (!m || v[i] != v[m - 1]) v[m++] = v[i];
    return m;
}

/* Visits every access of every instruction; used twice: to count bounds and to keep them. */
static bool each_access(tw_shadow *sh, int *counts, bool keep) {
    tw_access_list list = {0};
    bool ok = true;
    for (int w = 0; w < sh->s->n_workers && ok; w++)
        for (int i = 0; i < sh->s->workers[w].count && ok; i++) {
            ok = tw_instr_effects(sh->s, &sh->s->workers[w].list[i], &list, NULL) == TW_OK;
            for (int a = 0; a < list.count && ok; a++) {
                const tw_access *x = &list.item[a];
                if (sh->s->buffers[x->buffer].kind == TW_BUFFER_WEIGHT) continue;
                int at = counts[x->buffer];
                counts[x->buffer] += 2;
                for (int d = 0; d < 3 && keep; d++) {
                    sh->grids[x->buffer].cut[d][at] = x->lo[d];
                    sh->grids[x->buffer].cut[d][at + 1] = x->hi[d];
                }
            }
        }
    tw_access_list_free(&list);
    return ok;
}

static size_t cells_of(const grid *g) {
    size_t n = 1;
    for (int d = 0; d < 3; d++) n *= (size_t)(g->cuts[d] > 1 ? g->cuts[d] - 1 : 0);
    return n;
}

static void cut_buffer(tw_shadow *sh, int b, int n) {
    const tw_buffer *buf = &sh->s->buffers[b];
    grid *g = &sh->grids[b];
    const int64_t extent[3] = {buf->shape[0], buf->shape[1], tw_buffer_row_bytes(buf)};
    for (int d = 0; d < 3; d++) {
        int m = n;
        /* Outputs are looked at whole at the end; a cache's past is told from its present at row 0. */
        if (buf->kind == TW_BUFFER_OUTPUT) {
            g->cut[d][m++] = 0;
            g->cut[d][m++] = extent[d];
        } else if (buf->kind == TW_BUFFER_KV && d == 1)
            g->cut[d][m++] = 0;
        g->cuts[d] = unique(g->cut[d], m);
    }
}

static tw_status make_grids(tw_shadow *sh) {
    int n = sh->s->n_buffers;
    int *counts = calloc((size_t)n + 1, sizeof *counts);
    sh->grids = tw_arena_array(&sh->arena, (size_t)n + 1, sizeof *sh->grids);
    bool ok = counts && sh->grids && each_access(sh, counts, false);
    for (int b = 0; b < n && ok; b++)
        for (int d = 0; d < 3; d++) {
            sh->grids[b].cut[d] = tw_arena_array(&sh->arena, (size_t)counts[b] + 2, sizeof(int64_t));
            ok = ok && sh->grids[b].cut[d];
        }
    if (ok) {
        memset(counts, 0, ((size_t)n + 1) * sizeof *counts);
        ok = each_access(sh, counts, true);
    }
    double bytes = 0;
    for (int b = 0; b < n && ok; b++) {
        grid *g = &sh->grids[b];
        cut_buffer(sh, b, counts[b]);
        bytes += 2.0 * (double)g->cuts[0] * (double)g->cuts[1] * (double)g->cuts[2] * (double)sh->cell_size;
        if (bytes > MAX_SHADOW_BYTES) {
            tw_report_add(sh->report, "too fine", sh->s->buffers[b].name,
                          "the accesses cut the buffers into more pieces than the check can hold");
            free(counts);
            return TW_OK;
        }
    }
    for (int b = 0; b < n && ok; b++) {
        grid *g = &sh->grids[b];
        bool kv = sh->s->buffers[b].kind == TW_BUFFER_KV;
        for (int e = 0; e < (kv ? 2 : 1); e++) {
            g->cells[e] = tw_arena_array(&sh->arena, cells_of(g), sh->cell_size);
            if (kv)
                g->across[e] = tw_arena_array(&sh->arena, (size_t)g->cuts[0] * (size_t)g->cuts[2], 2 * sh->cell_size);
        }
    }
    free(counts);
    sh->feasible = ok && !sh->arena.failed;
    return sh->feasible ? TW_OK : TW_ERR_MEMORY;
}

tw_status tw_shadow_open(tw_shadow **out, const tw_schedule *s, tw_report *report) {
    tw_shadow *sh = calloc(1, sizeof *sh);
    *out = sh;
    if (!sh) return TW_ERR_MEMORY;
    sh->s = s;
    sh->report = report;
    sh->cell_size = sizeof(cell) + (size_t)s->n_workers * sizeof(uint32_t);
    tw_status st = make_grids(sh);
    if (st != TW_OK) {
        tw_shadow_close(sh);
        *out = NULL;
    }
    return st;
}

void tw_shadow_close(tw_shadow *sh) {
    if (!sh) return;
    tw_arena_free(&sh->arena);
    free(sh);
}

bool tw_shadow_feasible(const tw_shadow *sh) {
    return sh->feasible;
}

/* ---- accesses ---- */

typedef struct party {
    tw_shadow *sh;
    const tw_access *a;
    int worker;
    int64_t index;
    bool second;
    const uint32_t *clock;
    bool told; /* one finding an access and rule is enough */
    bool any;
    uint32_t writes; /* of the first cell read */
} party;

static void name_instr(const tw_shadow *sh, char out[96], int worker, int64_t index) {
    const tw_worker *w = &sh->s->workers[worker];
    tw_op_info info;
    tw_op_describe(w->list[index % w->count].op, &info);
    snprintf(out, 96, "workers[%d][%lld] %s%s", worker, (long long)(index % w->count), info.name,
             index >= w->count ? " (next step)" : "");
}

static void race(party *p, int other, uint32_t other_index, bool other_wrote) {
    char me[96], them[96];
    if (p->told) return;
    p->told = true;
    name_instr(p->sh, me, p->worker, p->index);
    name_instr(p->sh, them, other, (int64_t)other_index - 1);
    tw_report_add(
        p->sh->report, "race", me, "%s %s [%lld..%lld, %lld..%lld, bytes %lld..%lld], which %s %s; nothing orders them",
        p->a->write ? "writes" : "reads", p->sh->s->buffers[p->a->buffer].name, (long long)p->a->lo[0],
        (long long)p->a->hi[0], (long long)(p->a->lo[1] == TW_KV_PAST ? -p->sh->s->max_seq : p->a->lo[1]),
        (long long)p->a->hi[1], (long long)p->a->lo[2], (long long)p->a->hi[2], them, other_wrote ? "writes" : "reads");
}

/* A conflicting access recorded before must come before. */
static void check_cell(party *p, const cell *c) {
    if (c->written && p->clock[c->writer] < c->written) race(p, (int)c->writer, c->written, true);
    if (!p->a->write) return;
    for (int w = 0; w < p->sh->s->n_workers; w++)
        if (c->reads[w] > p->clock[w]) race(p, w, c->reads[w], false);
}

static void check_defined(party *p, const cell *c) {
    const tw_buffer *b = &p->sh->s->buffers[p->a->buffer];
    bool fresh = c->written && (c->written > (uint32_t)p->sh->s->workers[c->writer].count) == p->second;
    if (p->a->write || fresh || p->told) return;
    char me[96];
    p->told = true;
    name_instr(p->sh, me, p->worker, p->index);
    tw_report_add(p->sh->report, "undefined read", me,
                  "reads %s [%lld..%lld, %lld..%lld, bytes %lld..%lld], part of which %s", b->name,
                  (long long)p->a->lo[0], (long long)p->a->hi[0],
                  (long long)(p->a->lo[1] == TW_KV_PAST ? -p->sh->s->max_seq : p->a->lo[1]), (long long)p->a->hi[1],
                  (long long)p->a->lo[2], (long long)p->a->hi[2],
                  c->written ? "only the step before has written" : "nothing before it has written");
}

/* All bytes that one access reads must have been written equally often: a gap in what a stage writes leaves old bytes
   among the new ones, and an overlap adds twice. */
static void check_even(party *p, const cell *c) {
    if (p->a->write || p->told) return;
    if (!p->any) p->writes = c->writes;
    p->any = true;
    if (p->writes == c->writes) return;
    char me[96];
    p->told = true;
    name_instr(p->sh, me, p->worker, p->index);
    tw_report_add(p->sh->report, "coverage", me, "reads %s, parts of which were written %u times and parts %u times",
                  p->sh->s->buffers[p->a->buffer].name, p->writes, c->writes);
}

static void record(party *p, cell *c) {
    if (p->a->write) {
        c->writes++;
        c->writer = (uint32_t)p->worker;
        c->written = (uint32_t)p->index + 1;
        memset(c->reads, 0, (size_t)p->sh->s->n_workers * sizeof *c->reads);
    } else
        c->reads[p->worker] = (uint32_t)p->index + 1;
}

static int find(const int64_t *cut, int n, int64_t at) {
    int lo = 0, hi = n - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (cut[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Key/value accesses of different steps touch rows that cannot be told apart: each pair of parts keeps, per step, the
   last write of every worker and the last read of every worker. */
static void access_across(party *p, grid *g, int a, int c) {
    size_t at = ((size_t)a * (size_t)g->cuts[2] + (size_t)c) * 2 * p->sh->cell_size;
    const cell *writes = (const cell *)(const void *)(g->across[!p->second] + at);
    const cell *reads = (const cell *)(const void *)(g->across[!p->second] + at + p->sh->cell_size);
    for (int w = 0; w < p->sh->s->n_workers; w++) {
        if (writes->reads[w] > p->clock[w]) race(p, w, writes->reads[w], true);
        if (p->a->write && reads->reads[w] > p->clock[w]) race(p, w, reads->reads[w], false);
    }
    cell *mine = (cell *)(void *)(g->across[p->second] + at + (p->a->write ? 0 : p->sh->cell_size));
    mine->reads[p->worker] = (uint32_t)p->index + 1;
}

void tw_shadow_access(tw_shadow *sh, const tw_access *a, int worker, int64_t index, bool second_step,
                      const uint32_t *clock) {
    const tw_buffer *b = &sh->s->buffers[a->buffer];
    if (b->kind == TW_BUFFER_WEIGHT) return;
    grid *g = &sh->grids[a->buffer];
    party p = {sh, a, worker, index, second_step, clock, false, false, 0};
    bool kv = b->kind == TW_BUFFER_KV;
    int lo[3], hi[3];
    for (int d = 0; d < 3; d++) {
        lo[d] = find(g->cut[d], g->cuts[d], a->lo[d]);
        hi[d] = find(g->cut[d], g->cuts[d], a->hi[d]);
    }
    for (int i = lo[0]; i < hi[0]; i++)
        for (int j = lo[1]; j < hi[1]; j++)
            for (int k = lo[2]; k < hi[2]; k++) {
                size_t at = ((size_t)i * (size_t)(g->cuts[1] - 1) + (size_t)j) * (size_t)(g->cuts[2] - 1) + (size_t)k;
                cell *c = (cell *)(void *)(g->cells[kv && second_step] + at * sh->cell_size);
                check_cell(&p, c);
                if (!kv || g->cut[1][j] >= 0) {
                    check_defined(&p, c);
                    check_even(&p, c);
                }
                record(&p, c);
            }
    for (int i = lo[0]; kv && i < hi[0]; i++)
        for (int k = lo[2]; k < hi[2]; k++) access_across(&p, g, i, k);
}

void tw_shadow_finish(tw_shadow *sh) {
    for (int b = 0; b < sh->s->n_buffers; b++) {
        const grid *g = &sh->grids[b];
        if (sh->s->buffers[b].kind != TW_BUFFER_OUTPUT) continue;
        for (size_t i = 0, n = cells_of(g); i < n; i++) {
            const cell *c = (const cell *)(const void *)(g->cells[0] + i * sh->cell_size);
            if (c->written) continue;
            tw_report_add(sh->report, "coverage", sh->s->buffers[b].name, "part of this output is never written");
            break;
        }
    }
}

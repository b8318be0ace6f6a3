/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/plan.h"

#include "base/diag.h"
#include "prof/uniform.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4, ALIGN = 16, WARP = 32, SHARED_FRAMES = 64, GLOBAL_FRAMES = 1024, LEAST_FRAMES = 2 };
enum { MOST_FRAMES = 1 << 22, MOST_BYTES = 1 << 30 /* Of a block. */ };

static int64_t round_up(int64_t x, int to) {
    return (x + to - 1) / to * to;
}

static int power_of_two(int x) {
    int p = 1;
    while (p < x) p *= 2;
    return p;
}

bool tw_prof_wants(const tw_prof_options *o, const tw_ir_op *op) {
    if (!tw_is_record(op)) return false;
    if (!o->only) return true;
    const size_t n = strlen(op->name);
    for (const char *at = o->only; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strcspn(at, ",") == n && !strncmp(at, op->name, n)) return true;
    }
    return false;
}

/* -- what there is */

typedef struct finder {
    const tw_kernel *k;
    const tw_prof_options *o;
    tw_prof_layout *l;
    bool *varying;            /* By value: lanes may differ in it. */
    bool exits, in_predicate; /* What lowering cannot do. */
} finder;

typedef struct counts {
    int sites, loops, scopes;
} counts;

static void count(const tw_kernel *k, const tw_prof_options *o, const tw_block *block, counts *n) {
    for (const tw_ir_op *op = block->first; op; op = op->next) {
        n->sites += tw_prof_wants(o, op);
        n->loops += op->code == TW_OP_for || op->code == TW_OP_while;
        if (tw_prof_opens_scopes(k, op)) n->scopes += op->n_blocks;
        for (int i = 0; i < op->n_blocks; i++) count(k, o, &op->blocks[i], n);
    }
}

/* Where the walk stands. */
typedef struct place {
    int scope, loop;
    bool conditional; /* Below an `if` within the loop, or within the scope where there is no loop. */
    bool apart;       /* Lanes of a warp may be apart. */
} place;

static void walk(finder *f, const tw_block *block, place at);

static int words_of(int code) {
    return code == TW_OP_record_value ? 2 : 1;
}

static int units_of(const tw_prof_scope *s, tw_prof_units units, int *group) {
    const int warps = s->below - s->from;
    *group = units == TW_PROF_WARPS ? 1 : units == TW_PROF_WARPGROUPS ? 4 : warps;
    return (warps + *group - 1) / *group;
}

static void add_site(finder *f, const tw_ir_op *op, place at) {
    tw_prof_layout *l = f->l;
    tw_prof_site *s = &l->sites[l->n_sites++];
    const tw_attrs *a = &op->at;
    *s = (tw_prof_site){.code = op->code,
                        .name = tw_arena_strdup(&l->arena, op->name),
                        .engine = a->engine,
                        .wait = a->wait,
                        .arrival = a->arrival,
                        .count = a->count,
                        .scope = at.scope,
                        .loop = at.loop,
                        .pair = -1,
                        .conditional = at.conditional || op->guard.id};
    tw_prof_scope *scope = &l->scopes[at.scope];
    int group;
    units_of(scope, f->o->units, &group);
    const int warps = scope->below - scope->from;
    s->work = tw_prof_work_of(f->k, op, group < warps ? group : warps);
    scope->n_sites++;
}

static int add_scope(finder *f, const tw_ir_op *op, int role) {
    tw_prof_layout *l = f->l;
    uint64_t from = 0, below = 0;
    tw_value_constant(f->k, op->operands[2 * role], &from);
    tw_value_constant(f->k, op->operands[2 * role + 1], &below);
    tw_prof_scope *s = &l->scopes[l->n_scopes];
    *s = (tw_prof_scope){.parent = 0, .from = (int)from, .below = (int)below};
    /* The names of the roles are words of one text. */
    const char *name = op->name;
    for (int i = 0; name && i < role; i++)
        if ((name = strchr(name, ' '))) name++;
    if (name) s->role = tw_arena_strndup(&l->arena, name, strcspn(name, " "));
    return l->n_scopes++;
}

static void walk_loop(finder *f, const tw_ir_op *op, place at) {
    tw_prof_layout *l = f->l;
    if (op->code == TW_OP_while) {
        const int before = l->n_sites;
        walk(f, &op->blocks[0], at);
        f->in_predicate |= l->n_sites > before;
    }
    const int loop = l->n_loops++;
    const bool apart = at.apart || tw_prof_parts_lanes(f->varying, op);
    l->loops[loop] = (tw_prof_loop){.scope = at.scope, .parent = at.loop, .apart = apart};
    walk(f, &op->blocks[op->n_blocks - 1], (place){.scope = at.scope, .loop = loop, .apart = apart});
}

static void walk_op(finder *f, const tw_ir_op *op, place at) {
    if (tw_prof_wants(f->o, op)) add_site(f, op, at);
    f->exits |= op->code == TW_OP_exit;
    if (op->code == TW_OP_for || op->code == TW_OP_while) {
        walk_loop(f, op, at);
    } else if (tw_prof_opens_scopes(f->k, op)) {
        for (int i = 0; i < op->n_blocks; i++)
            walk(f, &op->blocks[i], (place){.scope = add_scope(f, op, i), .loop = -1});
    } else {
        at.conditional = true;
        at.apart |= tw_prof_parts_lanes(f->varying, op);
        for (int i = 0; i < op->n_blocks; i++) walk(f, &op->blocks[i], at);
    }
}

static void walk(finder *f, const tw_block *block, place at) {
    for (const tw_ir_op *op = block->first; op; op = op->next) walk_op(f, op, at);
}

/* The site of each end's begin: the last one of its name in the same loop and scope that has no end yet. Regions begin
   and end in one block of operations, so no other region of the name lies between the two. */
static void pair(tw_prof_layout *l) {
    for (int i = 0; i < l->n_sites; i++) {
        if (l->sites[i].code != TW_OP_record_end) continue;
        int ends = 0;
        for (int j = i - 1; j >= 0 && l->sites[i].pair < 0; j--) {
            const tw_prof_site *s = &l->sites[j];
            if (s->scope != l->sites[i].scope || s->loop != l->sites[i].loop || strcmp(s->name, l->sites[i].name) != 0)
                continue;
            if (s->code == TW_OP_record_end) ends++;
            if (s->code == TW_OP_record_begin && !ends--) l->sites[i].pair = j;
        }
    }
}

/* -- where it lies */

/* Gives each site its offset, and each loop its frame's size. Returns the bytes of a scope's statics in `statics`. */
static void place_sites(tw_prof_layout *l, int *statics) {
    for (int i = 0; i < l->n_sites; i++) {
        tw_prof_site *s = &l->sites[i];
        int *end = s->loop < 0 ? &statics[s->scope] : &l->loops[s->loop].frame;
        if (s->loop >= 0 && !*end && s->conditional) {
            l->loops[s->loop].stamped = true;
            *end = WORD;
        }
        s->offset = *end;
        *end += WORD * words_of(s->code);
    }
    for (int i = 0; i < l->n_loops; i++)
        if (l->loops[i].frame) l->loops[i].frame = power_of_two(l->loops[i].frame);
}

static int64_t ring_bytes(const tw_prof_loop *p, int frames) {
    return round_up((int64_t)p->frame * frames, ALIGN);
}

/* Frames of a ring in shared memory. What is written out at once is a whole number of 16 bytes. */
static int kept_of(const tw_prof_loop *p, int frames, bool flush) {
    return flush && p->frame && (int64_t)p->frame * frames < ALIGN ? ALIGN / p->frame : frames;
}

/* Lays out shared memory with rings of `frames` frames. Returns its bytes. Places mean nothing if these are too many.
 */
static int64_t place_near(tw_prof_layout *l, const int *statics, int frames, bool flush) {
    int64_t all = 0;
    for (int i = 0; i < l->n_scopes; i++) {
        tw_prof_scope *s = &l->scopes[i];
        if (!s->n_sites) continue;
        int64_t at = round_up(statics[i], ALIGN);
        for (int j = 0; j < l->n_loops; j++) {
            tw_prof_loop *p = &l->loops[j];
            if (p->scope != i) continue;
            p->kept = kept_of(p, frames, flush);
            p->near = (int)at;
            at += ring_bytes(p, p->kept);
        }
        s->near = (int)all;
        s->near_bytes = (int)at;
        all += at * s->units;
    }
    return all;
}

/* Lays out the profile buffer. Places mean nothing if a block has more than MOST_BYTES. */
static void place_segments(tw_prof_layout *l, const int *statics, int frames) {
    l->block_bytes = 0;
    for (int i = 0; i < l->n_scopes; i++) {
        tw_prof_scope *s = &l->scopes[i];
        if (!s->n_sites) continue;
        int64_t at = TW_PROF_HEADER;
        for (int j = 0; j < l->n_loops; j++) {
            tw_prof_loop *p = &l->loops[j];
            if (p->scope != i || !p->frame) continue;
            p->count = (int)at;
            at += WORD;
        }
        s->statics = (int)round_up(at, ALIGN);
        at = s->statics + round_up(statics[i], ALIGN);
        for (int j = 0; j < l->n_loops; j++) {
            tw_prof_loop *p = &l->loops[j];
            if (p->scope != i || !p->frame) continue;
            p->frames = frames;
            p->ring = (int)at;
            at += ring_bytes(p, frames);
        }
        s->bytes = (int)at;
        s->segment = (int)l->block_bytes;
        l->block_bytes += at * s->units;
    }
}

static void place_all(tw_prof_layout *l, const tw_prof_options *o, const int *statics) {
    int near = power_of_two(o->frames ? o->frames : SHARED_FRAMES);
    if (near > o->frames && o->frames) near /= 2;
    if (near < LEAST_FRAMES) near = LEAST_FRAMES;
    if (!l->global) {
        while (place_near(l, statics, near, o->flush) > o->shared_bytes && near > LEAST_FRAMES) near /= 2;
        l->shared_bytes = place_near(l, statics, near, o->flush);
        if (l->shared_bytes > o->shared_bytes) {
            l->global = true;
            l->shared_bytes = 0;
        }
    }
    const int far = power_of_two(o->frames > GLOBAL_FRAMES ? o->frames : GLOBAL_FRAMES);
    l->flush = o->flush && !l->global;
    const bool asked = l->global && o->frames;
    place_segments(l, statics, asked ? power_of_two(o->frames) : l->global || l->flush ? far : near);
}

/* Whether the kernel has a parameter or shared object of a name that the lowered records take. */
static const char *find_taken(const tw_kernel *k) {
    for (int i = 0; i < k->n_parameters; i++)
        if (!strcmp(k->parameters[i].name, TW_PROF_PARAMETER)) return TW_PROF_PARAMETER;
    for (int i = 0; i < k->n_shared; i++)
        if (!strcmp(k->shared[i].name, TW_PROF_SHARED)) return TW_PROF_SHARED;
    return NULL;
}

static tw_status refuse(const tw_kernel *k, const tw_prof_options *o, tw_diag *diag) {
    const char *taken = find_taken(k);
    if (taken) return tw_fail(diag, TW_ERR_UNSUPPORTED, "records of a kernel that has a \"%s\" of its own", taken);
    if (k->threads % WARP)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "records of a kernel whose %d threads are no whole warps", k->threads);
    if (o->frames > MOST_FRAMES)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "rings of %d frames: more than %d", o->frames, MOST_FRAMES);
    return TW_OK;
}

static tw_status find_all(finder *f, tw_diag *diag) {
    tw_prof_layout *l = f->l;
    f->varying = tw_prof_find_varying(f->k);
    if (!f->varying) return tw_fail_memory(diag);
    l->scopes[l->n_scopes++] = (tw_prof_scope){.parent = -1, .below = f->k->threads / WARP};
    walk(f, &f->k->body, (place){.scope = 0, .loop = -1});
    free(f->varying);
    if (l->arena.failed) return tw_fail_memory(diag);
    if (f->exits) return tw_fail(diag, TW_ERR_UNSUPPORTED, "records of a kernel in which threads exit early");
    if (f->in_predicate) return tw_fail(diag, TW_ERR_UNSUPPORTED, "a record in a loop's predicate");
    return TW_OK;
}

tw_status tw_prof_plan(const tw_kernel *k, const tw_prof_options *o, tw_prof_layout *l, tw_diag *diag) {
    counts n = {.scopes = 1};
    count(k, o, &k->body, &n);
    *l = (tw_prof_layout){
        .metric = o->metric, .global = o->global, .first = o->first, .every = o->every > 1 ? o->every : 1};
    if (!n.sites) return TW_OK;
    tw_status st = refuse(k, o, diag);
    if (st != TW_OK) return st;
    l->sites = tw_arena_array(&l->arena, (size_t)n.sites, sizeof *l->sites);
    l->loops = tw_arena_array(&l->arena, (size_t)n.loops + 1, sizeof *l->loops);
    l->scopes = tw_arena_array(&l->arena, (size_t)n.scopes, sizeof *l->scopes);
    int *statics = tw_arena_array(&l->arena, (size_t)n.scopes, sizeof *statics);
    if (l->arena.failed) return tw_fail_memory(diag);
    finder f = {.k = k, .o = o, .l = l};
    if ((st = find_all(&f, diag)) != TW_OK) return st;
    pair(l);
    for (int i = 0; i < l->n_scopes; i++) l->scopes[i].units = units_of(&l->scopes[i], o->units, &l->scopes[i].group);
    place_sites(l, statics);
    place_all(l, o, statics);
    if (l->block_bytes > MOST_BYTES)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the records of a thread block take %lld bytes: more than %d",
                       (long long)l->block_bytes, MOST_BYTES);
    return TW_OK;
}

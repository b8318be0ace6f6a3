/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the attention generator share. */
#ifndef TW_KERNELS_ATTENTION_GENERATE_H
#define TW_KERNELS_ATTENTION_GENERATE_H

#include "kernels/attention/attention.h"
#include "kernels/parts/ring.h"
#include "kernels/parts/scheduler.h"
#include "kernels/parts/tile.h"

enum {
    TW_ATTENTION_WARPS = 4,        /* Warps of a warpgroup. */
    TW_ATTENTION_STRIP = 16,       /* Rows of a tile that are one warp's, a strip. */
    TW_ATTENTION_STRIPS = 2,       /* The most strips of a warp. */
    TW_ATTENTION_GROUPS = 3,       /* The most warpgroups that multiply. */
    TW_ATTENTION_SCORES = 256 / 2, /* The most scores of a thread, of a strip. */
    TW_ATTENTION_SUMS = 256 / 2,   /* The most sums of a thread, of a strip. */
    TW_ATTENTION_EIGHT = 8,        /* Keys with which the swizzle begins anew. Tensor copies fetch whole eights. */
    TW_ATTENTION_ROWS = 256 / 32,  /* The most rows of a block that a lane looks up. */
    TW_ATTENTION_PASSES = 256 / 8, /* The most lines of a tile that a thread copies by cp.async. */
    TW_ATTENTION_TOLD = 2,         /* Tiles that others are told ahead. */
    TW_ATTENTION_TILE_BYTES = 32,  /* Bytes by which a tile is told. */
    TW_ATTENTION_BEGIN = 1,        /* The barrier behind the initialisation of mbarriers. */
    TW_ATTENTION_STORE, /* The first barrier of a warpgroup whose queries were multiplied for the last time. */
    TW_ATTENTION_TURN = TW_ATTENTION_STORE + TW_ATTENTION_GROUPS, /* The first barrier of a turn to issue products. */
    TW_ATTENTION_PRODUCER = TW_ATTENTION_TURN + TW_ATTENTION_GROUPS, /* The barrier of the producer's warps. */
    TW_ATTENTION_JOIN                                                /* The barrier of warpgroups that share queries. */
};

typedef struct tw_attention_plan {
    int groups;       /* Warpgroups that multiply by wgmma. */
    int warps;        /* Warps that multiply. */
    int strips;       /* Strips of a tile. */
    int own;          /* Strips of a warp. By wgmma: 1. */
    int pack;         /* Heads of Q whose queries are in one tile. */
    int heads;        /* Heads of tiles: those of Q, or if these are packed those of K. */
    int height;       /* Queries of a head in a tile. */
    int depth;        /* Elements of a head in shared memory, a multiple of 16. */
    tw_tile q, k, v;  /* Tiles. */
    bool upper;       /* Of each 16 rows of a tile only the first 8 may have queries. */
    int lines;        /* Keys that are fetched together: those of a block, or of a page in it. */
    bool gathers;     /* Tensor copies do not fetch such pages (tw_attention_gathers): lanes copy keys and values. */
    bool holds;       /* By mma.sync: a thread keeps its part of the queries in registers. */
    int scores, sums; /* Scores and sums that a thread has of a strip. */
    int threads, registers; /* Of a block, and of a thread at launch. */
    int producer_registers; /* Registers that setmaxnreg leaves to the producer. 0: it is not used. */
    int consumer_registers; /* Registers of a thread that multiplies. */
    int exchange;           /* By wgmma: offset of the memory where warpgroups that share queries leave their sums. */
    int results;       /* Offset of results in shared memory, each warp's rows as those of Q's tile. 0: Q's place. */
    int shared_bytes;  /* All of a block's shared memory. */
    int barrier_bytes; /* Of it, for mbarriers and tiles that are told. */
    int64_t row_tiles; /* Tiles of a sequence's queries. */
    int64_t tiles;     /* All tiles, each of which has `splits` parts. Ragged: at most. */
    int64_t workspace; /* Bytes of the workspace. */
    int64_t counters;  /* Bytes of the counters: one for tiles that are begun, then one for each warp of each tile. */
    int64_t grid;      /* Blocks. */
    int band;          /* Heads of a band, a divisor of heads * batch. */
} tw_attention_plan;

/* Tells whether keys and values are copied without tensor maps: from pages without whole eights of keys, or of an odd
   number of eights, if a block does not have whole pages. */
bool tw_attention_gathers(const tw_attention_problem *p, int columns);

/* Derives the plan. Returns NULL, or why the configuration is illegal. Target NULL: one that can run it. */
const char *tw_attention_plan_of(const tw_attention_problem *p, const tw_attention_config *c, const tw_target *t,
                                 tw_attention_plan *plan);
/* Counts the bytes in which warps that share queries leave their sums, in the place of keys and values. */
int tw_attention_slices_bytes(const tw_attention_problem *p, const tw_attention_config *c);

/* A tile: queries of one head. */
typedef struct tw_attention_tile {
    tw_val sequence; /* The sequence's number (i32). Below 0: there is no tile. */
    tw_val head;     /* The tile's head, below tw_attention_plan.heads. */
    tw_val row;      /* The tile's first row in Q: of its sequence, or if ragged of all. */
    tw_val end;      /* The row behind the sequence's last one. */
    tw_val keys;     /* Keys of the sequence. */
    tw_val base;     /* The sequence's first row in K and V. */
    tw_val split;    /* The part of the tile's keys. */
    tw_val index;    /* The tile's number among all. */
} tw_attention_tile;

/* Blocks of keys of a tile. They are multiplied from the last one to the first. */
typedef struct tw_attention_blocks {
    tw_val first, below;            /* The first block, and the one behind the last. There is at least one. */
    tw_val whole_from, whole_below; /* All queries see all keys of the blocks between. */
    tw_val parts;                   /* Parts of the tile that have blocks. */
    tw_val position;                /* Key at which the tile's first query stands. May be negative. */
} tw_attention_blocks;

/* What a thread has of a strip: parts of two rows, 8 apart, in the order in which products leave them. */
typedef struct tw_attention_registers {
    tw_val scores[TW_ATTENTION_SCORES];      /* Variables: scores of a block. */
    tw_val weights[TW_ATTENTION_SCORES / 2]; /* Variables: pairs of weights, the next product's A (i32). */
    tw_val sums[TW_ATTENTION_SUMS];          /* Variables: sums of values. */
    tw_val max[2], sum[2];                   /* Variables: of the two rows, the sums in the thread's own columns. */
} tw_attention_registers;

typedef struct tw_attention_gen {
    tw_builder *b;
    const tw_attention_problem *p;
    const tw_attention_config *c;
    tw_attention_plan plan;

    struct {
        tw_val map_q, map_k, map_v, map_o; /* Tensor maps. */
        tw_val q, k, v;                    /* By mma.sync, or of k and v if the plan gathers: in the place of maps. */
        tw_val out, lse, sinks, starts, lengths, pages, mask, k_scales, v_scales, workspace, counters;
    } arg;

    tw_val shared;                 /* Address of Q's tile, and of the block's shared memory. */
    tw_ring q, keys, values, told; /* Rings. Q's has one stage. */
    tw_val key_scale, value_scale; /* Of e4m3: the scales of the tile's keys and values (f32). */
    tw_val tid, lane, warp, group; /* The thread's number, and those of its lane, warp and warpgroup. */
    tw_val team; /* The number of the warp, or of the warps that share its queries. They have the same strips. By wgmma
                    a warp shares queries with the warp of the other warpgroup. */
    tw_attention_registers of[TW_ATTENTION_STRIPS]; /* What the thread has of each strip of its warp. */
    /* The strip that code is made for: its number in the tile, and what the thread has of it. */
    tw_val strip, *scores, *weights, *sums, *max, *sum;
} tw_attention_gen;

/* Code that follows is for a strip of the warp. */
void tw_attention_turn_to(tw_attention_gen *g, int strip);
/* Makes the variables of all strips of the warp, and turns to the first one. */
void tw_attention_declare(tw_attention_gen *g);

/* tiles.c: computes what follows from a tile. */
tw_attention_blocks tw_attention_blocks_of(tw_attention_gen *g, const tw_attention_tile *t);
/* Tells whether all queries see all keys of all blocks. */
bool tw_attention_sees_all(const tw_attention_gen *g);
/* Returns the tile that has the block's number. All lanes of a warp call it. */
tw_attention_tile tw_attention_first_tile(tw_attention_gen *g);
/* A tile in TW_ATTENTION_TILE_BYTES of shared memory. */
void tw_attention_write_tile(tw_builder *b, tw_val at, const tw_attention_tile *t);
tw_attention_tile tw_attention_read_tile(tw_builder *b, tw_val at);
/* Opens the loop over the tiles that the block's producer finds, and tells the others about. All lanes of a warp call
   it, `lowest` holds in lane 0. *deal is for tw_attention_pop_found, which closes the loop. */
typedef struct tw_attention_finder {
    tw_deal deal;
    tw_groups groups;
    tw_ring_cursor told;
    tw_val lowest;
    tw_scope loop;
    tw_attention_tile tile;
} tw_attention_finder;
void tw_attention_push_found(tw_attention_gen *g, tw_attention_finder *f, tw_val lowest);
void tw_attention_pop_found(tw_attention_gen *g, tw_attention_finder *f);
/* Opens a consumer's loop over the tiles that the finding warp tells it. */
tw_scope tw_attention_push_told(tw_attention_gen *g, tw_attention_tile *t);

/* Opens the block of those that have a tile whose part has blocks. */
tw_scope tw_attention_push_part(tw_attention_gen *g, const tw_attention_tile *t, const tw_attention_blocks *blocks);

/* mask.c: the keys that the thread's two rows of queries see. */
typedef struct tw_attention_sight {
    tw_val from[2], below[2]; /* Keys that each of the thread's rows sees, less the thread's first column. */
    tw_val mask[2]; /* Addresses of the thread's first column in the rows of the mask's array, if there is one. */
} tw_attention_sight;
tw_attention_sight tw_attention_sight_of(tw_attention_gen *g, const tw_attention_tile *t,
                                         const tw_attention_blocks *blocks);
/* Tells whether scores are scaled before the mask, and not as they become exponents. */
bool tw_attention_scales_first(const tw_attention_problem *p);
/* Applies the mask to the scores of the block of keys from `key` on. `edge`: some query does not see a key of the
   block, by its place. Scores of keys that are not seen become -infinity. */
void tw_attention_mask(tw_attention_gen *g, const tw_attention_sight *s, tw_val key, bool edge);

/* softmax.c: resets the maximum and the sums of a row, for no scores yet. */
void tw_attention_reset(tw_attention_gen *g);
/* Returns what multiplies scores to make them exponents of 2, times 1 or -1. */
tw_val tw_attention_factor(tw_attention_gen *g, float sign);
/* Returns x times the scale of the tile's keys, if these have one. */
tw_val tw_attention_times_scale(tw_attention_gen *g, float x);
/* Loads the scales of the tile's keys and values. */
void tw_attention_load_scales(tw_attention_gen *g, const tw_attention_tile *t);
/* Replaces the scores of the block of keys from `key` on by their weights, and updates the maxima and sums of the
   softmax. `edge` is as for tw_attention_mask. keep[] gets each row's factor for the values that were summed so far. */
void tw_attention_weigh(tw_attention_gen *g, const tw_attention_sight *s, tw_val key, bool edge, tw_val keep[2]);
void tw_attention_convert(tw_attention_gen *g); /* Makes the next product's A of the weights. */
/* The same, and multiplies the sums by keep[]. With `lazy` a warp none of whose maxima was raised keeps its sums as
   they are. */
void tw_attention_rescale(tw_attention_gen *g, const tw_val keep[2]);

/* compute.c: multiplies all tiles. */
void tw_attention_compute(tw_attention_gen *g);

/* split.c: leaves the sums of a part of a tile's keys in the workspace. The warp that is the last to do so for its rows
   gets the sums of all parts. Returns the predicate that it is. */
tw_val tw_attention_merge(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts);
/* Adds up the sums of the warps that share queries. All threads call it, or by wgmma all that multiply. They are done
   with the tile's keys and values, in whose place sums are exchanged by mma.sync. `slice` is the warp's number among
   those. That with number 0 gets the sums. */
void tw_attention_join_slices(tw_attention_gen *g, tw_val slice);

/* A row of a tile: a query, and its head of Q. */
typedef struct tw_attention_row {
    tw_val query, head;
} tw_attention_row;
/* store.c: finds a row (i32) of a tile. */
tw_attention_row tw_attention_row_of(const tw_attention_gen *g, const tw_attention_tile *t, tw_val row);
/* Stores a tile's results, from where Q's tile is unless they have a place of their own. */
void tw_attention_store(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts);
tw_tensor_map tw_attention_out_map(const tw_attention_problem *p, const tw_attention_plan *plan, uint64_t address);

/* gather.c: returns a sequence's last key, or 0. */
tw_val tw_attention_last_key(tw_attention_gen *g, const tw_attention_tile *t);
/* Returns the row of a key in the pool of pages. Keys outside the sequence have that of its first or `last` key. */
tw_val tw_attention_row_in_pool(tw_attention_gen *g, const tw_attention_tile *t, tw_val key, tw_val last);
/* Copies keys and values of pages without tensor maps. All lanes of a warp call these. Returns the rows of a
   block that a lane looks up, at most TW_ATTENTION_ROWS. */
int tw_attention_rows_of_lane(const tw_attention_gen *g);
/* Looks up the rows in K and V of every 32nd key from `row` + lane on. Keys outside the sequence have the rows of its
   first or last key. */
void tw_attention_look_up_rows(tw_attention_gen *g, const tw_attention_tile *t, tw_val row, tw_val *rows);
/* Begins to copy a block of keys, or of values, from the array `from`, when the cursor's stage is empty. */
void tw_attention_gather(tw_attention_gen *g, const tw_tile *tile, const tw_ring *ring, const tw_ring_cursor *c,
                         tw_val from, tw_val head, const tw_val *rows);
/* Waits until at most `pending` blocks are on their way, tells consumers that the cursor's stage is full, and moves the
   cursor on. */
void tw_attention_land(tw_attention_gen *g, int pending, const tw_ring *ring, const tw_ring_cursor *c);

/* fetch.c: the warp that copies. */
void tw_attention_fetch(tw_attention_gen *g);

/* warps.c: kernels by mma.sync, all of whose warps copy and multiply. */
void tw_attention_by_warps(tw_attention_gen *g);

/* copy.c: their copies, in which all threads take part. These copy a tile's queries. */
void tw_attention_copy_queries(tw_attention_gen *g, const tw_attention_tile *t);
/* Where a tile's keys and values are. */
typedef struct tw_attention_source {
    const tw_attention_tile *tile;
    tw_val offset; /* Bytes to the thread's piece in the row of the first key, or with pages in the pool's first row. */
    tw_val rows[TW_ATTENTION_ROWS]; /* Variables, with pages: rows of the pool that the lane knows. */
} tw_attention_source;
tw_attention_source tw_attention_source_of(tw_attention_gen *g, const tw_attention_tile *t);
/* Looks up the pages of a block (i32), for the next copies. */
void tw_attention_look_up(tw_attention_gen *g, const tw_attention_source *s, tw_val block);
/* Copies a block of keys, or of values, into the stage at an offset in bytes. `last`: it may end behind the last key.
 */
void tw_attention_copy_block(tw_attention_gen *g, const tw_attention_source *s, bool values, tw_val block, tw_val stage,
                             bool last);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of attention without a search. The usual ones are the fastest where many tiles keep all SMs busy. Of few tiles
   of 192 rows each SM has one or none, and smaller ones are sooner over. */
#include "base/divide.h"
#include "vm/network/machine.h"

/* Returns what a block of keys takes of a tile: that of 192 rows is 1. Warpgroups share an SM's tensor cores and its
   exponentials, and one by itself leaves them idle in turn. */
static double block_time(int rows) {
    return rows <= 64 ? 0.55 : rows <= 128 ? 0.72 : 1;
}

double tw_network_attention_time(const tw_attention_problem *p, const tw_attention_config *c, int sms) {
    const double join = 192;  /* Keys that take as long as joining the parts of a split. */
    const double share = 232; /* The same of warpgroups that share queries, each of which has half of the keys. */
    const int64_t heads = c->pack ? p->kv_heads : p->heads, height = c->rows / (p->heads / heads);
    const int64_t tiles = p->batch * heads * tw_ceil_div(p->queries, height < 1 ? 1 : height);
    const int64_t blocks = tw_ceil_div(p->keys, c->columns), each = tw_ceil_div(blocks, c->splits < 1 ? 1 : c->splits),
                  parts = tw_ceil_div(blocks, each);
    /* Two blocks of an SM are to one another as two warpgroups of a tile. */
    const bool pairs = c->early == TW_ATTENTION_BESIDE && tiles * parts > sms;
    const int64_t places = pairs ? 2 * (int64_t)sms : sms;
    int64_t turn = each * tw_ceil_div(tiles * parts, places);
    /* Tiles of a causal mask see half of the keys, and the longest begin first. */
    if (p->causal && parts == 1) {
        turn = tw_ceil_div(tiles * (blocks + 1), 2 * places);
        if (turn < blocks) turn = blocks;
    }
    const double keys = (double)(turn * c->columns) + (parts > 1 ? join : 0);
    const bool shares = c->slices > 1 && c->mma == TW_ATTENTION_BY_WARPGROUPS;
    if (shares) return block_time(2 * c->rows) / 2 * (keys + share);
    return block_time(pairs ? 2 * c->rows : c->rows) * keys;
}

void tw_network_attention_tile(const tw_attention_problem *p, const tw_target *t, int sms, tw_attention_config *out) {
    static const struct { int rows, slices; } smaller[] = {{64, 1}, {128, 1}, {64, 2}};
    const double gain = 0.85; /* The usual tile was measured, so that another one must promise this much. */
    *out = tw_attention_config_default(p, t, 0);
    if (out->rows != 192 || p->ragged || p->page || p->window) return;
    const tw_attention_config usual = *out;
    double least = gain * tw_network_attention_time(p, &usual, sms);
    for (int i = 0; i < (int)(sizeof smaller / sizeof *smaller); i++) {
        tw_attention_config c = usual;
        c.rows = smaller[i].rows;
        c.slices = smaller[i].slices;
        c.pingpong = c.rows > 64;
        c.persistent = sms;
        c.splits = 1;
        if (!p->mask) c.columns = 128;
        if (c.pack && c.rows % (p->heads / p->kv_heads)) continue;
        if (c.slices > 1 && p->batch * p->heads * tw_ceil_div(p->queries, c.rows) > sms) continue;
        const double time = tw_network_attention_time(p, &c, sms);
        if (time >= least || !tw_attention_legal(p, &c, t, NULL, NULL)) continue;
        *out = c;
        least = time;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of config.json's keys share. */
#ifndef TW_MODEL_CONFIG_PARTS_H
#define TW_MODEL_CONFIG_PARTS_H

#include "model/config.h"

enum { TW_CONFIG_SHOWN = 96 }; /* Bytes of a value in a message. */

typedef struct tw_config_parser {
    tw_config *c;
    tw_arena *arena;
    const json_t *root;
    tw_reasons *reasons;
    bool sizes_good;
    bool has_window_start;                    /* max_window_layers is there */
    const json_t *short_factor, *long_factor; /* of longrope; NULL: absent */
} tw_config_parser;

/* config_keys.c */
/* Adds the reason "name: v why". */
void tw_config_refuse(tw_config_parser *p, const char *name, const json_t *v, const char *why);
/* Reads the keys that are one number or one truth value, and refuses those that are not understood. */
void tw_config_read_keys(tw_config_parser *p);
/* Reads such keys of generation_config.json. What else is there is not looked at. */
void tw_config_read_generation_keys(tw_config_parser *p);

/* config_rope.c: reads rope's dictionary and the keys beside it. Needs a head's size. */
void tw_config_read_rope(tw_config_parser *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The macro and micro choices of a space, as a family lists them. */
#ifndef TW_TUNE_MACROS_H
#define TW_TUNE_MACROS_H

#include "base/arena.h"
#include "select/artefact.h"
#include "space/space.h"

/* Adds a configuration's macro choice to the list, unless it is there, and to it the micro choice, unless it is there.
   Texts and lists are the arena's, which fails if memory runs out. Returns the macro choice, whose remaining fields the
   caller fills in if *added. NULL: out of memory, or more choices than an artefact holds. */
tw_artefact_macro *tw_macros_add(tw_arena *arena, tw_artefact_macro **list, int *n, const tw_space *s,
                                 const void *config, bool *added);

#endif

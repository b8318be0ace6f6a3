/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the configurations of a space as macro and micro choices of a family. */
#ifndef TW_TUNE_MACROS_H
#define TW_TUNE_MACROS_H

#include "base/arena.h"
#include "select/artefact.h"
#include "space/space.h"

/* Adds a configuration's macro choice to the list, and its micro choice to the macro choice. Choices that are there are
   not added again. The arena owns texts and lists. Returns the macro choice; if *added, the caller fills in its other
   fields. NULL: out of memory, or more choices than an artefact holds. */
tw_artefact_macro *tw_macros_add(tw_arena *arena, tw_artefact_macro **list, int *n, const tw_space *s,
                                 const void *config, bool *added);

#endif

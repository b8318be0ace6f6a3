/* SPDX-License-Identifier: Apache-2.0 */
/* The folder where machine code is remembered. Any number of processes and threads may share it: an entry appears whole
   or not at all, and one that is damaged, cut or of another make counts as absent. Whatever goes wrong here is not an
   error: it costs a compilation. The folder may be deleted at any time. */
#ifndef TW_PTX_CACHE_H
#define TW_PTX_CACHE_H

#include "ptx/load.h"

/* `cubin` in $TILEWRIGHT_CACHE, $XDG_CACHE_HOME/tilewright or ~/.cache/tilewright; false when none of them is set, or
   the path is too long. */
bool tw_cubin_folder(char *out, size_t size);

/* The name of what `compiler` (its name and version) makes of this PTX for `target`. */
tw_cubin_key tw_cubin_name(const char *ptx, size_t bytes, const char *target, const char *compiler);

/* Everything in `out` but `seconds`; false when there is no such entry. */
bool tw_cubin_recall(const char *folder, tw_cubin_key key, tw_cubin *out);

/* Makes the folder if need be; false when the entry could not be kept. */
bool tw_cubin_remember(const char *folder, tw_cubin_key key, const tw_cubin *cubin);

#endif

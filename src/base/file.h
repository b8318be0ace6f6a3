/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads, read-only maps, and writes that are beside and renamed. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include "base/buf.h"
#include "tilewright/base.h"

typedef struct tw_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
} tw_map;

tw_status tw_map_open(tw_map *m, const char *path, tw_diag *diag); /* read-only, shared with the page cache */
void tw_map_close(tw_map *m);

/* The whole of `path` appended to `out`; "-" is standard input. */
tw_status tw_file_read(tw_buf *out, const char *path, tw_diag *diag);

/* Writes beside `path`, syncs, renames: a reader sees the old file or the new one, never a part. Where the system has
   files without names, a process that is killed leaves none.
   "-" is standard output. */
tw_status tw_file_write(const char *path, const void *data, size_t size, tw_diag *diag);

/* The same, of several pieces one after another. */
typedef struct tw_file_piece {
    const void *data;
    size_t size;
} tw_file_piece;
tw_status tw_file_write_pieces(const char *path, const tw_file_piece *pieces, size_t n, tw_diag *diag);

/* Tells before there is anything to write whether tw_file_write can write `path`: makes a file beside it and removes
   that again. TW_ERR_IO: it cannot. */
tw_status tw_file_check(const char *path, tw_diag *diag);

bool tw_write_all(int fd, const void *from, size_t n); /* however many writes it takes; errno says why not */
bool tw_file_exists(const char *path);
bool tw_path_is_dir(const char *path);

/* `name` in the folder where things are remembered: $TILEWRIGHT_CACHE, $XDG_CACHE_HOME/tilewright or
   ~/.cache/tilewright. False when none of them is set, or the path is too long. Nothing is made. */
bool tw_cache_path(const char *name, char *out, size_t size);

/* A folder with all those it is in; false when it is not there afterwards. */
bool tw_folder_make(const char *path);

#endif

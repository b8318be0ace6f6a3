/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/diag.h"
#include "graph/numpy.h"

#include <inttypes.h>
#include <minizip/zip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

/* Writes the header of a .npy file: its length is a multiple of 64. */
static void write_header(tw_buf *out, const char *type, const tw_array *a) {
    char text[512] = "";
    size_t at = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int i = 0; i < a->rank; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%" PRId64 ",%s", a->dims[i], i + 1 < a->rank ? " " : "");
    at += (size_t)snprintf(text + at, sizeof text - at, "), }");
    while ((10 + at + 1) % 64) text[at++] = ' ';
    text[at++] = '\n';
    const unsigned char head[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)at, (unsigned char)(at >> 8)};
    tw_buf_add(out, head, sizeof head);
    tw_buf_add(out, text, at);
}

/* NumPy has no bf16: such elements become f32, all of whose they are. */
static bool write_elements(zipFile zip, const tw_array *a) {
    const int64_t n = tw_array_elements(a), bytes = tw_array_bytes(a);
    if (a->type != TW_E_bf16) {
        bool ok = true;
        for (int64_t at = 0; at < bytes && ok; at += CHUNK)
            ok = zipWriteInFileInZip(zip, (const char *)a->data + at,
                                     (unsigned)(bytes - at < CHUNK ? bytes - at : CHUNK)) == ZIP_OK;
        return ok;
    }
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)tw_array_real(a, i);
        if (zipWriteInFileInZip(zip, &x, sizeof x) != ZIP_OK) return false;
    }
    return true;
}

static bool write_entry(zipFile zip, const char *name, const tw_array *a) {
    const char *type = tw_npy_type(a->type == TW_E_bf16 ? TW_E_f32 : a->type);
    char file[600];
    tw_buf head = {0};
    snprintf(file, sizeof file, "%s.npy", name);
    write_header(&head, type, a);
    const zip_fileinfo info = {.tmz_date = {.tm_year = 1980, .tm_mday = 1}};
    bool ok = !head.failed && zipOpenNewFileInZip64(zip, file, &info, NULL, 0, NULL, 0, NULL, 0, 0,
                                                    tw_array_bytes(a) > 1 << 30) == ZIP_OK;
    ok = ok && zipWriteInFileInZip(zip, head.data, (unsigned)head.size) == ZIP_OK && write_elements(zip, a);
    tw_buf_free(&head);
    return zipCloseFileInZip(zip) == ZIP_OK && ok;
}

tw_status tw_npz_write(const char *path, const tw_npz_entry *entries, int n, tw_diag *diag) {
    char beside[4096];
    for (int i = 0; i < n; i++)
        if (tw_array_bytes(&entries[i].array) < 0 ||
            (entries[i].array.type != TW_E_bf16 && !tw_npy_type(entries[i].array.type)))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has elements that NumPy does not have", entries[i].name);
    if ((size_t)snprintf(beside, sizeof beside, "%s.%ld.new", path, (long)getpid()) >= sizeof beside)
        return tw_fail(diag, TW_ERR_USAGE, "the path is too long");
    zipFile zip = zipOpen64(beside, APPEND_STATUS_CREATE);
    if (!zip) return tw_fail_at(diag, TW_ERR_IO, path, -1, "cannot write");
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = write_entry(zip, entries[i].name, &entries[i].array);
    ok = zipClose(zip, NULL) == ZIP_OK && ok;
    if (ok && rename(beside, path) == 0) return TW_OK;
    unlink(beside);
    return tw_fail_at(diag, TW_ERR_IO, path, -1, "cannot write");
}

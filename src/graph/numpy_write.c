/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "graph/numpy.h"

#include <inttypes.h>
#include <minizip/zip.h>
#include <stdio.h>
#include <string.h>

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
    tw_buf head = {0}, file = {0};
    tw_buf_printf(&file, "%s.npy", name);
    write_header(&head, type, a);
    const zip_fileinfo info = {.tmz_date = {.tm_year = 1980, .tm_mday = 1}};
    bool ok = !head.failed && !file.failed &&
              zipOpenNewFileInZip64(zip, file.data, &info, NULL, 0, NULL, 0, NULL, 0, 0, tw_array_bytes(a) > 1 << 30) ==
                  ZIP_OK;
    ok = ok && zipWriteInFileInZip(zip, head.data, (unsigned)head.size) == ZIP_OK && write_elements(zip, a);
    tw_buf_free(&head);
    tw_buf_free(&file);
    return zipCloseFileInZip(zip) == ZIP_OK && ok;
}

/* ---- a zip in memory, so that it is written as all files are */

typedef struct memory {
    tw_buf out;
    size_t at; /* Where is written next. */
} memory;

static voidpf open_memory(voidpf opaque, const void *name, int mode) {
    (void)name;
    (void)mode;
    return opaque;
}

static uLong read_memory(voidpf opaque, voidpf stream, void *to, uLong size) {
    const memory *m = stream;
    (void)opaque;
    const size_t n = size < m->out.size - m->at ? size : m->out.size - m->at;
    if (n) memcpy(to, m->out.data + m->at, n);
    ((memory *)stream)->at += n;
    return n;
}

static uLong write_memory(voidpf opaque, voidpf stream, const void *from, uLong size) {
    memory *m = stream;
    (void)opaque;
    const size_t over = m->out.size - m->at < size ? m->out.size - m->at : size; /* What is there is written over. */
    if (over) memcpy(m->out.data + m->at, from, over);
    if (size > over && !tw_buf_add(&m->out, (const char *)from + over, size - over)) return 0;
    m->at += size;
    return size;
}

static ZPOS64_T tell_memory(voidpf opaque, voidpf stream) {
    (void)opaque;
    return ((const memory *)stream)->at;
}

static long seek_memory(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin) {
    memory *m = stream;
    (void)opaque;
    const size_t from = origin == ZLIB_FILEFUNC_SEEK_CUR ? m->at : origin == ZLIB_FILEFUNC_SEEK_END ? m->out.size : 0;
    if (offset > m->out.size - from) return -1;
    m->at = from + offset;
    return 0;
}

static int close_memory(voidpf opaque, voidpf stream) {
    (void)opaque;
    (void)stream;
    return 0;
}

static int error_of_memory(voidpf opaque, voidpf stream) {
    (void)opaque;
    return ((const memory *)stream)->out.failed;
}

static bool write_zip(memory *m, const tw_npz_entry *entries, int n) {
    zlib_filefunc64_def files = {open_memory, read_memory,  write_memory,    tell_memory,
                                 seek_memory, close_memory, error_of_memory, m};
    zipFile zip = zipOpen2_64("", APPEND_STATUS_CREATE, NULL, &files);
    bool ok = zip != NULL;
    for (int i = 0; i < n && ok; i++) ok = write_entry(zip, entries[i].name, &entries[i].array);
    return zip && zipClose(zip, NULL) == ZIP_OK && ok && !m->out.failed;
}

tw_status tw_npz_write(const char *path, const tw_npz_entry *entries, int n, tw_diag *diag) {
    enum { NAME = 65535 - 4 /* Bytes of a name in a zip, without ".npy". */ };
    for (int i = 0; i < n; i++) {
        if (strlen(entries[i].name) > NAME)
            return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, -1, "the name \"%.40s...\" has more than %d bytes",
                              entries[i].name, NAME);
        if (tw_array_bytes(&entries[i].array) < 0 ||
            (entries[i].array.type != TW_E_bf16 && !tw_npy_type(entries[i].array.type)))
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has elements that NumPy does not have", entries[i].name);
    }
    memory m = {0};
    const tw_status st =
        write_zip(&m, entries, n) ? tw_file_write(path, m.out.data, m.out.size, diag) : tw_fail_memory(diag);
    tw_buf_free(&m.out);
    return st;
}

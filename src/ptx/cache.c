/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ptx/cache.h"

#include "base/file.h"
#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "TWcubin1"
enum {
    MAX_PATH = 4096,
    ABANDONED = 3600, /* seconds after which a file that was never renamed is nobody's any more */
};
static const size_t most_bytes = (size_t)1 << 30;

typedef struct header {
    char magic[8];
    tw_cubin_key key;
    uint64_t bytes; /* of the machine code, which follows */
    int32_t registers, spill_bytes;
    uint64_t sum[2]; /* of all of the above and the machine code */
} header;
_Static_assert(sizeof(header) == 56, "no holes: it is written as it is");

bool tw_cubin_folder(char *out, size_t size) {
    return tw_cache_path("cubin", out, size);
}

tw_cubin_key tw_cubin_name(const char *ptx, size_t bytes, const char *target, const char *compiler) {
    tw_cubin_key key;
    uint64_t size = bytes;
    tw_hash h = tw_hash_begin();
    /* With their ends, so that no two triples run together to the same bytes. */
    tw_hash_add(&h, target, strlen(target) + 1);
    tw_hash_add(&h, compiler, strlen(compiler) + 1);
    tw_hash_add(&h, &size, sizeof size);
    tw_hash_add(&h, ptx, bytes);
    tw_hash_end(&h, key.word);
    return key;
}

static bool entry_path(char *out, size_t size, const char *folder, tw_cubin_key key) {
    int n = snprintf(out, size, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key.word[0],
                     (unsigned long long)key.word[1]);
    return n > 0 && (size_t)n < size;
}

static void sum(header *h, const void *data, uint64_t out[2]) {
    tw_hash x = tw_hash_begin();
    tw_hash_add(&x, h, offsetof(header, sum));
    tw_hash_add(&x, data, (size_t)h->bytes);
    tw_hash_end(&x, out);
}

static bool read_all(int fd, void *to, size_t n) {
    for (char *p = to; n;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

bool tw_cubin_recall(const char *folder, tw_cubin_key key, tw_cubin *out) {
    char path[MAX_PATH];
    struct stat st;
    header h;
    uint64_t found[2];
    void *data = NULL;
    *out = (tw_cubin){0};
    if (!entry_path(path, sizeof path, folder, key)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && read_all(fd, &h, sizeof h) &&
              !memcmp(h.magic, MAGIC, sizeof h.magic) && !memcmp(&h.key, &key, sizeof key) && h.bytes > 0 &&
              h.bytes <= most_bytes && (uint64_t)st.st_size == sizeof h + h.bytes;
    ok = ok && (data = malloc((size_t)h.bytes)) && read_all(fd, data, (size_t)h.bytes);
    close(fd);
    if (ok) {
        sum(&h, data, found);
        ok = !memcmp(found, h.sum, sizeof found);
    }
    if (!ok) {
        free(data);
        return false;
    }
    *out = (tw_cubin){
        .data = data, .bytes = (size_t)h.bytes, .cached = true, .registers = h.registers, .spill_bytes = h.spill_bytes};
    return true;
}

/* What a process that was killed while writing left behind. */
static void sweep(const char *folder) {
    struct stat st;
    time_t now = time(NULL);
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, ".new.", 5) && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && now - st.st_mtime > ABANDONED)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

bool tw_cubin_remember(const char *folder, tw_cubin_key key, const tw_cubin *cubin) {
    char path[MAX_PATH], beside[MAX_PATH];
    int n = snprintf(beside, sizeof beside, "%s/.new.XXXXXX", folder);
    if (n <= 0 || (size_t)n >= sizeof beside || !entry_path(path, sizeof path, folder, key)) return false;
    if (cubin->bytes == 0 || cubin->bytes > most_bytes) return false;
    /* Now and then, whatever the process: a key is as good as a die. */
    if (key.word[0] % 64 == 0) sweep(folder);
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && tw_folder_make(folder)) {
        snprintf(beside, sizeof beside, "%s/.new.XXXXXX", folder);
        fd = mkostemp(beside, O_CLOEXEC);
    }
    if (fd < 0) return false;
    header h = {.key = key, .bytes = cubin->bytes, .registers = cubin->registers, .spill_bytes = cubin->spill_bytes};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    sum(&h, cubin->data, h.sum);
    /* Not synced: after a crash of the system the sum tells a torn entry. */
    bool ok = tw_write_all(fd, &h, sizeof h) && tw_write_all(fd, cubin->data, cubin->bytes);
    ok = close(fd) == 0 && ok && rename(beside, path) == 0;
    if (!ok) unlink(beside);
    return ok;
}

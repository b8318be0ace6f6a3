/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "device/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH = 4352, NO_LIMIT = -1 };

/* The number behind `key` in a file of such lines, or the file's first number where `key` is empty; NO_LIMIT: there is
   none. */
static int64_t number_in(const char *path, const char *key) {
    FILE *f = fopen(path, "re");
    char line[256];
    long long value = NO_LIMIT;
    size_t n = strlen(key);
    while (f && value == NO_LIMIT && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, " %lld", &value) != 1) value = NO_LIMIT;
    if (f) fclose(f);
    return value;
}

/* Bytes that a file of /proc has in kB. 0: they are not there. */
static int64_t bytes_in(const char *root, const char *file, const char *key) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/%s", root, file);
    int64_t kb = number_in(path, key);
    return kb < 0 ? 0 : kb * 1024;
}

static void lower(int64_t *least, int64_t bytes) {
    if (bytes < 0) bytes = 1; /* 0 would mean unknown */
    if (!*least || bytes < *least) *least = bytes;
}

/* ---- control groups */

/* The files of the two versions. Pages of files can be dropped, so they do not count as taken. */
typedef struct version {
    const char *folder, *limit, *usage, *inactive, *active;
} version;

static const version versions[] = {
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "},
    {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "},
};

static void look_into(const char *folder, const version *v, int64_t *least) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, v->limit);
    const int64_t limit = number_in(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, v->usage);
    const int64_t usage = number_in(path, "");
    /* Version 1 says "no limit" with a number near 2^63. */
    if (limit < 0 || usage < 0 || limit > INT64_MAX / 2) return;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const int64_t inactive = number_in(path, v->inactive), active = number_in(path, v->active);
    lower(least, limit - usage + (inactive > 0 ? inactive : 0) + (active > 0 ? active : 0));
}

/* The group and all those it is in. A container may show its group as the root, under another name than it has
   outside: what is not there is passed over. */
static void look_upwards(const char *root, const version *v, const char *group, int64_t *least) {
    char folder[PATH];
    const size_t above = strlen(root) + strlen(v->folder);
    snprintf(folder, sizeof folder, "%s%s%s", root, v->folder, group);
    for (char *end; strlen(folder) >= above; *end = 0) {
        look_into(folder, v, least);
        end = strrchr(folder, '/');
        if (!end || end < folder + above) return;
    }
}

/* "4:memory:/a/b" of version 1, "0::/a/b" of version 2 */
static void look_at_groups(const char *root, int64_t *least) {
    char path[PATH], line[PATH];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!strcmp(++controllers, "memory")) look_upwards(root, &versions[0], group, least);
        if (!*controllers) look_upwards(root, &versions[1], group, least);
    }
    if (f) fclose(f);
}

/* ---- limits of the process */

static void look_at_limits(const char *root, int64_t *least) {
    char path[PATH];
    struct rlimit l;
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    const struct {
        __rlimit_resource_t what;
        const char *taken;
    } limits[] = {{RLIMIT_AS, "VmSize:"}, {RLIMIT_DATA, "VmData:"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (getrlimit(limits[i].what, &l) || l.rlim_cur == RLIM_INFINITY || l.rlim_cur > INT64_MAX) continue;
        const int64_t kb = number_in(path, limits[i].taken);
        if (kb >= 0) lower(least, (int64_t)l.rlim_cur - kb * 1024);
    }
}

int64_t tw_memory_total(const char *root) {
    return bytes_in(root, "meminfo", "MemTotal:");
}

int64_t tw_memory_available(const char *root) {
    int64_t least = bytes_in(root, "meminfo", "MemAvailable:");
    look_at_groups(root, &least);
    look_at_limits(root, &least);
    return least;
}

int64_t tw_memory_peak(const char *root) {
    return bytes_in(root, "self/status", "VmHWM:");
}

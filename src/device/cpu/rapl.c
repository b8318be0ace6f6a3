/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of processors by RAPL. The kernel has a file for each socket's counter, in microjoules, and one for the value
   at which the counter wraps around. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "device/power.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKETS = 64 /* The most sockets. Further ones are left out. */ };

typedef struct socket_counter {
    char path[300];
    char name[32]; /* Name of the socket, "package-0". */
    double wraps;  /* Value of the counter, in microjoules, after which it begins again at 0. 0: unknown. */
    double last;   /* Value of the counter at the last reading. */
} socket_counter;

typedef struct rapl {
    socket_counter sockets[SOCKETS];
    int n;
    double joules; /* Energy of all sockets since the meter was opened. */
} rapl;

static bool read_number(const char *path, double *out) {
    FILE *f = fopen(path, "re");
    const bool good = f && fscanf(f, "%lf", out) == 1 && *out >= 0;
    if (f) fclose(f);
    return good;
}

/* Reads the name of a zone. False: the zone is not a whole socket, but a part of one or the whole machine. */
static bool read_socket(const char *zone, char name[32]) {
    char path[300];
    snprintf(path, sizeof path, "%s/name", zone);
    FILE *f = fopen(path, "re");
    const bool good = f && fscanf(f, "%31s", name) == 1 && !strncmp(name, "package-", 8);
    if (f) fclose(f);
    return good;
}

static void add_socket(rapl *r, const char *zone) {
    char most[300];
    if (r->n == SOCKETS) return;
    socket_counter *s = &r->sockets[r->n];
    if (!read_socket(zone, s->name)) return;
    /* A socket may have two zones of one name: one by its registers, and one by memory-mapped I/O. */
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->sockets[i].name, s->name)) return;
    if (snprintf(s->path, sizeof s->path, "%s/energy_uj", zone) >= (int)sizeof s->path) return;
    snprintf(most, sizeof most, "%s/max_energy_range_uj", zone);
    if (!read_number(s->path, &s->last)) return;
    if (!read_number(most, &s->wraps)) s->wraps = 0;
    r->n++;
}

static bool read_energy(void *context, double *joules) {
    rapl *r = context;
    for (int i = 0; i < r->n; i++) {
        socket_counter *s = &r->sockets[i];
        double now;
        if (!read_number(s->path, &now)) return false;
        /* A counter that fell has wrapped around, or was set to 0. `rest` is what it counted before that. */
        const double rest = now < s->last ? fmax(s->wraps - s->last, 0) : 0;
        r->joules += (now < s->last ? now + rest : now - s->last) * 1e-6;
        s->last = now;
    }
    *joules = r->joules;
    return true;
}

tw_status tw_power_open_cpu(tw_power **out, tw_diag *diag) {
    const char *own = getenv("TILEWRIGHT_POWERCAP"), *folder = own && *own ? own : "/sys/class/powercap";
    rapl *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return tw_fail_memory(diag);
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char zone[280];
        if (*e->d_name == '.') continue;
        if (snprintf(zone, sizeof zone, "%s/%s", folder, e->d_name) < (int)sizeof zone) add_socket(r, zone);
    }
    if (d) closedir(d);
    if (!r->n) {
        free(r);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s has no counter of a processor's energy that may be read", folder);
    }
    const tw_power_source s = {.energy = read_energy, .close = free, .context = r};
    return tw_power_make(out, &s, diag);
}

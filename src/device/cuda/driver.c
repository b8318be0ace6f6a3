/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "device/cuda/driver.h"

#include "base/diag.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(tw_driver_attribute) == 72, "as the driver has it");
_Static_assert(sizeof(tw_driver_launch) == 56, "as the driver has it");

static void *open_library(const char **name, char *why, size_t size) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
    const char *own = getenv("TILEWRIGHT_LIBCUDA");
    void *h = NULL;
    *why = 0;
    for (int i = 0; i < 2 && !h; i++) {
        if (i == 1 && own && *own) break;
        *name = own && *own ? own : names[i];
        /* The driver's threads and exit handlers do not survive an unloading. */
        h = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char *error = h ? NULL : dlerror();
        if (error && !*why) snprintf(why, size, "%s", error); /* of the usual name, not of the last resort */
    }
    return h;
}

static bool find(void *library, const char *symbol, void *slot, size_t size) {
    void *p = dlsym(library, symbol);
    memcpy(slot, &p, size);
    return p != NULL;
}

tw_status tw_driver_open(tw_driver *d, tw_diag *diag) {
    const char *name = NULL, *missing = NULL;
    char why[512];
    *d = (tw_driver){0};
    d->library = open_library(&name, why, sizeof why);
    if (!d->library) return tw_fail(diag, TW_ERR_UNSUPPORTED, "no NVIDIA driver: %s", why);
#define FN(needed, fn, symbol, parameters)                                                                             \
    if (!find(d->library, symbol, &d->fn, sizeof d->fn) && (needed)) missing = symbol;
#include "device/cuda/driver.def"
#undef FN
    if (missing) {
        tw_driver_close(d);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the NVIDIA driver in %s is too old: it has no %s", name, missing);
    }
    int code = d->cuInit(0);
    if (code == 0) return TW_OK;
    char text[256];
    tw_driver_explain(d, code, text, sizeof text);
    tw_driver_close(d);
    return tw_fail(diag, TW_ERR_UNSUPPORTED, "the NVIDIA driver does not start: %s", text);
}

void tw_driver_close(tw_driver *d) {
    if (d->library) dlclose(d->library);
    *d = (tw_driver){0};
}

void tw_driver_explain(const tw_driver *d, int code, char *out, size_t size) {
    const char *name = NULL, *text = NULL;
    if (d->cuGetErrorName(code, &name) != 0 || !name) name = "an unknown error";
    if (d->cuGetErrorString(code, &text) != 0 || !text) text = "the driver has no words for it";
    snprintf(out, size, "%s (%s, %d)", text, name, code);
}

/* After these every call on the context fails in the same way until the process ends. */
static bool is_fault(int code) {
    static const short faults[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (code == faults[i]) return true;
    return false;
}

static tw_status status_of(int code) {
    switch (code) {
    case 1: /* invalid value */
    case TW_DRV_INVALID_HANDLE:
    case 701: /* more threads or registers than a launch can have */
    case 720: /* cooperative launch too large */
    case 912: /* invalid cluster size */
        return TW_ERR_USAGE;
    case TW_DRV_OUT_OF_MEMORY:
        return TW_ERR_MEMORY;
    case 200: /* invalid image */
    case 218: /* invalid PTX */
    case 500: /* not found */
        return TW_ERR_FORMAT;
    case 209: /* no binary for this GPU */
    case 222: /* PTX newer than the driver */
    case 801:
        return TW_ERR_UNSUPPORTED;
    default:
        return TW_ERR_IO;
    }
}

tw_status tw_cuda_result(tw_cuda *c, int code, const char *what, tw_diag *diag) {
    if (code == 0) return TW_OK;
    char text[256];
    /* The first fault stays. */
    int none = 0;
    if (is_fault(code)) atomic_compare_exchange_strong(&c->fault, &none, code);
    const int fault = c->fault;
    if (!fault) {
        tw_driver_explain(&c->driver, code, text, sizeof text);
        return tw_fail(diag, status_of(code), "cannot %s: %s", what, text);
    }
    tw_driver_explain(&c->driver, fault, text, sizeof text);
    const char *kernel = atomic_load_explicit(&c->last, memory_order_acquire);
    if (kernel)
        return tw_fail(
            diag, TW_ERR_IO,
            "the GPU faulted in kernel %s or one launched before it: %s; this process cannot use the GPU any more",
            kernel, text);
    return tw_fail(diag, TW_ERR_IO, "the GPU faulted: %s; this process cannot use it any more", text);
}

static bool first_version(const char *line, char *out, size_t size) {
    /* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ..." or the number alone. */
    for (const char *p = line; *p; p++) {
        if (*p < '0' || *p > '9' || (p > line && p[-1] != ' ')) continue;
        size_t n = strspn(p, "0123456789.");
        if (!memchr(p, '.', n) || n >= size) continue;
        memcpy(out, p, n);
        out[n] = 0;
        return true;
    }
    return false;
}

static void driver_version(const tw_driver *d, char *out, size_t size) {
    static const char *const files[] = {"/sys/module/nvidia/version", "/proc/driver/nvidia/version"};
    char line[512];
    int number = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = fopen(files[i], "re");
        if (!f) continue;
        bool ok = fgets(line, sizeof line, f) && first_version(line, out, size);
        fclose(f);
        if (ok) return;
    }
    if (d->cuDriverGetVersion(&number) != 0) number = 0;
    snprintf(out, size, "CUDA %d.%d", number / 1000, number % 1000 / 10);
}

tw_status tw_driver_describe(const tw_driver *d, int index, int *device, tw_cuda_info *info, tw_diag *diag) {
    int count = 0, major = 0, minor = 0, l2 = 0;
    size_t bytes = 0;
    *info = (tw_cuda_info){0};
    int code = d->cuDeviceGetCount(&count);
    if (code == 0 && count == 0) code = TW_DRV_NO_DEVICE;
    if (code == 0 && (index < 0 || index >= count))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "there is no GPU %d: the driver has %d", index, count);
    if (code == 0) code = d->cuDeviceGet(device, index);
    if (code == 0) code = d->cuDeviceGetName(info->name, (int)sizeof info->name - 1, *device);
    if (code == 0) code = d->cuDeviceTotalMem(&bytes, *device);
    const struct {
        int attribute, *to;
    } wanted[] = {{TW_DRV_MAJOR, &major},
                  {TW_DRV_MINOR, &minor},
                  {TW_DRV_MULTIPROCESSORS, &info->sms},
                  {TW_DRV_L2_BYTES, &l2},
                  {TW_DRV_MAX_SHARED_BLOCK, &info->shared_block},
                  {TW_DRV_SHARED_SM, &info->shared_sm},
                  {TW_DRV_REGISTERS_SM, &info->registers_sm},
                  {TW_DRV_THREADS_SM, &info->threads_sm}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && code == 0; i++)
        code = d->cuDeviceGetAttribute(wanted[i].to, wanted[i].attribute, *device);
    if (code != 0) {
        char text[256];
        tw_driver_explain(d, code, text, sizeof text);
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "cannot ask the NVIDIA driver for GPU %d: %s", index, text);
    }
    /* For reports alone: a driver that no longer tells is no worse. */
    if (d->cuDeviceGetAttribute(&info->clock_khz, TW_DRV_CLOCK_RATE, *device) != 0) info->clock_khz = 0;
    if (d->cuDeviceGetAttribute(&info->memory_clock_khz, TW_DRV_MEMORY_CLOCK_RATE, *device) != 0)
        info->memory_clock_khz = 0;
    if (d->cuDeviceGetAttribute(&info->memory_bus_bits, TW_DRV_MEMORY_BUS_BITS, *device) != 0)
        info->memory_bus_bits = 0;
    if (!d->cuDeviceGetPCIBusId || d->cuDeviceGetPCIBusId(info->bus, (int)sizeof info->bus, *device) != 0)
        *info->bus = 0;
    info->memory_bytes = (int64_t)bytes;
    info->l2_bytes = l2;
    info->sm = major * 10 + minor;
    info->target = tw_target_for(info->sm);
    driver_version(d, info->driver, sizeof info->driver);
    return TW_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/driver.h"

#include "base/diag.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 16 << 10 };

typedef struct linking {
    void *state;
    char *text;         /* the PTX with an end mark, which the compiler wants */
    char *info, *error; /* LOG_BYTES each */
    /* The driver writes into these until the state is destroyed. */
    int options[6];
    void *values[6];
} linking;

/* `target`: 0 for what the device has. */
static int compile(const tw_driver *d, linking *l, size_t bytes, int target, void **cubin, size_t *cubin_bytes) {
    int n = 0;
#define OPTION(name, value) (l->options[n] = TW_DRV_JIT_##name, l->values[n++] = (void *)(value))
    OPTION(INFO_LOG, l->info);
    OPTION(INFO_LOG_BYTES, (uintptr_t)LOG_BYTES);
    OPTION(ERROR_LOG, l->error);
    OPTION(ERROR_LOG_BYTES, (uintptr_t)LOG_BYTES);
    OPTION(LOG_VERBOSE, (uintptr_t)1);
    if (target) OPTION(TARGET, (uintptr_t)target);
#undef OPTION
    int code = d->cuLinkCreate((unsigned)n, l->options, l->values, &l->state);
    if (code != 0) {
        l->state = NULL;
        return code;
    }
    code = d->cuLinkAddData(l->state, TW_DRV_JIT_INPUT_PTX, l->text, bytes + 1, "kernel", 0, NULL, NULL);
    return code ? code : d->cuLinkComplete(l->state, cubin, cubin_bytes);
}

/* Some drivers take the device's target to be the plain one, and refuse PTX for the one whose name ends in 'a': it is
   named then, and from then on. */
static int compile_either_way(tw_cuda *c, linking *l, size_t bytes, void **cubin, size_t *cubin_bytes) {
    const char *name = c->info.target->name;
    const bool accelerated = name[strlen(name) - 1] == 'a', named = atomic_load(&c->name_target);
    const int target = c->info.target->sm + TW_DRV_JIT_ACCELERATED;
    int code = compile(&c->driver, l, bytes, named ? target : 0, cubin, cubin_bytes);
    const bool refused = code == 200 || code == 209 || code == 218; /* image, target or PTX */
    if (!refused || !accelerated || named) return code;
    linking again = {.text = l->text, .info = calloc(2, LOG_BYTES)};
    if (!again.info) return code; /* the first complaint will do */
    again.error = again.info + LOG_BYTES;
    if (compile(&c->driver, &again, bytes, target, cubin, cubin_bytes) != 0) {
        if (again.state) c->driver.cuLinkDestroy(again.state);
        free(again.info);
        return code;
    }
    atomic_store(&c->name_target, true);
    if (l->state) c->driver.cuLinkDestroy(l->state);
    free(l->info);
    l->state = again.state;
    l->info = again.info;
    l->error = again.error;
    return 0;
}

/* Whether the code says that the PTX is at fault, rather than the device or the driver. */
static bool blames_ptx(int code, const char *log) {
    return code == 218 || code == 222 || code == 209 || code == 300 || *log;
}

tw_status tw_cuda_assemble(tw_cuda *c, const char *ptx, size_t bytes, void **cubin, size_t *cubin_bytes, char *log,
                           size_t log_bytes, tw_diag *diag) {
    const tw_driver *d = &c->driver;
    void *image = NULL;
    size_t size = 0;
    *cubin = NULL;
    *cubin_bytes = 0;
    if (log_bytes) *log = 0;
    linking l = {.text = malloc(bytes + 1), .info = calloc(2, LOG_BYTES)};
    if (!l.text || !l.info) {
        free(l.text);
        free(l.info);
        return tw_fail_memory(diag);
    }
    l.error = l.info + LOG_BYTES;
    memcpy(l.text, ptx, bytes);
    l.text[bytes] = 0;
    tw_status st = TW_OK;
    int code = d->cuCtxSetCurrent(c->context);
    if (code == 0) code = compile_either_way(c, &l, bytes, &image, &size);
    l.info[LOG_BYTES - 1] = l.error[LOG_BYTES - 1] = 0;
    if (code != 0) {
        char text[256];
        tw_driver_explain(d, code, text, sizeof text);
        tw_status why = code == TW_DRV_OUT_OF_MEMORY ? TW_ERR_MEMORY
                        : blames_ptx(code, l.error)  ? TW_ERR_FORMAT
                                                     : TW_ERR_IO;
        st = tw_fail(diag, why, "cannot compile PTX: %s", text);
    } else if (!image || size == 0) {
        st = tw_fail(diag, TW_ERR_IO, "the driver's compiler gave no machine code");
    } else if (!(*cubin = malloc(size))) {
        st = tw_fail_memory(diag);
    } else {
        memcpy(*cubin, image, size); /* what it gave goes with the state */
        *cubin_bytes = size;
    }
    const char *said = st == TW_OK ? l.info : l.error;
    if (log_bytes) {
        size_t n = strlen(said) < log_bytes ? strlen(said) : log_bytes - 1;
        memcpy(log, said, n);
        log[n] = 0;
    }
    if (l.state) d->cuLinkDestroy(l.state);
    free(l.text);
    free(l.info);
    return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the NVIDIA driver, built as a library of its own: memory is the host's, and kernels are known by
   directives in comments of their PTX:
       //! add            parameters (pointer, i32 n, i32 x): adds x to n words
       //! fault          an illegal access, which shows when somebody waits, and from then on
       //! registers N    //! shared N    //! local N
       //! complain TEXT  the compiler refuses with that line
       //! name 90a       the compiler refuses unless told that target
   Other kernels do nothing. A kernel's name is what follows ".entry ". Its "machine code" is the PTX behind a mark.
   With FAKE_CUDA_WRONG=N the kernel named "compare" counts a wrong cell in its fourth argument from its run number N
   on. FAKE_CUDA_US is how long a kernel takes (10). Work on a stream happens at once, except while it is captured.
   fake_cuda_fail makes a call fail; fake_cuda_alive counts what was made and not given back. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define ELF    "\177ELF "
#define MARK   "FAKE CUBIN\n"

typedef struct work {
    int kind; /* 0: kernel add, 1: fault, 2: fill, 3: nothing, 4: compare */
    uint64_t address;
    uint32_t n, x;
    unsigned grid, threads, shared;
} work;

typedef struct graph {
    int n, room;
    work *work;
} graph;

typedef struct queue {
    void *context;
} queue;

typedef struct module {
    void *context;
    char *text;
    /* The text from its first directive on. Launches ask for some, and generated kernels have none. */
    const char *directives;
    char name[128];
    int dynamic_shared, large_clusters;
} module;

typedef struct linker {
    char *text, *cubin;
    char *info, *error;
    int target;
} linker;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char fail_name[64];
static int fail_nth, fail_code, alive, fault, devices = 1, started, clock_us, compared;
static fake_cuda_seen seen;
static graph *capture;
static char contexts[16]; /* Their addresses are the devices' primary contexts. */
static _Thread_local void *current;

EXPORT void fake_cuda_enter(int device) {
    current = device < 0 ? NULL : &contexts[device];
}

EXPORT void fake_cuda_fail(const char *function, int nth, int code) {
    snprintf(fail_name, sizeof fail_name, "%s", function ? function : "");
    fail_nth = nth;
    fail_code = code;
}

/* What is held, so that a reset can end what a broken context would leave. */
static void **held;
static int n_held, room_held;

static void *take(size_t bytes) {
    pthread_mutex_lock(&lock);
    void *p = NULL;
    if (n_held == room_held) {
        void **more = realloc(held, (size_t)(room_held + 256) * sizeof *more);
        if (more) {
            held = more;
            room_held += 256;
        }
    }
    if (n_held < room_held) p = calloc(1, bytes);
    if (p) held[n_held++] = p;
    pthread_mutex_unlock(&lock);
    return p;
}

static void drop(void *p) {
    if (!p) return;
    pthread_mutex_lock(&lock);
    for (int i = n_held - 1; i >= 0; i--)
        if (held[i] == p) {
            held[i] = held[--n_held];
            free(p);
            break;
        }
    pthread_mutex_unlock(&lock);
}

EXPORT void fake_cuda_reset(void) {
    while (n_held) free(held[--n_held]);
    free(held);
    held = NULL;
    room_held = alive = 0;
    capture = NULL;
    fail_name[0] = 0;
    fault = clock_us = compared = 0;
    fake_cuda_hook("", NULL);
    fake_cuda_busy(0);
    fake_cuda_time(NULL);
    devices = 1;
    seen = (fake_cuda_seen){0};
}

static char hook_name[64];
static void (*hook)(void **parameters);
static int busy;
static int (*timer)(unsigned grid, unsigned threads, unsigned shared);

EXPORT void fake_cuda_hook(const char *name, void (*run)(void **parameters)) {
    snprintf(hook_name, sizeof hook_name, "%s", name);
    hook = run;
}

EXPORT void fake_cuda_time(int (*us)(unsigned grid, unsigned threads, unsigned shared)) {
    timer = us;
}

EXPORT void fake_cuda_busy(int n) {
    busy = n;
}

EXPORT void fake_cuda_devices(int n) {
    devices = n;
}

EXPORT int fake_cuda_alive(void) {
    return alive;
}

EXPORT const fake_cuda_seen *fake_cuda_look(void) {
    return &seen;
}

/* 0, or what this call is to fail with. */
static int enter(const char *name) {
    pthread_mutex_lock(&lock);
    int code = 0;
    seen.calls++;
    if (*fail_name && (!strcmp(fail_name, name) || !strcmp(fail_name, "*")) && fail_nth-- == 0) code = fail_code;
    if (!code && !started && strcmp(name, "cuInit") != 0) code = 3;
    pthread_mutex_unlock(&lock);
    return code;
}
#define ENTER()                                                                                                        \
    do {                                                                                                               \
        int code_ = enter(__func__);                                                                                   \
        if (code_) return code_;                                                                                       \
    } while (0)
#define ENTER_CONTEXT()                                                                                                \
    do {                                                                                                               \
        ENTER();                                                                                                       \
        if (!current) return 201;                                                                                      \
        if (fault) return fault;                                                                                       \
    } while (0)

static void count(int by) {
    pthread_mutex_lock(&lock);
    alive += by;
    pthread_mutex_unlock(&lock);
}

static int made(void **out, size_t bytes) {
    *out = take(bytes);
    if (!*out) return 2;
    count(1);
    return 0;
}

static int gone(void *p) {
    if (!p) return 400;
    drop(p);
    count(-1);
    return 0;
}

/* ---- the device ---- */

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    ENTER();
    if (flags) return 1;
    if (devices == 0) return 100;
    started = 1;
    return 0;
}

EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return enter(__func__);
}

EXPORT int cuGetErrorName(int error, const char **name);
int cuGetErrorName(int error, const char **name) {
    *name = error == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 100 ? "CUDA_ERROR_NO_DEVICE"
            : error == 218 ? "CUDA_ERROR_INVALID_PTX"
            : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                           : NULL;
    return *name ? 0 : 1;
}

EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    *text = error == 2     ? "out of memory"
            : error == 100 ? "no CUDA-capable device is detected"
            : error == 218 ? "a PTX JIT compilation failed"
            : error == 700 ? "an illegal memory access was encountered"
                           : NULL;
    return *text ? 0 : 1;
}

EXPORT int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n) {
    ENTER();
    *n = devices;
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
    ENTER();
    if (ordinal < 0 || ordinal >= devices) return 101;
    *device = 40 + ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device) {
    ENTER();
    snprintf(name, (size_t)size, "Fake H100 number %d", device - 40);
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    ENTER();
    (void)device;
    *bytes = (size_t)80 << 30;
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const struct {
        int attribute, value;
    } table[] = {{13, 1980000}, {16, 132}, {36, 2619000}, {38, 50 << 20}, {39, 2048},
                 {75, 9},       {76, 0},   {81, 233472},  {82, 65536},    {97, 232448}};
    ENTER();
    if (device < 40) return 101;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].attribute == attribute) {
            *value = table[i].value;
            if (device == 41 && attribute == 75) *value = 3; /* the second one is too old for anything */
            return 0;
        }
    return 1;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
    ENTER();
    *context = &contexts[device - 40];
    count(1);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    count(-1);
    return 0;
}

EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
    ENTER();
    current = context;
    return 0;
}

EXPORT int cuMemHostAlloc(void **host, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
    ENTER_CONTEXT();
    if (bytes == 0 || flags != 3) return 1;
    if (bytes > (size_t)1 << 40) return 2;
    return made(host, bytes);
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned flags);
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned flags) {
    ENTER_CONTEXT();
    if (!host || flags) return 1;
    *address = (uintptr_t)host;
    return 0;
}

EXPORT int cuMemFreeHost(void *host);
int cuMemFreeHost(void *host) {
    return gone(host);
}

static int environment(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* ---- memory ---- */

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    void *p;
    ENTER_CONTEXT();
    if (bytes == 0) return 1;
    if (bytes > (size_t)1 << 40) return 2;
    int code = made(&p, bytes);
    *address = (uintptr_t)p;
    return code;
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *all);
int cuMemGetInfo_v2(size_t *available, size_t *all) {
    ENTER_CONTEXT();
    *all = (size_t)80 << 30;
    *available = (size_t)environment("FAKE_CUDA_FREE_MB", 79 << 10) << 20;
    return 0;
}

EXPORT int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address) {
    return gone((void *)(uintptr_t)address);
}

/* Zeros over many pages are the system's own, so that a large workspace costs no memory that nobody uses. */
static void fill(uint32_t *p, size_t words, uint32_t x) {
    enum { PAGE = 4096, MANY = 1 << 20 };
    if (x == 0 && words * 4 > MANY) {
        char *from = (char *)p, *end = (char *)(p + words);
        char *first = from + (PAGE - (uintptr_t)from % PAGE) % PAGE, *last = end - (uintptr_t)end % PAGE;
        if (madvise(first, (size_t)(last - first), MADV_DONTNEED) == 0) {
            memset(from, 0, (size_t)(first - from));
            memset(last, 0, (size_t)(end - last));
            return;
        }
    }
    for (size_t i = 0; i < words; i++) p[i] = x;
}

static void perform(const work *w) {
    uint32_t *p = (uint32_t *)(uintptr_t)w->address;
    clock_us += timer && w->threads ? timer(w->grid, w->threads, w->shared) : environment("FAKE_CUDA_US", 10);
    if (w->kind == 4) {
        int from = environment("FAKE_CUDA_WRONG", -1);
        if (from >= 0 && compared >= from) p[0]++;
        compared++;
        return;
    }
    if (w->kind == 1) fault = 700;
    if (w->kind == 1 || w->kind == 3 || fault) return;
    if (w->kind == 2) {
        fill(p, w->n, w->x);
        return;
    }
    for (uint32_t i = 0; i < w->n; i++) p[i] += w->x;
}

static int enqueue(work w) {
    if (!capture) {
        perform(&w);
        return 0;
    }
    if (capture->n == capture->room) {
        int room = 2 * capture->room + 64;
        work *more = take((size_t)room * sizeof *more);
        if (!more) return 2;
        if (capture->n) memcpy(more, capture->work, (size_t)capture->n * sizeof *more);
        drop(capture->work);
        capture->work = more;
        capture->room = room;
    }
    capture->work[capture->n++] = w;
    return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    ENTER_CONTEXT();
    if (!stream || capture) return 900;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    ENTER_CONTEXT();
    if (!stream || capture) return 900;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t words, void *stream);
int cuMemsetD32Async(uint64_t to, unsigned value, size_t words, void *stream) {
    ENTER_CONTEXT();
    if (!stream) return 400;
    return enqueue((work){.kind = 2, .address = to, .n = (uint32_t)words, .x = value});
}

/* For a stand-in of a library that launches kernels of its own. */
EXPORT int fake_cuda_work(void) {
    return enqueue((work){.kind = 3});
}

/* ---- streams, events, graphs ---- */

EXPORT int cuStreamCreate(void **out, unsigned flags);
int cuStreamCreate(void **out, unsigned flags) {
    ENTER_CONTEXT();
    if (flags > 1) return 1;
    const int code = made(out, sizeof(queue));
    if (!code) *(queue *)*out = (queue){current};
    return code;
}

EXPORT int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
    return gone(stream);
}

EXPORT int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream) {
    ENTER_CONTEXT();
    return stream ? capture ? 900 : 0 : 400;
}

EXPORT int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream) {
    ENTER_CONTEXT();
    if (!stream || capture) return 400;
    if (busy > 0) return busy--, 600;
    return 0;
}

EXPORT int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    ENTER_CONTEXT();
    if (flags) return 1;
    return made(event, sizeof(int));
}

EXPORT int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    return gone(event);
}

EXPORT int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    ENTER_CONTEXT();
    if (!stream) return 400;
    *(int *)event = clock_us;
    return 0;
}

EXPORT int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event) {
    ENTER_CONTEXT();
    return event ? 0 : 400;
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end);
int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    ENTER_CONTEXT();
    *milliseconds = (float)(*(int *)end - *(int *)start) * 1e-3f;
    return 0;
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamBeginCapture_v2(void *stream, int mode) {
    void *g;
    ENTER_CONTEXT();
    if (!stream || mode < 0 || mode > 2) return 1;
    if (capture) return 901;
    int code = made(&g, sizeof(graph));
    capture = g;
    return code;
}

static int graph_gone(graph *g) {
    if (g) drop(g->work);
    return gone(g);
}

EXPORT int cuStreamEndCapture(void *stream, void **out);
int cuStreamEndCapture(void *stream, void **out) {
    int code = enter(__func__);
    *out = NULL;
    if (!stream || !capture) return 901;
    if (code)
        graph_gone(capture);
    else
        *out = capture;
    capture = NULL;
    return code;
}

EXPORT int cuGraphInstantiateWithFlags(void **exec, void *g, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **exec, void *g, unsigned long long flags) {
    ENTER_CONTEXT();
    if (!g || flags) return 1;
    int code = made(exec, sizeof(void *));
    if (!code) *(void **)*exec = g;
    return code;
}

EXPORT int cuGraphUpload(void *exec, void *stream);
int cuGraphUpload(void *exec, void *stream) {
    ENTER_CONTEXT();
    return exec && stream ? 0 : 400;
}

EXPORT int cuGraphLaunch(void *exec, void *stream);
int cuGraphLaunch(void *exec, void *stream) {
    ENTER_CONTEXT();
    if (!exec || !stream) return 400;
    const graph *g = *(void **)exec;
    for (int i = 0; i < g->n; i++) perform(&g->work[i]);
    seen.replays++;
    return 0;
}

EXPORT int cuGraphExecDestroy(void *exec);
int cuGraphExecDestroy(void *exec) {
    return gone(exec);
}

EXPORT int cuGraphDestroy(void *g);
int cuGraphDestroy(void *g) {
    return graph_gone(g);
}

/* ---- code ---- */

static const char *directive(const char *text, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "//! %s", name);
    const char *p = strstr(text, wanted);
    return p ? p + strlen(wanted) : NULL;
}

static int number(const char *text, const char *name, int otherwise) {
    const char *p = directive(text, name);
    return p ? atoi(p) : otherwise;
}

EXPORT int cuLinkCreate_v2(unsigned n, int *options, void **values, void **state);
int cuLinkCreate_v2(unsigned n, int *options, void **values, void **state) {
    void *p;
    ENTER_CONTEXT();
    int code = made(&p, sizeof(linker));
    if (code) return code;
    linker *l = *state = p;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == 3) l->info = values[i];
        if (options[i] == 5) l->error = values[i];
        if (options[i] == 9) l->target = (int)(uintptr_t)values[i];
    }
    return 0;
}

EXPORT int cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name, unsigned n, int *options,
                            void **values);
int cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name, unsigned n, int *options,
                     void **values) {
    ENTER_CONTEXT();
    linker *l = state;
    (void)name, (void)n, (void)options, (void)values;
    if (type != 1 || bytes == 0 || ((char *)data)[bytes - 1] != 0) return 1;
    const char *complaint = directive(data, "complain ");
    if (complaint) {
        int length = (int)strcspn(complaint, "\n");
        sprintf(l->error,
                "ptxas info    : nothing yet\nptxas application ptx input, line 3; error   : %.*s\nptxas fatal\n",
                length, complaint);
        return 218;
    }
    if (directive(data, "name 90a") && l->target != 0x10000 + 90) return 209;
    l->text = take(bytes);
    if (!l->text) return 2;
    memcpy(l->text, data, bytes);
    return 0;
}

EXPORT int cuLinkComplete(void *state, void **cubin, size_t *bytes);
int cuLinkComplete(void *state, void **cubin, size_t *bytes) {
    ENTER_CONTEXT();
    linker *l = state;
    size_t room = strlen(ELF MARK) + strlen(l->text) + 1;
    l->cubin = take(room);
    if (!l->cubin) return 2;
    snprintf(l->cubin, room, "%s%s", ELF MARK, l->text);
    sprintf(l->info,
            "ptxas info    : Function properties\n    8 bytes stack frame, %d bytes spill stores, 4 bytes spill "
            "loads\nptxas info    : Used %d registers, 400 bytes cmem[0]\n",
            number(l->text, "spill", 0), number(l->text, "registers", 16));
    pthread_mutex_lock(&lock);
    seen.compiled++;
    pthread_mutex_unlock(&lock);
    *cubin = l->cubin;
    *bytes = room;
    return 0;
}

EXPORT int cuLinkDestroy(void *state);
int cuLinkDestroy(void *state) {
    linker *l = state;
    drop(l->text);
    drop(l->cubin);
    return gone(l);
}

EXPORT int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values);
int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
    void *p;
    ENTER_CONTEXT();
    (void)n, (void)options, (void)values;
    if (!strncmp(image, ELF, strlen(ELF))) image = (const char *)image + strlen(ELF);
    if (strncmp(image, MARK, strlen(MARK)) != 0) return 200;
    int code = made(&p, sizeof(module));
    if (code) return code;
    module *m = *out = p;
    m->context = current;
    m->text = take(strlen(image) + 1);
    if (m->text) memcpy(m->text, image, strlen(image));
    const char *name = m->text ? strstr(m->text, ".entry ") : NULL;
    if (name) sscanf(name, ".entry %127[a-zA-Z0-9_]", m->name);
    m->directives = m->text ? strstr(m->text, "//! ") : NULL;
    if (!m->directives) m->directives = "";
    m->dynamic_shared = (48 << 10) - number(m->directives, "shared", 0);
    return 0;
}

EXPORT int cuModuleUnload(void *m);
int cuModuleUnload(void *m) {
    drop(((module *)m)->text);
    return gone(m);
}

EXPORT int cuModuleGetFunction(void **function, void *m, const char *name);
int cuModuleGetFunction(void **function, void *m, const char *name) {
    ENTER_CONTEXT();
    if (strcmp(((module *)m)->name, name) != 0) return 500;
    *function = m;
    return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function);
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    ENTER_CONTEXT();
    const module *m = function;
    switch (attribute) {
    case 0:
        *value = 1024;
        return 0;
    case 1:
        *value = number(m->directives, "shared", 0);
        return 0;
    case 3:
        *value = number(m->directives, "local", 0);
        return 0;
    case 4:
        *value = number(m->directives, "registers", 16);
        return 0;
    default:
        return 1;
    }
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value) {
    ENTER_CONTEXT();
    module *m = function;
    if (attribute == 8)
        m->dynamic_shared = value;
    else if (attribute == 14)
        m->large_clusters = value;
    else
        return 1;
    return 0;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t dynamic_shared);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t dynamic_shared) {
    ENTER_CONTEXT();
    if (!function || threads < 1 || dynamic_shared > 232448) return 1;
    *blocks = 2048 / threads;
    return 0;
}

static int launch(module *m, const unsigned grid[3], const unsigned block[3], unsigned shared, const queue *stream,
                  void **parameters) {
    if (!stream || stream->context != current || !m || m->context != current) return 400;
    if ((int)shared > m->dynamic_shared) return 1;
    if (block[0] > 1024) return 701;
    memcpy(seen.grid, grid, sizeof seen.grid);
    memcpy(seen.block, block, sizeof seen.block);
    seen.shared = shared;
    seen.stream = stream;
    seen.launches++;
    if (hook && !strcmp(m->name, hook_name)) {
        hook(parameters);
        return 0;
    }
    work w = {.kind = directive(m->directives, "fault") ? 1
                      : directive(m->directives, "add") ? 0
                                                        : 3,
              .grid = grid[0] * grid[1] * grid[2],
              .threads = block[0],
              .shared = shared};
    if (w.kind == 0) {
        memcpy(&w.address, parameters[0], 8);
        memcpy(&w.n, parameters[1], 4);
        memcpy(&w.x, parameters[2], 4);
    }
    if (w.kind == 3 && !strcmp(m->name, "compare")) {
        w.kind = 4;
        memcpy(&w.address, parameters[3], 8);
    }
    return enqueue(w);
}

static int take_map(unsigned char *map, int type, unsigned rank, uint64_t address, const uint64_t *extents,
                    const uint64_t *strides, const unsigned *steps, int interleave, int swizzle, int promotion,
                    int fill) {
    if ((uintptr_t)map % 64 || rank < 1 || rank > 5 || interleave || promotion != 3 || fill) return 1;
    seen.map = (fake_cuda_map){.type = type, .swizzle = swizzle, .rank = rank, .address = address};
    for (unsigned i = 0; i < rank; i++) {
        seen.map.extents[i] = extents[i];
        seen.map.steps[i] = steps[i];
        if (i + 1 < rank) seen.map.strides[i] = strides[i];
    }
    memset(map, 0, 128);
    memcpy(map, &address, sizeof address); /* what a kernel finds there */
    return 0;
}

EXPORT int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, uint64_t address, const uint64_t *extents,
                                  const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                                  int swizzle, int promotion, int fill);
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, uint64_t address, const uint64_t *extents,
                           const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                           int swizzle, int promotion, int fill) {
    ENTER_CONTEXT();
    pthread_mutex_lock(&lock);
    int code = take_map(map, type, rank, address, extents, strides, steps, interleave, swizzle, promotion, fill);
    for (unsigned i = 0; code == 0 && i < rank; i++) seen.map.box[i] = box[i];
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int cuTensorMapEncodeIm2col(void *map, int type, unsigned rank, uint64_t address, const uint64_t *extents,
                                   const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
                                   unsigned pixels, const unsigned *steps, int interleave, int swizzle, int promotion,
                                   int fill);
int cuTensorMapEncodeIm2col(void *map, int type, unsigned rank, uint64_t address, const uint64_t *extents,
                            const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
                            unsigned pixels, const unsigned *steps, int interleave, int swizzle, int promotion,
                            int fill) {
    ENTER_CONTEXT();
    pthread_mutex_lock(&lock);
    int code = take_map(map, type, rank, address, extents, strides, steps, interleave, swizzle, promotion, fill);
    if (code == 0 && rank < 3) code = 1;
    for (unsigned i = 0; code == 0 && i < rank - 2; i++) {
        seen.map.lower[i] = lower[i];
        seen.map.upper[i] = upper[i];
    }
    seen.map.im2col = 1;
    seen.map.channels = channels;
    seen.map.pixels = pixels;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    ENTER_CONTEXT();
    if (extra) return 1;
    pthread_mutex_lock(&lock);
    seen.cluster = seen.cooperative = seen.programmatic = 0;
    const int code = launch(function, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, parameters);
    pthread_mutex_unlock(&lock);
    return code;
}

/* As the driver has them; an attribute is 72 bytes with its value at 8. */
typedef struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    unsigned char *attributes;
    unsigned n_attributes;
} config;

static int launch_with(const config *c, module *m, void **parameters) {
    seen.cluster = seen.cooperative = seen.programmatic = 0;
    for (unsigned i = 0; i < c->n_attributes; i++) {
        int id, value[3];
        memcpy(&id, c->attributes + 72 * i, sizeof id);
        memcpy(value, c->attributes + 72 * i + 8, sizeof value);
        if (id == 4) {
            if (value[1] != 1 || value[2] != 1 || c->grid[0] % (unsigned)value[0]) return 912;
            if (value[0] > 8 && !m->large_clusters) return 912;
            seen.cluster = value[0];
        } else if (id == 2) {
            seen.cooperative = value[0];
        } else if (id == 6) {
            seen.programmatic = value[0];
        } else {
            return 1;
        }
    }
    return launch(m, c->grid, c->block, c->shared, c->stream, parameters);
}

EXPORT int cuLaunchKernelEx(const config *c, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const config *c, void *function, void **parameters, void **extra) {
    ENTER_CONTEXT();
    if (extra) return 1;
    pthread_mutex_lock(&lock);
    const int code = launch_with(c, function, parameters);
    pthread_mutex_unlock(&lock);
    return code;
}

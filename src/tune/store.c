/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "tune/store.h"

#include "base/diag.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The application_id of SQLite files that are stores: "TWms" in ASCII. */
enum { APPLICATION = 0x54576d73, VERSION = 1, WAIT_MS = 60000 /* for another process's transaction */ };

struct tw_store {
    sqlite3 *db;
    char *path;
    bool reads;
    int claims; /* Descriptor of the file for the locks of claims. -1: it is not open. */
    sqlite3_stmt *intern, *find, *add, *same;
};

/* Texts that many measurements share are stored once. */
static const char schema[] =
    "CREATE TABLE text(id INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE);"
    "CREATE TABLE measurement(id INTEGER PRIMARY KEY, key TEXT UNIQUE, environment INTEGER NOT NULL,"
    " space INTEGER NOT NULL, problem INTEGER NOT NULL, config TEXT NOT NULL, protocol INTEGER NOT NULL,"
    " unit INTEGER NOT NULL, status INTEGER NOT NULL, message TEXT NOT NULL, samples BLOB NOT NULL,"
    " clock_mhz REAL NOT NULL, watts REAL NOT NULL, began INTEGER NOT NULL, checksum BLOB NOT NULL);"
    "CREATE INDEX measurement_problem ON measurement(problem, environment);";

/* ---- SQLite's errors */

static tw_status failed(tw_store *s, const char *doing, tw_diag *diag) {
    const int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return tw_fail_memory(diag);
    case SQLITE_NOTADB:
        return tw_fail_at(diag, TW_ERR_FORMAT, s->path, -1, "no store of measurements");
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
        return tw_fail_at(diag, TW_ERR_FORMAT, s->path, -1, "damaged: cannot %s: %s", doing, sqlite3_errmsg(s->db));
    default:
        return tw_fail_at(diag, TW_ERR_IO, s->path, -1, "cannot %s: %s", doing, sqlite3_errmsg(s->db));
    }
}

static tw_status execute(tw_store *s, const char *sql, const char *doing, tw_diag *diag) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TW_OK : failed(s, doing, diag);
}

static tw_status number(tw_store *s, const char *sql, int64_t *out, tw_diag *diag) {
    sqlite3_stmt *q = NULL;
    *out = 0;
    bool good = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW;
    if (good) *out = sqlite3_column_int64(q, 0);
    const tw_status st = good ? TW_OK : failed(s, "open it", diag);
    sqlite3_finalize(q);
    return st;
}

/* ---- opening */

static tw_status create(tw_store *s, tw_diag *diag) {
    char sql[128];
    sqlite3_snprintf(sizeof sql, sql, "PRAGMA application_id=%d; PRAGMA user_version=%d;", APPLICATION, VERSION);
    tw_status st = execute(s, schema, "make it", diag);
    return st == TW_OK ? execute(s, sql, "make it", diag) : st;
}

/* The check and the schema share a transaction, since two processes may create the file at once. */
static tw_status check_kind(tw_store *s, tw_diag *diag) {
    int64_t application = 0, version = 0, tables = 0;
    tw_status st = execute(s, s->reads ? "BEGIN" : "BEGIN IMMEDIATE", "open it", diag);
    if (st == TW_OK) st = number(s, "PRAGMA application_id", &application, diag);
    if (st == TW_OK) st = number(s, "PRAGMA user_version", &version, diag);
    if (st == TW_OK) st = number(s, "SELECT count(*) FROM sqlite_schema", &tables, diag);
    if (st == TW_OK && !s->reads && !application && !version && !tables)
        st = create(s, diag);
    else if (st == TW_OK && application != APPLICATION)
        st = tw_fail_at(diag, TW_ERR_FORMAT, s->path, -1, "no store of measurements, but another program's database");
    else if (st == TW_OK && version != VERSION)
        st = tw_fail_at(diag, TW_ERR_UNSUPPORTED, s->path, -1, "a store of version %lld; this build knows version %d",
                        (long long)version, VERSION);
    if (st == TW_OK) return execute(s, "COMMIT", "open it", diag);
    sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

static tw_status prepare(tw_store *s, sqlite3_stmt **q, const char *sql, tw_diag *diag) {
    return sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, q, NULL) == SQLITE_OK
               ? TW_OK
               : failed(s, "open it", diag);
}

static tw_status open_store(tw_store *s, tw_diag *diag) {
    const int flags = s->reads ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(s->path, &s->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL) != SQLITE_OK)
        return failed(s, "open it", diag);
    sqlite3_busy_timeout(s->db, WAIT_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    tw_status st = execute(s, "PRAGMA cell_size_check=ON", "open it", diag);
    /* The application_id is checked before anything is written, so that foreign files stay unchanged. */
    if (st == TW_OK) st = check_kind(s, diag);
    if (st == TW_OK && !s->reads)
        st = execute(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", "open it", diag);
    if (st == TW_OK) st = prepare(s, &s->find, "SELECT id FROM text WHERE value=?1", diag);
    if (st == TW_OK)
        st = prepare(s, &s->same,
                     "SELECT (SELECT value FROM text WHERE id=environment)=?2 AND"
                     " (SELECT value FROM text WHERE id=space)=?3 FROM measurement WHERE key=?1",
                     diag);
    if (st != TW_OK || s->reads) return st;
    st = prepare(s, &s->intern, "INSERT OR IGNORE INTO text(value) VALUES(?1)", diag);
    if (st != TW_OK) return st;
    return prepare(s, &s->add,
                   "INSERT OR IGNORE INTO measurement(key, environment, space, problem, config, protocol, unit,"
                   " status, message, samples, clock_mhz, watts, began, checksum)"
                   " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
                   diag);
}

tw_status tw_store_open(tw_store **out, const char *path, bool reads, tw_diag *diag) {
    tw_store *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return tw_fail_memory(diag);
    }
    s->reads = reads;
    s->claims = -1;
    const tw_status st = open_store(s, diag);
    if (st == TW_OK)
        *out = s;
    else
        tw_store_close(s);
    return st;
}

void tw_store_close(tw_store *s) {
    if (!s) return;
    sqlite3_finalize(s->intern);
    sqlite3_finalize(s->find);
    sqlite3_finalize(s->add);
    sqlite3_finalize(s->same);
    sqlite3_close(s->db);
    if (s->claims >= 0) close(s->claims);
    free(s->path);
    free(s);
}

/* ---- one measurement */

const char *tw_store_wrong(const tw_measurement *m) {
    const struct {
        const char *name, *text;
    } texts[] = {{"environment", m->environment}, {"space", m->space}, {"problem", m->problem}, {"config", m->config},
                 {"protocol", m->protocol},       {"unit", m->unit},   {"message", m->message}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!texts[i].text) return texts[i].name;
    if ((int)m->status < TW_OK || m->status > TW_ERR_MISMATCH) return "status";
    if (m->n < 0 || m->n > TW_STORE_SAMPLES || (m->status == TW_OK && !m->n)) return "samples";
    for (int i = 0; i < m->n; i++)
        if (!isfinite(m->samples[i]) || m->samples[i] < 0) return "samples";
    if (!(m->clock_mhz >= 0 && isfinite(m->clock_mhz))) return "clock_mhz";
    if (!(m->watts >= 0 && isfinite(m->watts))) return "watts";
    return NULL;
}

/* Lengths go into the checksum too, so that bytes cannot pass from one field to the next. */
static void add_text(tw_hash *h, const char *text) {
    const int64_t size = text ? (int64_t)strlen(text) : -1;
    tw_hash_add(h, &size, sizeof size);
    if (text) tw_hash_add(h, text, (size_t)size);
}

tw_status tw_store_stats(const tw_measurement *m, tw_stats *out, tw_diag *diag) {
    *out = (tw_stats){0};
    if (m->n < 1) return TW_OK;
    double *sorted = malloc((size_t)m->n * sizeof *sorted);
    if (!sorted) return tw_fail_memory(diag);
    memcpy(sorted, m->samples, (size_t)m->n * sizeof *sorted);
    *out = tw_stats_of(sorted, (size_t)m->n);
    free(sorted);
    return TW_OK;
}

void tw_store_checksum(const tw_measurement *m, uint64_t sum[2]) {
    const int64_t numbers[] = {m->status, m->n, m->began};
    const double reals[] = {m->clock_mhz, m->watts};
    tw_hash h = tw_hash_begin();
    add_text(&h, m->key);
    add_text(&h, m->environment);
    add_text(&h, m->space);
    add_text(&h, m->problem);
    add_text(&h, m->config);
    add_text(&h, m->protocol);
    add_text(&h, m->unit);
    add_text(&h, m->message);
    tw_hash_add(&h, numbers, sizeof numbers);
    tw_hash_add(&h, reals, sizeof reals);
    if (m->n) tw_hash_add(&h, m->samples, (size_t)m->n * sizeof *m->samples);
    tw_hash_end(&h, sum);
}

/* ---- adding */

static bool run(sqlite3_stmt *q) {
    const bool done = sqlite3_step(q) == SQLITE_DONE;
    sqlite3_reset(q);
    return done;
}

/* Finds the number of a text, which is added if it is new. 0: an error. */
static int64_t text_id(tw_store *s, const char *text) {
    sqlite3_bind_text(s->intern, 1, text, -1, SQLITE_STATIC);
    sqlite3_bind_text(s->find, 1, text, -1, SQLITE_STATIC);
    int64_t id = 0;
    if (run(s->intern) && sqlite3_step(s->find) == SQLITE_ROW) id = sqlite3_column_int64(s->find, 0);
    sqlite3_reset(s->find);
    return id;
}

static bool insert(tw_store *s, const tw_measurement *m, bool *added) {
    const char *const shared[] = {m->environment, m->space, m->problem, m->protocol, m->unit};
    static const int places[] = {2, 3, 4, 6, 7};
    uint64_t sum[2];
    sqlite3_stmt *q = s->add;
    tw_store_checksum(m, sum);
    for (int i = 0; i < 5; i++) {
        const int64_t id = text_id(s, shared[i]);
        if (!id || sqlite3_bind_int64(q, places[i], id) != SQLITE_OK) return false;
    }
    const int bytes = m->n * (int)sizeof *m->samples;
    bool good = sqlite3_bind_text(q, 1, m->key, -1, SQLITE_STATIC) == SQLITE_OK;
    good = good && sqlite3_bind_text(q, 5, m->config, -1, SQLITE_STATIC) == SQLITE_OK;
    good = good && sqlite3_bind_int(q, 8, (int)m->status) == SQLITE_OK;
    good = good && sqlite3_bind_text(q, 9, m->message, -1, SQLITE_STATIC) == SQLITE_OK;
    good = good && (m->n ? sqlite3_bind_blob(q, 10, m->samples, bytes, SQLITE_STATIC)
                         : sqlite3_bind_zeroblob(q, 10, 0)) == SQLITE_OK;
    good = good && sqlite3_bind_double(q, 11, m->clock_mhz) == SQLITE_OK;
    good = good && sqlite3_bind_double(q, 12, m->watts) == SQLITE_OK;
    good = good && sqlite3_bind_int64(q, 13, m->began) == SQLITE_OK;
    good = good && sqlite3_bind_blob(q, 14, sum, sizeof sum, SQLITE_STATIC) == SQLITE_OK;
    if (!good || !run(q)) return false;
    *added = sqlite3_changes(s->db) > 0;
    return true;
}

tw_status tw_store_add(tw_store *s, const tw_measurement *m, bool *added, tw_diag *diag) {
    bool new_one = false;
    const char *wrong = tw_store_wrong(m);
    if (wrong) return tw_fail(diag, TW_ERR_USAGE, "a measurement's %s is missing or out of range", wrong);
    if (s->reads) return tw_fail_at(diag, TW_ERR_USAGE, s->path, -1, "the store is open to read only");
    tw_status st = execute(s, "BEGIN IMMEDIATE", "add to it", diag);
    if (st != TW_OK) return st;
    st = insert(s, m, &new_one) ? execute(s, "COMMIT", "add to it", diag) : failed(s, "add to it", diag);
    if (st != TW_OK) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_clear_bindings(s->add);
    if (added) *added = new_one;
    return st;
}

tw_status tw_store_find(tw_store *s, const char *key, const char *environment, const char *space, tw_store_found *found,
                        tw_diag *diag) {
    sqlite3_bind_text(s->same, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(s->same, 2, environment, -1, SQLITE_STATIC);
    sqlite3_bind_text(s->same, 3, space, -1, SQLITE_STATIC);
    const int code = sqlite3_step(s->same);
    *found = code != SQLITE_ROW ? TW_STORE_NONE : sqlite3_column_int(s->same, 0) ? TW_STORE_SAME : TW_STORE_OTHER;
    const tw_status st = code == SQLITE_ROW || code == SQLITE_DONE ? TW_OK : failed(s, "read it", diag);
    sqlite3_reset(s->same);
    return st;
}

/* ---- claims */

/* Locks (F_WRLCK) or unlocks (F_UNLCK) the byte of a job, which lies far beyond the end of the file. Its offset is a
   hash of the job. Such a lock belongs to the open file description, while SQLite's locks belong to the process, so
   neither touches the other. The kernel removes it when the process ends. Returns 0 or an errno. */
static int lock(const tw_store *s, const char *job, short type) {
    uint64_t sum[2];
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, job, strlen(job));
    tw_hash_end(&h, sum);
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(1ll << 41 | sum[0] >> 24), .l_len = 1};
    int code;
    do code = fcntl(s->claims, F_OFD_SETLK, &l);
    while (code < 0 && errno == EINTR);
    return code < 0 ? errno : 0;
}

tw_status tw_store_claim(tw_store *s, const char *job, bool *mine, tw_diag *diag) {
    *mine = true;
    if (s->reads) return TW_OK;
    if (s->claims < 0) s->claims = open(s->path, O_RDWR | O_CLOEXEC);
    if (s->claims < 0) return tw_fail_at(diag, TW_ERR_IO, s->path, -1, "cannot open: %s", strerror(errno));
    const int error = lock(s, job, F_WRLCK);
    *mine = error != EAGAIN && error != EACCES;
    return TW_OK;
}

void tw_store_release(tw_store *s, const char *job) {
    if (s->claims >= 0) lock(s, job, F_UNLCK);
}

/* ---- reading */

static const char *column(sqlite3_stmt *q, int i) {
    return (const char *)sqlite3_column_text(q, i);
}

/* Fills a measurement from a row. Returns false if the row is damaged. */
static bool take_row(sqlite3_stmt *q, tw_measurement *m, double *samples) {
    const int bytes = sqlite3_column_bytes(q, 9);
    uint64_t sum[2];
    *m = (tw_measurement){.key = column(q, 0),
                          .environment = column(q, 1),
                          .space = column(q, 2),
                          .problem = column(q, 3),
                          .config = column(q, 4),
                          .protocol = column(q, 5),
                          .unit = column(q, 6),
                          .status = (tw_status)sqlite3_column_int(q, 7),
                          .message = column(q, 8),
                          .samples = samples,
                          .clock_mhz = sqlite3_column_double(q, 10),
                          .watts = sqlite3_column_double(q, 11),
                          .began = sqlite3_column_int64(q, 12)};
    if (bytes % (int)sizeof *samples || bytes > TW_STORE_SAMPLES * (int)sizeof *samples) return false;
    if (bytes) memcpy(samples, sqlite3_column_blob(q, 9), (size_t)bytes);
    m->n = bytes / (int)sizeof *samples;
    if (tw_store_wrong(m) || sqlite3_column_bytes(q, 13) != sizeof sum) return false;
    tw_store_checksum(m, sum);
    return !memcmp(sum, sqlite3_column_blob(q, 13), sizeof sum);
}

tw_status tw_store_read(tw_store *s, const tw_store_filter *f,
                        tw_status (*take)(void *context, const tw_measurement *m, tw_diag *diag), void *context,
                        tw_store_report *report, tw_diag *diag) {
    static const char sql[] =
        "SELECT m.key, e.value, s.value, p.value, m.config, o.value, u.value, m.status, m.message, m.samples,"
        " m.clock_mhz, m.watts, m.began, m.checksum FROM measurement m LEFT JOIN text e ON e.id=m.environment"
        " LEFT JOIN text s ON s.id=m.space LEFT JOIN text p ON p.id=m.problem LEFT JOIN text o ON o.id=m.protocol"
        " LEFT JOIN text u ON u.id=m.unit WHERE (?1 IS NULL OR e.value=?1) AND (?2 IS NULL OR s.value=?2)"
        " AND (?3 IS NULL OR p.value=?3) ORDER BY m.id";
    const char *const wanted[] = {f ? f->environment : NULL, f ? f->space : NULL, f ? f->problem : NULL};
    tw_store_report seen = {0};
    sqlite3_stmt *q = NULL;
    double *samples = malloc(TW_STORE_SAMPLES * sizeof *samples);
    tw_status st = TW_OK;
    if (report) *report = seen;
    if (!samples) return tw_fail_memory(diag);
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) st = failed(s, "read it", diag);
    for (int i = 0; i < 3 && st == TW_OK; i++)
        if (sqlite3_bind_text(q, i + 1, wanted[i], -1, SQLITE_STATIC) != SQLITE_OK) st = failed(s, "read it", diag);
    while (st == TW_OK) {
        tw_measurement m;
        const int code = sqlite3_step(q);
        if (code == SQLITE_DONE) break;
        if (code != SQLITE_ROW) {
            st = failed(s, "read it", diag);
        } else if (take_row(q, &m, samples)) {
            seen.right++;
            st = take(context, &m, diag);
        } else {
            seen.damaged++;
        }
    }
    sqlite3_finalize(q);
    free(samples);
    if (report) *report = seen;
    return st;
}

tw_status tw_store_configs(tw_store *s, const tw_store_filter *f, const char *prefix,
                           tw_status (*take)(void *context, const char *config, tw_diag *diag), void *context,
                           tw_diag *diag) {
    static const char sql[] = "SELECT DISTINCT m.config FROM measurement m WHERE substr(m.config,1,length(?4))=?4"
                              " AND (?1 IS NULL OR m.environment=(SELECT id FROM text WHERE value=?1))"
                              " AND (?2 IS NULL OR m.space=(SELECT id FROM text WHERE value=?2))"
                              " AND (?3 IS NULL OR m.problem=(SELECT id FROM text WHERE value=?3)) ORDER BY m.config";
    const char *const wanted[] = {f ? f->environment : NULL, f ? f->space : NULL, f ? f->problem : NULL, prefix};
    sqlite3_stmt *q = NULL;
    tw_status st = TW_OK;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) st = failed(s, "read it", diag);
    for (int i = 0; i < 4 && st == TW_OK; i++)
        if (sqlite3_bind_text(q, i + 1, wanted[i], -1, SQLITE_STATIC) != SQLITE_OK) st = failed(s, "read it", diag);
    while (st == TW_OK) {
        const int code = sqlite3_step(q);
        if (code == SQLITE_DONE) break;
        const char *config = code == SQLITE_ROW ? column(q, 0) : NULL;
        st = config ? take(context, config, diag) : failed(s, "read it", diag);
    }
    sqlite3_finalize(q);
    return st;
}

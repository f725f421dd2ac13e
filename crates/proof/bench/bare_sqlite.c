// The bare engine beside our journal: the same file, statements, rows and batches, in a plain loop without anything
// around it. Somebody else's library, one thread, no checks but the ones SQL makes.
//
//   bare_sqlite FILE ROWS append BATCH COUNT   one event to a waiting job, COUNT times
//   bare_sqlite FILE ROWS life   BATCH COUNT   COUNT jobs from submission to last word
//   bare_sqlite FILE ROWS fill   EVENTS        EVENTS events of ended jobs, unsynced: what a store has seen before
//
// FILE was made by our journal. ROWS holds what each step writes, as our journal wrote it: one line per event and one
// per job row, fields parted by tabs. Prints the seconds that the loop took.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUBMIT, CLAIM, INTEND, LAUNCH, END, CHANGE, STEPS };
enum { EVENTS_MAX = 4, JOBS = 1000 };

struct event { char *kind, *body; };
struct step { struct event events[EVENTS_MAX]; int count; char *phase, *queue, *due, *owner, *outcome, *summary; };

static struct step steps[STEPS];
static sqlite3 *db;
static sqlite3_stmt *begin_, *commit_, *find, *insert_event, *insert_job, *update_job, *update_holder, *update_end,
    *insert_ready, *delete_ready, *lease, *ready, *load;
static const sqlite3_int64 now = 1794700800000;
static unsigned char incarnation[16];

static void die(const char *what) { fprintf(stderr, "%s: %s\n", what, db ? sqlite3_errmsg(db) : ""); exit(1); }
static void run(const char *sql) { if (sqlite3_exec(db, sql, 0, 0, 0)) die(sql); }
static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *s;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, 0)) die(sql);
    return s;
}
static void done(sqlite3_stmt *s) { if (sqlite3_step(s) != SQLITE_DONE) die(sqlite3_sql(s)); sqlite3_reset(s); }
static void text(sqlite3_stmt *s, int at, const char *v) {
    if (v && *v) sqlite3_bind_text(s, at, v, -1, SQLITE_TRANSIENT); else sqlite3_bind_null(s, at);
}
static void blob(sqlite3_stmt *s, int at, const void *v) { sqlite3_bind_blob(s, at, v, 16, SQLITE_TRANSIENT); }

static char *field(char **line) {
    char *start = *line, *tab = strpbrk(start, "\t\n");
    if (!tab) die("a row is too short");
    *line = tab + 1; *tab = 0;
    return strdup(start);
}

// "event STEP kind body" and "job STEP phase queue due owner outcome summary"
static void read_rows(const char *path) {
    FILE *f = fopen(path, "r");
    char *line = 0, *p; size_t size = 0;
    if (!f) die(path);
    while (getline(&line, &size, f) > 0) {
        p = line;
        char *what = field(&p); struct step *s = &steps[atoi(field(&p))];
        if (!strcmp(what, "event")) {
            struct event *e = &s->events[s->count++];
            e->kind = field(&p); e->body = field(&p);
        } else {
            s->phase = field(&p); s->queue = field(&p); s->due = field(&p); s->owner = field(&p);
            s->outcome = field(&p); s->summary = field(&p);
        }
    }
    fclose(f);
}

// A version 7 UUID whose time goes up with its number, as ids do that are made one after another.
static void job_id(unsigned char *id, sqlite3_uint64 n) {
    sqlite3_uint64 ms = now + n / 16;
    memset(id, 0, 16);
    for (int i = 0; i < 6; i++) id[i] = ms >> (40 - 8 * i);
    id[6] = 0x70; id[8] = 0x80;
    for (int i = 0; i < 7; i++) id[9 + i] = n >> (48 - 8 * i);
}

static void prepare_all(void) {
    begin_ = prepare("begin immediate"); commit_ = prepare("commit");
    find = prepare("select version, holder_owner, holder_incarnation, holder_epoch, outcome is not null, due, provider, "
        "reference, least_reader from jobs where job = ?1");
    insert_event = prepare("insert into events (job, seq, at, append, kind, version, body) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    insert_job = prepare("insert into jobs (job, version, phase, queue, priority, due, holder_owner, holder_incarnation, "
        "holder_epoch, outcome, least_reader, fold, provider, reference, submitted_at, updated_at, news, summary) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)");
#define UPDATE "update jobs set version = ?2, phase = ?3, due = ?4, least_reader = ?5, fold = ?6, provider = ?7, " \
    "reference = ?8, updated_at = ?9, news = ?10, summary = ?11"
#define HOLDER ", holder_owner = ?12, holder_incarnation = ?13, holder_epoch = ?14"
    update_job = prepare(UPDATE " where job = ?1");
    update_holder = prepare(UPDATE HOLDER " where job = ?1");
    update_end = prepare(UPDATE HOLDER ", outcome = ?15 where job = ?1");
    insert_ready = prepare("insert into ready (queue, rank, due, job) values (?1, ?2, ?3, ?4)");
    delete_ready = prepare("delete from ready where queue = ?1 and rank = ?2 and due = ?3 and job = ?4");
    lease = prepare("select 1 from owners where owner = ?1 and incarnation = ?2 and until > ?3");
    ready = prepare("select rank, due, job from ready where queue = ?1 and (rank, due, job) > (?2, ?3, ?4) "
        "and due <= ?5 order by rank, due, job limit ?6");
    load = prepare("select seq, at, kind, version, body from events where job = ?1 and seq > ?2 order by seq");
}

// What stands; returns the version, and the due time in *due (-1 for none).
static sqlite3_int64 look(const unsigned char *id, sqlite3_int64 *due) {
    sqlite3_int64 version = 0;
    *due = -1;
    blob(find, 1, id);
    if (sqlite3_step(find) == SQLITE_ROW) {
        version = sqlite3_column_int64(find, 0);
        sqlite3_column_text(find, 1); sqlite3_column_blob(find, 2); sqlite3_column_int(find, 3);
        sqlite3_column_int(find, 4);
        if (sqlite3_column_type(find, 5) != SQLITE_NULL) *due = sqlite3_column_int64(find, 5);
        sqlite3_column_text(find, 6); sqlite3_column_int(find, 8);
    }
    sqlite3_reset(find);
    return version;
}

static void write_step(int which, const unsigned char *id) {
    struct step *s = &steps[which];
    sqlite3_int64 was, due = *s->due ? now : -1, version = look(id, &was);
    for (int i = 0; i < s->count; i++) {
        blob(insert_event, 1, id); sqlite3_bind_int64(insert_event, 2, version + 1 + i);
        sqlite3_bind_int64(insert_event, 3, now); blob(insert_event, 4, id);
        text(insert_event, 5, s->events[i].kind); sqlite3_bind_int(insert_event, 6, 1);
        text(insert_event, 7, s->events[i].body);
        done(insert_event);
    }
    version += s->count;
    if (which == SUBMIT) {
        sqlite3_stmt *q = insert_job;
        blob(q, 1, id); sqlite3_bind_int64(q, 2, version); text(q, 3, s->phase); text(q, 4, s->queue);
        sqlite3_bind_int(q, 5, 0); sqlite3_bind_int64(q, 6, due); sqlite3_bind_null(q, 7); sqlite3_bind_null(q, 8);
        sqlite3_bind_null(q, 9); sqlite3_bind_null(q, 10); sqlite3_bind_int(q, 11, 1); sqlite3_bind_int(q, 12, 1);
        sqlite3_bind_null(q, 13); sqlite3_bind_null(q, 14); sqlite3_bind_int64(q, 15, now);
        sqlite3_bind_int64(q, 16, now); sqlite3_bind_int(q, 17, 0); text(q, 18, s->summary);
        done(q);
    } else {
        sqlite3_stmt *q = which == CLAIM ? update_holder : which == END ? update_end : update_job;
        blob(q, 1, id); sqlite3_bind_int64(q, 2, version); text(q, 3, s->phase);
        if (due >= 0) sqlite3_bind_int64(q, 4, due); else sqlite3_bind_null(q, 4);
        sqlite3_bind_int(q, 5, 1); sqlite3_bind_int(q, 6, 1); sqlite3_bind_null(q, 7); sqlite3_bind_null(q, 8);
        sqlite3_bind_int64(q, 9, now); sqlite3_bind_int(q, 10, 0); text(q, 11, s->summary);
        if (q != update_job) {
            text(q, 12, s->owner);
            if (*s->owner) blob(q, 13, incarnation); else sqlite3_bind_null(q, 13);
            if (*s->owner) sqlite3_bind_int(q, 14, 1); else sqlite3_bind_null(q, 14);
        }
        if (q == update_end) text(q, 15, s->outcome);
        done(q);
    }
    if (was != due) {
        sqlite3_stmt *q = due >= 0 ? insert_ready : delete_ready;
        text(q, 1, s->queue); sqlite3_bind_int(q, 2, 0); sqlite3_bind_int64(q, 3, due >= 0 ? due : was);
        blob(q, 4, id);
        done(q);
    }
}

static void claim(void) {
    unsigned char id[16], zero[16] = {0};
    text(lease, 1, steps[CLAIM].owner); blob(lease, 2, incarnation); sqlite3_bind_int64(lease, 3, now);
    sqlite3_step(lease); sqlite3_reset(lease);
    text(ready, 1, steps[SUBMIT].queue); sqlite3_bind_int64(ready, 2, (sqlite3_int64)1 << 63);
    sqlite3_bind_int64(ready, 3, (sqlite3_int64)1 << 63); blob(ready, 4, zero);
    sqlite3_bind_int64(ready, 5, now); sqlite3_bind_int(ready, 6, 1);
    if (sqlite3_step(ready) != SQLITE_ROW) die("nothing is ready");
    memcpy(id, sqlite3_column_blob(ready, 2), 16);
    sqlite3_reset(ready);
    blob(load, 1, id); sqlite3_bind_int64(load, 2, 0);
    while (sqlite3_step(load) == SQLITE_ROW) {
        sqlite3_column_int64(load, 0); sqlite3_column_text(load, 2); sqlite3_column_text(load, 4);
    }
    sqlite3_reset(load);
    write_step(CLAIM, id);
}

static void life(long batch, long count) {
    static const int order[] = {SUBMIT, CLAIM, INTEND, LAUNCH, END};
    unsigned char id[16];
    for (long from = 0; from < count; from += batch)
        for (int o = 0; o < 5; o++) {
            done(begin_);
            for (long n = from; n < from + batch && n < count; n++) {
                job_id(id, n);
                if (order[o] == CLAIM) claim(); else write_step(order[o], id);
            }
            done(commit_);
        }
}

static void append(long batch, long count) {
    unsigned char id[16];
    for (long from = 0; from < count; from += batch) {
        done(begin_);
        for (long n = from; n < from + batch && n < count; n++) { job_id(id, n % JOBS); write_step(CHANGE, id); }
        done(commit_);
    }
}

// Ended jobs of ten events each: the steps of a life, padded with changes.
static void fill(long events) {
    unsigned char id[16];
    run("pragma synchronous = off; pragma cache_size = -400000; pragma wal_autocheckpoint = 100000");
    for (long n = 0; n < events / 10;) {
        done(begin_);
        for (long end = n + 10000; n < end && n < events / 10; n++) {
            job_id(id, n);
            write_step(SUBMIT, id);
            for (int i = 0; i < 4; i++) write_step(CHANGE, id);
            write_step(CLAIM, id); write_step(INTEND, id); write_step(LAUNCH, id); write_step(END, id);
        }
        done(commit_);
    }
    run("pragma wal_checkpoint(truncate)");
}

int main(int argc, char **argv) {
    struct timespec a, b;
    unsigned char id[16];
    if (argc < 5) die("bare_sqlite FILE ROWS append|life BATCH COUNT | fill EVENTS");
    if (sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, 0)) die(argv[1]);
    read_rows(argv[2]);
    run("pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -16384");
    prepare_all();
    long batch = atol(argv[4]), count = argc > 5 ? atol(argv[5]) : 0;
    incarnation[15] = 1;
    if (!strcmp(argv[3], "append")) {
        done(begin_);
        for (int n = 0; n < JOBS; n++) { job_id(id, n); write_step(SUBMIT, id); }
        done(commit_);
    }
    clock_gettime(CLOCK_MONOTONIC, &a);
    if (!strcmp(argv[3], "append")) append(batch, count);
    else if (!strcmp(argv[3], "life")) life(batch, count);
    else fill(batch);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.6f\n", (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9);
    sqlite3_close(db);
    return 0;
}

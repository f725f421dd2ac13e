/* Makes every flush to disk slower by SLOW_FLUSH_MICROS: stands in for a disk across a network. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_the_disk(void) {
    static long micros = -1;
    if (micros < 0) {
        const char *set = getenv("SLOW_FLUSH_MICROS");
        micros = set ? atol(set) : 0;
    }
    struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
    if (micros > 0) nanosleep(&pause, NULL);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_the_disk();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_the_disk();
    return real(file);
}

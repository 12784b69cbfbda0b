/* A wall clock that a test can move, for a server in C: preloaded, it adds the milliseconds that stand in the file named by
 * MOVED_CLOCK to what the kernel says. The clock of time-outs, CLOCK_MONOTONIC, goes on as it is, as with a real jump. System
 * calls are made directly: looking up the original functions would call malloc, and jemalloc asks for the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *moved_ms;

static long long moved_seconds(void) {
  if (moved_ms == NULL) {
    const char *path = getenv("MOVED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY);
    if (file < 0) return 0;
    void *map = mmap(NULL, sizeof *moved_ms, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) return 0;
    moved_ms = map;
  }
  return *moved_ms / 1000;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += moved_seconds();
  return (int)result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != NULL) *now = precise.tv_sec;
  return precise.tv_sec;
}

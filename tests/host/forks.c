/* Processes that fork while the library is at work for the first time: measures the host, opens the
 * code generator, compiles. Their children make sessions of their own, which run and end. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XC_TEST_LEAVES_SESSIONS_OPEN
#include "network.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

enum { kMostMs = 30, kSeconds = 60 };

static void run(network* n, int64_t rows) {
  static float x[kMostRows * kColumns];
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  fill_input(x, kMostRows);
  CHECK(network_run(n, x, rows, out, NULL) == XC_OK);
  drop_outputs(out);
}

/* In the child of a process whose background thread was busy. */
static int be_born(network* inherited) {
  static const char* const modes[] = {"sync", "auto", "off"};
  xc_error* error = NULL;
  int mode, k;
  alarm(kSeconds); /* what hangs dies, and the parent says so */
  for (k = 0; k < 20; ++k) run(inherited, 1 + k % kMostRows);
  for (mode = 0; mode < 3; ++mode) {
    network own;
    CHECK_OK(network_open(&own, modes[mode], 1, NULL, &error));
    for (k = 0; k < 20; ++k) run(&own, 1 + k % kMostRows);
    network_close(&own);
  }
  return check_result();
}

/* In a process of its own, where nothing was measured or opened yet. */
static int fork_after(long ms) {
  network n;
  struct timespec start, now;
  xc_error* error = NULL;
  int64_t rows = 1;
  int status = 0;
  pid_t child;
  CHECK_OK(network_open(&n, "auto", 1, NULL, &error));
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    run(&n, rows);
    rows = rows % kMostRows + 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
  child = fork();
  if (child == 0) _exit(be_born(&n));
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    fprintf(stderr, "a child forked after %ld ms hung\n", ms);
  for (rows = 1; rows <= kMostRows; ++rows) run(&n, rows); /* and the parent goes on */
  network_close(&n);
  return check_result();
}

int main(void) {
  long ms;
#ifdef SANITIZED
  printf("skipped: a child finds the sanitizer's allocator as other threads left it\n");
  return 0;
#endif
  for (ms = 0; ms <= kMostMs; ms += 2) {
    int status = 0;
    const pid_t first = fork();
    if (first == 0) _exit(fork_after(ms));
    CHECK(waitpid(first, &status, 0) == first);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return check_result();
}

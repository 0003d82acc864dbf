/* Clocks that nobody can rely on: the time of day jumps by years in both directions, the monotonic
 * clock stands still for 16 ms at a time and leaps ahead by hours as behind a suspended machine.
 * Results stay right, with a cache directory too, and nothing waits for ever. This program
 * defines the clock of the process. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

static int disturbed; /* 0 = the machine's clocks */
static int asked;
static long long leaps_ns;
static uint32_t state = 88172645u;

static uint32_t next_random(void) {
  /* Racy on purpose: any number will do. */
  uint32_t now = __atomic_load_n(&state, __ATOMIC_RELAXED);
  now ^= now << 13, now ^= now >> 17, now ^= now << 5;
  __atomic_store_n(&state, now, __ATOMIC_RELAXED);
  return now;
}

#pragma GCC visibility push(default)
int clock_gettime(clockid_t clock, struct timespec* out) {
  const int result = (int)syscall(SYS_clock_gettime, clock, out);
  if (result != 0 || !__atomic_load_n(&disturbed, __ATOMIC_SEQ_CST)) return result;
  __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
  if (clock == CLOCK_REALTIME) {
    out->tv_sec = (time_t)(next_random() % 4000000000u);
  } else if (clock == CLOCK_MONOTONIC) {
    long long ns;
    if (next_random() % 512 == 0)
      __atomic_add_fetch(&leaps_ns, 3600000000000LL * (1 + next_random() % 5), __ATOMIC_SEQ_CST);
    ns = out->tv_sec * 1000000000LL + out->tv_nsec;
    ns = ns / 16000000 * 16000000 + __atomic_load_n(&leaps_ns, __ATOMIC_SEQ_CST);
    out->tv_sec = (time_t)(ns / 1000000000LL);
    out->tv_nsec = (long)(ns % 1000000000LL);
  }
  return 0;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
#pragma GCC visibility pop

static float x[kMostRows * kColumns];

/* Runs of many sizes against mode off; how many are wrong or fail. */
static int stream(network* n, xc_tensor* expected[][kOutputs], int runs) {
  int i, bad = 0;
  for (i = 0; i < runs; ++i) {
    const int64_t rows = 1 + (i * 7) % kMostRows;
    xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
    fill_input(x, rows);
    bad += network_run(n, x, rows, out, NULL) != XC_OK || differing(expected[rows - 1], out) != 0;
    drop_outputs(out);
  }
  return bad;
}

int main(void) {
  const char* const modes[] = {"off", "auto", "sync"};
  static xc_tensor* expected[kMostRows][kOutputs];
  char cache[] = "/tmp/xc_clocks_XXXXXX";
  xc_error* error = NULL;
  network n;
  int k, turn;
  CHECK(mkdtemp(cache) != NULL);
  CHECK_OK(network_open(&n, "off", 1, NULL, &error));
  for (k = 0; k < kMostRows; ++k) {
    fill_input(x, k + 1);
    CHECK_OK(network_run(&n, x, k + 1, expected[k], &error));
  }
  network_close(&n);
  __atomic_store_n(&disturbed, 1, __ATOMIC_SEQ_CST);
  for (k = 0; k < 3; ++k)
    for (turn = 0; turn < 2; ++turn) {
      xc_run_options options = XC_RUN_OPTIONS_INIT;
      const int64_t dims[2] = {6, kColumns};
      xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
      xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
      xc_status status;
      int32_t idle = -1;
      CHECK_OK(network_open(&n, modes[k], 1 + turn, cache, &error));
      CHECK(stream(&n, expected, 3000) == 0);
      CHECK_OK(xc_session_wait_idle(n.session, 2000, &idle, &error));
      CHECK(stream(&n, expected, 300) == 0);
      /* A deadline may pass in a leap; nothing else may happen. */
      options.timeout_ns = 1000000000;
      fill_input(x, 6);
      view.data = x;
      view.dims = dims;
      status = xc_session_run_views(n.session, &options, &view, 1, out, kOutputs, &error);
      CHECK(status == XC_OK || status == XC_DEADLINE);
      xc_error_destroy(error);
      error = NULL;
      drop_outputs(out);
      network_close(&n);
    }
  __atomic_store_n(&disturbed, 0, __ATOMIC_SEQ_CST);
  printf("%d looks at the clock\n", asked);
  CHECK(asked > 1000); /* it is this clock that the library reads */
  for (k = 0; k < kMostRows; ++k) drop_outputs(expected[k]);
  CHECK(remove_folder(cache));
  return check_result();
}

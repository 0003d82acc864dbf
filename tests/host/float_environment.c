/* Rounding modes, flushed denormals and unmasked exceptions that the host has set: results are
 * those of the default environment, and the host finds its own again, flags included, behind every
 * function. */
#define _GNU_SOURCE
#include <pthread.h>

#include "network.h"

#if !defined(__x86_64__)
int main(void) {
  printf("skipped: knows the registers of x86-64 only\n");
  return 0;
}
#else
#include <xmmintrin.h>

static unsigned short x87_control(void) {
  unsigned short word;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return word;
}

static void set_x87_control(unsigned short word) {
  __asm__ volatile("fldcw %0" : : "m"(word));
}

enum {
  kDefaultSse = 0x1f80,
  kFlushToZero = 0x8000,
  kDenormalsAreZero = 0x0040,
  kDefaultX87 = 0x37f,
  kX87Single = 0x07f
};

typedef struct environment {
  const char* name;
  unsigned sse;
  unsigned short x87;
} environment;

/* Exception bits 7 to 12 mask; without those of invalid, division, overflow the host traps. */
static const environment kEnvironments[] = {
    {"default", kDefaultSse, kDefaultX87},
    {"default, flags of the host", kDefaultSse | 0x14, kDefaultX87},
    {"down", kDefaultSse | 0x2000, 0x77f},
    {"up", kDefaultSse | 0x4000, 0xb7f},
    {"to zero", kDefaultSse | 0x6000, 0xf7f},
    {"flush to zero", kDefaultSse | kFlushToZero, kDefaultX87},
    {"denormals are zero", kDefaultSse | kDenormalsAreZero, kDefaultX87},
    {"audio", kDefaultSse | kFlushToZero | kDenormalsAreZero, kDefaultX87},
    {"audio, up", kDefaultSse | kFlushToZero | kDenormalsAreZero | 0x4000, 0xb7f},
    {"traps", kDefaultSse & ~0x0680u, 0x372},
    {"all traps", kDefaultSse & ~0x1f80u, 0x340},
    {"traps, audio, down", (kDefaultSse & ~0x0680u) | kFlushToZero | kDenormalsAreZero | 0x2000,
     0x772},
    {"x87 of single precision", kDefaultSse, kX87Single},
    {"x87 of single precision, up", kDefaultSse | 0x4000, 0x87f},
    {"traps of invalid", kDefaultSse & ~0x0080u, 0x37e},
    {"traps of denormals", kDefaultSse & ~0x0100u, 0x37d},
};

static void enter(const environment* e) {
  set_x87_control(e->x87);
  _mm_setcsr(e->sse);
}

/* Nothing of this program is computed in the host's environment: what the compiler makes of it
 * could trap. */
static void leave(const environment* e, const char* where) {
  const unsigned sse = _mm_getcsr();
  const unsigned short x87 = x87_control();
  _mm_setcsr(kDefaultSse);
  set_x87_control(kDefaultX87);
  if (sse != e->sse || x87 != e->x87)
    fprintf(stderr, "%s behind %s: %#x, %#x; was %#x, %#x\n", e->name, where, sse, x87, e->sse,
            e->x87);
  CHECK(sse == e->sse);
  CHECK(x87 == e->x87);
}

static void compare(const environment* e, const char* mode, int64_t threads, xc_tensor** expected,
                    int64_t rows) {
  static float x[kMostRows * kColumns];
  xc_error* error = NULL;
  xc_tensor* got[kOutputs] = {NULL, NULL, NULL, NULL};
  network n;
  xc_status status;
  int run, different = 0, runs = strcmp(mode, "auto") == 0 ? 400 : 3;
  fill_input(x, rows);

  enter(e);
  status = network_open(&n, mode, threads, NULL, &error);
  leave(e, "network_open");
  if (!CHECK_OK(status)) return;
  for (run = 0; run < runs; ++run) {
    enter(e);
    status = network_run(&n, x, rows, got, &error);
    leave(e, "xc_session_run_views");
    if (!CHECK_OK(status)) break;
    different += differing(expected, got);
  }
  CHECK(different == 0);
  drop_outputs(got);

  /* Errors leave it as it was, too, and so do destructors. */
  enter(e);
  status = xc_session_run(n.session, NULL, NULL, 1, NULL, 0, &error);
  leave(e, "a failure");
  CHECK_FAILS(XC_INVALID_ARGUMENT, status);
  enter(e);
  network_close(&n);
  leave(e, "network_close");
}

/* ---- tasks on a thread of the host ---- */

typedef struct work {
  int64_t tasks;
  xc_task_fn task;
  void* body;
} work;

static const environment* of_runner;

static void* run_tasks(void* argument) {
  const work* w = (const work*)argument;
  int64_t i;
  for (i = 0; i < w->tasks; ++i) {
    enter(of_runner);
    w->task(w->body, i, 1);
    leave(of_runner, "a task");
  }
  return NULL;
}

static void run_elsewhere(void* user_data, int64_t tasks, xc_task_fn task, void* body) {
  work w;
  pthread_t thread;
  (void)user_data;
  w.tasks = tasks;
  w.task = task;
  w.body = body;
  CHECK(pthread_create(&thread, NULL, run_tasks, &w) == 0);
  pthread_join(thread, NULL);
}

static void compare_on_threads_of_the_host(xc_tensor** expected, int64_t rows) {
  static float x[kMostRows * kColumns];
  size_t e;
  fill_input(x, rows);
  for (e = 0; e < sizeof kEnvironments / sizeof *kEnvironments; ++e) {
    xc_error* error = NULL;
    xc_tensor* got[kOutputs] = {NULL, NULL, NULL, NULL};
    network n;
    xc_config config = XC_CONFIG_INIT;
    xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
    config.jit = XC_JIT_OFF;
    options.config = &config;
    options.tasks.run = run_elsewhere;
    options.tasks.workers = 2;
    of_runner = &kEnvironments[e];
    CHECK_OK(network_open_with(&n, &options, &error));
    CHECK_OK(network_run(&n, x, rows, got, &error));
    CHECK(differing(expected, got) == 0);
    drop_outputs(got);
    network_close(&n);
  }
}

int main(void) {
  static float x[kMostRows * kColumns];
  const char* const modes[] = {"off", "sync", "auto"};
  const int64_t rows = 17;
  size_t mode, e;
  int64_t threads;
  for (mode = 0; mode < 3; ++mode) {
    xc_error* error = NULL;
    xc_tensor* expected[kOutputs] = {NULL, NULL, NULL, NULL};
    network n;
    fill_input(x, rows);
    CHECK_OK(network_open(&n, modes[mode], 1, NULL, &error));
    CHECK_OK(network_run(&n, x, rows, expected, &error));
    network_close(&n);
    for (e = 0; e < sizeof kEnvironments / sizeof *kEnvironments; ++e)
      for (threads = 1; threads <= 2; ++threads)
        compare(&kEnvironments[e], modes[mode], threads, expected, rows);
    if (strcmp(modes[mode], "off") == 0) compare_on_threads_of_the_host(expected, rows);
    drop_outputs(expected);
  }
  return check_result();
}
#endif

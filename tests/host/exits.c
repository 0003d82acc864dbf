/* Processes that end while the library is at work, in every way there is: none crashes, hangs or
 * ends with another status than it meant to. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XC_TEST_LEAVES_SESSIONS_OPEN
#include "network.h"

enum { kStatus = 7, kSeconds = 60 };

static void pause_us(long us) {
  struct timespec t;
  t.tv_sec = 0;
  t.tv_nsec = us * 1000;
  nanosleep(&t, NULL);
}

static network shared;
static char cache[] = "/tmp/xc-exits-XXXXXX";

static void* run_for_ever(void* argument) {
  static float x[kMostRows * kColumns];
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  int64_t rows;
  (void)argument;
  fill_input(x, kMostRows);
  for (rows = 1;; rows = rows % kMostRows + 1) {
    if (network_run(&shared, x, rows, out, NULL) != XC_OK) continue;
    drop_outputs(out);
  }
  return NULL;
}

static void* exit_from_here(void* argument) {
  pause_us((long)(size_t)argument);
  exit(kStatus);
  return NULL;
}

static void exit_at_event(void* user_data, const struct xc_event* event) {
  (void)user_data;
  if (event->kind == XC_EVENT_COMPILED || event->kind == XC_EVENT_JIT_DISABLED) exit(kStatus);
}

static void start_session(const char* mode) {
  xc_error* error = NULL;
  CHECK_OK(network_open(&shared, mode, 2, NULL, &error));
}

static void run_some(long us) {
  static float x[kMostRows * kColumns];
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  struct timespec start, now;
  int64_t rows = 1;
  fill_input(x, kMostRows);
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    CHECK(network_run(&shared, x, rows, out, NULL) == XC_OK);
    drop_outputs(out);
    rows = rows % kMostRows + 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* A session in mode auto that has run for so long. */
static void begin(long us) {
  start_session("auto");
  run_some(us);
}

/* Each ends the process with kStatus `us` microseconds after its session began, about. */
static void leave_session_open(long us) {
  begin(us);
  exit(kStatus);
}
static void destroy_first(long us) {
  begin(us);
  network_close(&shared);
  exit(kStatus);
}
static void quickly(long us) {
  begin(us);
  quick_exit(kStatus);
}
static void at_once(long us) {
  begin(us);
  _exit(kStatus);
}
static void while_others_run(long us) {
  pthread_t thread;
  start_session("auto");
  CHECK(pthread_create(&thread, NULL, run_for_ever, NULL) == 0);
  pause_us(us);
  exit(kStatus);
}
static void from_another_thread(long us) {
  pthread_t thread;
  start_session("auto");
  CHECK(pthread_create(&thread, NULL, exit_from_here, (void*)(size_t)us) == 0);
  run_for_ever(NULL);
}
static void from_main_without_exit(long us) {
  pthread_t thread;
  start_session("auto");
  CHECK(pthread_create(&thread, NULL, exit_from_here, (void*)(size_t)us) == 0);
  pthread_exit(NULL);
}
static void in_a_callback(long us) {
  xc_error* error = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  config.jit = us % 2 ? XC_JIT_SYNC : XC_JIT_AUTO;
  options.config = &config;
  options.events.receive = exit_at_event;
  CHECK_OK(network_open_with(&shared, &options, &error));
  run_some(us);
  for (;;) run_some(1000000);
}
static void before_a_run(long us) {
  start_session(us % 2 ? "auto" : "sync");
  exit(kStatus);
}
static void with_sync(long us) {
  pthread_t thread;
  start_session("sync");
  CHECK(pthread_create(&thread, NULL, exit_from_here, (void*)(size_t)us) == 0);
  run_for_ever(NULL);
}

static void with_a_cache(long us) {
  pthread_t thread;
  xc_error* error = NULL;
  CHECK_OK(network_open(&shared, "sync", 2, cache, &error));
  CHECK(pthread_create(&thread, NULL, exit_from_here, (void*)(size_t)us) == 0);
  run_for_ever(NULL);
}

/* Whether kernels that were being tried count as what ended the process; empties the folder. */
static int blamed(void) {
  DIR* const folder = opendir(cache);
  const struct dirent* item;
  char path[sizeof cache + 256];
  int marks = 0;
  if (!CHECK(folder != NULL)) return 1;
  while ((item = readdir(folder)) != NULL) {
    if (item->d_name[0] == '.') continue;
    marks += strncmp(item->d_name, "trying-", 7) == 0;
    snprintf(path, sizeof path, "%s/%s", cache, item->d_name);
    remove(path);
  }
  closedir(folder);
  return marks;
}

int main(void) {
  static const struct {
    const char* name;
    void (*way)(long us);
  } ways[] = {{"session open", leave_session_open},
              {"session destroyed", destroy_first},
              {"quick_exit", quickly},
              {"_exit", at_once},
              {"exit while others run", while_others_run},
              {"exit from another thread", from_another_thread},
              {"main thread gone first", from_main_without_exit},
              {"exit in a callback", in_a_callback},
              {"exit before a run", before_a_run},
              {"exit from another thread, sync", with_sync},
              {"exit with a cache", with_a_cache}};
  const char* const repeats = getenv("XC_HOST_REPEATS");
  const int rounds = repeats ? atoi(repeats) : 12;
  size_t way;
  int round;
  if (!CHECK(mkdtemp(cache) != NULL)) return check_result();
  for (way = 0; way < sizeof ways / sizeof *ways; ++way)
    for (round = 0; round < rounds; ++round) {
      const long us = 41 + 3001L * round;
      int status = 0;
      const pid_t child = fork();
      if (child == 0) {
        alarm(kSeconds); /* what hangs is ended, and seen */
        ways[way].way(us);
        _exit(99);
      }
      if (!CHECK(waitpid(child, &status, 0) == child)) continue;
      if (!CHECK(WIFEXITED(status) && WEXITSTATUS(status) == kStatus))
        fprintf(stderr, "%s after %ld us: %s %d\n", ways[way].name, us,
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
      if (!CHECK(blamed() == 0)) fprintf(stderr, "%s after %ld us\n", ways[way].name, us);
    }
  CHECK(remove_folder(cache));
  return check_result();
}

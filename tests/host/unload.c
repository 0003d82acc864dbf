/* A plug-in's host opens and closes the library again and again, with RTLD_DEEPBIND too, by a
 * relative path and from another folder, and while a session lives: nothing crashes, and nothing
 * grows. This program is not linked with the library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#define XC_TEST_LEAVES_SESSIONS_OPEN
#include "network.h"

/* What network.h calls, of the library that is open. */
static void* library;
static void* find(const char* name) {
  void* address = dlsym(library, name);
  if (!CHECK(address != NULL)) exit(1);
  return address;
}
#define FORWARD(type, name, parameters, arguments) \
  type name parameters {                           \
    type(*f) parameters;                           \
    *(void**)&f = find(#name);                     \
    return f arguments;                            \
  }
FORWARD(xc_status, xc_config_set, (xc_config * c, const char* n, const char* v, xc_error** e),
        (c, n, v, e))
FORWARD(xc_status, xc_engine_create, (const xc_engine_options* o, xc_engine** out, xc_error** e),
        (o, out, e))
FORWARD(xc_status, xc_model_load_bytes,
        (xc_engine * g, const void* d, uint64_t s, xc_model** out, xc_error** e), (g, d, s, out, e))
FORWARD(xc_status, xc_session_create,
        (xc_model * m, const xc_session_options* o, xc_session** out, xc_error** e), (m, o, out, e))
FORWARD(xc_status, xc_session_run_views,
        (xc_session * s, const xc_run_options* o, const xc_tensor_view* i, uint32_t n,
         xc_tensor** out, uint32_t m, xc_error** e),
        (s, o, i, n, out, m, e))
FORWARD(xc_status, xc_session_wait_idle, (xc_session * s, int64_t t, int32_t* i, xc_error** e),
        (s, t, i, e))
FORWARD(xc_status, xc_session_counters, (xc_session * s, struct xc_counters* c, xc_error** e),
        (s, c, e))
FORWARD(int64_t, xc_tensor_element_count, (const xc_tensor* t), (t))
FORWARD(void*, xc_tensor_data, (const xc_tensor* t), (t))
FORWARD(const char*, xc_status_name, (xc_status s), (s))
FORWARD(const char*, xc_error_text, (const xc_error* e), (e))
FORWARD(const char*, xc_error_message, (const xc_error* e), (e))
FORWARD(xc_status, xc_error_status, (const xc_error* e), (e))
#define FORWARD_VOID(name, parameter) \
  void name(parameter* p) {           \
    void (*f)(parameter*);            \
    *(void**)&f = find(#name);        \
    f(p);                             \
  }
FORWARD_VOID(xc_session_destroy, xc_session)
FORWARD_VOID(xc_model_release, xc_model)
FORWARD_VOID(xc_engine_release, xc_engine)
FORWARD_VOID(xc_tensor_release, xc_tensor)
FORWARD_VOID(xc_error_destroy, xc_error)

static int entries(const char* folder) {
  int count = 0;
  DIR* const dir = opendir(folder);
  if (!dir) return 0;
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

/* Whether this thread is the process's only one. The kernel wakes who joins a thread a moment
   before it takes the thread off the list; a thread of low priority may be put aside in that
   moment. */
static int alone(void) {
  int tries;
  for (tries = 0; tries < 2000; ++tries) {
    if (entries("/proc/self/task") == 3) return 1; /* with . and .. */
    usleep(1000);
  }
  return 0;
}

static long mapped_kib(void) {
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void open_library(const char* path, int flags) {
  library = dlopen(path, flags);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  if (!CHECK(library != NULL)) exit(1);
}

/* Opens, runs some hundred times, closes; whether something was compiled. */
static int live(const char* path, int flags, const char* mode, int leave_open) {
  static float x[kMostRows * kColumns];
  xc_error* error = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  xc_counters counters = XC_COUNTERS_INIT;
  int i, bad = 0;
  network n;
  open_library(path, flags);
  CHECK_OK(network_open(&n, mode, 2, NULL, &error));
  for (i = 0; i < 100; ++i) {
    fill_input(x, 1 + i % kMostRows);
    bad += network_run(&n, x, 1 + i % kMostRows, out, NULL) != XC_OK;
    drop_outputs(out);
  }
  CHECK(bad == 0);
  CHECK_OK(xc_session_counters(n.session, &counters, &error));
  if (!leave_open) network_close(&n);
  CHECK(dlclose(library) == 0);
  return counters.compiled_regions > 0;
}

/* Opened by a relative path; then the host changes its folder, as daemons do. */
static int by_a_relative_path(void) {
  char folder[4096], name[4096 + 2];
  char* slash;
  snprintf(folder, sizeof folder, "%s", XC_LIBRARY);
  slash = strrchr(folder, '/');
  *slash = 0;
  snprintf(name, sizeof name, "./%s", slash + 1);
  CHECK(chdir(folder) == 0);
  open_library(name, RTLD_NOW);
  CHECK(chdir("/") == 0);
  CHECK(live(name, RTLD_NOW, "sync", 0) == XC_HAVE_JIT);
  return check_result();
}

int main(int argc, char** argv) {
  const char* const modes[] = {"off", "sync", "auto"};
  int flags[2] = {RTLD_NOW | RTLD_LOCAL, RTLD_NOW | RTLD_LOCAL}, mode, k, status = 0;
  pid_t child;
  CHECK(dlopen(XC_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL); /* or nothing would be seen here */
  if (argc > 1) return by_a_relative_path();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags[1] |= RTLD_DEEPBIND; /* the sanitizers refuse it */
#endif
  for (mode = 0; mode < 3; ++mode) {
    long kib = 0;
    int files = 0;
    for (k = 0; k < 30; ++k) {
      if (k == 10) {
        kib = mapped_kib();
        files = entries("/proc/self/fd");
      }
      live(XC_LIBRARY, flags[k % 2], modes[mode], 0);
      CHECK(alone());
    }
    printf("%s: %ld KiB more after 20 more rounds\n", modes[mode], mapped_kib() - kib);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(mapped_kib() - kib < 4096);
#endif
    CHECK(entries("/proc/self/fd") == files);
  }
  /* With a session left open, whose threads go on. */
  for (mode = 0; mode < 3; ++mode) live(XC_LIBRARY, flags[0], modes[mode], 1);
  usleep(200000);
  for (mode = 0; mode < 3; ++mode)
    CHECK(live(XC_LIBRARY, flags[0], modes[mode], 0) == (mode == 1 && XC_HAVE_JIT));

  /* In a process where it is not open yet. */
  child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "relative", (char*)NULL);
    _exit(99);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return check_result();
}

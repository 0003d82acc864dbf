/* A host that has run out of something: file descriptors, address space, processors, standard
 * streams. A clear error or a slower run, and everything again once there is more. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "network.h"

static float x[kMostRows * kColumns];

static int open_files(void) {
  int count = 0;
  DIR* const dir = opendir("/proc/self/fd");
  if (!dir) return -1;
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

/* Runs of many sizes; how many failed, or differ from mode off. */
static int run_sizes(network* n, network* reference, int runs) {
  xc_tensor *out[kOutputs] = {NULL}, *expected[kOutputs] = {NULL};
  int i, bad = 0;
  for (i = 0; i < runs; ++i) {
    const int64_t rows = 1 + i % kMostRows;
    fill_input(x, rows);
    if (network_run(n, x, rows, out, NULL) != XC_OK ||
        network_run(reference, x, rows, expected, NULL) != XC_OK ||
        !(distance(expected, out) < 1e-4))
      ++bad;
    drop_outputs(out);
    drop_outputs(expected);
  }
  return bad;
}

/* No descriptor is left: what needs one says so, or does without. */
static void no_descriptors(const char* mode) {
  xc_error* error = NULL;
  network n, reference;
  xc_model* model = NULL;
  struct rlimit limit, none;
  const int before = open_files();
  CHECK_OK(network_open(&reference, "off", 1, NULL, &error));
  getrlimit(RLIMIT_NOFILE, &limit);
  none = limit;
  none.rlim_cur = 3; /* standard streams */
  setrlimit(RLIMIT_NOFILE, &none);
  CHECK(open("/dev/null", O_RDONLY) < 0);
  CHECK_OK(network_open(&n, mode, 2, NULL, &error));
  CHECK(run_sizes(&n, &reference, 200) == 0);
  CHECK_FAILS(XC_IO, xc_model_load_file(n.engine, XC_SOURCE_DIR "/samples/digits/digits.onnx",
                                        &model, &error));
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK_OK(
      xc_model_load_file(n.engine, XC_SOURCE_DIR "/samples/digits/digits.onnx", &model, &error));
  xc_model_release(model);
  CHECK(run_sizes(&n, &reference, 200) == 0);
  network_close(&n);
  network_close(&reference);
  CHECK(open_files() == before);
}

/* Address space for `mib` more: every function works or says that memory is short. */
static __attribute__((unused)) void short_address_space(const char* mode, long mib) {
  xc_error* error = NULL;
  network n, reference;
  struct rlimit limit, less;
  xc_tensor* out[kOutputs] = {NULL};
  xc_status status;
  long pages = 0;
  int i;
  FILE* file;
  CHECK_OK(network_open(&reference, "off", 1, NULL, &error));
  file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld", &pages) != 1) {
    printf("skipped: no /proc\n");
    if (file) fclose(file);
    network_close(&reference);
    return;
  }
  fclose(file);
  getrlimit(RLIMIT_AS, &limit);
  less = limit;
  less.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mib << 20);
  fill_input(x, 11);
  setrlimit(RLIMIT_AS, &less);
  status = network_open(&n, mode, 2, NULL, &error);
  CHECK(status == XC_OK || status == XC_OUT_OF_MEMORY);
  for (i = 0; i < 200 && status == XC_OK; ++i) {
    xc_error_destroy(error);
    error = NULL;
    status = network_run(&n, x, 11, out, &error);
    CHECK(status == XC_OK || status == XC_OUT_OF_MEMORY);
    drop_outputs(out);
  }
  setrlimit(RLIMIT_AS, &limit);
  printf("%ld MiB, %s: %s\n", mib, mode, xc_status_name(status));
  xc_error_destroy(error);
  error = NULL;
  if (n.session) CHECK(run_sizes(&n, &reference, 100) == 0);
  network_close(&n);
  CHECK_OK(network_open(&n, mode, 2, NULL, &error));
  CHECK(run_sizes(&n, &reference, 100) == 0);
  network_close(&n);
  network_close(&reference);
}

/* One processor for eight threads. */
static void one_processor(const char* mode) {
  xc_error* error = NULL;
  network n, reference;
  cpu_set_t all, one;
  int cpu = 0;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK_OK(network_open(&reference, "off", 1, NULL, &error));
  CHECK_OK(network_open(&n, mode, 8, NULL, &error));
  CHECK(run_sizes(&n, &reference, 200) == 0);
  network_close(&n);
  network_close(&reference);
  sched_setaffinity(0, sizeof all, &all);
}

/* A daemon has closed its standard streams: what the library opens gets their numbers. */
static void no_streams(const char* mode) {
  xc_error* error = NULL;
  network n, reference;
  xc_model* model = NULL;
  close(0);
  close(1);
  close(2);
  CHECK_OK(network_open(&reference, "off", 1, NULL, &error));
  CHECK_OK(network_open(&n, mode, 2, NULL, &error));
  CHECK(run_sizes(&n, &reference, 300) == 0);
  CHECK_OK(
      xc_model_load_file(n.engine, XC_SOURCE_DIR "/samples/digits/digits.onnx", &model, &error));
  xc_model_release(model);
  network_close(&n);
  network_close(&reference);
}

/* Each in a process of its own, for the first failure to open the code generator is remembered. */
static void in_a_child(void (*body)(const char*, long), const char* mode, long number) {
  int status = 0;
  pid_t child;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(120);
    check_failures = 0;
    body(mode, number);
    fflush(stdout);
    _exit(check_failures != 0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (!CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0))
    fprintf(stderr, "mode %s, %ld: status %#x\n", mode, number, (unsigned)status);
}

static void descriptors_body(const char* mode, long unused) {
  (void)unused;
  no_descriptors(mode);
}
static void processor_body(const char* mode, long unused) {
  (void)unused;
  one_processor(mode);
}
static void streams_body(const char* mode, long unused) {
  (void)unused;
  no_streams(mode);
}

int main(void) {
  const char* const modes[] = {"off", "sync", "auto"};
  int mode;
  for (mode = 0; mode < 3; ++mode) {
    in_a_child(descriptors_body, modes[mode], 0);
    in_a_child(processor_body, modes[mode], 0);
    in_a_child(streams_body, modes[mode], 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    {
      long mib;
      for (mib = 0; mib <= 96; mib = mib ? 2 * mib : 3)
        in_a_child(short_address_space, modes[mode], mib);
    }
#endif
  }
  return check_result();
}

/* A storm of signals, with handlers that do not restart system calls: every function succeeds all
 * the same, no handler of the host is replaced, none runs on a thread of the library, and none
 * finds the stack pointer anywhere but in the thread's stack (it did: oneDNN's sgemm). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "network.h"

static pthread_t host_thread;
static char *stack_low, *stack_high;
static volatile sig_atomic_t caught, elsewhere, astray;

static void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  (void)number;
  (void)info;
  ++caught;
  if (!pthread_equal(pthread_self(), host_thread)) ++elsewhere;
#if defined(__x86_64__)
  {
    const char* const at = (const char*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RSP];
    if (at < stack_low || at > stack_high) ++astray;
  }
#endif
  errno = saved;
}

static void know_stack(void) {
  pthread_attr_t attributes;
  void* low = NULL;
  size_t size = 0;
  CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
  CHECK(pthread_attr_getstack(&attributes, &low, &size) == 0);
  pthread_attr_destroy(&attributes);
  stack_low = (char*)low;
  stack_high = stack_low + size;
}

static void storm(long microseconds) {
  struct itimerval timer;
  memset(&timer, 0, sizeof timer);
  timer.it_interval.tv_usec = timer.it_value.tv_usec = microseconds;
  setitimer(ITIMER_REAL, &timer, NULL);
}

static void dispositions(struct sigaction* out) {
  int number;
  memset(out, 0, sizeof *out * NSIG);
  for (number = 1; number < NSIG; ++number) sigaction(number, NULL, &out[number]);
}

/* A life: load, first runs, compiled ones, everything that waits or reads and writes files. */
static void live(const char* mode, const char* cache_dir, xc_tensor** expected) {
  static float x[kMostRows * kColumns];
  xc_error* error = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  xc_blob* text = NULL;
  xc_graph* graph = NULL;
  xc_model* model = NULL;
  xc_shape shape;
  int64_t dims[2] = {5, kColumns};
  char path[128];
  int32_t done = 0;
  int i, different = 0;
  network n;
  CHECK_OK(network_open(&n, mode, 2, cache_dir, &error));
  for (i = 0; i < 300; ++i) {
    const int64_t rows = i % 3 ? 13 : 1 + i % kMostRows;
    fill_input(x, rows);
    CHECK_OK(network_run(&n, x, rows, out, &error));
    if (rows == 13) different += differing(expected, out);
    drop_outputs(out);
  }
  CHECK(different == 0);
  shape.dims = dims;
  shape.rank = 2;
  CHECK_OK(xc_session_warm_up(n.session, &shape, 1, 20000, &done, &error));
  CHECK_OK(xc_session_wait_idle(n.session, 20000, &done, &error));
  CHECK_OK(xc_session_explain(n.session, XC_EXPLAIN_TEXT, NULL, 0, &text, &error));
  xc_blob_destroy(text);
  CHECK_OK(xc_model_graph(n.model, &graph, &error));
  snprintf(path, sizeof path, "%s/saved.onnx", cache_dir);
  CHECK_OK(xc_graph_save_file(graph, path, &error));
  xc_graph_destroy(graph);
  CHECK_OK(xc_model_load_file(n.engine, path, &model, &error));
  xc_model_release(model);
  network_close(&n);
}

int main(void) {
  static struct sigaction before[NSIG], behind[NSIG];
  static float x[kMostRows * kColumns];
  const char* const modes[] = {"off", "sync", "auto"};
  struct sigaction action;
  int mode, number;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO; /* without SA_RESTART */
  sigfillset(&action.sa_mask);
  host_thread = pthread_self();
  know_stack();
  for (number = 0; number < 3; ++number)
    sigaction((const int[]){SIGALRM, SIGUSR1, SIGCHLD}[number], &action, NULL);
  dispositions(before);
  for (mode = 0; mode < 3; ++mode) {
    char folder[] = "/tmp/xc_signals_XXXXXX";
    xc_error* error = NULL;
    xc_tensor* expected[kOutputs] = {NULL, NULL, NULL, NULL};
    network n;
    if (!CHECK(mkdtemp(folder) != NULL)) break;
    fill_input(x, 13);
    CHECK_OK(network_open(&n, modes[mode], 1, NULL, &error));
    CHECK_OK(network_run(&n, x, 13, expected, &error));
    network_close(&n);
    storm(100);
    live(modes[mode], folder, expected); /* fills the cache */
    live(modes[mode], folder, expected); /* reads it */
    storm(0);
    drop_outputs(expected);
    CHECK(remove_folder(folder));
  }
  dispositions(behind);
  for (number = 1; number < NSIG; ++number)
    if (!CHECK(before[number].sa_handler == behind[number].sa_handler &&
               ((before[number].sa_flags ^ behind[number].sa_flags) & ~0x04000000) == 0))
      fprintf(stderr, "signal %d\n", number);
  printf("%d signals\n", (int)caught);
  CHECK(caught > 50);
  CHECK(elsewhere == 0);
  CHECK(astray == 0);
  return check_result();
}

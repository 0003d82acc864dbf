/* The host cancels a thread (pthread_cancel) that is somewhere in the library: it ends behind the
 * function that it is in, which has done all it does. Nothing is left locked or half made: the next
 * thread, with the same engine, sees the same results. Every life makes everything anew. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "network.h"

static float x[6 * kColumns];
static const char* mode;
static char cache[] = "/tmp/xc_cancelled_XXXXXX";
static xc_engine* engine;
static xc_tensor* expected[kOutputs];
static int lives, wrong;

typedef struct parts {
  xc_model *text, *file;
  xc_session* session;
  xc_tensor* out[kOutputs];
} parts;

static void drop(void* held) {
  parts* const p = (parts*)held;
  drop_outputs(p->out);
  xc_session_destroy(p->session);
  xc_model_release(p->text);
  xc_model_release(p->file);
  memset(p, 0, sizeof *p);
}

static void* live_on(void* unused) {
  const int64_t dims[2] = {6, kColumns};
  (void)unused;
  for (;;) {
    parts p;
    xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
    int i, failed;
    memset(&p, 0, sizeof p);
    view.data = x;
    view.dims = dims;
    pthread_cleanup_push(drop, &p);
    /* Cancelled inside of any of these: it takes effect in the pthread_testcancel() behind. */
    failed = xc_model_load_file(engine, XC_SOURCE_DIR "/samples/digits/digits.xcg", &p.file, NULL);
    pthread_testcancel();
    failed += xc_model_load_bytes(engine, kNetwork, strlen(kNetwork), &p.text, NULL);
    pthread_testcancel();
    failed += xc_session_create(p.text, NULL, &p.session, NULL);
    pthread_testcancel();
    for (i = 0; i < 3 && failed == 0; ++i) {
      failed += xc_session_run_views(p.session, NULL, &view, 1, p.out, kOutputs, NULL);
      if (failed == 0 && differing(expected, p.out) != 0)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
      pthread_testcancel();
      drop_outputs(p.out);
    }
    if (failed) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
    pthread_cleanup_pop(1);
    __atomic_add_fetch(&lives, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

static void cancel_threads(int64_t threads, const char* cache_dir, int count) {
  xc_error* error = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  network net;
  int i, cancelled = 0;
  uint32_t random = 362436069u;
  config.threads = threads;
  config.numerics = XC_NUMERICS_STRICT;
  config.cache_dir = cache_dir;
  CHECK_OK(xc_config_set(&config, "jit", mode, &error));
  options.config = &config;
  CHECK_OK(xc_engine_create(&options, &engine, &error));
  for (i = 0; i < count; ++i) {
    pthread_t thread;
    void* result = NULL;
    CHECK(pthread_create(&thread, NULL, live_on, NULL) == 0);
    random = random * 1664525u + 1013904223u;
    if (i == 0) { /* whole lives first */
      int wait;
      for (wait = 0; wait < 30000 && __atomic_load_n(&lives, __ATOMIC_SEQ_CST) < 3; ++wait)
        usleep(1000);
    }
    usleep(i % 4 == 0 ? random % 30000 : random % 2000);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    cancelled += result == PTHREAD_CANCELED;
  }
  CHECK(cancelled == count);
  xc_engine_release(engine);
  /* As good as new. */
  CHECK_OK(network_open(&net, mode, threads, cache_dir, &error));
  {
    xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
    CHECK_OK(network_run(&net, x, 6, out, &error));
    CHECK(differing(expected, out) == 0);
    drop_outputs(out);
  }
  network_close(&net);
}

/* A thread that is to end lets go of the last tensors, and with them of the engine and of its
 * background thread, which is waited for. */
static void* let_go(void* unused) {
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  xc_error* error = NULL;
  network net;
  int i;
  (void)unused;
  if (network_open(&net, "auto", 1, NULL, &error) != XC_OK) return NULL;
  for (i = 0; i < 200; ++i) {
    drop_outputs(out);
    if (network_run(&net, x, 6, out, &error) != XC_OK) return NULL;
  }
  network_close(&net);
  pthread_cancel(pthread_self());
  drop_outputs(out);
  pthread_testcancel();
  return NULL;
}

int main(void) {
  const char* const modes[] = {"off", "auto", "sync"};
  xc_error* error = NULL;
  network net;
  int k;
  fill_input(x, 6);
  CHECK(mkdtemp(cache) != NULL);
  CHECK_OK(network_open(&net, "off", 1, NULL, &error));
  CHECK_OK(network_run(&net, x, 6, expected, &error));
  network_close(&net);
  for (k = 0; k < 3; ++k) {
    mode = modes[k];
    lives = 0;
    cancel_threads(1 + k % 2, k == 0 ? NULL : cache, 100);
    printf("%s: %d lives\n", mode, lives);
    CHECK(lives >= 3);
    CHECK(wrong == 0);
  }
  for (k = 0; k < 3; ++k) {
    pthread_t thread;
    void* result = NULL;
    CHECK(pthread_create(&thread, NULL, let_go, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
  }
  drop_outputs(expected);
  CHECK(remove_folder(cache));
  return check_result();
}

/* A model file that another thread shortens, fills with something else, replaces and removes while
 * it is loaded. Read with copy_weights: a whole model or a clear error, whatever happens. Mapped,
 * which is the default: replaced and removed at any time, by name (the contents of the file must
 * not change: README, "In your process"). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../capi/check.h"

#include <stdlib.h>

enum { kImage = 28 * 28 };

static char folder[] = "/tmp/xc_changing_XXXXXX", path[128], beside[128];
static char* model_bytes;
static size_t model_size;
static int by_name_only, done;

static void put(const char* name, size_t size, int junk) {
  const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  size_t at;
  if (fd < 0) return;
  for (at = 0; at < size;) {
    const size_t part = size - at < 4096 ? size - at : 4096;
    const char* from = junk ? model_bytes + (at * 7919) % (model_size - 4096) : model_bytes + at;
    const ssize_t n = write(fd, from, part);
    if (n <= 0) break;
    at += (size_t)n;
  }
  close(fd);
}

static void* change(void* unused) {
  uint32_t random = 2463534242u;
  (void)unused;
  while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
    random ^= random << 13, random ^= random >> 17, random ^= random << 5;
    switch (by_name_only ? 0 : random % 5) {
      case 0:
        unlink(path);
        break;
      case 1:
        (void)!truncate(path, (off_t)(random / 64 % model_size));
        break;
      case 2:
        put(path, random / 64 % model_size, 0);
        break;
      case 3:
        put(path, model_size, 1);
        break;
      default:
        put(path, model_size, 0);
        break;
    }
    if (random / 8 % 4 == 0) usleep(random / 8 % 256);
    put(beside, model_size, 0);
    rename(beside, path);
    if (random / 32 % 4 != 0) usleep(random / 8 % 1024);
  }
  return NULL;
}

/* The sum of the outputs' magnitudes for one picture; negative = no results. */
static double run(xc_model* model) {
  static float picture[kImage];
  const int64_t dims[4] = {1, 1, 28, 28};
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 4};
  xc_session* session = NULL;
  xc_tensor* out = NULL;
  double sum = -1;
  int64_t i;
  for (i = 0; i < kImage; ++i) picture[i] = (float)(i * 37 % 101) / 101;
  view.data = picture;
  view.dims = dims;
  if (xc_session_create(model, NULL, &session, NULL) == XC_OK &&
      xc_session_run_views(session, NULL, &view, 1, &out, 1, NULL) == XC_OK) {
    sum = 0;
    for (i = 0; i < xc_tensor_element_count(out); ++i) {
      const float v = ((const float*)xc_tensor_data(out))[i];
      sum += (double)(v < 0 ? -v : v);
    }
  }
  xc_tensor_release(out);
  xc_session_destroy(session);
  return sum;
}

/* Until so many loads have succeeded and failed. */
static void loads(int copy, int wanted) {
  xc_error* error = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  xc_engine* engine = NULL;
  xc_model* model = NULL;
  pthread_t thread;
  double expected;
  int i, whole = 0, refused = 0, unclear = 0, wrong = 0;
  config.threads = 1;
  config.copy_weights = copy;
  CHECK_OK(xc_config_set(&config, "jit", "off", &error));
  options.config = &config;
  CHECK_OK(xc_engine_create(&options, &engine, &error));
  put(path, model_size, 0);
  CHECK_OK(xc_model_load_file(engine, path, &model, &error));
  expected = run(model);
  xc_model_release(model);
  CHECK(expected > 0);
  by_name_only = !copy;
  __atomic_store_n(&done, 0, __ATOMIC_SEQ_CST);
  CHECK(pthread_create(&thread, NULL, change, NULL) == 0);
  for (i = 0; i < 10000000 && (whole < wanted || refused < wanted); ++i) {
    xc_status status;
    model = NULL;
    status = xc_model_load_file(engine, path, &model, &error);
    if (status == XC_OK) {
      ++whole;
      /* A file caught between two contents can hold other weights in a sound structure. */
      if (by_name_only) wrong += run(model) != expected;
    } else {
      ++refused;
      unclear += error == NULL || *xc_error_message(error) == 0 || status == XC_INTERNAL;
      if (by_name_only) unclear += status != XC_NOT_FOUND;
    }
    xc_error_destroy(error);
    error = NULL;
    xc_model_release(model);
  }
  __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
  pthread_join(thread, NULL);
  printf("%s: %d loaded, %d refused\n", copy ? "read" : "mapped", whole, refused);
  CHECK(whole >= wanted && refused >= wanted);
  CHECK(unclear == 0);
  CHECK(wrong == 0);
  xc_engine_release(engine);
}

int main(void) {
  FILE* file = fopen(XC_SOURCE_DIR "/samples/digits/digits.onnx", "rb");
  CHECK(file != NULL && mkdtemp(folder) != NULL);
  if (!file) return check_result();
  model_bytes = (char*)malloc(1 << 20);
  model_size = fread(model_bytes, 1, 1 << 20, file);
  fclose(file);
  CHECK(model_size > 8192 && model_size < 1 << 20);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  snprintf(beside, sizeof beside, "%s/next.onnx", folder);
  loads(1, 300);
  loads(0, 100);
  unlink(path);
  unlink(beside);
  CHECK(rmdir(folder) == 0);
  free(model_bytes);
  return check_result();
}

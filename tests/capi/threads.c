/* Many threads on one session, with shapes that change.
// Labels: tsan
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "models.h"

enum { kThreads = 4, kRuns = 300 };

static xc_session* shared;
static int wrong[kThreads];

static void* work(void* argument) {
  const int self = *(const int*)argument;
  float in[16], want[16];
  int run, i;
  for (run = 0; run < kRuns; ++run) {
    const int64_t rows = 1 + (run + self) % 8;
    int64_t dims[2];
    xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
    xc_tensor* y = NULL;
    dims[0] = rows;
    dims[1] = 2;
    for (i = 0; i < 2 * rows; ++i) {
      const float v = (float)((run * 7 + i * 3 + self) % 41 - 20);
      in[i] = v;
      want[i] = v + (i % 2 ? -2.0f : 10.0f);
      if (want[i] < 0) want[i] = 0;
    }
    view.data = in;
    view.dims = dims;
    if (xc_session_run_views(shared, NULL, &view, 1, &y, 1, NULL) != XC_OK) {
      ++wrong[self];
      continue;
    }
    for (i = 0; i < 2 * rows; ++i) wrong[self] += ((const float*)xc_tensor_data(y))[i] != want[i];
    xc_tensor_release(y);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  int ids[kThreads], i;
  shared = make_session("auto");
  for (i = 0; i < kThreads; ++i) {
    ids[i] = i;
    CHECK(pthread_create(&threads[i], NULL, work, &ids[i]) == 0);
  }
  for (i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(wrong[i] == 0);
  }
  xc_session_destroy(shared);
  return check_result();
}

/* In steady state xc_call_run, xc_session_run and xc_session_run_views allocate nothing: this
 * program defines the allocator of the process and counts. */
#define _GNU_SOURCE
#include "allocator.h"
#include "operators.h"

#if !XC_TEST_OWNS_MALLOC
int main(void) {
  printf("skipped: the sanitizer, or a C library other than glibc, owns malloc\n");
  return 0;
}
#else

static volatile int counting;
static volatile long allocations;

static int refuse(void) {
  if (counting) ++allocations;
  return 0;
}

enum { kWarmUp = 2000, kRuns = 1000 };

/* What the model of models.h does, as a function of the host. */
static xc_status biased(void* user_data, xc_op_call* call) {
  const float bias[2] = {10, -2};
  xc_tensor_view x, y;
  double floor_at = -1;
  xc_status status;
  int64_t i;
  (void)user_data;
  if ((status = xc_op_call_input(call, 0, &x))) return status;
  if ((status = xc_op_call_output(call, 0, &y))) return status;
  if ((status = xc_op_call_float(call, "floor_at", &floor_at))) return status;
  for (i = 0; i < 2 * x.dims[0]; ++i) {
    const float sum = ((const float*)x.data)[i] + bias[i % 2];
    ((float*)y.data)[i] = sum > (float)floor_at ? sum : (float)floor_at;
  }
  return XC_OK;
}

static xc_session* host_session(void) {
  xc_session* session;
  xc_op_library* library = make_library();
  declare(library, "acme::Biased(x: f32[n, 2]) {floor_at: float = 0} -> y: f32[n, 2]", biased,
          NULL);
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Biased(%x) }", NULL, 0);
  xc_op_library_release(library);
  return session;
}

static void steady(const char* jit, xc_session* session) {
  const int64_t dims[2] = {1, 2};
  const float values[2] = {1, 5}, want[2] = {11, 3};
  xc_error* error = NULL;
  xc_tensor *x = make_tensor(2, dims, values), *y = NULL;
  const xc_tensor* in = x;
  xc_tensor_view view;
  xc_call* call = NULL;
  int i, failed = 0;
  int32_t idle = 0;
  CHECK_CODE(XC_OK, xc_tensor_get_view(x, &view));
  view.strides = NULL;
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &call, &error));

  for (i = 0; i < kWarmUp; ++i) {
    failed |= xc_session_run(session, NULL, &in, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
    failed |= xc_call_run(call, NULL) != XC_OK;
  }
  CHECK_OK(xc_session_wait_idle(session, 10000, &idle, &error));
  CHECK_OK(xc_session_freeze(session, &error));
  for (i = 0; i < 10; ++i) { /* adopt what was published last */
    failed |= xc_session_run(session, NULL, &in, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
    failed |= xc_call_run(call, NULL) != XC_OK;
  }

  allocations = 0;
  counting = 1;
  for (i = 0; i < kRuns; ++i) failed |= xc_call_run(call, NULL) != XC_OK;
  counting = 0;
  printf("%s: xc_call_run: %ld allocations in %d runs\n", jit, allocations, kRuns);
  CHECK(allocations == 0);

  allocations = 0;
  counting = 1;
  for (i = 0; i < kRuns; ++i) {
    failed |= xc_session_run(session, NULL, &in, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
  }
  counting = 0;
  printf("%s: xc_session_run: %ld allocations in %d runs\n", jit, allocations, kRuns);
  CHECK(allocations == 0);

  allocations = 0;
  counting = 1;
  for (i = 0; i < kRuns; ++i) {
    failed |= xc_session_run_views(session, NULL, &view, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
  }
  counting = 0;
  printf("%s: xc_session_run_views: %ld allocations in %d runs\n", jit, allocations, kRuns);
  CHECK(allocations == 0);

  CHECK(!failed);
  check_values(xc_call_output(call, 0), 1, want);
  xc_call_destroy(call);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

/* XC_RUN_NO_ALLOC: refused, with nothing touched, until a run left what it needs. */
static void refused(void) {
  const int64_t dims[2] = {1, 2}, wide[2] = {3, 2};
  const float values[6] = {1, 5, 1, 5, 1, 5}, want[2] = {11, 3}, mark[2] = {-1, -1};
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, dims, values), *x3 = make_tensor(2, wide, values);
  xc_tensor *y = NULL, *given = make_tensor(2, dims, mark), *held = NULL;
  const xc_tensor *in = x, *in3 = x3;
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  int i, failed = 0;
  options.flags = XC_RUN_NO_ALLOC;

  CHECK(xc_session_run(session, &options, &in, 1, &given, 1, &error) == XC_LIMIT);
  CHECK_CONTAINS(xc_error_message(error), "no run has made a context yet: run these shapes once");
  xc_error_destroy(error);
  error = NULL;
  CHECK(((const float*)xc_tensor_data(given))[0] == -1);

  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  /* The one returned output is in use: a given one is needed, or its release. */
  CHECK(xc_session_run(session, &options, &in, 1, &held, 1, NULL) == XC_LIMIT);
  CHECK(held == NULL);
  CHECK_OK(xc_session_run(session, &options, &in, 1, &given, 1, &error));
  check_values(given, 1, want);
  xc_tensor_release(y);
  y = NULL;
  CHECK(xc_session_run(session, &options, &in3, 1, &y, 1, NULL) == XC_LIMIT); /* new shapes */

  allocations = 0;
  counting = 1;
  for (i = 0; i < kRuns; ++i) {
    failed |= xc_session_run(session, &options, &in, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
  }
  counting = 0;
  printf("XC_RUN_NO_ALLOC: %ld allocations in %d runs\n", allocations, kRuns);
  CHECK(allocations == 0);
  CHECK(!failed);

  /* Two shapes in turn, once each has run. */
  CHECK_OK(xc_session_run(session, NULL, &in3, 1, &y, 1, &error));
  xc_tensor_release(y);
  y = NULL;
  allocations = 0;
  counting = 1;
  for (i = 0; i < kRuns; ++i) {
    failed |= xc_session_run(session, &options, i % 2 ? &in3 : &in, 1, &y, 1, NULL) != XC_OK;
    xc_tensor_release(y);
    y = NULL;
  }
  counting = 0;
  CHECK(allocations == 0);
  CHECK(!failed);
  xc_tensor_release(given);
  xc_tensor_release(x);
  xc_tensor_release(x3);
  xc_session_destroy(session);
}

/* The model leaves the rank open: one that no run had yet is refused like other new shapes, and
 * nothing is made for it. */
static void new_rank(void) {
  const int64_t dims[2] = {1, 2};
  const float values[2] = {1, -5}, want[2] = {1, 0};
  xc_error* error = NULL;
  xc_session* session =
      session_of(NULL, NULL, NULL, "graph g(%x: f32[*]) -> (%y) {\n  %y = Relu(%x)\n}", NULL, 0);
  xc_tensor *line = vector(2, values), *table = make_tensor(2, dims, values);
  xc_tensor *y = vector(2, want), *z = NULL;
  const xc_tensor *in = line, *in2 = table;
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  options.flags = XC_RUN_NO_ALLOC;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &z, 1, &error));
  xc_tensor_release(z);
  z = NULL;
  CHECK_OK(xc_session_run(session, &options, &in, 1, &y, 1, &error));
  check_floats(y, 2, want);
  CHECK(xc_session_run(session, &options, &in2, 1, &z, 1, &error) == XC_LIMIT);
  CHECK_CONTAINS(xc_error_message(error), "these shapes are new");
  xc_error_destroy(error);
  allocations = 0;
  counting = 1;
  CHECK(xc_session_run(session, &options, &in2, 1, &z, 1, NULL) == XC_LIMIT);
  counting = 0;
  printf("XC_RUN_NO_ALLOC of a new rank: %ld allocations\n", allocations);
  CHECK(allocations < 50); /* the message of the refusal */
  error = NULL;
  CHECK_OK(xc_session_run(session, NULL, &in2, 1, &z, 1, &error));
  xc_tensor_release(z);
  z = NULL;
  CHECK_OK(xc_session_run(session, &options, &in2, 1, &z, 1, &error));
  check_floats(z, 2, want);
  xc_tensor_release(z);
  xc_tensor_release(y);
  xc_tensor_release(line);
  xc_tensor_release(table);
  xc_session_destroy(session);
}

/* Allocations of one run over so many steps, after others like it. */
static long of_steps(xc_session* session, int64_t steps) {
  enum { kMost = 4096 };
  static float values[2 * kMost];
  const int64_t dims[2] = {steps, 2};
  xc_tensor *in[2], *out[2] = {NULL, NULL};
  int i, failed = 0;
  const float zero[2] = {0, 0};
  for (i = 0; i < 2 * steps; ++i) values[i] = 1;
  in[0] = make_tensor(2, dims, values);
  in[1] = vector(2, zero);
  for (i = 0; i < 50; ++i) {
    allocations = 0;
    counting = 1;
    failed |= xc_session_run(session, NULL, (const xc_tensor* const*)in, 2, out, 2, NULL) != XC_OK;
    counting = 0;
    check_floats(out[0], 2, (const float[2]){(float)steps, (float)steps});
    xc_tensor_release(out[0]);
    xc_tensor_release(out[1]);
    out[0] = out[1] = NULL;
  }
  CHECK(!failed);
  xc_tensor_release(in[0]);
  xc_tensor_release(in[1]);
  return allocations;
}

/* A loop makes its memory once per run: an iteration allocates nothing. */
static void iterations(const char* jit) {
  xc_session* session =
      session_of(NULL, "jit", jit,
                 "graph g(%xs: f32[t, 2], %s0: f32[2]) -> (%last, %all) {\n"
                 "  %last, %all = Scan(%s0, %xs) {num_scan_inputs = 1} captures 0 (\n"
                 "    graph body(%s: f32[2], %x: f32[2]) -> (%s1, %y) {\n"
                 "      %s1 = Add(%s, %x)\n"
                 "      %t = Tanh(%s1)\n"
                 "      %y = Mul(%t, %x)\n"
                 "    })\n"
                 "}",
                 NULL, 0);
  const long few = of_steps(session, 8), many = of_steps(session, 4096);
  printf("%s: a loop: %ld allocations in 8 steps, %ld in 4096\n", jit, few, many);
  CHECK(few == many);
  xc_session_destroy(session);
}

int main(void) {
  const float value = 1;
  void* probe;
  counting = 1; /* the counter itself works, and the library is counted */
  probe = malloc(8);
  CHECK(allocations == 1);
  xc_tensor_release(vector(1, &value));
  counting = 0;
  CHECK(allocations > 1);
  free(probe);
  steady("off", make_session("off"));
  steady("sync", make_session("sync"));
  steady("operator of the host", host_session());
  iterations("off");
  iterations("sync");
  refused();
  new_rank();
  return check_result();
}
#endif

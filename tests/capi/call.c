/* call.h */
#include "operators.h"

static const int64_t kDims[2] = {1, 2};

/* The call reads its inputs anew at every run and writes the same outputs. */
static void run(void) {
  const float first[2] = {1, 5}, second[2] = {-11, 4}, want[2] = {11, 3}, want2[2] = {0, 2};
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, kDims, first), *y = NULL, *kept;
  const xc_tensor* in = x;
  xc_call *own = NULL, *bound = NULL;
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &own, &error));
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 2, kDims, &y, &error));
  CHECK_OK(xc_session_prepare(session, &in, 1, &y, 1, &bound, &error));
  xc_session_destroy(session); /* calls keep what they need */

  CHECK(xc_call_output_count(own) == 1);
  CHECK_OK(xc_call_run(own, &error));
  check_values(xc_call_output(own, 0), 1, want);
  memcpy(xc_tensor_data(x), second, sizeof second);
  CHECK_OK(xc_call_run(own, &error));
  check_values(xc_call_output(own, 0), 1, want2);
  CHECK_OK(xc_call_run(bound, &error));
  CHECK(xc_call_output(bound, 0) == y);
  check_values(y, 1, want2);

  kept = xc_tensor_retain(xc_call_output(own, 0));
  xc_tensor_release(x); /* the calls still hold it */
  CHECK_OK(xc_call_run(bound, &error));
  xc_call_destroy(own);
  check_values(kept, 1, want2);
  xc_tensor_release(kept);
  xc_call_destroy(bound);
  check_values(y, 1, want2);
  xc_tensor_release(y);
}

static void wrong_calls(void) {
  const int64_t wrong[1] = {3};
  const float values[3] = {0, 0, 0};
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, kDims, values), *bad = make_tensor(1, wrong, values);
  const xc_tensor* in = bad;
  xc_call* call = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(session, &in, 1, NULL, 0, &call, &error));
  in = x;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(session, &in, 1, &bad, 1, &call, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(session, &in, 1, &bad, 2, &call, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(session, NULL, 1, NULL, 0, &call, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(session, &in, 1, NULL, 0, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_prepare(NULL, &in, 1, NULL, 0, &call, &error));
  CHECK(call == NULL);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_call_run(NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_call_run((xc_call*)session, &error));
  CHECK(xc_call_output_count(NULL) == 0 && xc_call_output(NULL, 0) == NULL);
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &call, &error));
  CHECK(xc_call_output(call, 1) == NULL);
  xc_call_destroy(call);
  xc_call_destroy(NULL);
  xc_tensor_release(x);
  xc_tensor_release(bad);
  xc_session_destroy(session);
}

/* What an operator does in the middle of a run: it runs a call, it fails. */
struct middle {
  xc_call* call; /* NULL = nothing is run */
  xc_status status;
  char said[256];
  int fails;
};

static xc_status in_the_middle(void* user_data, xc_op_call* call) {
  struct middle* middle = user_data;
  xc_tensor_view x, y;
  xc_status status;
  if ((status = xc_op_call_input(call, 0, &x))) return status;
  if ((status = xc_op_call_output(call, 0, &y))) return status;
  memcpy(y.data, x.data, sizeof(float) * (size_t)x.dims[0]);
  if (middle->call) {
    xc_error* error = NULL;
    middle->status = xc_call_run(middle->call, &error);
    snprintf(middle->said, sizeof middle->said, "%s", xc_error_text(error));
    xc_error_destroy(error);
  }
  return middle->fails ? xc_op_call_fail(call, XC_RANGE, "as asked") : XC_OK;
}

/* A run within a run of the same call is refused; the call is free again behind every run, failed
 * ones too. */
static void one_run_at_a_time(void) {
  static const char kModel[] = "graph g(%x: f32[n]) -> (%y) { %y = acme::Middle(%x) }";
  const float values[2] = {3, -4};
  struct middle middle = {NULL, XC_OK, "", 0};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_session* session;
  xc_tensor* x = vector(2, values);
  const xc_tensor* in = x;
  xc_call *call = NULL, *other = NULL;
  declare(library, "acme::Middle(x: f32[n]) -> y: f32[n]", in_the_middle, &middle);
  session = session_of(library, NULL, NULL, kModel, NULL, 0);
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &call, &error));
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &other, &error));
  middle.call = call;
  middle.status = XC_OK;
  CHECK_OK(xc_call_run(call, &error));
  CHECK(middle.status == XC_BUSY);
  CHECK_CONTAINS(middle.said, "run already");
  check_floats(xc_call_output(call, 0), 2, values);
  middle.fails = 1;
  CHECK_FAILS(XC_RANGE, xc_call_run(call, &error));
  middle.call = NULL;
  middle.fails = 0;
  CHECK_OK(xc_call_run(call, &error));
  CHECK_OK(xc_call_run(other, &error));
  xc_call_destroy(other);
  xc_call_destroy(call);
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_op_library_release(library);
}

int main(void) {
  run();
  one_run_at_a_time();
  wrong_calls();
  return check_result();
}

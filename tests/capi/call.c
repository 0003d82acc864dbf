/* call.h */
#include "models.h"

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

int main(void) {
  run();
  wrong_calls();
  return check_result();
}

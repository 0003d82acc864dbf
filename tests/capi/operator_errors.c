/* operator.h: what can be wrong with signatures, models and functions. */
#include "operators.h"

/* Signatures that say something wrong: the message, and the column of the place. */
static void bad_signatures(void) {
  static const char* const wrong[][2] = {
      {"", "the operator's domain"},
      {"Scale(x: f32[n]) -> y: f32[n]", "'::'"},
      {"ai.onnx::Relu(x: f32[n]) -> y: f32[n]", "not for operators of the host"},
      {"xc::Relu(x: f32[n]) -> y: f32[n]", "not for operators of the host"},
      {"a::(x: f32) -> y: f32", "the operator's name"},
      {"a::B(x) -> y: f32", "expected ':'"},
      {"a::B(x: f33[n]) -> y: f32[n]", "no element type 'f33'"},
      {"a::B(x: f32|) -> y: f32[1]", "an element type"},
      {"a::B(x: f32[n], x: f32[n]) -> y: f32[n]", "'x' is given twice"},
      {"a::B(x: f32[n]) -> x: f32[n]", "'x' is given twice"},
      {"a::B(x?: f32[n], y: f32[n]) -> z: f32[1]", "follows an optional"},
      {"a::B(x*: f32[n], y: f32[n]) -> z: f32[1]", "comes last"},
      {"a::B(x: f32[n]) -> y*: f32[n]", "one value"},
      {"a::B(x: f32[n]) -> y?: f32[n], z: f32[n]", "follows an optional"},
      {"a::B(x: f32[n) -> y: f32[n]", "expected ']'"},
      {"a::B(x: f32[n m]) -> y: f32[1]", "no size"},
      {"a::B(x: f32[n, ...]) -> y: f32[n]", "in front"},
      {"a::B(x: f32[-1]) -> y: f32[1]", "negative"},
      {"a::B(x: f32[n/2]) -> y: f32[1]", "is no size"},
      {"a::B(x: f32[n]) -> y: f32[m]", "size 'm' of output 'y'"},
      {"a::B(x: f32[2*n]) -> y: f32[n]", "size 'n' of input 'x'"},
      {"a::B(x: f32[n], z?: f32[m]) -> y: f32[m]", "size 'm' of output 'y'"},
      {"a::B(x: f32[n]) -> y: f32[..., n]", "'...' in output 'y'"},
      {"a::B(x: f32[n]) -> y: f32|f64[n]", "the type of output 'y'"},
      {"a::B(x: f32[n]) -> y: T[n]", "the type of output 'y'"},
      {"a::B(x: f32[n], z?: T[n]) -> y: T[n]", "the type of output 'y'"},
      {"a::B(x: T[n]) -> y: T[n] where U: f32", "type 'U'"},
      {"a::B(x: T[n]) -> y: T[n] where T: f32, T: f64", "given twice"},
      {"a::B(x: f32[n]) {k} -> y: f32[n]", "expected ':'"},
      {"a::B(x: f32[n]) {k: number} -> y: f32[n]", "no kind of attribute 'number'"},
      {"a::B(x: f32[n]) {k: int, k: int} -> y: f32[n]", "'k' is given twice"},
      {"a::B(x: f32[n]) {k: int = 1.5} -> y: f32[n]", "an integer"},
      {"a::B(x: f32[n]) {k?: int = 1} -> y: f32[n]", "needs no '?'"},
      {"a::B(x: f32[n]) {k: tensor = 1} -> y: f32[n]", "no default"},
      {"a::B(x: f32[n]) {k: ints = [1, ]} -> y: f32[n]", "expected a number"},
      {"a::B(x: f32[n])", "expected '->'"},
      {"a::B(x: f32[n]) -> ", "an output's name"},
      {"a::B(x: f32[n]) -> y: f32[n] and more", "unexpected text"},
  };
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_op_function function = {scale, &destroyed, on_destroy};
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    CHECK(xc_op_library_add(library, wrong[i][0], &function, &error) == XC_FORMAT);
    CHECK_CONTAINS(xc_error_message(error), wrong[i][1]);
    CHECK_CONTAINS(xc_error_where(error), "column");
    xc_error_destroy(error);
    error = NULL;
  }
  CHECK(destroyed == 0); /* the user data stays the caller's */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add(NULL, kScale, &function, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add(library, NULL, &function, &error));
  function.compute = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add(library, kScale, &function, &error));
  function.compute = scale;
  CHECK_OK(xc_op_library_add(library, kScale, &function, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add(library, kScale, &function, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_create(NULL, &error));
  xc_op_library_retain(library);
  xc_op_library_release(library);
  CHECK(destroyed == 0);
  xc_op_library_release(library);
  CHECK(destroyed == 1);
  CHECK(xc_op_library_retain(NULL) == NULL);
  xc_op_library_release(NULL);
}

/* Models that use an operator against its signature, or one that nobody has declared. */
static void bad_models(void) {
  static const char* const wrong[][2] = {
      {"graph g(%x: f64[n, 2], %b: f32[2]) -> (%y) { %y = acme::Scale(%x, %b) }",
       "input 'x' is f64[n, 2], expected f32[..., n]"},
      {"graph g(%x: f32[n, 2], %b: f32[3]) -> (%y) { %y = acme::Scale(%x, %b) }",
       "dim 0 is 3, not 2"},
      {"graph g(%x: f32[], %b: f32[3]) -> (%y) { %y = acme::Scale(%x, %b) }",
       "input 'x' has dims []"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Scale(%x, %x) }", "input 'bias' has dims"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Scale() }", "0 inputs"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Scale(%x, %x, %x) }", "3 inputs"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y, %z = acme::Scale(%x) }", "2 outputs"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Scale(%x) {beta = 1} }",
       "unknown attribute 'beta'"},
      {"graph g(%x: f32[n, 2]) -> (%y) { %y = acme::Scale(%x) {alpha = 1} }", "expected float"},
      {"graph g(%x: f32[n]) -> (%y) { %y = acme::Need(%x) }", "'k' is missing"},
      {"graph g(%x: f32[n]) -> (%y) { %y = acme::Other(%x) }",
       "operator acme.Other is not known; if it is a custom operator"},
      {"graph g(%x: f32[n]) -> (%y) { %y = other::Scale(%x) }",
       "operator other.Scale is not known"},
  };
  char said[512];
  size_t i;
  xc_op_library* library = make_library();
  declare(library, kScale, scale, NULL);
  declare(library, "acme::Need(x: f32[n]) {k: int} -> y: f32[n]", scale, NULL);
  for (i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    CHECK(!session_of(library, NULL, NULL, wrong[i][0], said, sizeof said));
    CHECK_CONTAINS(said, wrong[i][1]);
  }
  /* Without a library the name is unknown too. */
  CHECK(!session_of(NULL, NULL, NULL, kScaled, said, sizeof said));
  CHECK_CONTAINS(said, "operator acme.Scale is not known");
  xc_op_library_release(library);
}

/* ---- functions that do something wrong ---- */

static xc_status fails(void* user_data, xc_op_call* call) {
  return xc_op_call_fail(call, XC_RANGE, (const char*)user_data);
}
static xc_status returns(void* user_data, xc_op_call* call) {
  (void)call;
  return *(const xc_status*)user_data;
}
static xc_status writes_nothing(void* user_data, xc_op_call* call) {
  (void)user_data, (void)call;
  return XC_OK;
}
static xc_status wrong_dims(void* user_data, xc_op_call* call) {
  xc_tensor_view y;
  const int64_t dims[2] = {3, 1};
  (void)user_data;
  return xc_op_call_allocate(call, 0, 2, dims, &y);
}
static xc_status no_such_attribute(void* user_data, xc_op_call* call) {
  double value = 0;
  (void)user_data;
  return xc_op_call_float(call, "gamma", &value);
}

static xc_status asks_for_memory(void* user_data, xc_op_call* call) {
  xc_tensor_view y;
  (void)user_data;
  return xc_op_call_output(call, 0, &y);
}

static void bad_functions(void) {
  static const xc_status busy = XC_BUSY, odd = -7;
  static const struct {
    const char* signature;
    xc_status (*compute)(void*, xc_op_call*);
    const void* user_data;
    xc_status status;
    const char* says;
  } wrong[] = {
      {"acme::Op(x: f32[n]) -> y: f32[n]", fails, "index 9 is bad", XC_RANGE, "index 9 is bad"},
      {"acme::Op(x: f32[n]) -> y: f32[?]", fails, "index 9 is bad", XC_RANGE, "index 9 is bad"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", returns, &busy, XC_BUSY, "acme::Op returned BUSY"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", returns, &odd, XC_INVALID_ARGUMENT, "returned -7"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", writes_nothing, NULL, XC_INVALID_ARGUMENT,
       "did not write output 'y'"},
      {"acme::Op(x: f32[n]) -> y: f32[?]", writes_nothing, NULL, XC_INVALID_ARGUMENT,
       "did not write output 'y'"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", wrong_dims, NULL, XC_INVALID_ARGUMENT,
       "output 'y' of acme::Op has dims [3, 1], expected [3]"},
      {"acme::Op(x: f32[n]) -> y: f32[?, n]", wrong_dims, NULL, XC_INVALID_ARGUMENT,
       "has dims [3, 1], expected"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", no_such_attribute, NULL, XC_NOT_FOUND,
       "declares no attribute 'gamma'"},
      {"acme::Op(x: f32[n]) {gamma: int = 1} -> y: f32[n]", no_such_attribute, NULL,
       XC_INVALID_ARGUMENT, "is of kind int, not float"},
      {"acme::Op(x: f32[n]) {gamma?: float} -> y: f32[n]", no_such_attribute, NULL, XC_NOT_FOUND,
       "'gamma' is not set"},
      {"acme::Op(x: f32[n]) -> y: f32[?]", asks_for_memory, NULL, XC_INVALID_ARGUMENT,
       "for the function to find"},
      {"acme::Op(x: f32[n]) -> y: f32[n]", scale, NULL, XC_INVALID_ARGUMENT, "has no input 1"},
  };
  const float values[3] = {1, 2, 3};
  char said[512];
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    xc_op_library* library = make_library();
    xc_tensor* x = vector(3, values);
    xc_session* session;
    declare(library, wrong[i].signature, wrong[i].compute, (void*)(size_t)wrong[i].user_data);
    session = session_of(library, NULL, NULL,
                         "graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) \"the node\" }", NULL, 0);
    CHECK(failing_run(session, x, said, sizeof said) == wrong[i].status);
    CHECK_CONTAINS(said, wrong[i].says);
    CHECK_CONTAINS(said, "the node");
    CHECK_CONTAINS(said, "acme::Op");
    xc_tensor_release(x);
    xc_session_destroy(session);
    xc_op_library_release(library);
  }
}

/* Sizes that symbols leave open are checked when they are known. */
static void open_relations(void) {
  const float values[4] = {1, 2, 3, 4};
  const int64_t dims[2] = {2, 2};
  char said[512];
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_tensor *inputs[2], *y = NULL;
  xc_session* session;
  declare(library, kScale, scale, NULL);
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n, m], %b: f32[k]) -> (%y) { %y = acme::Scale(%x, %b) }",
                       NULL, 0);
  inputs[0] = make_tensor(2, dims, values);
  inputs[1] = vector(3, values);
  CHECK(xc_session_run(session, NULL, (const xc_tensor* const*)inputs, 2, &y, 1, &error) ==
        XC_INVALID_ARGUMENT);
  snprintf(said, sizeof said, "%s", xc_error_text(error));
  CHECK_CONTAINS(said, "dim 0 is 3, not 2");
  xc_error_destroy(error);
  error = NULL;
  xc_tensor_release(inputs[1]);
  inputs[1] = vector(2, values);
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)inputs, 2, &y, 1, &error));
  xc_tensor_release(y);
  xc_tensor_release(inputs[0]);
  xc_tensor_release(inputs[1]);
  xc_session_destroy(session);
  xc_op_library_release(library);
}

/* Sizes that come out negative are the caller's mistake. */
static void negative_sizes(void) {
  const float values[4] = {1, 2, 3, 4};
  char said[512];
  xc_op_library* library = make_library();
  xc_session* session;
  xc_tensor* x = vector(2, values);
  declare(library, "acme::Op(x: f32[n]) {k: int = 3} -> y: f32[n - k]", writes_nothing, NULL);
  session =
      session_of(library, NULL, NULL, "graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) }", NULL, 0);
  CHECK(failing_run(session, x, said, sizeof said) == XC_INVALID_ARGUMENT);
  CHECK(!session_of(library, NULL, NULL, "graph g(%x: f32[2]) -> (%y) { %y = acme::Op(%x) }", said,
                    sizeof said));
  CHECK_CONTAINS(said, "output 0 would have dims [-1]");
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_op_library_release(library);
}

int main(void) {
  bad_signatures();
  bad_models();
  bad_functions();
  open_relations();
  negative_sizes();
  return check_result();
}

/* Operators of the host for tests: functions, libraries, sessions over models as text. */
#ifndef XC_TESTS_CAPI_OPERATORS_H
#define XC_TESTS_CAPI_OPERATORS_H

#include "models.h"

static int destroyed = 0;
static inline void on_destroy(void* user_data) {
  CHECK(user_data == &destroyed);
  ++destroyed;
}

/* y = alpha * x + bias, bias optional */
static inline xc_status scale(void* user_data, xc_op_call* call) {
  xc_tensor_view x, bias, y;
  double alpha = 0;
  int64_t i, count = 1;
  xc_status status;
  uint32_t axis;
  (void)user_data;
  if ((status = xc_op_call_input(call, 0, &x))) return status;
  if ((status = xc_op_call_input(call, 1, &bias))) return status;
  if ((status = xc_op_call_output(call, 0, &y))) return status;
  if ((status = xc_op_call_float(call, "alpha", &alpha))) return status;
  for (axis = 0; axis < x.rank; ++axis) count *= x.dims[axis];
  for (i = 0; i < count; ++i)
    ((float*)y.data)[i] = (float)alpha * ((const float*)x.data)[i] +
                          (bias.dtype ? ((const float*)bias.data)[i % x.dims[x.rank - 1]] : 0.0f);
  return XC_OK;
}

static inline xc_op_library* make_library(void) {
  xc_error* error = NULL;
  xc_op_library* library = NULL;
  CHECK_OK(xc_op_library_create(&library, &error));
  return library;
}

static inline void declare(xc_op_library* library, const char* signature,
                           xc_status (*compute)(void*, xc_op_call*), void* user_data) {
  xc_error* error = NULL;
  xc_op_function function;
  function.compute = compute;
  function.user_data = user_data;
  function.destroy = NULL;
  CHECK_OK(xc_op_library_add(library, signature, compute ? &function : NULL, &error));
}

static inline xc_engine* engine_with(xc_op_library* library, const char* option,
                                     const char* value) {
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  config.threads = 1;
  config.jit = XC_JIT_OFF;
  if (option) CHECK_OK(xc_config_set(&config, option, value, &error));
  options.config = &config;
  options.operators = library;
  CHECK_OK(xc_engine_create(&options, &engine, &error));
  return engine;
}

/* A session over a model in the text form; NULL, and the error's text in `said`, when it fails. */
static inline xc_session* session_of(xc_op_library* library, const char* option, const char* value,
                                     const char* text, char* said, size_t size) {
  xc_error* error = NULL;
  xc_engine* engine = engine_with(library, option, value);
  xc_model* model = NULL;
  xc_session* session = NULL;
  if (xc_model_load_bytes(engine, text, strlen(text), &model, &error) == XC_OK)
    if (xc_session_create(model, NULL, &session, &error)) CHECK(session == NULL);
  if (said) snprintf(said, size, "%s", xc_error_text(error));
  if (!said) CHECK_TEXT(xc_error_text(error), "");
  xc_error_destroy(error);
  xc_model_release(model);
  xc_engine_release(engine);
  return session;
}

static inline xc_tensor* vector(int64_t n, const float* values) {
  return make_tensor(1, &n, values);
}

static inline void check_floats(const xc_tensor* y, int64_t count, const float* want) {
  int64_t i;
  CHECK(xc_tensor_dtype(y) == XC_DTYPE_F32);
  if (!CHECK(xc_tensor_element_count(y) == count)) return;
  for (i = 0; i < count; ++i) CHECK(((const float*)xc_tensor_data(y))[i] == want[i]);
}

/* Runs a session of one input and one output that must fail; the error's text goes to `said`. */
static inline xc_status failing_run(xc_session* session, const xc_tensor* x, char* said,
                                    size_t size) {
  xc_error* error = NULL;
  xc_tensor* y = NULL;
  xc_status status = xc_session_run(session, NULL, &x, 1, &y, 1, &error);
  snprintf(said, size, "%s", xc_error_text(error));
  xc_error_destroy(error);
  CHECK(status != XC_OK && y == NULL);
  return status;
}

static const char kScale[] =
    "acme::Scale(x: f32[..., n], bias?: f32[n]) {alpha: float = 2} -> y: f32[..., n]";
static const char kScaled[] =
    "graph g(%x: f32[n, 2], %b: f32[2]) -> (%y) {\n"
    "  %h = acme::Scale(%x, %b) {alpha = 10.0} \"first\"\n"
    "  %r = Relu(%h)\n"
    "  %y = acme::Scale(%r)\n"
    "}\n";

#endif

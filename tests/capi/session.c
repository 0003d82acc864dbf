/* session.h */
#include "models.h"

static const int64_t kDims[2] = {2, 2};
static const float kValues[4] = {1, 5, -20, 0};
static const float kWant[4] = {11, 3, 0, 0};

static void run_and_reuse(void) {
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, kDims, kValues), *y = NULL, *bound = NULL;
  const xc_tensor* in = x;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  /* A given output is written in place. */
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 2, kDims, &bound, &error));
  y = bound;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  CHECK(y == bound);
  check_values(y, 2, kWant);
  xc_tensor_release(bound);
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_session_destroy(NULL);
}

/* Strided, reversed and descriptor inputs. */
static void views(void) {
  float columns[4] = {1, -20, 5, 0};
  const int64_t strides[2] = {1, 2};
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
  xc_tensor* y = NULL;
  float rows[4];
  memcpy(rows, kValues, sizeof rows);
  view.data = rows;
  view.dims = kDims;
  CHECK_OK(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  y = NULL;
  view.data = columns;
  view.strides = strides;
  CHECK_OK(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  y = NULL;
  view.data = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  view.data = rows;
  view.dtype = 90;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  view.dtype = XC_DTYPE_F32;
  view.data = (char*)rows + 1;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  view.data = rows;
  view.rank = 1000;
  CHECK_FAILS(XC_LIMIT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  view.rank = 2;
  view.dims = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, NULL, 1, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(NULL, NULL, &view, 1, &y, 1, &error));
  CHECK(y == NULL);
  xc_session_destroy(session);
}

/* Every wrong call is one error that names the place; the session stays usable. */
static void wrong_calls(void) {
  const int64_t narrow[2] = {2, 3}, flat[1] = {4};
  const float six[6] = {0};
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, kDims, kValues), *wide = make_tensor(2, narrow, six);
  xc_tensor *line = make_tensor(1, flat, kValues), *integers = NULL, *y = NULL,
            *out[2] = {NULL, NULL};
  const xc_tensor *in = x, *two[2];
  two[0] = two[1] = x;
  CHECK_OK(xc_tensor_create(XC_DTYPE_I32, 2, kDims, &integers, &error));
  in = wide;
  CHECK(xc_session_run(session, NULL, &in, 1, &y, 1, &error) == XC_INVALID_ARGUMENT);
  CHECK_CONTAINS(xc_error_text(error), "x");
  xc_error_destroy(error);
  error = NULL;
  in = line;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  in = integers;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  in = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  in = (const xc_tensor*)session;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  in = x;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, two, 2, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 0, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, out, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 0, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, NULL, 1, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, NULL, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(NULL, NULL, &in, 1, &y, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run((xc_session*)x, NULL, &in, 1, &y, 1, &error));
  CHECK(y == NULL && out[0] == NULL && out[1] == NULL);
  y = line; /* a given output of the wrong shape is not touched */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  CHECK(y == line && ((float*)xc_tensor_data(line))[1] == 5);
  y = NULL;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  xc_tensor_release(x);
  xc_tensor_release(wide);
  xc_tensor_release(line);
  xc_tensor_release(integers);
  xc_session_destroy(session);
}

/* Results are written while inputs are still read: their memory is the same, or apart. */
static void overlapping(void) {
  const int64_t up[2] = {2, 1}, down[2] = {-2, 1}, repeated[2] = {0, 1};
  float memory[8] = {1, 5, -20, 0, 7, 7, 7, 7};
  const float want_down[4] = {0, 0, 11, 3}, want_repeated[4] = {11, 3, 11, 3};
  xc_error* error = NULL;
  xc_session* session = make_session("sync");
  xc_tensor *x = make_tensor(2, kDims, kValues), *y = x, *inside = NULL, *apart = NULL;
  const xc_tensor* in = x;
  xc_call* call = NULL;
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  CHECK(y == x);
  check_values(y, 2, kWant);
  memcpy(xc_tensor_data(x), kValues, sizeof kValues);
  CHECK_OK(xc_session_prepare(session, &in, 1, &y, 1, &call, &error));
  check_values(x, 2, kWant); /* it has run once */
  memcpy(xc_tensor_data(x), kValues, sizeof kValues);
  CHECK_OK(xc_call_run(call, &error));
  check_values(x, 2, kWant);
  xc_call_destroy(call);

  view.dims = kDims;
  view.strides = up;
  view.data = memory + 2; /* the last row of the input, and beyond */
  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &inside, &error));
  view.data = memory + 4;
  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &apart, &error));
  view.data = memory;
  y = inside;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  CHECK(memory[2] == -20 && memory[4] == 7);
  y = apart; /* neighbours */
  CHECK_OK(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  check_values(y, 2, kWant);

  view.data = memory + 2; /* rows in reverse reach down to the start */
  view.strides = down;
  y = inside;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  y = apart;
  CHECK_OK(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  check_values(y, 2, want_down);
  view.data = memory; /* one row, twice */
  view.strides = repeated;
  CHECK_OK(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error));
  check_values(y, 2, want_repeated);

  y = NULL; /* as an output it would be written twice */
  view.dims = kDims;
  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &y, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  xc_tensor_release(y);
  xc_tensor_release(inside);
  xc_tensor_release(apart);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

static void run_options(void) {
  xc_error* error = NULL;
  xc_session* session = make_session("off");
  xc_tensor *x = make_tensor(2, kDims, kValues), *y = NULL;
  const xc_tensor* in = x;
  xc_cancel* cancel = NULL;
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  CHECK_CODE(XC_OK, xc_cancel_create(&cancel));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_cancel_create(NULL));
  options.cancel = cancel;
  options.flags = XC_RUN_NO_COMPILE;
  options.timeout_ns = (int64_t)60 * 1000000000;
  CHECK_OK(xc_session_run(session, &options, &in, 1, &y, 1, &error));
  xc_tensor_release(y);
  y = NULL;
  options.timeout_ns = INT64_MAX; /* no end */
  CHECK_OK(xc_session_run(session, &options, &in, 1, &y, 1, &error));
  xc_tensor_release(y);
  y = NULL;
  xc_cancel_set(cancel);
  CHECK_FAILS(XC_CANCELLED, xc_session_run(session, &options, &in, 1, &y, 1, &error));
  xc_cancel_reset(cancel);
  options.timeout_ns = 1;
  CHECK_FAILS(XC_DEADLINE, xc_session_run(session, &options, &in, 1, &y, 1, &error));
  options.timeout_ns = -1;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, &options, &in, 1, &y, 1, &error));
  options.timeout_ns = 0;
  options.flags = 1u << 30;
  CHECK_FAILS(XC_UNSUPPORTED, xc_session_run(session, &options, &in, 1, &y, 1, &error));
  options.flags = 0;
  options.struct_size = 0;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_run(session, &options, &in, 1, &y, 1, &error));
  CHECK(y == NULL);
  options.struct_size = sizeof options;
  CHECK_OK(xc_session_run(session, &options, &in, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  xc_cancel_set(NULL);
  xc_cancel_reset(NULL);
  xc_cancel_destroy(NULL);
  xc_cancel_destroy(cancel);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

static void creation(void) {
  xc_error* error = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = make_model(engine);
  xc_session* session = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_session_options options = XC_SESSION_OPTIONS_INIT;
  config.numerics = XC_NUMERICS_FAST;
  options.config = &config;
  CHECK_OK(xc_session_create(model, &options, &session, &error));
  CHECK(xc_session_model(session) == model);
  CHECK(xc_session_model(NULL) == NULL);
  xc_session_destroy(session);
  session = NULL;
  config.numerics = 9;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_create(model, &options, &session, &error));
  options.struct_size = 3;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_create(model, &options, &session, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_create(NULL, NULL, &session, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_create(model, NULL, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_create((xc_model*)engine, NULL, &session, &error));
  CHECK(session == NULL);
  xc_model_release(model);
  xc_engine_release(engine);
}

/* Gives a knob a value that the engines of these tests do not have. */
static xc_status set_another(xc_config* config, const xc_config_option_info* info,
                             xc_error** error) {
  char value[64] = "3";
  if (info->choices.size) { /* the second choice */
    const char* bar = strchr(info->choices.data, '|') + 1;
    const size_t size = strcspn(bar, "|");
    memcpy(value, bar, size);
    value[size] = 0;
  } else if (info->high == 1) {
    strcpy(value, "1");
  }
  return xc_config_set(config, info->name.data, value, error);
}

/* A session takes every knob but those that the engine has used by then. */
static void options_of_the_engine(void) {
  uint32_t i, refused = 0;
  xc_error* error = NULL;
  xc_engine* engine = make_engine("auto");
  xc_model* model = make_model(engine);
  for (i = 0; i < xc_config_option_count(); ++i) {
    xc_config_option_info info;
    xc_session* session = NULL;
    xc_config config = XC_CONFIG_INIT;
    xc_session_options options = XC_SESSION_OPTIONS_INIT;
    options.config = &config;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    CHECK_CODE(XC_OK, xc_config_option(i, &info));
    if (info.is_text) continue;
    CHECK_OK(set_another(&config, &info, &error));
    if (!info.engine_only) {
      CHECK_OK(xc_session_create(model, &options, &session, &error));
      xc_session_destroy(session);
      continue;
    }
    ++refused;
    CHECK(xc_session_create(model, &options, &session, &error) == XC_INVALID_ARGUMENT);
    CHECK(session == NULL);
    CHECK_CONTAINS(xc_error_message(error), info.name.data);
    CHECK_CONTAINS(xc_error_message(error), "to the engine");
    xc_error_destroy(error);
    error = NULL;
  }
  CHECK(refused == 8);
  xc_model_release(model);
  xc_engine_release(engine);
}

/* What the engine has anyway may be said again; only a strict engine's sessions are strict. */
static void options_of_both(void) {
  xc_error* error = NULL;
  xc_engine *tolerant = make_engine("off"), *strict = NULL;
  xc_model *model = make_model(tolerant), *exact;
  xc_session* session = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options engine_options = XC_ENGINE_OPTIONS_INIT;
  xc_session_options options = XC_SESSION_OPTIONS_INIT;
  options.config = &config;
  engine_options.config = &config;
  config.threads = 1;
  config.code_cache_bytes = 64 << 20;
  CHECK_OK(xc_session_create(model, &options, &session, &error));
  xc_session_destroy(session);
  session = NULL;
  config.numerics = XC_NUMERICS_STRICT;
  CHECK(xc_session_create(model, &options, &session, &error) == XC_INVALID_ARGUMENT);
  CHECK_CONTAINS(xc_error_message(error), "numerics");
  xc_error_destroy(error);
  error = NULL;
  CHECK_OK(xc_engine_create(&engine_options, &strict, &error));
  exact = make_model(strict);
  CHECK_OK(xc_session_create(exact, &options, &session, &error));
  xc_session_destroy(session);
  config.numerics = XC_NUMERICS_FAST;
  CHECK_OK(xc_session_create(exact, &options, &session, &error));
  xc_session_destroy(session);
  xc_model_release(exact);
  xc_engine_release(strict);
  xc_model_release(model);
  xc_engine_release(tolerant);
}

static void adaptation(void) {
  xc_error* error = NULL;
  xc_session* session = make_session("auto");
  xc_tensor *x = make_tensor(2, kDims, kValues), *y = NULL;
  const xc_tensor* in = x;
  xc_blob* text = NULL;
  xc_shape shape = {kDims, 2, 0}, none = {NULL, 2, 0};
  const int64_t unfit[3][2] = {{-1, 2}, {1, 3}, {INT64_MAX / 16, 3}};
  int32_t idle = 5;
  int i;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  xc_tensor_release(y);
  y = NULL;
  CHECK_OK(xc_session_explain(session, XC_EXPLAIN_TEXT, NULL, 0, &text, &error));
  if (text) CHECK(xc_blob_size(text) > 20);
  xc_blob_destroy(text);
  text = NULL;
  CHECK_OK(xc_session_explain(session, XC_EXPLAIN_JSON, &shape, 1, &text, &error));
  if (text) CHECK(*xc_blob_data(text) == '{');
  xc_blob_destroy(text);
  text = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_explain(session, 9, NULL, 0, &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_explain(session, 0, NULL, 1, &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_explain(session, 0, &none, 1, &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_explain(session, 0, NULL, 0, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_explain(NULL, 0, NULL, 0, &text, &error));
  CHECK(text == NULL);
  CHECK_OK(xc_session_warm_up(session, &shape, 1, 60000, &idle, &error));
  CHECK(idle == 1);
  CHECK_OK(xc_session_warm_up(session, &shape, 1, 60000, NULL, &error));
  CHECK_OK(xc_session_warm_up(session, &shape, 1, 0, &idle, &error));
  CHECK(idle == 0); /* no run ends in no time */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_warm_up(session, &shape, 1, -1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_warm_up(session, NULL, 0, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_warm_up(session, NULL, 1, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_warm_up(session, &none, 1, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_warm_up(NULL, &shape, 1, 1, NULL, &error));
  {
    const xc_shape huge = {shape.dims, 0x7fffffff, 0};
    CHECK_FAILS(XC_LIMIT, xc_session_warm_up(session, &huge, 1, 1, NULL, &error));
    CHECK_FAILS(XC_LIMIT, xc_session_explain(session, XC_EXPLAIN_TEXT, &huge, 1, &text, &error));
  }
  for (i = 0; i < 3; ++i) { /* negative, of another size, and that too large to try */
    const xc_shape wrong = {unfit[i], 2, 0};
    CHECK(xc_session_warm_up(session, &wrong, 1, 1, NULL, &error) == XC_INVALID_ARGUMENT);
    CHECK_CONTAINS(xc_error_text(error), "input 'x': expected f32[n, 2], got f32[");
    CHECK_TEXT(xc_error_where(error), "input 'x'");
    xc_error_destroy(error);
    error = NULL;
    CHECK(xc_session_explain(session, 0, &wrong, 1, &text, &error) == XC_INVALID_ARGUMENT);
    CHECK_CONTAINS(xc_error_text(error), "input 'x': expected f32[n, 2], got f32[");
    CHECK_TEXT(xc_error_where(error), "input 'x'");
    xc_error_destroy(error);
    error = NULL;
  }
  CHECK(text == NULL);
  CHECK_OK(xc_session_freeze(session, &error));
  CHECK_OK(xc_session_wait_idle(session, 10000, &idle, &error));
  CHECK(idle == 1);
  idle = 0;
  CHECK_OK(xc_session_wait_idle(session, INT64_MAX, &idle, &error));
  CHECK(idle == 1);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_wait_idle(session, -1, &idle, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_wait_idle(session, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_wait_idle(NULL, 1, &idle, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_session_freeze(NULL, &error));
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error)); /* frozen, and still right */
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

/* Mode sync compiles before the first use; the answer is the same. */
static void sync_mode(void) {
  xc_error* error = NULL;
  xc_session* session = make_session("sync");
  xc_tensor *x = make_tensor(2, kDims, kValues), *y = NULL;
  const xc_tensor* in = x;
  CHECK_OK(xc_session_run(session, NULL, &in, 1, &y, 1, &error));
  check_values(y, 2, kWant);
  xc_tensor_release(y);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

int main(void) {
  run_and_reuse();
  views();
  wrong_calls();
  overlapping();
  run_options();
  creation();
  options_of_the_engine();
  options_of_both();
  adaptation();
  sync_mode();
  return check_result();
}

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

/* Allocations of so many runs that may not allocate; -1 where one is refused. */
static long in_place(xc_session* session, const xc_tensor_view* views, uint32_t inputs,
                     uint32_t outputs) {
  xc_tensor* y[2] = {NULL, NULL};
  xc_error* error = NULL;
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  int i, failed = 0;
  options.flags = XC_RUN_NO_ALLOC;
  CHECK_OK(xc_session_run_views(session, NULL, views, inputs, y, outputs, &error));
  for (i = 0; i < 10; ++i) {
    xc_tensor_release(y[0]);
    xc_tensor_release(y[1]);
    y[0] = y[1] = NULL;
    allocations = 0;
    counting = 1;
    failed |= xc_session_run_views(session, &options, views, inputs, y, outputs, NULL) != XC_OK;
    counting = 0;
  }
  xc_tensor_release(y[0]);
  xc_tensor_release(y[1]);
  return failed ? -1 : allocations;
}

/* An operand of a model of one operator, all of whose elements are equal. */
typedef struct {
  int32_t dtype;
  uint32_t rank;
  int64_t dims[4];
  int value;
} operand;
typedef struct {
  const char* text;
  operand inputs[8];
  uint32_t outputs;
} one_step;

#define OF_F32 XC_DTYPE_F32
#define OF_I64 XC_DTYPE_I64
#define OF_U8 XC_DTYPE_U8
#define OF_I8 XC_DTYPE_I8
static const one_step kSteps[] = {
    {"graph g(%x: f32[3, 5]) -> (%y) { %y = ArgMax(%x) {axis = 1} }", {{OF_F32, 2, {3, 5}, 1}}, 1},
    {"graph g(%x: f32[3, 5]) -> (%y) { %y = ArgMin(%x) {axis = 0, keepdims = 0} }",
     {{OF_F32, 2, {3, 5}, 1}},
     1},
    {"graph g(%x: f32[3, 5], %a: i64[]) -> (%y) { %y = CumSum(%x, %a) }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 0, {0}, 1}},
     1},
    {"graph g(%x: f32[3, 5]) -> (%y, %z) { const %k: i64[1] = [2] %y, %z = TopK(%x, %k) }",
     {{OF_F32, 2, {3, 5}, 1}},
     2},
    {"graph g(%x: f32[2, 300]) -> (%y, %z) { const %k: i64[1] = [100] %y, %z = TopK(%x, %k) }",
     {{OF_F32, 2, {2, 300}, 1}},
     2},
    {"graph g(%x: i64[2, 150]) -> (%y, %z) { const %k: i64[1] = [100] %y, %z = TopK(%x, %k) }",
     {{OF_I64, 2, {2, 150}, 1}},
     2},
    {"graph g(%x: f32[2, 3, 3]) -> (%y) { %y = Trilu(%x) }", {{OF_F32, 3, {2, 3, 3}, 1}}, 1},
    {"graph g(%x: f32[3, 5], %i: i64[3, 2]) -> (%y) { %y = GatherElements(%x, %i) {axis = 1} }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 2, {3, 2}, 4}},
     1},
    {"graph g(%x: f32[3, 5], %i: i64[4, 1]) -> (%y) { %y = GatherND(%x, %i) }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 2, {4, 1}, 2}},
     1},
    {"graph g(%x: f32[3, 5], %i: i64[3, 2], %u: f32[3, 2]) -> (%y) {"
     " %y = ScatterElements(%x, %i, %u) {axis = 1, reduction = \"add\"} }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 2, {3, 2}, 4}, {OF_F32, 2, {3, 2}, 1}},
     1},
    {"graph g(%x: f32[3, 5], %i: i64[4, 1], %u: f32[4, 5]) -> (%y) { %y = ScatterND(%x, %i, %u) }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 2, {4, 1}, 2}, {OF_F32, 2, {4, 5}, 1}},
     1},
    {"graph g(%x: f32[2, 4, 3], %u: f32[2, 2, 3], %s: i64[2]) -> (%y) {"
     " %y = TensorScatter(%x, %u, %s) {mode = \"circular\"} }",
     {{OF_F32, 3, {2, 4, 3}, 1}, {OF_F32, 3, {2, 2, 3}, 2}, {OF_I64, 1, {2}, 3}},
     1},
    {"graph g(%s: i64[2]) -> (%y) { %y = ConstantOfShape(%s) }", {{OF_I64, 1, {2}, 3}}, 1},
    {"graph g(%i: i64[4], %v: f32[2]) -> (%y) {"
     " const %d: i64[] = 5 %y = OneHot(%i, %d, %v) }",
     {{OF_I64, 1, {4}, 3}, {OF_F32, 1, {2}, 1}},
     1},
    {"graph g(%a: u8[3, 4], %b: i8[4, 5]) -> (%y) { %y = MatMulInteger(%a, %b) }",
     {{OF_U8, 2, {3, 4}, 2}, {OF_I8, 2, {4, 5}, 3}},
     1},
    {"graph g(%a: i8[3, 4], %s: f32[], %z: i8[], %b: i8[4, 5]) -> (%y) {"
     " %y = QLinearMatMul(%a, %s, %z, %b, %s, %z, %s, %z) }",
     {{OF_I8, 2, {3, 4}, 2}, {OF_F32, 0, {0}, 1}, {OF_I8, 0, {0}, 0}, {OF_I8, 2, {4, 5}, 3}},
     1},
    {"graph g(%x: u8[1, 3, 5, 5], %w: u8[3, 1, 3, 3]) -> (%y) {"
     " %y = ConvInteger(%x, %w) {group = 3} }",
     {{OF_U8, 4, {1, 3, 5, 5}, 2}, {OF_U8, 4, {3, 1, 3, 3}, 3}},
     1},
    {"graph g(%x: f32[3, 2, 4], %w: f32[1, 20, 4], %r: f32[1, 20, 5]) -> (%y) {"
     " %y = LSTM(%x, %w, %r) {hidden_size = 5} }",
     {{OF_F32, 3, {3, 2, 4}, 1}, {OF_F32, 3, {1, 20, 4}, 1}, {OF_F32, 3, {1, 20, 5}, 1}},
     1},
    {"graph g(%x: f32[3, 5], %a: i64[0]) -> (%y) { %y = ReduceSum(%x, %a) }",
     {{OF_F32, 2, {3, 5}, 1}, {OF_I64, 1, {0}, 0}},
     1},
    {"graph g(%x: f32[1, 1, 5, 6]) -> (%y) {"
     " const %w: f32[4, 1, 3, 3] = splat 0.5 %y = Conv(%x, %w) {pads = [1, 1, 1, 1]} }",
     {{OF_F32, 4, {1, 1, 5, 6}, 1}},
     1},
    {"graph g(%x: f32[2, 128]) -> (%y) {"
     " const %w: f32[128, 256] = splat 0.5 %y = MatMul(%x, %w) }",
     {{OF_F32, 2, {2, 128}, 1}},
     1},
};

/* Memory of the elements. */
static void* filled(const operand* of) {
  int64_t count = 1, i;
  uint32_t axis;
  void* data;
  for (axis = 0; axis < of->rank; ++axis) count *= of->dims[axis];
  data = calloc((size_t)count + 1, 8);
  for (i = 0; i < count; ++i) switch (of->dtype) {
      case OF_F32:
        ((float*)data)[i] = (float)of->value;
        break;
      case OF_I64:
        ((int64_t*)data)[i] = of->value;
        break;
      default:
        ((int8_t*)data)[i] = (int8_t)of->value;
    }
  return data;
}

/* A step that may run without allocating does: its kernel plans when it is bound. */
static void steps(void) {
  size_t k;
  for (k = 0; k < sizeof kSteps / sizeof kSteps[0]; ++k) {
    const one_step* step = &kSteps[k];
    xc_tensor_view views[8];
    uint32_t inputs = 0, i;
    long found;
    xc_session* session = session_of(NULL, "jit", "off", step->text, NULL, 0);
    for (; inputs < 8 && step->inputs[inputs].dtype != XC_DTYPE_UNDEFINED; ++inputs) {
      const operand* of = &step->inputs[inputs];
      const xc_tensor_view view = {filled(of), of->dims, NULL, of->dtype, of->rank};
      views[inputs] = view;
    }
    found = in_place(session, views, inputs, step->outputs);
    if (found) printf("%ld allocations: %s\n", found, step->text);
    CHECK(found == 0);
    for (i = 0; i < inputs; ++i) free(views[i].data);
    xc_session_destroy(session);
  }
}

/* Inputs that lie otherwise are copied into memory of the session, which later runs find. */
static void strided(void) {
  const int64_t dims[2] = {40, 30}, columns[2] = {1, 40}, apart[2] = {60, 2};
  static float values[40 * 60];
  xc_error* error = NULL;
  xc_session* session =
      session_of(NULL, "jit", "off", "graph g(%x: f32[n, m]) -> (%y) { %y = Relu(%x) }", NULL, 0);
  xc_tensor_view view = {values, dims, columns, XC_DTYPE_F32, 2};
  xc_tensor *x = NULL, *y = make_tensor(2, dims, values);
  const xc_tensor* in;
  xc_call* call = NULL;
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  int i, failed = 0;
  options.flags = XC_RUN_NO_ALLOC;
  for (i = 0; i < 40 * 60; ++i) values[i] = (float)i;
  CHECK(in_place(session, &view, 1, 1) == 0);
  CHECK_OK(xc_session_run_views(session, &options, &view, 1, &y, 1, &error));
  for (i = 0; i < 40 * 30; ++i)
    failed |= ((const float*)xc_tensor_data(y))[i] != (float)(i / 30 + i % 30 * 40);
  view.strides = apart;
  CHECK(xc_session_run_views(session, &options, &view, 1, &y, 1, &error) == XC_LIMIT);
  CHECK_CONTAINS(xc_error_message(error), "run these inputs once without no_alloc");
  xc_error_destroy(error);
  error = NULL;
  CHECK(in_place(session, &view, 1, 1) == 0);

  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &x, &error));
  in = x;
  CHECK_OK(xc_session_prepare(session, &in, 1, NULL, 0, &call, &error));
  values[2] = 7; /* each run copies anew */
  allocations = 0;
  counting = 1;
  for (i = 0; i < 10; ++i) failed |= xc_call_run(call, NULL) != XC_OK;
  counting = 0;
  CHECK(allocations == 0);
  for (i = 0; i < 40 * 30; ++i)
    failed |= ((const float*)xc_tensor_data(xc_call_output(call, 0)))[i] !=
              (i == 1 ? 7 : (float)(i / 30 * 60 + i % 30 * 2));
  CHECK(!failed);
  xc_call_destroy(call);
  xc_tensor_release(x);
  xc_tensor_release(y);
  xc_session_destroy(session);
}

/* An output in the memory of an input: updated in place, or behind a copy that later runs find. */
static void shared(const char* text, int copies) {
  const int64_t dims[2] = {3, 3};
  const float values[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  xc_error* error = NULL;
  xc_session* session = session_of(NULL, "jit", "off", text, NULL, 0);
  xc_tensor *s = make_tensor(2, dims, values), *x = make_tensor(2, dims, values), *y = NULL;
  const xc_tensor* in[2] = {s, x};
  xc_run_options options = XC_RUN_OPTIONS_INIT;
  int i, failed = 0;
  options.flags = XC_RUN_NO_ALLOC;
  CHECK_OK(xc_session_run(session, NULL, in, 2, &y, 1, &error));
  xc_tensor_release(y);
  y = s;
  if (copies) {
    CHECK(xc_session_run(session, &options, in, 2, &y, 1, &error) == XC_LIMIT);
    CHECK_CONTAINS(xc_error_message(error), "in whose memory an output lies, are new");
    xc_error_destroy(error);
    error = NULL;
    check_floats(s, 9, values);
  }
  CHECK_OK(xc_session_run(session, NULL, in, 2, &y, 1, &error));
  allocations = 0;
  counting = 1;
  for (i = 0; i < 10; ++i) failed |= xc_session_run(session, &options, in, 2, &y, 1, NULL) != XC_OK;
  counting = 0;
  printf("an output in the memory of an input%s: %ld allocations\n", copies ? ", copied" : "",
         allocations);
  CHECK(allocations == 0);
  CHECK(!failed);
  xc_tensor_release(s);
  xc_tensor_release(x);
  xc_session_destroy(session);
}

/* A run keeps its lists of so many inputs on the stack. */
static void many_inputs(void) {
  enum { kInputs = 64 };
  const int64_t dims[1] = {2};
  static float values[2];
  static char text[8192];
  char* at = text;
  int i;
  xc_tensor_view views[kInputs];
  xc_session* session;
  at += sprintf(at, "graph g(");
  for (i = 0; i < kInputs; ++i) at += sprintf(at, "%s%%x%d: f32[2]", i ? ", " : "", i);
  at += sprintf(at, ") -> (%%y) {\n  %%y = Concat(");
  for (i = 0; i < kInputs; ++i) at += sprintf(at, "%s%%x%d", i ? ", " : "", i);
  sprintf(at, ") {axis = 0}\n}");
  for (i = 0; i < kInputs; ++i) {
    const xc_tensor_view view = {values, dims, NULL, XC_DTYPE_F32, 1};
    views[i] = view;
  }
  session = session_of(NULL, "jit", "off", text, NULL, 0);
  CHECK(in_place(session, views, kInputs, 1) == 0);
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
  shared("graph g(%s: f32[3, 3], %x: f32[3, 3]) -> (%t) { %t = Add(%s, %x) }", 0);
  shared(
      "graph g(%s: f32[3, 3], %x: f32[3, 3]) -> (%t) {\n"
      "  %p = Transpose(%s) {perm = [1, 0]} %q = Mul(%p, %x) %t = Sub(%q, %s)\n}",
      1);
  steps();
  strided();
  many_inputs();
  return check_result();
}
#endif

/* operator.h: operators of the host in models, run under several settings. */
#include <pthread.h>

#include "operators.h"

/* The numbers above a limit, and where they stand. */
static xc_status above(void* user_data, xc_op_call* call) {
  xc_tensor_view x, values, places;
  double limit = 0;
  int64_t i, found = 0;
  xc_status status;
  (void)user_data;
  if ((status = xc_op_call_input(call, 0, &x))) return status;
  if ((status = xc_op_call_float(call, "limit", &limit))) return status;
  for (i = 0; i < x.dims[0]; ++i) found += ((const float*)x.data)[i] > limit;
  if ((status = xc_op_call_allocate(call, 0, 1, &found, &values))) return status;
  if (xc_op_call_wants(call, 1)) {
    if ((status = xc_op_call_allocate(call, 1, 1, &found, &places))) return status;
    for (i = 0, found = 0; i < x.dims[0]; ++i)
      if (((const float*)x.data)[i] > limit) ((int64_t*)places.data)[found++] = i;
  }
  for (i = 0, found = 0; i < x.dims[0]; ++i)
    if (((const float*)x.data)[i] > limit) ((float*)values.data)[found++] = ((float*)x.data)[i];
  return XC_OK;
}

/* Sizes that follow from the inputs: written in place, between standard operators, for any config.
 */
static void in_place(void) {
  const char* configs[5][2] = {{"jit", "off"},
                               {"jit", "sync"},
                               {"kernels", "reference"},
                               {"layouts", "off"},
                               {"post_ops", "off"}};
  const int64_t dims[2] = {2, 2};
  const float values[4] = {1, -1, 0.5f, 2}, bias[2] = {1, 2}, want[4] = {22, 0, 12, 44};
  xc_error* error = NULL;
  int i, round;
  for (i = 0; i < 5; ++i) {
    xc_op_library* library = make_library();
    xc_session* session;
    xc_blob* text = NULL;
    xc_tensor* inputs[2];
    declare(library, kScale, scale, NULL);
    session = session_of(library, configs[i][0], configs[i][1], kScaled, NULL, 0);
    xc_op_library_release(library); /* the session keeps it */
    inputs[0] = make_tensor(2, dims, values);
    inputs[1] = vector(2, bias);
    for (round = 0; session && round < 3; ++round) {
      xc_tensor* y = NULL;
      if (CHECK_OK(
              xc_session_run(session, NULL, (const xc_tensor* const*)inputs, 2, &y, 1, &error)))
        check_floats(y, 4, want);
      xc_tensor_release(y);
    }
    if (session) CHECK_OK(xc_session_explain(session, XC_EXPLAIN_TEXT, NULL, 0, &text, &error));
    if (text) CHECK_CONTAINS(xc_blob_data(text), "acme::Scale");
    if (text && i != 2) CHECK_CONTAINS(xc_blob_data(text), "host");
    xc_blob_destroy(text);
    xc_tensor_release(inputs[0]);
    xc_tensor_release(inputs[1]);
    xc_session_destroy(session);
  }
}

/* A transposed view is what the operator reads: it sees row-major memory all the same. */
static void strided_inputs(void) {
  const int64_t dims[2] = {2, 3};
  const float values[6] = {1, 2, 3, 4, 5, 6}, want[6] = {2, 8, 4, 10, 6, 12};
  const char* kernels[2] = {"best", "reference"};
  xc_error* error = NULL;
  int i;
  for (i = 0; i < 2; ++i) {
    xc_op_library* library = make_library();
    xc_session* session;
    xc_tensor *x = make_tensor(2, dims, values), *y = NULL;
    declare(library, kScale, scale, NULL);
    session = session_of(library, "kernels", kernels[i],
                         "graph g(%x: f32[n, m]) -> (%y) {\n"
                         "  %t = Transpose(%x) {perm = [1, 0]}\n"
                         "  %y = acme::Scale(%t)\n}\n",
                         NULL, 0);
    if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
      check_floats(y, 6, want);
    xc_tensor_release(x);
    xc_tensor_release(y);
    xc_session_destroy(session);
    xc_op_library_release(library);
  }
}

/* Sizes that only the function knows, read by standard operators and given back. */
static void found_sizes(void) {
  const float values[5] = {1, 5, 3, 0, 7}, none[5] = {0, 0, 0, 0, 0}, want[3] = {-5, -3, -7};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_session* session;
  xc_blob* text = NULL;
  xc_tensor *x = vector(5, values), *y[2] = {NULL, NULL};
  declare(library, "acme::Above(x: f32[n]) {limit: float} -> values: f32[?], places?: i64[?]",
          above, NULL);
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n]) -> (%y, %p) {\n"
                       "  %v, %p = acme::Above(%x) {limit = 2.0}\n"
                       "  %y = Neg(%v)\n}\n",
                       NULL, 0);
  if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, y, 2, &error))) {
    check_floats(y[0], 3, want);
    CHECK(xc_tensor_dtype(y[1]) == XC_DTYPE_I64 && xc_tensor_element_count(y[1]) == 3);
    CHECK(((const int64_t*)xc_tensor_data(y[1]))[0] == 1);
    CHECK(((const int64_t*)xc_tensor_data(y[1]))[2] == 4);
  }
  xc_tensor_release(y[0]);
  xc_tensor_release(y[1]);
  y[0] = y[1] = NULL;
  memcpy(xc_tensor_data(x), none, sizeof none);
  if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, y, 2, &error)))
    CHECK(xc_tensor_element_count(y[0]) == 0 && xc_tensor_element_count(y[1]) == 0);
  xc_tensor_release(y[0]);
  xc_tensor_release(y[1]);
  CHECK_OK(xc_session_explain(session, XC_EXPLAIN_JSON, NULL, 0, &text, &error));
  if (text) CHECK_CONTAINS(xc_blob_data(text), "host");
  if (text) CHECK(!strstr(xc_blob_data(text), "dynamic"));
  xc_blob_destroy(text);
  xc_session_destroy(session);

  y[0] = NULL; /* an output that nobody wants */
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n]) -> (%v) {\n"
                       "  %v = acme::Above(%x) {limit = -1.0}\n}\n",
                       NULL, 0);
  if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, y, 1, &error)))
    check_floats(y[0], 5, none);
  xc_tensor_release(y[0]);
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_op_library_release(library);
}

/* A rank that only the run tells. */
static void unknown_rank(void) {
  const float values[4] = {1, -2, 3, 0}, want[4] = {2, -4, 6, 0};
  const int64_t shapes[2][2] = {{2, 2}, {4, 1}};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_session* session;
  int64_t rank;
  declare(library, kScale, scale, NULL);
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n], %s: i64[k]) -> (%y) {\n"
                       "  %r = Reshape(%x, %s)\n"
                       "  %y = acme::Scale(%r)\n}\n",
                       NULL, 0);
  for (rank = 1; session && rank < 3; ++rank) {
    xc_tensor *inputs[2], *y = NULL;
    inputs[0] = vector(4, values);
    CHECK_OK(xc_tensor_create(XC_DTYPE_I64, 1, &rank, &inputs[1], &error));
    memcpy(xc_tensor_data(inputs[1]), rank == 1 ? shapes[1] : shapes[0],
           sizeof(int64_t) * (size_t)rank);
    if (CHECK_OK(
            xc_session_run(session, NULL, (const xc_tensor* const*)inputs, 2, &y, 1, &error))) {
      CHECK(xc_tensor_rank(y) == (uint32_t)rank);
      check_floats(y, 4, want);
    }
    xc_tensor_release(y);
    xc_tensor_release(inputs[0]);
    xc_tensor_release(inputs[1]);
  }
  xc_session_destroy(session);
  xc_op_library_release(library);
}

/* Rules give operators a meaning, with attributes, given or default, as numbers. */
static void rules(void) {
  const float values[3] = {-2, 1, 3}, want[3] = {-7, 2, 8};
  const char* said_in[2] = {"on", "off"};
  char said[512];
  xc_error* error = NULL;
  int i;
  for (i = 0; i < 2; ++i) { /* "rules" turns the built-in ones off, not the meaning of operators */
    xc_op_library* library = make_library();
    xc_session* session;
    xc_tensor *x = vector(3, values), *y = NULL;
    xc_blob* text = NULL;
    declare(library, "acme::Affine(x: f32[...]) {a: float = 3, b: int} -> y: f32[...]", NULL, NULL);
    CHECK_OK(xc_op_library_add_rules(
        library, "rule affine: acme::Affine(?x) {a = ?a, b = ?b} => Add(Mul(?x, ?a), ?b)", &error));
    session = session_of(library, "rules", said_in[i],
                         "graph g(%x: f32[n]) -> (%y) {\n"
                         "  %y = acme::Affine(%x) {b = -1}\n}\n",
                         NULL, 0);
    if (session) {
      if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
        check_floats(y, 3, want);
      CHECK_OK(xc_session_explain(session, XC_EXPLAIN_TEXT, NULL, 0, &text, &error));
      CHECK(text && !strstr(xc_blob_data(text), "acme"));
    }
    xc_blob_destroy(text);
    xc_tensor_release(x);
    xc_tensor_release(y);
    xc_session_destroy(session);
    /* Where no rule applies, there is nothing to do. */
    library = (xc_op_library_release(library), make_library());
    declare(library, "acme::Affine(x: f32[...]) -> y: f32[...]", NULL, NULL);
    CHECK(!session_of(library, NULL, NULL,
                      "graph g(%x: f32[n]) -> (%y) { %y = acme::Affine(%x) \"here\" }", said,
                      sizeof said));
    CHECK_CONTAINS(said, "no function, and no rule");
    CHECK_CONTAINS(said, "here");
    xc_op_library_release(library);
  }
  { /* the function stands in where the rule's condition does not hold */
    xc_op_library* library = make_library();
    xc_tensor *x = vector(3, values), *y = NULL;
    const float doubled[3] = {-4, 2, 6};
    char text[128];
    declare(library, kScale, scale, NULL);
    CHECK_OK(xc_op_library_add_rules(
        library, "rule nothing: acme::Scale(?x) {alpha = ?a} => Identity(?x) where value(?a) == 1",
        &error));
    for (i = 1; i < 3; ++i) {
      xc_session* session;
      snprintf(text, sizeof text,
               "graph g(%%x: f32[n]) -> (%%y) { %%y = acme::Scale(%%x) {alpha = %d.0} }", i);
      session = session_of(library, NULL, NULL, text, NULL, 0);
      if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
        check_floats(y, 3, i == 1 ? values : doubled);
      xc_tensor_release(y);
      y = NULL;
      xc_session_destroy(session);
    }
    xc_tensor_release(x);
    xc_op_library_release(library);
  }
  {
    xc_op_library* library = make_library();
    CHECK_FAILS(XC_FORMAT, xc_op_library_add_rules(library, "rule r: Relu(?x) =>", &error));
    CHECK(xc_op_library_add_rules(library, "rule r: acme::None(?x) => Relu(?x)", &error) ==
          XC_FORMAT);
    CHECK_CONTAINS(xc_error_message(error), "acme::None");
    xc_error_destroy(error);
    error = NULL;
    CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add_rules(library, NULL, &error));
    CHECK_FAILS(XC_INVALID_ARGUMENT, xc_op_library_add_rules(NULL, "", &error));
    xc_op_library_release(library);
  }
}

/* ---- when functions are called ---- */

static xc_status counts(void* user_data, xc_op_call* call) {
  ++*(int*)user_data;
  return scale(NULL, call);
}

/* A node of constants is computed at load, and equal nodes are merged, only when it is pure. */
static void purity(void) {
  static const char text[] =
      "graph g(%x: f32[2]) -> (%y) {\n"
      "  const %c: f32[2] = [1, 2]\n"
      "  %a = acme::Scale(%c)\n"
      "  %b = acme::Scale(%x)\n"
      "  %d = acme::Scale(%x)\n"
      "  %unused = acme::Scale(%x)\n"
      "  %e = Add(%b, %d)\n"
      "  %y = Add(%e, %a)\n}\n";
  const float values[2] = {1, 1}, want[2] = {6, 8};
  char signature[128];
  int pure;
  for (pure = 0; pure < 2; ++pure) {
    int times = 0;
    xc_error* error = NULL;
    xc_op_library* library = make_library();
    xc_tensor *x = vector(2, values), *y = NULL;
    xc_session* session;
    snprintf(signature, sizeof signature, "%s%s", pure ? "pure " : "", kScale);
    declare(library, signature, counts, &times);
    session = session_of(library, NULL, NULL, text, NULL, 0);
    CHECK(times == pure); /* the constant */
    times = 0;
    if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
      check_floats(y, 2, want);
    CHECK(times == (pure ? 1 : 3));
    xc_tensor_release(x);
    xc_tensor_release(y);
    xc_session_destroy(session);
    xc_op_library_release(library);
  }
}

typedef struct {
  xc_session* session;
  int times;
} asker;

/* Asks for the session's past, and runs what it knows: neither waits for what is made just now. */
static xc_status asks(void* user_data, xc_op_call* call) {
  asker* self = (asker*)user_data;
  xc_tensor_view in, out;
  xc_status status;
  if ((status = xc_op_call_input(call, 0, &in))) return status;
  if ((status = xc_op_call_output(call, 0, &out))) return status;
  *(int64_t*)out.data = *(const int64_t*)in.data;
  if (self->session && ++self->times == 2) {
    const float values[3] = {1, 2, 3}, want[3] = {2, 3, 4};
    xc_error* error = NULL;
    xc_profile* profile = NULL;
    xc_counters counters = XC_COUNTERS_INIT;
    xc_tensor *x = vector(3, values), *y = NULL;
    CHECK_OK(xc_session_counters(self->session, &counters, &error));
    CHECK_OK(xc_session_profile(self->session, &profile, &error));
    xc_profile_destroy(profile);
    if (CHECK_OK(
            xc_session_run(self->session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
      check_floats(y, 3, want);
    xc_tensor_release(x);
    xc_tensor_release(y);
  }
  return XC_OK;
}

/* Where the model leaves the rank open, a run of a new one computes what is constant there: the
 * operator is called with no lock held, and runs of known ranks go on. */
static void new_ranks(void) {
  const float values[6] = {1, 2, 3, 4, 5, 6}, first[3] = {2, 3, 4}, second[6] = {3, 4, 5, 6, 7, 8};
  const int64_t dims[2] = {2, 3};
  asker self = {NULL, 0};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_tensor *line = vector(3, values), *table = make_tensor(2, dims, values), *y = NULL;
  declare(library, "pure acme::Asks(x: i64[1]) -> y: i64[1]", asks, &self);
  self.session = session_of(library, NULL, NULL,
                            "graph g(%x: f32[*]) -> (%y) {\n"
                            "  %shape = Shape(%x)\n"
                            "  %rank = Shape(%shape)\n"
                            "  %r = acme::Asks(%rank)\n"
                            "  %f = Cast(%r) {to = 1}\n"
                            "  %y = Add(%x, %f)\n}\n",
                            NULL, 0);
  if (CHECK_OK(
          xc_session_run(self.session, NULL, (const xc_tensor* const*)&line, 1, &y, 1, &error)))
    check_floats(y, 3, first);
  xc_tensor_release(y);
  y = NULL;
  CHECK(self.times == 1);
  if (CHECK_OK(
          xc_session_run(self.session, NULL, (const xc_tensor* const*)&table, 1, &y, 1, &error)))
    check_floats(y, 6, second);
  CHECK(self.times == 2);
  xc_tensor_release(y);
  xc_tensor_release(line);
  xc_tensor_release(table);
  xc_session_destroy(self.session);
  xc_op_library_release(library);
}

/* An operator inside of a loop's body: three times 2 x. */
static void bodies(void) {
  const float values[2] = {1, -1}, want[2] = {8, -8};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_tensor *x = vector(2, values), *y = NULL;
  xc_session* session;
  declare(library, kScale, scale, NULL);
  session = session_of(library, NULL, NULL,
                       "graph g(%x: f32[n]) -> (%y) {\n"
                       "  const %times: i64[] = 3\n"
                       "  const %go: bool[] = true\n"
                       "  %y = Loop(%times, %go, %x) {} captures 0 (graph body(%i: i64[], %c: "
                       "bool[], %s: f32[n]) -> "
                       "(%c, %t) {\n"
                       "    %t = acme::Scale(%s)\n"
                       "  })\n"
                       "}\n",
                       NULL, 0);
  if (session &&
      CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
    check_floats(y, 2, want);
  xc_tensor_release(x);
  xc_tensor_release(y);
  xc_session_destroy(session);
  xc_op_library_release(library);
}

/* ---- several threads, and the order of release ---- */

typedef struct {
  xc_session* session;
  float first;
  int right;
} worker;

static void* run_often(void* opaque) {
  worker* w = (worker*)opaque;
  const int64_t three = 3;
  int i;
  for (i = 0; i < 50; ++i) {
    float values[3];
    xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 1};
    xc_tensor *x = NULL, *y = NULL;
    values[0] = w->first;
    values[1] = (float)i;
    values[2] = -1;
    view.data = values;
    view.dims = &three;
    if (xc_tensor_wrap(&view, NULL, NULL, &x, NULL) == XC_OK &&
        xc_session_run(w->session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, NULL) == XC_OK &&
        ((const float*)xc_tensor_data(y))[0] == 2 * w->first &&
        ((const float*)xc_tensor_data(y))[1] == 2 * (float)i)
      ++w->right;
    xc_tensor_release(x);
    xc_tensor_release(y);
  }
  return NULL;
}

static void threads(void) {
  pthread_t ids[2];
  worker workers[2];
  xc_op_library* library = make_library();
  xc_session* session;
  int i;
  declare(library, kScale, scale, NULL);
  session = session_of(library, NULL, NULL, "graph g(%x: f32[n]) -> (%y) { %y = acme::Scale(%x) }",
                       NULL, 0);
  for (i = 0; session && i < 2; ++i) {
    workers[i].session = session;
    workers[i].first = (float)(i + 1);
    workers[i].right = 0;
    CHECK(pthread_create(&ids[i], NULL, run_often, &workers[i]) == 0);
  }
  for (i = 0; session && i < 2; ++i) {
    CHECK(pthread_join(ids[i], NULL) == 0);
    CHECK(workers[i].right == 50);
  }
  xc_session_destroy(session);
  xc_op_library_release(library);
}

int main(void) {
  in_place();
  strided_inputs();
  found_sizes();
  unknown_rank();
  rules();
  purity();
  new_ranks();
  bodies();
  threads();
  return check_result();
}

/* operator.h: all that a call tells its function; operators in graphs and files; who keeps them. */
#include <stdlib.h>
#include <time.h>

#include "operators.h"

/* ---- everything a call can tell ---- */

static xc_status looks_around(void* user_data, xc_op_call* call) {
  xc_tensor_view view;
  xc_string_view text;
  const int64_t* ints = NULL;
  const double* floats = NULL;
  uint64_t count = 0;
  int64_t i = 0;
  double f = 0;
  xc_string_view words[2];
  const char* name = NULL;
  int32_t kind = -1;
  ++*(int*)user_data;
  CHECK_TEXT(xc_op_call_node(call), "all of it");
  CHECK(xc_op_call_input_count(call) == 3 && xc_op_call_output_count(call) == 2);
  CHECK_CODE(XC_OK, xc_op_call_input(call, 0, &view));
  CHECK(view.dtype == XC_DTYPE_STRING && view.rank == 1 && view.dims[0] == 2);
  CHECK_CODE(XC_OK, xc_op_call_input_string(call, 0, 1, &text));
  CHECK(text.size == 3 && memcmp(text.data, "two", 3) == 0);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input_string(call, 0, 2, &text));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input_string(call, 1, 0, &text));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input_string(call, 0, 0, NULL));
  CHECK_CODE(XC_OK, xc_op_call_input(call, 2, &view));
  CHECK(view.dtype == XC_DTYPE_I64 && ((const int64_t*)view.data)[0] == 5);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input(call, 3, &view));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input(call, 0, NULL));

  CHECK_CODE(XC_OK, xc_op_call_int(call, "i", &i));
  CHECK_CODE(XC_OK, xc_op_call_float(call, "f", &f));
  CHECK(i == -3 && f == 0.25);
  CHECK_CODE(XC_OK, xc_op_call_string(call, "s", &text));
  CHECK(text.size == 2 && memcmp(text.data, "hi", 2) == 0);
  CHECK_CODE(XC_OK, xc_op_call_ints(call, "is", &ints, &count));
  CHECK(count == 2 && ints[1] == 8);
  CHECK_CODE(XC_OK, xc_op_call_floats(call, "fs", &floats, &count));
  CHECK(count == 1 && floats[0] == 1.5);
  CHECK_CODE(XC_OK, xc_op_call_strings(call, "ss", 1, &text, &count));
  CHECK(count == 2 && text.size == 1 && *text.data == 'b');
  CHECK_CODE(XC_OK, xc_op_call_strings(call, "ss", 9, NULL, &count));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_strings(call, "ss", 2, &text, NULL));
  CHECK_CODE(XC_OK, xc_op_call_tensor(call, "t", &view));
  CHECK(view.dtype == XC_DTYPE_F32 && view.rank == 1 && ((const float*)view.data)[1] == 4);
  CHECK(xc_op_call_has(call, "i") == 1 && xc_op_call_has(call, "maybe") == 0);
  CHECK(xc_op_call_has(call, "none") == 0 && xc_op_call_has(call, NULL) == 0);
  CHECK_CODE(XC_NOT_FOUND, xc_op_call_int(call, "maybe", &i));
  CHECK_CODE(XC_NOT_FOUND, xc_op_call_int(call, "none", &i));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_int(call, "f", &i));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_int(call, NULL, &i));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_int(call, "i", NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_float(call, "f", NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_string(call, "s", NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_ints(call, "is", NULL, &count));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_floats(call, "fs", &floats, NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_tensor(call, "t", NULL));

  CHECK(xc_op_call_attribute_count(call) == 8 && xc_op_call_attribute_count(NULL) == 0);
  CHECK_CODE(XC_OK, xc_op_call_attribute(call, 6, &name, &kind));
  CHECK_TEXT(name, "t");
  CHECK(kind == XC_ATTRIBUTE_TENSOR);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_attribute(call, 8, &name, &kind));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_attribute(call, 0, NULL, &kind));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_attribute(call, 0, &name, NULL));

  CHECK(xc_op_call_wants(call, 0) == 1 && xc_op_call_wants(call, 1) == 1);
  CHECK(xc_op_call_wants(call, 2) == 0);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_output(call, 2, &view));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_output(call, 0, NULL));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_allocate(call, 1, 1, NULL, &view));
  i = -1;
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_allocate(call, 1, 1, &i, &view));
  i = 2;
  CHECK_CODE(XC_LIMIT, xc_op_call_allocate(call, 1, 99, &i, &view));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_allocate(call, 1, 1, &i, NULL));
  CHECK_CODE(XC_OK, xc_op_call_allocate(call, 1, 1, &i, &view));
  words[0].data = "x";
  words[0].size = 1;
  words[1].data = NULL;
  words[1].size = 0;
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_set_strings(call, 1, words, 1));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_set_strings(call, 1, NULL, 2));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_set_strings(call, 0, words, 1));
  CHECK_CODE(XC_OK, xc_op_call_set_strings(call, 1, words, 2));
  CHECK_CODE(XC_OK, xc_op_call_output(call, 0, &view));
  CHECK(view.dtype == XC_DTYPE_I32 && view.rank == 0);
  *(int32_t*)view.data = 42;
  CHECK(xc_op_call_fail(NULL, XC_RANGE, "x") == XC_RANGE);
  return XC_OK; /* failures that the function gets over do not matter */
}

static void calls(void) {
  int times = 0;
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_session* session;
  xc_tensor *inputs[2] = {NULL, NULL}, *outputs[2] = {NULL, NULL};
  const int64_t two = 2;
  const float values[2] = {0, 0};
  xc_string_view words[2], text;
  words[0].data = "one";
  words[1].data = "two";
  words[0].size = words[1].size = 3;
  declare(
      library,
      "acme::All(words: string[n], more*: f32|i64[*]) {i: int = -3, f: float, s: string = \"hi\", "
      "is: ints = [7, 8], fs: floats = [1.5], ss: strings = [\"a\", \"b\"], t: tensor, "
      "maybe?: int} -> count: i32[], words_out?: string[?]",
      looks_around, &times);
  session = session_of(
      library, NULL, NULL,
      "graph g(%w: string[n], %x: f32[2]) -> (%c, %s) {\n"
      "  const %five: i64[1] = [5]\n"
      "  %c, %s = acme::All(%w, %x, %five) {f = 0.25, t = f32[2] [3, 4]} \"all of it\"\n}\n",
      NULL, 0);
  CHECK_OK(xc_tensor_create(XC_DTYPE_STRING, 1, &two, &inputs[0], &error));
  CHECK_OK(xc_tensor_set_strings(inputs[0], words, 2, &error));
  inputs[1] = vector(2, values);
  if (session && CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)inputs, 2, outputs,
                                         2, &error))) {
    CHECK(times == 1);
    CHECK(*(const int32_t*)xc_tensor_data(outputs[0]) == 42);
    CHECK(xc_tensor_element_count(outputs[1]) == 2);
    CHECK_OK(xc_tensor_string(outputs[1], 0, &text, &error));
    CHECK(text.size == 1 && *text.data == 'x');
  }
  xc_tensor_release(inputs[0]);
  xc_tensor_release(inputs[1]);
  xc_tensor_release(outputs[0]);
  xc_tensor_release(outputs[1]);
  xc_session_destroy(session);
  xc_op_library_release(library);
  /* Outside of a function there is no call. */
  CHECK_TEXT(xc_op_call_node(NULL), "");
  CHECK(xc_op_call_input_count(NULL) == 0 && xc_op_call_output_count(NULL) == 0);
  CHECK(xc_op_call_wants(NULL, 0) == 0 && xc_op_call_has(NULL, "i") == 0);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_op_call_input(NULL, 0, NULL));
}

/* ---- graphs ---- */

/* What is known of types before a run: sizes in terms of the model's own names. */
static void inferred_types(void) {
  static const char text[] =
      "graph g(%a: f64[batch, h, 3], %b: f64[h]) -> (%y, %z, %w) {\n"
      "  %y, %z, %w = acme::Op(%a, %b) {k = 2}\n}\n";
  static const char* const want[3] = {"f64[batch, h, 3]", "i64[1+2*h]", "f32[u0, batch]"};
  xc_error* error = NULL;
  xc_op_library* library = make_library();
  xc_engine* engine;
  xc_model* model = NULL;
  uint32_t i;
  declare(
      library,
      "acme::Op(x: T[b, n, m], w: T[n]) {k: int} -> y: T[b, n, m], z: i64[k*n + 1], w2: f32[?, b] "
      "where T: f32|f64",
      looks_around, NULL);
  engine = engine_with(library, NULL, NULL);
  CHECK_OK(xc_model_load_bytes(engine, text, strlen(text), &model, &error));
  for (i = 0; model && i < 3; ++i) {
    xc_port port = XC_PORT_INIT;
    CHECK_CODE(XC_OK, xc_model_output(model, i, &port));
    CHECK_TEXT(port.type.data, want[i]);
  }
  xc_model_release(model);
  xc_engine_release(engine);
  xc_op_library_release(library);
}

static void graphs(void) {
  const char* endings[3] = {"op.xcg", "op.xct", "op.onnx"};
  const char* dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  const int64_t dims[2] = {1, 2};
  const float values[2] = {3, -1}, want[2] = {15, -5};
  char path[512];
  xc_error* error = NULL;
  xc_op_library *library = make_library(), *other = make_library();
  xc_engine *engine, *stranger;
  xc_graph *graph = NULL, *again = NULL;
  xc_model* model = NULL;
  xc_value x = 0, y = 0;
  xc_node node = 0;
  int i;
  declare(library, kScale, scale, NULL);
  declare(
      library,
      "\"my-company.com\"::Same(x: f32[..., n], b?: f32[n]) {alpha: float = 1} -> y: f32[..., n]",
      scale, NULL);
  CHECK_OK(xc_op_library_add_rules(
      library,
      "rule known: \"my-company.com\"::Same(?x) {alpha = ?a} => Identity(?x) where value(?a) == 3",
      &error));
  declare(other, kScale, scale, NULL);
  CHECK_OK(xc_graph_create("g", &graph, &error));
  CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "n, 2", &x, &error));
  CHECK_FAILS(XC_UNSUPPORTED,
              xc_graph_add_node(graph, "Scale", "acme", NULL, &x, 1, &y, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_operators(graph, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_operators(NULL, library, &error));
  CHECK_OK(xc_graph_set_operators(graph, library, &error));
  CHECK_OK(xc_graph_set_operators(graph, library, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_operators(graph, other, &error));
  CHECK_OK(xc_graph_add_node(graph, "Scale", "acme", "s", &x, 1, &y, 1, &node, &error));
  CHECK_OK(xc_graph_set_float(graph, node, "alpha", 5, &error));
  CHECK_OK(xc_graph_add_node(graph, "Same", "my-company.com", "m", &y, 1, &y, 1, NULL, &error));
  CHECK_OK(xc_graph_add_output(graph, y, "y", &error));
  /* The library does not change any more. */
  CHECK_FAILS(XC_BUSY, xc_op_library_add(library, "acme::B(x: f32) -> y: i64[]", NULL, &error));
  CHECK_FAILS(XC_BUSY, xc_op_library_add_rules(library, "", &error));

  engine = engine_with(library, NULL, NULL);
  stranger = engine_with(other, NULL, NULL);
  CHECK(xc_model_create(stranger, graph, &model, &error) == XC_INVALID_ARGUMENT);
  CHECK_CONTAINS(xc_error_message(error), "another operator library");
  xc_error_destroy(error);
  error = NULL;
  xc_engine_release(stranger);
  for (i = 0; i < 3; ++i) {
    xc_session* session = NULL;
    xc_tensor *in = make_tensor(2, dims, values), *out = NULL;
    snprintf(path, sizeof path, "%.400s/xc_capi_%ld_%p_%s", dir, (long)time(NULL), (void*)graph,
             endings[i]);
    CHECK_OK(xc_graph_save_file(graph, path, &error));
    CHECK_FAILS(XC_UNSUPPORTED, xc_graph_load_file(path, 1, NULL, &again, &error));
    CHECK_OK(xc_graph_load_file(path, 1, library, &again, &error));
    CHECK_OK(xc_graph_run_passes(again, "all", &error));
    CHECK_OK(xc_model_create(engine, again, &model, &error));
    xc_graph_destroy(again);
    again = NULL;
    CHECK_OK(xc_model_graph(model, &again, &error));
    CHECK_OK(xc_session_create(model, NULL, &session, &error));
    if (CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&in, 1, &out, 1, &error)))
      check_floats(out, 2, want);
    xc_tensor_release(in);
    xc_tensor_release(out);
    xc_session_destroy(session);
    xc_model_release(model);
    xc_graph_destroy(again);
    model = NULL;
    again = NULL;
    remove(path);
  }
  xc_engine_release(engine);
  xc_op_library_release(library);
  xc_op_library_release(other);
  xc_graph_destroy(graph); /* keeps the operators of its nodes up to here */
}

/* User data goes when the last of library, engine, model, graph and session is gone. */
static void release_order(void) {
  static const char text[] = "graph g(%x: f32[n]) -> (%y) { %y = acme::Scale(%x) }";
  int last;
  for (last = 0; last < 4; ++last) {
    xc_error* error = NULL;
    xc_op_library* library = make_library();
    xc_op_function function = {scale, &destroyed, on_destroy};
    xc_engine* engine;
    xc_model* model = NULL;
    xc_session* session = NULL;
    xc_graph* graph = NULL;
    destroyed = 0;
    CHECK_OK(xc_op_library_add(library, kScale, &function, &error));
    engine = engine_with(library, NULL, NULL);
    CHECK_OK(xc_model_load_bytes(engine, text, strlen(text), &model, &error));
    CHECK_OK(xc_session_create(model, NULL, &session, &error));
    CHECK_OK(xc_model_graph(model, &graph, &error));
    if (last != 0) xc_op_library_release(library);
    xc_engine_release(engine);
    if (last != 1) xc_model_release(model);
    if (last != 2) xc_session_destroy(session);
    if (last != 3) xc_graph_destroy(graph);
    CHECK(destroyed == 0);
    if (last == 0) xc_op_library_release(library);
    if (last == 1) xc_model_release(model);
    if (last == 2) xc_session_destroy(session);
    if (last == 3) xc_graph_destroy(graph);
    CHECK(destroyed == 1);
  }
  { /* an engine that cannot be made does not take the library */
    xc_error* error = NULL;
    xc_op_library* library = make_library();
    xc_engine* engine = NULL;
    xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
    xc_config config = XC_CONFIG_INIT;
    config.threads = -1;
    options.config = &config;
    options.operators = library;
    CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&options, &engine, &error));
    CHECK_OK(xc_op_library_add(library, kScale, NULL, &error));
    xc_op_library_release(library);
  }
}

int main(void) {
  calls();
  inferred_types();
  graphs();
  release_order();
  return check_result();
}

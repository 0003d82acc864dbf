/* graph.h */
#include <stdlib.h>

#include "models.h"

static void text_and_back(void) {
  xc_error* error = NULL;
  xc_graph *graph = make_graph(), *again = NULL;
  xc_blob *text = NULL, *second = NULL;
  CHECK_OK(xc_graph_text(graph, 0, &text, &error));
  CHECK_CONTAINS(xc_blob_data(text), "Relu(");
  CHECK_CONTAINS(xc_blob_data(text), "[10, -2]");
  CHECK_OK(xc_graph_load_bytes(xc_blob_data(text), xc_blob_size(text), NULL, &again, &error));
  CHECK_OK(xc_graph_text(again, -1, &second, &error));
  CHECK_CONTAINS(xc_blob_data(second), "Relu(");
  xc_blob_destroy(text);
  xc_blob_destroy(second);
  text = NULL;
  CHECK_OK(xc_graph_text(graph, 1, &text, &error)); /* the constant has 2 elements */
  CHECK_CONTAINS(xc_blob_data(text), "elided");
  xc_blob_destroy(text);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_text(NULL, 0, &second, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_text(graph, 0, NULL, &error));
  xc_graph_destroy(graph);
  xc_graph_destroy(again);
  xc_graph_destroy(NULL);
}

static void files(void) {
  const char* endings[3] = {"small.xcg", "small.xct", "small.onnx"};
  char path[3][512];
  xc_error* error = NULL;
  xc_graph *graph = make_graph(), *again = NULL;
  const char* dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  int i, copy;
  for (i = 0; i < 3; ++i) {
    snprintf(path[i], sizeof path[i], "%.400s/xc_capi_graph_%s", dir, endings[i]);
    if (xc_graph_save_file(graph, path[i], &error) == XC_UNSUPPORTED) {
      printf("skipped: %s\n", xc_error_text(error));
      xc_error_destroy(error);
      error = NULL;
      continue;
    }
    CHECK(error == NULL);
    for (copy = 0; copy < 2; ++copy) {
      CHECK_OK(xc_graph_load_file(path[i], copy, NULL, &again, &error));
      xc_graph_destroy(again);
      again = NULL;
    }
    remove(path[i]);
  }
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_save_file(graph, "small.docx", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_save_file(graph, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_save_file(NULL, "a.xcg", &error));
  CHECK(xc_graph_save_file(graph, "/no/such/dir/small.xcg", &error) != XC_OK);
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_NOT_FOUND, xc_graph_load_file("/no/such/file.onnx", 0, NULL, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_load_file(NULL, 0, NULL, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_load_file("a", 0, NULL, NULL, &error));
  CHECK_FAILS(XC_FORMAT, xc_graph_load_bytes("\1\2\3", 3, NULL, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_load_bytes(NULL, 3, NULL, &again, &error));
  CHECK(again == NULL);
  xc_graph_destroy(graph);
}

static void building(void) {
  const int64_t ints[2] = {1, 2}, two = 2;
  const double floats[1] = {0.5};
  const char* const strings[2] = {"a", "b"};
  xc_error* error = NULL;
  xc_graph* graph = NULL;
  xc_tensor* tensor = NULL;
  xc_value x = 0, c = 0, y[2] = {0, 0}, bad = 1000;
  xc_node node = 0;
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 1, &two, &tensor, &error));
  CHECK_OK(xc_graph_create("g", &graph, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_create("g", NULL, &error));

  CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "n, min(2*n, 8), 3", &x, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_input(graph, "x", XC_DTYPE_F32, "", &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_input(graph, "z", 77, "", &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_input(graph, NULL, XC_DTYPE_F32, "", &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_input(graph, "z", XC_DTYPE_F32, "", NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_input(NULL, "z", XC_DTYPE_F32, "", &c, &error));
  CHECK(xc_graph_add_input(graph, "z", XC_DTYPE_F32, "n, )", &c, &error) != XC_OK);
  CHECK_CONTAINS(xc_error_where(error), "z");
  xc_error_destroy(error);
  error = NULL;

  CHECK_OK(xc_graph_add_constant(graph, NULL, tensor, &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_constant(graph, "x", tensor, &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_constant(graph, "k", NULL, &c, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_constant(graph, "k", tensor, NULL, &error));

  CHECK_OK(xc_graph_add_node(graph, "Softmax", "", "soft", &x, 1, y, 1, &node, &error));
  CHECK_FAILS(XC_UNSUPPORTED,
              xc_graph_add_node(graph, "NoSuchOp", "", NULL, &x, 1, y, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT,
              xc_graph_add_node(graph, "Relu", "", NULL, &bad, 1, y, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT,
              xc_graph_add_node(graph, "Relu", "", NULL, NULL, 1, y, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT,
              xc_graph_add_node(graph, "Relu", "", NULL, &x, 1, NULL, 1, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT,
              xc_graph_add_node(graph, NULL, "", NULL, &x, 1, y, 1, NULL, &error));

  CHECK_OK(xc_graph_set_int(graph, node, "axis", -1, &error));
  CHECK_OK(xc_graph_set_float(graph, node, "f", 0.5, &error));
  CHECK_OK(xc_graph_set_string(graph, node, "s", "text", &error));
  CHECK_OK(xc_graph_set_ints(graph, node, "is", ints, 2, &error));
  CHECK_OK(xc_graph_set_floats(graph, node, "fs", floats, 1, &error));
  CHECK_OK(xc_graph_set_strings(graph, node, "ss", strings, 2, &error));
  CHECK_OK(xc_graph_set_tensor(graph, node, "t", tensor, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_int(graph, 99, "axis", -1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_int(graph, node, NULL, -1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_string(graph, node, "s", NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_ints(graph, node, "is", NULL, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_floats(NULL, node, "fs", floats, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_strings(graph, node, "ss", NULL, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_tensor(graph, node, "t", NULL, &error));

  CHECK_OK(xc_graph_add_output(graph, y[0], "y", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_output(graph, y[0], "x", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_output(graph, x, "renamed", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_output(graph, bad, NULL, &error));
  xc_tensor_release(tensor);
  xc_graph_destroy(graph);
}

/* A constant stays what it was when its tensor goes back to the session that made it. */
static void results_as_constants(void) {
  const int64_t dims[2] = {1, 2};
  const float ones[2] = {1, 1}, nines[2] = {9, 9};
  xc_error* error = NULL;
  xc_session* session = make_session("off"); /* Relu(x + [10, -2]) */
  xc_tensor* x = make_tensor(2, dims, ones);
  xc_tensor* y = NULL;
  xc_graph *graph = NULL, *with_attribute = NULL;
  xc_blob *before = NULL, *after = NULL;
  xc_value c = 0;
  xc_node node = 0;
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  CHECK_OK(xc_graph_create("g", &graph, &error));
  CHECK_OK(xc_graph_add_constant(graph, "c", y, &c, &error));
  CHECK_OK(xc_graph_create("h", &with_attribute, &error));
  CHECK_OK(xc_graph_add_node(with_attribute, "Constant", "", "k", NULL, 0, &c, 1, &node, &error));
  CHECK_OK(xc_graph_set_tensor(with_attribute, node, "value", y, &error));
  xc_tensor_release(y);
  y = NULL;
  CHECK_OK(xc_graph_text(graph, 0, &before, &error));
  CHECK_CONTAINS(xc_blob_data(before), "11");
  xc_tensor_release(x);
  x = make_tensor(2, dims, nines);
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  CHECK_OK(xc_graph_text(graph, 0, &after, &error));
  CHECK_TEXT(xc_blob_data(after), xc_blob_data(before));
  xc_blob_destroy(after);
  CHECK_OK(xc_graph_text(with_attribute, 0, &after, &error));
  CHECK_CONTAINS(xc_blob_data(after), "11");
  xc_blob_destroy(after);
  xc_blob_destroy(before);
  xc_tensor_release(y);
  xc_tensor_release(x);
  xc_graph_destroy(with_attribute);
  xc_graph_destroy(graph);
  xc_session_destroy(session);
}

/* An optional without a value. */
static void absent_values(void) {
  static const char text[] = "graph g(%x: opt(f32[n])) -> (%y) { %y = Identity(%x) }";
  xc_error* error = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = NULL;
  xc_session* session = NULL;
  const xc_tensor* none = NULL;
  xc_tensor* y = NULL;
  xc_graph* graph = NULL;
  xc_value c = 0;
  xc_node node = 0;
  CHECK_OK(xc_model_load_bytes(engine, text, strlen(text), &model, &error));
  CHECK_OK(xc_session_create(model, NULL, &session, &error));
  CHECK_OK(xc_session_run(session, NULL, &none, 1, &y, 1, &error));
  CHECK(xc_tensor_dtype(y) == XC_DTYPE_UNDEFINED && xc_tensor_element_count(y) == 0);
  CHECK_OK(xc_graph_create("g", &graph, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_constant(graph, "c", y, &c, &error));
  CHECK_OK(xc_graph_add_node(graph, "Constant", "", "k", NULL, 0, &c, 1, &node, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_set_tensor(graph, node, "value", y, &error));
  xc_graph_destroy(graph);
  xc_tensor_release(y);
  xc_session_destroy(session);
  xc_model_release(model);
  xc_engine_release(engine);
}

/* One value, two outputs. */
static void names_of_outputs(void) {
  xc_error* error = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = NULL;
  xc_graph* graph = NULL;
  xc_value x = 0, y = 0;
  uint32_t index = 9;
  CHECK_OK(xc_graph_create("g", &graph, &error));
  CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "n", &x, &error));
  CHECK_OK(xc_graph_add_node(graph, "Neg", "", "neg", &x, 1, &y, 1, NULL, &error));
  CHECK_OK(xc_graph_add_output(graph, y, "p", &error));
  CHECK_OK(xc_graph_add_output(graph, y, "q", &error));
  CHECK_OK(xc_graph_add_output(graph, y, NULL, &error));
  CHECK_OK(xc_model_create(engine, graph, &model, &error));
  CHECK_OK(xc_model_find_output(model, "p", &index, &error));
  CHECK(index == 0);
  CHECK_OK(xc_model_find_output(model, "q", &index, &error));
  CHECK(index == 1);
  xc_model_release(model);
  xc_graph_destroy(graph);
  xc_engine_release(engine);
}

/* y = If(c) then x else -x, x captured. */
static void bodies(void) {
  const int64_t dims[1] = {2};
  const float values[2] = {1, 2};
  xc_error* error = NULL;
  xc_graph *graph = NULL, *then_body = NULL, *else_body = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = NULL;
  xc_session* session = NULL;
  xc_tensor *c = NULL, *x = make_tensor(1, dims, values), *y = NULL;
  const xc_tensor* inputs[2];
  xc_value in[2], a = 0, b = 0, out = 0;
  xc_node node = 0;
  CHECK_OK(xc_graph_create("then", &then_body, &error));
  CHECK_OK(xc_graph_add_input(then_body, "a", XC_DTYPE_F32, "2", &a, &error));
  CHECK_OK(xc_graph_add_node(then_body, "Abs", "", NULL, &a, 1, &b, 1, NULL, &error));
  CHECK_OK(xc_graph_add_output(then_body, b, NULL, &error));
  CHECK_OK(xc_graph_create("else", &else_body, &error));
  CHECK_OK(xc_graph_add_input(else_body, "a", XC_DTYPE_F32, "2", &a, &error));
  CHECK_OK(xc_graph_add_node(else_body, "Neg", "", NULL, &a, 1, &b, 1, NULL, &error));
  CHECK_OK(xc_graph_add_output(else_body, b, NULL, &error));

  CHECK_OK(xc_graph_create("if", &graph, &error));
  CHECK_OK(xc_graph_add_input(graph, "c", XC_DTYPE_BOOL, "", &in[0], &error));
  CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "2", &in[1], &error));
  CHECK_OK(xc_graph_add_node(graph, "If", "", "if", in, 2, &out, 1, &node, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_body(graph, node, then_body, 5, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_body(graph, 99, then_body, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_body(graph, node, NULL, 1, &error));
  CHECK_OK(xc_graph_add_body(graph, node, then_body, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_add_body(graph, node, else_body, 0, &error));
  CHECK_OK(xc_graph_add_body(graph, node, else_body, 1, &error));
  CHECK_OK(xc_graph_add_output(graph, out, "y", &error));
  CHECK_OK(xc_model_create(engine, graph, &model, &error));
  CHECK_OK(xc_session_create(model, NULL, &session, &error));

  CHECK_OK(xc_tensor_create(XC_DTYPE_BOOL, 0, NULL, &c, &error));
  inputs[0] = c;
  inputs[1] = x;
  if (CHECK_OK(xc_session_run(session, NULL, inputs, 2, &y, 1, &error)))
    CHECK(((float*)xc_tensor_data(y))[1] == -2);
  xc_tensor_release(y);
  y = NULL;
  *(uint8_t*)xc_tensor_data(c) = 1;
  if (CHECK_OK(xc_session_run(session, NULL, inputs, 2, &y, 1, &error)))
    CHECK(((float*)xc_tensor_data(y))[1] == 2);
  xc_tensor_release(y);

  xc_tensor_release(c);
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_model_release(model);
  xc_engine_release(engine);
  xc_graph_destroy(graph);
  xc_graph_destroy(then_body);
  xc_graph_destroy(else_body);
}

static void passes(void) {
  xc_error* error = NULL;
  xc_graph* graph = make_graph();
  CHECK_OK(xc_graph_run_passes(graph, "all", &error));
  CHECK_OK(xc_graph_run_passes(graph, "merge-common,remove-dead", &error));
  CHECK(xc_graph_run_passes(graph, "no_such_pass", &error) == XC_NOT_FOUND);
  CHECK_CONTAINS(xc_error_message(error), "merge-common");
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_run_passes(graph, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_graph_run_passes(NULL, "merge-common", &error));
  xc_graph_destroy(graph);
}

static void loops(void) {
  const char* kernel =
      "kernel relu(n) {\n"
      "  in x: f32[1]\n"
      "  out y: f32[1]\n"
      "  for i = 0 .. n {\n"
      "    y[i] = max(x[i], 0:f32)\n"
      "  }\n"
      "}\n";
  xc_error* error = NULL;
  xc_blob* text = NULL;
  CHECK_OK(xc_loop_schedule(kernel, strlen(kernel), "vectorize i 16", &text, &error));
  if (text) CHECK_CONTAINS(xc_blob_data(text), "vector(16)");
  xc_blob_destroy(text);
  text = NULL;
  CHECK_FAILS(XC_FORMAT, xc_loop_schedule(kernel, strlen(kernel), "melt i", &text, &error));
  CHECK_FAILS(XC_FORMAT, xc_loop_schedule("kernel", 6, "", &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_loop_schedule(NULL, 6, "", &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_loop_schedule(kernel, 6, NULL, &text, &error));
  CHECK(text == NULL);
}

int main(void) {
  text_and_back();
  files();
  building();
  results_as_constants();
  absent_values();
  names_of_outputs();
  bodies();
  passes();
  loops();
  return check_result();
}

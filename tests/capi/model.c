/* model.h */
#include "models.h"

static int is(xc_string_view view, const char* text) {
  return view.size == strlen(text) && memcmp(view.data, text, view.size) == 0;
}

static void ports(void) {
  xc_error* error = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = make_model(engine);
  xc_port port = XC_PORT_INIT;
  uint32_t index = 7;
  CHECK(xc_model_input_count(model) == 1 && xc_model_output_count(model) == 1);
  CHECK_CODE(XC_OK, xc_model_input(model, 0, &port));
  CHECK(is(port.name, "x") && is(port.type, "f32[n, 2]"));
  CHECK(port.kind == XC_PORT_TENSOR && port.dtype == XC_DTYPE_F32 && port.rank == 2);
  CHECK(port.dims[0] == -1 && port.dims[1] == 2);
  CHECK(is(port.dim_texts[0], "n") && is(port.dim_texts[1], "2"));
  CHECK_CODE(XC_OK, xc_model_output(model, 0, &port));
  CHECK(is(port.name, "y") && is(port.type, "f32[n, 2]"));
  CHECK_OK(xc_model_find_input(model, "x", &index, &error));
  CHECK(index == 0);
  CHECK_OK(xc_model_find_output(model, "y", &index, &error));
  CHECK(xc_model_find_input(model, "y", &index, &error) == XC_NOT_FOUND);
  CHECK_CONTAINS(xc_error_message(error), "x");
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_NOT_FOUND, xc_model_find_output(model, "x", &index, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_find_input(model, NULL, &index, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_find_output(model, "y", NULL, &error));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_input(model, 1, &port));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_output(model, 1, &port));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_input(model, 0, NULL));
  port.struct_size = 1;
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_input(model, 0, &port));
  CHECK(xc_model_input_count(NULL) == 0 && xc_model_output_count(NULL) == 0);
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_input(NULL, 0, &port));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_model_output((const xc_model*)engine, 0, &port));
  CHECK(xc_model_retain(model) == model);
  xc_model_release(model);
  xc_model_release(model);
  CHECK(xc_model_retain(NULL) == NULL);
  xc_model_release(NULL);
  xc_engine_release(engine);
}

static void loading(void) {
  const char* text = "graph g(%a: f32[k]) -> (%b) {\n  %b = Neg(%a)\n}\n";
  xc_error* error = NULL;
  xc_engine* engine = make_engine("off");
  xc_model* model = NULL;
  xc_graph *graph = NULL, *empty = NULL;
  xc_blob* printed = NULL;
  CHECK_OK(xc_model_load_bytes(engine, text, strlen(text), &model, &error));
  CHECK_OK(xc_model_graph(model, &graph, &error));
  CHECK_OK(xc_graph_text(graph, 0, &printed, &error));
  if (printed) CHECK_CONTAINS(xc_blob_data(printed), "Neg(%a)");
  xc_blob_destroy(printed);
  xc_model_release(model);
  model = NULL;
  CHECK_FAILS(XC_NOT_FOUND, xc_model_load_file(engine, "/no/such.onnx", &model, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_load_file(engine, NULL, &model, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_load_file(engine, "a", NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_load_file(NULL, "a", &model, &error));
  CHECK(xc_model_load_file(engine, "/", &model, &error) != XC_OK);
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_FORMAT, xc_model_load_bytes(engine, "", 0, &model, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_load_bytes(engine, NULL, 1, &model, &error));
  CHECK(xc_model_load_bytes(engine, text, strlen(text) - 5, &model, &error) == XC_FORMAT);
  CHECK_CONTAINS(xc_error_where(error), "line");
  xc_error_destroy(error);
  error = NULL;
  text = "graph g(%a: f32[2], %b: f32[3]) -> (%c) {\n  %c = Add(%a, %b)\n}\n";
  CHECK_FAILS(XC_INVALID_MODEL, xc_model_load_bytes(engine, text, strlen(text), &model, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_create(engine, NULL, &model, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_create(NULL, graph, &model, &error));
  CHECK_OK(xc_graph_create(NULL, &empty, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_create(engine, empty, NULL, &error));
  xc_graph_destroy(empty);
  xc_graph_destroy(graph);
  graph = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_model_graph(NULL, &graph, &error));
  CHECK(model == NULL);
  xc_engine_release(engine);
}

int main(void) {
  ports();
  loading();
  return check_result();
}

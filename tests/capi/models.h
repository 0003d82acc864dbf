/* Small models, made with the graph builder. */
#ifndef XC_TESTS_CAPI_MODELS_H
#define XC_TESTS_CAPI_MODELS_H

#include "check.h"

static inline xc_engine* make_engine(const char* jit) {
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  config.threads = 1;
  CHECK_OK(xc_config_set(&config, "jit", jit, &error));
  options.config = &config;
  CHECK_OK(xc_engine_create(&options, &engine, &error));
  return engine;
}

static inline xc_tensor* make_tensor(uint32_t rank, const int64_t* dims, const float* values) {
  xc_error* error = NULL;
  xc_tensor* tensor = NULL;
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, rank, dims, &tensor, &error));
  memcpy(xc_tensor_data(tensor), values, sizeof(float) * (size_t)xc_tensor_element_count(tensor));
  return tensor;
}

/* y[n, 2] = Relu(x[n, 2] + [10, -2]) */
static inline xc_graph* make_graph(void) {
  const int64_t two = 2;
  const float bias[2] = {10, -2};
  xc_error* error = NULL;
  xc_graph* graph = NULL;
  xc_tensor* tensor = make_tensor(1, &two, bias);
  xc_value x = 0, b = 0, sum = 0, y = 0, inputs[2];
  CHECK_OK(xc_graph_create("small", &graph, &error));
  CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "n, 2", &x, &error));
  CHECK_OK(xc_graph_add_constant(graph, "bias", tensor, &b, &error));
  inputs[0] = x;
  inputs[1] = b;
  CHECK_OK(xc_graph_add_node(graph, "Add", "", "add", inputs, 2, &sum, 1, NULL, &error));
  CHECK_OK(xc_graph_add_node(graph, "Relu", NULL, "relu", &sum, 1, &y, 1, NULL, &error));
  CHECK_OK(xc_graph_add_output(graph, y, "y", &error));
  xc_tensor_release(tensor);
  return graph;
}

static inline xc_model* make_model(xc_engine* engine) {
  xc_error* error = NULL;
  xc_model* model = NULL;
  xc_graph* graph = make_graph();
  CHECK_OK(xc_model_create(engine, graph, &model, &error));
  xc_graph_destroy(graph);
  return model;
}

static inline xc_session* make_session(const char* jit) {
  xc_error* error = NULL;
  xc_session* session = NULL;
  xc_engine* engine = make_engine(jit);
  xc_model* model = make_model(engine);
  CHECK_OK(xc_session_create(model, NULL, &session, &error));
  xc_model_release(model); /* the session keeps both */
  xc_engine_release(engine);
  return session;
}

/* Checks a result of the model above. */
static inline void check_values(const xc_tensor* y, int64_t rows, const float* want) {
  int64_t i;
  const float* got = (const float*)xc_tensor_data(y);
  CHECK(xc_tensor_dtype(y) == XC_DTYPE_F32);
  CHECK(xc_tensor_rank(y) == 2);
  if (!CHECK(xc_tensor_dims(y) && xc_tensor_dims(y)[0] == rows && xc_tensor_dims(y)[1] == 2))
    return;
  for (i = 0; i < rows * 2; ++i) CHECK(got[i] == want[i]);
}

#endif

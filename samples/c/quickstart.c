/* Loads a model, runs it on zeros and prints what came out.
 *
 *   quickstart MODEL        an .onnx, .xcg or .xct file; symbolic dims are taken as 1
 */
#include <stdio.h>
#include <xc/xc.h>

enum { kMaxPorts = 16, kMaxRank = 8 };

/* An input of zeros, as the model describes it. */
static xc_status make_input(const xc_model* model, uint32_t index, xc_tensor** out,
                            xc_error** error) {
  int64_t dims[kMaxRank];
  xc_port port = XC_PORT_INIT;
  xc_status status = xc_model_input(model, index, &port);
  if (status) return status;
  if (port.rank < 0 || port.rank > kMaxRank) return XC_UNSUPPORTED;
  for (int32_t i = 0; i < port.rank; ++i) dims[i] = port.dims[i] < 0 ? 1 : port.dims[i];
  printf("input  %s: %s\n", port.name.data, port.type.data);
  return xc_tensor_create(port.dtype, (uint32_t)port.rank, dims, out, error);
}

static void print_output(const xc_model* model, uint32_t index, const xc_tensor* tensor) {
  xc_port port = XC_PORT_INIT;
  if (xc_model_output(model, index, &port)) return;
  printf("output %s: %s\n ", port.name.data, port.type.data);
  for (uint32_t i = 0; i < xc_tensor_rank(tensor); ++i)
    printf("%s%lld", i ? " x " : " ", (long long)xc_tensor_dims(tensor)[i]);
  if (xc_tensor_dtype(tensor) == XC_DTYPE_F32)
    for (int64_t i = 0; i < xc_tensor_element_count(tensor) && i < 8; ++i)
      printf("%s%g", i ? ", " : ": ", ((const float*)xc_tensor_data(tensor))[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  xc_engine* engine = NULL;
  xc_model* model = NULL;
  xc_session* session = NULL;
  xc_error* error = NULL;
  xc_tensor *inputs[kMaxPorts] = {0}, *outputs[kMaxPorts] = {0};
  xc_status status = XC_INVALID_ARGUMENT;
  uint32_t input_count = 0, output_count = 0;

  if (argc != 2) {
    fprintf(stderr, "usage: quickstart MODEL\n");
    return 2;
  }
  if ((status = xc_engine_create(NULL, &engine, &error))) goto done;
  if ((status = xc_model_load_file(engine, argv[1], &model, &error))) goto done;
  if ((status = xc_session_create(model, NULL, &session, &error))) goto done;

  input_count = xc_model_input_count(model);
  output_count = xc_model_output_count(model);
  if (input_count > kMaxPorts || output_count > kMaxPorts) status = XC_UNSUPPORTED;
  for (uint32_t i = 0; !status && i < input_count; ++i)
    status = make_input(model, i, &inputs[i], &error);
  if (status) goto done;

  status = xc_session_run(session, NULL, (const xc_tensor* const*)inputs, input_count, outputs,
                          output_count, &error);
  for (uint32_t i = 0; !status && i < output_count; ++i) print_output(model, i, outputs[i]);

done:
  if (status)
    fprintf(stderr, "%s (%s)\n", error ? xc_error_text(error) : xc_status_name(status),
            xc_status_advice(status));
  for (int i = 0; i < kMaxPorts; ++i) xc_tensor_release(inputs[i]), xc_tensor_release(outputs[i]);
  xc_error_destroy(error);
  xc_session_destroy(session);
  xc_model_release(model);
  xc_engine_release(engine);
  return status != XC_OK;
}

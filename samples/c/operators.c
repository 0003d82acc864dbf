/* A model with two operators of the host's own: one in C, one as a rule.
 *
 *   operators MODEL         moving_average.xct, beside this file
 */
#include <stdio.h>
#include <xc/xc.h>

/* y[i] = the mean of x[i .. i + width): the signature below says how many they are. */
static xc_status moving_average(void* user_data, xc_op_call* call) {
  xc_tensor_view x, y;
  int64_t width = 0;
  xc_status status;
  (void)user_data;
  /* A failed function keeps its message in the call: returning the status is enough. */
  if ((status = xc_op_call_input(call, 0, &x))) return status;
  if ((status = xc_op_call_output(call, 0, &y))) return status;
  if ((status = xc_op_call_int(call, "width", &width))) return status;
  if (width < 1) return xc_op_call_fail(call, XC_INVALID_MODEL, "width must be positive");
  for (int64_t i = 0; i < y.dims[0]; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < width; ++k) sum += ((const float*)x.data)[i + k];
    ((float*)y.data)[i] = (float)(sum / (double)width);
  }
  return XC_OK;
}

static xc_status declare_operators(xc_op_library* operators, xc_error** error) {
  const xc_op_function function = {moving_average, NULL, NULL};
  xc_status status = xc_op_library_add(
      operators, "pure demo::MovingAverage(x: f32[n]) {width: int = 3} -> y: f32[n - width + 1]",
      &function, error);
  if (status) return status;
  /* No function: a rule puts standard operators in its place, which fuse like any others. */
  status = xc_op_library_add(
      operators, "demo::Affine(x: f32[...]) {a: float, b: float = 0} -> y: f32[...]", NULL, error);
  if (status) return status;
  return xc_op_library_add_rules(
      operators, "rule affine: demo::Affine(?x) {a = ?a, b = ?b} => Add(Mul(?x, ?a), ?b)", error);
}

int main(int argc, char** argv) {
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  xc_op_library* operators = NULL;
  xc_engine* engine = NULL;
  xc_model* model = NULL;
  xc_session* session = NULL;
  xc_tensor *x = NULL, *y = NULL;
  xc_error* error = NULL;
  xc_status status;
  const int64_t six = 6;

  if (argc != 2) {
    fprintf(stderr, "usage: operators MODEL\n");
    return 2;
  }
  if ((status = xc_op_library_create(&operators, &error))) goto done;
  if ((status = declare_operators(operators, &error))) goto done;
  options.operators = operators;
  if ((status = xc_engine_create(&options, &engine, &error))) goto done;
  if ((status = xc_model_load_file(engine, argv[1], &model, &error))) goto done;
  if ((status = xc_session_create(model, NULL, &session, &error))) goto done;

  if ((status = xc_tensor_create(XC_DTYPE_F32, 1, &six, &x, &error))) goto done;
  for (int i = 0; i < 6; ++i) ((float*)xc_tensor_data(x))[i] = (float)(i * i);
  if ((status = xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error)))
    goto done;
  printf("averages:");
  for (int64_t i = 0; i < xc_tensor_element_count(y); ++i)
    printf(" %g", ((const float*)xc_tensor_data(y))[i]);
  printf("\n");

done:
  if (status)
    fprintf(stderr, "%s (%s)\n", error ? xc_error_text(error) : xc_status_name(status),
            xc_status_advice(status));
  xc_error_destroy(error);
  xc_tensor_release(x);
  xc_tensor_release(y);
  xc_session_destroy(session);
  xc_model_release(model);
  xc_engine_release(engine);
  xc_op_library_release(operators);
  return status != XC_OK;
}

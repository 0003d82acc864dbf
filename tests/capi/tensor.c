/* tensor.h */
#include "models.h"

static void create(void) {
  const int64_t dims[2] = {2, 3}, negative = -1, huge[2] = {INT64_MAX, 4};
  xc_error* error = NULL;
  xc_tensor* t = NULL;
  xc_tensor_view view;
  float* data;
  int i;
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 2, dims, &t, &error));
  CHECK(xc_tensor_dtype(t) == XC_DTYPE_F32 && xc_tensor_rank(t) == 2);
  CHECK(xc_tensor_dims(t)[0] == 2 && xc_tensor_dims(t)[1] == 3);
  CHECK(xc_tensor_strides(t)[0] == 3 && xc_tensor_strides(t)[1] == 1);
  CHECK(xc_tensor_element_count(t) == 6);
  data = (float*)xc_tensor_data(t);
  CHECK((size_t)data % 64 == 0);
  for (i = 0; i < 6; ++i) CHECK(data[i] == 0);
  CHECK_CODE(XC_OK, xc_tensor_get_view(t, &view));
  CHECK(view.data == data && view.rank == 2 && view.dims[1] == 3 && view.strides[0] == 3 &&
        view.dtype == XC_DTYPE_F32);
  CHECK(xc_tensor_retain(t) == t);
  xc_tensor_release(t);
  xc_tensor_release(t);

  t = NULL;
  CHECK_OK(xc_tensor_create(XC_DTYPE_I64, 0, NULL, &t, &error)); /* a scalar */
  CHECK(xc_tensor_rank(t) == 0 && xc_tensor_element_count(t) == 1);
  xc_tensor_release(t);
  t = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(0, 2, dims, &t, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(99, 2, dims, &t, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(XC_DTYPE_F32, 1, NULL, &t, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(XC_DTYPE_F32, 1, &negative, &t, &error));
  CHECK_FAILS(XC_LIMIT, xc_tensor_create(XC_DTYPE_F32, 2, huge, &t, &error));
  CHECK_FAILS(XC_LIMIT, xc_tensor_create(XC_DTYPE_F32, 1000, dims, &t, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(XC_DTYPE_F32, 2, dims, NULL, &error));
  CHECK(t == NULL);
}

/* The sanitizers end the process instead of refusing. */
static void out_of_memory(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const int64_t dim = (int64_t)1 << 60;
  xc_error* error = NULL;
  xc_tensor* t = NULL;
  xc_status status = xc_tensor_create(XC_DTYPE_U8, 1, &dim, &t, &error);
  CHECK(status == XC_OUT_OF_MEMORY || status == XC_LIMIT);
  CHECK(error && xc_error_status(error) == status && *xc_error_text(error));
  xc_error_destroy(error);
  CHECK(t == NULL);
#endif
}

static void released(void* count) {
  ++*(int*)count;
}

static void wrap(void) {
  float memory[6] = {1, 2, 3, 4, 5, 6}, out[6];
  const int64_t dims[2] = {2, 3}, transposed[2] = {3, 2}, strides[2] = {1, 3}, back[2] = {-3, 1};
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
  xc_error* error = NULL;
  xc_tensor* t = NULL;
  int count = 0;

  view.data = memory;
  view.dims = dims;
  CHECK_OK(xc_tensor_wrap(&view, released, &count, &t, &error));
  CHECK(xc_tensor_data(t) == memory && xc_tensor_strides(t)[0] == 3);
  xc_tensor_retain(t);
  xc_tensor_release(t);
  CHECK(count == 0);
  xc_tensor_release(t);
  CHECK(count == 1);

  t = NULL; /* the transpose of the same memory */
  view.dims = transposed;
  view.strides = strides;
  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &t, &error));
  CHECK_OK(xc_tensor_copy_out(t, out, sizeof out, &error));
  CHECK(out[0] == 1 && out[1] == 4 && out[2] == 2 && out[5] == 6);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(t, out, sizeof out - 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(t, NULL, sizeof out, &error));
  xc_tensor_release(t);

  t = NULL; /* rows in reverse: data is the first element, strides go down */
  view.data = memory + 3;
  view.dims = dims;
  view.strides = back;
  CHECK_OK(xc_tensor_wrap(&view, NULL, NULL, &t, &error));
  CHECK_OK(xc_tensor_copy_out(t, out, sizeof out, &error));
  CHECK(out[0] == 4 && out[3] == 1);
  xc_tensor_release(t);

  t = NULL;
  view.data = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_wrap(&view, released, &count, &t, &error));
  view.data = (char*)memory + 1;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_wrap(&view, released, &count, &t, &error));
  view.data = memory;
  view.dtype = XC_DTYPE_STRING;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_wrap(&view, released, &count, &t, &error));
  view.dtype = XC_DTYPE_F32;
  view.dims = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_wrap(&view, released, &count, &t, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_wrap(NULL, released, &count, &t, &error));
  CHECK(t == NULL && count == 1); /* a failure does not release */
}

static void strings(void) {
  const int64_t dim = 2;
  const xc_string_view values[2] = {{"a\0b", 3}, {"", 0}};
  xc_string_view got = {NULL, 0};
  xc_error* error = NULL;
  xc_tensor *t = NULL, *numbers = NULL;
  CHECK_OK(xc_tensor_create(XC_DTYPE_STRING, 1, &dim, &t, &error));
  CHECK(xc_tensor_data(t) == NULL);
  CHECK_OK(xc_tensor_set_strings(t, values, 2, &error));
  CHECK_OK(xc_tensor_string(t, 0, &got, &error));
  CHECK(got.size == 3 && memcmp(got.data, "a\0b", 4) == 0);
  CHECK_OK(xc_tensor_string(t, 1, &got, &error));
  CHECK(got.size == 0);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_string(t, 2, &got, &error));
  xc_string_view all[2];
  CHECK_OK(xc_tensor_strings(t, all, 2, &error));
  CHECK(all[1].data == got.data && all[1].size == got.size);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_strings(t, all, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_strings(t, NULL, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_string(t, 0, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_set_strings(t, values, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_set_strings(t, NULL, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(t, &got, sizeof got, &error));
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 1, &dim, &numbers, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_string(numbers, 0, &got, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_set_strings(numbers, values, 2, &error));
  xc_tensor_release(t);
  xc_tensor_release(numbers);
}

/* Sequences: made, taken apart, given by a run. */
static void sequences(void) {
  const int64_t two = 2, three = 3;
  const float a[2] = {1, 2}, b[3] = {3, 4, 5};
  xc_error* error = NULL;
  xc_tensor *x = make_tensor(1, &two, a), *y = make_tensor(1, &three, b);
  const xc_tensor* elements[3] = {x, y, NULL};
  xc_tensor *sequence = NULL, *again = NULL, *element = NULL;
  CHECK_OK(xc_sequence_create(elements, 2, &sequence, &error));
  CHECK(xc_tensor_dtype(sequence) == XC_DTYPE_TENSOR && xc_tensor_rank(sequence) == 1 &&
        xc_tensor_element_count(sequence) == 2 && !xc_tensor_data(sequence));
  CHECK_OK(xc_sequence_element(sequence, 1, &element, &error));
  CHECK(xc_tensor_element_count(element) == 3 && ((float*)xc_tensor_data(element))[2] == 5);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_element(sequence, 2, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_element(x, 0, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_create(elements, 3, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_create(XC_DTYPE_TENSOR, 1, &two, &again, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(sequence, &again, sizeof again, &error));
  CHECK(xc_dtype_size(XC_DTYPE_TENSOR) == 0);
  xc_tensor_release(element);
  xc_tensor_release(sequence);

  { /* y = [x, -x] */
    xc_engine* engine = make_engine("off");
    xc_graph* graph = NULL;
    xc_model* model = NULL;
    xc_session* session = NULL;
    xc_value in = 0, out = 0, both[2];
    CHECK_OK(xc_graph_create("pair", &graph, &error));
    CHECK_OK(xc_graph_add_input(graph, "x", XC_DTYPE_F32, "n", &in, &error));
    CHECK_OK(xc_graph_add_node(graph, "Neg", NULL, "neg", &in, 1, &both[1], 1, NULL, &error));
    both[0] = in;
    CHECK_OK(xc_graph_add_node(graph, "SequenceConstruct", NULL, "pair", both, 2, &out, 1, NULL,
                               &error));
    CHECK_OK(xc_graph_add_output(graph, out, "y", &error));
    CHECK_OK(xc_model_create(engine, graph, &model, &error));
    CHECK_OK(xc_session_create(model, NULL, &session, &error));
    sequence = NULL;
    CHECK_OK(xc_session_run(session, NULL, elements, 1, &sequence, 1, &error));
    CHECK(xc_tensor_dtype(sequence) == XC_DTYPE_TENSOR && xc_tensor_element_count(sequence) == 2);
    CHECK_OK(xc_sequence_element(sequence, 1, &element, &error));
    CHECK(((float*)xc_tensor_data(element))[1] == -2);
    xc_tensor_release(element);
    xc_tensor_release(sequence);
    xc_session_destroy(session);
    xc_model_release(model);
    xc_graph_destroy(graph);
    xc_engine_release(engine);
  }
  xc_tensor_release(x);
  xc_tensor_release(y);
}

/* All maps of a sequence of maps at once. */
static void maps(void) {
  const int64_t two = 2, three = 3;
  const int64_t labels[2] = {5, 7};
  const float a[2] = {1, 2}, b[2] = {3, 4}, c[3] = {0, 0, 0};
  xc_error* error = NULL;
  xc_tensor* keys = NULL;
  CHECK_OK(xc_tensor_create(XC_DTYPE_I64, 1, &two, &keys, &error));
  memcpy(xc_tensor_data(keys), labels, sizeof labels);
  xc_tensor *x = make_tensor(1, &two, a), *y = make_tensor(1, &two, b),
            *longer = make_tensor(1, &three, c);
  const xc_tensor *one[2] = {keys, x}, *other[2] = {keys, y}, *bad[2] = {keys, longer};
  xc_tensor *first = NULL, *second = NULL, *third = NULL, *sequence = NULL, *mixed = NULL;
  CHECK_OK(xc_sequence_create(one, 2, &first, &error));
  CHECK_OK(xc_sequence_create(other, 2, &second, &error));
  CHECK_OK(xc_sequence_create(bad, 2, &third, &error));
  const xc_tensor *both[2] = {first, second}, *broken[2] = {first, third};
  CHECK_OK(xc_sequence_create(both, 2, &sequence, &error));
  CHECK_OK(xc_sequence_create(broken, 2, &mixed, &error));

  xc_tensor_view k[2], v[2];
  CHECK_OK(xc_sequence_maps(sequence, k, v, 2, &error));
  CHECK(k[0].data == k[1].data && k[0].dtype == XC_DTYPE_I64 && ((int64_t*)k[1].data)[1] == 7);
  CHECK(v[0].rank == 1 && v[1].dims[0] == 2 && v[1].strides[0] == 1 &&
        ((float*)v[0].data)[1] == 2 && ((float*)v[1].data)[0] == 3);
  v[0].data = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(mixed, k, v, 2, &error));
  CHECK(v[0].data == NULL); /* untouched */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(sequence, k, v, 1, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(sequence, NULL, v, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(sequence, k, NULL, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(x, k, v, 2, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_sequence_maps(first, k, v, 2, &error));
  xc_tensor* all[] = {keys, x, y, longer, first, second, third, sequence, mixed};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) xc_tensor_release(all[i]);
}

/* Null and foreign handles. */
static void handles(void) {
  xc_error* error = NULL;
  xc_graph* graph = NULL;
  xc_tensor_view view;
  char bytes[4];
  const xc_tensor* foreign;
  CHECK_OK(xc_graph_create(NULL, &graph, &error));
  foreign = (const xc_tensor*)graph;
  CHECK(xc_tensor_dtype(NULL) == 0 && xc_tensor_rank(NULL) == 0 && !xc_tensor_dims(NULL) &&
        !xc_tensor_strides(NULL) && !xc_tensor_data(NULL) && xc_tensor_element_count(NULL) == 0);
  CHECK(xc_tensor_dtype(foreign) == 0 && !xc_tensor_data(foreign));
  CHECK(xc_tensor_retain(NULL) == NULL);
  xc_tensor_release(NULL);
  xc_tensor_release((xc_tensor*)graph); /* ignored */
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_tensor_get_view(NULL, &view));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_tensor_get_view(foreign, &view));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(NULL, bytes, 4, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_tensor_copy_out(foreign, bytes, 4, &error));
  xc_graph_destroy(graph);
}

int main(void) {
  create();
  out_of_memory();
  wrap();
  strings();
  sequences();
  maps();
  handles();
  return check_result();
}

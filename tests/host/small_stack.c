/* Threads of 64 KiB, as fibres and audio callbacks have them: no function takes more than 32 KiB of
 * its caller's stack. Seen by painting. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "network.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void) {
  printf("skipped: the sanitizer's frames are larger\n");
  return 0;
}
#else

enum { kStack = 64 << 10, kAllowed = 32 << 10 };

typedef struct painted {
  char* low;
  void (*body)(void*);
  void* argument;
} painted;

static void* run_body(void* argument) {
  painted* p = (painted*)argument;
  p->body(p->argument);
  return NULL;
}

/* Bytes of stack that `body` took on a thread of its own, the start of a thread included. */
static size_t stack_of(void (*body)(void*), void* argument) {
  painted p;
  pthread_attr_t attributes;
  pthread_t thread;
  size_t untouched = 0;
  /* A page behind the end that ends the test where it is touched. */
  char* const memory = (char*)mmap(NULL, kStack + 4096, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (!CHECK(memory != MAP_FAILED)) return kStack;
  mprotect(memory, 4096, PROT_NONE);
  p.low = memory + 4096;
  p.body = body;
  p.argument = argument;
  memset(p.low, 0x5a, kStack);
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstack(&attributes, p.low, kStack) == 0);
  CHECK(pthread_create(&thread, &attributes, run_body, &p) == 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  while (untouched < kStack && p.low[untouched] == 0x5a) ++untouched;
  munmap(memory, kStack + 4096);
  return kStack - untouched;
}

static void nothing(void* argument) {
  (void)argument;
}

typedef struct job {
  const char* mode;
  int64_t rows;
  network n;
  xc_engine* engine;
  const char* path;
  const struct bytes* bytes;
  xc_model* model;
  xc_session* session;
} job;

static float input[kMostRows * kColumns];

static void open_network(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  CHECK_OK(network_open(&j->n, j->mode, 1, NULL, &error));
}

static void run_network(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  CHECK_OK(network_run(&j->n, input, j->rows, out, &error));
  drop_outputs(out);
}

static void run_often(void* argument) {
  job* j = (job*)argument;
  int i;
  for (i = 0; i < 300; ++i) {
    j->rows = 1 + i % kMostRows;
    run_network(j);
  }
}

static void explain_network(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  xc_blob* text = NULL;
  CHECK_OK(xc_session_explain(j->n.session, XC_EXPLAIN_JSON, NULL, 0, &text, &error));
  xc_blob_destroy(text);
}

static void profile_network(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  xc_profile* profile = NULL;
  xc_blob* text = NULL;
  CHECK_OK(xc_session_profile(j->n.session, &profile, &error));
  CHECK_OK(xc_profile_json(profile, &text, &error));
  xc_blob_destroy(text);
  xc_profile_destroy(profile);
  CHECK_OK(xc_session_trace(j->n.session, &text, &error));
  xc_blob_destroy(text);
}

static void close_network(void* argument) {
  network_close(&((job*)argument)->n);
}

static void fail_to_load(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  xc_model* model = NULL;
  const char bytes[] = "graph g(%x: f32[n, 3]) -> (%y) { %y = Add(%x, %x) {wrong = 1} }";
  CHECK_FAILS(XC_INVALID_MODEL,
              xc_model_load_bytes(j->n.engine, bytes, sizeof bytes - 1, &model, &error));
}

typedef struct bytes {
  char data[64 << 10];
  size_t size;
} bytes;

static void load_bytes(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  CHECK_OK(xc_model_load_bytes(j->engine, j->bytes->data, j->bytes->size, &j->model, &error));
}

static void put_varint(bytes* to, size_t value) {
  for (; value >= 128; value >>= 7) to->data[to->size++] = (char)(value | 128);
  to->data[to->size++] = (char)value;
}

/* Fields of a protobuf message. */
static void put_number(bytes* to, size_t field, size_t value) {
  put_varint(to, field << 3);
  put_varint(to, value);
}

static void put_bytes(bytes* to, size_t field, const char* data, size_t size) {
  put_varint(to, field << 3 | 2);
  put_varint(to, size);
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static void put_text(bytes* to, size_t field, const char* text) {
  put_bytes(to, field, text, strlen(text));
}

static void put_message(bytes* to, size_t field, bytes* message) {
  put_bytes(to, field, message->data, message->size);
  message->size = 0;
}

static void put_opsets(bytes* to, size_t field) {
  static bytes opset;
  put_number(&opset, 2, 17);
  put_message(to, field, &opset);
  put_text(&opset, 1, "f");
  put_number(&opset, 2, 1);
  put_message(to, field, &opset);
}

/* b = OP(a), a function's call or an operator. */
static void put_node(bytes* to, size_t field, const char* op, const char* domain) {
  static bytes node;
  put_text(&node, 1, "a");
  put_text(&node, 2, "b");
  put_text(&node, 4, op);
  put_text(&node, 7, domain);
  put_message(to, field, &node);
}

/* An ONNX model of functions that call one another, as deep as the loader takes. */
static void nested_calls(bytes* model) {
  enum { kDepth = 100 };
  static bytes part, type, shape;
  int i;
  put_number(model, 1, 8);
  put_opsets(model, 8);
  put_number(&shape, 1, 1); /* f32 */
  put_message(&type, 1, &shape);
  put_text(&shape, 1, "a");
  put_message(&shape, 2, &type);
  put_message(&part, 11, &shape);
  put_text(&shape, 1, "b");
  put_message(&part, 12, &shape);
  put_text(&part, 2, "g");
  put_node(&part, 1, "F0", "f");
  put_message(model, 7, &part);
  for (i = 0; i < kDepth; ++i) {
    char name[16];
    snprintf(name, sizeof name, "F%d", i);
    put_text(&part, 1, name);
    put_text(&part, 10, "f");
    put_text(&part, 4, "a");
    put_text(&part, 5, "b");
    put_opsets(&part, 9);
    snprintf(name, sizeof name, "F%d", i + 1);
    put_node(&part, 7, i + 1 < kDepth ? name : "Relu", i + 1 < kDepth ? "f" : "");
    put_message(model, 25, &part);
  }
}

static void put_line(bytes* to, const char* format, int i) {
  to->size += (size_t)snprintf(to->data + to->size, sizeof to->data - to->size, format, i, i - 1);
}

/* Concats that lie inside one another (part of a part of a part). */
static void nested_concats(bytes* model) {
  enum { kDepth = 1000 };
  int i;
  put_line(model, "graph g(%%x: f32[4]) -> (%%c999) {\n%%c0 = Concat(%%x, %%x) {axis = 0}\n", 0);
  for (i = 1; i < kDepth; ++i) put_line(model, "%%c%d = Concat(%%x, %%c%d) {axis = 0}\n", i);
  put_line(model, "}\n", 0);
}

static void load_file(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  CHECK_OK(xc_model_load_file(j->engine, j->path, &j->model, &error));
}

static void create_session(void* argument) {
  job* j = (job*)argument;
  xc_error* error = NULL;
  CHECK_OK(xc_session_create(j->model, NULL, &j->session, &error));
}

/* On inputs of zeros whose symbols are 1. */
static void run_model(void* argument) {
  enum { kPorts = 16 };
  job* j = (job*)argument;
  xc_error* error = NULL;
  xc_tensor *inputs[kPorts] = {NULL}, *outputs[kPorts] = {NULL};
  const uint32_t in = xc_model_input_count(j->model), out = xc_model_output_count(j->model);
  uint32_t i;
  int32_t axis;
  if (!CHECK(in <= kPorts && out <= kPorts)) return;
  for (i = 0; i < in; ++i) {
    xc_port port = XC_PORT_INIT;
    int64_t dims[8];
    CHECK_CODE(XC_OK, xc_model_input(j->model, i, &port));
    for (axis = 0; axis < port.rank; ++axis) dims[axis] = port.dims[axis] < 0 ? 1 : port.dims[axis];
    CHECK_OK(xc_tensor_create(port.dtype, (uint32_t)port.rank, dims, &inputs[i], &error));
  }
  CHECK_OK(
      xc_session_run(j->session, NULL, (const xc_tensor* const*)inputs, in, outputs, out, &error));
  for (i = 0; i < in; ++i) xc_tensor_release(inputs[i]);
  for (i = 0; i < out; ++i) xc_tensor_release(outputs[i]);
}

static void close_model(void* argument) {
  job* j = (job*)argument;
  xc_session_destroy(j->session);
  xc_model_release(j->model);
  j->session = NULL;
  j->model = NULL;
}

static void within(const char* what, const char* where, size_t base, size_t took) {
  const size_t own = took > base ? took - base : 0;
  printf("%6zu bytes: %s, %s\n", own, what, where);
  CHECK(own <= kAllowed);
}

int main(void) {
  const char* const modes[] = {"off", "sync", "auto"};
  const char* const files[] = {
      XC_SOURCE_DIR "/samples/digits/digits.onnx", XC_SOURCE_DIR "/samples/digits/digits.xcg",
      XC_SHARED_DIR "/models/fastestdet/model.onnx", XC_SHARED_DIR "/models/tinybert/model.onnx",
      XC_SHARED_DIR "/models/kws_qdq/model.onnx"};
  const size_t base = stack_of(nothing, NULL);
  size_t k;
  fill_input(input, kMostRows);
  for (k = 0; k < 3; ++k) {
    job j;
    int32_t idle;
    xc_error* error = NULL;
    memset(&j, 0, sizeof j);
    j.mode = modes[k];
    j.rows = 7;
    within("create", modes[k], base, stack_of(open_network, &j));
    within("first run", modes[k], base, stack_of(run_network, &j));
    within("runs of 40 sizes", modes[k], base, stack_of(run_often, &j));
    CHECK_OK(xc_session_wait_idle(j.n.session, 10000, &idle, &error));
    within("runs behind them", modes[k], base, stack_of(run_often, &j));
    within("explain", modes[k], base, stack_of(explain_network, &j));
    within("profile", modes[k], base, stack_of(profile_network, &j));
    within("a model that is refused", modes[k], base, stack_of(fail_to_load, &j));
    within("destroy", modes[k], base, stack_of(close_network, &j));
  }
  for (k = 0; k < sizeof files / sizeof *files; ++k) {
    job j;
    xc_error* error = NULL;
    FILE* const file = fopen(files[k], "rb");
    if (!file) {
      printf("skipped: no %s\n", files[k]);
      continue;
    }
    fclose(file);
    memset(&j, 0, sizeof j);
    j.path = files[k];
    CHECK_OK(xc_engine_create(NULL, &j.engine, &error));
    within("load", files[k], base, stack_of(load_file, &j));
    within("create a session", files[k], base, stack_of(create_session, &j));
    within("first run", files[k], base, stack_of(run_model, &j));
    within("second run", files[k], base, stack_of(run_model, &j));
    within("destroy", files[k], base, stack_of(close_model, &j));
    xc_engine_release(j.engine);
  }
  { /* Attention that may round its factors, fused: by matrix units where there are such. */
    static const char attention[] =
        "graph a(%q: f32[4, 200, 64], %k: f32[4, 64, 200], %v: f32[4, 200, 64]) -> (%y) {\n"
        "  %s = MatMul(%q, %k)\n  %p = Softmax(%s) {axis = -1}\n  %y = MatMul(%p, %v)\n}\n";
    static bytes model;
    xc_config config = XC_CONFIG_INIT;
    xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
    job j;
    xc_error* error = NULL;
    memset(&j, 0, sizeof j);
    memcpy(model.data, attention, sizeof attention - 1);
    model.size = sizeof attention - 1;
    j.bytes = &model;
    config.threads = 1;
    config.numerics = XC_NUMERICS_FAST;
    config.jit = XC_JIT_SYNC;
    options.config = &config;
    CHECK_OK(xc_engine_create(&options, &j.engine, &error));
    within("load", "attention", base, stack_of(load_bytes, &j));
    within("create a session", "attention", base, stack_of(create_session, &j));
    within("first run", "attention", base, stack_of(run_model, &j));
    within("second run", "attention", base, stack_of(run_model, &j));
    within("destroy", "attention", base, stack_of(close_model, &j));
    xc_engine_release(j.engine);
  }
  {
    static bytes calls, concats;
    const struct {
      const char* what;
      const bytes* model;
    } nested[] = {{"nested calls", &calls}, {"nested Concats", &concats}};
    nested_calls(&calls);
    nested_concats(&concats);
    for (k = 0; k < 2; ++k) {
      job j;
      xc_error* error = NULL;
      memset(&j, 0, sizeof j);
      j.bytes = nested[k].model;
      CHECK_OK(xc_engine_create(NULL, &j.engine, &error));
      within("load", nested[k].what, base, stack_of(load_bytes, &j));
      within("create a session", nested[k].what, base, stack_of(create_session, &j));
      within("destroy", nested[k].what, base, stack_of(close_model, &j));
      xc_engine_release(j.engine);
    }
  }
  return check_result();
}
#endif

/* engine.h: engines and the host's callbacks. */
#include <stdlib.h>
#include <string.h>

#include "models.h"

typedef struct host {
  int destroyed, allocations, releases, runs, tasks, events, logs;
  int refuse; /* allocate returns NULL */
  long bytes;
} host;

static void on_destroy(void* self) {
  ++((host*)self)->destroyed;
}
static void on_log(void* self, int32_t level, xc_string_view message) {
  ++((host*)self)->logs;
  CHECK(level >= XC_LOG_ERROR && level <= XC_LOG_DEBUG && message.data);
}
static void on_event(void* self, const xc_event* event) {
  ++((host*)self)->events;
  CHECK(event->struct_size == sizeof *event && event->kind_name.size);
}
static void* on_allocate(void* self, size_t bytes, size_t alignment) {
  host* h = (host*)self;
  char* raw;
  size_t place;
  if (h->refuse) return NULL;
  raw = (char*)malloc(bytes + alignment + sizeof(void*));
  if (!raw) return NULL;
  ++h->allocations;
  h->bytes += (long)bytes;
  place = ((size_t)raw + sizeof(void*) + alignment - 1) / alignment * alignment;
  ((void**)place)[-1] = raw;
  return (void*)place;
}
static void on_release(void* self, void* memory, size_t bytes) {
  host* h = (host*)self;
  ++h->releases;
  h->bytes -= (long)bytes;
  free(((void**)memory)[-1]);
}
static void on_run(void* self, int64_t tasks, xc_task_fn task, void* body) {
  int64_t i;
  ++((host*)self)->runs;
  for (i = tasks; i-- > 0;) task(body, i, (int32_t)(i % 2)); /* any order, two workers */
  ((host*)self)->tasks += (int)tasks;
}

static void lifetime(void) {
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  CHECK_OK(xc_engine_create(NULL, &engine, &error));
  CHECK(xc_engine_retain(engine) == engine);
  xc_engine_release(engine);
  xc_engine_release(engine);
  CHECK(xc_engine_retain(NULL) == NULL);
  xc_engine_release(NULL);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(NULL, NULL, &error));
}

static void options(void) {
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options o;
  host h = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  xc_engine_options_init(&o, sizeof o);
  xc_engine_options_init(NULL, sizeof o);
  o.config = &config;
  o.logger.log = on_log;
  o.logger.user_data = &h;
  o.logger.destroy = on_destroy;

  config.threads = -3;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&o, &engine, &error));
  config.threads = 1;
  config.jit = 17;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&o, &engine, &error));
  config.jit = XC_JIT_OFF;
  o.allocator.allocate = on_allocate; /* but no release */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&o, &engine, &error));
  o.allocator.allocate = NULL;
  o.tasks.run = on_run; /* no workers */
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&o, &engine, &error));
  o.tasks.run = NULL;
  o.struct_size = 0;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_create(&o, &engine, &error));
  CHECK(engine == NULL);
  CHECK(h.destroyed == 0); /* a failed creation leaves user data with the host */
  o.struct_size = sizeof o;
  CHECK_OK(xc_engine_create(&o, &engine, &error));
  xc_engine_release(engine);
  CHECK(h.destroyed == 1);
}

/* A run with everything the host can provide; the callbacks live as long as what uses them. */
static void callbacks(void) {
  const int64_t dims[2] = {1, 2};
  const float values[2] = {1, 5}, want[2] = {11, 3};
  host h = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_session* session = NULL;
  xc_model* model;
  xc_tensor *x = make_tensor(2, dims, values), *y = NULL, *held;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options o = XC_ENGINE_OPTIONS_INIT;
  config.jit = XC_JIT_OFF;
  o.config = &config;
  o.logger.log = on_log;
  o.events.receive = on_event;
  o.allocator.allocate = on_allocate;
  o.allocator.release = on_release;
  o.tasks.run = on_run;
  o.tasks.workers = 2;
  o.logger.user_data = o.events.user_data = o.allocator.user_data = o.tasks.user_data = &h;
  o.logger.destroy = o.events.destroy = o.allocator.destroy = o.tasks.destroy = on_destroy;
  CHECK_OK(xc_engine_create(&o, &engine, &error));
  model = make_model(engine);
  CHECK_OK(xc_session_create(model, NULL, &session, &error));
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  check_values(y, 1, want);
  CHECK(h.allocations > 0);

  /* The host is out of memory: one clear error, and the session recovers. Two tensors are wanted,
   * so that the pool has none left. */
  held = y;
  y = NULL;
  h.refuse = 1;
  CHECK_FAILS(XC_OUT_OF_MEMORY,
              xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  CHECK(y == NULL);
  h.refuse = 0;
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  check_values(y, 1, want);

  xc_engine_release(engine);
  xc_model_release(model);
  xc_session_destroy(session);
  xc_tensor_release(held);
  check_values(y, 1, want); /* a result outlives everything */
  xc_tensor_release(y);
  CHECK(h.destroyed == 4);
  CHECK(h.releases == h.allocations && h.bytes == 0);
  xc_tensor_release(x);
}

/* A file that declares other sizes than its operators give loads; the log tells. */
static void warnings(void) {
  const char text[] = "graph g(%x: f32[1, 2]) -> (%y) { %y: f32[1, 3] = Relu(%x) }";
  host h = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_model* model = NULL;
  xc_port port = XC_PORT_INIT;
  xc_engine_options o = XC_ENGINE_OPTIONS_INIT;
  o.logger.log = on_log;
  o.logger.user_data = &h;
  CHECK_OK(xc_engine_create(&o, &engine, &error));
  CHECK_OK(xc_model_load_bytes(engine, text, sizeof text - 1, &model, &error));
  CHECK(h.logs == 1);
  CHECK_CODE(XC_OK, xc_model_output(model, 0, &port));
  CHECK(port.dims[1] == 2);
  xc_model_release(model);
  xc_engine_release(engine);
}

static void operators(void) {
  xc_engine* engine = NULL;
  xc_error* error = NULL;
  xc_blob *table = NULL, *json = NULL;
  CHECK_OK(xc_engine_create(NULL, &engine, &error));
  CHECK_OK(xc_engine_operators(engine, 0, &table, &error));
  CHECK_OK(xc_engine_operators(engine, 1, &json, &error));
  CHECK(strstr(xc_blob_data(table), "| MatMul | 1 9 13 |") != NULL);
  CHECK(xc_blob_data(json)[0] == '[');
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_operators(engine, 0, NULL, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_engine_operators(NULL, 0, &table, &error));
  xc_blob_destroy(table);
  xc_blob_destroy(json);
  xc_engine_release(engine);
}

int main(void) {
  operators();
  lifetime();
  options();
  callbacks();
  warnings();
  return check_result();
}

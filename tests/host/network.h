/* The network and the input that the tests of a host's process run. */
#ifndef XC_TESTS_HOST_NETWORK_H
#define XC_TESTS_HOST_NETWORK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../capi/check.h"

#if defined(XC_TEST_LEAVES_SESSIONS_OPEN) && defined(__SANITIZE_ADDRESS__)
/* What they and interrupted threads hold is no leak. */
const char* __asan_default_options(void);
const char* __asan_default_options(void) {
  return "detect_leaks=0";
}
#endif

/* A product by weights, one of values, functions, a softmax, folded constants, decimal literals,
 * text that becomes a number, and denormals. */
static const char* const kNetwork =
    "graph host(%x: f32[n, 64]) -> (%y, %z, %tiny, %number) {\n"
    "  const %w: f32[64, 96] = splat 0.03125\n"
    "  const %b: f32[1] = [0.5]\n"
    "  const %scale: f32[1] = [1.5e-30]\n"
    "  const %digits: string[2] = [\"0.75\", \"-1.5e2\"]\n"
    "  %h = MatMul(%x, %w)\n"
    "  %s = Add(%h, %b)\n"
    "  %g = Gelu(%s) {approximate = \"none\"}\n"
    "  %q = Softmax(%g) {axis = -1}\n"
    "  %e = Exp(%q)\n"
    "  %m = Mul(%e, %g)\n"
    "  %y = Div(%m, %s)\n"
    "  %t = Transpose(%y) {perm = [1, 0]}\n"
    "  %p = MatMul(%y, %t)\n"
    "  %z = Tanh(%p)\n"
    "  %small = Mul(%x, %scale)\n"
    "  %less = Mul(%small, %scale)\n"
    "  %tiny = Mul(%small, %b)\n"
    "  %number = Cast(%digits) {to = 1}\n"
    "}\n";
enum { kColumns = 64, kOutputs = 4, kMostRows = 40 };

typedef struct network {
  xc_engine* engine;
  xc_model* model;
  xc_session* session;
} network;

/* Every part made, or what failed first. */
static inline xc_status network_open_with(network* out, const xc_engine_options* options,
                                          xc_error** error) {
  xc_status status;
  memset(out, 0, sizeof *out);
  if ((status = xc_engine_create(options, &out->engine, error))) return status;
  if ((status = xc_model_load_bytes(out->engine, kNetwork, strlen(kNetwork), &out->model, error)))
    return status;
  return xc_session_create(out->model, NULL, &out->session, error);
}

/* `mode` as in xc_config_set("jit"). In modes auto and freeze plans that are swapped change no bit.
 */
static inline xc_status network_open(network* out, const char* mode, int64_t threads,
                                     const char* cache_dir, xc_error** error) {
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  xc_status status;
  memset(out, 0, sizeof *out);
  config.threads = threads;
  config.cache_dir = cache_dir;
  options.config = &config;
  if ((status = xc_config_set(&config, "jit", mode, error))) return status;
  if (config.jit == XC_JIT_AUTO || config.jit == XC_JIT_FREEZE)
    config.numerics = XC_NUMERICS_STRICT;
  return network_open_with(out, &options, error);
}

static inline void network_close(network* n) {
  xc_session_destroy(n->session);
  xc_model_release(n->model);
  xc_engine_release(n->engine);
  memset(n, 0, sizeof *n);
}

/* Values from -2 to 2, denormals and zeros among them. */
static inline void fill_input(float* x, int64_t rows) {
  uint32_t state = 12345;
  int64_t i;
  for (i = 0; i < rows * kColumns; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)((int32_t)(state >> 8) - (1 << 23)) / (float)(1 << 22);
    if (i % 29 == 0) x[i] = 0;
    if (i % 31 == 0) x[i] = 1e-40f;
    if (i % 37 == 0) x[i] *= 3e-8f;
  }
}

/* One run on fill_input()'s values. `outputs` may hold tensors of an earlier run of these rows. */
static inline xc_status network_run(network* n, float* x, int64_t rows, xc_tensor** outputs,
                                    xc_error** error) {
  const int64_t dims[2] = {rows, kColumns};
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
  view.data = x;
  view.dims = dims;
  return xc_session_run_views(n->session, NULL, &view, 1, outputs, kOutputs, error);
}

static inline void drop_outputs(xc_tensor** outputs) {
  int k;
  for (k = 0; k < kOutputs; ++k) {
    xc_tensor_release(outputs[k]);
    outputs[k] = NULL;
  }
}

/* A folder of the test's own, with all it holds. */
static inline int remove_folder(const char* path) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  return system(command) == 0;
}

/* How many outputs are not, bit for bit, those of another run. */
static inline int differing(xc_tensor** a, xc_tensor** b) {
  int k, count = 0;
  for (k = 0; k < kOutputs; ++k) {
    const size_t bytes = sizeof(float) * (size_t)xc_tensor_element_count(a[k]);
    count += xc_tensor_element_count(a[k]) != xc_tensor_element_count(b[k]) ||
             memcmp(xc_tensor_data(a[k]), xc_tensor_data(b[k]), bytes) != 0;
  }
  return count;
}

/* The largest difference of any output, relative to 1 or the value; for what a swap may change. */
static inline double distance(xc_tensor** a, xc_tensor** b) {
  double most = 0;
  int k;
  int64_t i;
  for (k = 0; k < kOutputs; ++k) {
    const float *u = (const float*)xc_tensor_data(a[k]), *v = (const float*)xc_tensor_data(b[k]);
    if (xc_tensor_element_count(a[k]) != xc_tensor_element_count(b[k])) return 1e30;
    for (i = 0; i < xc_tensor_element_count(a[k]); ++i) {
      const double size = u[i] < 0 ? -(double)u[i] : (double)u[i];
      double d = (double)u[i] - (double)v[i];
      d = (d < 0 ? -d : d) / (size < 1 ? 1 : size);
      if (!(d <= most)) most = d;
    }
  }
  return most;
}

#endif

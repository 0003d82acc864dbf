/* xc/cache.h: what an engine leaves in its cache directory, listed and removed. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "check.h"

struct seen {
  int objects, unsound, bad_size, no_subject, bad_text;
  char object[80]; /* the name of one */
};

static int is_text(xc_string_view view) {
  return view.data && view.data[view.size] == '\0';
}

static void visit(void* user_data, const xc_cache_entry* entry) {
  struct seen* seen = user_data;
  seen->bad_size += entry->struct_size != sizeof *entry || entry->bytes <= 0;
  seen->objects += entry->kind == XC_CACHE_OBJECT;
  seen->unsound += entry->problem.size > 0;
  seen->no_subject += entry->problem.size == 0 && entry->subject.size == 0;
  seen->bad_text += !is_text(entry->name) || !is_text(entry->kind_name) ||
                    !is_text(entry->subject) || !is_text(entry->problem);
  if (entry->kind == XC_CACHE_OBJECT)
    snprintf(seen->object, sizeof seen->object, "%s", entry->name.data);
}

/* y = tanh(x) * x + x, run once in mode sync: what is compiled is kept. Returns how many regions
 * were. */
static int64_t run_model(const char* directory) {
  static const char kModel[] =
      "graph g(%x: f32[n, 32]) -> (%y) {\n  %a = Tanh(%x)\n  %b = Mul(%a, %x)\n"
      "  %y = Add(%b, %x)\n}\n";
  const int64_t dims[] = {8, 32};
  xc_error* error = NULL;
  xc_engine* engine = NULL;
  xc_model* model = NULL;
  xc_session* session = NULL;
  xc_tensor *x = NULL, *y = NULL;
  xc_profile* profile = NULL;
  xc_counters counters = XC_COUNTERS_INIT;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  config.threads = 1;
  config.jit = XC_JIT_SYNC;
  config.cache_dir = directory;
  options.config = &config;
  CHECK_OK(xc_engine_create(&options, &engine, &error));
  CHECK_OK(xc_model_load_bytes(engine, kModel, sizeof kModel - 1, &model, &error));
  CHECK_OK(xc_session_create(model, NULL, &session, &error));
  CHECK_OK(xc_tensor_create(XC_DTYPE_F32, 2, dims, &x, &error));
  if (!x || !session) return -1;
  ((float*)xc_tensor_data(x))[0] = 1.0f;
  CHECK_OK(xc_session_run(session, NULL, (const xc_tensor* const*)&x, 1, &y, 1, &error));
  /* tanh(1) + 1 */
  CHECK(y && ((const float*)xc_tensor_data(y))[0] > 1.761593f &&
        ((const float*)xc_tensor_data(y))[0] < 1.761596f);
  CHECK_OK(xc_session_profile(session, &profile, &error));
  CHECK_CODE(XC_OK, xc_profile_counters(profile, &counters));
  xc_profile_destroy(profile);
  xc_tensor_release(y);
  xc_tensor_release(x);
  xc_session_destroy(session);
  xc_model_release(model);
  xc_engine_release(engine);
  return counters.compiled_regions;
}

int main(void) {
  char directory[] = "/tmp/xc-capi-cache-XXXXXX";
  char missing[64], damaged[120];
  xc_error* error = NULL;
  int64_t removed = -1, left = -1, compiled;
  struct seen seen = {0, 0, 0, 0, 0, ""}, after = seen;
  if (!CHECK(mkdtemp(directory) != NULL)) return check_result();
  CHECK_OK(xc_cache_visit(directory, visit, &seen, &error));
  CHECK(seen.objects == 0);
  compiled = run_model(directory);
  CHECK_OK(xc_cache_visit(directory, visit, &seen, &error));
  CHECK(seen.unsound == 0 && seen.bad_size == 0 && seen.no_subject == 0 && seen.bad_text == 0);
  CHECK(seen.objects == compiled);
  if (seen.objects > 0) {
    snprintf(damaged, sizeof damaged, "%s/%s", directory, seen.object);
    CHECK(truncate(damaged, 100) == 0);
    CHECK_OK(xc_cache_visit(directory, visit, &after, &error));
    CHECK(after.unsound == 1 && after.objects == seen.objects - 1);
    CHECK(after.bad_size == 0 && after.bad_text == 0);
  }
  CHECK_OK(xc_cache_prune(directory, 1 << 20, &removed, &left, &error));
  CHECK(removed == 0);
  CHECK_OK(xc_cache_prune(directory, 0, &removed, &left, &error));
  CHECK(removed == seen.objects && left == 0);
  CHECK_OK(xc_cache_prune(directory, 0, NULL, NULL, &error));

  snprintf(missing, sizeof missing, "%s/none", directory);
  CHECK_FAILS(XC_NOT_FOUND, xc_cache_visit(missing, visit, &seen, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_cache_visit(directory, NULL, &seen, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_cache_visit(NULL, visit, &seen, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_cache_prune(directory, -1, NULL, NULL, &error));
  CHECK(chmod(directory, 0777) == 0);
  CHECK_FAILS(XC_IO, xc_cache_visit(directory, visit, &seen, &error));
  CHECK_FAILS(XC_IO, xc_cache_prune(directory, 0, NULL, NULL, &error));
  CHECK(rmdir(directory) == 0);
  return check_result();
}

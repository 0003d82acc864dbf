/* Settings of engine.h: xc_config and the table of knobs. */
#define _POSIX_C_SOURCE 200112L
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int view_is(xc_string_view view, const char* text) {
  return view.size == strlen(text) && memcmp(view.data, text, view.size) == 0;
}

/* Every row can be described, set by name, read back, and has its field in xc_config. */
static void table(void) {
  uint32_t i;
  const uint32_t count = xc_config_option_count();
  xc_error* error = NULL;
  xc_config_option_info info;
  CHECK(count >= 16);
  for (i = 0; i < count; ++i) {
    char value[64];
    xc_config config = XC_CONFIG_INIT;
    xc_config zero = XC_CONFIG_INIT;
    xc_blob* text = NULL;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    CHECK_CODE(XC_OK, xc_config_option(i, &info));
    CHECK(info.name.size > 0 && info.doc.size > 0);
    CHECK(info.environment.size > 3 && memcmp(info.environment.data, "XC_", 3) == 0);
    if (info.is_text) {
      strcpy(value, "/some/where");
    } else if (info.choices.size) { /* the second choice */
      const char* bar = strchr(info.choices.data, '|') + 1;
      size_t size = strcspn(bar, "|");
      if (size > (size_t)(info.choices.data + info.choices.size - bar))
        size = (size_t)(info.choices.data + info.choices.size - bar);
      memcpy(value, bar, size);
      value[size] = 0;
    } else {
      strcpy(value, "1");
    }
    CHECK_OK(xc_config_set(&config, info.name.data, value, &error));
    CHECK(memcmp(&config, &zero, sizeof config) != 0);
    CHECK_OK(xc_config_get(&config, info.name.data, &text, &error));
    CHECK_TEXT(xc_blob_data(text), value);
    xc_blob_destroy(text);
  }
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_config_option(count, &info));
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_config_option(0, NULL));
  info.struct_size = 0;
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_config_option(0, &info));
}

static void set(void) {
  xc_error* error = NULL;
  xc_config config;
  xc_config_init(&config, sizeof config);
  xc_config_init(NULL, sizeof config);
  CHECK(config.struct_size == sizeof config && config.threads == 0);
  CHECK_OK(xc_config_set(&config, "threads", "3", &error));
  CHECK(config.threads == 3);
  CHECK_OK(xc_config_set(&config, "jit", "sync", &error));
  CHECK(config.jit == XC_JIT_SYNC);
  CHECK_OK(xc_config_set(&config, "numerics", "strict", &error));
  CHECK(config.numerics == XC_NUMERICS_STRICT);
  CHECK_OK(xc_config_set(&config, "isa", "avx512", &error));
  CHECK(config.isa == XC_ISA_AVX512);
  CHECK_OK(xc_config_set(&config, "kernels", "reference", &error));
  CHECK(config.kernels == XC_KERNELS_REFERENCE);
  CHECK_OK(xc_config_set(&config, "rules", "off", &error));
  CHECK_OK(xc_config_set(&config, "fusion", "off", &error));
  CHECK_OK(xc_config_set(&config, "layouts", "off", &error));
  CHECK_OK(xc_config_set(&config, "post_ops", "off", &error));
  CHECK_OK(xc_config_set(&config, "winograd", "off", &error));
  CHECK(config.rules == XC_OFF && config.fusion == XC_OFF && config.layouts == XC_OFF &&
        config.post_ops == XC_OFF && config.winograd == XC_OFF);
  CHECK_OK(xc_config_set(&config, "winograd", "on", &error));
  CHECK(config.winograd == XC_ON);
  CHECK_OK(xc_config_set(&config, "bands", "always", &error));
  CHECK(config.bands == XC_ALWAYS);

  CHECK(xc_config_set(&config, "jit", "fast", &error) == XC_INVALID_ARGUMENT);
  CHECK_CONTAINS(xc_error_message(error), "auto|off|sync");
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_set(&config, "threads", "many", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_set(&config, "threads", "-1", &error));
  CHECK(xc_config_set(&config, "thread", "1", &error) == XC_NOT_FOUND);
  CHECK_CONTAINS(xc_error_message(error), "threads, jit, numerics");
  xc_error_destroy(error);
  error = NULL;
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_set(NULL, "jit", "off", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_set(&config, NULL, "off", &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_set(&config, "jit", NULL, &error));
  CHECK(config.jit == XC_JIT_SYNC && config.threads == 3);
}

static void get(void) {
  xc_error* error = NULL;
  xc_blob* text = NULL;
  CHECK_OK(xc_config_get(NULL, "code_cache_bytes", &text, &error));
  CHECK_TEXT(xc_blob_data(text), "67108864");
  xc_blob_destroy(text);
  text = NULL;
  CHECK_OK(xc_config_get(NULL, "threads", &text, &error));
  CHECK(atoi(xc_blob_data(text)) >= 1 &&
        atoi(xc_blob_data(text)) <= sysconf(_SC_NPROCESSORS_ONLN)); /* not all may be its own */
  xc_blob_destroy(text);
  text = NULL;
  CHECK_FAILS(XC_NOT_FOUND, xc_config_get(NULL, "no_such", &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_get(NULL, NULL, &text, &error));
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_get(NULL, "jit", NULL, &error));
  CHECK(text == NULL);
}

static void environment(void) {
  xc_error* error = NULL;
  xc_config config = XC_CONFIG_INIT;
  setenv("XC_JIT", "off", 1);
  setenv("XC_CACHE_DIR", "/cache", 1);
  CHECK_OK(xc_config_read_environment(&config, &error));
  CHECK(config.jit == XC_JIT_OFF);
  CHECK(config.cache_dir && strcmp(config.cache_dir, "/cache") == 0);
  setenv("XC_JIT", "maybe", 1);
  CHECK(xc_config_read_environment(&config, &error) == XC_INVALID_ARGUMENT);
  CHECK_CONTAINS(xc_error_text(error), "XC_JIT");
  xc_error_destroy(error);
  error = NULL;
  CHECK(config.jit == XC_JIT_OFF);
  setenv("XC_JIT", "", 1); /* as if it were not set */
  CHECK_OK(xc_config_read_environment(&config, &error));
  CHECK(config.jit == XC_JIT_OFF);
  CHECK_FAILS(XC_INVALID_ARGUMENT, xc_config_read_environment(NULL, &error));
  unsetenv("XC_JIT");
  unsetenv("XC_CACHE_DIR");
}

/* Structs of older and newer headers. */
static void versions(void) {
  struct {
    xc_config config;
    int64_t future;
  } newer;
  xc_error* error = NULL;
  xc_blob* text = NULL;
  xc_config old = XC_CONFIG_INIT;
  memset(&newer, 0, sizeof newer);
  newer.config.struct_size = sizeof newer;
  newer.config.jit = XC_JIT_OFF;
  CHECK_OK(xc_config_get(&newer.config, "jit", &text, &error));
  CHECK_TEXT(xc_blob_data(text), "off");
  xc_blob_destroy(text);
  text = NULL;
  newer.future = 1;
  CHECK_FAILS(XC_UNSUPPORTED, xc_config_get(&newer.config, "jit", &text, &error));

  old.struct_size = 24; /* ends after jit */
  old.jit = XC_JIT_OFF;
  old.numerics = 77; /* beyond its size: not looked at */
  CHECK_OK(xc_config_get(&old, "jit", &text, &error));
  CHECK_TEXT(xc_blob_data(text), "off");
  xc_blob_destroy(text);
  CHECK_OK(xc_config_set(&old, "jit", "sync", &error));
  CHECK(old.jit == XC_JIT_SYNC && old.numerics == 77 && old.struct_size == 24);
  CHECK_FAILS(XC_UNSUPPORTED, xc_config_set(&old, "numerics", "strict", &error));
  CHECK(old.numerics == 77);
  setenv("XC_NUMERICS", "strict", 1);
  CHECK_FAILS(XC_UNSUPPORTED, xc_config_read_environment(&old, &error));
  unsetenv("XC_NUMERICS");
  CHECK(old.jit == XC_JIT_SYNC && old.numerics == 77);
}

int main(void) {
  xc_string_view v = {"ab", 2};
  CHECK(view_is(v, "ab"));
  table();
  set();
  get();
  environment();
  versions();
  return check_result();
}

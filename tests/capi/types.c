/* version.h, types.h, status.h, error.h */
#include "check.h"

static void versions(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", XC_VERSION_MAJOR, XC_VERSION_MINOR, XC_VERSION_PATCH);
  CHECK_TEXT(xc_runtime_version(), text);
  CHECK(xc_runtime_version_number() == XC_VERSION_NUMBER);
}

static void dtypes(void) {
  CHECK_TEXT(xc_dtype_name(XC_DTYPE_F32), "f32");
  CHECK_TEXT(xc_dtype_name(XC_DTYPE_BF16), "bf16");
  CHECK_TEXT(xc_dtype_name(XC_DTYPE_STRING), "string");
  CHECK_TEXT(xc_dtype_name(0), "?");
  CHECK_TEXT(xc_dtype_name(-1), "?");
  CHECK_TEXT(xc_dtype_name(1000), "?");
  CHECK(xc_dtype_size(XC_DTYPE_F32) == 4);
  CHECK(xc_dtype_size(XC_DTYPE_C128) == 16);
  CHECK(xc_dtype_size(XC_DTYPE_BOOL) == 1);
  CHECK(xc_dtype_size(XC_DTYPE_I4) == 1);
  CHECK(xc_dtype_size(XC_DTYPE_STRING) == 0);
  CHECK(xc_dtype_size(99) == 0);
}

static void statuses(void) {
  xc_status code;
  CHECK_TEXT(xc_status_name(XC_OK), "OK");
  CHECK_TEXT(xc_status_name(XC_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  CHECK_TEXT(xc_status_name(XC_INTERNAL), "INTERNAL");
  CHECK_TEXT(xc_status_name(99), "UNKNOWN");
  CHECK_TEXT(xc_status_name(-1), "UNKNOWN");
  for (code = XC_OK; code <= XC_INTERNAL + 1; ++code) CHECK(*xc_status_advice(code));
}

static const char* const kOddName =
    "graph g(%\"a\\n\\x1b[2J\") -> (%y) { %y = Relu(%\"a\\n\\x1b[2J\") }";

static void errors(void) {
  xc_error* error = NULL;
  xc_graph* graph = NULL;
  CHECK(xc_error_status(NULL) == XC_OK);
  CHECK_TEXT(xc_error_message(NULL), "");
  CHECK_TEXT(xc_error_where(NULL), "");
  CHECK_TEXT(xc_error_text(NULL), "");
  xc_error_destroy(NULL);

  CHECK(xc_graph_load_bytes("graph main(", 11, NULL, &graph, &error) != XC_OK);
  CHECK(graph == NULL);
  CHECK(error != NULL);
  CHECK_CONTAINS(xc_error_where(error), "line 1");
  CHECK_CONTAINS(xc_error_text(error), xc_status_name(xc_error_status(error)));
  CHECK_CONTAINS(xc_error_text(error), xc_error_where(error));
  CHECK_CONTAINS(xc_error_text(error), xc_error_message(error));
  xc_error_destroy(error);
  error = NULL;
  /* One line of text, whatever names hold. */
  CHECK(xc_graph_load_bytes(kOddName, strlen(kOddName), NULL, &graph, &error) == XC_INVALID_MODEL);
  CHECK_CONTAINS(xc_error_text(error), "a\\x0a\\x1b[2J");
  CHECK(strpbrk(xc_error_text(error), "\n\033") == NULL);
  CHECK(strpbrk(xc_error_message(error), "\n\033") == NULL);
  CHECK(strpbrk(xc_error_where(error), "\n\033") == NULL);
  xc_error_destroy(error);
  /* Nobody has to ask for the detail. */
  CHECK_CODE(XC_INVALID_ARGUMENT, xc_graph_load_bytes(NULL, 4, NULL, &graph, NULL));
}

static void blobs(void) {
  xc_error* error = NULL;
  xc_blob* blob = NULL;
  CHECK(xc_blob_data(NULL) == NULL);
  CHECK(xc_blob_size(NULL) == 0);
  xc_blob_destroy(NULL);
  CHECK_OK(xc_config_get(NULL, "jit", &blob, &error));
  CHECK(xc_blob_size(blob) == 4);
  CHECK_TEXT(xc_blob_data(blob), "auto");
  xc_blob_destroy(blob);
}

int main(void) {
  versions();
  dtypes();
  statuses();
  errors();
  blobs();
  return check_result();
}

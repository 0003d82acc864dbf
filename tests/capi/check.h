/* A test in C: CHECK what must hold, end main with `return check_result();`. */
#ifndef XC_TESTS_CAPI_CHECK_H
#define XC_TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <string.h>
#include <xc/xc.h>

static int check_failures = 0;
static int check_count = 0;

static inline int check_report(int ok, const char* file, int line, const char* text,
                               const char* detail) {
  ++check_count;
  if (!ok) {
    ++check_failures;
    fprintf(stderr, "%s:%d: failed: %s%s%s\n", file, line, text, *detail ? ": " : "", detail);
  }
  return ok;
}

static inline int check_status(xc_status got, xc_status want, xc_error** error, const char* file,
                               int line, const char* text) {
  char detail[512];
  int ok = got == want;
  snprintf(detail, sizeof detail, "%s, not %s: %.300s", xc_status_name(got), xc_status_name(want),
           error ? xc_error_text(*error) : "");
  if (error) {
    /* An error object appears exactly on failure, says the same status, and has a sentence. */
    ok = ok && (got == XC_OK) == (*error == NULL);
    ok = ok && (got == XC_OK || (xc_error_status(*error) == got && *xc_error_message(*error)));
    xc_error_destroy(*error);
    *error = NULL;
  }
  check_report(ok, file, line, text, ok ? "" : detail);
  return ok;
}

#define CHECK(condition) check_report(!!(condition), __FILE__, __LINE__, #condition, "")
/* The expression uses &error, a local `xc_error *error = NULL`. */
#define CHECK_OK(expression) \
  check_status(expression, XC_OK, &error, __FILE__, __LINE__, #expression)
#define CHECK_FAILS(code, expression) \
  check_status(expression, code, &error, __FILE__, __LINE__, #expression)
/* For functions without an error argument. */
#define CHECK_CODE(code, expression) \
  check_status(expression, code, NULL, __FILE__, __LINE__, #expression)
#define CHECK_TEXT(got, want) \
  check_report(strcmp(got, want) == 0, __FILE__, __LINE__, #got " is " #want, got)
#define CHECK_CONTAINS(text, part) \
  check_report(strstr(text, part) != NULL, __FILE__, __LINE__, #text " contains " #part, text)

static inline int check_result(void) {
  printf("%d checks, %d failed\n", check_count, check_failures);
  return check_failures != 0;
}

#endif

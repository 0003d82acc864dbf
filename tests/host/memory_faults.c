/* The C library's allocator fails at the n-th request of the calling thread, once or from then on,
 * for n over everything that loading, running, telling of it as JSON and destroying ask for, with a
 * cache of earlier verdicts and without: the function says so, nothing leaks, and the same works
 * when there is memory again. Not reading .xcg: the destructors of its JSON library allocate. This
 * program defines the allocator of the process. */
#define _GNU_SOURCE
#include <malloc.h>
#include <unistd.h>

#include "../capi/allocator.h"
#include "network.h"

#if !XC_TEST_OWNS_MALLOC
int main(void) {
  printf("skipped: the sanitizer, or a C library other than glibc, owns malloc\n");
  return 0;
}
#else

static __thread long left = -1; /* requests until one fails; -1 = none will */
static __thread int for_ever, failed;

static int refuse(void) {
  if (left < 0) return 0;
  if (left > 0) {
    --left;
    return 0;
  }
  if (!for_ever) left = -1;
  failed = 1;
  errno = ENOMEM;
  return 1;
}

static float x[kMostRows * kColumns];

/* Statuses of what may have been short of memory. */
static int sound(xc_status status, xc_error** error, const char* what, long n) {
  const int ok = status == XC_OK || status == XC_OUT_OF_MEMORY;
  if (!ok) {
    left = -1;
    fprintf(stderr, "%s, request %ld: %s: %s\n", what, n, xc_status_name(status),
            xc_error_text(*error));
  }
  xc_error_destroy(*error);
  *error = NULL;
  return ok;
}

typedef struct outcome {
  int unsound, wrong;
} outcome;

/* A session as its host is told of it. */
static void tell(network* net, long n, outcome* result) {
  xc_error* error = NULL;
  xc_blob* text = NULL;
  xc_profile* profile = NULL;
  int format;
  for (format = XC_EXPLAIN_TEXT; format <= XC_EXPLAIN_JSON; ++format) {
    result->unsound += !sound(xc_session_explain(net->session, format, NULL, 0, &text, &error),
                              &error, "explain", n);
    xc_blob_destroy(text);
    text = NULL;
  }
  result->unsound += !sound(xc_session_trace(net->session, &text, &error), &error, "trace", n);
  xc_blob_destroy(text);
  text = NULL;
  result->unsound +=
      !sound(xc_session_profile(net->session, &profile, &error), &error, "profile", n);
  if (profile)
    result->unsound += !sound(xc_profile_json(profile, &text, &error), &error, "profile JSON", n);
  xc_blob_destroy(text);
  xc_profile_destroy(profile);
}

/* Everything, with a failure at request n of it; 0 when it asks for fewer. */
static int life(const char* mode, const char* cache, long n, int ever, xc_tensor** expected,
                outcome* result) {
  network net;
  xc_error* error = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  xc_status status;
  int i, met;
  fill_input(x, 6);
  failed = 0;
  for_ever = ever;
  left = n;
  status = network_open(&net, mode, 1, cache, &error);
  result->unsound += !sound(status, &error, "open", n);
  for (i = 0; net.session && i < 3; ++i) {
    status = network_run(&net, x, 6, out, &error);
    result->unsound += !sound(status, &error, "run", n);
    if (status == XC_OK) {
      const long pause = left;
      left = -1;
      result->wrong += differing(expected, out);
      left = pause;
    }
    drop_outputs(out);
  }
  if (net.session) tell(&net, n, result);
  left = -1;
  met = failed;
  /* The session is as good as new. */
  if (net.session) {
    status = network_run(&net, x, 6, out, &error);
    if (status != XC_OK)
      fprintf(stderr, "behind a failure at request %ld: %s\n", n, xc_error_text(error));
    result->unsound += status != XC_OK;
    xc_error_destroy(error);
    if (status == XC_OK) result->wrong += differing(expected, out);
    drop_outputs(out);
  }
  network_close(&net);
  return met;
}

static size_t in_use(void) {
  return mallinfo2().uordblks;
}

static void count_profile(void* count, const xc_cache_entry* entry) {
  *(int*)count += entry->problem.size == 0 && entry->kind_name.size == strlen("profile") &&
                  memcmp(entry->kind_name.data, "profile", entry->kind_name.size) == 0;
}

/* A process that has decided about this network. */
static void fill(const char* cache) {
  const int64_t dims[] = {6, kColumns};
  const xc_shape shape = {dims, 2, 0};
  network net;
  xc_error* error = NULL;
  int32_t done = 0;
  int profiles = 0;
  CHECK_OK(network_open(&net, "auto", 1, cache, &error));
  CHECK_OK(xc_session_warm_up(net.session, &shape, 1, 60000, &done, &error));
  network_close(&net);
  CHECK_OK(xc_cache_visit(cache, count_profile, &profiles, &error));
  printf("the cache holds %d profiles\n", profiles);
}

/* What a thread keeps of freed blocks for its next requests counts as in use, and what it keeps
 * depends on where the last failure struck: up to 100 KB. Started again, it keeps none. */
static void keep_nothing(char** argv) {
  const char* const name = "GLIBC_TUNABLES";
  if (getenv(name)) return;
  setenv(name, "glibc.malloc.tcache_count=0", 1);
  execv("/proc/self/exe", argv);
}

int main(int argc, char** argv) {
  static const struct {
    const char* mode;
    int cached;
  } kLives[] = {{"off", 0}, {"auto", 0}, {"freeze", 1}, {"auto", 1}};
  char cache[] = "/tmp/xc-memory-faults-XXXXXX";
  const char* const every = getenv("XC_HOST_EVERY");
  const long step = every ? atol(every) : 7;
  int which, ever;
  (void)argc;
  keep_nothing(argv);
  if (!CHECK(mkdtemp(cache) != NULL)) return check_result();
  fill(cache);
  for (which = 0; which < 4; ++which) {
    const char* const mode = kLives[which].mode;
    const char* const from = kLives[which].cached ? cache : NULL;
    xc_error* error = NULL;
    xc_tensor* expected[kOutputs] = {NULL, NULL, NULL, NULL};
    network net;
    fill_input(x, 6);
    CHECK_OK(network_open(&net, mode, 1, from, &error));
    CHECK_OK(network_run(&net, x, 6, expected, &error));
    network_close(&net);
    for (ever = 0; ever < 2; ++ever) {
      outcome result = {0, 0};
      long n, count = 0;
      size_t before = 0;
      for (n = 0; n < 100000; n += n < 40 ? 1 : step) {
        const int met = life(mode, from, n, ever, expected, &result);
        if (++count == 40) before = in_use();
        if (!met) break;
      }
      CHECK(n < 100000);
      CHECK(result.unsound == 0);
      CHECK(result.wrong == 0);
      printf("%s%s, %s: %ld requests, %ld failures, %ld bytes more in use\n", mode,
             from ? " with a cache" : "", ever ? "for ever" : "once", n, count,
             (long)in_use() - (long)before);
      CHECK((long)in_use() - (long)before < 4096);
    }
    drop_outputs(expected);
  }
  CHECK(remove_folder(cache));
  return check_result();
}
#endif

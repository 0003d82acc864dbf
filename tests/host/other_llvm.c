/* A host that has another LLVM with all of its symbols visible (Mesa's drivers, other compilers of
 * machine learning): ours keeps to itself. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "network.h"

int main(void) {
  static const char* const kNames[] = {"libLLVM.so.19.1", "libLLVM-19.so",   "libLLVM-19.so.1",
                                       "libLLVM.so.18.1", "libLLVM-17.so.1", "libLLVM-16.so.1",
                                       "libLLVM-15.so.1", "libLLVM-14.so.1", "libLLVM-13.so.1"};
  static float x[kMostRows * kColumns];
  xc_error* error = NULL;
  xc_tensor *out[kOutputs] = {NULL}, *expected[kOutputs] = {NULL};
  xc_counters counters = XC_COUNTERS_INIT;
  network n;
  size_t k;
  int found = 0, i;
  for (k = 0; k < sizeof kNames / sizeof *kNames; ++k)
    if (dlopen(kNames[k], RTLD_NOW | RTLD_GLOBAL)) {
      printf("%s is open\n", kNames[k]);
      ++found;
    }
  if (!found) printf("no other LLVM is installed: only ours\n");
  fill_input(x, 21);
  CHECK_OK(network_open(&n, "off", 1, NULL, &error));
  CHECK_OK(network_run(&n, x, 21, expected, &error));
  network_close(&n);
  CHECK_OK(network_open(&n, "sync", 1, NULL, &error));
  for (i = 0; i < 3; ++i) {
    CHECK_OK(network_run(&n, x, 21, out, &error));
    CHECK(distance(expected, out) < 1e-4);
    drop_outputs(out);
  }
  CHECK_OK(xc_session_counters(n.session, &counters, &error));
  CHECK((counters.compiled_regions > 0) == XC_HAVE_JIT);
  network_close(&n);
  drop_outputs(expected);
  return check_result();
}

/* The allocator of the process, defined by the test: the C library's, which asks refuse() first.
 * The test defines refuse(), which gives 1 to have a request fail, and skips where this is not
 * glibc's to decide (XC_TEST_OWNS_MALLOC is 0). */
#ifndef XC_TESTS_CAPI_ALLOCATOR_H
#define XC_TESTS_CAPI_ALLOCATOR_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define XC_TEST_OWNS_MALLOC 0
#else
#define XC_TEST_OWNS_MALLOC 1

static int refuse(void);

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

/* Seen by the libraries, whatever the visibility of everything else. */
#pragma GCC visibility push(default)
void* malloc(size_t size) {
  return refuse() ? NULL : __libc_malloc(size);
}
void* calloc(size_t items, size_t size) {
  return refuse() ? NULL : __libc_calloc(items, size);
}
void* realloc(void* memory, size_t size) {
  return refuse() ? NULL : __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
  return refuse() ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return refuse() ? NULL : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (refuse()) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
#pragma GCC visibility pop

#endif
#endif

/* The contract between a kernel and whoever calls it: ahead-of-time kernels, kernels compiled at
 * run time and GPU launch stubs share it. Freestanding C99: generated code depends on nothing else.
 *
 * Thread-safety: a kernel only reads xc_kargs and what it points to, and writes the buffers it
 * declares as output and its scratch; calls with disjoint task ranges and separate scratch may run
 * at the same time. Errors: 0 is success, anything else means that an index taken from data left
 * its range (what was written to the outputs is then unspecified, never outside them).
 */
#ifndef XC_KERNEL_ABI_H
#define XC_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when the meaning or the layout of xc_kargs changes; cached code is keyed by it. */
#define XC_KERNEL_ABI_VERSION 1u

/* Return values of a kernel. */
#define XC_KERNEL_OK 0
#define XC_KERNEL_RANGE_ERROR 1

/* Alignment of xc_kargs.scratch in bytes. */
#define XC_KERNEL_SCRATCH_ALIGNMENT 64

typedef struct xc_kargs {
  uint32_t version;       /* XC_KERNEL_ABI_VERSION */
  uint32_t reserved;      /* 0 */
  void* const* buffers;   /* address of element [0, ..., 0] of each buffer parameter */
  const int64_t* dims;    /* values of the kernel's dim parameters */
  const int64_t* strides; /* values of its stride parameters, in elements (may be <= 0) */
  void* scratch;          /* this task's scratch, aligned; size stated by the kernel's metadata */
  int64_t begin, end;     /* this task's range of the outermost parallel loop */
} xc_kargs;

typedef int32_t (*xc_kernel_fn)(const xc_kargs*);

/* One cache line: the argument block of a task is a single load away. */
#if defined(__cplusplus)
static_assert(sizeof(xc_kargs) <= 64, "xc_kargs must fit one cache line");
#else
typedef char xc_kargs_fits_one_cache_line[sizeof(xc_kargs) <= 64 ? 1 : -1];
#endif

#ifdef __cplusplus
}
#endif
#endif /* XC_KERNEL_ABI_H */

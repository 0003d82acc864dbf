/* The one door to LLVM: a C table exported by libxcrt-jit.so. The host library opens it at the
 * first compile with dlopen(RTLD_NOW | RTLD_LOCAL) and asks for the table by version; no C++ type,
 * exception or LLVM name crosses. In: loop IR text. Out: a position-independent image that needs
 * nothing but executable memory (src/tier/code_memory.h), or assembly text.
 */
#ifndef XC_CODEGEN_H
#define XC_CODEGEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XC_JIT_VERSION 2u

enum {
  XC_JIT_WANT_ASSEMBLY = 1, /* image.assembly: the target's assembly (always set for nvptx) */
  XC_JIT_WANT_IR = 2        /* image.ir: LLVM IR after the passes */
};

typedef struct xc_jit_request {
  const char* text; /* loop IR, scheduled (loop/verify.h, kScheduled) */
  size_t length;
  /* "host"; "x86-64-v2", "x86-64-v3", "x86-64-v4"; "aarch64"; "nvptx:sm_80" and so on. All x86
   * targets give the same bits, except that v2 has no fma: math functions then round differently.
   */
  const char* target;
  uint32_t flags;
} xc_jit_request;

/* What a compile is made of, in seconds of the thread's CPU time. */
typedef struct xc_jit_times {
  double read;     /* loop IR: parsed, verified, simplified */
  double emit;     /* LLVM IR: written and verified */
  double optimize; /* its passes */
  double generate; /* machine code, as an object file */
  double link;
} xc_jit_times;

typedef struct xc_jit_image {
  const uint8_t* code;       /* NULL for nvptx */
  size_t size;               /* bytes */
  size_t entry;              /* offset of the xc_kernel_fn */
  size_t alignment;          /* of code when it is placed, a power of two <= 4096 */
  const char *assembly, *ir; /* zero-terminated or NULL */
  size_t assembly_length, ir_length;
  xc_jit_times times;
  void* owner; /* private */
} xc_jit_image;

typedef struct xc_jit_table {
  uint32_t version;
  /* 0, or an xc_status number with a message in `error` (cut to error_length, zero-terminated). Any
   * thread, any number at once. On failure the image is all zero. */
  int32_t (*compile)(const xc_jit_request* request, xc_jit_image* image, char* error,
                     size_t error_length);
  void (*release)(xc_jit_image* image);
  /* The target "host" stands for on this machine ("x86-64-v4", ...). */
  const char* (*host_target)(void);
  /* Identifies this code generator in cache keys: LLVM's version and our own revision. */
  const char* (*revision)(void);
} xc_jit_table;

/* NULL when the library does not speak that version. */
const xc_jit_table* xc_jit_api(uint32_t version);
typedef const xc_jit_table* (*xc_jit_api_fn)(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* XC_CODEGEN_H */

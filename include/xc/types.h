/* Types that every other header uses: handles, element types, views. Nothing here allocates.
 *
 * Structs in this header are frozen. Structs that may grow start with `struct_size` and live beside
 * the functions that take them.
 */
#ifndef XC_TYPES_H
#define XC_TYPES_H

#include <stdint.h>

/* XC_API: exported. XC_NODISCARD: a failure that nobody looks at is a bug. */
#if defined(__GNUC__) || defined(__clang__)
#define XC_API __attribute__((visibility("default")))
#define XC_NODISCARD __attribute__((warn_unused_result))
#else
#define XC_API
#define XC_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles: opaque; xc.h says who owns what and which threads may use it. Beside them:
 * xc_op_library and xc_op_call, operator.h ---- */
typedef struct xc_engine xc_engine;   /* threads, settings, compiler: engine.h */
typedef struct xc_graph xc_graph;     /* a model under construction: graph.h */
typedef struct xc_model xc_model;     /* immutable graph and weights: model.h */
typedef struct xc_session xc_session; /* a model made ready to run: session.h */
typedef struct xc_call xc_call;       /* a run prepared for fixed memory: call.h */
typedef struct xc_tensor xc_tensor;   /* a typed array: tensor.h */
typedef struct xc_profile xc_profile; /* a snapshot of what a session has learnt: profile.h */
typedef struct xc_cancel xc_cancel;   /* a switch that stops runs: session.h */
typedef struct xc_error xc_error;     /* detail of a failure: error.h */
typedef struct xc_blob xc_blob;       /* bytes or text that the library returns: below */

/* Result of a call: 0 (XC_OK) or one of the codes of status.h. */
typedef int32_t xc_status;

/* Called once when the library no longer needs `user_data`. */
typedef void (*xc_destroy_fn)(void* user_data);

/* ---- element types; the numbers never change ---- */
typedef int32_t xc_dtype;
enum {
  XC_DTYPE_UNDEFINED = 0,
  XC_DTYPE_F32 = 1,
  XC_DTYPE_F64 = 2,
  XC_DTYPE_F16 = 3,
  XC_DTYPE_BF16 = 4,
  XC_DTYPE_I8 = 5,
  XC_DTYPE_I16 = 6,
  XC_DTYPE_I32 = 7,
  XC_DTYPE_I64 = 8,
  XC_DTYPE_U8 = 9,
  XC_DTYPE_U16 = 10,
  XC_DTYPE_U32 = 11,
  XC_DTYPE_U64 = 12,
  XC_DTYPE_BOOL = 13,   /* one byte, 0 or 1 */
  XC_DTYPE_STRING = 14, /* by xc_tensor_string(), xc_tensor_set_strings() */
  XC_DTYPE_C64 = 15,    /* two floats */
  XC_DTYPE_C128 = 16,   /* two doubles */
  /* Storage types of quantised tensors. Types below 8 bits are held one element per byte. */
  XC_DTYPE_F8E4M3FN = 17,
  XC_DTYPE_F8E4M3FNUZ = 18,
  XC_DTYPE_F8E5M2 = 19,
  XC_DTYPE_F8E5M2FNUZ = 20,
  XC_DTYPE_F8E8M0 = 21,
  XC_DTYPE_F4E2M1 = 22,
  XC_DTYPE_I4 = 23,
  XC_DTYPE_U4 = 24,
  XC_DTYPE_I2 = 25,
  XC_DTYPE_U2 = 26,
  XC_DTYPE_TENSOR = 27, /* elements are tensors: a sequence; see xc_sequence_create() */
  XC_DTYPE_F6E2M3 = 28, /* storage, as 17 to 26; @since 0.1 */
  XC_DTYPE_F6E3M2 = 29
};

/* The name of an element type as the text form writes it: "f32", "bf16"; "?" for an unknown number.
 * Static storage. Any thread. @since 0.1 @stability stable */
XC_API const char* xc_dtype_name(xc_dtype dtype);

/* Bytes of one element in memory; 0 for strings, tensors and unknown numbers. Any thread.
 * @since 0.1 @stability stable */
XC_API int64_t xc_dtype_size(xc_dtype dtype);

/* ---- views: borrowed, valid as long as the function that gives them says ---- */

/* UTF-8 text; also NUL-terminated wherever the library gives it, "" where there is none. */
typedef struct xc_string_view {
  const char* data;
  uint64_t size;
} xc_string_view;

/* Dims of one tensor. */
typedef struct xc_shape {
  const int64_t* dims;
  uint32_t rank;
  uint32_t reserved; /* 0 */
} xc_shape;

/* A strided array in memory. `data` is the address of the element with all indices 0. Strides are
 * in elements, may be 0 or negative; NULL means row-major. A view with dtype 0 is an absent input.
 */
typedef struct xc_tensor_view {
  void* data;
  const int64_t* dims;
  const int64_t* strides;
  xc_dtype dtype;
  uint32_t rank;
} xc_tensor_view;

/* ---- blob: owned bytes the library hands out. Immutable; any thread may read it. ---- */

/* The bytes. There is one more byte, 0, after the last: text can be used as a C string. Valid until
 * the blob is destroyed; NULL for NULL. @since 0.1 @stability stable */
XC_API const char* xc_blob_data(const xc_blob* blob);

/* Number of bytes; 0 for NULL. @since 0.1 @stability stable */
XC_API uint64_t xc_blob_size(const xc_blob* blob);

/* Frees the blob. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_blob_destroy(xc_blob* blob);

#ifdef __cplusplus
}
#endif
#endif /* XC_TYPES_H */

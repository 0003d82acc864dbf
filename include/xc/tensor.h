/* Tensors: typed, strided arrays with a reference count.
 *
 * Threads: the dims and type of a tensor never change, so any thread may read them; who reads and
 * writes the elements at the same time is the caller's affair, as with any memory.
 * Ownership: shared (retain, release). Tensors that a run returns come from the session's pool and
 * go back to it at the last release, which makes the next run cheaper; they may outlive the
 * session.
 */
#ifndef XC_TENSOR_H
#define XC_TENSOR_H

#include <xc/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a row-major tensor with memory of its own: zeroed, strings empty. `dims` may be NULL when
 * rank is 0. The caller releases it.
 * Fails with XC_INVALID_ARGUMENT (dtype, negative dim), XC_LIMIT (size overflow), XC_OUT_OF_MEMORY.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_tensor_create(xc_dtype dtype, uint32_t rank, const int64_t* dims,
                                               xc_tensor** out_tensor, xc_error** out_error);

/* Makes a tensor of memory that the host owns. The view says where and how; it may have any strides
 * but overlapping elements must not be written. The memory stays valid until `release` is called
 * (once, with user_data, when the last reference is gone; NULL = the caller sees to it). On failure
 * `release` is not called. Strings cannot be wrapped.
 * Fails with XC_INVALID_ARGUMENT (dtype, negative dim, null data of a non-empty tensor, data not
 * aligned to its element), XC_LIMIT, XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_tensor_wrap(const xc_tensor_view* view, xc_destroy_fn release,
                                             void* user_data, xc_tensor** out_tensor,
                                             xc_error** out_error);

/* Adds a reference. NULL is allowed. Returns `tensor`. @since 0.1 @stability stable */
XC_API xc_tensor* xc_tensor_retain(xc_tensor* tensor);

/* Drops a reference. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_tensor_release(xc_tensor* tensor);

/* Element type; 0 for NULL. @since 0.1 @stability stable */
XC_API xc_dtype xc_tensor_dtype(const xc_tensor* tensor);
/* Number of dims; 0 for NULL. @since 0.1 @stability stable */
XC_API uint32_t xc_tensor_rank(const xc_tensor* tensor);
/* The dims, xc_tensor_rank() of them; lives as long as the tensor. @since 0.1 @stability stable */
XC_API const int64_t* xc_tensor_dims(const xc_tensor* tensor);
/* The strides in elements, likewise. Row-major for tensors made by xc_tensor_create() and returned
 * by a run. @since 0.1 @stability stable */
XC_API const int64_t* xc_tensor_strides(const xc_tensor* tensor);
/* Address of the element with all indices 0; NULL for NULL and for strings. Lives as long as the
 * tensor. @since 0.1 @stability stable */
XC_API void* xc_tensor_data(const xc_tensor* tensor);
/* Number of elements; 0 for NULL and for an absent optional. @since 0.1 @stability stable */
XC_API int64_t xc_tensor_element_count(const xc_tensor* tensor);

/* All of the above at once; pointers live as long as the tensor. For a string tensor `data` is
 * opaque and only good to be passed on to a run. Fails with XC_INVALID_ARGUMENT.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_tensor_get_view(const xc_tensor* tensor, xc_tensor_view* out_view);

/* Copies all elements in row-major order to `out_data`, which holds `bytes` bytes.
 * Fails with XC_INVALID_ARGUMENT (bytes is not the exact size; strings). @since 0.1 @stability
 * stable */
XC_API XC_NODISCARD xc_status xc_tensor_copy_out(const xc_tensor* tensor, void* out_data,
                                                 uint64_t bytes, xc_error** out_error);

/* Sets all elements of a string tensor; the text is copied. `count` must be the element count.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_tensor_set_strings(xc_tensor* tensor, const xc_string_view* values,
                                                    uint64_t count, xc_error** out_error);

/* Element `index` (row-major) of a string tensor. The text lives until the tensor is released or
 * written. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_tensor_string(const xc_tensor* tensor, uint64_t index,
                                               xc_string_view* out_value, xc_error** out_error);

/* All elements of a string tensor, row-major, as xc_tensor_string() gives each. `count` must be the
 * element count. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_tensor_strings(const xc_tensor* tensor, xc_string_view* out_values,
                                                uint64_t count, xc_error** out_error);

/* Makes a sequence: a tensor of rank 1 and type XC_DTYPE_TENSOR whose elements are the given
 * tensors. It shares their memory, but copies tensors that a run returned. Sequences are inputs and
 * outputs of models like any tensor; elements of a returned one may share memory with elements of
 * an input. A map is the sequence of two tensors of rank 1 and one length: its keys (i64 or string,
 * each once) and its values; those that a run returns have ascending keys, which are not to be
 * written: other maps may share them. The caller releases the sequence.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_sequence_create(const xc_tensor* const* elements, uint64_t count,
                                                 xc_tensor** out_sequence, xc_error** out_error);

/* Element `index` of a sequence, as a tensor that shares its memory. The caller releases it.
 * Fails with XC_INVALID_ARGUMENT (no sequence, no such element).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_sequence_element(const xc_tensor* sequence, uint64_t index,
                                                  xc_tensor** out_tensor, xc_error** out_error);

/* Keys and values of all maps of a sequence of maps, without a handle for each: `count` views of
 * either, which must be the element count. They live as long as the sequence; for keys or values of
 * strings `data` is opaque, but keys of equal `data` and size are the same keys: maps of one
 * ZipMap share theirs. Fails with XC_INVALID_ARGUMENT (no sequence, an element is no map).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_sequence_maps(const xc_tensor* sequence, xc_tensor_view* out_keys,
                                               xc_tensor_view* out_values, uint64_t count,
                                               xc_error** out_error);

#ifdef __cplusplus
}
#endif
#endif /* XC_TENSOR_H */

/* Detail of a failure.
 *
 * Functions that can fail for more than one reason take `xc_error **out_error` last. It may be
 * NULL. On failure, and only then, *out_error is set to a new error that the caller destroys; a
 * previous value is not freed. An error is immutable; any thread may read it.
 */
#ifndef XC_ERROR_H
#define XC_ERROR_H

#include <xc/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The status that was returned with it; XC_OK for NULL. @since 0.1 @stability stable */
XC_API xc_status xc_error_status(const xc_error* error);

/* What went wrong, one sentence without a final newline. Lives as long as the error; "" for NULL.
 * @since 0.1 @stability stable */
XC_API const char* xc_error_message(const xc_error* error);

/* The place in the model or file, "" when there is none: "node 'fc1' (MatMul)", "input 'x'", "line
 * 3, column 7", "byte 120". Lives as long as the error. @since 0.1 @stability stable */
XC_API const char* xc_error_where(const xc_error* error);

/* All of it in one line: "INVALID_ARGUMENT: input 'x': ...". Lives as long as the error; "" for
 * NULL. @since 0.1 @stability stable */
XC_API const char* xc_error_text(const xc_error* error);

/* Frees the error. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_error_destroy(xc_error* error);

#ifdef __cplusplus
}
#endif
#endif /* XC_ERROR_H */

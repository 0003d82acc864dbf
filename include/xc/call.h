/* Prepared calls: fixed shapes and bound memory; a run looks nothing up and allocates nothing, but
 * for steps that only the reference executes or whose sizes only the run can tell
 * (xc_session_explain() names them), and for what vendor libraries take by themselves: oneDNN some
 * nine small blocks per convolution of its own, one per product of bytes.
 *
 * Made by xc_session_prepare(). Compiled kernels that a session accepts later reach its calls too.
 * Threads: one at a time, a second one is refused; several calls of one session may run at once.
 * Ownership: single; a call keeps its session's plans, its inputs and its outputs alive.
 */
#ifndef XC_CALL_H
#define XC_CALL_H

#include <xc/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the bound inputs, runs, writes the bound outputs.
 * Fails with XC_RANGE (outputs are then unspecified), XC_OUT_OF_MEMORY, XC_INVALID_ARGUMENT, and
 * with XC_BUSY while a run of the call is in progress: in another thread, or around this function.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_call_run(xc_call* call, xc_error** out_error);

/* Number of outputs; 0 for NULL. @since 0.1 @stability stable */
XC_API uint32_t xc_call_output_count(const xc_call* call);

/* Output `index`, borrowed: valid as long as the call (retain it to keep it longer). NULL for a
 * wrong index. @since 0.1 @stability stable */
XC_API xc_tensor* xc_call_output(const xc_call* call, uint32_t index);

/* Frees the call. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_call_destroy(xc_call* call);

#ifdef __cplusplus
}
#endif
#endif /* XC_CALL_H */

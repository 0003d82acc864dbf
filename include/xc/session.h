/* Sessions: a model made ready to run, with the plans, profile and compiled code it has earned.
 *
 * Threads: every function but destroy may be called from any thread at any time on one session,
 * also while others run it. Ownership: single; a session keeps its model and engine alive.
 *
 * Memory: what kernels want packed or converted of the weights, for most products and convolutions
 * about as much again as they take in the model, is each session's own; so are plans and what runs
 * work in. To serve from many threads, share one session, with a prepared call per thread (call.h):
 * that adds working memory alone.
 */
#ifndef XC_SESSION_H
#define XC_SESSION_H

#include <xc/model.h>
#include <xc/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xc_session_options {
  uint32_t struct_size; /* = sizeof(xc_session_options) */
  uint32_t reserved;    /* 0 */
  /* Fields that are not 0 replace the engine's; NULL = none. What is the engine's alone (engine.h,
   * xc_config_option_info.engine_only) may only be what it is there, and numerics strict only where
   * the engine is: others have changed the model's bits when it was loaded. */
  const xc_config* config;
} xc_session_options;
#define XC_SESSION_OPTIONS_INIT {sizeof(xc_session_options), 0, NULL}

/* XC_SESSION_OPTIONS_INIT for languages without macros; `size` as in xc_config_init().
 * @since 0.1 @stability stable */
XC_API void xc_session_options_init(xc_session_options* options, size_t size);

/* Creates a session. `options` may be NULL. The caller destroys it.
 * Fails with XC_INVALID_ARGUMENT (naming an option that is the engine's), XC_UNSUPPORTED (naming a
 * node nothing can execute), XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_create(xc_model* model, const xc_session_options* options,
                                                xc_session** out_session, xc_error** out_error);

/* Destroys the session. No run may be in progress. Prepared calls and returned tensors stay valid.
 * Blocks at most for the compile, or the packing of some weights, in progress (tens of
 * milliseconds). NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_session_destroy(xc_session* session);

/* ---- running ---- */

/* Flags of a run. */
enum {
  XC_RUN_NO_COMPILE = 1, /* this run starts no compilation; it takes part in trials under way. In
                          * mode sync the first run of new shapes compiles all the same */
  XC_RUN_NO_ALLOC = 2    /* this run allocates nothing: it fails with XC_LIMIT, nothing touched and
                          * with an error that names the cure, where the library would have to.
                          * Enough is one run of the same shapes before (and of the same strides,
                          * where inputs are not row-major; by as many threads at once) whose
                          * returned outputs were released; a plan that changed since may need one
                          * more, see xc_session_freeze(), and until the first such run of a session
                          * memory is given back that some thousand others had no use for. Models
                          * with steps that always allocate, or with more than 64 inputs or outputs,
                          * are refused. Such runs are not measured. What vendor libraries allocate
                          * by themselves is not counted: oneDNN takes some nine small blocks per
                          * convolution ("onednn" in xc_session_explain()), one per product of
                          * bytes. Since 0.1 */
};

typedef struct xc_run_options {
  uint32_t struct_size;    /* = sizeof(xc_run_options) */
  uint32_t flags;          /* XC_RUN_..., or-ed; 0 = none */
  int64_t timeout_ns;      /* from the start of the call; 0 = none. Checked between steps */
  const xc_cancel* cancel; /* polled between steps; NULL = none */
} xc_run_options;
#define XC_RUN_OPTIONS_INIT {sizeof(xc_run_options), 0, 0, NULL}

/* XC_RUN_OPTIONS_INIT for languages without macros; `size` as in xc_config_init().
 * @since 0.1 @stability stable */
XC_API void xc_run_options_init(xc_run_options* options, size_t size);

/* Runs the model once and blocks until it is done.
 * Inputs are in the model's order and borrowed for the call; NULL stands for an absent optional
 * one. Each slot of outputs that holds NULL receives a new reference, which the caller releases; a
 * slot that holds a tensor is written in place (its type and dims must be the result's, its
 * elements row-major). Its memory may be exactly that of a row-major input, for states that the
 * host keeps in one place, such as a cache of keys and values; else none of an input's or another
 * output's. Where the plan updates such an input in place (xc_session_explain() says so) nothing is
 * copied; otherwise the input is copied first, as are inputs that are not row-major, into memory of
 * the session that max_memory_bytes counts. On failure NULL slots stay NULL; given tensors are
 * untouched when the failure was found before execution and unspecified after one during it.
 * Allocates nothing in steady state: repeated shapes and strides, returned tensors released before
 * the next run. Fails with XC_INVALID_ARGUMENT (counts, type, shape; naming the input), XC_RANGE,
 * XC_LIMIT, XC_OUT_OF_MEMORY, XC_CANCELLED, XC_DEADLINE, XC_UNSUPPORTED.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_run(xc_session* session, const xc_run_options* options,
                                             const xc_tensor* const* inputs, uint32_t input_count,
                                             xc_tensor** outputs, uint32_t output_count,
                                             xc_error** out_error);

/* xc_session_run() for inputs that are no tensors of the library: an array of views instead of
 * handles, so that nothing needs to be created. An absent input has dtype 0. Strings and sequences
 * are objects: their views come from xc_tensor_get_view(). Fails like xc_session_run(), with
 * XC_INVALID_ARGUMENT also for a view that is none (type, dims, alignment; naming the input).
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_run_views(xc_session* session,
                                                   const xc_run_options* options,
                                                   const xc_tensor_view* inputs,
                                                   uint32_t input_count, xc_tensor** outputs,
                                                   uint32_t output_count, xc_error** out_error);

/* Binds inputs and outputs for repeated runs of one shape: call.h. Runs once with the elements that
 * are there, so that later runs find everything ready. Inputs that are not row-major are copied in
 * each run; strings must be. The call keeps references to the tensors, whose elements may change
 * between runs. `outputs` may be NULL or hold NULLs: the call then has tensors of its own, see
 * xc_call_output(). The caller destroys the call.
 * Elements that decide sizes or positions (the inputs of Reshape, Slice, Range) may change too; a
 * run with new ones looks its plan up and may allocate. Outputs keep their sizes: a run that gives
 * others fails with XC_INVALID_ARGUMENT.
 * Fails like xc_session_run(), with XC_UNSUPPORTED for a model with a sequence or optional.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_prepare(xc_session* session,
                                                 const xc_tensor* const* inputs,
                                                 uint32_t input_count, xc_tensor* const* outputs,
                                                 uint32_t output_count, xc_call** out_call,
                                                 xc_error** out_error);

/* A switch that stops runs. Threads: set and reset from any thread, also while runs poll it.
 * Ownership: single; it must outlive the runs that it was given to. */

/* Creates a switch, not set. The caller destroys it. Fails with XC_INVALID_ARGUMENT,
 * XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_cancel_create(xc_cancel** out_cancel);
/* Runs that poll this switch end with XC_CANCELLED. NULL is allowed. @since 0.1 @stability stable
 */
XC_API void xc_cancel_set(xc_cancel* cancel);
/* Makes the switch usable again. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_cancel_reset(xc_cancel* cancel);
/* Frees the switch. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_cancel_destroy(xc_cancel* cancel);

/* ---- adaptation ---- */

/* Ends adaptation: current code stays, nothing is compiled any more; but products that skip zeros
 * become the library's again, so that a run's time depends on no values. Blocks at most for the
 * compile, or the packing of some weights, in progress; what is left to pack is packed later, as in
 * mode off. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_freeze(xc_session* session, xc_error** out_error);

/* Waits until nothing is queued or compiling, at most timeout_ms; *out_idle is 1 when it got there,
 * 0 on timeout. While it waits, the session's background work is not held back by the compile
 * budget. A trial may still be open then, for it only advances while the session runs (warm_up runs
 * until none is). For tests and tools. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability stable
 */
XC_API XC_NODISCARD xc_status xc_session_wait_idle(xc_session* session, int64_t timeout_ms,
                                                   int32_t* out_idle, xc_error** out_error);

/* Compiles for given sizes before the session serves: runs the model on zeros of the shapes, one
 * per input in the model's order, until nothing is left to be compiled or measured for them and
 * for the bodies of control flow that they come to, at most timeout_ms, which is looked at between
 * the steps of a run. *out_done is 1 when it got there, 0 on timeout (adaptation then goes on while
 * the session runs); it may be NULL. What is compiled need not pay before, and is decided by trials
 * as ever; where nothing adapts (the JIT off, sync or frozen, fusion off) it runs once. From the
 * zeros nothing is learnt about values. Inputs whose values decide sizes are zero: warm such models
 * up by running them. Blocks; other threads may run the session meanwhile. Fails like
 * xc_session_run(), with XC_UNSUPPORTED for inputs that are no tensors of numbers.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_session_warm_up(xc_session* session, const xc_shape* shapes,
                                                 uint32_t shape_count, int64_t timeout_ms,
                                                 int32_t* out_done, xc_error** out_error);

/* Values of `format`. */
enum { XC_EXPLAIN_TEXT = 0, XC_EXPLAIN_JSON = 1 };

/* The current plan: per step the kernel, those refused and why, fused regions with cost and state.
 * `shapes` gives the dims of each input; shape_count 0 shows the plan without sizes. The caller
 * destroys the blob. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_session_explain(xc_session* session, int32_t format,
                                                 const xc_shape* shapes, uint32_t shape_count,
                                                 xc_blob** out_text, xc_error** out_error);

/* A snapshot of counters, regions and events: profile.h. The caller destroys it.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_profile(xc_session* session, xc_profile** out_profile,
                                                 xc_error** out_error);

struct xc_counters; /* profile.h */
/* The counters alone, now: cheap enough to ask a hundred times a second.
 * Fails with XC_INVALID_ARGUMENT (struct_size). @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_session_counters(xc_session* session,
                                                  struct xc_counters* out_counters,
                                                  xc_error** out_error);

/* What happened so far as JSON in the Chrome trace event format: background work, decisions, the
 * compile queue and, with the setting trace_steps, the steps of sampled runs (of a model whose
 * sizes are known before the run; else those up to the first size that only the run can tell).
 * Times in microseconds since the engine was created. The caller destroys the blob. Fails with
 * XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_session_trace(xc_session* session, xc_blob** out_json,
                                               xc_error** out_error);

/* The session's model, borrowed; NULL for NULL. @since 0.1 @stability stable */
XC_API xc_model* xc_session_model(const xc_session* session);

#ifdef __cplusplus
}
#endif
#endif /* XC_SESSION_H */

/* xc: an inference runtime to embed. This header is the manual; it includes all others but
 * kernel_abi.h, the contract of generated kernels.
 *
 *   xc_engine *engine = NULL;   xc_model *model = NULL;   xc_session *session = NULL;
 *   xc_tensor *x = NULL, *y = NULL;   xc_error *error = NULL;   const int64_t dims[] = {1, 784};
 *   if (xc_engine_create(NULL, &engine, &error) ||
 *       xc_model_load_file(engine, "digits.onnx", &model, &error) ||
 *       xc_session_create(model, NULL, &session, &error) ||
 *       xc_tensor_create(XC_DTYPE_F32, 2, dims, &x, &error)) goto failed;
 *   fill((float *)xc_tensor_data(x));
 *   if (xc_session_run(session, NULL, (const xc_tensor *const *)&x, 1, &y, 1, &error)) goto failed;
 *   use((const float *)xc_tensor_data(y), xc_tensor_dims(y), xc_tensor_rank(y));
 *   xc_tensor_release(y);   ...
 * failed:
 *   fprintf(stderr, "%s\n", xc_error_text(error));
 *
 * CONCEPTS
 * An engine owns threads, settings, host callbacks and the compiler. A model is a graph with its
 * weights, immutable. A session makes one model ready to run; it runs at once on ready-made
 * kernels, watches what is hot, compiles fused kernels in the background, and swaps in what
 * measures faster (xc_config.jit). A call is a run prepared for fixed shapes and memory: the
 * fastest path. A tensor is a typed array. An operator library holds operators of the host. A
 * profile is a snapshot of what a session has learnt. A graph is a model under construction.
 *
 * OWNERSHIP
 * Engines, models, tensors and operator libraries are shared: _create and _load give one reference,
 * _retain adds one, _release drops one. Sessions, calls, graphs, profiles, blobs and errors have
 * one owner: _destroy. Children keep their parents alive, so the order of release does not matter.
 * NULL may be released, destroyed and retained. Everything passed in is borrowed for the call
 * unless a function says otherwise; what comes back through out_... belongs to the caller.
 *
 * THREADS
 * Each header says it for its handle. In short: engine, model, session, tensor (its description),
 * profile, blob and error from any thread at any time; call and graph one thread at a time. Nothing
 * is kept per host thread. With threads = 1 and jit = off the library creates no thread that stays;
 * functions called with less than 256 KiB of stack left may use one while they last.
 *
 * A child made by fork() may use its parent's handles, and sessions then adapt no more, if no other
 * thread of the host was in a function of the library when it was made: what such a thread had
 * locked stays locked in the child.
 *
 * FAILURE
 * Functions that can fail return an xc_status, 0 for success; those with more to say take an
 * xc_error ** (may be NULL). Unless a function says otherwise, outputs are untouched on failure,
 * and every function may fail with XC_INVALID_ARGUMENT (a null handle or pointer, a handle of
 * another kind), XC_OUT_OF_MEMORY and XC_INTERNAL. Nothing is thrown across this interface, nothing
 * aborts, nothing is printed. A destroyed handle is recognised where possible; using one is an
 * error of the caller all the same.
 *
 * STRUCTS
 * Structs that may grow start with struct_size, set from the _INIT macro or the _init function.
 * Zero means default in every field. A library older than the header refuses a struct only when a
 * field that it does not know is set (XC_UNSUPPORTED).
 *
 * UNITS
 * Names end in their unit: _ns, _us, _ms, _s, _bytes. Sizes of arrays are in elements, strides too.
 *
 * STABILITY
 * Functions and structs marked stable keep their meaning, layout and numbers within a major version
 * (before 1.0: within a minor version); experimental ones may change with a line in CHANGELOG.md.
 * Every function exists in every build; what a build lacks returns XC_UNSUPPORTED.
 *
 * TEXT
 * Text goes in as NUL-terminated UTF-8 and comes out as xc_string_view or xc_blob.
 */
#ifndef XC_XC_H
#define XC_XC_H

#include <xc/cache.h>
#include <xc/call.h>
#include <xc/engine.h>
#include <xc/error.h>
#include <xc/graph.h>
#include <xc/model.h>
#include <xc/operator.h>
#include <xc/profile.h>
#include <xc/session.h>
#include <xc/status.h>
#include <xc/tensor.h>
#include <xc/types.h>
#include <xc/version.h>

#endif /* XC_XC_H */

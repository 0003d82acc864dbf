/* Models: an immutable graph with its weights, after the optimiser's portable passes.
 *
 * Threads: any thread at any time. Ownership: shared (retain, release); a model keeps its engine
 * alive. Its sessions share the weights as they lie in the model, not what each packs of them
 * (session.h).
 */
#ifndef XC_MODEL_H
#define XC_MODEL_H

#include <xc/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a model file: ONNX, .xcg or the text form, told apart by content. The file is mapped and
 * must not change while the model lives, unless the engine's config.copy_weights is set. The caller
 * releases the model. Fails with XC_NOT_FOUND, XC_IO, XC_FORMAT, XC_INVALID_MODEL, XC_UNSUPPORTED,
 * XC_LIMIT, XC_OUT_OF_MEMORY. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_model_load_file(xc_engine* engine, const char* path,
                                                 xc_model** out_model, xc_error** out_error);

/* The same from memory; the bytes are copied. @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_model_load_bytes(xc_engine* engine, const void* data,
                                                  uint64_t size, xc_model** out_model,
                                                  xc_error** out_error);

/* Makes a model of a graph, which stays the caller's and may change afterwards. Constants are
 * shared. Fails with XC_INVALID_MODEL, XC_UNSUPPORTED, XC_LIMIT, XC_OUT_OF_MEMORY.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_model_create(xc_engine* engine, const xc_graph* graph,
                                              xc_model** out_model, xc_error** out_error);

/* Adds a reference. NULL is allowed. Returns `model`. @since 0.1 @stability stable */
XC_API xc_model* xc_model_retain(xc_model* model);

/* Drops a reference; sessions keep their model. NULL is allowed. @since 0.1 @stability stable */
XC_API void xc_model_release(xc_model* model);

/* Values of xc_port.kind. */
enum { XC_PORT_TENSOR = 0, XC_PORT_SEQUENCE = 1, XC_PORT_OPTIONAL = 2, XC_PORT_MAP = 3 };

/* An input or output of a model. Text and arrays live as long as the model. */
typedef struct xc_port {
  uint32_t struct_size; /* set by the caller */
  int32_t kind;
  xc_string_view name;
  xc_string_view type;             /* "f32[n, 3072]", "f32[*]" for an unknown rank */
  xc_dtype dtype;                  /* of a tensor; else 0 */
  int32_t rank;                    /* -1 = not known, or no tensor */
  const int64_t* dims;             /* -1 where a dim is symbolic */
  const xc_string_view* dim_texts; /* "3072", "n", "2*n + 1" */
} xc_port;
#define XC_PORT_INIT {sizeof(xc_port), 0, {NULL, 0}, {NULL, 0}, 0, 0, NULL, NULL}

/* Number of inputs, of outputs; 0 for NULL. @since 0.1 @stability stable */
XC_API uint32_t xc_model_input_count(const xc_model* model);
XC_API uint32_t xc_model_output_count(const xc_model* model);

/* Describes input or output `index`. Fail with XC_INVALID_ARGUMENT (index, struct_size).
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_model_input(const xc_model* model, uint32_t index,
                                             xc_port* out_port);
XC_API XC_NODISCARD xc_status xc_model_output(const xc_model* model, uint32_t index,
                                              xc_port* out_port);

/* The index of the input or output of that name. Fail with XC_NOT_FOUND, the message lists the
 * names.
 * @since 0.1 @stability stable */
XC_API XC_NODISCARD xc_status xc_model_find_input(const xc_model* model, const char* name,
                                                  uint32_t* out_index, xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_model_find_output(const xc_model* model, const char* name,
                                                   uint32_t* out_index, xc_error** out_error);

/* A copy of the optimised graph, to print or to save; constants are shared. The caller destroys it.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_model_graph(const xc_model* model, xc_graph** out_graph,
                                             xc_error** out_error);

#ifdef __cplusplus
}
#endif
#endif /* XC_MODEL_H */

/* Graphs: models under construction. Build one from nothing, read one from a file, look at it,
 * change it by passes, write it, or make a model of it (model.h).
 *
 * Operators have the names and attributes of the newest ONNX operator set that the library
 * implements; types are inferred when a model is made. Values and nodes are small numbers. Threads:
 * one at a time. Ownership: single.
 */
#ifndef XC_GRAPH_H
#define XC_GRAPH_H

#include <xc/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t xc_value; /* an edge of one graph */
typedef uint32_t xc_node;  /* a node of one graph */
/* An optional input that is absent; an optional output that is not wanted. */
#define XC_VALUE_NONE UINT32_MAX

/* ---- making, reading, writing ---- */

/* Creates an empty graph; the caller destroys it. `name` may be NULL.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_create(const char* name, xc_graph** out_graph,
                                              xc_error** out_error);

/* Gives the graph operators of the host beside the standard ones. A model of the graph needs an
 * engine with the same library. Fails with XC_INVALID_ARGUMENT when the graph has another one.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_set_operators(xc_graph* graph, xc_op_library* operators,
                                                     xc_error** out_error);

/* Reads a model file without optimising it: ONNX, .xcg or the text form, told apart by content. The
 * file is mapped and must not change while the graph, or a model made of it, lives; copy_weights !=
 * 0 reads it instead. `operators`: those of the host that the model may use; NULL = none. The
 * caller destroys the graph. Fails with XC_IO, XC_NOT_FOUND, XC_FORMAT, XC_INVALID_MODEL,
 * XC_UNSUPPORTED, XC_LIMIT.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_load_file(const char* path, int32_t copy_weights,
                                                 xc_op_library* operators, xc_graph** out_graph,
                                                 xc_error** out_error);

/* The same from memory; the bytes are copied. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_load_bytes(const void* data, uint64_t size,
                                                  xc_op_library* operators, xc_graph** out_graph,
                                                  xc_error** out_error);

/* Writes the graph; the ending of `path` chooses the format: .onnx, .xcg or .xct (the text form).
 * The file is written completely or not at all. Fails with XC_IO, XC_INVALID_ARGUMENT (another
 * ending), XC_UNSUPPORTED. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_save_file(const xc_graph* graph, const char* path,
                                                 xc_error** out_error);

/* The text form. Constants of more than `max_elements` elements are shown by a hash and cannot be
 * read back (0 = 16; negative = no limit). The caller destroys the blob.
 * Fails with XC_INVALID_ARGUMENT, XC_OUT_OF_MEMORY. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_text(const xc_graph* graph, int64_t max_elements,
                                            xc_blob** out_text, xc_error** out_error);

/* Runs optimiser passes in the given order: "fold-constants,remove-dead"; "all" is the standard
 * list. The graph is unchanged on failure. Fails with XC_NOT_FOUND (no such pass; the message lists
 * them), XC_INVALID_MODEL. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_run_passes(xc_graph* graph, const char* passes,
                                                  xc_error** out_error);

/* Frees the graph. NULL is allowed. @since 0.1 @stability experimental */
XC_API void xc_graph_destroy(xc_graph* graph);

/* ---- building ---- */

/* Adds an input. `dims` is text: "n, 3, 2*h", "" for a scalar, NULL for an unknown rank; names in
 * it are symbolic sizes, equal names are equal sizes. Names of values are unique in a graph. Fails
 * with XC_INVALID_ARGUMENT (name taken, dtype), XC_FORMAT (dims).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_add_input(xc_graph* graph, const char* name, xc_dtype dtype,
                                                 const char* dims, xc_value* out_value,
                                                 xc_error** out_error);

/* Adds a constant. The graph keeps a reference to the tensor, whose elements must not change any
 * more; of a result of a run it keeps a copy. `name` may be NULL. Fails with XC_INVALID_ARGUMENT.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_add_constant(xc_graph* graph, const char* name,
                                                    const xc_tensor* tensor, xc_value* out_value,
                                                    xc_error** out_error);

/* Adds a node and its output values. `domain` is "" for ai.onnx; `name` may be NULL; out_values
 * receives output_count values. Attributes are set afterwards and checked when a model is made.
 * Fails with XC_UNSUPPORTED (no such operator), XC_INVALID_ARGUMENT (unknown value).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_add_node(xc_graph* graph, const char* op, const char* domain,
                                                const char* name, const xc_value* inputs,
                                                uint32_t input_count, xc_value* out_values,
                                                uint32_t output_count, xc_node* out_node,
                                                xc_error** out_error);

/* Set an attribute of a node, replacing one of the same name. Everything is copied, but a tensor,
 * of which a reference is kept. Fail with XC_INVALID_ARGUMENT. @since 0.1 @stability experimental
 */
XC_API XC_NODISCARD xc_status xc_graph_set_int(xc_graph* graph, xc_node node, const char* name,
                                               int64_t value, xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_float(xc_graph* graph, xc_node node, const char* name,
                                                 double value, xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_string(xc_graph* graph, xc_node node, const char* name,
                                                  const char* value, xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_ints(xc_graph* graph, xc_node node, const char* name,
                                                const int64_t* values, uint64_t count,
                                                xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_floats(xc_graph* graph, xc_node node, const char* name,
                                                  const double* values, uint64_t count,
                                                  xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_strings(xc_graph* graph, xc_node node, const char* name,
                                                   const char* const* values, uint64_t count,
                                                   xc_error** out_error);
XC_API XC_NODISCARD xc_status xc_graph_set_tensor(xc_graph* graph, xc_node node, const char* name,
                                                  const xc_tensor* tensor, xc_error** out_error);

/* Appends a copy of `body` as the next subgraph of a node (If: then, else; Loop and Scan: the
 * body). A body sees only its own inputs: what it takes from outside comes last among the node's
 * inputs and, in the same order, last among the inputs of every body; capture_count says how many
 * those are. Fails with XC_INVALID_ARGUMENT. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_add_body(xc_graph* graph, xc_node node, const xc_graph* body,
                                                uint32_t capture_count, xc_error** out_error);

/* Makes a value the next output of the graph. `name` renames it; NULL keeps its name. A value that
 * is an output already keeps the name it has there: another one names an Identity of it.
 * Fails with XC_INVALID_ARGUMENT (unknown value, name taken, input renamed).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_graph_add_output(xc_graph* graph, xc_value value, const char* name,
                                                  xc_error** out_error);

/* ---- the loop IR, for compiler work (`xc opt`) ---- */

/* Parses the text of a kernel, applies schedule steps separated by ';' ("split i 64; vectorize j
 * 16; default"), and gives the text of the result. The caller destroys the blob. Fails with
 * XC_FORMAT (with line and column), XC_INVALID_ARGUMENT (a step that is not legal here).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_loop_schedule(const char* text, uint64_t size, const char* steps,
                                               xc_blob** out_text, xc_error** out_error);

#ifdef __cplusplus
}
#endif
#endif /* XC_GRAPH_H */

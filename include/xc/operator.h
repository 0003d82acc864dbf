/* Operators of the host: what a model may use beside the operators of the standard.
 *
 * A library of operators is made once, filled, and given to engines (xc_engine_options.operators)
 * and graphs. An operator is declared by one line of text, its signature, and either a function
 * carries it out, or rewrite rules put standard operators in its place (which then optimise and
 * fuse like any others), or both: the function then runs where no rule applies.
 *
 * Signatures
 *   [pure] domain::Name(inputs) [{attributes}] -> outputs [where T: f32|f64, ...]
 *
 *   acme::Scale(x: T[..., n], bias?: T[n]) {alpha: float = 1} -> y: T[..., n] where T: f32|f64
 *   acme::Unique(x: i64[n]) -> values: i64[?], counts: i64[?]
 *   pure acme::Repeat(x: f32[n, m], rest*: f32[?, m]) {times: int} -> y: f32[times*n, m]
 *
 *   An input or output is `name: type[dims]`; `name?` is optional, `name*` (the last input) stands
 *   for any number. A type is an element type as xc_dtype_name() writes it, several ("i32|i64"), or
 *   a variable, a word with a capital letter, that is the same type wherever it stands. A dim is a
 *   number, a name, an expression ("2*n + 1", floordiv(h, 2), ceildiv, mod, min, max), or `?`: not
 *   said (input), found by the function (output). `...` in front stands for the same dims wherever
 *   it stands; `[*]`, or no brackets, for any dims; `[]` for a scalar. A name stands alone as a dim
 *   of some input, or is an int attribute. An attribute is `name: kind`, `name: kind = default` or
 *   `name?: kind`; kinds are int, float, string, ints, floats, strings, tensor (no default).
 *   A domain that is no plain word is quoted: "my-company.com"::Op.
 *   `pure`: equal inputs give equal outputs and nothing else happens. Only then may the optimiser
 *   compute a node of constants when a model is loaded, and merge equal nodes. A node whose outputs
 *   nobody needs is not executed either way.
 *
 * Types and dims are checked when a model is loaded, as far as they are known, and again for the
 * sizes of a run; a mismatch names node, operator and input. A model finds its operators by domain
 * and name; ONNX models must import the domain (any version). A model's own function of that name
 * goes first. Domains of the standard and "xc" are not the host's.
 *
 * Threads: a library is filled by one thread at a time; once an engine or graph has it, it does not
 * change any more, and any thread may use it. Functions are called by whatever thread runs the
 * model, several at once when several threads do, and must not throw. Ownership: shared (retain,
 * release); engines, graphs and models keep the library alive.
 */
#ifndef XC_OPERATOR_H
#define XC_OPERATOR_H

#include <xc/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xc_op_library xc_op_library; /* a set of operators */
typedef struct xc_op_call xc_op_call;       /* one execution, valid during the function's call */

/* What carries an operator out. `compute` returns XC_OK, or a status that makes the run fail: that
 * of a failed xc_op_call_ function, whose message becomes the run's, or of xc_op_call_fail(). */
typedef struct xc_op_function {
  xc_status (*compute)(void* user_data, xc_op_call* call);
  void* user_data;
  xc_destroy_fn destroy; /* may be NULL */
} xc_op_function;

/* ---- libraries ---- */

/* Creates an empty library; the caller releases it. Fails with XC_OUT_OF_MEMORY.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_library_create(xc_op_library** out_library,
                                                   xc_error** out_error);

/* Declares an operator. `function` may be NULL for one that rules alone give a meaning. On success
 * the library owns the function's user data and calls `destroy` once, when the last engine, graph,
 * model and handle that has the library is gone; on failure it does not. Fails with XC_FORMAT (the
 * message says what is wrong with the signature, `where` the column), XC_INVALID_ARGUMENT (declared
 * twice, no `compute`), XC_BUSY (an engine or graph has the library already).
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_library_add(xc_op_library* library, const char* signature,
                                                const xc_op_function* function,
                                                xc_error** out_error);

/* Adds rewrite rules, "rule NAME: PATTERN => REPLACEMENT [where CONDITION, ...]"; their language is
 * in src/passes/README.md of the source. Operators of the library must be declared before. An
 * attribute that a pattern binds may stand in the replacement as a number: "acme::Swish(?x) {beta =
 * ?b} => Mul(?x, Sigmoid(Mul(?x, ?b)))"; a default counts as given. Rules also may rewrite standard
 * operators, into the library's among others; a built-in rule of the same name is hidden. Fails
 * with XC_FORMAT (where = line and column; an operator that does not exist), XC_BUSY. @since 0.1
 * @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_library_add_rules(xc_op_library* library, const char* rules,
                                                      xc_error** out_error);

/* Adds a reference. NULL is allowed. Returns `library`. @since 0.1 @stability experimental */
XC_API xc_op_library* xc_op_library_retain(xc_op_library* library);

/* Drops a reference. NULL is allowed. @since 0.1 @stability experimental */
XC_API void xc_op_library_release(xc_op_library* library);

/* ---- inside a function ----
 *
 * `call` is used by the thread that runs the function, and not after it has returned. Views and
 * texts live as long. A status other than XC_OK comes with a message that is kept in the call: a
 * function that returns the status fails the run with it. All fail with XC_INVALID_ARGUMENT for a
 * NULL or a number out of range. */

/* The node's name in the model; "" for NULL. @since 0.1 @stability experimental */
XC_API const char* xc_op_call_node(const xc_op_call* call);

/* Number of inputs and outputs of the node; 0 for NULL. Fewer than the signature has where optional
 * ones are left out at the end. @since 0.1 @stability experimental */
XC_API uint32_t xc_op_call_input_count(const xc_op_call* call);
XC_API uint32_t xc_op_call_output_count(const xc_op_call* call);

/* Input `index`, row-major; to be read only. dtype 0 = absent.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_input(xc_op_call* call, uint32_t index,
                                               xc_tensor_view* out_view);

/* Element `element` of an input of strings. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_input_string(xc_op_call* call, uint32_t index,
                                                      uint64_t element, xc_string_view* out_value);

/* 1 when the node wants output `index`, else 0. @since 0.1 @stability experimental */
XC_API int32_t xc_op_call_wants(const xc_op_call* call, uint32_t index);

/* The memory of output `index`, row-major, to be filled completely; its sizes follow from the
 * inputs. Every wanted output must be asked for here or with xc_op_call_allocate(). Fails with
 * XC_INVALID_ARGUMENT for an output that is not wanted and for one with sizes that the function
 * finds. @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_output(xc_op_call* call, uint32_t index,
                                                xc_tensor_view* out_view);

/* The same with the dims given: for outputs with `?` or `[*]`, and as a check for others. Asked for
 * again, with the same dims, it gives the same memory; with others, which only `?` allows, new
 * memory in place of the old. Fails with XC_INVALID_ARGUMENT when they disagree with the signature,
 * XC_OUT_OF_MEMORY, XC_LIMIT.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_allocate(xc_op_call* call, uint32_t index, uint32_t rank,
                                                  const int64_t* dims, xc_tensor_view* out_view);

/* Sets all elements of an output of strings, which was asked for before; the text is copied.
 * @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_set_strings(xc_op_call* call, uint32_t index,
                                                     const xc_string_view* values, uint64_t count);

/* An attribute, or its default. xc_op_call_strings() also reads a tensor of strings, row-major.
 * Fail with XC_NOT_FOUND (not declared; optional, and not there) and XC_INVALID_ARGUMENT (of
 * another kind). @since 0.1 @stability experimental */
XC_API XC_NODISCARD xc_status xc_op_call_int(xc_op_call* call, const char* name,
                                             int64_t* out_value);
XC_API XC_NODISCARD xc_status xc_op_call_float(xc_op_call* call, const char* name,
                                               double* out_value);
XC_API XC_NODISCARD xc_status xc_op_call_string(xc_op_call* call, const char* name,
                                                xc_string_view* out_value);
XC_API XC_NODISCARD xc_status xc_op_call_ints(xc_op_call* call, const char* name,
                                              const int64_t** out_values, uint64_t* out_count);
XC_API XC_NODISCARD xc_status xc_op_call_floats(xc_op_call* call, const char* name,
                                                const double** out_values, uint64_t* out_count);
XC_API XC_NODISCARD xc_status xc_op_call_strings(xc_op_call* call, const char* name,
                                                 uint64_t element, xc_string_view* out_value,
                                                 uint64_t* out_count);
XC_API XC_NODISCARD xc_status xc_op_call_tensor(xc_op_call* call, const char* name,
                                                xc_tensor_view* out_view);
/* 1 when the node has the attribute or it has a default, else 0.
 * @since 0.1 @stability experimental */
XC_API int32_t xc_op_call_has(const xc_op_call* call, const char* name);

/* Kinds of attributes. */
enum {
  XC_ATTRIBUTE_INT = 0,
  XC_ATTRIBUTE_FLOAT = 1,
  XC_ATTRIBUTE_STRING = 2,
  XC_ATTRIBUTE_INTS = 3,
  XC_ATTRIBUTE_FLOATS = 4,
  XC_ATTRIBUTE_STRINGS = 5,
  XC_ATTRIBUTE_TENSOR = 6
};

/* The attributes that the signature declares: their number (0 for NULL), names and kinds, for
 * functions that stand for many operators. The name lives as long as the library.
 * @since 0.1 @stability experimental */
XC_API uint32_t xc_op_call_attribute_count(const xc_op_call* call);
XC_API XC_NODISCARD xc_status xc_op_call_attribute(xc_op_call* call, uint32_t index,
                                                   const char** out_name, int32_t* out_kind);

/* Keeps a message for the run's error and returns `status`, to be returned by the function; XC_OK
 * and numbers that are no status become XC_INVALID_ARGUMENT. @since 0.1 @stability experimental */
XC_API xc_status xc_op_call_fail(xc_op_call* call, xc_status status, const char* message);

#ifdef __cplusplus
}
#endif
#endif /* XC_OPERATOR_H */

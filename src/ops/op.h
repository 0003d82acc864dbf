#pragma once
// The operator table: what an operator means, as plain data made in the operator's own file.
//
// Every op has ONE internal meaning: that of the newest ONNX opset (28) unless its file says
// otherwise; front ends normalise older versions to it (axes as inputs, not attributes, and so on).
// Inputs that choose shapes (axes, shape, pads, ...) stay inputs; inference reads their values.
//
// Facets: schema (arity, attributes), infer, reference, and how it fuses: as a scalar function, a
// reduction, a view, or by expanding into simpler ops. Implementations are not here (backends/).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/patch.h"
#include "loop/kernel.h"

namespace xc {

// ---- schema -------------------------------------------------------------------------------------

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = false;
  /// For ints: the legal range, checked by check_node(). For strings: the legal values,
  /// '|'-separated.
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
  std::string_view choices = {};
  /// Value of a missing attribute, for ints, floats and (as an index into `choices`) strings.
  double otherwise = 0;
};

/// Of MatMul, Gemm, Conv and elementwise operators: halves (a number of TensorProto.DataType). With
/// it a product of f32 operands may round both to those, for the model holds both so, or numerics
/// allow it; and operand 0 of a product, any of an elementwise operator, may be of that type where
/// the others are f32: it is widened as it is read, and the result is f32. Passes set it
/// (widen_halves.cpp, narrow_values.cpp, Expansion::product()), no front end does.
inline const AttrSpec kHeldIn{"held_in", AttrKind::kInt, false, 1, INT8_MAX};

/// How close two implementations must be: tests and verification have a bound for each.
enum class Tolerance : uint8_t {
  kExact,        ///< moves and integers: equal bits
  kElementwise,  ///< a few ULP per element
  kReduction,    ///< relative to the sum of magnitudes
  kContraction,  ///< matmul, convolution, recurrent
};

// ---- inference ----------------------------------------------------------------------------------

/// What inference sees and fills. The same function serves symbolic inference at load, and concrete
/// inference at run time, when `value` holds every input's actual tensor.
class InferContext {
 public:
  struct Input {
    const Type* type = nullptr;     ///< null = absent
    const Tensor* value = nullptr;  ///< a constant, or the run-time value; null = not known
    const std::vector<Dim>* elements = nullptr;  ///< symbolic elements, null = not known
  };
  const Node* node = nullptr;
  std::vector<Input> inputs;
  std::vector<Type> outputs;  ///< sized to the node's outputs by the driver
  std::vector<std::optional<std::vector<Dim>>> output_elements;
  /// A new non-negative symbol for a size only the run can tell.
  std::function<Dim(const std::string& hint)> fresh;
  /// Infers subgraph k for given input types; returns the types of its outputs.
  std::function<std::vector<Type>(size_t k, const std::vector<Type>& inputs)> infer_subgraph;

  const Attrs& attrs() const { return node->attrs; }
  size_t input_count() const { return inputs.size(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i].type; }
  const Type& type(size_t i) const;  ///< fails when absent
  DType dtype(size_t i) const { return type(i).dtype; }
  /// Dims of input i; throws UnknownRank (support.h) when its rank is not known.
  const SymDims& dims(size_t i) const;
  bool rank_known(size_t i) const { return type(i).dims.has_value(); }
  size_t rank(size_t i) const { return dims(i).size(); }
  /// Elements of an integer input as (symbolic) numbers; nullopt when not known or absent.
  std::optional<std::vector<Dim>> elements(size_t i) const;
  /// As above when all are constants.
  std::optional<std::vector<int64_t>> ints(size_t i) const;
  /// Dims whose expressions are too long to compute with become symbols that a run finds.
  void set(size_t output, DType dtype, SymDims dims);
  void set_elements(size_t output, std::vector<Dim> elements);
  /// Fails with kInvalidModel, told at the node.
  template <class... A>
  [[noreturn]] void error(fmt::format_string<A...> f, A&&... a) const {
    throw Error(Status::kInvalidModel, fmt::format(f, std::forward<A>(a)...));
  }
};
using InferFn = void (*)(InferContext&);

// ---- reference ----------------------------------------------------------------------------------

/// The obvious, strided, slow implementation: the meaning others are compared with.
struct ReferenceContext {
  const Node* node = nullptr;
  std::vector<TensorView> inputs;   ///< false where absent; any strides
  std::vector<TensorView> outputs;  ///< of the inferred dims; any strides; false where not wanted
  const Attrs& attrs() const { return node->attrs; }
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
};
using ReferenceFn = void (*)(const ReferenceContext&);
/// Would the reference walk huge axes of operands that are empty for another axis, for results
/// without elements? It is not asked then. Small ones it is: it refuses values that do not fit.
bool walks_for_nothing(const ReferenceContext& context);

/// Ops on sequences and optionals make their outputs themselves. A sequence is a 1-D tensor of
/// tensors; an optional is its value, or undefined where it has none. Inputs own their memory and
/// may be shared with the outputs.
using EvaluateFn = std::vector<Tensor> (*)(const Node& node, const std::vector<Tensor>& inputs);

/// Ops whose output sizes come out of the work itself make their outputs in one go, which the
/// reference, handed outputs of the right dims, would do once more after inference. Inference has
/// checked types and dims. Outputs that are not wanted stay undefined.
using MakeFn = std::vector<Tensor> (*)(const Node& node, const std::vector<Tensor>& inputs);

// ---- fusion -------------------------------------------------------------------------------------

/// Elementwise ops: the scalar function as loop IR. `args` are the inputs' elements after
/// broadcasting (numpy rules), absent ones default-constructed; `node` gives attributes; the result
/// has the dtype `result` (its value type: f32 for f16). An absent Expr = no form for these dtypes.
using ScalarFn = loop::Expr (*)(const Node& node, std::span<const loop::Expr> args, DType result);

/// Reductions over axes: result = post(fold(op, pre(x)), count).
struct ReductionSpec {
  loop::AccOp op;
  loop::Expr (*pre)(const loop::Expr& x) = nullptr;  ///< null = identity
  loop::Expr (*post)(const loop::Expr& folded, const loop::Expr& count) = nullptr;
};

/// Views: the output is the input's memory under other dims and strides.
struct ViewContext {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  SymDims dims, strides;  ///< of input 0, strides in elements
  struct Out {
    SymDims dims, strides;
    Dim offset;  ///< elements from the input's first element
  };
  std::vector<Out> outputs;  ///< sized and with dims set by the caller (inferred)
};
/// False when this node is no view for these strides (reshape across a gap) or values not known.
using ViewFn = bool (*)(ViewContext&);

/// Where an output lies in input 0: dims, strides and first element, all in elements of it.
struct ConcreteView {
  Dims dims, strides;
  int64_t offset = 0;
};
/// Ops whose outputs are parts of input 0, or it under other dims, say where on tensors that are
/// there: a run that finds out sizes infers nothing. It checks what inference checks but for types,
/// with the same errors. None where that, or the strides, take inference and a kernel.
using ConcreteViewsFn = std::vector<ConcreteView> (*)(const Node& node,
                                                      std::span<const TensorView> inputs);
inline constexpr int64_t kMostConcreteAxes = 64;  ///< of such a view; inference refuses more

/// Rewrites the node into simpler ops through the patch; returns the values that replace its
/// outputs, or an empty list when it cannot (unknown rank, unsupported attribute).
using ExpandFn = std::vector<ValueId> (*)(const Graph& graph, const Node& node, Patch& patch);

// ---- cost ---------------------------------------------------------------------------------------

/// Floating-point operations of one execution, as a size expression over the graph's symbols.
using FlopsFn = Dim (*)(const Graph& graph, const Node& node);

// ---- the row ------------------------------------------------------------------------------------

struct OpDef {
  std::string_view name;  ///< with its domain where names are shared (README.md); see op_name()
  std::string_view domain = "";  ///< "" = ai.onnx, "ai.onnx.ml", "com.microsoft", "xc" for our own
  int min_inputs = 1;
  int max_inputs = 1;  ///< -1 = any number
  int min_outputs = 1;
  int max_outputs = 1;  ///< -1 = any number
  std::vector<AttrSpec> attrs = {};

  InferFn infer = nullptr;
  /// Null only for control flow, which the runtime executes, and for ops on containers alone.
  ReferenceFn reference = nullptr;
  EvaluateFn evaluate = nullptr;  ///< of ops that take or give sequences or optionals
  MakeFn make = nullptr;          ///< of ops whose sizes come out of the work

  ScalarFn scalar = nullptr;
  std::optional<ReductionSpec> reduction = {};
  ViewFn view = nullptr;
  ConcreteViewsFn concrete_views = nullptr;  ///< of views whose sizes are values of their inputs
  ExpandFn expand = nullptr;

  FlopsFn flops = nullptr;  ///< null: `weight` per output element
  double weight = 1;        ///< relative cost of one element of a scalar function, add = 1
  Tolerance tolerance = Tolerance::kExact;
  bool commutative = false;   ///< of its first two inputs
  bool control_flow = false;  ///< has subgraphs
  bool random = false;        ///< must not be folded or merged
  int subgraphs = 0;
};

/// Checks arity, attribute names, kinds and ranges of a node against its OpDef; fails with
/// kInvalidModel naming the attribute. Unknown attributes are refused, never ignored.
void check_node(const Node& node);

}  // namespace xc

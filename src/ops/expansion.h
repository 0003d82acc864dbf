#pragma once
// Builder for OpDef::expand: short names for the nodes and constants an expansion adds.

#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace xc {

class Expansion {
 public:
  Expansion(const Graph& graph, const Node& node, Patch& patch)
      : graph_(graph), node_(node), patch_(patch) {}

  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != kNone; }
  ValueId in(size_t i) const { return node_.inputs[i]; }
  /// Input i, or kNone.
  ValueId optional(size_t i) const { return has(i) ? in(i) : ValueId{kNone}; }
  const Type& type(size_t i) const { return graph_.value(in(i)).type; }
  DType dtype(size_t i) const { return type(i).dtype; }
  /// Rank of input i; nullopt when not known.
  std::optional<int64_t> rank(size_t i) const;

  using AttrList = std::vector<std::pair<std::string, Attr>>;
  /// A node with one output.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, const AttrList& attrs = {});
  /// A node with as many outputs.
  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, uint32_t outputs,
                           const AttrList& attrs);
  /// MatMul of values of the working type, which are of input 0's type in the model (kHeldIn).
  ValueId product(ValueId left, ValueId right);
  /// A reduction that keeps its axes at size 1.
  ValueId reduce(std::string_view op, ValueId data, std::vector<int64_t> axes);
  /// A rank-0 constant of the working type.
  ValueId scalar(double value);
  ValueId scalar(double value, DType type);
  ValueId constant(Tensor tensor);
  /// An integer constant of rank 0; of rank 1.
  ValueId integer(int64_t value);
  ValueId ints(std::vector<int64_t> values);
  /// The size of one axis of a value: an i64 of rank 1.
  ValueId size(ValueId value, int64_t axis);
  /// 0, 1, ... up to a size that is an i64 of rank 1.
  ValueId count_up(ValueId size);
  ValueId transposed(ValueId value, std::vector<int64_t> perm);
  /// Indices of Gather into axis 0 of `data`, which counts negative ones from the end: these become
  /// one past the end, so that it refuses them.
  ValueId not_from_end(ValueId indices, DType type, ValueId data);
  /// The same numbers as i64, refused where one is not in [0, size); `size`: an i64 of rank 1.
  ValueId below(ValueId numbers, DType type, ValueId size);

  /// The type to compute in: f32 for f16 and bf16, else the type of input 0.
  DType working() const;
  /// Input i in the working type.
  ValueId widened(size_t i) { return cast(in(i), dtype(i), working()); }
  /// A value of the working type in the type of input i.
  ValueId narrowed(ValueId value, size_t i = 0) { return cast(value, working(), dtype(i)); }
  ValueId cast(ValueId value, DType from, DType to);
  /// Does the graph's run have a constant for input i, and which?
  const Tensor& constant_input(size_t i) const { return graph_.value(in(i)).constant; }

 private:
  const Graph& graph_;
  const Node& node_;
  Patch& patch_;
};

/// OpDef::reference of operators that are what they expand to: expands the node for the actual
/// inputs and runs the references of what comes out. Fails with kUnsupported where it does not
/// expand.
void reference_by_expansion(const ReferenceContext& ctx);

}  // namespace xc

#pragma once
// In which order the elements of a graph's values lie: row-major, or channels-last where the
// kernels around a value run fastest so (Implementation::preferred).
//
// Decided value by value while the base plan is made, in execution order: a convolution asks for
// channels-last, what works in any order follows its inputs (where they disagree, the majority, or
// a convolution behind), everything else is row-major, and so is what no kernel behind it would
// read channels-last. Later plans of the graph find the decision made: a value lies alike in all of
// them.

#include <span>
#include <unordered_map>

#include "backends/backend.h"
#include "backends/step.h"
#include "ir/graph.h"

namespace xc {

/// Dense, with the channels innermost in a way that differs from row-major.
bool is_channels_last(const SymDims& dims, const SymDims& strides);

class Layout {
 public:
  Layout(const Graph& graph, const Backend& backend);

  /// Decides for the values a step gives, if that was not done before. `spec` is the step with
  /// row-major outputs, `row` the implementation chosen for it. Outputs the implementation cannot
  /// write channels-last stay row-major.
  void decide(const StepSpec& spec, const Implementation& row, std::span<const ValueId> outputs);

  /// Values that a step keeps inside lie like its result wherever they become values of their own
  /// (a later plan splits the step): what reads them was asked about that order.
  void follow(ValueId inner, ValueId result);

  /// The strides a value gets that owns its memory; row-major as long as nothing was decided.
  SymDims strides(ValueId value, const SymDims& dims) const;

 private:
  bool wants_channels_last(const StepSpec& spec, const Implementation& row, size_t output,
                           ValueId value) const;
  /// The first implementation of a node's operator that says in which orders it works; null: none.
  const Implementation* with_order(const Node& node) const;
  /// Some step behind the value, at most so many elementwise ones away, wants it channels-last.
  bool asked_channels_last(ValueId value, int reach) const;
  /// Some step behind the value runs as fast or faster when it lies channels-last.
  bool read_channels_last(ValueId value) const;

  const Graph& graph_;
  const Backend& backend_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_map<ValueId, Order> decided_;
};

}  // namespace xc

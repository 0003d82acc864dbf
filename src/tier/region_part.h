#pragma once
// A part of a region's results for the reference kernels, which take a hundred times as long as
// fused code: runs of positions along an axis whose results do not depend on each other.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// Of a region whose sizes are all known: the first, the last and some of the positions between,
/// neighbours side by side, so that all places in a tile and both edges are among them.
class RegionPart {
 public:
  /// Of a graph whose largest result has `elements`, one of about `most`; none where no axis of the
  /// outputs goes through all operators by itself, or where little would be left out.
  static std::optional<RegionPart> of(const Graph& graph, int64_t elements, int64_t most);

  /// What its operators make of the part: the region's, constants and sizes cut.
  const Graph& graph() const { return graph_; }
  /// Of operands in the order of the graph's inputs.
  std::vector<Tensor> of_inputs(std::span<const Tensor> inputs) const;
  /// Of results in the order of its outputs.
  std::vector<Tensor> of_outputs(std::span<const Tensor> outputs) const;

 private:
  Tensor cut(const Tensor& t, size_t axis) const;

  Graph graph_;
  std::vector<size_t> axis_;  ///< per value, counted from the last, from one on; 0: it is whole
  int64_t each_ = 0;          ///< positions of a run
  std::array<int64_t, 3> firsts_{};  ///< of the runs
};

}  // namespace xc

#pragma once
// A cell, row or aggregate region as its lowering sees it, before a loop is written: in which pass
// over a row each value of its graph can be computed, which values are kept for later passes, and
// the loops that the operands allow. Nothing here knows of a target.

#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/fusion/iteration.h"
#include "plan/fusion/mapped_reads.h"

namespace xc::fusion {

/// What a value is to the passes over a row. A cell and an aggregate have one.
struct StagedValue {
  bool full = false;  ///< of the whole space; else one for each row
  int stage = 0;  ///< full: the first pass that can compute it; else that behind which it is known
  double weight = 0;  ///< full: of computing it from loads and what is known of the row
  bool kept = false;  ///< in scratch, for later passes
};

class LoopRegion {
 public:
  /// `graph`: the region's own. `region` and `spec` must outlive this.
  LoopRegion(const Region& region, const StepSpec& spec, RegionGraph graph);
  LoopRegion(const LoopRegion&) = delete;
  LoopRegion& operator=(const LoopRegion&) = delete;

  /// Expands composites and finds all of the below; the reason when a node has no form or the space
  /// cannot be walked.
  Verdict analyse();

  const Region& region() const { return region_; }
  const StepSpec& spec() const { return spec_; }
  const Graph& graph() const { return g_.graph; }
  const Node& producer(ValueId v) const { return graph().node(graph().value(v).producer); }
  const MappedReads& mapped() const { return mapped_; }
  const Iteration& iteration() const { return iteration_; }

  /// Null: an operand, a constant, or an index map's result that is read where it is used.
  const StagedValue* find(ValueId v) const;
  /// Passes over a row.
  int stages() const;
  bool keeps_values() const;
  /// Operations per element, those of all nodes.
  double weight() const;
  /// Those of the pass that has most of them.
  double heaviest_pass() const;

  /// The input that a value is.
  std::optional<uint32_t> input_of(ValueId v) const;
  /// The operands that are outputs and show a value.
  std::vector<uint32_t> outputs_of(ValueId v) const;

  /// The type that a reduction is accumulated in.
  DType acc_type(NodeId reduction) const;
  /// What a reduction of `elements` gives from what was accumulated, rounded as its step does.
  loop::Expr result_of(NodeId reduction, loop::Expr accumulated, const loop::Expr& elements) const;

 private:
  Verdict find_stages();
  Verdict stage_of(const Node& node, StagedValue& out) const;
  void find_reduced();
  void weigh();
  void choose_kept();
  bool lies_across(ValueId v) const;
  bool per_row(const SymDims& dims) const;

  const Region& region_;
  const StepSpec& spec_;
  RegionGraph g_;
  std::unordered_map<ValueId, uint32_t> input_of_;
  MappedReads mapped_;
  std::unordered_map<ValueId, StagedValue> staged_;
  std::vector<bool> reduced_;  ///< per output: its reduction dropped the row axes
  Iteration iteration_;
};

}  // namespace xc::fusion

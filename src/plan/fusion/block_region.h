#pragma once
// A region of the row-block template as its lowering sees it, before a loop is written: what every
// value and node of its graph is among rows, which values are worth keeping, and its sums over the
// rows. Nothing here knows of loops or of a target.

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/op.h"
#include "plan/fusion/blocks.h"

namespace xc::fusion {

/// Values a walk has met: judged there, for a value may be met once for each path to it.
using SeenValues = std::unordered_set<ValueId>;

/// A column product or sum: [narrow] x [wide], the narrow side in scratch.
struct BlockColumn {
  NodeId node = kNone;
  ValueId narrow = kNone;
  ValueId wide = kNone;      ///< an operand; kNone: a sum
  DType type = DType::kF32;  ///< of the sums
  int64_t narrow_width = 1, wide_width = 1;
  bool narrow_first = true;  ///< the result is [narrow, wide], else [wide, narrow]
  /// The sums of a task are [narrow, wide] in rows of whole vectors.
  int64_t row() const { return align_up(wide_width, loop::kReductionLanes); }
  int64_t elements() const { return narrow_width * row(); }
};

class BlockRegion {
 public:
  /// `graph`: the region's own, prepared (block_graph.h). `spec` must outlive this.
  BlockRegion(const Region& region, const StepSpec& spec, RegionGraph graph);

  /// Weighs the values and finds the columns; the reason when a node has no form. Weights and
  /// columns are there afterwards.
  Verdict analyse();

  const Graph& graph() const { return g_.graph; }
  const StepSpec& spec() const { return spec_; }
  const RowSpace& space() const { return space_; }

  // ---- values -----------------------------------------------------------------------------------

  const SymDims& dims(ValueId v) const { return *graph().value(v).type.dims; }
  Dim width(ValueId v) const { return dims(v).empty() ? Dim(1) : dims(v).back(); }
  DType stored_type(ValueId v) const { return graph().value(v).type.dtype; }
  /// Of its elements in registers and in scratch.
  DType value_type(ValueId v) const { return loop::value_type(stored_type(v)); }
  const std::vector<NodeId>& users(ValueId v) const { return users_[v]; }
  /// Does a node of the region make it?
  bool computed(ValueId v) const { return !is_operand(v) && graph().value(v).producer != kNone; }
  bool is_operand(ValueId v) const { return operand_of_.count(v) > 0; }
  /// Its place among StepSpec::inputs.
  uint32_t operand_of(ValueId v) const { return operand_of_.at(v); }
  /// Would it cost more to compute it again than to read it from scratch?
  bool is_dear(ValueId v) const;
  /// Is it an operand whose rows lie in memory one after another, so that lanes of rows would
  /// gather, of a type that a copy can turn in registers?
  bool lies_in_rows(ValueId v) const;
  /// Rows dear to compute that a reduction reads and others want too: kept in scratch on the way.
  bool is_kept(ValueId v) const;
  /// Does anything that is written after node `now` read v, but through what is kept itself?
  bool read_later(ValueId v, NodeId now) const;

  // ---- nodes ------------------------------------------------------------------------------------

  BlockRole role(NodeId id) const;
  /// May a product round its factors to bf16, by numerics or because the model holds them so?
  bool may_round(const Node& product) const;
  /// Is a row product one of rows in memory with a narrow matrix? Its sums run along the row.
  bool is_dot(const Node& product) const {
    return !computed(product.inputs[0]) && is_narrow(width(product.outputs[0]));
  }
  const std::vector<BlockColumn>& columns() const { return columns_; }
  /// Is an output made by one of columns()?
  bool is_column(ValueId output) const;

  /// A size in terms of the operands; fails with kUnsupported when it is no dim of one.
  OperandDims dim_of(const Dim& dim) const;

 private:
  void weigh(const Node& node);
  bool add_column(NodeId id);
  bool read_later(ValueId v, NodeId now, SeenValues& seen) const;

  const StepSpec& spec_;
  RegionGraph g_;
  RowSpace space_;
  std::unordered_map<ValueId, uint32_t> operand_of_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_map<ValueId, double> weights_;  ///< of elementwise results, from operands on
  std::vector<BlockColumn> columns_;
};

}  // namespace xc::fusion

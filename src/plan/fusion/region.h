#pragma once
// A fused region: a convex set of nodes of one graph executed by one step, and its lowering to the
// loop IR.
//
// Identity: the hash of its ops, attributes, dtypes, dim facts (which dims are equal, which are
// constant), stride classes and numerics mode, with external operands numbered by first use. Equal
// layers share one identity, hence one compiled kernel, profile and verdict.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/host_speed.h"
#include "backends/step.h"
#include "base/hash.h"
#include "ir/graph.h"
#include "loop/kernel.h"
#include "loop/schedule.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/report.h"

namespace xc {

struct Region {
  std::string pattern;           ///< template that found it: cell, row, aggregate, blocks
  std::vector<NodeId> nodes;     ///< in execution order
  std::vector<ValueId> inputs;   ///< external operands, constants included
  std::vector<ValueId> outputs;  ///< values used outside
  SymDims space;                 ///< iteration space: the dims of its largest values
  RowAxes row_axes;              ///< of the space, that it reduces over; none: cell
  bool aggregate = false;        ///< reduces over the whole space
  bool blocks = false;   ///< with matrix products, by blocks of rows: see blocks.h; the space
                         ///< is the batch dims and the rows
  uint32_t segment = 0;  ///< FusionOptions::barriers before its nodes
  Hash128 identity;      ///< region_identity(), or the structural hash before planning
};

/// The region as a graph of its own.
struct RegionGraph {
  Graph graph;                    ///< inputs: the region's operands that are no constants, in order
  std::vector<ValueId> operands;  ///< per Region::inputs; constants included
};
RegionGraph extract_region(const Graph& graph, const Region& region);

/// What nodes read that none of them makes, by first use; not what is known when they are planned.
std::vector<ValueId> external_inputs(const Graph& graph, std::span<const NodeId> nodes);
/// What others read of what nodes make, and what the graph gives, in order. `users`:
/// Graph::users().
std::vector<ValueId> external_outputs(const Graph& graph, std::span<const NodeId> nodes,
                                      const std::vector<std::vector<NodeId>>& users);
/// Is it a constant of one element, which kernels have as a number and not as an operand?
bool is_literal(const Value& value);

/// The region's structural hash and how its operands lie: dims and strides, symbols renamed by
/// first appearance. A kernel compiled for one region fits every other of the same identity.
Hash128 region_identity(const Graph& graph, const Region& region, const StepSpec& spec);

/// A size or stride a compiled kernel takes as parameter, in terms of the region's operands (inputs
/// then outputs), so that it serves any graph with this region.
struct OperandDims {
  struct Ref {
    uint32_t operand;
    uint32_t axis;
    friend bool operator==(const Ref&, const Ref&) = default;
  };
  std::vector<Ref> factors = {};  ///< the product of these dims
  std::vector<Ref> addends = {};  ///< where there are any: times the sum of these dims
  int64_t offset = 0;             ///< and this
  int64_t constant = 1;           ///< times this
  int64_t divisor = 1;            ///< divided by this, rounded up,
  int64_t multiple = 1;           ///< times this
  bool is_constant() const { return factors.empty() && addends.empty(); }
  friend bool operator==(const OperandDims&, const OperandDims&) = default;
};

/// One loop kernel of a region. Phases run one after another; the first may be cut into tasks.
struct RegionPhase {
  loop::Kernel kernel;            ///< scheduled and verified
  std::vector<uint32_t> buffers;  ///< per buffer parameter: operand, or operands + k = temp k
  std::vector<OperandDims> dims;  ///< per dim parameter
  struct StrideRef {
    uint32_t operand;  ///< its stride at `axis`; for a dim of size 1 that broadcasts: 0
    uint32_t axis;
    bool broadcast;  ///< use 0 when the operand's dim there is 1 at run time
  };
  std::vector<StrideRef> strides;  ///< per stride parameter
  int64_t grain = 1;               ///< iterations of the parallel loop per task, at least
  bool matrix_units = false;       ///< runs only where grant_matrix_units() says so
};

/// A buffer between phases, in the memory that the workers of a step share.
struct RegionTemp {
  DType dtype;
  OperandDims elements;
  int64_t per_task = 0;  ///< elements of one task, where a RegionSum reads it
};

/// An output that is the sum of what the tasks left in a temp (f32 or f64), task after task,
/// rounded to its type.
struct RegionSum {
  uint32_t temp;
  uint32_t operand;
  DType dtype = DType::kF32;  ///< of the output
  struct Axis {
    std::optional<uint32_t> axis;  ///< of the output; nullopt: none
    int64_t size;
    int64_t stride;  ///< in the temp
  };
  std::array<Axis, 2> axes;
};

/// Indices among the operands that pick along an axis of another operand. The kernel fails on one
/// outside of [-size, size) of that axis; this finds out which.
struct RegionPick {
  uint32_t indices;
  DType dtype;                        ///< of the indices
  std::optional<int64_t> coordinate;  ///< along the last axis of the indices; nullopt: all of them
  uint32_t data;
  uint32_t axis;
  friend bool operator==(const RegionPick&, const RegionPick&) = default;
};

struct RegionCode {
  std::vector<RegionPhase> phases;
  std::vector<RegionTemp> temps;
  std::vector<RegionSum> sums;
  std::vector<RegionPick> picks;
  std::vector<OperandDims::Ref> repeats;  ///< axes that a Pad repeats: none may be empty
};

/// What the search goes by.
struct FusionOptions {
  Numerics numerics = Numerics::kTolerant;
  int max_nodes = 256;  ///< per region
  bool cell = true;     ///< templates, each can be disabled
  bool row = true;
  bool blocks = true;
  std::vector<NodeId> taken;     ///< nodes that must stay as they are (absorbed by a vendor kernel)
  std::vector<NodeId> in_place;  ///< Plan::in_place: not for regions
  /// Nodes behind which a run finds out sizes, in execution order: no region reaches over one, so
  /// that its sizes are known where it is chosen.
  std::vector<NodeId> barriers;
  Dim::Lookup sizes;  ///< of the symbols, for costs; unset, or without an answer: kNominalSize
  HostSpeed host = nominal_host_speed();
  /// Asked before each part of the graph; once it says so, the search ends and finds nothing.
  std::function<bool()> stop;
};
constexpr int64_t kNominalSize = 128;

/// The regions of a graph, disjoint and convex, largest first: the cheapest legal grouping of its
/// nodes by predicted cost (search.h). Never fails: what cannot be fused is left out. Runs on the
/// compile thread; equal parts of a graph are searched once.
std::vector<Region> find_regions(const Graph& graph, const FusionOptions& options,
                                 FusionReport* report = nullptr);

/// Lowers a region for the given operands (their dims, strides and constants as planned) and a
/// target; the reason when it cannot. `spec.inputs/outputs` are the region's.
Verdict lower_region(const Graph& graph, const Region& region, const StepSpec& spec,
                     const loop::TargetWidth& target, RegionCode& out);

/// Predicted bytes moved and operations of one execution, for the cost model.
struct RegionCost {
  Dim bytes_fused;    ///< external operands read and written once
  Dim bytes_varying;  ///< of those, what is no constant: it tells how much work a run is
  Dim bytes_unfused;  ///< what the separate steps read and write
  Dim product_flops;  ///< of matrix products, two per term
  Dim flops;          ///< of all else, weighed by what each operator costs
  int steps_saved = 0;
};
RegionCost estimate(const Graph& graph, const Region& region);

}  // namespace xc

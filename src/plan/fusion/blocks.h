#pragma once
// The row-block template: products of matrices with what happens between them.
//
// A region's values are rows: one row per index of a common row axis (and of batch axes), of any
// width. It holds row products (rows times a matrix that all rows share), elementwise functions and
// reductions of rows, and, at the end, column products t(U) W and column sums over the row axis. So
// attention in any spelling is one region, and t(X) (w * (X v)) reads X once. The rows are walked
// in blocks that stay in the cache; what lies between is never written to memory.
//
// Matthias Boehm et al., "On Optimizing Operator Fusion Plans for Large-Scale Machine Learning in
// SystemML", PVLDB 11(12), 2018 (the Row template); Tri Dao et al., "FlashAttention", NeurIPS 2022.

#include <vector>

#include "plan/fusion/classify.h"
#include "plan/fusion/region.h"

namespace xc {

/// Widths up to this are unrolled: a value this narrow has an expression per column.
constexpr int64_t kNarrowWidth = 8;
inline bool is_narrow(const Dim& width) {
  return width.is_constant() && width.value() <= kNarrowWidth;
}

/// What a node is in a row space.
enum class BlockRole : uint8_t {
  kNone,
  kRowwise,        ///< scalar function, reduction over the last axis or composite of both
  kRowProduct,     ///< MatMul whose first input is rows
  kColumnProduct,  ///< MatMul of swapped rows with rows
  kColumnSum,      ///< ReduceSum over the row axis
  kSwap,           ///< Transpose of the last two axes of rows
};

/// Batch dims and the number of rows.
struct RowSpace {
  SymDims batch;
  Dim rows;
  /// Width of a value of these dims when it is rows of this space.
  std::optional<Dim> width(const SymDims& dims) const;
  /// Can an operand of these dims be read per row of this width (broadcast as numpy has it)?
  bool reads(const SymDims& dims, const Dim& width) const;
};

/// A Cast of f16 or bf16 to f32: as an operand's, no work of its own.
bool is_widening_cast(const Graph& graph, const Node& node);

/// The role of a node in a space; decided by its own types alone. `cls`: classify(graph, id).
BlockRole block_role(const Graph& graph, NodeId id, const RowSpace& space, const FusionClass& cls);

/// Disjoint, convex regions of at least two products each. FusionOptions::taken is not heeded: what
/// a library's product absorbs may go into a region together with the product.
std::vector<Region> find_blocks(const Graph& graph, const FusionOptions& options);

Verdict lower_blocks(const Region& region, const StepSpec& spec, RegionGraph region_graph,
                     const loop::TargetWidth& target, RegionCode& out);

}  // namespace xc

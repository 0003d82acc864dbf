#pragma once
// The inference driver: runs OpDef::infer over graphs and single nodes.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace xc {

/// Symbolic inference over the whole graph in order, subgraphs included. Sets Value::type and
/// Value::elements. A declared dtype must be the inferred one; of rank and dims the inferred ones
/// count, and `warn` is told. Errors carry the node. Values whose size only a run can tell get
/// fresh symbols ("u0", "u1", ...).
void infer_types(Graph& graph, const std::function<void(const std::string&)>& warn = {});
/// The same for a graph whose inputs have got other types: what was inferred from the old ones is
/// forgotten.
void infer_types_again(Graph& graph);

/// Whether the operands of a node fit together, and give what the graph says, whatever the sizes of
/// a run are: all, or those of which none is 0 (a window is then as large as a padded axis at
/// most).
enum class SizeProof : uint8_t { kNone, kAboveZero, kAll };
/// So it is where dims are numbers, and of elementwise operators where dims are the same or 1. Of
/// others inference is asked about numbers that have nothing in common, and the least there are, in
/// the place of symbols and of functions of them: what it asks (one to be another, or 1, or so many
/// at least) follows from the dims where it accepts them all, as far as is known of operators.
SizeProof proof_of_sizes(const Graph& graph, const Node& node);
inline bool sizes_are_proven(const Graph& graph, const Node& node) {
  return proof_of_sizes(graph, node) == SizeProof::kAll;
}
/// Types of the outputs for sizes of a run; those that are not known stay symbols. Nothing where
/// the rank of an input is not known; fails where the sizes do not fit.
std::optional<std::vector<Type>> infer_for_sizes(const Graph& graph, const Node& node,
                                                 const Dim::Lookup& size);

/// Sizes that only an execution tells: refused, or given as fresh symbols and unknown ranks. Kept
/// open: those that the inputs' values would tell are symbols too, the values are not looked at.
enum class OpenSizes : uint8_t { kRefused, kAllowed, kKept };
/// Concrete inference of one node from actual inputs (undefined tensor = absent). Every output
/// comes back with constant dims; fails with kUnsupported where that is impossible.
std::vector<Type> infer_concrete(const Node& node, const std::vector<Tensor>& inputs,
                                 OpenSizes open = OpenSizes::kRefused);

/// Runs one node's reference on actual tensors: concrete inference, allocation, reference.
std::vector<Tensor> run_reference(const Node& node, const std::vector<Tensor>& inputs);

}  // namespace xc

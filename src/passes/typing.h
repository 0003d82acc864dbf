#pragma once
// Types of single new nodes, so that a pass can check a rewrite before it makes it and later
// rewrites of the same sweep see types. The whole graph is inferred again after a round.

#include <optional>
#include <string>
#include <vector>

#include "ir/patch.h"
#include "ops/op.h"

namespace xc {

struct Inferred {
  std::vector<Type> types;  ///< of the node's outputs
  std::vector<std::optional<std::vector<Dim>>> elements;
};

/// Checks the node against its op and infers its outputs from the types of its inputs in the graph.
/// Nullopt, with the reason in `why` when given, where that fails or a rank is not known. Nodes
/// with bodies are not inferred.
std::optional<Inferred> infer_node(const Graph& graph, const Node& node,
                                   std::string* why = nullptr);

/// patch.add_node() with the types of the outputs set where they can be inferred.
std::vector<ValueId> add_typed(Graph& graph, Patch& patch, Node node, uint32_t output_count);

/// Node `now`, whose outputs are those of node `old` in number and types, takes its place.
void put_in_place_of(Graph& graph, Patch& patch, NodeId old, Node now);

/// Identity(value), for an output of the graph that keeps its name and so needs a value of its own.
ValueId add_copy(Graph& graph, Patch& patch, ValueId value, const std::string& name);

/// The axes of a Transpose (ops/transpose.h); nullopt where the operand's rank is not known, or no
/// rank of `perm` (in a branch that is never taken).
std::optional<std::vector<size_t>> known_permutation(const Graph& graph, const Node& node);

/// The constant shape of a Reshape from one to the other, which have as many elements; nullopt
/// where there is none.
std::optional<std::vector<int64_t>> shape_between(const SymDims& from, const SymDims& to);

/// The one element of a constant of one element; nullopt otherwise and for strings.
std::optional<double> scalar_constant(const Value& value);
/// Elements of a constant of integers or of a value whose elements are known numbers.
std::optional<std::vector<int64_t>> known_integers(const Value& value);

}  // namespace xc

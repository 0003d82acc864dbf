#pragma once
// Structural hash of a graph or of a set of its nodes: equal for alpha-renamed copies.

#include <span>
#include <string>
#include <unordered_map>

#include "base/hash.h"
#include "ir/graph.h"

namespace xc {

/// Renames size symbols by first appearance, so that equal expressions over other names read alike.
class SymbolRenamer {
 public:
  Dim operator()(const Dim& dim);

 private:
  std::unordered_map<std::string, uint64_t> numbers_;
};

/// Ops, attributes, wiring, dtypes, dims (symbols renamed by first appearance), constants by
/// content when they are small, else by dtype and dims.
Hash128 fingerprint(const Graph& graph);

/// The same for a sub-DAG: external inputs are numbered in order of first use, nodes in depth-first
/// order from those that no other node of the set reads, so the order of `nodes` matters only where
/// several such roots exist.
Hash128 fingerprint(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace xc

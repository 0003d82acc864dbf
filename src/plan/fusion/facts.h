#pragma once
// What the search needs to know of a graph: the class of every node, and parts of the graph as
// plain numbers, priced at given sizes and the host's rates.

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/fusion/classify.h"
#include "plan/fusion/region.h"
#include "plan/fusion/search.h"

namespace xc::fusion {

class Facts {
 public:
  /// Both outlive the facts.
  Facts(const Graph& graph, const FusionOptions& options);

  /// kNone for what the options keep out of cell, row and aggregate regions.
  const FusionClass& of(NodeId id);
  bool fusible(NodeId id) { return of(id).kind != FusionKind::kNone; }
  uint32_t position(NodeId id) const { return position_[id]; }
  /// How many of FusionOptions::barriers lie before a node.
  uint32_t segment(NodeId id) const;
  /// Graph::users().
  const std::vector<std::vector<NodeId>>& users() const { return users_; }

  /// Nodes [begin, end) of the execution order; `given` lie inside. `spared`: nodes that are in
  /// regions decided before.
  Part part(uint32_t begin, uint32_t end, std::span<const std::vector<NodeId>> given,
            const std::unordered_set<NodeId>& spared);
  /// Where the execution order is cut into parts: begins, and the end. At places that no group
  /// could span wherever there are such, and behind every barrier.
  std::vector<uint32_t> cuts(std::span<const std::vector<NodeId>> given);

 private:
  bool may_fuse(NodeId producer, NodeId user);
  double seconds_to_move(ValueId v);
  double elements(const SymDims& dims) const;
  double compute_s(NodeId id);
  /// Would rows side by side keep more in scratch than a region may (iteration.h), at these sizes?
  bool wants_large_table(NodeId id, const FusionClass& cls) const;

  const Graph& graph_;
  const FusionOptions& options_;
  std::vector<uint32_t> position_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<std::optional<FusionClass>> classes_;
  std::unordered_set<NodeId> taken_, in_place_;
};

}  // namespace xc::fusion

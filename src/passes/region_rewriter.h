#pragma once
// What passes have in common that rewrite regions: nodes that change together or not at all.

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/patch.h"
#include "passes/pass.h"

namespace xc {

/// One sweep over the graph. Users and the order are those in front of it.
class RegionRewriter {
 protected:
  /// Nodes of a region: one of more is left as it is.
  static constexpr size_t kMostNodes = 256;

  RegionRewriter(Graph& graph, PassContext& context, const char* pass)
      : graph_(graph),
        context_(context),
        pass_(pass),
        users_(graph.users()),
        taken_(graph.node_count(), false),
        patch_(graph, pass) {
    for (const NodeId id : graph.order()) position_.emplace(id, position_.size());
  }

  /// Calls rewrite_from(node) for each in order; whether anything was rewritten.
  template <class RewriteFrom>
  bool sweep(RewriteFrom&& rewrite_from) {
    const std::vector<NodeId> order(graph_.order().begin(), graph_.order().end());
    for (const NodeId id : order) rewrite_from(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

  void sort(std::vector<NodeId>& nodes) const {
    std::ranges::sort(nodes, {}, [&](NodeId id) { return position_.at(id); });
  }

  /// A region is rewritten: these nodes of it go, and are part of no other.
  void replaced(std::initializer_list<std::span<const NodeId>> parts) {
    for (const auto nodes : parts)
      for (const NodeId id : nodes) {
        patch_.remove(id);
        taken_[id] = true;
      }
    context_.count(pass_);
  }

  Graph& graph_;
  PassContext& context_;
  const char* const pass_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> taken_;  ///< by node: in a region that was rewritten
  Patch patch_;

 private:
  std::unordered_map<NodeId, size_t> position_;
};

}  // namespace xc

#pragma once
// The only way to edit a graph: collect new nodes and replacements, then apply all of it or
// nothing. A patch carries a label (the pass or rule), kept in Node::made_by of what it adds.

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace xc {

class Patch {
 public:
  Patch(Graph& graph, std::string label)
      : graph_(graph), label_(std::move(label)), first_value_(graph.value_count()) {}
  ~Patch();  ///< drops what was not applied
  Patch(const Patch&) = delete;
  Patch& operator=(const Patch&) = delete;

  /// The label of what is added from here on: one patch may carry many rewrites of a sweep.
  void relabel(std::string label) { label_ = std::move(label); }

  ValueId add_constant(const std::string& stem, Tensor tensor);
  /// New node with `output_count` fresh values; returns them. Existing ValueIds may be inputs.
  std::vector<ValueId> add_node(const OpDef& op, std::vector<ValueId> inputs, uint32_t output_count,
                                Attrs attrs = {}, const std::string& stem = {});
  /// As above with subgraphs and all fields chosen by the caller; outputs must be empty or fresh.
  std::vector<ValueId> add_node(Node node, uint32_t output_count);
  /// Every use of `old` (graph outputs and nodes of this patch included) reads `now` afterwards. A
  /// graph output keeps its name: the replacement takes it over, as does a value made since the
  /// patch was. Chains (a by b, b by c) resolve.
  void replace(ValueId old, ValueId now);
  /// False when `old` is a graph output and `now` has a name of its own to keep: it is a graph
  /// input or output too, or replaces another output.
  bool can_replace(ValueId old, ValueId now) const;
  void remove(NodeId node);  ///< its outputs must have no users left when applied
  /// As remove(), for a node whose place others take that ask less of sizes (what broadcasts would
  /// let more in): it stays as a record of what its inference has to be asked with the sizes of a
  /// run (Graph::superseded()).
  void supersede(NodeId node);
  /// The node no longer gives its output `index` (kNone); it must have no users when applied.
  void drop_output(NodeId node, uint32_t index);
  /// Frees a constant without users.
  void drop_constant(ValueId constant);

  bool empty() const {
    return added_.empty() && replaced_.empty() && removed_.empty() && dropped_.empty();
  }
  size_t replaced_count() const { return replaced_.size(); }

  /// Applies everything, then re-sorts where needed; the patch is empty afterwards. Fails with
  /// kInternal, leaving the graph as it was, when a removed node is still used, a replacement
  /// closes a cycle or can_replace() is false. One call is linear in the graph: collect a sweep's
  /// rewrites in one patch.
  void apply();

 private:
  struct Plan;
  Plan prepare() const;
  void resolve_replaced(Plan& plan) const;
  void hand_on_names(Plan& plan) const;
  void check_uses(const Plan& plan, const std::vector<NodeId>& nodes) const;
  void commit(Plan plan);
  void redirect_superseded(const Plan& plan);
  void drop();
  void clear();
  /// What reads of a value will see by the replacements so far.
  ValueId becomes(ValueId value) const;

  Graph& graph_;
  std::string label_;
  ValueId first_value_;  ///< values from here on are new
  std::vector<ValueId> constants_;
  std::vector<NodeId> added_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
  std::unordered_map<ValueId, ValueId> becomes_;  ///< the same, to look up
  std::vector<NodeId> removed_;
  std::vector<ValueId> dropped_;       ///< outputs and constants
  std::unordered_set<ValueId> taken_;  ///< values that take over the name of an output
};

}  // namespace xc

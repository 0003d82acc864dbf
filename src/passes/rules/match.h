#pragma once
// Finding a pattern at a node. Bounded: a match attempt that takes too many steps is no match.

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "passes/rules/rule.h"

namespace xc {

/// What a variable stands for.
struct Binding {
  ValueId value = kNone;
  std::optional<Attr> attr;  ///< bound by an attribute
  bool bound() const { return value != kNone || attr; }
};

struct Match {
  std::vector<Binding> bindings;  ///< by variable
  std::vector<NodeId> nodes;      ///< of the pattern's ops; the root comes first
};

/// The first way in which the rule's pattern fits the node's first output and its conditions hold.
/// `tolerant`: an f64 may be a decimal written with the digits of an f32.
std::optional<Match> match_rule(const Rule& rule, const Graph& graph, NodeId root, bool tolerant);

/// The variable as a number: a scalar constant or a numeric attribute.
std::optional<double> number_of(const Graph& graph, const Binding& binding);

}  // namespace xc

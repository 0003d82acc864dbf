#pragma once
// Which operator a node is of.

#include <string_view>

#include "ir/graph.h"
#include "ops/op.h"

namespace xc {

/// Whether the node's operator is the standard's of that name: other domains have names of their
/// own, which may be the same.
inline bool is_op(const Node& node, std::string_view name) {
  return node.op->domain.empty() && node.op->name == name;
}

}  // namespace xc

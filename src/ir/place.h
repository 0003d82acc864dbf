#pragma once
// How messages name a node.

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace xc {

/// Its name; a node without one is known by that of its first output.
std::string_view shown_name(const Graph& graph, const Node& node);

/// The place of an error: "node 'fc1' (MatMul)".
std::string node_place(std::string_view name, std::string_view op);
std::string node_place(const Graph& graph, const Node& node);
/// Where the graph is not at hand: nothing for a node without a name, which who has it can name.
std::string node_place(const Node& node);

}  // namespace xc

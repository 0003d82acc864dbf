#pragma once
// The graph attributes of an operator in the order of Node::subgraphs.

#include <string_view>
#include <vector>

namespace xc::onnx {

inline std::vector<std::string_view> subgraph_names(std::string_view op) {
  if (op == "If") return {"then_branch", "else_branch"};
  return {"body"};
}

}  // namespace xc::onnx

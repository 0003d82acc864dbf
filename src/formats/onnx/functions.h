#pragma once
// Functions that a model brings along: looked up by domain, name and overload, and measured before
// anything is expanded.

#include <map>
#include <tuple>
#include <vector>

#include "formats/onnx/proto.h"

namespace xc::onnx {

class Functions {
 public:
  /// Refuses duplicates and functions that would redefine an operator of the standard.
  explicit Functions(const ModelProto& model);

  /// The function a node calls, null when it calls none.
  const FunctionProto* find(const NodeProto& node) const;

  /// Checks that the model, fully expanded, stays within the limits: no recursion, bounded depth
  /// and node count.
  void check_expansion(const ModelProto& model, const Limits& limits) const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Key, const FunctionProto*> by_key_;
};

/// The nodes in an order in which definitions come before uses; stays as written where it can.
/// `nodes` may read names that none of them defines. Fails with kInvalidModel on a cycle.
std::vector<const NodeProto*> execution_order(const std::vector<NodeProto>& nodes);

}  // namespace xc::onnx

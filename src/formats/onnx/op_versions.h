#pragma once
// What each version of each standard operator may look like: arity and attributes. The facts come
// from the standard's own schemas (op_versions.inc, generated); what to do about a version that is
// not the newest stands in op_map.cpp.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/onnx/proto.h"

namespace xc::onnx {

struct AttributeRow {
  std::string_view name;
  AttributeType type;
  bool required;
};

struct OpVersion {
  int since = 0;
  int min_inputs = 0, max_inputs = 0;  ///< max -1 = any number
  int min_outputs = 0, max_outputs = 0;
  bool deprecated = false;
  std::vector<AttributeRow> attributes;

  const AttributeRow* find(std::string_view name) const;
};

/// Domain and name of every op of the standard, in that order.
std::vector<std::pair<std::string_view, std::string_view>> standard_ops();

/// Every version of an op, oldest first; empty for an op that is not of the standard.
std::span<const OpVersion> op_versions(std::string_view domain, std::string_view op);

/// The version an opset means: the newest not newer than it. Fails with kUnsupported, naming the
/// versions there are, when the op is unknown or younger than the opset.
const OpVersion& op_version(std::string_view domain, std::string_view op, int64_t opset);

/// The newest opset of a standard domain that xc knows; 0 for other domains.
int newest_opset(std::string_view domain);

/// "i64 list" and so on, for messages.
std::string_view name(AttributeType type);

}  // namespace xc::onnx

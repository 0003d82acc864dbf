#pragma once
// AttributeProto -> Attr, and the attributes of a function call inside the function's body.

#include <map>
#include <optional>
#include <string_view>

#include "formats/onnx/proto.h"
#include "formats/onnx/tensors.h"
#include "ir/attrs.h"

namespace xc::onnx {

/// Attributes a function was called with, by name; defaults filled in.
using AttributeEnvironment = std::map<std::string_view, AttributeProto>;

/// The attribute itself, or the one it refers to in `environment` under its own name. Nullopt when
/// it refers to an optional one that the call did not give.
std::optional<AttributeProto> resolve(const AttributeProto& attribute,
                                      const AttributeEnvironment* environment);

/// The declared kind; files older than the field are told from their content.
AttributeType type_of(const Source& source, const AttributeProto& attribute);

/// Decodes a payload that is no graph. Refuses a payload of another kind beside it.
Attr decode_payload(const Source& source, const AttributeProto& attribute, TensorReader& tensors);

}  // namespace xc::onnx

#pragma once
// Element types and value types of ONNX against those of the graph.

#include <optional>
#include <string>

#include "formats/onnx/proto.h"
#include "ir/graph.h"

namespace xc::onnx {

/// The DType of a TensorProto.DataType; fails with kInvalidModel for numbers that name no type.
DType dtype_from_onnx(int64_t data_type);
/// The other way; 0 for kUndefined.
int32_t dtype_to_onnx(DType dtype);

/// How dims without a number become symbols: by their dim_param, else `<value>_d<axis>`.
/// Decodes a TypeProto. `symbols` false leaves the rank unknown unless every dim is a number.
Type decode_type(const Source& source, Bytes body, const std::string& value_name, bool symbols);

/// The encoded TypeProto of a type.
std::string encode_type(const Type& type);

/// A name as a symbol of Dim, where operators, brackets and a leading digit mean something else.
std::string symbol_name(std::string_view name);

}  // namespace xc::onnx

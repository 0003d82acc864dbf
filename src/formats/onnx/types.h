#pragma once
// Element types and value types of ONNX against those of the graph.

#include <optional>
#include <string>

#include "formats/onnx/proto.h"
#include "ir/graph.h"

namespace xc::onnx {

/// The DType of a TensorProto.DataType; fails with kInvalidModel for numbers that name no type.
DType dtype_from_onnx(int64_t data_type);

/// Decodes a TypeProto. Dims without a number become symbols: their dim_param, where it is a name,
/// or `<value>_d<axis>`.
Type decode_type(const Source& source, Bytes body, const std::string& value_name);

/// The encoded TypeProto of a type.
std::string encode_type(const Type& type);

}  // namespace xc::onnx

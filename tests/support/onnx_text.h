// ONNX models written as protobuf text, so that a test or a wrong model can be read.
#pragma once

#include <string>
#include <string_view>

namespace xc::test {

/// The bytes of a ModelProto in protobuf text form:
///
///   ir_version: 8  opset_import { version: 17 }
///   graph { node { op_type: "Relu" input: "x" output: "y" } ... }
///
/// Field names are those of onnx.proto. Beyond the text form of protobuf:
/// - `input { "x": f32[2, n, ?] }` stands for name and type, also of `output` and `value_info`;
/// - a number instead of a field name is a raw field: `99: 1`, `99: "text"`, `99 { ... }`;
/// - `hex: "0aff"` puts raw bytes into the message; strings know \n \t \" \\ \xHH;
/// - lists `dims: [2, 3]` are packed where the schema packs them.
/// Fails with xc::Error (kFormat) on text it does not understand.
std::string onnx_from_text(std::string_view text);

}  // namespace xc::test

#pragma once
// Graph -> ONNX bytes.

#include <string>

#include "ir/graph.h"

namespace xc::onnx {

/// A ModelProto of the oldest opset that gives every operator of the graph its newest meaning.
/// Fails with kUnsupported for what ONNX has no word for, with kLimit above 2 GiB (write .xcg
/// instead).
std::string export_model(const Graph& graph);

}  // namespace xc::onnx

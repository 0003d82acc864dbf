// Models of tests/unit/formats/models, loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "ir/graph.h"

namespace xc::test {

/// Names of the models, without their ending, sorted.
std::vector<std::string> model_names();
/// The ONNX bytes of one of them.
std::string model_bytes(const std::string& name);
/// Loads bytes of any format.
Graph load_bytes(std::string_view bytes, const LoadOptions& options = {});
/// Loads a model given as protobuf text.
Graph load_text(std::string_view text, const LoadOptions& options = {});

/// Ops of the graph in order, "Abs Neg".
std::string op_names(const Graph& graph);

}  // namespace xc::test

#pragma once
// ONNX bytes -> Graph.

#include <memory>
#include <string_view>

#include "formats/format.h"

namespace xc::onnx {

/// Whether the first bytes are those of a field that models have.
bool begins_model(std::string_view bytes);

/// Decodes, checks and normalises a model. Weights may point into `file`. Types are as declared;
/// the caller runs the verifier and inference.
Graph import_model(const std::shared_ptr<Buffer>& file, const LoadOptions& options);

}  // namespace xc::onnx

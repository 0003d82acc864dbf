#pragma once
// ONNX bytes -> Graph.

#include <memory>

#include "formats/format.h"

namespace xc::onnx {

/// Decodes, checks and normalises a model. Weights may point into `file`. Types are as declared;
/// the caller runs the verifier and inference.
Graph import_model(const std::shared_ptr<Buffer>& file, const LoadOptions& options);

}  // namespace xc::onnx

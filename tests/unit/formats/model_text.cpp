#include "unit/formats/model_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ops/op.h"
#include "support/onnx_text.h"
#include "support/paths.h"

namespace xc::test {

namespace fs = std::filesystem;

namespace {
fs::path folder() {
  return fs::path(source_dir()) / "tests/unit/formats/models";
}
}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder()))
    out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string model_bytes(const std::string& name) {
  std::ifstream file(folder() / (name + ".txt"), std::ios::binary);
  return onnx_from_text(std::string(std::istreambuf_iterator<char>(file), {}));
}

Graph load_bytes(std::string_view bytes, const LoadOptions& options) {
  return load_model(std::as_bytes(std::span(bytes)), options);
}

Graph load_text(std::string_view text, const LoadOptions& options) {
  return load_bytes(onnx_from_text(text), options);
}

std::string op_names(const Graph& graph) {
  std::string out;
  for (const NodeId id : graph.order())
    out += (out.empty() ? "" : " ") + std::string(graph.node(id).op->name);
  return out;
}

}  // namespace xc::test

// Every model of the shared collection goes through the importer, the verifier and inference.
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "formats/format.h"
#include "support/paths.h"

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> shared_models() {
  std::vector<fs::path> out;
  for (const char* folder : {"models", "bench/small"}) {
    if (!xc::test::have_shared(folder)) continue;
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(xc::test::shared_dir()) / folder))
      if (entry.path().extension() == ".onnx") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("formats/onnx: every shared model loads with all types known") {
  for (const fs::path& path : shared_models()) {
    CAPTURE(path.parent_path().filename().string());
    try {
      const xc::Graph graph = xc::load_model(path.string());
      CHECK(graph.order().size() > 0);
      for (const xc::ValueId id : graph.outputs) CHECK(graph.value(id).type.known());
    } catch (const xc::Error& error) {
      FAIL_CHECK(path.parent_path().filename().string()
                 << ": " << error.where() << ": " << error.message());
    }
  }
}

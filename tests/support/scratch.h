#pragma once
// A directory of its own for a test, removed with everything in it.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace xc::testing {

struct ScratchDirectory {
  std::string path;
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "xc-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  /// Names that begin with `prefix`, sorted.
  std::vector<std::string> files(const std::string& prefix = "") const {
    std::vector<std::string> out;
    for (const auto& item : std::filesystem::directory_iterator(path))
      if (item.path().filename().string().starts_with(prefix))
        out.push_back(item.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }
};

}  // namespace xc::testing

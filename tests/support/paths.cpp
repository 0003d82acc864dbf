#include "support/paths.h"

#include <cstdio>
#include <filesystem>

namespace xc::test {

std::string source_dir() {
  return XC_SOURCE_DIR;
}

std::string binary_dir() {
  return XC_BINARY_DIR;
}

std::string shared_dir() {
  return XC_SHARED_DIR;
}

std::string ptxas() {
  const std::string path = XC_PTXAS;
  return path.find("NOTFOUND") == std::string::npos ? path : std::string();
}

bool have_shared(const std::string& relative) {
  const std::filesystem::path path = std::filesystem::path(XC_SHARED_DIR) / relative;
  if (std::filesystem::exists(path)) return true;
  std::printf("skipped: %s is not there (set XC_SHARED_DIR)\n", path.c_str());
  return false;
}

}  // namespace xc::test

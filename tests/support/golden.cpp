#include "support/golden.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "support/paths.h"

namespace xc::test {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void check_golden(const std::string& relative, const std::string& actual) {
  const std::string path = source_dir() + "/tests/golden/" + relative;
  if (const char* bless = std::getenv("XC_BLESS"); bless && *bless == '1') {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  const std::string expected = read_text(path);
  if (expected == actual) return;
  std::istringstream a(expected), b(actual);
  std::string line_a, line_b;
  int line = 0;
  do {
    ++line;
    if (!std::getline(a, line_a)) line_a = "<end>";
    if (!std::getline(b, line_b)) line_b = "<end>";
  } while (line_a == line_b && line_a != "<end>");
  FAIL_CHECK("tests/golden/" << relative << ":" << line << "\n  expected: " << line_a
                             << "\n  actual:   " << line_b << "\nwhole text:\n"
                             << actual << "re-bless with XC_BLESS=1 when the change is meant");
}

}  // namespace xc::test

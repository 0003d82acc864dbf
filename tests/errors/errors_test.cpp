// Every wrong model of this folder fails with the status and message it declares, quickly and
// without asking for more memory than the file justifies.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "formats/format.h"
#include "formats/xcg/xcg.h"
#include "support/onnx_text.h"
#include "support/paths.h"

namespace fs = std::filesystem;

namespace {

struct Case {
  std::string status, fragment, body;
  std::map<std::string, std::string> directives;
};

/// Leading lines `# key: value`, then the body.
Case read_case(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Case out;
  std::string line;
  while (file.peek() == '#' && std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    out.directives[line.substr(2, colon - 2)] = line.substr(colon + 2);
  }
  out.body.assign(std::istreambuf_iterator<char>(file), {});
  const std::string& expect = out.directives["expect"];
  out.status = expect.substr(0, expect.find(' '));
  out.fragment = expect.substr(std::min(expect.size(), expect.find(' ') + 1));
  return out;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string xcg_bytes(const Case& c) {
  std::string header = c.body;
  while ((16 + header.size()) % 64 != 0) header += ' ';
  uint64_t length = header.size();
  if (const auto it = c.directives.find("header_length"); it != c.directives.end())
    length = std::stoull(it->second);
  std::string out(xc::xcg::kMagic);
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  const auto blob = c.directives.find("blob");
  return out + header + (blob == c.directives.end() ? "" : from_hex(blob->second));
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void check_folder(const char* folder, std::string (*bytes_of)(const Case&)) {
  const fs::path root = fs::path(xc::test::source_dir()) / "tests/errors";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root / folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const fs::path& path : files) {
    const std::string name = std::string(folder) + "/" + path.stem().string();
    CAPTURE(name);
    const Case c = read_case(path);
    REQUIRE(!c.status.empty());
    const std::string bytes = bytes_of(c);
    xc::LoadOptions options;
    options.base_dir = root.string();
    const int64_t before = peak_kilobytes();
    const auto start = std::chrono::steady_clock::now();
    try {
      xc::load_model(std::as_bytes(std::span(bytes)), options);
      FAIL_CHECK(name << " loads, but should not");
    } catch (const xc::Error& error) {
      const std::string message = error.where() + ": " + error.message();
      CHECK_MESSAGE(xc::status_name(error.status()) == c.status, name << ": " << message);
      CHECK_MESSAGE(message.find(c.fragment) != std::string::npos,
                    name << ": '" << message << "' has no '" << c.fragment << "'");
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK_MESSAGE(seconds.count() < 5, name << " took " << seconds.count() << " s");
    CHECK_MESSAGE(peak_kilobytes() - before < 64 * 1024, name << " grew the process by 64 MiB");
  }
}

}  // namespace

TEST_CASE("errors/onnx: each wrong model fails as it declares") {
  check_folder("onnx", [](const Case& c) { return xc::test::onnx_from_text(c.body); });
}

TEST_CASE("errors/xcg: each wrong model fails as it declares") {
  check_folder("xcg", xcg_bytes);
}

TEST_CASE("errors/text: each wrong model fails as it declares") {
  check_folder("text", [](const Case& c) { return c.body; });
}

// Damaged files: whatever is cut or flipped, the result is a graph or an Error, soon and small.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <random>

#include "unit/formats/model_text.h"

using namespace xc;
using namespace xc::test;

namespace {

/// Loads bytes that may be damaged; anything but an Error, and an internal one, is a failure.
void try_load(const std::string& bytes, const std::string& what) {
  try {
    load_bytes(bytes);
  } catch (const Error& error) {
    if (error.status() == Status::kInternal || error.message().empty())
      FAIL_CHECK(what << ": " << error.message());
  }
}

/// 0 under the address sanitizer, which keeps freed memory for a while.
int64_t peak_kilobytes() {
#ifdef __SANITIZE_ADDRESS__
  return 0;
#endif
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// The models as they come, and as .xcg.
std::vector<std::pair<std::string, std::string>> files() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& name : model_names()) {
    out.emplace_back(name + ".onnx", model_bytes(name));
    out.emplace_back(name + ".xcg", serialize_model(load_bytes(out.back().second), Format::kXcg));
  }
  return out;
}

}  // namespace

TEST_CASE("formats: a file cut at any byte") {
  const int64_t before = peak_kilobytes();
  for (const auto& [name, bytes] : files())
    for (size_t size = 0; size < bytes.size(); ++size)
      try_load(bytes.substr(0, size), name + " cut at " + std::to_string(size));
  CHECK(peak_kilobytes() - before < 128 * 1024);
}

TEST_CASE("formats: every .xcg file cut short is refused") {
  for (const auto& [name, bytes] : files()) {
    if (!name.ends_with(".xcg")) continue;
    for (size_t size = 1; size < bytes.size(); size += 7)
      CHECK_THROWS_AS(load_bytes(std::string_view(bytes).substr(0, size)), Error);
  }
}

TEST_CASE("formats: single bytes changed") {
  const auto start = std::chrono::steady_clock::now();
  const int64_t before = peak_kilobytes();
  for (const auto& [name, bytes] : files())
    for (size_t at = 0; at < bytes.size(); at += 3)
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        try_load(damaged, name + " byte " + std::to_string(at) + " xor " + std::to_string(flip));
      }
  CHECK(peak_kilobytes() - before < 128 * 1024);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(120));
}

TEST_CASE("formats: eight-byte words set to extremes") {
  for (const auto& [name, bytes] : files())
    for (size_t at = 0; at + 8 <= bytes.size(); at += 5)
      for (const uint64_t word :
           {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 31, ~uint64_t{0} >> 1}) {
        std::string damaged = bytes;
        __builtin_memcpy(damaged.data() + at, &word, sizeof(word));
        try_load(damaged, name + " word at " + std::to_string(at));
      }
}

TEST_CASE("formats: small files do not become large") {
  // Empty sub-messages, two bytes each.
  const int64_t before = peak_kilobytes();
  for (const char field : {'\x0a', '\x2a', '\x5a', '\x62', '\x6a'}) {
    std::string body;
    for (int i = 0; i < 200'000; ++i) body += {field, '\0'};
    std::string file("\x08\x08\x42\x02\x10\x11\x3a", 7);
    for (size_t n = body.size();; n >>= 7) {
      file += static_cast<char>((n & 0x7f) | (n >= 0x80 ? 0x80 : 0));
      if (n < 0x80) break;
    }
    try_load(file + body, "empty sub-messages");
  }
  // Unknown fields are skipped.
  std::string unknown = model_bytes("dense");
  for (int i = 0; i < 200'000; ++i) unknown += std::string("\xf8\x3f\x01", 3);
  CHECK_NOTHROW(load_bytes(unknown));
  CHECK(peak_kilobytes() - before < 64 * 1024);
}

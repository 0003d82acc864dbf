// The .xcg reader. A mutator seldom keeps the magic and the lengths right, so an input without them
// is taken as a JSON header and completed: with a blob of zeros, as many as the header says, else
// the reader looks no further than at that number.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "formats/format.h"
#include "formats/xcg/xcg.h"
#include "ir/fingerprint.h"

namespace {

/// More than any seed has.
constexpr std::size_t kMostBlobBytes = std::size_t{1} << 16;

std::size_t blob_bytes(std::string_view header) {
  constexpr std::string_view kKey = "\"blob_bytes\":";
  std::size_t bytes = 0;
  const std::size_t at = header.find(kKey);
  if (at != header.npos)
    std::from_chars(header.data() + at + kKey.size(), header.data() + header.size(), bytes);
  return std::min(bytes, kMostBlobBytes);
}

std::string completed(std::string_view input) {
  using namespace xc::xcg;
  if (input.starts_with(kMagic)) return std::string(input);
  std::string header(input);
  while ((16 + header.size()) % 64 != 0) header += ' ';
  const std::uint64_t length = header.size();
  std::string out(kMagic);
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + header + std::string(blob_bytes(input), '\0');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xc;
  const std::string file = completed({reinterpret_cast<const char*>(data), size});
  try {
    LoadOptions options;
    options.limits = Limits::high_security();
    const Graph graph = load_model(std::as_bytes(std::span(file)), options);
    const std::string again = serialize_model(graph, Format::kXcg);
    const Graph back = load_model(std::as_bytes(std::span(again)), {});
    if (fingerprint(back) != fingerprint(graph)) std::abort();
  } catch (const Error& error) {
    if (error.status() == Status::kInternal || error.status() == Status::kOk) std::abort();
  }
  return 0;
}

#include "cache/host_record.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace xc::cache {
namespace {

constexpr size_t kMaxFigures = 64, kMaxName = 64;

}  // namespace

// A line per figure: "l2_bandwidth 6.1e+10".
std::string encode(const HostRecord& record) {
  std::string out;
  for (const auto& [name, value] : record.figures) out += fmt::format("{} {}\n", name, value);
  return out;
}

std::optional<HostRecord> decode_host(std::string_view payload) {
  HostRecord out;
  while (!payload.empty()) {
    const size_t end = payload.find('\n'), space = payload.find(' ');
    if (end == std::string_view::npos || space == 0 || space > kMaxName || space > end ||
        out.figures.size() == kMaxFigures)
      return std::nullopt;
    double value = 0;
    const char* last = payload.data() + end;
    const auto [at, error] = std::from_chars(payload.data() + space + 1, last, value);
    if (error != std::errc{} || at != last || !std::isfinite(value) || value <= 0)
      return std::nullopt;
    if (!out.figures.emplace(payload.substr(0, space), value).second) return std::nullopt;
    payload.remove_prefix(end + 1);
  }
  if (out.figures.empty()) return std::nullopt;
  return out;
}

}  // namespace xc::cache

#include "backends/cpu/picked_rows.h"

#include <algorithm>

namespace xc::cpu {
namespace {

constexpr size_t kMostElements = 4 << 10, kMostRows = 16 << 10;  ///< of tables

/// The source of every element; nothing where one has none.
std::optional<std::vector<int64_t>> all_sources(const AxisSources& axis, size_t most) {
  if (axis.size() == 0 || axis.size() > static_cast<int64_t>(most)) return std::nullopt;
  std::vector<int64_t> out;
  size_t piece = 0;
  for (int64_t i = 0; i < axis.size(); ++i) {
    out.push_back(axis.at(i, piece));
    if (out.back() == AxisSources::kFill) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<PickedRows> PickedRows::of(const AxisSources& rows, const AxisSources& columns) {
  const int64_t lanes = line_fns(cpu_info().isa).picks;
  if (lanes == 0) return std::nullopt;
  auto sources = all_sources(columns, kMostElements);
  if (!sources) return std::nullopt;
  auto row_sources = all_sources(rows, kMostRows);
  if (!row_sources) return std::nullopt;
  const auto n = static_cast<int64_t>(sources->size());
  const auto [least, most] = std::ranges::minmax(*sources);
  // Nothing outside [least, most] is read: it may be nobody's memory.
  const int64_t last_begin = std::max(least, most + 1 - lanes);
  PickedRows out;
  bool two = false;
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t begin = std::max<int64_t>(0, std::min(i, n - lanes));
    const auto part = std::span(*sources).subspan(static_cast<size_t>(begin),
                                                  static_cast<size_t>(std::min(lanes, n)));
    const auto [low, high] = std::ranges::minmax(part);
    const int64_t a = std::min(low, last_begin);
    const int64_t b = high < a + lanes ? a : std::min(a + lanes, last_begin);
    if (high >= b + lanes) return std::nullopt;
    two |= b != a;
    out.from_.push_back(a);
    out.from_.push_back(b);
    for (const int64_t source : part)
      out.index_.push_back(
          static_cast<int32_t>(source < a + lanes ? source - a : lanes + source - b));
    out.index_.resize(out.from_.size() / 2 * static_cast<size_t>(lanes));
  }
  out.rows_ = std::move(*row_sources);
  out.line_ = {nullptr, nullptr, n, std::min(lanes, most + 1 - least), two};
  return out;
}

void PickedRows::run(const void* x, void* y, int64_t y_step, int64_t begin, int64_t end) const {
  PickedLine line = line_;
  line.from = from_.data();
  line.index = index_.data();
  line_fns(cpu_info().isa).picked(x, rows_.data() + begin, end - begin, line, y, y_step);
}

}  // namespace xc::cpu

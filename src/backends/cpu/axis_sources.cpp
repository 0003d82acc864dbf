#include "backends/cpu/axis_sources.h"

#include <algorithm>

namespace xc::cpu {

using Kind = AxisSources::Piece::Kind;

AxisSources::AxisSources(std::span<const int64_t> sources) {
  constexpr int64_t kShortestRun = 8;
  const auto n = static_cast<int64_t>(sources.size());
  const auto source = [&](int64_t i) { return sources[static_cast<size_t>(i)]; };
  int64_t times = 1;
  while (times < n && source(times) == source(0)) ++times;
  bool repeated = n > 0 && times > 1 && n % times == 0;
  for (int64_t i = 0; repeated && i < n; ++i) repeated = source(i) == source(0) + i / times;
  if (repeated) {
    pieces_.push_back({Kind::kRepeated, 0, n, source(0), times});
    return;
  }
  for (int64_t i = 0; i < n;) {
    int64_t end = i + 1;
    const int64_t step = end < n ? source(end) - source(i) : 0;
    while (end < n && source(end) - source(end - 1) == step) ++end;
    if (end - i >= std::min(kShortestRun, n)) {
      add_strided(end - i, source(i), step);
    } else {
      end = i + 1;  // the next run may begin with what ended this one
      if (pieces_.empty() || pieces_.back().kind != Kind::kScattered)
        pieces_.push_back({Kind::kScattered, i, i, static_cast<int64_t>(table_.size())});
      pieces_.back().end = end;
      table_.push_back(source(i));
    }
    i = end;
  }
}

void AxisSources::add_filled(int64_t count) {
  if (count > 0) pieces_.push_back({Kind::kFilled, size(), size() + count});
}

void AxisSources::add_strided(int64_t count, int64_t from, int64_t step) {
  if (count > 0) pieces_.push_back({Kind::kStrided, size(), size() + count, from, step});
}

int64_t AxisSources::bytes() const {
  return static_cast<int64_t>(pieces_.size() * sizeof(Piece) + table_.size() * 8);
}

int64_t AxisSources::at(int64_t i, size_t& piece) const {
  if (i < pieces_[piece].begin || i >= pieces_[piece].end)
    piece = static_cast<size_t>(
        std::ranges::upper_bound(pieces_, i, {}, [](const Piece& p) { return p.end; }) -
        pieces_.begin());
  const Piece& p = pieces_[piece];
  switch (p.kind) {
    case Kind::kStrided:
      return p.from + (i - p.begin) * p.step;
    case Kind::kRepeated:
      return p.from + (i - p.begin) / p.step;
    case Kind::kScattered:
      return table(p)[i - p.begin];
    default:
      return kFill;
  }
}

bool AxisSources::absorb(int64_t inner) {
  for (const Piece& p : pieces_)
    if (p.kind != Kind::kFilled &&
        !(p.kind == Kind::kStrided && (p.step == inner || p.size() == 1)))
      return false;
  for (Piece& p : pieces_) {
    p.begin *= inner;
    p.end *= inner;
    p.step = 1;
  }
  return true;
}

}  // namespace xc::cpu

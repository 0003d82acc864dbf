#include "backends/cpu/strided_space.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/checked.h"

namespace xc::cpu {
namespace {

/// Writes the strides of a broadcast operand over `out.size()` axes; `out` is zero before.
void broadcast_strides(std::span<const int64_t> dims, std::span<const int64_t> strides,
                       std::span<int64_t> out) {
  // A single element may have more axes than the result: the bounds of Clip.
  while (dims.size() > out.size()) {
    XC_CHECK(dims[0] == 1);
    dims = dims.subspan(1);
    strides = strides.subspan(1);
  }
  const size_t shift = out.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1) out[axis + shift] = strides[axis];
}

}  // namespace

StridedSpace::StridedSpace(std::span<const int64_t> dims, size_t operands) : rank_(dims.size()) {
  numbers_.reserve(rank_ * (operands + 1));
  numbers_.assign(dims.begin(), dims.end());
}

void StridedSpace::add(std::span<const int64_t> strides) {
  XC_CHECK(strides.size() == rank_);
  numbers_.insert(numbers_.end(), strides.begin(), strides.end());
  ++operands_;
}

void StridedSpace::add_broadcast(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  numbers_.resize(numbers_.size() + rank_, 0);
  broadcast_strides(dims, strides, std::span(numbers_).last(rank_));
  ++operands_;
}

int64_t StridedSpace::count() const {
  return element_count(dims());
}

void StridedSpace::move_before_last(size_t axis) {
  XC_CHECK(axis + 1 < rank_);
  for (size_t k = 0; k <= operands_; ++k) {
    const auto first = numbers_.begin() + static_cast<ptrdiff_t>(k * rank_ + axis);
    std::rotate(first, first + 1, first + static_cast<ptrdiff_t>(rank_ - 1 - axis));
  }
}

StridedSpace StridedSpace::coalesced(std::span<const int64_t> dims, size_t min_rank) const {
  XC_CHECK(dims.size() == rank_);
  /// An axis of the result: its innermost axis here, and its size.
  struct Axis {
    size_t from;
    int64_t size;
  };
  std::array<Axis, 8> few;
  std::vector<Axis> many(rank_ > few.size() ? rank_ : 0);
  Axis* const order = many.empty() ? few.data() : many.data();
  size_t axes = 0;
  for (size_t axis = 0; axis < rank_; ++axis)
    if (dims[axis] != 1) order[axes++] = {axis, dims[axis]};
  const int64_t* const strides = numbers_.data() + rank_;
  // Insertion sort: "before" is not transitive where operands are broadcast, which it tolerates.
  const auto before = [&](size_t a, size_t b) {
    for (size_t k = operands_; k-- > 0;) {
      const int64_t x = std::abs(strides[k * rank_ + a]), y = std::abs(strides[k * rank_ + b]);
      if (x == y) continue;
      if (k + 1 == operands_ || (x != 0 && y != 0)) return x > y;
    }
    return false;
  };
  for (size_t i = 1; i < axes; ++i)
    for (size_t j = i; j > 0 && before(order[j].from, order[j - 1].from); --j)
      std::swap(order[j], order[j - 1]);
  const auto continues = [&](size_t outer, const Axis& inner) {
    for (size_t k = 0; k < operands_; ++k)
      if (strides[k * rank_ + outer] != strides[k * rank_ + inner.from] * inner.size) return false;
    return true;
  };
  size_t merged = 0;
  for (size_t i = 0; i < axes; ++i) {
    const Axis axis = order[i];
    if (merged > 0 && continues(order[merged - 1].from, axis))
      order[merged - 1] = {axis.from, order[merged - 1].size * axis.size};
    else
      order[merged++] = axis;
  }
  StridedSpace out;
  out.rank_ = std::max(merged, min_rank);
  out.operands_ = operands_;
  const size_t pad = out.rank_ - merged;
  out.numbers_.resize(out.rank_ * (operands_ + 1), 0);
  int64_t* to = out.numbers_.data();
  std::fill_n(to, pad, 1);
  to += pad;
  for (size_t i = 0; i < merged; ++i) *to++ = order[i].size;
  for (size_t k = 0; k < operands_; ++k) {
    to += pad;
    for (size_t i = 0; i < merged; ++i) *to++ = strides[k * rank_ + order[i].from];
  }
  return out;
}

Dims strides_over(std::span<const int64_t> result_dims, std::span<const int64_t> dims,
                  std::span<const int64_t> strides) {
  Dims out(result_dims.size(), 0);
  broadcast_strides(dims, strides, out);
  return out;
}

}  // namespace xc::cpu

#include "backends/cpu/strided_space.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/checked.h"

namespace xc::cpu {

int64_t StridedSpace::count() const {
  return element_count(dims);
}

StridedSpace coalesce(std::span<const int64_t> dims, std::vector<Dims> strides, size_t min_rank) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1) order.push_back(axis);
  // Insertion sort: "before" is not transitive where operands are broadcast, which it tolerates.
  const auto before = [&](size_t a, size_t b) {
    for (size_t k = strides.size(); k-- > 0;) {
      const int64_t x = std::abs(strides[k][a]), y = std::abs(strides[k][b]);
      if (x == y) continue;
      if (k + 1 == strides.size() || (x != 0 && y != 0)) return x > y;
    }
    return false;
  };
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t j = i; j > 0 && before(order[j], order[j - 1]); --j)
      std::swap(order[j], order[j - 1]);
  StridedSpace out;
  out.strides.resize(strides.size());
  for (size_t axis : order) {
    bool merge = !out.dims.empty();
    for (size_t k = 0; k < strides.size() && merge; ++k)
      merge = out.strides[k].back() == strides[k][axis] * dims[axis];
    if (merge) {
      out.dims.back() *= dims[axis];
      for (size_t k = 0; k < strides.size(); ++k) out.strides[k].back() = strides[k][axis];
    } else {
      out.dims.push_back(dims[axis]);
      for (size_t k = 0; k < strides.size(); ++k) out.strides[k].push_back(strides[k][axis]);
    }
  }
  while (out.dims.size() < min_rank) {
    out.dims.insert(out.dims.begin(), 1);
    for (Dims& s : out.strides) s.insert(s.begin(), 0);
  }
  return out;
}

Dims strides_over(std::span<const int64_t> result_dims, std::span<const int64_t> dims,
                  std::span<const int64_t> strides) {
  // A single element may have more axes than the result: the bounds of Clip.
  while (dims.size() > result_dims.size()) {
    XC_CHECK(dims[0] == 1);
    dims = dims.subspan(1);
    strides = strides.subspan(1);
  }
  Dims out(result_dims.size(), 0);
  const size_t shift = result_dims.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1) out[axis + shift] = strides[axis];
  return out;
}

}  // namespace xc::cpu

// copy_elements() against an element at a time, with every size of element and any strides.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "tensor/tensor.h"

namespace xc {
namespace {

TEST_CASE("tensor/copy: every element arrives, whatever the strides") {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  /// Strides of axes in a random order, with gaps between them and some turned around.
  const auto lay_out = [&](const Dims& dims, Dims& strides, int64_t& first) {
    std::vector<size_t> axes(dims.size());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    std::shuffle(axes.begin(), axes.end(), random);
    strides.assign(dims.size(), 0);
    int64_t reach = 1;
    first = 0;
    for (size_t axis : axes) {
      strides[axis] = reach;
      reach *= dims[axis] + pick(0, 2);
      if (pick(0, 4) != 0) continue;
      first += strides[axis] * (dims[axis] - 1);
      strides[axis] = -strides[axis];
    }
    return reach;
  };
  for (const DType type : {DType::kU8, DType::kI16, DType::kF32, DType::kI64, DType::kC128})
    for (int round = 0; round < 60; ++round) {
      Dims dims(static_cast<size_t>(pick(0, 5)));
      for (int64_t& d : dims) d = pick(0, 3) == 0 ? pick(30, 70) : pick(1, 5);
      if (element_count(dims) > 100'000) continue;
      Dims from_strides, to_strides;
      int64_t from_first = 0, to_first = 0;
      const int64_t from_count = lay_out(dims, from_strides, from_first);
      const int64_t to_count = lay_out(dims, to_strides, to_first);
      const auto size = static_cast<size_t>(element_size(type));
      std::vector<unsigned char> from(static_cast<size_t>(from_count) * size);
      for (unsigned char& byte : from) byte = static_cast<unsigned char>(pick(0, 255));
      std::vector<unsigned char> to(static_cast<size_t>(to_count) * size, 7), want = to;
      for (int64_t i = 0; i < element_count(dims); ++i) {
        int64_t rest = i, source = from_first, target = to_first;
        for (size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) {
          source += rest % dims[axis] * from_strides[axis];
          target += rest % dims[axis] * to_strides[axis];
        }
        std::memcpy(want.data() + static_cast<size_t>(target) * size,
                    from.data() + static_cast<size_t>(source) * size, size);
      }
      copy_elements(
          {from.data() + static_cast<size_t>(from_first) * size, type, dims, from_strides},
          {to.data() + static_cast<size_t>(to_first) * size, type, dims, to_strides});
      CAPTURE(to_text(dims));
      CHECK(to == want);
    }
}

}  // namespace
}  // namespace xc

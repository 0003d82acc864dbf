// xc.UpdateCache by its reference where the result's elements lie apart, as a part of a Concat
// does.
#include <doctest/doctest.h>

#include "ops/registry.h"
#include "ops/support.h"

namespace xc::test {

TEST_CASE("ops/update_cache: a result of any strides is written, and nothing beside it") {
  const OpDef& op = get_op("UpdateCache", "xc");
  Node node{.op = &op, .inputs = {0, 1, 2, 3}, .outputs = {4}};
  node.attrs.set("axis", int64_t{1});
  Tensor cache(DType::kF32, {2, 2, 3}), update(DType::kF32, {2, 1, 3});
  for (int64_t i = 0; i < cache.count(); ++i) cache.as<float>()[i] = static_cast<float>(i + 1);
  for (int64_t i = 0; i < update.count(); ++i) update.as<float>()[i] = static_cast<float>(-i - 1);
  const Tensor starts = Tensor::of(std::vector<int64_t>{3, 1}),
               length = Tensor::of(std::vector<int64_t>{4});
  // Rows of 3 are 5 apart, samples 23, backwards.
  constexpr float kUntouched = 99;
  std::vector<float> memory(60, kUntouched);
  const Dims dims{2, 4, 3}, strides{-23, 5, 1};
  float* const first = memory.data() + 25;
  const TensorView y{first, DType::kF32, dims, strides};
  op.reference({&node, {cache.view(), update.view(), starts.view(), length.view()}, {y}});
  const std::vector<std::vector<float>> want{{1, 2, 3, 4, 5, 6, 0, 0, 0, -1, -2, -3},
                                             {7, 8, 9, -4, -5, -6, 0, 0, 0, 0, 0, 0}};
  for (int64_t sample = 0; sample < 2; ++sample)
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t column = 0; column < 3; ++column) {
        float& element = first[sample * strides[0] + row * strides[1] + column];
        CHECK(element == want[static_cast<size_t>(sample)][static_cast<size_t>(row * 3 + column)]);
        element = kUntouched;
      }
  for (const float left : memory) CHECK(left == kUntouched);
}

}  // namespace xc::test

// Facts about values against what the values were made of.
#include "profile/value_facts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tensor/tensor.h"

using namespace xc;

namespace {

/// Of three values, of which it watches the second.
struct Watching : ValueFacts {
  explicit Watching(DType dtype) : ValueFacts(3) { watch(1, dtype); }
};

}  // namespace

TEST_CASE("profile/value_facts: zeros of a few elements are counted, of many estimated") {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    CAPTURE(name(dtype));
    for (const int64_t rows : {3, 1000}) {
      // Zeros in a pattern that a fixed step through the elements would miss or see alone.
      Tensor x(dtype, {rows, 8});
      int64_t zeros = 0;
      for (int64_t i = 0; i < rows * 8; ++i) {
        const bool zero = i % 8 == 2 || i % 8 == 5 || i % 8 == 6;
        if (dtype == DType::kF32)
          x.as<float>()[i] = zero ? -0.0f : 2.5f;
        else if (dtype == DType::kF16)
          x.as<uint16_t>()[i] = zero ? 0 : 0x3c00;
        else
          store_int64(x.data(), dtype, i, zero ? 0 : 1);
        zeros += zero;
      }
      const double share = static_cast<double>(zeros) / static_cast<double>(rows * 8);
      for (const bool transposed : {false, true}) {
        CAPTURE(transposed);
        Watching facts(dtype);
        TensorView view = x.view();
        const Dims dims{8, rows}, strides{1, 8};
        if (transposed) view = {x.data(), dtype, dims, strides};
        for (uint64_t look = 1; look <= 64; ++look) facts.look(look, 1, view);
        const ValueFacts::Fact fact = facts.of(1);
        CHECK(fact.looks == 64);
        CHECK(fact.elements == 64 * std::min(rows * 8, ValueFacts::kElements));
        const double seen = static_cast<double>(fact.zeros) / static_cast<double>(fact.elements);
        CHECK(std::fabs(seen - share) <= (rows == 3 ? 1e-12 : 0.02));
        CHECK_FALSE(fact.scalar);
        CHECK_FALSE(fact.constant);
      }
    }
  }
}

TEST_CASE("profile/value_facts: the share of zeros lately is that of the last dozen looks or so") {
  Watching facts(DType::kF32);
  Tensor x(DType::kF32, {64});
  auto look = [&, number = uint64_t{0}](int times, float value) mutable {
    std::fill_n(x.as<float>(), 64, value);
    for (int k = 0; k < times; ++k) facts.look(++number, 1, x.view());
    const ValueFacts::Fact fact = facts.of(1);
    return fact.recent_zeros / fact.recent_elements;
  };
  CHECK(look(1000, 0) == 1);
  CHECK(look(16, 1) < 0.6);
  CHECK(look(48, 1) < 0.1);
  CHECK(facts.of(1).elements == 1064 * ValueFacts::kElements);
  CHECK(facts.of(1).zeros == 1000 * ValueFacts::kElements);
  CHECK(look(64, 0) > 0.9);
}

TEST_CASE("profile/value_facts: a scalar is constant until it changes in any bit") {
  // Neighbours that are one number as doubles.
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;
  Watching facts(DType::kI64);
  const Tensor a = Tensor::scalar<int64_t>(kLarge), b = Tensor::scalar<int64_t>(kLarge - 1);
  for (uint64_t look = 1; look <= 5; ++look) facts.look(look, 1, a.view());
  CHECK(facts.of(1).scalar);
  CHECK(facts.of(1).constant);
  CHECK(facts.of(1).looks == 5);
  facts.look(6, 1, b.view());
  facts.look(7, 1, a.view());
  CHECK(facts.of(1).scalar);
  CHECK_FALSE(facts.of(1).constant);
  facts.look(8, 1, Tensor::of<int64_t>({1, 2}).view());
  CHECK_FALSE(facts.of(1).scalar);
}

TEST_CASE("profile/value_facts: only what is watched, once a look, and never of no elements") {
  Watching facts(DType::kF32);
  const Tensor one = Tensor::scalar<float>(1), none(DType::kF32, {0, 4});
  facts.look(1, 0, one.view());
  facts.look(1, 7, one.view());  // no value of the graph
  facts.look(1, 1, none.view());
  CHECK(facts.of(1).looks == 0);
  facts.look(1, 1, one.view());
  facts.look(1, 1, one.view());
  CHECK(facts.of(1).looks == 1);
  CHECK(facts.of(0).looks == 0);
  facts.watch(2, DType::kString);
  CHECK(facts.of(2).looks == 0);
}

TEST_CASE("profile/value_facts: looks are one in sixteen at most, and rest after what they took") {
  ValueFacts idle(1);
  for (int k = 0; k < 64; ++k) CHECK(idle.due() == 0);
  Watching facts(DType::kF32);
  int looks = 0;
  for (int k = 0; k < 64; ++k) looks += facts.due() != 0;
  CHECK(looks == 4);
  facts.rest(uint64_t{1} << 50);
  for (int k = 0; k < 64; ++k) CHECK(facts.due() == 0);
}

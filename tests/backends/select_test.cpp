#include <doctest/doctest.h>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

Problem problem(const char* op, std::vector<Tensor> inputs) {
  Problem p;
  p.op = &get_op(op);
  p.inputs = std::move(inputs);
  return p;
}

TEST_CASE("backends/select: one-hot rows along every axis, indices outside the depth") {
  Generator g(71);
  for (int64_t axis : {0, 1, 2, -1, -2})
    for (DType type : {DType::kF32, DType::kI64, DType::kBool}) {
      Problem p = problem("OneHot", {g.tensor(DType::kI64, {3, 4}, -9, 9),
                                     Tensor::scalar(int64_t{6}), g.tensor(type, {2})});
      p.constant = {false, true, false};
      p.attrs.set("axis", axis);
      check_row("xc.select", p, {});
    }
  Problem p = problem("OneHot", {g.tensor(DType::kF32, {5}, 0, 4), Tensor::scalar(int64_t{4}),
                                 Tensor::of(std::vector<float>{0.5f, -2.0f})});
  p.constant = {false, true, true};
  check_row("xc.select", p, {});
}

TEST_CASE("backends/select: coordinates of what is not zero") {
  Generator g(72);
  for (DType type : {DType::kF32, DType::kI8, DType::kI64, DType::kBool, DType::kF16})
    for (const Dims& dims : {Dims{4, 5, 6}, Dims{7}, Dims{3, 0}, Dims{}}) {
      Tensor x = g.tensor(type, dims, -1, 1);
      for (int64_t i = 0; i < x.count(); i += 2) store_int64(x.data(), type, i, 0);
      check_row("xc.select", problem("NonZero", {x}), {});
    }
  // Rows with long stretches of zeros, and ends of blocks.
  for (DType type : {DType::kF32, DType::kI64, DType::kBool, DType::kF16})
    for (const int64_t every : {1, 7, 40, 1000}) {
      Tensor x = g.tensor(type, {3, 133}, 0, 0);
      for (int64_t i = 5; i < x.count(); i += every) store_int64(x.data(), type, i, 1);
      check_row("xc.select", problem("NonZero", {x}), {});
    }
  const float odd[] = {0.0f, -0.0f, __builtin_nanf(""), 1e-45f};
  Tensor x(DType::kF32, {4});
  for (int64_t i = 0; i < 4; ++i) x.as<float>()[i] = odd[i];
  const auto got = run_row(find_row("xc.select", "NonZero"), problem("NonZero", {x}));
  CHECK(got[0].to_int64s() == std::vector<int64_t>{2, 3});
}

TEST_CASE("backends/select: slices that a condition keeps, few or many of them") {
  Generator g(73);
  for (const DType type : {DType::kF32, DType::kI64, DType::kU8})
    for (const int64_t every : {1, 3, 30, 70})
      for (const int64_t axis : {-1, 0, 1, 9}) {
        const Tensor x = g.tensor(type, {70, 37}, 0, 99);
        Attrs attrs;
        if (axis != 9) attrs.set("axis", axis);
        const int64_t size = axis == 9 ? x.count() : axis == 0 ? 70 : 37;
        // Shorter ones leave the rest out.
        Tensor condition(DType::kBool, {size - (every == 3 ? 2 : 0)});
        for (int64_t i = 0; i < condition.count(); ++i)
          condition.as<uint8_t>()[i] = i % every == every / 2;
        Problem p = problem("Compress", {x, condition});
        p.attrs = attrs;
        std::vector<int64_t> want;
        const auto elements = x.to_int64s();
        for (int64_t i = 0; i < x.count(); ++i) {
          const int64_t place = axis == 9 ? i : axis == 0 ? i / 37 : i % 37;
          if (place < condition.count() && condition.as<uint8_t>()[place])
            want.push_back(elements[static_cast<size_t>(i)]);
        }
        INFO(every << " " << axis);
        CHECK(run_row(find_row("xc.select", "Compress"), p)[0].to_int64s() == want);
      }
}

}  // namespace
}  // namespace xc

// A matrix product written plainly, z[n, m] = a[n, p] b[p, m], and schedules of it.
#pragma once

#include <string>
#include <vector>

#include "loop/text.h"
#include "support/kernel_run.h"

namespace xc::test {

// `type`: of b as stored.
inline loop::Kernel product_kernel(const std::string& type = "f32") {
  return loop::parse(
      "kernel product(n, m, p; as, bs, zs) {\n"
      "  in a: f32[as, 1]\n  in b: " +
      type +
      "[bs, 1]\n  out z: f32[zs, 1]\n"
      "  for i = 0 .. n {\n    for j = 0 .. m {\n"
      "      acc s: f32 dot seq\n"
      "      for k = 0 .. p {\n        s <- a[i, k], b[k, j]\n      }\n"
      "      z[i, j] = s\n    }\n  }\n}\n");
}

inline Problem product_problem(int64_t n, int64_t m, int64_t p) {
  const auto elements = [](int64_t rows, int64_t columns, int64_t stride) {
    return static_cast<size_t>(rows == 0 || columns == 0 ? 0 : (rows - 1) * stride + columns);
  };
  return {{n, m, p},
          {p + 1, m, m + 2},
          {elements(n, p, p + 1), elements(p, m, m), elements(n, m, m + 2)}};
}

inline constexpr const char* kProductSchedules[] = {
    "tile i j 12 32",
    "tile i j 12 32; parallelize i_o",
    "tile i j 64 16; stage b i",
    "tile i j 4 16; parallelize i_o; stage b i",
    "tensorize i j 4 16",
    "tile i j 12 32; parallelize i_o; tensorize i j 6 32",
    "tile i j 12 64; parallelize i_o; stage b i; tensorize i j 3 64",
};

inline constexpr int64_t kProductSizes[][3] = {{0, 5, 3},  {4, 0, 3},   {3, 5, 0},   {1, 1, 1},
                                               {4, 16, 7}, {13, 33, 5}, {25, 70, 11}};

}  // namespace xc::test

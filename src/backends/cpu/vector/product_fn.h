#pragma once
// A plain matrix product, for the first calls of a process: the library generates the code of its
// own when first asked, which takes 30 ms.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// c[i, j] = alpha * sum over k of a[i, k] * b[k, j] + beta * c[i, j]. Strides in elements; those
/// of c's columns and of b along k or along j are 1.
struct PlainProduct {
  int64_t m, n, k;
  const float* a;
  int64_t a_m, a_k;
  const float* b;
  int64_t b_k, b_n;
  float* c;
  int64_t c_m;
  float alpha, beta;
};
using ProductFn = void (*)(const PlainProduct&);
ProductFn product_fn(Isa isa);

namespace baseline {
ProductFn product_fn();
}
namespace avx2 {
ProductFn product_fn();
}
namespace avx512 {
ProductFn product_fn();
}

}  // namespace xc::cpu

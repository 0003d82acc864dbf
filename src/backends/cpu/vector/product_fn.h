#pragma once
// A plain matrix product in panels of columns: packed rows of b against rows of a, sums in
// registers (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008,
// without packing a). Speeds beside the library's: tests/backends/matmul_test.cpp, "timing".

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// c[i, j] = alpha * sum over k of a[i, k] * b[k, j] + beta * c[i, j]. Strides in elements; those
/// of c's columns and of b along k or along j are 1.
template <class T>
struct PlainProduct {
  int64_t m, n, k;
  const T* a;
  int64_t a_m, a_k;
  const T* b;
  int64_t b_k, b_n;
  T* c;
  int64_t c_m;
  T alpha, beta;
  int64_t all_rows;  ///< of the product this is a part of
};
template <class T>
using ProductFn = void (*)(const PlainProduct<T>&);
/// For float and double.
template <class T>
ProductFn<T> product_fn(Isa isa);

namespace baseline {
template <class T>
ProductFn<T> product_fn();
}
namespace avx2 {
template <class T>
ProductFn<T> product_fn();
}
namespace avx512 {
template <class T>
ProductFn<T> product_fn();
}

}  // namespace xc::cpu

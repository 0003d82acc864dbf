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
  /// Aligned to 64, for copies of b; none = a few kilobytes of the stack do.
  T* room = nullptr;
  int64_t room_elements = 0;
};
template <class T>
struct ProductFns {
  void (*run)(const PlainProduct<T>&);
  /// Elements of room that make m x n results over k terms faster; at most 4 MiB. Less than that
  /// is of no use. Changes no bit.
  int64_t (*room)(int64_t m, int64_t n, int64_t k);
  /// Whether rows of n results are so narrow, and over so few terms, that several share a vector
  /// where rows of a and of c lie without gaps.
  bool (*narrow)(int64_t m, int64_t n, int64_t k);
};
/// For float, double and, as sums wrap, unsigned integers of 32 and 64 bits.
template <class T>
ProductFns<T> product_fns(Isa isa);

namespace baseline {
template <class T>
ProductFns<T> product_fns();
}
namespace avx2 {
template <class T>
ProductFns<T> product_fns();
}
namespace avx512 {
template <class T>
ProductFns<T> product_fns();
}

}  // namespace xc::cpu

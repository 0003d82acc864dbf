#pragma once
// Products of operands that both change, of any size and strides: no primitive, nothing generated,
// nothing allocated.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// c = alpha * op(a) * op(b) + beta * c, row-major, as BLAS has it.
template <class T>
struct Gemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;
  /// Rows of the product this is a part of (0 = m): the order of summation depends on it, and on
  /// nothing else that partition changes.
  int64_t all_rows = 0;
  /// Of gemm_room(), aligned to 64; none = slower where there could be some.
  T* room = nullptr;
  int64_t room_elements = 0;
};

using Sgemm = Gemm<float>;

/// Never fails. `isa`: at most the host's.
template <class T>
void own_gemm(const Gemm<T>& p, Isa isa = cpu_info().isa);
/// Elements that make m x n results over k terms faster: where the right side is copied to.
template <class T>
int64_t gemm_room(int64_t m, int64_t n, int64_t k, Isa isa = cpu_info().isa);

/// Whether so narrow rows are multiplied several at once, where those of the left side and of the
/// result lie without gaps.
template <class T>
bool gemm_narrow(int64_t m, int64_t n, int64_t k, Isa isa = cpu_info().isa);

}  // namespace xc::cpu

#pragma once
// Products without a primitive. f32: an own product where it is the faster one, else the library's
// sgemm, which the own one stands in for until the library has generated its code. f64: the own
// one.

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
};

using Sgemm = Gemm<float>;

/// Who computes a product. `provisional`: the own one for the time being.
struct SgemmChoice {
  bool own = false;
  bool provisional = false;
};
/// For products of m x n results over k terms, of so many flops in a step together. `steady`: its
/// bits must never change, or there is time.
SgemmChoice choose_sgemm(int64_t m, int64_t n, int64_t k, bool steady, double step_flops);

/// By the library. The caller holds a OneThread. Fails with kOutOfMemory or kInternal.
void library_sgemm(const Sgemm& p);
/// By an own kernel; never fails. `isa`: at most the host's.
template <class T>
void own_gemm(const Gemm<T>& p, Isa isa = cpu_info().isa);

/// What the library generates at the first call of a process: for products with a vector 2.5 ms,
/// for others ten times that.
enum class SgemmCode : uint8_t { kVector, kMatrix };
SgemmCode sgemm_code(int64_t m, int64_t n);
bool sgemm_is_warm(SgemmCode code);
/// Has it generated. Thread-safe.
void warm_sgemm(SgemmCode code);

}  // namespace xc::cpu

#pragma once
// f32 products without a primitive: the library's sgemm, or an own product while the library has
// not generated its code yet.

#include <cstdint>

namespace xc::cpu {

/// c = alpha * op(a) * op(b) + beta * c, row-major, as BLAS has it.
struct Sgemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m, n, k;
  float alpha;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta;
  float* c;
  int64_t ldc;
};

/// By the library. The caller holds a OneThread. Fails with kOutOfMemory or kInternal.
void library_sgemm(const Sgemm& p);
/// By an own kernel, at half the speed; never fails.
void own_sgemm(const Sgemm& p);
/// Should a step of so many flops, bound now, get by with the own product? Such a bound kernel is
/// provisional. `steady`: its bits must never change, or there is time.
bool gets_by_with_own(bool steady, double flops);

/// Has the library generated the code of its sgemm in this process? Its first call takes 30 ms.
bool sgemm_is_warm();
/// Makes it so. Thread-safe.
void warm_sgemm();

}  // namespace xc::cpu

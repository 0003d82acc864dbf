#pragma once
// Reductions, softmax and normalisations over dense rows, one table per instruction set.
//
// Reductions follow the canonical order of loop/kernel.h: 64 partial results, element t of a row
// goes to partial t mod 64, then a fixed tree. So they agree bit for bit with kernels compiled at
// run time.

#include <cstdint>

#include "base/cpu_info.h"
#include "tensor/dtype.h"

namespace xc::cpu {

enum class Fold : uint8_t { kSum, kSumSquares, kSumAbs, kProd, kMax, kMin };
inline constexpr int kPartials = 64;

struct FoldFns {
  /// Sets 64 partials, or n accumulators, to the identity.
  void (*start)(void* partials, int64_t n);
  /// partials[t mod 64] = op(partials[...], x[r * stride + t]) for rows r in turn.
  void (*rows)(const void* x, int64_t rows, int64_t stride, int64_t n, void* partials);
  /// *result = op(init, tree of the 64 partials).
  void (*finish)(const void* partials, void* result);
  /// results[r] = the three above for row r alone, without leaving the registers.
  void (*each)(const void* x, int64_t rows, int64_t stride, int64_t n, void* results);
  /// acc[i] = op(acc[i], x[r * stride + i]) for rows r in turn: a reduction over the outer axis.
  /// `first`: of init where that says acc[i], which may hold anything.
  void (*columns)(const void* x, int64_t rows, int64_t stride, int64_t n, void* acc, bool first);
};
/// Null entries when there is none for the type.
FoldFns fold_fns(Fold fold, DType type, Isa isa);

struct NormArgs {
  const float* x;
  float* y;
  int64_t rows, n;
  int64_t x_stride, y_stride;      ///< between rows, in elements
  int64_t x_step = 1, y_step = 1;  ///< softmax: between elements of a row; not 1 where rows lie
                                   ///< side by side (both strides 1)
  const float* scale = nullptr;    ///< null = 1
  const float* bias = nullptr;     ///< null = 0
  int64_t affine_step = 1;         ///< of scale and bias: 1 = per element, 0 = one per call
  float epsilon = 0;
  float* mean = nullptr;  ///< per row, when wanted
  float* inverse = nullptr;
};
struct RowFns {
  void (*softmax)(const NormArgs&);
  void (*log_softmax)(const NormArgs&);
  void (*layer_norm)(const NormArgs&);  ///< (x - mean) / sqrt(variance + epsilon) * scale + bias
  void (*rms_norm)(const NormArgs&);    ///< x / sqrt(mean of squares + epsilon) * scale
  void (*scale)(float* y, int64_t n, float factor, float shift);  ///< y = y * factor + shift
};
const RowFns& row_fns(Isa isa);

namespace baseline {
FoldFns fold_fns(Fold fold, DType type);
const RowFns& row_fns();
}  // namespace baseline
namespace avx2 {
FoldFns fold_fns(Fold fold, DType type);
const RowFns& row_fns();
}  // namespace avx2
namespace avx512 {
FoldFns fold_fns(Fold fold, DType type);
const RowFns& row_fns();
}  // namespace avx512

}  // namespace xc::cpu

#pragma once
// Sums over the features of a row and of each column of a table: products and squared distances.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Columns of a table come in groups of so many.
inline constexpr int64_t kDistanceGroup = 128;

struct DistanceFns {
  /// out[k] = sum of x[f] * table[f * columns + k]; `columns` is a multiple of kDistanceGroup.
  void (*products)(const float* x, const float* table, int64_t features, int64_t columns,
                   float* out);
  /// out[k] = sum of (x[f] - table[f * columns + k])^2
  void (*squares)(const float* x, const float* table, int64_t features, int64_t columns,
                  float* out);
  /// x[k] = e^(scale x[k])
  void (*exponentials)(float* x, int64_t columns, float scale);
  /// x[k] = tanh(scale x[k] + shift)
  void (*tangents)(float* x, int64_t columns, float scale, float shift);
  /// x[k] = (scale x[k] + shift)^degree, degree >= 0
  void (*powers)(float* x, int64_t columns, float scale, float shift, int degree);
};
const DistanceFns& distance_fns(Isa isa);

namespace baseline {
const DistanceFns& distance_fns();
}
namespace avx2 {
const DistanceFns& distance_fns();
}
namespace avx512 {
const DistanceFns& distance_fns();
}

}  // namespace xc::cpu

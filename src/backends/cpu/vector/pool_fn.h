#pragma once
// One pixel of a pooling window over channels that are adjacent in memory.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

struct PoolFns {
  /// y[c] = the largest of x[taps[k] + c] (NaN wins); taps in elements.
  void (*max)(const float* x, const int64_t* taps, int64_t count, float* y, int64_t channels);
  /// y[c] = sum of x[taps[k] + c] / divisor.
  void (*average)(const float* x, const int64_t* taps, int64_t count, float divisor, float* y,
                  int64_t channels);
};
const PoolFns& pool_fns(Isa isa);

namespace baseline {
const PoolFns& pool_fns();
}
namespace avx2 {
const PoolFns& pool_fns();
}
namespace avx512 {
const PoolFns& pool_fns();
}

}  // namespace xc::cpu

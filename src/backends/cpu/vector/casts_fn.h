#pragma once
// Inner loops of conversions between element types, one table per instruction set.

#include "backends/cpu/vector/elementwise_fn.h"

namespace xc::cpu {

/// Conversion between any two numeric or bool types, f16 and bf16 included.
/// Floats to integers saturate; NaN gives 0.
ElementwiseFn cast_fn(DType from, DType to, Isa isa);
/// Whether `type`, f16 or bf16, holds each of the values as it is.
bool holds_exactly(DType type, const float* values, int64_t count);

// Per level, null where the level has nothing better than the one below.
namespace baseline {
ElementwiseFn cast_fn(DType from, DType to);
}
namespace avx2 {
ElementwiseFn cast_fn(DType from, DType to);
}
namespace avx512 {
ElementwiseFn cast_fn(DType from, DType to);
}

}  // namespace xc::cpu

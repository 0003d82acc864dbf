#pragma once
// Row-major results of references: contractions, windows and norms compute on dense doubles (every
// f32, f16, bf16 and 32-bit integer exactly) read by double_values() of support.h.

#include <vector>

#include "ops/op.h"

namespace xc {

/// Rounds (floats) or saturates (integers) to the view's type. Nothing happens for an absent view.
void write_dense(const TensorView& view, const std::vector<double>& values);
/// As above from integers, without going through double.
void write_ints(const TensorView& view, const std::vector<int64_t>& values);

/// Row-major numbers of any type: one per element, or two of a complex one, its real and imaginary
/// part.
std::vector<double> read_parts(const TensorView& view);
/// As write_dense(), from what read_parts() gives.
void write_parts(const TensorView& view, const std::vector<double>& parts);

/// Integers modulo 2^64, any width; writing keeps the low bits.
std::vector<uint64_t> read_wrapped(const TensorView& view);
void write_wrapped(const TensorView& view, const std::vector<uint64_t>& values);

/// Dims of a view as an owning vector.
inline Dims dims_of(const TensorView& view) {
  return Dims(view.dims.begin(), view.dims.end());
}

}  // namespace xc

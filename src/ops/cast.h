// Conversion of elements between any two types.
#pragma once

#include "tensor/tensor.h"

namespace xc {

struct CastOptions {
  /// 8-bit floats, out of range: the largest finite value, else NaN or infinity.
  bool saturate = true;
  /// E8M0, between two powers of two.
  enum class Round { kUp, kDown, kNearest } round = Round::kUp;
};

/// Converts element for element (equal dims, any strides). Floats to integers truncate towards zero
/// and saturate (4- and 2-bit integers keep the low bits); integers to narrower integers wrap; to
/// bool is x != 0; strings are parsed and printed.
void cast_elements(const TensorView& from, const TensorView& to, const CastOptions& options = {});

}  // namespace xc

// Conversion of elements between any two types.
#pragma once

#include "tensor/tensor.h"

namespace xc {

/// Converts element for element (equal dims, any strides). Floats to integers truncate towards zero
/// and saturate; integers to narrower integers wrap; to bool is x != 0; strings are parsed and
/// printed. `saturate` is for 8-bit floats: out of range gives the largest finite value, else NaN
/// or infinity.
void cast_elements(const TensorView& from, const TensorView& to, bool saturate);

}  // namespace xc

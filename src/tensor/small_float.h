#pragma once
// The 8-bit and 4-bit float formats of the standard, one element per byte: E4M3FN, E4M3FNUZ, E5M2,
// E5M2FNUZ (sign, exponent, mantissa), E2M1 (in the low four bits) and E8M0 (a power of two).
// "FN" has no infinities; "UZ" has no negative zero, its code is the NaN.

#include <cstdint>

#include "tensor/dtype.h"

namespace xc {

bool is_small_float(DType type);

double small_float_value(DType type, uint8_t code);

/// Rounds to nearest even. Out of range: `saturate` gives the largest finite value, else infinity
/// or, where there is none, NaN; E2M1 always saturates. E8M0 takes the nearest power of two (the
/// greater of two equally near), zero its smallest, negative values NaN.
uint8_t small_float_code(DType type, double value, bool saturate = true);

}  // namespace xc

#pragma once
// The 8-, 6- and 4-bit float formats of the standard, one element per byte: E4M3FN, E4M3FNUZ, E5M2,
// E5M2FNUZ (sign, exponent, mantissa), E2M3 and E3M2 (in the low six bits), E2M1 (in the low four)
// and E8M0 (a power of two). E2M3, E3M2 and E2M1 have neither infinities nor NaN.
// "FN" has no infinities; "UZ" has no negative zero, its code is the NaN.

#include <cstdint>

#include "tensor/dtype.h"

namespace xc {

bool is_small_float(DType type);

double small_float_value(DType type, uint8_t code);

/// Rounds to nearest even. Out of range: `saturate` gives the largest finite value, else infinity
/// or, where there is none, NaN; 6- and 4-bit floats always saturate, and NaN becomes their zero.
/// E8M0 takes the nearest power of two (the greater of two equally near), NaN for negative values,
/// and out of range (as zero is) the nearest power it has, or NaN unless saturated.
uint8_t small_float_code(DType type, double value, bool saturate = true);

}  // namespace xc

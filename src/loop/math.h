// Elementary functions as loop IR: exp(x) is rewritten into fixed polynomials over add, mul, fma,
// select, bitcast. One definition serves the interpreter and every target.
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

// kFma: uses fma (AVX2, AVX-512, GPU, AArch64: same bits on all of them). kMulAdd: the baseline
// without fma instructions, where fma(a, b, c) is a * b + c, rounded twice: the functions differ
// from kFma by a few ULP, within their bounds.
enum class MathLevel : uint8_t { kFma, kMulAdd };

// Stated maximum error in ULP of the result's type, over all inputs (denormal results included).
struct MathBound {
  Op op;
  double f32_ulp, f64_ulp;
};
std::span<const MathBound> math_bounds();

// Rewrites every math operation of the kernel, and fma and dot products for kMulAdd.
Kernel expand_math(Kernel kernel, MathLevel level);
// The expansion of one math node (its arguments are left as they are).
Expr expand_math_node(const Expr& e, MathLevel level);

}  // namespace xc::loop

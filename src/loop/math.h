// Elementary functions as loop IR: exp(x) is rewritten into fixed polynomials over add, mul, fma,
// select, bitcast. One definition serves the interpreter and every target.
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

// kFma: uses fma (AVX2, AVX-512, GPU, AArch64: same bits on all of them). kMulAdd: the baseline
// without fma instructions, where fma(a, b, c) is a * b + c, rounded twice: the functions differ
// from kFma by a few ULP, within their bounds. kFmaMasked: kFma where instructions take masks
// (AVX-512): what a select drops costs nothing there, denormals included. Same bits.
enum class MathLevel : uint8_t { kFma, kMulAdd, kFmaMasked };
constexpr bool uses_fma(MathLevel level) {
  return level != MathLevel::kMulAdd;
}

// Stated maximum error of a function in ULP of the result's type, over all inputs (denormal results
// included), per tier of accuracy (Kernel::accuracy). 4096 ULP of f32 are at most 2^-11 of the
// value. kStrict computes f32 in f64 and rounds once more. f64 has one tier: there is no wider
// type. Of pow the f32 bounds of kDefault and kFast are those of the constant exponents 3, 4 and
// -0.5, which round in f32; any other has 1. sin and cos of f64: for |x| < 2^20.
struct MathBound {
  Op op;
  double f32_ulp, f64_ulp;  // kDefault
  double f32_strict_ulp;    // kStrict
  double f32_fast_ulp;      // kFast; as kDefault where fewer terms would save nothing

  double f32(Accuracy accuracy) const {
    return accuracy == Accuracy::kStrict ? f32_strict_ulp
           : accuracy == Accuracy::kFast ? f32_fast_ulp
                                         : f32_ulp;
  }
};
std::span<const MathBound> math_bounds();

// The least argument of exp whose result is a normal number of the type, f32 or f64: exp_normal is
// 0 below.
constexpr double least_normal_power(DType type) {
  return type == DType::kF64 ? -0x1.6232bdd7abcd1p+9 : -0x1.5d589ep+6;
}

// Below, one_plus_erf is 0: 1 + erf(x) would have no digit, and a factor could magnify its
// rounding.
constexpr double least_one_plus_erf(DType type) {
  return type == DType::kF64 ? -6 : -4;
}

// Rewrites every math operation of the kernel in its tier, and fma and dot products for kMulAdd.
Kernel expand_math(Kernel kernel, MathLevel level);
// The expansion of one math node (its arguments are left as they are).
Expr expand_math_node(const Expr& e, MathLevel level, Accuracy accuracy = Accuracy::kDefault);

}  // namespace xc::loop

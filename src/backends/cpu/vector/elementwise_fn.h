#pragma once
// Inner loops of elementwise functions, one table per instruction set. The scalar meaning of each
// is its row in src/ops; strided operands, broadcasting and half types are the caller's work.

#include "base/cpu_info.h"
#include "tensor/dtype.h"

namespace xc::cpu {

enum class Fn : uint8_t {
  // one operand
  kCopy,
  kNeg,
  kAbs,
  kSign,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  kSqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kAsin,
  kAcos,
  kAtan,
  kAsinh,
  kAcosh,
  kAtanh,
  kRelu,
  kLeakyRelu,
  kHardSigmoid,
  kHardSwish,
  kGelu,
  kGeluTanh,
  kSwish,
  kElu,
  kSoftplus,
  kNot,
  kBitwiseNot,
  kIsNan,
  kIsInf,
  // two operands
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kMod,
  kFmod,
  kPow,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
  kPRelu,
  // three operands
  kFma,
  kClip,   ///< x, low, high: the bounds are one value for all
  kWhere,  ///< condition, then two operands of the type asked for
};

struct ElementwiseArgs {
  const void* in[3];
  int64_t step[3];  ///< in elements: 1 = dense, 0 = one value for all
  void* out;        ///< dense
  int64_t n;
  const float* params;  ///< of the function (alpha, beta, ...)
};
using ElementwiseFn = void (*)(const ElementwiseArgs&);

/// The loop for operands of type `in` (for kWhere: of its second and third); null when there is
/// none.
ElementwiseFn elementwise_fn(Fn fn, DType in, Isa isa);

// Per level, null where the level has nothing better than the one below.
namespace baseline {
ElementwiseFn elementwise_fn(Fn fn, DType in);
}  // namespace baseline
namespace avx2 {
ElementwiseFn elementwise_fn(Fn fn, DType in);
}  // namespace avx2
namespace avx512 {
ElementwiseFn elementwise_fn(Fn fn, DType in);
}  // namespace avx512

}  // namespace xc::cpu

// Integers: division, and conversions from and to floats. Of vectors x86 divides floats only, and
// before AVX-512 it converts to 32 bits only; LLVM writes scalar code for each lane instead.
#include <llvm/Analysis/VectorUtils.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

llvm::Constant* number(const Value* like, double x) {
  return llvm::ConstantFP::get(like->getType(), x);
}

llvm::Constant* bits(const Value* like, uint64_t x) {
  return llvm::ConstantInt::get(like->getType(), x);
}

uint64_t bits_of(double x) {
  return std::bit_cast<uint64_t>(x);
}

}  // namespace

// --- division ---

// a / number of scalars, rounded towards zero. By a power of two: FastISel would divide.
Value* Emitter::quotient(Value* a, int64_t number) {
  auto* const type = a->getType();
  if (number <= 1 || !std::has_single_bit(static_cast<uint64_t>(number)))
    return b_.CreateSDiv(a, llvm::ConstantInt::getSigned(type, number));
  const unsigned width = type->getScalarSizeInBits();
  const auto bits = static_cast<unsigned>(std::countr_zero(static_cast<uint64_t>(number)));
  Value* const up = b_.CreateLShr(b_.CreateAShr(a, width - 1), width - bits);  // where negative
  return b_.CreateAShr(b_.CreateAdd(a, up), bits);
}

// The hardware instruction traps on a zero divisor and on the overflow MIN / -1: both divide by 1
// instead.
Value* Emitter::divide(Op op, bool is_signed, Value* a, Value* b) {
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(b);
      number && is_signed && op == Op::kDiv && number->getValue().isStrictlyPositive())
    return quotient(a, number->getSExtValue());
  const unsigned width = a->getType()->getScalarSizeInBits();
  const auto* const constant = llvm::dyn_cast<llvm::Constant>(b);
  llvm::Constant* const same = constant ? constant->getSplatValue() : nullptr;
  if (a->getType()->isVectorTy() && width == 64 && target_.family == Family::kX86 &&
      !(same && same->getUniqueInteger().isPowerOf2())) {
    if (target_.masked_all) return divide_wide(op, is_signed, a, b);
    if (same)
      return lane_by_lane({a}, a->getType(),
                          [&](auto lane) { return divide(op, is_signed, lane[0], same); });
    return lane_by_lane({a, b}, a->getType(),
                        [&](auto lane) { return divide(op, is_signed, lane[0], lane[1]); });
  }
  // By constants LLVM multiplies.
  const bool in_lanes = a->getType()->isVectorTy() && !constant;
  llvm::Type* const type = a->getType();
  const bool narrow = in_lanes && width < 32;
  if (narrow) {
    llvm::Type* const wide = type->getWithNewBitWidth(32);
    a = is_signed ? b_.CreateSExt(a, wide) : b_.CreateZExt(a, wide);
    b = is_signed ? b_.CreateSExt(b, wide) : b_.CreateZExt(b, wide);
  }
  Value* zero = same_shape(0, a);
  Value* by_zero = b_.CreateICmpEQ(b, zero);
  // No masks are combined: AVX2 packs those into bytes first.
  Value* const one = same_shape(1, a);
  Value* divisor = b_.CreateSelect(by_zero, one, b);
  if (is_signed && !narrow) {
    Value* lowest = llvm::ConstantInt::get(a->getType(), llvm::APInt::getSignedMinValue(width));
    Value* const unless_minus_one =
        b_.CreateSelect(b_.CreateICmpEQ(b, same_shape(-1, a)), one, divisor);
    divisor = b_.CreateSelect(b_.CreateICmpEQ(a, lowest), unless_minus_one, divisor);
  }
  Value* out = nullptr;
  if (in_lanes && width <= 32) {
    out = quotient_of_floats(is_signed, a, divisor, narrow);
    if (op != Op::kDiv) out = b_.CreateSub(a, b_.CreateMul(out, divisor));
  } else if (op == Op::kDiv) {
    out = is_signed ? b_.CreateSDiv(a, divisor) : b_.CreateUDiv(a, divisor);
  } else {
    out = is_signed ? b_.CreateSRem(a, divisor) : b_.CreateURem(a, divisor);
  }
  if (op == Op::kDiv)
    out = b_.CreateSelect(by_zero, zero, out);
  else if (op == Op::kMod && is_signed)
    out = with_sign_of(b, out);
  return narrow ? b_.CreateTrunc(out, type) : out;
}

// The modulo that a rest of truncating division by b stands for: it has the sign of b.
Value* Emitter::with_sign_of(Value* b, Value* rest) {
  Value* const differs =
      b_.CreateAShr(b_.CreateXor(rest, b), b->getType()->getScalarSizeInBits() - 1);
  return b_.CreateSelect(b_.CreateICmpNE(rest, same_shape(0, b)),
                         b_.CreateAdd(rest, b_.CreateAnd(differs, b)), rest);
}

// a / b of i32, which float holds when they are `narrow`, of 16 bits. Exact: a quotient between
// whole numbers is a |a|-th of itself away from these at least, and a rounding is less than that.
Value* Emitter::quotient_of_floats(bool is_signed, Value* a, Value* b, bool narrow) {
  llvm::Type* const real =
      a->getType()->getWithNewType(narrow ? b_.getFloatTy() : b_.getDoubleTy());
  if (is_signed || narrow)
    return b_.CreateFPToSI(b_.CreateFDiv(b_.CreateSIToFP(a, real), b_.CreateSIToFP(b, real)),
                           a->getType());
  return b_.CreateFPToUI(b_.CreateFDiv(b_.CreateUIToFP(a, real), b_.CreateUIToFP(b, real)),
                         a->getType());
}

// Magnitudes n / d of 64 bits in two steps of as many digits as f64 has. The reciprocal is larger
// than 1 / d by more than its and its factors' roundings, so that the first quotient is n / d at
// least and the rest of it below d, and no less than -2^16: both fit i64. The second quotient is
// rounded down from a little above, and one too large at most. Divisors from 2^63 on, of unsigned
// numbers, are contained once or not at all.
Value* Emitter::divide_wide(Op op, bool is_signed, Value* a, Value* b) {
  llvm::Type* const real = a->getType()->getWithNewType(b_.getDoubleTy());
  Value* const zero = bits(a, 0);
  const auto magnitude = [&](Value* v) {
    return is_signed ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v, b_.getFalse()) : v;
  };
  const auto sign = [&](Value* v) { return b_.CreateAShr(v, 63); };  // all bits of it
  const auto times_sign = [&](Value* v, Value* of) {
    return b_.CreateSub(b_.CreateXor(v, sign(of)), sign(of));
  };
  Value* const by_zero = b_.CreateICmpEQ(b, zero);
  Value* const n = magnitude(a);
  Value* const d = b_.CreateSelect(by_zero, bits(a, 1), magnitude(b));
  Value* const divisor = b_.CreateUIToFP(d, real);
  Value* const reciprocal = b_.CreateFDiv(number(divisor, 1 + 0x1p-50), divisor);

  Value* first = b_.CreateFMul(b_.CreateUIToFP(n, real), reciprocal);
  if (!is_signed) {  // 2^64 at most
    Value* const most = number(first, 0x1.fffffffffffffp63);
    first = b_.CreateSelect(b_.CreateFCmpOLT(first, most), first, most);
  }
  Value* quotient = b_.CreateFPToUI(first, a->getType());
  Value* rest = b_.CreateSub(n, b_.CreateMul(quotient, d));
  // 2^52 and a half rounds to the next whole number, and has it in the low bits.
  Value* second = b_.CreateFMul(b_.CreateSIToFP(rest, real), reciprocal);
  second =
      b_.CreateFAdd(b_.CreateFAdd(second, number(second, 0x1p-20 - 0.5)), number(second, 0x1.8p52));
  second = b_.CreateSub(b_.CreateBitCast(second, a->getType()), bits(a, bits_of(0x1.8p52)));
  rest = b_.CreateSub(rest, b_.CreateMul(second, d));

  const auto unless_large = [&](Value* v, const std::function<Value*(Value*)>& of_large) {
    if (is_signed) return v;
    Value* const once = b_.CreateAnd(b_.CreateICmpSLT(n, zero), b_.CreateICmpSGE(n, d));
    return b_.CreateSelect(b_.CreateICmpSLT(d, zero), of_large(once), v);
  };
  if (op == Op::kDiv) {
    quotient = b_.CreateAdd(b_.CreateAdd(quotient, second), sign(rest));
    quotient =
        unless_large(quotient, [&](Value* once) { return b_.CreateZExt(once, a->getType()); });
    if (is_signed) quotient = times_sign(quotient, b_.CreateXor(a, b));
    return b_.CreateSelect(b_.CreateICmpNE(b, zero), quotient, zero);
  }
  rest = b_.CreateAdd(rest, b_.CreateAnd(sign(rest), d));
  rest = unless_large(rest,
                      [&](Value* once) { return b_.CreateSub(n, b_.CreateSelect(once, d, zero)); });
  if (!is_signed) return rest;
  rest = times_sign(rest, a);
  return op == Op::kMod ? with_sign_of(b, rest) : rest;
}

// --- conversions ---

Value* Emitter::convert(DType to, DType from, Value* v) {
  llvm::Type* type = v->getType()->getWithNewType(type_of(to, false));
  if (to == DType::kBool)
    return is_float(from) ? b_.CreateFCmpUNE(v, same_shape(0, v))
                          : b_.CreateICmpNE(v, same_shape(0, v));
  if (is_float(from) && is_float(to)) return b_.CreateFPCast(v, type);
  if (is_float(from)) return saturated(to, v);
  // u64 becomes f64 by a few instructions that LLVM knows.
  if (is_float(to) && is_slow_wide(v) && (is_signed(from) || to == DType::kF32))
    return lane_by_lane({v}, type, [&](auto lane) { return convert(to, from, lane[0]); });
  if (is_float(to)) return is_signed(from) ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
  return is_signed(from) ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
}

// Whether `v` is a vector of integers of 64 bits, which become floats by one instruction with
// AVX-512 only.
bool Emitter::is_slow_wide(const Value* v) const {
  return v->getType()->isVectorTy() && target_.family == Family::kX86 && !target_.masked_all &&
         v->getType()->getScalarSizeInBits() == 64;
}

Value* Emitter::in_range(DType to, Value* v) {
  llvm::Type* const type = v->getType()->getWithNewType(type_of(to, false));
  if (to == DType::kU32) return b_.CreateFPToUI(v, type);
  return b_.CreateTrunc(b_.CreateFPToSI(v, type->getWithNewBitWidth(32)), type);
}

// The bounds, 0 for NaN.
Value* Emitter::saturated(DType to, Value* v) {
  const unsigned width = info(to).bits;
  llvm::Type* const type = v->getType()->getWithNewType(type_of(to, false));
  const bool in_lanes = v->getType()->isVectorTy() && target_.family == Family::kX86;
  const bool from_f64 = v->getType()->getScalarType()->isDoubleTy();
  if (width < 32 || (width == 32 && from_f64 && in_lanes)) {
    // As floats, which hold these bounds.
    const KnownRange range = known_range(to);
    v = b_.CreateSelect(b_.CreateFCmpUNO(v, v), number(v, 0), v);
    v = b_.CreateSelect(b_.CreateFCmpOGT(v, number(v, range.low)), v, number(v, range.low));
    v = b_.CreateSelect(b_.CreateFCmpOLT(v, number(v, range.high)), v, number(v, range.high));
    return in_range(to, v);
  }
  if (!in_lanes)
    return b_.CreateIntrinsic(
        is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
        {type, v->getType()}, {v});
  if (width == 64 && !target_.masked_all)
    return lane_by_lane({v}, type, [&](auto lane) { return saturated(to, lane[0]); });
  // LLVM takes vectors apart for its intrinsic.
  Value* const too_large = number(v, std::ldexp(1, static_cast<int>(width - is_signed(to))));
  Value* const low = number(v, is_signed(to) ? -std::ldexp(1, static_cast<int>(width - 1)) : 0);
  if (is_signed(to)) v = b_.CreateSelect(b_.CreateFCmpORD(v, v), v, number(v, 0));
  v = b_.CreateSelect(b_.CreateFCmpOGT(v, low), v, low);  // 0, the unsigned one, for NaN
  // What is too large converts to anything, but to the same for all that read it.
  Value* const out =
      b_.CreateFreeze(is_signed(to) ? b_.CreateFPToSI(v, type) : b_.CreateFPToUI(v, type));
  const llvm::APInt most =
      is_signed(to) ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width);
  return b_.CreateSelect(b_.CreateFCmpOGE(v, too_large), llvm::ConstantInt::get(type, most), out);
}

// `of` lanes of vectors, by a loop: a tenth of the code that LLVM writes for each lane.
Value* Emitter::lane_by_lane(llvm::ArrayRef<Value*> operands, llvm::Type* result,
                             const std::function<Value*(llvm::ArrayRef<Value*>)>& of) {
  constexpr unsigned kTogether = 16;
  constexpr size_t kBytes = kTogether * sizeof(int64_t);
  const llvm::Align alignment(64);  // of dummy_
  XC_CHECK((operands.size() + 1) * kBytes <= kWidestAccess);
  const unsigned count = llvm::cast<llvm::FixedVectorType>(result)->getNumElements();
  const unsigned lanes = std::min(count, kTogether);
  llvm::Type* const element = result->getScalarType();
  // Over the first operand, where a lane of it takes as much.
  const bool same_size =
      element->getScalarSizeInBits() == operands[0]->getType()->getScalarSizeInBits();
  const size_t out = same_size ? 0 : operands.size();
  const auto memory = [&](size_t operand) {
    return b_.CreateGEP(b_.getInt8Ty(), dummy_, integer(static_cast<int64_t>(operand * kBytes)));
  };
  const auto at = [&](llvm::Type* type, size_t operand, Value* k) {
    return b_.CreateGEP(type, memory(operand), k);
  };
  llvm::SmallVector<Value*, 4> parts;
  for (unsigned first = 0; first < count; first += lanes) {
    const auto part = llvm::createSequentialMask(first, lanes, 0);
    for (size_t o = 0; o < operands.size(); ++o)
      b_.CreateAlignedStore(b_.CreateShuffleVector(operands[o], part), memory(o), alignment);
    counted_loop(integer(0), integer(lanes), integer(1), {}, [&](Value* k) {
      llvm::SmallVector<Value*, 2> scalars;
      for (size_t o = 0; o < operands.size(); ++o) {
        llvm::Type* const type = operands[o]->getType()->getScalarType();
        scalars.push_back(b_.CreateLoad(type, at(type, o, k)));
      }
      b_.CreateStore(of(scalars), at(element, out, k));
    });
    parts.push_back(
        b_.CreateAlignedLoad(llvm::FixedVectorType::get(element, lanes), memory(out), alignment));
  }
  return llvm::concatenateVectors(b_, parts);
}

}  // namespace xc::codegen

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;
using Intrinsic = llvm::Intrinsic::ID;

// --- types and shapes ---

llvm::Type* Emitter::type_of(DType type, bool vec) const {
  llvm::Type* scalar = nullptr;
  switch (type) {
    case DType::kF32:
      scalar = llvm::Type::getFloatTy(context_);
      break;
    case DType::kF64:
      scalar = llvm::Type::getDoubleTy(context_);
      break;
    case DType::kBool:
      scalar = llvm::Type::getInt1Ty(context_);
      break;
    default:
      scalar = llvm::Type::getIntNTy(context_, info(type).bits);
  }
  return vec ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(vector_->lanes)) : scalar;
}

llvm::Constant* Emitter::constant(DType type, uint64_t bits, bool vec) const {
  llvm::Type* to = type_of(type, vec);
  if (!is_float(type)) return llvm::ConstantInt::get(to, bits);
  llvm::Type* scalar = to->getScalarType();
  const unsigned width = type == DType::kF32 ? 32 : 64;
  return llvm::ConstantFP::get(to,
                               llvm::APFloat(scalar->getFltSemantics(), llvm::APInt(width, bits)));
}

Value* Emitter::same_shape(double number, Value* like) {
  llvm::Type* type = like->getType();
  if (type->isFPOrFPVectorTy()) return llvm::ConstantFP::get(type, number);
  return llvm::ConstantInt::getSigned(type, static_cast<int64_t>(number));
}

Value* Emitter::iota() {
  llvm::SmallVector<llvm::Constant*, 64> lanes;
  for (int l = 0; l < vector_->lanes; ++l) lanes.push_back(b_.getInt64(static_cast<uint64_t>(l)));
  return llvm::ConstantVector::get(lanes);
}

Value* Emitter::uniform(const Val& v) {
  XC_CHECK(!v.vec);
  return v.v;
}

Value* Emitter::vector(const Val& v) {
  if (v.vec) return v.v;
  const auto lanes = static_cast<unsigned>(vector_->lanes);
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(v.v))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), constant);
  // What was computed in front of the loop is widened there as well.
  auto found = vector_->splats.find(v.v);
  if (found == vector_->splats.end()) return b_.CreateVectorSplat(lanes, v.v);
  if (!found->second) found->second = hoist([&] { return b_.CreateVectorSplat(lanes, v.v); });
  return found->second;
}

Val Emitter::both(Value* a, Value* b) {
  if (!a || !b) {
    Value* one = a ? a : b;
    return {one, one && one->getType()->isVectorTy()};
  }
  const bool vec = a->getType()->isVectorTy() || b->getType()->isVectorTy();
  const auto widen = [&](Value* v) {
    return vec && !v->getType()->isVectorTy()
               ? b_.CreateVectorSplat(static_cast<unsigned>(vector_->lanes), v)
               : v;
  };
  return {b_.CreateAnd(widen(a), widen(b)), vec};
}

// --- hoisting ---

bool Emitter::is_invariant(const Expr& e) {
  if (auto known = vector_->invariant.find(e.get()); known != vector_->invariant.end())
    return known->second;
  const Node& node = *e;
  bool out = true;
  switch (node.op) {
    case Op::kReg:
      out = !vector_->regs.contains(node.id);
      break;
    case Op::kAccValue:
    case Op::kAccIndex:
      out = !vector_->accs.contains(node.id);
      break;
    case Op::kLoopVar:
      out = !vector_->vars.contains(node.id);
      break;
    case Op::kLoad:
      out = !vector_->stored.contains(node.id);
      for (const Index& index : node.indices)
        for (const Affine::Term& term : index.affine.terms())
          out &= term.is_dim || !vector_->vars.contains(term.id);
      break;
    default:
      break;
  }
  for (const Expr& arg : node.args) out = out && is_invariant(arg);
  for (const Index& index : node.indices)
    out = out && (index.is_affine() || (is_invariant(index.checked) && is_invariant(index.extent)));
  out = out && (!node.guard || is_invariant(node.guard));
  vector_->invariant.emplace(e.get(), out);
  return out;
}

Value* Emitter::hoist(const std::function<Value*()>& emit) {
  VectorLoop* loop = vector_;
  const auto here = b_.saveIP();
  b_.SetInsertPoint(loop->front->GetInsertBlock());
  Value* out = emit();
  loop->front->SetInsertPoint(b_.GetInsertBlock());
  b_.restoreIP(here);
  return out;
}

// --- expressions ---

Val Emitter::value(const Expr& e) {
  if (is_const(e)) return {constant(e.type(), e->bits, false), false};
  if (vector_) {
    if (auto found = vector_->hoisted.find(e.get()); found != vector_->hoisted.end())
      return found->second;
    // Loads stay inside inner loops, which may not run at all.
    if (is_invariant(e) && (vector_->nesting == 0 || op_info(e->op).arity == 0) &&
        (vector_->nesting == 0 || e->op != Op::kLoad)) {
      VectorLoop* loop = vector_;
      Val out;
      hoist([&] {
        vector_ = nullptr;
        std::unordered_map<const Node*, Val> outer;
        std::swap(outer, cache_);
        out = value(e);
        std::swap(outer, cache_);
        vector_ = loop;
        return out.v;
      });
      loop->hoisted.emplace(e.get(), out);
      loop->splats.try_emplace(out.v, nullptr);
      return out;
    }
  }
  if (auto found = cache_.find(e.get()); found != cache_.end()) return found->second;
  const Val out = compute(e);
  cache_.emplace(e.get(), out);
  return out;
}

Val Emitter::leaf(const Node& node) {
  switch (node.op) {
    case Op::kReg:
      return regs_[node.id];
    case Op::kAccValue:
      return accs_[node.id].result;
    case Op::kAccIndex:
      return accs_[node.id].result_index;
    case Op::kDim:
      return {dims_[node.id], false};
    case Op::kLoopVar:
      if (vector_ && vector_->loop->var.id == node.id)
        return {b_.CreateAdd(
                    b_.CreateVectorSplat(static_cast<unsigned>(vector_->lanes), vars_[node.id]),
                    iota()),
                true};
      return {vars_[node.id], false};
    default:
      fail(Status::kInternal, "code generation: leaf {}", op_info(node.op).name);
  }
}

Val Emitter::compute(const Expr& e) {
  const Node& node = *e;
  if (node.op == Op::kLoad) return load(node);
  if (node.args.empty()) return leaf(node);
  if (vector_ && node.op == Op::kLt && node.args[0]->op == Op::kLoopVar &&
      node.args[0]->id == vector_->loop->var.id)
    if (const Val limit = value(node.args[1]); !limit.vec) return {lanes_below(limit.v), true};
  llvm::SmallVector<Val, 3> args;
  bool vec = false;
  for (const Expr& arg : node.args) {
    args.push_back(value(arg));
    vec |= args.back().vec;
  }
  llvm::SmallVector<Value*, 3> operands;
  for (const Val& arg : args) operands.push_back(vec ? vector(arg) : arg.v);
  const DType operand = node.args[node.op == Op::kSelect ? 1 : 0].type();
  if (node.op == Op::kCast && is_float(operand) && element_size(node.type) <= 4 &&
      !is_float(node.type) && node.type != DType::kBool && fits(known(node.args[0]), node.type))
    return {in_range(node.type, operands[0]), vec};
  return {operation(node.op, node.type, operand, operands), vec};
}

bool Emitter::fits(const loop::KnownRange& value, DType type) {
  const loop::KnownRange range = loop::known_range(type);
  return value.number && value.low >= range.low && value.high <= range.high;
}

loop::KnownRange Emitter::known(const Expr& e) {
  return loop::known_range(e, [this](uint32_t reg) {
    std::optional<loop::KnownRange>& range = known_[reg];
    if (!range) range = lets_[reg] ? known(lets_[reg]) : loop::KnownRange{};
    return *range;
  });
}

Value* Emitter::operation(Op op, DType type, DType operand, llvm::ArrayRef<Value*> v) {
  switch (op) {
    case Op::kSelect: {
      // AVX-512 has masks of the lanes that are kept.
      auto* const compare = llvm::dyn_cast<llvm::FCmpInst>(v[0]);
      const auto* const constant = llvm::dyn_cast<llvm::Constant>(v[1]);
      if (!compare || !constant || !constant->isNullValue())
        return b_.CreateSelect(v[0], v[1], v[2]);
      Value* const kept = b_.CreateFCmp(compare->getInversePredicate(), compare->getOperand(0),
                                        compare->getOperand(1));
      return b_.CreateSelect(kept, v[2], v[1]);
    }
    case Op::kCast:
      return convert(type, operand, v[0]);
    case Op::kBitcast: {
      llvm::Type* to = type_of(type, false);
      if (auto* from = llvm::dyn_cast<llvm::FixedVectorType>(v[0]->getType()))
        to = llvm::FixedVectorType::get(to, from->getNumElements());
      return b_.CreateBitCast(v[0], to);
    }
    case Op::kMin:
      return minimum(v[0], v[1], operand, false);
    case Op::kMax:
      return minimum(v[0], v[1], operand, true);
    default:
      break;
  }
  if (is_float(operand)) return float_operation(op, v);
  return integer_operation(op, is_signed(operand), v);
}

// max(a, b) = a if a is NaN, else a > b ? a : b; the second half is one instruction on x86.
Value* Emitter::minimum(Value* a, Value* b, DType type, bool want_max) {
  if (!is_float(type)) {
    const bool is_signed_type = is_signed(type);
    Value* takes_a = want_max ? (is_signed_type ? b_.CreateICmpSGT(a, b) : b_.CreateICmpUGT(a, b))
                              : (is_signed_type ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b));
    return b_.CreateSelect(takes_a, a, b);
  }
  Value* takes_a = want_max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b);
  Value* chosen = b_.CreateSelect(takes_a, a, b);
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(a)) {
    llvm::Constant* one = constant->getType()->isVectorTy() ? constant->getSplatValue() : constant;
    if (auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(one); number && !number->isNaN())
      return chosen;
  }
  return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, chosen);
}

Value* Emitter::float_operation(Op op, llvm::ArrayRef<Value*> v) {
  const auto unary = [&](Intrinsic id) { return b_.CreateUnaryIntrinsic(id, v[0]); };
  switch (op) {
    case Op::kAdd:
      return b_.CreateFAdd(v[0], v[1]);
    case Op::kSub:
      return b_.CreateFSub(v[0], v[1]);
    case Op::kMul:
      return b_.CreateFMul(v[0], v[1]);
    case Op::kDiv:
      return b_.CreateFDiv(v[0], v[1]);
    case Op::kNeg:
      return b_.CreateFNeg(v[0]);
    case Op::kAbs:
      return unary(llvm::Intrinsic::fabs);
    case Op::kSign: {
      Value* zero = same_shape(0, v[0]);
      Value* below = b_.CreateSelect(b_.CreateFCmpOLT(v[0], zero), same_shape(-1, v[0]), zero);
      Value* sign = b_.CreateSelect(b_.CreateFCmpOGT(v[0], zero), same_shape(1, v[0]), below);
      return b_.CreateSelect(b_.CreateFCmpUNO(v[0], v[0]), v[0], sign);
    }
    case Op::kFma:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {v[0]->getType()}, {v[0], v[1], v[2]});
    case Op::kFloor:
      return unary(llvm::Intrinsic::floor);
    case Op::kCeil:
      return unary(llvm::Intrinsic::ceil);
    case Op::kRound:
      return unary(llvm::Intrinsic::roundeven);
    case Op::kTrunc:
      return unary(llvm::Intrinsic::trunc);
    case Op::kSqrt:
      return unary(llvm::Intrinsic::sqrt);
    case Op::kScale:
      return scale(v[0], v[1]);
    case Op::kIsNan:
      return b_.CreateFCmpUNO(v[0], v[0]);
    case Op::kIsInf:
      return b_.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs), same_shape(INFINITY, v[0]));
    case Op::kRoundF16:
      return half_to_float(round_to_half(v[0]));
    case Op::kRoundBf16:
      return from_memory(DType::kBF16, round_to_bf16(v[0]));
    case Op::kEq:
      return b_.CreateFCmpOEQ(v[0], v[1]);
    case Op::kNe:
      return b_.CreateFCmpUNE(v[0], v[1]);
    case Op::kLt:
      return b_.CreateFCmpOLT(v[0], v[1]);
    case Op::kLe:
      return b_.CreateFCmpOLE(v[0], v[1]);
    case Op::kGt:
      return b_.CreateFCmpOGT(v[0], v[1]);
    case Op::kGe:
      return b_.CreateFCmpOGE(v[0], v[1]);
    default:
      fail(Status::kInternal, "code generation: {} on floats", op_info(op).name);
  }
}

// a * 2^k. AVX-512 has an instruction; elsewhere two factors 2^(k/2), of which only the second
// product can round.
Value* Emitter::scale(Value* a, Value* k) {
  auto* shape = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const bool f32 = a->getType()->getScalarType()->isFloatTy();
  const unsigned lanes = f32 ? 16 : 8;
  if (target_.masked_all && shape && shape->getNumElements() % lanes == 0) {
    const auto id = f32 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                        : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
    Value* out = nullptr;
    for (unsigned first = 0; first < shape->getNumElements(); first += lanes) {
      const auto part = llvm::createSequentialMask(first, lanes, 0);
      Value* x = b_.CreateShuffleVector(a, part);
      Value* all = llvm::ConstantInt::getSigned(b_.getIntNTy(lanes), -1);
      x = b_.CreateIntrinsic(id, {}, {x, b_.CreateShuffleVector(k, part), x, all, b_.getInt32(4)});
      out = out ? concatenate(out, x) : x;
    }
    return out;
  }
  llvm::Type* bits = a->getType()->getWithNewType(f32 ? b_.getInt32Ty() : b_.getInt64Ty());
  const auto integer = [&](int64_t number) { return llvm::ConstantInt::getSigned(bits, number); };
  // Adding 1.5 * 2^mantissa leaves k in the low bits.
  llvm::Constant* magic = llvm::ConstantFP::get(a->getType(), f32 ? 0x1.8p23 : 0x1.8p52);
  Value* whole =
      b_.CreateSub(b_.CreateBitCast(b_.CreateFAdd(k, magic), bits), b_.CreateBitCast(magic, bits));
  Value* half = b_.CreateAShr(whole, integer(1));
  const auto power = [&](Value* exponent) {
    Value* biased = b_.CreateAdd(exponent, integer(f32 ? 127 : 1023));
    return b_.CreateBitCast(b_.CreateShl(biased, integer(f32 ? 23 : 52)), a->getType());
  };
  return b_.CreateFMul(b_.CreateFMul(a, power(half)), power(b_.CreateSub(whole, half)));
}

Value* Emitter::concatenate(Value* a, Value* b) {
  const auto count = [](Value* v) {
    return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
  };
  // Shuffles take operands of one type: the shorter is padded.
  llvm::SmallVector<int, 64> pad, both;
  for (unsigned l = 0; l < count(a); ++l) pad.push_back(l < count(b) ? static_cast<int>(l) : -1);
  for (unsigned l = 0; l < count(a) + count(b); ++l) both.push_back(static_cast<int>(l));
  return b_.CreateShuffleVector(a, b_.CreateShuffleVector(b, pad), both);
}

// The ptxas of CUDA 13.0 takes neg.s16 of -32768 for 32768 where the result is compared, and LLVM
// makes a neg.s16 of every other way to write it.
Value* Emitter::negate(Value* v) {
  if (!gpu() || v->getType()->getScalarSizeInBits() != 16) return b_.CreateNeg(v);
  auto* i32 = b_.getInt32Ty();
  auto* type = llvm::FunctionType::get(i32, {i32}, false);
  Value* wide = b_.CreateCall(llvm::InlineAsm::get(type, "neg.s32 $0, $1;", "=r,r", false),
                              {b_.CreateSExt(v, i32)});
  return b_.CreateTrunc(wide, v->getType());
}

Value* Emitter::integer_operation(Op op, bool is_signed, llvm::ArrayRef<Value*> v) {
  const unsigned width = v[0]->getType()->getScalarSizeInBits();
  switch (op) {
    case Op::kAdd:
      return b_.CreateAdd(v[0], v[1]);
    case Op::kSub:
      return b_.CreateSub(v[0], v[1]);
    case Op::kMul:
      return b_.CreateMul(v[0], v[1]);
    case Op::kDiv:
    case Op::kRem:
    case Op::kMod:
      return divide(op, is_signed, v[0], v[1]);
    case Op::kNeg:
      return negate(v[0]);
    case Op::kAbs:
      if (!is_signed) return v[0];
      if (gpu())
        return b_.CreateSelect(b_.CreateICmpSLT(v[0], same_shape(0, v[0])), negate(v[0]), v[0]);
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, v[0], b_.getFalse());
    case Op::kSign: {
      Value* zero = same_shape(0, v[0]);
      Value* one = same_shape(1, v[0]);
      if (!is_signed) return b_.CreateSelect(b_.CreateICmpNE(v[0], zero), one, zero);
      Value* below = b_.CreateSelect(b_.CreateICmpSLT(v[0], zero), same_shape(-1, v[0]), zero);
      return b_.CreateSelect(b_.CreateICmpSGT(v[0], zero), one, below);
    }
    case Op::kEq:
      return b_.CreateICmpEQ(v[0], v[1]);
    case Op::kNe:
      return b_.CreateICmpNE(v[0], v[1]);
    case Op::kLt:
      return is_signed ? b_.CreateICmpSLT(v[0], v[1]) : b_.CreateICmpULT(v[0], v[1]);
    case Op::kLe:
      return is_signed ? b_.CreateICmpSLE(v[0], v[1]) : b_.CreateICmpULE(v[0], v[1]);
    case Op::kGt:
      return is_signed ? b_.CreateICmpSGT(v[0], v[1]) : b_.CreateICmpUGT(v[0], v[1]);
    case Op::kGe:
      return is_signed ? b_.CreateICmpSGE(v[0], v[1]) : b_.CreateICmpUGE(v[0], v[1]);
    case Op::kAnd:
      return b_.CreateAnd(v[0], v[1]);
    case Op::kOr:
      return b_.CreateOr(v[0], v[1]);
    case Op::kXor:
      return b_.CreateXor(v[0], v[1]);
    case Op::kNot:
      return b_.CreateNot(v[0]);
    case Op::kShl:
    case Op::kShr: {
      Value* in_range = b_.CreateICmpULT(v[1], same_shape(width, v[0]));
      if (op == Op::kShr && is_signed)
        return b_.CreateAShr(v[0], b_.CreateSelect(in_range, v[1], same_shape(width - 1, v[0])));
      Value* zero = same_shape(0, v[0]);
      Value* amount = b_.CreateSelect(in_range, v[1], zero);
      Value* shifted = op == Op::kShl ? b_.CreateShl(v[0], amount) : b_.CreateLShr(v[0], amount);
      return b_.CreateSelect(in_range, shifted, zero);
    }
    default:
      fail(Status::kInternal, "code generation: {} on integers", op_info(op).name);
  }
}

}  // namespace xc::codegen

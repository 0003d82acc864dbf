// Accumulators: 16 lanes x 4 partial vectors (order lanes) or one value (order sequential), as
// loop/kernel.h fixes them.
#include "base/error.h"
#include "codegen/emitter.h"
#include "loop/evaluate.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

void Emitter::declare(const DeclareAcc& stmt) {
  const AccDecl& decl = kernel_.accs[stmt.acc];
  AccState& acc = accs_[stmt.acc];
  acc = {};
  const bool lanes = decl.order == AccOrder::kLanes;
  const uint64_t identity = accumulator_identity(decl.op, decl.type);
  acc.vec = vector_ != nullptr && !lanes;
  Val init;
  if (!is_arg_op(decl.op)) {
    if (stmt.init)
      init = value(stmt.init);
    else if (decl.op == AccOp::kSum)
      init = {constant(decl.type, 0, false), false};
  }
  const auto widened = [&](llvm::Constant* c) -> Value* {
    return lanes ? llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(kReductionLanes), c)
           : acc.vec ? vector({c, false})
                     : c;
  };
  Value* start = widened(constant(decl.type, identity, false));
  if (!lanes && init.v) start = acc.vec ? vector(init) : init.v;
  if (lanes) acc.init = init.v;
  acc.values.assign(lanes ? kReductionAccumulators : 1, start);
  if (is_arg_op(decl.op))
    acc.indices.assign(acc.values.size(),
                       widened(llvm::ConstantInt::getSigned(b_.getInt64Ty(), -1)));
}

Value* Emitter::combine(AccOp op, DType type, Value* a, Value* b) {
  switch (op) {
    case AccOp::kSum:
      return is_float(type) ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case AccOp::kProd:
      return is_float(type) ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case AccOp::kMax:
      return minimum(a, b, type, true);
    case AccOp::kMin:
      return minimum(a, b, type, false);
    default:
      fail(Status::kInternal, "code generation: arg-reductions carry an index");
  }
}

Value* Emitter::replaces(AccOp op, DType type, Value* value, Value* index, Value* best,
                         Value* best_index) {
  const bool wants_max = op == AccOp::kArgMax || op == AccOp::kArgMaxLast;
  const bool wants_last = op == AccOp::kArgMaxLast || op == AccOp::kArgMinLast;
  Value* index_wins =
      wants_last ? b_.CreateICmpSGT(index, best_index) : b_.CreateICmpULT(index, best_index);
  if (!is_float(type)) {
    Value* better =
        integer_operation(wants_max ? Op::kGt : Op::kLt, is_signed(type), {value, best});
    return b_.CreateOr(better, b_.CreateAnd(b_.CreateICmpEQ(value, best), index_wins));
  }
  Value* value_nan = b_.CreateFCmpUNO(value, value);
  Value* best_nan = b_.CreateFCmpUNO(best, best);
  Value* better = wants_max ? b_.CreateFCmpOGT(value, best) : b_.CreateFCmpOLT(value, best);
  better = b_.CreateOr(better, b_.CreateAnd(value_nan, b_.CreateNot(best_nan)));
  Value* same = b_.CreateOr(b_.CreateFCmpOEQ(value, best), b_.CreateAnd(value_nan, best_nan));
  return b_.CreateOr(better, b_.CreateAnd(same, index_wins));
}

void Emitter::accumulate(const Accumulate& stmt) {
  const AccDecl& decl = kernel_.accs[stmt.acc];
  AccState& acc = accs_[stmt.acc];
  const bool lanes = decl.order == AccOrder::kLanes;
  const bool vec = lanes || acc.vec;
  const auto shaped = [&](const Val& v) { return vec ? vector(v) : uniform(v); };
  Value* now = shaped(value(stmt.value));
  Value* index = stmt.index ? shaped(value(stmt.index)) : nullptr;
  for (size_t g = 0; g < acc.values.size(); ++g) {
    Value* active = nullptr;
    if (lanes) {
      if (!vector_->mask && g != static_cast<size_t>(vector_->group)) continue;
      if (vector_->mask) {
        Value* mine = b_.CreateICmpEQ(vector_->dynamic_group, b_.getInt64(g));
        active = both(vector_->mask, mine).v;
      }
    }
    Value* old = acc.values[g];
    if (is_arg_op(decl.op)) {
      Value* wins = replaces(decl.op, decl.type, now, index, old, acc.indices[g]);
      if (active) wins = b_.CreateAnd(wins, active);
      acc.values[g] = b_.CreateSelect(wins, now, old);
      acc.indices[g] = b_.CreateSelect(wins, index, acc.indices[g]);
    } else {
      Value* combined = combine(decl.op, decl.type, old, now);
      acc.values[g] = active ? b_.CreateSelect(active, combined, old) : combined;
    }
  }
}

void Emitter::finish(uint32_t id) {
  const AccDecl& decl = kernel_.accs[id];
  AccState& acc = accs_[id];
  const bool arg = is_arg_op(decl.op);
  if (decl.order == AccOrder::kSequential) {
    acc.result = {acc.values[0], acc.vec};
    if (arg) acc.result_index = {acc.indices[0], acc.vec};
    return;
  }
  struct Pair {
    Value *value, *index;
  };
  const auto merge = [&](Pair a, Pair b) -> Pair {
    if (!arg) return {combine(decl.op, decl.type, a.value, b.value), nullptr};
    Value* wins = replaces(decl.op, decl.type, b.value, b.index, a.value, a.index);
    return {b_.CreateSelect(wins, b.value, a.value), b_.CreateSelect(wins, b.index, a.index)};
  };
  const auto partial = [&](size_t g) -> Pair {
    return {acc.values[g], arg ? acc.indices[g] : nullptr};
  };
  Pair sum = merge(merge(partial(0), partial(1)), merge(partial(2), partial(3)));
  for (int half = kReductionLanes / 2; half > 0; half /= 2) {
    llvm::SmallVector<int, 8> low, high;
    for (int l = 0; l < half; ++l) {
      low.push_back(l);
      high.push_back(l + half);
    }
    const auto part = [&](Value* v, llvm::ArrayRef<int> lanes) -> Value* {
      return v ? b_.CreateShuffleVector(v, lanes) : nullptr;
    };
    sum = merge({part(sum.value, low), part(sum.index, low)},
                {part(sum.value, high), part(sum.index, high)});
  }
  Value* result = b_.CreateExtractElement(sum.value, uint64_t{0});
  if (acc.init) result = combine(decl.op, decl.type, acc.init, result);
  acc.result = {result, false};
  if (arg) acc.result_index = {b_.CreateExtractElement(sum.index, uint64_t{0}), false};
}

}  // namespace xc::codegen

// Accumulators: 16 lanes x 4 partial vectors (order lanes) or one value (order sequential), as
// loop/kernel.h fixes them.
#include <llvm/Analysis/VectorUtils.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/checked.h"
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
  // On a GPU each of a block's threads holds one of the partial results.
  const bool lanes = decl.order != AccOrder::kSequential && !gpu();
  const uint64_t identity = accumulator_identity(decl.op, decl.type);
  acc.vec = vector_ != nullptr && decl.order == AccOrder::kSequential;
  Val init;
  if (!is_arg_op(decl.op)) {
    if (stmt.init)
      init = value(stmt.init);
    else if (is_sum(decl.op))
      init = {constant(decl.type, 0, false), false};
    acc.from_zero = !stmt.init && is_sum(decl.op);
  }
  const auto widened = [&](llvm::Constant* c) -> Value* {
    return lanes ? llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(kReductionLanes), c)
           : acc.vec ? vector({c, false})
                     : c;
  };
  // Opaque: FastISel knows no constant that is a vector, and leaves the whole block that ends where
  // a loop begins with one.
  Value* start = widened(constant(decl.type, identity, false));
  if (lanes) start = opaque(start);
  const bool in_order = decl.order == AccOrder::kSequential;
  if (in_order && init.v) start = acc.vec ? vector(init) : init.v;
  if (!in_order) acc.init = init.v;
  acc.values.assign(lanes ? static_cast<size_t>(partial_results(decl.order) / kReductionLanes) : 1,
                    start);
  if (is_arg_op(decl.op))
    acc.indices.assign(acc.values.size(),
                       widened(llvm::ConstantInt::getSigned(b_.getInt64Ty(), -1)));
}

Value* Emitter::combine(AccOp op, DType type, Value* a, Value* b) {
  switch (op) {
    case AccOp::kSum:
    case AccOp::kDot:
    case AccOp::kDotBf16:
    case AccOp::kDotBf16x3:
      return is_float(type) ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case AccOp::kProd:
      return is_float(type) ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case AccOp::kMax:
      return minimum(a, b, type, true);
    case AccOp::kMin:
      return minimum(a, b, type, false);
    case AccOp::kMaxNumber:
      return b_.CreateSelect(b_.CreateFCmpOGT(b, a), b, a);
    default:
      fail(Status::kInternal, "code generation: arg-reductions carry an index");
  }
}

// A partial result with one more value (and, of a dot product, its other factor).
Value* Emitter::update(const AccDecl& decl, Value* partial, Value* value, Value* second) {
  lone_matrix_sum_ |= needs_matrix_units(decl.op);
  if (decl.op != AccOp::kDot) return combine(decl.op, decl.type, partial, value);
  return b_.CreateIntrinsic(partial->getType(), llvm::Intrinsic::fma, {value, second, partial});
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

Emitter::Partial Emitter::merged(const AccDecl& decl, Partial a, Partial b) {
  if (!is_arg_op(decl.op)) return {combine(decl.op, decl.type, a.value, b.value), nullptr};
  Value* wins = replaces(decl.op, decl.type, b.value, b.index, a.value, a.index);
  return {b_.CreateSelect(wins, b.value, a.value), b_.CreateSelect(wins, b.index, a.index)};
}

void Emitter::accumulate(const Accumulate& stmt) {
  const AccDecl& decl = kernel_.accs[stmt.acc];
  AccState& acc = accs_[stmt.acc];
  const bool lanes = decl.order != AccOrder::kSequential && !gpu();
  if (lanes && slot_) return accumulate_slot(stmt);
  const bool arg = is_arg_op(decl.op);
  const auto shaped = [&](const Val& v) { return lanes || acc.vec ? vector(v) : uniform(v); };
  Value* now = shaped(value(stmt.value));
  Value* second = stmt.second ? shaped(value(stmt.second)) : nullptr;
  // Combines into `best` where `active` (null: everywhere).
  const auto feed = [&](Value*& best, Value** best_index, Value* active) {
    if (!arg) {
      Value* combined = update(decl, best, now, second);
      best = active ? b_.CreateSelect(active, combined, best) : combined;
      return;
    }
    Value* wins = replaces(decl.op, decl.type, now, second, best, *best_index);
    if (active) wins = b_.CreateAnd(wins, active);
    best = b_.CreateSelect(wins, now, best);
    *best_index = b_.CreateSelect(wins, second, *best_index);
  };
  const auto index_of = [&](size_t g) { return arg ? &acc.indices[g] : nullptr; };
  if (!lanes) return feed(acc.values[0], index_of(0), nullptr);
  // What adds 0 in lanes that are off needs no mask: a partial sum is -0 before the first element
  // at most, and the sum begins with +0.
  const bool adds_zero = acc.from_zero && zero_if_off(now) && (!second || zero_if_off(second));
  const size_t g = static_cast<size_t>(vector_->group) % acc.values.size();
  feed(acc.values[g], index_of(g), adds_zero ? nullptr : vector_->mask);
}

// A load under a mask, or a product of such.
bool Emitter::zero_if_off(const Value* v) const {
  if (!vector_ || !vector_->mask) return false;
  if (vector_->zero_if_off.contains(v)) return true;
  const auto* product = llvm::dyn_cast<llvm::BinaryOperator>(v);
  return product && product->getOpcode() == llvm::Instruction::FMul &&
         zero_if_off(product->getOperand(0)) && zero_if_off(product->getOperand(1));
}

// --- partial results in memory, for a scalar rest; bools as bytes ---

void Emitter::accumulate_slot(const Accumulate& stmt) {
  const AccDecl& decl = kernel_.accs[stmt.acc];
  AccState& acc = accs_[stmt.acc];
  llvm::Type* element = memory_type(decl.type);
  Value* now = uniform(value(stmt.value));
  Value* second = stmt.second ? uniform(value(stmt.second)) : nullptr;
  Value* slot = b_.CreateURem(slot_, integer(partial_results(decl.order)));
  Value* at = b_.CreateGEP(element, acc.memory, slot);
  Value* best = from_memory(decl.type, b_.CreateLoad(element, at));
  if (!is_arg_op(decl.op)) {
    b_.CreateStore(to_memory(decl.type, update(decl, best, now, second)), at);
    return;
  }
  Value* index_at = b_.CreateGEP(b_.getInt64Ty(), acc.index_memory, slot);
  Value* best_index = b_.CreateLoad(b_.getInt64Ty(), index_at);
  Value* wins = replaces(decl.op, decl.type, now, second, best, best_index);
  b_.CreateStore(b_.CreateSelect(wins, now, best), at);
  b_.CreateStore(b_.CreateSelect(wins, second, best_index), index_at);
}

namespace {

bool is_mask(Value* v) {
  return v->getType()->getScalarType()->isIntegerTy(1);
}

}  // namespace

// Room for so many bytes on the stack until the scalar rest has run.
Value* Emitter::spill_memory(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  const int64_t at = spilled_bytes_;
  spilled_bytes_ += align_up(bytes, kAlignment);
  most_spilled_ = std::max(most_spilled_, spilled_bytes_);
  if (!spilled_) {
    Builder entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    spilled_ = entry.CreateAlloca(b_.getInt8Ty(), integer(spilled_bytes_));
    spilled_->setAlignment(llvm::Align(kAlignment));
  }
  const auto* room = llvm::cast<llvm::ConstantInt>(spilled_->getArraySize());
  if (room->getSExtValue() < spilled_bytes_) spilled_->setOperand(0, integer(spilled_bytes_));
  return b_.CreateConstGEP1_64(b_.getInt8Ty(), spilled_, static_cast<uint64_t>(at));
}

void Emitter::spill(AccState& acc) {
  const auto put = [&](const std::vector<Value*>& values) -> Value* {
    if (values.empty()) return nullptr;
    llvm::Type* group = is_mask(values[0]) ? values[0]->getType()->getWithNewType(b_.getInt8Ty())
                                           : values[0]->getType();
    const auto bits = group->getPrimitiveSizeInBits().getFixedValue();
    Value* memory = spill_memory(static_cast<int64_t>(values.size() * bits / 8));
    for (size_t g = 0; g < values.size(); ++g)
      b_.CreateStore(is_mask(values[g]) ? b_.CreateZExt(values[g], group) : values[g],
                     b_.CreateConstGEP1_64(group, memory, g));
    return memory;
  };
  acc.memory = put(acc.values);
  acc.index_memory = put(acc.indices);
}

void Emitter::reload(AccState& acc) {
  const auto get = [&](std::vector<Value*>& values, Value* memory) {
    for (size_t g = 0; g < values.size(); ++g) {
      const bool mask = is_mask(values[g]);
      llvm::Type* group =
          mask ? values[g]->getType()->getWithNewType(b_.getInt8Ty()) : values[g]->getType();
      Value* v = b_.CreateLoad(group, b_.CreateConstGEP1_64(group, memory, g));
      values[g] = mask ? from_memory(DType::kBool, v) : v;
    }
  };
  get(acc.values, acc.memory);
  get(acc.indices, acc.index_memory);
}

void Emitter::finish(std::vector<uint32_t> accs) {
  std::sort(accs.begin(), accs.end());
  // Several of a kind go down their trees together, one to a part of a register.
  std::map<std::pair<AccOp, DType>, std::vector<uint32_t>> alike;
  for (const uint32_t id : accs) {
    const AccDecl& decl = kernel_.accs[id];
    const bool together = target_.masked_all && !gpu() && !is_arg_op(decl.op) &&
                          decl.order != AccOrder::kSequential && element_size(decl.type) == 4;
    if (together)
      alike[{decl.op, decl.type}].push_back(id);
    else
      finish(id);
  }
  for (const auto& [kind, ids] : alike)
    for (size_t first = 0; first < ids.size(); first += kReductionLanes) {
      const size_t count = std::min<size_t>(kReductionLanes, ids.size() - first);
      const std::span<const uint32_t> part = std::span(ids).subspan(first, count);
      if (count == 1)
        finish(part[0]);
      else
        finish_together(part);
    }
}

// The same value, of which instruction selection knows nothing. It looks at a tree of shuffles
// again from every node of it, over and over: a quarter of a compile with many reductions.
Value* Emitter::opaque(Value* v) {
  if (!v->getType()->isFPOrFPVectorTy()) return v;
  return b_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {v->getType()}, {v});
}

// The sixteen lanes of an accumulator of four partial vectors.
Value* Emitter::sixteen(const AccDecl& decl, const AccState& acc) {
  const auto add = [&](Value* a, Value* b) { return combine(decl.op, decl.type, a, b); };
  if (acc.values.size() == 1) return acc.values[0];
  return add(add(acc.values[0], acc.values[1]), add(acc.values[2], acc.values[3]));
}

void Emitter::finish_together(std::span<const uint32_t> ids) {
  const AccDecl& decl = kernel_.accs[ids[0]];
  std::vector<Value*> level;
  for (const uint32_t id : ids) level.push_back(opaque(sixteen(kernel_.accs[id], accs_[id])));
  // A vector holds parts of `width` lanes, one per accumulator; two vectors make one of half the
  // width. The last lacks a partner where their number is odd. Each halving is one instruction per
  // side: chunks of four lanes change places while parts are longer than that, then lanes do within
  // their chunk, where parts of the two vectors come to lie side by side.
  using Mask = llvm::SmallVector<int, 16>;
  for (int width = kReductionLanes; width > 1; width /= 2) {
    const auto half = [&](int first) {
      Mask mask;
      if (width > 4) {
        for (int part = 0; part < 2 * kReductionLanes; part += width)
          for (int l = 0; l < width / 2; ++l) mask.push_back(part + first * width / 2 + l);
        return mask;
      }
      for (int chunk = 0; chunk < kReductionLanes; chunk += 4)
        for (int source = 0; source < 2; ++source)
          for (int part = 0; part < 4; part += width)
            for (int l = 0; l < width / 2; ++l)
              mask.push_back(source * kReductionLanes + chunk + part + first * width / 2 + l);
      return mask;
    };
    const Mask low = half(0), high = half(1);
    std::vector<Value*> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      Value* a = level[i];
      Value* b = i + 1 < level.size() ? level[i + 1] : llvm::PoisonValue::get(a->getType());
      next.push_back(opaque(combine(decl.op, decl.type, b_.CreateShuffleVector(a, b, low),
                                    b_.CreateShuffleVector(a, b, high))));
    }
    level = std::move(next);
  }
  // All start at the same number, nearly always.
  Value* const start = accs_[ids[0]].init;
  const bool alike = start && std::all_of(ids.begin(), ids.end(),
                                          [&](uint32_t id) { return accs_[id].init == start; });
  Value* sums = level[0];
  if (alike) sums = combine(decl.op, decl.type, b_.CreateVectorSplat(kReductionLanes, start), sums);
  for (size_t i = 0; i < ids.size(); ++i) {
    AccState& acc = accs_[ids[i]];
    // Of the first four, each begins a chunk; of sixteen, the fifth lies beside the first.
    Value* result = b_.CreateExtractElement(sums, 4 * (i % 4) + i / 4);
    if (acc.init && !alike) result = combine(decl.op, decl.type, acc.init, result);
    acc.result = {result, false};
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
  if (gpu()) return gpu_finish(decl, acc);
  const auto merge = [&](Partial a, Partial b) { return merged(decl, a, b); };
  const auto partial = [&](size_t g) -> Partial {
    return {acc.values[g], arg ? acc.indices[g] : nullptr};
  };
  Partial sum = partial(0);
  if (acc.values.size() > 1) sum = merge(merge(sum, partial(1)), merge(partial(2), partial(3)));
  for (int half = kReductionLanes / 2; half > 0; half /= 2) {
    const auto count = static_cast<unsigned>(half);
    const auto low = llvm::createSequentialMask(0, count, 0),
               high = llvm::createSequentialMask(count, count, 0);
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

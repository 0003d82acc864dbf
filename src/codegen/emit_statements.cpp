#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

// Operations in one iteration, roughly.
size_t weight(const Block& body) {
  size_t out = 0;
  visit_statements(body, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) { out += op_info(e->op).arity > 0 ? 1 : 0; });
    });
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) out += feed->second ? 12 : 2;
  });
  return out;
}
constexpr size_t kHeavyBody = 10;

}  // namespace

void Emitter::block(const Block& statements) {
  // An accumulator is combined right after the last statement that feeds it.
  std::unordered_map<const Stmt*, std::vector<uint32_t>> finish_after;
  IdSet declared;
  std::unordered_map<uint32_t, const Stmt*> last;
  for (const Stmt& stmt : statements) {
    if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) {
      declared.insert(declare->acc);
      last[declare->acc] = &stmt;
    }
    if (const auto* loop = std::get_if<For>(&stmt.node))
      visit_statements(loop->body, [&](const Stmt& inner) {
        const auto* accumulate = std::get_if<Accumulate>(&inner.node);
        if (accumulate && declared.contains(accumulate->acc)) last[accumulate->acc] = &stmt;
      });
  }
  for (const auto& [acc, stmt] : last) finish_after[stmt].push_back(acc);
  for (const Stmt& stmt : statements) {
    cache_.clear();
    statement(stmt);
    cache_.clear();
    finish(finish_after[&stmt]);
  }
}

void Emitter::statement(const Stmt& stmt) {
  if (const auto* loop = std::get_if<For>(&stmt.node))
    for_loop(*loop);
  else if (const auto* let = std::get_if<Let>(&stmt.node))
    regs_[let->reg] = value(let->value);
  else if (const auto* write = std::get_if<Store>(&stmt.node))
    store(*write);
  else if (const auto* acc = std::get_if<DeclareAcc>(&stmt.node))
    declare(*acc);
  else if (const auto* feed = std::get_if<Accumulate>(&stmt.node))
    accumulate(*feed);
}

void Emitter::for_loop(const For& loop) {
  if (loop.kind == LoopKind::kParallel)
    return gpu() ? gpu_task_loop(loop) : serial_loop(loop, task_begin_, task_end_);
  Value* begin = uniform(value(loop.begin));
  Value* end = uniform(value(loop.end));
  cache_.clear();
  switch (loop.kind) {
    case LoopKind::kVector:
      return gpu() ? gpu_vector_loop(loop, begin, end) : vector_loop(loop, begin, end);
    case LoopKind::kUnroll:
      return unrolled_loop(loop, begin, end);
    default:
      return serial_loop(loop, begin, end);
  }
}

Emitter::Carried Emitter::carried_by(const Block& body) {
  IdSet inside, fed;
  visit_statements(body, [&](const Stmt& stmt) {
    if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) inside.insert(declare->acc);
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) fed.insert(feed->acc);
  });
  Carried out;
  for (uint32_t acc = 0; acc < accs_.size(); ++acc) {
    if (!fed.contains(acc) || inside.contains(acc)) continue;
    for (Value*& v : accs_[acc].values) out.push_back(&v);
    for (Value*& v : accs_[acc].indices) out.push_back(&v);
  }
  return out;
}

void Emitter::counted_loop(Value* begin, Value* end, Value* step, const Carried& carried,
                           const std::function<void(Value*)>& body) {
  Value* runs = b_.CreateICmpSLT(begin, end);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(runs); known && known->isZero()) return;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "loop", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "done");
  b_.CreateCondBr(runs, head, exit);

  b_.SetInsertPoint(head);
  llvm::PHINode* v = b_.CreatePHI(b_.getInt64Ty(), 2);
  v->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  std::vector<Value*> initial;
  for (Value** slot : carried) {
    auto* phi = b_.CreatePHI((*slot)->getType(), 2);
    phi->addIncoming(*slot, before);
    initial.push_back(*slot);
    phis.push_back(phi);
    *slot = phi;
  }
  body(v);
  Value* next = b_.CreateAdd(v, step, "", false, true);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  v->addIncoming(next, latch);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(*carried[i], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), head, exit);

  exit->insertInto(function_);
  b_.SetInsertPoint(exit);
  for (size_t i = 0; i < carried.size(); ++i) {
    auto* phi = b_.CreatePHI(initial[i]->getType(), 2);
    phi->addIncoming(initial[i], before);
    phi->addIncoming(*carried[i], latch);
    *carried[i] = phi;
  }
}

void Emitter::serial_loop(const For& loop, Value* begin, Value* end) {
  begin = transposing_copy(loop, begin, end);
  if (vector_) ++vector_->nesting;
  counted_loop(begin, end, b_.getInt64(1), carried_by(loop.body), [&](Value* v) {
    vars_[loop.var.id] = v;
    block(loop.body);
  });
  if (vector_) --vector_->nesting;
}

// Groups of `factor` copies, then the rest one by one.
void Emitter::unrolled_loop(const For& loop, Value* begin, Value* end) {
  const Carried carried = carried_by(loop.body);
  Value* count = b_.CreateSub(end, begin);
  Value* groups = b_.CreateSDiv(count, integer(loop.factor));
  Value* middle = b_.CreateAdd(begin, b_.CreateMul(groups, integer(loop.factor)));
  middle = b_.CreateSelect(b_.CreateICmpSGT(count, b_.getInt64(0)), middle, begin);
  if (vector_) ++vector_->nesting;
  counted_loop(begin, middle, integer(loop.factor), carried, [&](Value* v) {
    for (int copy = 0; copy < loop.factor; ++copy) {
      vars_[loop.var.id] = b_.CreateAdd(v, integer(copy));
      block(loop.body);
    }
  });
  if (vector_) --vector_->nesting;
  serial_loop(loop, middle, end);
}

// Is every access that moves with the loop one that the target can mask?
bool Emitter::rest_under_mask(const For& loop) const {
  if (target_.masked_all) return true;
  bool all = true;
  const auto check = [&](uint32_t buffer, const std::vector<Index>& indices) {
    const BufferDecl& decl = kernel_.buffers[buffer];
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!indices[d].is_affine()) all = false;
      const int64_t step = indices[d].affine.coefficient(loop.var);
      if (step == 0) continue;
      const Stride& stride = decl.strides[d];
      all &= target_.masked_words && element_size(decl.type) >= 4 && !stride.is_param &&
             stride.value * step == 1;
    }
  };
  visit_statements(loop.body, [&](const Stmt& stmt) {
    if (const auto* write = std::get_if<Store>(&stmt.node)) check(write->buffer, write->indices);
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (e->op == Op::kLoad) check(e->id, e->indices);
      });
    });
  });
  return all;
}

// One iteration after the other; partial results of reductions wait in memory, where an iteration
// can address its own.
void Emitter::scalar_rest(const For& loop, Value* begin, Value* end) {
  std::unordered_set<uint32_t> fed;
  visit_statements(loop.body, [&](const Stmt& stmt) {
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node);
        feed && kernel_.accs[feed->acc].order != AccOrder::kSequential)
      fed.insert(feed->acc);
  });
  for (const uint32_t acc : fed) spill(accs_[acc]);
  counted_loop(begin, end, b_.getInt64(1), {}, [&](Value* v) {
    vars_[loop.var.id] = v;
    slot_ = b_.CreateSub(v, begin);
    block(loop.body);
    slot_ = nullptr;
  });
  for (const uint32_t acc : fed) reload(accs_[acc]);
}

// The mask of the first `left` >= 1 lanes, all when there are more.
Value* Emitter::first_lanes(Value* left) {
  const auto lanes = static_cast<unsigned>(vector_->lanes);
  Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.getInt64(lanes));
  if (target_.masked_all) {  // masks are bits of one register
    auto* bits = b_.getIntNTy(lanes);
    Value* shift = b_.CreateZExtOrTrunc(b_.CreateSub(b_.getInt64(lanes), count), bits);
    Value* mask = b_.CreateLShr(llvm::ConstantInt::getAllOnesValue(bits), shift);
    return b_.CreateBitCast(mask, llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
  }
  llvm::SmallVector<llvm::Constant*, 64> numbers;
  for (unsigned l = 0; l < lanes; ++l) numbers.push_back(b_.getInt32(l));
  return b_.CreateICmpULT(llvm::ConstantVector::get(numbers),
                          b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty())));
}

void Emitter::rotate_partials(const Block& body) {
  for (const Stmt& stmt : body) {
    const auto* feed = std::get_if<Accumulate>(&stmt.node);
    if (!feed || kernel_.accs[feed->acc].order != AccOrder::kLanes ||
        !rotated_.insert(feed->acc).second)
      continue;
    AccState& acc = accs_[feed->acc];
    std::rotate(acc.values.begin(), acc.values.begin() + 1, acc.values.end());
    if (!acc.indices.empty())
      std::rotate(acc.indices.begin(), acc.indices.begin() + 1, acc.indices.end());
  }
  rotated_.clear();
}

void Emitter::vector_loop(const For& loop, Value* begin, Value* end) {
  VectorLoop state;
  state.loop = &loop;
  state.lanes = loop.factor;
  state.vars.insert(loop.var.id);
  int groups = 1;  // partial vectors of the reductions it feeds
  visit_statements(loop.body, [&](const Stmt& stmt) {
    if (const auto* inner = std::get_if<For>(&stmt.node)) state.vars.insert(inner->var.id);
    if (const auto* let = std::get_if<Let>(&stmt.node)) state.regs.insert(let->reg);
    if (const auto* acc = std::get_if<DeclareAcc>(&stmt.node)) state.accs.insert(acc->acc);
    if (const auto* write = std::get_if<Store>(&stmt.node)) state.stored.insert(write->buffer);
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node);
        feed && kernel_.accs[feed->acc].order == AccOrder::kLanes)
      groups = kReductionAccumulators;
  });

  // Everything runs only when there is an iteration, so that hoisted loads are in range.
  Value* runs = b_.CreateICmpSLT(begin, end);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(runs); known && known->isZero()) return;
  const Carried carried = carried_by(loop.body);
  std::vector<Value*> initial;
  for (Value** slot : carried) initial.push_back(*slot);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* front = llvm::BasicBlock::Create(context_, "front", function_);
  auto* main = llvm::BasicBlock::Create(context_, "main", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "done");
  b_.CreateCondBr(runs, front, exit);
  Builder front_builder(front);
  state.front = &front_builder;
  vector_ = &state;
  b_.SetInsertPoint(main);

  // A reduction feeds four partial vectors in turn: a light body is written four times, a heavy one
  // once, its partials changing places with every iteration (four of them bring all home).
  const bool rotates = groups > 1 && target_.rotate_partials && weight(loop.body) > kHeavyBody;
  const int64_t step = int64_t{loop.factor} * groups;
  Value* count = front_builder.CreateSub(end, begin);
  Value* full =
      front_builder.CreateAnd(count, front_builder.getInt64(~static_cast<uint64_t>(step - 1)));
  Value* middle = front_builder.CreateAdd(begin, full);
  // What is known to divide the number of iterations: nothing may be left, or whole vectors only.
  const int64_t known = std::gcd(known_divisor(loop.begin), known_divisor(loop.end));
  const bool nothing_left = known % step == 0, whole_vectors = known % loop.factor == 0;
  counted_loop(begin, middle, integer(rotates ? loop.factor : step), carried, [&](Value* v) {
    for (int group = 0; group < (rotates ? 1 : groups); ++group) {
      state.first = b_.CreateAdd(v, integer(int64_t{group} * loop.factor));
      state.group = group;
      vars_[loop.var.id] = state.first;
      block(loop.body);
    }
    if (rotates) rotate_partials(loop.body);
  });
  if (nothing_left) {
    // No rest.
  } else if (whole_vectors || rest_under_mask(loop)) {
    counted_loop(middle, end, integer(loop.factor), carried, [&](Value* v) {
      state.first = v;
      vars_[loop.var.id] = v;
      if (!whole_vectors) state.mask = first_lanes(b_.CreateSub(end, v));
      if (groups > 1)
        state.dynamic_group = b_.CreateSDiv(b_.CreateSub(v, middle), integer(loop.factor));
      block(loop.body);
    });
  } else {
    vector_ = nullptr;
    scalar_rest(loop, middle, end);
  }

  front_builder.CreateBr(main);
  vector_ = nullptr;
  llvm::BasicBlock* after = b_.GetInsertBlock();
  b_.CreateBr(exit);
  exit->insertInto(function_);
  b_.SetInsertPoint(exit);
  for (size_t i = 0; i < carried.size(); ++i) {
    auto* phi = b_.CreatePHI(initial[i]->getType(), 2);
    phi->addIncoming(initial[i], before);
    phi->addIncoming(*carried[i], after);
    *carried[i] = phi;
  }
}

}  // namespace xc::codegen

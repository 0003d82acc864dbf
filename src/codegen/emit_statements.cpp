#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

constexpr size_t kHeavyBodyOfFew = 24;  // where registers are few, and to turn partials costs moves

// Iterations at most, where the form of the loop's bounds tells.
std::optional<int64_t> most_iterations(const For& loop) {
  if (!is_const(loop.begin)) return std::nullopt;
  const auto begin = static_cast<int64_t>(loop.begin->bits);
  std::optional<int64_t> most;
  const auto take = [&](const Expr& end) {
    if (!is_const(end)) return;
    const int64_t count = static_cast<int64_t>(end->bits) - begin;
    most = std::min(most.value_or(count), count);
  };
  if (loop.end->op == Op::kMin)
    for (const Expr& end : loop.end->args) take(end);
  else
    take(loop.end);
  return most;
}

// A loop of at most so many vectors is short.
constexpr int64_t kShortLoop = 4;

// Of all lanes, so many may idle: one in so many.
constexpr int64_t kFewIdle = 16;

// Does a loop in steps of 1 that begins there end behind one turn, as one that gives a number a
// name for indices does?
bool turns_once(Value* begin, Value* end) {
  using namespace llvm::PatternMatch;
  return match(end, m_Add(m_Specific(begin), m_One()));
}

}  // namespace

// Operations in one iteration, roughly.
size_t Emitter::weight(const Block& body) {
  size_t out = 0;
  visit_statements(body, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) { out += op_info(e->op).arity > 0 ? 1 : 0; });
    });
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) out += feed->second ? 12 : 2;
  });
  return out;
}

bool Emitter::has_loop(const Block& body) {
  return std::any_of(body.begin(), body.end(),
                     [](const Stmt& stmt) { return std::holds_alternative<For>(stmt.node); });
}

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
  cache_.clear();
  for (const Stmt& stmt : statements) {
    const bool loop = std::holds_alternative<For>(stmt.node);
    if (loop) cache_.clear();
    statement(stmt);
    if (loop) cache_.clear();
    if (const auto* write = std::get_if<Store>(&stmt.node)) forget(write->buffer);
    finish(finish_after[&stmt]);
  }
  cache_.clear();
}

// What statements of a block have in common is computed once: LLVM, which knows of no two buffers
// that they are apart, would load and compute it again behind each store.
void Emitter::forget(uint32_t buffer) {
  std::erase_if(cache_, [&](const auto& known) { return reads(*known.first).test(buffer); });
}

Emitter::BufferSet Emitter::reads(const Block& statements) {
  BufferSet out;
  visit_statements(statements, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) { out |= reads(*root); });
  });
  return out;
}

Emitter::BufferSet Emitter::reads(const Node& node) {
  if (const auto known = reads_.find(&node); known != reads_.end()) return known->second;
  BufferSet out;
  if (node.op == Op::kLoad) out.set(node.id);
  for (const Expr& arg : node.args) out |= reads(*arg);
  for (const Index& index : node.indices)
    if (!index.is_affine()) out |= reads(*index.checked) | reads(*index.extent);
  if (node.guard) out |= reads(*node.guard);
  return reads_[&node] = out;
}

void Emitter::statement(const Stmt& stmt) {
  if (const auto* loop = std::get_if<For>(&stmt.node)) {
    for_loop(*loop);
  } else if (const auto* let = std::get_if<Let>(&stmt.node)) {
    regs_[let->reg] = value(let->value);
    lets_[let->reg] = let->value;
  } else if (const auto* write = std::get_if<Store>(&stmt.node)) {
    store(*write);
  } else if (const auto* acc = std::get_if<DeclareAcc>(&stmt.node)) {
    declare(*acc);
  } else if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) {
    accumulate(*feed);
  }
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

// The accumulators from outside that a loop's body feeds.
std::vector<uint32_t> Emitter::fed_by(const Block& body) const {
  IdSet inside, fed;
  visit_statements(body, [&](const Stmt& stmt) {
    if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) inside.insert(declare->acc);
    if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) fed.insert(feed->acc);
  });
  std::vector<uint32_t> out;
  for (uint32_t acc = 0; acc < accs_.size(); ++acc)
    if (fed.contains(acc) && !inside.contains(acc)) out.push_back(acc);
  return out;
}

Emitter::Carried Emitter::carried_by(const Block& body) {
  Carried out;
  for (const uint32_t acc : fed_by(body)) {
    for (Value*& v : accs_[acc].values) out.push_back(&v);
    for (Value*& v : accs_[acc].indices) out.push_back(&v);
  }
  return out;
}

// if (condition) then()
void Emitter::when(Value* condition, const Carried& carried, const std::function<void()>& then) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne()) then();
    return;
  }
  std::vector<Value*> initial;
  for (Value** slot : carried) initial.push_back(*slot);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(context_, "when", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "done");
  b_.CreateCondBr(condition, inside, exit);
  b_.SetInsertPoint(inside);
  then();
  llvm::BasicBlock* after = b_.GetInsertBlock();
  b_.CreateBr(exit);
  join(exit, carried, before, initial, after);
}

// Goes on at `exit`, which was reached from `before` with the values `initial`, or from `after`.
void Emitter::join(llvm::BasicBlock* exit, const Carried& carried, llvm::BasicBlock* before,
                   const std::vector<Value*>& initial, llvm::BasicBlock* after) {
  exit->insertInto(function_);
  b_.SetInsertPoint(exit);
  for (size_t i = 0; i < carried.size(); ++i) {
    if (*carried[i] == initial[i]) continue;
    auto* phi = b_.CreatePHI(initial[i]->getType(), 2);
    phi->addIncoming(initial[i], before);
    phi->addIncoming(*carried[i], after);
    *carried[i] = phi;
  }
}

void Emitter::counted_loop(Value* begin, Value* end, Value* step, const Carried& carried,
                           const std::function<void(Value*)>& body) {
  if (step == b_.getInt64(1) && turns_once(begin, end)) return body(begin);
  Value* runs = b_.CreateICmpSLT(begin, end);
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(runs);
  if (known && known->isZero()) return;
  if (known) {
    const auto* again = llvm::dyn_cast<llvm::ConstantInt>(
        b_.CreateICmpSLT(b_.CreateAdd(begin, step, "", false, true), end));
    if (again && again->isZero()) return body(begin);
  }
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "loop", function_);
  auto* exit = llvm::BasicBlock::Create(context_, "done");
  if (known)
    b_.CreateBr(head);
  else
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
  if (!known) return join(exit, carried, before, initial, latch);
  exit->insertInto(function_);
  b_.SetInsertPoint(exit);
}

void Emitter::serial_loop(const For& loop, Value* begin, Value* end) {
  if (product(loop, begin, end)) return;
  begin = transposing_copy(loop, begin, end);
  const bool open = !vector_ && loop.kind != LoopKind::kParallel;
  if (open) open_loops_.push_back({&loop, limit_of(loop)});
  if (vector_) ++vector_->nesting;
  counted_loop(begin, end, b_.getInt64(1), carried_by(loop.body), [&](Value* v) {
    vars_[loop.var.id] = v;
    block(loop.body);
  });
  if (vector_) --vector_->nesting;
  if (open) open_loops_.pop_back();
}

// Where the whole steps from `begin` on end.
Value* Emitter::behind_whole(Value* begin, Value* end, int64_t step) {
  Value* count = b_.CreateSub(end, begin);
  Value* steps = quotient(count, step);
  Value* middle = b_.CreateAdd(begin, b_.CreateMul(steps, integer(step)));
  return b_.CreateSelect(b_.CreateICmpSGT(count, b_.getInt64(0)), middle, begin);
}

// Groups of `factor` copies, then the rest one by one.
void Emitter::unrolled_loop(const For& loop, Value* begin, Value* end) {
  const Carried carried = carried_by(loop.body);
  Value* middle = behind_whole(begin, end, loop.factor);
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
  spilled_bytes_ = 0;
  for (const uint32_t acc : fed) spill(accs_[acc]);
  counted_loop(begin, end, b_.getInt64(1), {}, [&](Value* v) {
    vars_[loop.var.id] = v;
    slot_ = b_.CreateSub(v, begin);
    block(loop.body);
    slot_ = nullptr;
  });
  for (const uint32_t acc : fed) reload(accs_[acc]);
}

// Vectors under a mask. Of the rest of a loop, fewer iterations than it has lanes, they are of one
// register where the loop's are of several; else the loop is `always` so. `divisor` divides the
// number of iterations.
void Emitter::masked_rest(const For& loop, Value* begin, Value* end, int64_t divisor, bool always) {
  VectorLoop& state = *vector_;
  const Carried carried = carried_by(loop.body);
  if (carried.empty() && state.lanes > kReductionLanes && !always) {
    state.lanes = kReductionLanes;
    for (auto& [scalar, splat] : state.splats) splat = nullptr;
  }
  const auto iteration = [&](Value* v) {
    state.first = v;
    vars_[loop.var.id] = v;
    if (divisor % state.lanes != 0) state.mask = first_lanes(b_.CreateSub(end, v));
    block(loop.body);
  };
  if (state.lanes == loop.factor && !always)
    when(b_.CreateICmpSLT(begin, end), carried, [&] { iteration(begin); });
  else
    counted_loop(begin, end, integer(state.lanes), carried, iteration);
}

// The mask of the first `left` >= 1 lanes, all when there are more; none where `condition` is given
// and does not hold.
Value* Emitter::first_lanes(Value* left, Value* condition) {
  const auto lanes = static_cast<unsigned>(vector_->lanes);
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(left);
  Value* count = known ? integer(std::min<int64_t>(known->getSExtValue(), lanes))
                       : minimum(left, b_.getInt64(lanes), DType::kI64, false);
  if (target_.masked_all) {  // masks are bits of one register
    auto* bits = b_.getIntNTy(lanes);
    Value* shift = b_.CreateZExtOrTrunc(b_.CreateSub(b_.getInt64(lanes), count), bits);
    Value* mask = b_.CreateLShr(llvm::ConstantInt::getAllOnesValue(bits), shift);
    if (condition) mask = b_.CreateSelect(condition, mask, llvm::ConstantInt::get(bits, 0));
    // A known mask is written as lanes: a constant bitcast is taken apart lane by lane by what
    // follows, and LLVM 19's register allocator takes the KMOVB that puts such lanes together (it
    // clears the others) for a copy when it spills: lanes outside a buffer were read.
    if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(mask)) {
      llvm::SmallVector<llvm::Constant*, 64> set;
      for (unsigned l = 0; l < lanes; ++l) set.push_back(b_.getInt1(number->getValue()[l]));
      return llvm::ConstantVector::get(set);
    }
    return b_.CreateBitCast(mask, llvm::FixedVectorType::get(b_.getInt1Ty(), lanes));
  }
  if (condition) count = b_.CreateSelect(condition, count, b_.getInt64(0));
  llvm::SmallVector<llvm::Constant*, 64> numbers;
  for (unsigned l = 0; l < lanes; ++l) numbers.push_back(b_.getInt32(l));
  return b_.CreateICmpULT(llvm::ConstantVector::get(numbers),
                          b_.CreateVectorSplat(lanes, b_.CreateTrunc(count, b_.getInt32Ty())));
}

// The mask of the lanes in which the loop's variable is below `limit`, which may be any number: it
// is brought near before anything is taken from it.
Value* Emitter::lanes_below(Value* limit) {
  Value* const first = vector_->first;
  Value* const behind = b_.CreateAdd(first, integer(vector_->lanes));
  Value* const end = minimum(limit, behind, DType::kI64, false);
  return first_lanes(b_.CreateSub(end, first), b_.CreateICmpSGT(limit, first));
}

// Of those with four partial vectors, these.
std::vector<Emitter::AccState*> Emitter::partials_of(const Block& body) {
  std::vector<AccState*> out;
  for (const uint32_t acc : fed_by(body))
    if (kernel_.accs[acc].order == AccOrder::kLanes) out.push_back(&accs_[acc]);
  return out;
}

// The vector at place k is at place k - by afterwards, of four.
void Emitter::turn(const std::vector<AccState*>& partials, int by) {
  for (AccState* acc : partials)
    for (std::vector<Value*>* vectors : {&acc->values, &acc->indices})
      if (!vectors->empty()) std::rotate(vectors->begin(), vectors->begin() + by, vectors->end());
}

// A vector loop before anything of it is written: what is defined inside.
Emitter::VectorLoop Emitter::open_vector_loop(const For& loop) {
  VectorLoop out;
  out.loop = &loop;
  out.lanes = loop.factor;
  out.vars.insert(loop.var.id);
  visit_statements(loop.body, [&](const Stmt& stmt) {
    if (const auto* inner = std::get_if<For>(&stmt.node)) out.vars.insert(inner->var.id);
    if (const auto* let = std::get_if<Let>(&stmt.node)) out.regs.insert(let->reg);
    if (const auto* acc = std::get_if<DeclareAcc>(&stmt.node)) out.accs.insert(acc->acc);
    if (const auto* write = std::get_if<Store>(&stmt.node)) out.stored.insert(write->buffer);
  });
  return out;
}

// What the variable of a loop over a block of elements is below in all of them, or more; null where
// its bounds are constants.
Value* Emitter::limit_of(const For& loop) {
  if (is_const(loop.begin) && is_const(loop.end)) return nullptr;
  if (loop.end->op != Op::kMin) return value(loop.end).v;
  Value* limit = nullptr;
  for (const Expr& end : loop.end->args) {
    Value* const one = value(end).v;
    limit = limit ? minimum(limit, one, DType::kI64, true) : one;
  }
  return limit;
}

// Does a block feed reductions in lanes, those declared in it included?
bool Emitter::reduces(const Block& body) const {
  bool out = false;
  visit_statements(body, [&](const Stmt& stmt) {
    const auto* feed = std::get_if<Accumulate>(&stmt.node);
    out = out || (feed && kernel_.accs[feed->acc].order == AccOrder::kLanes);
  });
  return out;
}

// What follows hoisted code: one block with it where the loop is but one block.
void Emitter::join_front(Builder& front, llvm::BasicBlock* main) {
  if (b_.GetInsertBlock() == main) {
    b_.SetInsertPoint(front.GetInsertBlock());
    front.GetInsertBlock()->splice(front.GetInsertBlock()->end(), main);
    main->eraseFromParent();
  } else {
    front.CreateBr(main);
    llvm::MergeBlockIntoPredecessor(main);
  }
}

// A reduction feeds four partial vectors in turn. A light body is written four times, then once for
// the whole vectors that are left; a heavy one once for all of them. Where it is written once, the
// partials change places with every iteration, so that what is fed next is first.
// Written once, always under the mask: a short reduction (longer ones take a tenth longer that way:
// measured in k-means), and what has loops inside, which run under a mask made once, where few
// lanes idle in the last vector.
Emitter::VectorPlan Emitter::vector_plan(const For& loop, bool carries) const {
  VectorPlan out;
  if (reduces(loop.body)) out.groups = kReductionAccumulators;
  out.four_times = out.groups > 1 &&
                   weight(loop.body) <= (target_.rotate_partials ? kHeavyBody : kHeavyBodyOfFew);
  out.step = int64_t{loop.factor} * out.groups;
  out.divisor = std::gcd(known_divisor(loop.begin), known_divisor(loop.end));
  const int64_t most = most_iterations(loop).value_or(0);
  const bool nearly_whole =
      most > 0 && is_const(loop.end) && align_up(most, loop.factor) - most <= most / kFewIdle;
  out.all_masked = target_.masked_all && out.divisor % loop.factor != 0 && out.groups == 1 &&
                   (carries ? most > 0 && most <= kShortLoop * loop.factor
                            : has_loop(loop.body) && nearly_whole);
  return out;
}

void Emitter::vector_loop(const For& loop, Value* begin, Value* end) {
  VectorLoop state = open_vector_loop(loop);
  state.limit = limit_of(loop);
  state.fetches.block = block_fetch(loop);
  // Everything runs only when there is an iteration, so that hoisted loads are in range.
  const Carried carried = carried_by(loop.body);
  when(b_.CreateICmpSLT(begin, end), carried, [&] {
    auto* main = llvm::BasicBlock::Create(context_, "main", function_);
    Builder front(b_.GetInsertBlock());
    state.front = &front;
    vector_ = &state;
    b_.SetInsertPoint(main);
    vector_bodies(loop, begin, end, carried);
    vector_ = nullptr;
    join_front(front, main);
  });
}

// The groups, the whole vectors that are left, the rest.
void Emitter::vector_bodies(const For& loop, Value* begin, Value* end, const Carried& carried) {
  VectorLoop& state = *vector_;
  const VectorPlan plan = vector_plan(loop, !carried.empty());
  const std::vector<AccState*> partials = partials_of(loop.body);
  Value* const count = state.front->CreateSub(end, begin);
  const auto multiple_of = [&](int64_t n) -> Value* {  // begin and the most of them there are
    if (plan.all_masked) return begin;
    return state.front->CreateAdd(begin, state.front->CreateAnd(count, integer(-n)));
  };
  const auto iteration = [&](Value* v, int group) {
    state.first = b_.CreateAdd(v, integer(int64_t{group} * loop.factor));
    state.group = group;
    vars_[loop.var.id] = state.first;
    block(loop.body);
    fetch_ahead();
  };
  Value* middle = begin;
  if (plan.four_times) {
    middle = multiple_of(plan.step);
    counted_loop(begin, middle, integer(plan.step), carried, [&](Value* v) {
      for (int group = 0; group < plan.groups; ++group) iteration(v, group);
      fetch_far_ahead();
    });
  }
  Value* const whole = multiple_of(loop.factor);
  if (!plan.four_times || plan.divisor % plan.step != 0)
    counted_loop(middle, whole, integer(loop.factor), carried, [&](Value* v) {
      iteration(v, 0);
      fetch_far_ahead();
      turn(partials, 1);
    });
  state.group = 0;
  if (plan.divisor % loop.factor == 0) {
    // No rest.
  } else if (rest_under_mask(loop)) {
    masked_rest(loop, whole, end, plan.divisor, plan.all_masked);
  } else {
    vector_ = nullptr;
    scalar_rest(loop, whole, end);
  }
  // Home again.
  if (partials.empty() || plan.divisor % plan.step == 0) return;
  Value* const turns = quotient(b_.CreateSub(whole, middle), loop.factor);
  for (const int by : {1, 2})
    when(b_.CreateICmpNE(b_.CreateAnd(turns, integer(by)), integer(0)), carried,
         [&] { turn(partials, plan.groups - by); });
}

}  // namespace xc::codegen

// Products as blocks write them: over columns, a vector loop of rows whose body declares a sum,
// feeds it in one serial loop with a row of one table times an element of another, and stores it.
// The library has that as a function.
#include <functional>
#include <numeric>
#include <utility>

#include "codegen/emitter.h"
#include "codegen/library.h"
#include "loop/dot.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

// The statements of a product's loop over columns.
struct Product {
  const For *rows = nullptr, *terms = nullptr;
  const DeclareAcc* sum = nullptr;
  const Accumulate* feed = nullptr;
  const Store* store = nullptr;

  bool read(const For& columns) {
    rows = only<For>(columns.body, 0, 1);
    if (!rows || rows->kind != LoopKind::kVector) return false;
    sum = only<DeclareAcc>(rows->body, 0, 3);
    terms = only<For>(rows->body, 1, 3);
    store = only<Store>(rows->body, 2, 3);
    if (!sum || !terms || !store || terms->kind != LoopKind::kSerial) return false;
    feed = only<Accumulate>(terms->body, 0, 1);
    return feed && feed->second && feed->acc == sum->acc && !store->guard &&
           store->value->op == Op::kAccValue && store->value->id == sum->acc;
  }

 private:
  // Statement `at` of so many.
  template <typename T>
  static const T* only(const Block& block, size_t at, size_t count) {
    return block.size() == count ? std::get_if<T>(&block[at].node) : nullptr;
  }
};

bool is_plain_load(const Expr& e) {
  return e->op == Op::kLoad && !e->guard && is_affine(e->indices);
}

}  // namespace

// splits_product() (loop/dot.h).
Value* Emitter::splits(Value* rows, Value* columns, Value* terms) {
  const auto at_least = [&](Value* size, int64_t n) { return b_.CreateICmpSGE(size, integer(n)); };
  const auto fills = [&](Value* size) {
    Value* const times =
        b_.CreateUDiv(b_.CreateAdd(size, integer(kSplitAtOnce - 1)), integer(kSplitAtOnce));
    Value* const most = b_.CreateMul(times, integer(kSplitFourths * kSplitAtOnce));
    return b_.CreateAnd(at_least(size, kSplitAtOnce),
                        b_.CreateICmpSGE(b_.CreateMul(size, integer(4)), most));
  };
  // Nothing is divided by no terms.
  Value* const some = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, terms, integer(1));
  Value* const work =
      b_.CreateICmpSGE(b_.CreateMul(rows, columns), b_.CreateUDiv(integer(kSplitWork), some));
  return b_.CreateAnd(b_.CreateAnd(at_least(rows, kSplitRows), work),
                      b_.CreateAnd(fills(columns), fills(terms)));
}

// One or the other; what is known beforehand alone.
void Emitter::either(Value* condition, const std::function<void()>& then,
                     const std::function<void()>& otherwise) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition))
    return known->isOne() ? then() : otherwise();
  auto* const first = llvm::BasicBlock::Create(context_, "then", function_);
  auto* const second = llvm::BasicBlock::Create(context_, "otherwise", function_);
  auto* const done = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateCondBr(condition, first, second);
  b_.SetInsertPoint(first);
  then();
  b_.CreateBr(done);
  b_.SetInsertPoint(second);
  otherwise();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

bool Emitter::product(const For& columns, Value* first, Value* last) {
  Product p;
  if (!has_library(target_) || vector_ || !p.read(columns)) return false;
  const For &rows = *p.rows, &terms = *p.terms;
  const unsigned lanes = register_lanes(target_);
  // Whole vectors only, the same for every column.
  if (std::gcd(known_divisor(rows.begin), known_divisor(rows.end)) % lanes != 0) return false;
  const AccDecl& decl = kernel_.accs[p.sum->acc];
  if (!is_dot(decl.op)) return false;
  // What splits_product() is asked about may not depend on how tasks are cut.
  if (needs_matrix_units(decl.op) &&
      (p.sum->init || columns.kind == LoopKind::kParallel || !has_matrix_library(target_)))
    return false;
  bool varies = false;
  for (const Expr& bound : {rows.begin, rows.end, terms.begin, terms.end})
    visit_nodes(bound, [&](const Expr& e) {
      varies |= e->op == Op::kLoad ||
                (e->op == Op::kLoopVar && (e->id == columns.var.id || e->id == rows.var.id));
    });
  const Expr &panel = p.feed->value, &b = p.feed->second, &init = p.sum->init;
  const Store& out = *p.store;
  if (varies || decl.type != DType::kF32 || decl.order != AccOrder::kSequential ||
      !is_plain_load(panel) || !is_plain_load(b) || !is_affine(out.indices) ||
      (init && (!is_plain_load(init) || init->id != out.buffer ||
                !same_affine(init->indices, out.indices))))
    return false;
  for (const uint32_t buffer : {panel->id, b->id, out.buffer})
    if (kernel_.buffers[buffer].type != DType::kF32) return false;
  if (panel->id == out.buffer || b->id == out.buffer) return false;

  // Steps in elements, along the rows, the terms and the columns.
  if (!is_number(step_of(panel->id, panel->indices, rows.var), 1) ||
      !is_number(step_of(panel->id, panel->indices, columns.var), 0) ||
      !is_number(step_of(out.buffer, out.indices, rows.var), 1) ||
      !is_number(step_of(out.buffer, out.indices, terms.var), 0) ||
      !is_number(step_of(b->id, b->indices, rows.var), 0))
    return false;

  Value* const row = uniform(value(rows.begin));
  Value* const row_end = uniform(value(rows.end));
  Value* const term = uniform(value(terms.begin));
  Value* const term_end = uniform(value(terms.end));
  vars_[columns.var.id] = first;
  vars_[rows.var.id] = row;
  vars_[terms.var.id] = term;
  Value* const panel_at = address(panel->id, panel->indices, {}).base;
  Value* const b_at = address(b->id, b->indices, {}).base;
  Value* const out_at = address(out.buffer, out.indices, {}).base;
  Value* const count = b_.CreateSub(term_end, term);
  Value* const vectors = quotient(b_.CreateSub(row_end, row), lanes);
  Value* const width = b_.CreateSub(last, first);
  llvm::SmallVector<Value*, 11> arguments{panel_at,
                                          step_of(panel->id, panel->indices, terms.var),
                                          b_at,
                                          step_of(b->id, b->indices, terms.var),
                                          step_of(b->id, b->indices, columns.var),
                                          count,
                                          out_at,
                                          step_of(out.buffer, out.indices, columns.var),
                                          vectors,
                                          width};
  const auto call = [&](AccOp op, Value* besides) {
    if (besides) arguments.push_back(besides);
    b_.CreateCall(product_function(module_, target_, op), arguments);
    if (besides) arguments.pop_back();
  };
  const auto dot = [&] { call(AccOp::kDot, b_.getInt1(static_cast<bool>(init))); };
  const auto split = [&] {
    // What the kernel writes itself is not the same at every call.
    if (kernel_.buffers[b->id].is_scratch() || kernel_.buffers[b->id].access != Access::kIn)
      b_.CreateStore(integer(0), room_);
    call(AccOp::kDotBf16x3, room_);
  };
  if (decl.op == AccOp::kDotBf16)
    call(decl.op, nullptr);
  else if (decl.op == AccOp::kDotBf16x3)
    either(splits(b_.CreateMul(vectors, integer(lanes)), width, count), split, dot);
  else
    dot();
  cache_.clear();
  return true;
}

}  // namespace xc::codegen

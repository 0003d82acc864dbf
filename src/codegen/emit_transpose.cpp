// Copies whose lanes lie apart on one side and whose serial loop walks adjacent elements there,
// such as t[j, r] = x[r, j] with r in lanes: instead of gathers or scatters, square tiles go
// through registers (unpack by one, by two, then chunks of four lanes).
#include <algorithm>

#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

// An element of the tile per lane: rows come in, columns go out.
using Lanes = llvm::SmallVector<Value*, 16>;

Value* shuffle(llvm::IRBuilder<>& b, Value* x, Value* y, llvm::ArrayRef<int> chunk,
               unsigned lanes) {
  // `chunk` is a pattern of four within each four lanes; 4 and above are y's.
  llvm::SmallVector<int, 16> mask;
  for (unsigned base = 0; base < lanes; base += 4)
    for (const int from : chunk)
      mask.push_back(static_cast<int>(base) +
                     (from < 4 ? from : from - 4 + static_cast<int>(lanes)));
  return b.CreateShuffleVector(x, y, mask);
}

// Whole chunks of four lanes: `chunks` counts x's first, then y's.
Value* shuffle_chunks(llvm::IRBuilder<>& b, Value* x, Value* y, llvm::ArrayRef<int> chunks) {
  llvm::SmallVector<int, 16> mask;
  for (const int chunk : chunks)
    for (int lane = 0; lane < 4; ++lane) mask.push_back(4 * chunk + lane);
  return b.CreateShuffleVector(x, y, mask);
}

Lanes transposed(llvm::IRBuilder<>& b, Lanes rows) {
  const auto n = static_cast<unsigned>(rows.size());
  // Within each four rows: vector k holds, in chunk c, column 4c + k of these rows.
  for (unsigned i = 0; i < n; i += 4) {
    Value* const low[2] = {shuffle(b, rows[i], rows[i + 1], {0, 4, 1, 5}, n),
                           shuffle(b, rows[i + 2], rows[i + 3], {0, 4, 1, 5}, n)};
    Value* const high[2] = {shuffle(b, rows[i], rows[i + 1], {2, 6, 3, 7}, n),
                            shuffle(b, rows[i + 2], rows[i + 3], {2, 6, 3, 7}, n)};
    rows[i] = shuffle(b, low[0], low[1], {0, 1, 4, 5}, n);
    rows[i + 1] = shuffle(b, low[0], low[1], {2, 3, 6, 7}, n);
    rows[i + 2] = shuffle(b, high[0], high[1], {0, 1, 4, 5}, n);
    rows[i + 3] = shuffle(b, high[0], high[1], {2, 3, 6, 7}, n);
  }
  Lanes columns(n);
  for (unsigned k = 0; k < 4; ++k) {
    if (n == 8) {
      columns[k] = shuffle_chunks(b, rows[k], rows[4 + k], {0, 2});
      columns[4 + k] = shuffle_chunks(b, rows[k], rows[4 + k], {1, 3});
      continue;
    }
    Value* const even[2] = {shuffle_chunks(b, rows[k], rows[4 + k], {0, 2, 4, 6}),
                            shuffle_chunks(b, rows[8 + k], rows[12 + k], {0, 2, 4, 6})};
    Value* const odd[2] = {shuffle_chunks(b, rows[k], rows[4 + k], {1, 3, 5, 7}),
                           shuffle_chunks(b, rows[8 + k], rows[12 + k], {1, 3, 5, 7})};
    columns[k] = shuffle_chunks(b, even[0], even[1], {0, 2, 4, 6});
    columns[8 + k] = shuffle_chunks(b, even[0], even[1], {1, 3, 5, 7});
    columns[4 + k] = shuffle_chunks(b, odd[0], odd[1], {0, 2, 4, 6});
    columns[12 + k] = shuffle_chunks(b, odd[0], odd[1], {1, 3, 5, 7});
  }
  return columns;
}

}  // namespace

// void (from, from_row, from_tile, to, to_row, to_tile, tiles): steps in elements of 4 bytes. Once
// per kernel, because it is long.
llvm::Function* Emitter::transpose_function() {
  if (transpose_) return transpose_;
  llvm::Type* const ptr = b_.getPtrTy();
  llvm::Type* const i64 = b_.getInt64Ty();
  auto* signature =
      llvm::FunctionType::get(b_.getVoidTy(), {ptr, i64, i64, ptr, i64, i64, i64}, false);
  transpose_ = llvm::Function::Create(signature, llvm::Function::InternalLinkage,
                                      kernel_.name + ".transpose", module_);
  transpose_->setAttributes(function_->getAttributes());
  transpose_->addFnAttr(llvm::Attribute::NoInline);
  const auto here = b_.saveIP();
  auto* entry = llvm::BasicBlock::Create(context_, "entry", transpose_);
  auto* body = llvm::BasicBlock::Create(context_, "tile", transpose_);
  auto* done = llvm::BasicBlock::Create(context_, "done", transpose_);
  b_.SetInsertPoint(entry);
  Value* const tiles = transpose_->getArg(6);
  b_.CreateCondBr(b_.CreateICmpSGT(tiles, b_.getInt64(0)), body, done);
  b_.SetInsertPoint(body);
  llvm::PHINode* left = b_.CreatePHI(i64, 2);
  llvm::PHINode* from = b_.CreatePHI(ptr, 2);
  llvm::PHINode* to = b_.CreatePHI(ptr, 2);
  left->addIncoming(tiles, entry);
  from->addIncoming(transpose_->getArg(0), entry);
  to->addIncoming(transpose_->getArg(3), entry);
  const unsigned n = transpose_tile();
  llvm::Type* const element = b_.getInt32Ty();
  auto* const type = llvm::FixedVectorType::get(b_.getFloatTy(), n);
  const auto step = [&](Value* p, unsigned argument) {
    return b_.CreateGEP(element, p, transpose_->getArg(argument));
  };
  Lanes rows;
  Value* at = from;
  for (unsigned i = 0; i < n; ++i, at = step(at, 1))
    rows.push_back(b_.CreateAlignedLoad(type, at, llvm::Align(4)));
  at = to;
  for (Value* column : transposed(b_, rows)) {
    b_.CreateAlignedStore(column, at, llvm::Align(4));
    at = step(at, 4);
  }
  left->addIncoming(b_.CreateSub(left, b_.getInt64(1)), body);
  from->addIncoming(step(from, 2), body);
  to->addIncoming(step(to, 5), body);
  b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(1)), body, done);
  b_.SetInsertPoint(done);
  b_.CreateRetVoid();
  b_.restoreIP(here);
  return transpose_;
}

// Elements from one value of `var` to the next.
Value* Emitter::step_of(uint32_t buffer, const std::vector<Index>& indices, Var var) {
  Value* sum = b_.getInt64(0);
  for (size_t d = 0; d < indices.size(); ++d)
    if (const int64_t c = indices[d].affine.coefficient(var); c != 0)
      sum = b_.CreateAdd(sum, b_.CreateMul(stride_value(buffer, d), integer(c)));
  return sum;
}

Value* Emitter::transposing_copy(const For& loop, Value* begin, Value* end) {
  if (gpu() || !target_.masked_words || !vector_ || vector_->mask || vector_->nesting != 0 ||
      vector_->lanes != 16 || loop.body.size() != 1)
    return begin;
  const auto* write = std::get_if<Store>(&loop.body.front().node);
  if (!write || write->guard || write->value->op != Op::kLoad) return begin;
  const Node& read = *write->value;
  const DType type = kernel_.buffers[write->buffer].type;
  if (type != kernel_.buffers[read.id].type || element_size(type) != 4 || read.id == write->buffer)
    return begin;
  const auto affine = [](const std::vector<Index>& indices) {
    return std::all_of(indices.begin(), indices.end(),
                       [](const Index& i) { return i.is_affine(); });
  };
  if (!affine(write->indices) || !affine(read.indices)) return begin;
  bool walks = false;  // the guard changes with the serial loop
  if (read.guard)
    visit_nodes(read.guard, [&](const Expr& e) {
      walks |= e->op == Op::kLoad || (e->op == Op::kLoopVar && e->id == loop.var.id);
    });
  if (walks) return begin;

  const Var lane = vector_->loop->var;
  Value* const from_lane = step_of(read.id, read.indices, lane);
  Value* const from_next = step_of(read.id, read.indices, loop.var);
  Value* const to_lane = step_of(write->buffer, write->indices, lane);
  Value* const to_next = step_of(write->buffer, write->indices, loop.var);
  const auto one = [](Value* v) {
    auto* constant = llvm::dyn_cast<llvm::ConstantInt>(v);
    return constant && constant->isOne();
  };
  const bool gathers = one(from_next) && one(to_lane), scatters = one(from_lane) && one(to_next);
  if (!gathers && !scatters) return begin;

  const int64_t n = transpose_tile();
  Value* tiles = b_.CreateSDiv(b_.CreateSub(end, begin), integer(n));
  if (read.guard) {  // only where every lane is there
    const Val guard = value(read.guard);
    Value* all = guard.vec ? b_.CreateAndReduce(guard.v) : guard.v;
    tiles = b_.CreateSelect(all, tiles, b_.getInt64(0));
  }
  vars_[loop.var.id] = begin;
  Value* const from = address(read.id, read.indices, {}).base;
  Value* const to = address(write->buffer, write->indices, {}).base;
  cache_.clear();
  for (int64_t first = 0; first < vector_->lanes; first += n) {
    const auto lanes_on = [&](Value* base, Value* step) {
      return b_.CreateGEP(b_.getInt32Ty(), base, b_.CreateMul(step, integer(first)));
    };
    const auto by_tile = [&](Value* step) { return b_.CreateMul(step, integer(n)); };
    b_.CreateCall(transpose_function(),
                  {lanes_on(from, from_lane), gathers ? from_lane : from_next, by_tile(from_next),
                   lanes_on(to, to_lane), gathers ? to_next : to_lane, by_tile(to_next), tiles});
  }
  return b_.CreateAdd(begin, b_.CreateMul(tiles, integer(n)));
}

}  // namespace xc::codegen

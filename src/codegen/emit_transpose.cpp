// Copies whose lanes lie apart on one side and whose serial loop walks adjacent elements there,
// such as t[j, r] = x[r, j] with r in lanes: instead of gathers or scatters, tiles go through
// registers. A tile has as many rows as a register has elements, and four columns: each vector
// takes four elements of every fourth row, then two unpacks within each chunk of four lanes make
// columns.
#include <algorithm>
#include <array>
#include <numeric>

#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

constexpr unsigned kTileColumns = 4;

// Within each four lanes, `pattern` of them; 4 and above are y's.
Value* unpack(llvm::IRBuilder<>& b, Value* x, Value* y, const std::array<int, 4>& pattern) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  llvm::SmallVector<int, 16> mask;
  for (int base = 0; base < static_cast<int>(lanes); base += 4)
    for (const int from : pattern)
      mask.push_back(base + (from < 4 ? from : from - 4 + static_cast<int>(lanes)));
  return b.CreateShuffleVector(x, y, mask);
}

// Chunks of four lanes one after the other.
Value* joined(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> chunks) {
  if (chunks.size() == 1) return chunks[0];
  const size_t half = chunks.size() / 2;
  Value* const low = joined(b, chunks.take_front(half));
  Value* const high = joined(b, chunks.drop_front(half));
  llvm::SmallVector<int, 16> mask(chunks.size() * 4);
  std::iota(mask.begin(), mask.end(), 0);
  return b.CreateShuffleVector(low, high, mask);
}

}  // namespace

// void (from, from_row, from_tile, to, to_row, to_tile, tiles): steps in elements of 4 bytes. Once
// per kernel.
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
  llvm::Type* const element = b_.getInt32Ty();
  auto* const chunk = llvm::FixedVectorType::get(b_.getFloatTy(), kTileColumns);
  const auto step = [&](Value* p, unsigned argument) {
    return b_.CreateGEP(element, p, transpose_->getArg(argument));
  };
  // rows[k]: the tile's columns of rows k, k + 4, k + 8 and k + 12.
  std::array<llvm::SmallVector<Value*, 4>, 4> chunks;
  Value* at = from;
  for (unsigned row = 0; row < transpose_rows(); ++row, at = step(at, 1))
    chunks[row % 4].push_back(b_.CreateAlignedLoad(chunk, at, llvm::Align(4)));
  std::array<Value*, 4> rows;
  for (size_t k = 0; k < 4; ++k) rows[k] = joined(b_, chunks[k]);
  Value* const low[2] = {unpack(b_, rows[0], rows[1], {0, 4, 1, 5}),
                         unpack(b_, rows[2], rows[3], {0, 4, 1, 5})};
  Value* const high[2] = {unpack(b_, rows[0], rows[1], {2, 6, 3, 7}),
                          unpack(b_, rows[2], rows[3], {2, 6, 3, 7})};
  at = to;
  for (Value* const column :
       {unpack(b_, low[0], low[1], {0, 1, 4, 5}), unpack(b_, low[0], low[1], {2, 3, 6, 7}),
        unpack(b_, high[0], high[1], {0, 1, 4, 5}), unpack(b_, high[0], high[1], {2, 3, 6, 7})}) {
    b_.CreateAlignedStore(column, at, llvm::Align(4));
    at = step(at, 4);
  }
  Value* const rest = b_.CreateSub(left, b_.getInt64(1));
  left->addIncoming(rest, body);
  from->addIncoming(step(from, 2), body);
  to->addIncoming(step(to, 5), body);
  b_.CreateCondBr(b_.CreateICmpSGT(rest, b_.getInt64(0)), body, done);
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

  // The side whose elements lie apart gives the tile's rows: the lanes, or iterations of the loop.
  const int64_t rows = transpose_rows(), columns = kTileColumns, lanes = vector_->lanes;
  const int64_t at_once = gathers ? columns : rows;  // iterations of the loop
  Value* blocks = b_.CreateSDiv(b_.CreateSub(end, begin), integer(at_once));
  if (read.guard) {  // only where every lane is there
    const Val guard = value(read.guard);
    Value* all = guard.vec ? b_.CreateAndReduce(guard.v) : guard.v;
    blocks = b_.CreateSelect(all, blocks, b_.getInt64(0));
  }
  vars_[loop.var.id] = begin;
  Value* const from = address(read.id, read.indices, {}).base;
  Value* const to = address(write->buffer, write->indices, {}).base;
  cache_.clear();
  const auto on = [&](Value* base, Value* step, Value* count) {
    return b_.CreateGEP(b_.getInt32Ty(), base, b_.CreateMul(step, count));
  };
  const auto by_columns = [&](Value* step) { return b_.CreateMul(step, integer(columns)); };
  llvm::Function* const transpose = transpose_function();
  if (gathers) {
    for (int64_t first = 0; first < lanes; first += rows)
      b_.CreateCall(transpose,
                    {on(from, from_lane, integer(first)), from_lane, by_columns(from_next),
                     on(to, to_lane, integer(first)), to_next, by_columns(to_next), blocks});
  } else {
    counted_loop(b_.getInt64(0), blocks, b_.getInt64(1), {}, [&](Value* block) {
      Value* const first = b_.CreateMul(block, integer(rows));
      b_.CreateCall(transpose, {on(from, from_next, first), from_next, by_columns(from_lane),
                                on(to, to_next, first), to_lane, by_columns(to_lane),
                                integer(lanes / columns)});
    });
  }
  return b_.CreateAdd(begin, b_.CreateMul(blocks, integer(at_once)));
}

}  // namespace xc::codegen

// Copies whose lanes lie apart on one side and whose serial loop walks adjacent elements there,
// such as t[j, r] = x[r, j] with r in lanes: instead of gathers or scatters, tiles go through
// registers, by a function of the library.

#include "codegen/emitter.h"
#include "codegen/library.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

// Elements from one value of `var` to the next.
Value* Emitter::step_of(uint32_t buffer, const std::vector<Index>& indices, Var var) {
  Value* sum = b_.getInt64(0);
  for (size_t d = 0; d < indices.size(); ++d)
    if (const int64_t c = indices[d].affine.coefficient(var); c != 0)
      sum = b_.CreateAdd(sum, b_.CreateMul(stride_value(buffer, d), integer(c)));
  return sum;
}

Value* Emitter::transposing_copy(const For& loop, Value* begin, Value* end) {
  if (!has_library(target_) || !vector_ || vector_->mask || vector_->nesting != 0 ||
      vector_->lanes != 16 || loop.body.size() != 1)
    return begin;
  const auto* write = std::get_if<Store>(&loop.body.front().node);
  if (!write || write->guard || write->value->op != Op::kLoad) return begin;
  const Node& read = *write->value;
  const DType type = kernel_.buffers[write->buffer].type;
  if (type != kernel_.buffers[read.id].type || element_size(type) != 4 || read.id == write->buffer)
    return begin;
  if (!is_affine(write->indices) || !is_affine(read.indices)) return begin;
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
  const bool gathers = is_number(from_next, 1) && is_number(to_lane, 1);
  const bool scatters = is_number(from_lane, 1) && is_number(to_next, 1);
  if (!gathers && !scatters) return begin;

  // The side whose elements lie apart gives the tile's rows: the lanes, or iterations of the loop.
  const int64_t rows = register_lanes(target_), columns = kTransposeColumns;
  const int64_t lanes = vector_->lanes;
  const int64_t at_once = gathers ? columns : rows;  // iterations of the loop
  Value* blocks = quotient(b_.CreateSub(end, begin), at_once);
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
  llvm::Function* const transpose = transpose_function(module_, target_);
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

// One basic operation on value bits: what expr.h says, as code. Shared by the interpreter and by
// constant folding. Values are their type's bits, zero-extended to 64.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "loop/kernel.h"

namespace xc::loop {

// `operand` is the type of the first operand (select: of its arms). Not for leaves and math
// operations.
uint64_t evaluate_op(Op op, DType result, DType operand, std::span<const uint64_t> args);

// The value accumulators of `op` start from, before any init.
uint64_t accumulator_identity(AccOp op, DType type);
// op(a, b) for sum, prod, max, min.
uint64_t combine(AccOp op, DType type, uint64_t a, uint64_t b);
// A dot_bf16 accumulator's terms since the last that were added to its sum; of f32, as bits.
class DotBf16 {
 public:
  // One more term; of the last of a group, the sum with the group.
  uint64_t add(uint64_t a, uint64_t b, uint64_t sum);
  // The sum with what is left.
  uint64_t onto(uint64_t sum) const;

 private:
  float apart_[2] = {0, 0};
  int terms_ = 0;
};
// A dot_bf16x3 accumulator, of f32 as bits.
class DotBf16x3 {
 public:
  void add(uint64_t a, uint64_t b);
  // When all terms are added, of a product of so many rows and columns.
  uint64_t result(int64_t rows, int64_t columns);

 private:
  // Factors: the largest h among them.
  struct Side {
    float largest = 0;
    bool all_zero = true;
    void add(float x);
  };
  void end_group();

  std::array<std::array<float, 2>, 6> apart_{};  // by product, its first and last terms of a group
  float sum_ = 0, exact_ = 0;
  Side first_, second_;  // all so far; those of a group
  bool fits_ = true;     // what was seen of the second factors
  int64_t terms_ = 0;
};
// Arg-reductions: does (value, index) replace (best, best_index)?
bool replaces(AccOp op, DType type, uint64_t value, int64_t index, uint64_t best,
              int64_t best_index);

// Memory to value and back (f16 and bf16 widen to f32 and round).
uint64_t load_element(DType stored, const void* at);
void store_element(DType stored, void* at, uint64_t value);

}  // namespace xc::loop

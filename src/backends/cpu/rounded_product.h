#pragma once
// Products of f32 operands that are rounded to bf16 on the way, where neither side is packed
// weights: attention, experts. Sums are f32.

#include <span>
#include <vector>

#include "backends/cpu/gemm.h"
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// The parts of one bound product. Immutable once made; any number of threads may run it.
class RoundedProduct {
 public:
  /// Whether rounding both operands and the library's products of bf16 take less time than f32
  /// ones.
  static bool pays(const MatMulProblem& p);
  /// Rows of one batch a part, so many that rounding the right side for each costs little.
  static std::vector<MatMulPart> parts(const MatMulProblem& p);

  /// `transposed`: the right side lies as [n, k]. Takes a fifth of a millisecond for each number
  /// of rows that occurs.
  RoundedProduct(const MatMulProblem& p, std::span<const MatMulPart> parts, bool transposed);
  int64_t scratch_bytes() const { return scratchpad_at_ + scratchpad_bytes_; }
  /// Of one part: alpha 1, beta 0, a left side in rows, a right side as said, a dense result. The
  /// caller holds a OneThread.
  void run(const Sgemm& p, std::byte* scratch) const;

 private:
  struct Product {
    int64_t rows;
    std::shared_ptr<const PreparedPrimitive> primitive;
  };
  std::vector<Product> products_;
  int64_t right_at_ = 0, scratchpad_at_ = 0, scratchpad_bytes_ = 0;  ///< in scratch
};

}  // namespace xc::cpu

#pragma once
// f32 products of many rows with packed weights by matrix units for bf16 (vector/bf16x3_fn.h).

#include <span>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// The terms of a product in spans: as many as leave a cache room for the parts of the left side.
/// Immutable; any number of threads may run it.
class Bf16x3Product {
 public:
  /// Whether units, where there are such, take less time than vectors; weights have to be
  /// for_units.
  static bool pays(const MatMulProblem& p);

  explicit Bf16x3Product(int64_t k);
  /// Of a part of a product: more would not stay in the cache.
  int64_t most_rows() const;
  bool one_span() const { return span_ >= k_; }
  int64_t scratch_bytes(int64_t rows) const;
  /// Products of the same rows with several slices of weights; blocks of rows that fail are summed
  /// up by few_rows_fn(). `split`: of one span, the left side may lie in scratch from the call
  /// before.
  void run(std::span<const FewRows> slices, bool split, std::byte* scratch) const;

 private:
  int64_t k_, span_;
};

}  // namespace xc::cpu

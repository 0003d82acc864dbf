#pragma once
// f32 products of many rows with packed weights by matrix units for bf16 (vector/bf16x3_fn.h).

#include <algorithm>
#include <span>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// body(block) for the blocks of rows of a product that failed, as products of their own.
template <class Body>
void for_failed_blocks(const Bf16x3Fns& fns, const FewRows& p, const std::byte* memory,
                       Body&& body) {
  for (int64_t row = 0; row < p.rows; row += kBf16x3Rows) {
    if (!fns.failed(p, row, memory)) continue;
    FewRows block = p;
    block.x += row * p.x_row;
    block.y += row * p.y_row;
    block.rows = std::min(kBf16x3Rows, p.rows - row);
    body(block);
  }
}

/// The terms of a product in spans: as many as leave a cache room for the parts of the left side.
/// Immutable; any number of threads may run it.
class Bf16x3Product {
 public:
  /// Whether units, where there are such, take less time than vectors; weights have to be
  /// for_units.
  static bool pays(const MatMulProblem& p);

  explicit Bf16x3Product(int64_t k);
  /// So many parts of the rows and groups of the columns' slices.
  struct Division {
    int64_t rows, groups;
  };
  /// How `threads` share a product of one batch, each task of which splits its rows once.
  Division divided(const MatMulProblem& p, int64_t slices, int threads) const;
  bool one_span() const { return span_ >= k_; }
  int64_t scratch_bytes(int64_t rows) const;
  /// Products of the same rows with several slices of weights; blocks of rows that fail are summed
  /// up by few_rows_fn(). `again`: the same rows as in the call before, whose parts are still in
  /// scratch where there is one span.
  void run(std::span<const FewRows> slices, bool again, std::byte* scratch) const;

 private:
  int64_t most_rows() const;

  int64_t k_, span_;
};

}  // namespace xc::cpu

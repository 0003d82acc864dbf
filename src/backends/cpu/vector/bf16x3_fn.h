#pragma once
// Products of f32 by matrix units that multiply bf16 (AMX). A number is the sum of three of bf16,
// which have its 24 bits between them; of the nine products of two such sums the six that count are
// added up, the least first (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations, ARITH 2019). What is left out is less than 2^-26 of a
// term, so that results are as near to the exact ones as sums of f32, at 2.4 times their rate.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/vector/few_rows_fn.h"

namespace xc::cpu {

/// Rows that are multiplied together: parts of a product begin at multiples of it, or bits depend
/// on where they begin.
constexpr int64_t kBf16x3Rows = 32;
/// Rows of a product: fewer are bound by what the right side costs, read and split once for all.
constexpr int64_t kBf16x3LeastRows = 64;
/// Terms of a step: spans are multiples of it, but the last.
constexpr int64_t kBf16x3Step = 32;
/// Between its powers the largest element of weights has to be, and that of each row of the left
/// side, or it is 0: units take denormal numbers for 0.
constexpr int kBf16x3Exponent = 40;
/// Whether the largest magnitude of weights is in that range.
bool in_bf16x3_range(float largest);

/// A span of a product's terms. `held`: the term whose weights `panels` begins with.
struct Bf16x3Terms {
  int64_t begin, end;
  int64_t held = 0;
};
/// A product, a span of whose terms is worked on: FewRows with elements of f32, f16 or bf16, no
/// pairs, no `add`. In turn for each span, the first of which begins at 0 and the last of which
/// ends at k: split() once, multiply() for each slice of columns. Memory has 64-byte alignment.
struct Bf16x3Fns {
  /// The left side's terms in three parts each.
  void (*split)(const FewRows& p, const Bf16x3Terms& terms, std::byte* memory);
  /// y = or (from the second span on) += these terms.
  void (*multiply)(const FewRows& p, const Bf16x3Terms& terms, std::byte* memory);
  /// In the end: whether the block of rows from `row` on is out of range, or has results that are
  /// not finite. It is to be summed up otherwise.
  bool (*failed)(const FewRows& p, int64_t row, const std::byte* memory);
  /// Bytes, of spans of up to `terms`.
  int64_t (*memory)(int64_t rows, int64_t terms);
};
/// Where the process may use such units (grant_matrix_units()); else null.
const Bf16x3Fns* bf16x3_fns();

namespace avx512 {
const Bf16x3Fns& bf16x3_fns();
}

}  // namespace xc::cpu

#include "backends/cpu/bf16x3_product.h"

#include <cmath>
#include <limits>

namespace xc::cpu {
namespace {

/// Fewer columns are bound by the left side, fewer weights by what each block costs beside its
/// products.
constexpr int64_t kLeastColumns = 128, kLeastTerms = 64, kLeastWeights = 16 << 10;
constexpr int64_t kMostTerms = 768;  ///< of a span
/// Of a term of a row in the cache: its parts, and as much again for what passes by.
constexpr int64_t kBytes = 12;

// What a task takes, in cycles. Of a term: sixteen rows by 32 columns; a row that is split; one
// that other tasks have too, half of which comes from another core's cache; 32 columns, from beyond
// the second-level cache. Of a result: where rows are shared, what follows has half of
// it from another core. And what a thread that is late costs. Fitted to bert_base with 128 and 384
// tokens and to 1x1 convolutions of 14x14 pixels, two threads: shared rows take 0.87, 1.06 and 1.28
// of the time of shared columns (Xeon with AMX).
constexpr double kProduct = 11, kRow = 0.3, kSharedRow = 2, kColumns = 35, kSharedResult = 2,
                 kLate = 0.1;

}  // namespace

bool Bf16x3Product::pays(const MatMulProblem& p) {
  return p.m >= kBf16x3LeastRows && p.n >= kLeastColumns && p.k >= kLeastTerms &&
         p.k * p.n >= kLeastWeights;
}

Bf16x3Product::Bf16x3Product(int64_t k) : k_(k) {
  const int64_t spans = ceil_div(k, kMostTerms);
  span_ = align_up(ceil_div(k, spans), kBf16x3Step);
}

/// More rows of a part would not stay in the cache.
int64_t Bf16x3Product::most_rows() const {
  return rows_in_cache(kBytes * span_);
}

Bf16x3Product::Division Bf16x3Product::divided(const MatMulProblem& p, int64_t slices,
                                               int threads) const {
  const int64_t least = ceil_div(p.m, most_rows()), blocks = ceil_div(p.m, kBf16x3Rows);
  if (threads == 1) return {least, 1};
  const auto cost = [&](int64_t rows, int64_t groups) {
    const auto turns = static_cast<double>(ceil_div(rows * groups, threads));
    // Parts begin at multiples of a block: the last one may be a whole block more.
    const int64_t last = p.m - blocks * (rows - 1) / rows * kBf16x3Rows;
    const auto part =
        static_cast<double>(std::max(std::min(p.m, blocks / rows * kBf16x3Rows), last));
    const double columns =
        static_cast<double>(ceil_div(slices, groups) * p.n) / static_cast<double>(slices);
    double task = columns / 32 * (std::ceil(part / 16) * kProduct + kColumns) + kColumns;
    task += part * (groups > 1 ? kSharedRow : kRow);
    if (groups > 1) task += part * columns * kSharedResult / static_cast<double>(p.k);
    return turns * task * (1 + kLate / turns);
  };
  Division best{least, 1};
  double least_cost = std::numeric_limits<double>::infinity();
  for (const int64_t each : {1, 2, 4})
    for (int64_t groups = 1; groups <= std::min(slices, each * threads); ++groups) {
      const int64_t rows = std::min(blocks, std::max(least, ceil_div(each * threads, groups)));
      if (const double c = cost(rows, groups); c < least_cost) {
        least_cost = c;
        best = {rows, groups};
      }
    }
  return best;
}

int64_t Bf16x3Product::scratch_bytes(int64_t rows) const {
  return bf16x3_fns()->memory(rows, std::min(span_, k_));
}

void Bf16x3Product::run(std::span<const FewRows> slices, bool again, std::byte* scratch) const {
  const Bf16x3Fns& fns = *bf16x3_fns();
  for (int64_t begin = 0; begin < k_; begin += span_) {
    const Bf16x3Terms terms{begin, std::min(k_, begin + span_)};
    if (!again || !one_span()) fns.split(slices[0], terms, scratch);
    for (const FewRows& slice : slices) fns.multiply(slice, terms, scratch);
  }
  for (const FewRows& slice : slices) for_failed_blocks(fns, slice, scratch, few_rows_fn());
}

}  // namespace xc::cpu

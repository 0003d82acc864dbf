#include "backends/cpu/bf16x3_product.h"

namespace xc::cpu {
namespace {

/// Fewer columns are bound by the left side, fewer weights by what each block costs beside its
/// products.
constexpr int64_t kLeastColumns = 128, kLeastTerms = 64, kLeastWeights = 16 << 10;
constexpr int64_t kMostTerms = 768;  ///< of a span
/// Of a term of a row in the cache: its parts, and as much again for what passes by.
constexpr int64_t kBytes = 12;

}  // namespace

bool Bf16x3Product::pays(const MatMulProblem& p) {
  return p.m >= kBf16x3LeastRows && p.n >= kLeastColumns && p.k >= kLeastTerms &&
         p.k * p.n >= kLeastWeights;
}

Bf16x3Product::Bf16x3Product(int64_t k) : k_(k) {
  const int64_t spans = ceil_div(k, kMostTerms);
  span_ = align_up(ceil_div(k, spans), kBf16x3Step);
}

int64_t Bf16x3Product::most_rows() const {
  return rows_in_cache(kBytes * span_);
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

#include "backends/cpu/rounded_product.h"

#include <algorithm>

namespace xc::cpu {
namespace {

/// Measured with AMX (oneDNN 3.2): 64^3 takes 1.2 us for 2.8, rounding half a microsecond; a dozen
/// rows gain nothing, nor do sums of a few terms.
constexpr int64_t kLeastRows = 16, kLeastColumns = 16, kLeastTerms = 32;
constexpr int64_t kLeastProducts = 64 * 64 * 64;
constexpr int64_t kRows = 256;  ///< of a part

}  // namespace

bool RoundedProduct::pays(const MatMulProblem& p) {
  return has_bf16_products() && p.m >= kLeastRows && p.n >= kLeastColumns && p.k >= kLeastTerms &&
         p.m * p.n * p.k >= kLeastProducts;
}

std::vector<MatMulPart> RoundedProduct::parts(const MatMulProblem& p) {
  std::vector<MatMulPart> out;
  for (int64_t batch = 0; batch < p.batches; ++batch)
    for (int64_t row = 0; row < p.m; row += kRows)
      out.push_back({batch, row, std::min(p.m, row + kRows), 0, p.n});
  return out;
}

RoundedProduct::RoundedProduct(const MatMulProblem& p, std::span<const MatMulPart> parts,
                               bool transposed) {
  onednn_call("a matrix product", [&] {
    for (const MatMulPart& part : parts) {
      const int64_t rows = part.m1 - part.m0;
      if (std::any_of(products_.begin(), products_.end(),
                      [&](const Product& known) { return known.rows == rows; }))
        continue;
      const PackedProduct made =
          plain_product({DType::kBF16, DType::kBF16, DType::kF32}, rows, p.k, p.n, transposed);
      products_.push_back({rows, made.primitive});
      scratchpad_bytes_ = std::max(scratchpad_bytes_, made.scratchpad);
    }
  });
  right_at_ = align_up(std::min(p.m, kRows) * p.k * 2, 64);
  scratchpad_at_ = right_at_ + align_up(p.k * p.n * 2, 64);
}

void RoundedProduct::run(const Sgemm& p, std::byte* scratch) const {
  round_rows_to_bf16(p.a, scratch, p.m, p.k, p.lda);
  round_rows_to_bf16(p.b, scratch + right_at_, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n,
                     p.ldb);
  const auto product = std::find_if(products_.begin(), products_.end(),
                                    [&](const Product& known) { return known.rows == p.m; });
  void* const pointers[4] = {scratch, scratch + right_at_, p.c, scratch + scratchpad_at_};
  product->primitive->execute(pointers);
}

}  // namespace xc::cpu

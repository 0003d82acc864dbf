#pragma once
// Constant right sides of matrix products in oneDNN's own layout.

#include <memory>
#include <vector>

#include "backends/cpu/onednn_common.h"

namespace xc::cpu {

/// Element types of a product: left side, right side, result.
struct ProductTypes {
  DType left, right, result;
};

/// A constant right side in the library's own layout, sliced by columns.
struct PackedWeights {
  ProductTypes types{};
  int64_t k = 0, n = 0;
  int64_t slices = 1;
  std::vector<dnnl::memory::desc> descs;  ///< per slice
  std::vector<int64_t> offsets;           ///< of each slice in `buffer`, bytes
  std::shared_ptr<Buffer> buffer;
  void* slice(size_t index) const { return buffer->data() + offsets[index]; }
  /// Elements between panels of 64 columns, within which rows (of bf16: pairs of rows) lie one
  /// after another, when the library has chosen f32 or bf16 weights to lie so
  /// (vector/few_rows_fn.h); 0 otherwise.
  int64_t panel(size_t index) const;
  /// Of the slice that begins at column n0.
  size_t slice_at(int64_t n0) const;
};

/// Packs weights [k, n] (transposed: [n, k]) as types.right, rounded where they are f32. For one
/// thread only f32 is sliced. Slow; fails with kOutOfMemory.
std::shared_ptr<const PackedWeights> pack_weights(const Tensor& weights, bool transposed,
                                                  const ProductTypes& types, int threads);

/// A product with a slice of packed weights: left side [m, k] of row stride lda, result [m, n] of
/// row stride ldc. Arguments in order: left, weights, result, scratchpad of `scratchpad` bytes.
struct PackedProduct {
  std::unique_ptr<PreparedPrimitive> primitive;
  int64_t scratchpad = 0;
};
PackedProduct packed_product(const PackedWeights& weights, size_t slice, int64_t m, int64_t lda,
                             int64_t ldc);

}  // namespace xc::cpu

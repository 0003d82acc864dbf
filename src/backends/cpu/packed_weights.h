#pragma once
// Constant right sides of matrix products: in oneDNN's own layout, or, f32 below AVX-512, where it
// has none, in panels of ours.

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/cpu/onednn_common.h"
#include "backends/cpu/vector/bf16x3_fn.h"

namespace xc::cpu {

/// Element types of a product: left side, right side, result.
struct ProductTypes {
  DType left, right, result;
};

/// A product with a slice of packed weights. Arguments in order: left, weights, result, scratchpad
/// of `scratchpad` bytes.
struct PackedProduct {
  std::shared_ptr<const PreparedPrimitive> primitive;  ///< null: not there
  int64_t scratchpad = 0;
  bool made = false;  ///< now, and not before for another
};

/// Products made for packed weights, each for as long as a bound step holds it: a new shape that
/// differs in dims which are not the product's (the past of a decoder) finds all its primitives.
/// Threads may share it.
class PackedProducts {
 public:
  using Key = std::array<int64_t, 4>;  ///< m, n, lda, ldc
  PackedProduct find(const Key& key) const;
  void add(const Key& key, const PackedProduct& product);

 private:
  struct Entry {
    std::weak_ptr<const PreparedPrimitive> primitive;
    int64_t scratchpad;
  };
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

/// A constant right side, sliced by columns. f32 weights that are all
/// halves (the model's own, or converted from such) are held as those, element by element in the
/// same order: half the bytes in memory, and half to read where the own kernel reads them.
class PackedWeights {
 public:
  ProductTypes types{};
  int64_t k = 0, n = 0;
  int64_t slices = 1;
  DType stored = DType::kF32;  ///< types.right, or f16 or bf16 in place of f32
  /// Results of slices are written without gaps, and parts have many rows (split_slices()): of
  /// bf16, and of bytes where matrix units multiply them.
  bool dense_slices() const;
  /// In the narrow panels of vector/panel_product_fn.h, which the library does not read.
  bool narrow_panels = false;
  /// Whether matrix units for bf16 may multiply them, which are f32 (vector/bf16x3_fn.h): such are
  /// there, an own kernel reads the panels, and the largest element is in their range.
  bool for_units = false;
  std::vector<dnnl::memory::desc> descs;  ///< per slice, of types.right; none of narrow panels
  std::unique_ptr<PackedProducts> products = std::make_unique<PackedProducts>();
  /// How an own kernel reads a slice in the library's layout (vector/few_rows_fn.h), when the
  /// library has chosen f32 or bf16 weights to lie so: elements between panels of 64 columns,
  /// within which rows (of bf16: pairs of rows) lie one after another; 0 for f32 in rows; nothing
  /// otherwise.
  std::optional<int64_t> panel(size_t index) const;
  /// Whether own kernels read each slice so.
  bool in_panels() const;
  WeightFormat format() const;
  /// Whether they are stored as halves that the library does not read: see widen().
  bool halves() const { return stored != types.right; }
  /// As stored.
  void* slice(size_t index) const { return buffer_->data() + offsets_[index]; }
  /// Of the memory that widen() needs; 0: what is stored is what the library reads.
  int64_t widened_bytes(size_t index) const;
  /// As the library reads it: in `memory`, or where it lies.
  void* widen(size_t index, void* memory) const;
  /// Whether results must be dense: for weights in blocks the library has a kernel for no others
  /// but its reference, a thousand times as slow (oneDNN 3.2).
  bool dense_only(size_t index) const { return descs[index].get_inner_nblks() > 0; }
  /// Of the slice that begins at column n0.
  size_t slice_at(int64_t n0) const;
  /// Packs weights [k, n], whose element strides are `k_stride` and `n_stride`. Once, first of all;
  /// `types`, `k`, `n` and `slices` are set.
  void pack(const Tensor& weights, int64_t k_stride, int64_t n_stride);

 private:
  int64_t elements(size_t index) const;
  /// Asked of the library, which takes memory to answer.
  std::optional<int64_t> panel_of(const dnnl::memory::desc& desc) const;

  std::vector<int64_t> offsets_;  ///< of each slice in `buffer_`, bytes
  std::shared_ptr<Buffer> buffer_;
  std::vector<std::optional<int64_t>> panels_;  ///< of each slice, where not in narrow panels
};

/// Packs weights [k, n] (transposed: [n, k]) as types.right, rounded where they are f32. Slow;
/// fails with kOutOfMemory.
std::shared_ptr<const PackedWeights> pack_weights(const Tensor& weights, bool transposed,
                                                  const ProductTypes& types, int threads);

/// A product of a left side [m, k] of row stride lda; its result [m, n] has row stride ldc, n being
/// that of the slice.
/// `make`: where no bound step has it yet, which takes about a third of a millisecond.
PackedProduct packed_product(const PackedWeights& weights, size_t slice, int64_t m, int64_t lda,
                             int64_t ldc, bool make);

/// A product of dense operands [m, k] and [k, n] (transposed: [n, k]) in no layout of the library's
/// own, into a dense result.
PackedProduct plain_product(const ProductTypes& types, int64_t m, int64_t k, int64_t n,
                            bool transposed);

}  // namespace xc::cpu

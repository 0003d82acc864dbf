#pragma once
// Products of a few rows with weights in panels of 64 columns or in rows, read once at the speed of
// memory.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Of the left side, at most, for which it is the fastest; and with pairs, at most at all.
constexpr int64_t kFewRows = 48, kFewRowsOfPairs = 4;
constexpr int64_t kFewColumns = 64;  ///< of a panel

/// How weights of a few rows' products lie in memory.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,        ///< where widens_halves()
  kBF16,       ///< where widens_halves()
  kBF16Pairs,  ///< rows in pairs, as the library's products of bf16 read them
};

/// y[rows, n] = x[rows, k] * w. Element (k, j) of w is panels[j / 64 * panel + k * 64 + j % 64]; of
/// w whose rows lie in pairs panels[j / 64 * panel + (k / 2 * 64 + j % 64) * 2 + k % 2], the row
/// behind an odd k being 0. The last panel is whole. Without panels (`panel` 0, no pairs) element
/// (k, j) is panels[k * n + j]. Strides in elements; x and y are dense along a row. An element's
/// terms are added in the order of k, whatever the number of rows. x is f32 in all: halves are
/// widened, which is exact, so that products have the bits they have with f32 weights of the same
/// values. `add` (several rows or no panels): to what y holds.
struct FewRows {
  const float* x;
  int64_t x_row, rows, k, n;
  const void* panels;
  WeightFormat format;
  int64_t panel;  ///< between panels, 0: rows
  float* y;
  int64_t y_row;
  bool add = false;
};
using FewRowsFn = void (*)(const FewRows&);
/// With AVX-512; below, weights lie in narrow panels (panel_product_fn.h).
FewRowsFn few_rows_fn();
/// Whether the level has instructions that widen f16.
constexpr bool widens_halves(Isa isa) {
  return isa >= Isa::kAvx2;
}

namespace avx512 {
FewRowsFn few_rows_fn();
}

}  // namespace xc::cpu

#pragma once
// Products of any number of rows with constant weights kept in narrow panels, where the library has
// no layout of its own for them (below AVX-512).

#include <cstdint>

#include "backends/cpu/vector/few_rows_fn.h"
#include "base/cpu_info.h"

namespace xc::cpu {

/// Columns of a panel: two vectors.
constexpr int64_t panel_columns(Isa isa) {
  return isa >= Isa::kAvx2 ? 16 : 8;
}

/// y[rows, n] = x[rows, k] * w. With c = panel_columns(), element (k, j) of w is panels[(j / c * k
/// + k) * c + j % c]: panels lie one behind the other, the last one whole. Strides in elements; x
/// and y are dense along a row. An element's terms are added in the order of k, whatever the number
/// of rows. x is f32: halves (where widens_halves()) are widened, which is exact, so that products
/// have the bits they have with f32 weights of the same values; no pairs. `add`: to what y holds.
struct PanelProduct {
  const float* x;
  int64_t x_row, rows, k, n;
  const void* panels;
  WeightFormat format;
  float* y;
  int64_t y_row;
  bool add = false;
};
using PanelProductFn = void (*)(const PanelProduct&);
/// For the highest level up to `isa` and AVX2.
PanelProductFn panel_product_fn(Isa isa);

namespace baseline {
PanelProductFn panel_product_fn();
}
namespace avx2 {
PanelProductFn panel_product_fn();
}

}  // namespace xc::cpu

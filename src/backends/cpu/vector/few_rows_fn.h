#pragma once
// Products of a few rows with weights in panels of 64 columns or in rows, read once at the speed of
// memory.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Of the left side, at most, for which it is the fastest; and with bf16 weights, at most at all.
constexpr int64_t kFewRows = 48, kFewRowsOfPairs = 4;
constexpr int64_t kFewColumns = 64;  ///< of a panel

/// y[rows, n] = x[rows, k] * w. Element (k, j) of f32 w is panels[j / 64 * panel + k * 64 + j %
/// 64]; of bf16 w, whose rows lie in pairs, panels[j / 64 * panel + (k / 2 * 64 + j % 64) * 2 + k %
/// 2], the row behind an odd k being 0. The last panel is whole. Without panels (`panel` 0, f32)
/// element (k, j) is panels[k * n + j]. Strides in elements; x and y are dense along a row. An
/// element's terms are added in the order of k, whatever the number of rows. x is f32 in all: bf16
/// weights are widened, which is exact. `add` (f32 weights and several rows): to what y holds.
struct FewRows {
  const float* x;
  int64_t x_row, rows, k, n;
  const void* panels;  ///< f32 or bf16
  bool pairs;          ///< bf16
  int64_t panel;       ///< between panels, 0: rows
  float* y;
  int64_t y_row;
  bool add = false;
};
using FewRowsFn = void (*)(const FewRows&);
FewRowsFn few_rows_fn(Isa isa);

namespace baseline {
FewRowsFn few_rows_fn();
}
namespace avx2 {
FewRowsFn few_rows_fn();
}
namespace avx512 {
FewRowsFn few_rows_fn();
}

}  // namespace xc::cpu

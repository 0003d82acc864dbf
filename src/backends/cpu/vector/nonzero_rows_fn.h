#pragma once
// Products of rows that hold mostly zeros with weights in panels of columns or in rows: a zero
// costs a look, and its row of weights is not read.

#include <cstdint>

#include "backends/cpu/vector/few_rows_fn.h"
#include "base/cpu_info.h"

namespace xc::cpu {

/// y[rows, n] = x[rows, k] * w, x and y f32. With c = panel_columns (a multiple of four
/// vectors; below AVX-512 also the function of that name), element (k, j) of w is w[j / c * panel +
/// k * w_row + j % c], the last panel being whole; without panels (`panel` 0) it is w[k * w_row +
/// j]; no pairs. Strides in elements; x and y are dense along a row. Terms whose x is zero are left
/// out, unless `all` is set: then the result is that of the whole product, where w has infinities
/// and NaN too. An element's terms are added in two sums, every second one that counts, in the
/// order of k.
struct NonzeroRows {
  const float* x;
  int64_t x_row, rows, k, n;
  const void* w;
  WeightFormat format;
  int64_t panel, panel_columns, w_row;
  float* y;
  int64_t y_row;
  bool all;
  float* values;     ///< scratch of nonzero_capacity(k): the elements that count,
  int32_t* columns;  ///< likewise: where they are
};
/// Elements of scratch for rows of k: one row always fits, of emptier ones many. What lies behind a
/// list may be overwritten by a vector.
constexpr int64_t nonzero_capacity(int64_t k) {
  return k + 8192 + 16;
}

using NonzeroRowsFn = void (*)(const NonzeroRows&);
NonzeroRowsFn nonzero_rows_fn(Isa isa);

namespace baseline {
NonzeroRowsFn nonzero_rows_fn();
}
namespace avx2 {
NonzeroRowsFn nonzero_rows_fn();
}
namespace avx512 {
NonzeroRowsFn nonzero_rows_fn();
}

}  // namespace xc::cpu

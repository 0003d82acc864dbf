#pragma once
// Products of several rows with f32 weights that a kernel lays out for itself.

#include <array>

#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {

/// Columns of the weights that lie together: `wide` with AVX-512, below those of a narrow panel
/// (vector/panel_product_fn.h).
inline int64_t columns_together(int64_t wide) {
  const Isa isa = cpu_info().isa;
  return isa < Isa::kAvx512 ? panel_columns(isa) : wide;
}
/// Where element (row, column) of weights of `rows` rows lies.
inline int64_t own_place(int64_t rows, int64_t together, int64_t row, int64_t column) {
  return (column / together * rows + row) * together + column % together;
}
/// Lays out a part of such weights, which are `rows` rows in all: dims [rows, columns] of it from
/// `row` and `column` on. Element strides.
void lay_out(const float* from, std::array<int64_t, 2> dims, std::array<int64_t, 2> strides,
             int64_t rows, int64_t together, int64_t row, int64_t column, float* to);
/// With weights laid out so; `together`: columns_together() of 64, for any number of columns, or of
/// all columns of p. Several rows, f32.
void own_product(const PanelProduct& p, int64_t together);

}  // namespace xc::cpu

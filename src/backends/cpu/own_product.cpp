#include "backends/cpu/own_product.h"

#include <algorithm>

#include "backends/cpu/copy.h"

namespace xc::cpu {

void lay_out(const float* from, std::array<int64_t, 2> dims, std::array<int64_t, 2> strides,
             int64_t rows, int64_t together, int64_t row, int64_t column, float* to) {
  for (int64_t c = 0; c < dims[1];) {
    const int64_t at = column + c, some = std::min(together - at % together, dims[1] - c);
    copy_matrix({.rows = dims[0],
                 .columns = some,
                 .from_row = strides[0],
                 .from_column = strides[1],
                 .to_row = together,
                 .to_column = 1,
                 .element_bytes = sizeof(float)},
                from + c * strides[1], to + own_place(rows, together, row, at));
    c += some;
  }
}

void own_product(const PanelProduct& p, int64_t together) {
  const Isa isa = cpu_info().isa;
  if (isa < Isa::kAvx512) return panel_product_fn(isa)(p);
  few_rows_fn()({.x = p.x,
                 .x_row = p.x_row,
                 .rows = p.rows,
                 .k = p.k,
                 .n = p.n,
                 .panels = p.panels,
                 .format = WeightFormat::kF32,
                 .panel = together == p.n ? 0 : p.k * together,
                 .y = p.y,
                 .y_row = p.y_row,
                 .add = p.add});
}

}  // namespace xc::cpu

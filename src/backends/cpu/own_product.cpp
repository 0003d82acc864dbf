#include "backends/cpu/own_product.h"

namespace xc::cpu {

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

// Axes of an operand stand for the last axes of batch, row and column, as numpy broadcasts: one of
// size 1 is the same for all, and so is what an operand has no axis for.
#include "plan/fusion/block_kernel.h"

#include <algorithm>

#include "loop/verify.h"

namespace xc::fusion {

using loop::Affine;
using loop::Expr;

BlockKernel::BlockKernel(const BlockRegion& region, const BlockTiles& tiles)
    : region_(region),
      tiles_(tiles),
      builder_("blocks"),
      access_(builder_, region.spec(), phase_),
      batch_(region.space().batch.size(), Affine(0)) {}

Expr BlockKernel::extent(const Dim& dim) {
  if (dim.is_constant()) return loop::i64(dim.value());
  auto [it, fresh] = extents_.try_emplace(dim.text());
  if (fresh) it->second = access_.extent(region_.dim_of(dim));
  return it->second;
}

std::vector<loop::Index> BlockKernel::indices(uint32_t operand, const Affine& row,
                                              const Affine& column) const {
  const Operand& o = operand_at(region_.spec(), operand);
  const size_t batch = batch_.size(), lead = batch + 2 - o.dims.size();
  std::vector<loop::Index> out;
  for (size_t a = 0; a < o.dims.size(); ++a) {
    const size_t axis = a + lead;
    if (o.dims[a] == Dim(1))
      out.emplace_back(0);
    else
      out.emplace_back(axis < batch ? batch_[axis] : axis == batch ? row : column);
  }
  return out;
}

loop::Element BlockKernel::element(uint32_t operand, const Affine& row, const Affine& column) {
  return access_.whole_buffer(operand).at(indices(operand, row, column));
}

Expr BlockKernel::load(uint32_t operand, const Affine& row, const Affine& column,
                       const Expr& guard) {
  const Operand& o = region_.spec().inputs[operand];
  if (is_scalar_constant(o)) return literal(o.constant);
  const size_t lead = batch_.size() + 2 - o.dims.size();
  const size_t row_axis = batch_.size();
  const bool by_row = row_axis >= lead && !(o.dims[row_axis - lead] == Dim(1));
  return element(operand, row, column).guarded(by_row ? guard : Expr());
}

loop::Buffer BlockKernel::temp(uint32_t index, const BlockColumn& column) {
  return access_.temp(index, column.type, true, {column.elements(), column.row(), 1});
}

RegionPhase BlockKernel::finish() {
  loop::Kernel kernel = builder_.finish();
  access_.finish();
  for (const auto& [var, copies] : jams_) {
    if (copies <= 1) continue;
    const std::string name(kernel.vars[var.id]);  // before the kernel moves
    kernel = loop::jam(std::move(kernel), name, copies);
  }
  loop::verify(kernel, loop::Level::kScheduled);
  phase_.matrix_units =
      std::any_of(kernel.accs.begin(), kernel.accs.end(),
                  [](const loop::AccDecl& acc) { return loop::needs_matrix_units(acc.op); });
  phase_.kernel = std::move(kernel);
  return std::move(phase_);
}

}  // namespace xc::fusion

// Two forms. Rows in memory times a narrow matrix are dot products along the row, elements of the
// row in lanes. All others have rows in lanes: a vector of rows times one element of the matrix,
// which is never packed; long sums in panels of terms, or by the target's matrix units for bf16,
// where they are worth it: of operands that may be rounded, else of three parts of each number.
#include "plan/fusion/block_products.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/checked.h"
#include "plan/fusion/block_stores.h"

namespace xc::fusion {

using loop::Affine;
using loop::Expr;
using loop::Var;

namespace {

constexpr int64_t kPanelTerms = 64;  // of long sums: rows of so many stay in the first-level cache

}  // namespace

RowProducts::RowProducts(BlockKernel& kernel)
    : kernel_(kernel), region_(kernel.region()), builder_(kernel.builder()) {}

void RowProducts::write(BlockRows& rows, const Node& product) {
  region_.is_dot(product) ? write_along_rows(rows, product) : write_over_lanes(rows, product);
}

// ---- the matrix ---------------------------------------------------------------------------------

void RowProducts::stage_matrices() {
  for (NodeId id : region_.graph().order())
    if (region_.role(id) == BlockRole::kRowProduct && region_.is_dot(region_.graph().node(id)))
      stage(region_.graph().node(id));
}

/// The shared matrix, its columns one after another: in place, or brought there once per task, in
/// whole vectors: loads that reach over the end of a line take two turns (four columns of 500: a
/// block takes 0.92 of the time).
void RowProducts::stage(const Node& product) {
  const uint32_t operand = region_.operand_of(product.inputs[1]);
  const Operand& o = region_.spec().inputs[operand];
  const int64_t depth = region_.width(product.inputs[0]).value();
  const int64_t columns = region_.width(product.outputs[0]).value();
  if (columns == 1 || o.strides[o.strides.size() - 2] == Dim(1) || staged_.count(operand)) return;
  const int64_t pitch = align_up(depth, loop::kReductionLanes);
  const loop::Buffer copy =
      builder_.scratch("m" + std::to_string(operand), region_.value_type(product.inputs[1]),
                       loop::i64(pitch * columns), {pitch, 1});
  builder_.loop("c", 0, columns, [&](Var c) {
    builder_.loop(
        "k", loop::i64(0), loop::i64(depth),
        [&](Var k) { builder_.store(copy(c, k), matrix(operand, k, Affine(c))); },
        loop::LoopKind::kVector, 16);
  });
  staged_[operand] = copy;
}

Expr RowProducts::matrix(uint32_t operand, const Affine& k, const Affine& column) {
  if (const auto it = staged_.find(operand); it != staged_.end())
    return it->second.at({loop::Index(column), loop::Index(k)});
  return kernel_.load(operand, k, column);
}

// ---- along the row ------------------------------------------------------------------------------

void RowProducts::write_along_rows(BlockRows& rows, const Node& product) {
  const ValueId result = product.outputs[0];
  const uint32_t left = region_.operand_of(product.inputs[0]);
  const uint32_t right = region_.operand_of(product.inputs[1]);
  const int64_t columns = region_.width(result).value();
  const loop::Buffer out = rows.table(result);
  const auto write_rows = [&](std::span<const Affine> at) {
    std::vector<loop::Acc> sums;  // [row][column]
    for (size_t s = 0; s < at.size() * static_cast<size_t>(columns); ++s)
      sums.push_back(builder_.acc("s", loop::AccOp::kDot, region_.value_type(result),
                                  loop::AccOrder::kLanes16));
    const auto sum_of = [&](size_t q, int64_t c) {
      return sums[q * static_cast<size_t>(columns) + static_cast<size_t>(c)];
    };
    builder_.loop(
        "k", loop::i64(0), kernel_.extent(region_.width(product.inputs[0])),
        [&](Var k) {
          for (size_t q = 0; q < at.size(); ++q) {
            Expr x = kernel_.load(left, rows.global(at[q]), Affine(k));
            if (columns > 1) x = builder_.let("x", x);
            for (int64_t c = 0; c < columns; ++c)
              builder_.accumulate(sum_of(q, c), x, matrix(right, k, c));
          }
        },
        loop::LoopKind::kVector, loop::kReductionLanes);
    for (size_t q = 0; q < at.size(); ++q)
      for (int64_t c = 0; c < columns; ++c)
        builder_.store(out(Affine(c), at[q]),
                       as_stored(sum_of(q, c).value(), region_.stored_type(result)));
  };
  // Sums that are finished together are most of the code, and of what it takes to compile.
  constexpr int kFewColumns = 2, kRows = 4;
  if (columns > kFewColumns)
    return rows.for_pairs(
        "r", [&](const Affine& row, const Affine& other) { write_rows(std::array{row, other}); });
  rows.for_groups("r", kRows, [&](const BlockRows::RowOf& row_of, int at_once) {
    std::vector<Affine> at;
    for (int q = 0; q < at_once; ++q) at.push_back(row_of(q));
    write_rows(at);
  });
}

// ---- over lanes ---------------------------------------------------------------------------------

void RowProducts::write_over_lanes(BlockRows& rows, const Node& product) {
  const loop::Buffer left = materialise(rows, product.inputs[0]);
  const loop::Buffer out = rows.table(product.outputs[0]);
  const Dim depth = region_.width(product.inputs[0]), columns = region_.width(product.outputs[0]);
  const bool is_short = depth.is_constant() && depth.value() <= 2 * kPanelTerms;
  // Halves: sums on the way are not rounded.
  const DType stored = region_.stored_type(product.outputs[0]);
  // The code generator's functions have panels of their own.
  if (is_short || kernel_.tiles().is_generated(region_, product) ||
      stored != region_.value_type(product.outputs[0]))
    return write_tiles(rows, product, left, out, {loop::i64(0), kernel_.extent(depth), false});
  builder_.loop("j", 0, kernel_.extent(columns), [&](Var j) {
    rows.for_lanes([&](BlockRow& row) {
      builder_.store(rows.at(out, Affine(j), row), loop::constant(out.type(), 0));
    });
  });
  const Expr terms = kernel_.extent(depth), panel = loop::i64(kPanelTerms);
  const Expr panels = (terms + loop::i64(kPanelTerms - 1)) / panel;
  builder_.loop("p", loop::i64(0), panels, [&](Var p) {
    const Expr begin = loop::loop_var(p) * panel;
    write_tiles(rows, product, left, out, {begin, loop::min(begin + panel, terms), true});
  });
}

void RowProducts::write_tiles(BlockRows& rows, const Node& product, const loop::Buffer& left,
                              const loop::Buffer& out, const Terms& terms) {
  const BlockTiles& tiles = kernel_.tiles();
  const uint32_t right = region_.operand_of(product.inputs[1]);
  const Dim columns = region_.width(product.outputs[0]);
  const DType type = region_.value_type(product.outputs[0]);
  const loop::AccOp sums = tiles.sums_of(region_, product);
  builder_.loop("j", 0, kernel_.extent(columns), [&](Var j) {
    rows.for_lanes(
        [&](BlockRow& row) {
          const loop::Element total = rows.at(out, Affine(j), row);
          const loop::Acc sum = builder_.acc("s", sums, type, loop::AccOrder::kSequential,
                                             terms.adds ? Expr(total) : Expr());
          builder_.loop("k", terms.begin, terms.end, [&](Var k) {
            builder_.accumulate(sum, rows.at(left, Affine(k), row), matrix(right, k, Affine(j)));
          });
          builder_.store(total, as_stored(sum.value(), region_.stored_type(product.outputs[0])));
        },
        tiles.product_lanes);
    if (tiles.is_generated(region_, product)) return;
    const int tile = tile_of(type, tiles.tile_columns);
    const int copies =
        is_narrow(columns) ? static_cast<int>(std::min<int64_t>(columns.value(), tile)) : tile;
    kernel_.jam(j, copies);
  });
}

}  // namespace xc::fusion

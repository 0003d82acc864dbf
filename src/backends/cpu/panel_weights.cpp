#include "backends/cpu/panel_weights.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kScale = 2, kZero = 3;

/// A panel's columns of a row, unsigned.
using PanelRow = std::array<uint8_t, kPanelColumns>;

}  // namespace

/// The columns of a matrix of k rows that one panel holds.
struct PanelWeights::WeightColumns {
  const uint8_t* first;
  int64_t row_bytes, k, count;
  unsigned shift;  ///< added to each

  /// Row d. Zeros stand for what is not there.
  void read(int64_t d, unsigned mask, PanelRow& out) const {
    const auto read_row = [&](const uint8_t* from, uint8_t* to, int64_t columns) {
      for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<uint8_t>((from[j] + shift) & mask);
    };
    if (d < k && count == kPanelColumns)
      return read_row(first + d * row_bytes, out.data(), kPanelColumns);
    out.fill(0);
    if (d < k) read_row(first + d * row_bytes, out.data(), count);
  }
};

Verdict takes_panels(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("no post-ops");
  for (size_t i = kW; i < spec.inputs.size(); ++i)
    if (spec.inputs[i].present() && !spec.inputs[i].constant)
      return Verdict::no(fmt::format("input {} is not constant", i));
  return Verdict::ok();
}

MatMulProblem panel_problem(const BindContext& context) {
  const BoundOperand operands[2] = {context.inputs[kX], context.inputs[kW]};
  MatMulProblem out = matmul_problem(operands[0], operands[1], context.outputs[0], false, false);
  FoldedContext folded;
  fold_rows(out, {operands, context.outputs}, 2, folded);
  return out;
}

bool has_four_bits(DType weights) {
  return weights == DType::kI4 || weights == DType::kU4 || weights == DType::kI2 ||
         weights == DType::kU2;
}

PanelWeights::PanelWeights(const StepSpec& spec, Layout layout)
    : layout_(layout),
      four_bits_(has_four_bits(spec.inputs[kW].dtype)),
      block_(spec.attrs().get_int("block_size", 1)) {
  const Tensor w = spec.inputs[kW].constant.held(true).to_contiguous();
  k = w.dims()[0];
  n = w.dims()[1];
  count = ceil_div(n, kPanelColumns);
  blocks_ = ceil_div(k, block_);
  // What is added to a signed number makes it an unsigned one.
  const unsigned shift = !is_signed(w.dtype()) ? 0 : four_bits_ ? 8 : 128;
  data_.resize(static_cast<size_t>(checked_mul(count, panel_bytes())));
  pack(w, shift);
  add_lines(spec, shift);
}

BlockPanel PanelWeights::rows_panel(int64_t index) const {
  return {data_of(index),
          four_bits_,
          k,
          block_,
          scales_.data() + line_of(index),
          zeros_.data() + line_of(index)};
}

BytePanel PanelWeights::groups_panel(int64_t index) const {
  return {data_of(index),
          four_bits_,
          k,
          block_,
          scales_.data() + line_of(index),
          zero_bytes_.data() + line_of(index)};
}

int64_t PanelWeights::panel_bytes() const {
  if (layout_ == Layout::kGroups)
    return checked_mul(ceil_div(k, group_rows(four_bits_)), kGroupBytes);
  return checked_mul(k, four_bits_ ? kPanelColumns / 2 : kPanelColumns);
}

void PanelWeights::pack(const Tensor& w, unsigned shift) {
  const int64_t rows = layout_ == Layout::kGroups ? group_rows(four_bits_) : 1;
  for (int64_t p = 0; p < count; ++p) {
    uint8_t* to = data_.data() + p * panel_bytes();
    const WeightColumns columns{w.as<uint8_t>() + p * kPanelColumns, n, k,
                                std::min(kPanelColumns, n - p * kPanelColumns), shift};
    for (int64_t d = 0; d < k; d += rows)
      to = layout_ == Layout::kGroups ? put_group(columns, d, to) : put_row(columns, d, to);
  }
}

/// Row d, which goes behind what is there.
uint8_t* PanelWeights::put_row(const WeightColumns& columns, int64_t d, uint8_t* to) const {
  PanelRow row;
  columns.read(d, four_bits_ ? 15 : 255, row);
  if (!four_bits_) return std::copy(row.begin(), row.end(), to);
  constexpr size_t kHalf = kPanelColumns / 2;
  for (size_t j = 0; j < kHalf; ++j) to[j] = static_cast<uint8_t>(row[j] | row[kHalf + j] << 4);
  return to + kHalf;
}

/// Rows d, d + 1, ... of a group.
uint8_t* PanelWeights::put_group(const WeightColumns& columns, int64_t d, uint8_t* to) const {
  std::array<PanelRow, 4> rows;
  for (int64_t i = 0; i < 4; ++i) {
    PanelRow& row = rows[static_cast<size_t>(i)];
    columns.read(d + i, four_bits_ ? 15 : 255, row);
    if (!four_bits_) continue;
    PanelRow high;
    columns.read(d + 4 + i, 15, high);
    for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<uint8_t>(row[j] | high[j] << 4);
  }
  for (size_t j = 0; j < rows[0].size(); ++j)
    for (size_t i = 0; i < 4; ++i) to[4 * j + i] = rows[i][j];
  return to + kGroupBytes;
}

void PanelWeights::add_lines(const StepSpec& spec, unsigned shift) {
  const Tensor scale = spec.inputs[kScale].constant.held().to_contiguous();
  const Tensor zero = spec.inputs.size() > kZero && spec.inputs[kZero].present()
                          ? spec.inputs[kZero].constant.held(true).to_contiguous()
                          : Tensor();
  const auto lines = static_cast<size_t>(checked_mul(count * blocks_, kPanelColumns));
  const bool bytes = layout_ == Layout::kGroups;
  scales_.assign(lines, 0.0f);
  zeros_.assign(bytes ? 0 : lines, 0.0f);
  zero_bytes_.assign(bytes ? lines : 0, 0);
  for (int64_t b = 0; b < blocks_; ++b)
    for (int64_t j = 0; j < n; ++j) {
      const auto at =
          static_cast<size_t>(line_of(j / kPanelColumns) + b * kPanelColumns + j % kPanelColumns);
      const int64_t z = (zero ? load_int64(zero.data(), zero.dtype(), b * n + j) : 0) + shift;
      scales_[at] = scale.as<float>()[b * n + j];
      // NaN counts as infinite.
      const float magnitude = std::fabs(scales_[at]);
      largest_scale_ = magnitude <= largest_scale_ ? largest_scale_
                       : std::isnan(magnitude)     ? HUGE_VALF
                                                   : magnitude;
      if (bytes)
        zero_bytes_[at] = static_cast<uint8_t>(z);
      else
        zeros_[at] = static_cast<float>(z);
    }
}

}  // namespace xc::cpu

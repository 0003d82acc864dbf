#include "backends/cpu/panel_weights.h"

#include <algorithm>

#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kScale = 2, kZero = 3;

}  // namespace

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
  const auto* from = w.as<uint8_t>();
  for (int64_t p = 0; p < count; ++p)
    for (int64_t d = 0; d < k; ++d)
      put_row(data_.data() + p * panel_bytes(), d, from + d * n + p * kPanelColumns,
              std::min(kPanelColumns, n - p * kPanelColumns), shift);
}

void PanelWeights::put_row(uint8_t* panel, int64_t d, const uint8_t* from, int64_t columns,
                           unsigned shift) const {
  const unsigned mask = four_bits_ ? 15 : 255;
  /// Columns [first, last), `step` bytes apart.
  const auto put = [&](uint8_t* to, int64_t step, int64_t first, int64_t last, int bits) {
    for (int64_t j = first; j < last; ++j, to += step)
      *to = static_cast<uint8_t>(*to | ((from[j] + shift) & mask) << bits);
  };
  if (layout_ == Layout::kGroups) {
    const int64_t rows = group_rows(four_bits_);
    return put(panel + d / rows * kGroupBytes + d % 4, 4, 0, columns, d % rows < 4 ? 0 : 4);
  }
  const int64_t row_bytes = four_bits_ ? kPanelColumns / 2 : kPanelColumns;
  put(panel + d * row_bytes, 1, 0, std::min(columns, row_bytes), 0);
  put(panel + d * row_bytes, 1, row_bytes, columns, 4);
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
      if (bytes)
        zero_bytes_[at] = static_cast<uint8_t>(z);
      else
        zeros_[at] = static_cast<float>(z);
    }
}

}  // namespace xc::cpu

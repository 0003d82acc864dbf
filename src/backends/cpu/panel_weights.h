#pragma once
// The constant weights of an xc::DequantizedMatMul as panels of 64 columns of unsigned integers, of
// half a byte each where they have 4 bits or fewer, with a scale and a zero point per block and
// column.

#include <vector>

#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/vector/byte_product_fn.h"
#include "backends/step.h"

namespace xc::cpu {

class PanelWeights {
 public:
  enum class Layout : uint8_t {
    kRows,    ///< BlockPanel
    kGroups,  ///< BytePanel
  };
  PanelWeights(const StepSpec& spec, Layout layout);

  BlockPanel rows_panel(int64_t index) const;
  BytePanel groups_panel(int64_t index) const;
  int64_t block() const { return block_; }
  float largest_scale() const { return largest_scale_; }  ///< its magnitude; infinite of NaN
  int64_t blocks() const { return blocks_; }
  int64_t k = 0, n = 0;
  int64_t count = 0;  ///< of panels

 private:
  int64_t panel_bytes() const;
  const uint8_t* data_of(int64_t panel) const {
    return data_.empty() ? nullptr : data_.data() + panel * panel_bytes();
  }
  /// Of the lines of a panel's blocks, the first.
  int64_t line_of(int64_t panel) const { return panel * blocks_ * kPanelColumns; }
  struct WeightColumns;
  void pack(const Tensor& w, unsigned shift);
  uint8_t* put_row(const WeightColumns& columns, int64_t d, uint8_t* to) const;
  uint8_t* put_group(const WeightColumns& columns, int64_t d, uint8_t* to) const;
  void add_lines(const StepSpec& spec, unsigned shift);

  Layout layout_;
  bool four_bits_;
  int64_t block_, blocks_ = 0;
  std::vector<uint8_t> data_;
  std::vector<float> scales_;
  float largest_scale_ = 0;
  std::vector<float> zeros_;         ///< of Layout::kRows
  std::vector<uint8_t> zero_bytes_;  ///< of Layout::kGroups
};

/// The operands that are in PanelWeights: BoundKernel::unread.
constexpr uint32_t kInPanels = 1u << 1 | 1u << 2 | 1u << 3;
/// What every kernel of xc::DequantizedMatMul asks of a step: constant weights, no post-ops.
Verdict takes_panels(const StepSpec& spec);
/// The step's product, its leading dims made rows where they can be.
MatMulProblem panel_problem(const BindContext& context);

/// Whether a type of weights has half a byte for each.
bool has_four_bits(DType weights);

}  // namespace xc::cpu

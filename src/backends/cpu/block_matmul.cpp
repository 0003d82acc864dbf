// xc::DequantizedMatMul: "xc.block_matmul". The weights stay integers, a byte or half a byte each,
// in panels of 64 columns made once. A few rows multiply them as they are read; for many rows, and
// where sums of x by integers would leave the range of f32, a part of some panels at a time becomes
// f32 in scratch and goes through a product (gemm.h, or by matrix units vector/bf16x3_fn.h). A left
// side that is to be rounded to bytes ("xc.byte_matmul" has no instructions for it here) is, to
// floats.

#include <algorithm>
#include <array>
#include <limits>

#include "backends/cpu/bf16x3_product.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/panel_weights.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/matmul.h"
#include "ops/rounded_blocks.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0;
/// From so many rows on, making f32 of the weights costs less than reading them row by row
/// (measured with 2048 x 2048 of 4 bits).
constexpr int64_t kManyRows = 16;
constexpr int64_t kPartTerms = 256, kPartPanels = 4;  ///< made f32 at a time: 256 KiB
/// Of a task, at least: others make the same weights f32 once more.
constexpr int64_t kPartRows = 128;
/// Of a task where matrix units multiply, at most: their parts of the left side and the results
/// stay in the second-level cache.
constexpr int64_t kUnitPartRows = 384;
constexpr float kLargestWeight = 255;  ///< as an integer, less its zero point or not

const BlockFns& fns() {
  static const BlockFns& found = block_fns(cpu_info().isa);
  return found;
}

class BlockMatMulBound final : public BoundKernel {
 public:
  BlockMatMulBound(const StepSpec& spec, const BindContext& context,
                   std::shared_ptr<const PanelWeights> panels)
      : output_(spec.inputs.size()), panels_(std::move(panels)) {
    unread = kInPanels;
    p_ = panel_problem(context);
    if (spec.attrs().get_int(kLeftInBytes.name, 0) != 0) round_left();
    parts_ = ceil_div(panels_->count, kPartPanels);
    many_ = p_.m >= kManyRows;
    if (p_.m >= kBf16x3LeastRows && p_.k > 0 && in_bf16x3_range(panels_->largest_scale()))
      units_ = bf16x3_fns();
    if (many_) split_rows(spec.threads);
    tasks = std::max<int64_t>(1, p_.batches * parts_ * row_parts_);
    const int64_t columns = kPartPanels * kPanelColumns, rows = most_rows();
    const bool dense = (p_.a_k == 1 || p_.k == 1) && (p_.a_m >= p_.k || p_.m == 1);
    x_bytes_ = dense ? 0 : align_up(checked_mul(rows, p_.k) * 4, 64);
    y_bytes_ = align_up(checked_mul(rows, columns) * 4, 64);
    // Behind them: a part of the weights, or the sums of x's blocks.
    const int64_t sums = many_ ? 0 : checked_mul(p_.m, panels_->blocks());
    scratch_bytes = x_bytes_ + y_bytes_ + std::max(sums, kPartTerms * columns) * 4;
    room_at_ = align_up(scratch_bytes, 64);
    room_ = gemm_room<float>(p_.m, columns, kPartTerms);
    units_at_ = align_up(room_at_ + room_ * 4, 64);
    scratch_bytes = units_at_ + (units_ ? units_->memory(rows, kPartTerms) : 0);
    // With 4 bits a block's sum is the difference of two.
    largest_ = std::numeric_limits<float>::max() / 2 / kLargestWeight /
               static_cast<float>(std::min(panels_->block(), std::max<int64_t>(1, p_.k)));
  }

  void start(const StepArgs& args) const override {
    auto* rounded = static_cast<float*>(args.shared);
    for (int64_t batch = 0; batch < p_.batches; ++batch)
      for (int64_t i = 0; i < p_.m; ++i, rounded += p_.k) {
        const auto* row = static_cast<const float*>(args.buffers[kX]) +
                          batch_offsets(given_, batch).a + i * given_.a_m;
        for (int64_t d = 0; d < p_.k; ++d) rounded[d] = row[d * given_.a_k];
        round_blocks(rounded, p_.k, panels_->block());
      }
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (p_.m == 0 || p_.n == 0) return;
    auto* scratch = static_cast<std::byte*>(args.scratch);
    const void* const left = shared_bytes > 0 ? args.shared : args.buffers[kX];
    auto* y = reinterpret_cast<float*>(scratch + x_bytes_);
    for (int64_t task = begin; task < std::min(end, p_.batches * parts_ * row_parts_); ++task) {
      const int64_t part = task % parts_, row_part = task / parts_ % row_parts_;
      const auto [a_at, b_at, c_at] = batch_offsets(p_, task / parts_ / row_parts_);
      const int64_t m0 = first_row(row_part);
      Rows rows{static_cast<const float*>(left) + a_at + m0 * p_.a_m, p_.a_m,
                first_row(row_part + 1) - m0};
      if (x_bytes_ > 0) {
        auto* dense = reinterpret_cast<float*>(scratch);
        for (int64_t i = 0; i < rows.count; ++i)
          for (int64_t d = 0; d < p_.k; ++d) dense[i * p_.k + d] = rows.x[i * p_.a_m + d * p_.a_k];
        rows.x = dense;
        rows.stride = p_.k;
      }
      const int64_t first = part * kPartPanels;
      const int64_t last = std::min(panels_->count, first + kPartPanels);
      const int64_t width = (last - first) * kPanelColumns;
      auto* rest = reinterpret_cast<float*>(scratch + x_bytes_ + y_bytes_);
      auto* const room = reinterpret_cast<float*>(scratch + room_at_);
      if (units_)
        multiply_on_units(rows, first, last, y, rest, room, scratch + units_at_);
      else if (many_ || !multiply_few(rows, first, last, y, rest))
        multiply_many(rows, first, last, y, rest, room);
      auto* out = static_cast<float*>(args.buffers[output_]) + c_at + m0 * p_.c_m;
      const int64_t n0 = first * kPanelColumns, n = std::min(width, p_.n - n0);
      for (int64_t i = 0; i < rows.count; ++i)
        for (int64_t j = 0; j < n; ++j) out[i * p_.c_m + (n0 + j) * p_.c_n] = y[i * width + j];
    }
  }

 private:
  /// Rows of x, each dense.
  struct Rows {
    const float* x;
    int64_t stride, count;
  };

  /// The left side is read from a copy in shared memory, dense and rounded.
  void round_left() {
    given_ = p_;
    p_.a_m = p_.k;
    p_.a_k = 1;
    int64_t stride = p_.m * p_.k;
    for (size_t axis = p_.batch.size(); axis-- > 0; stride *= p_.batch[axis])
      p_.a_batch[axis] = stride;
    shared_bytes = checked_mul(checked_mul(p_.batches, p_.m), p_.k) * 4;
  }

  /// Rows are split for threads that parts of the columns leave without work. No bit of a result
  /// depends on it.
  void split_rows(int threads) {
    const int64_t others = p_.batches * parts_;
    if (others % threads != 0 && others < 4 * threads)
      row_parts_ = std::clamp<int64_t>(p_.m / kPartRows, 1, threads);
    if (units_) row_parts_ = std::max(row_parts_, ceil_div(p_.m, kUnitPartRows));
  }
  /// Of a part of the rows: whole blocks of those that units multiply together.
  int64_t first_row(int64_t part) const {
    const int64_t unit = units_ ? kBf16x3Rows : 1;
    return std::min(p_.m, ceil_div(p_.m, unit) * part / row_parts_ * unit);
  }
  int64_t most_rows() const {
    int64_t out = 0;
    for (int64_t part = 0; part < row_parts_; ++part)
      out = std::max(out, first_row(part + 1) - first_row(part));
    return out;
  }

  /// False: the integers' sums could leave the range of f32, where those of the weights need not.
  bool multiply_few(const Rows& rows, int64_t first, int64_t last, float* y, float* sums) const {
    const int64_t width = (last - first) * kPanelColumns, blocks = panels_->blocks();
    for (int64_t i = 0; i < rows.count; ++i)
      if (fns().block_sums(rows.x + i * rows.stride, p_.k, panels_->block(), sums + i * blocks) >
          largest_)
        return false;
    std::array<BlockPanel, kPartPanels> panels;
    for (int64_t panel = first; panel < last; ++panel)
      panels[static_cast<size_t>(panel - first)] = panels_->rows_panel(panel);
    for (int64_t i = 0; i < rows.count; i += kBlockRows)
      fns().multiply(panels.data(), last - first,
                     {rows.x + i * rows.stride, rows.stride, sums + i * blocks, blocks,
                      std::min(kBlockRows, rows.count - i)},
                     y + i * width, width);
    return true;
  }

  /// Terms [k0, k1) of the weights of some panels, in rows.
  void dequantise(int64_t first, int64_t last, int64_t k0, int64_t k1, float* part) const {
    for (int64_t panel = first; panel < last; ++panel)
      fns().dequantise(panels_->rows_panel(panel), k0, k1, part + (panel - first) * kPanelColumns,
                       (last - first) * kPanelColumns);
  }

  void multiply_on_units(const Rows& rows, int64_t first, int64_t last, float* y, float* part,
                         float* room, std::byte* memory) const {
    const int64_t width = (last - first) * kPanelColumns;
    const FewRows product{.x = rows.x,
                          .x_row = rows.stride,
                          .rows = rows.count,
                          .k = p_.k,
                          .n = width,
                          .panels = part,
                          .format = WeightFormat::kF32,
                          .panel = 0,
                          .y = y,
                          .y_row = width};
    for (int64_t k0 = 0; k0 < p_.k; k0 += kPartTerms) {
      const Bf16x3Terms terms{k0, std::min(p_.k, k0 + kPartTerms), k0};
      dequantise(first, last, terms.begin, terms.end, part);
      units_->split(product, terms, memory);
      units_->multiply(product, terms, memory);
    }
    for_failed_blocks(*units_, product, memory, [&](const FewRows& block) {
      multiply_many({block.x, block.x_row, block.rows}, first, last, block.y, part, room);
    });
  }

  void multiply_many(const Rows& rows, int64_t first, int64_t last, float* y, float* part,
                     float* room) const {
    const int64_t width = (last - first) * kPanelColumns;
    if (p_.k == 0) std::fill_n(y, rows.count * width, 0.0f);
    for (int64_t k0 = 0; k0 < p_.k; k0 += kPartTerms) {
      const int64_t k1 = std::min(p_.k, k0 + kPartTerms);
      dequantise(first, last, k0, k1, part);
      const Sgemm product{
          .m = rows.count,
          .n = width,
          .k = k1 - k0,
          .alpha = 1.0f,
          .a = rows.x + k0,
          .lda = rows.stride,
          .b = part,
          .ldb = width,
          .beta = k0 == 0 ? 0.0f : 1.0f,
          .c = y,
          .ldc = width,
          .all_rows = p_.m,
          .room = room,
          .room_elements = room_,
      };
      own_gemm(product);
    }
  }

  size_t output_;
  std::shared_ptr<const PanelWeights> panels_;
  MatMulProblem p_, given_;
  bool many_ = false;
  const Bf16x3Fns* units_ = nullptr;  ///< of matrix units, where they multiply
  float largest_ = 0;                 ///< of x, as integers are multiplied
  int64_t parts_ = 1, row_parts_ = 1, x_bytes_ = 0, y_bytes_ = 0, room_at_ = 0, room_ = 0,
          units_at_ = 0;
};

struct Weights : PanelWeights {
  explicit Weights(const StepSpec& spec) : PanelWeights(spec, Layout::kRows) {}
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Weights>& weights) {
  return std::make_shared<BlockMatMulBound>(spec, context, weights);
}

}  // namespace

void add_block_matmul(Rows& rows) {
  rows.push_back(
      {"xc.block_matmul", "DequantizedMatMul", takes_panels, create_prepared<Weights, bind>});
}

}  // namespace xc::cpu

// xc::DequantizedMatMul whose left side is rounded to 8 bits block by block: "xc.byte_matmul". Once
// per run the rows are rounded in shared memory; bytes are multiplied by panels of the weights, and
// a block's sum, which is exact, is scaled once. A row that is not rounded (ops/rounded_blocks.h)
// is multiplied by the weights one after the other.

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/panel_weights.h"
#include "backends/cpu/simple_kernel.h"
#include "base/checked.h"
#include "ops/matmul.h"
#include "ops/rounded_blocks.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kScale = 2;
constexpr int64_t kPartPanels = 4;  ///< of a task
/// Of a task, at least: others read the same weights once more.
constexpr int64_t kPartRows = 32;

/// What start() leaves in shared memory: per row its bytes, the scales and sums of its blocks, and
/// whether it is rounded at all; room for a row whose elements lie apart.
struct Rounded {
  Rounded(int64_t rows, int64_t k, int64_t blocks) : row_bytes(align_up(k, 64)), blocks(blocks) {
    scales_at = checked_mul(rows, row_bytes);
    const int64_t lines = align_up(checked_mul(checked_mul(rows, blocks), 4), 64);
    sums_at = checked_add(scales_at, lines);
    flags_at = checked_add(sums_at, lines);
    dense_at = checked_add(flags_at, align_up(rows, 64));
    bytes = checked_add(dense_at, checked_mul(k, 4));
  }
  int8_t* row(void* shared, int64_t i) const {
    return static_cast<int8_t*>(shared) + i * row_bytes;
  }
  float* scales(void* shared, int64_t i) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(shared) + scales_at) + i * blocks;
  }
  float* sums(void* shared, int64_t i) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(shared) + sums_at) + i * blocks;
  }
  bool* flag(void* shared, int64_t i) const {
    return reinterpret_cast<bool*>(static_cast<std::byte*>(shared) + flags_at) + i;
  }
  float* dense(void* shared) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(shared) + dense_at);
  }
  int64_t row_bytes = 0, blocks = 0;
  int64_t scales_at = 0, sums_at = 0, flags_at = 0, dense_at = 0, bytes = 0;
};

class ByteMatMulBound final : public BoundKernel {
 public:
  ByteMatMulBound(const StepSpec& spec, const BindContext& context,
                  std::shared_ptr<const PanelWeights> weights, const ByteFns& fns)
      : output_(spec.inputs.size()),
        weights_(std::move(weights)),
        fns_(fns),
        p_(panel_problem(context)),
        rounded_(p_.batches * p_.m, p_.k, weights_->blocks()) {
    unread = kInPanels;
    parts_ = ceil_div(weights_->count, kPartPanels);
    // Rows are split for threads that parts of the columns leave without work.
    if (p_.batches * parts_ < 4 * spec.threads)
      row_parts_ = std::clamp<int64_t>(p_.m / kPartRows, 1, spec.threads);
    tasks = std::max<int64_t>(1, p_.batches * parts_ * row_parts_);
    shared_bytes = p_.m == 0 || p_.k == 0 ? 0 : rounded_.bytes;
    scratch_bytes = (kBlockRows * kPanelColumns + p_.k) * 4;
  }

  void start(const StepArgs& args) const override {
    float* const dense = rounded_.dense(args.shared);
    for (int64_t row = 0; row < p_.batches * p_.m; ++row)
      *rounded_.flag(args.shared, row) = fns_.round(
          row_of(args, row, dense), p_.k, weights_->block(), rounded_.row(args.shared, row),
          rounded_.scales(args.shared, row), rounded_.sums(args.shared, row));
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (p_.m == 0 || p_.n == 0) return;
    for (int64_t task = begin; task < std::min(end, p_.batches * parts_ * row_parts_); ++task) {
      const int64_t part = task % parts_, row_part = task / parts_ % row_parts_;
      const int64_t batch = task / parts_ / row_parts_;
      const int64_t last = std::min(weights_->count, (part + 1) * kPartPanels);
      for (int64_t panel = part * kPartPanels; panel < last; ++panel)
        run_rows(args, panel, batch, p_.m * row_part / row_parts_,
                 p_.m * (row_part + 1) / row_parts_);
    }
  }

 private:
  /// Row `row` of all batches' as it is given, in `dense` where its elements lie apart.
  const float* row_of(const StepArgs& args, int64_t row, float* dense) const {
    const float* const x = static_cast<const float*>(args.buffers[kX]) +
                           batch_offsets(p_, row / p_.m).a + row % p_.m * p_.a_m;
    if (p_.a_k == 1) return x;
    for (int64_t d = 0; d < p_.k; ++d) dense[d] = x[d * p_.a_k];
    return dense;
  }

  void run_rows(const StepArgs& args, int64_t panel, int64_t batch, int64_t begin,
                int64_t end) const {
    auto* const y = static_cast<float*>(args.scratch);
    for (int64_t i = begin, count = 0; i < end; i += count) {
      const int64_t row = batch * p_.m + i;
      if (p_.k == 0) {
        std::fill_n(y, kPanelColumns, 0.0f);
        count = 1;
      } else if (!*rounded_.flag(args.shared, row)) {
        multiply_as_given(row_of(args, row, y + kBlockRows * kPanelColumns),
                          weights_->groups_panel(panel), y);
        count = 1;
      } else {
        for (count = 1; count < std::min(kBlockRows, end - i); ++count)
          if (!*rounded_.flag(args.shared, row + count)) break;
        fns_.multiply(
            weights_->groups_panel(panel),
            {rounded_.row(args.shared, row), rounded_.row_bytes, rounded_.scales(args.shared, row),
             rounded_.sums(args.shared, row), rounded_.blocks, count},
            y, kPanelColumns);
      }
      write(args, panel, batch, i, count, y);
    }
  }

  void write(const StepArgs& args, int64_t panel, int64_t batch, int64_t i, int64_t count,
             const float* y) const {
    const int64_t n0 = panel * kPanelColumns, n = std::min(kPanelColumns, p_.n - n0);
    auto* const out = static_cast<float*>(args.buffers[output_]) + batch_offsets(p_, batch).c +
                      i * p_.c_m + n0 * p_.c_n;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 0; j < n; ++j) out[r * p_.c_m + j * p_.c_n] = y[r * kPanelColumns + j];
  }

  size_t output_;
  std::shared_ptr<const PanelWeights> weights_;
  const ByteFns& fns_;
  MatMulProblem p_;
  Rounded rounded_;
  int64_t parts_ = 1, row_parts_ = 1;
};

const ByteFns* fns_for(const StepSpec& spec) {
  return byte_fns(cpu_info(), has_four_bits(spec.inputs[kW].dtype));
}

struct Weights : PanelWeights {
  explicit Weights(const StepSpec& spec) : PanelWeights(spec, Layout::kGroups) {}
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Weights>& weights) {
  return std::make_shared<ByteMatMulBound>(spec, context, weights, *fns_for(spec));
}

Verdict supports(const StepSpec& spec) {
  if (spec.attrs().get_int(kLeftInBytes.name, 0) == 0)
    return Verdict::no("the left side is not rounded to bytes");
  if (!fns_for(spec)) return Verdict::no("the processor does not multiply such bytes exactly");
  if (const Verdict panels = takes_panels(spec); !panels.yes()) return panels;
  // The pass asks before it sets the attribute; a model file may have it beside any blocks.
  const Tensor& w = spec.inputs[kW].constant;
  if (!rounds_beside(w.dims()[0], spec.attrs().get_int("block_size", 1),
                     spec.inputs[kScale].constant))
    return Verdict::no("blocks or scales that the left side cannot be rounded for");
  return Verdict::ok();
}

}  // namespace

void add_byte_matmul(Rows& rows) {
  rows.push_back({"xc.byte_matmul", "DequantizedMatMul", supports, create_prepared<Weights, bind>});
}

}  // namespace xc::cpu

// Interpolating Resize of f32 and, between conversions, of bytes, "xc.resize": one axis after
// another, in blocks of the result whose intermediate values a cache holds.
//
// The order of the axes decides how much there is to do: an axis with long lines behind it is
// resampled in vectors, the innermost one element by element (by pixels, where values lie
// channels-last). A result that shrinks has its rows made first, one that grows its innermost axis.

#include <algorithm>
#include <memory>
#include <numeric>

#include "backends/cpu/between_casts.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/resize_axes.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/support.h"
#include "tensor/tensor.h"

namespace xc::cpu {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;  ///< of intermediate values, about
constexpr int64_t kTaskElements = 16 << 10;
/// Of an element beside others of its line, in those of one alone.
constexpr double kVectorCost = 0.15;
constexpr int64_t kVector = 8;
constexpr size_t kOrderedAxes = 4;  ///< orders of more are not all looked at

/// The samples of an axis, flat.
struct Table {
  explicit Table(const ResizeSamples& samples)
      : first(samples.first),
        index(samples.index),
        weight(samples.weight.begin(), samples.weight.end()) {}
  double taps() const {
    return static_cast<double>(index.size()) / static_cast<double>(first.size() - 1);
  }
  int64_t bytes() const {
    return static_cast<int64_t>((first.size() + index.size()) * 8 + weight.size() * 4);
  }
  std::vector<int64_t> first, index;
  std::vector<float> weight;
};

/// How dense values of dims `from` become those of dims `to`, axis by axis.
class Interpolation {
 public:
  Interpolation(const Dims& from, const Dims& to, const std::vector<ResizeSamples>& samples) {
    std::vector<size_t> order;
    for (size_t axis = 0; axis < samples.size(); ++axis)
      if (!samples[axis].empty()) order.push_back(axis);
    for (size_t axis : order) tables_.emplace_back(samples[axis]);
    // Without one to resample: lines of one block.
    lead_ = order.empty() ? 0 : order[0];
    choose_order(from, to, order);
    outer_ = product(from, 0, lead_);
    const int64_t outputs = to.empty() ? 1 : to[lead_], inputs = from.empty() ? 1 : from[lead_];
    input_step_ = inputs * (from.empty() ? 1 : product(from, lead_ + 1, from.size()));
    output_step_ = outputs * (to.empty() ? 1 : product(to, lead_ + 1, to.size()));
    cut(inputs, outputs);
  }

  int64_t tasks() const { return outer_ * static_cast<int64_t>(blocks_.size()); }
  int64_t scratch_bytes() const { return passes_.size() > 1 ? 2 * half_ : 0; }
  int64_t bytes() const {
    int64_t out = static_cast<int64_t>(blocks_.size() * sizeof(Block));
    for (const Table& table : tables_) out += table.bytes();
    return out;
  }

  void run(const float* x, float* y, void* scratch, int64_t begin, int64_t end) const {
    const auto count = static_cast<int64_t>(blocks_.size());
    for (int64_t task = begin; task < end; ++task) {
      const Block& block = blocks_[static_cast<size_t>(task % count)];
      const int64_t outer = task / count;
      block_of(block, x + outer * input_step_ + block.low * (input_step_ / input_rows_),
               y + outer * output_step_ + block.first * (output_step_ / output_rows_), scratch);
    }
  }

 private:
  struct Pass {
    size_t table = 0;
    int64_t input = 1;    ///< elements of the axis
    int64_t outputs = 1;  ///< made of them
    int64_t lines = 1;    ///< of a row of the leading axis
    int64_t inner = 1;    ///< elements of a line's element
    bool leading = false;
    bool led = false;  ///< behind the leading axis's pass
  };
  /// Outputs [first, last) of the leading axis and the inputs [low, high) they are made of.
  struct Block {
    int64_t first, last, low, high;
  };

  /// Of all orders the one with the least to do.
  void choose_order(const Dims& from, const Dims& to, const std::vector<size_t>& axes) {
    std::vector<size_t> order(axes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    double least = 0;
    do {
      double cost = 0;
      const std::vector<Pass> passes = passes_in(order, axes, from, to, cost);
      if (passes_.empty() || cost < least) {
        passes_ = passes;
        least = cost;
      }
    } while (axes.size() <= kOrderedAxes && std::next_permutation(order.begin(), order.end()));
  }

  std::vector<Pass> passes_in(const std::vector<size_t>& order, const std::vector<size_t>& axes,
                              const Dims& from, const Dims& to, double& cost) const {
    std::vector<Pass> out;
    Dims dims = from;
    bool led = false;
    for (size_t table : order) {
      const size_t axis = axes[table];
      Pass pass;
      pass.table = table;
      pass.input = dims[axis];
      pass.outputs = to[axis];
      pass.leading = axis == lead_;
      pass.led = led;
      pass.lines = pass.leading ? 1 : product(dims, lead_ + 1, axis);
      pass.inner = product(dims, axis + 1, dims.size());
      dims[axis] = to[axis];
      cost += static_cast<double>(element_count(dims)) * tables_[table].taps() *
              (pass.inner < kVector ? 1 : kVectorCost);
      led = led || pass.leading;
      out.push_back(pass);
    }
    return out;
  }

  /// Of a row of the leading axis, that a pass leaves behind.
  static int64_t row_elements(const Pass& pass) {
    return checked_mul(pass.leading ? 1 : checked_mul(pass.lines, pass.outputs), pass.inner);
  }

  void cut(int64_t inputs, int64_t outputs) {
    input_rows_ = std::max<int64_t>(1, inputs);
    output_rows_ = std::max<int64_t>(1, outputs);
    int64_t widest = 1;  // rows in the cache
    for (size_t i = 0; i + 1 < passes_.size(); ++i)
      widest = std::max(widest, row_elements(passes_[i]));
    const double inputs_each =
        std::max(1.0, static_cast<double>(inputs) / static_cast<double>(output_rows_));
    const int64_t row = std::max<int64_t>(1, output_step_ / output_rows_);
    auto rows =
        static_cast<int64_t>(kBlockBytes / (4.0 * static_cast<double>(widest) * inputs_each));
    const int64_t least =
        std::clamp<int64_t>(kTaskElements / row / 4, 1, output_rows_);  // worth a task
    rows = std::clamp(rows, least, output_rows_);
    const int64_t count = ceil_div(output_rows_, rows);
    const Table* lead = nullptr;
    for (const Pass& pass : passes_)
      if (pass.leading) lead = &tables_[pass.table];
    for (int64_t b = 0; b < count; ++b) {
      Block block{output_rows_ * b / count, output_rows_ * (b + 1) / count, 0, 0};
      block.low = block.first;
      block.high = block.last;
      if (lead) {
        const auto begin = lead->index.begin() + lead->first[static_cast<size_t>(block.first)];
        const auto end = lead->index.begin() + lead->first[static_cast<size_t>(block.last)];
        const auto [low, high] = std::minmax_element(begin, end);
        block.low = *low;
        block.high = *high + 1;
      }
      for (size_t i = 0; i + 1 < passes_.size(); ++i) {
        const Pass& pass = passes_[i];
        const int64_t here =
            pass.leading || pass.led ? block.last - block.first : block.high - block.low;
        half_ = std::max(half_, align_up(checked_mul(here, row_elements(pass)) * 4, 64));
      }
      blocks_.push_back(block);
    }
  }

  void block_of(const Block& block, const float* from, float* result, void* scratch) const {
    if (passes_.empty()) {
      std::copy_n(from, (block.last - block.first) * (output_step_ / output_rows_), result);
      return;
    }
    const LineFns& fns = line_fns(cpu_info().isa);
    for (size_t i = 0; i < passes_.size(); ++i) {
      const Pass& pass = passes_[i];
      const Table& table = tables_[pass.table];
      float* const to = i + 1 == passes_.size()
                            ? result
                            : reinterpret_cast<float*>(static_cast<std::byte*>(scratch) +
                                                       static_cast<int64_t>(i % 2) * half_);
      if (pass.leading) {
        fns.resampled(
            from,
            {table.first.data() + block.first, table.index.data(), table.weight.data(), block.low},
            block.last - block.first, pass.inner, to);
      } else {
        const int64_t rows = pass.led ? block.last - block.first : block.high - block.low;
        const AxisTable whole{table.first.data(), table.index.data(), table.weight.data(), 0};
        for (int64_t line = 0; line < rows * pass.lines; ++line)
          fns.resampled(from + line * pass.input * pass.inner, whole, pass.outputs, pass.inner,
                        to + line * pass.outputs * pass.inner);
      }
      from = to;
    }
  }

  std::vector<Table> tables_;
  std::vector<Pass> passes_;
  std::vector<Block> blocks_;
  size_t lead_ = 0;  ///< the outermost axis of those resampled
  int64_t outer_ = 1, input_step_ = 1, output_step_ = 1, input_rows_ = 1, output_rows_ = 1;
  int64_t half_ = 0;
};

class InterpolateBound final : public BoundKernel {
 public:
  InterpolateBound(const StepSpec& spec, const BindContext& context)
      : spec_(spec), views_(spec, context), order_(memory_order(views_.outputs[0])) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    if (y.count() == 0) return;
    x_dims_ = permuted(x.dims, order_);
    y_dims_ = permuted(y.dims, order_);
    const Dims x_strides = permuted(x.strides, order_), y_strides = permuted(y.strides, order_);
    // What does not lie in the order of the result is brought there first, or last.
    if (!is_contiguous(x_dims_, x_strides)) {
      gathers_ = true;
      gather_ = CopyPlan(x_dims_, x_strides, contiguous_strides(x_dims_), 4);
      gathered_ = align_up(x.count() * 4, 64);
    }
    if (!is_contiguous(y_dims_, y_strides)) {
      scatters_ = true;
      scatter_ = CopyPlan(y_dims_, contiguous_strides(y_dims_), y_strides, 4);
      scattered_ = align_up(y.count() * 4, 64);
    }
    scratch_bytes = gathered_ + scattered_;
    held_bytes += views_.bytes();
    if (resized_by_run(spec)) {
      allocates = true;
      return;
    }
    known_ = interpolation(ControlInputs(spec_, views_));
    if (!gathers_ && !scatters_) tasks = known_->tasks();
    scratch_bytes += known_->scratch_bytes();
    held_bytes += known_->bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (views_.outputs[0].count() == 0) return;
    const auto* x = static_cast<const float*>(args.buffers[0]);
    auto* y = static_cast<float*>(args.buffers[views_.inputs.size()]);
    auto* scratch = static_cast<std::byte*>(args.scratch);
    if (known_ && !gathers_ && !scatters_) return known_->run(x, y, scratch, begin, end);
    if (gathers_) {
      gather_.run(x, scratch);
      x = reinterpret_cast<const float*>(scratch);
    }
    auto* const to = scatters_ ? reinterpret_cast<float*>(scratch + gathered_) : y;
    if (known_) {
      known_->run(x, to, scratch + gathered_ + scattered_, 0, known_->tasks());
    } else {
      const auto now = interpolation(ControlInputs(spec_, views_, args.buffers));
      const auto memory = Buffer::allocate(std::max<int64_t>(64, now->scratch_bytes()));
      now->run(x, to, memory->data(), 0, now->tasks());
    }
    if (scatters_) scatter_.run(to, y);
  }

 private:
  std::unique_ptr<const Interpolation> interpolation(const ControlInputs& control) const {
    return std::make_unique<const Interpolation>(
        x_dims_, y_dims_, permuted(resize_axes(spec_, views_, control), order_));
  }

  StepSpec spec_;
  OperandViews views_;
  std::vector<size_t> order_;                   ///< of axes, in the result's memory
  Dims x_dims_, y_dims_;                        ///< in that order
  std::unique_ptr<const Interpolation> known_;  ///< null: of each run
  bool gathers_ = false, scatters_ = false;
  CopyPlan gather_, scatter_;
  int64_t gathered_ = 0, scattered_ = 0;  ///< bytes in scratch
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context) {
  if (spec.inputs[0].dtype == DType::kF32) return std::make_shared<InterpolateBound>(spec, context);
  return std::make_shared<BetweenCasts>(spec, context, [&](const BindContext& wide) {
    return std::make_shared<InterpolateBound>(in_f32(spec), wide);
  });
}

/// f32, and the bytes of images.
Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kF32 && spec.inputs[0].dtype != DType::kU8)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  return supports_resize(spec, false);
}

}  // namespace

void add_interpolate(Rows& rows) {
  rows.push_back({"xc.resize", "Resize", supports, create_by<bind>, any_order});
}

}  // namespace xc::cpu

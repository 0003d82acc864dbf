// Each phase of the stride (conv_transpose_phases.h) is a convolution of planes: what a block of
// rows reads lies in scratch with zeros around the image, and neighbouring results of a phase are
// vectors along its rows (`vector/plane_row.inc`). Those of the phases along a row are woven into
// it.

#include "backends/cpu/plane_conv_transpose.h"

#include <algorithm>
#include <array>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/conv_transpose_phases.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/plane_row_fn.h"
#include "base/checked.h"
#include "ops/conv_transpose.h"

namespace xc::cpu {

namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;
/// Channels of a group, and of its result: more of these fill the vectors of others, which pays
/// where they are sums of many. Of one nothing shares what is loaded, which pays where it is a sum
/// of few, as in depthwise ones.
constexpr int64_t kFewPlanes = 4, kMostPlanes = 256, kMostResults = 8, kSomePlanes = 16,
                  kSomeResults = 16;
constexpr int64_t kMostStride = 8;
constexpr double kLeastUseful = 0.65;      ///< of the vectors of a row
constexpr int64_t kBlockBytes = 24 << 10;  ///< what a block reads, about
constexpr int64_t kFewestRows = 4;         ///< of a block, where the second-level cache has room

}  // namespace

/// What binding does not depend on. Weights by phase, rows then columns: [result][input
/// plane][tap of a column][tap of a row], of all groups' results.
struct PlaneTransposeModel {
  explicit PlaneTransposeModel(const StepSpec& spec)
      : fns(plane_row_fns(cpu_info().isa)), behind(spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    const Dims& dims = w.dims();
    const WindowAttrs window = window_attrs(*spec.node, dims.size() - 2);
    const bool has_rows = dims.size() > 3;
    const size_t last = dims.size() - 3;
    const int64_t down = has_rows ? dims[2] : 1, along = dims.back();
    groups = spec.attrs().get_int("group", 1);
    in = dims[0] / groups;
    out = dims[1];
    rows = has_rows ? phases_of(down, window.strides[0], window.dilations[0]) : phases_of(1, 1, 1);
    cols = phases_of(along, window.strides[last], window.dilations[last]);
    weights.reserve(static_cast<size_t>(w.count()));
    for (const Phase& h : rows)
      for (const Phase& v : cols) {
        first.push_back(static_cast<int64_t>(weights.size()));
        for (int64_t r = 0; r < groups * out; ++r)
          for (int64_t c = 0; c < in; ++c)
            for (const Phase::Tap& a : h.taps)
              for (const Phase::Tap& b : v.taps)
                weights.push_back(
                    w.as<float>()[(((r / out * in + c) * out + r % out) * down + a.position) *
                                      along +
                                  b.position]);
      }
  }
  PlaneRowFns fns;
  std::vector<Phase> rows, cols;
  int64_t groups = 1, in = 0, out = 0;  ///< channels of a group
  std::vector<float> weights;
  std::vector<int64_t> first;  ///< of a phase of rows and columns
  BoundedEpilogue behind;
};

namespace {

/// Of all taps (Phase): that of the last position.
int64_t most_shift(const WindowAxis& axis) {
  return (axis.kernel - 1) * axis.dilation / axis.stride;
}

class PlaneTransposeBound final : public BoundKernel {
 public:
  PlaneTransposeBound(const StepSpec& spec, const BindContext& context,
                      const std::array<WindowAxis, 3>& axes,
                      std::shared_ptr<const PlaneTransposeModel> model)
      : model_(std::move(model)),
        rows_(axes[1]),
        cols_(axes[2]),
        x_(context.inputs[kX].strides),
        y_(context.outputs[0].strides),
        images_(context.outputs[0].dims[0]),
        y_index_(static_cast<uint32_t>(spec.inputs.size())),
        has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()) {
    const PlaneTransposeModel& m = *model_;
    unread = 1u << kW;
    up_ = most_shift(rows_);
    left_ = most_shift(cols_);
    slab_row_ = phase_results(cols_).size() + left_;
    const int64_t row_bytes = checked_mul(checked_mul(slab_row_, m.in), 4);
    const int64_t most = std::max(kBlockBytes / row_bytes - up_,
                                  std::min(kFewestRows, cpu_info().l2_bytes / 2 / row_bytes - up_));
    all_rows_ = phase_results(rows_);
    block_rows_ = even_step(all_rows_.size(), most);
    slab_plane_ = slab_row_ * (block_rows_ + up_);
    for (const Phase& h : m.rows)
      for (const Phase& v : m.cols) {
        std::vector<int64_t>& taps = taps_.emplace_back();
        for (int64_t c = 0; c < m.in; ++c)
          for (const Phase::Tap& a : h.taps)
            for (const Phase::Tap& b : v.taps)
              taps.push_back(c * slab_plane_ + (up_ - a.shift) * slab_row_ + left_ - b.shift);
      }
    blocks_ = images_ * m.groups * ceil_div(all_rows_.size(), block_rows_);
    const double flops = 2.0 * static_cast<double>(m.weights.size()) *
                         static_cast<double>(images_ * rows_.input * cols_.input);
    tasks = std::clamp<int64_t>(useful_tasks(flops), 1, blocks_);
    if (!m.behind.epilogue.empty()) {
      tiles_ = Epilogue::Tiles(m.behind.epilogue, context);
      for (int64_t i = 0; i < blocks_; ++i) {
        const auto& dims = context.outputs[0].dims;
        add_block(tiles_, dims, ImageAxes::of_rank(dims.size()), block(i), nullptr);
      }
    }
    slab_ = m.in * slab_plane_ + m.fns.lanes;
    line_ = phase_results(cols_).size();
    line_at_ = align_up(slab_ * 4, 64);
    epilogue_at_ = line_at_ + align_up(cols_.stride * kPlaneResults * block_rows_ * line_ * 4, 64);
    scratch_bytes = epilogue_at_ + m.behind.epilogue.scratch_bytes();
    held_bytes = 1024 + tiles_.bytes();
    for (const auto& taps : taps_) held_bytes += static_cast<int64_t>(taps.size()) * 8;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const PlaneTransposeModel& m = *model_;
    auto* const memory = static_cast<std::byte*>(args.scratch);
    auto* const slab = reinterpret_cast<float*>(memory);
    auto* const lines = reinterpret_cast<float*>(memory + line_at_);
    const auto* const x = static_cast<const float*>(args.buffers[kX]);
    const auto* const bias = has_bias_ ? static_cast<const float*>(args.buffers[kB]) : nullptr;
    auto* const y = static_cast<float*>(args.buffers[y_index_]);
    std::fill_n(slab, slab_, 0.0f);
    for (int64_t i = blocks_ * begin / tasks; i < blocks_ * end / tasks; ++i) {
      const Block b = block(i);
      fill_slab(x, b, slab);
      for (size_t h = 0; h < m.rows.size(); ++h) {
        const Range q = common(b.q, phase_results(rows_, h));
        if (q.size() == 0) continue;
        for (int64_t r = b.channels.begin; r < b.channels.end; r += kPlaneResults)
          phase_rows(b, h, q, {r, std::min(r + kPlaneResults, b.channels.end)}, slab, bias, lines,
                     y);
      }
      if (!m.behind.epilogue.empty())
        m.behind.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers, memory + epilogue_at_);
    }
  }

 private:
  /// Of one image and group; all columns.
  struct Block : ImageBlock {
    Range q;  ///< rows, in each phase
  };
  Block block(int64_t i) const {
    Block b;
    const Range rows = next_range(i, all_rows_.size(), block_rows_);
    b.q = {all_rows_.begin + rows.begin, all_rows_.begin + rows.end};
    b.rows = results_of(rows_, b.q);
    b.cols = {0, cols_.output};
    b.channels = next_range(i, model_->groups * model_->out, model_->out);
    b.images = {i, i + 1};
    return b;
  }

  /// What a block reads: [plane][row][column], zeros outside the image; those beside it are there.
  void fill_slab(const float* x, const Block& b, float* slab) const {
    const PlaneTransposeModel& m = *model_;
    const int64_t plane = b.channels.begin / m.out * m.in, top = b.q.begin - up_,
                  left = phase_results(cols_).begin - left_;
    const Range rows = common({top, b.q.end}, {0, rows_.input}),
                cols = common({left, phase_results(cols_).end}, {0, cols_.input});
    for (int64_t c = 0; c < m.in; ++c) {
      float* const to = slab + c * slab_plane_;
      if (rows.size() == 0) {
        std::fill_n(to, (b.q.end - top) * slab_row_, 0.0f);
        continue;
      }
      std::fill_n(to, (rows.begin - top) * slab_row_, 0.0f);
      std::fill_n(to + (rows.end - top) * slab_row_, (b.q.end - rows.end) * slab_row_, 0.0f);
      if (cols.size() == 0) continue;
      m.fns.copy({.x = x + x_.at(b.images.begin, plane + c, rows.begin, cols.begin),
                  .x_row_by = x_.row,
                  .rows = rows.size(),
                  .columns = cols.size(),
                  .to = to + (rows.begin - top) * slab_row_,
                  .to_row_by = slab_row_,
                  .first = cols.begin - left,
                  .stride = 1,
                  .phase_by = 0});
    }
  }

  /// Rows q of a phase of up to kPlaneResults results.
  void phase_rows(const Block& b, size_t h, Range q, Range results, const float* slab,
                  const float* bias, float* lines, float* y) const {
    const PlaneTransposeModel& m = *model_;
    const int64_t stride = cols_.stride, first_col = phase_results(cols_).begin;
    static constexpr int64_t kNone = 0;  // where a window begins
    float* const first =
        y + y_.at(b.images.begin, results.begin,
                  q.begin * rows_.stride + static_cast<int64_t>(h) - rows_.pad_begin, 0);
    const int64_t line_result = block_rows_ * line_, line_phase = kPlaneResults * line_result;
    for (size_t v = 0; v < m.cols.size(); ++v) {
      const Range cols = phase_results(cols_, v);
      if (cols.size() == 0) continue;
      const size_t phase = h * m.cols.size() + v;
      const auto taps = static_cast<int64_t>(taps_[phase].size());
      m.fns.run({.x = slab + (q.begin - b.q.begin) * slab_row_ + cols.begin - first_col,
                 .x_row_by = slab_row_,
                 .window = {&kNone, 1, 1, slab_row_, taps_[phase].data(), taps},
                 .w = m.weights.data() + m.first[phase] + results.begin * taps,
                 .bias = bias ? bias + results.begin : nullptr,
                 .y = stride == 1 ? first : lines + static_cast<int64_t>(v) * line_phase,
                 .y_by = stride == 1 ? y_.channel : line_result,
                 .results = results.size(),
                 .y_row_by = stride == 1 ? y_.row * rows_.stride : line_,
                 .rows = q.size(),
                 .count = cols.size(),
                 .low = m.behind.bounds.low,
                 .high = m.behind.bounds.high});
    }
    if (stride == 1) return;
    for (int64_t r = 0; r < results.size(); ++r)
      m.fns.weave({.x = lines + r * line_result,
                   .x_row_by = line_,
                   .x_phase_by = line_phase,
                   .stride = stride,
                   .first = cols_.pad_begin % stride,
                   .y = first + r * y_.channel,
                   .y_row_by = rows_.stride * y_.row,
                   .rows = q.size(),
                   .count = cols_.output});
  }

  std::shared_ptr<const PlaneTransposeModel> model_;
  WindowAxis rows_, cols_;
  ImageStrides x_, y_;
  int64_t images_;
  uint32_t y_index_;
  bool has_bias_;
  int64_t up_ = 0, left_ = 0;  ///< rows and columns of the input in front of those of a result
  Range all_rows_;             ///< q of all results
  int64_t block_rows_ = 1, blocks_ = 0;
  int64_t slab_row_ = 0, slab_plane_ = 0;  ///< elements
  int64_t slab_ = 0, line_ = 0;            ///< slab: with the vector behind it that is read
  int64_t line_at_ = 0, epilogue_at_ = 0;
  std::vector<std::vector<int64_t>> taps_;  ///< of a phase, in a slab
  Epilogue::Tiles tiles_;
};

/// Whether there is a block of rows of a phase that fits, of so many planes.
bool fits(int64_t planes, const WindowAxis& rows, const WindowAxis& cols) {
  const double row_bytes = static_cast<double>(planes * 4) *
                           static_cast<double>(phase_results(cols).size() + most_shift(cols));
  return row_bytes * static_cast<double>(2 + most_shift(rows)) <=
             static_cast<double>(cpu_info().l2_bytes) / 2 &&
         rows.output > 0;
}

/// Whether rows of a phase are more than one vector, which they fill. Those that are not have to
/// where no other way has full ones: one plane into one result.
bool fills_vectors(const WindowAxis& cols) {
  const int64_t lanes = plane_row_fns(cpu_info().isa).lanes, count = phase_results(cols).size();
  return count > lanes &&
         static_cast<double>(count) >= kLeastUseful * static_cast<double>(align_up(count, lanes));
}

}  // namespace

PlaneConvTranspose::PlaneConvTranspose(const StepSpec& spec) : spec_(spec) {
  if (!f32_with_constant_weights(spec).yes() || !windows_fit_scratch(spec).yes()) return;
  const Dims& w = spec.inputs[kW].constant.dims();
  planes_ = w[0] / spec.attrs().get_int("group", 1);
  if (w.size() > 4 || planes_ > kMostPlanes || (w[1] == 1 && planes_ > kFewPlanes) ||
      w[1] > (planes_ > kSomePlanes ? kMostResults : kSomeResults))
    return;
  for (int64_t stride : spec.attrs().get_ints("strides"))
    if (stride > kMostStride) return;
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return;
  if (spec.inputs.size() > kB && spec.inputs[kB].present() && !spec.inputs[kB].contiguous()) return;
  std::string reason;
  possible_ = Epilogue::build(spec, {}, reason).has_value();
}

std::shared_ptr<const BoundKernel> PlaneConvTranspose::bind(const BindContext& context) const {
  if (!possible_ || element_count(context.inputs[kX].dims) == 0 ||
      element_count(context.outputs[0].dims) == 0 || context.inputs[kX].strides.back() != 1 ||
      context.outputs[0].strides.back() != 1)
    return nullptr;
  const auto axes = conv_transpose_axes(*spec_.node, context.inputs[kX].dims,
                                        context.inputs[kW].dims, context.outputs[0].dims);
  const bool depthwise = planes_ == 1 && context.inputs[kW].dims[1] == 1;
  if (!fits(planes_, axes[1], axes[2]) || !(depthwise || fills_vectors(axes[2]))) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!model_) model_ = std::make_shared<const PlaneTransposeModel>(spec_);
  return std::make_shared<PlaneTransposeBound>(spec_, context, axes, model_);
}

}  // namespace xc::cpu

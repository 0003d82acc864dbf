// Transposed convolutions as convolutions of their phases.
//
// Results whose positions are equal modulo the stride, a phase, meet the same positions of the
// kernel, each over another pixel of the input: result q * stride + phase - pad of an axis is the
// sum over positions k = shift * stride + phase of x[q - shift] w[k] (dilations aside). So every
// result is a sum computed in one place, as a convolution's is, and written once; nothing is added
// up in memory.
//
// Results are taken in blocks of q. What a block reads of the input is laid into scratch
// channels-last, with zeros around the image, so that neighbouring positions of a phase are one
// stretch of memory and rows follow each other evenly: for each phase and 64 channels of the result
// one product of all the block's pixels per stretch (own_product.h). Pixels between the
// rows' ends are computed and thrown away, but where rows are narrow: there a copy of what they
// read leaves them out. Rows of the image's surroundings are not multiplied. Bias and bounds are
// added on the way from there to the result (`vector/pixels.inc`), other functions by an epilogue
// on the block.

#include "backends/cpu/phase_conv_transpose.h"

#include <algorithm>
#include <array>

#include "backends/cpu/block_copies.h"
#include "backends/cpu/bound_views.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/conv_transpose_phases.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/own_product.h"
#include "backends/cpu/plane_conv_transpose.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/pixels_fn.h"
#include "base/checked.h"
#include "ops/conv_transpose.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;
constexpr int64_t kPanel = 64;  ///< channels of the result
constexpr int64_t kLanes = 16;  ///< panels are whole vectors of the widest
constexpr int64_t kFewest = 8;  ///< channels of the result that are worth a vector
constexpr int64_t kMostStride = 64;
constexpr double kMostApart = 1.15;  ///< rows of a block, in their own length
/// Pixels of a block, per phase: what it reads and its sums take half of the second-level cache.
constexpr int64_t kLeastPixels = 48, kMostPixels = 384;

/// What binding does not depend on: the weights by phase, and what is done behind the sums.
/// Panels of 64 channels of the result, for each phase [depth tap][row tap][column tap][input
/// channel][channel], one behind the other.
struct PhaseModel {
  explicit PhaseModel(const StepSpec& spec) : behind(spec), planes(spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    const size_t spatial = w.dims().size() - 2;
    const WindowAttrs window = window_attrs(*spec.node, spatial);
    std::array<int64_t, 3> kernel{1, 1, 1};
    for (size_t axis = 0; axis < 3; ++axis) {
      const size_t of = axis + spatial - 3;  // wraps where there is no such axis
      const bool there = axis + spatial >= 3;
      if (there) kernel[axis] = w.dims()[of + 2];
      phases[axis] = there ? phases_of(kernel[axis], window.strides[of], window.dilations[of])
                           : phases_of(1, 1, 1);
    }
    positions = kernel[0] * kernel[1] * kernel[2];
    groups = spec.attrs().get_int("group", 1);
    in = w.dims()[0] / groups;
    out = w.dims()[1];
    padded = align_up(out, kLanes);
    int64_t taps = 0;
    for (const Phase& d : phases[0])
      for (const Phase& h : phases[1])
        for (const Phase& v : phases[2]) {
          first_tap.push_back(taps);
          taps += static_cast<int64_t>(d.taps.size() * h.taps.size() * v.taps.size());
        }
    values = Buffer::allocate(checked_mul(checked_mul(groups * padded, in), positions * 4));
    auto* const all = reinterpret_cast<float*>(values->data());
    std::fill_n(all, groups * padded * in * positions, 0.0f);
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t j = 0; j < out; j += kPanel) {
        float* to = all + panel(group, j);
        for (const Phase& d : phases[0])
          for (const Phase& h : phases[1])
            for (const Phase& v : phases[2])
              for (const Phase::Tap& a : d.taps)
                for (const Phase::Tap& b : h.taps)
                  for (const Phase::Run& run : v.runs) {
                    const int64_t row = (a.position * kernel[1] + b.position) * kernel[2];
                    lay_out_run(w.as<float>() + group * in * out * positions + row, j, v, run, to);
                    to += run.taps * in * width(j);
                  }
      }
  }
  /// The weights of a run's taps for the panel from channel j on, for own_product(): `from` is the
  /// first of the kernel's row, of channel 0.
  void lay_out_run(const float* from, int64_t j, const Phase& phase, const Phase::Run& run,
                   float* to) const {
    for (int64_t t = 0; t < run.taps; ++t) {
      const int64_t position = phase.taps[run.first + static_cast<size_t>(t)].position;
      lay_out(from + j * positions + position, {in, std::min(kPanel, out - j)},
              {out * positions, positions}, run.taps * in, together(j), t * in, 0, to);
    }
  }
  /// Of the panel from channel j on, padded.
  int64_t width(int64_t j) const { return std::min(kPanel, padded - j); }
  /// Of them.
  int64_t together(int64_t j) const { return columns_together(width(j)); }
  int64_t panel(int64_t group, int64_t j) const { return (group * padded + j) * in * positions; }
  const float* weights(int64_t group, int64_t j) const {
    return reinterpret_cast<const float*>(values->data()) + panel(group, j);
  }

  std::array<std::vector<Phase>, 3> phases;
  std::vector<int64_t> first_tap;  ///< of each phase of the three axes, in a panel
  int64_t positions = 1, groups = 1, in = 0, out = 0, padded = 0;  ///< channels of a group
  std::shared_ptr<Buffer> values;
  BoundedEpilogue behind;
  PlaneConvTranspose planes;
};

class PhaseBound final : public BoundKernel {
 public:
  PhaseBound(const StepSpec& spec, const BindContext& context,
             std::shared_ptr<const PhaseModel> model)
      : model_(std::move(model)),
        place_(pixel_fns(cpu_info().isa).bounded),
        y_index_(static_cast<uint32_t>(spec.inputs.size())),
        has_bias_(spec.inputs.size() > kB && spec.inputs[kB].present()) {
    unread = 1u << kW;
    const OperandViews views(spec, context);
    const OperandView &x = views.inputs[kX], &y = views.outputs[0];
    axes_ = conv_transpose_axes(*spec.node, x.dims, views.inputs[kW].dims, y.dims);
    x_ = ImageStrides(x.strides);
    y_ = ImageStrides(y.strides);
    images_ = y.dims[0];
    tasks = 0;
    if (y.count() == 0) return;
    for (size_t i = 0; i < 3; ++i)
      for (const Phase& phase : model_->phases[i])
        for (const Phase::Tap& tap : phase.taps)
          most_shift_[i] = std::max(most_shift_[i], tap.shift);
    split(spec.threads);
    tasks = images_ * model_->groups * axes_[0].output * row_blocks_ * col_blocks_ * slices_;
    const bool last = y_.channel == 1 || model_->out * model_->groups == 1;
    stage_y_ = !last || model_->behind.epilogue.staged();
    if (!model_->behind.epilogue.empty())
      tiles_ = Epilogue::Tiles(model_->behind.epilogue, context);
    for (int64_t task = 0; task < tasks; ++task) add_task(task, context, y.dims.size());
    lay_out_scratch();
    held_bytes = 1024 + tiles_.bytes() + loads_.bytes() + stores_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    const PhaseModel& m = *model_;
    const Scratch scratch(static_cast<std::byte*>(args.scratch), at_);
    const auto* const x = static_cast<const float*>(args.buffers[kX]);
    auto* const result = static_cast<float*>(args.buffers[y_index_]);
    if (!has_bias_) std::fill_n(scratch.zeros, m.out * m.groups, 0.0f);
    const float* const bias =
        has_bias_ ? static_cast<const float*>(args.buffers[kB]) : scratch.zeros;
    for (int64_t task = begin; task < end; ++task) {
      const Block b = block(task);
      load(task, b, x, scratch.x);
      float* y = result;
      ImageStrides y_at = y_;
      if (stage_y_) {
        y_at = b.staged();
        y = scratch.y - b.first(y_at);
      }
      const int64_t group = m.out * b.group;
      for (int64_t j = b.channels.begin - group; j < b.channels.end - group; j += kPanel)
        for (size_t h = 0; h < m.phases[1].size(); ++h)
          for (size_t v = 0; v < m.phases[2].size(); ++v) {
            const Range rows = common(b.q_rows, results(1, h)),
                        cols = common(b.q_cols, results(2, v));
            if (rows.size() == 0 || cols.size() == 0) continue;
            sums(b, j, h, v, rows, cols, scratch);
            place(b, j, h, v, rows, cols, scratch.m, bias, y, y_at);
          }
      if (!stores_.empty()) stores_.of(task).run(scratch.y, result + b.first(y_));
      if (!m.behind.epilogue.empty())
        m.behind.epilogue.run(tiles_, static_cast<size_t>(task), args.buffers, scratch.epilogue,
                              scratch.y);
    }
  }

 private:
  /// Of one image, group and depth; its channels begin with a panel.
  struct Block : ImageBlock {
    Range q_rows, q_cols;
    int64_t group = 0;
    int64_t image() const { return images.begin; }
    int64_t depth() const { return depths.begin; }
  };
  struct Offsets {
    int64_t x, left, m, y, zeros, epilogue;
  };
  struct Scratch {
    Scratch(std::byte* p, const Offsets& at)
        : x(reinterpret_cast<float*>(p + at.x)),
          left(reinterpret_cast<float*>(p + at.left)),
          m(reinterpret_cast<float*>(p + at.m)),
          y(reinterpret_cast<float*>(p + at.y)),
          zeros(reinterpret_cast<float*>(p + at.zeros)),
          epilogue(p + at.epilogue) {}
    float* x;      ///< what the block reads: [depth tap][row][column][channel]
    float* left;   ///< of a run: [pixel][tap][channel]
    float* m;      ///< sums of a phase and panel: [row][column][channel]
    float* y;      ///< the block's results, channels-last
    float* zeros;  ///< in place of a bias
    std::byte* epilogue;
  };

  // ---- blocks ----

  Range results(size_t i) const { return phase_results(axes_[i]); }
  Range results(size_t i, size_t phase) const { return phase_results(axes_[i], phase); }
  Range out_of(size_t i, Range q) const { return results_of(axes_[i], q); }

  void split(int threads) {
    const PhaseModel& m = *model_;
    const int64_t rows = results(1).size(), cols = results(2).size();
    const int64_t depths = static_cast<int64_t>(most_taps(0));
    const int64_t most = std::clamp(cpu_info().l2_bytes / 2 / (4 * (m.in * depths + kPanel)),
                                    kLeastPixels, kMostPixels);
    block_cols_ = even_step(cols, most);
    block_rows_ = block_cols_ < cols ? 1 : even_step(rows, most / cols);
    row_blocks_ = ceil_div(rows, block_rows_);
    col_blocks_ = ceil_div(cols, block_cols_);
    const int64_t blocks = images_ * m.groups * axes_[0].output * row_blocks_ * col_blocks_;
    if (threads > 1 && blocks % threads != 0 && blocks < 4 * threads)
      slices_ = std::min<int64_t>(ceil_div(m.out, kPanel), threads);
  }
  size_t most_taps(size_t i) const {
    size_t most = 1;
    for (const Phase& phase : model_->phases[i]) most = std::max(most, phase.taps.size());
    return most;
  }

  Block block(int64_t task) const {
    const PhaseModel& m = *model_;
    const auto next = [&](int64_t count) {
      const int64_t i = task % count;
      task /= count;
      return i;
    };
    const auto part = [](Range all, int64_t step, int64_t i) {
      return Range{all.begin + i * step, std::min(all.begin + (i + 1) * step, all.end)};
    };
    Block b{};
    const int64_t slice = next(slices_), panels = ceil_div(m.out, kPanel);
    b.q_cols = part(results(2), block_cols_, next(col_blocks_));
    b.q_rows = part(results(1), block_rows_, next(row_blocks_));
    const int64_t depth = next(axes_[0].output);
    b.group = next(m.groups);
    b.images = {task, task + 1};
    b.depths = {depth, depth + 1};
    b.rows = out_of(1, b.q_rows);
    b.cols = out_of(2, b.q_cols);
    b.channels = {b.group * m.out + panels * slice / slices_ * kPanel,
                  b.group * m.out + std::min(m.out, panels * (slice + 1) / slices_ * kPanel)};
    return b;
  }

  /// Rows or columns of the input that a block reaches, those outside of it too.
  Range read_by(size_t i, Range q) const { return {q.begin - most_shift_[i], q.end}; }
  Range inside(size_t i, Range of) const { return common(of, {0, axes_[i].input}); }

  const Phase& depth_phase(const Block& b) const {
    const WindowAxis& a = axes_[0];
    return model_->phases[0][static_cast<size_t>((b.depth() + a.pad_begin) % a.stride)];
  }
  /// The input's depth under a tap.
  int64_t depth_under(const Block& b, const Phase::Tap& tap) const {
    return (b.depth() + axes_[0].pad_begin) / axes_[0].stride - tap.shift;
  }

  int64_t stage_row(const Block& b) const {
    return checked_mul(read_by(2, b.q_cols).size(), model_->in);
  }
  int64_t stage_plane(const Block& b) const {
    return checked_mul(read_by(1, b.q_rows).size(), stage_row(b));
  }

  void add_task(int64_t task, const BindContext& context, size_t rank) {
    const PhaseModel& m = *model_;
    const Block b = block(task);
    const Dims read{inside(1, read_by(1, b.q_rows)).size(), inside(2, read_by(2, b.q_cols)).size(),
                    m.in};
    loads_.add(read, {x_.row, x_.col, x_.channel}, {stage_row(b), m.in, 1});
    x_floats_ =
        std::max(x_floats_, checked_mul(static_cast<int64_t>(most_taps(0)), stage_plane(b)));
    for (size_t v = 0; v < m.phases[2].size(); ++v) {
      const Range cols = common(b.q_cols, results(2, v));
      if (!copies_rows(b, cols)) continue;
      for (const Phase::Run& run : m.phases[2][v].runs)
        left_floats_ = std::max(
            left_floats_, checked_mul(checked_mul(b.q_rows.size(), cols.size()), run.taps * m.in));
    }
    m_floats_ = std::max(
        m_floats_, checked_mul(checked_mul(b.q_rows.size(), read_by(2, b.q_cols).size()), kPanel));
    const Dims dims{b.rows.size(), b.cols.size(), b.channels.size()};
    const ImageStrides staged = b.staged();
    if (stage_y_) y_floats_ = std::max(y_floats_, element_count(dims));
    if (stage_y_ && !m.behind.epilogue.staged())
      stores_.add(dims, {staged.row, staged.col, 1}, {y_.row, y_.col, y_.channel});
    if (!m.behind.epilogue.empty())
      add_block(tiles_, context.outputs[0].dims, ImageAxes::of_rank(rank), b,
                m.behind.epilogue.staged() ? &staged : nullptr);
  }

  void lay_out_scratch() {
    int64_t bytes = 0;
    const auto take = [&](int64_t floats) {
      const int64_t at = bytes;
      bytes = checked_add(bytes, align_up(checked_mul(floats, 4), 64));
      return at;
    };
    at_.x = take(x_floats_);
    at_.left = take(left_floats_);
    at_.m = take(m_floats_);
    at_.y = take(y_floats_);
    at_.zeros = take(has_bias_ ? 0 : model_->out * model_->groups);
    at_.epilogue = bytes;
    scratch_bytes = checked_add(bytes, model_->behind.epilogue.scratch_bytes());
  }

  // ---- a block ----

  void load(int64_t task, const Block& b, const float* x, float* stage) const {
    const int64_t in = model_->in;
    const Range rows = read_by(1, b.q_rows), cols = read_by(2, b.q_cols), in_rows = inside(1, rows),
                in_cols = inside(2, cols);
    const bool whole = in_rows.size() == rows.size() && in_cols.size() == cols.size();
    for (const Phase::Tap& tap : depth_phase(b).taps) {
      const int64_t depth = depth_under(b, tap);
      if (axes_[0].inside(depth)) {
        if (!whole) std::fill_n(stage, stage_plane(b), 0.0f);
        if (in_rows.size() > 0 && in_cols.size() > 0)
          loads_.of(task).run(
              x + x_.at(b.image(), b.group * in, in_rows.begin, in_cols.begin, depth),
              stage + (in_rows.begin - rows.begin) * stage_row(b) +
                  (in_cols.begin - cols.begin) * in);
      }
      stage += stage_plane(b);
    }
  }

  /// Whether rows are so narrow that a copy of their pixels, row behind row, costs less than the
  /// products of what lies between their ends.
  bool copies_rows(const Block& b, Range cols) const {
    const int64_t apart = read_by(2, b.q_cols).size();
    return b.q_rows.size() > 1 &&
           static_cast<double>(apart) > kMostApart * static_cast<double>(cols.size());
  }

  /// Sums of one phase for a panel of channels: m[row][column], rows as far apart as in the stage
  /// or, where they are copied, dense.
  void sums(const Block& b, int64_t j, size_t h, size_t v, Range rows, Range cols,
            const Scratch& scratch) const {
    const PhaseModel& m = *model_;
    const Phase &down = m.phases[1][h], &along = m.phases[2][v], &deep = depth_phase(b);
    const int64_t width = m.width(j), in = m.in, row = stage_row(b);
    const bool dense = copies_rows(b, cols);
    const int64_t pitch = dense ? cols.size() : row / in,
                  pixels = (rows.size() - 1) * pitch + cols.size();
    const auto phase =
        static_cast<size_t>(((b.depth() + axes_[0].pad_begin) % axes_[0].stride * axes_[1].stride +
                             static_cast<int64_t>(h)) *
                                axes_[2].stride +
                            static_cast<int64_t>(v));
    const float* const weights = m.weights(b.group, j) + m.first_tap[phase] * in * width;
    // Rows that a tap reads beside the image add nothing.
    const auto reached = [&](const Phase::Tap& tap) {
      return common(rows, {tap.shift, axes_[1].input + tap.shift});
    };
    bool first = true;
    if (!std::ranges::all_of(
            down.taps, [&](const Phase::Tap& tap) { return reached(tap).size() == rows.size(); })) {
      std::fill_n(scratch.m, pixels * width, 0.0f);
      first = false;
    }
    for (size_t d = 0; d < deep.taps.size(); ++d) {
      if (!axes_[0].inside(depth_under(b, deep.taps[d]))) continue;
      const float* const stage = scratch.x + static_cast<int64_t>(d) * stage_plane(b);
      for (size_t r = 0; r < down.taps.size(); ++r) {
        const Range some = reached(down.taps[r]);
        if (some.size() == 0) continue;
        for (const Phase::Run& run : along.runs) {
          const int64_t row_at = some.begin - down.taps[r].shift - read_by(1, b.q_rows).begin,
                        col_at = cols.begin - run.shift - read_by(2, b.q_cols).begin;
          const size_t tap = (d * down.taps.size() + r) * along.taps.size() + run.first;
          const float* left = stage + row_at * row + col_at * in;
          if (dense) left = copy_rows(left, some.size(), row, cols.size(), run, scratch.left);
          own_product({.x = left,
                       .x_row = dense ? run.taps * in : in,
                       .rows = (some.size() - 1) * pitch + cols.size(),
                       .k = run.taps * in,
                       .n = width,
                       .panels = weights + static_cast<int64_t>(tap) * in * width,
                       .format = WeightFormat::kF32,
                       .y = scratch.m + (some.begin - rows.begin) * pitch * width,
                       .y_row = width,
                       .add = !first},
                      m.together(j));
          first = false;
        }
      }
    }
    if (first) std::fill_n(scratch.m, pixels * width, 0.0f);
  }

  /// What a run reads for the pixels of some rows, each behind the other.
  const float* copy_rows(const float* from, int64_t rows, int64_t row, int64_t cols,
                         const Phase::Run& run, float* to) const {
    const int64_t in = model_->in, taps = run.taps * in;
    for (int64_t q = 0; q < rows; ++q)
      for (int64_t i = 0; i < cols; ++i)
        std::copy_n(from + q * row + i * in, taps, to + (q * cols + i) * taps);
    return to;
  }

  void place(const Block& b, int64_t j, size_t h, size_t v, Range rows, Range cols,
             const float* sums, const float* bias, float* y, const ImageStrides& y_at) const {
    const PhaseModel& m = *model_;
    const int64_t width = m.width(j),
                  row = copies_rows(b, cols) ? cols.size() : stage_row(b) / m.in;
    const int64_t channel = b.group * m.out + j;
    const int64_t columns = std::min(kPanel, b.channels.end - channel);
    const WindowAxis &down = axes_[1], &along = axes_[2];
    const int64_t col = cols.begin * along.stride + static_cast<int64_t>(v) - along.pad_begin;
    for (int64_t q = rows.begin; q < rows.end; ++q)
      place_(
          {sums + (q - rows.begin) * row * width, cols.size(), width, columns}, bias + channel,
          m.behind.bounds.low, m.behind.bounds.high,
          y + y_at.at(b.image(), channel,
                      q * down.stride + static_cast<int64_t>(h) - down.pad_begin, col, b.depth()),
          y_at.col * along.stride);
  }

  std::shared_ptr<const PhaseModel> model_;
  decltype(PixelFns::bounded) place_;
  uint32_t y_index_;
  bool has_bias_, stage_y_ = false;
  std::array<WindowAxis, 3> axes_;
  std::array<int64_t, 3> most_shift_{};
  ImageStrides x_, y_;
  int64_t images_ = 0;
  int64_t block_rows_ = 1, block_cols_ = 1, row_blocks_ = 1, col_blocks_ = 1, slices_ = 1;
  int64_t x_floats_ = 0, left_floats_ = 0, m_floats_ = 0, y_floats_ = 0;
  BlockCopies loads_, stores_;
  Epilogue::Tiles tiles_;  ///< one per task
  Offsets at_{};
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const PhaseModel>& model) {
  if (auto bound = model->planes.bind(context)) return bound;
  return std::make_shared<PhaseBound>(spec, context, model);
}

}  // namespace

Verdict supports_phase_conv_transpose(const StepSpec& spec) {
  if (spec.inputs[kX].dims.size() > 5) return Verdict::no("more than three spatial axes");
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  const Tensor& w = spec.inputs[kW].constant;
  if (w.dims()[1] < kFewest) return Verdict::no("few channels of the result");
  for (int64_t stride : spec.attrs().get_ints("strides"))
    if (stride > kMostStride) return Verdict::no("more than 64 phases of an axis");
  if (const Verdict fits = windows_fit_scratch(spec); !fits.yes()) return fits;
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  if (spec.inputs.size() > kB && spec.inputs[kB].present() && !spec.inputs[kB].contiguous())
    return Verdict::no("a bias with gaps");
  std::string reason;
  return Epilogue::build(spec, {}, reason, true) ? Verdict::ok() : Verdict::no(reason);
}

std::unique_ptr<Kernel> create_phase_conv_transpose(const StepSpec& spec) {
  return create_prepared<PhaseModel, bind>(spec);
}

}  // namespace xc::cpu

// A sample is worked on in blocks of pixels that a second-level cache holds: first the mean of each
// group in a block and the squares about it, at once; then, when those of all blocks are put
// together, the results, and the functions behind them while a block is in the cache. Blocks, and
// the order in which they are put together, depend on the sizes alone.
#include "backends/cpu/pixel_norms.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/vector/pixels_fn.h"
#include "base/checked.h"
#include "base/team.h"

namespace xc::cpu {
namespace {

constexpr int64_t kBlockElements = 32 << 10;
/// Of a sample that threads share, and of samples that are a task of their own.
constexpr int64_t kSharedElements = 64 << 10, kTaskElements = 16 << 10;

/// Elements from a pixel to the next, where all lie at one distance.
std::optional<int64_t> pixel_step(const BoundOperand& o) {
  const int64_t channels = o.dims[1];
  if (channels > 1 && o.strides[1] != 1) return std::nullopt;
  std::optional<int64_t> step;
  int64_t next = 0;
  for (size_t axis = o.dims.size(); axis-- > 2;) {
    if (o.dims[axis] == 1) continue;
    if (step && o.strides[axis] != next) return std::nullopt;
    if (!step) step = o.strides[axis];
    next = o.strides[axis] * o.dims[axis];
  }
  if (!step) return channels;
  return *step >= channels ? step : std::nullopt;
}

class PixelNormBound final : public BoundKernel {
 public:
  PixelNormBound(const StepSpec& spec, const BindContext& context, const PixelNorm& norm,
                 int64_t x_step, int64_t y_step)
      : views_(spec, context),
        fns_(pixel_fns(cpu_info().isa)),
        behind_(norm.behind),
        groups_(norm.groups),
        x_step_(x_step),
        y_step_(y_step),
        epsilon_(static_cast<double>(norm.epsilon)) {
    const std::span<const int64_t> dims = views_.inputs[0].dims;
    samples_ = dims[0];
    channels_ = dims[1];
    group_ = channels_ / groups_;
    size_t axis = 2;  // that blocks are ranges of
    while (axis + 1 < dims.size() && dims[axis] == 1) ++axis;
    rows_ = axis < dims.size() ? dims[axis] : 1;
    row_pixels_ = element_count(dims.subspan(2)) / rows_;
    block_rows_ = std::clamp<int64_t>(kBlockElements / (row_pixels_ * channels_), 1, rows_);
    blocks_ = ceil_div(rows_, block_rows_);
    share(spec.threads);
    lay_out();
    if (!behind_.empty()) add_tiles(context, axis);
    in_place = behind_.has_operands() ? 0 : 1;  // they may lie there too
    held_bytes += views_.bytes() + tiles_.bytes() + 256;
  }

  void start(const StepArgs& args) const override {
    Team::create(static_cast<std::byte*>(args.shared), team_);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const Memory m = memory(args);
    if (team_ == 1) {
      for (int64_t sample = samples_ * begin / tasks; sample < samples_ * end / tasks; ++sample) {
        measure(args, m, sample, {0, blocks_});
        normalise(args, m, sample, {0, blocks_});
      }
      return;
    }
    Team team = Team::at(static_cast<std::byte*>(args.shared), team_);
    for (int64_t seat = begin; seat < end; ++seat)
      team.run(seat, 2 * samples_, [&](int64_t phase, int64_t part) {
        const Blocks blocks{blocks_ * part / team_, blocks_ * (part + 1) / team_};
        phase % 2 == 0 ? measure(args, m, phase / 2, blocks)
                       : normalise(args, m, phase / 2, blocks);
      });
  }

 private:
  struct Blocks {
    int64_t begin, end;
  };
  /// Of a group in a block: the sum, and squares about its mean as f32 has that.
  struct Statistics {
    double sum, squares;
  };
  struct Memory {
    Statistics* statistics;  ///< [block][group], of one sample
    double* sums;            ///< by channel, as the others
    float *mean, *factor, *shift;
    std::byte* epilogue;
  };

  /// Samples are tasks, or the blocks of each in turn are shared.
  void share(int threads) {
    const int64_t sample = checked_mul(rows_ * row_pixels_, channels_);
    if (samples_ < threads && sample >= kSharedElements)
      team_ = std::min<int64_t>(threads, blocks_);
    tasks = team_ > 1 ? team_ : std::clamp<int64_t>(samples_ * sample / kTaskElements, 1, samples_);
  }

  void lay_out() {
    const auto take = [this](int64_t bytes) {
      const int64_t at = scratch_bytes;
      scratch_bytes += align_up(bytes, 64);
      return at;
    };
    const int64_t statistics = blocks_ * groups_ * static_cast<int64_t>(sizeof(Statistics));
    if (team_ > 1) {
      statistics_at_ = Team::bytes(team_);
      shared_bytes = statistics_at_ + statistics;
    } else {
      statistics_at_ = take(statistics);
    }
    sums_at_ = take(channels_ * 8);
    for (int64_t* at : {&mean_at_, &factor_at_, &shift_at_}) *at = take(channels_ * 4);
    epilogue_at_ = take(behind_.scratch_bytes());
  }
  Memory memory(const StepArgs& args) const {
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    std::byte* const all = team_ > 1 ? static_cast<std::byte*>(args.shared) : scratch;
    const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
    return {reinterpret_cast<Statistics*>(all + statistics_at_),
            reinterpret_cast<double*>(scratch + sums_at_),
            floats(mean_at_),
            floats(factor_at_),
            floats(shift_at_),
            scratch + epilogue_at_};
  }

  void add_tiles(const BindContext& context, size_t axis) {
    tiles_ = Epilogue::Tiles(behind_, context);
    const std::span<const int64_t> dims = views_.outputs[0].dims;
    for (int64_t sample = 0; sample < samples_; ++sample)
      for (int64_t block = 0; block < blocks_; ++block) {
        Dims begin(dims.size(), 0), end(dims.begin(), dims.end());
        begin[0] = sample;
        end[0] = sample + 1;
        if (axis < dims.size()) {
          begin[axis] = block * block_rows_;
          end[axis] = std::min(rows_, (block + 1) * block_rows_);
        }
        tiles_.add(begin, end);
      }
  }

  int64_t first_pixel(int64_t block) const { return block * block_rows_ * row_pixels_; }
  int64_t pixels_of(int64_t block) const {
    return std::min(block_rows_, rows_ - block * block_rows_) * row_pixels_;
  }
  Pixels pixels(const StepArgs& args, int64_t sample, int64_t block) const {
    return {static_cast<const float*>(args.buffers[0]) + sample * views_.inputs[0].strides[0] +
                first_pixel(block) * x_step_,
            pixels_of(block), x_step_, channels_};
  }
  float mean_of(const Statistics& s, int64_t block) const {
    return static_cast<float>(s.sum / static_cast<double>(pixels_of(block) * group_));
  }
  double group_sum(const double* sums, int64_t group) const {
    double out = 0;
    for (int64_t c = group * group_; c < (group + 1) * group_; ++c) out += sums[c];
    return out;
  }

  void measure(const StepArgs& args, const Memory& m, int64_t sample, Blocks blocks) const {
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      Statistics* const here = m.statistics + block * groups_;
      const Pixels p = pixels(args, sample, block);
      std::fill_n(m.sums, channels_, 0.0);
      fns_.sums(p, m.sums);
      for (int64_t g = 0; g < groups_; ++g) {
        here[g].sum = group_sum(m.sums, g);
        std::fill_n(m.mean + g * group_, group_, mean_of(here[g], block));
      }
      std::fill_n(m.sums, channels_, 0.0);
      fns_.squares(p, m.mean, m.sums);
      for (int64_t g = 0; g < groups_; ++g) here[g].squares = group_sum(m.sums, g);
    }
  }

  void normalise(const StepArgs& args, const Memory& m, int64_t sample, Blocks blocks) const {
    const auto* scale = static_cast<const float*>(args.buffers[1]);
    const auto* bias = static_cast<const float*>(args.buffers[2]);
    const double count = static_cast<double>(rows_ * row_pixels_ * group_);
    for (int64_t g = 0; g < groups_; ++g) {
      double sum = 0, squares = 0;
      for (int64_t block = 0; block < blocks_; ++block)
        sum += m.statistics[block * groups_ + g].sum;
      const double mean = sum / count;
      // Sum of (x - mean)^2 from those about a block's own c: x - mean = (x - c) + (c - mean).
      for (int64_t block = 0; block < blocks_; ++block) {
        const Statistics& s = m.statistics[block * groups_ + g];
        const auto n = static_cast<double>(pixels_of(block) * group_);
        const double c = mean_of(s, block), off = c - mean;
        squares += s.squares + off * (2 * (s.sum - n * c) + n * off);
      }
      const double inverse = 1 / std::sqrt(std::max(squares, 0.0) / count + epsilon_);
      for (int64_t c = g * group_; c < (g + 1) * group_; ++c) {
        const double s = scale[c * views_.inputs[1].strides[0]];
        m.mean[c] = static_cast<float>(mean);
        m.factor[c] = static_cast<float>(inverse * s);
        m.shift[c] = bias[c * views_.inputs[2].strides[0]];
      }
    }
    auto* const y = static_cast<float*>(args.buffers[views_.inputs.size()]) +
                    sample * views_.outputs[0].strides[0];
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      fns_.affine(pixels(args, sample, block), m.mean, m.factor, m.shift,
                  y + first_pixel(block) * y_step_, y_step_);
      if (!behind_.empty())
        behind_.run(tiles_, static_cast<size_t>(sample * blocks_ + block), args.buffers,
                    m.epilogue);
    }
  }

  OperandViews views_;
  const PixelFns& fns_;
  Epilogue behind_;
  Epilogue::Tiles tiles_;  ///< [sample][block]
  int64_t groups_, x_step_, y_step_;
  int64_t samples_ = 0, channels_ = 0, group_ = 1;
  int64_t rows_ = 1, row_pixels_ = 1, block_rows_ = 1, blocks_ = 1;
  int64_t team_ = 1;  ///< threads that share each sample
  int64_t statistics_at_ = 0, sums_at_ = 0, mean_at_ = 0, factor_at_ = 0, shift_at_ = 0,
          epilogue_at_ = 0;
  double epsilon_;
};

}  // namespace

std::shared_ptr<const BoundKernel> bind_pixel_norm(const StepSpec& spec, const BindContext& context,
                                                   const PixelNorm& norm) {
  const BoundOperand &x = context.inputs[0], &y = context.outputs[0];
  if (element_count(x.dims) == 0) return nullptr;
  const std::optional<int64_t> x_step = pixel_step(x), y_step = pixel_step(y);
  if (!x_step || !y_step) return nullptr;
  return std::make_shared<PixelNormBound>(spec, context, norm, *x_step, *y_step);
}

}  // namespace xc::cpu

// Convolutions in groups of a few channels each (ResNeXt, RegNet), "xc.conv groups": slices of
// channels one after another, of a block of the result at a time.
//
// What a slice reads is brought into the first-level cache once, with the zeros around the image:
// there are no edges then, and neighbouring windows find their pixels side by side, where in the
// image they lie as far apart as it has channels. Sums, bias and bounds are those of
// `vector/conv_row.inc`; groups narrower than a vector share one. What registers cannot do of the
// functions behind the convolution, an epilogue does on the block.

#include <algorithm>

#include "backends/cpu/block_results.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/own_conv.h"
#include "backends/cpu/row_windows.h"
#include "backends/cpu/simple_kernel.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1;
constexpr int64_t kSlabBytes = 20 << 10;    ///< what a slice of a block reads: in the L1 cache
constexpr int64_t kBlockChannels = 64;      ///< of a block, about: whole lines of the image
constexpr int64_t kResultBytes = 96 << 10;  ///< of a block

/// Of a group, where it is used: up to where the library was measured to be the faster one
/// (README), which with AVX-512 it is for more than four...
constexpr int64_t kMostChannels = 16, kMostWide = 4;

/// ... but where the pixels that it reads for neighbouring results, as far apart as the image has
/// channels, share so few sets of the first-level cache that these do not hold them.
bool pixels_collide(const StepSpec& spec, const Dims& w, int64_t groups) {
  constexpr int64_t kWays = 8, kNeighbours = 28;
  const int64_t cols = spec.outputs[0].dims.back().constant().value_or(kNeighbours);
  const std::vector<int64_t> strides = spec.attrs().get_ints("strides");
  const int64_t apart = w[1] * groups * 4 * (strides.empty() ? 1 : strides.back());
  return std::min(cols, kNeighbours) > first_level_sets(apart) * kWays;
}

/// Channels computed together: a group, or as many narrower ones as a vector has room for.
struct Slices {
  explicit Slices(const Dims& weights, int64_t groups, int64_t lanes) {
    in = weights[1];
    out = weights[0] / groups;
    count = groups;
    if (in == out && in < lanes && lanes % in == 0) {
      width = in;
      count = ceil_div(groups * in, lanes);
      in = out = lanes;
    }
  }
  int64_t in, out;  ///< channels
  int64_t count;
  int64_t width = 0;  ///< of the groups in one, where there are several
};

struct GroupConvModel final : OwnConv {
  explicit GroupConvModel(const StepSpec& spec)
      : attrs(spec),
        fns(conv_row_fns(cpu_info().isa)),
        slices(spec.inputs[kW].constant.dims(), attrs.groups, fns.lanes),
        behind(spec),
        planes(spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    channels = w.dims()[0];
    in_each = w.dims()[1];
    kernel = element_count(std::span(w.dims()).subspan(2));
    padded = align_up(slices.out, fns.lanes);
    slice_weights = taps() * padded;
    weights.resize(static_cast<size_t>(slices.count * slice_weights), 0.0f);
    for (int64_t s = 0; s < slices.count; ++s)
      pack_row_weights(fns, w.as<float>() + of_slice(s).begin * taps(), of_slice(s).size(), in_each,
                       kernel, weights.data() + s * slice_weights);
  }
  std::shared_ptr<BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                    const SqueezedConv& conv) const override;
  /// Of a channel.
  int64_t taps() const { return kernel * in_each; }
  /// Channels [begin, end) of the result.
  Range of_slice(int64_t s) const {
    return {s * slices.out, std::min((s + 1) * slices.out, channels)};
  }

  ConvAttrs attrs;
  ConvRowFns fns;
  Slices slices;
  int64_t channels = 0, in_each = 0, kernel = 0;
  int64_t padded = 0;          ///< channels of a slice's result, to whole vectors
  int64_t slice_weights = 0;   ///< elements
  std::vector<float> weights;  ///< of each slice as ConvRow has them
  BoundedEpilogue behind;
  PlaneConv planes;
};

class GroupConvBound final : public BoundRowWindows {
 public:
  GroupConvBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                 std::shared_ptr<const GroupConvModel> model)
      : BoundRowWindows(spec, conv, model->channels),
        model_(std::move(model)),
        in_channels_(conv.problem.in_channels) {
    if (tasks == 0) return;
    choose_blocks(context);
    for (int64_t k0 = 0; k0 < rows_.kernel; ++k0)
      for (int64_t k1 = 0; k1 < cols_.kernel; ++k1)
        for (int64_t c = 0; c < (model_->slices.width > 0 ? 1 : model_->slices.in); ++c)
          offsets_.push_back(k0 * rows_.dilation * slab_row_ +
                             k1 * cols_.dilation * model_->slices.in + c);
    results_ = BlockResults(model_->behind.epilogue, context, y_, ImageAxes::of_kept(conv.kept));
    for (int64_t i = 0; i < blocks(); ++i) results_.add(block(i));
    bias_bytes_ = align_up(model_->slices.count * model_->padded * 4, 64);
    // A vector of channels may reach over the last pixel's.
    slab_bytes_ = align_up((rows_.extent(block_rows_) * slab_row_ + model_->fns.lanes) * 4, 64);
    scratch_bytes = bias_bytes_ + slab_bytes_ + results_.scratch_bytes();
    held_bytes = 512 + static_cast<int64_t>(offsets_.size()) * 8 + results_.held_bytes() +
                 row_blocks_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    const GroupConvModel& m = *model_;
    auto* const memory = static_cast<std::byte*>(args.scratch);
    auto* const bias = reinterpret_cast<float*>(memory);
    auto* const slab = reinterpret_cast<float*>(memory + bias_bytes_);
    auto* const tile = reinterpret_cast<float*>(memory + bias_bytes_ + slab_bytes_);
    fill_bias(this->bias(args), bias);
    const auto* const x = static_cast<const float*>(args.buffers[kX]);
    auto* const result = static_cast<float*>(args.buffers[inputs_]);
    const Range blocks = blocks_of(begin, end);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const ImageBlock b = block(i);
      const ImageStrides at = results_.strides(b);
      float* const y = results_.first(b, tile, result) - b.first(at);
      for (int64_t s = b.channels.begin / m.slices.out; s * m.slices.out < b.channels.end; ++s)
        slice(s, b, x + b.images.begin * x_.image, y, at, bias, slab);
      results_.finish(i, b, args.buffers, tile, result);
    }
  }

 private:
  void choose_blocks(const BindContext& context) {
    const Slices& s = model_->slices;
    block_channels_ = std::max<int64_t>(1, kBlockChannels / s.out) * s.out;
    const auto slab_bytes = [&](int64_t rows, int64_t cols) {
      return rows_.extent(rows) * cols_.extent(cols) * s.in * 4;
    };
    int64_t cols = cols_.output;
    const int64_t least = std::max<int64_t>(1, least_columns(cols_));
    while (cols > least && slab_bytes(1, cols) > kSlabBytes) cols = ceil_div(cols, 2);
    block_cols_ = even_step(cols_.output, cols);
    const int64_t most = std::max<int64_t>(1, kResultBytes / 4 / block_channels_ / block_cols_);
    int64_t rows = std::min(rows_.output, most);
    while (rows > 1 && slab_bytes(rows, block_cols_) > kSlabBytes) --rows;
    block_rows_ = even_step(rows_.output, rows);
    slab_row_ = cols_.extent(block_cols_) * s.in;
    lay_blocks(context, block_rows_,
               ceil_div(model_->channels, block_channels_) * ceil_div(cols_.output, block_cols_));
  }
  ImageBlock block(int64_t i) const {
    ImageBlock b;
    b.channels = next_range(i, model_->channels, block_channels_);
    b.cols = next_range(i, cols_.output, block_cols_);
    b.rows = row_blocks_.next(i);
    b.images = {i, i + 1};
    return b;
  }

  /// A slice's channels begin with a vector.
  void fill_bias(const float* from, float* to) const {
    const GroupConvModel& m = *model_;
    std::fill_n(to, m.slices.count * m.padded, 0.0f);
    for (int64_t s = 0; from && s < m.slices.count; ++s)
      std::copy_n(from + m.of_slice(s).begin, m.of_slice(s).size(), to + s * m.padded);
  }

  void slice(int64_t s, const ImageBlock& b, const float* x, float* y, const ImageStrides& at,
             const float* bias, float* slab) const {
    const GroupConvModel& m = *model_;
    const int64_t first = s * m.slices.in;
    fill_slab(x + first * x_.channel, std::min(m.slices.in, in_channels_ - first), b, slab);
    const Range channels = m.of_slice(s);
    for (int64_t row = b.rows.begin; row < b.rows.end; ++row)
      m.fns.run({.x = slab + (row - b.rows.begin) * rows_.stride * slab_row_,
                 .x_pixel = m.slices.in * cols_.stride,
                 .offsets = offsets_.data(),
                 .taps = m.taps(),
                 .w = m.weights.data() + s * m.slice_weights,
                 .bias = bias + s * m.padded,
                 .y = y + at.at(b.images.begin, channels.begin, row, b.cols.begin),
                 .y_pixel = at.col,
                 .pixels = b.cols.size(),
                 .channels = channels.size(),
                 .low = m.behind.bounds.low,
                 .high = m.behind.bounds.high,
                 .width = m.slices.width});
  }

  /// `channels` of what the block reads: [row][column][channels of a slice], zeros outside the
  /// image.
  void fill_slab(const float* x, int64_t channels, const ImageBlock& b, float* slab) const {
    const int64_t top = rows_.at(b.rows.begin, 0), left = cols_.at(b.cols.begin, 0),
                  rows = rows_.extent(b.rows.size()), width = cols_.extent(b.cols.size());
    for (int64_t row = top; row < top + rows; ++row, slab += slab_row_)
      copy_padded_row(
          {rows_.inside(row) ? x + row * x_.row : nullptr, x_.col, x_.channel, channels}, cols_,
          left, width, model_->slices.in, slab);
  }

  std::shared_ptr<const GroupConvModel> model_;
  int64_t in_channels_;
  int64_t block_channels_ = 1, block_rows_ = 1;
  int64_t slab_row_ = 0;          ///< elements
  std::vector<int64_t> offsets_;  ///< of the taps in a slab
  BlockResults results_;
  int64_t bias_bytes_ = 0, slab_bytes_ = 0;
};

std::shared_ptr<BoundKernel> GroupConvModel::bind(const StepSpec& spec, const BindContext& context,
                                                  const SqueezedConv& conv) const {
  return bind_own_conv<GroupConvModel, GroupConvBound>(*this, spec, context, conv);
}

Verdict takes_groups(const StepSpec& spec) {
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  if (spec.attrs().get_int("group", 1) == 1) return Verdict::no("one group");
  if (spec.inputs[kW].constant.dims()[1] == 1) return Verdict::no("groups of one channel");
  return supports_row_windows(spec);
}

Verdict supports(const StepSpec& spec) {
  if (const Verdict groups = takes_groups(spec); !groups.yes()) return groups;
  const Dims& w = spec.inputs[kW].constant.dims();
  if (w[1] > kMostChannels || (w[1] > kMostWide && cpu_info().isa == Isa::kAvx512 &&
                               !pixels_collide(spec, w, spec.attrs().get_int("group", 1))))
    return Verdict::no("groups of many channels");
  std::string reason;
  return Epilogue::build(spec, {}, reason, true) ? Verdict::ok() : Verdict::no(reason);
}

}  // namespace

OwnConvKind group_conv() {
  return {takes_groups, make_own_conv<GroupConvModel>};
}

void add_group_conv(Rows& rows) {
  rows.push_back(
      {.name = "xc.conv groups",
       .op = "Conv",
       .supports = supports,
       .create = create_prepared<GroupConvModel,
                                 bind_planes_or_windows<GroupConvBound, GroupConvModel>, true>,
       .preferred = conv_orders,
       .takes_gaps = true});
}

}  // namespace xc::cpu

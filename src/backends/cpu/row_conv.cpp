// Convolutions by rows of the result, "xc.conv": sums, bias and bounds stay in registers until a
// pixel is stored (`vector/conv_row.inc`).
//
// Pixels whose windows lie within the input are computed from where it lies, those at the edges
// from a padded copy in scratch. What registers cannot do of the functions behind the convolution,
// an epilogue does on a block of pixels while it is in the first-level cache.

#include <algorithm>
#include <numeric>
#include <span>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/own_conv.h"
#include "backends/cpu/row_windows.h"
#include "backends/cpu/simple_kernel.h"
#include "base/checked.h"

namespace xc::cpu {

namespace {

/// The weights in panels, and what is done behind the sums.
struct RowConvModel final : OwnConv {
  explicit RowConvModel(const StepSpec& spec);
  std::shared_ptr<BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                    const SqueezedConv& conv) const override;

  ConvAttrs attrs;
  ConvRowFns fns;
  int64_t out_channels = 0, padded = 0;  ///< to whole vectors
  std::vector<float> weights;            ///< as ConvRow has them
  std::vector<int64_t> channels;         ///< offsets of the input's, side by side
  BoundedEpilogue behind;
  PlaneConv planes;
};

constexpr size_t kX = 0, kW = 1;
constexpr int64_t kBlockBytes = 24 << 10;   ///< of the result: an epilogue finds it in the L1 cache
constexpr int64_t kWholeBytes = 192 << 10;  ///< of a result that has none
/// Of rows with zeros around, which are as wide as strides are far.
constexpr double kMostStageBytes = 8 << 20;
// Where it is used: few channels of the input and few terms of a sum; or a 1x1 kernel with bounds
// behind it, some channels of the input and enough of the result.
constexpr int64_t kFewChannels = 4, kFewTerms = 192;
constexpr int64_t kSomeChannels = 64, kEnoughResults = 24;

class RowConvBound final : public BoundRowWindows {
 public:
  RowConvBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
               std::shared_ptr<const RowConvModel> model)
      : BoundRowWindows(spec, conv, model->out_channels),
        model_(std::move(model)),
        channels_(conv.problem.in_channels) {
    if (tasks == 0) return;
    const ConvProblem& s = conv.problem;
    const int64_t bytes = model_->behind.epilogue.empty() ? kWholeBytes : kBlockBytes;
    int64_t most_pixels = std::max<int64_t>(bytes / 4 / model_->padded, 1);
    const auto stage_bytes = [&](int64_t pixels) {
      const int64_t columns = cols_.extent(std::min(pixels, cols_.output));
      return static_cast<double>(columns) * static_cast<double>(channels_ * rows_.kernel) * 4;
    };
    while (most_pixels > 1 && stage_bytes(most_pixels) > kMostStageBytes) most_pixels /= 2;
    lay_pixel_blocks(context, most_pixels, spec.threads);
    if (model_->behind.epilogue.staged())
      y_ = ImageStrides(Dims{0, 1, block_cols_ * model_->out_channels, model_->out_channels});
    const bool y_last = model_->out_channels == 1 || y_.channel == 1;
    scatter_ = !y_last;
    // Rows that follow each other are one.
    flat_ = s.pointwise() && y_last && x_.row == cols_.input * x_.col &&
            y_.row == cols_.output * y_.col;
    stage_row_ = checked_mul(cols_.extent(block_cols_), channels_);
    const bool one_tap = rows_.kernel * cols_.kernel == 1;
    if (one_tap && x_.channel == 1)
      offsets_ = model_->channels;
    else
      offsets_ = offsets_of(rows_.dilation * x_.row, cols_.dilation * x_.col, x_.channel, held_);
    if (!model_->behind.epilogue.empty()) add_tiles(context, conv);
    if (outputs_inside(rows_).size() < rows_.output ||
        outputs_inside(cols_).size() < cols_.output) {
      stage_bytes_ = align_up(checked_mul(rows_.kernel, stage_row_) * 4, 64);
      stage_offsets_ = one_tap ? std::span<const int64_t>(model_->channels)
                               : offsets_of(stage_row_, cols_.dilation * channels_, 1, held_stage_);
    }
    if (scatter_ || model_->behind.epilogue.staged())
      result_bytes_ = align_up(
          (scatter_ ? 1 : row_blocks_.tallest()) * block_cols_ * model_->out_channels * 4, 64);
    bias_bytes_ = align_up(model_->padded * 4, 64);
    scratch_bytes =
        bias_bytes_ + stage_bytes_ + result_bytes_ + model_->behind.epilogue.scratch_bytes();
    held_bytes = 512 + static_cast<int64_t>(held_.size() + held_stage_.size()) * 8 +
                 tiles_.bytes() + row_blocks_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    Scratch scratch{static_cast<std::byte*>(args.scratch), *this};
    std::fill_n(scratch.bias, model_->padded, 0.0f);
    if (has_bias_) std::copy_n(bias(args), model_->out_channels, scratch.bias);
    const Range in_rows = outputs_inside(rows_), in_cols = outputs_inside(cols_);
    const Range blocks = blocks_of(begin, end);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const ImageBlock b = block(i);
      const float* const x =
          static_cast<const float*>(args.buffers[kX]) + b.images.begin * x_.image;
      // Rows and columns are counted in the image, also those of a tile in scratch.
      float* const y = model_->behind.epilogue.staged()
                           ? scratch.result - b.rows.begin * y_.row - b.cols.begin * y_.col
                           : static_cast<float*>(args.buffers[inputs_]) + b.images.begin * y_.image;
      const bool flat = flat_ && b.cols.size() == cols_.output;
      for (int64_t row = b.rows.begin; row < b.rows.end; ++row) {
        if (flat) {
          in_place(x, y, row, {0, b.rows.size() * cols_.output}, scratch);
          break;
        }
        Range middle{b.cols.begin, b.cols.begin};
        if (row >= in_rows.begin && row < in_rows.end) {
          middle.begin = std::clamp(in_cols.begin, b.cols.begin, b.cols.end);
          middle.end = std::clamp(in_cols.end, middle.begin, b.cols.end);
        }
        staged(x, y, row, {b.cols.begin, middle.begin}, scratch);
        in_place(x, y, row, middle, scratch);
        staged(x, y, row, {middle.end, b.cols.end}, scratch);
      }
      if (!model_->behind.epilogue.empty())
        model_->behind.epilogue.run(tiles_, static_cast<size_t>(i), args.buffers, scratch.epilogue,
                                    scratch.result);
    }
  }

 private:
  struct Scratch {
    Scratch(std::byte* at, const RowConvBound& of)
        : bias(reinterpret_cast<float*>(at)),
          stage(reinterpret_cast<float*>(at + of.bias_bytes_)),
          result(reinterpret_cast<float*>(at + of.bias_bytes_ + of.stage_bytes_)),
          epilogue(at + of.bias_bytes_ + of.stage_bytes_ + of.result_bytes_) {}
    float *bias, *stage, *result;
    std::byte* epilogue;
  };

  /// All channels of one image.
  ImageBlock block(int64_t i) const { return pixel_block(i, model_->out_channels); }

  /// Of the taps, with the distances of neighbouring ones.
  std::span<const int64_t> offsets_of(int64_t row, int64_t col, int64_t channel,
                                      std::vector<int64_t>& held) const {
    held.reserve(static_cast<size_t>(rows_.kernel * cols_.kernel * channels_));
    for (int64_t k0 = 0; k0 < rows_.kernel; ++k0)
      for (int64_t k1 = 0; k1 < cols_.kernel; ++k1)
        for (int64_t c = 0; c < channels_; ++c) held.push_back(k0 * row + k1 * col + c * channel);
    return held;
  }

  void in_place(const float* x, float* y, int64_t row, Range cols, const Scratch& scratch) const {
    if (cols.size() == 0) return;
    compute(x + (row * rows_.stride - rows_.pad_begin) * x_.row +
                (cols.begin * cols_.stride - cols_.pad_begin) * x_.col,
            x_.col * cols_.stride, offsets_, y + row * y_.row + cols.begin * y_.col, cols.size(),
            scratch);
  }

  void staged(const float* x, float* y, int64_t row, Range cols, const Scratch& scratch) const {
    if (cols.size() == 0) return;
    fill_stage(x, row, cols, scratch.stage);
    compute(scratch.stage, channels_ * cols_.stride, stage_offsets_,
            y + row * y_.row + cols.begin * y_.col, cols.size(), scratch);
  }

  void compute(const float* x, int64_t x_pixel, std::span<const int64_t> offsets, float* y,
               int64_t pixels, const Scratch& scratch) const {
    const RowConvModel& m = *model_;
    m.fns.run({x, x_pixel, offsets.data(), static_cast<int64_t>(offsets.size()), m.weights.data(),
               scratch.bias, scatter_ ? scratch.result : y, scatter_ ? m.out_channels : y_.col,
               pixels, m.out_channels, m.behind.bounds.low, m.behind.bounds.high});
    if (!scatter_) return;
    copy_matrix({m.out_channels, pixels, 1, m.out_channels, y_.channel, y_.col, 4}, scratch.result,
                y);
  }

  /// What the windows of a row's columns reach, zeros where they leave the input:
  /// [kernel row][column][channel].
  void fill_stage(const float* x, int64_t row, Range cols, float* stage) const {
    const int64_t first = cols.begin * cols_.stride - cols_.pad_begin;
    const int64_t width = cols_.extent(cols.size());
    for (int64_t k = 0; k < rows_.kernel; ++k) {
      const int64_t from = rows_.at(row, k);
      const float* const source = rows_.inside(from) ? x + from * x_.row : nullptr;
      copy_padded_row({source, x_.col, x_.channel, channels_}, cols_, first, width, channels_,
                      stage + k * stage_row_);
    }
  }

  void add_tiles(const BindContext& context, const SqueezedConv& conv) {
    tiles_ = Epilogue::Tiles(model_->behind.epilogue, context);
    for (int64_t i = 0; i < blocks(); ++i)
      add_block(tiles_, context.outputs[0].dims, ImageAxes::of_kept(conv.kept), block(i),
                model_->behind.epilogue.staged() ? &y_ : nullptr);
  }

  std::shared_ptr<const RowConvModel> model_;
  int64_t channels_;  ///< of the input
  int64_t stage_row_ = 0;
  std::span<const int64_t> offsets_, stage_offsets_;  ///< of the taps, in the input and in scratch
  std::vector<int64_t> held_, held_stage_;            ///< those that the model does not have
  bool flat_ = false, scatter_ = false;
  int64_t bias_bytes_ = 0, stage_bytes_ = 0, result_bytes_ = 0;
  Epilogue::Tiles tiles_;
};

/// Where the library was measured to be slower (README).
bool worth_while(const StepSpec& spec) {
  const Dims& w = spec.inputs[kW].constant.dims();
  const int64_t kernel = element_count(std::span(w).subspan(2));
  if (w[1] <= kFewChannels) return w[1] * kernel <= kFewTerms;
  // Images of a pixel each are rows of a product (few_pixel_conv.h).
  if (std::ranges::all_of(std::span(spec.inputs[kX].dims).subspan(2),
                          [](const Dim& size) { return size == Dim(1); }))
    return false;
  return kernel == 1 && w[1] <= kSomeChannels && w[0] >= kEnoughResults && !spec.post_ops.empty() &&
         bounds_of(spec.post_ops.front());
}

Verdict takes_windows(const StepSpec& spec) {
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  if (spec.attrs().get_int("group", 1) != 1) return Verdict::no("groups");
  return supports_row_windows(spec);
}

Verdict supports(const StepSpec& spec) {
  if (const Verdict windows = takes_windows(spec); !windows.yes()) return windows;
  if (!worth_while(spec)) return Verdict::no("the library is faster for these weights");
  std::string reason;
  return Epilogue::build(spec, {}, reason, true) ? Verdict::ok() : Verdict::no(reason);
}

RowConvModel::RowConvModel(const StepSpec& spec)
    : attrs(spec), fns(conv_row_fns(cpu_info().isa)), behind(spec), planes(spec) {
  const Tensor w = spec.inputs[kW].constant.held();
  out_channels = w.dims()[0];
  const int64_t in_channels = w.dims()[1], kernel = element_count(std::span(w.dims()).subspan(2)),
                taps = kernel * in_channels;
  padded = align_up(out_channels, fns.lanes);
  weights.resize(static_cast<size_t>(taps * padded), 0.0f);
  pack_row_weights(fns, w.as<float>(), out_channels, in_channels, kernel, weights.data());
  channels.resize(static_cast<size_t>(in_channels));
  std::iota(channels.begin(), channels.end(), int64_t{0});
}

std::shared_ptr<BoundKernel> RowConvModel::bind(const StepSpec& spec, const BindContext& context,
                                                const SqueezedConv& conv) const {
  return bind_own_conv<RowConvModel, RowConvBound>(*this, spec, context, conv);
}

}  // namespace

OwnConvKind row_conv() {
  return {takes_windows, make_own_conv<RowConvModel>};
}

void add_row_conv(Rows& rows) {
  rows.push_back(
      {.name = "xc.conv",
       .op = "Conv",
       .supports = supports,
       .create =
           create_prepared<RowConvModel, bind_planes_or_windows<RowConvBound, RowConvModel>, true>,
       .preferred = conv_orders,
       .takes_gaps = true});
}

}  // namespace xc::cpu

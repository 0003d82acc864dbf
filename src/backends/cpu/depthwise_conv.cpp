// Depthwise convolutions, one result per channel, "xc.conv depthwise": rows of the result one after
// another, all channels of each, from where the input lies (`vector/depthwise_row.inc`), or from a
// channels-last copy of what a block reads.
//
// So the input goes by in the order of memory and a row of it is in the cache for the windows of
// the next ones; the library takes slices of channels instead, whose pixels lie apart. Windows that
// leave the image have fewer taps: nothing is padded. What registers cannot do of the functions
// behind the convolution, an epilogue does on a block of pixels while it is in the cache.

#include <algorithm>

#include "backends/cpu/block_results.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/own_conv.h"
#include "backends/cpu/row_windows.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/depthwise_row_fn.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1;
constexpr int64_t kBlockBytes = 24 << 10;   ///< of the result: an epilogue finds it in the L1 cache
constexpr int64_t kWholeBytes = 192 << 10;  ///< of a result that has none

/// With the widest vectors that so many channels fill, if any.
DepthwiseRowFns fns_for(int64_t channels) {
  DepthwiseRowFns fns = depthwise_row_fns(cpu_info().isa);
  for (const Isa isa : {Isa::kAvx2, Isa::kBaseline})
    if (channels < fns.lanes && isa < cpu_info().isa) fns = depthwise_row_fns(isa);
  return fns;
}

/// The weights in panels, and what is done behind the sums.
struct DepthwiseModel final : OwnConv {
  explicit DepthwiseModel(const StepSpec& spec)
      : fns(fns_for(spec.inputs[kW].constant.dims()[0])), behind(spec), planes(spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    channels = w.dims()[0];
    taps = element_count(std::span(w.dims()).subspan(2));
    weights.resize(static_cast<size_t>(taps * align_up(channels, fns.lanes)));
    for (int64_t before = 0; before < channels;) {
      const int64_t width = channels - before < fns.panel ? fns.lanes : fns.panel;
      const int64_t c = std::min(before, channels - width);
      for (int64_t i = 0; i < width; ++i)
        for (int64_t t = 0; t < taps; ++t)
          weights[static_cast<size_t>(before * taps + t * width + i)] =
              w.as<float>()[(c + i) * taps + t];
      before += width;
    }
  }

  std::shared_ptr<BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                    const SqueezedConv& conv) const override;

  DepthwiseRowFns fns;
  int64_t channels = 0, taps = 0;
  std::vector<float> weights;  ///< as DepthwiseRow has them
  BoundedEpilogue behind;
  PlaneConv planes;
};

class DepthwiseBound final : public BoundRowWindows {
 public:
  DepthwiseBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                 std::shared_ptr<const DepthwiseModel> model)
      : BoundRowWindows(spec, conv, model->channels), model_(std::move(model)) {
    if (tasks == 0) return;
    const int64_t bytes = model_->behind.epilogue.empty() ? kWholeBytes : kBlockBytes;
    lay_pixel_blocks(context, std::max<int64_t>(bytes / 4 / model_->channels, 1),
                     conv.problem.flops(), spec.threads);
    results_ = BlockResults(model_->behind.epilogue, context, y_, ImageAxes::of_kept(conv.kept));
    gathers_ = x_.channel != 1;
    int64_t input = 0;
    for (int64_t i = 0; i < blocks(); ++i) {
      const ImageBlock b = block(i);
      results_.add(b);
      if (!gathers_) continue;
      const Dims read = reach_of(b).dims();
      input = std::max(input, element_count(read));
      loads_.add(read, {x_.image, x_.channel, x_.row, x_.col}, channels_last_strides(read));
    }
    input_bytes_ = align_up(input * 4, 64);
    scratch_bytes = input_bytes_ + results_.scratch_bytes();
    held_bytes = 512 + results_.held_bytes() + loads_.bytes() + row_blocks_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (tasks == 0) return;  // an empty result
    auto* const memory = static_cast<std::byte*>(args.scratch);
    auto* const copy = reinterpret_cast<float*>(memory);
    auto* const tile = reinterpret_cast<float*>(memory + input_bytes_);
    const auto* const input = static_cast<const float*>(args.buffers[kX]);
    auto* const result = static_cast<float*>(args.buffers[inputs_]);
    const Range blocks = blocks_of(begin, end);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const ImageBlock b = block(i);
      Image x{input + b.images.begin * x_.image, x_};
      if (gathers_) {
        const ImageBlock read = reach_of(b);
        loads_.of(i).run(input + read.first(x_), copy);
        const ImageStrides at = read.staged();
        x = {copy - read.rows.begin * at.row - read.cols.begin * at.col, at};
      }
      const ImageStrides at = results_.strides(b);
      float* const y = results_.first(b, tile, result) - b.cols.begin * at.col;
      for (int64_t row = b.rows.begin; row < b.rows.end; ++row)
        compute_row(x, row, b.cols, bias(args), y + (row - b.rows.begin) * at.row, at.col);
      results_.finish(i, b, args.buffers, tile, result);
    }
  }

 private:
  /// All channels of one image.
  ImageBlock block(int64_t i) const { return pixel_block(i, model_->channels); }

  /// What a block reads; nothing where all its windows lie beside the image.
  ImageBlock reach_of(const ImageBlock& b) const {
    return {b.images, b.channels, reached(rows_, b.rows), reached(cols_, b.cols)};
  }

  struct Image {
    const float* first;  ///< where the pixel of row 0 and column 0 is, or would be
    ImageStrides at;
  };
  /// `y` is where column 0 would be.
  void compute_row(const Image& x, int64_t row, Range cols, const float* bias, float* y,
                   int64_t y_pixel) const {
    const DepthwiseModel& m = *model_;
    const RowRange rows = rows_.positions(row, 0, rows_.input);
    const Range whole = common(outputs_inside(cols_), cols);
    const auto compute = [&](int64_t col, int64_t pixels, RowRange taps) {
      m.fns.run({.x = x.first + rows_.at(row, rows.begin) * x.at.row +
                      cols_.at(col, taps.begin) * x.at.col,
                 .x_pixel = cols_.stride * x.at.col,
                 .x_row = rows_.dilation * x.at.row,
                 .x_col = cols_.dilation * x.at.col,
                 .rows = rows.size(),
                 .cols = taps.size(),
                 .w = m.weights.data(),
                 .first = rows.begin * cols_.kernel + taps.begin,
                 .w_row = cols_.kernel,
                 .taps = m.taps,
                 .bias = bias,
                 .y = y + col * y_pixel,
                 .y_pixel = y_pixel,
                 .pixels = pixels,
                 .channels = m.channels,
                 .low = m.behind.bounds.low,
                 .high = m.behind.bounds.high});
    };
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      if (whole.size() > 0 && col == whole.begin) {
        compute(col, whole.size(), {0, cols_.kernel});
        col = whole.end - 1;
      } else {
        compute(col, 1, cols_.positions(col, 0, cols_.input));
      }
    }
  }

  std::shared_ptr<const DepthwiseModel> model_;
  BlockResults results_;
  bool gathers_ = false;  ///< the input goes through scratch: it does not lie channels-last
  BlockCopies loads_;
  int64_t input_bytes_ = 0;
};

/// Whether the library (3.2) has a kernel for it with AVX-512: not where windows with gaps between
/// their taps reach over more columns of padding than it computes at a time.
bool library_has_kernel(const StepSpec& spec) {
  constexpr int64_t kMostPadding = 6;
  const auto kernel = std::span(spec.inputs[kW].constant.dims()).subspan(2);
  const WindowAttrs window = window_attrs(*spec.node, kernel.size());
  const size_t axis = last_with_taps(kernel);
  const int64_t padding =
      window.auto_pad == AutoPad::kNotSet ? std::max(window.pads_begin[axis], window.pads_end[axis])
      : window.auto_pad == AutoPad::kValid ? 0
                                           : (kernel[axis] - 1) * window.dilations[axis] / 2;
  return window.dilations[axis] == 1 || padding <= kMostPadding;
}

std::shared_ptr<BoundKernel> DepthwiseModel::bind(const StepSpec& spec, const BindContext& context,
                                                  const SqueezedConv& conv) const {
  return bind_own_conv<DepthwiseModel, DepthwiseBound>(*this, spec, context, conv);
}

Verdict takes_depthwise(const StepSpec& spec) {
  if (const Verdict dense = f32_with_constant_weights(spec); !dense.yes()) return dense;
  const Dims& w = spec.inputs[kW].constant.dims();
  if (w[1] != 1 || w[0] == 1 || w[0] != spec.attrs().get_int("group", 1))
    return Verdict::no("not one channel and one result per group");
  if (w[0] < fns_for(w[0]).lanes) return Verdict::no("channels that do not fill a vector");
  return supports_row_windows(spec);
}

Verdict supports(const StepSpec& spec) {
  if (const Verdict depthwise = takes_depthwise(spec); !depthwise.yes()) return depthwise;
  if (spec.inputs[kW].constant.dims()[0] % depthwise_row_fns(cpu_info().isa).lanes != 0)
    return Verdict::no("channels that do not fill vectors");
  // Not measured: what one line of a pixel needs of them is one vector there.
  if (cpu_info().isa == Isa::kAvx512 && library_has_kernel(spec))
    return Verdict::no("left to the library with AVX-512");
  std::string reason;
  return Epilogue::build(spec, {}, reason, true) ? Verdict::ok() : Verdict::no(reason);
}

}  // namespace

OwnConvKind depthwise_conv() {
  return {takes_depthwise, make_own_conv<DepthwiseModel>};
}

void add_depthwise_conv(Rows& rows) {
  rows.push_back(
      {.name = "xc.conv depthwise",
       .op = "Conv",
       .supports = supports,
       .create = create_prepared<DepthwiseModel,
                                 bind_planes_or_windows<DepthwiseBound, DepthwiseModel>, true>,
       .preferred = conv_orders,
       .takes_gaps = true});
}

}  // namespace xc::cpu

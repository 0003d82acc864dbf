// Depthwise convolutions, one result per channel, "xc.conv depthwise": tiles of two rows of the
// result one after another, all channels of each, from where the input lies
// (`vector/depthwise_rows.inc`), or from a channels-last copy of what a block reads.
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
#include "backends/cpu/vector/depthwise_rows_fn.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1;
constexpr int64_t kBlockBytes = 192 << 10;  ///< of the result: an epilogue finds it in the L2 cache
constexpr int64_t kLeastPixels = 16;        ///< of a block, for two rows of whole tiles

/// With the widest vectors that so many channels fill, if any.
DepthwiseRowsFns fns_for(int64_t channels) {
  DepthwiseRowsFns fns = depthwise_rows_fns(cpu_info().isa);
  for (const Isa isa : {Isa::kAvx2, Isa::kBaseline})
    if (channels < fns.lanes && isa < cpu_info().isa) fns = depthwise_rows_fns(isa);
  return fns;
}

/// The weights in panels, and what is done behind the sums.
struct DepthwiseModel final : OwnConv {
  explicit DepthwiseModel(const StepSpec& spec)
      : attrs(spec), fns(fns_for(spec.inputs[kW].constant.dims()[0])), behind(spec), planes(spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    channels = w.dims()[0];
    const int64_t taps = element_count(std::span(w.dims()).subspan(2));
    weights.resize(static_cast<size_t>(taps * align_up(channels, fns.lanes)));
    for (int64_t before = 0; before < channels; before += fns.lanes) {
      const int64_t c = std::min(before, channels - fns.lanes);
      for (int64_t i = 0; i < fns.lanes; ++i)
        for (int64_t t = 0; t < taps; ++t)
          weights[static_cast<size_t>(before * taps + t * fns.lanes + i)] =
              w.as<float>()[(c + i) * taps + t];
    }
  }

  std::shared_ptr<BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                    const SqueezedConv& conv) const override;

  ConvAttrs attrs;
  DepthwiseRowsFns fns;
  int64_t channels = 0;
  std::vector<float> weights;  ///< as DepthwiseRows has them
  BoundedEpilogue behind;
  PlaneConv planes;
};

class DepthwiseBound final : public BoundRowWindows {
 public:
  DepthwiseBound(const StepSpec& spec, const BindContext& context, const SqueezedConv& conv,
                 std::shared_ptr<const DepthwiseModel> model)
      : BoundRowWindows(spec, conv, model->channels), model_(std::move(model)) {
    if (tasks == 0) return;
    // Every thread has some blocks, where that is worth while.
    const int64_t parts = std::min(useful_, most_tasks(spec.threads));
    const int64_t most =
        std::min(kBlockBytes / 4 / model_->channels, images_ * conv.problem.plane() / parts);
    lay_pixel_blocks(context, std::max(most, kLeastPixels), spec.threads, model_->fns.rows);
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
      model_->fns.run({.x = x.first,
                       .x_row = x.at.row,
                       .x_pixel = x.at.col,
                       .down = windows(rows_, b.rows.begin),
                       .across = windows(cols_, b.cols.begin),
                       .w = model_->weights.data(),
                       .bias = bias(args),
                       .y = results_.first(b, tile, result),
                       .y_row = at.row,
                       .y_pixel = at.col,
                       .rows = b.rows.size(),
                       .pixels = b.cols.size(),
                       .channels = model_->channels,
                       .low = model_->behind.bounds.low,
                       .high = model_->behind.bounds.high});
      results_.finish(i, b, args.buffers, tile, result);
    }
  }

 private:
  struct Image {
    const float* first;  ///< where the pixel of row 0 and column 0 is, or would be
    ImageStrides at;
  };

  /// All channels of one image.
  ImageBlock block(int64_t i) const { return pixel_block(i, model_->channels); }

  /// What a block reads; nothing where all its windows lie beside the image.
  ImageBlock reach_of(const ImageBlock& b) const {
    return {b.images, b.channels, reached(rows_, b.rows), reached(cols_, b.cols)};
  }

  /// From one result on.
  static DepthwiseAxis windows(const WindowAxis& axis, int64_t result) {
    return {axis.kernel, axis.stride, axis.dilation, axis.at(result, 0), axis.input};
  }

  std::shared_ptr<const DepthwiseModel> model_;
  BlockResults results_;
  bool gathers_ = false;  ///< the input goes through scratch: it does not lie channels-last
  BlockCopies loads_;
  int64_t input_bytes_ = 0;
};

/// Whether the library (3.2) has a kernel for it: with AVX-512 not where windows with gaps between
/// their taps reach over more columns of padding than it computes at a time.
bool library_has_kernel(const StepSpec& spec) {
  constexpr int64_t kMostPadding = 6;
  if (cpu_info().isa < Isa::kAvx512) return true;
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

/// Whether the pixels of an image lie so that those of a tile share one set of the first-level
/// cache, or two where each line is read by two vectors: lines are lost before they are read.
bool pixels_collide(int64_t channels) {
  const int64_t vectors = 64 / (depthwise_rows_fns(cpu_info().isa).lanes * 4);
  return first_level_sets(channels * 4) <= vectors;
}

/// Whether the library was measured to be slower (README).
Verdict worth_while(const StepSpec& spec) {
  const Dims& w = spec.inputs[kW].constant.dims();
  const auto gap = [](int64_t dilation) { return dilation > 1; };
  const auto kernel = std::span(w).subspan(2);
  const bool image = element_count(kernel) > kernel[last_with_taps(kernel)];
  if (image && std::ranges::any_of(spec.attrs().get_ints("dilations"), gap) &&
      library_has_kernel(spec))
    return Verdict::no("gaps between the taps");
  return pixels_collide(w[0]) ? Verdict::no("pixels that share sets of the cache") : Verdict::ok();
}

Verdict supports(const StepSpec& spec) {
  if (const Verdict depthwise = takes_depthwise(spec); !depthwise.yes()) return depthwise;
  if (const Verdict fast = worth_while(spec); !fast.yes()) return fast;
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

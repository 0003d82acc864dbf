#pragma once
// What convolutions by rows of pixels ("xc.conv", "xc.conv groups", "xc.conv depthwise") share: the
// windows they take, which of them reach over the edges of the image, rows with zeros around it,
// and weights in panels for vector/conv_row_fn.h.

#include <memory>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/image_blocks.h"
#include "backends/cpu/plane_conv.h"
#include "backends/cpu/vector/conv_row_fn.h"
#include "backends/step.h"
#include "ops/window.h"

namespace xc::cpu {

/// Whether windows, over up to so many axes, and bias (input 2) of a convolution are such as they
/// take.
Verdict supports_row_windows(const StepSpec& spec, size_t most_axes = 2);

/// Of the spatial axes the last along which windows have several taps: that of a sequence also
/// where it is written with a width of 1.
size_t last_with_taps(std::span<const int64_t> kernel);

/// What sizes and operands of such a convolution say.
class BoundRowWindows : public BoundKernel {
 protected:
  /// `conv` is of the step; `channels` of the result. Without tasks where that is empty.
  BoundRowWindows(const StepSpec& spec, const SqueezedConv& conv, int64_t channels);
  const float* bias(const StepArgs& args) const {
    return has_bias_ ? static_cast<const float*>(args.buffers[2]) : nullptr;
  }

  /// Divides the rows into blocks of at most so many, each into `across` ones beside each other,
  /// and all into tasks: as the context wants them, or so many as the convolution is worth.
  void lay_blocks(const BindContext& context, int64_t most_rows, int64_t across,
                  int64_t together = 1);
  /// The same, in blocks of all channels of at most so many pixels; none is narrow at the end of
  /// the rows, and a signal, which is one row, has as many for each thread. `together`: rows that
  /// are better computed side by side.
  void lay_pixel_blocks(const BindContext& context, int64_t most_pixels, int64_t threads,
                        int64_t together = 1);
  /// The i-th of these, `channels` being those of the result.
  ImageBlock pixel_block(int64_t i, int64_t channels) const;
  /// Of all images; what is across counts innermost, then rows, then images.
  int64_t blocks() const { return images_ * row_blocks_.count() * across_; }
  /// Those of tasks [begin, end).
  Range blocks_of(int64_t begin, int64_t end) const;

  uint32_t inputs_;
  bool has_bias_;
  int64_t useful_;  ///< tasks it is worth
  int64_t images_;
  WindowAxis depths_, rows_, cols_;
  size_t axes_;  ///< columns, then rows, then depths
  ImageStrides x_, y_;
  RowBlocks row_blocks_;
  int64_t across_ = 1;
  int64_t block_cols_ = 1;  ///< at most
};

/// Columns that a block has at least, for what it reads to be no more than twice what is new to it.
inline int64_t least_columns(const WindowAxis& cols) {
  return (cols.extent(1) - 1) / cols.stride;
}

/// How create_prepared() binds such a convolution, whose model has its ConvAttrs `attrs`.
template <class Bound, class Model>
std::shared_ptr<const BoundKernel> bind_row_windows(const StepSpec& spec,
                                                    const BindContext& context,
                                                    const std::shared_ptr<const Model>& model) {
  const SqueezedConv conv(model->attrs, context.inputs[0], context.inputs[1], context.outputs[0]);
  return std::make_shared<Bound>(spec, context, conv, model);
}

/// The same for a model that has a PlaneConv `planes`, where that does not serve.
template <class Bound, class Model>
std::shared_ptr<const BoundKernel> bind_planes_or_windows(
    const StepSpec& spec, const BindContext& context, const std::shared_ptr<const Model>& model) {
  const SqueezedConv conv(model->attrs, context.inputs[0], context.inputs[1], context.outputs[0]);
  if (auto bound = model->planes.bind(context, conv)) return bound;
  return std::make_shared<Bound>(spec, context, conv, model);
}

/// Weights w[channels][in][kernel] as ConvRow has them, into kernel * in times
/// align_up(channels, lanes) elements; what is padding is not written.
void pack_row_weights(const ConvRowFns& fns, const float* w, int64_t channels, int64_t in,
                      int64_t kernel, float* to);

/// Sets of the first-level cache among which lines lie that are so many bytes apart.
int64_t first_level_sets(int64_t apart);

/// Outputs whose windows lie within the input.
Range outputs_inside(const WindowAxis& axis);

/// Positions of the input that the windows of `outputs` reach.
Range reached(const WindowAxis& axis, Range outputs);

/// A row of an image: strides in elements, `channels` of a pixel. Null: one outside the image.
struct ImageRow {
  const float* first;
  int64_t pixel, channel, channels;
};
/// Pixels [begin, begin + width) of a row along `cols`, side by side, each with zeros behind its
/// channels up to `padded`; those outside the image are zeros.
void copy_padded_row(const ImageRow& row, const WindowAxis& cols, int64_t begin, int64_t width,
                     int64_t padded, float* to);

}  // namespace xc::cpu

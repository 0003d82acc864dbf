#pragma once
// Convolution as one form, and the parts it is split into: shared by the kernels for floats and for
// bytes.

#include <vector>

#include "backends/cpu/onednn_common.h"
#include "ops/window.h"

namespace xc::cpu {

/// Tasks that so many operations are worth, of sums over many channels.
int64_t useful_tasks(double flops);
/// Tasks for so many threads, at most.
inline int64_t most_tasks(int64_t threads) {
  return threads == 1 ? 1 : 4 * threads;
}

/// Everything about one convolution of known dims.
struct ConvProblem {
  int64_t batch, groups, in_channels, out_channels;  ///< channels of all groups
  std::vector<WindowAxis> axes;
  Dims x_dims, y_dims;
  int64_t plane() const;
  int64_t taps() const;     ///< of a window, in each channel
  int64_t weights() const;  ///< how many
  double flops() const;
  /// Tasks it is worth: with sums over few channels (depthwise) an operation takes ten times as
  /// long, with few pixels reading the weights longer than multiplying, with few channels in all
  /// moving the pixels.
  int64_t useful_tasks() const;
  /// 1x1, one group, no padding, no stride: a matrix product.
  bool pointwise() const;
  /// Depthwise over one axis. The library's kernels for depthwise convolutions know two, without
  /// which it takes a general one (3 to 12 times slower): it is told of rows of height 1.
  bool told_as_image() const;
};

/// What a convolution's attributes say, read once: by their names that takes longer than the rest
/// of a bind.
struct ConvAttrs {
  WindowAttrs window;
  int64_t groups;
  /// `weights`: the operand that is.
  explicit ConvAttrs(const StepSpec& spec, size_t weights = 1);
};

/// The operands without spatial axes of one element, which the library's kernels would take for
/// rows: a convolution over a sequence written with a height or width of 1 is one of rank 3.
struct SqueezedConv {
  struct Part {
    Dims dims, strides;
    BoundOperand operand() const { return {dims, strides}; }
  };
  Part x, w, y;
  std::vector<size_t> kept;  ///< spatial axes that stay, at least one
  ConvProblem problem;
  SqueezedConv(const ConvAttrs& attrs, const BoundOperand& data, const BoundOperand& weights,
               const BoundOperand& result);
};

/// Images [n0, n1), rows [r0, r1) of the first spatial axis, output channels [c0, c1).
struct ConvRegion {
  int64_t n0, n1, r0, r1, c0, c1;
};
using ConvRegions = std::vector<ConvRegion>;
/// Ways to divide it, the quickest first, the last one being none. No part divides a sum.
/// `by_shape`: they do not depend on `threads`. `staged`: operands are converted in scratch,
/// elements of `element_bytes`, which should stay in the second-level cache. `whole_rows`: an
/// image's rows stay together.
std::vector<ConvRegions> conv_divisions(const ConvProblem& problem, int threads, bool by_shape,
                                        bool staged, int64_t element_bytes,
                                        bool whole_rows = false);

/// The rows of x that a region reads, and its padding along the first axis.
struct ConvRows {
  int64_t in0, in1, pad_begin, pad_end;
};
ConvRows rows_of(const ConvProblem& problem, const ConvRegion& region);

/// Descriptor of dense activations (N, C, spatial axes), a part of the problem's: channels-last, or
/// row-major.
dnnl::memory::desc conv_activations(const ConvProblem& problem, Dims dims, DType type,
                                    bool row_major = false);

/// Descriptor of weights of plain strides: `channels` output channels of all groups, the groups an
/// axis of their own where there are several.
dnnl::memory::desc plain_conv_weights(const BoundOperand& weights, const ConvProblem& problem,
                                      int64_t channels, DType type);

/// What the library is told beside the operands, for a part of `channels` output channels.
struct ConvWindow {
  dnnl::memory::dims weights, strides, dilations, pad_begin, pad_end;
};
ConvWindow conv_window(const ConvProblem& problem, int64_t channels, int64_t pad_begin,
                       int64_t pad_end);

/// Whether windows are narrow enough for kernels that stage what lies between their taps in
/// scratch.
Verdict windows_fit_scratch(const StepSpec& spec);

/// Implementation::preferred of convolutions: activations channels-last.
std::vector<Order> conv_orders(const StepSpec& spec);

}  // namespace xc::cpu

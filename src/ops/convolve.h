#pragma once
// Convolution on dense doubles: shared by Conv, ConvInteger, QLinearConv.

#include <array>
#include <vector>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/window.h"

namespace xc {

/// Checks data x[N, C, ...], weights w[M, C/group, ...] (inputs of these indices) and answers the
/// dims of the result.
SymDims infer_convolution(const InferContext& ctx, size_t x, size_t w);

/// Everything a convolution of known dims needs.
struct ConvShape {
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  ///< per group
  std::array<WindowAxis, 3> axes;
};
ConvShape conv_shape(const Node& node, std::span<const int64_t> x, std::span<const int64_t> w,
                     std::span<const int64_t> y);

/// The result, row-major; `bias` is empty or has one entry per output channel.
std::vector<double> convolve(const ConvShape& shape, const std::vector<double>& x,
                             const std::vector<double>& w, const std::vector<double>& bias);

/// Multiply-adds count as two.
Dim conv_flops(const Graph& graph, const Node& node, size_t w);

}  // namespace xc

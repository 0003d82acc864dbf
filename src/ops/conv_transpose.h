#pragma once
// What ConvTranspose's reference and its kernels share.

#include <array>
#include <span>

#include "ops/window.h"

namespace xc {

/// Spatial axes of data x[N, C, ...], weights w[C, M/group, ...] and result y[N, M, ...] as
/// windows: at(i, k) is the result's index under kernel position k of input i.
std::array<WindowAxis, 3> conv_transpose_axes(const Node& node, std::span<const int64_t> x,
                                              std::span<const int64_t> w,
                                              std::span<const int64_t> y);

/// Whether the result has index o on an axis: at() may lie in the padding that is cut off.
inline bool in_result(const WindowAxis& axis, int64_t o) {
  return o >= 0 && o < axis.output;
}

}  // namespace xc

#pragma once
// The phases of a transposed convolution's stride: results whose positions are equal modulo the
// stride meet the same positions of the kernel.

#include <vector>

#include "backends/cpu/image_blocks.h"
#include "ops/window.h"

namespace xc::cpu {

/// Positions of a kernel's axis that one phase meets, over inputs in ascending order. Result q *
/// stride + phase - pad is the sum over them of x[q - shift] w[position].
struct Phase {
  struct Tap {
    int64_t position, shift;
  };
  /// Taps over neighbouring inputs.
  struct Run {
    size_t first;
    int64_t taps, shift;  ///< shift: of the first
  };
  std::vector<Tap> taps;
  std::vector<Run> runs;
};

std::vector<Phase> phases_of(int64_t kernel, int64_t stride, int64_t dilation);

/// q of all results of an axis (conv_transpose_axes()), and those of one phase.
Range phase_results(const WindowAxis& axis);
Range phase_results(const WindowAxis& axis, size_t phase);
/// Results of an axis with q in the range: neighbours.
Range results_of(const WindowAxis& axis, Range q);

}  // namespace xc::cpu

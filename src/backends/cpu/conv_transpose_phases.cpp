#include "backends/cpu/conv_transpose_phases.h"

#include <algorithm>

namespace xc::cpu {

std::vector<Phase> phases_of(int64_t kernel, int64_t stride, int64_t dilation) {
  std::vector<Phase> out(static_cast<size_t>(stride));
  for (int64_t k = kernel - 1; k >= 0; --k)
    out[static_cast<size_t>(k * dilation % stride)].taps.push_back({k, k * dilation / stride});
  for (Phase& phase : out)
    for (size_t i = 0; i < phase.taps.size(); ++i) {
      const int64_t shift = phase.taps[i].shift;
      if (i > 0 && phase.taps[i - 1].shift == shift + 1)
        ++phase.runs.back().taps;
      else
        phase.runs.push_back({i, 1, shift});
    }
  return out;
}

Range phase_results(const WindowAxis& a) {
  return {a.pad_begin / a.stride, (a.output - 1 + a.pad_begin) / a.stride + 1};
}

Range phase_results(const WindowAxis& a, size_t phase) {
  const auto p = static_cast<int64_t>(phase);
  const int64_t last = a.output - 1 + a.pad_begin - p;
  return {std::max<int64_t>(ceil_div(a.pad_begin - p, a.stride), 0),
          last < 0 ? 0 : last / a.stride + 1};
}

Range results_of(const WindowAxis& a, Range q) {
  return {std::max<int64_t>(q.begin * a.stride - a.pad_begin, 0),
          std::min(q.end * a.stride - a.pad_begin, a.output)};
}

}  // namespace xc::cpu

#include "ops/rounded_blocks.h"

#include <algorithm>
#include <cmath>

namespace xc {
namespace {

float largest(const float* x, int64_t count) {
  float out = 0;
  for (int64_t i = 0; i < count; ++i)
    out = std::isfinite(x[i]) ? std::max(out, std::fabs(x[i])) : INFINITY;
  return out;
}

}  // namespace

void round_blocks(float* row, int64_t count, int64_t block) {
  for (int64_t at = 0; at < count; at += block) {
    const float most = largest(row + at, std::min(block, count - at));
    if (most != 0 && !(most >= kLeastRounded && most <= kMostRounded)) return;
  }
  for (int64_t at = 0; at < count; at += block) {
    const int64_t end = std::min(count, at + block);
    const float scale = largest(row + at, end - at) / 127;
    if (scale == 0) continue;
    const float inverse = 1 / scale;
    for (int64_t i = at; i < end; ++i) row[i] = std::nearbyint(row[i] * inverse) * scale;
  }
}

bool rounds_beside(int64_t k, int64_t block, const Tensor& scales) {
  constexpr int64_t kWhole = 16;
  if (block % kWhole != 0 || std::min(block, k) > kLongestBlock) return false;
  const Tensor dense = scales.held().to_contiguous();
  const auto* scale = dense.as<float>();
  return std::all_of(scale, scale + dense.count(), [](float s) {
    return s == 0 || (std::fabs(s) >= kLeastRounded && std::fabs(s) <= kMostRounded);
  });
}

}  // namespace xc

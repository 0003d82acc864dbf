#pragma once
// How GridSample reads between the elements of an axis, and what lies outside.

#include <cstdint>

namespace xc {

enum class SampleMode : uint8_t { kNearest, kLinear, kCubic };
/// Outside is zero, the element at the border, or what is mirrored there.
enum class SamplePadding : uint8_t { kZeros, kBorder, kReflection };

}  // namespace xc

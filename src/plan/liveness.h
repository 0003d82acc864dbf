#pragma once
// What PlanBuffer::first_step and last_step say beside a number of a step.

#include <cstdint>

namespace xc {

inline constexpr uint32_t kNeverUsed = UINT32_MAX;  ///< first_step: by no step, and none is bound
inline constexpr uint32_t kUsedLater = UINT32_MAX;  ///< last_step: read by a later segment

}  // namespace xc

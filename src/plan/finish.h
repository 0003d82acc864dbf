#pragma once
// The last step of planning: liveness of buffers and the size programs that bind evaluates.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "plan/plan.h"

namespace xc {

/// Fills PlanBuffer::first_step/last_step and Plan::programs. `symbols` numbers Plan::symbols.
void finish_plan(Plan& plan, const std::unordered_map<std::string, uint32_t>& symbols);

}  // namespace xc

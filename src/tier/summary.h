#pragma once
// What the tier knows of a program, for profiles and reports.

#include "profile/summary.h"
#include "tier/core.h"

namespace xc::tier {

/// TierHooks::summarise().
void summarise(const Core& core, const Program& program, ProgramState& state,
               ProfileSummary& summary, bool details);

}  // namespace xc::tier

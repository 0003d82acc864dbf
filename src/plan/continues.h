#pragma once
// Changing plans on the way: at the start of a segment a run may go on with another plan.

#include "plan/plan.h"

namespace xc {

/// Whether a run that executed the segments of `begun` in front of `segment` can go on with
/// `other` from there: both do the same until then, and what `other` reads of it is still there.
bool continues(const Plan& begun, const Plan& other, uint32_t segment);

/// Nodes behind which a run finds out sizes, in execution order: one between two segments each.
std::vector<NodeId> segment_ends(const Plan& plan);

}  // namespace xc

#pragma once
// What the search of a part considered, as text for explain, and a part as text for memoisation.

#include <span>
#include <string>
#include <string_view>

#include "plan/fusion/region.h"
#include "plan/fusion/search.h"

namespace xc::fusion {

/// Equal for parts between which a search cannot tell.
std::string text_of(const Part& part);

/// Adds the part's groups, the best of those declined, and why its neighbours do not fuse. `begin`:
/// its place in the execution order.
void report(const Graph& graph, uint32_t begin, const Part& part, const Grouping& best,
            FusionReport& out);
/// Adds operators that are kept out of every group, and why.
void report_kept_out(const Graph& graph, std::span<const NodeId> nodes, std::string_view reason,
                     FusionReport& out);
/// Chosen ones first, then by what they would save; illegal ones last.
void sort_alternatives(FusionReport& report);

}  // namespace xc::fusion

// A region as loop IR: by blocks of rows (lower_blocks.cpp), or, where its graph, composites
// expanded, consists of scalar functions and reductions over neighbouring axes of one iteration
// space, as cells, rows or an aggregate (lower_rows.cpp, lower_aggregate.cpp).
#include "plan/fusion/blocks.h"
#include "plan/fusion/loop_region.h"
#include "plan/fusion/lower_loops.h"

namespace xc {
namespace {

Verdict lower_loops(const Region& region, const StepSpec& spec, RegionGraph region_graph,
                    const loop::TargetWidth& target, RegionCode& out) {
  fusion::LoopRegion loops(region, spec, std::move(region_graph));
  if (const Verdict v = loops.analyse(); !v.yes()) return v;
  out.picks = loops.mapped().picks();
  out.repeats = loops.mapped().repeats();
  return region.aggregate ? fusion::lower_aggregate(loops, out)
                          : fusion::lower_rows(loops, target, out);
}

loop::Accuracy accuracy_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::kStrict:
      return loop::Accuracy::kStrict;
    case Numerics::kFast:
      return loop::Accuracy::kFast;
    default:
      return loop::Accuracy::kDefault;
  }
}

}  // namespace

Verdict lower_region(const Graph& graph, const Region& region, const StepSpec& spec,
                     const loop::TargetWidth& target, RegionCode& out) {
  try {
    const auto lower = region.blocks ? lower_blocks : lower_loops;
    const Verdict verdict = lower(region, spec, extract_region(graph, region), target, out);
    for (RegionPhase& phase : out.phases) phase.kernel.accuracy = accuracy_of(spec.numerics);
    return verdict;
  } catch (const Error& error) {
    return Verdict::no(error.message());
  }
}

}  // namespace xc

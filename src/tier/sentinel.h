#pragma once
// The sentinel: verification saw made-up inputs and one run's; what a region in use makes of others
// is looked at now and then. A run copies what the region's step read and wrote, the background
// thread compares. Runs that are not chosen pay nothing: the request lies where captures do.

#include <cstdint>
#include <vector>

#include "tier/condemnation.h"
#include "tier/core.h"
#include "tier/refusals.h"

namespace xc::tier {

class Sentinel {
 public:
  Sentinel(Core& core, Refusals& refusals, Condemnation& condemnation)
      : core_(core), refusals_(refusals), condemnation_(condemnation) {}
  /// Counts runs of a region in use; posts a look where it is time for one. Under state.data.
  void ran(const StatePtr& state, Group& group, SignatureEntry& entry, double runs, int64_t now_ns);

 private:
  bool is_due(Group& group, double runs, int64_t now_ns) const;
  void ask(Program& program, ProgramState& state, Group& group, SignatureEntry& entry);
  /// `operands`: a run's copies of what the region's step read and wrote; `running`: the group, or
  /// its special kernels one of which the step ran.
  void check(Program& program, ProgramState& state, Group& group,
             const std::vector<Group*>& running, const std::vector<Tensor>& operands);

  Core& core_;
  Refusals& refusals_;
  Condemnation& condemnation_;
};

}  // namespace xc::tier

#pragma once
// What an earlier process learnt is put to use. A region accepted there whose code is in the cache
// is live from the first binds, without compile, verification or trial: it was found right and
// faster on this processor with these very builds. It is watched as any live region, from the times
// measured then.

#include <vector>

#include "tier/compilation.h"
#include "tier/core.h"
#include "tier/publishing.h"
#include "tier/region_search.h"
#include "tier/specials.h"
#include "tier/zeros.h"

namespace xc::tier {

class Restore {
 public:
  Restore(Core& core, Publishing& publishing, ZeroSites& zeros, RegionSearch& search,
          Specials& specials, Compilation& compilation)
      : core_(core),
        publishing_(publishing),
        zeros_(zeros),
        search_(search),
        specials_(specials),
        compilation_(compilation) {}
  /// At a program's first bind, on the calling thread: puts its profile to use, here or as a job.
  /// True that one time, where there is a cache.
  bool recall(Program& program, SignatureEntry& entry);
  /// Kernels that skip zeros and had to wait for packed weights, which are there now. Holds
  /// state.work.
  void add_zeros_to_come(Program& program, ProgramState& state);

 private:
  void recall_profile(Program& program, const StatePtr& state, SignatureEntry& entry);
  /// Holds state.work. `first`: the signature to publish at once; null = all of them.
  void restore(Program& program, ProgramState& state, const cache::ProfileRecord& record,
               SignatureEntry* first);
  void add_specials(Program& program, ProgramState& state, const cache::ProfileRecord& record);
  /// Those accepted, but in mode freeze.
  void add_zeros(Program& program, ProgramState& state, const cache::ProfileRecord& record);
  /// Takes over what is known of the group, one record per class of sizes.
  void revive(Program& program, ProgramState& state, Group& group,
              const std::vector<const cache::RegionRecord*>& known);

  Core& core_;
  Publishing& publishing_;
  ZeroSites& zeros_;
  RegionSearch& search_;
  Specials& specials_;
  Compilation& compilation_;
};

}  // namespace xc::tier

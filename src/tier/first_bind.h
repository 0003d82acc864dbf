#pragma once
// What happens on the calling thread when a signature was bound for the first time: what an earlier
// process learnt is put to use; in mode sync all is done, without trials.

#include "tier/compilation.h"
#include "tier/condemnation.h"
#include "tier/core.h"
#include "tier/publishing.h"
#include "tier/region_search.h"
#include "tier/restore.h"
#include "tier/specials.h"
#include "tier/weight_packing.h"

namespace xc::tier {

class FirstBind {
 public:
  FirstBind(Core& core, Publishing& publishing, RegionSearch& search, Specials& specials,
            Compilation& compilation, Condemnation& condemnation, Restore& restore,
            WeightPacking& packing)
      : core_(core),
        publishing_(publishing),
        search_(search),
        specials_(specials),
        compilation_(compilation),
        condemnation_(condemnation),
        restore_(restore),
        packing_(packing) {}
  /// TierHooks::first_bound().
  void bound(Program& program, SignatureEntry& entry);

 private:
  /// Mode sync, once per program: all regions are compiled, and used at all sizes.
  void compile_all(Program& program, ProgramState& state, SignatureEntry& entry);
  /// Testing, in mode sync: kernels for the sizes of this signature, used without trials.
  void specialise(Program& program, ProgramState& state, const SignatureEntry& entry);

  Core& core_;
  Publishing& publishing_;
  RegionSearch& search_;
  Specials& specials_;
  Compilation& compilation_;
  Condemnation& condemnation_;
  Restore& restore_;
  WeightPacking& packing_;
};

}  // namespace xc::tier

#pragma once
// Products of mostly zeros. What runs have shown to be sparse (profile/value_facts.h) is multiplied
// by a kernel that skips zeros: a candidate like any region, which takes the place of the base
// plan's step with all that the step does behind the product. Nothing is taken for granted of the
// values: a run with other ones is right, and where there are many of those the kernel is found
// slow and leaves again. The values of a warm-up's runs are made up: nothing is learnt from those
// and nothing tried on them. Frozen sessions let go of all such kernels: nobody is left to find
// them slow.
//
// Matthias Boehm et al., "SystemDS: A Declarative Machine Learning System for the End-to-End Data
// Science Lifecycle", CIDR 2020: dynamic recompilation by the number of nonzeros.

#include <memory>
#include <optional>

#include "tier/core.h"
#include "tier/publishing.h"

namespace xc::tier {

class ZeroSites {
 public:
  ZeroSites(Core& core, Publishing& publishing) : core_(core), publishing_(publishing) {}
  /// From here on runs look at what the base plan's products could skip. Holds state.work.
  void watch(Program& program, ProgramState& state);
  /// Posts candidates where sampled runs of the segment saw enough zeros. Under state.data.
  void consider(const StatePtr& state, const Program& program, const SignatureEntry& entry);
  /// A candidate like any region. Null: the kernel has no such form, or a region has the nodes.
  /// `density`: as seen; unset: accepted by an earlier process. Holds state.work.
  Group* add(Program& program, ProgramState& state, ZeroSite& site, std::optional<double> density);
  /// Of a program that was frozen: its runs go back to what takes one time whatever comes. Holds
  /// state.work.
  void let_go(Program& program, ProgramState& state);

  /// The region of a site.
  static Region region_of(Program& program, const ZeroSite& site);
  /// The kernel of a group that has ZeroSkipping.
  std::shared_ptr<Kernel> kernel_of(const Group& group) const;

 private:
  Core& core_;
  Publishing& publishing_;
};

}  // namespace xc::tier

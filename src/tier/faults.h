#pragma once
// Test seams of the tier.

#include <functional>
#include <memory>

#include "backends/step.h"
#include "plan/fusion/region.h"

namespace xc {

/// Faults planted by tests, empty in production.
struct TierFaults {
  /// May replace a compiled kernel (a wrong one, a slower one) or throw.
  std::function<std::shared_ptr<Kernel>(const Region&, std::shared_ptr<Kernel>)> wrap;
  /// The budget never allows a job of its own accord.
  bool starved = false;
  /// Compiled kernels go live as they are: the test compares results itself.
  bool unverified = false;
  /// Kernels are verified between inaccessible pages: what touches them dies there.
  bool guard_pages = false;
  /// Times decide nothing: regions found are compiled at once and predicted to take half the time
  /// at most, trials end with the kernel accepted, the sentinel looks every 64 runs or so.
  bool eager = false;
  /// Kernels for special sizes are tried after one run, whatever they are expected to save; in mode
  /// sync every signature gets its own.
  bool specials = false;
  /// The system refuses the background thread.
  bool no_thread = false;
  /// In place of policy::Rate::kHalfLifeS, for the queue.
  double half_life_s = 0;
  /// Weights are packed one step's at a time.
  bool pack_slowly = false;
  /// In place of the CPU time that a compile may take, when not 0.
  double compile_limit_s = 0;
};

}  // namespace xc

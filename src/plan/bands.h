#pragma once
// Steps that run band by band: convolutions and pools that follow each other and hand on more than
// a cache holds. Rows of the first go through all of them before the next ones do, and what lies
// between them is memory of the worker, as large as a band needs, instead of a whole value in the
// arena.
//
// (Depth-first execution, or layer fusion: Alwani et al., "Fused-Layer CNN Accelerators", 2016.
// What windows share of neighbouring bands is kept, not computed again, but where threads part.)

#include <memory>
#include <span>
#include <vector>

#include "plan/band_schedule.h"
#include "plan/bound.h"
#include "plan/memory_plan.h"

namespace xc {

/// Steps [first, end) of a plan that hand on their results band by band.
struct BandChain {
  uint32_t first = 0, end = 0;
  int64_t chunks = 1;            ///< of an image, for as many threads
  int64_t height = 0;            ///< rows of the last result in a band, at most
  std::vector<WindowAxis> rows;  ///< per step
};

/// The chains of a segment whose operands are known (Bound::operands) that gain from it by
/// prediction; `always`: all there are, whether they gain or not.
std::vector<BandChain> band_chains(const Bound& bound, bool always = false);

/// A chain as one kernel: its operands are those of all steps, one step's behind the other's.
class BandedKernel : public BoundKernel {
 public:
  /// What does step `i` of the chain.
  virtual const BoundKernel& step(size_t i) const = 0;
};
/// Null where one of them cannot do its part.
std::shared_ptr<const BandedKernel> bind_bands(const Bound& bound, const BandChain& chain);

/// What the arena is asked for, given that the chain's steps run at the same time and what they
/// hand on is not in it.
void adapt_to_bands(const BandChain& chain, std::vector<ArenaRequest>& requests);

}  // namespace xc

#pragma once
// What a region costs at the sizes of a run, without asking for memory: every first run of a shape
// wants to know it of every region.

#include <cstdint>
#include <span>

#include "plan/fusion/region.h"
#include "plan/plan.h"
#include "tensor/dim.h"

namespace xc::tier {

class SizedCost {
 public:
  /// Nothing is known of it.
  SizedCost() = default;
  /// `plan`: the base plan, whose symbols stand in the cost.
  SizedCost(const RegionCost& cost, const Plan& plan);

  struct Sizes {
    double bytes_fused = 0, bytes_varying = 0, product_flops = 0, flops = 0;  // RegionCost's
  };
  /// All 0 where some symbol is not among the first ones, whose values those are, or where the
  /// sizes do not fit together: whoever binds them says so, and of which node.
  Sizes at(std::span<const int64_t> symbols) const;

 private:
  DimProgram program_;
  size_t symbols_ = SIZE_MAX;  ///< how many have to be known
};

}  // namespace xc::tier

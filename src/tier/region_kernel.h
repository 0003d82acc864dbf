#pragma once
// A compiled region as a Kernel of a plan step.

#include <memory>
#include <string>
#include <vector>

#include "backends/step.h"
#include "plan/fusion/region.h"
#include "tier/region_compiler.h"

namespace xc {

class RegionKernel final : public Kernel {
 public:
  /// One code per phase of `code`. `operands`: how many operands the region has.
  RegionKernel(RegionCode code, std::vector<std::shared_ptr<const PhaseCode>> phases,
               size_t operands);
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override;
  int64_t code_bytes() const;
  /// Of every phase (PhaseCode::listing).
  std::string listing() const;

 private:
  RegionCode code_;
  std::vector<std::shared_ptr<const PhaseCode>> phases_;
  size_t operands_;
};

}  // namespace xc

#pragma once
// A region's kernel together with those made for some of its sizes. Which one runs is decided where
// sizes become known, at a bind: the first whose guard holds. A miss is the general kernel, at
// once.

#include <memory>
#include <vector>

#include "backends/step.h"
#include "plan/fusion/specialise.h"

namespace xc {

class GuardedKernel final : public Kernel {
 public:
  struct Special {
    SizeGuard guard;
    std::shared_ptr<Kernel> kernel;
  };
  GuardedKernel(std::shared_ptr<Kernel> general, std::vector<Special> specials)
      : general_(std::move(general)), specials_(std::move(specials)) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    for (const Special& special : specials_)
      if (special.guard.holds(context)) return special.kernel->bind(context);
    return general_->bind(context);
  }

 private:
  std::shared_ptr<Kernel> general_;
  std::vector<Special> specials_;
};

}  // namespace xc

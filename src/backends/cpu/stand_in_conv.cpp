#include "backends/cpu/stand_in_conv.h"

#include <algorithm>

#include "base/cpu_info.h"

namespace xc::cpu {
namespace {

constexpr size_t kW = 1;

/// Ungrouped convolutions along one axis with many pixels. The library takes 2 ms to make one of
/// 1000 pixels, 12 of 3840, 24 of 15360 (oneDNN 3.2, AMD Zen 4; a vocoder of 74 a second), and then
/// 0.95 to 1.13 of the time of this kernel, of signals with few pixels 0.9 to 1.
bool is_long_signal(const ConvProblem& problem) {
  constexpr int64_t kManyPixels = 500;
  return problem.axes.size() == 1 && problem.groups == 1 && !problem.pointwise() &&
         problem.batch * problem.plane() >= kManyPixels;
}

/// Seconds that the library takes to make one (oneDNN 3.2, AMD Zen 4).
double making_s(const ConvProblem& problem) {
  if (problem.taps() == 1) return 1e-4;
  if (problem.axes.size() > 1) return 5e-4;
  return 2e-4 + 2e-6 * static_cast<double>(problem.batch * problem.plane());
}

/// Seconds that a run takes longer by rows: networks take up to a seventh, their 1x1 and depthwise
/// convolutions the most of it.
double lost_s(const ConvProblem& problem) {
  constexpr double kRate = 100e9, kShare = 0.1;
  const bool depthwise = problem.groups == problem.in_channels;  // whose operands pass, no sums
  return kShare * problem.flops() / (depthwise ? kRate / 4 : kRate);
}

}  // namespace

StandInConv::StandInConv(const StepSpec& spec)
    : spec_(spec),
      may_change_(spec.numerics != Numerics::kStrict),
      one_size_(std::ranges::all_of(spec.outputs[0].dims,
                                    [](const Dim& dim) { return dim.constant().has_value(); })) {
  for (const OwnConvKind& kind : {row_conv(), group_conv(), depthwise_conv()})
    if (!kind_ && kind.takes(spec).yes()) kind_ = kind;
}

bool StandInConv::pays(const ConvProblem& problem, bool packs) const {
  // Until there is time. Of sizes that change each may come once only, and where runs are long the
  // second one has it bound anew.
  const double runs = one_size_ ? 20 : 1;
  constexpr double kPackingRate = 1.5e9;  // bytes a second
  const double packing_s =
      packs ? static_cast<double>(spec_.inputs[kW].constant.count()) * 4 / kPackingRate : 0;
  return lost_s(problem) * runs + packing_s < making_s(problem);
}

std::shared_ptr<BoundKernel> StandInConv::bind(const BindContext& context, const SqueezedConv& conv,
                                               bool packed) const {
  if (!kind_) return nullptr;
  const bool stays = is_long_signal(conv.problem) && cpu_info().isa >= Isa::kAvx512;
  if (!stays && (!may_change_ || context.background)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!stays && !pays(conv.problem, packed && own_.expired())) return nullptr;
  auto bound = own()->bind(spec_, context, conv);
  bound->provisional = !stays;
  return bound;
}

std::shared_ptr<BoundKernel> StandInConv::bind_depthwise(const BindContext& context,
                                                         const SqueezedConv& conv) const {
  const ConvProblem& problem = conv.problem;
  if (!kind_ || problem.groups != problem.in_channels || problem.groups != problem.out_channels)
    return nullptr;
  const std::lock_guard lock(mutex_);
  return own()->bind(spec_, context, conv);
}

std::shared_ptr<const OwnConv> StandInConv::own() const {
  auto own = own_.lock();
  if (!own) own_ = own = kind_->make(spec_);
  if (!one_size_) kept_ = own;
  return own;
}

}  // namespace xc::cpu

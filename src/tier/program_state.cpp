#include "tier/program_state.h"

#include <algorithm>
#include <cmath>

#include "backends/host_speed.h"

namespace xc {

std::string_view name(RegionState state) {
  switch (state) {
    case RegionState::kCandidate:
      return "candidate";
    case RegionState::kQueued:
      return "queued";
    case RegionState::kVerifying:
      return "verifying";
    case RegionState::kReady:
      return "ready";
    case RegionState::kTrial:
      return "trial";
    case RegionState::kLive:
      return "live";
    case RegionState::kBanned:
      return "banned";
  }
  return "unknown";
}

namespace tier {

double ZeroSkipping::seconds(const Dim::Lookup& sizes) const {
  // Looking at an element; for one that counts, per column of its row of the other operand, and
  // beside that; in operations of a fused loop.
  constexpr double kLook = 8, kTerm = 2, kCounts = 400;
  const auto value = [&](const Dim& dim) {
    return static_cast<double>(dim.evaluate(sizes).value_or(0));
  };
  const double looked = value(elements), rows = looked / std::max(1.0, value(depth));
  const double rows_read = 1 - std::pow(1 - density, rows);
  return policy::predict_s(host_speed(), value(moved_bytes) + rows_read * value(right_bytes), 0,
                           looked * (kLook + density * (kTerm * value(columns) + kCounts)));
}

double ZeroSkipping::terms(const Dim::Lookup& sizes) const {
  return static_cast<double>((elements * columns).evaluate(sizes).value_or(INT64_MAX));
}

const std::vector<uint32_t>& Group::steps_of(const Version& version) {
  constexpr size_t kMaxPlans = 16;
  const Plan& plan = *version.bound->plan;
  auto it = steps_in.find(plan.serial);
  if (it == steps_in.end()) {
    if (steps_in.size() >= kMaxPlans) steps_in.clear();
    it = steps_in.try_emplace(plan.serial).first;
    for (uint32_t k = 0; k < plan.steps.size(); ++k)
      if (std::any_of(plan.steps[k]->nodes.begin(), plan.steps[k]->nodes.end(),
                      [&](NodeId n) { return nodes.count(n) > 0; }))
        it->second.push_back(k);
  }
  return it->second;
}

double Group::seconds_in(const Version& version) {
  double ns = 0;
  for (uint32_t k : steps_of(version)) ns += version.times->step_ns(k);
  return ns * 1e-9;
}

double Group::product_rate_in(const Version& version) {
  const Bound& bound = *version.bound;
  double best = 0;
  for (const uint32_t k : steps_of(version)) {
    const Step& step = *bound.plan->steps[k];
    const double ns = version.times->step_ns(k);
    if (step.region != Hash128{} || step.spec.op->name != "MatMul" || !(ns > 0)) continue;
    const std::span<const int64_t> x = bound.dims(step.inputs[0]), y = bound.dims(step.outputs[0]);
    if (x.empty() || !y.data()) continue;
    best = std::max(best, 2.0 * static_cast<double>(element_count(y) * x.back()) / (ns * 1e-9));
  }
  return best;
}

double Urgency::per_s(int64_t now_ns, double half_life_s) const {
  const double age_s = static_cast<double>(now_ns - at_ns.load(std::memory_order_relaxed)) * 1e-9;
  return loss_per_s.load(std::memory_order_relaxed) * std::exp2(-age_s / half_life_s);
}

}  // namespace tier
}  // namespace xc

#include "plan/in_place_steps.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"

namespace xc {
namespace {

constexpr size_t kMaskBits = std::numeric_limits<decltype(BoundKernel::in_place)>::digits;

/// Whether element by element both lie at the same distance from their buffers' starts.
bool lie_alike(const Bound& bound, uint32_t a, uint32_t b) {
  const auto dims = bound.dims(a);
  if (!std::equal(dims.begin(), dims.end(), bound.dims(b).begin(), bound.dims(b).end()) ||
      bound.offset(a) != bound.offset(b) ||
      bound.plan->values[a].dtype != bound.plan->values[b].dtype)
    return false;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] != 1 && bound.strides(a)[axis] != bound.strides(b)[axis]) return false;
  return true;
}

}  // namespace

InPlaceSteps::InPlaceSteps(const Bound& bound, std::span<const ArenaRequest> arena)
    : bound_(bound) {
  members_.reserve(arena.size());
  for (const ArenaRequest& request : arena) members_.push_back({request, 0});
  uint32_t end = 0;
  first_buffer_ = kNone;
  for (const ArenaRequest& request : arena) {
    first_buffer_ = std::min(first_buffer_, request.buffer);
    end = std::max(end, request.buffer + 1);
  }
  if (!arena.empty()) member_of_.assign(end - first_buffer_, kNone);
  for (uint32_t k = 0; k < members_.size(); ++k) {
    members_[k].leader = k;
    member_of_[members_[k].request.buffer - first_buffer_] = k;
  }
}

std::optional<int64_t> InPlaceSteps::movable_bytes(uint32_t k) const {
  const Plan& plan = *bound_.plan;
  const Step& step = *plan.steps[k];
  if (step.outputs.empty() || step.outputs[0] == kNoValue) return std::nullopt;
  const uint32_t to = plan.values[step.outputs[0]].buffer;
  const PlanBuffer& result = plan.buffers[to];
  // Parts of a Concat share a buffer that others write too.
  if (result.segment != bound_.segment || result.first_step != k) return std::nullopt;
  const int64_t bytes =
      checked_mul(element_count(bound_.dims(step.outputs[0])), element_size(result.dtype));
  const uint32_t own = member(to);
  const bool alone =
      own == kNone ? result.storage == Storage::kOutput : members_[own].request.bytes == bytes;
  return alone ? std::optional(bytes) : std::nullopt;
}

bool InPlaceSteps::dies_alike(uint32_t k, size_t input, uint32_t in_place, int64_t bytes) const {
  const Plan& plan = *bound_.plan;
  const Step& step = *plan.steps[k];
  if ((in_place >> input & 1) == 0 || step.inputs[input] == kNoValue) return false;
  const uint32_t buffer = plan.values[step.inputs[input]].buffer;
  const uint32_t position = member(buffer);
  if (position == kNone || members_[position].request.last_step != k ||
      members_[position].request.bytes != bytes)
    return false;
  return reads_alike(k, buffer, in_place);
}

bool InPlaceSteps::reads_alike(uint32_t k, uint32_t buffer, uint32_t in_place) const {
  const Plan& plan = *bound_.plan;
  const Step& step = *plan.steps[k];
  for (size_t other = 0; other < step.inputs.size(); ++other) {
    const uint32_t v = step.inputs[other];
    if (v == kNoValue || plan.values[v].buffer != buffer) continue;
    if (other >= kMaskBits || (in_place >> other & 1) == 0 ||
        !lie_alike(bound_, v, step.outputs[0]))
      return false;
  }
  return true;
}

uint32_t InPlaceSteps::replaceable(uint32_t k) const {
  const Step& step = *bound_.plan->steps[k];
  const std::optional<int64_t> bytes = movable_bytes(k);
  uint32_t out = 0;
  for (size_t input = 0; bytes && input < std::min(step.inputs.size(), kMaskBits); ++input)
    if (dies_alike(k, input, 1u << input, *bytes)) out |= 1u << input;
  return out;
}

void InPlaceSteps::add(uint32_t k, const BoundKernel& kernel) {
  if (kernel.in_place == 0) return;
  const Plan& plan = *bound_.plan;
  const Step& step = *plan.steps[k];
  const std::optional<int64_t> bytes = movable_bytes(k);
  if (!bytes) return;
  const uint32_t to = plan.values[step.outputs[0]].buffer, own = member(to);
  for (size_t input = 0; input < std::min(step.inputs.size(), kMaskBits); ++input) {
    if (!dies_alike(k, input, kernel.in_place, *bytes)) continue;
    const uint32_t from = member(plan.values[step.inputs[input]].buffer);
    const uint32_t first = members_[from].leader;
    if (own == kNone) {
      members_[first].output = to;
    } else {
      members_[own].leader = first;
      members_[first].request.last_step = members_[own].request.last_step;
    }
    return;
  }
  // Nothing has been written there before this step.
  add_input(k, kernel.in_place, to);
}

void InPlaceSteps::add_input(uint32_t k, uint32_t in_place, uint32_t to) {
  const Plan& plan = *bound_.plan;
  // Later segments may read what this one has written over.
  if (plan.segments.size() > 1) return;
  const Step& step = *plan.steps[k];
  for (size_t input = 0; input < std::min(step.inputs.size(), kMaskBits); ++input) {
    if ((in_place >> input & 1) == 0 || step.inputs[input] == kNoValue) continue;
    const uint32_t from = plan.values[step.inputs[input]].buffer;
    const PlanBuffer& buffer = plan.buffers[from];
    if (buffer.storage == Storage::kInput && buffer.last_step == k &&
        reads_alike(k, from, in_place))
      from_inputs_.push_back({to, buffer.index});
  }
}

std::vector<SharedPort> InPlaceSteps::shared_ports() const {
  std::vector<SharedPort> out;
  for (const FromInput& from : from_inputs_) {
    const bool direct = bound_.plan->buffers[from.to].storage == Storage::kOutput;
    const uint32_t buffer = direct ? from.to : output_of(from.to);
    if (buffer != kNone) out.push_back({bound_.plan->buffers[buffer].index, from.input});
  }
  return out;
}

std::vector<ArenaRequest> InPlaceSteps::requests() const {
  std::vector<ArenaRequest> out;
  for (uint32_t k = 0; k < members_.size(); ++k)
    if (members_[k].leader == k && members_[k].output == kNone) out.push_back(members_[k].request);
  return out;
}

void InPlaceSteps::place(std::vector<ArenaSlot>& arena) const {
  const size_t placed = arena.size();
  std::vector<uint32_t> slot_of(members_.size(), kNone);
  for (uint32_t s = 0; s < placed; ++s) slot_of[member(arena[s].buffer)] = s;
  for (uint32_t k = 0; k < members_.size(); ++k) {
    const uint32_t slot = slot_of[members_[k].leader];
    if (members_[k].leader == k || slot == kNone) continue;
    arena.push_back({members_[k].request.buffer, arena[slot].offset, members_[k].request.bytes});
  }
}

uint32_t InPlaceSteps::output_of(uint32_t buffer) const {
  const uint32_t position = member(buffer);
  return position == kNone ? kNone : leader(position).output;
}

}  // namespace xc

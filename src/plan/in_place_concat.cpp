#include "plan/in_place_concat.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ops/is_op.h"
#include "ops/support.h"

namespace xc {
namespace {

constexpr int64_t kLeastRun = 64;  // elements between gaps: shorter rows are staged in groups

/// Do the strides differ for no element?
bool same_places(const SymDims& dims, const SymDims& a, const SymDims& b) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (!(dims[i] == Dim(1)) && !(a[i] == b[i])) return false;
  return true;
}

bool is_dense(const SymDims& dims, const SymDims& strides) {
  return strides == contiguous_strides(dims) ||
         (dims.size() >= 3 && dims.size() <= 5 && strides == channels_last_strides(dims));
}

/// The strides of a part of these dims in a whole with those: the dense ones where they say the
/// same.
SymDims strides_inside(const SymDims& dims, const SymDims& whole_strides) {
  const SymDims dense = contiguous_strides(dims);
  if (same_places(dims, dense, whole_strides)) return dense;
  if (dims.size() >= 3 && dims.size() <= 5) {
    const SymDims last = channels_last_strides(dims);
    if (same_places(dims, last, whole_strides)) return last;
  }
  return whole_strides;
}

/// A base plan, its steps as they would be with what was decided so far.
class TrialStrides {
 public:
  TrialStrides(const Plan& plan, const Backend& backend) : plan_(plan), backend_(backend) {
    users_ = plan.graph->users();
    value_of_.assign(plan.graph->value_count(), kNoValue);
    maker_.assign(plan.values.size(), kNoStep);
    uses_.resize(plan.values.size());
    values_in_.assign(plan.buffers.size(), 0);
    for (uint32_t v = 0; v < plan.values.size(); ++v) {
      if (plan.values[v].id != kNone) value_of_[plan.values[v].id] = v;
      ++values_in_[plan.values[v].buffer];
    }
    for (uint32_t s = 0; s < plan.steps.size(); ++s) {
      specs_.push_back(plan.steps[s]->spec);
      uint32_t operand = 0;
      for (const auto* values : {&plan.steps[s]->inputs, &plan.steps[s]->outputs})
        for (uint32_t v : *values) {
          if (v != kNoValue) uses_[v].push_back({s, operand});
          ++operand;
        }
      for (uint32_t v : plan.steps[s]->outputs)
        if (v != kNoValue) maker_[v] = s;
    }
  }

  struct Parts {
    std::vector<std::pair<ValueId, InPlaceConcats::Place>> places;
    bool whole = true;  ///< no other part is left
  };

  /// The parts of a Concat that can lie in its result. They do in the trial from then on.
  Parts put_in_place(NodeId id) {
    const Node& node = plan_.graph->node(id);
    const uint32_t result = value_of_[node.outputs[0]];
    if (result == kNoValue || maker_[result] == kNoStep) return {};
    const uint32_t concat = maker_[result];
    const Step& step = *plan_.steps[concat];
    if (step.kind != Step::Kind::kKernel || step.nodes != std::vector<NodeId>{id}) return {};
    const Operand whole = specs_[concat].outputs[0];
    const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), whole.dims.size());
    Parts out;
    undo_.clear();
    Dim before = 0;
    for (ValueId v : node.inputs) {
      if (v == kNone || !plan_.graph->value(v).type.dims) return undone(0);
      const SymDims& dims = *plan_.graph->value(v).type.dims;
      if (!fits(dims, whole, axis)) return undone(0);
      const size_t done = undo_.size();
      SymDims strides = strides_inside(dims, whole.strides);
      if (is_private_part(v, concat) && try_move(value_of_[v], strides, axis, concat)) {
        out.places.emplace_back(
            v, InPlaceConcats::Place{node.outputs[0], axis, before, std::move(strides)});
      } else {
        undone(done);
        out.whole = false;
      }
      before = before + dims[axis];
    }
    if (!(before == whole.dims[axis]) || (!out.whole && !worth_some(node)) || !kept_row(concat))
      return undone(0);
    for (const auto& [v, place] : out.places) placed_.insert(v);
    return out;
  }

 private:
  static constexpr uint32_t kNoStep = UINT32_MAX;

  /// Takes back all moves but the first `keep`.
  Parts undone(size_t keep) {
    for (; undo_.size() > keep; undo_.pop_back()) undo_.back().first->strides = undo_.back().second;
    return {};
  }

  /// Does a step make the value in memory of its own for nobody but steps that run kernels, the
  /// Concat once among them?
  bool is_private_part(ValueId v, uint32_t concat) const {
    const uint32_t value = value_of_[v];
    if (value == kNoValue || maker_[value] == kNoStep || placed_.count(v) ||
        plan_.graph->is_output(v))
      return false;
    const PlanBuffer& buffer = plan_.buffers[plan_.values[value].buffer];
    if (buffer.storage != Storage::kArena || values_in_[plan_.values[value].buffer] != 1 ||
        plan_.steps[maker_[value]]->kind != Step::Kind::kKernel)
      return false;
    const NodeId id = plan_.steps[concat]->nodes.front();
    return std::count(users_[v].begin(), users_[v].end(), id) == 1;
  }

  /// A Concat with some of its parts in place stays a step, and no region takes it. That is worth
  /// it where none would (nothing elementwise reads the result), and along a chain of Concats, each
  /// of the one before and something new, which then copies the new parts alone.
  bool worth_some(const Node& node) const {
    const auto is_concat = [&](ValueId v) {
      const NodeId maker = plan_.graph->value(v).producer;
      return maker != kNone && plan_.graph->node(maker).op == node.op;
    };
    const auto& users = users_[node.outputs[0]];
    return placed_.count(node.outputs[0]) ||
           std::any_of(node.inputs.begin(), node.inputs.end(), is_concat) ||
           std::none_of(users.begin(), users.end(),
                        [&](NodeId user) { return plan_.graph->node(user).op->scalar != nullptr; });
  }

  /// Dims that only a run shows to be equal are for the step to check.
  static bool fits(const SymDims& dims, const Operand& whole, size_t axis) {
    for (size_t a = 0; a < dims.size(); ++a)
      if (a != axis && !(dims[a] == whole.dims[a])) return false;
    return dims.size() == whole.dims.size();
  }

  /// A place of a value among the operands of a step, inputs then outputs.
  struct Use {
    uint32_t step, operand;
  };
  Operand& operand_at(const Use& use) {
    StepSpec& spec = specs_[use.step];
    const size_t inputs = plan_.steps[use.step]->inputs.size();
    return use.operand < inputs ? spec.inputs[use.operand] : spec.outputs[use.operand - inputs];
  }

  /// Gives a value other strides in the trial; false when a step would not have it so. The Concat,
  /// which may have thousands of parts, is asked about all of them at once, later.
  bool try_move(uint32_t value, const SymDims& strides, size_t axis, uint32_t concat) {
    const SymDims& dims = plan_.values[value].dims;
    const bool dense = is_dense(dims, strides);
    const Dim run = strides[axis] * dims[axis];
    if (!dense && std::max(run.lower_bound().value_or(0), run.divisor()) < kLeastRun) return false;
    for (const Use& use : uses_[value]) {
      if (plan_.steps[use.step]->kind != Step::Kind::kKernel) return false;
      Operand& operand = operand_at(use);
      undo_.emplace_back(&operand, operand.strides);
      operand.strides = strides;
    }
    return std::ranges::all_of(uses_[value], [&](const Use& use) {
      if (use.step == concat) return true;
      const Implementation* row = kept_row(use.step);
      return row && (dense || takes_gaps(*row, use, use.step == maker_[value]));
    });
  }

  /// The kernel of a step, where the operands of the trial leave it the same; else null.
  const Implementation* kept_row(uint32_t s) const {
    const Implementation* row = first_to_support(backend_, specs_[s]);
    return row && row->name == plan_.steps[s]->kernel_name ? row : nullptr;
  }

  /// Kernels that prefer an order of their own convert from and to others, and the library has no
  /// bf16 products into rows with gaps; all else goes row by row.
  bool takes_gaps(const Implementation& row, const Use& use, bool made) const {
    if (made && row.multiplies) return false;
    if (!row.preferred || row.takes_gaps) return true;
    const std::vector<Order> orders = row.preferred(specs_[use.step]);
    return use.operand >= orders.size() || orders[use.operand] == Order::kAny;
  }

  const Plan& plan_;
  const Backend& backend_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<uint32_t> value_of_;      // ValueId -> PlanValue
  std::vector<uint32_t> maker_;         // PlanValue -> step
  std::vector<std::vector<Use>> uses_;  // PlanValue -> where steps read or make it
  std::vector<uint32_t> values_in_;     // buffer -> how many values lie in it
  std::vector<StepSpec> specs_;         // per step
  std::vector<std::pair<Operand*, SymDims>> undo_;
  std::unordered_set<ValueId> placed_;
};

}  // namespace

bool InPlaceConcats::decide(const Plan& base, const Backend& backend) {
  // What a later segment writes has sizes that are not known when memory is planned.
  if (base.segments.size() != 1) return false;
  std::optional<TrialStrides> trial;
  const std::vector<NodeId>& order = base.graph->order();
  // From the last to the first: parts of a part go where that goes.
  for (size_t k = order.size(); k-- > 0;) {
    const Node& node = base.graph->node(order[k]);
    if (!is_op(node, "Concat")) continue;
    if (!trial) trial.emplace(base, backend);
    const TrialStrides::Parts parts = trial->put_in_place(order[k]);
    if (parts.places.empty()) continue;
    nodes_.push_back(order[k]);
    if (extents_.size() <= order[k]) extents_.resize(order[k] + 1, Extent::kNone);
    extents_[order[k]] = parts.whole ? Extent::kAll : Extent::kSome;
    places_.insert(parts.places.begin(), parts.places.end());
  }
  return !nodes_.empty();
}

const InPlaceConcats::Place* InPlaceConcats::place(ValueId part) const {
  const auto it = places_.find(part);
  return it == places_.end() ? nullptr : &it->second;
}

}  // namespace xc

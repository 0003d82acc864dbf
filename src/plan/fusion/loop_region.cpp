#include "plan/fusion/loop_region.h"

#include <algorithm>

namespace xc::fusion {
namespace {

constexpr double kRecomputeWeight = 6;  // additions: above, a value is kept in scratch
constexpr double kFarWeight = 8;        // of a load whose lanes lie apart

}  // namespace

LoopRegion::LoopRegion(const Region& region, const StepSpec& spec, RegionGraph graph)
    : region_(region),
      spec_(spec),
      g_(std::move(graph)),
      mapped_(region_, spec_, g_.graph, input_of_) {
  for (uint32_t k = 0; k < g_.operands.size(); ++k) input_of_[g_.operands[k]] = k;
}

Verdict LoopRegion::analyse() {
  if (!expand_composites(g_.graph)) return Verdict::no("an operator does not expand");
  merge_equal_nodes(g_.graph);
  if (const Verdict v = mapped_.analyse(); !v.yes()) return v;
  if (const Verdict v = find_stages(); !v.yes()) return v;
  find_reduced();
  if (const Verdict v = build_iteration(region_, spec_, reduced_, mapped_.reads(), iteration_);
      !v.yes())
    return v;
  weigh();
  choose_kept();
  return Verdict::ok();
}

const StagedValue* LoopRegion::find(ValueId v) const {
  const auto it = staged_.find(v);
  return it == staged_.end() ? nullptr : &it->second;
}

int LoopRegion::stages() const {
  int stages = 1;
  for (const auto& [v, staged] : staged_) stages = std::max(stages, staged.stage + 1);
  return stages;
}

bool LoopRegion::keeps_values() const {
  return std::any_of(staged_.begin(), staged_.end(), [](const auto& s) { return s.second.kept; });
}

double LoopRegion::weight() const {
  double weight = 1;
  for (const auto& [v, staged] : staged_) weight += producer(v).op->weight;
  return weight;
}

double LoopRegion::heaviest_pass() const {
  std::vector<double> passes;
  for (const auto& [v, staged] : staged_) {
    const Node& node = producer(v);
    if (!staged.full && !node.op->reduction) continue;
    passes.resize(std::max(passes.size(), static_cast<size_t>(staged.stage) + 1));
    passes[static_cast<size_t>(staged.stage)] += node.op->weight;
  }
  return passes.empty() ? 0 : *std::max_element(passes.begin(), passes.end());
}

std::optional<uint32_t> LoopRegion::input_of(ValueId v) const {
  const auto it = input_of_.find(v);
  if (it == input_of_.end()) return std::nullopt;
  return it->second;
}

std::vector<uint32_t> LoopRegion::outputs_of(ValueId v) const {
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < graph().outputs.size(); ++k)
    if (graph().outputs[k] == v) out.push_back(static_cast<uint32_t>(spec_.inputs.size()) + k);
  return out;
}

DType LoopRegion::acc_type(NodeId reduction) const {
  const Node& node = graph().node(reduction);
  return sum_type(node, graph().value(node.inputs[0]).type.dtype);
}

loop::Expr LoopRegion::result_of(NodeId reduction, loop::Expr accumulated,
                                 const loop::Expr& elements) const {
  const Node& node = graph().node(reduction);
  const DType type = graph().value(node.outputs[0]).type.dtype;
  if (node.op->reduction->post)
    accumulated = node.op->reduction->post(accumulated, loop::cast(accumulated.type(), elements));
  return as_stored(loop::cast(loop::value_type(type), accumulated), type);
}

Verdict LoopRegion::find_stages() {
  for (NodeId id : graph().order()) {
    const Node& node = graph().node(id);
    const ValueId out = node.outputs[0];
    // An index map's result is read where it is used; put out, it is a value like others.
    if (mapped_.has(out) && !graph().is_output(out)) continue;
    StagedValue staged;
    if (const Verdict v = stage_of(node, staged); !v.yes()) return v;
    staged_[out] = staged;
  }
  return Verdict::ok();
}

Verdict LoopRegion::stage_of(const Node& node, StagedValue& out) const {
  const ValueId result = node.outputs[0];
  const SymDims& dims = *graph().value(result).type.dims;
  const bool smaller = !(dims == region_.space);
  if (mapped_.has(result)) {
    if (smaller) return Verdict::no("an output is smaller than the iteration space");
    out.full = true;
    return Verdict::ok();
  }
  if (node.op->reduction) {
    const StagedValue* from = find(node.inputs[0]);
    if (from && !from->full) return Verdict::no("a reduction of what is reduced already");
    out.stage = from ? from->stage : 0;
    return Verdict::ok();
  }
  if (!node.op->scalar)
    return Verdict::no("operator " + std::string(node.op->name) + " has no scalar form");
  out.full = region_.row_axes.none() || !smaller || !per_row(dims);
  // A vector along the row, as the widened scale of a norm of a half type.
  if (smaller && out.full && graph().is_output(result))
    return Verdict::no("an output is smaller than the iteration space");
  for (ValueId v : node.inputs) {
    const StagedValue* from = v == kNone ? nullptr : find(v);
    if (!from) continue;
    if (from->full && !out.full) return Verdict::no("a row scalar reads a whole row");
    const bool behind = out.full && !from->full;
    out.stage = std::max(out.stage, from->stage + (behind ? 1 : 0));
  }
  return Verdict::ok();
}

void LoopRegion::find_reduced() {
  for (ValueId v : graph().outputs) {
    const NodeId p = graph().value(v).producer;
    const bool reduction = p != kNone && graph().node(p).op->reduction.has_value();
    reduced_.push_back(reduction && graph().node(p).attrs.get_int("keepdims", 1) == 0);
  }
}

void LoopRegion::weigh() {
  for (NodeId id : graph().order()) {
    const Node& node = graph().node(id);
    const auto it = staged_.find(node.outputs[0]);
    if (it == staged_.end() || !it->second.full || mapped_.has(node.outputs[0])) continue;
    double& weight = it->second.weight;
    weight = node.op->weight;
    for (ValueId v : node.inputs) {
      const StagedValue* from = v == kNone ? nullptr : find(v);
      if (from && from->full) weight += from->weight;
      if (!from && v != kNone && lies_across(v)) weight += kFarWeight;
    }
  }
}

/// A full value that a later pass than its own uses, where computing it again costs too much.
void LoopRegion::choose_kept() {
  for (NodeId id : graph().order()) {
    const Node& node = graph().node(id);
    const StagedValue* result = find(node.outputs[0]);
    if (!result || mapped_.has(node.outputs[0]) || !(result->full || node.op->reduction)) continue;
    for (ValueId v : node.inputs) {
      if (v == kNone) continue;
      const auto it = staged_.find(v);
      if (it != staged_.end() && it->second.full && result->stage > it->second.stage &&
          it->second.weight > kRecomputeWeight)
        it->second.kept = true;
    }
  }
}

/// Is it an input whose elements lie apart for the lanes of a vector?
bool LoopRegion::lies_across(ValueId v) const {
  const auto input = input_of(v);
  if (!input || iteration_.row.empty()) return false;
  const LoopAxis& lanes = iteration_.rows_abreast ? iteration_.outer.back() : iteration_.row.back();
  const AxisStride& stride = lanes.strides[*input];
  if (stride.value == Dim(0)) return false;
  return !(spec_.inputs[*input].strides[stride.ref.axis] == Dim(1));
}

/// Is a value of these dims, broadcast to the space, the same along the row axes?
bool LoopRegion::per_row(const SymDims& dims) const {
  if (dims.size() > region_.space.size()) return false;
  const size_t lead = region_.space.size() - dims.size();
  for (size_t k = 0; k < dims.size(); ++k)
    if (region_.row_axes.has(lead + k) && !(dims[k] == Dim(1))) return false;
  return true;
}

}  // namespace xc::fusion

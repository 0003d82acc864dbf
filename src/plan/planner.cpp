#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>

#include "ops/custom.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "plan/finish.h"

namespace xc {
namespace {

constexpr size_t kMaxPostOps = 8;

Operand operand_of(const Plan& plan, uint32_t value) {
  if (value == kNoValue) return {};
  const PlanValue& v = plan.values[value];
  Operand out;
  out.dtype = v.dtype;
  out.dims = v.dims;
  out.strides = v.strides;
  const PlanBuffer& buffer = plan.buffers[v.buffer];
  // A constant operand carries its data, as the view the step will see.
  if (buffer.storage == Storage::kConstant && v.rank_known) {
    const auto dims = to_concrete(v.dims);
    const auto strides = to_concrete(v.strides);
    if (dims && strides && v.offset.is_constant())
      out.constant = Tensor(
          buffer.constant.buffer(),
          buffer.constant.byte_offset() + checked_mul(v.offset.value(), element_size(v.dtype)),
          v.dtype, *dims, *strides);
  }
  return out;
}

}  // namespace

// Builds one plan. A unit is what becomes one step: a node, an anchor with post-ops, or a region.
class PlanBuilder {
 public:
  PlanBuilder(Planner& planner, std::span<const PlannedRegion> regions)
      : planner_(planner), graph_(*planner.graph_), regions_(regions) {
    plan_ = std::make_shared<Plan>();
    plan_->graph = planner.graph_;
    plan_->in_place = planner.concats_.nodes();
    plan_->serial = planner.next_serial_++;
    value_of_.assign(graph_.value_count(), kNoValue);
    users_ = graph_.users();
  }

  std::shared_ptr<const Plan> build() {
    declare_size_checks();
    declare_sources();
    assign_regions();
    plan_->segments.push_back({0, 0, 0});
    for (NodeId id : unit_order()) {
      visit(id);
      if (misfit_) return nullptr;
    }
    bind_outputs();
    finish_plan(*plan_, known_symbols_);
    return plan_;
  }

  /// The region whose operands lie otherwise than region_spec() has it, or that would be what is
  /// no step, after a build() that returned null.
  std::optional<uint32_t> misfit() const { return misfit_; }

  /// Gives every value its place and strides, without choosing kernels.
  void survey() {
    declare_sources();
    plan_->segments.push_back({0, 0, 0});
    for (NodeId id : graph_.order()) visit_views_only(id);
  }
  /// After survey(): the operands a region's step would have.
  StepSpec spec_of(const Region& region) {
    StepSpec spec;
    spec.numerics = planner_.options_.numerics;
    spec.threads = planner_.options_.threads;
    spec.node = &graph_.node(region.nodes.front());
    spec.op = spec.node->op;
    for (ValueId v : region.inputs) spec.inputs.push_back(operand_of(*plan_, value_for(v)));
    for (ValueId v : region.outputs) spec.outputs.push_back(fresh_operand(v));
    return spec;
  }

 private:
  // ---- sources ----------------------------------------------------------------------------------

  void declare_sources() {
    // Symbols: lone symbols of input dims first, in order; other input dims become checks.
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const Type& type = graph_.value(graph_.inputs[i]).type;
      if (!type.dims) continue;
      for (uint32_t axis = 0; axis < type.dims->size(); ++axis) {
        const Dim& dim = (*type.dims)[axis];
        const auto symbol = dim.as_symbol();
        if (symbol && !known_symbols_.count(*symbol))
          add_symbol({*symbol, PlanSymbol::Source::kInputDim, i, axis});
      }
    }
    std::unordered_set<std::string> used;  // symbols that appear in any size or check
    std::vector<std::string> names;
    for (uint32_t v = 0; v < graph_.value_count(); ++v)
      if (graph_.value(v).type.dims)
        for (const Dim& d : *graph_.value(v).type.dims) d.collect_symbols(names);
    for (const Plan::SizeCheck& check : plan_->size_checks) check.given.collect_symbols(names);
    used.insert(names.begin(), names.end());
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const Value& value = graph_.value(graph_.inputs[i]);
      if (!value.elements) continue;
      for (uint32_t k = 0; k < value.elements->size(); ++k) {
        const auto symbol = (*value.elements)[k].as_symbol();
        if (symbol && used.count(*symbol) && !known_symbols_.count(*symbol))
          add_symbol({*symbol, PlanSymbol::Source::kInputElement, i, k});
      }
    }
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      const Value& value = graph_.value(graph_.inputs[i]);
      const uint32_t v = add_source(graph_.inputs[i], Storage::kInput, i, {});
      plan_->inputs.push_back(v);
      if (!value.type.dims) continue;
      for (uint32_t axis = 0; axis < value.type.dims->size(); ++axis) {
        const Dim& dim = (*value.type.dims)[axis];
        const auto symbol = dim.as_symbol();
        const PlanSymbol* s = symbol ? &plan_->symbols[known_symbols_.at(*symbol)] : nullptr;
        if (!s || s->operand != i || s->index != axis)
          plan_->input_checks.push_back({i, axis, dim});
      }
    }
  }

  void declare_size_checks() {
    constexpr std::string_view kBroadcast = "dims {} and {} do not broadcast";
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!node.op->domain.empty()) continue;
      // Operators that change dims alone: the number of elements stays.
      if (node.op->name == "Reshape" || node.op->name == "Squeeze") {
        const auto& given = graph_.value(node.inputs[0]).type.dims;
        const auto& wanted = graph_.value(node.outputs[0]).type.dims;
        if (given && wanted && !(element_count(*given) == element_count(*wanted)))
          add_size_check(node, "{} elements cannot become {}", element_count(*given),
                         element_count(*wanted));
        // -1 is the least an element may be; of no elements any other would do.
        if (const auto shape =
                node.op->name == "Reshape" ? known_elements(graph_, node, 1) : std::nullopt)
          for (const Dim& e : *shape)
            if (!e.is_constant() && e.lower_bound().value_or(-2) < -1)
              add_size_check(node, "an element of the shape must be at least {}, not {}",
                             max(e, Dim(-1)), e);
      }
      // The parts of a Split are its axis: no more, or a view would read behind it.
      if (node.op->name == "Split") {
        const auto& dims = graph_.value(node.inputs[0]).type.dims;
        const auto sizes = known_elements(graph_, node, 1);
        if (dims && sizes) {
          Dim total = 0;
          for (const Dim& size : *sizes) total = total + size;
          const Dim& axis = (*dims)[normalise_axis(node.attrs.get_int("axis", 0), dims->size())];
          if (!(total == axis))
            add_size_check(node, "parts of {} together, the axis has {}", total, axis);
        }
      }
      // A number wins over a size that is none, be it the dim or the element of the shape.
      if (node.op->name == "Expand") {
        const auto& dims = graph_.value(node.inputs[0]).type.dims;
        const auto shape = known_elements(graph_, node, 1);
        if (!dims || !shape) continue;
        for (size_t k = 1; k <= std::min(dims->size(), shape->size()); ++k) {
          const Dim& own = (*dims)[dims->size() - k];
          const Dim& asked = (*shape)[shape->size() - k];
          if (own.is_constant() && !asked.is_constant() && own != Dim(1))
            add_size_check(node, kBroadcast, asked, own, true);
          if (asked.is_constant() && !own.is_constant() && asked != Dim(1))
            add_size_check(node, kBroadcast, own, asked, true);
        }
      }
    }
  }

  void add_size_check(const Node& node, std::string_view problem, const Dim& given,
                      const Dim& wanted, bool broadcast = false) {
    plan_->size_checks.push_back({fmt::format("node '{}' ({})", node.name, node.op->name), problem,
                                  given, wanted, broadcast});
  }

  void add_symbol(PlanSymbol symbol) {
    known_symbols_.emplace(symbol.name, static_cast<uint32_t>(plan_->symbols.size()));
    plan_->symbols.push_back(std::move(symbol));
  }

  uint32_t add_source(ValueId id, Storage storage, uint32_t index, Tensor constant) {
    const Value& value = graph_.value(id);
    PlanBuffer buffer;
    buffer.storage = storage;
    buffer.index = index;
    buffer.dtype = constant ? constant.dtype() : value.type.memory_dtype();
    buffer.constant = constant ? constant.to_contiguous() : Tensor();
    SymDims dims;
    const bool known = constant || value.type.dims.has_value();
    if (constant)
      dims = to_symbolic(constant.dims());
    else if (known)
      dims = *value.type.dims;
    return add_value(id, std::move(buffer), std::move(dims), known);
  }

  /// The strides of a value that a step makes.
  SymDims strides_of(ValueId id) const {
    const SymDims& dims = *graph_.value(id).type.dims;
    const InPlaceConcats::Place* place = planner_.concats_.place(id);
    return place ? strides_inside(dims, strides_of(place->whole))
                 : planner_.layout_.strides(id, dims);
  }

  /// What a step makes: in memory of its own, or inside the result of a Concat.
  uint32_t add_result(ValueId id) {
    if (value_of_[id] != kNoValue) return value_of_[id];  // by a part of it that was made before
    const Value& value = graph_.value(id);
    const InPlaceConcats::Place* place = planner_.concats_.place(id);
    if (!place) {
      PlanBuffer buffer;
      buffer.dtype = value.type.memory_dtype();
      return add_value(id, std::move(buffer), value.type.dims ? *value.type.dims : SymDims{},
                       value.type.dims.has_value());
    }
    if (value_of_[place->whole] == kNoValue) add_result(place->whole);
    PlanValue part = plan_->values[value_of_[place->whole]];
    part.offset = part.offset + place->before * part.strides[place->axis];
    part.id = id;
    part.dims = *value.type.dims;
    part.strides = strides_of(id);
    value_of_[id] = static_cast<uint32_t>(plan_->values.size());
    plan_->values.push_back(std::move(part));
    return value_of_[id];
  }

  /// A new buffer holding one value, laid out as decided for `id` (row-major for a source).
  uint32_t add_value(ValueId id, PlanBuffer buffer, SymDims dims, bool rank_known = true) {
    buffer.segment =
        static_cast<uint32_t>(plan_->segments.empty() ? 0 : plan_->segments.size() - 1);
    PlanValue value;
    value.id = id;
    value.buffer = static_cast<uint32_t>(plan_->buffers.size());
    value.dtype = buffer.dtype;
    value.strides = buffer.storage == Storage::kArena && id != kNone
                        ? planner_.layout_.strides(id, dims)
                        : contiguous_strides(dims);
    value.rank_known = rank_known;
    buffer.elements = element_count(dims);
    value.dims = std::move(dims);
    plan_->buffers.push_back(std::move(buffer));
    plan_->values.push_back(std::move(value));
    const auto index = static_cast<uint32_t>(plan_->values.size() - 1);
    if (id != kNone) value_of_[id] = index;
    return index;
  }

  uint32_t value_for(ValueId id) {
    if (id == kNone) return kNoValue;
    if (value_of_[id] == kNoValue && graph_.value(id).is_constant())
      add_source(id, Storage::kConstant, 0, graph_.value(id).constant);
    if (value_of_[id] == kNoValue)
      fail(Status::kInternal, "value '{}' is used before it is made", graph_.value(id).name);
    return value_of_[id];
  }

  // ---- units ------------------------------------------------------------------------------------

  void assign_regions() {
    region_at_.assign(graph_.node_count(), UINT32_MAX);
    in_region_.assign(graph_.node_count(), UINT32_MAX);
    std::vector<uint32_t> position(graph_.node_count(), 0);
    for (uint32_t k = 0; k < graph_.order().size(); ++k) position[graph_.order()[k]] = k;
    for (uint32_t r = 0; r < regions_.size(); ++r) {
      NodeId last = regions_[r].region.nodes.front();
      for (NodeId n : regions_[r].region.nodes) {
        XC_CHECK(in_region_[n] == UINT32_MAX);
        in_region_[n] = r;
        if (position[n] > position[last]) last = n;
      }
      region_at_[last] = r;
    }
  }

  /// Execution order with the nodes of each region side by side, placed when all the region reads
  /// is there: a topological order of the graph with regions contracted. Ties keep the graph's
  /// order.
  std::vector<NodeId> unit_order() const {
    if (regions_.empty()) return graph_.order();
    const auto unit_of = [&](NodeId n) {
      return in_region_[n] == UINT32_MAX ? n : graph_.node_count() + in_region_[n];
    };
    std::vector<std::vector<NodeId>> members(graph_.node_count() + regions_.size());
    std::vector<uint32_t> waiting(members.size(), 0), rank(members.size(), UINT32_MAX);
    std::vector<std::vector<uint32_t>> followers(members.size());
    uint32_t position = 0;
    for (NodeId n : graph_.order()) {
      const uint32_t unit = unit_of(n);
      members[unit].push_back(n);
      rank[unit] = position++;  // a region ranks by its last node
      for (ValueId v : graph_.node(n).inputs) {
        if (v == kNone || graph_.value(v).producer == kNone) continue;
        const uint32_t from = unit_of(graph_.value(v).producer);
        if (from == unit) continue;
        followers[from].push_back(unit);
        ++waiting[unit];
      }
    }
    std::set<std::pair<uint32_t, uint32_t>> ready;
    for (uint32_t unit = 0; unit < members.size(); ++unit)
      if (!members[unit].empty() && waiting[unit] == 0) ready.emplace(rank[unit], unit);
    std::vector<NodeId> order;
    while (!ready.empty()) {
      const uint32_t unit = ready.begin()->second;
      ready.erase(ready.begin());
      order.insert(order.end(), members[unit].begin(), members[unit].end());
      for (uint32_t next : followers[unit])
        if (--waiting[next] == 0) ready.emplace(rank[next], next);
    }
    if (order.size() != graph_.order().size())
      fail(Status::kInternal, "the fused regions are not convex");
    return order;
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    located("node '" + node.name + "' (" + std::string(node.op->name) + ")", [&] {
      if (in_region_[id] != UINT32_MAX) {
        // A region runs where its last node stands, when everything it reads is there.
        if (region_at_[id] != UINT32_MAX) add_region(region_at_[id]);
        return;
      }
      if (absorbed_.count(id)) {
        if (const auto it = deferred_.find(id); it != deferred_.end()) add_kernel_unit(it->second);
        return;
      }
      if (planner_.concats_.whole(id)) return;  // its parts are where they belong
      if (node.op->control_flow) return add_opaque(id, Step::Kind::kControl);
      if (try_sizes(node) || try_view(node)) return;
      if (needs_values(node)) return add_opaque(id, Step::Kind::kDynamic);
      Unit unit = grow(id);
      if (unit.nodes.size() > 1) {
        // The step stands at its last node: every operand of its post-ops is made by then.
        for (NodeId n : unit.nodes) absorbed_.insert(n);
        const NodeId last = unit.nodes.back();
        deferred_.emplace(last, std::move(unit));
        return;
      }
      add_kernel_unit(unit);
    });
  }

  void visit_views_only(NodeId id) {
    const Node& node = graph_.node(id);
    bool inputs_made = true;
    for (ValueId v : node.inputs)
      if (v != kNone && value_of_[v] == kNoValue && !graph_.value(v).is_constant())
        inputs_made = false;
    bool done = true;
    for (ValueId v : node.outputs)
      if (v != kNone && value_of_[v] == kNoValue) done = false;
    if (done) return;
    if (inputs_made && !node.op->control_flow && (try_sizes(node) || try_view(node))) return;
    for (ValueId v : node.outputs) {
      if (v == kNone || value_of_[v] != kNoValue) continue;
      add_result(v);
    }
  }

  bool symbols_known(const SymDims& dims) const {
    std::vector<std::string> names;
    for (const Dim& d : dims) d.collect_symbols(names);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& n) { return known_symbols_.count(n) != 0; });
  }

  /// Shape arithmetic needs no step: the Bound holds the numbers.
  bool try_sizes(const Node& node) {
    for (ValueId v : node.outputs) {
      if (v == kNone) continue;
      const Value& value = graph_.value(v);
      if (!value.elements || !value.type.dims || !symbols_known(*value.elements)) return false;
      if (!to_concrete(*value.type.dims)) return false;
    }
    for (ValueId v : node.outputs) {
      if (v == kNone) continue;
      PlanBuffer buffer;
      buffer.storage = Storage::kSizes;
      buffer.dtype = graph_.value(v).type.memory_dtype();
      buffer.sizes = *graph_.value(v).elements;
      add_value(v, std::move(buffer), *graph_.value(v).type.dims);
    }
    return true;
  }

  bool try_view(const Node& node) {
    if (!node.op->view || !planner_.options_.views || node.inputs.empty()) return false;
    const PlanValue source = plan_->values[value_for(node.inputs[0])];
    if (!source.rank_known) return false;
    ViewContext context;
    context.graph = &graph_;
    context.node = &node;
    context.dims = source.dims;
    context.strides = source.strides;
    for (ValueId v : node.outputs) {
      if (v == kNone) {
        context.outputs.emplace_back();
        continue;
      }
      const Type& type = graph_.value(v).type;
      if (!type.dims || !symbols_known(*type.dims)) return false;
      context.outputs.push_back({*type.dims, {}, Dim(0)});
    }
    if (!node.op->view(context)) return false;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNone) continue;
      PlanValue value = source;
      value.id = node.outputs[k];
      value.dims = context.outputs[k].dims;
      value.strides = context.outputs[k].strides;
      value.offset = source.offset + context.outputs[k].offset;
      value_of_[value.id] = static_cast<uint32_t>(plan_->values.size());
      plan_->values.push_back(std::move(value));
    }
    return true;
  }

  bool is_container(ValueId v) const { return graph_.value(v).type.kind != Type::Kind::kTensor; }

  /// Output sizes that only values tell, operands whose rank is not known before the run, and
  /// strings and containers, which are objects that no arena holds.
  bool needs_values(const Node& node) const {
    if (!node.op->reference) return true;
    for (ValueId v : node.outputs)
      if (v != kNone && (graph_.value(v).type.dtype == DType::kString || is_container(v)))
        return true;
    for (ValueId v : node.outputs)
      if (v != kNone && (!graph_.value(v).type.dims || !symbols_known(*graph_.value(v).type.dims)))
        return true;
    for (ValueId v : node.inputs)
      if (v != kNone && value_of_[v] != kNoValue && !plan_->values[value_of_[v]].rank_known)
        return true;
    return false;
  }

  struct Unit {
    std::vector<NodeId> nodes;    // anchor, then post-ops
    std::vector<ValueId> inputs;  // operands of the step
    std::vector<PostOp> post_ops;
    std::vector<ValueId> outputs;
  };

  Operand fresh_operand(ValueId id) const {
    Operand out;
    if (id == kNone) return out;
    const Type& type = graph_.value(id).type;
    out.dtype = type.dtype;
    if (!type.dims) return out;
    out.dims = *type.dims;
    out.strides = strides_of(id);
    return out;
  }

  StepSpec make_spec(const Unit& unit) {
    StepSpec spec;
    spec.node = &graph_.node(unit.nodes.front());
    spec.op = spec.node->op;
    spec.numerics = planner_.options_.numerics;
    spec.threads = planner_.options_.threads;
    spec.post_ops = unit.post_ops;
    for (ValueId v : unit.inputs) spec.inputs.push_back(operand_of(*plan_, operand_value(v)));
    for (ValueId v : unit.outputs) spec.outputs.push_back(fresh_operand(v));
    return spec;
  }

  /// The plan value of an operand that may not be made yet (post-ops are tried before their other
  /// operands' steps exist): then a stand-in with the layout it will have.
  uint32_t operand_value(ValueId id) {
    if (id == kNone) return kNoValue;
    if (value_of_[id] != kNoValue || graph_.value(id).is_constant()) return value_for(id);
    const Type& type = graph_.value(id).type;
    PlanBuffer buffer;
    buffer.dtype = type.dtype;
    return add_value(kNone, std::move(buffer), type.dims ? *type.dims : SymDims{},
                     type.dims.has_value());
  }

  /// The anchor with as many of its elementwise users as some fast kernel takes as post-ops.
  Unit grow(NodeId anchor) {
    const Node& node = graph_.node(anchor);
    Unit unit{{anchor}, node.inputs, {}, node.outputs};
    Unit alone = unit;
    // Operands of post-ops come after every input the anchor could have.
    if (node.op->max_inputs > 0)
      unit.inputs.resize(static_cast<size_t>(node.op->max_inputs), kNone);
    const auto outputs_wanted = std::count_if(node.outputs.begin(), node.outputs.end(),
                                              [](ValueId v) { return v != kNone; });
    if (!planner_.options_.post_ops || planner_.options_.reference_only || outputs_wanted != 1 ||
        node.outputs[0] == kNone)
      return alone;
    ValueId result = node.outputs[0];
    while (unit.post_ops.size() < kMaxPostOps) {
      const NodeId next = graph_.only_user(users_, result);
      if (next == kNone) break;
      const Node& user = graph_.node(next);
      if (absorbed_.count(next) || (in_region_.size() && in_region_[next] != UINT32_MAX)) break;
      if (!user.op->scalar || user.outputs.size() != 1) break;
      const Type& type = graph_.value(user.outputs[0]).type;
      if (!type.dims || type.dtype != graph_.value(result).type.dtype ||
          !(*type.dims == *graph_.value(result).type.dims))
        break;
      Unit larger = unit;
      if (!append_post_op(larger, user, result)) break;
      larger.nodes.push_back(next);
      larger.outputs = {user.outputs[0]};
      if (!fast_kernel(make_spec(larger))) break;
      unit = std::move(larger);
      result = user.outputs[0];
    }
    return unit.post_ops.empty() ? alone : unit;
  }

  bool append_post_op(Unit& unit, const Node& user, ValueId result) {
    PostOp post;
    post.op = user.op;
    post.attrs = user.attrs;
    std::vector<ValueId> others;
    for (ValueId v : user.inputs)
      if (v != result) others.push_back(v);
    if (others.size() + 1 != user.inputs.size()) return false;  // result used twice
    const auto scalar_constant = [&](ValueId v) {
      return v == kNone ||
             (graph_.value(v).is_constant() && graph_.value(v).constant.count() == 1 &&
              graph_.value(v).constant.rank() == 0);
    };
    if (user.inputs.size() == 2 && user.inputs[0] != kNone && user.inputs[1] != kNone) {
      post.kind = PostOp::Kind::kBinary;
      post.anchor_first = user.inputs[0] == result;
      post.operand = static_cast<uint32_t>(unit.inputs.size());
      if (!graph_.value(others[0]).type.dims) return false;
      unit.inputs.push_back(others[0]);
    } else if (user.inputs[0] == result &&
               std::all_of(others.begin(), others.end(), scalar_constant)) {
      for (ValueId v : others)
        post.constants.push_back(v == kNone ? std::nan("")
                                            : graph_.value(v).constant.to_doubles()[0]);
    } else {
      return false;
    }
    unit.post_ops.push_back(std::move(post));
    return true;
  }

  bool fast_kernel(const StepSpec& spec) const {
    for (const Implementation& row : planner_.backend_.implementations())
      if (row.op == spec.op->name && row.name != "reference" && row.asked_about(spec) &&
          row.supports(spec).yes())
        return true;
    return false;
  }

  // ---- steps ------------------------------------------------------------------------------------

  const Implementation* choose(const StepSpec& spec, bool allow_reference,
                               std::vector<Refusal>* refused) const {
    for (const Implementation& row : planner_.backend_.implementations()) {
      if (!asked_for(row.op, *spec.op) || !row.asked_about(spec)) continue;
      const bool reference = row.name == "reference";
      if (planner_.options_.reference_only && !reference) continue;
      if (reference && !allow_reference) continue;
      const Verdict verdict = row.supports(spec);
      if (verdict.yes()) return &row;
      if (refused) refused->push_back({std::string(row.name), verdict.reason});
    }
    return nullptr;
  }

  void add_kernel_unit(const Unit& unit) {
    std::vector<uint32_t> inputs;
    for (ValueId v : unit.inputs) inputs.push_back(v == kNone ? kNoValue : value_for(v));
    StepSpec spec = make_spec(unit);
    std::vector<Refusal> refused;
    const Implementation* row = choose(spec, false, &refused);
    if (!row && !planner_.options_.reference_only) {
      // A fast kernel on row-major copies beats the reference on strided operands.
      StepSpec packed = spec;
      bool changed = false;
      for (Operand& operand : packed.inputs)
        if (operand.present() && !operand.contiguous()) {
          operand.strides = contiguous_strides(operand.dims);
          if (operand.constant) operand.constant = operand.constant.to_contiguous();
          changed = true;
        }
      if (changed && (row = choose(packed, false, nullptr))) {
        for (size_t k = 0; k < inputs.size(); ++k)
          if (spec.inputs[k].present() && !spec.inputs[k].contiguous())
            inputs[k] = add_copy(inputs[k], unit.nodes.front());
        spec = std::move(packed);
      }
    }
    if (!row) row = choose(spec, true, &refused);
    if (!row)
      fail(Status::kUnsupported, "no kernel can execute operator {}: {}", spec.op->name,
           refused.empty() ? std::string("none is registered")
                           : refused.back().name + ": " + refused.back().reason);
    if (planner_.options_.layouts) {
      planner_.layout_.decide(spec, *row, unit.outputs);
      for (size_t k = 0; k + 1 < unit.nodes.size(); ++k)
        planner_.layout_.follow(graph_.node(unit.nodes[k]).outputs[0], unit.outputs[0]);
      bool moved = false;
      for (size_t k = 0; k < unit.outputs.size(); ++k) {
        spec.outputs[k] = fresh_operand(unit.outputs[k]);
        moved |= spec.outputs[k].present() && !spec.outputs[k].contiguous();
      }
      // Results in another order may be what a faster row was refused for.
      std::vector<Refusal> still;
      if (moved)
        if (const Implementation* now = choose(spec, false, &still)) {
          row = now;
          refused = std::move(still);
        }
    }
    std::string name = graph_.node(unit.nodes.front()).name;
    add_step(unit.nodes, std::move(name), std::move(spec), *row, std::move(refused),
             std::move(inputs), unit.outputs);
  }

  /// Reuses the step of an earlier plan when nodes and operand layouts are the same.
  void add_step(const std::vector<NodeId>& nodes, std::string name, StepSpec spec,
                const Implementation& row, std::vector<Refusal> refused,
                std::vector<uint32_t> inputs, const std::vector<ValueId>& outputs) {
    std::string key(row.name);
    for (NodeId n : nodes) key += "," + std::to_string(n);
    for (const auto* operands : {&spec.inputs, &spec.outputs})
      for (const Operand& operand : *operands)
        key += ";" + to_text(operand.dims) + to_text(operand.strides);
    auto step = std::make_shared<Step>();
    if (const auto it = planner_.steps_.find(key);
        it != planner_.steps_.end() && nodes.size() && nodes[0] != kNone) {
      *step = *it->second;
    } else {
      step->name = std::move(name);
      step->nodes = nodes;
      step->spec = std::move(spec);
      step->kernel_name = std::string(row.name);
      step->kernel = row.create(step->spec);
      step->refused = std::move(refused);
      planner_.steps_.emplace(std::move(key), step);
      step = std::make_shared<Step>(*step);
    }
    step->inputs = std::move(inputs);
    step->outputs.clear();
    for (ValueId v : outputs) step->outputs.push_back(v == kNone ? kNoValue : add_result(v));
    push(std::move(step));
  }

  /// A step that copies a view into row-major memory; returns the new value.
  uint32_t add_copy(uint32_t from, NodeId, uint32_t to = kNoValue) {
    if (const auto it = copies_.find(from); it != copies_.end() && to == kNoValue)
      return it->second;
    static const Node kCopyNode = [] {
      Node node;
      node.op = &get_op("Identity");
      node.name = "copy";
      return node;
    }();
    StepSpec spec;
    spec.op = kCopyNode.op;
    spec.node = &kCopyNode;
    spec.numerics = planner_.options_.numerics;
    spec.threads = planner_.options_.threads;
    spec.inputs = {operand_of(*plan_, from)};
    Operand result = spec.inputs[0];
    result.constant = {};
    result.strides = contiguous_strides(result.dims);
    spec.outputs = {result};
    std::vector<Refusal> refused;
    const Implementation* row = choose(spec, true, &refused);
    if (!row) fail(Status::kInternal, "no kernel can copy {}", name(result.dtype));
    if (to == kNoValue) {
      PlanBuffer buffer;
      buffer.dtype = result.dtype;
      to = add_value(kNone, std::move(buffer), result.dims);
      copies_.emplace(from, to);
    }
    auto step = std::make_shared<Step>();
    step->name =
        "copy of " + (plan_->values[from].id == kNone ? std::string("a view")
                                                      : graph_.value(plan_->values[from].id).name);
    step->spec = std::move(spec);
    step->kernel_name = std::string(row->name);
    step->kernel = row->create(step->spec);
    step->inputs = {from};
    step->outputs = {to};
    push(std::move(step));
    return to;
  }

  void push(std::shared_ptr<const Step> step) {
    plan_->steps.push_back(std::move(step));
    plan_->segments.back().end_step = static_cast<uint32_t>(plan_->steps.size());
  }

  void add_region(uint32_t index) {
    const PlannedRegion& planned = regions_[index];
    // Its operands and its result would be the same memory.
    if (std::any_of(planned.region.nodes.begin(), planned.region.nodes.end(),
                    [&](NodeId n) { return planner_.concats_.has(n); })) {
      misfit_ = index;
      return;
    }
    auto step = std::make_shared<Step>();
    const Region& region = planned.region;
    step->name = graph_.node(region.nodes.front()).name;
    step->nodes = region.nodes;
    step->kernel = planned.kernel;
    step->kernel_name = planned.kernel_name;
    step->region = region.identity;
    step->spec.node = &graph_.node(region.nodes.front());
    step->spec.op = step->spec.node->op;
    for (ValueId v : region.inputs) {
      step->inputs.push_back(value_for(v));
      step->spec.inputs.push_back(operand_of(*plan_, step->inputs.back()));
    }
    for (ValueId v : region.outputs) {
      step->outputs.push_back(add_result(v));
      step->spec.outputs.push_back(fresh_operand(v));
    }
    const StepSpec made_for = planner_.region_spec(region);
    const auto lies_alike = [](const std::vector<Operand>& a, const std::vector<Operand>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.dims == y.dims && x.strides == y.strides;
      });
    };
    if (!lies_alike(made_for.inputs, step->spec.inputs) ||
        !lies_alike(made_for.outputs, step->spec.outputs)) {
      misfit_ = index;
      return;
    }
    ++plan_->region_steps;
    push(std::move(step));
  }

  /// Dynamic and control steps: the executor runs them on whole tensors. New symbols in their
  /// output dims end the segment.
  void add_opaque(NodeId id, Step::Kind kind) {
    const Node& node = graph_.node(id);
    auto step = std::make_shared<Step>();
    step->kind = kind;
    step->name = node.name;
    step->nodes = {id};
    step->spec.node = &node;
    step->spec.op = node.op;
    step->kernel_name = kind == Step::Kind::kControl ? "control"
                        : as_custom(*node.op)        ? "host"
                                                     : "dynamic";
    for (ValueId v : node.inputs) step->inputs.push_back(value_for(v));
    bool ends_segment = false;
    std::vector<PlanSymbol> defined;
    for (ValueId v : node.outputs) {
      if (v == kNone) {
        step->outputs.push_back(kNoValue);
        continue;
      }
      const Type& type = graph_.value(v).type;
      PlanBuffer buffer;
      buffer.storage = Storage::kDynamic;
      buffer.dtype = type.dtype;
      const uint32_t index = add_value(v, std::move(buffer), type.dims ? *type.dims : SymDims{},
                                       type.dims.has_value());
      step->outputs.push_back(index);
      if (!type.dims) continue;
      for (uint32_t axis = 0; axis < type.dims->size(); ++axis) {
        const auto symbol = (*type.dims)[axis].as_symbol();
        if (!symbol || known_symbols_.count(*symbol)) continue;
        add_symbol({*symbol, PlanSymbol::Source::kRuntimeDim, index, axis});
        ends_segment = true;
      }
      if (!symbols_known(*type.dims)) plan_->values[index].rank_known = false;
    }
    const bool refers_runtime = ends_segment;
    push(std::move(step));
    if (refers_runtime) {
      const auto end = static_cast<uint32_t>(plan_->steps.size());
      plan_->segments.push_back({end, end, static_cast<uint32_t>(plan_->symbols.size())});
    }
  }

  // ---- outputs ----------------------------------------------------------------------------------

  void bind_outputs() {
    for (uint32_t i = 0; i < graph_.outputs.size(); ++i) {
      uint32_t v = value_for(graph_.outputs[i]);
      PlanValue& value = plan_->values[v];
      PlanBuffer& buffer = plan_->buffers[value.buffer];
      const bool container = is_container(graph_.outputs[i]);
      if (container || (buffer.storage == Storage::kDynamic && value.offset == Dim(0) &&
                        buffer.elements == element_count(value.dims))) {
        plan_->outputs.push_back(v);
        continue;
      }
      Operand operand;
      operand.dims = value.dims;
      operand.strides = value.strides;
      const bool whole = buffer.storage == Storage::kArena && value.offset == Dim(0) &&
                         operand.contiguous() && buffer.elements == element_count(value.dims);
      if (whole) {
        buffer.storage = Storage::kOutput;
        buffer.index = i;
        plan_->outputs.push_back(v);
        continue;
      }
      PlanBuffer out;
      out.storage = Storage::kOutput;
      out.index = i;
      out.dtype = value.dtype;
      const uint32_t from = v;
      const SymDims dims = value.dims;
      const uint32_t to = add_value(kNone, std::move(out), dims);
      add_copy(from, kNone, to);
      plan_->outputs.push_back(to);
    }
  }

  Planner& planner_;
  const Graph& graph_;
  std::span<const PlannedRegion> regions_;
  std::shared_ptr<Plan> plan_;
  std::vector<uint32_t> value_of_;  // ValueId -> PlanValue
  std::vector<std::vector<NodeId>> users_;
  std::vector<uint32_t> in_region_, region_at_;
  std::optional<uint32_t> misfit_;
  std::unordered_set<NodeId> absorbed_;
  std::unordered_map<NodeId, Unit> deferred_;
  std::unordered_map<uint32_t, uint32_t> copies_;
  std::unordered_map<std::string, uint32_t> known_symbols_;
};

Planner::Planner(std::shared_ptr<const Graph> graph, const Backend& backend, PlannerOptions options)
    : graph_(std::move(graph)), backend_(backend), options_(options), layout_(*graph_, backend) {}

Planner::~Planner() = default;

std::shared_ptr<const Plan> Planner::build(std::span<const PlannedRegion> regions,
                                           std::vector<uint32_t>* refused) {
  std::vector<PlannedRegion> left(regions.begin(), regions.end());
  std::vector<uint32_t> index(regions.size());
  for (uint32_t k = 0; k < index.size(); ++k) index[k] = k;
  for (;;) {
    PlanBuilder builder(*this, left);
    if (auto plan = builder.build())
      return plan->serial == 0 ? put_concats_in_place(std::move(plan)) : plan;
    const auto at = static_cast<ptrdiff_t>(*builder.misfit());
    if (refused) refused->push_back(index[static_cast<size_t>(at)]);
    left.erase(left.begin() + at);
    index.erase(index.begin() + at);
  }
}

std::shared_ptr<const Plan> Planner::put_concats_in_place(std::shared_ptr<const Plan> base) {
  if (!options_.layouts || base->region_steps > 0 || !concats_.decide(*base, backend_)) return base;
  next_serial_ = base->serial;
  auto plan = PlanBuilder(*this, {}).build();
  // Steps that write elsewhere now.
  std::unordered_set<const Kernel*> used;
  for (const auto& step : plan->steps) used.insert(step->kernel.get());
  std::erase_if(steps_, [&](const auto& known) { return !used.count(known.second->kernel.get()); });
  return plan;
}

std::vector<NodeId> absorbed_nodes(const Plan& plan) {
  std::vector<NodeId> out;
  for (const auto& step : plan.steps)
    if (step->nodes.size() > 1 && !plan.graph->node(step->nodes.front()).op->scalar)
      out.insert(out.end(), step->nodes.begin(), step->nodes.end());
  return out;
}

StepSpec Planner::region_spec(const Region& region) {
  if (!survey_) {
    survey_ = std::make_unique<PlanBuilder>(*this, std::span<const PlannedRegion>{});
    survey_->survey();
  }
  return survey_->spec_of(region);
}

}  // namespace xc

#include "plan/fusion/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ir/patch.h"
#include "loop/kernel.h"
#include "ops/infer.h"
#include "ops/is_op.h"
#include "ops/op.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/region.h"

namespace xc {
namespace {

bool fusible_type(DType type) {
  return loop::is_value_type(loop::value_type(type));
}

bool types_fit(const Graph& graph, const Node& node) {
  for (ValueId v : node.inputs)
    if (v != kNone && (!fusible_type(graph.value(v).type.dtype) || !graph.value(v).type.dims))
      return false;
  for (ValueId v : node.outputs)
    if (v != kNone && (!fusible_type(graph.value(v).type.dtype) || !graph.value(v).type.dims))
      return false;
  return true;
}

/// The scalar form of the operator over `args`; absent where it has none for these types.
loop::Expr scalar_form(const Graph& graph, const Node& node, std::span<const loop::Expr> args) {
  const DType stored = graph.value(node.outputs[0]).type.dtype;
  const loop::Expr value = node.op->scalar(node, args, stored);
  return value && value.type() == loop::value_type(stored) ? value : loop::Expr();
}

std::vector<loop::Expr> stand_ins(const Graph& graph, const Node& node) {
  const loop::Expr any = loop::loop_var(loop::Var{0});
  std::vector<loop::Expr> args;
  for (ValueId v : node.inputs)
    args.push_back(v == kNone ? loop::Expr()
                              : loop::cast(loop::value_type(graph.value(v).type.dtype), any));
  return args;
}

/// Sines and cosines of f64 lose their digits for large arguments (loop/README.md), where a kernel
/// of the operator's own has them.
bool has_wide_trigonometry(const loop::Expr& value) {
  bool found = false;
  loop::visit_nodes(value, [&](const loop::Expr& e) {
    const bool trigonometric = e->op == loop::Op::kSin || e->op == loop::Op::kCos;
    found = found || (trigonometric && e.type() == DType::kF64);
  });
  return found;
}

/// Has the operator a scalar form for these types that holds for all their values? Some have none
/// for some (Mod of floats).
bool expressible(const Graph& graph, const Node& node) {
  const loop::Expr value = scalar_form(graph, node, stand_ins(graph, node));
  return value && !has_wide_trigonometry(value);
}

/// Operations whose result the standard fixes.
bool is_fixed(loop::Op op) {
  using loop::Op;
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kMin:
    case Op::kMax:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kSqrt:
    case Op::kReciprocal:
    case Op::kIsNan:
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kNot:
    case Op::kSelect:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<RowAxes> reduced_axes(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims || dims->empty()) return std::nullopt;
  const auto rank = static_cast<int64_t>(dims->size());
  std::vector<int64_t> axes;
  if (node.inputs.size() > 1 && node.inputs[1] != kNone) {
    const Value& value = graph.value(node.inputs[1]);
    if (!value.is_constant()) return std::nullopt;
    axes = value.constant.to_int64s();
  }
  if (axes.empty()) {
    if (node.attrs.get_int("noop_with_empty_axes", 0)) return std::nullopt;
    return RowAxes{0, static_cast<int>(rank)};
  }
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  for (size_t k = 0; k < axes.size(); ++k)
    if (axes[k] != axes[0] + static_cast<int64_t>(k)) return std::nullopt;
  return RowAxes{static_cast<int>(axes[0]), static_cast<int>(axes.size())};
}

bool expand_composites(Graph& graph, bool keep_others) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (NodeId id : std::vector<NodeId>(graph.order())) {
      const Node& node = graph.node(id);
      if (node.op->scalar || node.op->reduction || index_map(graph, id)) continue;
      if (!node.op->expand) {
        if (keep_others) continue;
        return false;
      }
      Patch patch(graph, "expand");
      const std::vector<ValueId> outputs = node.op->expand(graph, node, patch);
      if (outputs.empty()) return false;
      const std::vector<ValueId> old = graph.node(id).outputs;
      for (size_t k = 0; k < old.size(); ++k)
        if (old[k] != kNone) {
          if (k >= outputs.size()) return false;
          patch.replace(old[k], outputs[k]);
        }
      patch.remove(id);
      patch.apply();
      infer_types(graph);
      changed = true;
      break;
    }
  }
  return true;
}

namespace {

/// What each value of a graph is, equal for equal results. `names`: what stands for values that no
/// node makes, where they are not known by what they hold.
std::vector<Hash128> meanings(const Graph& graph,
                              const std::unordered_map<ValueId, ValueId>& names) {
  constexpr int64_t kMostElements = 16;
  std::vector<Hash128> out(graph.value_count());
  for (ValueId v = 0; v < out.size(); ++v) {
    const Value& value = graph.value(v);
    const auto name = names.find(v);
    std::string key = fmt::format("v{}", name == names.end() ? v : name->second);
    if (value.is_constant() && value.constant.count() <= kMostElements) {
      key = "c" + value.type.text() + " ";
      append_content(key, value.constant);
    }
    out[v] = hash_text(key);
  }
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::string key = fmt::format("n{}:{} ", node.op->domain, node.op->name);
    for (ValueId v : node.inputs) key += v == kNone ? "-" : out[v].text();
    node.attrs.append_key(key);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone) out[node.outputs[k]] = hash_text(fmt::format("{} {}", k, key));
  }
  return out;
}

}  // namespace

void merge_equal_nodes(Graph& graph) {
  const std::vector<Hash128> known = meanings(graph, {});
  std::unordered_map<Hash128, ValueId, HashOfHash128> first;
  Patch patch(graph, "merge");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const ValueId v = node.outputs[0];
    const auto [same, added] = first.emplace(known[v], v);
    if (added || node.outputs.size() != 1 || graph.is_output(v)) continue;
    patch.replace(v, same->second);
    patch.remove(id);
  }
  patch.apply();
}

DType sum_type(const Node& reduction, DType type) {
  const bool norm = reduction.op->reduction->pre && reduction.op->reduction->post;
  return norm && type != DType::kF16 ? DType::kF64 : loop::value_type(type);
}

bool rounds_once(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.op->scalar || node.outputs.empty() || !types_fit(graph, node)) return false;
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId v : *values)
      if (v != kNone && !loop::is_value_type(graph.value(v).type.dtype)) return false;
  const std::vector<loop::Expr> args = stand_ins(graph, node);
  const loop::Expr value = scalar_form(graph, node, args);
  if (!value || !is_fixed(value->op)) return false;
  return std::all_of(value->args.begin(), value->args.end(), [&](const loop::Expr& e) {
    return loop::is_const(e) || std::any_of(args.begin(), args.end(), [&](const loop::Expr& arg) {
             return arg.get() == e.get();
           });
  });
}

namespace {

/// The node as a region of its own, before it is expanded.
Region alone(const Node& node, NodeId id) {
  Region out;
  out.nodes = {id};
  for (ValueId v : node.inputs)
    if (v != kNone && std::find(out.inputs.begin(), out.inputs.end(), v) == out.inputs.end())
      out.inputs.push_back(v);
  out.outputs = {node.outputs[0]};
  return out;
}

constexpr double kLoopCode = 16;    // of a reduction: a loop with its rest, and one behind it
constexpr double kRoundCode = 4;    // of a result stored as a half
constexpr double kDivideCode = 12;  // of integers of 32 bits and less, divided as f64
constexpr double kDivide64Code = 40, kConvert64Code = 8;  // no instruction before AVX-512

/// How often the function of an operator with any number of inputs is applied.
double calls_of(const Node& node) {
  if (node.op->max_inputs != -1) return 1;
  const auto given =
      std::count_if(node.inputs.begin(), node.inputs.end(), [](ValueId v) { return v != kNone; });
  return static_cast<double>(std::max<ptrdiff_t>(1, given - 1));
}

/// FusionClass::weight of a scalar function or a reduction.
double weight_of(const Node& node) {
  return node.op->weight * calls_of(node);
}

/// FusionClass::code of a scalar function or a reduction.
double code_of(const Graph& graph, const Node& node) {
  const DType from = graph.value(node.inputs[0]).type.dtype;
  const DType to = graph.value(node.outputs[0]).type.dtype;
  const bool wide = element_size(from) == 8 || element_size(to) == 8;
  double code = weight_of(node) * (wide ? 2 : 1);
  if (node.op->reduction) code += kLoopCode;
  if (is_integer(from) && (is_op(node, "Div") || is_op(node, "Mod")))
    code = wide ? kDivide64Code : kDivideCode;
  if (is_op(node, "Cast") && wide && is_integer(from) != is_integer(to)) code += kConvert64Code;
  if (loop::value_type(to) != to) code += kRoundCode * calls_of(node);
  return code;
}

/// What a graph of scalars and of reductions over the same axes of `space` is; kNone for others.
/// `known`: what its values are.
FusionClass classify_parts(const Graph& graph, const SymDims& space,
                           const std::vector<Hash128>& known) {
  FusionClass out;
  double weight = 0, code = 0;
  RowAxes row_axes;
  bool scalars = true;
  for (NodeId id : graph.order()) {
    const Node& part = graph.node(id);
    scalars &= part.op->scalar != nullptr;
    if (!types_fit(graph, part) || index_map(graph, id)) return out;
    if (part.op->scalar && !expressible(graph, part)) return out;
    if (part.op->reduction) {
      const auto axes = reduced_axes(graph, part);
      if (!axes || !(row_axes.none() || row_axes == *axes)) return out;
      if (!(*graph.value(part.inputs[0]).type.dims == space)) return out;
      if (part.attrs.get_int("keepdims", 1) == 0) return out;
      row_axes = *axes;
    }
    weight += weight_of(part);
    code += code_of(graph, part);
    out.parts.push_back({known[part.outputs[0]], code_of(graph, part)});
  }
  if (row_axes.whole(space) || (row_axes.none() && !scalars)) return out;
  out.weight = weight;
  out.code = code;
  if (row_axes.none()) {  // QuantizeLinear and its inverse
    out.kind = FusionKind::kScalar;
    return out;
  }
  out.kind = FusionKind::kComposite;
  out.row_axes = row_axes;
  out.space = space;
  return out;
}

/// By what the operator stands for.
FusionClass classify_expanded(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  try {
    const Region region = alone(node, id);
    RegionGraph expanded = extract_region(graph, region);
    if (!expand_composites(expanded.graph)) return {};
    std::unordered_map<ValueId, ValueId> names;
    for (size_t k = 0; k < region.inputs.size(); ++k)
      names.emplace(expanded.operands[k], region.inputs[k]);
    return classify_parts(expanded.graph, *graph.value(node.outputs[0]).type.dims,
                          meanings(expanded.graph, names));
  } catch (const Error&) {
    return {};  // an operator that refuses to be expanded here stays a step
  }
}

}  // namespace

FusionClass classify(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  FusionClass out;
  if (node.op->control_flow || node.op->random || node.op->view || node.outputs.empty() ||
      node.outputs[0] == kNone || !types_fit(graph, node))
    return out;
  for (size_t k = 1; k < node.outputs.size(); ++k)
    if (node.outputs[k] != kNone) return out;
  if (node.op->scalar) {
    if (!expressible(graph, node)) return out;
    out.kind = FusionKind::kScalar;
    out.weight = weight_of(node);
    out.code = code_of(graph, node);
    return out;
  }
  if (node.op->reduction) {
    const auto axes = reduced_axes(graph, node);
    if (!axes) return out;
    // Sums of integers wrap around, which a mean or a logarithm of them must not show.
    if (node.op->reduction->post && is_integer(graph.value(node.inputs[0]).type.dtype)) return out;
    out.kind = FusionKind::kReduction;
    out.code = code_of(graph, node);
    out.row_axes = *axes;
    out.space = *graph.value(node.inputs[0]).type.dims;
    out.keepdims = node.attrs.get_int("keepdims", 1) != 0;
    return out;
  }
  if (index_map(graph, id)) {
    out.kind = FusionKind::kMap;
    return out;
  }
  return node.op->expand ? classify_expanded(graph, id) : out;
}

}  // namespace xc

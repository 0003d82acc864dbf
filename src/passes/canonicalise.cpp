#include <algorithm>
#include <string_view>

#include "ir/patch.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// One node under rewriting.
struct Site {
  Graph& graph;
  Patch& patch;
  const PassContext& context;
  NodeId id;
  const Node& node;

  const Value& input(size_t i) const { return graph.value(node.inputs[i]); }
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
  const Value& output() const { return graph.value(node.outputs[0]); }
  const Node* producer(size_t i) const {
    const NodeId p = has(i) ? input(i).producer : kNone;
    return p == kNone ? nullptr : &graph.node(p);
  }
  bool is(std::string_view name) const { return is_op(node, name); }

  /// Does operand i leave the dims of the result to the others? Where those of the result are known
  /// forward() compares them.
  bool broadcasts_nothing(size_t i) const {
    return output().type.dims || (input(i).type.dims && input(i).type.dims->empty());
  }

  /// Users of the node's only output read `value` instead, when its type is the same.
  bool forward(ValueId value) {
    for (size_t i = 1; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone) return false;
    const Type &now = graph.value(value).type, &old = output().type;
    if (now.kind != old.kind || now.dtype != old.dtype || !has_type(old)) return false;
    // Where old dims are known, nothing may be forgotten.
    if (old.dims && (!now.dims || *now.dims != *old.dims)) return false;
    if (!patch.can_replace(node.outputs[0], value)) return false;
    patch.replace(node.outputs[0], value);
    return true;
  }

  /// Another node in its place; its name and output types stay.
  bool rebuild(Node now) {
    now.name = node.name;
    now.outputs.clear();
    const auto count = static_cast<uint32_t>(node.outputs.size());
    const std::vector<ValueId> outputs = add_typed(graph, patch, std::move(now), count);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i] != kNone) patch.replace(node.outputs[i], outputs[i]);
    patch.remove(id);
    return true;
  }
};

bool same_dims(const Site& s) {
  const std::optional<SymDims>&in = s.input(0).type.dims, &out = s.output().type.dims;
  return in && out && *in == *out;
}

/// True when every element of a constant (up to 4096 of them) is `number`.
bool all_equal(const Value& value, double number) {
  const Tensor& t = value.constant;
  if (!t || t.count() == 0 || t.count() > 4096) return false;
  if (!is_float(t.dtype()) && !is_integer(t.dtype()) && t.dtype() != DType::kBool) return false;
  const std::vector<double> values = t.to_doubles();
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
}

// ---- what does nothing --------------------------------------------------------------------------

bool drop_identity(Site& s) {
  if (!s.is("Identity")) return false;
  return s.forward(s.node.inputs[0]);
}

/// Inference mode: the data output is the input. The mask has its own users, rarely.
bool drop_dropout(Site& s) {
  if (!s.is("Dropout")) return false;
  if (s.has(2)) {
    const std::optional<double> training = scalar_constant(s.input(2));
    if (!training || *training != 0) return false;
  }
  return s.forward(s.node.inputs[0]);
}

/// Ops that keep elements in order: nothing happens when the dims stay.
bool drop_reshape(Site& s) {
  constexpr std::string_view kOps[] = {"Reshape",   "Flatten", "Squeeze",
                                       "Unsqueeze", "Expand",  "Tile"};
  if (std::none_of(std::begin(kOps), std::end(kOps), [&](auto name) { return s.is(name); }))
    return false;
  if (!same_dims(s)) return false;
  // A dim that is a number wins over what a run asks for, which has to fit all the same.
  if (s.is("Expand") && !s.input(1).is_constant()) {
    const auto& asked = s.input(1).elements;
    const SymDims& own = *s.input(0).type.dims;
    if (!asked || asked->size() > own.size()) return false;
    for (size_t k = 1; k <= asked->size(); ++k) {
      const Dim& size = (*asked)[asked->size() - k];
      if (!size.is_constant() && !(size == own[own.size() - k])) return false;
    }
  }
  return s.forward(s.node.inputs[0]);
}

bool drop_cast(Site& s) {
  if (!s.is("Cast") && !s.is("CastLike")) return false;
  return s.forward(s.node.inputs[0]);  // refuses another dtype
}

bool drop_slice(Site& s) {
  if (!s.is("Slice") || !same_dims(s)) return false;
  if (s.has(4)) {  // with steps of one, equal dims leave no room to move
    const auto steps = known_integers(s.input(4));
    if (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t v) { return v != 1; }))
      return false;
  }
  return s.forward(s.node.inputs[0]);
}

bool drop_pad(Site& s) {
  if (!s.is("Pad") || !s.has(1)) return false;
  const auto pads = known_integers(s.input(1));
  if (!pads || std::any_of(pads->begin(), pads->end(), [](int64_t v) { return v != 0; }))
    return false;
  return s.forward(s.node.inputs[0]);
}

bool drop_single_operand(Site& s) {
  constexpr std::string_view kOps[] = {"Concat", "Sum", "Max", "Min", "Mean"};
  if (s.node.inputs.size() != 1 ||
      std::none_of(std::begin(kOps), std::end(kOps), [&](auto name) { return s.is(name); }))
    return false;
  return s.forward(s.node.inputs[0]);
}

bool drop_single_split(Site& s) {
  if (!s.is("Split") || s.node.outputs.size() != 1) return false;
  return same_dims(s) && s.forward(s.node.inputs[0]);
}

bool any_negative_zero(const Tensor& zeros) {
  const std::vector<double> values = zeros.to_doubles();
  return std::any_of(values.begin(), values.end(), [](double v) { return std::signbit(v); });
}

/// x*1, x/1, x-0 (not x - -0, which is x+0); x+0 where the sign of zero may change (-0 + 0 = 0).
bool drop_neutral(Site& s) {
  if (s.node.inputs.size() != 2 || !s.has(0) || !s.has(1)) return false;
  const bool one = s.is("Mul") || s.is("Div");
  const bool zero =
      s.is("Sub") ||
      (s.is("Add") && (s.context.options.tolerant || is_integer(s.output().type.dtype)));
  if (!(one && all_equal(s.input(1), 1)) && !(zero && all_equal(s.input(1), 0))) return false;
  if (s.is("Sub") && any_negative_zero(s.input(1).constant)) return false;
  if (!s.broadcasts_nothing(1)) return false;
  return s.forward(s.node.inputs[0]);
}

/// Does an operand fit the dims of another whatever sizes a run has? A dim that is a number wins
/// over a symbol, which has to be that number or 1: the model's check.
bool always_broadcasts(const Value& operand, const Value& to) {
  const std::optional<SymDims>&from = operand.type.dims, &dims = to.type.dims;
  if (from && from->empty()) return true;
  if (!from || !dims || from->size() > dims->size()) return false;
  return std::equal(from->rbegin(), from->rend(), dims->rbegin(),
                    [](const Dim& a, const Dim& b) { return a == Dim(1) || a == b; });
}

/// A mask that is the same everywhere chooses one operand, where that one has the result's dims.
bool drop_where(Site& s) {
  if (!s.is("Where")) return false;
  for (const size_t chosen : {1, 2})
    if (all_equal(s.input(0), chosen == 1 ? 1 : 0))
      return s.broadcasts_nothing(0) && always_broadcasts(s.input(3 - chosen), s.input(chosen)) &&
             s.forward(s.node.inputs[chosen]);
  return false;
}

// ---- one form of each thing ---------------------------------------------------------------------

bool simplify_transpose(Site& s) {
  if (!s.is("Transpose")) return false;
  auto perm = known_permutation(s.graph, s.node);
  if (!perm) return false;
  if (std::is_sorted(perm->begin(), perm->end())) return s.forward(s.node.inputs[0]);
  const Node* inner = s.producer(0);
  if (!inner || inner->op != s.node.op) return false;
  const auto first = known_permutation(s.graph, *inner);
  if (!first || first->size() != perm->size()) return false;
  for (size_t& axis : *perm) axis = (*first)[axis];
  if (std::is_sorted(perm->begin(), perm->end())) return s.forward(inner->inputs[0]);
  Node now{.op = s.node.op, .inputs = {inner->inputs[0]}};
  now.attrs.set("perm", std::vector<int64_t>(perm->begin(), perm->end()));
  return s.rebuild(std::move(now));
}

/// Only the last of several reshapes in a row matters, when its shape does not copy input dims and
/// those in front of it have nothing to refuse.
bool merge_reshapes(Site& s) {
  if (!s.is("Reshape")) return false;
  const Node* inner = s.producer(0);
  if (!inner || !is_reshape(*inner)) return false;
  const auto shape = known_integers(s.input(1));
  if (!shape) return false;
  const bool copies = std::find(shape->begin(), shape->end(), 0) != shape->end();
  if (copies && s.node.attrs.get_int("allowzero", 0) == 0) return false;
  if (!always_fits(s.graph, *inner)) return false;
  Node now{.op = s.node.op, .inputs = {inner->inputs[0], s.node.inputs[1]}};
  now.attrs = s.node.attrs;
  now.outputs.assign(1, kNone);
  const auto inferred = infer_node(s.graph, now);
  if (!inferred || inferred->types[0].dims != s.output().type.dims) return false;
  return s.rebuild(std::move(now));
}

/// A shape computed from dims, where 0 (copied) and numbers say the same, becomes a constant: the
/// arithmetic that made it is dead then. -1 stands in for one dim when no other can be zero, for
/// with a zero beside it -1 means nothing, and where it is what the shape says or what the number
/// of elements leaves: else a shape that does not fit would be made to.
bool constant_shape(Site& s) {
  if (!s.is("Reshape") || s.input(1).is_constant()) return false;
  const std::optional<SymDims>&in = s.input(0).type.dims, &out = s.output().type.dims;
  if (!in || !out) return false;
  const auto shape = shape_between(*in, *out);
  if (!shape) return false;
  const auto& asked = s.input(1).elements;
  const auto count = count_of(*in);
  const bool fits = count && count == count_of(*out);
  const auto hole = static_cast<size_t>(std::ranges::find(*shape, -1) - shape->begin());
  if (hole < shape->size() && !fits &&
      !(asked && hole < asked->size() && (*asked)[hole] == Dim(-1)))
    return false;
  Node now{.op = s.node.op, .inputs = s.node.inputs};
  now.inputs[1] = s.patch.add_constant(s.input(1).name, Tensor::of(*shape));
  return s.rebuild(std::move(now));
}

bool constant_second(Site& s) {
  if (!s.node.op->commutative || s.node.inputs.size() < 2 || !s.has(0) || !s.has(1)) return false;
  if (!s.input(0).is_constant() || s.input(1).is_constant()) return false;
  Node now{.op = s.node.op, .inputs = s.node.inputs};
  now.attrs = s.node.attrs;
  std::swap(now.inputs[0], now.inputs[1]);
  return s.rebuild(std::move(now));
}

/// Sum, Max, Min and Mean of two are elementwise; Sum of two is Add.
bool sum_to_add(Site& s) {
  if (!s.is("Sum") || s.node.inputs.size() != 2) return false;
  const OpDef* add = find_op("Add");
  return add && s.rebuild(Node{.op = add, .inputs = s.node.inputs});
}

/// Squares are written as products: exact, cheap, and what the rules for norms look for.
bool square_to_product(Site& s) {
  if (!s.is("Pow") || s.output().type.dtype != s.input(0).type.dtype || !same_dims(s)) return false;
  if (!is_float(s.output().type.dtype)) return false;
  if (scalar_constant(s.input(1)) != 2.0) return false;
  const OpDef* mul = find_op("Mul");
  return mul && s.rebuild(Node{.op = mul, .inputs = {s.node.inputs[0], s.node.inputs[0]}});
}

bool cast_like_to_cast(Site& s) {
  if (!s.is("CastLike") || s.input(1).type.dtype == DType::kUndefined) return false;
  const OpDef* cast = find_op("Cast");
  if (!cast) return false;
  Node now{.op = cast, .inputs = {s.node.inputs[0]}};
  now.attrs = s.node.attrs;
  now.attrs.set("to", onnx_number(s.input(1).type.dtype));
  return s.rebuild(std::move(now));
}

// ---- broadcasting -------------------------------------------------------------------------------

/// Does an operand other than `from`, expanded to `to`, have each size that the Expand gives?
bool others_have(const Site& s, size_t expanded, const SymDims& from, const SymDims& to) {
  for (size_t k = 1; k <= to.size(); ++k) {
    const Dim& size = to[to.size() - k];
    if (size == Dim(1) || (k <= from.size() && from[from.size() - k] == size)) continue;
    bool found = false;
    for (size_t i = 0; i < s.node.inputs.size() && !found; ++i) {
      if (!s.has(i) || s.node.inputs[i] == s.node.inputs[expanded]) continue;
      const std::optional<SymDims>& dims = s.input(i).type.dims;
      found = dims && k <= dims->size() && (*dims)[dims->size() - k] == size;
    }
    if (!found) return false;
  }
  return true;
}

/// What is expanded to the sizes of the other operands is broadcast to them anyway.
bool drop_expand(Site& s) {
  if (!s.node.op->scalar || s.output().elements) return false;
  for (size_t i = 0; i < s.node.inputs.size(); ++i) {
    const Node* expand = s.producer(i);
    if (!expand || !is_op(*expand, "Expand")) continue;
    const Value& from = s.graph.value(expand->inputs[0]);
    if (!always_broadcasts(from, s.input(i)) ||
        !others_have(s, i, *from.type.dims, *s.input(i).type.dims))
      continue;
    Node now{.op = s.node.op, .inputs = s.node.inputs};
    now.attrs = s.node.attrs;
    now.inputs[i] = expand->inputs[0];
    now.outputs.assign(1, kNone);
    const auto inferred = infer_node(s.graph, now);
    if (inferred && inferred->types[0].dims == s.output().type.dims)
      return s.rebuild(std::move(now));
  }
  return false;
}

/// A function of what is expanded is computed of what there is before.
bool expand_last(Site& s) {
  const ValueId expanded = argument_of(s.graph, s.node);
  if (expanded == kNone || s.output().elements) return false;
  const NodeId producer = s.graph.value(expanded).producer;
  if (producer == kNone || !is_op(s.graph.node(producer), "Expand")) return false;
  const Node& expand = s.graph.node(producer);
  const Value& from = s.graph.value(expand.inputs[0]);
  if (!from.type.dims || !s.output().type.dims) return false;
  Node now{.op = s.node.op, .inputs = s.node.inputs};
  now.attrs = s.node.attrs;
  std::replace(now.inputs.begin(), now.inputs.end(), expanded, expand.inputs[0]);
  now.outputs.assign(1, kNone);
  const auto inferred = infer_node(s.graph, now);
  if (!inferred || inferred->types[0].dims != from.type.dims) return false;
  now.outputs.clear();
  now.name = s.node.name;
  const ValueId made = add_typed(s.graph, s.patch, std::move(now), 1)[0];
  return s.rebuild(Node{.op = expand.op, .inputs = {made, expand.inputs[1]}});
}

/// What a Gather by constant indices picks, where all of it is there: else the run says so.
struct Picks {
  size_t axis;
  std::vector<int64_t> at;  ///< not negative
};

std::optional<Picks> constant_picks(Site& s) {
  const std::optional<SymDims>& dims = s.input(0).type.dims;
  if (!dims || dims->empty()) return std::nullopt;
  const size_t axis = normalise_axis(s.node.attrs.get_int("axis", 0), dims->size());
  if (!(*dims)[axis].is_constant()) return std::nullopt;
  const int64_t extent = (*dims)[axis].value();
  Picks out{axis, s.input(1).constant.to_int64s()};
  for (int64_t& index : out.at) {
    if (index < -extent || index >= extent) return std::nullopt;
    if (index < 0) index += extent;
  }
  return out;
}

/// One slice by a constant index is a view of it. (Not of integers: shape arithmetic is looked for
/// as exporters write it.)
bool gather_to_slice(Site& s) {
  if (!s.is("Gather") || !s.has(1) || !s.input(1).is_constant() || !is_float(s.input(0).type.dtype))
    return false;
  const Tensor& index = s.input(1).constant;
  if (index.count() != 1 || index.rank() > 1) return false;
  const auto picks = constant_picks(s);
  if (!picks) return false;
  const auto numbers = [&](int64_t value) {
    return s.patch.add_constant(s.input(1).name, Tensor::of(std::vector<int64_t>{value}));
  };
  const ValueId along = numbers(static_cast<int64_t>(picks->axis));
  Node slice{.op = find_op("Slice"),
             .inputs = {s.node.inputs[0], numbers(picks->at[0]), numbers(picks->at[0] + 1), along}};
  if (index.rank() == 1) return s.rebuild(std::move(slice));
  const ValueId part = add_typed(s.graph, s.patch, std::move(slice), 1)[0];
  return s.rebuild(Node{.op = find_op("Squeeze"), .inputs = {part, along}});
}

/// Picking by constant indices at even distances is a view: windows that slide, as exporters write
/// them (im2col, the frames of a signal), reversals, every second element.
bool gather_to_unfold(Site& s) {
  if (!s.is("Gather") || !s.has(1) || !s.input(1).is_constant()) return false;
  if (s.input(0).elements) return false;  // shape arithmetic
  constexpr int64_t kMost = 1 << 20;
  const Tensor& indices = s.input(1).constant;
  const int64_t count = indices.count();
  if (count == 0 || count > kMost) return false;
  const auto picks = constant_picks(s);
  if (!picks) return false;
  const std::vector<int64_t>& at = picks->at;
  // The step along each axis of the indices is that to its second element.
  const Dims& sizes = indices.dims();
  const Dims places = contiguous_strides(sizes);
  Dims steps;
  for (size_t i = 0; i < sizes.size(); ++i)
    steps.push_back(sizes[i] > 1 ? at[static_cast<size_t>(places[i])] - at[0] : 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t index = at[0];
    for (size_t i = 0; i < sizes.size(); ++i) index += flat / places[i] % sizes[i] * steps[i];
    if (index != at[static_cast<size_t>(flat)]) return false;
  }
  Node unfold{.op = &get_op("Unfold", "xc"), .inputs = {s.node.inputs[0]}};
  unfold.attrs.set("axis", static_cast<int64_t>(picks->axis));
  unfold.attrs.set("first", at[0]);
  unfold.attrs.set("sizes", sizes);
  unfold.attrs.set("steps", steps);
  return s.rebuild(std::move(unfold));
}

using Rewrite = bool (*)(Site&);
constexpr Rewrite kRewrites[] = {
    drop_identity,     drop_dropout,        drop_reshape,      drop_cast,      drop_slice,
    drop_pad,          drop_single_operand, drop_single_split, constant_shape, constant_second,
    drop_neutral,      simplify_transpose,  merge_reshapes,    sum_to_add,     square_to_product,
    cast_like_to_cast, gather_to_slice,     gather_to_unfold,  drop_where,     drop_expand,
    expand_last,
};

}  // namespace

bool canonicalise(Graph& graph, PassContext& context) {
  Patch patch(graph, "canonicalise");
  int64_t count = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->control_flow || node.outputs.empty() || node.outputs[0] == kNone) continue;
    Site site{graph, patch, context, id, node};
    for (Rewrite rewrite : kRewrites)
      if (rewrite(site)) {
        ++count;
        break;
      }
  }
  if (count) context.count("canonicalise", count);
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc

#include "plan/fusion/facts.h"

#include <algorithm>

#include "ops/is_op.h"
#include "ops/op.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/iteration.h"

namespace xc::fusion {
namespace {

constexpr double kStep = 250e-9;      // seconds to start a step: arguments, call, primitive
constexpr double kGivenFactor = 0.9;  // of regions with products: near is the trial's to judge
constexpr double kNearLines = 512;    // of 64 bytes: what a first-level cache holds
constexpr uint32_t kLeastPart = 32;   // where a cut must break a group, not earlier than this

/// Dims by number, the same for equal ones.
class Interned {
 public:
  int32_t operator()(const SymDims& dims) {
    const auto it = std::find(known_.begin(), known_.end(), dims);
    if (it != known_.end()) return static_cast<int32_t>(it - known_.begin());
    known_.push_back(dims);
    return static_cast<int32_t>(known_.size() - 1);
  }

 private:
  std::vector<SymDims> known_;
};

}  // namespace

Facts::Facts(const Graph& graph, const FusionOptions& options)
    : graph_(graph),
      options_(options),
      position_(graph.node_count(), 0),
      users_(graph.users()),
      classes_(graph.node_count()),
      taken_(options.taken.begin(), options.taken.end()),
      in_place_(options.in_place.begin(), options.in_place.end()) {
  for (uint32_t k = 0; k < graph.order().size(); ++k) position_[graph.order()[k]] = k;
}

const FusionClass& Facts::of(NodeId id) {
  if (classes_[id]) return *classes_[id];
  FusionClass cls = classify(graph_, id);
  const bool whole = cls.kind == FusionKind::kReduction && cls.row_axes.whole(cls.space);
  const bool row =
      (cls.kind == FusionKind::kReduction && !whole) || cls.kind == FusionKind::kComposite;
  const bool cell = cls.kind == FusionKind::kScalar || cls.kind == FusionKind::kMap;
  if (taken_.count(id) || in_place_.count(id) || (row && !options_.row) ||
      (cell && !options_.cell && !options_.row) ||
      (options_.numerics == Numerics::kStrict && !rounds_once(graph_, id)) ||
      wants_large_table(id, cls))
    cls.kind = FusionKind::kNone;
  return *(classes_[id] = std::move(cls));
}

bool Facts::wants_large_table(NodeId id, const FusionClass& cls) const {
  const RowAxes& row = cls.row_axes;
  if (cls.kind != FusionKind::kComposite || row.trailing(cls.space)) return false;
  Dim beside = 1;
  SymDims length;
  for (size_t a = static_cast<size_t>(row.first); a < cls.space.size(); ++a)
    if (row.has(a))
      length.push_back(cls.space[a]);
    else
      beside = beside * cls.space[a];
  const DType type = loop::value_type(graph_.value(graph_.node(id).outputs[0]).type.dtype);
  return elements(length) * static_cast<double>(table_rows(beside) * element_size(type)) >
         static_cast<double>(kMostTableBytes);
}

double Facts::elements(const SymDims& dims) const {
  double count = 1;
  for (const Dim& dim : dims) {
    try {
      const auto size = dim.evaluate([&](const std::string& symbol) -> std::optional<int64_t> {
        const auto known = options_.sizes ? options_.sizes(symbol) : std::nullopt;
        return known ? known : std::optional(kNominalSize);
      });
      count *= static_cast<double>(std::max<int64_t>(0, size.value_or(kNominalSize)));
    } catch (const Error&) {
      count *= static_cast<double>(kNominalSize);  // sizes that do not go together
    }
  }
  return count;
}

double Facts::seconds_to_move(ValueId v) {
  const Type& type = graph_.value(v).type;
  if (!type.dims || element_size(type.dtype) == 0) return 0;
  const double bytes = elements(*type.dims) * static_cast<double>(element_size(type.dtype));
  return bytes / options_.host.bandwidth(bytes);
}

double Facts::compute_s(NodeId id) {
  const Node& node = graph_.node(id);
  if (node.op->view || node.outputs.empty() || node.outputs[0] == kNone) return 0;
  const auto& result = graph_.value(node.outputs[0]).type.dims;
  if (!result) return 0;
  if (is_op(node, "MatMul")) {
    const auto& left = graph_.value(node.inputs[0]).type.dims;
    const double depth = left && !left->empty() ? elements({left->back()}) : 1;
    return 2 * depth * elements(*result) / options_.host.product_rate;
  }
  const FusionClass& cls = of(id);
  const SymDims& walked = cls.space.empty() ? *result : cls.space;
  return cls.weight * elements(walked) / options_.host.cell_rate;
}

namespace {

SearchNode::Kind kind_of(FusionKind kind) {
  switch (kind) {
    case FusionKind::kScalar:
      return SearchNode::Kind::kScalar;
    case FusionKind::kReduction:
      return SearchNode::Kind::kReduction;
    case FusionKind::kComposite:
      return SearchNode::Kind::kComposite;
    case FusionKind::kMap:
      return SearchNode::Kind::kMap;
    default:
      return SearchNode::Kind::kFixed;
  }
}

/// The number of elements by number; kNoSpace for one.
int32_t count_of(const SymDims& of, Interned& dims) {
  const Dim count = element_count(of);
  return count == Dim(1) ? kNoSpace : dims({count});
}

/// The axes of `dims` for which `of(axis)`; bit k is the k-th last.
template <class Of>
uint32_t axes_of(const SymDims& dims, Of of) {
  uint32_t out = 0;
  for (size_t a = 0; a < dims.size(); ++a)
    if (of(a)) out |= 1u << (dims.size() - 1 - a) % 32;
  return out;
}

/// A Transpose that moves the last axis leaves its elements apart; of other views nothing is said.
Lies lies(const Graph& graph, ValueId v) {
  const auto& dims = graph.value(v).type.dims;
  if (!dims || dims->size() < 2 || dims->back() == Dim(1)) return Lies::kUnknown;
  const NodeId producer = graph.value(v).producer;
  if (producer == kNone || !graph.node(producer).op->view) return Lies::kAlong;
  const Node& node = graph.node(producer);
  if (!is_op(node, "Transpose")) return Lies::kUnknown;
  const std::vector<int64_t> order = node.attrs.get_ints("perm");
  const bool stays = !order.empty() && order.back() + 1 == std::ssize(order);
  return stays ? lies(graph, node.inputs[0]) : Lies::kAcross;
}

/// A node as the search sees it, but for what it reads and writes.
SearchNode described(const Graph& graph, NodeId id, const FusionClass& cls, Interned& dims) {
  SearchNode out;
  out.kind = kind_of(cls.kind);
  if (cls.kind == FusionKind::kNone) return out;
  out.result = dims(*graph.value(graph.node(id).outputs[0]).type.dims);
  out.keepdims = cls.keepdims;
  out.code = cls.code;
  if (cls.kind == FusionKind::kReduction || cls.kind == FusionKind::kComposite) {
    const RowAxes& axes = cls.row_axes;
    const auto rank = static_cast<int32_t>(cls.space.size());
    out.row_axes = axes.whole(cls.space) ? 0 : axes.first * rank + axes.count;
    out.space = dims(cls.space);
    const auto walked = std::count_if(cls.space.begin(), cls.space.end(),
                                      [](const Dim& dim) { return !(dim == Dim(1)); });
    if (out.row_axes == 0 && walked > 1) out.count = count_of(cls.space, dims);
    if (out.row_axes != 0)
      out.along =
          axes_of(cls.space, [&](size_t a) { return axes.has(a) && !(cls.space[a] == Dim(1)); });
    SymDims rows = cls.space;
    for (size_t a = 0; a < rows.size(); ++a)
      if (axes.has(a)) rows[a] = 1;
    out.rows = dims(rows);
  }
  if (cls.kind == FusionKind::kMap) {
    const IndexMap map = *index_map(graph, id);
    out.parts = static_cast<uint32_t>(map.parts.size());
    out.whole = !map.shifts.empty();
  }
  return out;
}

}  // namespace

Part Facts::part(uint32_t begin, uint32_t end, std::span<const std::vector<NodeId>> given,
                 const std::unordered_set<NodeId>& spared) {
  Part part;
  part.step_s = kStep;
  part.given_factor = kGivenFactor;
  part.max_nodes = options_.max_nodes;
  Interned dims;
  std::unordered_map<Hash128, int32_t, HashOfHash128> meanings;
  std::unordered_set<NodeId> in_given;
  for (const auto& nodes : given) {
    Bits group;
    for (NodeId n : nodes) {
      group |= Bits::of(position_[n] - begin);
      in_given.insert(n);
    }
    part.given.push_back(group);
  }
  std::unordered_map<ValueId, uint32_t> value_of;
  const auto value = [&](ValueId v) {
    const auto [it, fresh] = value_of.try_emplace(v, static_cast<uint32_t>(part.values.size()));
    if (fresh) {
      SearchValue out;
      out.move_s = seconds_to_move(v);
      out.outside = graph_.is_output(v);
      out.literal = is_literal(graph_.value(v));
      out.lies = lies(graph_, v);
      if (out.lies == Lies::kAcross && elements({graph_.value(v).type.dims->back()}) <= kNearLines)
        out.lies = Lies::kUnknown;
      const Type& type = graph_.value(v).type;
      const bool axes = graph_.value(v).is_constant() && is_integer(type.dtype);
      if (type.dims && !axes) out.count = count_of(*type.dims, dims);
      if (type.dims && !axes) {
        const uint32_t own = axes_of(*type.dims, [](size_t) { return true; });
        out.repeated =
            ~own | axes_of(*type.dims, [&](size_t a) { return (*type.dims)[a] == Dim(1); });
      }
      for (NodeId user : users_[v])
        out.outside = out.outside || position_[user] < begin || position_[user] >= end;
      part.values.push_back(out);
    }
    return it->second;
  };
  for (uint32_t i = 0; i < end - begin; ++i) {
    const NodeId id = graph_.order()[begin + i];
    const Node& node = graph_.node(id);
    SearchNode out;
    if (!spared.count(id)) out = described(graph_, id, of(id), dims);
    if (out.kind == SearchNode::Kind::kComposite)
      for (const FusionClass::Part& made : of(id).parts) {
        const auto next = static_cast<int32_t>(meanings.size());
        out.code_parts.emplace_back(meanings.emplace(made.meaning, next).first->second, made.code);
      }
    // A library's kernel that absorbs a function applies it on the way.
    out.free = node.op->view || in_place_.count(id) || (taken_.count(id) && node.op->scalar);
    if (out.kind != SearchNode::Kind::kFixed || in_given.count(id)) out.compute_s = compute_s(id);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      if (v == kNone) continue;
      const NodeId producer = graph_.value(v).producer;
      if (producer != kNone && position_[producer] >= begin) {
        out.producers |= Bits::of(position_[producer] - begin);
        part.nodes[position_[producer] - begin].users |= Bits::of(i);
      }
      const uint32_t index = value(v);
      if (part.values[index].readers.has(i)) continue;
      part.values[index].readers |= Bits::of(i);
      if (out.kind == SearchNode::Kind::kMap && is_picked_from(graph_, id, k))
        out.picked_s = std::min(part.values[index].move_s, seconds_to_move(node.outputs[0]));
      else
        out.reads.push_back(index);
    }
    for (ValueId v : node.outputs) {
      if (v == kNone) continue;
      const uint32_t index = value(v);
      part.values[index].makers = Bits::of(i);
      out.writes.push_back(index);
    }
    part.nodes.push_back(std::move(out));
  }
  return part;
}

bool Facts::may_fuse(NodeId producer, NodeId user) {
  if (position_[user] - position_[producer] >= kMaxPartNodes || !fusible(producer) ||
      !fusible(user))
    return false;
  // Not when another path between them leads over a node that stays a step.
  std::vector<std::pair<NodeId, bool>> stack{{user, false}};
  std::unordered_set<uint64_t> seen;
  while (!stack.empty()) {
    const auto [id, left] = stack.back();
    stack.pop_back();
    for (ValueId v : graph_.node(id).inputs) {
      const NodeId p = v == kNone ? kNone : graph_.value(v).producer;
      if (p == kNone || position_[p] < position_[producer]) continue;
      if (p == producer) {
        if (left) return false;
        continue;
      }
      const bool leaves = left || !fusible(p);
      if (seen.insert(uint64_t{p} * 2 + leaves).second) stack.emplace_back(p, leaves);
    }
  }
  return true;
}

uint32_t Facts::segment(NodeId id) const {
  return static_cast<uint32_t>(
      std::count_if(options_.barriers.begin(), options_.barriers.end(),
                    [&](NodeId barrier) { return position_[barrier] < position_[id]; }));
}

std::vector<uint32_t> Facts::cuts(std::span<const std::vector<NodeId>> given) {
  const auto count = static_cast<uint32_t>(graph_.order().size());
  // crossing[c]: groups that a cut in front of position c would break.
  std::vector<int64_t> crossing(count + 1, 0);
  const auto span = [&](uint32_t from, uint32_t to, int64_t weight) {
    crossing[from + 1] += weight;
    crossing[to + 1] -= weight;
  };
  for (NodeId id : graph_.order()) {
    for (ValueId v : graph_.node(id).inputs) {
      const NodeId producer = v == kNone ? kNone : graph_.value(v).producer;
      if (producer != kNone && may_fuse(producer, id)) span(position_[producer], position_[id], 1);
    }
  }
  for (const auto& nodes : given) {
    const auto [low, high] =
        std::minmax_element(nodes.begin(), nodes.end(),
                            [&](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    if (position_[*high] - position_[*low] < kMaxPartNodes)
      span(position_[*low], position_[*high], int64_t{1} << 20);
  }
  for (uint32_t c = 1; c <= count; ++c) crossing[c] += crossing[c - 1];
  std::vector<uint32_t> out{0};
  while (out.back() < count) {
    const uint32_t from = out.back();
    uint32_t end = count;
    for (NodeId barrier : options_.barriers)
      if (position_[barrier] >= from) end = std::min(end, position_[barrier] + 1);
    const uint32_t last = std::min(end, from + kMaxPartNodes);
    uint32_t best = last;
    int64_t least = last == end ? 0 : crossing[last];
    for (uint32_t c = from + 1; c <= last; ++c)
      if (crossing[c] == 0) {
        best = c;
        least = 0;
        break;
      }
    for (uint32_t c = last; least > 0 && c > from + kLeastPart; --c)
      if (crossing[c] < least) {
        best = c;
        least = crossing[c];
      }
    out.push_back(best);
  }
  return out;
}

}  // namespace xc::fusion

// What stands between Reshapes that join axes and others that take them apart again works on the
// axes apart: Reshape(MatMul(Reshape(x), Reshape(y))) becomes MatMul(x, y) where the outer one
// undoes what both inner ones do. (Attention written with batch and heads as one axis, but for the
// mask, which is added between two Reshapes; windows of images, which are an axis of their own only
// there.) Reshapes cost nothing by themselves, but fusion does not look through them.
//
// A whole region at a time: all that is reached from the operand of a Reshape that takes one axis
// apart, or the result of one that joins some, backwards and forwards, through operators that leave
// this axis as it is, to Reshapes that do the same to it. Where it ends at something else, that has
// to be another Reshape, which joins the axis, or takes it apart, besides.

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/region_rewriter.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// An axis of one side of a Reshape that is several of the other.
struct Joined {
  size_t axis = 0;
  SymDims parts = {};
  bool operator==(const Joined&) const = default;
};

/// `fine` has the parts of one axis of `coarse`.
std::optional<Joined> joined_axis(const SymDims& coarse, const SymDims& fine) {
  if (fine.size() <= coarse.size()) return std::nullopt;
  const size_t count = fine.size() - coarse.size() + 1;
  for (size_t axis = 0; axis < coarse.size(); ++axis) {
    const auto first = fine.begin() + static_cast<ptrdiff_t>(axis);
    Joined out{axis, SymDims(first, first + static_cast<ptrdiff_t>(count))};
    if (!(coarse[axis] == Dim(1)) && count_of(out.parts) == coarse[axis] &&
        std::equal(coarse.begin() + static_cast<ptrdiff_t>(axis) + 1, coarse.end(),
                   first + static_cast<ptrdiff_t>(count), fine.end()))
      return out;
    if (!(coarse[axis] == fine[axis])) break;
  }
  return std::nullopt;
}

class Canceller : private RegionRewriter {
 public:
  Canceller(Graph& graph, PassContext& context)
      : RegionRewriter(graph, context, "cancel-reshapes") {}

  bool run() {
    return sweep([&](NodeId id) {
      if (const auto region = region_of(id)) rewrite(*region);
    });
  }

 private:
  struct Region {
    Dim joined = {};
    SymDims parts = {};
    std::unordered_map<ValueId, size_t> axis = {};    ///< of each value, where the joined one lies
    std::unordered_map<ValueId, size_t> single = {};  ///< operands that have one element there
    std::vector<ValueId> apart = {};     ///< values from outside, for Reshapes to take apart
    std::vector<ValueId> together = {};  ///< those that Reshapes outside read
    std::vector<NodeId> entries = {}, nodes = {}, exits = {};
    std::unordered_set<NodeId> seen = {};  ///< nodes and exits
    bool consistent = true;                ///< one axis of each value

    size_t added() const { return parts.size() - 1; }
  };

  const SymDims* dims_of(ValueId value) const {
    if (value == kNone) return nullptr;
    const auto& dims = graph_.value(value).type.dims;
    return dims ? &*dims : nullptr;
  }

  // ---- Reshapes ---------------------------------------------------------------------------------

  /// The axis that the Reshape takes apart, and the one that it makes of several.
  std::optional<Joined> taken_apart(const Node& node) const {
    if (!is_reshape(node) || !always_fits(graph_, node)) return std::nullopt;
    return joined_axis(*dims_of(node.inputs[0]), *dims_of(node.outputs[0]));
  }
  std::optional<Joined> put_together(const Node& node) const {
    if (!is_reshape(node) || !always_fits(graph_, node)) return std::nullopt;
    return joined_axis(*dims_of(node.outputs[0]), *dims_of(node.inputs[0]));
  }
  /// Where axis `at` of `from` lies in `to`, which has the same elements; nullopt where it is not
  /// one of its axes.
  static std::optional<size_t> same_axis(const SymDims& from, size_t at, const SymDims& to) {
    const auto before = [](const SymDims& dims, size_t axis) {
      return count_of(SymDims(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(axis)));
    };
    const auto outer = before(from, at);
    for (size_t axis = 0; outer && axis < to.size(); ++axis)
      if (to[axis] == from[at] && before(to, axis) == outer) return axis;
    return std::nullopt;
  }

  // ---- where the axis lies in a node's operands and results -------------------------------------

  static bool is_softmax(const Node& node) {
    return is_op(node, "Softmax") || is_op(node, "LogSoftmax");
  }
  static bool is_norm(const Node& node) {
    return is_op(node, "LayerNormalization") || is_op(node, "RMSNormalization");
  }
  static bool keeps_axes(const Node& node) { return node.attrs.get_int("keepdims", 1) != 0; }

  /// The axes that a node of one operand works along; nullopt where they are not known.
  std::optional<std::vector<size_t>> axes_of(const Node& node, size_t rank) const {
    std::vector<int64_t> given;
    if (is_softmax(node)) {
      given = {node.attrs.get_int("axis", -1)};
    } else if (is_op(node, "Concat") || is_op(node, "Split") || is_op(node, "Gather")) {
      given = {node.attrs.get_int("axis", 0)};
    } else if (is_norm(node)) {
      const size_t first = normalise_axis(node.attrs.get_int("axis", -1), rank);
      for (size_t axis = first; axis < rank; ++axis) given.push_back(static_cast<int64_t>(axis));
    } else if (is_reduction(node) || is_op(node, "Slice")) {
      const ValueId axes = input_of(node, is_op(node, "Slice") ? 3 : 1);
      const auto known = axes == kNone ? std::nullopt : known_integers(graph_.value(axes));
      if (!known) return std::nullopt;
      given = *known;
    } else {
      return std::nullopt;
    }
    std::vector<size_t> out;
    for (const int64_t axis : given) out.push_back(normalise_axis(axis, rank));
    return out;
  }

  bool is_product_of_matrices(const Node& node) const {
    const SymDims *left = dims_of(input_of(node, 0)), *right = dims_of(input_of(node, 1));
    return is_op(node, "MatMul") && left && right && left->size() >= 2 && right->size() >= 2;
  }

  /// The axis of a result, of the axis of operand k.
  std::optional<size_t> forwards(const Node& node, size_t k, size_t axis) const {
    const size_t rank = dims_of(node.inputs[k])->size();
    const SymDims* out = dims_of(node.outputs[0]);
    if (!out) return std::nullopt;
    if (node.op->scalar || is_product_of_matrices(node)) return out->size() - (rank - axis);
    if (is_op(node, "Concat")) return axis;
    if (k != 0) return std::nullopt;
    if (const auto perm = is_op(node, "Transpose") ? known_permutation(graph_, node) : std::nullopt)
      return static_cast<size_t>(std::find(perm->begin(), perm->end(), axis) - perm->begin());
    if (is_reshape(node))
      return always_fits(graph_, node) ? same_axis(*dims_of(node.inputs[0]), axis, *out)
                                       : std::nullopt;
    const auto axes = axes_of(node, rank);
    if (!axes) return std::nullopt;
    const auto smaller = static_cast<size_t>(
        std::count_if(axes->begin(), axes->end(), [&](size_t a) { return a < axis; }));
    if (is_reduction(node)) return keeps_axes(node) ? axis : axis - smaller;
    if (is_op(node, "Gather")) {
      const auto index = rank_of(graph_, node.inputs[1]);
      return index ? std::optional(smaller ? axis - 1 + *index : axis) : std::nullopt;
    }
    return axis;
  }

  /// Where the axis lies in an operand.
  struct Place {
    enum class Kind : uint8_t { kApart, kSingle, kUntouched } kind = Kind::kUntouched;
    size_t axis = 0;
  };

  /// Of operand k, where the results have it at `axis`; nullopt where the node does more with it.
  std::optional<Place> backwards(const Region& region, const Node& node, size_t k,
                                 size_t axis) const {
    using Kind = Place::Kind;
    const SymDims *in = dims_of(node.inputs[k]), *out = dims_of(node.outputs[0]);
    if (!in) return std::nullopt;
    if (node.op->scalar || is_product_of_matrices(node)) {
      const size_t behind = out->size() - axis;
      if (!node.op->scalar && behind <= 2) {
        // Rows of the left side, where the right side has no axes but its own two.
        if (behind == 1 || dims_of(node.inputs[1])->size() != 2) return std::nullopt;
        if (k == 1) return Place{};
      }
      if (in->size() < behind) return Place{};
      const size_t at = in->size() - behind;
      if ((*in)[at] == region.joined) return Place{Kind::kApart, at};
      return (*in)[at] == Dim(1) ? std::optional(Place{Kind::kSingle, at}) : std::nullopt;
    }
    if (k != 0 && !is_op(node, "Concat")) return Place{};
    for (size_t at = 0; at < in->size(); ++at)
      if ((*in)[at] == region.joined && forwards(node, k, at) == axis) {
        const auto axes = axes_of(node, in->size());
        if (axes && std::find(axes->begin(), axes->end(), at) != axes->end()) return std::nullopt;
        return Place{Kind::kApart, at};
      }
    return std::nullopt;
  }

  // ---- the region -------------------------------------------------------------------------------

  std::optional<Region> region_of(NodeId id) const {
    const Node& first = graph_.node(id);
    if (taken_[id] || !is_op(first, "Reshape")) return std::nullopt;
    const ValueId in = first.inputs[0], out_value = first.outputs[0];
    std::vector<ValueId> open;
    Region out;
    if (const auto apart = taken_apart(first)) {
      out.joined = (*dims_of(in))[apart->axis];
      out.parts = apart->parts;
      open_value(out, in, apart->axis, open);
    } else if (const auto together = put_together(first)) {
      out.joined = (*dims_of(out_value))[together->axis];
      out.parts = together->parts;
      out.axis.emplace(out_value, together->axis);
      out.entries.push_back(id);
      if (!look_ahead(out, out_value, open)) return std::nullopt;
    }
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      switch (look_back(out, value, open)) {
        case Origin::kNone:
          return std::nullopt;
        case Origin::kOutside:
          break;
        case Origin::kRegion:
          if (!look_ahead(out, value, open)) return std::nullopt;
      }
    }
    if (out.nodes.empty() || out.exits.size() + out.entries.size() < 2 || !is_closed(out))
      return std::nullopt;
    sort(out.nodes);
    return out;
  }

  bool open_value(Region& region, ValueId value, size_t axis, std::vector<ValueId>& open) const {
    const auto [it, added] = region.axis.emplace(value, axis);
    if (added) open.push_back(value);
    return it->second == axis;
  }

  /// Is it a Reshape's result, or there from the start? Another Reshape of it costs nothing.
  bool is_free(ValueId value) const {
    const NodeId maker = graph_.value(value).producer;
    return maker == kNone || is_reshape(graph_.node(maker));
  }

  enum class Origin : uint8_t { kNone, kOutside, kRegion };

  /// Finds what a value of the region comes from.
  Origin look_back(Region& region, ValueId value, std::vector<ValueId>& open) const {
    const size_t axis = region.axis.at(value);
    const NodeId maker = graph_.value(value).producer;
    if (maker != kNone && !taken_[maker]) {
      if (region.seen.count(maker)) return Origin::kRegion;
      if (put_together(graph_.node(maker)) == Joined{axis, region.parts}) {
        region.entries.push_back(maker);
        return Origin::kOutside;
      }
      if (add(region, maker, axis, open)) return Origin::kRegion;
    }
    region.apart.push_back(value);
    return is_free(value) ? Origin::kOutside : Origin::kNone;
  }

  /// All that read a value of the region have to follow, or read it behind a Reshape that there is.
  bool look_ahead(Region& region, ValueId value, std::vector<ValueId>& open) const {
    const size_t axis = region.axis.at(value);
    if (graph_.is_output(value) || users_[value].size() > kMostNodes) return false;
    bool others = false;
    for (const NodeId user : users_[value]) {
      if (region.seen.count(user)) continue;
      const Node& node = graph_.node(user);
      if (!taken_[user] && taken_apart(node) == Joined{axis, region.parts}) {
        region.seen.insert(user);
        region.exits.push_back(user);
        continue;
      }
      const auto operand = std::find(node.inputs.begin(), node.inputs.end(), value);
      const auto behind =
          taken_[user] || node.op->control_flow
              ? std::nullopt
              : forwards(node, static_cast<size_t>(operand - node.inputs.begin()), axis);
      if (behind && add(region, user, *behind, open)) continue;
      if (!is_reshape(node)) return false;
      others = true;
    }
    if (others) region.together.push_back(value);
    return true;
  }

  /// Takes a node in, whose results have the axis at `axis`, where it leaves that as it is.
  bool add(Region& region, NodeId id, size_t axis, std::vector<ValueId>& open) const {
    const Node& node = graph_.node(id);
    if (node.op->control_flow || node.op->random || region.nodes.size() == kMostNodes) return false;
    for (const ValueId v : node.outputs) {
      const SymDims* dims = dims_of(v);
      if (v == kNone || !dims || axis >= dims->size() || !((*dims)[axis] == region.joined))
        return false;
    }
    std::vector<std::pair<ValueId, Place>> places;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] == kNone) continue;
      const auto place = backwards(region, node, k, axis);
      if (!place || (place->kind == Place::Kind::kSingle && !is_free(node.inputs[k]))) return false;
      places.emplace_back(node.inputs[k], *place);
    }
    region.seen.insert(id);
    region.nodes.push_back(id);
    for (const ValueId v : node.outputs) region.consistent &= open_value(region, v, axis, open);
    for (const auto& [value, place] : places) {
      if (place.kind == Place::Kind::kApart)
        region.consistent &= open_value(region, value, place.axis, open);
      if (place.kind == Place::Kind::kSingle)
        region.consistent &= region.single.emplace(value, place.axis).first->second == place.axis;
    }
    return true;
  }

  /// Are there shapes for all Reshapes that it needs, and does no node read as it was what is taken
  /// apart?
  bool is_closed(const Region& region) const {
    if (!region.consistent) return false;
    // Where parts are 1, the joined axis is also the other part, kept: a Reshape can be an entry by
    // what follows it and a node by what it reads, which could not both stay and come apart.
    for (const NodeId id : region.entries)
      if (region.seen.count(id)) return false;
    for (const auto& [value, axis] : region.single)
      if (!shape_with_ones(region, value, axis)) return false;
    for (const ValueId v : region.apart)
      if (!shape_between(*dims_of(v), apart_dims(region, v))) return false;
    for (const ValueId v : region.together)
      if (!shape_between(apart_dims(region, v), *dims_of(v))) return false;
    for (const NodeId id : region.nodes) {
      const Node& node = graph_.node(id);
      const size_t axis = region.axis.at(node.outputs[0]);
      if (is_reshape(node) && !inner_shape(region, node)) return false;
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (node.inputs[k] != kNone && region.axis.count(node.inputs[k]) > 0 &&
            backwards(region, node, k, axis)->kind != Place::Kind::kApart)
          return false;
    }
    return true;
  }

  /// The dims of a value of the region with the axis apart.
  SymDims apart_dims(const Region& region, ValueId value) const {
    const SymDims& dims = *dims_of(value);
    const auto axis = dims.begin() + static_cast<ptrdiff_t>(region.axis.at(value));
    SymDims out(dims.begin(), axis);
    out.insert(out.end(), region.parts.begin(), region.parts.end());
    out.insert(out.end(), axis + 1, dims.end());
    return out;
  }

  /// Of a value that has one element along the axis: one along each part.
  std::optional<std::vector<int64_t>> shape_with_ones(const Region& region, ValueId value,
                                                      size_t axis) const {
    SymDims dims = *dims_of(value);
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), region.added(), Dim(1));
    return shape_between(*dims_of(value), dims);
  }

  /// Of a Reshape to which the axis is one like any.
  std::optional<std::vector<int64_t>> inner_shape(const Region& region, const Node& node) const {
    return shape_between(apart_dims(region, node.inputs[0]), apart_dims(region, node.outputs[0]));
  }

  // ---- rewriting --------------------------------------------------------------------------------

  ValueId reshaped(ValueId value, const std::vector<int64_t>& shape) {
    Node node{.op = find_op("Reshape"),
              .inputs = {value, patch_.add_constant("shape", Tensor::of<int64_t>(shape))}};
    return add_typed(graph_, patch_, std::move(node), 1)[0];
  }

  /// An axis of a value whose axis `joined` comes apart; of that the first part.
  static int64_t moved(size_t axis, size_t joined, const Region& region) {
    return static_cast<int64_t>(axis <= joined ? axis : axis + region.added());
  }

  void move_axes(const Region& region, const Node& old, Node& node) {
    const ValueId in = old.inputs[0];
    const auto known = region.axis.find(in);
    if (known == region.axis.end()) return;
    const size_t joined = known->second, rank = dims_of(in)->size();
    if (const auto before =
            is_op(old, "Transpose") ? known_permutation(graph_, old) : std::nullopt) {
      std::vector<int64_t> perm;
      for (const size_t from : *before) {
        perm.push_back(moved(from, joined, region));
        for (size_t k = 1; from == joined && k <= region.added(); ++k)
          perm.push_back(static_cast<int64_t>(joined + k));
      }
      node.attrs.set("perm", perm);
    } else if (is_reshape(old)) {
      node.op = find_op("Reshape");
      node.inputs = {in,
                     patch_.add_constant("shape", Tensor::of<int64_t>(*inner_shape(region, old)))};
      node.attrs = {};
    } else if (const auto axes = axes_of(old, rank)) {
      std::vector<int64_t> now;
      for (const size_t axis : *axes) now.push_back(moved(axis, joined, region));
      if (is_reduction(old) || is_op(old, "Slice"))
        node.inputs[is_reduction(old) ? 1 : 3] =
            patch_.add_constant("axes", Tensor::of<int64_t>(now));
      else
        node.attrs.set("axis", now.front());
    }
  }

  void rewrite(const Region& region) {
    std::unordered_map<ValueId, ValueId> now, ones;
    for (const NodeId id : region.entries)
      now.emplace(graph_.node(id).outputs[0], graph_.node(id).inputs[0]);
    for (const ValueId v : region.apart)
      now.emplace(v, reshaped(v, *shape_between(*dims_of(v), apart_dims(region, v))));
    for (const auto& [v, axis] : region.single)
      ones.emplace(v, reshaped(v, *shape_with_ones(region, v, axis)));
    for (const NodeId id : region.nodes) {
      const Node old = graph_.node(id);
      Node node = old;
      move_axes(region, old, node);
      for (size_t k = 0; k < old.inputs.size(); ++k) {
        const ValueId in = old.inputs[k];
        if (const auto apart = now.find(in); apart != now.end())
          node.inputs[k] = apart->second;
        else if (in != kNone && ones.count(in) > 0 &&
                 backwards(region, old, k, region.axis.at(old.outputs[0]))->kind ==
                     Place::Kind::kSingle)
          node.inputs[k] = ones.at(in);
      }
      node.outputs.clear();
      const auto made =
          add_typed(graph_, patch_, std::move(node), static_cast<uint32_t>(old.outputs.size()));
      for (size_t k = 0; k < old.outputs.size(); ++k) now.emplace(old.outputs[k], made[k]);
    }
    for (const ValueId v : region.together)
      patch_.replace(v, reshaped(now.at(v), *shape_between(apart_dims(region, v), *dims_of(v))));
    for (const NodeId id : region.exits) {
      const ValueId old = graph_.node(id).outputs[0], value = now.at(graph_.node(id).inputs[0]);
      patch_.replace(old, patch_.can_replace(old, value)
                              ? value
                              : add_copy(graph_, patch_, value, graph_.value(old).name));
    }
    replaced({region.exits, region.nodes});
  }
};

}  // namespace

bool cancel_reshapes(Graph& graph, PassContext& context) {
  return Canceller(graph, context).run();
}

}  // namespace xc

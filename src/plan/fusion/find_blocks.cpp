#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "loop/kernel.h"
#include "ops/is_op.h"
#include "ops/op.h"
#include "plan/fusion/blocks.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/convex.h"
#include "plan/fusion/search.h"

namespace xc {
namespace {

constexpr int64_t kFewRows = 16;              // known to be fewer: lanes would stay empty
constexpr int64_t kSmallConstant = 64 << 10;  // elements: larger weights are packed by the library
constexpr int64_t kStagedWidth = 512;         // columns of rows that are brought into lanes
constexpr int64_t kColumnWidth = 4096;        // of a column product, its partial result per task
constexpr size_t kMostProducts = 6;           // of a region: 2 to 4 ms of compiling each

/// Types whose products the lowering adds up: halves in f32.
bool is_product_type(DType type) {
  const DType sums = loop::value_type(type);
  return sums == DType::kF32 || sums == DType::kF64;
}

bool is_float_matmul(const Graph& graph, const Node& node) {
  if (!is_op(node, "MatMul")) return false;
  const DType sums = loop::value_type(graph.value(node.outputs[0]).type.dtype);
  for (ValueId v : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
    const Type& type = graph.value(v).type;
    if (!is_product_type(type.dtype) || loop::value_type(type.dtype) != sums || !type.dims ||
        type.dims->size() < 2)
      return false;
  }
  return true;
}

}  // namespace

bool is_widening_cast(const Graph& graph, const Node& node) {
  if (!is_op(node, "Cast")) return false;
  const DType from = graph.value(node.inputs[0]).type.dtype;
  return loop::value_type(from) != from &&
         graph.value(node.outputs[0]).type.dtype == loop::value_type(from);
}

namespace {

/// Transpose of the last two axes.
bool is_swap(const Graph& graph, const Node& node) {
  if (node.op->name != "Transpose" || !graph.value(node.inputs[0]).type.dims) return false;
  const auto rank = static_cast<int64_t>(graph.value(node.inputs[0]).type.dims->size());
  if (rank < 2) return false;
  const std::vector<int64_t> perm = node.attrs.get_ints("perm");
  for (int64_t a = 0; a < rank; ++a) {
    const int64_t from = perm.empty() ? rank - 1 - a : perm[static_cast<size_t>(a)];
    if (from != (a == rank - 1 ? rank - 2 : a == rank - 2 ? rank - 1 : a)) return false;
  }
  return true;
}

class BlockFinder {
 public:
  BlockFinder(const Graph& graph, const FusionOptions& options)
      : graph_(graph), options_(options), users_(graph.users()), position_(graph.node_count(), 0) {
    for (uint32_t k = 0; k < graph.order().size(); ++k) position_[graph.order()[k]] = k;
  }

  std::vector<Region> run() {
    // From the last product upwards, so that a chain of products becomes one region.
    for (auto it = graph_.order().rbegin(); it != graph_.order().rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (!free(*it) || !is_float_matmul(graph_, node)) continue;
      const SymDims& out = *graph_.value(node.outputs[0]).type.dims;
      RowSpace rows{{out.begin(), out.end() - 2}, out[out.size() - 2]};
      const SymDims& right = *graph_.value(node.inputs[1]).type.dims;
      // t(U) W: the rows are those of W.
      RowSpace columns{{}, right[right.size() - 2]};
      const bool tried = out.size() == 2 && role_of(*it, columns) == BlockRole::kColumnProduct;
      if (!(tried && grow(*it, std::move(columns)))) grow(*it, std::move(rows));
    }
    std::reverse(regions_.begin(), regions_.end());
    return std::move(regions_);
  }

 private:
  BlockRole role_of(NodeId id, const RowSpace& space) const {
    auto [it, fresh] = classes_.try_emplace(id);
    if (fresh) it->second = classify(graph_, id);
    return block_role(graph_, id, space, it->second);
  }

  bool free(NodeId id) const { return !used_.count(id); }

  bool grow(NodeId root, RowSpace space) {
    if (space.rows.is_constant() && space.rows.value() < kFewRows) return false;
    space_ = std::move(space);
    refused_.clear();
    // A product that turns out not to fit becomes an operand, and the rest is looked at again.
    for (;;) {
      inside_.clear();
      products_ = 0;
      code_ = 0;
      if (!include(root)) return false;
      add_sinks();
      const std::unordered_set<NodeId> misfits = find_misfits();
      if (misfits.empty()) break;
      if (misfits.count(root)) return false;
      refused_.insert(misfits.begin(), misfits.end());
    }
    const auto row_products = std::count_if(inside_.begin(), inside_.end(), [&](NodeId n) {
      return role_of(n, space_) == BlockRole::kRowProduct;
    });
    if (products_ < 2 || row_products == 0 || !closed()) return false;
    add_loads();
    const std::vector<NodeId> all(inside_.begin(), inside_.end());
    if (!is_convex(graph_, position_, inside_, all) || !fits_kernel(all)) return false;
    Region region;
    region.nodes = all;
    std::sort(region.nodes.begin(), region.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    region.space = space_.batch;
    region.space.push_back(space_.rows);
    region.blocks = true;
    used_.insert(all.begin(), all.end());
    regions_.push_back(std::move(region));
    return true;
  }

  /// Are its operands as few as a kernel may have?
  bool fits_kernel(const std::vector<NodeId>& nodes) const {
    const std::vector<ValueId> read = external_inputs(graph_, nodes);
    const auto literals = std::count_if(read.begin(), read.end(),
                                        [&](ValueId v) { return is_literal(graph_.value(v)); });
    return read.size() - static_cast<size_t>(literals) +
               external_outputs(graph_, nodes, users_).size() <=
           loop::kMaxBuffers;
  }

  bool is_rows(ValueId v) const {
    return v != kNone && graph_.value(v).type.dims && space_.width(*graph_.value(v).type.dims);
  }

  static bool is_product(BlockRole role) {
    return role == BlockRole::kRowProduct || role == BlockRole::kColumnProduct;
  }

  /// Could it be part of the region, whatever else is?
  bool may_join(NodeId id) const {
    if (!free(id) || refused_.count(id)) return false;
    const Node& node = graph_.node(id);
    switch (role_of(id, space_)) {
      case BlockRole::kNone:
      case BlockRole::kColumnSum:
        return false;
      case BlockRole::kSwap:
        // Only as the left side of column products: it is not a value of its own then.
        return !graph_.is_output(node.outputs[0]) &&
               std::all_of(users_[node.outputs[0]].begin(), users_[node.outputs[0]].end(),
                           [&](NodeId user) {
                             return role_of(user, space_) == BlockRole::kColumnProduct &&
                                    graph_.node(user).inputs[0] == node.outputs[0];
                           });
      case BlockRole::kRowProduct:
        return !is_large_constant(node.inputs[1]);
      case BlockRole::kColumnProduct:
        return may_join(graph_.value(node.inputs[0]).producer);
      case BlockRole::kRowwise:
        return true;
    }
    return false;
  }

  /// Takes a node in and, from the last upwards, what it is computed from. Where the region has as
  /// much as it may have, all that is further up stays outside: nothing leaves it and comes back.
  bool include(NodeId id) {
    const auto earlier = [&](NodeId a, NodeId b) { return position_[a] < position_[b]; };
    std::priority_queue<NodeId, std::vector<NodeId>, decltype(earlier)> open(earlier);
    for (open.push(id); !open.empty();) {
      const NodeId next = open.top();
      open.pop();
      if (inside_.count(next) || !may_join(next)) continue;
      if (!has_room_for(next)) break;
      add(next);
      const Node& node = graph_.node(next);
      const BlockRole role = role_of(next, space_);
      if (role == BlockRole::kColumnProduct) {  // nothing without its left side
        const NodeId swap = graph_.value(node.inputs[0]).producer;
        if (!inside_.count(swap)) add(swap);
        offer_rows(graph_.node(swap).inputs[0], open);
      } else {
        offer_rows(node.inputs[0], open);
      }
      // The second factor of a row product is the matrix that all rows share.
      for (size_t k = 1; k < node.inputs.size() && role != BlockRole::kRowProduct; ++k)
        offer_rows(node.inputs[k], open);
    }
    return inside_.count(id) > 0;
  }

  template <class Queue>
  void offer_rows(ValueId v, Queue& open) const {
    if (!is_rows(v) || graph_.value(v).producer == kNone) return;
    const NodeId producer = graph_.value(v).producer;
    if (!is_widening_cast(graph_, graph_.node(producer)) &&
        role_of(producer, space_) != BlockRole::kSwap)
      open.push(producer);
  }

  bool has_room_for(NodeId id) const {
    return inside_.size() < static_cast<size_t>(options_.max_nodes) &&
           (!is_product(role_of(id, space_)) || products_ < kMostProducts) &&
           code_ + code_of(id) <= fusion::kMostCode;
  }

  double code_of(NodeId id) const {
    return is_product(role_of(id, space_)) ? 0 : classes_.at(id).code;
  }

  void add(NodeId id) {
    inside_.insert(id);
    products_ += is_product(role_of(id, space_)) ? 1 : 0;
    code_ += code_of(id);
  }

  /// Column products and sums of what the region computes join it; a Cast of a result on its way
  /// out too.
  void add_sinks() {
    const std::vector<NodeId> now(inside_.begin(), inside_.end());
    for (NodeId n : now)
      for (ValueId v : graph_.node(n).outputs) {
        if (!is_rows(v)) continue;
        for (NodeId user : users_[v]) {
          if (!free(user) || refused_.count(user)) continue;
          const BlockRole role = role_of(user, space_);
          const bool cast =
              graph_.node(user).op->name == "Cast" && graph_.only_user(users_, v) != kNone;
          if ((role == BlockRole::kColumnSum && narrow(v)) ||
              (role == BlockRole::kRowwise && cast)) {
            if (!inside_.count(user) && has_room_for(user)) add(user);
          } else if (role == BlockRole::kColumnProduct) {
            include(user);
          } else if (role == BlockRole::kSwap) {
            for (NodeId product : users_[graph_.node(user).outputs[0]]) include(product);
          }
        }
      }
  }

  /// Operands that are widened for the region alone are read as they lie.
  void add_loads() {
    const std::vector<NodeId> now(inside_.begin(), inside_.end());
    for (NodeId n : now)
      for (ValueId v : graph_.node(n).inputs) {
        if (v == kNone || computed(v) || graph_.value(v).producer == kNone || graph_.is_output(v))
          continue;
        const NodeId cast = graph_.value(v).producer;
        if (free(cast) && is_widening_cast(graph_, graph_.node(cast)) &&
            std::all_of(users_[v].begin(), users_[v].end(),
                        [&](NodeId user) { return inside_.count(user) > 0; }))
          inside_.insert(cast);
      }
  }

  bool is_large_constant(ValueId v) const {
    const Value& value = graph_.value(v);
    return value.is_constant() && value.constant.count() > kSmallConstant;
  }
  bool narrow(ValueId v) const { return is_narrow(graph_.value(v).type.dims->back()); }
  bool computed(ValueId v) const {
    const NodeId p = graph_.value(v).producer;
    return p != kNone && inside_.count(p);
  }

  /// Products of the set that the lowering has no form for, but those that may fit once another of
  /// these is an operand.
  std::unordered_set<NodeId> find_misfits() const {
    std::unordered_set<NodeId> misfits;
    for (NodeId n : inside_) {
      const Node& node = graph_.node(n);
      const BlockRole role = role_of(n, space_);
      if ((role == BlockRole::kRowProduct && !row_product_fits(node)) ||
          (role == BlockRole::kColumnProduct && !column_product_fits(node)))
        misfits.insert(n);
    }
    const std::unordered_set<NodeId> all = misfits;
    std::erase_if(misfits, [&](NodeId n) {
      return std::any_of(graph_.node(n).inputs.begin(), graph_.node(n).inputs.end(),
                         [&](ValueId v) {
                           return v != kNone && graph_.value(v).producer != kNone &&
                                  all.count(graph_.value(v).producer);
                         });
    });
    return misfits;
  }

  bool row_product_fits(const Node& node) const {
    if (computed(node.inputs[1])) return false;
    if (computed(node.inputs[0])) return true;
    const Dim& depth = graph_.value(node.inputs[0]).type.dims->back();
    if (!depth.is_constant()) return false;
    return narrow(node.outputs[0]) || depth.value() <= kStagedWidth;
  }

  /// One side is narrow, the other read from memory.
  bool column_product_fits(const Node& node) const {
    const ValueId swapped = node.inputs[0], right = node.inputs[1];
    const ValueId left = graph_.node(graph_.value(swapped).producer).inputs[0];
    const auto wide = [&](ValueId v) {
      const Dim& width = graph_.value(v).type.dims->back();
      return !computed(v) && width.is_constant() && width.value() <= kColumnWidth;
    };
    return (narrow(left) && wide(right)) || (narrow(right) && wide(left));
  }

  /// Values that are no rows do not go from node to node inside.
  bool closed() const {
    for (NodeId n : inside_) {
      const Node& node = graph_.node(n);
      const BlockRole role = role_of(n, space_);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNone || !computed(v)) continue;
        const bool swapped = role == BlockRole::kColumnProduct && k == 0;
        const BlockRole from = role_of(graph_.value(v).producer, space_);
        if (swapped ? from != BlockRole::kSwap
                    : !is_rows(v) || from == BlockRole::kSwap || from == BlockRole::kColumnSum ||
                          from == BlockRole::kColumnProduct)
          return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const FusionOptions& options_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<uint32_t> position_;
  RowSpace space_;
  std::unordered_set<NodeId> inside_, refused_, used_;
  size_t products_ = 0;  ///< inside
  double code_ = 0;      ///< of all but the products inside
  std::vector<Region> regions_;
  mutable std::unordered_map<NodeId, FusionClass> classes_;  // asked for more than once
};

}  // namespace

std::optional<Dim> RowSpace::width(const SymDims& dims) const {
  if (dims.size() != batch.size() + 2 || !std::equal(batch.begin(), batch.end(), dims.begin()) ||
      !(dims[batch.size()] == rows))
    return std::nullopt;
  return dims.back();
}

bool RowSpace::reads(const SymDims& dims, const Dim& width) const {
  SymDims space = batch;
  space.push_back(rows);
  space.push_back(width);
  if (dims.size() > space.size()) return false;
  const size_t lead = space.size() - dims.size();
  for (size_t a = 0; a < dims.size(); ++a)
    if (!(dims[a] == Dim(1)) && !(dims[a] == space[a + lead])) return false;
  return true;
}

BlockRole block_role(const Graph& graph, NodeId id, const RowSpace& space, const FusionClass& cls) {
  const Node& node = graph.node(id);
  const auto dims = [&](ValueId v) -> const SymDims* {
    return v != kNone && graph.value(v).type.dims ? &*graph.value(v).type.dims : nullptr;
  };
  if (node.outputs.empty() || !dims(node.outputs[0])) return BlockRole::kNone;
  const SymDims& out = *dims(node.outputs[0]);
  if (is_swap(graph, node))
    return space.width(*dims(node.inputs[0])) ? BlockRole::kSwap : BlockRole::kNone;
  if (is_float_matmul(graph, node)) {
    const SymDims &a = *dims(node.inputs[0]), &b = *dims(node.inputs[1]);
    if (space.width(a) && space.width(out) &&
        RowSpace{space.batch, b[b.size() - 2]}.reads(b, b.back()))
      return BlockRole::kRowProduct;
    const NodeId left = graph.value(node.inputs[0]).producer;
    const bool swapped = left != kNone && is_swap(graph, graph.node(left)) &&
                         space.width(*dims(graph.node(left).inputs[0]));
    if (space.batch.empty() && swapped && space.width(b)) return BlockRole::kColumnProduct;
    return BlockRole::kNone;
  }
  if (cls.kind == FusionKind::kScalar) {
    const auto width = space.width(out);
    if (!width) return BlockRole::kNone;
    for (ValueId v : node.inputs)
      if (v != kNone && !space.reads(*dims(v), *width)) return BlockRole::kNone;
    return BlockRole::kRowwise;
  }
  if ((cls.kind == FusionKind::kComposite || cls.kind == FusionKind::kReduction) &&
      cls.row_axes.trailing(cls.space))
    return cls.row_axes.count == 1 && cls.keepdims && space.width(cls.space) ? BlockRole::kRowwise
                                                                             : BlockRole::kNone;
  // A sum over the rows themselves.
  if (node.op->name != "ReduceSum" || !space.batch.empty() || node.inputs.size() < 2 ||
      node.inputs[1] == kNone || !graph.value(node.inputs[1]).is_constant() ||
      !is_product_type(graph.value(node.inputs[0]).type.dtype) ||
      !space.width(*dims(node.inputs[0])))
    return BlockRole::kNone;
  const std::vector<int64_t> axes = graph.value(node.inputs[1]).constant.to_int64s();
  return axes.size() == 1 && (axes[0] == 0 || axes[0] == -2) ? BlockRole::kColumnSum
                                                             : BlockRole::kNone;
}

std::vector<Region> find_blocks(const Graph& graph, const FusionOptions& options) {
  return BlockFinder(graph, options).run();
}

}  // namespace xc

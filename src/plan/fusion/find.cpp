// Finding regions: nodes are taken in execution order and join the regions of their producers as
// long as iteration spaces agree and the union stays convex.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/fingerprint.h"
#include "ops/op.h"
#include "plan/fusion/blocks.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/convex.h"
#include "plan/fusion/region.h"

namespace xc {
namespace {

constexpr uint32_t kNoRegion = UINT32_MAX;

struct Draft {
  SymDims space;
  int row_axes = 0;  // 0 = not determined: elementwise so far
  bool aggregate = false;
  bool blocks = false;  // of the row-block template: complete
  std::vector<NodeId> nodes;
  bool alive = true;
};

class Finder {
 public:
  Finder(const Graph& graph, const FusionOptions& options)
      : graph_(graph),
        options_(options),
        region_of_(graph.node_count(), kNoRegion),
        position_(graph.node_count(), 0),
        users_(graph.users()) {
    for (uint32_t k = 0; k < graph.order().size(); ++k) position_[graph.order()[k]] = k;
    for (NodeId n : options.taken) taken_.insert(n);
  }

  std::vector<Region> run() {
    if (options_.blocks && options_.numerics != Numerics::kStrict) place_blocks();
    for (NodeId id : graph_.order()) place(id);
    merge_aggregates();
    for (Draft& draft : drafts_) {
      if (draft.blocks) continue;
      double compute = 0;
      for (NodeId n : draft.nodes) compute += classes_.at(n).kind == FusionKind::kComposite ? 2 : 1;
      if (compute < 2) draft.alive = false;
    }
    drop_cycles();
    std::vector<Region> out;
    for (Draft& draft : drafts_)
      if (draft.alive) out.push_back(finish(draft));
    std::stable_sort(out.begin(), out.end(), [](const Region& a, const Region& b) {
      return a.nodes.size() > b.nodes.size();
    });
    return out;
  }

 private:
  void place_blocks() {
    for (Region& region : find_blocks(graph_, options_)) {
      Draft draft;
      draft.space = std::move(region.space);
      draft.nodes = std::move(region.nodes);
      draft.blocks = true;
      for (NodeId n : draft.nodes) region_of_[n] = static_cast<uint32_t>(drafts_.size());
      drafts_.push_back(std::move(draft));
    }
  }

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    if (taken_.count(id) || region_of_[id] != kNoRegion) return;
    FusionClass cls = classify(graph_, id);
    if (cls.kind == FusionKind::kNone) return;
    const SymDims& result = *graph_.value(node.outputs[0]).type.dims;
    const bool whole =
        cls.kind == FusionKind::kReduction && cls.row_axes == static_cast<int>(cls.space.size());
    if (cls.kind == FusionKind::kReduction && !options_.row && !whole) return;
    if (cls.kind == FusionKind::kComposite && !options_.row) return;
    Draft alone;
    alone.nodes = {id};
    alone.space = cls.kind == FusionKind::kScalar ? result : cls.space;
    alone.row_axes = whole ? 0 : cls.row_axes;
    alone.aggregate = whole;
    classes_.emplace(id, cls);

    // Producers' regions this node could join, nearest first.
    std::vector<uint32_t> candidates;
    for (ValueId v : node.inputs) {
      if (v == kNone || graph_.value(v).producer == kNone) continue;
      const uint32_t r = region_of_[graph_.value(v).producer];
      if (r != kNoRegion && !drafts_[r].blocks &&
          std::find(candidates.begin(), candidates.end(), r) == candidates.end())
        candidates.push_back(r);
    }
    uint32_t home = kNoRegion;
    for (uint32_t r : candidates) {
      if (home == kNoRegion) {
        if (reads_reduced(id, r, r) || !joins(drafts_[r], alone, result)) continue;
        if (!convex({&drafts_[r].nodes}, id)) continue;
        absorb(drafts_[r], alone);
        home = r;
        region_of_[id] = home;
      } else if (agree(drafts_[home], drafts_[r]) && !union_reads_reduced(home, r, id) &&
                 drafts_[home].nodes.size() + drafts_[r].nodes.size() <= limit() &&
                 convex({&drafts_[home].nodes, &drafts_[r].nodes}, id)) {
        for (NodeId n : drafts_[r].nodes) region_of_[n] = home;
        absorb(drafts_[home], drafts_[r]);
        drafts_[r].alive = false;
      }
    }
    if (home != kNoRegion) return;
    region_of_[id] = static_cast<uint32_t>(drafts_.size());
    drafts_.push_back(std::move(alone));
  }

  size_t limit() const { return static_cast<size_t>(options_.max_nodes); }

  static SymDims row_dims(const SymDims& space, int row_axes) {
    SymDims out = space;
    for (size_t k = out.size() - static_cast<size_t>(row_axes); k < out.size(); ++k) out[k] = 1;
    return out;
  }

  /// What has been reduced away, or reduced without keeping the axes, is an output only: does the
  /// node read such a value of region a or b?
  bool reads_reduced(NodeId node, uint32_t a, uint32_t b) const {
    const bool aggregate = drafts_[a].aggregate || drafts_[b].aggregate;
    for (ValueId v : graph_.node(node).inputs) {
      if (v == kNone || graph_.value(v).producer == kNone) continue;
      const auto it = classes_.find(graph_.value(v).producer);
      if (it == classes_.end() || (region_of_[it->first] != a && region_of_[it->first] != b))
        continue;
      if (it->second.kind == FusionKind::kReduction && (!it->second.keepdims || aggregate))
        return true;
    }
    return false;
  }
  /// The same for every node of the union of two regions and one more node.
  bool union_reads_reduced(uint32_t a, uint32_t b, NodeId last) const {
    const auto reads = [&](NodeId n) { return reads_reduced(n, a, b); };
    return reads(last) || std::any_of(drafts_[a].nodes.begin(), drafts_[a].nodes.end(), reads) ||
           std::any_of(drafts_[b].nodes.begin(), drafts_[b].nodes.end(), reads);
  }

  /// Does the single-node draft fit into the region? `result`: dims of its output.
  bool joins(const Draft& region, const Draft& node, const SymDims& result) const {
    if (region.nodes.size() >= limit()) return false;
    const FusionClass& cls = classes_.at(node.nodes[0]);
    if (cls.kind == FusionKind::kScalar) {
      if (result == region.space) return true;
      return region.row_axes > 0 && result == row_dims(region.space, region.row_axes);
    }
    return agree(region, node);
  }

  static bool agree(const Draft& a, const Draft& b) {
    if (!(a.space == b.space)) return false;
    if (a.aggregate || b.aggregate) return a.row_axes == 0 && b.row_axes == 0;
    return a.row_axes == 0 || b.row_axes == 0 || a.row_axes == b.row_axes;
  }

  static void absorb(Draft& into, const Draft& from) {
    into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
    into.row_axes = std::max(into.row_axes, from.row_axes);
    into.aggregate = into.aggregate || from.aggregate;
  }

  /// No path leaves the union of `parts` and `last` and comes back.
  bool convex(const std::vector<const std::vector<NodeId>*>& parts, NodeId last) const {
    std::unordered_set<NodeId> inside{last};
    for (const auto* part : parts) inside.insert(part->begin(), part->end());
    // With one part only paths into the new node can be new.
    std::vector<NodeId> heads{last};
    if (parts.size() > 1) heads.assign(inside.begin(), inside.end());
    return is_convex(graph_, position_, inside, heads);
  }

  /// Aggregates over one space that read the same operand become one region: one pass over what
  /// they share instead of one each (the multi-aggregate template of SystemDS).
  void merge_aggregates() {
    for (uint32_t a = 0; a < drafts_.size(); ++a)
      for (uint32_t b = a + 1; b < drafts_.size() && drafts_[a].alive && drafts_[a].aggregate;
           ++b) {
        Draft &into = drafts_[a], &from = drafts_[b];
        if (!from.alive || !from.aggregate || into.nodes.size() + from.nodes.size() > limit() ||
            !agree(into, from) || !share_operand(into, from) || depends(into, from) ||
            depends(from, into))
          continue;
        for (NodeId n : from.nodes) region_of_[n] = a;
        absorb(into, from);
        from.alive = false;
      }
  }

  bool share_operand(const Draft& a, const Draft& b) const {
    std::unordered_set<ValueId> read;
    for (NodeId n : a.nodes)
      for (ValueId v : graph_.node(n).inputs)
        if (v != kNone && !graph_.value(v).is_constant()) read.insert(v);
    for (NodeId n : b.nodes)
      for (ValueId v : graph_.node(n).inputs)
        if (read.count(v)) return true;
    return false;
  }

  /// Does a node of `later` need, over any path, one of `earlier`?
  bool depends(const Draft& later, const Draft& earlier) const {
    const std::unordered_set<NodeId> wanted(earlier.nodes.begin(), earlier.nodes.end());
    uint32_t first = UINT32_MAX;
    for (NodeId n : earlier.nodes) first = std::min(first, position_[n]);
    std::vector<NodeId> stack = later.nodes;
    std::unordered_set<NodeId> seen(stack.begin(), stack.end());
    while (!stack.empty()) {
      const NodeId n = stack.back();
      stack.pop_back();
      if (wanted.count(n)) return true;
      for (ValueId v : graph_.node(n).inputs) {
        const NodeId p = v == kNone ? kNone : graph_.value(v).producer;
        if (p != kNone && position_[p] >= first && seen.insert(p).second) stack.push_back(p);
      }
    }
    return false;
  }

  /// Two convex regions can still feed each other. Gives up the smaller ones until the graph of
  /// regions and other nodes has no cycle.
  void drop_cycles() {
    for (;;) {
      const auto unit_of = [&](NodeId n) {
        const uint32_t r = region_of_[n];
        return r != kNoRegion && drafts_[r].alive ? graph_.node_count() + r : n;
      };
      std::vector<uint32_t> waiting(graph_.node_count() + drafts_.size(), 0);
      std::vector<std::vector<uint32_t>> followers(waiting.size());
      std::unordered_set<uint32_t> units;
      for (NodeId n : graph_.order()) {
        units.insert(unit_of(n));
        for (ValueId v : graph_.node(n).inputs) {
          if (v == kNone || graph_.value(v).producer == kNone) continue;
          const uint32_t from = unit_of(graph_.value(v).producer), to = unit_of(n);
          if (from == to) continue;
          followers[from].push_back(to);
          ++waiting[to];
        }
      }
      std::vector<uint32_t> ready;
      for (uint32_t u : units)
        if (waiting[u] == 0) ready.push_back(u);
      while (!ready.empty()) {
        const uint32_t u = ready.back();
        ready.pop_back();
        units.erase(u);
        for (uint32_t next : followers[u])
          if (--waiting[next] == 0) ready.push_back(next);
      }
      Draft* smallest = nullptr;
      for (uint32_t u : units) {
        if (u < graph_.node_count()) continue;
        Draft& draft = drafts_[u - graph_.node_count()];
        if (!smallest || draft.nodes.size() < smallest->nodes.size()) smallest = &draft;
      }
      if (!smallest) return;
      smallest->alive = false;
    }
  }

  Region finish(Draft& draft) {
    std::sort(draft.nodes.begin(), draft.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    Region region;
    region.nodes = draft.nodes;
    region.space = draft.space;
    region.row_axes = draft.row_axes;
    region.aggregate = draft.aggregate;
    region.blocks = draft.blocks;
    region.pattern = draft.blocks         ? "blocks"
                     : draft.aggregate    ? "aggregate"
                     : draft.row_axes > 0 ? "row"
                                          : "cell";
    const std::unordered_set<NodeId> inside(draft.nodes.begin(), draft.nodes.end());
    std::unordered_set<ValueId> known;
    for (NodeId n : region.nodes) {
      const Node& node = graph_.node(n);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNone ||
            (graph_.value(v).producer != kNone && inside.count(graph_.value(v).producer)))
          continue;
        // Axes of reductions and the like are read at planning time.
        if (!node.op->scalar && k > 0 && graph_.value(v).is_constant() &&
            is_integer(graph_.value(v).type.dtype))
          continue;
        if (known.insert(v).second) region.inputs.push_back(v);
      }
      for (ValueId v : node.outputs) {
        if (v == kNone) continue;
        const bool outside =
            graph_.is_output(v) || std::any_of(users_[v].begin(), users_[v].end(),
                                               [&](NodeId u) { return !inside.count(u); });
        if (outside) region.outputs.push_back(v);
      }
    }
    region.identity = fingerprint(graph_, region.nodes);
    return region;
  }

  const Graph& graph_;
  const FusionOptions& options_;
  std::vector<uint32_t> region_of_;
  std::vector<uint32_t> position_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_set<NodeId> taken_;
  std::unordered_map<NodeId, FusionClass> classes_;
  std::vector<Draft> drafts_;
};

}  // namespace

std::vector<Region> find_regions(const Graph& graph, const FusionOptions& options) {
  return Finder(graph, options).run();
}

RegionCost estimate(const Graph& graph, const Region& region) {
  RegionCost cost;
  const auto bytes = [&](ValueId v) {
    const Type& type = graph.value(v).type;
    return Dim(element_size(type.dtype)) * element_count(*type.dims);
  };
  for (ValueId v : region.inputs) cost.bytes_fused = cost.bytes_fused + bytes(v);
  for (ValueId v : region.outputs) cost.bytes_fused = cost.bytes_fused + bytes(v);
  double weight = 0;
  for (NodeId n : region.nodes) {
    const Node& node = graph.node(n);
    for (ValueId v : node.inputs)
      if (v != kNone) cost.bytes_unfused = cost.bytes_unfused + bytes(v);
    for (ValueId v : node.outputs)
      if (v != kNone) cost.bytes_unfused = cost.bytes_unfused + bytes(v);
    if (!region.blocks) {
      weight += classify(graph, n).weight;
      continue;
    }
    // By node: widths differ.
    const Dim count = element_count(*graph.value(node.outputs[0]).type.dims);
    if (node.op->name == "MatMul")
      cost.product_flops =
          cost.product_flops + Dim(2) * graph.value(node.inputs[0]).type.dims->back() * count;
    else if (!node.op->view)
      cost.flops = cost.flops + Dim(static_cast<int64_t>(classify(graph, n).weight + 0.5)) * count;
  }
  if (!region.blocks)
    cost.flops = Dim(static_cast<int64_t>(weight + 0.5)) * element_count(region.space);
  cost.steps_saved = static_cast<int>(region.nodes.size()) - 1;
  return cost;
}

}  // namespace xc

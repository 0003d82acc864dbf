// Finding regions: the graph is cut into parts, the search finds each part's cheapest grouping of
// its nodes (search.h), and reductions that read the same operand are put together.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/fingerprint.h"
#include "loop/kernel.h"
#include "ops/op.h"
#include "plan/fusion/alternatives.h"
#include "plan/fusion/blocks.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/facts.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/region.h"
#include "plan/fusion/search.h"

namespace xc {
namespace {

constexpr uint32_t kNoRegion = UINT32_MAX;
/// Reductions put together: each has four partial vectors in registers.
constexpr size_t kMostSums = 4;

struct RegionDraft {
  SymDims space;
  RowAxes row_axes;  // none: cell or aggregate
  bool aggregate = false;
  bool blocks = false;  // of the row-block template
  std::vector<NodeId> nodes;
  bool alone = false;  // one reduction, worth a region only together with others
  bool alive = true;
};

class Finder {
 public:
  Finder(const Graph& graph, const FusionOptions& options, FusionReport* report)
      : graph_(graph),
        options_(options),
        report_(report),
        facts_(graph, options),
        region_of_(graph.node_count(), kNoRegion) {}

  std::vector<Region> run() {
    std::vector<Region> blocks;
    if (options_.blocks && options_.numerics != Numerics::kStrict)
      blocks = find_blocks(graph_, options_);
    std::erase_if(blocks, [&](const Region& block) {
      return std::any_of(block.nodes.begin(), block.nodes.end(), [&](NodeId n) {
        return facts_.segment(n) != facts_.segment(block.nodes.front());
      });
    });
    std::vector<std::vector<NodeId>> given;
    for (const Region& region : blocks) given.push_back(region.nodes);
    const std::vector<uint32_t> cuts = facts_.cuts(given);
    std::vector<std::vector<uint32_t>> inside(cuts.size());
    for (uint32_t g = 0; g < given.size(); ++g) {
      uint32_t low = UINT32_MAX, high = 0;
      for (NodeId n : given[g]) {
        low = std::min(low, facts_.position(n));
        high = std::max(high, facts_.position(n));
      }
      const auto part = std::upper_bound(cuts.begin(), cuts.end(), low) - cuts.begin() - 1;
      if (high < cuts[static_cast<size_t>(part) + 1])
        inside[static_cast<size_t>(part)].push_back(g);
      else
        keep_block(blocks[g]);  // over several parts: not weighed
    }
    for (size_t p = 0; p + 1 < cuts.size(); ++p) {
      if (options_.stop && options_.stop()) return {};
      std::vector<std::vector<NodeId>> nodes;
      for (uint32_t g : inside[p]) nodes.push_back(given[g]);
      const fusion::Grouping& best = search_part(cuts[p], cuts[p + 1], nodes);
      for (const fusion::Bits& group : best.groups) {
        std::vector<NodeId> members;
        group.for_each([&](uint32_t i) { members.push_back(graph_.order()[cuts[p] + i]); });
        const auto block = std::find_if(inside[p].begin(), inside[p].end(),
                                        [&](uint32_t g) { return given[g] == members; });
        if (block != inside[p].end())
          keep_block(blocks[*block]);
        else
          keep(std::move(members));
      }
    }
    merge_reductions();
    drop_cycles();
    std::vector<Region> out;
    for (RegionDraft& draft : drafts_)
      if (draft.alive) out.push_back(finish(draft));
    std::stable_sort(out.begin(), out.end(), [](const Region& a, const Region& b) {
      return std::pair(a.nodes.size(), a.blocks) > std::pair(b.nodes.size(), b.blocks);
    });
    if (report_ && options_.numerics == Numerics::kStrict) report_strict();
    if (report_) fusion::sort_alternatives(*report_);
    return out;
  }

 private:
  /// What would have fused in another mode.
  void report_strict() {
    std::vector<NodeId> kept;
    for (NodeId n : graph_.order())
      if (classify(graph_, n).kind != FusionKind::kNone && !rounds_once(graph_, n))
        kept.push_back(n);
    fusion::report_kept_out(graph_, kept, "strict: fused code might have other bits", *report_);
  }

  /// The best grouping of [begin, end). Parts that look alike (layers) are searched once.
  const fusion::Grouping& search_part(uint32_t begin, uint32_t end,
                                      const std::vector<std::vector<NodeId>>& given) {
    const fusion::Part part = facts_.part(begin, end, given, spared_);
    auto& known = searched_[fusion::text_of(part)];
    if (!known) known = std::make_unique<fusion::Grouping>(fusion::search(part));
    if (report_) fusion::report(graph_, begin, part, *known, *report_);
    return *known;
  }

  void keep_block(Region& region) {
    RegionDraft draft;
    draft.space = region.space;
    draft.nodes = region.nodes;
    draft.blocks = true;
    spared_.insert(draft.nodes.begin(), draft.nodes.end());
    add(std::move(draft));
  }

  /// A group that is worth a region: at least two nodes, or one that is several in one.
  void keep(std::vector<NodeId> nodes) {
    RegionDraft draft;
    int compute = 0;
    for (NodeId n : nodes) {
      const FusionClass& cls = facts_.of(n);
      if (cls.kind == FusionKind::kNone || spared_.count(n)) return;
      compute += cls.kind == FusionKind::kComposite ? 2 : 1;
      const bool whole = cls.kind == FusionKind::kReduction && cls.row_axes.whole(cls.space);
      draft.aggregate = draft.aggregate || whole;
      if (cls.kind == FusionKind::kReduction || cls.kind == FusionKind::kComposite) {
        draft.space = cls.space;
        draft.row_axes = whole ? RowAxes{} : cls.row_axes;
      }
    }
    draft.alone = compute == 1 && facts_.of(nodes[0]).kind == FusionKind::kReduction;
    if (compute < 2 && !draft.alone) return;
    if (draft.row_axes.none() && !draft.aggregate) {
      // An index map may be smaller than what reads it.
      const auto scalar = std::find_if(nodes.begin(), nodes.end(), [&](NodeId n) {
        return facts_.of(n).kind == FusionKind::kScalar;
      });
      if (scalar == nodes.end()) return;
      draft.space = *graph_.value(graph_.node(*scalar).outputs[0]).type.dims;
    }
    draft.nodes = std::move(nodes);
    add(std::move(draft));
  }

  void add(RegionDraft draft) {
    for (NodeId n : draft.nodes) region_of_[n] = static_cast<uint32_t>(drafts_.size());
    drafts_.push_back(std::move(draft));
  }

  size_t limit() const { return static_cast<size_t>(options_.max_nodes); }

  /// What the kernel of several reductions has buffers, registers and code for.
  struct Needs {
    std::unordered_set<ValueId> reads;
    size_t writes = 0, sums = 0;
    double code = 0;

    bool leave_room_for(const Needs& other) const {
      size_t count = reads.size() + writes + other.writes;
      for (ValueId v : other.reads) count += !reads.count(v);
      // A sum is handed from one phase to the next.
      return std::max(count, 2 * (sums + other.sums)) <= loop::kMaxBuffers &&
             sums + other.sums <= kMostSums && code + other.code <= fusion::kMostCode;
    }
    void add(const Needs& other) {
      reads.insert(other.reads.begin(), other.reads.end());
      writes += other.writes;
      sums += other.sums;
      code += other.code;
    }
  };
  Needs needs_of(const RegionDraft& draft) {
    Needs out;
    for (ValueId v : external_inputs(graph_, draft.nodes))
      if (!is_literal(graph_.value(v))) out.reads.insert(v);
    out.writes = external_outputs(graph_, draft.nodes, facts_.users()).size();
    for (NodeId n : draft.nodes) {
      out.sums += graph_.node(n).op->reduction.has_value();
      out.code += facts_.of(n).code;
    }
    return out;
  }

  bool may_merge(const RegionDraft& into, const RegionDraft& from) const {
    return from.alive && into.nodes.size() + from.nodes.size() <= limit() &&
           into.space == from.space && into.row_axes == from.row_axes &&
           facts_.segment(into.nodes.front()) == facts_.segment(from.nodes.front()) &&
           !depends(into, from) && !depends(from, into);
  }

  /// Does it give nothing but results of reductions over its space, and what is made of them?
  bool only_reduces(const RegionDraft& draft) {
    if (draft.blocks || (!draft.aggregate && draft.row_axes.none())) return false;
    if (draft.aggregate) return true;
    const std::vector<ValueId> outputs = external_outputs(graph_, draft.nodes, facts_.users());
    return std::none_of(outputs.begin(), outputs.end(),
                        [&](ValueId v) { return graph_.value(v).type.dims == draft.space; });
  }

  /// Reductions over one space that read the same operand become one region: one pass over what
  /// they share instead of one each (the multi-aggregate template of SystemDS).
  void merge_reductions() {
    std::vector<Needs> needs(drafts_.size());
    std::vector<bool> reduces(drafts_.size());
    std::unordered_map<ValueId, std::vector<uint32_t>> readers;  // of operands, in order
    for (uint32_t a = 0; a < drafts_.size(); ++a) {
      reduces[a] = only_reduces(drafts_[a]);
      if (!reduces[a]) continue;
      needs[a] = needs_of(drafts_[a]);
      for (ValueId v : needs[a].reads)
        if (!graph_.value(v).is_constant()) readers[v].push_back(a);
    }
    for (uint32_t a = 0; a < drafts_.size(); ++a) {
      RegionDraft& into = drafts_[a];
      if (!into.alive || !reduces[a]) continue;
      std::set<uint32_t> next;  // drafts behind that read what this one reads
      std::unordered_set<ValueId> seen;
      const auto look_behind = [&](uint32_t reader) {
        for (ValueId v : needs[reader].reads) {
          const auto found = readers.find(v);
          if (found == readers.end() || !seen.insert(v).second) continue;
          // Rows next to each other are not read more often for a smaller operand that both have.
          if (!into.aggregate && graph_.value(v).type.dims != into.space) continue;
          const std::vector<uint32_t>& all = found->second;
          next.insert(std::upper_bound(all.begin(), all.end(), reader), all.end());
        }
      };
      look_behind(a);
      while (!next.empty()) {
        const uint32_t b = *next.begin();
        next.erase(next.begin());
        RegionDraft& from = drafts_[b];
        if (!needs[a].leave_room_for(needs[b]) || !may_merge(into, from)) continue;
        look_behind(b);
        needs[a].add(needs[b]);
        for (NodeId n : from.nodes) region_of_[n] = a;
        into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
        into.alone = false;
        from.alive = false;
      }
    }
    for (RegionDraft& draft : drafts_) draft.alive = draft.alive && !draft.alone;
  }

  /// Does a node of `later` need, over any path, one of `earlier`?
  bool depends(const RegionDraft& later, const RegionDraft& earlier) const {
    const std::unordered_set<NodeId> wanted(earlier.nodes.begin(), earlier.nodes.end());
    uint32_t first = UINT32_MAX;
    for (NodeId n : earlier.nodes) first = std::min(first, facts_.position(n));
    std::vector<NodeId> stack = later.nodes;
    std::unordered_set<NodeId> seen(stack.begin(), stack.end());
    while (!stack.empty()) {
      const NodeId n = stack.back();
      stack.pop_back();
      if (wanted.count(n)) return true;
      for (ValueId v : graph_.node(n).inputs) {
        const NodeId p = v == kNone ? kNone : graph_.value(v).producer;
        if (p != kNone && facts_.position(p) >= first && seen.insert(p).second) stack.push_back(p);
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
      RegionDraft* smallest = nullptr;
      for (uint32_t u : units) {
        if (u < graph_.node_count()) continue;
        RegionDraft& draft = drafts_[u - graph_.node_count()];
        if (!smallest || draft.nodes.size() < smallest->nodes.size()) smallest = &draft;
      }
      if (!smallest) return;
      smallest->alive = false;
    }
  }

  Region finish(RegionDraft& draft) {
    std::sort(draft.nodes.begin(), draft.nodes.end(),
              [&](NodeId a, NodeId b) { return facts_.position(a) < facts_.position(b); });
    Region region;
    region.nodes = draft.nodes;
    region.segment = facts_.segment(region.nodes.front());
    region.space = draft.space;
    region.row_axes = draft.row_axes;
    region.aggregate = draft.aggregate;
    region.blocks = draft.blocks;
    region.pattern = draft.blocks            ? "blocks"
                     : draft.aggregate       ? "aggregate"
                     : draft.row_axes.none() ? "cell"
                                             : "row";
    region.inputs = external_inputs(graph_, region.nodes);
    region.outputs = external_outputs(graph_, region.nodes, facts_.users());
    region.identity = fingerprint(graph_, region.nodes);
    return region;
  }

  const Graph& graph_;
  const FusionOptions& options_;
  FusionReport* report_;
  fusion::Facts facts_;
  std::vector<uint32_t> region_of_;
  std::unordered_set<NodeId> spared_;
  std::unordered_map<std::string, std::unique_ptr<fusion::Grouping>> searched_;
  std::vector<RegionDraft> drafts_;
};

}  // namespace

std::vector<Region> find_regions(const Graph& graph, const FusionOptions& options,
                                 FusionReport* report) {
  return Finder(graph, options, report).run();
}

}  // namespace xc

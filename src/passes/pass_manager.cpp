#include "passes/pass_manager.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "passes/passes.h"

namespace xc {

void PassContext::count(const std::string& label, int64_t times) {
  if (times == 0) return;
  const auto it = std::find_if(counts.begin(), counts.end(),
                               [&](const auto& entry) { return entry.first == label; });
  if (it == counts.end())
    counts.emplace_back(label, times);
  else
    it->second += times;
}

namespace {

using Clock = std::chrono::steady_clock;

/// Do they say different things of one value, whatever the sizes of a run are?
bool contradict(const Type& a, const Type& b) {
  if (!a.known() || !b.known()) return false;
  if (a.kind != b.kind || a.dtype != b.dtype) return true;
  if (!a.dims) return false;
  return !std::equal(
      a.dims->begin(), a.dims->end(), b.dims->begin(), b.dims->end(),
      [](const Dim& x, const Dim& y) { return x == y || !x.is_constant() || !y.is_constant(); });
}

/// The types of a graph's values, by their names: what replaces a value takes over its name, so a
/// pass leaves the type of a name as it is.
class NamedTypes {
 public:
  /// Fails with kInternal where a name stands for another type than at the call before.
  void check(const Graph& graph) {
    std::unordered_map<std::string, Type> now;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (!value.is_input && !value.is_constant() && value.producer == kNone) continue;
      now.emplace(value.name, value.type);
      if (const auto it = before_.find(value.name);
          it != before_.end() && contradict(it->second, value.type))
        fail(Status::kInternal, "'{}' was {} and is {} now", value.name, it->second.text(),
             value.type.text());
    }
    before_ = std::move(now);
  }

 private:
  std::unordered_map<std::string, Type> before_;
};

class Runner {
 public:
  Runner(Graph& graph, const PassOptions& options)
      : graph_(graph), options_(options), context_(options) {}

  void stage(const Stage& stage) {
    for (int round = 0; round < stage.max_rounds; ++round) {
      bool changed = false;
      for (const Pass& pass : stage.passes) changed |= one(pass);
      if (!changed) return;
      if (round + 1 == stage.max_rounds && stage.max_rounds > 1) report_.converged = false;
    }
  }

  /// What verification compares the first changes with; the graph's types are inferred ones.
  void begin() {
    if (options_.verify_each) types_.check(graph_);
  }

  PassReport finish() {
    report_.rewrites = std::move(context_.counts);
    std::sort(report_.rewrites.begin(), report_.rewrites.end());
    return std::move(report_);
  }

  bool one(const Pass& pass) {
    if (std::find(options_.disabled.begin(), options_.disabled.end(), pass.name) !=
        options_.disabled.end())
      return false;
    const std::string where = "pass " + std::string(pass.name);
    const auto begin = Clock::now();
    bool changed = false;
    located(where, [&] { changed = run(graph_, pass); });
    PassReport::Row& row = row_of(pass);
    row.nanoseconds +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    ++row.runs;
    row.changed += changed;
    if (changed && options_.verify_each)
      located(where, [&] {
        verify(graph_);
        Graph copy = graph_.clone();
        infer_types(copy);
        types_.check(copy);
      });
    if (options_.on_dump && (options_.dump_after == "*" || options_.dump_after == pass.name))
      if (changed || pass.run == infer_all_types) options_.on_dump(pass.name, print(graph_));
    return changed;
  }

 private:
  /// Innermost bodies first: what they come to is then visible around them. The depth of nesting is
  /// bounded by verify().
  bool run(Graph& graph, const Pass& pass) {
    bool changed = false;
    if (!pass.whole_model) {
      const std::vector<NodeId> order = graph.order();
      for (NodeId id : order)
        for (const auto& subgraph : graph.node(id).subgraphs) changed |= run(*subgraph, pass);
    }
    changed |= pass.run(graph, context_);
    return changed;
  }

  PassReport::Row& row_of(const Pass& pass) {
    for (PassReport::Row& row : report_.rows)
      if (row.name == pass.name) return row;
    return report_.rows.emplace_back(PassReport::Row{std::string(pass.name)});
  }

  Graph& graph_;
  const PassOptions& options_;
  PassContext context_;
  PassReport report_;
  NamedTypes types_;
};

}  // namespace

PassReport run_pipeline(Graph& graph, const Pipeline& pipeline, const PassOptions& options) {
  for (const std::string& name : options.disabled) {
    const bool known = std::any_of(pipeline.begin(), pipeline.end(), [&](const Stage& stage) {
      return std::any_of(stage.passes.begin(), stage.passes.end(),
                         [&](const Pass& pass) { return pass.name == name; });
    });
    if (!known) fail(Status::kNotFound, "no pass '{}' to disable", name);
  }
  Runner runner(graph, options);
  for (const Stage& stage : pipeline) runner.stage(stage);
  return runner.finish();
}

PassReport run_pass(Graph& graph, const Pass& pass, const PassOptions& options) {
  Runner runner(graph, options);
  infer_types(graph);
  runner.begin();
  runner.one(pass);
  infer_types(graph);
  return runner.finish();
}

}  // namespace xc

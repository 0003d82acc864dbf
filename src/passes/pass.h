#pragma once
// A pass: one named rewrite of a graph, and what it may know beside the graph.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace xc {

class RuleSet;  // passes/rules/rule_set.h

struct PassOptions {
  /// Rewrites that round differently than the model as written (BatchNormalization into weights).
  bool tolerant = true;
  std::vector<std::string> disabled;  ///< names of passes; an unknown name fails (kNotFound)
  bool verify_each = false;           ///< structure and types after each pass
  /// Called with the text IR after each run of the pass `dump_after` ("*" = all) that changed
  /// something, and once at the end of the last one.
  std::string dump_after;
  std::function<void(std::string_view pass, const std::string& text)> on_dump;
  /// Rules beside the built-in ones; may be null. Operators of the host may have no other meaning.
  const RuleSet* extra_rules = nullptr;
  bool rules = true;  ///< false: no built-in pattern rules

  /// What a node makes of constants, as a run would compute it, with a backend's kernels. Folding
  /// then costs at load what the first run would have spent. Empty: reference kernels do it.
  std::function<std::vector<Tensor>(const Node& node, const std::vector<Tensor>& inputs)> evaluate;

  /// Whether a backend's kernel rounds operand 0 of the node, f32 in the graph, to bf16 and takes
  /// it stored so (of a pooling operator: its result too). Empty: none does.
  std::function<bool(const Graph& graph, const Node& node)> reads_bf16;

  // Bounds on constant folding, over the whole pipeline. A result may always be as large as what it
  // is made of, and all of them as large as the model's constants.
  int64_t fold_bytes_each = int64_t{16} << 20;
  int64_t fold_bytes_total = int64_t{64} << 20;
  std::chrono::milliseconds fold_time{2000};
};

/// Shared by the passes of one pipeline run.
struct PassContext {
  explicit PassContext(const PassOptions& o) : options(o) {}
  const PassOptions& options;
  int64_t folded_bytes = 0;
  std::chrono::nanoseconds fold_spent{0};
  /// Nanoseconds per operation that folding an operator took, the most.
  std::unordered_map<const OpDef*, double> fold_price;
  /// Rewrites by label ("rule:gelu_erf"), counted.
  std::vector<std::pair<std::string, int64_t>> counts;
  void count(const std::string& label, int64_t times = 1);
};

struct Pass {
  std::string_view name;
  std::string_view doc;  ///< what it does and why it stands there, one line
  /// True when it changed the graph.
  bool (*run)(Graph& graph, PassContext& context) = nullptr;
  /// False: the runner calls it for every subgraph, innermost first, and for the graph.
  bool whole_model = false;
};

}  // namespace xc

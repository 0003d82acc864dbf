// Sums of convolutions that became one: the same values, whatever the windows, groups and scales.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/is_op.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "unit/passes/random_text.h"

using namespace xc;

namespace {

/// Sums, differences and factors over convolutions of %x and %u, most of which give results of one
/// size.
class RandomSum : test::RandomText {
 public:
  explicit RandomSum(unsigned seed) : RandomText(seed) {
    axes_ = 1 + up_to(1);
    stride_ = up_to(3) == 0 ? 2 : 1;
    groups_ = std::vector<int>{1, 2, 4}[static_cast<size_t>(up_to(2))];
  }
  std::string text() {
    const std::string root = sum(3);
    std::string dims;
    for (int i = 0; i < axes_; ++i) dims += up_to(1) ? ", 9" : fmt::format(", n{}", i);
    return fmt::format("graph g(%x: f32[2, 4{0}], %u: f32[2, 4{0}]) -> ({1}) {{\n{2}}}", dims, root,
                       lines());
  }

 private:
  std::string per_channel() {
    if (up_to(3) == 0) return numbers({});
    std::vector<int> dims(static_cast<size_t>(axes_) + 1, 1);
    dims[0] = 4;
    if (up_to(1)) dims.insert(dims.begin(), 1);
    return numbers(dims);
  }

  /// One whose result has one size for all windows; now and then one that is a step off.
  std::string convolution(const std::string& source) {
    std::vector<int> weights = {4, 4 / groups_}, begin, end, dilations;
    for (int i = 0; i < axes_; ++i) {
      const int taps = 1 + 2 * up_to(1), dilation = 1 + up_to(1), reach = (taps - 1) * dilation;
      const int off = up_to(7) == 0 ? std::min(1, reach / 2) : 0;
      weights.push_back(taps);
      dilations.push_back(dilation);
      begin.push_back(reach / 2 + off);
      end.push_back(reach / 2 - off);
    }
    const std::string w = numbers(weights);
    const std::string bias = up_to(1) ? ", " + numbers({4}) : "";
    return add(fmt::format(
        "Conv({}, {}{}) {{pads = [{}, {}], dilations = [{}], strides = [{}], group = {}}}", source,
        w, bias, fmt::join(begin, ", "), fmt::join(end, ", "), fmt::join(dilations, ", "),
        fmt::join(std::vector<int>(static_cast<size_t>(axes_), stride_), ", "), groups_));
  }

  std::string sum(int depth) {
    const int kind = depth == 0 ? 5 : up_to(6);
    if (kind < 3) {
      const std::string a = sum(depth - 1), b = sum(depth - 1);
      return add(fmt::format("{}({}, {})", up_to(3) ? "Add" : "Sub", a, b));
    }
    if (kind < 5) {
      const std::string a = sum(depth - 1), b = per_channel();
      const char* const op =
          std::vector<const char*>{"Mul", "Add", "Sub"}[static_cast<size_t>(up_to(2))];
      return up_to(3) ? add(fmt::format("{}({}, {})", op, a, b))
                      : add(fmt::format("{}({}, {})", op, b, a));
    }
    const std::string source = up_to(4) ? "%x" : "%u";
    return stride_ == 1 && up_to(3) == 0 ? source : convolution(source);
  }

  int axes_, stride_, groups_;
};

size_t convolutions(const Graph& graph) {
  size_t out = 0;
  for (const NodeId id : graph.order()) out += is_op(graph.node(id), "Conv") ? 1 : 0;
  return out;
}

}  // namespace

TEST_CASE("passes/merge_convolutions: random sums give what they gave") {
  int fewer_convolutions = 0, fewer_nodes = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const std::string text = RandomSum(seed).text();
    CAPTURE(text);
    Graph graph = parse_graph(text);
    run_pass(graph, find_pass("infer-types"), {});
    Graph after = graph.clone();
    run_pass(after, find_pass("merge-convolutions"), {});
    run_pass(after, find_pass("remove-dead"), {});
    run_pass(after, find_pass("infer-types"), {});
    fewer_convolutions += convolutions(after) < convolutions(graph);
    fewer_nodes += after.order().size() < graph.order().size();
    CHECK(after.order().size() <= graph.order().size());
    for (const int64_t extent : {5, 8}) {
      const auto inputs = test::random_inputs(graph, extent, seed);
      CHECK(test::difference(test::evaluate(graph, inputs), test::evaluate(after, inputs), 1e-4) ==
            "");
    }
  }
  CHECK(fewer_convolutions > 150);
  CHECK(fewer_nodes > 250);
}

TEST_CASE("passes/merge_convolutions: long chains take little time") {
  std::string text =
      "graph g(%x: f32[1, 4, 9, 9]) -> (%v20000) {\n  const %w: f32[4, 4, 1, 1] = splat 0.5\n"
      "  const %k: f32[4, 1, 1] = [1, 0.5, 1, 1]\n  %v0 = Conv(%x, %w)\n";
  for (int i = 0; i < 20000; ++i)
    text += fmt::format("  %v{} = {}(%v{}, {})\n", i + 1, i % 3 ? "Mul" : "Add", i,
                        i % 3   ? "%k"
                        : i % 2 ? "%k"
                                : "%x");
  Graph graph = parse_graph(text + "}");
  run_pass(graph, find_pass("infer-types"), {});
  run_pass(graph, find_pass("merge-convolutions"), {});
  CHECK(graph.order().size() > 10000);
}

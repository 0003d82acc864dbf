// Padding and cuts that became a convolution's own: the same values, whatever the sizes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"

using namespace xc;

namespace {

struct Numbers {
  std::mt19937 random;
  int64_t up_to(int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  }
  std::vector<int64_t> list(size_t count, int64_t least, int64_t most) {
    std::vector<int64_t> out(count);
    for (int64_t& v : out) v = least + up_to(most - least);
    return out;
  }
};

/// A Pad, a window and a Slice over one or two spatial axes.
std::string random_graph(Numbers& n) {
  const size_t axes = 1 + static_cast<size_t>(n.up_to(1));
  const char* const ops[] = {"Conv", "Conv", "ConvTranspose", "AveragePool"};
  const std::string op = ops[n.up_to(3)];
  const bool sized = n.up_to(1) != 0;
  const auto kernel = n.list(axes, 1, 4), strides = n.list(axes, 1, 2);
  std::string dims, kernel_dims;
  for (size_t i = 0; i < axes; ++i) {
    dims += sized ? fmt::format(", {}", 9 + n.up_to(3)) : fmt::format(", n{}", i);
    kernel_dims += fmt::format(", {}", kernel[i]);
  }
  const auto around = n.list(2 * axes, 0, 2), starts = n.list(axes, 0, 2);
  auto ends = n.list(axes, -3, -1);
  if (n.up_to(2) == 0) ends.assign(axes, INT64_MAX);
  std::vector<int64_t> at(axes);
  for (size_t i = 0; i < axes; ++i) at[i] = static_cast<int64_t>(2 + i);
  std::string attrs = fmt::format("strides = [{}]", fmt::join(strides, ", "));
  if (op == "AveragePool")
    attrs += fmt::format(", kernel_shape = [{}]", fmt::join(kernel, ", "));
  else
    attrs += fmt::format(", pads = [{}]", fmt::join(n.list(2 * axes, 0, kernel[0] > 1), ", "));
  if (op == "Conv" && n.up_to(1))
    attrs += fmt::format(", dilations = [{}]", fmt::join(n.list(axes, 1, 2), ", "));
  return fmt::format(
      "graph g(%x: f32[2, 3{0}], %w: f32[3, 3{1}]) -> (%y) {{\n"
      "  const %around: i64[{2}] = [{3}]\n  const %starts: i64[{4}] = [{5}]\n"
      "  const %ends: i64[{4}] = [{6}]\n  const %axes: i64[{4}] = [{7}]\n"
      "  const %zero: f32[] = {12}\n  %p = Pad(%x, %around, %zero, %axes)\n"
      "  %c = {8}({9}{10}) {{{11}}}\n  %y = Slice(%c, %starts, %ends, %axes)\n}}",
      dims, kernel_dims, 2 * axes, fmt::join(around, ", "), axes, fmt::join(starts, ", "),
      fmt::join(ends, ", "), fmt::join(at, ", "), op, n.up_to(3) ? "%p" : "%x",
      op == "AveragePool" ? "" : ", %w", attrs, n.up_to(5) ? 0 : 1);
}

}  // namespace

TEST_CASE("passes/fold_padding: random windows give what they gave") {
  int folded = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Numbers numbers{std::mt19937(seed)};
    const std::string text = random_graph(numbers);
    CAPTURE(text);
    Graph graph = parse_graph(text);
    run_pass(graph, find_pass("infer-types"), {});
    const size_t nodes = graph.order().size();
    Graph after = graph.clone();
    run_pass(after, find_pass("fold-padding"), {});
    run_pass(after, find_pass("remove-dead"), {});
    run_pass(after, find_pass("infer-types"), {});
    folded += after.order().size() < nodes;
    for (const int64_t extent : {8, 11}) {
      const auto inputs = test::random_inputs(graph, extent, seed);
      CHECK(test::difference(test::evaluate(graph, inputs), test::evaluate(after, inputs), 1e-5) ==
            "");
    }
  }
  CHECK(folded > 200);
}

// Functions that moved in front of a Concat: the same bits, whatever stands behind it.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "unit/passes/random_text.h"

using namespace xc;

namespace {

/// Products of %x joined along the axis of their columns or of another one, and a chain of
/// functions and of other nodes behind that.
class RandomChain : test::RandomText {
 public:
  explicit RandomChain(unsigned seed) : RandomText(seed) {}
  std::string text() {
    images_ = up_to(1) != 0;
    along_columns_ = up_to(3) != 0;
    const int parts = 2 + up_to(2);
    std::vector<std::string> names;
    int total = 0;
    for (int p = 0; p < parts; ++p) {
      const int columns = along_columns_ ? 1 + up_to(3) : 3;
      total += along_columns_ ? columns : 4;
      names.push_back(product(columns));
    }
    const int axis = images_ == along_columns_ ? 1 : images_ ? 2 : 0;
    elements_ = total;
    std::string value = add(fmt::format("Concat({}) {{axis = {}}}", fmt::join(names, ", "),
                                        images_ || axis == 0 ? axis : -1));
    const std::string joined = value;
    for (int i = up_to(4); i >= 0; --i) value = behind(value);
    return fmt::format("graph g(%x: f32[4, {}]) -> ({}{}) {{\n{}}}", images_ ? "2, 4, 4" : "5",
                       value, up_to(7) ? "" : ", " + joined, lines());
  }

 private:
  std::string product(int columns) {
    if (up_to(15) == 0 && (!along_columns_ || images_)) return "%x";
    if (images_)
      return add(fmt::format("Conv(%x, {})", numbers({along_columns_ ? columns : 2, 2, 1, 1})));
    return add(fmt::format("MatMul(%x, {})", numbers({5, along_columns_ ? columns : 5})));
  }
  std::string behind(const std::string& value) {
    const char* const ops[] = {"Mul", "Add", "Sub", "Div"};
    switch (up_to(5)) {
      case 0:
        return add(fmt::format("Relu({})", value));
      case 1:
        return add(fmt::format("Sigmoid({})", value));
      case 2:
        return add(fmt::format("{0}({1}, {1})", ops[up_to(1)], value));
      default: {
        const char* const op = ops[up_to(3)];
        const std::string constant = beside();
        return up_to(2) ? add(fmt::format("{}({}, {})", op, value, constant))
                        : add(fmt::format("{}({}, {})", op, constant, value));
      }
    }
  }
  /// A number, numbers along an axis, which may be that of the Concat, or a whole tensor.
  std::string beside() {
    if (up_to(3) == 0) return numbers({1});
    if (images_) {
      if (up_to(4) == 0) return numbers({4});
      return along_columns_ ? numbers(up_to(1) ? std::vector{elements_, 1, 1}
                                               : std::vector{1, elements_, 1, 1})
                            : numbers({elements_, 1});
    }
    return along_columns_ ? numbers(up_to(1) ? std::vector{elements_} : std::vector{1, elements_})
                          : numbers(up_to(1) ? std::vector{elements_, 1} : std::vector{5});
  }

  bool images_ = false, along_columns_ = true;
  int elements_ = 0;  ///< along the axis of the Concat
};

}  // namespace

TEST_CASE("passes/split_functions: random functions behind a Concat give what they gave") {
  int moved = 0, valid = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const std::string text = RandomChain(seed).text();
    CAPTURE(text);
    Graph graph = parse_graph(text);
    try {
      run_pass(graph, find_pass("infer-types"), {});
    } catch (const Error&) {
      continue;  // parts that do not fit
    }
    ++valid;
    Graph after = graph.clone();
    moved += run_pass(after, find_pass("split-functions"), {}).rewrites.empty() ? 0 : 1;
    run_pass(after, find_pass("infer-types"), {});
    const auto inputs = test::random_inputs(graph, 4, seed);
    CHECK(test::difference(test::evaluate(graph, inputs), test::evaluate(after, inputs), 0) == "");
  }
  CHECK(valid > 300);
  CHECK(moved > 150);
}

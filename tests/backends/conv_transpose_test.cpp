#include <doctest/doctest.h>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

struct Case {
  Dims x, w;
  std::vector<int64_t> strides, pads, dilations, output_padding;
  int64_t group = 1;
};

TEST_CASE("backends/conv_transpose: agrees with the reference, row-major and channels-last") {
  Generator g(61);
  const Case cases[] = {
      {{2, 5, 9}, {5, 8, 3}, {1}, {0, 0}, {1}, {0}},
      {{1, 16, 40}, {16, 12, 16}, {8}, {4, 4}, {1}, {0}},
      {{1, 6, 7, 5}, {6, 32, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
      {{3, 4, 5, 6}, {4, 9, 3, 2}, {2, 1}, {1, 0, 0, 1}, {2, 1}, {1, 0}},
      {{1, 3, 20, 20}, {3, 200, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
      {{1, 1, 6, 6}, {1, 70, 3, 3}, {3, 3}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
      {{1, 4, 3, 4, 2}, {4, 8, 2, 3, 1}, {2, 1, 1}, {0, 1, 0, 0, 1, 0}, {1, 1, 1}, {0, 0, 0}},
      {{2, 6, 5, 5}, {6, 4, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}, 2},
      {{1, 6, 5, 5}, {6, 3, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
  };
  for (const Case& c : cases)
    for (const bool constant : {true, false})
      for (const bool biased : {true, false}) {
        Problem p;
        p.op = &get_op("ConvTranspose");
        p.attrs.set("strides", c.strides);
        p.attrs.set("pads", c.pads);
        p.attrs.set("dilations", c.dilations);
        p.attrs.set("output_padding", c.output_padding);
        p.attrs.set("group", c.group);
        p.inputs = {g.tensor(DType::kF32, c.x), g.tensor(DType::kF32, c.w)};
        if (biased) p.inputs.push_back(g.tensor(DType::kF32, {c.w[1] * c.group}));
        p.constant = {false, constant, false};
        INFO(to_text(c.x) << " by " << to_text(c.w) << constant << biased);
        check_row("xc.conv_transpose", p, {1e-5, 1e-4});
        // Data and result may lie differently.
        if (!constant || c.group != 1 || c.w[1] < 8) continue;
        const auto want = run_reference(node_of(p), p.inputs);
        const Tensor x = p.inputs[0];
        for (const auto& [in, out] : {std::pair{0, 3}, {3, 0}, {3, 3}}) {
          p.inputs[0] = g.strided(x, in);
          RunOptions options;
          options.output_kind = out;
          const auto got = run_row(find_row("xc.conv_transpose", "ConvTranspose"), p, options);
          const std::string wrong = difference(got[0], want[0], {1e-5, 1e-4});
          CHECK_MESSAGE(wrong.empty(), in << " to " << out << ": " << wrong);
        }
      }
}

}  // namespace
}  // namespace xc

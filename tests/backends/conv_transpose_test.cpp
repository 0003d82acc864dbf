#include <doctest/doctest.h>

#include <cmath>

#include "backends/step_harness.h"
#include "base/clock.h"

namespace xc {
namespace {

using namespace test;

constexpr const char* kRow = "xc.conv_transpose";

struct Case {
  Dims x, w;
  std::vector<int64_t> strides, pads, dilations, output_padding;
  int64_t group = 1;
};

const std::vector<Case> kCases = {
    {{2, 5, 9}, {5, 8, 3}, {1}, {0, 0}, {1}, {0}},
    {{1, 16, 40}, {16, 12, 16}, {8}, {4, 4}, {1}, {0}},
    {{1, 6, 7, 5}, {6, 32, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
    {{3, 4, 5, 6}, {4, 9, 3, 2}, {2, 1}, {1, 0, 0, 1}, {2, 1}, {1, 0}},
    {{1, 3, 20, 20}, {3, 200, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
    {{1, 1, 6, 6}, {1, 70, 3, 3}, {3, 3}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
    {{1, 4, 3, 4, 2}, {4, 8, 2, 3, 1}, {2, 1, 1}, {0, 1, 0, 0, 1, 0}, {1, 1, 1}, {0, 0, 0}},
    {{2, 6, 5, 5}, {6, 4, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}, 2},
    {{1, 6, 5, 5}, {6, 3, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
    {{1, 16, 30, 37}, {16, 24, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},  // blocks of rows
    {{1, 24, 3, 901}, {24, 16, 3, 5}, {2, 3}, {1, 2, 1, 2}, {1, 1}, {1, 2}},  // and across a row
    {{1, 70, 2000}, {70, 40, 7}, {4}, {1, 2}, {1}, {0}},
    {{2, 8, 9, 9}, {8, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {2, 3}, {1, 1}},  // phases without a tap
    {{1, 8, 9, 9}, {8, 20, 3, 3}, {4, 6}, {0, 1, 0, 0}, {1, 1}, {3, 5}},  // more of those
    {{1, 8, 7, 9}, {8, 8, 5, 3}, {1, 1}, {5, 4, 5, 4}, {2, 3}, {0, 0}},   // far inside
    {{2, 32, 6, 5}, {32, 9, 4, 2}, {2, 2}, {1, 0, 1, 0}, {1, 1}, {0, 1}, 4},  // groups
    {{1, 5, 4, 6, 7}, {5, 17, 3, 4, 2}, {2, 2, 1}, {1, 1, 0, 1, 1, 1}, {1, 1, 2}, {1, 0, 0}},
    {{2, 6, 1, 1}, {6, 70, 4, 4}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {0, 0}},  // one pixel
    {{2, 6, 1, 1}, {6, 16, 2, 4}, {2, 2}, {0, 1, 0, 1}, {1, 1}, {0, 0}},
    {{2, 40, 4, 3}, {40, 72, 5, 4}, {2, 2}, {1, 1, 2, 1}, {1, 1}, {1, 0}},  // narrow rows
    {{1, 12, 3, 4, 4}, {12, 20, 4, 5, 4}, {2, 2, 2}, {1, 1, 1, 1, 2, 1}, {1, 1, 1}, {0, 1, 0}},
    {{1, 9, 3, 3}, {9, 16, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 2}, {0, 0}},
    // Few results of wide rows, by planes where operands lie so.
    {{2, 40, 9, 40}, {40, 3, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
    {{1, 16, 30, 63}, {16, 6, 3, 5}, {1, 2}, {0, 1, 2, 2}, {1, 1}, {0, 1}, 2},
    {{1, 6, 21, 30}, {6, 9, 3, 2}, {2, 3}, {1, 0, 0, 1}, {3, 2}, {1, 0}},  // columns without a tap
    {{3, 12, 100}, {12, 7, 9}, {4}, {3, 2}, {1}, {2}},
    {{1, 20, 7, 47}, {20, 8, 5, 3}, {1, 1}, {3, 2, 1, 0}, {2, 1}, {0, 0}},
    {{1, 200, 3, 100}, {200, 2, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
    // One result of few planes.
    {{1, 6, 9, 40}, {6, 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}, 6},
    {{2, 10, 13, 33}, {10, 1, 3, 5}, {2, 3}, {1, 2, 0, 1}, {1, 2}, {1, 1}, 5},
    {{2, 5, 90}, {5, 1, 9}, {4}, {3, 2}, {1}, {2}, 5},
    {{1, 3, 6, 21}, {3, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
    {{2, 7, 7, 7}, {7, 1, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}, 7},
};

Problem transposed(Generator& g, const Case& c, bool biased = true, bool constant = true) {
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
  return p;
}

/// Whether it is computed phase by phase, which takes any strides and functions behind it.
bool by_phases(const Case& c) {
  return c.w[1] >= 8;
}

TEST_CASE("backends/conv_transpose: agrees with the reference, row-major and channels-last") {
  Generator g(61);
  for (const Case& c : kCases)
    for (const bool constant : {true, false})
      for (const bool biased : {true, false}) {
        Problem p = transposed(g, c, biased, constant);
        INFO(to_text(c.x) << " by " << to_text(c.w) << constant << biased);
        check_row(kRow, p, {1e-5, 1e-4});
        // Data and result may lie differently.
        if (!constant || !by_phases(c)) continue;
        const auto want = run_reference(node_of(p), p.inputs);
        const Tensor x = p.inputs[0];
        for (int in = 0; in < Generator::kStrideKinds; ++in)
          for (int out = 0; out < Generator::kStrideKinds; ++out) {
            p.inputs[0] = g.strided(x, in);
            RunOptions options;
            options.output_kind = out;
            const auto got = run_row(find_row(kRow, "ConvTranspose"), p, options);
            const std::string wrong = difference(got[0], want[0], {1e-5, 1e-4});
            CHECK_MESSAGE(wrong.empty(), in << " to " << out << ": " << wrong);
          }
      }
}

TEST_CASE("backends/conv_transpose: f64 agrees with the reference") {
  Generator g(68);
  for (const Case& c : kCases)
    for (const bool biased : {true, false}) {
      Problem p = transposed(g, c, biased);
      for (Tensor& input : p.inputs) input = g.tensor(DType::kF64, input.dims());
      INFO(to_text(c.x) << " by " << to_text(c.w) << biased);
      CHECK(chosen_row(p) == kRow);
      check_row(kRow, p, {1e-12, 1e-11});
    }
}

TEST_CASE("backends/conv_transpose: no image, with a bias and without") {
  Generator g(67);
  const Case none{{0, 4, 5, 5}, {4, 200, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}};
  for (const bool constant : {true, false})
    for (const bool biased : {true, false})
      check_row(kRow, transposed(g, none, biased, constant), {});
}

TEST_CASE("backends/conv_transpose: padding by rule and given sizes of the result") {
  Generator g(62);
  for (const char* rule : {"SAME_UPPER", "SAME_LOWER", "VALID"})
    for (const bool sized : {false, true}) {
      Problem p;
      p.op = &get_op("ConvTranspose");
      p.attrs.set("strides", std::vector<int64_t>{3, 2});
      p.attrs.set("auto_pad", std::string(rule));
      if (sized) p.attrs.set("output_shape", std::vector<int64_t>{20, 11});
      p.inputs = {g.tensor(DType::kF32, {1, 5, 7, 6}), g.tensor(DType::kF32, {5, 11, 4, 3})};
      p.constant = {false, true};
      INFO(rule << sized);
      check_row(kRow, p, {1e-5, 1e-4});
    }
}

TEST_CASE("backends/conv_transpose: the same bits for 1 to 4 threads, in both orders") {
  Generator g(63);
  for (const Case& c : kCases)
    if (by_phases(c)) check_threads(kRow, transposed(g, c));
}

TEST_CASE("backends/conv_transpose: functions behind it, in registers and after it") {
  Generator g(64);
  for (const Case& c : kCases) {
    if (!by_phases(c)) continue;
    Problem p = transposed(g, c);
    p.inputs[0].as<float>()[0] = std::nanf("");
    check_functions_behind(kRow, p, {1e-5, 1e-4});
  }
}

TEST_CASE("backends/conv_transpose: a result in halves is rounded once") {
  Generator g(65);
  for (const int64_t type : {10, 16})  // f16, bf16
    for (const Case& c : kCases) {
      if (!by_phases(c)) continue;
      Problem p = transposed(g, c);
      // Channels-last: what lies plane by plane may be added up in another order.
      RunOptions last;
      last.output_kind = 3;
      const Tensor wide = run_row(find_row(kRow, "ConvTranspose"), p, last)[0];
      Problem cast;
      cast.op = &get_op("Cast");
      cast.attrs.set("to", type);
      cast.inputs = {wide};
      const Tensor want = run_reference(node_of(cast), cast.inputs)[0];
      PostOp narrow{PostOp::Kind::kUnary, cast.op, {}, 0, true, {}};
      narrow.attrs = cast.attrs;
      p.post_ops = {narrow};
      for (int kind : {0, 3}) {
        RunOptions options;
        options.output_kind = kind;
        CHECK(same_bits(run_row(find_row(kRow, "ConvTranspose"), p, options)[0], want));
      }
    }
}

// Microseconds: xc_test_backends -ns -tc='backends/conv_transpose timing*'
TEST_CASE("backends/conv_transpose timing" * doctest::skip()) {
  Generator g(66);
  const Case cases[] = {
      {{4, 128, 4, 4}, {128, 64, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
      {{4, 64, 8, 8}, {64, 32, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
      {{4, 32, 16, 16}, {32, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
      {{1, 64, 28, 28}, {64, 32, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
      {{1, 512, 14, 14}, {512, 256, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}},
      {{1, 256, 16, 16}, {256, 128, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
      {{1, 512, 40}, {512, 256, 16}, {8}, {4, 4}, {1}, {0}},
      {{1, 128, 2560}, {128, 64, 4}, {2}, {1, 1}, {1}, {0}},
      {{1, 64, 1000}, {64, 32, 8}, {4}, {0, 0}, {1}, {0}},
      {{1, 512, 7, 7}, {512, 512, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}},
      {{1, 21, 16, 16}, {21, 21, 32, 32}, {16, 16}, {8, 8, 8, 8}, {1, 1}, {0, 0}},
      {{1, 32, 8, 8, 8}, {32, 32, 2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, {0, 0, 0}},
  };
  for (const Case& c : cases)
    for (int kind : {0, 3}) {
      Problem p = transposed(g, c);
      p.inputs[0] = g.strided(p.inputs[0], kind);
      const Node node = node_of(p);
      std::vector<Tensor> operands = p.inputs;
      operands.push_back(Generator(1).strided(run_reference(node, p.inputs)[0], kind));
      std::vector<BoundOperand> bound;
      std::vector<void*> buffers;
      for (const Tensor& t : operands) {
        bound.push_back({t.dims(), t.strides()});
        buffers.push_back(t.data());
      }
      const auto kernel = find_row(kRow, "ConvTranspose").create(spec_of(p, node, {}));
      const auto k = kernel->bind({std::span(bound).first(3), std::span(bound).last(1), true});
      const auto memory = [](int64_t bytes) { return Buffer::allocate(bytes + 64); };
      const auto scratch = memory(k->scratch_bytes), shared = memory(k->shared_bytes);
      double best = 1e18;
      for (int round = 0; round < 30; ++round) {
        const int64_t start = steady_ns();
        k->run_all({buffers.data(), scratch->data(), shared->data()});
        best = std::min(best, static_cast<double>(steady_ns() - start));
      }
      const auto terms =
          static_cast<double>(element_count(c.x) * element_count(std::span(c.w).subspan(1)));
      MESSAGE(to_text(c.x) << " by " << to_text(c.w)
                           << std::string(kind == 0 ? " row-major" : " channels-last") << ": "
                           << best / 1e3 << " us, " << 2 * terms / best << " GFLOP/s");
    }
}

}  // namespace
}  // namespace xc

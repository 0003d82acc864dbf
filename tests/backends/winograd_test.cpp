#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/vector/winograd_fn.h"
#include "backends/cpu/winograd_form.h"
#include "backends/step_harness.h"
#include "base/clock.h"

namespace xc {
namespace {

using namespace test;
using cpu::WinogradAxis;
using cpu::WinogradFns;
using cpu::WinogradForm;

constexpr const char* kRow = "xc.conv winograd";

struct Case {
  Dims x;
  int64_t out;
  Dims kernel;
  std::vector<int64_t> pads = {}, dilations = {};
  const char* auto_pad = nullptr;
};

Problem conv(Generator& g, const Case& c, bool bias = true) {
  Problem p;
  p.op = &get_op("Conv");
  Dims w{c.out, c.x[1]};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  p.inputs = {g.tensor(DType::kF32, c.x), g.tensor(DType::kF32, w)};
  if (bias) p.inputs.push_back(g.tensor(DType::kF32, {c.out}));
  p.constant = {false, true, true};
  if (!c.pads.empty()) p.attrs.set("pads", c.pads);
  if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
  if (c.auto_pad) p.attrs.set("auto_pad", std::string(c.auto_pad));
  return p;
}

/// All of them of sizes where it is used (a test below says so).
const std::vector<Case> kCases = {
    {{1, 64, 28, 28}, 64, {3, 3}, {1, 1, 1, 1}},
    {{2, 17, 13, 30}, 37, {3, 3}, {1, 1, 1, 1}},          // no whole vectors, tiles or panels
    {{1, 16, 9, 70}, 16, {3, 3}},                         // no padding
    {{1, 24, 40, 40}, 130, {3, 3}, {0, 2, 2, 0}},         // uneven padding, three panels
    {{5, 32, 8, 8}, 32, {3, 3}, {1, 1, 1, 1}},            // several images in a block
    {{1, 32, 6, 400}, 32, {3, 3}, {1, 1, 1, 1}},          // blocks across a row
    {{1, 32, 40, 24}, 32, {3, 3}, {2, 2, 2, 2}, {2, 2}},  // tiles that lie interleaved
    {{1, 32, 41, 47}, 32, {3, 3}, {3, 5, 3, 5}, {3, 5}},  // a last group of fewer
    {{1, 40, 22, 22}, 48, {5, 5}, {2, 2, 2, 2}},          // five taps
    {{1, 32, 24, 25}, 32, {3, 5}, {1, 2, 1, 2}},          // of each
    {{1, 32, 24, 25}, 32, {5, 3}, {2, 1, 2, 1}},          //
    {{1, 48, 30, 32}, 64, {1, 3}, {0, 1, 0, 1}},          // one axis of two
    {{1, 48, 30, 32}, 64, {3, 1}, {1, 0, 1, 0}},          //
    {{1, 128, 30, 32}, 128, {5, 1}, {2, 0, 2, 0}},        //
    {{1, 128, 30, 32}, 128, {1, 5}, {0, 2, 0, 2}},        //
    {{2, 64, 301}, 64, {3}, {1, 1}},                      // sequences
    {{1, 64, 301}, 64, {3}, {4, 4}, {4}},                 //
    {{1, 64, 303, 1}, 64, {3, 1}, {1, 0, 1, 0}},          //
    {{1, 256, 7, 7}, 256, {3, 3}, {1, 1, 1, 1}},          // four points
    {{1, 20, 30, 30}, 24, {3, 3}, {}, {}, "SAME_UPPER"},
    {{1, 128, 301}, 128, {7}, {3, 3}},                    // in pieces: 3 + 3 + 1 taps
    {{2, 35, 300}, 40, {11}, {15, 15}, {3}},              // channels that fill no vectors
    {{1, 64, 100}, 32, {31}, {15, 15}},                   // pieces behind the input's end
    {{1, 128, 300}, 128, {8}, {4, 4}},                    // an even number
    {{1, 32, 24, 25}, 32, {7, 7}, {3, 3, 3, 3}},          // along both axes
    {{1, 24, 40, 41}, 32, {5, 9}, {2, 8, 2, 8}, {1, 2}},  // along one of them
    {{1, 24, 40, 41}, 32, {8, 3}, {4, 1, 3, 1}},          //
};

/// What a result may differ by: its error is bounded by the largest values of a tile.
Bounds bounds_for(const Problem& p) {
  int64_t terms = 1;
  for (size_t axis = 1; axis < p.inputs[1].dims().size(); ++axis) terms *= p.inputs[1].dims()[axis];
  return {1e-5, 4e-6 * static_cast<double>(terms)};
}

TEST_CASE("backends/winograd: transforms are the convolution, on every instruction set") {
  Generator g(81);
  const std::vector<WinogradForm> forms = [] {
    std::vector<WinogradForm> out;
    for (int64_t rows : {1, 3, 5})
      for (int64_t cols : {1, 3, 5})
        for (const WinogradForm& form : cpu::winograd_forms(rows, cols)) out.push_back(form);
    return out;
  }();
  CHECK(forms.size() == 9);
  constexpr int64_t kChannels = 19;  // no whole vectors; here one channel's sums are another's
  for (const WinogradForm& form : forms) {
    const int in_rows = form.rows.points, in_cols = form.cols.points, out_rows = form.rows.outputs,
              out_cols = form.cols.outputs, row_taps = form.rows.taps(),
              col_taps = form.cols.taps();
    INFO(row_taps << "x" << col_taps << " in " << form.points() << " points");
    const Tensor x = g.tensor(DType::kF32, {in_rows * in_cols, kChannels}),
                 w = g.tensor(DType::kF32, {row_taps * col_taps, kChannels});
    for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > cpu_info().isa) continue;
      const WinogradFns fns = cpu::winograd_fns(isa, form.rows, form.cols);
      const int64_t row = align_up(kChannels, fns.lanes);
      std::vector<float> points(static_cast<size_t>(form.points() * row), 7.0f),
          bias(static_cast<size_t>(row), 0.25f),
          y(static_cast<size_t>(out_rows * out_cols * kChannels));
      std::vector<const float*> pixels;
      for (int i = 0; i < in_rows * in_cols; ++i) pixels.push_back(x.as<float>() + i * kChannels);
      fns.input({pixels.data(), kChannels, points.data(), row});
      for (int p = 0; p < form.points(); ++p) {
        double down[cpu::kMostPoints], across[cpu::kMostPoints];
        cpu::winograd_factors(form.rows, p / in_cols, down);
        cpu::winograd_factors(form.cols, p % in_cols, across);
        for (int64_t c = 0; c < kChannels; ++c) {
          double factor = 0;
          for (int a = 0; a < row_taps; ++a)
            for (int b = 0; b < col_taps; ++b)
              factor += down[a] * across[b] * w.as<float>()[(a * col_taps + b) * kChannels + c];
          points[static_cast<size_t>(p * row + c)] *= static_cast<float>(factor);
        }
        for (int64_t c = kChannels; c < row; ++c)
          CHECK(points[static_cast<size_t>(p * row + c)] == 0);
      }
      std::vector<float*> to;
      for (int i = 0; i < out_rows * out_cols; ++i) to.push_back(y.data() + i * kChannels);
      CHECK(fns.output({points.data(), row, to.data(), kChannels, bias.data(), -3.0f, 5.0f}));
      for (int i = 0; i < out_rows; ++i)
        for (int j = 0; j < out_cols; ++j)
          for (int64_t c = 0; c < kChannels; ++c) {
            double want = 0.25;
            for (int a = 0; a < row_taps; ++a)
              for (int b = 0; b < col_taps; ++b)
                want += double{x.as<float>()[((i + a) * in_cols + j + b) * kChannels + c]} *
                        w.as<float>()[(a * col_taps + b) * kChannels + c];
            want = std::clamp(want, -3.0, 5.0);
            CHECK(to[static_cast<size_t>(i * out_cols + j)][c] ==
                  doctest::Approx(want).epsilon(1e-4).scale(1));
          }
      points[3] = INFINITY;
      CHECK_FALSE(fns.output({points.data(), row, to.data(), kChannels, bias.data(), -3.0f, 5.0f}));
    }
  }
}

TEST_CASE("backends/winograd: sizes, padding, dilations, orders") {
  Generator g(82);
  for (const Case& c : kCases)
    for (bool bias : {true, false}) {
      const Problem p = conv(g, c, bias);
      INFO(to_text(c.x) << " " << to_text(p.inputs[1].dims()));
      CHECK(chosen_row(p) == kRow);
      RunOptions options;
      options.background = true;
      check_row(kRow, p, bounds_for(p), options);
    }
}

/// How far results are from sums in f64, in units of 2^-24 of the largest sum of magnitudes.
double error_of(const char* row, const Problem& p) {
  const std::vector<double> want = exact_result(p, false), sums = exact_result(p, true);
  RunOptions options;
  options.background = true;
  const Tensor got = run_row(find_row(row, "Conv"), p, options)[0];
  double error = 0, largest = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    error = std::max(error, std::abs(got.as<float>()[k] - want[k]));
    largest = std::max(largest, sums[k]);
  }
  return error / largest * 0x1p24;
}

TEST_CASE("backends/winograd: rounding is within some times that of plain sums") {
  Generator g(83);
  // Where a plain sum of random numbers is off by 1 to 3 units, tiles of six points are by 2 to 6.
  for (size_t k : {0, 1, 3, 6, 8, 15, 18, 20, 21, 22, 24}) {
    const Problem p = conv(g, kCases[k], false);
    const double plain = error_of("onednn.conv", p), tiles = error_of(kRow, p);
    MESSAGE(to_text(kCases[k].x) << ": " << plain << " and " << tiles);
    CHECK(tiles < 8);
  }
}

TEST_CASE("backends/winograd: the same bits for 1 to 4 threads, in both orders") {
  Generator g(84);
  RunOptions options;
  options.background = true;
  for (const Case& c : kCases) check_threads(kRow, conv(g, c), options);
}

TEST_CASE("backends/winograd: what is not finite stays in the windows that hold it") {
  Generator g(85);
  for (size_t k : {0, 1, 6, 8, 15, 18, 21, 24}) {
    Problem p = conv(g, kCases[k]);
    auto* x = p.inputs[0].as<float>();
    const int64_t plane = element_count(std::span(kCases[k].x).subspan(2));
    x[plane / 2] = INFINITY;
    x[3 * plane + plane / 3] = -INFINITY;
    x[5 * plane - 2] = std::nanf("");
    x[6 * plane] = 3e38f;  // finite, but not at every point of a tile
    RunOptions options;
    options.background = true;
    INFO(to_text(kCases[k].x));
    check_row(kRow, p, bounds_for(p), options);
    p.post_ops = {{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}}};
    const Tensor y = run_reference(node_of(p), p.inputs)[0];
    Problem relu;
    relu.op = &get_op("Relu");
    relu.inputs = {y};
    const Tensor want = run_reference(node_of(relu), relu.inputs)[0];
    const std::string wrong =
        difference(run_row(find_row(kRow, "Conv"), p, options)[0], want, bounds_for(p));
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}

TEST_CASE("backends/winograd: functions behind it, in registers and after it") {
  Generator g(86);
  RunOptions options;
  options.background = true;
  for (size_t k : {1, 4, 5, 6, 12, 16, 17, 21, 25}) {
    const Problem p = conv(g, kCases[k]);
    check_functions_behind(kRow, p, bounds_for(p), options);
  }
}

TEST_CASE("backends/winograd: a result in bf16 is rounded once, behind the last function") {
  Generator g(87);
  for (size_t k : {1, 5, 16}) {
    Problem p = conv(g, kCases[k]);
    RunOptions options;
    options.background = true;
    p.post_ops = {{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}}};
    const Tensor sums = run_row(find_row(kRow, "Conv"), p, options)[0];
    PostOp cast{PostOp::Kind::kUnary, &get_op("Cast"), {}, 0, true, {}};
    cast.attrs.set("to", int64_t{16});
    p.post_ops.push_back(cast);
    const Tensor got = run_row(find_row(kRow, "Conv"), p, options)[0];
    CHECK(got.dtype() == DType::kBF16);
    const std::string wrong = difference(widened(got), sums, {0x1p-8, 0});
    CHECK_MESSAGE(wrong.empty(), to_text(kCases[k].x) << ": " << wrong);
  }
}

TEST_CASE("backends/winograd: the library until weights are transformed, and where it is faster") {
  Generator g(88);
  const Problem p = conv(g, kCases[0]);
  const auto& row = find_row(kRow, "Conv");
  RunOptions options;
  options.symbolic = true;
  const Tensor early = run_row(row, p, options)[0];
  CHECK(same_bits(early, run_row(find_row("onednn.conv", "Conv"), p, options)[0]));
  options.background = true;
  CHECK_FALSE(same_bits(early, run_row(row, p, options)[0]));
  const Problem small = conv(g, {{1, 64, 2, 2}, 64, {3, 3}, {1, 1, 1, 1}});
  CHECK(same_bits(run_row(row, small, options)[0],
                  run_row(find_row("onednn.conv", "Conv"), small, options)[0]));

  const auto refuses = [&](Problem problem, const RunOptions& with = {}) {
    const Node node = node_of(problem);
    return row.supports(spec_of(problem, node, with)).reason;
  };
  CHECK(refuses(p).empty());
  CHECK(refuses(small) == "the library is faster at this size");
  RunOptions strict;
  strict.numerics = Numerics::kStrict;
  CHECK(refuses(p, strict).find("strict") != std::string::npos);
  Problem other = p;
  other.attrs.set("strides", std::vector<int64_t>{1, 2});
  CHECK(refuses(other) == "windows more than a pixel apart");
  CHECK(refuses(conv(g, {{1, 64, 28, 28}, 64, {1, 1}})) == "windows that share nothing");
  CHECK(refuses(conv(g, {{1, 64, 40, 40}, 64, {34, 1}})) == "too many taps");
  other = p;
  other.constant = {};
  CHECK(refuses(other) == "weights are not constant");
}

TEST_CASE("backends/winograd_timing: beside the library" * doctest::skip()) {
  Generator g(89);
  std::vector<Case> cases;
  for (int64_t channels : {16, 32, 64, 128, 256, 512})
    for (int64_t size : {4, 7, 14, 28, 56, 112})
      if (channels * size * size <= 64 * 112 * 112 && size * channels <= 256 * 56)
        cases.push_back({{1, channels, size, size}, channels, {3, 3}, {1, 1, 1, 1}});
  for (int64_t channels : {32, 64, 128, 256, 512})
    for (int64_t size : {30, 100, 400, 1600})
      cases.push_back({{1, channels, size}, channels, {3}, {1, 1}});
  for (int64_t channels : {16, 32, 64, 128})
    for (int64_t size : {7, 14, 28, 56})
      cases.push_back({{1, channels, size, size}, channels, {5, 5}, {2, 2, 2, 2}});
  for (int64_t channels : {64, 128, 256})
    cases.push_back({{1, channels, 200}, channels, {5}, {2, 2}});
  for (int64_t channels : {32, 64, 128, 256})
    for (int64_t taps : {4, 7, 11, 21})
      cases.push_back({{1, channels, 400}, channels, {taps}, {taps / 2, taps / 2}});
  for (int64_t channels : {16, 64})
    cases.push_back({{1, channels, 28, 28}, channels, {7, 7}, {3, 3, 3, 3}});
  for (int64_t channels : {64, 192})
    cases.push_back({{1, channels, 28, 28}, 32, {3, 3}, {1, 1, 1, 1}});
  cases.push_back({{1, 32, 160, 160}, 16, {3, 3}, {1, 1, 1, 1}});
  for (const Case& c : cases) {
    const Problem p = conv(g, c);
    const Node node = node_of(p);
    RunOptions options;
    options.background = true;
    std::vector<Tensor> operands = p.inputs;
    operands[0] = Generator(1).strided(operands[0], 3);
    operands.push_back(Generator(1).strided(run_reference(node, p.inputs)[0], 3));
    std::vector<BoundOperand> bound;
    std::vector<void*> buffers;
    for (const Tensor& t : operands) {
      bound.push_back({t.dims(), t.strides()});
      buffers.push_back(t.data());
    }
    std::array<double, 2> best{1e9, 1e9};
    for (size_t own : {0, 1}) {
      const auto kernel =
          find_row(own ? kRow : "onednn.conv", "Conv").create(spec_of(p, node, options));
      const auto k = kernel->bind({std::span(bound).first(3), std::span(bound).last(1), true});
      std::vector<std::byte> scratch(static_cast<size_t>(k->scratch_bytes + 64)),
          shared(static_cast<size_t>(k->shared_bytes + 64));
      const auto aligned = [](std::vector<std::byte>& memory) {
        return reinterpret_cast<void*>(align_up(reinterpret_cast<int64_t>(memory.data()), 64));
      };
      const StepArgs args{buffers.data(), aligned(scratch), aligned(shared)};
      for (int round = 0; round < 30; ++round) {
        const int64_t start = steady_ns();
        k->run_all(args);
        best[own] = std::min(best[own], static_cast<double>(steady_ns() - start) / 1e3);
      }
    }
    MESSAGE(to_text(c.x) << " " << to_text(p.inputs[1].dims()) << ": library " << best[0]
                         << ", own " << best[1] << " us, ratio " << best[0] / best[1]);
  }
}

}  // namespace
}  // namespace xc

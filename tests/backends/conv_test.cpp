#include <doctest/doctest.h>

#include "backends/cpu/few_pixel_conv.h"
#include "backends/cpu/plane_conv.h"
#include "backends/cpu/product_conv.h"
#include "backends/cpu/vector/conv_row_fn.h"
#include "backends/cpu/vector/depthwise_rows_fn.h"
#include "backends/cpu/vector/plane_row_fn.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

struct Case {
  Dims x;
  int64_t out;
  Dims kernel;
  int64_t group = 1;
  std::vector<int64_t> strides = {}, pads = {}, dilations = {};
  const char* auto_pad = nullptr;
};

Problem conv(Generator& g, const Case& c, bool bias = true) {
  Problem p;
  p.op = &get_op("Conv");
  Dims w{c.out, c.x[1] / c.group};
  w.insert(w.end(), c.kernel.begin(), c.kernel.end());
  p.inputs = {g.tensor(DType::kF32, c.x), g.tensor(DType::kF32, w)};
  if (bias) p.inputs.push_back(g.tensor(DType::kF32, {c.out}));
  p.constant = {false, true, true};
  p.attrs.set("group", c.group);
  if (!c.strides.empty()) p.attrs.set("strides", c.strides);
  if (!c.pads.empty()) p.attrs.set("pads", c.pads);
  if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
  if (c.auto_pad) p.attrs.set("auto_pad", std::string(c.auto_pad));
  return p;
}

/// NaN and both infinities among the data.
Problem with_specials(Generator& g) {
  Problem p = conv(g, {{1, 2, 6, 6}, 16, {1, 1}});
  float* x = p.inputs[0].as<float>();
  x[5] = std::nanf("");
  x[17] = INFINITY;
  x[30] = -INFINITY;
  return p;
}

const std::vector<Case> kCases = {
    {{1, 3, 20, 20}, 8, {3, 3}, 1, {2, 2}, {1, 1, 1, 1}},
    {{2, 16, 9, 11}, 24, {1, 1}},
    {{1, 16, 9, 11}, 24, {1, 1}, 1, {2, 2}},
    {{1, 12, 14, 14}, 12, {3, 3}, 12, {1, 1}, {1, 1, 1, 1}},
    {{1, 32, 14, 14}, 32, {5, 5}, 32, {2, 2}, {2, 2, 2, 2}},
    {{1, 8, 10, 10}, 12, {3, 3}, 4},
    {{1, 8, 12, 10}, 6, {3, 2}, 1, {1, 2}, {0, 1, 2, 1}, {2, 1}},
    {{1, 4, 40}, 8, {5}, 1, {2}, {2, 2}},
    {{2, 24, 40}, 24, {31}, 24, {1}, {15, 15}},  // depthwise over a sequence
    {{1, 16, 33}, 32, {4}, 16, {2}, {3, 0}},
    {{1, 40, 1, 50}, 40, {1, 3}, 40, {1, 1}, {0, 4, 0, 0}, {1, 2}},
    {{2, 6, 5, 7, 6}, 4, {3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
    {{1, 5, 13, 13}, 7, {4, 4}, 1, {3, 3}, {}, {}, "SAME_UPPER"},
    {{1, 5, 13, 13}, 7, {4, 4}, 1, {3, 3}, {}, {}, "SAME_LOWER"},
    {{1, 64, 7, 7}, 256, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}},
    {{1, 64, 28, 28}, 128, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}},
    {{1, 64, 18, 14}, 256, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}},  // more weights than data
    {{1, 1, 8, 8}, 1, {2, 2}},
    {{2, 16, 40, 1}, 24, {5, 1}, 1, {}, {}},  // sequences written with a width or height
    {{1, 16, 1, 40}, 24, {1, 3}, 1, {1, 2}, {0, 1, 0, 1}},  // of 1
    {{1, 8, 1, 9, 1}, 4, {1, 3, 1}},
    {{2, 16, 1, 1}, 24, {1, 1}},
    {{1, 16, 1, 12}, 24, {3, 3}, 1, {}, {1, 1, 1, 1}},  // rows of padding only: no sequence
    {{3, 16, 16, 16}, 32, {1, 1}, 1, {2, 2}},           // rows at the end that no window reaches
    // Few pixels of the result and many weights.
    {{1, 512, 7, 7}, 520, {1, 1}},
    {{1, 128, 7, 7}, 256, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}},
    {{2, 260, 8, 8}, 1030, {1, 1}, 1, {2, 2}},
    {{4, 300, 9}, 440, {2}, 1, {1}, {1, 0}},
    // Few pixels of few weights, which stay row-major where all are.
    {{1, 48, 4, 4}, 72, {1, 1}},
    {{5, 130, 2, 3}, 200, {1, 1}},
    {{2, 67, 9}, 65, {1}},
    {{40, 16, 2, 3}, 24, {1, 1}},  // small images, many of them
    // Images of a pixel each: rows of a product.
    {{97, 40, 1, 1}, 72, {1, 1}},
    {{130, 25, 1}, 33, {1}},
    // Products of the library's sgemm, below AVX-512.
    {{1, 2, 31, 31}, 140, {3, 1}, 2, {1, 1}, {3, 3, 1, 0}, {2, 1}},
    {{1, 6, 31, 31}, 66, {3, 3}, 2, {1, 1}, {1, 1, 1, 1}},
    {{1, 8, 40, 40}, 24, {3, 3}, 2, {1, 1}, {1, 1, 1, 1}},
    {{1, 20, 28, 28}, 44, {5, 5}, 4},
};

/// What "xc.conv" takes without functions behind it: few channels of the input.
const std::vector<Case> kFewChannels = {
    {{1, 3, 20, 20}, 8, {3, 3}, 1, {2, 2}, {1, 1, 1, 1}},
    {{1, 3, 33, 47}, 70, {7, 7}, 1, {2, 2}, {3, 3, 3, 3}},  // a panel of 64 channels and a rest
    {{2, 1, 9, 31}, 80, {5, 3}, 1, {1, 1}, {2, 1, 2, 1}},   // panels of 3 and 2 vectors
    {{1, 4, 12, 10}, 6, {3, 2}, 1, {1, 2}, {0, 1, 2, 1}, {2, 1}},
    {{3, 2, 40}, 33, {5}, 1, {2}, {2, 2}},
    {{1, 1, 3000}, 16, {10}, 1, {5}, {}},  // blocks across a row
    {{1, 3, 13, 13}, 130, {4, 4}, 1, {3, 3}, {}, {}, "SAME_UPPER"},
    {{1, 3, 5, 4}, 17, {7, 7}, 1, {1, 1}, {3, 3, 3, 3}},  // windows larger than the input
    {{1, 2, 1, 12}, 24, {3, 3}, 1, {}, {1, 1, 1, 1}},     // rows of padding only
    {{1, 2, 30, 22}, 9, {3, 3}, 1, {2, 1}, {6, 5, 6, 5}, {6, 5}},
    {{1, 3, 224, 64}, 64, {3, 3}, 1, {2, 2}, {1, 1, 1, 1}},  // several tasks
    {{2, 4, 9, 11}, 24, {1, 1}},
    {{1, 1, 8, 8}, 1, {2, 2}},
    {{1, 1, 1, 1}, 3, {1, 1}},
    {{0, 3, 8, 8}, 8, {3, 3}},
};

TEST_CASE("backends/conv: few channels of the input by rows, the same bits for 1 to 4 threads") {
  Generator g(55);
  for (const Case& c : kFewChannels) {
    INFO(to_text(c.x) << " to " << c.out);
    check_row("xc.conv", conv(g, c), {1e-5, 1e-4});
    check_row("xc.conv", conv(g, c, false), {1e-5, 1e-4});
    check_threads("xc.conv", conv(g, c));
  }
}

/// What "xc.conv planes" takes: few channels in all.
const std::vector<Case> kPlanes = {
    {{1, 3, 40, 54}, 3, {11, 11}, 3, {1, 1}, {5, 5, 5, 5}},
    {{2, 1, 9, 31}, 1, {3, 3}, 1, {1, 1}, {2, 1, 2, 1}},
    {{1, 1, 16000}, 2, {101}, 1, {}, {50, 50}},            // blocks across a row
    {{3, 1, 5000}, 1, {65}, 1, {4}, {7, 0}},               // phases of a stride
    {{1, 3, 33, 47}, 4, {1, 1}},                           // of colours
    {{1, 4, 20, 21}, 8, {5, 3}, 2, {2, 3}, {2, 1, 1, 2}},  // two planes into four
    {{1, 2, 30, 22}, 2, {3, 3}, 2, {2, 1}, {6, 5, 6, 5}, {6, 5}},
    {{1, 1, 25, 40}, 3, {3, 4}, 1, {1, 3}, {0, 2, 0, 2}, {1, 2}},
    {{1, 2, 13, 13}, 2, {4, 4}, 1, {1, 1}, {}, {}, "SAME_UPPER"},
    {{1, 8, 5, 9}, 8, {7, 7}, 8, {1, 1}, {3, 3, 3, 3}},  // windows larger than the input
    {{1, 2, 1, 12}, 4, {3, 3}, 1, {}, {1, 1, 1, 1}},     // rows of padding only
    {{4, 3, 64, 150}, 3, {3, 3}, 3, {1, 1}, {1, 1, 1, 1}},
    {{1, 1, 1, 300}, 1, {1, 9}, 1, {}, {0, 4, 0, 4}},
    {{0, 3, 8, 8}, 3, {1, 1}},
    {{1, 32, 30, 41}, 3, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}},  // many planes into an image
    {{2, 50, 19, 200}, 4, {3, 5}, 1, {1, 2}, {1, 2, 1, 2}},
    {{1, 256, 500}, 1, {7}, 1, {1}, {3, 3}},  // blocks across a row of many planes
    {{1, 64, 40, 150}, 2, {3, 3}, 1, {2, 2}, {1, 1, 1, 1}, {2, 1}},
    // Volumes.
    {{2, 1, 9, 10, 31}, 1, {3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
    {{1, 2, 20, 24, 40}, 4, {2, 3, 5}, 2, {2, 1, 3}, {1, 0, 2, 0, 1, 2}, {2, 3, 1}},
    {{1, 1, 40, 30, 300}, 1, {3, 3, 3}, 1, {1, 2, 2}, {1, 1, 1, 1, 1, 1}},
    {{1, 18, 6, 7, 9}, 18, {3, 3, 3}, 18, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
    {{1, 12, 5, 6, 20}, 12, {3, 1, 3}, 6, {1, 1, 1}, {1, 0, 1, 1, 0, 1}},
    {{1, 3, 1, 9, 21}, 4, {3, 3, 3}, 1, {1, 1, 1}, {3, 1, 1, 3, 1, 1}},  // depths of padding only
    {{1, 30, 6, 8, 33}, 2, {3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
};

/// What other kernels leave to planes where operands lie plane by plane.
const std::vector<Case> kPlanesBeside = {
    {{1, 33, 28, 30}, 33, {7, 7}, 33, {1, 1}, {3, 3, 3, 3}},
    {{2, 16, 27, 65}, 16, {5, 5}, 16, {2, 2}, {2, 2, 2, 2}},
    {{1, 20, 19, 24}, 20, {3, 3}, 20, {1, 1}, {2, 2, 2, 2}, {2, 2}},
    {{1, 16, 40, 31}, 16, {5, 3}, 16, {3, 1}, {2, 1, 2, 1}, {1, 1}},
    {{1, 16, 24, 40}, 16, {2, 3}, 16, {3, 1}, {0, 1, 0, 1}},  // rows between the windows
    {{2, 24, 50}, 24, {3}, 24, {1}, {1, 1}},
    {{1, 27, 11, 28}, 54, {3, 3}, 9, {1, 1}, {1, 1, 1, 1}},  // three planes into six
    // More planes; those of 1x1 are one row, where nothing but bounds comes behind them.
    {{2, 24, 9, 7}, 60, {1, 1}, 3},
    {{1, 240, 6, 8}, 60, {1, 1}, 3},
    {{1, 48, 3, 4, 5}, 12, {1, 1, 1}, 2},
    {{1, 36, 50}, 20, {1}, 2},
    {{1, 64, 11, 30}, 16, {3, 3}, 4, {1, 1}, {1, 1, 1, 1}},
    {{2, 24, 13, 45}, 36, {3, 2}, 4, {2, 1}, {1, 0, 1, 1}},
    {{1, 34, 9, 33}, 6, {1, 1}, 2, {1, 1}, {1, 0, 0, 1}},
};

/// The rows that do so.
std::string_view beside_planes(const Case& c) {
  const bool depthwise = c.x[1] == c.group;
  if (c.x[1] > 4 * c.group) return "onednn.conv";
  if (!depthwise) return "xc.conv groups";
  const bool gaps = std::ranges::any_of(c.dilations, [](int64_t d) { return d > 1; });
  return gaps && c.kernel.size() > 1 ? "onednn.conv" : "xc.conv depthwise";
}

TEST_CASE("backends/conv: groups of few planes that lie plane by plane") {
  Generator g(62);
  for (const Case& c : kPlanesBeside) {
    INFO(to_text(c.x) << " in " << c.group << " to " << c.out);
    check_row(beside_planes(c), conv(g, c), {1e-5, 1e-4});
    check_row(beside_planes(c), conv(g, c, false), {1e-5, 1e-4});
    check_threads(beside_planes(c), conv(g, c));
  }
}

// Long sums over small images, of which the library multiplies few rows in other blocks than all.
TEST_CASE("backends/conv: the library's parts have the bits of the whole, for 1 to 4 threads") {
  Generator g(61);
  const std::vector<Case> cases = {
      {{1, 960, 6, 4}, 256, {3, 3}, 1, {}, {1, 1, 1, 1}}, {{2, 768, 18, 5}, 48, {5, 5}},
      {{1, 512, 7, 13}, 48, {7, 7}, 1, {}, {3, 3, 3, 3}}, {{1, 1024, 16, 10}, 192, {3, 3}},
      {{1, 64, 56, 56}, 64, {3, 3}, 1, {}, {1, 1, 1, 1}},
  };
  for (const Case& c : cases) {
    INFO(to_text(c.x) << " to " << c.out);
    check_threads("onednn.conv", conv(g, c));
  }
}

// Halves that the library lays weights out for in other blocks than for the whole (64 channels at a
// time and 48 or 32, Zen 4), one pixel by much, few rows by much: parts with the bits of the whole.
TEST_CASE("backends/conv: signals by taps apart have the same bits with any number of threads") {
  Generator g(63);
  // Parts of 100 columns have kernels of the same name as the whole, and another order of sums.
  const std::vector<Case> cases = {{{2, 32, 200}, 32, {7}, 1, {}, {9, 9}, {3}},
                                   {{1, 256, 200}, 24, {7}, 1, {}, {9, 9}, {3}},
                                   {{1, 64, 500}, 64, {3}, 1, {}, {4, 4}, {4}},
                                   {{1, 64, 300}, 64, {5}, 1, {2}, {4, 4}, {2}}};
  for (const Case& c : cases) {
    INFO(to_text(c.x) << " to " << c.out);
    RunOptions options;
    options.background = true;  // the library's primitives, not what stands in for them
    check_threads("onednn.conv", conv(g, c), options);
  }
}

// Parts of signals have kernels of the same name as the whole, and another order of sums, where
// windows reach far over the ends or step along.
TEST_CASE(
    "backends/conv: padded and strided signals have the same bits with any number of threads") {
  Generator g(65);
  const std::vector<Case> cases = {{{1, 256, 400}, 100, {10}, 1, {5}, {5, 5}},
                                   {{1, 256, 400}, 128, {10}, 1, {5}, {5, 0}},
                                   {{1, 512, 400}, 100, {3}, 1, {3}, {1, 0}},
                                   {{1, 512, 400}, 256, {8}, 1, {2}, {4, 0}},
                                   {{1, 512, 400}, 64, {9}, 1, {}, {7, 7}},
                                   {{1, 512, 400}, 64, {3}, 1, {}, {2, 2}},
                                   {{1, 256, 400}, 100, {8}, 1, {}, {4, 4}},
                                   {{1, 256, 400}, 64, {5}, 1, {}, {3, 3}},
                                   {{1, 64, 450}, 64, {7}, 1, {}, {3, 3}},
                                   {{1, 128, 500, 1}, 64, {4, 1}, 1, {2, 1}, {1, 0, 1, 0}}};
  RunOptions options;
  options.background = true;
  for (const Case& c : cases) {
    INFO(to_text(c.x) << " to " << c.out << " by " << c.kernel[0]);
    check_threads("onednn.conv", conv(g, c), options);
    if (!cpu::has_bf16_products()) continue;
    for (const DType type : {DType::kF32, DType::kBF16}) {
      Problem p = conv(g, c);
      p.inputs[0] = g.tensor(type, c.x);
      p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
      check_threads("onednn.conv bf16", p, options);
    }
  }
}

TEST_CASE("backends/conv: long signals have parts for many threads") {
  Generator g(66);
  RunOptions options;
  options.background = true;
  const Problem p = conv(g, {{1, 64, 8000}, 64, {5}, 2, {}, {2, 2}});
  for (const int threads : {1, 16}) {
    options.threads = threads;
    CHECK(bind_row(find_row("onednn.conv", "Conv"), p, options)->tasks >= 16);
  }
}

TEST_CASE("backends/conv: 1x1 has parts for two threads, with the bits of the whole") {
  Generator g(62);
  const std::vector<Case> cases = {
      {{1, 736, 28, 28}, 512, {1, 1}},
      {{1, 1280, 14, 14}, 320, {1, 1}},
      {{1, 320, 14, 14}, 1280, {1, 1}},
      {{1, 640, 10, 10}, 160, {1, 1}},
      {{1, 448, 28, 28}, 512, {1, 1}, 1, {2, 2}},
      {{1, 960, 1, 1}, 1280, {1, 1}},
      {{1, 512, 4, 4}, 1024, {1, 1}, 1, {2, 2}},
      {{3, 320, 9, 9}, 336, {1, 1}},
  };
  const Implementation& row = find_row("onednn.conv", "Conv");
  for (const Case& c : cases) {
    INFO(to_text(c.x) << " to " << c.out);
    const Problem p = conv(g, c);
    check_threads("onednn.conv", p);
    // Channels-last, with time for primitives.
    RunOptions options;
    options.threads = 2;
    options.background = true;
    const Node node = node_of(p);
    std::vector<Tensor> in = p.inputs, out = run_row(row, p);
    in[0] = g.strided(in[0], 3);
    out[0] = g.strided(out[0], 3);
    const auto operands = operands_of(in), results = operands_of(out);
    const auto kernel = row.create(spec_of(p, node, options));
    CHECK(kernel->bind({operands, results, options.background, 0})->tasks >= 2);
  }
}

TEST_CASE("backends/conv: 1x1 between row-major images has parts for two threads") {
  Generator g(63);
  RunOptions options;
  options.threads = 2;
  options.background = true;
  // Images, where there are several; channels, where these are many.
  for (const Case& c : {Case{{4, 64, 32, 32}, 32, {1, 1}}, Case{{1, 256, 16, 16}, 256, {1, 1}}}) {
    INFO(to_text(c.x) << " to " << c.out);
    const Problem p = conv(g, c);
    check_threads("onednn.conv", p);
    CHECK(bind_row(find_row("onednn.conv", "Conv"), p, options)->tasks >= 2);
  }
}

TEST_CASE("backends/conv: few planes along their rows, the same bits for 1 to 4 threads") {
  Generator g(59);
  const auto& row = find_row("xc.conv planes", "Conv");
  for (const Case& c : kPlanes) {
    INFO(to_text(c.x) << " in " << c.group << " to " << c.out);
    check_row("xc.conv planes", conv(g, c), {1e-5, 1e-4});
    check_row("xc.conv planes", conv(g, c, false), {1e-5, 1e-4});
    check_threads("xc.conv planes", conv(g, c));
  }
  const auto takes = [&](const Case& c) {
    const Problem p = conv(g, c);
    const Node node = node_of(p);
    return row.supports(spec_of(p, node, {})).yes();
  };
  CHECK_FALSE(takes({{1, 9, 20, 20}, 9, {3, 3}, 9}));
  CHECK(takes({{1, 5, 20, 20}, 4, {3, 3}}));
  CHECK_FALSE(takes({{1, 5, 20, 20}, 5, {3, 3}}));
  CHECK_FALSE(takes({{1, 5, 20, 20}, 4, {1, 1}}));
  CHECK_FALSE(takes({{1, 5, 17, 17}, 4, {3, 3}}));   // 15 columns
  CHECK_FALSE(takes({{1, 3, 9, 9}, 3, {3, 3}, 3}));  // 7 columns
  CHECK(takes({{1, 90, 9, 9, 6}, 90, {3, 3, 3}, 90}));
  CHECK_FALSE(takes({{1, 90, 9, 9, 5}, 90, {3, 3, 3}, 90}));  // 3 columns
  CHECK_FALSE(takes({{1, 9, 20, 20, 20}, 5, {3, 3, 3}}));
}

TEST_CASE("backends/conv: elements of rows for every instruction set, any number side by side") {
  Generator g(60);
  struct Rows {
    int64_t results, rows, kernel, step;  ///< step: rows of x between rows of the result
  };
  const std::vector<Rows> all{{1, 1, 2, 1}, {2, 1, 2, 1}, {3, 2, 2, 1}, {4, 3, 1, 1}, {1, 2, 3, 1},
                              {1, 5, 3, 1}, {1, 7, 1, 1}, {1, 4, 5, 2}, {1, 6, 2, 3}, {1, 9, 7, 1}};
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::PlaneRowFns fns = cpu::plane_row_fns(isa);
    for (int64_t count = 0; count < 290; count += count < 70 ? 1 : 13) {
      for (const Rows& r : all) {
        // Two planes, each of enough rows, and two columns.
        const int64_t row_by = count + 5, plane = (r.rows * r.step + r.kernel) * row_by;
        const std::vector<int64_t> planes{1, plane}, cols{0, 4};
        const int64_t taps = 2 * r.kernel * 2, y_row_by = count + 1, y_by = r.rows * y_row_by;
        const Tensor x = g.tensor(DType::kF32, {2 * plane + fns.lanes}),
                     w = g.tensor(DType::kF32, {r.results, taps});
        std::vector<float> y(static_cast<size_t>(r.results * y_by), 77.0f);
        const float bias[cpu::kPlaneResults] = {0.5f, -0.25f, 0, 1};
        fns.run({.x = x.as<float>(),
                 .x_row_by = r.step * row_by,
                 .window = {planes.data(), 2, r.kernel, row_by, cols.data(), 2},
                 .w = w.as<float>(),
                 .bias = bias,
                 .y = y.data(),
                 .y_by = y_by,
                 .results = r.results,
                 .y_row_by = y_row_by,
                 .rows = r.rows,
                 .count = count,
                 .low = -1.0f,
                 .high = 2.0f});
        double worst = 0;
        for (int64_t k = 0; k < r.results; ++k)
          for (int64_t j = 0; j < r.rows; ++j) {
            for (int64_t i = 0; i < count; ++i) {
              double sum = bias[k];
              for (int64_t t = 0; t < taps; ++t) {
                const int64_t row = j * r.step + t / 2 % r.kernel;
                sum += static_cast<double>(w.as<float>()[k * taps + t]) *
                       x.as<float>()[planes[static_cast<size_t>(t / 2 / r.kernel)] + row * row_by +
                                     cols[static_cast<size_t>(t % 2)] + i];
              }
              const double error = std::fabs(std::clamp(sum, -1.0, 2.0) -
                                             y[static_cast<size_t>(k * y_by + j * y_row_by + i)]);
              if (!(error <= worst)) worst = error;
            }
            CHECK(y[static_cast<size_t>(k * y_by + j * y_row_by + count)] == 77.0f);
          }
        CHECK_MESSAGE(worst < 2e-5, name(isa) << " count " << count << " results " << r.results
                                              << " rows " << r.rows << " of " << r.kernel);
      }
    }
  }
}

TEST_CASE("backends/conv: columns by the phases of a stride, for every instruction set") {
  Generator g(63);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    for (int64_t stride = 1; stride <= 4; ++stride)
      for (int64_t columns = 1; columns < 80; columns += columns < 40 ? 1 : 7)
        for (int64_t first = 0; first < 3; ++first) {
          const int64_t rows = 2, phase_by = (first + columns) / stride + 2,
                        row_by = stride * phase_by;
          const Tensor x = g.tensor(DType::kF32, {rows, columns});
          std::vector<float> to(static_cast<size_t>(rows * row_by), 77.0f), want = to;
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t i = 0; i < columns; ++i) {
              const int64_t n = first + i;
              want[static_cast<size_t>(row * row_by + n % stride * phase_by + n / stride)] =
                  x.as<float>()[row * columns + i];
            }
          cpu::plane_row_fns(isa).copy({.x = x.as<float>(),
                                        .x_row_by = columns,
                                        .rows = rows,
                                        .columns = columns,
                                        .to = to.data(),
                                        .to_row_by = row_by,
                                        .first = first,
                                        .stride = stride,
                                        .phase_by = phase_by});
          CHECK_MESSAGE(to == want, name(isa) << " stride " << stride << " columns " << columns
                                              << " from " << first);
        }
  }
}

TEST_CASE("backends/conv: the phases of a stride woven into a row, for every instruction set") {
  Generator g(65);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    for (int64_t stride = 2; stride <= 4; ++stride)
      for (int64_t count = 1; count < 90; ++count)
        for (int64_t first = 0; first < stride; ++first) {
          const int64_t rows = 1 + count % 3, row_by = count + 3, phase_by = rows * row_by + 1;
          const Tensor x = g.tensor(DType::kF32, {stride, phase_by});
          std::vector<float> y(static_cast<size_t>(rows * (count + 1)), 77.0f);
          cpu::plane_row_fns(isa).weave(
              {x.as<float>(), row_by, phase_by, stride, first, y.data(), count + 1, rows, count});
          bool same = true;
          for (int64_t row = 0; row < rows; ++row) {
            const float* const woven = y.data() + row * (count + 1);
            for (int64_t i = 0; i < count; ++i)
              same &= woven[i] ==
                      x.as<float>()[row * row_by + (first + i) % stride * phase_by + i / stride];
            same &= woven[count] == 77.0f;
          }
          CHECK_MESSAGE(
              same, name(isa) << " stride " << stride << " count " << count << " from " << first);
        }
  }
}

/// What "xc.conv groups" takes: groups of 2 to 16 channels, with AVX-512 of up to 4, and of more
/// where pixels share few sets of the cache.
std::vector<Case> groups() {
  std::vector<Case> out{
      {{1, 32, 14, 14}, 32, {3, 3}, 8, {1, 1}, {1, 1, 1, 1}},
      {{2, 128, 28, 27}, 128, {3, 3}, 32, {1, 1}, {1, 1, 1, 1}},  // several blocks of channels
      {{1, 20, 9, 11}, 20, {3, 3}, 5, {2, 2}, {1, 1, 1, 1}},      // the last slice is half one
      {{1, 12, 7, 7}, 12, {3, 3}, 6, {1, 1}, {1, 1, 1, 1}},
      {{1, 12, 12, 10}, 24, {3, 2}, 4, {1, 2}, {0, 1, 2, 1}, {2, 1}},  // 3 channels into 6
      {{1, 8, 10, 10}, 12, {3, 3}, 4},
      {{3, 16, 40}, 16, {5}, 4, {1}, {2, 2}},
      {{1, 8, 3, 3000}, 8, {3, 9}, 2, {1, 5}, {1, 4, 1, 4}},  // blocks across a row
      {{1, 8, 5, 4}, 8, {7, 7}, 2, {1, 1}, {3, 3, 3, 3}},     // windows larger than the input
      {{1, 8, 30, 22}, 8, {3, 3}, 2, {2, 1}, {6, 5, 6, 5}, {6, 5}},
      {{1, 64, 6, 6}, 64, {1, 1}, 16},
      {{1, 256, 5, 57}, 256, {3, 3}, 32, {1, 2}, {1, 1, 1, 1}},
      {{1, 512, 7, 20}, 512, {3, 3}, 32, {1, 1}, {1, 1, 1, 1}},
      {{0, 8, 8, 8}, 8, {3, 3}, 2}};
  if (cpu_info().isa != Isa::kAvx512)
    for (const int64_t width : {5, 8, 12, 16})
      for (const int64_t columns : {1, 3, 7, 13, 29})
        out.push_back({{1, 3 * width, 6, columns}, 3 * width, {3, 3}, 3, {1, 1}, {1, 1, 1, 1}});
  return out;
}

TEST_CASE("backends/conv: groups of a few channels, the same bits for 1 to 4 threads") {
  Generator g(58);
  for (const Case& c : groups()) {
    INFO(to_text(c.x) << " in " << c.group << " to " << c.out);
    check_row("xc.conv groups", conv(g, c), {1e-5, 1e-4});
    check_row("xc.conv groups", conv(g, c, false), {1e-5, 1e-4});
    check_threads("xc.conv groups", conv(g, c));
  }
}

TEST_CASE("backends/conv: groups of more channels by the sets of the cache that pixels share") {
  if (cpu_info().isa != Isa::kAvx512) return;
  Generator g(64);
  const auto& row = find_row("xc.conv groups", "Conv");
  const auto takes = [&](const Case& c) {
    const Problem p = conv(g, c);
    const Node node = node_of(p);
    return row.supports(spec_of(p, node, {})).yes();
  };
  CHECK(takes({{1, 512, 7, 20}, 512, {3, 3}, 32, {1, 1}, {1, 1, 1, 1}}));        // 2 sets
  CHECK_FALSE(takes({{1, 512, 7, 16}, 512, {3, 3}, 32, {1, 1}, {1, 1, 1, 1}}));  // hold 16 lines
  CHECK(takes({{1, 512, 7, 18}, 512, {3, 3}, 32, {1, 2}, {1, 1, 1, 1}}));
  CHECK_FALSE(takes({{1, 208, 7, 60}, 208, {3, 3}, 26, {1, 1}, {1, 1, 1, 1}}));
  CHECK_FALSE(takes({{1, 2048, 7, 60}, 2048, {3, 3}, 64}));  // groups of 32
}

TEST_CASE("backends/conv: pixels of groups for every instruction set, any number side by side") {
  Generator g(59);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::ConvRowFns fns = cpu::conv_row_fns(isa);
    for (const int64_t width : {2, 4, 8})
      for (int64_t pixels = 1; width < fns.lanes && pixels < 60; ++pixels) {
        // Two offsets; the distance of pixels is a vector and a half.
        const int64_t step = fns.lanes * 3 / 2, taps = 2 * width;
        const std::vector<int64_t> offsets{0, step};
        const Tensor x = g.tensor(DType::kF32, {(pixels + 2) * step}),
                     w = g.tensor(DType::kF32, {taps, fns.lanes}),
                     bias = g.tensor(DType::kF32, {fns.lanes});
        std::vector<float> y(static_cast<size_t>(pixels * fns.lanes));
        fns.run({x.as<float>(), step, offsets.data(), taps, w.as<float>(), bias.as<float>(),
                 y.data(), fns.lanes, pixels, fns.lanes, -INFINITY, INFINITY, width});
        double worst = 0;
        for (int64_t i = 0; i < pixels; ++i)
          for (int64_t l = 0; l < fns.lanes; ++l) {
            double want = bias.as<float>()[l];
            for (int64_t t = 0; t < taps; ++t)
              want += static_cast<double>(w.as<float>()[t * fns.lanes + l]) *
                      x.as<float>()[i * step + offsets[static_cast<size_t>(t / width)] +
                                    l / width * width + t % width];
            worst = std::max(worst, std::fabs(want - y[static_cast<size_t>(i * fns.lanes + l)]));
          }
        CHECK_MESSAGE(worst < 1e-4, name(isa) << " width " << width << " pixels " << pixels);
      }
  }
}

/// What "xc.conv depthwise" takes.
std::vector<Case> depthwise() {
  std::vector<Case> out{
      {{1, 96, 14, 14}, 96, {3, 3}, 96, {1, 1}, {1, 1, 1, 1}},
      {{2, 24, 9, 11}, 24, {3, 3}, 24, {2, 2}, {1, 1, 1, 1}},
      {{1, 21, 9, 11}, 21, {3, 3}, 21, {2, 2}, {1, 1, 1, 1}},  // channels that do not fill vectors
      {{1, 8, 13, 12}, 8, {5, 4}, 8, {1, 2}, {0, 3, 2, 0}},
      {{1, 40, 60, 50}, 40, {3, 3}, 40, {1, 1}, {1, 1, 1, 1}},  // several blocks and tasks
      {{1, 24, 12, 10}, 24, {3, 2}, 24, {1, 2}, {0, 1, 2, 1}},
      {{3, 16, 40}, 16, {31}, 16, {1}, {15, 15}},
      {{1, 40, 1, 50}, 40, {1, 3}, 40, {1, 1}, {0, 4, 0, 0}, {1, 2}},
      {{1, 704, 3, 150}, 704, {3, 9}, 704, {1, 5}, {1, 4, 1, 4}},  // blocks across a row
      {{1, 16, 5, 4}, 16, {7, 7}, 16, {1, 1}, {3, 3, 3, 3}},       // windows larger than the input
      {{1, 8, 4, 3}, 8, {3, 3}, 8, {1, 1}, {7, 7, 7, 7}},          // some wholly beside it
      {{1, 16, 70}, 16, {3}, 16, {2}, {6, 5}, {6}},
      {{1, 16, 70, 1}, 16, {5, 1}, 16, {1, 1}, {9, 0, 7, 0}, {4, 1}},
      {{1, 32, 13, 13}, 32, {4, 4}, 32, {3, 3}, {}, {}, "SAME_UPPER"},
      {{1, 64, 6, 6}, 64, {1, 1}, 64},
      {{0, 8, 8, 8}, 8, {3, 3}, 8}};
  for (int64_t columns = 1; columns < 16; ++columns)
    out.push_back({{1, 24, 4, columns}, 24, {3, 3}, 24, {1, 1}, {1, 1, 1, 1}});
  return out;
}

TEST_CASE("backends/conv: depthwise, the same bits for 1 to 4 threads") {
  Generator g(60);
  for (const Case& c : depthwise()) {
    INFO(to_text(c.x) << " by " << to_text(c.kernel));
    check_row("xc.conv depthwise", conv(g, c), {1e-5, 1e-4});
    check_row("xc.conv depthwise", conv(g, c, false), {1e-5, 1e-4});
    check_threads("xc.conv depthwise", conv(g, c));
  }
}

/// Result (r, i, c) of what is asked for, in double.
double depthwise_result(const cpu::DepthwiseRows& d, const float* w, int64_t r, int64_t i,
                        int64_t c) {
  const auto at = [](const cpu::DepthwiseAxis& axis, int64_t result, int64_t tap) {
    return axis.first + result * axis.stride + tap * axis.dilation;
  };
  double sum = d.bias ? d.bias[c] : 0;
  for (int64_t k = 0; k < d.down.taps; ++k)
    for (int64_t j = 0; j < d.across.taps; ++j) {
      const int64_t row = at(d.down, r, k), col = at(d.across, i, j);
      if (row < 0 || row >= d.down.input || col < 0 || col >= d.across.input) continue;
      sum += static_cast<double>(w[(k * d.across.taps + j) * d.channels + c]) *
             d.x[row * d.x_row + col * d.x_pixel + c];
    }
  return std::clamp<double>(sum, d.low, d.high);
}

TEST_CASE("backends/conv: depthwise rows for every instruction set, any windows and sizes") {
  Generator g(61);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::DepthwiseRowsFns fns = cpu::depthwise_rows_fns(isa);
    for (int n = 0; n < 400; ++n) {
      // Some windows reach over the edges, some lie beside the image.
      const auto axis = [&](int64_t results) {
        cpu::DepthwiseAxis out;
        out.taps = g.integer(1, 7);
        out.stride = g.integer(1, 3);
        out.dilation = g.integer(0, 2) == 0 ? g.integer(2, 3) : 1;
        out.first = -g.integer(0, 6);
        const int64_t reach =
            (results - 1) * out.stride + (out.taps - 1) * out.dilation + 1 + out.first;
        out.input = std::max<int64_t>(reach - g.integer(-2, 6), 1);
        return out;
      };
      const int64_t rows = g.integer(1, 6), pixels = g.integer(1, 20),
                    channels = fns.lanes + g.integer(0, 2 * fns.lanes);
      cpu::DepthwiseRows d{};
      d.down = axis(rows);
      d.across = axis(pixels);
      d.rows = rows;
      d.pixels = pixels;
      d.channels = channels;
      d.x_pixel = channels + 3;
      d.x_row = d.across.input * d.x_pixel;
      d.y_pixel = channels + 1;
      d.y_row = pixels * d.y_pixel + 2;
      d.low = -1.5f;
      d.high = 2.5f;
      const int64_t taps = d.down.taps * d.across.taps;
      const Tensor x = g.tensor(DType::kF32, {d.down.input * d.x_row}),
                   w = g.tensor(DType::kF32, {taps, channels}),
                   bias = g.tensor(DType::kF32, {channels});
      std::vector<float> packed;
      for (int64_t next = 0; next < channels; next += fns.lanes)
        for (int64_t t = 0; t < taps; ++t) {
          const float* const from =
              w.as<float>() + t * channels + std::min(next, channels - fns.lanes);
          packed.insert(packed.end(), from, from + fns.lanes);
        }
      d.x = x.as<float>();
      d.w = packed.data();
      d.bias = g.integer(0, 3) > 0 ? bias.as<float>() : nullptr;
      std::vector<float> y(static_cast<size_t>(rows * d.y_row), 7.0f), alone = y;
      d.y = y.data();
      fns.run(d);
      double worst = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < pixels; ++i) {
          cpu::DepthwiseRows one = d;
          one.rows = one.pixels = 1;
          one.down.first += r * d.down.stride;
          one.across.first += i * d.across.stride;
          one.y = alone.data() + r * d.y_row + i * d.y_pixel;
          fns.run(one);
          for (int64_t c = 0; c < channels; ++c) {
            const float got = y[static_cast<size_t>(r * d.y_row + i * d.y_pixel + c)];
            const double error = std::fabs(depthwise_result(d, w.as<float>(), r, i, c) - got);
            if (!(error <= worst)) worst = error;
          }
        }
      INFO(name(isa) << " case " << n << ": " << rows << " rows of " << pixels << " pixels, "
                     << channels << " channels, " << d.down.taps << "x" << d.across.taps);
      CHECK(worst < 2e-5);
      // The same bits for a pixel alone, and nothing else is written.
      CHECK(y == alone);
    }
  }
}

TEST_CASE("backends/conv: by rows are few channels, and some with bounds behind them") {
  Generator g(56);
  const auto& row = find_row("xc.conv", "Conv");
  const PostOp relu{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
  const PostOp tanh{PostOp::Kind::kUnary, &get_op("Tanh"), {}, 0, true, {}};
  const auto takes = [&](const Case& c, std::vector<PostOp> posts) {
    Problem p = conv(g, c);
    p.post_ops = std::move(posts);
    const Node node = node_of(p);
    return row.supports(spec_of(p, node, {})).yes();
  };
  CHECK(takes({{1, 4, 20, 20}, 8, {3, 3}}, {}));
  CHECK_FALSE(takes({{1, 5, 20, 20}, 8, {3, 3}}, {}));
  CHECK_FALSE(takes({{1, 4, 20, 20}, 8, {3, 3}, 4}, {}));  // groups
  CHECK(takes({{1, 64, 20, 20}, 24, {1, 1}}, {relu, tanh}));
  CHECK_FALSE(takes({{1, 64, 20, 20}, 24, {1, 1}}, {tanh, relu}));
  CHECK_FALSE(takes({{1, 65, 20, 20}, 24, {1, 1}}, {relu}));
  CHECK_FALSE(takes({{1, 64, 20, 20}, 24, {3, 1}}, {relu}));
  CHECK_FALSE(takes({{70, 64, 1, 1}, 24, {1, 1}}, {relu}));
}

TEST_CASE("backends/conv: signals with taps far apart keep their kernels") {
  Generator g(57);
  const auto takes = [&](const char* row, const Case& c) {
    const Problem p = conv(g, c);
    const Node node = node_of(p);
    return find_row(row, "Conv").supports(spec_of(p, node, {})).yes();
  };
  for (const int64_t dilation : {33, 64, 600}) {
    const std::vector<int64_t> pads{dilation, dilation}, dilations{dilation};
    const Case filter{{1, 40, 3000}, 1, {3}, 1, {1}, pads, dilations},
        first{{1, 1, 3000}, 16, {3}, 1, {1}, pads, dilations},
        groups{{2, 32, 3000}, 32, {3}, 8, {1}, pads, dilations},
        depthwise{{1, 32, 3000}, 32, {3}, 32, {1}, pads, dilations},
        strided{{1, 32, 3000}, 32, {2}, 32, {2}, pads, dilations},
        of_image{{1, 32, 3, 2000}, 32, {1, 3}, 32, {1, 1}, {0, dilation, 0, 0}, {1, dilation}};
    INFO("dilation " << dilation);
    CHECK(takes("xc.conv planes", filter));
    CHECK(takes("xc.conv", first));
    CHECK(takes("xc.conv groups", groups));
    for (const Case& c : {depthwise, strided, of_image}) {
      const Problem p = conv(g, c);
      const Node node = node_of(p);
      const auto operands = operands_of(p.inputs);
      const std::vector<Tensor> result{run_reference(node, p.inputs)};
      const auto results = operands_of(result);
      const StepSpec spec = spec_of(p, node, {});
      const cpu::SqueezedConv squeezed(cpu::ConvAttrs(spec), operands[0], operands[1], results[0]);
      CHECK(cpu::PlaneConv(spec).bind({operands, results}, squeezed));
      check_row("onednn.conv", p, {1e-5, 1e-4});
    }
    check_row("xc.conv planes", conv(g, filter), {1e-5, 1e-3});
    check_row("xc.conv", conv(g, first), {1e-5, 1e-4});
    check_row("xc.conv groups", conv(g, groups), {1e-5, 1e-4});
  }
  // Rows between the taps, and more than a block may bring in, are left to the library.
  CHECK_FALSE(takes("xc.conv", {{1, 1, 200, 9}, 16, {3, 1}, 1, {1, 1}, {}, {64, 1}}));
  CHECK_FALSE(takes("xc.conv", {{1, 1, 9000}, 16, {3}, 1, {1}, {}, {2049}}));
}

TEST_CASE("backends/conv: taps beside the image in all windows are not multiplied") {
  Generator g(73);
  const float inf = std::numeric_limits<float>::infinity();
  // Weights of idle taps, which are infinite, would give 0 * inf.
  const auto with_infinities = [&](const Case& c, std::span<const RowRange> used) {
    Problem p = conv(g, c);
    Tensor& w = p.inputs[1];
    const int64_t taps = element_count(std::span(w.dims()).subspan(2));
    for (int64_t i = 0; i < w.count(); ++i) {
      int64_t at = i % taps;
      for (size_t axis = used.size(); axis-- > 0; at /= c.kernel[axis]) {
        const int64_t k = at % c.kernel[axis];
        if (k < used[axis].begin || k >= used[axis].end) w.as<float>()[i] = inf;
      }
    }
    p.inputs[0] = g.strided(p.inputs[0], 3);
    return p;
  };
  const RowRange middle{1, 2};
  const std::vector<std::pair<Case, std::vector<RowRange>>> cases{
      {{{1, 96, 4, 8}, 64, {3, 3}, 1, {1, 1}, {12, 12, 12, 12}, {12, 12}}, {middle, middle}},
      {{{2, 32, 4, 30}, 64, {3, 3}, 1, {1, 1}, {24, 24, 24, 24}, {24, 24}}, {middle, {0, 3}}},
      {{{1, 64, 1, 1}, 48, {3, 3}, 1, {1, 1}, {1, 1, 1, 1}}, {middle, middle}},
      {{{1, 64, 2, 2}, 48, {5, 5}, 1, {1, 1}, {2, 2, 2, 2}}, {{1, 4}, {1, 4}}},
      {{{3, 64, 1, 2}, 48, {7, 7}, 1, {2, 2}, {3, 3, 3, 3}}, {{3, 4}, {3, 5}}},
      {{{1, 64, 3, 1}, 48, {3, 3}, 2, {}, {}, {4, 4}, "SAME_UPPER"}, {middle, middle}},
      {{{2, 40, 5}, 32, {3}, 1, {1}, {9, 9}, {9}}, {middle}},
  };
  for (const auto& [c, used] : cases) {
    CAPTURE(to_text(c.x));
    const Problem p = with_infinities(c, used);
    for (const char* row : {"onednn.conv", "xc.conv winograd"}) {
      if (!find_row(row, "Conv").supports(spec_of(p, node_of(p), {})).yes()) continue;
      RunOptions options;
      options.background = options.symbolic = true;
      const Node node = node_of(p);
      const auto kernel = find_row(row, "Conv").create(spec_of(p, node, options));
      CHECK(difference(run_kernel(*kernel, p, options)[0], run_reference(node, p.inputs)[0],
                       {1e-5, 1e-4}) == "");
      // What was packed there is used where there is no time.
      options.background = false;
      CHECK(difference(run_kernel(*kernel, p, options)[0], run_reference(node, p.inputs)[0],
                       {1e-5, 1e-4}) == "");
    }
    check_row("onednn.conv", conv(g, c), {1e-5, 1e-4});
    check_threads("onednn.conv", conv(g, c));
  }
}

TEST_CASE("backends/conv: depthwise over more padding than the library has a kernel for") {
  Generator g(58);
  const Case cases[] = {
      {{2, 64, 200}, 64, {3}, 64, {1}, {7, 7}, {7}},
      {{1, 64, 200, 1}, 64, {3, 1}, 64, {1, 1}, {0, 0, 128, 0}, {64, 1}},
      {{1, 32, 30, 30}, 32, {3, 3}, 32, {1, 1}, {8, 8, 8, 8}, {8, 8}},
      {{1, 32, 30, 30}, 32, {3, 3}, 32, {1, 1}, {}, {8, 8}, "SAME_UPPER"},
  };
  for (const Case& c : cases) {
    const Problem p = conv(g, c);
    INFO(to_text(c.x));
    const bool image = std::ranges::count_if(c.kernel, [](int64_t k) { return k > 1; }) > 1;
    const bool own = !image || cpu_info().isa == Isa::kAvx512;
    CHECK(chosen_row(p) == (own ? "xc.conv depthwise" : "onednn.conv"));
    check_row(chosen_row(p), p, {1e-5, 1e-4});
    check_threads(chosen_row(p), p);
  }
}

TEST_CASE(
    "backends/conv: depthwise results narrower than their padding, without a product per channel") {
  Generator g(72);
  // Windows with gaps, which the library is asked for: it has a kernel for as many columns as are
  // padded in front of them, for fewer it would copy all windows of a channel side by side.
  RunOptions options;
  options.symbolic = options.background = true;
  options.output_kind = 3;
  for (const Dims& x : {Dims{1, 48, 14, 2}, Dims{2, 48, 3, 3}, Dims{1, 48, 5, 1}}) {
    CAPTURE(to_text(x));
    Problem p = conv(g, {x, 48, {5, 5}, 48, {1, 1}, {4, 4, 4, 4}, {2, 2}});
    p.inputs[0] = g.strided(p.inputs[0], 3);
    CHECK(chosen_row(p) == "onednn.conv");
    const Node node = node_of(p);
    const auto kernel = find_row("onednn.conv", "Conv").create(spec_of(p, node, options));
    std::vector<Tensor> outputs{g.strided(Tensor(DType::kF32, x), 3)};
    const auto in = operands_of(p.inputs), out = operands_of(outputs);
    CHECK(kernel->bind({in, out, true})->scratch_bytes == 0);
    CHECK(difference(run_kernel(*kernel, p, options)[0], run_reference(node, p.inputs)[0],
                     {1e-5, 1e-4}) == "");
    check_row("onednn.conv", p, {1e-5, 1e-4});
    check_threads("onednn.conv", p);
  }
}

TEST_CASE("backends/conv: depthwise, left to the library where it is faster") {
  Generator g(59);
  const auto chosen = [&](const Case& c) { return chosen_row(conv(g, c)); };
  // Gaps between the taps of an image, and pixels that lie a page of memory apart.
  CHECK(chosen({{1, 48, 20, 20}, 48, {3, 3}, 48, {1, 1}, {2, 2, 2, 2}, {2, 2}}) == "onednn.conv");
  CHECK(chosen({{1, 48, 20, 1}, 48, {3, 1}, 48, {1, 1}, {2, 0, 2, 0}, {2, 1}}) ==
        "xc.conv depthwise");
  CHECK(chosen({{1, 1024, 7, 7}, 1024, {3, 3}, 1024}) == "onednn.conv");
  CHECK(chosen({{1, 1040, 7, 7}, 1040, {3, 3}, 1040}) == "xc.conv depthwise");
}

TEST_CASE("backends/conv: shapes, strides, groups, dilations, orders") {
  Generator g(51);
  for (const Case& c : kCases) {
    const Problem p = conv(g, c);
    int64_t k = p.inputs[1].dims()[1];
    for (int64_t d : c.kernel) k *= d;
    INFO(to_text(c.x) << " " << to_text(p.inputs[1].dims()));
    check_row("onednn.conv", p, {1e-5, 3e-6 * static_cast<double>(k)});
    Problem live = conv(g, c, false);
    live.constant = {};
    check_row("onednn.conv", live, {1e-5, 3e-6 * static_cast<double>(k)});
  }
}

TEST_CASE("backends/conv: f64, which the library has no kernel for") {
  Generator g(58);
  std::vector<Case> cases = kCases;
  cases.push_back({{1, 3, 2000}, 5, {7}, 1, {2}, {3, 3}});  // blocks across a row
  cases.push_back({{0, 3, 8, 8}, 8, {3, 3}});
  for (const Case& c : cases)
    for (const bool bias : {true, false}) {
      Problem p = conv(g, c, bias);
      for (Tensor& input : p.inputs) input = g.tensor(DType::kF64, input.dims());
      INFO(to_text(c.x) << " " << to_text(p.inputs[1].dims()));
      if (c.x[0] > 0) CHECK(chosen_row(p) == "xc.conv gathered");
      check_row("xc.conv gathered", p, {1e-12, 1e-11});
    }
}

TEST_CASE("backends/conv: the same bits for 1 to 4 threads, in both orders") {
  Generator g(52);
  for (const Case& c : kCases) {
    Problem p = conv(g, c);
    check_threads("onednn.conv", p);
    p.constant = {};
    check_threads("onednn.conv", p);
  }
}

TEST_CASE("backends/conv: along one axis, with more weights than the second-level cache holds") {
  Generator g(64);
  const int64_t out = cpu_info().l2_bytes / (4 * 4 * 256) + 8;
  for (const Case& c :
       {Case{{1, 256, 140}, out, {4}, 1, {2}}, Case{{1, 256, 139}, out, {4}, 1, {2}, {1, 2}},
        Case{{1, 256, 1, 96}, out, {1, 4}, 1, {1, 1}},
        Case{{2, 256, 132, 1}, out, {4, 1}, 1, {2, 1}}, Case{{2, 256, 272}, out, {4}, 1, {4}}}) {
    const Problem p = conv(g, c);
    INFO(to_text(c.x) << " " << to_text(p.inputs[1].dims()));
    if (cpu_info().isa >= Isa::kAvx512)
      CHECK(cpu::ProductConv::create(spec_of(p, node_of(p), {})) != nullptr);
    check_row("onednn.conv", p, {1e-5, 1e-4});
    check_threads("onednn.conv", p);
    if (c.x[0] == 1) check_functions_behind("onednn.conv", p, {1e-5, 1e-4});
  }
  const Problem none = conv(g, {{0, 256, 140}, out, {4}, 1, {2}});
  RunOptions options;
  options.symbolic = true;
  CHECK(run_row(find_row("onednn.conv", "Conv"), none, options)[0].dims() == Dims{0, out, 69});
}

TEST_CASE("backends/conv: weights that the run makes, split by channels") {
  Generator g(56);
  const Case cases[] = {{{1, 256, 3, 3}, 520, {3, 3}, 1, {}, {1, 1, 1, 1}},
                        {{1, 512, 7, 7}, 520, {1, 1}}};
  for (const Case& c : cases) {
    Problem p = conv(g, c);
    p.constant = {};
    const Tensor x = p.inputs[0], want = run_reference(node_of(p), p.inputs)[0];
    for (const int order : {0, 3})
      for (const Numerics numerics : {Numerics::kTolerant, Numerics::kStrict}) {
        p.inputs[0] = g.strided(x, order);
        RunOptions options;
        options.background = true;
        options.output_kind = order;
        options.numerics = numerics;
        options.threads = 4;
        options.pieces = 0;
        const std::string wrong =
            difference(run_row(find_row("onednn.conv", "Conv"), p, options)[0], want, {1e-5, 1e-2});
        CHECK_MESSAGE(wrong.empty(), order << static_cast<int>(numerics) << ": " << wrong);
      }
  }
}

/// Weights of these dims that lie backwards, in each other's places, all in one, or turned.
std::vector<Tensor> unusual_weights(Generator& g, const Dims& dims) {
  const Tensor memory = g.tensor(DType::kF32, {2 * element_count(dims)});
  const auto view = [&](const Dims& strides) {
    int64_t first = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis)
      first += std::max<int64_t>(0, -strides[axis]) * (dims[axis] - 1);
    return Tensor(memory.buffer(), first * 4, DType::kF32, dims, strides);
  };
  const Dims dense = contiguous_strides(dims);
  Dims backwards = dense, last_backwards = dense, windows = dense, turned(dims.size());
  for (int64_t& stride : backwards) stride = -stride;
  last_backwards.back() = -1;
  windows[0] = 1;
  int64_t next = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    turned[axis] = next;
    next *= dims[axis];
  }
  std::vector<Tensor> out;
  for (const Dims& strides : {backwards, last_backwards, windows, Dims(dims.size(), 0), turned})
    out.push_back(view(strides));
  return out;
}

TEST_CASE("backends/conv: weights that the run makes lie in any way") {
  Generator g(63);
  for (const Case& c :
       {Case{{1, 4, 8, 8}, 8, {3, 3}, 1, {}, {1, 1, 1, 1}}, Case{{2, 8, 9, 7}, 12, {3, 2}, 4},
        Case{{1, 6, 20}, 6, {5}, 6}, Case{{1, 16, 6, 6}, 24, {1, 1}}}) {
    Problem p = conv(g, c);
    p.constant = {};
    for (const Tensor& weights : unusual_weights(g, p.inputs[1].dims())) {
      p.inputs[1] = weights;
      INFO(to_text(c.x) << " weights with strides " << to_text(weights.strides()));
      const Tensor want = run_reference(node_of(p), p.inputs)[0];
      for (const int order : {0, 3}) {
        Problem lying = p;
        lying.inputs[0] = g.strided(p.inputs[0], order);
        RunOptions options;
        options.background = true;
        options.output_kind = order;
        options.symbolic = true;
        const std::string wrong = difference(
            run_row(find_row("onednn.conv", "Conv"), lying, options)[0], want, {1e-5, 1e-3});
        CHECK_MESSAGE(wrong.empty(), order << ": " << wrong);
      }
    }
  }
}

TEST_CASE("backends/conv: windows over padding alone, where sizes are known late") {
  Generator g(64);
  const PostOp relu{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
  PostOp narrow{PostOp::Kind::kUnary, &get_op("Cast"), {}, 0, true, {}};
  narrow.attrs.set("to", int64_t{10});
  size_t rows = 0;
  for (const Case& c : {Case{{1, 64, 0, 5}, 24, {3, 3}, 1, {}, {2, 2, 2, 2}},
                        Case{{2, 3, 5, 0}, 24, {3, 3}, 1, {}, {2, 2, 2, 2}},
                        Case{{1, 16, 0, 5}, 16, {3, 3}, 8, {}, {2, 2, 2, 2}},
                        Case{{1, 16, 0}, 16, {3}, 16, {}, {2, 2}}})
    for (const bool biased : {true, false})
      for (const char* name : {"onednn.conv", "xc.conv winograd", "xc.conv", "xc.conv groups",
                               "xc.conv depthwise", "onednn.conv bf16"})
        for (const auto& posts : {std::vector<PostOp>{}, {relu}, {relu, narrow}}) {
          Problem p = conv(g, c, biased);
          RunOptions options;
          options.symbolic = true;
          p.post_ops = posts;
          const auto& row = find_row(name, "Conv");
          const Node node = node_of(p);
          if (!row.supports(spec_of(p, node, options)).yes()) continue;
          ++rows;
          std::vector<Tensor> want = run_reference(node, p.inputs);
          for (const PostOp& post : posts) {
            Problem alone;
            alone.op = post.op;
            alone.attrs = post.attrs;
            alone.inputs = want;
            want = run_reference(node_of(alone), alone.inputs);
          }
          for (options.output_kind = 0; options.output_kind < 4; ++options.output_kind)
            CHECK_MESSAGE(same_bits(run_row(row, p, options)[0], want[0]),
                          name << " " << to_text(c.x) << biased << posts.size());
        }
  CHECK(rows >= 24);
}

TEST_CASE("backends/conv: post-ops in the primitive and after it") {
  Generator g(53);
  const PostOp add{PostOp::Kind::kBinary, &get_op("Add"), {}, 3, true, {}};
  const PostOp relu{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
  const PostOp clip{
      PostOp::Kind::kUnary, &get_op("Clip"), {}, 0, true, {Tensor(), Tensor::scalar(6.0f)}};
  const PostOp erf{PostOp::Kind::kUnary, &get_op("Erf"), {}, 0, true, {}};
  const PostOp channel{PostOp::Kind::kBinary, &get_op("Mul"), {}, 3, true, {}};
  std::vector<std::pair<const char*, Case>> cases;
  for (size_t k : {0, 1, 3, 11, 12, 7, 14, 21, 22, 24})
    cases.emplace_back("onednn.conv", kCases[k]);
  for (size_t k : {0, 1, 2, 4, 5, 9, 10}) cases.emplace_back("xc.conv", kFewChannels[k]);
  cases.emplace_back("onednn.conv", Case{{2, 67, 9}, 65, {1}});
  for (size_t k : {0, 2, 5, 10, 18, 19}) cases.emplace_back("xc.conv planes", kPlanes[k]);
  for (const Case& c : kPlanesBeside) cases.emplace_back(beside_planes(c).data(), c);
  const std::vector<Case> grouped = groups();
  for (size_t k : {0, 2, 4, 6, 7, 9}) cases.emplace_back("xc.conv groups", grouped[k]);
  const std::vector<Case> single = depthwise();
  for (size_t k : {0, 1, 2, 3, 4, 6, 7, 8, 9}) cases.emplace_back("xc.conv depthwise", single[k]);
  for (const auto& [name, c] : cases) {
    const auto& row = find_row(name, "Conv");
    const Problem plain = conv(g, c);
    const Tensor y = run_reference(node_of(plain), plain.inputs)[0];
    const auto apply = [&](const char* op, std::vector<Tensor> inputs) {
      Problem p;
      p.op = &get_op(op);
      p.inputs = std::move(inputs);
      return run_reference(node_of(p), p.inputs)[0];
    };
    const Tensor residual = g.tensor(DType::kF32, y.dims());
    Dims per_channel(y.dims().size() - 1, 1);
    per_channel[0] = y.dims()[1];
    const Tensor factor = g.tensor(DType::kF32, per_channel);
    const Tensor high = Tensor::scalar(6.0f);
    struct Chain {
      std::vector<PostOp> posts;
      Tensor other, want;
    };
    const std::vector<Chain> chains = {
        {{relu}, {}, apply("Relu", {y})},
        {{add, relu}, residual, apply("Relu", {apply("Add", {y, residual})})},
        {{clip}, {}, apply("Clip", {y, Tensor(), high})},
        {{channel, erf, relu}, factor, apply("Relu", {apply("Erf", {apply("Mul", {y, factor})})})},
    };
    for (const Chain& chain : chains)
      for (int kind : {0, 3})
        for (int threads : {1, 3}) {
          Problem p = plain;
          p.post_ops = chain.posts;
          p.inputs[0] = Generator(1).strided(p.inputs[0], kind);
          if (chain.other)
            p.post_inputs = {chain.other.dims() == y.dims()
                                 ? Generator(1).strided(chain.other, kind)
                                 : chain.other};
          RunOptions options;
          options.background = threads > 1;
          options.output_kind = kind;
          options.threads = threads;
          options.pieces = 0;
          const std::string wrong =
              difference(run_row(row, p, options)[0], chain.want, {1e-4, 1e-3});
          CHECK_MESSAGE(wrong.empty(), name << " " << to_text(c.x) << " order " << kind
                                            << " threads " << threads << " chain of "
                                            << chain.posts.size() << ": " << wrong);
        }
  }
}

TEST_CASE("backends/conv: the Add of what the result may replace happens in its place") {
  Generator g(62);
  const PostOp add{PostOp::Kind::kBinary, &get_op("Add"), {}, 3, false, {}};
  const PostOp relu{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
  const PostOp tanh{PostOp::Kind::kUnary, &get_op("Tanh"), {}, 0, true, {}};
  const PostOp mul{PostOp::Kind::kBinary, &get_op("Mul"), {}, 4, true, {}};
  for (size_t k : {0, 1, 2, 3, 4, 5, 6, 7, 11, 14, 15, 16, 18, 23}) {
    const Problem plain = conv(g, kCases[k]);
    const Tensor y = run_reference(node_of(plain), plain.inputs)[0];
    const Tensor residual = g.tensor(DType::kF32, y.dims()),
                 other = g.tensor(DType::kF32, y.dims());
    for (const auto& posts : {std::vector{add}, {add, relu}, {add, tanh, mul}})
      for (const int threads : {1, 3})
        for (const uint32_t replaceable : {0u, 1u << 3}) {
          Problem p = plain;
          p.post_ops = posts;
          p.inputs[0] = Generator(1).strided(p.inputs[0], 3);
          p.post_inputs = {Generator(1).strided(residual, 3)};
          if (posts.size() > 2) p.post_inputs.push_back(Generator(1).strided(other, 3));
          const Node node = node_of(p);
          RunOptions options;
          options.background = true;
          options.output_kind = 3;
          options.threads = threads;
          options.replaceable = replaceable;
          // Where it is another place (run_kernel) a run copies what it adds to.
          const Tensor got =
              run_row(find_row("onednn.conv", "Conv"), p, options)[0].to_contiguous();
          double worst = 0;
          for (int64_t i = 0; i < got.count(); ++i) {
            double want = static_cast<double>(y.as<float>()[i]) + residual.as<float>()[i];
            if (posts.size() == 2) want = std::max(want, 0.0);
            if (posts.size() > 2) want = std::tanh(want) * other.as<float>()[i];
            worst = std::max(worst, std::fabs(want - got.as<float>()[i]));
          }
          CHECK_MESSAGE(worst < 2e-3, to_text(p.inputs[0].dims())
                                          << " threads " << threads << " chain of " << posts.size()
                                          << " replaceable " << replaceable << ": " << worst);
        }
  }
}

TEST_CASE(
    "backends/conv: NaN and infinity go through post-ops as through the operators, but Clip") {
  Generator g(54);
  const Problem plain = with_specials(g);
  const Tensor y = run_reference(node_of(plain), plain.inputs)[0];
  const Tensor other = g.tensor(DType::kF32, y.dims());
  std::vector<PostOp> posts;
  for (const char* op :
       {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Abs", "Elu", "HardSigmoid", "HardSwish", "Swish"})
    posts.push_back({PostOp::Kind::kUnary, &get_op(op), {}, 0, true, {}});
  for (const char* op : {"Add", "Mul", "Sub", "Max", "Min"})
    posts.push_back({PostOp::Kind::kBinary, &get_op(op), {}, 3, true, {}});
  for (const PostOp& post : posts) {
    Problem alone;
    alone.op = post.op;
    alone.inputs = {y};
    if (post.kind == PostOp::Kind::kBinary) alone.inputs.push_back(other);
    const Tensor want = run_reference(node_of(alone), alone.inputs)[0];
    for (const char* name : {"onednn.conv", "xc.conv"})
      for (int kind : {0, 3}) {
        Problem p = plain;
        p.post_ops = {post};
        p.inputs[0] = Generator(1).strided(p.inputs[0], kind);
        if (post.kind == PostOp::Kind::kBinary) p.post_inputs = {Generator(1).strided(other, kind)};
        RunOptions options;
        options.background = kind == 0;
        options.output_kind = kind;
        const auto& row = find_row(name, "Conv");
        const std::string wrong = difference(run_row(row, p, options)[0], want, {1e-4, 1e-4});
        CHECK_MESSAGE(wrong.empty(),
                      name << " " << post.op->name << " order " << kind << ": " << wrong);
      }
  }
}

TEST_CASE("backends/conv: by rows until there is time for a primitive, where that loses less") {
  Generator g(67);
  RunOptions hurried, with_time, strict, changing;
  with_time.background = true;
  strict.numerics = Numerics::kStrict;
  changing.symbolic = true;
  const auto provisional = [&](const Case& c, const RunOptions& options) {
    Problem p = conv(g, c);
    p.inputs[0] = g.strided(p.inputs[0], 3);
    return is_provisional(find_row("onednn.conv", "Conv"), p, options);
  };
  const std::vector<Case> small{{{1, 24, 60}, 24, {7}, 1, {1}, {9, 9}, {3}},
                                {{1, 128, 40}, 96, {1}, 4},
                                {{2, 40, 12, 10}, 20, {3, 3}, 2, {}, {1, 1, 1, 1}},
                                {{1, 64, 14, 14}, 64, {3, 3}, 64, {}, {1, 1, 1, 1}},
                                {{2, 43, 9, 11}, 43, {5, 5}, 43, {2, 2}, {2, 2, 2, 2}},
                                {{1, 11, 12, 13}, 11, {3, 3}, 11, {}, {1, 1, 1, 1}},
                                {{1, 64, 600}, 64, {5}, 4, {1}, {2, 2}},  // long signals
                                {{1, 32, 700}, 32, {5}, 32, {1}, {2, 2}},
                                {{1, 6, 10, 10}, 6, {3, 3}, 6, {}, {1, 1, 1, 1}}};
  for (const Case& c : small) {
    CAPTURE(to_text(c.x));
    CHECK(provisional(c, hurried));
    CHECK_FALSE(provisional(c, with_time));
    CHECK_FALSE(provisional(c, strict));
    check_row("onednn.conv", conv(g, c), {1e-5, 1e-4});
    check_threads("onednn.conv", conv(g, c));
  }
  // Of sizes that change, each may come once only.
  const Case large{{1, 64, 56, 56}, 64, {3, 3}, 1, {}, {1, 1, 1, 1}};
  const Case larger{{9, 64, 56, 56}, 64, {3, 3}, 1, {}, {1, 1, 1, 1}};
  CHECK_FALSE(provisional(large, hurried));
  CHECK(provisional(large, changing));
  CHECK_FALSE(provisional(larger, changing));
}

TEST_CASE("backends/conv: which convolutions of few pixels are products") {
  Generator g(74);
  const auto suits = [&](const Case& c) {
    Problem p = conv(g, c);
    p.inputs[0] = g.strided(p.inputs[0], 3);
    const Node node = node_of(p);
    const StepSpec spec = spec_of(p, node, {});
    const std::vector<Tensor> outputs{g.strided(run_reference(node, p.inputs)[0], 3)};
    const auto in = operands_of(p.inputs), out = operands_of(outputs);
    std::string reason;
    return cpu::FewPixelConv(spec, *cpu::Epilogue::build(spec, {}, reason, true))
        .suits(cpu::SqueezedConv(cpu::ConvAttrs(spec), in[0], in[1], out[0]));
  };
  CHECK(suits({{1, 128, 2, 4}, 256, {1, 1}}));
  CHECK(suits({{2, 256, 2, 4}, 128, {1, 1}}));
  CHECK_FALSE(suits({{1, 128, 2, 4}, 128, {1, 1}}));  // few weights
  CHECK_FALSE(suits({{1, 128, 5, 4}, 256, {1, 1}}));  // more pixels
  CHECK(suits({{1, 512, 5, 4}, 512, {1, 1}}));
  CHECK_FALSE(suits({{1, 64, 2, 4}, 64, {3, 3}, 1, {}, {1, 1, 1, 1}}));  // windows
  CHECK(suits({{1, 192, 2, 4}, 192, {3, 3}, 1, {}, {1, 1, 1, 1}}));
  check_row("onednn.conv", conv(g, {{1, 128, 2, 4}, 256, {1, 1}}), {1e-5, 1e-4});
  check_threads("onednn.conv", conv(g, {{2, 256, 2, 4}, 128, {1, 1}}));
}

TEST_CASE("backends/conv: weights that the library has are packed again when there is time") {
  Generator g(71);
  Problem image = conv(g, {{1, 256, 7, 7}, 512, {3, 3}, 1, {}, {1, 1, 1, 1}}), images = image;
  images.inputs[0] = g.strided(g.tensor(DType::kF32, {3, 256, 7, 7}), 3);
  image.inputs[0] = g.strided(image.inputs[0], 3);
  RunOptions options;
  options.symbolic = true;
  options.output_kind = 3;
  const Node node = node_of(images);
  const auto kernel = find_row("onednn.conv", "Conv").create(spec_of(images, node, options));
  const auto provisional = [&](const Problem& problem, bool background) {
    std::vector<Tensor> outputs{
        g.strided(Tensor(DType::kF32, {problem.inputs[0].dims()[0], 512, 7, 7}), 3)};
    const auto in = operands_of(problem.inputs), out = operands_of(outputs);
    return kernel->bind({in, out, background})->provisional;
  };
  const auto right = [&](const Problem& problem, bool background) {
    options.background = background;
    return difference(run_kernel(*kernel, problem, options)[0],
                      run_reference(node, problem.inputs)[0], {1e-5, 1e-3});
  };
  CHECK_FALSE(provisional(images, true));  // the library's
  CHECK(provisional(image, false));
  CHECK(right(image, false) == "");
  CHECK_FALSE(provisional(image, true));  // as a product of few pixels
  CHECK_FALSE(provisional(image, false));
  CHECK(right(image, false) == "");
}

TEST_CASE("backends/conv: infinities go through a Clip with one bound") {
  Generator g(66);
  for (const Case& c : {Case{{1, 16, 6, 6}, 16, {3, 3}}, Case{{1, 8, 10, 10}, 12, {3, 3}, 4},
                        Case{{1, 16, 9, 9}, 16, {3, 3}, 16}}) {
    Problem p = conv(g, c);
    p.inputs[0].as<float>()[17] = INFINITY;  // times weights of either sign
    Problem alone;
    alone.op = &get_op("Clip");
    alone.inputs = run_reference(node_of(p), p.inputs);
    alone.inputs.resize(3);
    p.inputs[0] = g.strided(p.inputs[0], 3);
    for (const size_t bound : {1, 2}) {
      std::vector<Tensor> bounds(2);
      bounds[bound - 1] = Tensor::scalar(0.25f);
      alone.inputs[1] = bounds[0];
      alone.inputs[2] = bounds[1];
      p.post_ops = {{PostOp::Kind::kUnary, alone.op, {}, 0, true, bounds}};
      RunOptions options;
      options.background = true;
      options.output_kind = 3;
      const Tensor want = run_reference(node_of(alone), alone.inputs)[0];
      const std::string wrong =
          difference(run_row(find_row("onednn.conv", "Conv"), p, options)[0], want, {1e-4, 1e-4});
      CHECK_MESSAGE(wrong.empty(), to_text(c.x) << " bound " << bound << ": " << wrong);
    }
  }
}

TEST_CASE("backends/conv: NaN goes through functions behind products of the library's sgemm") {
  Generator g(65);
  const PostOp add{PostOp::Kind::kBinary, &get_op("Add"), {}, 3, true, {}};
  const PostOp sigmoid{PostOp::Kind::kUnary, &get_op("Sigmoid"), {}, 0, true, {}};
  for (const Case& c :
       {Case{{2, 3, 1, 7}, 9, {1, 1}, 3, {}, {0, 1, 0, 1}},
        Case{{1, 6, 31, 31}, 66, {3, 3}, 2, {}, {1, 1, 1, 1}}, Case{{1, 8, 10, 10}, 12, {3, 3}, 4}})
    for (const bool added : {false, true}) {
      Problem p = conv(g, c);
      p.inputs[0].as<float>()[3] = std::nanf("");
      Problem alone;
      alone.op = sigmoid.op;
      alone.inputs = run_reference(node_of(p), p.inputs);
      p.post_ops = {sigmoid};
      if (added) {
        Problem sum;
        sum.op = add.op;
        sum.inputs = {alone.inputs[0], g.tensor(DType::kF32, alone.inputs[0].dims())};
        p.post_ops = {add, sigmoid};
        p.post_inputs = {g.strided(sum.inputs[1], 3)};
        alone.inputs = run_reference(node_of(sum), sum.inputs);
      }
      const Tensor want = run_reference(node_of(alone), alone.inputs)[0];
      p.inputs[0] = g.strided(p.inputs[0], 3);
      for (const int threads : {1, 3}) {
        RunOptions options;
        options.background = true;
        options.output_kind = 3;
        options.threads = threads;
        options.replaceable = added ? 1u << 3 : 0;
        const std::string wrong =
            difference(run_row(find_row("onednn.conv", "Conv"), p, options)[0], want, {1e-4, 1e-4});
        CHECK_MESSAGE(wrong.empty(), to_text(c.x) << added << " on " << threads << ": " << wrong);
      }
    }
}

TEST_CASE("backends/conv: bounds in registers are Relu's and Clip's, NaN and crossed ones too") {
  Generator g(57);
  const Problem plain = with_specials(g);
  const Tensor y = run_reference(node_of(plain), plain.inputs)[0];
  const std::optional<float> none;
  const float nan = std::nanf("");
  const std::vector<std::vector<std::optional<float>>> bounds{
      {-0.5f, 0.25f}, {none, 0.1f}, {0.1f, none}, {none, none},
      {0.5f, -0.5f},  {nan, 0.1f},  {0.1f, nan},  {none, nan}};
  for (size_t k = 0; k < bounds.size(); ++k) {
    std::vector<Tensor> given;
    for (const auto& bound : bounds[k]) given.push_back(bound ? Tensor::scalar(*bound) : Tensor());
    Problem alone;
    alone.op = &get_op("Clip");
    alone.inputs = {y, given[0], given[1]};
    const Tensor want = run_reference(node_of(alone), alone.inputs)[0];
    Problem p = plain;
    p.post_ops = {{PostOp::Kind::kUnary, &get_op("Clip"), {}, 0, true, given}};
    const std::string wrong =
        difference(run_row(find_row("xc.conv", "Conv"), p, {})[0], want, {1e-5, 1e-5});
    CHECK_MESSAGE(wrong.empty(), "bounds " << k << ": " << wrong);
  }
}

}  // namespace
}  // namespace xc

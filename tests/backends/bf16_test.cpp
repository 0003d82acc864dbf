// Products of bf16 operands with f32 sums (numerics = fast) against f64, within what rounding the
// operands and adding up in f32 may change.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "backends/cpu/onednn_common.h"
#include "backends/cpu/vector/few_rows_fn.h"
#include "backends/step_harness.h"
#include "support/worst.h"

namespace xc {
namespace {

using namespace test;

/// Two operands rounded to 8 bits, then k roundings of a sum in f32: per element, relative to the
/// sum of the magnitudes of its terms.
double bound(int64_t k) {
  return 2 * 0x1p-9 + 0x1p-17 + static_cast<double>(k) * 0x1p-23;
}

std::string wrong(const Tensor& got, const Problem& p, int64_t k) {
  const std::vector<double> want = exact_result(p, false), terms = exact_result(p, true),
                            have = got.to_doubles();
  if (want.size() != have.size()) return "another number of elements";
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(want[i] - have[i]) <= bound(k) * terms[i]))
      return fmt::format("element {}: {} instead of {}", i, have[i], want[i]);
  return {};
}

RunOptions fast(bool packed) {
  RunOptions options;
  options.numerics = Numerics::kFast;
  options.prepare = options.background = packed;
  return options;
}

TEST_CASE("backends/bf16: chosen in fast mode, and where the model holds operands so") {
  Generator g(61);
  Problem p = matrix_product(g, {64, 300}, 320, false);
  const std::string rounded = cpu::has_bf16_products() ? "onednn.matmul bf16" : "onednn.matmul";
  CHECK(chosen_row(p, fast(false)) == rounded);
  CHECK(chosen_row(p) == "onednn.matmul");
  p.constant = {};
  CHECK(chosen_row(p, fast(false)) == "onednn.matmul");
  RunOptions strict;
  strict.numerics = Numerics::kStrict;
  p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
  CHECK(chosen_row(p) == rounded);
  CHECK(chosen_row(p, strict) == "onednn.matmul");
  p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kF16));
  CHECK(chosen_row(p) == "onednn.matmul");
}

TEST_CASE(
    "backends/bf16: products without packed weights against f64, the same bits for any threads") {
  if (!cpu::has_bf16_products()) return;
  Generator g(67);
  struct Case {
    Dims a, b;
    bool transposed;  ///< Gemm, or strides of a view
  };
  for (const Case& c : {Case{{70, 300}, {300, 90}, false}, Case{{300, 64}, {64, 300}, false},
                        Case{{3, 70, 64}, {3, 64, 70}, false},
                        Case{{2, 3, 21, 65}, {3, 65, 300}, false}, Case{{600, 33}, {33, 16}, false},
                        Case{{64, 64}, {64, 64}, true}, Case{{4, 64, 64}, {4, 64, 64}, true}})
    for (const int kind : {0, 1, 2})
      for (const bool background : {false, true}) {
        Problem p;
        p.op = &get_op("MatMul");
        p.inputs = {g.strided(g.tensor(DType::kF32, c.a), kind),
                    g.strided(g.tensor(DType::kF32, c.b), c.transposed ? 1 : kind)};
        p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
        RunOptions options;
        options.background = background;
        options.output_kind = kind;
        const auto& row = find_row("onednn.matmul bf16", "MatMul");
        const Tensor first = run_row(row, p, options)[0];
        const std::string where = to_text(c.a) + " x " + to_text(c.b);
        const std::string text = wrong(first, p, c.a.back());
        CHECK_MESSAGE(text.empty(), where << " strides " << kind << ": " << text);
        for (const int threads : {2, 3, 4}) {
          options.threads = threads;
          options.pieces = threads;
          CHECK_MESSAGE(same_bits(first, run_row(row, p, options)[0]), where << " " << threads);
        }
        RunOptions plain;
        plain.background = true;
        CHECK_MESSAGE(same_bits(first, run_row(find_row("onednn.matmul", "MatMul"), p, plain)[0]) ==
                          !background,
                      where << " strides " << kind << " in the background: " << background);
      }
}

TEST_CASE("backends/bf16: matrix products against f64, the same bits for any threads") {
  if (!cpu::has_bf16_products()) return;
  Generator g(62);
  for (const bool transposed : {false, true})
    for (const Dims& a : {Dims{1, 301}, Dims{3, 300}, Dims{4, 301}, Dims{5, 301}, Dims{8, 300},
                          Dims{70, 300}, Dims{150, 333}, Dims{2, 70, 300}})
      for (const int64_t n : {100, 320, 1600}) {
        if (transposed && a.size() > 2) continue;
        const Problem p = matrix_product(g, a, n, transposed);
        const auto& row = find_row("onednn.matmul bf16", p.op->name);
        const std::string where = fmt::format("{} x {}", to_text(a), n);
        CHECK_MESSAGE(wrong(run_row(row, p, fast(false))[0], p, a.back()).empty(), where);
        RunOptions options = fast(true);
        const Tensor first = run_row(row, p, options)[0];
        const std::string text = wrong(first, p, a.back());
        CHECK_MESSAGE(text.empty(), where << ": " << text);
        for (const int threads : {2, 3, 4}) {
          options.threads = threads;
          options.pieces = threads;
          CHECK_MESSAGE(same_bits(first, run_row(row, p, options)[0]), where << " " << threads);
        }
        // Operands were rounded: f32 products are closer than this.
        RunOptions plain;
        plain.prepare = plain.background = true;
        CHECK(!same_bits(first, run_row(find_row("onednn.matmul", p.op->name), p, plain)[0]));
      }
}

TEST_CASE("backends/bf16: rows with gaps, and a result with gaps") {
  if (!cpu::has_bf16_products()) return;
  Generator g(63);
  for (const int kind : {0, 1, 2, 3}) {
    Problem p = matrix_product(g, {70, 300}, 320, false);
    p.inputs[0] = g.strided(p.inputs[0], kind);
    RunOptions options = fast(true);
    options.output_kind = kind;
    const std::string text =
        wrong(run_row(find_row("onednn.matmul bf16", "MatMul"), p, options)[0], p, 300);
    CHECK_MESSAGE(text.empty(), "strides " << kind << ": " << text);
  }
}

struct Case {
  Dims x;
  int64_t out;
  Dims kernel;
  std::vector<int64_t> strides, pads;
  int64_t groups = 1;
};

TEST_CASE("backends/bf16: convolutions against f64, the same bits for any threads") {
  if (!cpu::has_bf16_products()) return;
  Generator g(64);
  const std::vector<Case> cases = {
      {{1, 3, 20, 20}, 8, {5, 5}, {2, 2}, {2, 2, 2, 2}},
      {{2, 16, 9, 11}, 24, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 64, 28, 28}, 128, {3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 64, 7, 7}, 256, {3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 16, 40}, 8, {5}, {2}, {2, 2}},
      {{1, 48, 9, 9}, 96, {3, 3}, {1, 1}, {1, 1, 1, 1}, 3},
      {{2, 6, 5, 7, 6}, 4, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}},
  };
  const auto& row = find_row("onednn.conv bf16", "Conv");
  for (const Case& c : cases)
    for (const int kind : {0, 1}) {
      Problem p;
      p.op = &get_op("Conv");
      Dims w{c.out, c.x[1] / c.groups};
      p.attrs.set("group", c.groups);
      w.insert(w.end(), c.kernel.begin(), c.kernel.end());
      p.inputs = {g.strided(g.tensor(DType::kF32, c.x), kind), g.tensor(DType::kF32, w),
                  g.tensor(DType::kF32, {c.out})};
      p.constant = {false, true, true};
      p.attrs.set("strides", c.strides);
      p.attrs.set("pads", c.pads);
      RunOptions options = fast(false);
      const Tensor first = run_row(row, p, options)[0];
      const std::string text = wrong(first, p, element_count(w) / c.out + 1);
      CHECK_MESSAGE(text.empty(), to_text(c.x) << " strides " << kind << ": " << text);
      for (const int threads : {2, 3, 4}) {
        options.threads = threads;
        options.pieces = threads;
        CHECK_MESSAGE(same_bits(first, run_row(row, p, options)[0]), to_text(c.x));
      }
    }
}

TEST_CASE("backends/bf16: convolutions with short sums stay as they are") {
  Generator g(68);
  const auto chosen = [&](const Dims& x, const Dims& w, int64_t groups,
                          DType stored = DType::kF32) {
    Problem p;
    p.op = &get_op("Conv");
    p.inputs = {g.tensor(stored, x), g.tensor(DType::kF32, w)};
    p.constant = {false, true};
    p.attrs.set("group", groups);
    p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
    return chosen_row(p) == "onednn.conv bf16";
  };
  const bool has = cpu::has_bf16_products();
  CHECK(chosen({1, 3, 20, 20}, {32, 3, 7, 7}, 1) == has);
  CHECK(!chosen({1, 3, 20, 20}, {32, 3, 3, 3}, 1));
  CHECK(chosen({1, 16, 20, 20}, {32, 16, 1, 1}, 1) == has);
  CHECK(chosen({1, 32, 20, 20}, {32, 16, 3, 3}, 2) == has);
  CHECK(!chosen({1, 32, 20, 20}, {32, 1, 9, 9}, 32));
  // Where the operand is stored in bf16, depthwise ones over two axes are, and so are groups of a
  // few channels, unless vectors multiply f32 faster.
  const bool vectors = has && !cpu_info().amx_bf16;
  CHECK(chosen({1, 32, 20, 20}, {32, 1, 3, 3}, 32, DType::kBF16) == vectors);
  CHECK(chosen({1, 64, 20, 20}, {64, 8, 3, 3}, 8) == vectors);
  CHECK(chosen({1, 4, 20, 20}, {32, 4, 1, 1}, 1, DType::kBF16) == has);
  CHECK(!chosen({1, 32, 40}, {32, 1, 31}, 32, DType::kBF16));
  CHECK(!chosen({1, 32, 20, 20}, {32, 1, 1, 9}, 32, DType::kBF16));
}

TEST_CASE("backends/bf16: convolutions that are not rounded widen what is stored in bf16") {
  if (!cpu_info().amx_bf16) return;  // elsewhere such are multiplied as bf16
  Generator g(69);
  for (const auto& [channels, each] : {std::pair{32, 1}, {40, 8}, {24, 3}}) {
    Problem p;
    p.op = &get_op("Conv");
    p.inputs = {g.tensor(DType::kBF16, {2, channels, 33, 31}),
                g.tensor(DType::kF32, {channels, each, 3, 3})};
    p.constant = {false, true};
    p.attrs.set("group", int64_t{channels / each});
    p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
    check_row("onednn.conv", p, {1e-5, 1e-5});
    check_threads("onednn.conv", p);
  }
}

TEST_CASE("backends/bf16: rounding to nearest even, as casts have it") {
  Generator g(65);
  Tensor x = g.tensor(DType::kF32, {1003}, -1e3, 1e3);
  const float edges[] = {0.0f,        -0.0f,     INFINITY,
                         -INFINITY,   NAN,       1e-40f,
                         3.4e38f,     -3.4e38f,  1.00390625f /* a tie */,
                         1.01171875f, 0x1p-126f, 0x1.fep127f,
                         0x1.ffp127f};
  for (size_t i = 0; i < std::size(edges); ++i) x.as<float>()[i] = edges[i];
  std::vector<uint16_t> got(1003);
  cpu::round_rows_to_bf16(x.as<float>(), got.data(), 1, 1003, 1003);
  for (size_t i = 0; i < got.size(); ++i) {
    const float want = x.as<float>()[i];
    uint16_t bits = 0;
    store_double(&bits, DType::kBF16, 0, static_cast<double>(want));
    if (std::isnan(want))
      CHECK(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(got[i]) << 16)));
    else
      CHECK(got[i] == bits);
  }
}

TEST_CASE("backends/bf16: few rows against panels of pairs of rows") {
  if (cpu_info().isa < Isa::kAvx512) {
    MESSAGE("skipped: no AVX-512");
    return;
  }
  Generator g(66);
  for (const int64_t rows : {1, 2, 3, 4})
    for (const int64_t n : {1, 64, 65, 200})
      for (const int64_t k : {0, 1, 2, 17, 64}) {
        const int64_t pairs = (k + 1) / 2, panel = (pairs + 1) * 2 * cpu::kFewColumns;
        const Tensor x = g.tensor(DType::kF32, {rows, std::max<int64_t>(k, 1)});
        std::vector<uint16_t> w(static_cast<size_t>((n + 63) / 64 * panel), 0);
        const auto at = [&](int64_t d, int64_t j) -> uint16_t& {
          return w[static_cast<size_t>(j / 64 * panel + (d / 2 * 64 + j % 64) * 2 + d % 2)];
        };
        for (int64_t d = 0; d < k; ++d)
          for (int64_t j = 0; j < n; ++j) store_double(&at(d, j), DType::kBF16, 0, g.real(-2, 2));
        std::vector<float> y(static_cast<size_t>(rows * n), 7.0f);
        cpu::few_rows_fn()({x.as<float>(), std::max<int64_t>(k, 1), rows, k, n, w.data(),
                            cpu::WeightFormat::kBF16Pairs, panel, y.data(), n});
        double worst = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < n; ++j) {
            double want = 0;
            for (int64_t d = 0; d < k; ++d)
              want += static_cast<double>(x.as<float>()[r * k + d]) *
                      load_double(&at(d, j), DType::kBF16, 0);
            worst = test::worst_of(worst, std::fabs(want - y[static_cast<size_t>(r * n + j)]));
          }
        CHECK_MESSAGE(worst <= 1e-4, rows << " x " << k << " x " << n);
      }
}

}  // namespace
}  // namespace xc

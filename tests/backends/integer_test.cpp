#include <doctest/doctest.h>

#include "backends/cpu/integer_product.h"
#include "backends/cpu/vector/packed_bytes_fn.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

Tensor bytes(Generator& g, DType type, const Dims& dims) {
  return type == DType::kI8 ? g.tensor(type, dims, -128, 127) : g.tensor(type, dims, 0, 255);
}

TEST_CASE("backends/integer: products are exact with and without the library's kernels") {
  Generator g(41);
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 513, 17}, {65, 1030, 70}, {2, 9000, 5}, {7, 0, 3}})
    for (const DType left_type : {DType::kU8, DType::kI8})
      for (const bool extreme : {false, true})
        for (const bool library : {false, true}) {
          if (library && !cpu::library_integers_are_exact()) continue;
          Tensor left = bytes(g, left_type, {m, k}), right = bytes(g, DType::kI8, {k, n});
          if (extreme) {  // the largest sums there are
            std::memset(left.data(), left_type == DType::kU8 ? 0xff : 0x80,
                        static_cast<size_t>(left.count()));
            std::memset(right.data(), 0x80, static_cast<size_t>(right.count()));
          }
          Tensor sums(DType::kI32, {m, n});
          const auto scratch = Buffer::allocate(cpu::integer_product_scratch(m, n, k, library));
          const cpu::OneThread guard;
          cpu::integer_product(
              {m, n, k, left.data(), left_type == DType::kI8, std::max<int64_t>(k, 1),
               right.as<int8_t>(), n, sums.as<int32_t>(), n},
              scratch->data(), library);
          const auto a = left.to_int64s(), b = right.to_int64s(), got = sums.to_int64s();
          bool equal = true;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              int64_t want = 0;
              for (int64_t d = 0; d < k; ++d)
                want += a[static_cast<size_t>(i * k + d)] * b[static_cast<size_t>(d * n + j)];
              equal &= got[static_cast<size_t>(i * n + j)] == want;
            }
          CHECK_MESSAGE(
              equal, m << "x" << k << "x" << n << " extreme " << extreme << " library " << library);
        }
}

TEST_CASE("backends/integer: sides packed for dot products of bytes, wherever their bytes lie") {
  const cpu::PackedBytesFns* fns = cpu::packed_bytes_fns(cpu_info());
  if (!fns) return;
  Generator g(53);
  for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {13, 7, 17}, {25, 130, 64}, {7, 66, 200}, {9, 3, 48}, {6, 257, 33}})
    for (const DType left_type : {DType::kU8, DType::kI8})
      for (const DType right_type : {DType::kU8, DType::kI8})
        for (const int lies : {0, 1, 2}) {  // by rows, by columns, apart
          const bool extreme = lies == 2;
          const Tensor left =
              extreme ? g.tensor(left_type, {m, k}, left_type == DType::kU8 ? 255 : -128,
                                 left_type == DType::kU8 ? 255 : -128)
                      : bytes(g, left_type, {m, k});
          const int64_t row = lies == 0   ? n + 3
                              : lies == 1 ? 1
                                          : 2 * n,
                        column = lies == 0   ? 1
                                 : lies == 1 ? k + 2
                                             : 2;
          const Tensor right = bytes(g, right_type, {k * row + n * column});
          std::vector<uint8_t> packed(static_cast<size_t>(cpu::packed_bytes(k, n)));
          std::vector<int32_t> columns(static_cast<size_t>(n));
          Tensor sums(DType::kI32, {m, n + 1});
          std::fill_n(sums.as<int32_t>(), sums.count(), 77);
          fns->pack({right.data(), right_type == DType::kI8, k, n, row, column},
                    left_type == DType::kI8, packed.data(), columns.data());
          fns->multiply({m, n, k, left.data(), left_type == DType::kI8, k, packed.data(),
                         sums.as<int32_t>(), n + 1});
          const auto a = left.to_int64s(), b = right.to_int64s(), got = sums.to_int64s();
          const int64_t less = right_type == DType::kU8 ? 128 : 0;
          bool equal = true;
          for (int64_t j = 0; j < n; ++j) {
            const auto at = [&](int64_t d) {
              return b[static_cast<size_t>(d * row + j * column)] - less;
            };
            int64_t all = 0;
            for (int64_t d = 0; d < k; ++d) all += at(d);
            equal &= columns[static_cast<size_t>(j)] == all;
            for (int64_t i = 0; i < m; ++i) {
              int64_t want = 0;
              for (int64_t d = 0; d < k; ++d) want += a[static_cast<size_t>(i * k + d)] * at(d);
              equal &= got[static_cast<size_t>(i * (n + 1) + j)] == want;
            }
          }
          for (int64_t i = 0; i < m; ++i) equal &= got[static_cast<size_t>(i * (n + 1) + n)] == 77;
          CHECK_MESSAGE(equal,
                        m << "x" << k << "x" << n << name(left_type) << name(right_type) << lies);
        }
}

const std::vector<std::pair<Dims, Dims>> kShapes = {{{3, 4}, {4, 5}},
                                                    {{1, 1}, {1, 1}},
                                                    {{4}, {4}},
                                                    {{4}, {4, 6}},
                                                    {{5, 4}, {4}},
                                                    {{2, 3, 4}, {4, 5}},
                                                    {{2, 3, 7, 4}, {2, 3, 4, 5}},
                                                    {{3, 1, 7, 4}, {2, 4, 5}},
                                                    {{1, 64}, {64, 300}},
                                                    {{70, 33}, {33, 129}},
                                                    {{0, 4}, {4, 3}},
                                                    {{2, 0}, {0, 3}},
                                                    {{130, 200}, {200, 260}},
                                                    {{300, 129}, {129, 31}},
                                                    {{6, 20, 35}, {6, 35, 18}}};

TEST_CASE("backends/integer: MatMulInteger, signs, zero points, shapes") {
  Generator g(42);
  for (const auto& [a, b] : kShapes)
    for (const DType left : {DType::kU8, DType::kI8})
      for (const DType right : {DType::kU8, DType::kI8})
        for (const bool zeros : {false, true}) {
          Problem p;
          p.op = &get_op("MatMulInteger");
          p.inputs = {bytes(g, left, a), bytes(g, right, b)};
          if (zeros) {
            p.inputs.push_back(bytes(g, left, {}));
            p.inputs.push_back(bytes(g, right, b.size() == 2 ? Dims{b.back()} : Dims{}));
          }
          INFO(to_text(a) << " x " << to_text(b) << name(left) << name(right) << zeros);
          check_row("onednn.integer_matmul", p, {});
        }
  // A zero point per row, at the ends of the range.
  Problem p;
  p.op = &get_op("MatMulInteger");
  p.inputs = {bytes(g, DType::kU8, {5, 70}), bytes(g, DType::kI8, {70, 9}),
              Tensor::of(std::vector<uint8_t>{0, 255, 1, 128, 254}),
              Tensor::of(std::vector<int8_t>{-128})};
  check_row("onednn.integer_matmul", p, {});
}

/// Inputs of QLinearMatMul whose results fill the range and saturate now and then.
Problem qlinear_matmul(Generator& g, const Dims& a, const Dims& b, DType left, DType right,
                       DType result, bool per_column) {
  const double sums =
      127 * 127 / 3.0 * std::sqrt(static_cast<double>(std::max<int64_t>(a.back(), 1)));
  const Dims lines = per_column && b.size() == 2 ? Dims{b.back()} : Dims{};
  Problem p;
  p.op = &get_op("QLinearMatMul");
  p.inputs = {bytes(g, left, a),
              Tensor::scalar(0.013f),
              bytes(g, left, {}),
              bytes(g, right, b),
              g.tensor(DType::kF32, lines, 0.004, 0.02),
              bytes(g, right, lines),
              Tensor::scalar(static_cast<float>(0.013 * 0.01 * sums / 60)),
              bytes(g, result, {})};
  return p;
}

TEST_CASE("backends/integer: QLinearMatMul within a quantum of exact sums, saturating") {
  Generator g(43);
  for (const auto& [a, b] : kShapes)
    for (const DType left : {DType::kU8, DType::kI8})
      for (const DType right : {DType::kU8, DType::kI8})
        for (const DType result : {DType::kU8, DType::kI8})
          for (const bool per_column : {false, true}) {
            INFO(to_text(a) << " x " << to_text(b) << name(left) << name(right) << name(result)
                            << per_column);
            check_row("onednn.integer_matmul",
                      qlinear_matmul(g, a, b, left, right, result, per_column), {0, 1});
          }
}

TEST_CASE("backends/integer: powers of two as scales leave nothing to round differently") {
  Generator g(44);
  for (const DType result : {DType::kU8, DType::kI8}) {
    Problem p = qlinear_matmul(g, {9, 31}, {31, 21}, DType::kU8, DType::kI8, result, false);
    p.inputs[1] = Tensor::scalar(0.25f);
    p.inputs[4] = Tensor::scalar(0.125f);
    p.inputs[6] = Tensor::scalar(64.0f);  // ties are frequent: sums / 2^11
    check_row("onednn.integer_matmul", p, {});
  }
}

TEST_CASE("backends/integer: packed weights give the bits of unpacked ones, whatever the split") {
  Generator g(45);
  for (const Dims& a : {Dims{1, 300}, Dims{5, 300}, Dims{150, 300}, Dims{2, 70, 300}})
    for (const int64_t n : {7, 100, 900, 1600})
      for (const DType right : {DType::kU8, DType::kI8})
        for (const bool requantised : {false, true}) {
          Problem p;
          if (requantised) {
            p = qlinear_matmul(g, a, {300, n}, DType::kU8, right, DType::kU8, true);
            p.constant = {false, true, true, true, true, true, true, true};
          } else {
            p.op = &get_op("MatMulInteger");
            p.inputs = {bytes(g, DType::kU8, a), bytes(g, right, {300, n}),
                        bytes(g, DType::kU8, {})};
            p.constant = {false, true, false};
          }
          const auto& row = find_row("onednn.integer_matmul", p.op->name);
          RunOptions options;
          const auto plain = run_row(row, p, options);
          options.prepare = options.background = true;
          for (const int64_t pieces : {1, 2, 3, 0}) {
            options.pieces = pieces;
            options.threads = static_cast<int>(std::max<int64_t>(1, pieces));
            CHECK_MESSAGE(same_bits(plain[0], run_row(row, p, options)[0]),
                          to_text(a) << " x " << n << " pieces " << pieces);
          }
        }
}

struct ConvCase {
  Dims x, w;
  std::vector<int64_t> pads, strides, dilations;
  int64_t group = 1;
};
const std::vector<ConvCase> kConvs = {
    {{1, 3, 9, 11}, {5, 3, 3, 3}, {1, 1, 1, 1}, {}, {}},
    {{2, 16, 8, 8}, {32, 16, 1, 1}, {}, {}, {}},
    {{1, 7, 10, 9}, {9, 7, 3, 2}, {2, 0, 1, 1}, {2, 3}, {}},
    {{1, 24, 12, 12}, {24, 1, 3, 3}, {1, 1, 1, 1}, {}, {}, 24},
    {{2, 85, 9, 7}, {85, 1, 3, 2}, {1, 0, 2, 1}, {2, 1}, {1, 2}, 85},
    {{1, 8, 13, 7}, {12, 4, 3, 3}, {1, 1, 1, 1}, {2, 2}, {}, 2},
    {{1, 5, 14, 14}, {6, 5, 3, 3}, {2, 2, 2, 2}, {}, {2, 2}},
    {{2, 6, 31}, {8, 6, 5}, {2, 2}, {}, {}},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 2, 2}, {}, {}, {}},
    {{1, 64, 20, 20}, {96, 64, 3, 3}, {1, 1, 1, 1}, {}, {}},
    {{1, 128, 4, 4}, {256, 128, 3, 3}, {1, 1, 1, 1}, {}, {}}};

void set_window(Problem& p, const ConvCase& c) {
  if (!c.pads.empty()) p.attrs.set("pads", c.pads);
  if (!c.strides.empty()) p.attrs.set("strides", c.strides);
  if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
  p.attrs.set("group", c.group);
}

struct QuantTypes {
  DType x, w, y;
};
/// Everything but x is constant. `zero`: of y; weights are symmetric unless said otherwise.
Problem qlinear_conv(Generator& g, const ConvCase& c, QuantTypes t, double y_zero, bool bias,
                     bool symmetric = true) {
  const auto terms = static_cast<double>(element_count(c.w) / c.w[0]);
  const double sums = 127 * 127 / 3.0 * std::sqrt(terms);
  const auto zero = [](DType type, double value) {
    return type == DType::kU8 ? Tensor::scalar(static_cast<uint8_t>(value))
                              : Tensor::scalar(static_cast<int8_t>(value - 128));
  };
  Tensor w_zero = bytes(g, t.w, {c.w[0]});
  if (symmetric)
    std::memset(w_zero.data(), t.w == DType::kU8 ? 128 : 0, static_cast<size_t>(c.w[0]));
  Problem p;
  p.op = &get_op("QLinearConv");
  p.inputs = {bytes(g, t.x, c.x),
              Tensor::scalar(0.02f),
              zero(t.x, static_cast<double>(g.integer(0, 255))),
              bytes(g, t.w, c.w),
              g.tensor(DType::kF32, {c.w[0]}, 0.004, 0.02),
              w_zero,
              Tensor::scalar(static_cast<float>(0.02 * 0.01 * sums / 60)),
              zero(t.y, y_zero)};
  if (bias) p.inputs.push_back(g.tensor(DType::kI32, {c.w[0]}, -sums, sums));
  p.constant.assign(p.inputs.size(), true);
  p.constant[0] = false;
  set_window(p, c);
  return p;
}

TEST_CASE("backends/integer: QLinearConv within a quantum of exact sums, saturating") {
  if (!cpu::library_integers_are_exact()) return;
  Generator g(46);
  for (const ConvCase& c : kConvs)
    for (const DType x : {DType::kU8, DType::kI8})
      for (const DType w : {DType::kU8, DType::kI8})
        for (const DType y : {DType::kU8, DType::kI8})
          for (const double y_zero : {x == w ? 0 : 255, w == y ? 101 : 128}) {
            INFO(to_text(c.x) << " by " << to_text(c.w) << name(x) << name(w) << name(y) << y_zero);
            check_row("onednn.integer_conv", qlinear_conv(g, c, {x, w, y}, y_zero, y_zero > 100),
                      {0, 1});
          }
}

TEST_CASE(
    "backends/integer: QLinearConv with a zero point and padding, where the library is right") {
  if (!cpu::library_integers_are_exact()) return;
  Generator g(48);
  const auto problem = [&](const ConvCase& c) {
    Problem p = qlinear_conv(g, c, {DType::kU8, DType::kI8, DType::kU8}, 101, false);
    p.inputs[2] = Tensor::scalar(uint8_t{114});
    return p;
  };
  // One axis, or columns, in two blocks; the library was up to 255 quanta off.
  const std::vector<ConvCase> wrong{{{1, 16, 26}, {16, 16, 31}, {15, 15}, {}, {}},
                                    {{1, 64, 6}, {64, 64, 9}, {4, 4}, {}, {}},
                                    {{1, 64, 27}, {32, 64, 7}, {1, 12}, {2}, {2}},
                                    {{1, 128, 4, 6}, {64, 128, 5, 5}, {4, 4, 4, 4}, {}, {2, 2}},
                                    {{1, 8, 4, 5, 6}, {8, 1, 2, 2, 2}, {}, {}, {}, 8}};
  for (const ConvCase& c : wrong) {
    INFO(to_text(c.x) << " by " << to_text(c.w));
    const Problem p = problem(c);
    CHECK(chosen_row(p) == "xc.integer_conv");
    check_row("xc.integer_conv", p, {0, 1});
  }
  for (const int64_t width : {6, 14, 26, 28})
    for (const int64_t stride : {1, 2})
      for (const auto& [kernel, dilation] :
           {std::pair{3, 1}, {3, 2}, {3, 3}, {4, 2}, {5, 1}, {7, 1}}) {
        const int64_t reach = int64_t{dilation} * (kernel - 1), before = reach / 2;
        const ConvCase c{{1, 128, stride * width},
                         {64, 128, kernel},
                         {before, reach - before},
                         {stride},
                         {dilation}};
        INFO(to_text(c.x) << " by " << to_text(c.w) << ", " << dilation << " apart");
        check_row("onednn.integer_conv", problem(c), {0, 1});
      }
}

TEST_CASE("backends/integer: QLinearConv rounds ties to even before it adds the zero point") {
  if (!cpu::library_integers_are_exact()) return;
  Generator g(47);
  for (const DType y : {DType::kU8, DType::kI8})
    for (const double y_zero : {0, 3, 128}) {
      Problem p = qlinear_conv(g, kConvs[0], {DType::kU8, DType::kI8, y}, y_zero, false);
      p.inputs[1] = Tensor::scalar(0.25f);
      p.inputs[4] = Tensor::scalar(0.125f);
      p.inputs[5] = Tensor::scalar(int8_t{0});
      p.inputs[6] = Tensor::scalar(16.0f);
      check_row("onednn.integer_conv", p, {});
    }
}

TEST_CASE("backends/integer: QLinearConv has the same bits whatever the split") {
  if (!cpu::library_integers_are_exact()) return;
  Generator g(48);
  for (const ConvCase& c : kConvs) {
    const Problem p = qlinear_conv(g, c, {DType::kU8, DType::kI8, DType::kU8}, 101, true);
    const auto& row = find_row("onednn.integer_conv", "QLinearConv");
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 4}) {
      RunOptions options;
      options.threads = threads;
      options.pieces = 0;
      const auto got = run_row(row, p, options);
      if (first.empty()) first = got;
      CHECK_MESSAGE(same_bits(first[0], got[0]), to_text(c.x) << " threads " << threads);
    }
  }
}

TEST_CASE("backends/integer: DynamicQuantizeLinear as the standard's function body") {
  Generator g(49);
  for (const Dims& dims : {Dims{1}, Dims{7, 31}, Dims{64}, Dims{3, 5, 67}, Dims{0, 4}, Dims{}})
    for (const auto& [low, high] :
         std::vector<std::pair<double, double>>{{-2, 2}, {1, 3}, {-3, -1}, {0, 0}, {-1e-3, 4e5}}) {
      Problem p;
      p.op = &get_op("DynamicQuantizeLinear");
      p.inputs = {g.tensor(DType::kF32, dims, low, high)};
      p.outputs = 3;
      INFO(to_text(dims) << low << ".." << high);
      check_row("xc.dynamic_quantize", p, {});
    }
}

TEST_CASE("backends/integer: gathered windows, any zero points, constant weights or not") {
  Generator g(50);
  for (const ConvCase& c : kConvs)
    for (const DType x : {DType::kU8, DType::kI8})
      for (const DType w : {DType::kU8, DType::kI8})
        for (const bool constant : {false, true}) {
          INFO(to_text(c.x) << " by " << to_text(c.w) << name(x) << name(w) << constant);
          Problem q = qlinear_conv(g, c, {x, w, x}, 77, constant, false);
          if (!constant) q.constant.clear();
          check_row("xc.integer_conv", q, {0, 1});
          Problem p;
          p.op = &get_op("ConvInteger");
          p.inputs = {q.inputs[0], q.inputs[3]};
          if (constant) p.inputs.insert(p.inputs.end(), {q.inputs[2], q.inputs[5]});
          p.constant = {false, constant};
          p.constant.resize(p.inputs.size(), false);
          set_window(p, c);
          check_row("xc.integer_conv", p, {});
        }
}

/// A row's kernel, bound to operands that are all row-major.
struct BoundRow {
  BoundRow(std::string_view name, const Problem& problem, const RunOptions& options)
      : node(node_of(problem)),
        kernel(find_row(name, problem.op->name).create(spec_of(problem, node, options))) {
    std::vector<BoundOperand> in, out;
    for (const Type& type : infer_concrete(node, problem.inputs))
      results.emplace_back(type.dtype, *to_concrete(*type.dims));
    for (const Tensor& t : problem.inputs) {
      in.push_back({t.dims(), t.strides()});
      buffers.push_back(t.data());
    }
    for (const Tensor& t : results) {
      out.push_back({t.dims(), t.strides()});
      buffers.push_back(t.data());
    }
    bound = kernel->bind({in, out});
  }
  Node node;
  std::unique_ptr<Kernel> kernel;
  std::vector<Tensor> results;
  std::vector<void*> buffers;
  std::shared_ptr<const BoundKernel> bound;
};

TEST_CASE("backends/integer: tasks find the weights as they were arranged once") {
  Generator g(54);
  for (const ConvCase& c : {kConvs[9], kConvs[4], kConvs[5]}) {
    Problem p = qlinear_conv(g, c, {DType::kU8, DType::kU8, DType::kU8}, 77, true, false);
    p.constant.clear();
    const Tensor want = run_row(find_row("xc.integer_conv", "QLinearConv"), p)[0];
    RunOptions options;
    options.threads = 4;
    const BoundRow row("xc.integer_conv", p, options);
    const BoundKernel& bound = *row.bound;
    REQUIRE(bound.shared_bytes > 0);
    const auto shared = Buffer::allocate(bound.shared_bytes),
               scratch = Buffer::allocate(bound.scratch_bytes);
    const StepArgs args{row.buffers.data(), scratch->data(), shared->data()};
    bound.start(args);
    for (const size_t input : {3, 4, 5, 8})  // weights, scales, zero points and the bias
      std::memset(p.inputs[input].data(), 0, static_cast<size_t>(p.inputs[input].byte_size()));
    for (int64_t task = 0; task < bound.tasks; ++task) bound.run(args, task, task + 1);
    CHECK_MESSAGE(same_bits(row.results[0], want), to_text(c.x));
  }
}

TEST_CASE("backends/integer: windows over padding alone, where sizes are known late") {
  Generator g(55);
  const std::vector<ConvCase> cases{{{1, 64, 0, 5}, {8, 64, 3, 3}, {2, 2, 2, 2}, {}, {}},
                                    {{2, 6, 0}, {6, 1, 3}, {2, 2}, {}, {}, 6}};
  for (const ConvCase& c : cases)
    for (const char* name : {"onednn.integer_conv", "xc.integer_conv"})
      for (const bool biased : {true, false}) {
        Problem p = qlinear_conv(g, c, {DType::kU8, DType::kI8, DType::kU8}, 101, biased);
        const auto& row = find_row(name, "QLinearConv");
        RunOptions options;
        options.symbolic = true;
        const Node node = node_of(p);
        if (!row.supports(spec_of(p, node, options)).yes()) continue;
        const std::string wrong =
            difference(run_row(row, p, options)[0], run_reference(node, p.inputs)[0], {0, 1});
        CHECK_MESSAGE(wrong.empty(), name << to_text(c.x) << biased << ": " << wrong);
      }
}

TEST_CASE("backends/integer: both ways of QLinearConv agree to the bit without a bias") {
  if (!cpu::library_integers_are_exact()) return;
  Generator g(51);
  for (const ConvCase& c : kConvs) {
    const Problem p = qlinear_conv(g, c, {DType::kU8, DType::kI8, DType::kU8}, 101, false);
    const auto library = run_row(find_row("onednn.integer_conv", "QLinearConv"), p);
    const auto own = run_row(find_row("xc.integer_conv", "QLinearConv"), p);
    CHECK_MESSAGE(same_bits(library[0], own[0]), to_text(c.x) << " by " << to_text(c.w));
  }
}

TEST_CASE("backends/integer: weights in blocks, any rows, tails and zero points") {
  Generator g(52);
  for (const DType type : {DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2, DType::kU2})
    for (const auto& [k, n, block] : std::vector<std::array<int64_t, 3>>{
             {64, 64, 32}, {70, 33, 16}, {1, 1, 1}, {300, 300, 128}, {37, 130, 37}})
      for (const Dims& x :
           {Dims{1, k}, Dims{3, k}, Dims{7, k}, Dims{2, 9, k}, Dims{40, k}, Dims{90, k}, Dims{k}})
        for (const bool zero : {false, true}) {
          Problem p;
          p.op = &get_op("DequantizedMatMul", "xc");
          p.attrs.set("block_size", block);
          const Dims lines{ceil_div(k, block), n};
          const auto whole = [&](const Dims& dims) {
            return type == DType::kI8   ? g.tensor(type, dims, -128, 127)
                   : type == DType::kU8 ? g.tensor(type, dims, 0, 255)
                   : type == DType::kI4 ? g.tensor(type, dims, -8, 7)
                   : type == DType::kU4 ? g.tensor(type, dims, 0, 15)
                   : type == DType::kI2 ? g.tensor(type, dims, -2, 1)
                                        : g.tensor(type, dims, 0, 3);
          };
          p.inputs = {g.tensor(DType::kF32, x), whole({k, n}),
                      g.tensor(DType::kF32, lines, 0.001, 0.02)};
          if (zero) p.inputs.push_back(whole(lines));
          p.constant.assign(p.inputs.size(), true);
          p.constant[0] = false;
          INFO(name(type) << k << "x" << n << " by " << block << to_text(x) << zero);
          check_row("xc.block_matmul", p, {1e-5, 5e-6 * static_cast<double>(k)});
        }
}

Problem block_product(Generator& g, DType type, const Dims& x, int64_t n, int64_t block) {
  Problem p;
  p.op = &get_op("DequantizedMatMul", "xc");
  p.attrs.set("block_size", block);
  const double bound = type == DType::kI4 ? 7 : 127;
  p.inputs = {g.tensor(DType::kF32, x), g.tensor(type, {x.back(), n}, -bound, bound),
              g.tensor(DType::kF32, {ceil_div(x.back(), block), n}, 0.001, 0.02)};
  p.constant = {false, true, true};
  return p;
}

TEST_CASE("backends/integer: weights in blocks, data that integers would lead out of range") {
  Generator g(56);
  for (const DType type : {DType::kI4, DType::kI8})
    for (const int64_t rows : {1, 2, 7, 20, 100})
      for (const float value : {INFINITY, -INFINITY, 3e37f, -1e38f, 3e38f, std::nanf("")}) {
        Problem p = block_product(g, type, {rows, 64}, 70, 32);
        for (int64_t i = 0; i < rows; i += rows == 100 ? 41 : 2)
          p.inputs[0].as<float>()[i * 64 + 5] = value;
        INFO(name(type) << " " << rows << " rows with " << value);
        check_row("xc.block_matmul", p, {1e-5, 1e-3});
        if (rows == 100) check_threads("xc.block_matmul", p);
      }
}

TEST_CASE("backends/integer: weights in blocks, parts of the rows for idle threads") {
  Generator g(57);
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{700, 70}, {300, 300}, {130, 64}}) {
    const Problem p = block_product(g, DType::kI4, {rows, 300}, n, 32);
    check_threads("xc.block_matmul", p);
    RunOptions options;
    options.threads = 4;
    const int64_t tasks = BoundRow("xc.block_matmul", p, options).bound->tasks;
    CHECK_MESSAGE(tasks >= std::min<int64_t>(4, rows / 128), rows << " x " << n);
  }
}

TEST_CASE("backends/integer: QuantizeLinear by one scale, ties and saturation included") {
  Generator g(53);
  for (const DType type : {DType::kU8, DType::kI8})
    for (const Dims& dims :
         {Dims{1}, Dims{7, 31}, Dims{3, 5, 67}, Dims{2, 5, 4, 7}, Dims{0, 4}, Dims{}})
      for (const bool zero : {false, true}) {
        if (!zero && type == DType::kI8) continue;  // without a zero point results are u8
        Problem p;
        p.op = &get_op("QuantizeLinear");
        // Multiples of half a scale: every second one is a tie.
        Tensor x = g.tensor(DType::kF32, dims, -300, 300);
        for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = std::round(x.as<float>()[i]) / 4;
        if (x.count() > 0) x.as<float>()[x.count() / 2] = NAN;
        p.inputs = {x, Tensor::scalar(0.5f)};
        if (zero) p.inputs.push_back(bytes(g, type, {}));
        INFO(name(type) << to_text(dims) << zero);
        check_row("xc.quantize_bytes", p, {});
      }
}

TEST_CASE("backends/integer: QuantizeLinear by a scale per channel, in runs that share it") {
  Generator g(60);
  for (const DType type : {DType::kU8, DType::kI8})
    for (const auto& [dims, axis] : {std::pair{Dims{2, 5, 4, 7}, 1},
                                     {Dims{3, 70}, 0},
                                     {Dims{2, 3, 40}, -2},
                                     {Dims{0, 3, 20}, 1}}) {
      Problem p;
      p.op = &get_op("QuantizeLinear");
      p.attrs.set("axis", int64_t{axis});
      const Dims scales{dims[static_cast<size_t>(axis < 0 ? axis + 3 : axis)]};
      p.inputs = {g.tensor(DType::kF32, dims, -30, 30), g.tensor(DType::kF32, scales, 0.1, 0.3),
                  bytes(g, type, scales)};
      INFO(name(type) << to_text(dims) << axis);
      check_row("xc.quantize_bytes", p, {});
      p.inputs[1] = g.tensor(DType::kF32, {1}, 0.1, 0.3);
      p.inputs[2] = bytes(g, type, {1});
      check_row("xc.quantize_bytes", p, {});
    }
  Problem p;
  p.op = &get_op("QuantizeLinear");
  p.attrs.set("axis", int64_t{1});
  p.inputs = {g.tensor(DType::kF32, {3, 9, 97, 101}, -9, 9), g.tensor(DType::kF32, {9}, 0.01, 0.1),
              g.tensor(DType::kU8, {9}, 1, 200)};
  check_row("xc.quantize_bytes", p, {});  // several tasks, which end within a run
}

TEST_CASE("backends/integer: a task of QuantizeLinear per channel writes few channels") {
  Generator g(59);
  Problem p;
  p.op = &get_op("QuantizeLinear");
  p.attrs.set("axis", int64_t{1});
  p.inputs = {g.tensor(DType::kF32, {1, 64, 112, 112}, -9, 9),
              g.tensor(DType::kF32, {64}, 0.01, 0.1), g.tensor(DType::kU8, {64}, 1, 200)};
  check_threads("xc.quantize", p);
  const BoundRow step("xc.quantize", p, {});
  REQUIRE(step.bound->tasks >= 16);
  std::memset(step.results[0].data(), 255, static_cast<size_t>(step.results[0].byte_size()));
  p.inputs[0].as<float>()[0] = 0;  // the zero point
  const auto scratch = Buffer::allocate(step.bound->scratch_bytes);
  step.bound->run({step.buffers.data(), scratch->data(), nullptr}, 0, 1);
  CHECK(step.results[0].as<uint8_t>()[0] == p.inputs[2].as<uint8_t>()[0]);
  const uint8_t* const others = step.results[0].as<uint8_t>() + 4 * 112 * 112;
  CHECK(std::all_of(others, others + 60 * 112 * 112, [](uint8_t v) { return v == 255; }));
}

TEST_CASE("backends/integer: bytes from a table, however they lie") {
  Generator g(54);
  for (const DType type : {DType::kU8, DType::kI8})
    for (const Dims& dims : {Dims{}, Dims{63}, Dims{64}, Dims{65, 3}, Dims{2, 5, 4, 130},
                             Dims{0, 4}, Dims{3, 70000}}) {
      Problem p;
      p.op = &get_op("Lookup", "xc");
      p.inputs = {bytes(g, type, dims), bytes(g, DType::kI8, {256})};
      INFO(name(type) << to_text(dims));
      check_row("xc.byte_table", p, {});
    }
}

}  // namespace
}  // namespace xc

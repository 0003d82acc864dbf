#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/packed_weights.h"
#include "backends/cpu/vector/few_rows_fn.h"
#include "backends/cpu/vector/panel_product_fn.h"
#include "backends/step_harness.h"
#include "base/clock.h"
#include "support/worst.h"

namespace xc {
namespace {

using namespace test;

/// Relative to the size of a sum of k products of magnitude 2.
Bounds bounds_for(int64_t k, DType type = DType::kF32) {
  const double unit = type == DType::kF64 ? 1e-14 : 1e-5;
  return {unit, 0.2 * unit * static_cast<double>(k)};
}

/// What f32 weights may have been before.
constexpr DType kStored[] = {DType::kF32, DType::kF16, DType::kBF16};

/// Rows of products, and what they multiply.
struct Way {
  const char* row;
  DType type;
};
constexpr Way kWays[] = {{"onednn.matmul", DType::kF32}, {"xc.matmul", DType::kF64},
                         {"xc.matmul", DType::kI32},     {"xc.matmul", DType::kI64},
                         {"xc.matmul", DType::kU32},     {"xc.matmul", DType::kU64}};

TEST_CASE_TEMPLATE("backends/matmul: the own product agrees with sums in f64, transposed or not", T,
                   float, double) {
  std::mt19937 random(3);
  for (const auto& size : {std::array<int64_t, 3>{1, 1, 1},
                           {1, 100, 7},
                           {3, 17, 33},
                           {4, 64, 5},
                           {9, 130, 70},
                           {33, 3, 257},
                           {16, 16, 16},
                           {5, 8, 0},
                           {6, 64, 128},
                           {13, 65, 129},
                           {29, 130, 300},
                           {8, 47, 31},
                           {2, 300, 45},
                           {5, 1100, 27},
                           {7, 90, 140},
                           {3, 1000, 3},  // few terms, turned into lanes where b is transposed
                           {1, 37, 4},
                           {6, 50, 5},
                           {2, 33, 8},
                           {3, 70, 9},
                           {7, 19, 16},
                           {50, 3, 3},    // few columns, results turned back into rows
                           {67, 16, 16},  // the right side in registers
                           {34, 6, 8},
                           {21, 16, 3},
                           {33, 2, 4},
                           {17, 5, 8},
                           {48, 16, 16},
                           {39, 15, 9},
                           {66, 300, 410},  // copied slab by slab
                           {8, 1100, 530},  // beyond a second-level cache of 1 or 2 MiB
                           {11, 700, 801},
                           {70, 1030, 70}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const auto& [alpha, beta] :
             {std::pair{T{1}, T{0}}, {T{1.5}, T{0}}, {T{1.5}, T{0.5}}}) {
          const int64_t m = size[0], n = size[1], k = size[2];
          const bool beyond_cache = m <= 11 && n * k > 500000;  // read in place, or as smaller ones
          if (beyond_cache && (transpose_b || alpha != 1)) continue;
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CAPTURE(transpose_a);
          CAPTURE(transpose_b);
          const auto filled = [&](int64_t count) {
            std::vector<T> out(static_cast<size_t>(count) + 1);
            for (T& v : out) v = std::uniform_real_distribution<T>(-1, 1)(random);
            return out;
          };
          const int64_t lda = (transpose_a ? m : k) + 3, ldc = n + 1;
          const int64_t ldb = (transpose_b ? k : n) + (m % 3 == 0 ? 0 : 2);
          const auto a = filled((transpose_a ? k : m) * lda),
                     b = filled((transpose_b ? n : k) * ldb);
          const auto before = filled(m * ldc);
          for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
            if (isa > cpu_info().isa) continue;
            CAPTURE(name(isa));
            auto c = before, roomless = before;
            const int64_t room = cpu::gemm_room<T>(m, n, k, isa);
            const auto copies = Buffer::allocate(room * static_cast<int64_t>(sizeof(T)));
            cpu::Gemm<T> product{transpose_a, transpose_b,     m,   n,        k,
                                 alpha,       a.data(),        lda, b.data(), ldb,
                                 beta,        roomless.data(), ldc};
            cpu::own_gemm<T>(product, isa);
            product.c = c.data();
            product.room = reinterpret_cast<T*>(copies->data());
            product.room_elements = room;
            cpu::own_gemm<T>(product, isa);
            CHECK(c == roomless);
            // Rows of a part have the bits that they have in the whole.
            auto parts = before;
            product.all_rows = m;
            for (int64_t i = 0; i < m; i += 3) {
              product.m = std::min<int64_t>(3, m - i);
              product.a = a.data() + (transpose_a ? i : i * lda);
              product.c = parts.data() + i * ldc;
              cpu::own_gemm<T>(product, isa);
            }
            CHECK(c == parts);
            double worst = 0;
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < ldc; ++j) {
                const auto at = static_cast<size_t>(i * ldc + j);
                double want = before[at];
                if (j < n) {
                  double sum = 0;
                  for (int64_t d = 0; d < k; ++d)
                    sum += static_cast<double>(
                               a[static_cast<size_t>(transpose_a ? d * lda + i : i * lda + d)]) *
                           b[static_cast<size_t>(transpose_b ? j * ldb + d : d * ldb + j)];
                  want = alpha * sum + beta * before[at];
                }
                worst = test::worst_of(worst, std::fabs(want - c[at]));
              }
            CHECK(worst <= (sizeof(T) == 4 ? 1e-4 : 1e-12));
          }
        }
}

/// The own kernel for few rows against sums in f64, nothing written beside its result. `panel`: 0
/// for weights in rows. Weights that lie in halves give the bits of the same ones in f32.
void check_few_rows(int64_t rows, int64_t n, int64_t k, int64_t panel, Generator& g) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  const int64_t x_row = k + 5, y_row = n + 2;
  const Tensor x = g.tensor(DType::kF32, {rows * x_row});
  const auto result = [&](const Tensor& w, cpu::WeightFormat lie) {
    std::vector<float> y(static_cast<size_t>(rows * y_row), 7.0f);
    cpu::few_rows_fn()(
        {x.as<float>(), x_row, rows, k, n, w.as<std::byte>(), lie, panel, y.data(), y_row});
    return y;
  };
  for (const auto& [lie, type] : {std::pair{cpu::WeightFormat::kF32, DType::kF32},
                                  {cpu::WeightFormat::kF16, DType::kF16},
                                  {cpu::WeightFormat::kBF16, DType::kBF16}}) {
    CAPTURE(name(type));
    const Tensor stored = g.tensor(type, {panel > 0 ? (n + 63) / 64 * panel : k * n});
    const Tensor w = widened(stored);
    const auto weight = [&](int64_t d, int64_t j) {
      return w.as<float>()[panel > 0 ? j / 64 * panel + d * 64 + j % 64 : d * n + j];
    };
    const auto y = result(w, cpu::WeightFormat::kF32);
    double worst = 0;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < y_row; ++j) {
        double want = j < n ? 0 : 7;
        for (int64_t d = 0; j < n && d < k; ++d)
          want += static_cast<double>(x.as<float>()[r * x_row + d]) * weight(d, j);
        worst = test::worst_of(worst, std::fabs(want - y[static_cast<size_t>(r * y_row + j)]));
      }
    CHECK(worst <= 4e-4 * std::max(1.0, static_cast<double>(k) / 450));
    if (type != DType::kF32) CHECK(result(stored, lie) == y);
  }
}

bool has_few_rows() {
  if (cpu_info().isa >= Isa::kAvx512) return true;
  MESSAGE("skipped: no AVX-512");
  return false;
}

/// Every size of a group of rows, alone, in two or three groups and in more.
constexpr int64_t kRowsTried[] = {1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 16, 19, 24, 25, 33};

TEST_CASE("backends/matmul: narrow rows without gaps have the bits of rows with gaps") {
  Generator g(29);
  for (int round = 0; round < 400; ++round) {
    const int64_t m = g.integer(1, 200), n = g.integer(1, 9), k = g.integer(1, 9);
    const bool transpose_b = g.integer(0, 1) != 0;
    const float alpha = round % 3 ? 1.0f : 1.5f, beta = round % 4 ? 0.0f : 0.5f;
    const auto filled = [&](int64_t count) {
      std::vector<float> out(static_cast<size_t>(count));
      for (float& v : out) v = static_cast<float>(g.real(-1, 1));
      if (round % 5 == 0) out[static_cast<size_t>(g.integer(0, count - 1))] = NAN;
      return out;
    };
    // No element behind the last one that is read.
    const auto a = filled(m * k), b = filled(n * k), before = filled(m * n);
    std::vector<float> wide_a(static_cast<size_t>(m * (k + 3))),
        wide_before(static_cast<size_t>(m * (n + 1)));
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(a.begin() + i * k, k, wide_a.begin() + i * (k + 3));
      std::copy_n(before.begin() + i * n, n, wide_before.begin() + i * (n + 1));
    }
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > cpu_info().isa) continue;
      auto dense = before, wide = wide_before, parts = before;
      cpu::Sgemm product{false, transpose_b,  m, n,        k,
                         alpha, a.data(),     k, b.data(), transpose_b ? k : n,
                         beta,  dense.data(), n};
      product.all_rows = 200;
      cpu::own_gemm<float>(product, isa);
      for (int64_t i = 0; i < m; i += 13) {
        cpu::Sgemm part = product;
        part.m = std::min<int64_t>(13, m - i);
        part.a = a.data() + i * k;
        part.c = parts.data() + i * n;
        cpu::own_gemm<float>(part, isa);
      }
      product.a = wide_a.data(), product.lda = k + 3;
      product.c = wide.data(), product.ldc = n + 1;
      cpu::own_gemm<float>(product, isa);
      bool same = std::memcmp(dense.data(), parts.data(), dense.size() * 4) == 0;
      for (int64_t i = 0; i < m * n; ++i) {
        const float x = dense[static_cast<size_t>(i)],
                    y = wide[static_cast<size_t>(i / n * (n + 1) + i % n)];
        same &= x == y || (std::isnan(x) && std::isnan(y));
      }
      CHECK_MESSAGE(same, name(isa));
    }
  }
}

TEST_CASE("backends/matmul: few rows against panels of 64 columns, the last one in part") {
  if (!has_few_rows()) return;
  Generator g(5);
  for (const int64_t rows : kRowsTried)
    for (const int64_t n : {1, 63, 64, 65, 200})
      for (const int64_t k : {0, 1, 17, 64, 450})
        check_few_rows(rows, n, k, (k + 3) * cpu::kFewColumns, g);
}

TEST_CASE("backends/matmul: any rows against weights in rows") {
  if (!has_few_rows()) return;
  Generator g(6);
  for (const int64_t rows : kRowsTried)
    for (const int64_t n : {1, 15, 16, 63, 64, 100, 384, 456})
      for (const int64_t k : {0, 1, 17, 300}) check_few_rows(rows, n, k, 0, g);
}

TEST_CASE("backends/matmul: one row against more weights in rows than a cache holds") {
  if (!has_few_rows()) return;
  Generator g(7);
  for (const int64_t n : {400, 805}) {
    const int64_t k = (4 << 20) / (2 * n) + 3;  // of halves too
    check_few_rows(1, n, k, 0, g);
    const Tensor x = g.tensor(DType::kF32, {2 * k}), w = g.tensor(DType::kF32, {k * n});
    for (const bool add : {false, true}) {
      std::vector<float> alone(static_cast<size_t>(n), 0.5f),
          both(static_cast<size_t>(2 * n), 0.5f);
      const auto product = [&](int64_t rows, float* y) {
        cpu::few_rows_fn()(
            {x.as<float>(), k, rows, k, n, w.data(), cpu::WeightFormat::kF32, 0, y, n, add});
      };
      product(1, alone.data());
      product(2, both.data());
      CHECK(std::memcmp(alone.data(), both.data(), alone.size() * sizeof(float)) == 0);
    }
  }
}

/// Narrow panels against sums in f64, nothing written beside the result. Rows alone, and weights in
/// halves, give the same bits.
void check_panels(int64_t rows, int64_t n, int64_t k, bool add, Generator& g) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(add);
  const int64_t x_row = k + 5, y_row = n + 2;
  const Tensor x = g.tensor(DType::kF32, {rows * x_row});
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2}) {
    if (isa > cpu_info().isa) continue;
    CAPTURE(name(isa));
    const int64_t c = cpu::panel_columns(isa);
    const auto result = [&](const Tensor& w, cpu::WeightFormat lie, int64_t at_once) {
      std::vector<float> y(static_cast<size_t>(rows * y_row), 7.0f);
      for (int64_t r = 0; r < rows; r += at_once)
        cpu::panel_product_fn(isa)({x.as<float>() + r * x_row, x_row, std::min(at_once, rows - r),
                                    k, n, w.as<std::byte>(), lie, y.data() + r * y_row, y_row,
                                    add});
      return y;
    };
    for (const auto& [lie, type] : {std::pair{cpu::WeightFormat::kF32, DType::kF32},
                                    {cpu::WeightFormat::kF16, DType::kF16},
                                    {cpu::WeightFormat::kBF16, DType::kBF16}}) {
      CAPTURE(name(type));
      const Tensor stored = g.tensor(type, {(n + c - 1) / c * c * k});
      const Tensor w = widened(stored);
      const auto y = result(w, cpu::WeightFormat::kF32, rows);
      double worst = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < y_row; ++j) {
          double want = j < n && !add ? 0 : 7;
          for (int64_t d = 0; j < n && d < k; ++d)
            want += static_cast<double>(x.as<float>()[r * x_row + d]) *
                    w.as<float>()[(j / c * k + d) * c + j % c];
          worst = test::worst_of(worst, std::fabs(want - y[static_cast<size_t>(r * y_row + j)]));
        }
      CHECK(worst <= 1e-6 * static_cast<double>(k + 100));
      if (type != DType::kF32) {
        if (cpu::widens_halves(isa)) CHECK(result(stored, lie, rows) == y);
      } else {
        CHECK(result(w, lie, 1) == y);
        CHECK(result(w, lie, 5) == y);
      }
    }
  }
}

TEST_CASE("backends/matmul: any rows against narrow panels, the last one in part") {
  Generator g(7);
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 13, 19, 64, 150, 290})
    for (const int64_t n : {1, 7, 8, 15, 16, 17, 40, 65})
      for (const int64_t k : {0, 1, 17, 256, 257, 600})
        check_panels(rows, n, k, (rows + n + k) % 2 == 0, g);
}

TEST_CASE("backends/matmul: ranks, broadcasts, strides and splits") {
  Generator g(21);
  const std::vector<std::pair<Dims, Dims>> shapes = {
      {{3, 4}, {4, 5}},
      {{1, 1}, {1, 1}},
      {{4}, {4}},
      {{4}, {4, 6}},
      {{5, 4}, {4}},
      {{2, 3, 4}, {4, 5}},
      {{2, 3, 7, 4}, {2, 3, 4, 5}},
      {{3, 1, 7, 4}, {2, 4, 5}},
      {{2, 3, 4, 7, 5}, {2, 3, 1, 5, 6}},
      {{2, 3, 4, 1, 64}, {2, 3, 1, 64, 90}},
      {{3, 2, 4, 5}, {3, 1, 1, 5, 6}},
      {{2, 3, 4}, {4}},
      {{2, 3, 1, 4}, {4, 1}},
      {{1, 64}, {64, 300}},
      {{70, 33}, {33, 129}},
      {{200, 40}, {40, 3}},
      {{0, 4}, {4, 3}},
      {{2, 0}, {0, 3}},
      {{130, 200}, {200, 260}},
      {{1, 300}, {300, 900}},
  };
  for (const Way& way : kWays)
    for (const auto& [a, b] : shapes) {
      Problem p;
      p.op = &get_op("MatMul");
      p.inputs = {g.tensor(way.type, a), g.tensor(way.type, b)};
      INFO(way.row << ": " << to_text(a) << " x " << to_text(b));
      check_row(way.row, p, is_float(way.type) ? bounds_for(a.back(), way.type) : Bounds{});
    }
}

TEST_CASE("backends/matmul: products of integers wrap, on every instruction set") {
  std::mt19937_64 random(7);
  const auto check = [&]<class T>() {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                  {1, 100, 37},
                                  {9, 65, 130},
                                  {6, 64, 300},
                                  {40, 3, 5},
                                  {70, 130, 257},
                                  {4, 8, 0}})
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
          const auto filled = [&](int64_t count) {
            std::vector<T> out(static_cast<size_t>(count) + 1);
            for (T& v : out) v = static_cast<T>(random());
            return out;
          };
          const auto a = filled(m * k), b = filled(k * n);
          const int64_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
          for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
            if (isa > cpu_info().isa) continue;
            auto c = filled(m * n);
            const int64_t room = cpu::gemm_room<T>(m, n, k, isa);
            const auto copies = Buffer::allocate(room * static_cast<int64_t>(sizeof(T)));
            cpu::Gemm<T> product{transpose_a, transpose_b, m,   n,    k,        T{1}, a.data(),
                                 lda,         b.data(),    ldb, T{0}, c.data(), n};
            for (const bool roomy : {false, true}) {
              product.room = roomy ? reinterpret_cast<T*>(copies->data()) : nullptr;
              product.room_elements = roomy ? room : 0;
              cpu::own_gemm<T>(product, isa);
              int64_t wrong = 0;
              for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) {
                  T sum = 0;
                  for (int64_t d = 0; d < k; ++d)
                    sum += a[static_cast<size_t>(transpose_a ? d * m + i : i * k + d)] *
                           b[static_cast<size_t>(transpose_b ? j * k + d : d * n + j)];
                  wrong += c[static_cast<size_t>(i * n + j)] != sum;
                }
              INFO(name(isa) << " " << m << "x" << k << "x" << n);
              CHECK(wrong == 0);
            }
          }
        }
  };
  check.template operator()<uint32_t>();
  check.template operator()<uint64_t>();
}

TEST_CASE("backends/matmul: Gemm with every transposition, factor and addend") {
  Generator g(22);
  for (const Way& way : kWays) {
    if (!is_float(way.type)) continue;
    for (int t = 0; t < 4; ++t)
      for (const Dims& c : {Dims{}, Dims{5}, Dims{7, 1}, Dims{7, 5}}) {
        Problem p;
        p.op = &get_op("Gemm");
        p.attrs.set("transA", int64_t{t & 1});
        p.attrs.set("transB", int64_t{t >> 1});
        if (t == 3) p.attrs.set("alpha", 0.5);
        if (t == 1) p.attrs.set("beta", 2.0);
        p.inputs = {g.tensor(way.type, t & 1 ? Dims{9, 7} : Dims{7, 9}),
                    g.tensor(way.type, t & 2 ? Dims{5, 9} : Dims{9, 5}), g.tensor(way.type, c)};
        check_row(way.row, p, bounds_for(9, way.type));
        p.inputs[2] = Tensor();
        check_row(way.row, p, bounds_for(9, way.type));
      }
  }
}

TEST_CASE("backends/matmul: packed weights agree with the reference, whatever the split") {
  Generator g(23);
  for (const Dims& a : {Dims{1, 300}, Dims{5, 300}, Dims{60, 300}, Dims{150, 300}, Dims{2, 70, 300},
                        Dims{3, 1, 300}})
    for (int64_t n : {100, 101, 102, 240, 256, 257, 900, 901, 902, 1600}) {
      Problem p;
      p.op = &get_op("MatMul");
      p.inputs = {g.tensor(DType::kF32, a), widened(g.tensor(kStored[n % 3], {300, n}))};
      p.constant = {false, true};
      const auto want = run_reference(node_of(p), p.inputs);
      const auto& row = find_row("onednn.matmul", "MatMul");
      RunOptions options;
      options.prepare = options.background = true;
      std::vector<Tensor> first;
      for (int64_t pieces : {1, 2, 3, 4, 0}) {
        options.pieces = pieces;
        options.threads = static_cast<int>(std::max<int64_t>(1, pieces));
        const auto got = run_row(row, p, options);
        const std::string wrong = difference(got[0], want[0], bounds_for(300));
        CHECK_MESSAGE(wrong.empty(), to_text(a) << " x " << n << ": " << wrong);
        if (first.empty()) first = got;
        CHECK_MESSAGE(same_bits(first[0], got[0]), to_text(a) << " x " << n << " in " << pieces);
      }
    }
}

TEST_CASE("backends/matmul: packed weights behind rows that are not evenly apart") {
  Generator g(30);
  for (const Dims& a : {Dims{2, 32, 128}, Dims{7, 3, 2, 40}, Dims{1, 5, 64}})
    for (int64_t n : {8, 16, 100, 384})
      for (int kind = 0; kind < Generator::kStrideKinds; ++kind) {
        Problem p;
        p.op = &get_op("MatMul");
        p.inputs = {g.strided(g.tensor(DType::kF32, a), kind),
                    g.tensor(DType::kF32, {a.back(), n})};
        p.constant = {false, true};
        const auto want = run_reference(node_of(p), p.inputs);
        RunOptions options;
        options.prepare = options.background = true;
        std::vector<Tensor> first;
        for (int64_t pieces : {1, 3, 0}) {
          options.pieces = pieces;
          const auto got = run_row(find_row("onednn.matmul", "MatMul"), p, options);
          const std::string wrong = difference(got[0], want[0], bounds_for(a.back()));
          CHECK_MESSAGE(wrong.empty(), to_text(a) << " x " << n << " as " << kind << ": " << wrong);
          if (first.empty()) first = got;
          CHECK_MESSAGE(same_bits(first[0], got[0]), to_text(a) << " x " << n << " in " << pieces);
        }
      }
}

TEST_CASE("backends/matmul: packed weights into rows with gaps of any size") {
  Generator g(29);
  const Tensor x = g.tensor(DType::kF32, {64, 128}), w = g.tensor(DType::kF32, {128, 128});
  for (const int64_t stride : {128, 129, 144, 155, 160, 191, 192, 256, 300}) {
    // As a part of a Concat lies.
    Problem p;
    p.op = &get_op("MatMul");
    p.inputs = {x, w};
    p.constant = {false, true};
    const auto want = run_reference(node_of(p), p.inputs);
    RunOptions options;
    options.prepare = options.background = true;
    options.output_row = stride;
    const auto got = run_row(find_row("onednn.matmul", "MatMul"), p, options);
    const std::string wrong = difference(got[0], want[0], bounds_for(128));
    CHECK_MESSAGE(wrong.empty(), stride << ": " << wrong);
  }
}

TEST_CASE(
    "backends/matmul: where packed weights take results with gaps, the library has a kernel") {
  Generator g(30);
  const auto reference = [](const cpu::PackedWeights& w, size_t slice, int64_t gap) {
    const dnnl::memory::desc& right = w.descs[slice];
    const int64_t k = right.get_dims()[0], n = right.get_dims()[1];
    const dnnl::memory::desc left({64, k}, cpu::onednn_type(w.types.left), {k, 1}),
        result({64, n}, cpu::onednn_type(w.types.result), {n + gap, 1});
    const dnnl::matmul::primitive_desc pd(cpu::onednn_engine(), left, right, result);
    return std::string_view(pd.impl_info_str()).starts_with("ref");
  };
  for (const cpu::ProductTypes& types : {cpu::ProductTypes{DType::kF32, DType::kF32, DType::kF32},
                                         {DType::kBF16, DType::kBF16, DType::kF32},
                                         {DType::kU8, DType::kI8, DType::kI32}})
    for (const int64_t n : {100, 128, 768})
      for (const int threads : {1, 2}) {
        if (types.right == DType::kBF16 && !cpu::has_bf16_products()) continue;
        const DType stored = types.right == DType::kI8 ? DType::kI8 : DType::kF32;
        const auto packed = cpu::pack_weights(g.tensor(stored, {128, n}), false, types, threads);
        for (size_t slice = 0; slice < packed->descs.size(); ++slice)
          for (const int64_t gap : {1, 27, 64, 768})
            if (!packed->dense_only(slice))
              CHECK(reference(*packed, slice, gap) == reference(*packed, slice, 0));
      }
}

TEST_CASE("backends/matmul: few rows over weights beyond the cache, whatever the split") {
  Generator g(27);
  const int64_t k = 700, n = 1000;
  const auto& row = find_row("onednn.matmul", "MatMul");
  for (const DType stored : kStored) {
    const Tensor weights = widened(g.tensor(stored, {k, n}));
    for (int64_t m : {1, 2, 3, 4, 5, 16, 32, 33, 70}) {
      Problem p;
      p.op = &get_op("MatMul");
      p.inputs = {g.tensor(DType::kF32, {m, k}), weights};
      p.constant = {false, true};
      const auto want = run_reference(node_of(p), p.inputs);
      RunOptions options;
      options.prepare = options.background = true;
      for (int threads : {1, 2, 4}) {
        options.threads = threads;
        options.pieces = threads;
        const std::string wrong = difference(run_row(row, p, options)[0], want[0], bounds_for(k));
        CHECK_MESSAGE(wrong.empty(),
                      name(stored) << ", " << m << " rows, " << threads << " threads: " << wrong);
      }
    }
  }
}

TEST_CASE("backends/matmul: weights that halves hold exactly are packed as those, no others") {
  if (!cpu::widens_halves(cpu_info().isa)) return;
  Generator g(31);
  const cpu::ProductTypes types{DType::kF32, DType::kF32, DType::kF32};
  const auto stored = [&](const Tensor& w) {
    return cpu::pack_weights(w, false, types, 1)->stored;
  };
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const Tensor w = widened(g.tensor(type, {130, 200}));
    float* const at = w.as<float>();
    at[0] = -0.0f;
    at[1] = std::numeric_limits<float>::infinity();
    if (type == DType::kBF16) at[2] = 0x1p100f;  // beyond f16
    CHECK(stored(w) == type);
    at[25999] = 0x1.0002p0f;  // a digit more than either has
    CHECK(stored(w) == DType::kF32);
  }
  const Tensor w = widened(g.tensor(DType::kF16, {130, 200}));
  w.as<float>()[0] = 0x1p-24f;  // the least there is
  CHECK(stored(w) == DType::kF16);
  w.as<float>()[0] = 0x1p-25f;
  CHECK(stored(w) == DType::kF32);
  w.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(stored(w) == DType::kF16);
}

TEST_CASE("backends/matmul: the same bits however an unpacked product is split") {
  Generator g(24);
  for (int round = 0; round < 80; ++round) {
    const Way& way = kWays[round % 5 == 4 ? 1 : 0];
    const auto& row = find_row(way.row, "MatMul");
    const int64_t m = g.integer(1, round % 3 ? 40 : 400), k = g.integer(1, 900),
                  n = g.integer(1, round % 7 == 6 ? 8 : 900);
    Problem p;
    p.op = &get_op("MatMul");
    p.inputs = {g.tensor(way.type, {m, k}), g.tensor(way.type, {k, n})};
    if (round % 4 == 1) p.inputs[1] = g.strided(p.inputs[1], 1);
    if (round % 4 == 2) p.inputs[0] = g.strided(p.inputs[0], 1);
    RunOptions options;
    const auto first = run_row(row, p, options);
    for (int64_t pieces : {2, 3, 4, 0}) {
      options.pieces = pieces;
      CHECK_MESSAGE(same_bits(first[0], run_row(row, p, options)[0]),
                    m << " x " << k << " x " << n << " in " << pieces << " pieces");
    }
  }
}

TEST_CASE("backends/matmul: post-ops over each task's tile") {
  Generator g(25);
  for (const Dims& a : {Dims{3, 50}, Dims{140, 300}, Dims{2, 5, 300}, Dims{2, 70, 300}})
    for (const auto& [way, packed, columns] : {std::tuple{kWays[0], false, 320},
                                               {kWays[0], true, 320},
                                               {kWays[1], false, 320},
                                               {kWays[0], false, 3}}) {
      const int64_t k = a.back(), n = columns;
      Problem p;
      p.op = &get_op("MatMul");
      p.inputs = {g.tensor(way.type, a), g.tensor(way.type, {k, n})};
      p.constant = {false, true};
      Dims out = a;
      out.back() = n;
      const auto plain = run_reference(node_of(p), p.inputs);
      const Tensor bias = g.tensor(way.type, {n}), residual = g.tensor(way.type, out);
      // relu(x + bias) + residual
      Problem add;
      add.op = &get_op("Add");
      add.inputs = {plain[0], bias};
      Problem relu;
      relu.op = &get_op("Relu");
      relu.inputs = run_reference(node_of(add), add.inputs);
      add.inputs = {run_reference(node_of(relu), relu.inputs)[0], residual};
      const auto want = run_reference(node_of(add), add.inputs);

      PostOp plus_bias{PostOp::Kind::kBinary, &get_op("Add"), {}, 2, true, {}};
      PostOp rectify{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
      PostOp plus_residual{PostOp::Kind::kBinary, &get_op("Add"), {}, 3, false, {}};
      p.post_ops = {plus_bias, rectify, plus_residual};
      p.post_inputs = {bias, residual};
      RunOptions options;
      options.prepare = options.background = packed;
      for (int64_t pieces : {1, 0}) {
        options.pieces = pieces;
        for (int kind : {0, 1, 2}) {
          options.output_kind = kind;
          const auto got = run_row(find_row(way.row, "MatMul"), p, options);
          const std::string wrong = difference(got[0], want[0], bounds_for(k, way.type));
          CHECK_MESSAGE(wrong.empty(), way.row << ' ' << to_text(a) << " packed " << packed
                                               << " strides " << kind << ": " << wrong);
        }
      }
    }
}

TEST_CASE("backends/matmul: strict keeps one way before and after packing") {
  Generator g(26);
  Problem p;
  p.op = &get_op("MatMul");
  p.inputs = {g.tensor(DType::kF32, {64, 300}), g.tensor(DType::kF32, {300, 600})};
  p.constant = {false, true};
  const auto& row = find_row("onednn.matmul", "MatMul");
  RunOptions options;
  options.numerics = Numerics::kStrict;
  const auto before = run_row(row, p, options);
  options.prepare = options.background = true;
  CHECK(same_bits(before[0], run_row(row, p, options)[0]));
}

void library_sgemm(const cpu::Sgemm& p) {
  REQUIRE(dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
                     p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc) == dnnl_success);
}

TEST_CASE("backends/matmul_timing: the own product beside the library's" * doctest::skip()) {
  const cpu::OneThread guard;
  struct Shape {
    int64_t m, n, k, lda, ldb;
    bool transpose_b;
  };
  std::vector<Shape> shapes;
  for (const int64_t n : {1, 4, 8, 16, 32, 48, 64, 96, 128, 256, 512}) {
    // The two products of attention over heads of 64 columns, cut from rows of 768.
    shapes.push_back({n, n, 64, 768, 768, true});
    shapes.push_back({n, 64, n, n, 768, false});
  }
  for (const int64_t m : {5, 6, 8, 10, 12, 16, 32, 64, 200}) {  // right sides beyond the caches
    shapes.push_back({m, 3072, 768, 768, 3072, false});
    shapes.push_back({m, 2000, 2000, 2000, 2000, false});
    shapes.push_back({m, 300, 100, 100, 300, false});
  }
  for (const int64_t n : {10, 100, 250, 512, 1024, 1536})
    for (const bool transpose_b : {false, true}) {
      shapes.push_back({n, n, n, n, n, transpose_b});
      shapes.push_back({n, 10, 100, 100, transpose_b ? 100 : 10, transpose_b});
      shapes.push_back({4, n, n, n, n, transpose_b});
      shapes.push_back({1, n, n, n, n, transpose_b});
    }
  for (const Shape& s : shapes) {
    const std::vector<float> a(static_cast<size_t>(s.m * s.lda), 0.5f),
        b(static_cast<size_t>((s.transpose_b ? s.n : s.k) * s.ldb), 0.5f);
    std::vector<float> c(static_cast<size_t>(s.m * s.n));
    const int64_t room = cpu::gemm_room<float>(s.m, s.n, s.k);
    const auto copies = Buffer::allocate(room * 4);
    const cpu::Sgemm p{
        false, s.transpose_b, s.m,   s.n,      s.k,
        1,     a.data(),      s.lda, b.data(), s.ldb,
        0.0f,  c.data(),      s.n,   0,        reinterpret_cast<float*>(copies->data()),
        room};
    std::array<double, 2> best{1e9, 1e9};
    const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
    const int repeats = static_cast<int>(1 + 4e6 / flops);
    for (int round = 0; round < 10; ++round)
      for (const bool own : {false, true}) {
        const int64_t start = steady_ns();
        for (int r = 0; r < repeats; ++r) own ? cpu::own_gemm(p) : library_sgemm(p);
        best[own] = std::min(best[own], static_cast<double>(steady_ns() - start) / repeats);
      }
    MESSAGE(std::string(s.transpose_b ? "a t(b) " : "a b "), s.m, "x", s.n, "x", s.k, ": library ",
            flops / best[0], ", own ", flops / best[1], " GFLOP/s, ratio ", best[0] / best[1]);
  }
}

}  // namespace
}  // namespace xc

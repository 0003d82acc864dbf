// Regions of products in f64, f16 and bf16, on every instruction set of the machine, against sums
// computed in f64 from the very inputs.
#include <doctest/doctest.h>

#include "base/cpu_info.h"
#include "support.h"
#include "tier/engine_factory.h"

#if XC_HAVE_JIT

namespace {

using namespace xc;
using namespace xc::testing;

struct ProductType {
  DType dtype;
  const char* name;
  double tolerance;  ///< of the largest result: several roundings of the type, or of f32 sums
};
constexpr ProductType kTypes[] = {
    {DType::kF64, "f64", 1e-12}, {DType::kF16, "f16", 4e-3}, {DType::kBF16, "bf16", 3e-2}};

/// Numbers around `middle`, one away at most.
Tensor made(DType dtype, const Dims& dims, double phase, double middle = 0) {
  Tensor out(dtype, dims);
  for (int64_t i = 0; i < out.count(); ++i)
    store_double(out.data(), dtype, i, middle + std::sin(static_cast<double>(i) * 0.37 + phase));
  return out;
}

/// Runs a graph whose products fuse, on every instruction set.
void check(const ProductType& type, const std::string& text, const std::vector<Tensor>& inputs,
           const std::vector<double>& want) {
  double largest = 0;
  for (double v : want) largest = std::max(largest, std::fabs(v));
  CAPTURE(std::string(type.name));
  for (int64_t isa = 1; isa <= static_cast<int64_t>(cpu_info().isa) + 1; ++isa) {
    CAPTURE(isa);
    int compiled = 0;
    std::string refusal;
    Config config;
    config.set_jit(JitMode::kSync);
    config.isa = isa;
    config.threads = 1;
    HostHooks hooks;
    hooks.event = [&](const Event& e) {
      if (e.subject.rfind("blocks", 0) != 0) return;
      compiled += e.kind == EventKind::kCompiled;
      if (e.kind == EventKind::kRefused || e.kind == EventKind::kMismatch) refusal = e.detail;
    };
    Session session(Model::create(create_engine(config, std::move(hooks)),
                                  parse_graph(with_type(text, type.name))),
                    Config{});
    const std::vector<double> have = run(session, inputs)[0].to_doubles();
    CHECK(compiled == 1);
    CHECK(refusal == "");
    REQUIRE(have.size() == want.size());
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::isfinite(have[i]) ? std::fabs(have[i] - want[i]) : INFINITY);
    CHECK(worst <= type.tolerance * largest);
  }
}

}  // namespace

TEST_CASE("tiering/product_types: attention in f64, f16 and bf16 agrees with f64") {
  constexpr int64_t kHeads = 2, kRows = 45, kWidth = 12;
  for (const ProductType& type : kTypes) {
    const Dims dims{1, kHeads, kRows, kWidth};
    const std::vector<Tensor> in{made(type.dtype, dims, 0.1), made(type.dtype, dims, 0.9),
                                 made(type.dtype, dims, 1.7)};
    const auto q = in[0].to_doubles(), k = in[1].to_doubles(), v = in[2].to_doubles();
    std::vector<double> want;
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kRows; ++i) {
        const auto at = [&](int64_t row, int64_t c) {
          return static_cast<size_t>((h * kRows + row) * kWidth + c);
        };
        std::vector<double> p(kRows);
        double sum = 0;
        for (int64_t j = 0; j < kRows; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < kWidth; ++c) dot += q[at(i, c)] * k[at(j, c)];
          sum += p[static_cast<size_t>(j)] = std::exp(0.25 * dot);
        }
        for (int64_t c = 0; c < kWidth; ++c) {
          double y = 0;
          for (int64_t j = 0; j < kRows; ++j) y += p[static_cast<size_t>(j)] / sum * v[at(j, c)];
          want.push_back(y);
        }
      }
    check(type, R"(graph a(%q: $T[1, 2, s, 12], %k: $T[1, 2, s, 12], %v: $T[1, 2, s, 12]) -> (%y) {
  const %c: $T[] = 0.25
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %b = Mul(%a, %c)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})",
          in, want);
  }
}

TEST_CASE("tiering/product_types: matrix-vector chains in f64, f16 and bf16 agree with f64") {
  constexpr int64_t kRows = 1100, kWidth = 21;  // two tasks
  for (const ProductType& type : kTypes) {
    // Positive: nothing cancels, so that the bound is the roundings' alone.
    const std::vector<Tensor> in{made(type.dtype, {kRows, kWidth}, 0.3, 1.1),
                                 made(type.dtype, {kRows, 1}, 0.8, 1.1),
                                 made(type.dtype, {kWidth, 1}, 1.1, 1.1)};
    const auto x = in[0].to_doubles(), w = in[1].to_doubles(), v = in[2].to_doubles();
    std::vector<double> want(kWidth, 0);
    for (size_t r = 0; r < kRows; ++r) {
      double dot = 0;
      for (size_t c = 0; c < kWidth; ++c) dot += x[r * kWidth + c] * v[c];
      for (size_t c = 0; c < kWidth; ++c) want[c] += x[r * kWidth + c] * w[r] * dot;
    }
    check(type, R"(graph g(%x: $T[n, 21], %w: $T[n, 1], %v: $T[21, 1]) -> (%y) {
  %t = Transpose(%x) {perm = [1, 0]}
  %a = MatMul(%x, %v)
  %b = Mul(%w, %a)
  %y = MatMul(%t, %b)
})",
          in, want);
  }
}

#endif

// Whole loops: a small graph through base plan and fused plan, compared with numbers worked out in
// double precision here.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/cpu_info.h"
#include "ir/text.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "support.h"
#include "tier/engine_factory.h"

namespace {

using namespace xc;
using namespace xc::testing;

std::shared_ptr<Session> session_of(const char* text, JitMode mode, int64_t threads = 1) {
  Config config;
  config.threads = threads;
  config.jit = static_cast<int64_t>(mode);
  config.rules = 1;  // off: the chain stays a chain, and its gain stays large
  return testing::session_of(text, config);
}

void check_gelu(const std::vector<Tensor>& inputs, const Tensor& y) {
  for (int64_t i = 0; i < y.count(); ++i) {
    const double t = static_cast<double>(inputs[0].as<float>()[i]) + inputs[1].as<float>()[i % 96];
    const double want = 0.5 * t * (1 + std::tanh(0.7978845608 * (t + 0.044715 * t * t * t)));
    REQUIRE(std::fabs(y.as<float>()[i] - want) <= 1e-5 * std::fabs(want) + 1e-6);
  }
}

}  // namespace

TEST_CASE("tiering/fused: an elementwise chain agrees in every mode, at every size") {
  for (JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kAuto}) {
    for (int64_t threads : {1, 2}) {
      auto session = session_of(kGelu, mode, threads);
      for (int64_t n : {1, 3, 32, 5, 1}) {
        const std::vector<Tensor> inputs{ramp({n, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
        check_gelu(inputs, run(*session, inputs)[0]);
      }
      if (mode == JitMode::kSync) {
        const ProfileSummary profile = session->profile();
        INFO(session->explain({}, false));
        CHECK(profile.compiled_regions == 1);
      }
    }
  }
}

TEST_CASE("tiering/fused: a decomposed layer norm is one region") {
  const char* text = R"(graph norm(%x: f32[n, 96], %r: f32[n, 96], %g: f32[96]) -> (%y) {
  const %axes: i64[1] = [-1]
  const %eps: f32[] = 0.00001
  %a = Add(%x, %r)
  %m = ReduceMean(%a, %axes) {keepdims = 1}
  %d = Sub(%a, %m)
  %q = Mul(%d, %d)
  %v = ReduceMean(%q, %axes) {keepdims = 1}
  %e = Add(%v, %eps)
  %s = Sqrt(%e)
  %z = Div(%d, %s)
  %y = Mul(%z, %g)
})";
  for (JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(text, mode);
    for (int64_t n : {1, 7}) {
      const std::vector<Tensor> in{ramp({n, 96}, 3, 0.1), ramp({n, 96}, 2, 0.9),
                                   ramp({96}, 1, 0.7)};
      const Tensor y = run(*session, in)[0];
      for (int64_t i = 0; i < n; ++i) {
        double mean = 0, var = 0;
        std::vector<double> a(96);
        for (int64_t j = 0; j < 96; ++j) {
          a[static_cast<size_t>(j)] =
              static_cast<double>(in[0].as<float>()[i * 96 + j]) + in[1].as<float>()[i * 96 + j];
          mean += a[static_cast<size_t>(j)] / 96;
        }
        for (double v : a) var += (v - mean) * (v - mean) / 96;
        for (int64_t j = 0; j < 96; ++j) {
          const double want =
              (a[static_cast<size_t>(j)] - mean) / std::sqrt(var + 1e-5) * in[2].as<float>()[j];
          REQUIRE(std::fabs(y.as<float>()[i * 96 + j] - want) <= 1e-4 * std::fabs(want) + 1e-5);
        }
      }
    }
    if (mode == JitMode::kSync) {
      INFO(session->explain({}, false));
      CHECK(session->profile().compiled_regions == 1);
    }
  }
}

TEST_CASE("tiering/fused: aggregates over everything, several outputs") {
  const char* text = R"(graph agg(%x: f32[n, 10], %y: f32[n, 10]) -> (%s, %p) {
  %m = Mul(%x, %y)
  %s = ReduceSum(%m) {keepdims = 0}
  %p = Relu(%m)
})";
  for (JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(text, mode);
    for (int64_t n : {1, 7, 5000}) {
      const std::vector<Tensor> in{ramp({n, 10}, 3, 0.1), ramp({n, 10}, 2, 0.9)};
      const auto out = run(*session, in);
      double want = 0, size = 0;
      for (int64_t i = 0; i < n * 10; ++i) {
        want += static_cast<double>(in[0].as<float>()[i]) * in[1].as<float>()[i];
        size += std::fabs(static_cast<double>(in[0].as<float>()[i]) * in[1].as<float>()[i]);
      }
      CHECK(std::fabs(out[0].as<float>()[0] - want) <= 1e-5 * size);
    }
    if (mode == JitMode::kSync) CHECK(session->profile().compiled_regions == 1);
  }
}

TEST_CASE(
    "tiering/fused: aggregates that share an operand are one pass, unless one needs another") {
  const char* text =
      R"(graph agg(%x: f32[n, 10], %y: f32[n, 10], %z: f32[n, 10]) -> (%a, %b, %c, %v) {
  %xy = Mul(%x, %y)
  %a = ReduceSum(%xy) {keepdims = 0}
  %xz = Mul(%x, %z)
  %b = ReduceMax(%xz) {keepdims = 0}
  %c = ReduceMean(%z) {keepdims = 0}
  %d = Sub(%x, %a)
  %q = Mul(%d, %d)
  %v = ReduceSum(%q) {keepdims = 0}
})";
  for (JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(text, mode);
    for (int64_t n : {1, 7, 5000}) {
      const std::vector<Tensor> in{ramp({n, 10}, 3, 0.1), ramp({n, 10}, 2, 0.9),
                                   ramp({n, 10}, 1, 0.4)};
      const auto out = run(*session, in);
      double a = 0, b = -INFINITY, c = 0, v = 0, size = 0;
      const auto at = [&](size_t k, int64_t i) {
        return static_cast<double>(in[k].as<float>()[i]);
      };
      for (int64_t i = 0; i < n * 10; ++i) {
        a += at(0, i) * at(1, i);
        b = std::max(b, at(0, i) * at(2, i));
        c += at(2, i) / static_cast<double>(n * 10);
        size += std::fabs(at(0, i) * at(1, i)) + 1;
      }
      for (int64_t i = 0; i < n * 10; ++i) v += (at(0, i) - a) * (at(0, i) - a);
      CHECK(std::fabs(out[0].as<float>()[0] - a) <= 1e-5 * size);
      CHECK(std::fabs(out[1].as<float>()[0] - b) <= 1e-5 * std::fabs(b));
      CHECK(std::fabs(out[2].as<float>()[0] - c) <= 1e-5);
      CHECK(std::fabs(out[3].as<float>()[0] - v) <= 1e-3 * v + 1e-3);
    }
    // One region for a, b and c, one for v, which needs a.
    INFO(session->explain({}, false));
    if (mode == JitMode::kSync) CHECK(session->profile().compiled_regions == 2);
  }
}

TEST_CASE(
    "tiering/fused: explain shows the groups considered, the winners and why not the others") {
  // What both reductions read may fuse with one of them: their rows differ.
  const char* text = R"(graph g(%x: f32[n, 8, 96], %a: f32[n, 8, 96]) -> (%s, %t) {
  const %one: i64[1] = [-1]
  const %two: i64[2] = [-2, -1]
  %u = Add(%x, %a)
  %v = Mul(%u, %a)
  %s = ReduceSum(%v, %one) {keepdims = 1}
  %t = ReduceMax(%v, %two) {keepdims = 1}
})";
  const auto session = session_of(text, JitMode::kSync);
  (void)run(*session, {ramp({4, 8, 96}, 1, 0.1), ramp({4, 8, 96}, 1, 0.5)});
  const std::string shown = session->explain({}, false);
  CAPTURE(shown);
  CHECK(shown.find("groups considered") != std::string::npos);
  CHECK(shown.find("\n    + Add+Mul+Reduce") != std::string::npos);
  CHECK(shown.find("\n    - ") != std::string::npos);
  CHECK(shown.find("takes nodes from what saves more: ") != std::string::npos);
  const std::string json = session->explain({}, true);
  CHECK(json.find("\"alternatives\"") != std::string::npos);
  CHECK(json.find("\"separate_us\"") != std::string::npos);
}

TEST_CASE("tiering/fused: verification accepts repeated operands and widened results") {
  // An operand that is expanded repeats elements; what was f32 on the way is no more exact in f64.
  for (const char* text : {R"(graph g(%x: f32[n, 1], %y: f32[n, 7]) -> (%z) {
  const %shape: i64[3] = [2, 1, 7]
  %e = Expand(%x, %shape)
  %a = Mul(%y, %e)
  %z = Tanh(%a)
})",
                           R"(graph g(%x: f32[n, 7], %y: f32[n, 7]) -> (%z) {
  %a = Mul(%x, %y)
  %c = Cos(%a)
  %z = Cast(%c) {to = 11}
})"}) {
    auto session = session_of(text, JitMode::kSync);
    const int64_t columns = session->model().inputs()[0].type.dims->back().value();
    run(*session, {ramp({3, columns}, 3, 0.1), ramp({3, 7}, 2, 0.9)});
    INFO(session->explain({}, false));
    REQUIRE(session->profile().regions.size() == 1);
    CHECK(session->profile().regions[0].state == "live");
  }
}

TEST_CASE("tiering/fused: operands that are walked backwards") {
  const auto text = [](int axis) {
    return fmt::format(R"(graph g(%x: f32[n, m], %y: f32[n, m]) -> (%z) {{
  const %from: i64[1] = [-1]
  const %to: i64[1] = [-9223372036854775807]
  const %axis: i64[1] = [{}]
  const %step: i64[1] = [-1]
  %r = Slice(%x, %from, %to, %axis, %step)
  %a = Mul(%r, %y)
  %z = Tanh(%a)
}})",
                       axis);
  };
  for (const int axis : {0, 1})
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
      auto session = session_of(text(axis).c_str(), mode);
      for (const auto& [n, m] : {std::pair<int64_t, int64_t>{3, 37}, {1, 1}, {5, 0}, {17, 16}}) {
        const std::vector<Tensor> in{ramp({n, m}, 3, 0.1), ramp({n, m}, 2, 0.9)};
        const Tensor z = run(*session, in)[0];
        REQUIRE(z.dims() == Dims{n, m});
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < m; ++j) {
            const int64_t from = axis == 0 ? (n - 1 - i) * m + j : i * m + m - 1 - j;
            const double want =
                std::tanh(double{in[0].as<float>()[from]} * in[1].as<float>()[i * m + j]);
            REQUIRE(std::fabs(z.as<float>()[i * m + j] - want) <= 1e-6);
          }
      }
      if (mode == JitMode::kOff) continue;
      INFO(session->explain({}, false));
      REQUIRE(session->profile().regions.size() == 1);
      CHECK(session->profile().regions[0].state == "live");
    }
}

TEST_CASE("tiering/fused: rows over axes of which some are broadcast") {
  const int64_t targets = XC_HAVE_JIT ? static_cast<int64_t>(cpu_info().isa) + 1 : 1;
  for (int64_t isa = 1; isa <= targets; ++isa) {
    CAPTURE(isa);
    Config config;
    config.threads = 2;
    config.isa = isa;
    config.jit = static_cast<int64_t>(JitMode::kSync);
    auto session = testing::session_of(
        R"(graph g(%x: f32[b, m, n], %w: f32[b, 1, n], %v: f32[b, m, 1]) -> (%s, %h, %y) {
  const %axes: i64[2] = [-2, -1]
  %a = Mul(%x, %w)
  %e = Add(%a, %v)
  %s = ReduceMean(%e, %axes) {keepdims = 1}
  %h = ReduceMax(%e, %axes) {keepdims = 1}
  %y = Sub(%x, %s)
})",
        config);
    for (const Dims& size :
         {Dims{3, 7, 200}, {1, 5, 64}, {2, 1, 33}, {4, 9, 1}, {1, 1, 1}, {2, 70, 3}}) {
      const int64_t b = size[0], m = size[1], n = size[2];
      const Tensor x = ramp({b, m, n}, 3, 0.1), w = ramp({b, 1, n}, 2, 0.4),
                   v = ramp({b, m, 1}, 1, 0.7);
      const std::vector<Tensor> out = run(*session, {x, w, v});
      for (int64_t i = 0; i < b; ++i) {
        double sum = 0, top = -1e30;
        for (int64_t k = 0; k < m * n; ++k) {
          const double e = double{x.as<float>()[i * m * n + k]} * w.as<float>()[i * n + k % n] +
                           v.as<float>()[i * m + k / n];
          sum += e;
          top = std::max(top, e);
        }
        const double mean = sum / static_cast<double>(m * n);
        REQUIRE(std::fabs(out[0].as<float>()[i] - mean) <= 1e-5);
        REQUIRE(std::fabs(out[1].as<float>()[i] - top) <= 1e-5);
        for (int64_t k = 0; k < m * n; ++k)
          REQUIRE(std::fabs(out[2].as<float>()[i * m * n + k] -
                            (double{x.as<float>()[i * m * n + k]} - mean)) <= 1e-5);
      }
    }
    INFO(session->explain({}, false));
    REQUIRE(session->profile().regions.size() == 1);
    CHECK(session->profile().regions[0].state == "live");
  }
}

TEST_CASE("tiering/fused: a divergence of two rows is one region, and exact") {
  auto session = session_of(R"(graph g(%x: f32[m, n], %y: f32[m, n]) -> (%s, %lp) {
  const %axes: i64[1] = [-1]
  %p = Softmax(%x) {axis = -1}
  %lp = LogSoftmax(%x) {axis = -1}
  %lq = LogSoftmax(%y) {axis = -1}
  %d = Sub(%lp, %lq)
  %e = Mul(%p, %d)
  %s = ReduceSum(%e, %axes) {keepdims = 0}
})",
                            JitMode::kSync);
  constexpr int64_t kRows = 5, kColumns = 150;
  // Logits that lie up to 240 apart: most exponentials of a row are denormal numbers or none.
  const Tensor x = ramp({kRows, kColumns}, 120, 0.1), y = ramp({kRows, kColumns}, 2, 0.9);
  const std::vector<Tensor> out = run(*session, {x, y});
  for (int64_t i = 0; i < kRows; ++i) {
    const auto at = [&](const Tensor& t, int64_t j) {
      return double{t.as<float>()[i * kColumns + j]};
    };
    const auto norm = [&](const Tensor& t) {
      double top = at(t, 0), sum = 0;
      for (int64_t j = 0; j < kColumns; ++j) top = std::max(top, at(t, j));
      for (int64_t j = 0; j < kColumns; ++j) sum += std::exp(at(t, j) - top);
      return top + std::log(sum);
    };
    const double of_x = norm(x), of_y = norm(y);
    double want = 0;
    for (int64_t j = 0; j < kColumns; ++j) {
      const double lp = at(x, j) - of_x;
      want += std::exp(lp) * (lp - (at(y, j) - of_y));
      REQUIRE(std::fabs(at(out[1], j) - lp) <= 1e-4);
    }
    REQUIRE(std::fabs(out[0].as<float>()[i] - want) <= 1e-4 * std::fabs(want) + 1e-5);
  }
  INFO(session->explain({}, false));
  CHECK(session->profile().regions.size() == 1);
}

TEST_CASE("tiering/fused: operands that lie across the others, by tiles") {
  // Whole tiles, tiles cut along either side, less than a vector, nothing.
  const std::vector<Dims> sizes{{2, 64, 128}, {1, 130, 67}, {3, 5, 200}, {1, 70, 3}, {2, 0, 9}};
  const int64_t targets = XC_HAVE_JIT ? static_cast<int64_t>(cpu_info().isa) + 1 : 1;
  for (int64_t isa = 1; isa <= targets; ++isa)
    for (const char* type : {"f32", "f64", "f16", "i32", "u8"}) {
      CAPTURE(isa);
      CAPTURE(type);
      // y lies across x, and z across both along another axis.
      const std::string text = fmt::format(
          R"(graph g(%x: {0}[b, m, n], %y: {0}[b, n, m], %z: {0}[n, m, b]) -> (%r, %a) {{
  %t = Transpose(%y) {{perm = [0, 2, 1]}}
  %u = Transpose(%z) {{perm = [2, 1, 0]}}
  %a = Add(%x, %t)
  %r = Sub(%a, %u)
}})",
          type);
      Config config;
      config.threads = 2;
      config.isa = isa;
      config.jit = static_cast<int64_t>(JitMode::kSync);
      auto session = testing::session_of(text.c_str(), config);
      for (const Dims& size : sizes) {
        const int64_t b = size[0], m = size[1], n = size[2];
        std::vector<Tensor> in;
        const DType dtype = session->model().inputs()[0].type.dtype;
        for (const Dims& dims : {Dims{b, m, n}, Dims{b, n, m}, Dims{n, m, b}}) {
          in.emplace_back(dtype, dims);
          for (int64_t k = 0; k < in.back().count(); ++k)  // small enough for every type
            store_int64(in.back().data(), dtype, k,
                        (k * 7 + static_cast<int64_t>(in.size())) % 40 + (in.size() < 3 ? 60 : 0));
        }
        const std::vector<Tensor> out = run(*session, in);
        const auto at = [&](const Tensor& t, int64_t k) { return load_double(t.data(), dtype, k); };
        for (int64_t i = 0; i < b; ++i)
          for (int64_t j = 0; j < m; ++j)
            for (int64_t k = 0; k < n; ++k) {
              const int64_t place = (i * m + j) * n + k;
              const double sum = at(in[0], place) + at(in[1], (i * n + k) * m + j);
              REQUIRE(at(out[1], place) == sum);
              REQUIRE(at(out[0], place) == sum - at(in[2], (k * m + j) * b + i));
            }
      }
      INFO(session->explain({}, false));
      REQUIRE(session->profile().regions.size() == 1);
      CHECK(session->profile().regions[0].state == "live");
    }
}

TEST_CASE("tiering/fused: a trial follows the sizes that come") {
  auto session = session_of(kGelu, JitMode::kAuto);
  const std::vector<Tensor> first{ramp({200, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  const std::vector<Tensor> later{ramp({300, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  // The first size goes away as soon as its region is on trial (or still being verified).
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (session->profile().compiled_regions == 0 && std::chrono::steady_clock::now() < end)
    run(*session, first);
  while (session->profile().swapped + session->profile().rejected == 0 &&
         std::chrono::steady_clock::now() < end)
    run(*session, later);
  check_gelu(later, run(*session, later)[0]);
  INFO(session->explain({}, false));
  CHECK(session->profile().swapped + session->profile().rejected >= 1);
}

TEST_CASE("tiering/fused: in mode auto the plan changes while it runs and the answer does not") {
  auto session = session_of(kGelu, JitMode::kAuto);
  const std::vector<Tensor> inputs{ramp({256, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  for (int k = 0; k < 30000; ++k) {
    const Tensor y = run(*session, inputs)[0];
    if (k % 50 == 0) {
      check_gelu(inputs, y);
      session->wait_idle(std::chrono::milliseconds(2000));
    }
    if (session->profile().swapped > 0) break;
  }
  const ProfileSummary profile = session->profile();
  MESSAGE(session->explain({}, false));
  CHECK(profile.compiled_regions >= 1);
  CHECK(profile.swapped + profile.rejected >= 1);
  check_gelu(inputs, run(*session, inputs)[0]);
}

TEST_CASE("tiering/fused: a norm of f32 has the range of its elements") {
  for (const double size : {1e19, 1.0, 1e-27}) {
    CAPTURE(size);
    const Tensor x = ramp({5, 70}, size, 0.1);
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
      auto session = session_of(R"(graph g(%x: f32[n, 70]) -> (%y) {
  const %c: f32[] = 2
  %a = Mul(%x, %c)
  %y = LpNormalization(%a) {axis = -1, p = 2}
})",
                                mode);
      const Tensor y = testing::run(*session, {x})[0];
      for (int64_t r = 0; r < 5; ++r) {
        double sum = 0;
        const auto at = [&](int64_t j) { return static_cast<double>(x.as<float>()[r * 70 + j]); };
        for (int64_t j = 0; j < 70; ++j) sum += at(j) * at(j);
        for (int64_t j = 0; j < 70; ++j)
          REQUIRE(std::fabs(y.as<float>()[r * 70 + j] - at(j) / std::sqrt(sum)) <= 1e-6);
      }
      if (mode == JitMode::kSync) CHECK(session->profile().compiled_regions == 1);
    }
  }
}

TEST_CASE("tiering/fused: sin and cos of f64 keep their digits however large the argument") {
  std::vector<double> values;
  for (const int exponent : {0, 10, 19, 60, 127, 128, 200, 500, 1023})
    for (const double mantissa : {1.0, 1.2345678, -1.9999999, 1.5707964})
      values.push_back(std::ldexp(mantissa, exponent));
  const auto n = static_cast<int64_t>(values.size());
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(R"(graph g(%x: f64[n]) -> (%s, %c) {
  %a = Abs(%x)
  %s = Sin(%a)
  %c = Cos(%a)
})",
                              mode);
    const std::vector<Tensor> out = testing::run(*session, {Tensor::of<double>(values, {n})});
    for (int64_t i = 0; i < n; ++i) {
      const double a = std::fabs(values[static_cast<size_t>(i)]);
      CAPTURE(a);
      CHECK(std::fabs(out[0].as<double>()[i] - std::sin(a)) <= 1e-15);
      CHECK(std::fabs(out[1].as<double>()[i] - std::cos(a)) <= 1e-15);
    }
  }
}

TEST_CASE("tiering/fused: long columns side by side stay with the steps, within the cap") {
  Config config;
  config.threads = 2;
  config.set_jit(JitMode::kSync);
  config.max_memory_bytes = 4 << 20;
  auto session = testing::session_of(R"(graph g(%x: f32[n, k]) -> (%y) {
  const %c: f32[] = 2
  %a = Mul(%x, %c)
  %y = Softmax(%a) {axis = 0}
})",
                                     config);
  for (const int64_t n : {100, 50000, 100}) {  // 64 rows side by side: 12.8 MB
    CAPTURE(n);
    const Tensor x = ramp({n, 3}, 1, 0.1);
    const Tensor y = testing::run(*session, {x})[0];
    for (int64_t k = 0; k < 3; ++k) {
      double sum = 0;
      const auto at = [&](int64_t i) {
        return std::exp(2 * static_cast<double>(x.as<float>()[i * 3 + k]));
      };
      for (int64_t i = 0; i < n; ++i) sum += at(i);
      for (int64_t i = 0; i < n; i += 97)
        REQUIRE(std::fabs(y.as<float>()[i * 3 + k] - at(i) / sum) <= 1e-3 * at(i) / sum);
    }
  }
}

TEST_CASE("tiering/fused: sin, cos and tan of floats of any size") {
  if (cpu_info().isa < Isa::kAvx2) return;  // without fma digits fade above 2^20
  std::vector<float> values;
  for (int exponent = -30; exponent < 128; ++exponent)
    for (const float mantissa : {1.0f, 1.2345678f, -1.9999999f, 1.5707964f})
      if (const float v = std::ldexp(mantissa, exponent); std::isfinite(v)) values.push_back(v);
  const auto n = static_cast<int64_t>(values.size());
  const Tensor x = Tensor::of<float>(values, {n});
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(R"(graph g(%x: f32[n]) -> (%s, %c, %t) {
  %a = Abs(%x)
  %s = Sin(%a)
  %c = Cos(%a)
  %t = Tan(%a)
})",
                              mode);
    const std::vector<Tensor> out = testing::run(*session, {x});
    for (int64_t i = 0; i < n; ++i) {
      const double a = std::fabs(static_cast<double>(values[static_cast<size_t>(i)]));
      CAPTURE(a);
      const auto near = [&](const Tensor& y, double want) {
        return std::fabs(y.as<float>()[i] - want) <= 5e-7 * std::fabs(want);
      };
      CHECK(near(out[0], std::sin(a)));
      CHECK(near(out[1], std::cos(a)));
      CHECK(near(out[2], std::tan(a)));
    }
  }
}

TEST_CASE("tiering/fused: the least numbers keep their digits and zeros their signs") {
  std::vector<float> values = {0.0f, -0.0f};
  for (const int factor : {1, 2, 3, 5, 1001})
    for (const float sign : {1.0f, -1.0f})
      values.push_back(sign * static_cast<float>(factor) *
                       std::numeric_limits<float>::denorm_min());
  const auto n = static_cast<int64_t>(values.size());
  for (int64_t isa = 1; isa <= static_cast<int64_t>(cpu_info().isa) + 1; ++isa) {
    CAPTURE(isa);
    Config config;
    config.threads = 1;
    config.rules = 1;
    config.isa = isa;
    config.set_jit(JitMode::kSync);
    auto session = testing::session_of(R"(graph g(%x: f32[n], %one: f32[n]) -> (%s, %e, %c, %d) {
  const %plus: f32[] = 0
  const %minus: f32[] = -0
  const %most: f32[] = 1
  %s0 = Sinh(%x)
  %s = Mul(%s0, %one)
  %e0 = Elu(%x)
  %e = Mul(%e0, %one)
  %c0 = Clip(%x, %minus, %most)
  %c = Mul(%c0, %one)
  %d0 = Clip(%x, %plus, %most)
  %d = Mul(%d0, %one)
})",
                                       config);
    const Tensor one = Tensor::of<float>(std::vector<float>(values.size(), 1.0f), {n});
    const std::vector<Tensor> out = testing::run(*session, {Tensor::of<float>(values, {n}), one});
    for (int64_t i = 0; i < n; ++i) {
      const float x = values[static_cast<size_t>(i)];
      CAPTURE(x);
      const auto is = [&](const Tensor& y, float want) {
        return y.as<float>()[i] == want && std::signbit(y.as<float>()[i]) == std::signbit(want);
      };
      CHECK(is(out[0], x));
      CHECK(is(out[1], x));
      CHECK(is(out[2], x < 0 ? -0.0f : x));
      CHECK(is(out[3], x < 0 ? 0.0f : x));
    }
    CHECK(session->profile().compiled_regions > 0);
  }
}

TEST_CASE("tiering/fused: an exponent keeps its digits where the base has fewer") {
  // Alone, behind an operator, behind a product that takes it along; given and constant.
  const char* const kBodies[] = {
      "  %y = Pow(%x, %e)\n",
      "  %a = Sign(%x)\n  %p = Pow(%a, %e)\n  %y = Mul(%p, %one)\n",
      "  %a = MatMul(%x, %w)\n  %y = Pow(%a, %e)\n",
  };
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
    for (const auto type : {DType::kI32, DType::kI64, DType::kF64})
      for (const char* body : kBodies)
        for (const bool constant : {false, true})
          for (const int64_t exponent : {16777217, 16777216, 3}) {
            const std::string text = fmt::format(
                "graph g(%x: f32[n, 1]{}) -> (%y) {{\n  const %one: f32[] = 1\n"
                "  const %w: f32[1, 1] = [1]\n{}{}}}",
                constant ? "" : fmt::format(", %e: {}[]", name(type)),
                constant ? fmt::format("  const %e: {}[] = {}\n", name(type), exponent) : "", body);
            CAPTURE(text);
            CAPTURE(static_cast<int>(mode));
            Tensor x(DType::kF32, {40, 1}), e(type, {});
            std::fill_n(x.as<float>(), 40, -1.0f);
            if (type == DType::kF64)
              *e.as<double>() = static_cast<double>(exponent);
            else
              store_int64(e.data(), type, 0, exponent);
            const Tensor y = testing::run(*session_of(text.c_str(), mode),
                                          constant ? std::vector{x} : std::vector{x, e})[0];
            for (int64_t i = 0; i < 40; ++i)
              REQUIRE(y.as<float>()[i] == (exponent % 2 ? -1.0f : 1.0f));
          }
}

TEST_CASE("tiering/fused: sums over everything take along what is walked evenly") {
  // The difference is broadcast, its square is not.
  const char* text = R"(graph g(%x: f32[n, 8], %m: f32[8]) -> (%y) {
  const %axes: i64[2] = [0, 1]
  %d = Sub(%x, %m)
  %q = Mul(%d, %d)
  %a = Abs(%q)
  %y = ReduceSum(%a, %axes) {keepdims = 0}
})";
  auto session = session_of(text, JitMode::kSync);
  const Tensor x = ramp({64, 8}, 2, 0.1), m = ramp({8}, 1, 0.3);
  double want = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double d = static_cast<double>(x.as<float>()[i]) - m.as<float>()[i % 8];
    want += d * d;
  }
  CHECK(testing::run(*session, {x, m})[0].as<float>()[0] == doctest::Approx(want).epsilon(1e-5));
  INFO(session->explain({}, false));
  const auto regions = session->profile().regions;
  CHECK(!regions.empty());
  CHECK(live_regions(*session) == static_cast<int64_t>(regions.size()));
}

TEST_CASE("tiering/fused: zero points of several channels") {
  // x to f32 and back, with scales that are powers of two: nothing is rounded on the way.
  const char* text = R"(graph g(%x: i8[n, 10]) -> (%y, %q) {
  const %s: f32[10] = [0.5, 0.25, 1, 2, 0.125, 0.5, 0.25, 1, 2, 0.125]
  const %z: i8[10] = [3, -7, 0, 100, -128, 3, -7, 0, 100, -128]
  const %t: f32[10] = [1, 1, 2, 0.5, 4, 1, 1, 2, 0.5, 4]
  const %w: i8[10] = [1, 2, 3, -4, 5, 1, 2, 3, -4, 5]
  %d = DequantizeLinear(%x, %s, %z) {axis = 1}
  %y = Neg(%d)
  %q = QuantizeLinear(%y, %t, %w) {axis = 1}
})";
  const std::array<double, 5> s{0.5, 0.25, 1, 2, 0.125}, z{3, -7, 0, 100, -128};
  const std::array<double, 5> t{1, 1, 2, 0.5, 4}, w{1, 2, 3, -4, 5};
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(text, mode);
    Tensor x(DType::kI8, {256, 10});
    for (int64_t i = 0; i < x.count(); ++i) x.as<int8_t>()[i] = static_cast<int8_t>(i / 10 - 128);
    const auto out = testing::run(*session, {x});
    for (int64_t i = 0; i < x.count(); ++i) {
      const auto c = static_cast<size_t>(i % 5);
      const double y = -(x.as<int8_t>()[i] - z[c]) * s[c];
      REQUIRE(out[0].as<float>()[i] == y);
      REQUIRE(out[1].as<int8_t>()[i] == std::clamp(std::nearbyint(y / t[c]) + w[c], -128.0, 127.0));
    }
    INFO(session->explain({}, false));
    if (mode == JitMode::kSync) CHECK(live_regions(*session) == 1);
  }
}

TEST_CASE("tiering/fused: a chain between quantised values is one region with the same bytes") {
  const char* text = R"(graph chain(%x: u8[n, 64], %m: f32[n, 1]) -> (%y) {
  const %s: f32[] = 0.05
  const %t: f32[1] = [0.07]
  const %z: u8[] = 131
  const %w: i8[1] = [-3]
  const %b: f32[64] = splat 0.25
  %d = DequantizeLinear(%x, %s, %z)
  %a = Add(%d, %b)
  %p = Mul(%a, %m)
  %y = QuantizeLinear(%p, %t, %w)
})";
  auto off = session_of(text, JitMode::kOff), sync = session_of(text, JitMode::kSync);
  for (const int64_t n : {4, 1, 50}) {
    Tensor x(DType::kU8, {n, 64});
    for (int64_t i = 0; i < x.count(); ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i);
    Tensor m = ramp({n, 1}, 3, 0.1);
    if (n > 4) {
      m.as<float>()[3] = std::nanf("");
      m.as<float>()[4] = INFINITY;
    }
    const Tensor want = run(*off, {x, m})[0], got = run(*sync, {x, m})[0];
    REQUIRE(got.dtype() == DType::kI8);
    CHECK(std::memcmp(got.data(), want.data(), static_cast<size_t>(got.byte_size())) == 0);
  }
  INFO(sync->explain({}, false));
  CHECK(sync->profile().compiled_regions == 1);
}

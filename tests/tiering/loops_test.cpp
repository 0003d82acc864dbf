// Recurrent cells and small loops written as bodies of Scan and Loop, in every mode, against the
// same recurrence in double precision here. Sizes change between runs.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr int64_t kInput = 20;

std::string numbers(const Tensor& t) {
  std::string out = to_text(t.dims()) + " = [";
  for (const double v : t.to_doubles()) out += fmt::format("{:.9g}, ", v);
  out.resize(out.size() - 2);
  return out + "]";
}

struct Cell {
  const char* name;
  int64_t gates;
  bool has_c;
  const char* body;  // from %x, %h (and %c) to %h1 (and %c1)
};

const Cell kCells[] = {
    {"RNN", 1, false, R"(
  %xw = MatMul(%x, %w)
  %hr = MatMul(%h, %r)
  %s = Add(%xw, %hr)
  %sb = Add(%s, %b)
  %h1 = Tanh(%sb)
)"},
    {"GRU", 3, false, R"(
  %xw = MatMul(%x, %w)
  %xb = Add(%xw, %b)
  %hr = MatMul(%h, %r)
  %xz, %xr, %xn = Split(%xb) {axis = -1, num_outputs = 3}
  %hz, %hq, %hn = Split(%hr) {axis = -1, num_outputs = 3}
  %az = Add(%xz, %hz)
  %z = Sigmoid(%az)
  %ar = Add(%xr, %hq)
  %q = Sigmoid(%ar)
  %qn = Mul(%q, %hn)
  %an = Add(%xn, %qn)
  %n = Tanh(%an)
  %hmn = Sub(%h, %n)
  %zh = Mul(%z, %hmn)
  %h1 = Add(%n, %zh)
)"},
    {"LSTM", 4, true, R"(
  %xw = MatMul(%x, %w)
  %hr = MatMul(%h, %r)
  %s = Add(%xw, %hr)
  %sb = Add(%s, %b)
  %pi, %po, %pf, %pc = Split(%sb) {axis = -1, num_outputs = 4}
  %i = Sigmoid(%pi)
  %o = Sigmoid(%po)
  %f = Sigmoid(%pf)
  %g = Tanh(%pc)
  %fc = Mul(%f, %c)
  %ig = Mul(%i, %g)
  %c1 = Add(%fc, %ig)
  %tc = Tanh(%c1)
  %h1 = Mul(%o, %tc)
)"},
};

struct Weights {
  Tensor w, r, b;
  Weights(const Cell& cell, int64_t hidden)
      : w(ramp({kInput, cell.gates * hidden}, 0.3, 0.1)),
        r(ramp({hidden, cell.gates * hidden}, 1 / std::sqrt(static_cast<double>(hidden)), 0.2)),
        b(ramp({cell.gates * hidden}, 0.2, 0.3)) {}
};

/// The last h, the last c (empty without), and every h.
using States = std::array<std::vector<double>, 3>;

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}

/// `xs`: [time, batch, kInput]; `backwards`: the last time first, results at the time they belong
/// to.
States expected(const Cell& cell, const Weights& weights, const Tensor& xs, const Tensor& h0,
                const Tensor& c0, bool backwards) {
  const int64_t time = xs.dims()[0], batch = xs.dims()[1], hidden = h0.dims()[1],
                width = cell.gates * hidden;
  States out{h0.to_doubles(), cell.has_c ? c0.to_doubles() : std::vector<double>{},
             std::vector<double>(static_cast<size_t>(time * batch * hidden))};
  auto& [h, c, all] = out;
  const auto at = [](const Tensor& t, int64_t i) { return static_cast<double>(t.as<float>()[i]); };
  for (int64_t step = 0; step < time; ++step) {
    const int64_t t = backwards ? time - 1 - step : step;
    std::vector<double> h1 = h;
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<double> xw(static_cast<size_t>(width)), hr(static_cast<size_t>(width));
      for (int64_t j = 0; j < width; ++j) {
        double& x = xw[static_cast<size_t>(j)];
        x = at(weights.b, j);
        for (int64_t k = 0; k < kInput; ++k)
          x += at(xs, (t * batch + n) * kInput + k) * at(weights.w, k * width + j);
        for (int64_t k = 0; k < hidden; ++k)
          hr[static_cast<size_t>(j)] +=
              h[static_cast<size_t>(n * hidden + k)] * at(weights.r, k * width + j);
      }
      for (int64_t u = 0; u < hidden; ++u) {
        const auto x = [&](int64_t gate) { return xw[static_cast<size_t>(gate * hidden + u)]; };
        const auto r = [&](int64_t gate) { return hr[static_cast<size_t>(gate * hidden + u)]; };
        const auto own = static_cast<size_t>(n * hidden + u);
        if (cell.gates == 1) {
          h1[own] = std::tanh(x(0) + r(0));
        } else if (cell.gates == 3) {
          const double z = sigmoid(x(0) + r(0)), q = sigmoid(x(1) + r(1));
          const double fresh = std::tanh(x(2) + q * r(2));
          h1[own] = fresh + z * (h[own] - fresh);
        } else {
          c[own] = sigmoid(x(2) + r(2)) * c[own] + sigmoid(x(0) + r(0)) * std::tanh(x(3) + r(3));
          h1[own] = sigmoid(x(1) + r(1)) * std::tanh(c[own]);
        }
        all[static_cast<size_t>((t * batch + n) * hidden + u)] = h1[own];
      }
    }
    h = h1;
  }
  return out;
}

enum class How { kScan, kBackwards, kLoop };

std::string network(const Cell& cell, const Weights& weights, int64_t hidden, How how) {
  const std::string state = fmt::format("f32[n, {}]", hidden);
  const std::string constants =
      fmt::format("  const %w: f32{}\n  const %r: f32{}\n  const %b: f32{}\n", numbers(weights.w),
                  numbers(weights.r), numbers(weights.b));
  const auto with_c = [&](const char* text) { return std::string(cell.has_c ? text : ""); };
  const std::string carried =
      fmt::format("%h: {}{}", state, with_c(", %c: ") + (cell.has_c ? state : ""));
  const std::string captured =
      fmt::format("%w: f32{}, %r: f32{}, %b: f32{}", to_text(weights.w.dims()),
                  to_text(weights.r.dims()), to_text(weights.b.dims()));
  const std::string head =
      fmt::format("(%m: i64[], %xs: f32[t, n, {}], %h0: {}{}) -> (%last{}, %all)", kInput, state,
                  with_c(", %c0: ") + (cell.has_c ? state : ""), with_c(", %lastc"));
  if (how == How::kLoop)
    return fmt::format(R"(graph net{0} {{
{1}  const %go: bool[] = true
  %last{2}, %all = Loop(%m, %go, %h0{3}, %xs, %w, %r, %b) {{}} captures 4 (
    graph body(%k: i64[], %on: bool[], {4}, %xs: f32[*], {5}) -> (%on, %h1{6}, %h1) {{
  %x = Gather(%xs, %k) {{axis = 0}}{7}  }})
}})",
                       head, constants, with_c(", %lastc"), with_c(", %c0"), carried, captured,
                       with_c(", %c1"), cell.body);
  const int back = how == How::kBackwards;
  return fmt::format(R"(graph net{0} {{
{1}  %last{2}, %all = Scan(%h0{3}, %xs, %w, %r, %b) {{num_scan_inputs = 1, scan_input_directions = [{8}], scan_output_directions = [{8}]}} captures 3 (
    graph body({4}, %x: f32[n, {9}], {5}) -> (%h1{6}, %h1) {{{7}  }})
}})",
                     head, constants, with_c(", %lastc"), with_c(", %c0"), carried, captured,
                     with_c(", %c1"), cell.body, back, kInput);
}

void check_close(const Tensor& got, const std::vector<double>& want) {
  const std::vector<double> values = got.to_doubles();
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) REQUIRE(std::fabs(values[i] - want[i]) <= 2e-5);
}

/// Calls `check` with a session in every mode, on one thread and two; mode auto swaps all it can.
void in_every_mode(const std::string& text, const std::function<void(Fixture&)>& check) {
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kAuto})
    for (const int64_t threads : {1, 2}) {
      INFO("mode " << static_cast<int>(mode) << ", threads " << threads);
      Config config;
      config.threads = threads;
      config.jit = static_cast<int64_t>(mode);
      TierFaults faults;
      faults.eager = mode == JitMode::kAuto;
      Fixture fixture(text.c_str(), config, std::move(faults));
      check(fixture);
      fixture.session->wait_idle(std::chrono::seconds(60));
      check(fixture);
    }
}

}  // namespace

TEST_CASE("tiering/loops: recurrent cells as bodies of Scan and Loop, any length, every mode") {
  for (const Cell& cell : kCells)
    for (const auto& [hidden, how] : {std::pair{int64_t{24}, How::kScan},
                                      {24, How::kLoop},
                                      {128, How::kScan},
                                      {128, How::kBackwards},
                                      {128, How::kLoop}}) {
      INFO(cell.name << " " << hidden << " way " << static_cast<int>(how));
      const Weights weights(cell, hidden);
      in_every_mode(network(cell, weights, hidden, how), [&](Fixture& fixture) {
        for (const auto& [time, batch] : {std::pair<int64_t, int64_t>{7, 1},
                                          {1, 1},
                                          {0, 1},
                                          {33, 1},
                                          {5, 3},
                                          {33, 1},
                                          {0, 3},
                                          {1, 8}}) {
          INFO("time " << time << ", batch " << batch);
          const Tensor xs = ramp({time, batch, kInput}, 1, 0.4),
                       h0 = ramp({batch, hidden}, 0.5, 0.5), c0 = ramp({batch, hidden}, 0.5, 0.6);
          std::vector<Tensor> inputs{Tensor::scalar(time), xs, h0};
          if (cell.has_c) inputs.push_back(c0);
          const auto got = fixture.run(inputs);
          const States want = expected(cell, weights, xs, h0, c0, how == How::kBackwards);
          check_close(got[0], want[0]);
          if (cell.has_c) check_close(got[1], want[1]);
          CHECK(got.back().dims() == Dims{time, batch, hidden});
          check_close(got.back(), want[2]);
        }
      });
    }
}

TEST_CASE("tiering/loops: a moving average and a running maximum along any axis") {
  for (const int64_t axis : {0, 1, 2}) {
    const std::string text = fmt::format(
        R"(graph net(%s0: f32[a, b], %m0: f32[a, b], %xs: f32[p, q, r]) -> (%s, %m, %average, %most) {{
  const %k: f32[] = 0.25
  %s, %m, %average, %most = Scan(%s0, %m0, %xs, %k) {{num_scan_inputs = 1, scan_input_axes = [{0}], scan_output_axes = [{0}, {1}], scan_output_directions = [0, 1]}} captures 1 (
    graph body(%u: f32[*], %v: f32[*], %x: f32[*], %k: f32[]) -> (%u1, %v1, %u1, %v1) {{
      %d = Sub(%x, %u)
      %kd = Mul(%d, %k)
      %u1 = Add(%u, %kd)
      %v1 = Max(%x, %v)
    }})
}})",
        axis, axis - 3);
    in_every_mode(text, [&](Fixture& fixture) {
      for (const int64_t steps : {6, 1, 0, 50, 6}) {
        INFO("axis " << axis << ", steps " << steps);
        Dims dims{3, 4}, whole = dims;
        whole.insert(whole.begin() + axis, steps);
        const Tensor s0 = ramp(dims, 1, 0.1), m0 = ramp(dims, 0.5, 0.2), xs = ramp(whole, 2, 0.3);
        const auto got = fixture.run({s0, m0, xs});
        std::vector<double> s = s0.to_doubles(), m = m0.to_doubles();
        std::vector<double> average(static_cast<size_t>(xs.count())), most(average);
        // Element i of a slice, at a time.
        const auto at = [&](int64_t time, int64_t i) {
          Dims index{i / 4, i % 4};
          index.insert(index.begin() + axis, time);
          int64_t flat = 0;
          for (size_t k = 0; k < 3; ++k) flat = flat * whole[k] + index[k];
          return static_cast<size_t>(flat);
        };
        for (int64_t t = 0; t < steps; ++t)
          for (int64_t i = 0; i < 12; ++i) {
            const double x = xs.as<float>()[at(t, i)];
            const auto own = static_cast<size_t>(i);
            s[own] += 0.25 * (x - s[own]);
            m[own] = std::max(m[own], x);
            average[at(t, i)] = s[own];
            most[at(steps - 1 - t, i)] = m[own];
          }
        check_close(got[0], s);
        check_close(got[1], m);
        for (size_t k : {2, 3})
          if (steps > 0) CHECK(got[k].dims() == whole);
        check_close(got[2], average);
        check_close(got[3], most);
      }
    });
  }
}

TEST_CASE("tiering/loops: Newton's iteration until it converges, and never") {
  const std::string text = R"(graph net(%trips: i64[], %a: f32[n], %x0: f32[n]) -> (%root, %steps) {
  const %go: bool[] = true
  %root, %steps = Loop(%trips, %go, %x0, %a) {} captures 1 (
    graph body(%i: i64[], %on: bool[], %x: f32[n], %a: f32[n]) -> (%more, %x1, %x1) {
      const %half: f32[] = 0.5
      const %eps: f32[] = 0.0001
      %q = Div(%a, %x)
      %s = Add(%x, %q)
      %x1 = Mul(%s, %half)
      %d = Sub(%x1, %x)
      %e = Abs(%d)
      %m = ReduceMax(%e) {keepdims = 0}
      %more = Greater(%m, %eps)
    })
})";
  in_every_mode(text, [&](Fixture& fixture) {
    for (const int64_t size : {5, 1000})
      for (const int64_t trips : {INT64_MAX, int64_t{3}, int64_t{1}, int64_t{0}, int64_t{-2}}) {
        Tensor a(DType::kF32, {size}), x0(DType::kF32, {size});
        for (int64_t i = 0; i < size; ++i) {
          a.as<float>()[i] = static_cast<float>(1 + i % 50);
          x0.as<float>()[i] = 1;
        }
        std::vector<double> x = x0.to_doubles(), all;
        int64_t steps = 0;
        for (double far = 1; steps < trips && far > 1e-4; ++steps) {
          far = 0;
          for (int64_t i = 0; i < size; ++i) {
            const auto k = static_cast<size_t>(i);
            const double next = 0.5 * (x[k] + static_cast<double>(a.as<float>()[i]) / x[k]);
            far = std::max(far, std::fabs(next - x[k]));
            x[k] = next;
          }
          all.insert(all.end(), x.begin(), x.end());
        }
        const auto got = fixture.run({Tensor::scalar(trips), a, x0});
        CHECK(got[1].dims() == Dims{steps, size});
        check_close(got[0], x);
        check_close(got[1], all);
      }
  });
}

TEST_CASE("tiering/loops: a state that grows at every step") {
  const std::string text = R"(graph net(%trips: i64[], %x0: f32[n]) -> (%x, %sums) {
  const %go: bool[] = true
  %x, %sums = Loop(%trips, %go, %x0) {} captures 0 (
    graph body(%i: i64[], %on: bool[], %s: f32[*]) -> (%on, %s1, %sum) {
      const %end: f32[1] = [7]
      const %axes: i64[1] = [0]
      const %half: f32[] = 0.5
      %h = Mul(%s, %half)
      %s1 = Concat(%h, %end) {axis = 0}
      %sum = ReduceSum(%s1, %axes) {keepdims = 0}
    })
})";
  in_every_mode(text, [&](Fixture& fixture) {
    for (const int64_t trips : {9, 1, 0, 20}) {
      const Tensor x0 = ramp({3}, 1, 0.1);
      std::vector<double> x = x0.to_doubles(), sums;
      for (int64_t step = 0; step < trips; ++step) {
        for (double& v : x) v *= 0.5;
        x.push_back(7);
        sums.push_back(0);
        for (const double v : x) sums.back() += v;
      }
      const auto got = fixture.run({Tensor::scalar(trips), x0});
      check_close(got[0], x);
      check_close(got[1], sums);
    }
  });
}

TEST_CASE("tiering/loops: what is stacked outgrows the memory taken at first") {
  const std::string text = R"(graph net(%limit: i64[], %x0: f32[64, 64]) -> (%x, %all) {
  const %go: bool[] = true
  const %trips: i64[] = 1000000000000
  %x, %all = Loop(%trips, %go, %x0, %limit) {} captures 1 (
    graph body(%i: i64[], %on: bool[], %s: f32[64, 64], %limit: i64[]) -> (%more, %s1, %s1) {
      const %one: f32[] = 1
      %s1 = Add(%s, %one)
      %more = Less(%i, %limit)
    })
})";
  in_every_mode(text, [&](Fixture& fixture) {
    for (const int64_t limit : {199, 63, 0, 300}) {
      const Tensor x0 = ramp({64, 64}, 1, 0.1);
      const auto got = fixture.run({Tensor::scalar(limit), x0});
      REQUIRE(got[1].dims() == Dims{limit + 1, 64, 64});
      bool right = true;
      for (int64_t k = 0; k < got[1].count(); ++k)
        right = right && std::fabs(got[1].as<float>()[k] - x0.as<float>()[k % 4096] -
                                   static_cast<float>(1 + k / 4096)) < 1e-3f;
      CHECK(right);
      CHECK(std::fabs(got[0].as<float>()[0] - x0.as<float>()[0] - static_cast<float>(limit + 1)) <
            1e-3f);
    }
  });
}

TEST_CASE("tiering/loops: sizes of what is stacked that only the body could tell") {
  // The If gives a size of its own, with which the addition computes the one that is stacked.
  const std::string text = R"(graph net(%x: f32[n, m], %y: f32[k]) -> (%out) {
  %all = Scan(%x, %y) {num_scan_inputs = 1} captures 1 (
    graph body(%row: f32[m], %y: f32[k]) -> (%s) {
      const %zero: f32[] = 0
      %sum = ReduceSum(%row) {keepdims = 0}
      %positive = Greater(%sum, %zero)
      %q = If(%positive, %row, %y) captures 2 (
        graph yes(%row: f32[m], %y: f32[k]) -> (%r) { %r = Neg(%row) },
        graph no(%row: f32[m], %y: f32[k]) -> (%r) { %r = Neg(%y) }
      )
      %s = Add(%q, %y)
    }
  )
  %a = Abs(%all)
  %out = Sqrt(%a)
})";
  in_every_mode(text, [&](Fixture& fixture) {
    for (const int64_t size : {5, 1, 12}) {
      const Tensor x = ramp({3, size}, 1, 0.1), y = ramp({size}, 2, 0.3);
      const std::vector<double> xs = x.to_doubles(), ys = y.to_doubles();
      std::vector<double> want;
      for (int64_t row = 0; row < 3; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < size; ++i) sum += xs[row * size + i];
        for (int64_t i = 0; i < size; ++i)
          want.push_back(std::sqrt(std::fabs((sum > 0 ? -xs[row * size + i] : -ys[i]) + ys[i])));
      }
      check_close(fixture.run({x, y})[0], want);
    }
  });
}

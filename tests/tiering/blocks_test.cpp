// The row-block template: attention, matrix-vector chains and generated networks of products with
// what lies between them, fused for every instruction set, against the reference kernels.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "base/cpu_info.h"
#include "support.h"
#include "tier/engine_factory.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// A session that counts the regions of products it compiled.
struct Fused {
  std::shared_ptr<Session> session;
  std::shared_ptr<std::atomic<int>> compiled = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::string> refusal = std::make_shared<std::string>();

  Fused(const std::string& text, Config config) {
    if (config.threads == 0) config.threads = 1;
    HostHooks hooks;
    hooks.event = [counter = compiled, why = refusal](const Event& e) {
      if (e.subject.rfind("blocks", 0) != 0) return;
      if (e.kind == EventKind::kCompiled) ++*counter;
      if (e.kind == EventKind::kRefused || e.kind == EventKind::kMismatch) *why = e.detail;
    };
    session = std::make_shared<Session>(
        Model::create(create_engine(config, std::move(hooks)), parse_graph(text)), Config{});
  }
};

Config off(bool reference) {
  Config config;
  config.set_jit(JitMode::kOff);
  config.kernels = reference ? 1 : 0;
  return config;
}

Config fused(int64_t isa, int64_t threads) {
  Config config;
  config.set_jit(JitMode::kSync);
  config.isa = isa;
  config.threads = threads;
  return config;
}

std::string difference(const std::vector<Tensor>& have, const std::vector<Tensor>& want) {
  if (have.size() != want.size()) return "number of outputs";
  for (size_t k = 0; k < want.size(); ++k) {
    const std::vector<double> a = have[k].to_doubles(), b = want[k].to_doubles();
    if (a.size() != b.size()) return fmt::format("size of output {}", k);
    double largest = 1;
    for (double v : b)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < b.size(); ++i)
      if (!(std::fabs(a[i] - b[i]) <= 2e-4 * largest) && !(std::isnan(a[i]) && std::isnan(b[i])) &&
          a[i] != b[i])
        return fmt::format("output {}[{}]: {} is not {}", k, i, a[i], b[i]);
  }
  return "";
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (std::memcmp(a[k].data(), b[k].data(), static_cast<size_t>(a[k].byte_size())) != 0)
      return false;
  return true;
}

/// Runs a graph whose symbol sizes are given in turn, fused and not; `inputs` makes its inputs.
void check(const std::string& text, const std::vector<int64_t>& sizes,
           const std::function<std::vector<Tensor>(int64_t)>& inputs, bool expect_region = true) {
  CAPTURE(text);
  const Fused reference(text, off(true)), base(text, off(false));
#if XC_HAVE_JIT
  std::vector<std::unique_ptr<Fused>> targets;
  for (int64_t isa = 0; isa <= static_cast<int64_t>(cpu_info().isa) + 1; ++isa)
    targets.push_back(std::make_unique<Fused>(text, fused(isa, 1)));
  const Fused threads(text, fused(0, 2));
#endif
  for (const int64_t n : sizes) {
    CAPTURE(n);
    const std::vector<Tensor> in = inputs(n);
    const std::vector<Tensor> want = run(*reference.session, in);
    CHECK(difference(run(*base.session, in), want) == "");
#if XC_HAVE_JIT
    std::vector<Tensor> first;
    for (size_t k = 0; k < targets.size(); ++k) {
      CAPTURE(k);
      const std::vector<Tensor> have = run(*targets[k]->session, in);
      CHECK(difference(have, want) == "");
      CHECK(*targets[k]->refusal == "");
      if (k == 0) first = have;
    }
    CHECK(same_bits(run(*threads.session, in), first));
#endif
  }
#if XC_HAVE_JIT
  if (expect_region) CHECK(*targets[0]->compiled >= 1);
#endif
}

const std::vector<int64_t> kSizes{0, 1, 2, 31, 32, 33, 70, 1025, 2100};

}  // namespace

TEST_CASE("tiering/blocks: attention is one region, however it is spelled") {
  const auto heads = [](int64_t s) {
    return std::vector<Tensor>{ramp({2, 3, s, 20}, 1, 0.1), ramp({2, 3, s, 20}, 1, 0.7),
                               ramp({2, 3, s, 20}, 1, 1.3)};
  };
  const auto masked = [&](int64_t s) {
    std::vector<Tensor> in = heads(s);
    in.push_back(ramp({s, s}, 2, 0.4));
    in.push_back(ramp({2, 1, 1, s}, 2, 0.9));
    return in;
  };
  const std::string qkv = "%q: f32[2, 3, s, 20], %k: f32[2, 3, s, 20], %v: f32[2, 3, s, 20]";
  const std::vector<int64_t> sizes{1, 5, 32, 70, 130};
  check("graph a(" + qkv + R"() -> (%y) {
  const %c: f32[] = 0.25
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %b = Mul(%a, %c)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})",
        sizes, heads);
  check("graph decomposed(" + qkv + R"(, %m: f32[s, s], %h: f32[2, 1, 1, s]) -> (%y) {
  const %c: f32[] = 4
  const %x: i64[1] = [-1]
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a0 = MatMul(%q, %t)
  %a1 = Div(%a0, %c)
  %a2 = Add(%m, %a1)
  %a = Add(%a2, %h)
  %top = ReduceMax(%a, %x)
  %d = Sub(%a, %top)
  %e = Exp(%d)
  %s = ReduceSum(%e, %x)
  %p = Div(%e, %s)
  %y = MatMul(%p, %v)
})",
        sizes, masked);
  // The probabilities are an output too; a row's scale is applied by multiplication.
  check("graph shown(" + qkv + R"() -> (%p, %y) {
  const %x: i64[1] = [-1]
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %e = Exp(%a)
  %s = ReduceSum(%e, %x)
  %r = Reciprocal(%s)
  %p = Mul(%e, %r)
  %y = MatMul(%p, %v)
})",
        sizes, [&](int64_t s) {
          return std::vector<Tensor>{ramp({2, 3, s, 20}, 0.5, 0.1), ramp({2, 3, s, 20}, 0.5, 0.7),
                                     ramp({2, 3, s, 20}, 1, 1.3)};
        });
  // Query heads that share keys and values in threes, as exporters write them.
  check(R"(graph grouped(%q: f32[2, 6, s, 20], %k: f32[2, 2, t, 20], %v: f32[2, 2, t, 20],
    %mask: f32[2, 1, s, t]) -> (%y) {
  const %two: i64[1] = [2]
  const %kv: i64[2] = [2, 3]
  const %heads: i64[1] = [6]
  const %c: f32[] = 0.25
  %b = Shape(%k) {start = 0, end = 1}
  %rest = Shape(%k) {start = 2, end = 4}
  %wide = Concat(%b, %kv, %rest) {axis = 0}
  %dims = Concat(%b, %heads, %rest) {axis = 0}
  %k5 = Unsqueeze(%k, %two)
  %ke = Expand(%k5, %wide)
  %kr = Reshape(%ke, %dims)
  %v5 = Unsqueeze(%v, %two)
  %ve = Expand(%v5, %wide)
  %vr = Reshape(%ve, %dims)
  %t = Transpose(%kr) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %d = Mul(%a, %c)
  %m = Add(%d, %mask)
  %p = Softmax(%m) {axis = -1}
  %y = MatMul(%p, %vr)
})",
        sizes, [](int64_t s) {
          return std::vector<Tensor>{ramp({2, 6, s, 20}, 1, 0.1), ramp({2, 2, s + 3, 20}, 1, 0.7),
                                     ramp({2, 2, s + 3, 20}, 1, 1.3),
                                     ramp({2, 1, s, s + 3}, 2, 0.4)};
        });
  // Heads cut out of one product, as exporters write self-attention.
  check(R"(graph cut(%x: f32[b, s, 96]) -> (%y) {
  const %split: i64[3] = [32, 32, 32]
  const %shape: i64[4] = [0, -1, 2, 16]
  const %c: f32[] = 0.25
  %q0, %k0, %v0 = Split(%x, %split) {axis = 2}
  %q1 = Reshape(%q0, %shape)
  %k1 = Reshape(%k0, %shape)
  %v1 = Reshape(%v0, %shape)
  %q = Transpose(%q1) {perm = [0, 2, 1, 3]}
  %t = Transpose(%k1) {perm = [0, 2, 3, 1]}
  %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
  %a = MatMul(%q, %t)
  %b = Mul(%a, %c)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})",
        {1, 33, 64}, [](int64_t s) { return std::vector<Tensor>{ramp({2, s, 96}, 1, 0.2)}; });
}

TEST_CASE("tiering/blocks: products of rows that are scaled first have the model's range") {
  const auto filled = [](Dims dims, float value) {
    return Tensor::of<float>(std::vector<float>(static_cast<size_t>(element_count(dims)), value),
                             dims);
  };
  const auto inputs = [&](float q, float k, float v) {
    return [=](int64_t s) {
      return std::vector<Tensor>{filled({2, s, 20}, q), filled({2, 20, s}, k),
                                 filled({2, s, 20}, v)};
    };
  };
  const std::string begin =
      "(%q: f32[2, s, 20], %k: f32[2, 20, s], %v: f32[2, s, 20]) -> (%y) {\n"
      "  const %x: i64[1] = [-1]\n  %a = MatMul(%q, %k)\n";
  // The sum of exp(84) fits, that of exp(84) * 300 does not; exp(84) by its sum is 1 / s.
  check("graph unshifted" + begin + R"(  %e = Exp(%a)
  %n = ReduceSum(%e, %x)
  %p = Div(%e, %n)
  %y = MatMul(%p, %v)
})",
        {17, 70}, inputs(1, 4.2f, 300));
  // What is subtracted is the maximum of something else.
  check("graph elsewhere" + begin + R"(  %r = Neg(%a)
  %m = ReduceMax(%r, %x)
  %d = Sub(%a, %m)
  %e = Exp(%d)
  %n = ReduceSum(%e, %x)
  %i = Reciprocal(%n)
  %p = Mul(%e, %i)
  %y = MatMul(%p, %v)
})",
        {17, 70}, inputs(1, 2.1f, 300));
  for (const char* reduction : {"ReduceMax", "ReduceL1"})
    check("graph scaled" + begin +
              fmt::format(R"(  %n = {}(%a, %x)
  %p = Div(%a, %n)
  %y = MatMul(%p, %v)
}})",
                          reduction),
          {17, 70}, inputs(1e18f, 1e17f, 1e3f));
}

// Products of bf16 by matrix units, where there are such. The numbers are such that bf16 shows.
TEST_CASE("tiering/blocks: attention that may round its factors is near, and the same on threads") {
  const std::string text = R"(graph fast(%q: f32[2, 3, s, 48], %k: f32[2, 3, s, 48],
    %v: f32[2, 3, s, 48], %m: f32[s, s]) -> (%y) {
  const %c: f32[] = 0.2
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %b = Mul(%a, %c)
  %d = Add(%b, %m)
  %p = Softmax(%d) {axis = -1}
  %y = MatMul(%p, %v)
})";
  Config one = fused(0, 1), two = fused(0, 2);
  for (Config* config : {&one, &two}) config->set_numerics(Numerics::kFast);
  const Fused reference(text, off(true)), exact(text, fused(0, 1)),
      exact_threads(text, fused(0, 2)), fast(text, one), threads(text, two);
  for (const int64_t s : {0, 1, 15, 64, 129, 300}) {
    CAPTURE(s);
    const std::vector<Tensor> in{ramp({2, 3, s, 48}, 1, 0.1), ramp({2, 3, s, 48}, 1, 0.7),
                                 ramp({2, 3, s, 48}, 1, 1.3), ramp({s, s}, 2, 0.4)};
    const auto want = run(*reference.session, in), have = run(*fast.session, in);
    const std::vector<double> a = have[0].to_doubles(), b = want[0].to_doubles();
    double furthest = 0;
    for (size_t i = 0; i < b.size(); ++i) furthest = std::max(furthest, std::fabs(a[i] - b[i]));
    CHECK(furthest < 2e-2);
    const auto tolerant = run(*exact.session, in);
    CHECK(difference(tolerant, want) == "");
    CHECK(same_bits(run(*exact_threads.session, in), tolerant));
    CHECK(same_bits(run(*threads.session, in), have));
#if XC_HAVE_JIT
    if (s > 1 && grant_matrix_units()) CHECK(furthest > 2e-4);
#endif
  }
#if XC_HAVE_JIT
  CHECK(*fast.compiled >= 1);
  CHECK(*fast.refusal == "");
#endif
}

// From 96 rows on by matrix units in three parts, where there are such: rows and columns that these
// cannot sum up lie beside those that they can.
TEST_CASE("tiering/blocks: attention of infinities, NaN, huge and tiny numbers") {
  const std::string text = R"(graph a(%q: f32[1, 2, s, 64], %k: f32[1, 2, s, 64],
    %v: f32[1, 2, s, 64]) -> (%y) {
  const %c: f32[] = 0.125
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %b = Mul(%a, %c)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})";
  check(text, {64, 96, 128, 197, 300}, [](int64_t s) {
    std::vector<Tensor> in{ramp({1, 2, s, 64}, 1, 0.1), ramp({1, 2, s, 64}, 1, 0.7),
                           ramp({1, 2, s, 64}, 1, 1.3)};
    const auto row = [&](size_t input, int64_t at) {
      return std::span(in[input].as<float>() + at * 64, 64);
    };
    for (float& x : row(0, 3)) x *= 1e-25f;
    for (float& x : row(0, s + 5)) x *= 1e-39f;
    row(0, 17)[9] = NAN;
    row(0, s - 1)[0] = INFINITY;
    for (float& x : row(0, 40)) x = 3.4e38f;
    for (int64_t k = 0; k < 2 * s; ++k) {
      row(2, k)[20] *= 1e-30f;
      row(2, k)[21] = 0;
      if (k > 30) row(2, k)[22] *= 1e-41f;
    }
    row(2, s / 2)[33] = -INFINITY;
    return in;
  });
}

TEST_CASE("tiering/blocks: attention over no keys is 0, however it is spelled") {
  const auto inputs = [](int64_t k) {
    return std::vector<Tensor>{ramp({2, 3, 40, 20}, 1, 0.1), ramp({2, 3, k, 20}, 1, 0.7),
                               ramp({2, 3, k, 20}, 1, 1.3)};
  };
  const auto attention = [&](const std::string& softmax) {
    check("graph a(%q: f32[2, 3, 40, 20], %k: f32[2, 3, k, 20], %v: f32[2, 3, k, 20]) -> (%y) {\n" +
              softmax + "}",
          {33, 0, 1}, inputs);
  };
  attention("  %y = Attention(%q, %k, %v)\n");
  const std::string scores = "  %t = Transpose(%k) {perm = [0, 1, 3, 2]}\n  %a = MatMul(%q, %t)\n";
  attention(scores + "  %p = Softmax(%a) {axis = -1}\n  %y = MatMul(%p, %v)\n");
  const std::string powers = scores + R"(  const %x: i64[1] = [-1]
  %m = ReduceMax(%a, %x)
  %d = Sub(%a, %m)
  %e = Exp(%d)
  %s = ReduceSum(%e, %x)
)";
  attention(powers + "  %p = Div(%e, %s)\n  %y = MatMul(%p, %v)\n");
  attention(powers + "  %r = Reciprocal(%s)\n  %p = Mul(%r, %e)\n  %y = MatMul(%p, %v)\n");
  attention(powers + "  const %one: f32[] = 1\n  %r = Div(%one, %s)\n  %p = Mul(%e, %r)\n" +
            "  %y = MatMul(%p, %v)\n");
}

TEST_CASE("tiering/blocks: norms between products have the range of their elements") {
  for (const double size : {1e19, 1e-27})
    check(R"(graph norms(%x: f32[n, 20], %w: f32[20, 24], %v: f32[24, 20]) -> (%y) {
  %a = MatMul(%x, %w)
  %p = LpNormalization(%a) {axis = -1, p = 2}
  %y = MatMul(%p, %v)
})",
          {1, 33, 70}, [&](int64_t n) {
            return std::vector<Tensor>{ramp({n, 20}, size, 0.1), ramp({20, 24}, 1, 0.7),
                                       ramp({24, 20}, 1, 1.3)};
          });
}

TEST_CASE("tiering/blocks: values read twice over and over are walked once each") {
  // 2^30 paths lead through the chain.
  std::string chain;
  for (int level = 0; level < 30; ++level)
    chain +=
        fmt::format("  %w{0} = Add(%v{0}, %v{0})\n  %v{1} = Mul(%w{0}, %c)\n", level, level + 1);
  check("graph deep(%q: f32[2, s, 20], %k: f32[2, 20, s], %v: f32[2, s, 20]) -> (%y) {\n" +
            std::string("  const %c: f32[] = 0.49\n  %v0 = MatMul(%q, %k)\n") + chain +
            "  %p = Softmax(%v30) {axis = -1}\n  %y = MatMul(%p, %v)\n}",
        {5, 33}, [](int64_t s) {
          return std::vector<Tensor>{ramp({2, s, 20}, 1, 0.1), ramp({2, 20, s}, 1, 0.7),
                                     ramp({2, s, 20}, 1, 1.3)};
        });
}

TEST_CASE("tiering/blocks: matrix-vector chains read their matrix once") {
  // Blocks of 32 rows, of 16 and of 8: as many as the first-level cache keeps.
  for (const int64_t width : {150, 300, 1100})
    check(fmt::format(R"(graph row(%x: f32[n, {0}], %w: f32[n, 1], %v: f32[{0}, 1]) -> (%y) {{
  %t = Transpose(%x) {{perm = [1, 0]}}
  %a = MatMul(%x, %v)
  %b = Mul(%w, %a)
  %y = MatMul(%t, %b)
}})",
                      width),
          width == 150 ? kSizes : std::vector<int64_t>{0, 1, 7, 8, 9, 15, 17, 33, 1025},
          [&](int64_t n) {
            return std::vector<Tensor>{ramp({n, width}, 1, 0.2), ramp({n, 1}, 1, 0.5),
                                       ramp({width, 1}, 1, 0.8)};
          });
  for (const int64_t width : {70, 700})
    check(fmt::format(R"(graph hessian(%x: f32[n, {0}], %p: f32[n, 4], %v: f32[{0}, 4]) -> (%y) {{
  const %axis: i64[1] = [1]
  %a = MatMul(%x, %v)
  %q = Mul(%p, %a)
  %s = ReduceSum(%q, %axis) {{keepdims = 1}}
  %r = Mul(%p, %s)
  %d = Sub(%q, %r)
  %t = Transpose(%x) {{perm = [1, 0]}}
  %y = MatMul(%t, %d)
}})",
                      width),
          width == 70 ? kSizes : std::vector<int64_t>{1, 8, 17, 1025}, [&](int64_t n) {
            return std::vector<Tensor>{ramp({n, width}, 1, 0.2), ramp({n, 4}, 1, 0.5),
                                       ramp({width, 4}, 1, 0.8)};
          });
  check(R"(graph clusters(%x: f32[n, 45], %c: f32[5, 45]) -> (%sums, %counts, %m) {
  const %two: f32[] = -2
  const %last: i64[1] = [-1]
  const %first: i64[1] = [0]
  %ct = Transpose(%c) {perm = [1, 0]}
  %xc = MatMul(%x, %ct)
  %d0 = Mul(%xc, %two)
  %cc = Mul(%c, %c)
  %norms = ReduceSum(%cc, %last) {keepdims = 0}
  %d = Add(%d0, %norms)
  %low = ReduceMin(%d, %last) {keepdims = 1}
  %near = Equal(%d, %low)
  %m = Cast(%near) {to = 1}
  %mt = Transpose(%m) {perm = [1, 0]}
  %sums = MatMul(%mt, %x)
  %counts = ReduceSum(%m, %first) {keepdims = 0}
})",
        kSizes, [](int64_t n) {
          return std::vector<Tensor>{ramp({n, 45}, 1, 0.2), ramp({5, 45}, 1, 0.9)};
        });
}

namespace {

/// A random graph of the template: rows that pass through products, functions and reductions.
class Network {
 public:
  explicit Network(uint64_t seed) : random_(seed) {
    const int64_t width = any({1, 3, 16, 17, 40, 100});
    declare("x", fmt::format("n, {}", width), {0, width});
    values_.push_back({"x", width});
    product(values_[0]);
    for (int k = 0, n = 3 + static_cast<int>(random_() % 8); k < n; ++k) grow();
    product(values_.back());
    if (random_() % 2) activation(values_.back());
    outputs_.push_back(values_.back().name);
    for (const Value& v : std::vector<Value>(values_))
      if (v.width <= 8 && v.name != "x" && random_() % 3 == 0) {
        const std::string t = line("Transpose", {v.name}, "{perm = [1, 0]}");
        outputs_.push_back(line("MatMul", {t, "x"}, ""));
        if (random_() % 2)
          outputs_.push_back(line("ReduceSum", {v.name, "rows"}, "{keepdims = 1}"));
        break;
      }
  }
  std::string text() const {
    std::string outs;
    for (const std::string& o : outputs_) outs += (outs.empty() ? "%" : ", %") + o;
    return "graph net(" + inputs_ + ") -> (" + outs +
           ") {\n  const %cols: i64[1] = [1]\n  const %rows: i64[1] = [0]\n" + body_ + "}\n";
  }
  std::vector<Tensor> inputs(int64_t n) const {
    std::vector<Tensor> out;
    double shift = 0;
    for (Dims dims : dims_) {
      for (int64_t& d : dims) d = d == 0 ? n : d;
      out.push_back(ramp(dims, 0.6, shift += 0.37));
    }
    return out;
  }

 private:
  struct Value {
    std::string name;
    int64_t width;
  };
  int64_t any(std::initializer_list<int64_t> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(random_() % list.size()));
  }
  void declare(const std::string& name, const std::string& dims, Dims shape) {
    inputs_ += fmt::format("{}%{}: f32[{}]", inputs_.empty() ? "" : ", ", name, dims);
    dims_.push_back(std::move(shape));  // 0: the rows
  }
  std::string line(const char* op, const std::vector<std::string>& in, const std::string& attrs) {
    const std::string name = "v" + std::to_string(count_++);
    std::string list;
    for (const std::string& i : in) list += (list.empty() ? "%" : ", %") + i;
    body_ += fmt::format("  %{} = {}({}) {}\n", name, op, list, attrs);
    return name;
  }
  void product(const Value from) {
    const int64_t width = any({1, 2, 4, 5, 8, 9, 20, 33});
    const std::string m = "m" + std::to_string(count_++);
    declare(m, fmt::format("{}, {}", from.width, width), {from.width, width});
    values_.push_back({line("MatMul", {from.name, m}, ""), width});
  }
  void activation(const Value from) {
    static constexpr const char* kOps[] = {"Relu", "Sigmoid", "Tanh", "Abs", "Neg"};
    values_.push_back({line(kOps[random_() % 5], {from.name}, ""), from.width});
  }
  void grow() {
    const Value from = values_.back();
    switch (random_() % 8) {
      case 0:
        return product(from);
      case 1:
      case 2:
        return activation(from);
      case 3: {  // a bias, or a column of the rows' own
        const std::string b = "b" + std::to_string(count_++);
        if (random_() % 2)
          declare(b, fmt::format("{}", from.width), {from.width});
        else
          declare(b, "n, 1", {0, 1});
        values_.push_back({line(random_() % 2 ? "Add" : "Mul", {from.name, b}, ""), from.width});
        return;
      }
      case 4:
        values_.push_back({line("Softmax", {from.name}, "{axis = -1}"), from.width});
        return;
      case 5: {
        static constexpr const char* kOps[] = {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"};
        const std::string r = line(kOps[random_() % 4], {from.name, "cols"}, "{keepdims = 1}");
        values_.push_back({line("Sub", {from.name, r}, ""), from.width});
        return;
      }
      case 6:
        for (const Value& other : values_)
          if (other.width == from.width && other.name != from.name) {
            values_.push_back({line("Add", {other.name, from.name}, ""), from.width});
            return;
          }
        return;
      default: {  // rows of another width from outside
        const std::string e = "e" + std::to_string(count_++);
        declare(e, fmt::format("n, {}", from.width), {0, from.width});
        values_.push_back({line("Mul", {e, from.name}, ""), from.width});
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<Value> values_;
  std::vector<std::string> outputs_;
  std::vector<Dims> dims_;
  std::string inputs_, body_;
  int count_ = 0;
};

}  // namespace

TEST_CASE("tiering/blocks: rows that are read far apart, in whole blocks and parts of one") {
  for (const int64_t width : {63, 64, 100, 150, 300, 1000, 2100})
    for (const int64_t columns : {1, 3, 5, 7}) {
      const auto of = [](std::string text, const char* name, int64_t value) {
        for (size_t at; (at = text.find(name)) != std::string::npos;)
          text.replace(at, std::strlen(name), std::to_string(value));
        return text;
      };
      const std::string text =
          of(of(R"(graph g(%x: f32[n, WIDTH], %v: f32[WIDTH, COLUMNS], %w: f32[n, 1]) -> (%y) {
  %p = MatMul(%x, %v)
  %q = Mul(%p, %w)
  %t = Transpose(%x) {perm = [1, 0]}
  %y = MatMul(%t, %q)
})",
                "WIDTH", width),
             "COLUMNS", columns);
      check(text, {1, 4, 15, 16, 33, 64, 67, 130, 259, 1030}, [&](int64_t n) {
        return std::vector<Tensor>{ramp({n, width}, 1, 0.3), ramp({width, columns}, 1, 0.9),
                                   ramp({n, 1}, 1, 1.4)};
      });
    }
}

TEST_CASE("tiering/blocks: generated networks agree with the reference") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const Network network(seed);
    check(network.text(), {1, 33, 1030}, [&](int64_t n) { return network.inputs(n); });
  }
}

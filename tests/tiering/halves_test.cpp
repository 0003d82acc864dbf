// Operators whose kernels know f32 alone, on f16 and bf16: their references in f64 say what is
// right, and no step may be left on a reference kernel.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backends/cpu/onednn_common.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "support.h"
#include "support/evaluate.h"

namespace {

using namespace xc;
using namespace xc::testing;

struct Half {
  DType dtype;
  const char* name;
  double unit;  ///< relative distance of neighbours
};
/// Names of the kernels that serve, at any depth of `explain`; not of those that were refused.
void add_kernels(const nlohmann::json& of, std::set<std::string>& names) {
  if (of.is_object() && of.contains("kernel")) names.insert(of["kernel"].get<std::string>());
  for (const auto& [key, value] : of.items())
    if (key != "refused" && value.is_structured()) add_kernels(value, names);
}
std::set<std::string> kernels_of(Session& session) {
  std::set<std::string> names;
  add_kernels(nlohmann::json::parse(session.explain({}, true)), names);
  return names;
}

constexpr Half kHalves[] = {{DType::kF16, "f16", 0x1p-10}, {DType::kBF16, "bf16", 0x1p-7}};

struct Case {
  const char* name;
  const char* text;  ///< $T: the type
  double roundings;  ///< of the type, in the size of the largest result, that may add up
};

// Numbers that both types have exactly.
constexpr Case kCases[] = {
    {"MatMul", R"(graph g(%x: $T[n, 6], %y: $T[6, 5]) -> (%r) {
  %r = MatMul(%x, %y)
})",
     1},
    {"Gemm", R"(graph g(%x: $T[6, n], %c: $T[3]) -> (%r) {
  const %w: $T[3, 6] = [1, 0.5, -1, 0.25, 2, 1, 0, 1, -0.5, 0.125, 1, 1, 3, 0.5, 1, -2, 0.5, 0.25]
  %g = Gemm(%x, %w, %c) {transA = 1, transB = 1, alpha = 0.5}
  %r = Relu(%g)
})",
     2},
    {"Conv", R"(graph g(%x: $T[n, 2, 6, 7], %s: $T[2], %b: $T[2]) -> (%r) {
  const %w: $T[2, 1, 2, 2] = [1, 0.5, -1, 0.25, 2, 1, 0.5, -0.5]
  const %bias: $T[2] = [0.5, -0.25]
  const %mean: $T[2] = [0.25, 0.5]
  const %var: $T[2] = [1, 2]
  %c = Conv(%x, %w, %bias) {group = 2, strides = [1, 2]}
  %n = BatchNormalization(%c, %s, %b, %mean, %var)
  %r = Relu(%n)
})",
     4},
    {"ConvTranspose", R"(graph g(%x: $T[n, 2, 4, 3]) -> (%r) {
  const %w: $T[2, 1, 2, 2] = [1, 0.5, -1, 0.25, 2, 1, 0.5, -0.5]
  %r = ConvTranspose(%x, %w) {strides = [2, 2]}
})",
     1},
    {"pools", R"(graph g(%x: $T[n, 2, 6, 7]) -> (%a, %m, %g, %l) {
  %a = AveragePool(%x) {kernel_shape = [3, 2]}
  %m = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]}
  %g = GlobalAveragePool(%x)
  %l = GlobalMaxPool(%x)
})",
     1},
    {"norms", R"(graph g(%x: $T[n, 4, 8], %s: $T[8], %b: $T[8]) -> (%l, %r, %s1, %s2) {
  %l = LayerNormalization(%x, %s, %b) {axis = -1}
  %r = RMSNormalization(%x, %s) {axis = -1}
  %s1 = Softmax(%x) {axis = -1}
  %s2 = LogSoftmax(%x) {axis = 1}
})",
     4},
    {"channel norms", R"(graph g(%x: $T[n, 4, 8, 3], %s: $T[4], %b: $T[4]) -> (%i, %g) {
  %i = InstanceNormalization(%x, %s, %b)
  %g = GroupNormalization(%x, %s, %b) {num_groups = 2}
})",
     4},
    {"LSTM",
     R"(graph g(%x: $T[s, 2, 3], %w: $T[1, 16, 3], %r: $T[1, 16, 4], %b: $T[1, 32]) -> (%y, %h, %c) {
  %y, %h, %c = LSTM(%x, %w, %r, %b) {hidden_size = 4}
})",
     4},
    {"GRU", R"(graph g(%x: $T[s, 2, 3], %w: $T[2, 12, 3], %r: $T[2, 12, 4]) -> (%y) {
  %y, %h = GRU(%x, %w, %r) {hidden_size = 4, direction = "bidirectional"}
})",
     4},
    {"RNN", R"(graph g(%x: $T[s, 2, 3], %w: $T[1, 4, 3], %r: $T[1, 4, 4]) -> (%h) {
  _, %h = RNN(%x, %w, %r) {hidden_size = 4}
})",
     4},
    {"Resize", R"(graph g(%x: $T[n, 2, 6, 7]) -> (%l, %r) {
  const %scales: f32[4] = [1, 1, 2, 1.5]
  %l = Resize(%x, _, %scales) {mode = "linear"}
  %r = Resize(%x, _, %scales) {mode = "nearest"}
})",
     2},
    {"a layer", R"(graph g(%x: $T[n, 5, 8], %w: $T[8, 8], %b: $T[8], %s: $T[8]) -> (%r) {
  const %shape: i64[4] = [0, 0, 2, 4]
  const %flat: i64[3] = [0, 0, 8]
  const %half: $T[] = 0.5
  %p = MatMul(%x, %w)
  %a = Add(%p, %b)
  %h = Reshape(%a, %shape)
  %q = Transpose(%h) {perm = [0, 2, 1, 3]}
  %k = Transpose(%h) {perm = [0, 2, 3, 1]}
  %t = MatMul(%q, %k)
  %u = Mul(%t, %half)
  %v = Softmax(%u) {axis = -1}
  %o = MatMul(%v, %q)
  %m = Transpose(%o) {perm = [0, 2, 1, 3]}
  %f = Reshape(%m, %flat)
  %z = Add(%f, %x)
  %r = LayerNormalization(%z, %s, %b)
})",
     8},
};

/// What the references make of the same numbers in f64.
std::vector<Tensor> exact(const Case& c, const std::vector<Tensor>& inputs) {
  Graph graph = parse_graph(with_type(c.text, "f64"));
  infer_types(graph);
  std::vector<Tensor> wide;
  for (const Tensor& in : inputs) wide.push_back(test::in_f64(in));
  return test::evaluate(graph, wide);
}

std::string difference(const Tensor& have, const Tensor& want, double tolerance) {
  if (have.dims() != want.dims()) return "other dims";
  const std::vector<double> a = have.to_doubles(), b = want.to_doubles();
  double largest = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(b[i]));
    worst = std::max(worst, std::isfinite(a[i]) ? std::fabs(a[i] - b[i]) : INFINITY);
  }
  return worst <= tolerance * largest ? "" : fmt::format("{} of {}", worst, largest);
}

}  // namespace

TEST_CASE("tiering/halves: operators in f16 and bf16 agree with f64, none on a reference") {
  for (const Half& half : kHalves)
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      CAPTURE(std::string(half.name));
      const std::string text = with_type(c.text, half.name);
      Graph graph = parse_graph(text);
      infer_types(graph);
      const std::vector<Tensor> inputs = test::random_inputs(graph, 5, 3);
      const std::vector<Tensor> want = exact(c, inputs);
      for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
        for (const Numerics numerics : {Numerics::kTolerant, Numerics::kStrict})
          for (int threads : {1, 2}) {
            CAPTURE(static_cast<int>(mode));
            CAPTURE(static_cast<int>(numerics));
            if (mode == JitMode::kSync && !XC_HAVE_JIT) continue;
            Config config;
            config.jit = static_cast<int64_t>(mode);
            config.numerics = static_cast<int64_t>(numerics);
            config.threads = threads;
            const auto session = session_of(text, config);
            const std::vector<Tensor> have = run(*session, inputs);
            REQUIRE(have.size() == want.size());
            for (size_t k = 0; k < have.size(); ++k) {
              CHECK(have[k].dtype() == half.dtype);
              CHECK(difference(have[k], want[k], c.roundings * half.unit) == "");
            }
            if (mode == JitMode::kOff) CHECK(!kernels_of(*session).contains("reference"));
          }
    }
}

namespace {

/// A list of so many numbers that every type has exactly.
std::string numbers(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += (i ? ", " : "") + fmt::format("{}", (i * 37 % 64 - 32) * 0.0625);
  return "[" + out + "]";
}

}  // namespace

TEST_CASE("tiering/halves: products large enough for the processor's own of bf16") {
  // Weights, both sides changing, batches of constants, a convolution, one in groups, and Casts of
  // the model's own in front of a product and alone.
  const std::string network = fmt::format(
      R"(graph g(%x: $T[n, 72, 48], %p: $T[n, 32, 9, 9], %f: f32[n, 72, 48]) -> (%r, %e, %q, %h, %k) {{
  const %w: $T[48, 64] = {}
  const %each: $T[2, 48, 32] = {}
  const %kernel: $T[32, 32, 3, 3] = {}
  const %groups: $T[32, 16, 1, 1] = {}
  const %twos: i64[1] = [1]
  %a = MatMul(%x, %w)
  %b = Relu(%a)
  %t = Transpose(%b) {{perm = [0, 2, 1]}}
  %s = MatMul(%b, %t)
  %m = Softmax(%s) {{axis = -1}}
  %r = MatMul(%m, %b)
  %u = Unsqueeze(%x, %twos)
  %e = MatMul(%u, %each)
  %c = Conv(%p, %kernel) {{pads = [1, 1, 1, 1]}}
  %d = Relu(%c)
  %q = Conv(%d, %groups) {{group = 2}}
  %l = CastLike(%f, %x)
  %h = MatMul(%l, %w)
  %k = Cast(%l) {{to = 1}}
}})",
      numbers(48 * 64), numbers(2 * 48 * 32), numbers(32 * 32 * 9), numbers(32 * 16));
  for (const Half& half : kHalves)
    for (const Numerics numerics : {Numerics::kTolerant, Numerics::kStrict})
      for (const JitMode mode : {JitMode::kOff, JitMode::kAuto})
        for (const int threads : {1, 2}) {
          CAPTURE(std::string(half.name));
          CAPTURE(static_cast<int>(numerics));
          const Case c{"", network.c_str(), 8};
          Graph graph = parse_graph(with_type(network, half.name));
          infer_types(graph);
          const std::vector<Tensor> inputs = test::random_inputs(graph, 5, 2);
          const std::vector<Tensor> want = exact(c, inputs);
          Config config;
          config.jit = static_cast<int64_t>(mode);
          config.numerics = static_cast<int64_t>(numerics);
          config.threads = threads;
          const auto session = session_of(with_type(network, half.name), config);
          // Stand-ins first, then what is made in the background.
          for (int k = 0; k < 40; ++k) {
            const std::vector<Tensor> have = run(*session, inputs);
            for (size_t i = 0; i < have.size(); ++i)
              REQUIRE(difference(have[i], want[i], c.roundings * half.unit) == "");
            if (k == 20) session->wait_idle(std::chrono::milliseconds(2000));
          }
          const std::set<std::string> kernels = kernels_of(*session);
          const bool multiplied = half.dtype == DType::kBF16 && numerics == Numerics::kTolerant &&
                                  cpu::has_bf16_products();
          CHECK(kernels.contains("onednn.matmul bf16") == multiplied);
          CHECK(kernels.contains("onednn.conv bf16") == multiplied);
          CHECK(!kernels.empty());
          CHECK(!kernels.contains("reference"));
        }
}

TEST_CASE("tiering/halves: values between products are stored in bf16") {
  const std::string network = fmt::format(
      R"(graph g(%x: $T[n, 3, 18, 18], %t: $T[n, 20, 32]) -> (%y, %z) {{
  const %w0: $T[32, 3, 3, 3] = {}
  const %w1: $T[16, 32, 1, 1] = {}
  const %w2: $T[32, 32, 1, 1] = {}
  const %w3: $T[32, 16, 3, 3] = {}
  const %m1: $T[32, 96] = {}
  const %m2: $T[96, 32] = {}
  const %two: $T[] = 2
  %a = Conv(%x, %w0) {{pads = [1, 1, 1, 1]}}
  %b = Relu(%a)
  %c = Conv(%b, %w2)
  %d = Relu(%c)
  %p = MaxPool(%d) {{kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}}
  %l = Conv(%p, %w1)
  %r = Conv(%p, %w1)
  %s = Sigmoid(%r)
  %k = Concat(%l, %s) {{axis = 1}}
  %e = Conv(%k, %w2)
  %f = Add(%e, %p)
  %g = Relu(%f)
  %h = Conv(%g, %w3) {{group = 2, pads = [1, 1, 1, 1]}}
  %y = Add(%h, %g)
  %u = MatMul(%t, %m1)
  %v = Gelu(%u)
  %o = MatMul(%v, %m2)
  %i = Mul(%o, %two)
  %j = Transpose(%i) {{perm = [1, 0, 2]}}
  %z = MatMul(%j, %m1)
}})",
      numbers(32 * 27), numbers(16 * 32), numbers(32 * 32), numbers(32 * 16 * 9), numbers(32 * 96),
      numbers(96 * 32));
  const Case c{"", network.c_str(), 12};
  // The model in bf16, and one of f32 that may be computed so.
  for (const auto& [type, numerics] : {std::pair{"bf16", Numerics::kTolerant},
                                       {"bf16", Numerics::kStrict},
                                       {"bf16", Numerics::kFast},
                                       {"f32", Numerics::kFast},
                                       {"f32", Numerics::kTolerant}}) {
    Graph graph = parse_graph(with_type(network, type));
    infer_types(graph);
    const std::vector<Tensor> inputs = test::random_inputs(graph, 3, 2);
    const std::vector<Tensor> want = exact(c, inputs);
    std::vector<Tensor> first;
    for (const JitMode mode : {JitMode::kOff, JitMode::kAuto, JitMode::kSync})
      for (const int threads : {1, 2}) {
        if (mode == JitMode::kSync && !XC_HAVE_JIT) continue;
        CAPTURE(std::string(type));
        CAPTURE(static_cast<int>(numerics));
        CAPTURE(static_cast<int>(mode));
        CAPTURE(threads);
        Config config;
        config.jit = static_cast<int64_t>(mode);
        config.numerics = static_cast<int64_t>(numerics);
        config.threads = threads;
        const auto session = session_of(with_type(network, type), config);
        std::vector<Tensor> have;
        for (int run_number = 0; run_number < 30; ++run_number) {
          have = run(*session, inputs);
          for (size_t i = 0; i < have.size(); ++i)
            REQUIRE(difference(have[i], want[i], c.roundings * kHalves[1].unit) == "");
        }
        if (mode == JitMode::kOff) {
          if (first.empty()) first = have;
          for (size_t i = 0; i < have.size(); ++i) CHECK(difference(have[i], first[i], 0) == "");
        }
        const std::string plan = session->explain({}, true);
        CHECK(!kernels_of(*session).contains("reference"));
        const bool held = std::string(type) == "bf16" && numerics != Numerics::kStrict;
        // What the pooling operator gives, and the residual sums.
        CHECK((plan.find("\"f32[n, 32, 9, 9]") == std::string::npos) ==
              (held && cpu::has_bf16_products()));
      }
  }
}

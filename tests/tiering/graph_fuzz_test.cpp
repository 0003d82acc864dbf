// Random graphs in every way a session can run them, compared with the reference implementations.
//
//   ctest --test-dir build/release -C soak -L soak     ten thousand graphs in every way
//   XC_FUZZ_COUNT=3000 build/release/tests/xc_test_tiering -tc='tiering/graph_fuzz: random*'
//   XC_FUZZ_SEED=4711 build/release/tests/xc_test_tiering -tc='tiering/graph_fuzz: one seed' -ns
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "ir/text.h"
#include "loop/expr.h"
#include "ops/infer.h"
#include "support/environment.h"
#include "support/graph_fuzz.h"

namespace {

using namespace xc;
using namespace xc::test;

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kOrdinary = 60;  // ten times as slow
#else
constexpr uint64_t kOrdinary = 300;
#endif

/// The seed's problem in the named ways; what is wrong goes to the test's report.
void check_seed(GraphFuzzer& fuzzer, uint64_t seed, const std::vector<std::string>& ways) {
  // After a crash the last line says where to look.
  if (std::getenv("XC_FUZZ_TRACE")) std::fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
  try {
    const Problem problem = random_problem(seed);
    if (const Failure failure = fuzzer.check(problem, ways))
      FAIL_CHECK(fuzzer.report(problem, failure, fmt::format("seed {}", seed)));
  } catch (const Error& error) {
    FAIL_CHECK("seed " << seed << " makes no valid graph: " << error.message());
  }
}

std::vector<std::string> names_of(const std::vector<Way>& ways) {
  std::vector<std::string> out;
  for (const Way& way : ways) out.push_back(way.name);
  return out;
}

}  // namespace

TEST_CASE("tiering/graph_fuzz: random graphs agree with the reference in every way") {
  GraphFuzzer fuzzer(all_ways());
  const std::vector<std::string> all = names_of(fuzzer.ways());
  const uint64_t count = number_from("XC_FUZZ_COUNT", kOrdinary);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    // Those that find most always, the others in turn.
    std::vector<std::string> ways{"off", "interpreter"};
    for (size_t k = 2; k < all.size(); ++k)
      if (all[k] == "jit" || (seed + k) % 6 == 0) ways.push_back(all[k]);
    check_seed(fuzzer, seed, ways);
  }
  MESSAGE(fuzzer.summary());
  CHECK(fuzzer.counts().regions.at("interpreter") > static_cast<int64_t>(count));
#if XC_HAVE_JIT
  CHECK(fuzzer.counts().regions.at("jit") == fuzzer.counts().regions.at("interpreter"));
#endif
}

TEST_CASE("tiering/graph_fuzz: strict numerics give the same bits in every mode") {
  // Two threads, fused regions and plans that take turns are held against mode off on one thread.
  std::vector<Way> ways;
  for (Way& way : all_ways())
    if (way.name.find("strict") != std::string::npos) ways.push_back(std::move(way));
  GraphFuzzer fuzzer(ways);
  for (uint64_t seed = 5001; seed <= 5000 + kOrdinary * 2 / 3; ++seed)
    check_seed(fuzzer, seed, names_of(ways));
  MESSAGE(fuzzer.summary());
#if XC_HAVE_JIT
  CHECK(fuzzer.counts().regions.at("jit, strict") > 0);
#endif
}

/// What random graphs found, made small: each once gave a wrong value, an error or a crash.
struct Found {
  const char* what;
  const char* graph;
  bool specials = false;
};
constexpr Found kFound[] = {
    {"a row scalar is stored in a row of one element",
     R"(graph g(%x: f32[17, n], %d: f32[17, 1]) -> (%y) {
  %p = LogSoftmax(%x) {axis = -1}
  %q = Sqrt(%d)
  %r = Reciprocal(%q)
  %y = Mul(%p, %r)
})"},
    {"a reduction without its axes is read beside its operand",
     R"(graph g(%x: f32[5, 5], %z: f32[n, 5, 5]) -> (%y, %o) {
  const %axes: i64[1] = [-1]
  %a = Exp(%x)
  %b = Tanh(%x)
  %r = ReduceSum(%b, %axes) {keepdims = 0}
  %o = Neg(%b)
  %y = Sub(%a, %r)
})"},
    {"two regions with an aggregate between them", R"(graph g(%x: f32[3, 5]) -> (%y, %s) {
  %a = Exp(%x)
  %s = ReduceSum(%a) {keepdims = 1}
  %b = Sub(%x, %s)
  %y = Mul(%b, %a)
})"},
    {"a remainder of floats has no scalar form", R"(graph g(%x: f32[n, 5], %z: f32[5]) -> (%y) {
  %a = Exp(%x)
  %b = Mod(%a, %z) {fmod = 1}
  %c = Cast(%b) {to = 6}
  %y = Neg(%c)
})"},
    {"the scale of a norm of a half type",
     R"(graph g(%x: f16[n, 5], %s: f16[5], %b: f16[5]) -> (%y, %z) {
  %y = LayerNormalization(%x, %s, %b) {axis = -1}
  %z = RMSNormalization(%x, %s) {axis = -1}
})"},
    {"Gelu of -Inf and of large negative numbers",
     R"(graph g(%x: f32[n, 33], %h: f16[n, 33]) -> (%y, %z) {
  %y = Gelu(%x)
  %z = Gelu(%h)
})",
     true},
    {"the tail of Gelu in f64", R"(graph g(%x: f64[n, 3]) -> (%y, %z) {
  const %k: f64[3] = [-5.9, -8, -1e3]
  %y = Gelu(%x)
  %t = Add(%x, %k)
  %z = Gelu(%t)
})"},
    {"equal chains of which other results are read",
     R"(graph g(%a: f32[n, 3], %b: f32[n, 3]) -> (%p, %q, %r, %s) {
  %t = Exp(%a)
  %p = Sqrt(%t)
  %q = Reciprocal(%p)
  %r = Exp(%b)
  %u = Sqrt(%r)
  %s = Reciprocal(%u)
})"},
    {"the logarithm of a sum of integers that wraps around",
     R"(graph g(%x: i32[n, 3]) -> (%y, %z) {
  const %k: i32[3] = [2147483647, 2147483647, 2147483600]
  const %axes: i64[1] = [1]
  %t = Max(%x, %k)
  %y = ReduceLogSum(%t, %axes)
  %z = ReduceMean(%t, %axes)
})"},
    {"indices that pick nothing", R"(graph g(%x: f16[n, 5, n], %i: i32[1, 3]) -> (%y, %z) {
  const %low: f16[] = 0
  %a = Gather(%x, %i) {axis = -3}
  %y = Add(%a, %a)
  %z = Max(%x, %low)
})"},
    {"indices that are broadcast along what another map moves",
     R"(graph g(%x: u8[1, 2], %i: i64[1, 1]) -> (%y) {
  const %pads: i64[4] = [0, 3, 3, 0]
  %e = GatherElements(%x, %i) {axis = 1}
  %p = Pad(%x, %pads)
  %y = Sub(%p, %e)
})"},
    {"the norm of numbers whose squares vanish",
     R"(graph g(%x: bf16[n, 1], %z: bf16[n, 3]) -> (%y, %w) {
  const %axes: i64[1] = [-1]
  const %tiny: bf16[1] = [1e-38]
  %a = Mul(%x, %tiny)
  %y = ReduceL2(%a, %axes)
  %b = Mul(%z, %tiny)
  %w = ReduceL2(%b, %axes) {keepdims = 0}
})"},
    {"a NaN goes through Relu behind a convolution",
     R"(graph g(%x: f32[n, 1, 6, 5], %w: f32[5, 1, 1, 1]) -> (%y) {
  %c = Conv(%x, %w)
  %y = Relu(%c)
})",
     true},
    {"two chains alike whose operands stand in another order",
     R"(graph g(%a: f32[n, 64], %b: f32[n, 64], %c: f32[n, 64], %d: f32[n, 64]) -> (%y, %z) {
  %e = Exp(%a)
  %t = Tanh(%b)
  %y = Sub(%e, %t)
  %u = Tanh(%d)
  %f = Exp(%c)
  %z = Sub(%f, %u)
})"},
    {"swapped rows that are as many as their columns",
     R"(graph g(%x: f32[n, 17], %w: f32[17, 4], %v: f32[n, 4]) -> (%y) {
  %t = MatMul(%x, %w)
  %u = Mul(%t, %v)
  %z = Transpose(%x) {perm = [1, 0]}
  %y = MatMul(%z, %u)
})"},
    {"a sum over no columns between products",
     R"(graph g(%x: f32[n, 4], %w: f32[4, 0], %v: f32[1, 5]) -> (%y) {
  const %c: i64[1] = [-1]
  %a = MatMul(%x, %w)
  %r = ReduceSum(%a, %c) {keepdims = 1}
  %y = MatMul(%r, %v)
})"},
    {"the norm between products of numbers whose squares vanish",
     R"(graph g(%x: bf16[n, 16], %w: bf16[16, 32], %v: bf16[32, 8]) -> (%y) {
  const %c: i64[1] = [-1]
  const %tiny: bf16[1] = [1e-25]
  %s = Mul(%x, %tiny)
  %h = MatMul(%s, %w)
  %r = ReduceL2(%h, %c) {keepdims = 1}
  %d = Div(%h, %r)
  %y = MatMul(%d, %v)
})"},
    {"views as results beside a size that a run finds out",
     R"(graph g(%x: f32[n, 3, 4], %s: i64[2]) -> (%y, %z, %i) {
  %r = Relu(%x)
  %y = Flatten(%r) {axis = 1}
  %i = NonZero(%x)
  %e = Exp(%x)
  %k = Shape(%i)
  %z = Flatten(%e) {axis = 0}
})"},
    {"halves of one kind taken for the other", R"(graph g(%x: f16[n, 5]) -> (%y, %z) {
  %y = BitCast(%x) {to = 16}
  %a = Neg(%x)
  %z = BitCast(%a) {to = 16}
})"},
    {"an identity behind an identity is a graph output", R"(graph g(%x: f32[n, 5]) -> (%y) {
  const %shape: i64[2] = [0, 5]
  %a = Reshape(%x, %shape)
  %y = Transpose(%a) {perm = [0, 1]}
})"},
};

/// Concats whose parts are written where they belong, by every kind of maker and reader.
constexpr Found kInPlace[] = {
    {"regions write parts, one of them another Concat",
     R"(graph g(%x: f32[n, 80], %y: f32[n, 65], %z: f32[n, 96]) -> (%r, %s) {
  %a = Exp(%x)
  %b = Neg(%a)
  %c = Tanh(%y)
  %d = Mul(%c, %y)
  %j = Concat(%b, %d) {axis = 1}
  %e = Sigmoid(%z)
  %f = Add(%e, %z)
  %k = Concat(%f, %j) {axis = -1}
  %r = Softmax(%k) {axis = -1}
  %s = Sqrt(%b)
})"},
    {"graph outputs, symbolic widths, halves",
     R"(graph g(%x: f16[1, n, 5, 4], %y: f16[1, 2, 5, 4], %u: f16[3, n, 64], %v: f16[3, 2*n, 64])
    -> (%j, %k) {
  %a = Gelu(%x)
  %b = Sigmoid(%y)
  %c = Mul(%b, %y)
  %j = Concat(%a, %c) {axis = 1}
  %d = Exp(%u)
  %e = Abs(%v)
  %f = Neg(%e)
  %k = Concat(%d, %f) {axis = 1}
})"},
    {"products and what stands behind them",
     R"(graph g(%x: f32[n, 24], %w: f32[24, 64], %y: f32[n, 9], %u: f32[9, 96], %o: f32[160, 7])
    -> (%r) {
  %a = MatMul(%x, %w)
  %b = Relu(%a)
  %c = MatMul(%y, %u)
  %j = Concat(%b, %c) {axis = 1}
  %r = MatMul(%j, %o)
})"},
    {"channels", R"(graph g(%x: f32[n, 3, 8, 9], %w: f32[16, 3, 3, 3], %v: f32[16, 3, 1, 1],
    %u: f32[8, 48, 1, 1]) -> (%r) {
  %a = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %b = Relu(%a)
  %c = Conv(%x, %v)
  %d = Sigmoid(%c)
  %e = Mul(%c, %d)
  %f = Tanh(%e)
  %j = Concat(%b, %e, %f) {axis = 1}
  %r = Conv(%j, %u)
})"},
};

void check_graphs(std::span<const Found> graphs) {
  GraphFuzzer fuzzer(all_ways());
  for (const Found& found : graphs) {
    CAPTURE(found.what);
    Problem problem{parse_graph(found.graph), {}};
    infer_types(problem.graph);
    for (int64_t n : {1, 17, 0, 2})
      problem.runs.push_back(
          problem_inputs(problem.graph, {{"n", n}}, static_cast<uint64_t>(n), found.specials));
    if (const Failure failure = fuzzer.check(problem, names_of(fuzzer.ways())))
      FAIL_CHECK(fuzzer.report(problem, failure, found.what));
  }
}

TEST_CASE("tiering/graph_fuzz: what it found stays found") {
  check_graphs(kFound);
}

TEST_CASE("tiering/graph_fuzz: parts that are written where they belong") {
  check_graphs(kInPlace);
}

/// Compiles another kernel than it was given: its first addition became a subtraction. Not one of
/// 64-bit integers: those are subscripts and bounds, and a kernel that is wrong about them reads
/// anything.
class WrongCompiler final : public RegionCompiler {
 public:
  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    loop::Kernel wrong = kernel;
    bool done = false;
    wrong.body = loop::rewrite_exprs(kernel.body, [&](const loop::Expr& e) {
      if (done || e->op != loop::Op::kAdd || e.type() == DType::kI64) return e;
      done = true;
      return e->args[0] - e->args[1];
    });
    return inner_->compile(wrong);
  }

 private:
  std::unique_ptr<RegionCompiler> inner_ = create_interpreting_compiler();
};

TEST_CASE("tiering/graph_fuzz: a wrong compiler is caught, and its graph made small") {
  std::vector<Way> ways;
  for (const Way& way : all_ways())
    if (way.name == "interpreter") ways.push_back(way);
  GraphFuzzer fuzzer(ways, [](const Way&) { return std::make_unique<WrongCompiler>(); });
  int caught = 0;
  size_t smallest = SIZE_MAX;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Problem problem = random_problem(seed);
    Failure failure = fuzzer.check(problem, {"interpreter"});
    if (!failure) continue;
    CHECK(failure.kind == "differs");
    ++caught;
    if (smallest <= 3) continue;
    smallest = std::min(smallest, fuzzer.shrink(problem, failure).graph.order().size());
  }
  CHECK(caught >= 5);
  CHECK(smallest <= 3);
  // The tier's own verification keeps such kernels out of results, but for what its bound hides,
  // such as the sign of a small epsilon in a half type.
  for (Way& way : ways) way.verified = true;
  GraphFuzzer verified(ways, [](const Way&) { return std::make_unique<WrongCompiler>(); });
  int missed = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed)
    missed += verified.check(random_problem(seed), {"interpreter"}) ? 1 : 0;
  CHECK(missed <= caught / 7);
}

TEST_CASE("tiering/graph_fuzz: seeds that failed once") {
  GraphFuzzer fuzzer(all_ways());
  // 102826: a masked rest of a known length read beyond its row. The others: the oracle took
  // underflow (a Gelu's tail, halves, squares) for a difference. 200574: the least integer by -1.
  // 201078, 202963: the order of shares of a softmax that are denormal, or 0. 202166: rows all
  // alike, whose mean is off by a rounding. 205273: a reduction of halves its readers saw
  // unrounded. 970060, 970419: functions of halves written out for every output of a loop, minutes
  // of compiling. 1200246, 1301493: rows shorter than half a vector under a guard that all lanes
  // share. 1507423: a Pad that reflects along an axis folded with one that its operand is broadcast
  // along. 1666: a kernel of too many operations is declined. 3904, 7709, 9404, 100317: the oracle
  // did not know that a Cast to halves may be left out, nor that a logarithm, a quotient or a
  // denormal bf16 may be 0.
  for (const uint64_t seed :
       {98,      188,     224,     1'507'423, 970'060, 970'419, 1'200'246, 1'301'493,
        102'826, 104'247, 105'902, 107'724,   200'574, 201'078, 202'166,   202'963,
        205'273, 1'666,   3'904,   7'709,     9'404,   100'317})
    check_seed(fuzzer, seed, names_of(fuzzer.ways()));
}

TEST_CASE("tiering/graph_fuzz: one seed" * doctest::skip()) {
  GraphFuzzer fuzzer(all_ways());
  check_seed(fuzzer, number_from("XC_FUZZ_SEED", 1), names_of(fuzzer.ways()));
}

TEST_CASE("soak/graph_fuzz: ten thousand random graphs in every way" * doctest::skip()) {
  GraphFuzzer fuzzer(all_ways());
  const uint64_t first = number_from("XC_FUZZ_SEED", 100'000);
  for (uint64_t seed = first; seed < first + number_from("XC_FUZZ_COUNT", 10'000); ++seed)
    check_seed(fuzzer, seed, names_of(fuzzer.ways()));
  MESSAGE(fuzzer.summary());
}

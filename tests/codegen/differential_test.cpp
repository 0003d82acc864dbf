// Generated code against the interpreter, on every instruction set this machine runs and on its GPU
// where it has one: same bits.
#include <doctest/doctest.h>

#include "base/error.h"
#include "codegen/jit.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/text.h"
#include "support/kernel_run.h"
#include "support/loop_kernels.h"

using namespace xc;
using namespace xc::loop;
using test::Buffers;
using test::Problem;

namespace {

// Element counts for kernels over dims (n, m): rank 2 is n rows of the stride, rank 1 the longer
// dim.
Problem problem_of(const Kernel& kernel, int64_t n, int64_t m, int64_t pad) {
  Problem out;
  out.dims.assign(kernel.dims.size(), m);
  if (!out.dims.empty()) out.dims[0] = n;
  out.strides.assign(kernel.strides.size(), m + pad);
  // Strides of a second dimension.
  for (const BufferDecl& decl : kernel.buffers)
    if (decl.strides.size() == 2 && decl.strides[1].is_param) {
      out.strides[decl.strides[0].param] = 2 * m + 1;
      out.strides[decl.strides[1].param] = 2;
    }
  for (const BufferDecl& decl : kernel.buffers) {
    if (decl.is_scratch()) continue;
    int64_t extent = 1;
    if (decl.strides.size() == 2) {
      const auto stride = [&](size_t d) {
        return decl.strides[d].is_param ? out.strides[decl.strides[d].param]
                                        : decl.strides[d].value;
      };
      extent = n == 0 || m == 0 ? 0 : (n - 1) * stride(0) + (m - 1) * stride(1) + 1;
    } else if (decl.strides.size() == 1) {
      extent = std::max(n, m);
    }
    out.elements.push_back(static_cast<size_t>(extent));
  }
  return out;
}

struct Shape {
  int64_t n, m, pad;
};
constexpr Shape kShapes[] = {{0, 5, 0},  {3, 0, 0},  {1, 1, 0},  {2, 15, 1},  {3, 16, 0},
                             {2, 17, 3}, {2, 31, 1}, {2, 35, 0}, {2, 48, 0},  {1, 63, 1},
                             {2, 64, 0}, {2, 80, 1}, {2, 96, 0}, {3, 100, 7}, {40, 37, 1}};

// Empty when all targets agree with the interpreter.
std::string disagreement(const Kernel& kernel, uint64_t seed, bool specials,
                         const Kernel* compiled_from = nullptr) {
  const Kernel scheduled = schedule_default(compiled_from ? *compiled_from : kernel, {});
  struct Target {
    std::string name;
    std::unique_ptr<test::Compiled> code;
  };
  std::vector<Target> targets;
  for (const std::string& name : test::compared_targets())
    targets.push_back({name, std::make_unique<test::Compiled>(scheduled, name)});
  for (const Shape& shape : kShapes) {
    const Problem problem = problem_of(kernel, shape.n, shape.m, shape.pad);
    const auto range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
    const int64_t middle = (range.begin + range.end) / 2;
    for (const MathLevel level : {MathLevel::kFma, MathLevel::kMulAdd}) {
      Buffers expected(kernel, problem, seed, specials);
      const int32_t want = interpret(kernel, expected.args(0, 0), level);
      for (const Target& target : targets) {
        if (test::math_of(target.name) != level) continue;
        Buffers got(kernel, problem, seed, specials);
        // Two tasks, as a thread pool would run them.
        int32_t status = target.code->run(got, range.begin, middle);
        if (range.end > middle) status |= target.code->run(got, middle, range.end);
        if (status != want)
          return fmt::format("{} {}x{}: status {} is not {}", target.name, shape.n, shape.m, status,
                             want);
        if (want != 0) continue;
        if (std::string where = test::difference(kernel, got, expected); !where.empty())
          return fmt::format("{} {}x{}: {}", target.name, shape.n, shape.m, where);
      }
    }
  }
  return "";
}

// `scheduled`, a schedule of `kernel`, on every target.
void check_bits(const Kernel& kernel, const Kernel& scheduled, const Problem& problem) {
  const auto range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
  for (const std::string& target : test::compared_targets()) {
    CAPTURE(target);
    Buffers expected(kernel, problem, 17, false), got(scheduled, problem, 17, false);
    REQUIRE(interpret(kernel, expected.args(0, 0), test::math_of(target)) == 0);
    const test::Compiled code(scheduled, target);
    CHECK(code.run(got, range.begin, range.end) == 0);
    CHECK(test::difference(kernel, expected, got) == "");
  }
}

// `kernel`, whose tasks are rows of one element at least, on every target and shape. `fill`: what
// inputs hold besides; `look`: at what a run has left.
void check_rows(const Kernel& kernel, uint64_t seed,
                const std::function<void(Buffers&)>& fill = nullptr,
                const std::function<void(const Buffers&)>& look = nullptr) {
  for (const std::string& target : test::compared_targets()) {
    CAPTURE(target);
    const test::Compiled code(kernel, target);
    for (const Shape& shape : kShapes) {
      if (shape.m == 0) continue;
      CAPTURE(shape.m);
      const Problem problem = problem_of(kernel, shape.n, shape.m, shape.pad);
      Buffers expected(kernel, problem, seed, true), got(kernel, problem, seed, true);
      for (Buffers* buffers : {&expected, &got})
        if (fill) fill(*buffers);
      REQUIRE(interpret(kernel, expected.args(0, shape.n), test::math_of(target)) == 0);
      CHECK(code.run(got, 0, shape.n) == 0);
      CHECK(test::difference(kernel, expected, got) == "");
      if (look && shape.n > 0) look(got);
    }
  }
}

}  // namespace

TEST_CASE("codegen/differential: example kernels have the interpreter's bits") {
  const Kernel kernels[] = {test::gelu_chain(),
                            test::norm_chain(),
                            test::masked_softmax(),
                            test::row_arg(AccOp::kArgMax),
                            test::row_arg(AccOp::kArgMin),
                            test::row_arg(AccOp::kArgMaxLast),
                            test::row_arg(AccOp::kArgMinLast),
                            test::flat_relu(),
                            test::column_sum()};
  for (const Kernel& kernel : kernels)
    for (const bool specials : {false, true}) {
      CAPTURE(specials);
      INFO(print(kernel));
      CHECK(disagreement(kernel, 7, specials) == "");
    }
}

TEST_CASE("codegen/differential: products, jammed and not, have the interpreter's bits") {
  const struct {
    Kernel kernel;
    const char* schedule;
  } cases[] = {
      {test::gram(), ""},
      {test::gram(), "jam j1 8; jam r2 4"},
      {test::gram(), "vectorize r1 32; vectorize k2 64; jam j1 3; jam r2 5"},
      {test::narrow_products(), ""},
      {test::narrow_products(), "jam i 2"},
      {test::narrow_products(), "jam i 4"},
  };
  for (const auto& [kernel, schedule] : cases)
    for (const bool specials : {false, true}) {
      const Kernel scheduled = apply_schedule(kernel, schedule);
      CAPTURE(schedule);
      CAPTURE(specials);
      INFO(print(schedule_default(scheduled, {})));
      CHECK(disagreement(kernel, 11, specials, &scheduled) == "");
    }
}

TEST_CASE("codegen/differential: copies that transpose, whole tiles and what is left of them") {
  for (const std::string type : {"f32", "i32"}) {
    std::string text = R"(
      kernel turn(n, m; xs, ys) {
        in x: T[xs, 1]
        out y: T[ys, 1]
        scratch t: T[(m * 32); 32, 1]
        scratch u: T[(30 * 32); 30, 1]
        for b = 0 .. ((n + 31) / 32) {
          for r = 0 .. 32 {
            for j = 0 .. m {
              t[j, r] = (x[32*b + r, j] if (r < min(32, (n - (b * 32)))))
            }
          }
          for r_1 = 0 .. 32 {
            for j_1 = 0 .. min(m, 30) {
              u[r_1, j_1] = t[j_1, r_1]
            }
          }
          for r_2 = 0 .. min(32, (n - (b * 32))) {
            for j_2 = 0 .. min(m, 30) {
              y[32*b + r_2, j_2] = u[r_2, j_2]
            }
          }
        }
      })";
    for (size_t at; (at = text.find(" T[")) != std::string::npos;) text.replace(at + 1, 1, type);
    const Kernel kernel = parse(text);
    CAPTURE(type);
    const Kernel scheduled = apply_schedule(kernel, "vectorize r 16; vectorize r_1 16");
    CHECK(disagreement(kernel, 13, false, &scheduled) == "");
  }
}

TEST_CASE("codegen/differential: vector loops of known length, with and without a rest") {
  for (const int length : {1, 15, 16, 17, 32, 33, 48, 64, 100, 128}) {
    const std::string text = fmt::format(R"(
      kernel known(n; xs, ys) {{
        in x: f32[xs, 1]
        out y: f32[ys, 1]
        out z: f32[ys, 1]
        for i = 0 .. n {{
          acc sum: f32 sum lanes
          acc top: f32 max lanes
          for j = 0 .. {0} {{
            sum <- x[i, j]
            top <- x[i, j]
          }}
          for k = 0 .. {0} {{
            y[i, k] = ((x[i, k] * sum) + top)
          }}
          for l = 0 .. {0} {{
            acc a: f32 dot seq
            acc b: f32 dot seq
            for r = 0 .. n {{
              a <- x[r, l], x[i, l]
              b <- x[r, l], x[r, l]
            }}
            z[i, l] = (a - b)
          }}
        }}
      }})",
                                         length);
    CAPTURE(length);
    const Kernel kernel = parse(text);
    for (const char* schedule : {"", "vectorize k 32; vectorize l 32", "vectorize l 64"}) {
      CAPTURE(schedule);
      const Kernel scheduled = schedule_default(apply_schedule(kernel, schedule), {});
      Problem problem;
      problem.dims = {3};
      problem.strides = {length + 1, length};
      problem.elements.assign(3, static_cast<size_t>(3 * (length + 1)));
      check_bits(kernel, scheduled, problem);
    }
  }
}

TEST_CASE("codegen/differential: guards that all lanes share, in loops of known length") {
  for (const std::string type : {"f32", "f64", "i32", "i8"})
    for (const int length : {1, 3, 7, 8, 9, 16, 20, 33, 64}) {
      const std::string text = fmt::format(R"(
        kernel guards(n; xs, ys) {{
          in x: {0}[xs, 1]
          in v: {0}[xs, 1]
          out y: {0}[ys, 1]
          out z: {0}[ys, 1]
          for i = 0 .. n {{
            acc sum: {0} sum lanes
            for j = 0 .. {1} {{
              y[i, j] = select((i < 2), (x[i, j] if (i < 2)), (v[i - 2, j] if (i >= 2)))
              z[i, j] = ((v[i, j] if (i < 1)) + x[i, j]) if (i != 1)
              sum <- (v[i - 1, j] if (i >= 1))
            }}
            for k = 0 .. {1} {{
              z[i, k] = ((x[i - 2, k] if (i >= 2)) + sum) if (i == 2)
            }}
            for l = 0 .. {1} {{
              y[i, l] = ((x[i - 2, l - 3] if ((i >= 2) & (l >= 3))) + (v[i, l] if ((i < 1) | (l < 5))))
            }}
          }}
        }})",
                                           type, length);
      CAPTURE(text);
      const Kernel kernel = parse(text);
      for (const char* schedule : {"", "vectorize k 64"}) {
        const Kernel scheduled = schedule_default(apply_schedule(kernel, schedule), {});
        Problem problem;
        problem.dims = {4};
        problem.strides = {length, length};
        problem.elements.assign(4, static_cast<size_t>(4 * length));
        check_bits(kernel, scheduled, problem);
      }
    }
}

TEST_CASE("codegen/differential: what a row of scratch ends with leaves the next one alone") {
  for (const std::string type : {"f32", "f64", "i32", "u64", "i16", "u8"}) {
    std::string text = R"(
      kernel rows(n, m; xs, ys) {
        in x: T[xs, 1]
        out y: T[ys, 1]
        scratch a: T[m]
        scratch b: T[m]
        for i = 0 .. n {
          for j = 0 .. m {
            b[j] = (x[i, j] + x[i, j])
          }
          for k = 0 .. m {
            a[k] = (x[i, k] * x[i, k])
          }
          acc sum: T sum lanes
          for l = 0 .. m {
            sum <- a[l]
          }
          for o = 0 .. m {
            y[i, o] = ((a[o] + b[o]) + sum)
          }
        }
      })";
    for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
    text.replace(text.find(": T sum"), 3, ": " + type);
    CAPTURE(text);
    CHECK(disagreement(parse(text), 29, false) == "");
  }
}

TEST_CASE("codegen/differential: the least number has no other negative and no other magnitude") {
  const std::pair<const char*, int64_t> types[] = {
      {"i8", INT8_MIN}, {"i16", INT16_MIN}, {"i32", INT32_MIN}, {"i64", INT64_MIN}};
  for (const auto& [type, least] : types) {
    const std::string text = fmt::format(R"(
      kernel least(n, m; xs, ys) {{
        in x: {0}[xs, 1]
        out y: {0}[ys, 1]
        out z: bool[ys, 1]
        for i = 0 .. n {{
          for j = 0 .. m {{
            let v: {0} = (x[i, j] & {1}:{0})
            y[i, j] = select((neg(v) == v), 1:{0}, 0:{0})
            z[i, j] = ((abs(v) <= 0:{0}) & (neg(abs(v)) == v))
          }}
        }}
      }})",
                                         type, least);
    CAPTURE(text);
    CHECK(disagreement(parse(text), 3, false) == "");
  }
}

TEST_CASE("codegen/differential: serial loops that write what they have read") {
  const Kernel kernel = parse(R"(
    kernel running(n, m; xs, ys) {
      in x: f32[xs, 1]
      out y: f32[ys, 1]
      scratch t: f32[2]
      for i = 0 .. n {
        t[0] = (x[i, 0] if (0 < m))
        t[1] = 1:f32
        for j = 0 .. m {
          let before: f32 = t[0]
          t[0] = (t[1] + x[i, j])
          t[1] = (before * 0.5:f32)
          y[i, j] = (t[0] + t[1])
        }
      }
    })");
  CHECK(disagreement(kernel, 31, false) == "");
}

TEST_CASE("codegen/differential: what statements share, with stores to what it reads in between") {
  const Kernel kernel = parse(R"(
    kernel shares(n, m; xs, ys) {
      in x: f32[xs, 1]
      in b: f32[1]
      out y: f32[ys, 1]
      out z: f32[ys, 1]
      scratch t: f32[m]
      for i = 0 .. n {
        acc sum: f32 sum lanes
        for j = 0 .. m {
          t[j] = exp((x[i, j] + b[j]))
          y[i, j] = (t[j] * exp((x[i, j] + b[j])))
          sum <- t[j]
          t[j] = (t[j] - x[i, j])
          z[i, j] = (t[j] * exp((x[i, j] + b[j])))
          t[j] = (t[j] * 0.5:f32)
        }
        for k = 0 .. m {
          z[i, k] = (t[k] + sum)
        }
      }
    })");
  CHECK(disagreement(kernel, 37, false) == "");
}

TEST_CASE("codegen/differential: floats become integers, saturated, NaN 0") {
  for (const char* from : {"f32", "f64"})
    for (const char* to : {"i8", "u8", "i16", "u16", "i32", "i64", "u32", "u64"}) {
      const std::string text = fmt::format(R"(
        kernel cast(n, m; xs, ys) {{
          in x: {0}[xs, 1]
          out y: {1}[ys, 1]
          out z: {1}[ys, 1]
          for i = 0 .. n {{
            for j = 0 .. m {{
              y[i, j] = cast<{1}>(x[i, j])
              z[i, j] = cast<{1}>((x[i, j] * 70000.5:{0}))
            }}
          }}
        }})",
                                           from, to);
      CAPTURE(text);
      for (const bool specials : {false, true})
        CHECK(disagreement(parse(text), 23, specials) == "");
    }
}

TEST_CASE("codegen/differential: floats within the bounds of an integer, and nearly so") {
  struct Type {
    const char* name;
    int64_t low, high;
  };
  for (const Type& to :
       {Type{"i8", -128, 127}, {"u8", 0, 255}, {"i16", -32768, 32767}, {"u16", 0, 65535}})
    for (const char* from : {"f32", "f64"})
      for (const int64_t below : {0, 1})
        for (const int64_t above : {0, 1}) {
          // What a comparison picks is a number; what max and min pick may be none.
          const std::string text = fmt::format(R"(
            kernel cast(n, m; xs, ys) {{
              in x: {0}[xs, 1]
              out y: {1}[ys, 1]
              out z: {1}[ys, 1]
              out w: {1}[ys, 1]
              out v: {1}[ys, 1]
              for i = 0 .. n {{
                for j = 0 .. m {{
                  %0 = (x[i, j] * 70000.5:{0})
                  %1 = select((%0 > {2}:{0}), %0, {2}:{0})
                  y[i, j] = cast<{1}>(min(%1, {3}:{0}))
                  z[i, j] = cast<{1}>(min(max(x[i, j], {2}:{0}), {3}:{0}))
                  w[i, j] = cast<{1}>(select((x[i, j] > {2}:{0}), {3}:{0}, x[i, j]))
                  %2 = min(x[i, j], 3:{0})
                  v[i, j] = cast<{1}>(select((%2 > 70000:{0}), %2, 70000:{0}))
                }}
              }}
            }})",
                                               from, to.name, to.low - below, to.high + above);
          CAPTURE(text);
          for (const bool specials : {false, true})
            CHECK(disagreement(parse(text), 29, specials) == "");
        }
}

TEST_CASE("codegen/differential: scalars divided by numbers that are known") {
  for (const char* type : {"i8", "i16", "i32", "i64", "u8", "u32"})
    for (const int by : {1, 2, 3, 7, 16, 64}) {
      const std::string text = fmt::format(R"(
        kernel divide(n) {{
          in x: {0}[1]
          out quotient: {0}[1]
          out rest: {0}[1]
          out modulo: {0}[1]
          out least: {0}[1]
          for i = 0 .. n {{
            quotient[i] = (x[i] / {1}:{0})
            rest[i] = rem(x[i], {1}:{0})
            modulo[i] = mod(x[i], {1}:{0})
            least[i] = (({2}:{0} / {1}:{0}) + ((x[i] + {2}:{0}) / {1}:{0}))
          }}
        }})",
                                           type, by, type[0] == 'u' ? "9" : "-128");
      CAPTURE(text);
      const Kernel kernel = parse(text);
      check_bits(kernel, kernel, problem_of(kernel, 301, 1, 0));
    }
}

TEST_CASE("codegen/differential: random elementwise kernels") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Kernel kernel = test::random_kernel(seed, false);
    CAPTURE(seed);
    INFO(print(kernel));
    CHECK(disagreement(kernel, seed, seed % 2 == 0) == "");
  }
}

TEST_CASE("codegen/differential: random row kernels") {
  for (uint64_t seed = 100; seed < 114; ++seed) {
    const Kernel kernel = test::random_kernel(seed, true);
    CAPTURE(seed);
    INFO(print(kernel));
    CHECK(disagreement(kernel, seed, seed % 2 == 0) == "");
  }
}

TEST_CASE("codegen/differential: sums over what a mask leaves of a row, of negative zeros too") {
  const Kernel kernel = parse(R"(
    kernel sums(n, m; xs) {
      in x: f32[xs, 1]
      in w: f32[1]
      out total: f32[1]
      out product: f32[1]
      out squares: f32[1]
      out after: f32[1]
      parallel t = 0 .. n {
        let first: f32 = x[t, 0]
        acc s: f32 sum lanes
        acc p: f32 dot lanes16
        acc q: f32 sum lanes16
        acc a: f32 sum lanes = first
        vector(16) j = 0 .. m {
          s <- x[t, j]
          p <- x[t, j], w[j]
          q <- (x[t, j] * x[t, j])
          a <- x[t, j]
        }
        total[t] = s
        product[t] = p
        squares[t] = q
        after[t] = a
      }
    })");
  // A sum of negative zeros begins with +0, and is one itself only where it begins with one.
  const auto fill = [](Buffers& buffers) {
    auto* x = reinterpret_cast<uint32_t*>(buffers.data(0));
    std::fill_n(x, buffers.bytes(0) / sizeof(uint32_t), 0x8000'0000U);
  };
  check_rows(kernel, 5);
  check_rows(kernel, 5, fill, [](const Buffers& got) {
    CHECK(*reinterpret_cast<const uint32_t*>(got.data(5)) == 0x8000'0000U);
  });
}

TEST_CASE("codegen/differential: the comparison sees a planted fault") {
  // One operation changed in what is compiled: - for +.
  const Kernel right = test::gelu_chain();
  std::string text = print(right);
  const size_t at = text.find("x[i, j] + b[j]");
  REQUIRE(at != std::string::npos);
  const Kernel wrong = parse(text.replace(at + 8, 1, "-"));
  CHECK(disagreement(right, 1, false, &wrong) != "");
}

TEST_CASE("codegen/differential: reductions of every type, nested, unrolled, with initial values") {
  const char* const types[] = {"f32", "f64", "i8", "u16", "i32", "u64"};
  for (const std::string type : types) {
    const std::string text = R"(
      kernel reductions(n, m; xs) {
        in x: T[xs, 1]
        in flag: bool[1]
        out y: T[1]
        out at: i64[1]
        out any: bool[1]
        parallel t = 0 .. n {
          let first: T = x[t, 0]
          acc total: T sum lanes = first
          acc top: T max lanes
          acc low: T argmin_last lanes
          acc some: bool max lanes
          acc all: bool min lanes = true
          for i = 0 .. n {
            vector(16) j = 0 .. m {
              total <- x[i, j]
              top <- (x[i, j] if flag[j])
              low <- x[i, j], j
              some <- flag[j]
              all <- (flag[j] | (x[i, j] == first))
            }
          }
          acc last: T prod seq
          unroll(4) k = 0 .. m {
            last <- (x[t, k] - first)
          }
          y[t] = ((total + top) + (low + last))
          at[t] = low.index
          any[t] = (some ^ all)
        }
      })";
    std::string typed;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool alone = text[i] == 'T' && !std::isalpha(static_cast<unsigned char>(text[i + 1]));
      typed += alone ? type : std::string(1, text[i]);
    }
    CAPTURE(type);
    check_rows(parse(typed), 11);
  }
}

TEST_CASE("codegen/differential: as many buffers as a kernel may have, each read behind a store") {
  // 64 parameters and 64 pieces of scratch. What a piece held is not what it holds behind a store
  // to it, and is behind one to any other.
  constexpr size_t kInputs = kMaxBuffers - 1;
  std::string text = "kernel many(n, m) {\n";
  for (size_t i = 0; i < kInputs; ++i) text += fmt::format("in x{}: f32[1]\n", i);
  text += "out y: f32[1]\n";
  for (size_t i = 0; i < kMaxBuffers; ++i) text += fmt::format("scratch s{}: f32[64]\n", i);
  text +=
      "for b = 0 .. ((max(n, m) + 63) / 64) {\nfor j = 0 .. min(64, (max(n, m) - (b * 64))) {\n";
  for (size_t i = 0; i < kMaxBuffers; ++i)
    text += fmt::format("s{}[j] = x{}[64*b + j]\n", i, i % kInputs);
  for (size_t i = 0; i < kMaxBuffers; ++i)
    text += fmt::format("s{0}[j] = ((s{0}[j] * 0.5:f32) + s{1}[j])\n", i, (i + 37) % kMaxBuffers);
  text += "y[64*b + j] = (s0[j]";
  for (size_t i = 1; i < kMaxBuffers; ++i) text += fmt::format(" + s{}[j])", i);
  text.insert(text.rfind("(s0[j]"), std::string(kMaxBuffers - 2, '('));
  text += "\n}\n}\n}\n";
  const Kernel kernel = parse(text);
  CHECK(disagreement(kernel, 41, false) == "");
}

// Small models that ask for the world: sizes, windows, texts and shapes whose cost is not in the
// file. Each once overflowed, crashed, hung or ate all memory; now it is refused or answered in
// bounded time and memory, while it is loaded or run.
#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "runtime/session.h"
#include "support/sessions.h"

namespace xc::test {

namespace {

/// Seconds for loading and running one; generous, for the sanitizers.
constexpr double kLongest = 30;

std::string joined(int64_t count, const std::string& part, const std::string& between = ", ") {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out += (i > 0 ? between : "") + part;
  return out;
}

Tensor zeros(DType dtype, Dims dims) {
  Tensor out(dtype, dims);
  if (out.byte_size() > 0) std::memset(out.data(), 0, static_cast<size_t>(out.byte_size()));
  return out;
}

/// Loads and runs in so much memory; what refused it, nullopt where nothing did.
std::optional<Status> refusal(const std::string& graph, const std::vector<Tensor>& inputs,
                              int64_t max_memory_bytes = int64_t{1} << 30) {
  CAPTURE(graph.substr(0, 400));
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Status> out;
  try {
    Config config;
    config.set_jit(JitMode::kOff);
    config.threads = 1;
    config.max_memory_bytes = max_memory_bytes;
    (void)testing::run(*testing::session_of(graph, config), inputs);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.status() != Status::kInternal, error.message());
    out = error.status();
  } catch (const std::bad_alloc&) {
    out = Status::kOutOfMemory;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < kLongest);
  return out;
}

}  // namespace

TEST_CASE("ops/bombs: windows far larger than what they slide over") {
  CHECK(!refusal(R"(graph g(%x: f32[1, 1, 1, 1, 4]) -> (%y) {
  %y = MaxPool(%x) {kernel_shape = [1073741824, 1073741824, 1], pads = [1073741823, 1073741823, 0, 0, 0, 0]}
})",
                 {zeros(DType::kF32, {1, 1, 1, 1, 4})}));
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"})
    CHECK(!refusal(fmt::format(R"(graph g(%x: f64[1, 1, 1, 1]) -> (%y) {{
  %y = {}(%x) {{kernel_shape = [1073741824, 1073741824], auto_pad = "SAME_UPPER"}}
}})",
                               op),
                   {zeros(DType::kF64, {1, 1, 1, 1})}));
  CHECK(!refusal(R"(graph g(%x: f32[1, 1, 4, 4]) -> (%y) {
  const %s: i64[4] = [16, 1, 1, 1]
  %w = ConstantOfShape(%s)
  %y = Conv(%x, %w) {strides = [1, 1048576], pads = [0, 1073741824, 0, 1073741824]}
})",
                 {zeros(DType::kF32, {1, 1, 4, 4})}));
  for (const char* dilations : {"[1073741824, 1048576]", "[268435456, 1]"})
    (void)refusal(fmt::format(R"(graph g(%x: f32[1, 64, 1, 1]) -> (%y) {{
  const %s: i64[4] = [64, 8, 129, 2]
  %w = ConstantOfShape(%s)
  %y = ConvTranspose(%x, %w) {{dilations = {}, output_shape = [1, 1]}}
}})",
                              dilations),
                  {zeros(DType::kF32, {1, 64, 1, 1})});
}

TEST_CASE("ops/bombs: many axes") {
  const std::string ones = joined(31, "1");
  CHECK(refusal(fmt::format("graph g(%x: f32[{}], %g: f32[{}, 29]) -> (%y) {{\n"
                            "  %y = GridSample(%x, %g) {{mode = \"cubic\"}}\n}}",
                            ones, joined(30, "1")),
                {zeros(DType::kF32, Dims(31, 1)), [] {
                   Dims dims(31, 1);
                   dims.back() = 29;
                   return zeros(DType::kF32, dims);
                 }()}));
  CHECK(refusal(R"(graph g(%x: f32[n]) -> (%y) {
  const %a: i64[] = 1
  const %b: i64[] = 100000
  const %s: i64[] = 1
  %axes = Range(%a, %b, %s)
  %y = Unsqueeze(%x, %axes)
})",
                {zeros(DType::kF32, {3})}));
}

TEST_CASE("ops/bombs: regions and pads of any number") {
  CHECK(refusal(R"(graph g(%x: f64[1, 1, 8, 8], %r: f64[1, 5]) -> (%y) {
  %y = MaxRoiPool(%x, %r) {pooled_shape = [2, 2]}
})",
                {zeros(DType::kF64, {1, 1, 8, 8}),
                 Tensor::of<double>({0, -1.7e308, 0, 1.7e308, 4}, {1, 5})}));
  for (const char* pads : {"-9223372036854775808, 9223372036854775807",
                           "9223372036854775807, -9223372036854775807", "0, 1099511627776"})
    CHECK(refusal(fmt::format(R"(graph g(%x: f32[4]) -> (%y) {{
  const %p: i64[2] = [{}]
  %y = Pad(%x, %p)
}})",
                              pads),
                  {zeros(DType::kF32, {4})}));
  CHECK(refusal(R"(graph g(%x: f32[1, 1, 8, 8], %r: f32[1, 4], %b: i64[1]) -> (%y) {
  %y = RoiAlign(%x, %r, %b) {output_height = 1, output_width = 1}
})",
                {zeros(DType::kF32, {1, 1, 8, 8}), Tensor::of<float>({0, 0, 1e6f, 1e6f}, {1, 4}),
                 zeros(DType::kI64, {1})}));
}

TEST_CASE("ops/bombs: what no run can hold is refused before tables of its length are made") {
  const std::string graph = R"(graph g(%x: f32[1, 1, 4, 4], %s: i64[4]) -> (%y) {
  %y = Resize(%x, _, _, %s) {mode = "cubic"}
})";
  const auto resized = [&](int64_t size, int64_t most) {
    return refusal(graph, {zeros(DType::kF32, {1, 1, 4, 4}), Tensor::of<int64_t>({1, 1, 4, size})},
                   most);
  };
  CHECK(!resized(64, 1 << 20));
  CHECK(resized(int64_t{1} << 31, 1 << 30) == Status::kLimit);
  CHECK(resized(int64_t{1} << 50, 0) == Status::kOutOfMemory);
}

TEST_CASE("ops/bombs: a part of a Split that nobody reads may not be less than nothing") {
  const std::string graph = R"(graph g(%x: f32[n], %y: f32[m]) -> (%z) {
  %a = Shape(%x)
  %b = Shape(%y)
  %c = Sub(%a, %b)
  %sizes = Concat(%c, %b) {axis = 0}
  %head, %tail = Split(%x, %sizes) {axis = 0}
  %z = Relu(%tail)
})";
  CHECK(!refusal(graph, {zeros(DType::kF32, {10}), zeros(DType::kF32, {4})}));
  CHECK(refusal(graph, {zeros(DType::kF32, {1}), zeros(DType::kF32, {1000})}) ==
        Status::kInvalidArgument);
}

TEST_CASE("ops/bombs: sizes as expressions") {
  for (const char* step : {"Mul(%v{0}, %v{0})", "Max(%d{0}, %t{0})"}) {
    std::string body = "  const %two: i64[1] = [2]\n  const %three: i64[1] = [3]\n";
    for (int i = 0; i < 40; ++i) {
      if (step[1] == 'a')
        body += fmt::format("  %d{0} = Mul(%v{0}, %two)\n  %t{0} = Mul(%v{0}, %three)\n", i);
      body += fmt::format("  %v{} = {}\n", i + 1, fmt::format(fmt::runtime(step), i));
    }
    const auto refused = refusal(
        "graph g(%v0: i64[1], %x: f32[n]) -> (%y) {\n" + body + "  %y = Reshape(%x, %v40)\n}",
        {Tensor::of<int64_t>({1}), zeros(DType::kF32, {1})});
    // 1 by itself stays 1, the size of x; the other is 3^40, whatever 64 bits leave of it.
    CHECK(refused == (step[1] == 'a' ? std::optional(Status::kInvalidArgument) : std::nullopt));
  }
}

TEST_CASE("ops/bombs: texts that are added to themselves") {
  std::string body = "  const %s0: string[1] = [\"a\"]\n";
  for (int i = 0; i < 40; ++i)
    body += fmt::format("  %s{1} = StringConcat(%s{0}, %s{0})\n", i, i + 1);
  CHECK(refusal("graph g(%x: f32[1]) -> (%s40, %y) {\n" + body + "  %y = Relu(%x)\n}",
                {zeros(DType::kF32, {1})}) == Status::kLimit);
}

TEST_CASE("ops/bombs: huge axes beside empty ones") {
  const Tensor x(DType::kF32, {int64_t{1} << 33, 0});
  CHECK(!refusal(R"(graph g(%x: f32[n, 0]) -> (%v, %i) {
  const %k: i64[1] = [1]
  %v, %i = TopK(%x, %k) {axis = 0}
})",
                 {x}));
  CHECK(!refusal(R"(graph g(%x: f32[n, 0]) -> (%y) {
  %y = LpNormalization(%x) {axis = 1}
})",
                 {x}));
}

TEST_CASE("ops/bombs: what bodies and containers make counts as the run's memory") {
  constexpr int64_t kMost = 1 << 20;
  const auto bounded = [](const std::string& graph, const auto& inputs) {
    CAPTURE(graph);
    CHECK(!refusal(graph, inputs(16), kMost));
    CHECK(refusal(graph, inputs(1 << 12), kMost) == Status::kLimit);  // 4 MB of results
  };
  const auto times = [](int64_t n) {
    return std::vector<Tensor>{Tensor::scalar(n), zeros(DType::kF32, {256})};
  };
  // Stacks: of a known length, of one that the body decides, and scanned from behind.
  bounded(R"(graph g(%n: i64[], %x: f32[256]) -> (%all) {
  const %go: bool[] = true
  %last, %all = Loop(%n, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[256]) -> (%c, %t, %t) { %t = Add(%s, %s) })
})",
          times);
  bounded(R"(graph g(%n: i64[], %x: f32[256]) -> (%all) {
  const %go: bool[] = true
  %last, %all = Loop(%n, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[256]) -> (%d, %t, %t) {
      const %many: i64[] = 1000000
      %d = Less(%i, %many)
      %t = Add(%s, %s)
    })
})",
          times);
  bounded(R"(graph g(%n: f32[t], %x: f32[256]) -> (%all) {
  %all = Scan(%n, %x) {num_scan_inputs = 1, scan_output_directions = [1], scan_output_axes = [1]} captures 1 (
    graph body(%e: f32[], %x: f32[256]) -> (%t) { %t = Add(%x, %e) })
})",
          [](int64_t n) {
            return std::vector<Tensor>{zeros(DType::kF32, {n}), zeros(DType::kF32, {256})};
          });
  // A state that grows, and sequences: by a body, element by element, and all at once.
  bounded(R"(graph g(%n: i64[], %x: f32[m]) -> (%last) {
  const %go: bool[] = true
  %last = Loop(%n, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[k]) -> (%c, %t) {
      const %one: f32[256] = splat 1
      %t = Concat(%s, %one) {axis = 0}
    })
})",
          times);
  bounded(R"(graph g(%n: i64[], %x: f32[256]) -> (%last) {
  const %go: bool[] = true
  %none = SequenceEmpty() {dtype = 1}
  %last = Loop(%n, %go, %none, %x) {} captures 1 (
    graph body(%i: i64[], %c: bool[], %s: seq(f32[*]), %x: f32[256]) -> (%c, %t) {
      %t = SequenceInsert(%s, %x)
    })
})",
          times);
  bounded(R"(graph g(%n: f32[t], %x: f32[256]) -> (%made) {
  %parts = SplitToSequence(%n) {axis = 0}
  %made = SequenceMap(%parts, %x) {} captures 0 (
    graph body(%e: f32[1], %x: f32[256]) -> (%t) { %t = Add(%x, %e) })
})",
          [](int64_t n) {
            return std::vector<Tensor>{zeros(DType::kF32, {n}), zeros(DType::kF32, {256})};
          });
  const auto rows = [](int64_t n) { return std::vector<Tensor>{zeros(DType::kF32, {n, 256})}; };
  bounded("graph g(%x: f32[n, 256]) -> (%s) { %s = SplitToSequence(%x) {axis = 0} }", rows);
  bounded("graph g(%x: f32[n, 256]) -> (%y, %at) { %y, %first, %at = Unique(%x) }", rows);
}

TEST_CASE("ops/bombs: a loop that keeps little runs in little, however often it goes round") {
  CHECK(!refusal(R"(graph g(%n: i64[], %x: f32[256]) -> (%last) {
  const %go: bool[] = true
  %last = Loop(%n, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[256]) -> (%c, %t) {
      %places = NonZero(%s)
      %count = Shape(%places)
      %f = Cast(%count) {to = 1}
      %sum = ReduceSum(%f) {keepdims = 0}
      %t = Sub(%s, %sum)
    })
})",
                 {Tensor::scalar<int64_t>(2000), zeros(DType::kF32, {256})}, 1 << 16));
}

TEST_CASE("ops/bombs: a product of thousands of operands") {
  constexpr int64_t kOperands = 2000;
  CHECK(!refusal(fmt::format("graph g(%x: f32[3]) -> (%y) {{\n  %y = Einsum({}) {{equation = "
                             "\"{}->a\"}}\n}}",
                             joined(kOperands, "%x"), joined(kOperands, "a", ",")),
                 {zeros(DType::kF32, {3})}));
}

}  // namespace xc::test

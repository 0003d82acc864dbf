// Windows that slide, as exporters write them: Gather by constant indices. The result is a view
// whose elements overlap; whatever reads it has to cope, in every mode. Against the operators'
// references.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "support/sessions.h"

namespace xc::test {
namespace {

/// "[0, 1, 2, 1, 2, 3]": rows of `count` windows of `width`, `step` apart.
std::string windows(int64_t count, int64_t width, int64_t step) {
  std::string out;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < width; ++j)
      out += fmt::format("{}{}", out.empty() ? "[" : ", ", i * step + j);
  return out + "]";
}

/// With $I for such indices, dims [9, 8], of which the last is 31.
void check_readers(const std::string& text) {
  std::string full = text;
  const std::string indices = "const %i: i64[9, 8] = " + windows(9, 8, 3);
  full.replace(full.find("$I"), 2, indices);
  INFO(full);
  Graph written = parse_graph(full);
  run_pass(written, find_pass("infer-types"), {});
  Graph rewritten = written.clone();
  run_pass(rewritten, find_pass("canonicalise"), {});
  CHECK(print(rewritten).find("Unfold") != std::string::npos);
  const auto inputs = random_inputs(written, 5, 7);
  const auto expected = evaluate(written, inputs);
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
    for (const int64_t threads : {1, 3}) {
      Config config;
      config.jit = static_cast<int64_t>(mode);
      config.threads = threads;
      const auto session = testing::session_of(full, config);
      for (int turn = 0; turn < 2; ++turn)
        CHECK(difference(testing::run(*session, inputs), expected, 2e-5) == "");
    }
}

TEST_CASE("ops/unfold: sliding windows are views, read by everything") {
  check_readers(R"(graph g(%x: f32[n, 32]) -> (%y) { $I
    %y = Gather(%x, %i) {axis = 1}
  })");
  check_readers(R"(graph g(%x: f32[n, 32]) -> (%y, %z) { $I
    %w = Gather(%x, %i) {axis = 1}
    %e = Exp(%w)
    %y = Softmax(%e) {axis = -1}
    %z = ReduceSum(%w) {keepdims = 0}
  })");
  check_readers(R"(graph g(%x: f32[32], %m: f32[8, 40]) -> (%y) { $I
    %w = Gather(%x, %i) {axis = 0}
    %y = MatMul(%w, %m)
  })");
  check_readers(R"(graph g(%x: f32[n, 32], %m: f32[n, 9, 6]) -> (%y) { $I
    %w = Gather(%x, %i) {axis = 1}
    %t = Transpose(%w) {perm = [0, 2, 1]}
    %y = MatMul(%t, %m)
  })");
  check_readers(R"(graph g(%x: f32[n, 32], %k: f32[4, 9, 3]) -> (%y) { $I
    %w = Gather(%x, %i) {axis = 1}
    %y = Conv(%w, %k) {pads = [1, 1], kernel_shape = [3]}
  })");
  check_readers(R"(graph g(%x: f32[n, 3, 32], %k: f32[4, 9, 8]) -> (%y, %c, %z) { $I
    %w = Gather(%x, %i) {axis = -1}
    const %s: i64[3] = [-1, 9, 8]
    %r = Reshape(%w, %s)
    %y = Concat(%r, %r) {axis = 0}
    %c = Conv(%r, %k) {kernel_shape = [8]}
    %z = MaxPool(%r) {kernel_shape = [2]}
  })");
  check_readers(R"(graph g(%x: i64[n, 32], %t: f32[40, 4]) -> (%y) { $I
    %w = Gather(%x, %i) {axis = 1}
    %y = Gather(%t, %w) {axis = 0}
  })");
}

}  // namespace
}  // namespace xc::test

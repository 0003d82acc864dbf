#include "loop/text.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "loop/schedule.h"
#include "support/loop_kernels.h"
#include "support/paths.h"

using namespace xc;
using namespace xc::loop;

namespace {

// Compares with tests/golden/loop/<name>.loop; XC_BLESS=1 writes it.
void check_golden(const std::string& name, const std::string& text) {
  const std::string path = test::source_dir() + "/tests/golden/loop/" + name + ".loop";
  if (std::getenv("XC_BLESS")) {
    std::ofstream(path) << text;
    return;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  INFO("differs from " << path << "; run with XC_BLESS=1 to accept");
  CHECK(text == expected.str());
}

void check_round_trip(const Kernel& kernel) {
  const std::string text = print(kernel);
  CHECK(print(parse(text)) == text);
}

std::string parse_error(std::string_view text) {
  try {
    (void)parse(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("loop/text: example kernels print as recorded, built and scheduled") {
  const struct {
    const char* name;
    Kernel kernel;
  } cases[] = {
      {"gelu_chain", test::gelu_chain()},
      {"norm_chain", test::norm_chain()},
      {"masked_softmax", test::masked_softmax()},
      {"row_argmax", test::row_arg(AccOp::kArgMax)},
      {"flat_relu", test::flat_relu()},
      {"column_sum", test::column_sum()},
      {"gather_rows", test::gather_rows()},
      {"gram", jam(test::gram(), "r2", 2)},
      {"narrow_products", test::narrow_products()},
  };
  for (const auto& [name, kernel] : cases) {
    CAPTURE(name);
    const Kernel scheduled = schedule_default(kernel, {});
    check_golden(name, print(kernel) + "\n# scheduled\n" + print(scheduled));
    check_round_trip(kernel);
    check_round_trip(scheduled);
  }
}

TEST_CASE("loop/text: random kernels survive a round trip") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    check_round_trip(test::random_kernel(seed, seed % 2 == 1));
  }
}

TEST_CASE("loop/text: every construct parses") {
  const Kernel kernel = parse(R"(
    kernel all(n; s) {             # comment
      in x: f16[s]
      in t: f64[4, 1]
      in k: i32[1]
      inout y: f32[1]
      scratch r: i64[(n + 3)]
      let half: f32 = 0.5:f32
      for i = 0 .. min(n, 10) {
        let a: f64 = -1.5e-3:f64
        acc big: f64 argmax_last seq
        unroll(4) q = 1 .. 3 {
          big <- t[check(k[i], 7), -2*q + n - 1], q
        }
        %0 = (x[i] if (i < 5))
        y[i] = select((big.index > 1), (%0 * %0), inf:f32) if is_nan(half)
        r[i + 1] = cast<i64>((big + a))
        y[0] = bitcast<f32>((-7:i32 ^ cast<i32>(300:u16)))
      }
    })");
  check_round_trip(kernel);
}

TEST_CASE("loop/text: the tier of math functions") {
  const auto with = [](const char* words) {
    return "kernel a(n) " + std::string(words) +
           "{\n  in x: f32[1]\n  out y: f32[1]\n  for i = 0 .. n {\n    y[i] = exp(x[i])\n  }\n}\n";
  };
  CHECK(parse(with("math fast ")).accuracy == Accuracy::kFast);
  CHECK(parse(with("")).accuracy == Accuracy::kDefault);
  for (const char* words : {"", "math strict ", "math fast "}) {
    const Kernel kernel = parse(with(words));
    CHECK(print(kernel) == with(words));
    check_round_trip(schedule_default(kernel, {}));
  }
  CHECK(parse_error("kernel a(n) math quick {\n}") ==
        "loop text 1:24: expected default, strict or fast, found '{'");
}

TEST_CASE("loop/text: mistakes are reported with their place") {
  CHECK(parse_error("kernel a( {") == "loop text 1:11: expected a name, found '{'");
  CHECK(parse_error("kernel a() {\n  y[0] = 1\n}") == "loop text 2:3: 'y' starts no statement");
  CHECK(parse_error("kernel a() {\n out y: f33[1]\n}") == "loop text 2:9: unknown type 'f33'");
  CHECK(parse_error("kernel a() { out y: f32[1] y[0] = (1:f32 + 1) }") ==
        "loop text 1:42: add of f32 and i64: operands have one type");
  CHECK(parse_error("kernel a() { out y: f32[1] y[0] = exp(1) }") ==
        "loop text 1:35: exp wants f32 or f64, not i64");
  CHECK(parse_error("kernel a() { out y: f32[1] y[0] = %3 }") ==
        "loop text 1:35: '%3' is not defined before this statement");
  CHECK(parse_error("kernel a() { out y: f32[1] y[0] = " + std::string(500, '(')) ==
        "loop text 1:234: nested too deeply");
}

TEST_CASE("loop/text: temporaries make no expression that cannot be walked") {
  const auto chain = [](int length, const char* next) {
    std::string text = "kernel a() {\n  out y: f32[1]\n  %0 = 1:f32\n";
    for (int k = 1; k < length; ++k)
      text += fmt::format(fmt::runtime(next), fmt::arg("k", k), fmt::arg("last", k - 1));
    return text + fmt::format("  y[0] = %{}\n}}\n", length - 1);
  };
  const char* const deeper = "  %{k} = (%{last} + %{last})\n";
  CHECK(parse_error(chain(400'000, deeper)).find("an expression deeper than 2000") !=
        std::string::npos);
  CHECK(parse_error(chain(2002, deeper)) != "");
  check_round_trip(parse(chain(1500, deeper)));
  CHECK(parse_error(chain(400'000, "  %{k} = 2:f32\n")).find("more than 20000 operations") !=
        std::string::npos);
}

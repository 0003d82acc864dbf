// Division of integers and conversions between integers and floats, in vectors: the interpreter's
// bits at the ends of every type, and no scalar code for each lane.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/evaluate.h"
#include "loop/schedule.h"
#include "loop/text.h"

using namespace xc;
using namespace xc::loop;
using test::Buffers;
using test::Problem;

namespace {

constexpr int64_t kCount = 4999;
constexpr std::array kIntegers = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"};

// Numbers of any length, and some next to a power of two.
uint64_t any_integer(std::mt19937_64& random) {
  const uint64_t some = random() >> random() % 64;
  const uint64_t near = (uint64_t{1} << random() % 64) + random() % 5 - 2;
  const uint64_t magnitude = random() % 3 == 0 ? near : some;
  return random() % 2 ? magnitude : 0 - magnitude;
}

template <class T>
T any_float(std::mt19937_64& random) {
  constexpr T kSpecials[] = {T{0},
                             T{-0.0},
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::lowest()};
  switch (random() % 4) {
    case 0:
      return kSpecials[random() % std::size(kSpecials)];
    case 1: {  // next to a bound of some type
      T x = std::ldexp(T{1}, static_cast<int>(random() % 70));
      for (uint64_t steps = random() % 3; steps > 0; --steps)
        x = std::nextafter(x, random() % 2 ? T{0} : std::numeric_limits<T>::max());
      return random() % 2 ? x : -x;
    }
    default:
      return std::ldexp(static_cast<T>(static_cast<int64_t>(random())),
                        -static_cast<int>(random() % 64));
  }
}

uint64_t any_value(DType type, std::mt19937_64& random) {
  if (type == DType::kF32) return std::bit_cast<uint32_t>(any_float<float>(random));
  if (type == DType::kF64) return std::bit_cast<uint64_t>(any_float<double>(random));
  return any_integer(random);
}

// A kernel over one dimension, on every target.
void check_bits(const std::string& text) {
  CAPTURE(text);
  const Kernel kernel = parse(text), scheduled = schedule_default(kernel, {});
  const Problem problem{{kCount}, {}, std::vector<size_t>(kernel.param_count(), kCount)};
  const auto fill = [&](Buffers& buffers) {
    std::mt19937_64 random(5);
    for (size_t i = 0; i < kernel.param_count(); ++i) {
      const DType type = kernel.buffers[i].type;
      const auto size = static_cast<size_t>(element_size(type));
      if (kernel.buffers[i].access == Access::kIn)
        for (size_t k = 0; k < kCount; ++k)
          store_element(type, buffers.data(i) + k * size, any_value(type, random));
    }
  };
  const Range range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
  for (const std::string& target : test::compared_targets()) {
    CAPTURE(target);
    Buffers expected(kernel, problem, 17, false), got(scheduled, problem, 17, false);
    fill(expected);
    fill(got);
    REQUIRE(interpret(kernel, expected.args(0, 0), test::math_of(target)) == 0);
    const test::Compiled code(scheduled, target);
    CHECK(code.run(got, range.begin, range.end) == 0);
    CHECK(test::difference(kernel, got, expected) == "");
  }
}

// How many scalar divisions and conversions the code of a vector loop without a rest has.
size_t scalar_instructions(const std::string& body, const std::string& from, const std::string& to,
                           const char* target) {
  const std::string text = fmt::format(R"(kernel vectors() {{
      in x: {0}[1]
      in v: {0}[1]
      out y: {1}[1]
      vector({2}) i = 0 .. 1024 {{
        {3}
      }}
    }})",
                                       from, to, kReductionLanes, body);
  CAPTURE(text);
  const auto result = test::jit(text, target, XC_JIT_WANT_ASSEMBLY);
  REQUIRE(result.error == "");
  size_t count = 0;
  for (const std::string name :
       {"\tdivb", "\tdivw", "\tdivl", "\tdivq", "\tidiv", "ss2si", "sd2si", "si2ss", "si2sd"})
    for (size_t at = 0; (at = result.assembly.find(name, at)) != std::string::npos; ++at) ++count;
  return count;
}

bool is_wide(std::string_view type) {
  return type == "i64" || type == "u64";
}

}  // namespace

TEST_CASE("codegen/integers: quotients, rests and moduli, of zero and of the least number too") {
  for (const char* type : kIntegers)
    check_bits(fmt::format(R"(
      kernel divide(n) {{
        in x: {0}[1]
        in v: {0}[1]
        in few: {0}[1]
        out quotient: {0}[1]
        out rest: {0}[1]
        out modulo: {0}[1]
        out small: {0}[1]
        out by_one: {0}[1]
        for i = 0 .. n {{
          quotient[i] = (x[i] / v[i])
          rest[i] = rem(x[i], v[i])
          modulo[i] = mod(x[i], v[i])
          small[i] = (mod(x[i], (few[i] & 7:{0})) + (x[i] / (few[i] & 7:{0})))
          by_one[i] = (mod(x[i], ((few[i] & 2:{0}) - 1:{0})) + (x[i] / ((few[i] & 2:{0}) - 1:{0})))
        }}
      }})",
                           type));
}

TEST_CASE("codegen/integers: quotients, rests and moduli by constants") {
  for (const char* type : kIntegers)
    for (const int64_t by : {1, 2, 3, 7, 64, 100, -1, -5, 0}) {
      if (by < 0 && type[0] == 'u') continue;
      check_bits(fmt::format(R"(
        kernel divide(n) {{
          in x: {0}[1]
          out quotient: {0}[1]
          out rest: {0}[1]
          out modulo: {0}[1]
          for i = 0 .. n {{
            quotient[i] = (x[i] / {1}:{0})
            rest[i] = rem(x[i], {1}:{0})
            modulo[i] = mod(x[i], {1}:{0})
          }}
        }})",
                             type, by));
    }
}

TEST_CASE("codegen/integers: floats become integers, saturated, NaN 0, next to every bound") {
  for (const char* from : {"f32", "f64", "f16", "bf16"})
    for (const char* to : kIntegers)
      check_bits(fmt::format(R"(
        kernel cast(n) {{
          in x: {0}[1]
          out y: {1}[1]
          out z: {1}[1]
          for i = 0 .. n {{
            y[i] = cast<{1}>(x[i])
            z[i] = cast<{1}>(round(x[i]))
          }}
        }})",
                             from, to));
}

TEST_CASE("codegen/integers: integers become floats, rounded once") {
  for (const char* from : kIntegers)
    for (const char* to : {"f32", "f64"})
      check_bits(fmt::format(R"(
        kernel cast(n) {{
          in x: {0}[1]
          out y: {1}[1]
          for i = 0 .. n {{
            y[i] = cast<{1}>(x[i])
          }}
        }})",
                             from, to));
}

TEST_CASE("codegen/integers: vectors are not divided or converted lane by lane") {
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    for (const char* type : kIntegers) {
      CAPTURE(target);
      CAPTURE(type);
      const bool avx512 = target == std::string_view("x86-64-v4");
      // Left to a loop over lanes, which is written once: what has 64 bits, before AVX-512.
      const size_t written = is_wide(type) && !avx512 ? 1 : 0;
      CHECK(scalar_instructions("y[i] = (x[i] / v[i])", type, type, target) == written);
      CHECK(scalar_instructions("y[i] = mod(x[i], v[i])", type, type, target) == written);
      for (const char* real : {"f32", "f64"}) {
        const auto cast = [](const char* to) { return fmt::format("y[i] = cast<{}>(x[i])", to); };
        const size_t most = 3 * written;  // for signs
        CHECK(scalar_instructions(cast(type), real, type, target) <= most);
        CHECK(scalar_instructions(cast(real), type, real, target) <= most);
      }
    }
}

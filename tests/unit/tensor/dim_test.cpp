#include "tensor/dim.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "base/error.h"

using namespace xc;

namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

}  // namespace

TEST_CASE("tensor/dim: the least integer by -1 has no quotient and no remainder") {
  const Dim n = Dim::symbol("n", true), m = Dim::symbol("m", true);
  CHECK_THROWS_AS(floor_div(Dim(kLeast), Dim(-1)), Error);
  CHECK(modulo(Dim(kLeast), Dim(-1)) == Dim(0));
  CHECK(floor_div(n, Dim(-1)) == Dim(-1) * n);
  CHECK(modulo(n * Dim(kLeast), Dim(-1)) == Dim(0));
  CHECK_THROWS_AS(floor_div(n * m * Dim(kLeast), m * Dim(-1)), Error);
  // As a run's numbers.
  const Dim quotient = floor_div(n, m), rest = modulo(n, m);
  const auto value = [](const Dim& d, int64_t a, int64_t b) {
    return d.evaluate([&](const std::string& name) { return std::optional(name == "n" ? a : b); });
  };
  CHECK_THROWS_AS(value(quotient, kLeast, -1), Error);
  CHECK(value(rest, kLeast, -1) == 0);
  CHECK(value(quotient, -7, 2) == -4);
  CHECK(value(rest, -7, 2) == 1);
  CHECK(value(quotient, 7, -1) == -7);
  CHECK(value(rest, 7, -1) == 0);
  const auto number = [](const std::string& name) { return name == "n" ? 0u : 1u; };
  const DimProgram divide({quotient}, number), remain({rest}, number);
  const int64_t least[] = {kLeast, -1}, plain[] = {-7, 2};
  int64_t out = 0;
  CHECK_THROWS_AS(divide.run(least, &out), Error);
  remain.run(least, &out);
  CHECK(out == 0);
  divide.run(plain, &out);
  CHECK(out == -4);
  remain.run(plain, &out);
  CHECK(out == 1);
}

TEST_CASE("tensor/dim: divisors of multiples, sums and of the least number") {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  CHECK(Dim(12).divisor() == 12);
  CHECK(Dim(-12).divisor() == 12);
  CHECK((n * 8 + m * 12).divisor() == 4);
  CHECK(Dim(INT64_MIN).divisor() == int64_t{1} << 62);
  CHECK((n * INT64_MIN + m * 24).divisor() == 8);
}

TEST_CASE("tensor/dim: operators of other languages are no part of a name") {
  for (const char* text :
       {"n/0", "n//-1", "n%0", "n<2", "n[", "n[]", "n[-1]", "n[0]m", "[0]", "n:1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Dim::parse(text), Error);
  }
  for (const char* name : {"n", "?0", "x.1", "n!", "u[12]"}) {
    CAPTURE(name);
    CHECK(Dim::parse(name).as_symbol() == name);
  }
  CHECK(Dim::parse("2 * u[0] + 1").text() == "1+2*u[0]");
}

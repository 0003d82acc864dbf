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

TEST_CASE("tensor/dim: products, sums and quotients of what is at least 0 are") {
  const Dim h = Dim::symbol("h"), w = Dim::symbol("w"), k = Dim::symbol("k", true);
  // Windows of 7 and stride 4 over an image padded by 3: at least none.
  const Dim rows = Dim(1) + floor_div(h - 1, 4), columns = Dim(1) + floor_div(w - 1, 4);
  const Dim area = rows * columns;
  CHECK(area.lower_bound() == 0);
  CHECK((Dim(16) * area + Dim(2)).lower_bound() == 2);
  CHECK(floor_div(area, rows + columns).lower_bound() == 0);
  CHECK(max(Dim(0), area) == area);
  CHECK(min(Dim(-1), area) == Dim(-1));
  CHECK((Dim(3) - area).upper_bound() == 3);
  CHECK(min(Dim(2) - area, Dim(3)) == Dim(2) - area);
  // The same written out: what nobody told is not known, and they are equal all the same.
  const Dim parsed = Dim::parse(area.text());
  CHECK(parsed == area);
  CHECK(!(rows * k).lower_bound());
  CHECK((rows - columns).lower_bound() == std::nullopt);
}

TEST_CASE("tensor/dim: the size of an axis is at least 0, whatever its expression is") {
  const Dim t = Dim::symbol("t"), k = Dim::symbol("k", true);
  const Dim length = floor_div(t, 5) - 1;  // windows of 10 and stride 5
  CHECK(length.lower_bound() == -1);
  const Dim size = as_size(length);
  CHECK(size == length);
  CHECK(size.text() == length.text());
  CHECK(size.lower_bound() == 0);
  CHECK(length.lower_bound() == -1);
  CHECK((size * Dim(768)).lower_bound() == 0);
  CHECK(floor_div(size - 1, 2).lower_bound() == -1);
  CHECK(max(Dim(0), as_size(k)) == k);
  CHECK(max(Dim(0), k) != k);
  CHECK(as_size(Dim(-1)) == Dim(-1));
  CHECK(as_size(Dim(3)).value() == 3);
  // Under other names it still is one.
  const auto rename = [](const std::string&) { return std::optional(Dim::symbol("s0")); };
  CHECK(size.substitute(rename).lower_bound() == 0);
  CHECK(length.substitute(rename).lower_bound() == -1);
}

TEST_CASE("tensor/dim: sums divide sums where nothing is left") {
  const Dim b = Dim::symbol("b"), x = Dim::symbol("x"), y = Dim::symbol("y");
  const Dim area = (x + 1) * (y + 1);
  CHECK(floor_div(Dim(16) * b * area, Dim(8) * b * area) == Dim(2));
  CHECK(floor_div(b * area, x + 1) == b * (y + 1));
  CHECK(floor_div(area, Dim(-1) * (y + 1)) == Dim(-1) * (x + 1));
  CHECK(floor_div((x + y) * (x - y), x + y) == x - y);
  CHECK(floor_div(x * y * kLeast, y) == x * kLeast);
  // A rest stays a division: of 7 by 2, and of 3 by 3.
  for (const Dim& d : {floor_div(area + 1, x + 1), floor_div(Dim(3) * area, Dim(2) * area)}) {
    CHECK(!d.is_constant());
    CHECK(d.text().starts_with("floordiv("));
  }
  const auto at = [&](const std::string& name) {
    return std::optional<int64_t>(name == "x" ? 1 : 2);
  };
  CHECK(floor_div(area + 1, x + 1).evaluate(at) == 3);
  CHECK(floor_div(Dim(3) * area, Dim(2) * area).evaluate(at) == 1);
}

TEST_CASE("tensor/dim: constants beside sizes have to leave them room in a type") {
  constexpr int64_t kI32 = std::numeric_limits<int32_t>::max(), kF32 = 1 << 24;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m"), at = Dim::symbol("at", true);
  const auto fits = [](const Dim& d, int64_t high) { return d.stays_within(-high - 1, high); };
  for (const Dim& d : {n, n * m, n * m * 50176, n * 150528, n - m, floor_div(n * 300, Dim(7)),
                       min(n, Dim(kI32)), max(n * 2, m - 5), (n + 1) * (m + 1), at}) {
    CAPTURE(d.text());
    CHECK(fits(d, kI32));
  }
  for (const Dim& d : {n * (1 << 20), n + kI32, n * m - kI32 - 1, max(n, Dim(kI32)) + 1,
                       floor_div(n * (int64_t{1} << 40), Dim(3)), at + 1, at * 2}) {
    CAPTURE(d.text());
    CHECK(!fits(d, kI32));
    CHECK(d.stays_within(INT64_MIN, INT64_MAX));
  }
  for (const Dim& truth : {n, 1 - n, min(n, 1 - m), max(n - m, m - n)})
    CHECK(truth.stays_within(0, 1));
  CHECK(fits(n * m * 300, kF32));
  CHECK(!fits(n * 8193, kF32));
}

TEST_CASE("tensor/dim: the remainder of a division by a size is no larger") {
  const Dim n = Dim::symbol("n"), p = Dim::symbol("p", true);
  for (const Dim& x : {Dim(-1), Dim(3), p, p * n}) {
    const Dim r = modulo(x, n);
    CHECK(r.lower_bound() == 0);
    CHECK(min(r, n) == r);
    CHECK(max(n - r, Dim(0)) == n - r);
    CHECK((n - r).lower_bound() == 0);
    CHECK((Dim(2) * n - r - modulo(p, n)).lower_bound() == 0);
    CHECK((n - modulo(x, n + Dim(1))).lower_bound() == 0);
    const auto zero = [](const std::string& name) {
      return std::optional<int64_t>(name == "n" ? 0 : -7);
    };
    CHECK(r.evaluate(zero) == 0);  // what Mod by 0 gives
    CHECK((n - r).evaluate(zero) == 0);
    CHECK_FALSE(
        (r - n * n).upper_bound());  // n-1-n*n: what products are by other terms is not told
    CHECK_FALSE((n + r).upper_bound());
    CHECK(min(r, Dim(2)) != r);
  }
  CHECK_FALSE(modulo(n, p).lower_bound());  // a negative divisor has remainders that are at most 0
}

TEST_CASE("tensor/dim: remainders by remainders are bounded in no time that grows with each") {
  Dim nested = Dim::symbol("n"), sum = nested;
  for (int k = 0; k < 60; ++k) {
    nested = modulo(Dim::symbol("s" + std::to_string(k)), nested);
    CHECK(nested.lower_bound() == 0);
    CHECK((Dim::symbol("n") - nested).upper_bound() == std::nullopt);
  }
  for (int k = 0; k < 9; ++k) {  // each twice as long as the one before
    sum = sum + modulo(Dim::symbol("s" + std::to_string(k)), sum);
    CHECK(sum.lower_bound() == 0);
    CHECK_FALSE(sum.upper_bound());
  }
}

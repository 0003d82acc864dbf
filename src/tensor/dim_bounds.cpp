// What is known of the value of a dim whatever its symbols are: bounds, which follow from the facts
// of the symbols and of sizes through every function, and a constant divisor. Unknown is an answer;
// a guess is none.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tensor/dim_node.h"

namespace xc {
namespace {

std::optional<int64_t> try_mul(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t out = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}
std::optional<int64_t> try_add(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t out = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

/// Of a division by what is at least 0. By 0 it is 0.
Dim largest_remainder(const Dim& divisor) {
  return divisor.lower_bound().value_or(0) >= 1 ? divisor - Dim(1) : divisor;
}

DimBounds bounds_of(const Atom& atom) {
  if (atom.kind == Atom::Kind::kSymbol) {
    if (atom.can_be_negative) return {};
    return {0, std::nullopt};
  }
  const DimBounds a = bounds_of(atom.a), b = bounds_of(atom.b);
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv: {
      DimBounds out;
      if (b.low && *b.low >= 1) {
        if (a.low) out.low = *a.low >= 0 ? 0 : *a.low;
        if (a.low && *a.low >= 0 && b.high) out.low = *a.low / *b.high;
        if (a.high) out.high = *a.high >= 0 ? *a.high / *b.low : -1;
      }
      return out;
    }
    case Atom::Kind::kMod:
      if (b.low && *b.low >= 0) return {0, largest_remainder(atom.b).upper_bound()};
      return {};
    case Atom::Kind::kMin: {
      DimBounds out;
      if (a.low && b.low) out.low = std::min(*a.low, *b.low);
      if (a.high && b.high)
        out.high = std::min(*a.high, *b.high);
      else
        out.high = a.high ? a.high : b.high;
      return out;
    }
    case Atom::Kind::kMax: {
      DimBounds out;
      if (a.low && b.low)
        out.low = std::max(*a.low, *b.low);
      else
        out.low = a.low ? a.low : b.low;
      if (a.high && b.high) out.high = std::max(*a.high, *b.high);
      return out;
    }
    case Atom::Kind::kBroadcast: {
      DimBounds out;
      if (a.low && b.low)
        out.low = *a.low >= 1 && *b.low >= 1 ? std::max(*a.low, *b.low) : std::min(*a.low, *b.low);
      if (a.high && b.high) out.high = std::max(*a.high, *b.high);
      return out;
    }
    case Atom::Kind::kSymbol:
      break;
  }
  return {};
}

}  // namespace

DimBounds bounds_of(const Dim& d) {
  const DimBounds* known = DimAccess::bounds(d);
  return known ? *known : DimBounds{d.value(), d.value()};
}

DimBounds bounds_of_sum(const DimBounds& a, const DimBounds& b) {
  return {try_add(a.low, b.low), try_add(a.high, b.high)};
}

DimBounds bounds_of_product(const DimBounds& a, const DimBounds& b) {
  const auto is_number = [](const DimBounds& d) { return d.low && d.high && *d.low == *d.high; };
  if (is_number(b) && !is_number(a)) return bounds_of_product(b, a);
  const DimBounds product{try_mul(a.low, b.low), try_mul(a.high, b.high)};
  if (is_number(a))
    return *a.low >= 0 ? product : DimBounds{try_mul(a.low, b.high), try_mul(a.high, b.low)};
  // Others are bounded only where both are known to be non-negative.
  return a.low && *a.low >= 0 && b.low && *b.low >= 0 ? product : DimBounds{};
}

namespace {

bool is_remainder(const Monomial& monomial) {
  return monomial.atoms.size() == 1 && monomial.atoms[0]->kind == Atom::Kind::kMod;
}
/// The remainder of a division by what is at least 0 and no sum of remainders itself: what these
/// may come to would be asked for again and again, four times as often with each division in one.
const Atom* as_remainder(const Monomial& monomial) {
  if (!is_remainder(monomial)) return nullptr;
  const Atom* const atom = monomial.atoms[0].get();
  const Sum* const divisor = DimAccess::sum(atom->b);
  const bool nested = divisor && std::ranges::any_of(*divisor, [](const auto& term) {
                        return is_remainder(term.first);
                      });
  return !nested && bounds_of(atom->b).low.value_or(-1) >= 0 ? atom : nullptr;
}

/// What the sum is at most or at least, with remainders as large or small as they get: 0 to what
/// other terms may cancel.
Dim extreme(const Sum& sum, bool largest) {
  Dim out = 0;
  for (const auto& [monomial, factor] : sum) {
    if (const Atom* of = as_remainder(monomial))
      out = (factor > 0) == largest ? out + Dim(factor) * largest_remainder(of->b) : out;
    else
      out = out + DimAccess::make({{monomial, factor}});
  }
  return out;
}

}  // namespace

DimBounds bounds_of(const Sum& sum) {
  if (sum.size() > 1 && std::ranges::any_of(sum, [](const auto& term) {
        return as_remainder(term.first) != nullptr;
      }))
    return {bounds_of(extreme(sum, false)).low, bounds_of(extreme(sum, true)).high};
  DimBounds total{0, 0};
  for (const auto& [monomial, factor] : sum) {
    DimBounds term{1, 1};
    for (const AtomRef& atom : monomial.atoms) term = bounds_of_product(term, bounds_of(*atom));
    total = bounds_of_sum(total, bounds_of_product({factor, factor}, term));
  }
  return total;
}

std::optional<int64_t> Dim::lower_bound() const {
  return bounds_of(*this).low;
}
std::optional<int64_t> Dim::upper_bound() const {
  return bounds_of(*this).high;
}

bool Dim::of_sizes() const {
  if (!node_) return true;
  const auto is_of_sizes = [](const AtomRef& atom) {
    return atom->kind == Atom::Kind::kSymbol ? !atom->can_be_negative
                                             : atom->a.of_sizes() && atom->b.of_sizes();
  };
  return std::all_of(node_->sum.begin(), node_->sum.end(), [&](const auto& term) {
    return std::all_of(term.first.atoms.begin(), term.first.atoms.end(), is_of_sizes);
  });
}

namespace {

/// What a size, or a product of sizes, may come to beside a constant for stays_within(). Large
/// enough that a constant nobody wrote for a size (the greatest i32 as an end, 2^20 as a factor)
/// leaves the type, and small enough that the areas of images which exporters multiply a batch by
/// in i32 do not.
constexpr double kOrdinarySize = 1 << 12;

double magnitude_of(const Dim& d, double of_size);

double magnitude_of(const Atom& atom, double of_size) {
  if (atom.kind == Atom::Kind::kSymbol) return of_size;
  const double a = magnitude_of(atom.a, of_size), b = magnitude_of(atom.b, of_size);
  const std::optional<int64_t> least_a = atom.a.lower_bound(), least_b = atom.b.lower_bound();
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      return least_b && *least_b > 1 ? std::ceil(a / static_cast<double>(*least_b)) : a;
    case Atom::Kind::kMod:
      return b;
    case Atom::Kind::kMin:
      if (least_a.value_or(-1) >= 0 && least_b.value_or(-1) >= 0) return std::min(a, b);
      [[fallthrough]];
    default:
      return std::max(a, b);
  }
}

/// How far from 0 an expression gets where every size, and product of sizes, is `of_size`.
double magnitude_of(const Dim& d, double of_size) {
  const Sum* sum = DimAccess::sum(d);
  if (!sum) return std::abs(static_cast<double>(d.value()));
  double total = 0;
  for (const auto& [monomial, factor] : *sum) {
    double largest = monomial.atoms.empty() ? 1 : 0;
    for (const AtomRef& atom : monomial.atoms)
      largest = std::max(largest, magnitude_of(*atom, of_size));
    total += std::abs(static_cast<double>(factor)) * largest;
  }
  return total;
}

}  // namespace

bool Dim::stays_within(int64_t low, int64_t high) const {
  const DimBounds bounds = bounds_of(*this);
  if (bounds.low.value_or(INT64_MIN) >= low && bounds.high.value_or(INT64_MAX) <= high) return true;
  if (!node_) return false;
  if (of_sizes()) {
    // Types narrower than an ordinary size hold truths alone, which pass for sizes.
    const double of_size = std::min(kOrdinarySize, static_cast<double>(high / 2));
    return magnitude_of(*this, of_size) <= static_cast<double>(high);
  }
  const auto& [monomial, factor] = *node_->sum.begin();
  if (node_->sum.size() != 1 || factor != 1 || monomial.atoms.size() != 1) return false;
  const Atom& atom = *monomial.atoms[0];
  if (atom.kind == Atom::Kind::kSymbol) return true;
  return (atom.kind == Atom::Kind::kMin || atom.kind == Atom::Kind::kMax) &&
         atom.a.stays_within(low, high) && atom.b.stays_within(low, high);
}

int64_t Dim::divisor() const {
  // Of the least number the largest divisor there is a number for.
  const auto magnitude = [](int64_t v) { return v == INT64_MIN ? int64_t{1} << 62 : std::abs(v); };
  if (!node_) return magnitude(constant_);
  int64_t common = 0;
  for (const auto& [monomial, factor] : node_->sum) common = std::gcd(common, magnitude(factor));
  return common;
}

}  // namespace xc

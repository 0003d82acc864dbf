// The normal form of dims and the arithmetic that keeps it: every function here takes dims in
// normal form and gives one, simplified as far as the rules below and the bounds of the operands
// allow.

#include "tensor/dim.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/dim_node.h"

namespace xc {

namespace {

/// Expressions whose operands are alike double with each step, and whoever walks them recurses.
constexpr size_t kMostText = 32 << 10;

}  // namespace

Dim DimAccess::make(Sum sum) {
  Dim out;
  if (sum.empty()) return out;
  if (sum.size() == 1 && sum.begin()->first.atoms.empty()) {
    out.constant_ = sum.begin()->second;
    return out;
  }
  auto node = std::make_shared<Dim::Node>();
  node->key = sum_text(sum);
  if (node->key.size() > kMostText)
    fail(Status::kLimit, "a size of more than {} characters as an expression", kMostText);
  node->bounds = bounds_of(sum);
  node->sum = std::move(sum);
  out.node_ = std::move(node);
  return out;
}

Dim DimAccess::within(Dim d, const DimBounds& bounds) {
  if (!d.node_) return d;
  const DimBounds& known = d.node_->bounds;
  const bool higher = bounds.low && (!known.low || *bounds.low > *known.low);
  const bool lower = bounds.high && (!known.high || *bounds.high < *known.high);
  if (!higher && !lower) return d;
  auto node = std::make_shared<Dim::Node>(*d.node_);
  if (higher) node->bounds.low = bounds.low;
  if (lower) node->bounds.high = bounds.high;
  d.node_ = std::move(node);
  return d;
}

namespace {

/// Of one expression: products of sums grow exponentially.
constexpr size_t kMaxTerms = 1024;
constexpr size_t kMostFactors = 64;  // of one term

Monomial monomial_of(std::vector<AtomRef> atoms) {
  std::sort(atoms.begin(), atoms.end(),
            [](const AtomRef& x, const AtomRef& y) { return x->key < y->key; });
  Monomial out;
  out.key = product_text(atoms);
  out.atoms = std::move(atoms);
  return out;
}

Sum sum_of(const Dim& d) {
  if (const Sum* sum = DimAccess::sum(d)) return *sum;
  Sum out;
  if (d.value() != 0) out[Monomial{}] = d.value();
  return out;
}

void add_term(Sum& sum, const Monomial& monomial, int64_t factor) {
  if (factor == 0) return;
  auto [it, inserted] = sum.try_emplace(monomial, factor);
  if (inserted) return;
  it->second = checked_add(it->second, factor);
  if (it->second == 0) sum.erase(it);
}

Dim from_atom(AtomRef atom) {
  Sum sum;
  sum[monomial_of({std::move(atom)})] = 1;
  return DimAccess::make(std::move(sum));
}

Dim function_atom(Atom::Kind kind, const char* name, const Dim& a, const Dim& b) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->a = a;
  atom->b = b;
  atom->key = function_text(name, a, b);
  return from_atom(std::move(atom));
}

}  // namespace

Dim Dim::symbol(std::string name, bool can_be_negative) {
  auto atom = std::make_shared<Atom>();
  atom->can_be_negative = can_be_negative;
  atom->name = name;
  atom->key = std::move(name);
  return from_atom(std::move(atom));
}

int64_t Dim::value() const {
  if (node_) fail(Status::kInternal, "dim {} is not a constant", text());
  return constant_;
}

std::optional<std::string> Dim::as_symbol() const {
  if (!node_ || node_->sum.size() != 1) return std::nullopt;
  const auto& [monomial, factor] = *node_->sum.begin();
  if (factor != 1 || monomial.atoms.size() != 1) return std::nullopt;
  if (monomial.atoms[0]->kind != Atom::Kind::kSymbol) return std::nullopt;
  return monomial.atoms[0]->name;
}

bool operator==(const Dim& a, const Dim& b) {
  if (!a.node_ || !b.node_) return !a.node_ && !b.node_ && a.constant_ == b.constant_;
  return a.node_ == b.node_ || a.node_->key == b.node_->key;
}

Dim Dim::substitute(const Rename& rename) const {
  if (!node_) return *this;
  Dim total;
  for (const auto& [monomial, factor] : node_->sum) {
    Dim product(factor);
    for (const AtomRef& atom : monomial.atoms) {
      Dim v;
      if (atom->kind == Atom::Kind::kSymbol) {
        const auto replaced = rename(atom->name);
        v = replaced ? *replaced : symbol(atom->name, atom->can_be_negative);
      } else {
        const Dim a = atom->a.substitute(rename), b = atom->b.substitute(rename);
        switch (atom->kind) {
          case Atom::Kind::kFloorDiv:
            v = floor_div(a, b);
            break;
          case Atom::Kind::kMod:
            v = modulo(a, b);
            break;
          case Atom::Kind::kMin:
            v = min(a, b);
            break;
          case Atom::Kind::kBroadcast:
            v = broadcast(a, b);
            break;
          default:
            v = max(a, b);
            break;
        }
      }
      product = product * v;
    }
    total = total + product;
  }
  // What only the facts of the symbols tell is told by those that replace them.
  const DimBounds by_terms = bounds_of(node_->sum);
  DimBounds told = node_->bounds;
  if (told.low == by_terms.low) told.low.reset();
  if (told.high == by_terms.high) told.high.reset();
  return DimAccess::within(total, told);
}

void Dim::collect_symbols(std::vector<std::string>& out) const {
  if (!node_) return;
  for (const auto& [monomial, factor] : node_->sum)
    for (const AtomRef& atom : monomial.atoms) {
      if (atom->kind == Atom::Kind::kSymbol) {
        if (std::find(out.begin(), out.end(), atom->name) == out.end()) out.push_back(atom->name);
      } else {
        atom->a.collect_symbols(out);
        atom->b.collect_symbols(out);
      }
    }
}

Dim as_size(const Dim& d) {
  return DimAccess::within(d, {0, std::nullopt});
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.value(), b.value());
  Sum sum = sum_of(a);
  for (const auto& [monomial, factor] : sum_of(b)) add_term(sum, monomial, factor);
  return DimAccess::within(DimAccess::make(std::move(sum)),
                           bounds_of_sum(bounds_of(a), bounds_of(b)));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.value(), b.value());
  Sum out;
  const Sum x = sum_of(a), y = sum_of(b);
  if (x.size() * y.size() > kMaxTerms)
    fail(Status::kLimit, "dim expression of more than {} terms", kMaxTerms);
  for (const auto& [mx, fx] : x)
    for (const auto& [my, fy] : y) {
      if (mx.atoms.size() + my.atoms.size() > kMostFactors)
        fail(Status::kLimit, "a size that is a product of more than {}", kMostFactors);
      std::vector<AtomRef> atoms = mx.atoms;
      atoms.insert(atoms.end(), my.atoms.begin(), my.atoms.end());
      add_term(out, monomial_of(std::move(atoms)), checked_mul(fx, fy));
    }
  return DimAccess::within(DimAccess::make(std::move(out)),
                           bounds_of_product(bounds_of(a), bounds_of(b)));
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + Dim(-1) * b;
}

namespace {

// (floordiv(x, c) + r) / d = (x + r c) / (c d) for positive constants c and d.
std::optional<Dim> merge_divisions(const Dim& a, int64_t d) {
  const Sum* sum = DimAccess::sum(a);
  if (!sum || d <= 0 || sum->size() > 2) return std::nullopt;
  const Atom* inner = nullptr;
  int64_t rest = 0;
  for (const auto& [monomial, factor] : *sum) {
    if (monomial.atoms.empty())
      rest = factor;
    else if (factor == 1 && monomial.atoms.size() == 1 && !inner)
      inner = monomial.atoms[0].get();
    else
      return std::nullopt;
  }
  if (!inner || inner->kind != Atom::Kind::kFloorDiv) return std::nullopt;
  const auto c = inner->b.constant();
  int64_t both = 0;
  if (!c || *c <= 0 || __builtin_mul_overflow(*c, d, &both)) return std::nullopt;
  if (__builtin_mul_overflow(rest, *c, &rest)) return std::nullopt;
  return floor_div(inner->a + Dim(rest), Dim(both));
}

// The operands of an expression that is one min().
std::optional<std::pair<Dim, Dim>> min_operands(const Dim& d) {
  const Sum* sum = DimAccess::sum(d);
  if (!sum || sum->size() != 1 || sum->begin()->second != 1) return std::nullopt;
  const auto& atoms = sum->begin()->first.atoms;
  if (atoms.size() != 1 || atoms[0]->kind != Atom::Kind::kMin) return std::nullopt;
  return std::pair(atoms[0]->a, atoms[0]->b);
}

// min(c, x) with c >= 2 broadcasts against x only where it is x.
bool is_cut_of(const Dim& cut, const Dim& x) {
  const auto operands = min_operands(cut);
  if (!operands) return false;
  const auto& [a, b] = *operands;
  const Dim& other = a == x ? b : a;
  if (a != x && b != x) return false;
  return bounds_of(other).low.value_or(0) >= 2;
}

// The multiples of the divisor are split off: (c*x + r) / c = x + r / c.
Dim divided_by_number(const Dim& a, const Dim& b) {
  const int64_t c = b.value();
  Sum whole, rest;
  for (const auto& [monomial, factor] : sum_of(a)) {
    if (factor % c == 0)
      add_term(whole, monomial, factor / c);
    else
      add_term(rest, monomial, factor);
  }
  if (!whole.empty()) {
    const Dim r = DimAccess::make(std::move(rest));
    return DimAccess::make(std::move(whole)) + floor_div(r, b);
  }
  if (const auto merged = merge_divisions(a, c)) return *merged;
  const DimBounds bounds = bounds_of(a);
  if (bounds.low && bounds.high && c > 0 && floor_div(*bounds.low, c) == floor_div(*bounds.high, c))
    return floor_div(*bounds.low, c);
  return function_atom(Atom::Kind::kFloorDiv, "floordiv", a, b);
}

// Graded lexicographic: products keep this order, so that the leading terms of two sums make that
// of their product.
bool leads(const Monomial& x, const Monomial& y) {
  if (x.atoms.size() != y.atoms.size()) return x.atoms.size() > y.atoms.size();
  return std::lexicographical_compare(
      x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(),
      [](const AtomRef& a, const AtomRef& b) { return a->key < b->key; });
}

Sum::const_iterator leading_term(const Sum& sum) {
  auto best = sum.begin();
  for (auto it = sum.begin(); it != sum.end(); ++it)
    if (leads(it->first, best->first)) best = it;
  return best;
}

std::optional<Monomial> without(const Monomial& whole, const Monomial& part) {
  std::vector<AtomRef> atoms = whole.atoms;
  for (const AtomRef& atom : part.atoms) {
    const auto it = std::find_if(atoms.begin(), atoms.end(),
                                 [&](const AtomRef& x) { return x->key == atom->key; });
    if (it == atoms.end()) return std::nullopt;
    atoms.erase(it);
  }
  return monomial_of(std::move(atoms));
}

// Subtracts factor * monomial * other; false where numbers overflow.
bool subtract_product(Sum& sum, const Monomial& monomial, int64_t factor, const Sum& other) {
  for (const auto& [m, f] : other) {
    std::vector<AtomRef> atoms = monomial.atoms;
    atoms.insert(atoms.end(), m.atoms.begin(), m.atoms.end());
    int64_t by = 0;
    if (__builtin_mul_overflow(factor, f, &by)) return false;
    const auto it = sum.try_emplace(monomial_of(std::move(atoms)), 0).first;
    if (__builtin_sub_overflow(it->second, by, &it->second)) return false;
    if (it->second == 0) sum.erase(it);
  }
  return true;
}

// By long division: (n*64*h) / (n*h) = 64, (a*c + b*c) / (a + b) = c. Nothing where a rest is left.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  Sum out, rest = sum_of(a);
  const Sum& divisor = *DimAccess::sum(b);
  const size_t most = rest.size();  // terms of a quotient that is worth it
  if (most * divisor.size() > kMaxTerms) return std::nullopt;
  const auto& [leading, divided_by] = *leading_term(divisor);
  while (!rest.empty()) {
    const auto& [first, count] = *leading_term(rest);
    const auto monomial = without(first, leading);
    if (!monomial || out.size() == most || remainder(count, divided_by) != 0) return std::nullopt;
    const int64_t factor = quotient(count, divided_by);
    add_term(out, *monomial, factor);
    if (!subtract_product(rest, *monomial, factor, divisor)) return std::nullopt;
  }
  return DimAccess::make(std::move(out));
}

Dim divided_by_dim(const Dim& a, const Dim& b) {
  if (const auto exact = exact_quotient(a, b)) return *exact;
  return function_atom(Atom::Kind::kFloorDiv, "floordiv", a, b);
}

}  // namespace

Dim floor_div(const Dim& a, const Dim& b) {
  if (b == Dim(0)) fail(Status::kInvalidModel, "division of a size by zero");
  if (a.is_constant() && b.is_constant()) return quotient(a.value(), b.value());
  if (b == Dim(1)) return a;
  if (b == Dim(-1)) return Dim(-1) * a;
  if (a == b) return 1;  // sizes that divide are non-zero whenever the division is meaningful
  const bool sizes = bounds_of(a).low.value_or(-1) >= 0 && bounds_of(b).low.value_or(-1) >= 0;
  const Dim out = b.is_constant() ? divided_by_number(a, b) : divided_by_dim(a, b);
  return sizes ? as_size(out) : out;
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return Dim(-1) * floor_div(Dim(-1) * a, b);
}

Dim modulo(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return 0;  // as the operator Mod has it
  if (a.is_constant() && b.is_constant()) return remainder(a.value(), b.value());
  if (b == Dim(1) || b == Dim(-1)) return 0;
  if (b.is_constant() && a.divisor() % b.value() == 0) return 0;
  return function_atom(Atom::Kind::kMod, "mod", a, b);
}

Dim min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::min(a.value(), b.value());
  const DimBounds d = bounds_of(a - b);
  if (d.high && *d.high <= 0) return a;
  if (d.low && *d.low >= 0) return b;
  return a.text() < b.text() ? function_atom(Atom::Kind::kMin, "min", a, b)
                             : function_atom(Atom::Kind::kMin, "min", b, a);
}

Dim max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::max(a.value(), b.value());
  const DimBounds d = bounds_of(a - b);
  if (d.high && *d.high <= 0) return b;
  if (d.low && *d.low >= 0) return a;
  return a.text() < b.text() ? function_atom(Atom::Kind::kMax, "max", a, b)
                             : function_atom(Atom::Kind::kMax, "max", b, a);
}

namespace {

// The operands of nested broadcasts; anything else is its own operand.
void broadcast_operands(const Dim& d, std::map<std::string, Dim>& out) {
  if (const Sum* sum = DimAccess::sum(d); sum && sum->size() == 1 && sum->begin()->second == 1) {
    const auto& atoms = sum->begin()->first.atoms;
    if (atoms.size() == 1 && atoms[0]->kind == Atom::Kind::kBroadcast) {
      broadcast_operands(atoms[0]->a, out);
      broadcast_operands(atoms[0]->b, out);
      return;
    }
  }
  out.emplace(d.text(), d);
}

}  // namespace

Dim broadcast(const Dim& a, const Dim& b) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  if (a.is_constant() && b.is_constant()) return broadcast_value(a.value(), b.value());
  // A constant other than 1 is the result whatever the symbol is; who runs checks the symbol.
  if (a.is_constant()) return a;
  if (b.is_constant()) return b;
  if (is_cut_of(a, b)) return b;
  if (is_cut_of(b, a)) return a;
  std::map<std::string, Dim> operands;
  broadcast_operands(a, operands);
  broadcast_operands(b, operands);
  auto it = operands.begin();
  Dim out = it->second;
  for (++it; it != operands.end(); ++it)
    out = function_atom(Atom::Kind::kBroadcast, "broadcast", out, it->second);
  return out;
}

}  // namespace xc

#include "tensor/dim.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"

namespace xc {

// An atom is a symbol or an opaque function of two dims. A monomial is a sorted list of atoms with
// repetition; a normal form is an ordered map from monomials to non-zero coefficients, the empty
// monomial holding the constant. Ordering is by text, which makes printing and equality cheap to
// reason about; expressions are small.
struct Atom {
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax, kBroadcast };
  Kind kind = Kind::kSymbol;
  bool can_be_negative = false;
  std::string name;  // of a symbol
  Dim a, b;          // of a function
  std::string key;   // canonical text
};
using AtomRef = std::shared_ptr<const Atom>;

struct Monomial {
  std::vector<AtomRef> atoms;
  std::string key;
};
struct MonomialLess {
  bool operator()(const Monomial& x, const Monomial& y) const { return x.key < y.key; }
};
using Sum = std::map<Monomial, int64_t, MonomialLess>;

struct Dim::Node {
  Sum sum;
  std::string key;
};

struct DimAccess {
  static const Sum* sum(const Dim& d) { return d.node_ ? &d.node_->sum : nullptr; }
  static Dim make(Sum sum) {
    Dim out;
    if (sum.empty()) return out;
    if (sum.size() == 1 && sum.begin()->first.atoms.empty()) {
      out.constant_ = sum.begin()->second;
      return out;
    }
    auto node = std::make_shared<Dim::Node>();
    for (const auto& [monomial, factor] : sum) {
      if (!node->key.empty() && factor >= 0) node->key += '+';
      if (monomial.atoms.empty()) {
        node->key += std::to_string(factor);
      } else {
        if (factor == -1)
          node->key += '-';
        else if (factor != 1)
          node->key += std::to_string(factor) + "*";
        node->key += monomial.key;
      }
    }
    node->sum = std::move(sum);
    out.node_ = std::move(node);
    return out;
  }
  static const std::string& key(const Dim& d) { return d.node_->key; }
};

namespace {

// Of the floor division. The least integer by -1, which the processor traps, has no quotient
// (kLimit) and no remainder.
int64_t quotient(int64_t a, int64_t b) {
  return b == -1 ? checked_mul(a, -1) : floor_div(a, b);
}
int64_t remainder(int64_t a, int64_t b) {
  return b == -1 ? 0 : a - floor_div(a, b) * b;
}

/// Of one expression: products of sums grow exponentially.
constexpr size_t kMaxTerms = 1024;

Monomial monomial_of(std::vector<AtomRef> atoms) {
  std::sort(atoms.begin(), atoms.end(),
            [](const AtomRef& x, const AtomRef& y) { return x->key < y->key; });
  Monomial out;
  for (const AtomRef& atom : atoms) {
    if (!out.key.empty()) out.key += '*';
    out.key += atom->key;
  }
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
  atom->key = std::string(name) + "(" + a.text() + "," + b.text() + ")";
  return from_atom(std::move(atom));
}

struct Bounds {
  std::optional<int64_t> low, high;
};

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

Bounds bounds_of(const Dim& d);

Bounds bounds_of(const Atom& atom) {
  if (atom.kind == Atom::Kind::kSymbol) {
    if (atom.can_be_negative) return {};
    return {0, std::nullopt};
  }
  const Bounds a = bounds_of(atom.a), b = bounds_of(atom.b);
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv: {
      Bounds out;
      if (b.low && *b.low >= 1) {
        if (a.low) out.low = *a.low >= 0 ? 0 : *a.low;
        if (a.low && *a.low >= 0 && b.high) out.low = *a.low / *b.high;
        if (a.high) out.high = *a.high >= 0 ? *a.high / *b.low : -1;
      }
      return out;
    }
    case Atom::Kind::kMod:
      if (b.low && *b.low >= 1)
        return {0, b.high ? std::optional<int64_t>(*b.high - 1) : std::nullopt};
      return {};
    case Atom::Kind::kMin: {
      Bounds out;
      if (a.low && b.low) out.low = std::min(*a.low, *b.low);
      if (a.high && b.high)
        out.high = std::min(*a.high, *b.high);
      else
        out.high = a.high ? a.high : b.high;
      return out;
    }
    case Atom::Kind::kMax: {
      Bounds out;
      if (a.low && b.low)
        out.low = std::max(*a.low, *b.low);
      else
        out.low = a.low ? a.low : b.low;
      if (a.high && b.high) out.high = std::max(*a.high, *b.high);
      return out;
    }
    case Atom::Kind::kBroadcast: {
      Bounds out;
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

int64_t broadcast_value(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  fail(Status::kRange, "dims {} and {} do not broadcast", a, b);
}

Bounds bounds_of(const Dim& d) {
  const Sum* sum = DimAccess::sum(d);
  if (!sum) return {d.value(), d.value()};
  Bounds total{0, 0};
  for (const auto& [monomial, factor] : *sum) {
    Bounds term{1, 1};
    for (const AtomRef& atom : monomial.atoms) {
      const Bounds f = bounds_of(*atom);
      // Products are bounded only for factors known to be non-negative.
      if (term.low && *term.low >= 0 && f.low && *f.low >= 0)
        term = {try_mul(term.low, f.low), try_mul(term.high, f.high)};
      else
        term = monomial.atoms.size() == 1 ? f : Bounds{};
    }
    if (factor >= 0)
      term = {try_mul(term.low, factor), try_mul(term.high, factor)};
    else
      term = {try_mul(term.high, factor), try_mul(term.low, factor)};
    total = {try_add(total.low, term.low), try_add(total.high, term.high)};
  }
  return total;
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

std::optional<int64_t> Dim::lower_bound() const {
  return bounds_of(*this).low;
}
std::optional<int64_t> Dim::upper_bound() const {
  return bounds_of(*this).high;
}

int64_t Dim::divisor() const {
  if (!node_) return constant_ < 0 ? -constant_ : constant_;
  int64_t common = 0;
  for (const auto& [monomial, factor] : node_->sum) common = std::gcd(common, factor);
  return common;
}

std::string Dim::text() const {
  return node_ ? node_->key : std::to_string(constant_);
}

std::optional<int64_t> Dim::evaluate(const Lookup& lookup) const {
  if (!node_) return constant_;
  int64_t total = 0;
  for (const auto& [monomial, factor] : node_->sum) {
    int64_t product = factor;
    for (const AtomRef& atom : monomial.atoms) {
      std::optional<int64_t> v;
      if (atom->kind == Atom::Kind::kSymbol) {
        v = lookup(atom->name);
      } else {
        const auto a = atom->a.evaluate(lookup), b = atom->b.evaluate(lookup);
        if (!a || !b) return std::nullopt;
        switch (atom->kind) {
          case Atom::Kind::kFloorDiv:
          case Atom::Kind::kMod:
            if (*b == 0) fail(Status::kInvalidModel, "division by zero in size {}", text());
            v = atom->kind == Atom::Kind::kMod ? remainder(*a, *b) : quotient(*a, *b);
            break;
          case Atom::Kind::kMin:
            v = std::min(*a, *b);
            break;
          case Atom::Kind::kBroadcast:
            v = broadcast_value(*a, *b);
            break;
          default:
            v = std::max(*a, *b);
            break;
        }
      }
      if (!v) return std::nullopt;
      product = checked_mul(product, *v);
    }
    total = checked_add(total, product);
  }
  return total;
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
  return total;
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

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.value(), b.value());
  Sum sum = sum_of(a);
  for (const auto& [monomial, factor] : sum_of(b)) add_term(sum, monomial, factor);
  return DimAccess::make(std::move(sum));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.value(), b.value());
  Sum out;
  const Sum x = sum_of(a), y = sum_of(b);
  if (x.size() * y.size() > kMaxTerms)
    fail(Status::kLimit, "dim expression of more than {} terms", kMaxTerms);
  for (const auto& [mx, fx] : x)
    for (const auto& [my, fy] : y) {
      std::vector<AtomRef> atoms = mx.atoms;
      atoms.insert(atoms.end(), my.atoms.begin(), my.atoms.end());
      add_term(out, monomial_of(std::move(atoms)), checked_mul(fx, fy));
    }
  return DimAccess::make(std::move(out));
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

}  // namespace

Dim floor_div(const Dim& a, const Dim& b) {
  if (b == Dim(0)) fail(Status::kInvalidModel, "division of a size by zero");
  if (a.is_constant() && b.is_constant()) return quotient(a.value(), b.value());
  if (b == Dim(1)) return a;
  if (b == Dim(-1)) return Dim(-1) * a;
  if (a == b) return 1;  // sizes that divide are non-zero whenever the division is meaningful
  if (b.is_constant()) {
    // Split off the multiples of the divisor: (c*x + r) / c = x + r / c.
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
    const Bounds bounds = bounds_of(a);
    if (bounds.low && bounds.high && c > 0 &&
        floor_div(*bounds.low, c) == floor_div(*bounds.high, c))
      return floor_div(*bounds.low, c);
  } else if (DimAccess::sum(b)->size() == 1) {
    // Cancel a common monomial: (n*64*h) / (n*h) = 64, exact when every term of a holds it.
    const auto& [mb, fb] = *DimAccess::sum(b)->begin();
    Sum out;
    bool exact = true;
    for (const auto& [monomial, factor] : sum_of(a)) {
      std::vector<AtomRef> atoms = monomial.atoms;
      for (const AtomRef& atom : mb.atoms) {
        const auto it = std::find_if(atoms.begin(), atoms.end(),
                                     [&](const AtomRef& x) { return x->key == atom->key; });
        if (it == atoms.end()) {
          exact = false;
          break;
        }
        atoms.erase(it);
      }
      if (!exact || remainder(factor, fb) != 0) {
        exact = false;
        break;
      }
      add_term(out, monomial_of(std::move(atoms)), quotient(factor, fb));
    }
    if (exact) return DimAccess::make(std::move(out));
  }
  return function_atom(Atom::Kind::kFloorDiv, "floordiv", a, b);
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return Dim(-1) * floor_div(Dim(-1) * a, b);
}

Dim modulo(const Dim& a, const Dim& b) {
  if (b == Dim(0)) fail(Status::kInvalidModel, "division of a size by zero");
  if (a.is_constant() && b.is_constant()) return remainder(a.value(), b.value());
  if (b == Dim(1) || b == Dim(-1)) return 0;
  if (b.is_constant() && a.divisor() % b.value() == 0) return 0;
  return function_atom(Atom::Kind::kMod, "mod", a, b);
}

Dim min(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::min(a.value(), b.value());
  const Bounds d = bounds_of(a - b);
  if (d.high && *d.high <= 0) return a;
  if (d.low && *d.low >= 0) return b;
  return a.text() < b.text() ? function_atom(Atom::Kind::kMin, "min", a, b)
                             : function_atom(Atom::Kind::kMin, "min", b, a);
}

Dim max(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::max(a.value(), b.value());
  const Bounds d = bounds_of(a - b);
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

Dim element_count(const SymDims& dims) {
  Dim out(1);
  for (const Dim& d : dims) out = out * d;
  return out;
}

std::string to_text(const SymDims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + dims[i].text();
  return out + "]";
}
std::string to_text(const Dims& dims) {
  return to_text(to_symbolic(dims));
}

SymDims to_symbolic(const Dims& dims) {
  return SymDims(dims.begin(), dims.end());
}

std::optional<Dims> to_concrete(const SymDims& dims) {
  Dims out;
  for (const Dim& d : dims) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

SymDims contiguous_strides(const SymDims& dims) {
  SymDims out(dims.size());
  Dim stride(1);
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride = stride * dims[i];
  }
  return out;
}

Dims contiguous_strides(const Dims& dims) {
  Dims out(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(dims[i], 1));
  }
  return out;
}

namespace {

template <class D>
std::vector<D> channels_last(const std::vector<D>& dims, const std::function<D(D, D)>& multiply) {
  XC_CHECK(dims.size() >= 2);
  std::vector<D> out(dims.size(), D(1));
  D stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    out[i] = stride;
    stride = multiply(stride, dims[i]);
  }
  out[0] = stride;
  return out;
}

}  // namespace

SymDims channels_last_strides(const SymDims& dims) {
  return channels_last<Dim>(dims, [](Dim a, Dim b) { return a * b; });
}

Dims channels_last_strides(const Dims& dims) {
  return channels_last<int64_t>(
      dims, [](int64_t a, int64_t b) { return checked_mul(a, std::max<int64_t>(b, 1)); });
}

// ---- text ---------------------------------------------------------------------------------------

namespace {

// expr := term (('+'|'-') term)*; term := ['-'] factor ('*' factor)*; factor := number | name
// | function '(' expr ',' expr ')' | '(' expr ')'. Names may hold any character but the operators,
// brackets, commas and blanks, so that ONNX dim_params survive; "u[0]" is an element symbol.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Dim parse() {
    Dim out = expr();
    skip();
    if (at_ != text_.size()) error("unexpected character");
    return out;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  [[noreturn]] void error(const char* what) const {
    fail(Status::kFormat, "{} at column {} of dim \"{}\"", what, at_ + 1, text_);
  }
  bool eat(char c) {
    skip();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  Dim expr() {
    Dim out = term();
    for (;;) {
      if (eat('+'))
        out = out + term();
      else if (eat('-'))
        out = out - term();
      else
        return out;
    }
  }
  Dim term() {
    const bool negative = eat('-');
    Dim out = factor();
    while (eat('*')) out = out * factor();
    return negative ? Dim(-1) * out : out;
  }
  Dim factor() {
    if (++depth_ > 64) error("nesting too deep");
    Dim out = factor_inner();
    --depth_;
    return out;
  }
  Dim factor_inner() {
    skip();
    if (eat('(')) {
      Dim out = expr();
      if (!eat(')')) error("expected ')'");
      return out;
    }
    const size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view("+-*(), ").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string name(text_.substr(start, at_ - start));
    if (name.empty()) error("expected a number or a name");
    if (std::isdigit(static_cast<unsigned char>(name[0]))) {
      int64_t v = 0;
      for (char c : name) {
        if (!std::isdigit(static_cast<unsigned char>(c))) error("malformed number");
        v = checked_add(checked_mul(v, 10), c - '0');
      }
      return v;
    }
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      const Dim a = expr();
      if (!eat(',')) error("expected ','");
      const Dim b = expr();
      if (!eat(')')) error("expected ')'");
      if (name == "floordiv") return floor_div(a, b);
      if (name == "ceildiv") return ceil_div(a, b);
      if (name == "mod") return modulo(a, b);
      if (name == "min") return min(a, b);
      if (name == "max") return max(a, b);
      if (name == "broadcast") return broadcast(a, b);
      error("unknown function");
    }
    return Dim::symbol(name, name.back() == ']');
  }
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string symbol_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool special =
        std::string_view("+-*/(),[]{}<>=;:\"'% \t\n\r").find(c) != std::string_view::npos;
    out += special ? '_' : c;
  }
  if (out.empty()) return "_";
  if (out[0] >= '0' && out[0] <= '9') out.insert(out.begin(), '_');
  return out;
}

Dim Dim::parse(std::string_view text) {
  return Parser(text).parse();
}

// ---- compiled evaluation ------------------------------------------------------------------------

DimProgram::DimProgram(const std::vector<Dim>& dims,
                       const std::function<uint32_t(const std::string&)>& index) {
  std::unordered_map<std::string, uint32_t> known;  // canonical text -> code index
  const auto emit = [&](std::string key, Code code) {
    const auto at = static_cast<uint32_t>(code_.size());
    code_.push_back(code);
    known.emplace(std::move(key), at);
    return at;
  };
  const std::function<uint32_t(const Dim&)> compile = [&](const Dim& d) -> uint32_t {
    const std::string key = d.text();
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const Sum* sum = DimAccess::sum(d);
    if (!sum) return emit(key, {Op::kConst, 0, 0, d.value()});
    std::optional<uint32_t> total;
    for (const auto& [monomial, factor] : *sum) {
      std::optional<uint32_t> product;
      const auto multiply = [&](uint32_t x) {
        product = product ? emit({}, {Op::kMul, *product, x, 0}) : x;
      };
      if (factor != 1 || monomial.atoms.empty()) multiply(compile(Dim(factor)));
      for (const AtomRef& atom : monomial.atoms) {
        if (const auto it = known.find(atom->key); it != known.end()) {
          multiply(it->second);
          continue;
        }
        if (atom->kind == Atom::Kind::kSymbol) {
          multiply(emit(atom->key, {Op::kSymbol, index(atom->name), 0, 0}));
          continue;
        }
        const uint32_t a = compile(atom->a), b = compile(atom->b);
        const Op op = atom->kind == Atom::Kind::kFloorDiv ? Op::kFloorDiv
                      : atom->kind == Atom::Kind::kMod    ? Op::kMod
                      : atom->kind == Atom::Kind::kMin    ? Op::kMin
                      : atom->kind == Atom::Kind::kMax    ? Op::kMax
                                                          : Op::kBroadcast;
        multiply(emit(atom->key, {op, a, b, 0}));
      }
      total = total ? emit({}, {Op::kAdd, *total, *product, 0}) : *product;
    }
    known.emplace(key, *total);
    return *total;
  };
  for (const Dim& d : dims) results_.push_back(compile(d));
}

void DimProgram::run(const int64_t* symbols, int64_t* out) const {
  constexpr size_t kInline = 256;
  int64_t inline_values[kInline];
  std::vector<int64_t> heap;
  int64_t* v = inline_values;
  if (code_.size() > kInline) {
    heap.resize(code_.size());
    v = heap.data();
  }
  for (size_t i = 0; i < code_.size(); ++i) {
    const Code& c = code_[i];
    switch (c.op) {
      case Op::kConst:
        v[i] = c.value;
        break;
      case Op::kSymbol:
        v[i] = symbols[c.a];
        break;
      case Op::kAdd:
        v[i] = checked_add(v[c.a], v[c.b]);
        break;
      case Op::kMul:
        v[i] = checked_mul(v[c.a], v[c.b]);
        break;
      case Op::kFloorDiv:
      case Op::kMod:
        if (v[c.b] == 0) fail(Status::kInvalidModel, "division by zero in a size expression");
        v[i] = c.op == Op::kMod ? remainder(v[c.a], v[c.b]) : quotient(v[c.a], v[c.b]);
        break;
      case Op::kMin:
        v[i] = std::min(v[c.a], v[c.b]);
        break;
      case Op::kMax:
        v[i] = std::max(v[c.a], v[c.b]);
        break;
      case Op::kBroadcast:
        v[i] = broadcast_value(v[c.a], v[c.b]);
        break;
    }
  }
  for (size_t i = 0; i < results_.size(); ++i) out[i] = v[results_[i]];
}

}  // namespace xc

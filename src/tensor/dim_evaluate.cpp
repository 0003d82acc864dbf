// From dims to numbers: the value of one dim under an assignment of its symbols, and DimProgram,
// which finds those of all dims of a plan at once. What division and broadcasting make of numbers
// is said here for both, and for the arithmetic of constants.

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/dim_node.h"

namespace xc {

int64_t quotient(int64_t a, int64_t b) {
  return b == -1 ? checked_mul(a, -1) : floor_div(a, b);
}
int64_t remainder(int64_t a, int64_t b) {
  if (b == -1 || b == 0) return 0;
  const int64_t left = a % b;
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

int64_t broadcast_value(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  fail(Status::kInvalidModel, "dims {} and {} do not broadcast", a, b);
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
            if (*b == 0) fail(Status::kInvalidModel, "division by zero in size {}", text());
            v = quotient(*a, *b);
            break;
          case Atom::Kind::kMod:
            v = remainder(*a, *b);
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
        if (v[c.b] == 0) fail(Status::kInvalidModel, "division by zero in a size expression");
        v[i] = quotient(v[c.a], v[c.b]);
        break;
      case Op::kMod:
        v[i] = remainder(v[c.a], v[c.b]);
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

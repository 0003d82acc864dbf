#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "loop/expr.h"

namespace xc::loop {

void Affine::add(const Term& term) {
  const auto key = [](const Term& t) { return std::tuple(t.is_dim, t.id); };
  auto at = std::lower_bound(terms_.begin(), terms_.end(), term,
                             [&](const Term& a, const Term& b) { return key(a) < key(b); });
  if (at != terms_.end() && key(*at) == key(term)) {
    at->coefficient = checked_add(at->coefficient, term.coefficient);
    if (at->coefficient == 0) terms_.erase(at);
  } else if (term.coefficient != 0) {
    terms_.insert(at, term);
  }
}

int64_t Affine::coefficient(Var var) const {
  for (const Term& term : terms_)
    if (!term.is_dim && term.id == var.id) return term.coefficient;
  return 0;
}

Affine Affine::substitute(Var var, const Affine& by) const {
  const int64_t factor = coefficient(var);
  if (factor == 0) return *this;
  Affine out = *this;
  out.add({false, var.id, -factor});
  return out + by * factor;
}

Affine operator+(const Affine& a, const Affine& b) {
  Affine out = a;
  out.constant_ = checked_add(out.constant_, b.constant_);
  for (const Affine::Term& term : b.terms_) out.add(term);
  return out;
}

Affine operator-(const Affine& a, const Affine& b) {
  return a + b * -1;
}

Affine operator*(const Affine& a, int64_t factor) {
  Affine out;
  out.constant_ = checked_mul(a.constant_, factor);
  for (Affine::Term term : a.terms_) {
    term.coefficient = checked_mul(term.coefficient, factor);
    out.add(term);
  }
  return out;
}

}  // namespace xc::loop
